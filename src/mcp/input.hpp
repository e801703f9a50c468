#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <variant>

namespace cove::mcp {

// The messages of a stream of lines. One message a line is the rule; one that is spread over several is put together,
// as people pipe files that were written to be read. Blank lines are skipped.
class Input {
 public:
  static constexpr std::size_t kLongest = std::size_t{16} << 20;  // of one message
  static constexpr std::size_t kMaxElements = 200'000;            // of arrays and objects in it

  struct Malformed {};  // a line, or several, that is no JSON
  struct TooLong {};
  struct TooManyElements {};  // parsed, it would take many times its length
  using Item = std::variant<boost::json::value, Malformed, TooLong, TooManyElements>;

  Input();
  void feed(std::string_view bytes);
  // Nothing more came for a while, or will come: what is unfinished stays so.
  void give_up();
  // Whether the beginning of a message waits for the rest.
  [[nodiscard]] bool unfinished() const { return begun_ > 0 || !line_.empty(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  Item take();

 private:
  void add_line(std::string_view line);
  void start_anew();

  std::string line_;  // not ended yet
  boost::json::stream_parser parser_;
  std::size_t begun_ = 0;     // bytes of lines before, which are the beginning of a value
  std::size_t elements_ = 0;  // in it
  bool skipping_ = false;
  std::deque<Item> items_;
};

// The error message for more than kMaxElements.
std::string too_many_elements();

}  // namespace cove::mcp
