#include "mcp/input.hpp"

#include <fmt/format.h>

#include <utility>

#include "json/shape.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepth = 256;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

json::parse_options options() {
  json::parse_options options;
  options.max_depth = kDepth;
  return options;
}

bool blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

Input::Input() : parser_({}, options()) {}

void Input::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    if (!skipping_) line_ += bytes.substr(0, newline);
    if (!skipping_ && line_.size() + begun_ > kLongest) {
      items_.emplace_back(TooLong{});
      line_ = {};
      start_anew();
      skipping_ = true;
    }
    if (newline == std::string_view::npos) return;
    bytes.remove_prefix(newline + 1);
    if (!std::exchange(skipping_, false)) add_line(std::exchange(line_, {}));
  }
}

void Input::start_anew() {
  parser_.reset();
  begun_ = 0;
  elements_ = 0;
}

void Input::add_line(std::string_view line) {
  // Some programs write a byte order mark before their first line.
  if (begun_ == 0 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (blank(line)) return;
  elements_ += cove::json::shape_of(line).elements;  // no string goes over the end of a line
  if (elements_ > kMaxElements) {
    items_.emplace_back(TooManyElements{});
    return start_anew();
  }
  boost::system::error_code error;
  parser_.write(line, error);
  if (!error) parser_.write("\n", 1, error);
  if (!error && !parser_.done()) {
    begun_ += line.size() + 1;
    return;
  }
  const bool continued = begun_ > 0;
  if (error) {
    items_.emplace_back(Malformed{});
    start_anew();
    // It may be a message of its own behind the ruins of another.
    if (continued && line.find_first_of("[{") == line.find_first_not_of(" \t")) add_line(line);
    return;
  }
  items_.emplace_back(parser_.release());
  start_anew();
}

void Input::give_up() {
  if (!line_.empty()) add_line(std::exchange(line_, {}));
  if (begun_ == 0) return;
  start_anew();
  items_.emplace_back(Malformed{});
}

Input::Item Input::take() {
  auto item = std::move(items_.front());
  items_.pop_front();
  return item;
}

std::string too_many_elements() {
  return fmt::format("Invalid request: the message has more than {} elements", Input::kMaxElements);
}

}  // namespace cove::mcp
