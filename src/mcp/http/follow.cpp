#include "mcp/http/follow.hpp"

#include <fmt/format.h>

#include "http/response.hpp"

namespace cove::mcp_http {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKeepAlive{15};
constexpr std::chrono::milliseconds kFollowInterval{250};

std::string event_text(const std::string& id, std::string_view data) {
  return id.empty() ? fmt::format("event: message\ndata: {}\n\n", data)
                    : fmt::format("event: message\nid: {}\ndata: {}\n\n", id, data);
}

http::Response head_of(const Following& following) {
  http::Response head{.status = 200,
                      .content_type = "text/event-stream",
                      .headers = {{"Cache-Control", "no-cache, no-transform"}, {"X-Accel-Buffering", "no"}}};
  head.headers.insert(head.headers.end(), following.headers.begin(), following.headers.end());
  return head;
}

}  // namespace

Task<> follow(http::Exchange& exchange, std::shared_ptr<Stream> stream, Following following) {
  const auto reader = stream->take_reading();
  if (!co_await exchange.start(head_of(following))) co_return;
  auto text = following.first;
  if (following.primes) text += fmt::format("id: {}\ndata: \n\n", stream->id_of(following.after));
  auto quiet_since = Clock::now();
  while (stream->reads(reader)) {
    for (const auto& event : stream->after(following.after)) {
      text += event_text(following.ids ? stream->id_of(event.number) : "", event.data);
      following.after = event.number;
    }
    const auto parting = text.empty() ? stream->take_parting() : std::nullopt;
    if (parting) text = fmt::format("retry: {}\n\n", parting->count());
    if (text.empty() && stream->finished()) break;
    if (text.empty() && Clock::now() > quiet_since + kKeepAlive) text = http::sse_comment();
    following.while_it_lasts();
    if (stream->broken()) co_return exchange.abort();
    if (text.empty()) {
      co_await stream->changed().wait_until(Clock::now() + kFollowInterval);
    } else {
      quiet_since = Clock::now();
      if (!co_await exchange.write(text)) break;
      stream->gave(following.after);
      text.clear();
    }
    if (parting || exchange.client_gone()) break;
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

}  // namespace cove::mcp_http
