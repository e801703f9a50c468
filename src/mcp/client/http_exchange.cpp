#include "mcp/client/http_exchange.hpp"

#include <algorithm>
#include <limits>

namespace cove::mcp::client {
namespace {

using async::Task;

class Reading final : public outbound::Receiver {
 public:
  Reading(std::size_t max_bytes, OnHead on_head, OnEvent on_event)
      : max_(max_bytes), on_head_(std::move(on_head)), on_event_(std::move(on_event)), stream_(max_bytes) {}

  Task<Result<>> begin(outbound::Head head) override {
    answer.head = std::move(head);
    if (on_head_) on_head_(answer.head);
    answer.events = answer.head.status < 300 && answer.type() == "text/event-stream";
    begun = true;
    co_return Result<>();
  }

  Task<Result<>> take(std::string bytes) override {
    if (!answer.events) {
      if (answer.body.size() + bytes.size() > max_)
        co_return fail(Errc::over_limit, fmt::format("the server's answer is larger than {} bytes", max_));
      answer.body += bytes;
      co_return Result<>();
    }
    auto events = stream_.feed(bytes);
    answer.last_id = stream_.last_id();
    answer.retry = stream_.retry();
    if (!events) co_return tl::unexpected<Error>(events.error());
    for (auto& event : *events) {
      ++answer.count;
      if (on_event_(std::move(event)) == Wants::more) continue;
      enough = true;
      co_return fail(Errc::conflict, "nothing more is wanted");
    }
    co_return Result<>();
  }

  HttpAnswer answer;
  bool begun = false;
  bool enough = false;

 private:
  std::size_t max_;
  OnHead on_head_;
  OnEvent on_event_;
  EventStream stream_;
};

}  // namespace

std::string HttpAnswer::type() const {
  auto text = head.header("Content-Type");
  text = text.substr(0, text.find(';'));
  while (text.ends_with(' ')) text.remove_suffix(1);
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

Task<Result<HttpAnswer>> exchange(outbound::Client& client, outbound::Request request, std::size_t max_bytes,
                                  OnHead on_head, OnEvent on_event) {
  request.max_body_bytes = std::numeric_limits<std::uint64_t>::max();  // it is counted here
  Reading reading(max_bytes, std::move(on_head), std::move(on_event));
  const auto sent = co_await client.send(std::move(request), reading);
  if (sent || reading.enough) co_return std::move(reading.answer);
  if (!reading.begun || !reading.answer.events || sent.error().code == Errc::over_limit)
    co_return tl::unexpected<Error>(sent.error());
  reading.answer.broken = sent.error();
  co_return std::move(reading.answer);
}

}  // namespace cove::mcp::client
