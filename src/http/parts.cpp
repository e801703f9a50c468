#include "http/parts.hpp"

#include <algorithm>

namespace cove::http {

Task<> send_parts(Exchange& exchange, Response head, std::uint64_t length, std::function<Task<std::string>()> next) {
  if (!co_await exchange.start(std::move(head), length)) co_return;
  for (std::uint64_t left = length; left > 0;) {
    const auto bytes = co_await next();
    if (bytes.empty()) {
      exchange.abort();
      co_return;
    }
    const auto part =
        std::string_view(bytes).substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size())));
    if (!co_await exchange.write(part)) co_return;
    left -= part.size();
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

}  // namespace cove::http
