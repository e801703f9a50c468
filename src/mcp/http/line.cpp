#include <utility>

#include "async/deadline.hpp"
#include "mcp/http/endpoint.hpp"
#include "mcp/input.hpp"

namespace cove::mcp_http {
namespace {

namespace json = boost::json;
using cove::mcp::Code;
using cove::mcp::Input;
using cove::mcp::Peer;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kUnfinished{200};  // without further input, an incomplete message is an error
constexpr std::size_t kFrame = std::size_t{512} << 10;
constexpr std::size_t kMaxUnsent = std::size_t{64} << 20;  // of a client that does not read
constexpr std::chrono::seconds kGoodbye{1};                // for cancelled calls to end
constexpr std::string_view kEnd = "end";                   // end of input: answer the pending requests
constexpr std::string_view kStop = "stop";                 // the client is gone

// A client on the line transport. Its binary messages carry bytes, split anywhere; a text message says how its input
// ended. Messages to it carry whole lines.
struct Conversation {
  explicit Conversation(const boost::asio::any_io_executor& executor) : spoken(executor), heard(executor) {}
  std::unique_ptr<http::WebSocket> socket;
  Input input;
  Clock::time_point last_heard;
  std::string out;
  bool ended = false;    // nothing more will come
  bool stopped = false;  // nobody wants answers
  bool over = false;     // nothing more will be said
  bool lost = false;     // it does not read, and something was not kept for it
  bool flushed = false;  // and all of it is sent
  async::Signal spoken;
  async::Signal heard;
};

class LineOutlet : public cove::mcp::Outlet {
 public:
  explicit LineOutlet(std::shared_ptr<Conversation> to) : to_(std::move(to)) {}
  void send(json::object message) override { say(json::serialize(message)); }
  void send_batch(json::array messages) override { say(json::serialize(messages)); }

 private:
  void say(std::string_view line) {
    if (to_->out.size() + line.size() > kMaxUnsent) to_->lost = true;
    if (to_->lost) return to_->spoken.notify_all();
    to_->out += line;
    to_->out += '\n';
    to_->spoken.notify_all();
  }
  std::shared_ptr<Conversation> to_;
};

Task<> speak(std::shared_ptr<Conversation> conversation) {
  auto& c = *conversation;
  bool there = true;
  while (there && !c.lost && !(c.over && (c.stopped || c.out.empty()))) {
    if (c.out.empty()) {
      co_await c.spoken.wait();
      continue;
    }
    const auto text = std::exchange(c.out, {});
    for (std::size_t at = 0; there && at < text.size(); at += kFrame)
      there = (co_await c.socket->send_binary(std::string_view(text).substr(at, kFrame))).has_value();
  }
  if (there && !c.lost) co_await c.socket->close(1000, "");  // without a goodbye it is not mistaken for the end
  c.flushed = true;
  c.spoken.notify_all();
}

void listen(Conversation& c, Peer& peer, const std::shared_ptr<LineOutlet>& lines) {
  while (!c.input.empty()) {
    const auto item = c.input.take();
    if (const auto* value = std::get_if<json::value>(&item))
      peer.take(*value, lines);
    else if (std::holds_alternative<Input::TooLong>(item))
      peer.refuse({.code = Code::invalid_request, .message = "Invalid request: the message is too long"}, *lines);
    else if (std::holds_alternative<Input::TooManyElements>(item))
      peer.refuse({.code = Code::invalid_request, .message = cove::mcp::too_many_elements()}, *lines);
    else
      peer.refuse({.code = Code::parse_error, .message = "Parse error"}, *lines);
  }
}

Task<> give_up_on_what_stays_unfinished(std::shared_ptr<Conversation> conversation, std::shared_ptr<Peer> peer,
                                        std::shared_ptr<LineOutlet> lines) {
  auto& c = *conversation;
  while (!c.over) {
    if (!c.input.unfinished()) {
      co_await c.heard.wait();
    } else if (Clock::now() < c.last_heard + kUnfinished) {
      co_await async::sleep_until(c.last_heard + kUnfinished);
    } else {
      c.input.give_up();
      listen(c, *peer, lines);
    }
  }
}

// Waits until every request before the end of input is answered, or the client is gone.
Task<> say_goodbye(std::shared_ptr<Conversation> conversation, std::shared_ptr<Peer> peer) {
  auto& c = *conversation;
  while (!c.stopped && !(c.ended && peer->in_flight() == 0)) co_await peer->changed().wait();
  if (c.stopped) {
    peer->cancel_all();
    const auto until = Clock::now() + kGoodbye;
    while (peer->in_flight() > 0 && Clock::now() < until) co_await peer->changed().wait_until(until);
  }
  c.over = true;
  c.heard.notify_all();
  c.spoken.notify_all();
}

}  // namespace

Task<> Endpoint::line(http::Exchange& exchange) {
  auto accepted = co_await exchange.accept_websocket();
  if (!accepted) co_return;
  const auto conversation = std::make_shared<Conversation>(executor_);
  auto& c = *conversation;
  c.socket = std::move(*accepted);
  const auto peer = new_peer(exchange.request(), {.may_be_bare = true});
  const auto lines = std::make_shared<LineOutlet>(conversation);
  peer->speak_on(lines);
  services_.core.tasks.spawn("speak to an MCP client", speak(conversation));
  services_.core.tasks.spawn("watch an MCP client", give_up_on_what_stays_unfinished(conversation, peer, lines));

  services_.core.tasks.spawn("end with an MCP client", say_goodbye(conversation, peer));

  while (!c.stopped) {
    const auto message = co_await c.socket->read();
    if (!message || c.lost || (message->text && message->data == kStop)) break;
    if (message->text && message->data == kEnd) {
      c.input.give_up();
      c.ended = true;
      peer->disconnect();
    } else {
      c.input.feed(message->data);
      c.last_heard = Clock::now();
    }
    listen(c, *peer, lines);
    c.heard.notify_all();
    peer->changed().notify_all();
  }
  c.stopped = true;
  peer->changed().notify_all();
  while (!c.flushed) co_await c.spoken.wait();
}

}  // namespace cove::mcp_http
