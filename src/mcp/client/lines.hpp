#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cove::mcp::client {

// Cuts a stream of bytes into lines. A line that is longer than allowed is passed over to its end, and counted.
class Lines {
 public:
  explicit Lines(std::size_t max_line_bytes) : max_(max_line_bytes) {}

  // The lines that are complete now, without their ends ("\n" or "\r\n").
  std::vector<std::string> feed(std::string_view bytes);
  // The line that was begun, at the end of the stream.
  std::string rest() { return overlong_ ? std::string() : std::move(line_); }
  [[nodiscard]] std::size_t overlong() const { return count_; }

 private:
  std::size_t max_;
  std::string line_;
  bool overlong_ = false;
  std::size_t count_ = 0;
};

}  // namespace cove::mcp::client
