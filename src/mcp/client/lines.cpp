#include "mcp/client/lines.hpp"

#include <utility>

namespace cove::mcp::client {

std::vector<std::string> Lines::feed(std::string_view bytes) {
  std::vector<std::string> out;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    if (!overlong_ && line_.size() + part.size() > max_) {
      overlong_ = true;
      ++count_;
      line_ = {};
    }
    if (!overlong_) line_ += part;
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    if (!std::exchange(overlong_, false)) {
      if (line_.ends_with('\r')) line_.pop_back();
      out.push_back(std::exchange(line_, {}));
    }
  }
  return out;
}

}  // namespace cove::mcp::client
