#include <utility>

#include "async/deadline.hpp"
#include "doors/mcp/endpoint.hpp"
#include "mcp/input.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Code;
using cove::mcp::Input;
using cove::mcp::Peer;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kUnfinished{200};  // so long without more, and the beginning of a message is none
constexpr std::size_t kFrame = std::size_t{512} << 10;
constexpr std::string_view kEnd = "end";

// A client that speaks lines. Binary messages carry its bytes, cut anywhere; a text message says that there are no
// more. Ours carry lines to it.
struct Conversation {
  explicit Conversation(const boost::asio::any_io_executor& executor) : spoken(executor), heard(executor) {}
  std::unique_ptr<http::WebSocket> socket;
  Input input;
  Clock::time_point last_heard;
  std::string out;
  bool over = false;     // nothing more will be said
  bool flushed = false;  // and all of it is sent
  async::Signal spoken;
  async::Signal heard;
};

class Lines : public cove::mcp::Outlet {
 public:
  explicit Lines(std::shared_ptr<Conversation> to) : to_(std::move(to)) {}
  void send(json::object message) override { say(json::serialize(message)); }
  void send_batch(json::array messages) override { say(json::serialize(messages)); }

 private:
  void say(std::string_view line) {
    to_->out += line;
    to_->out += '\n';
    to_->spoken.notify_all();
  }
  std::shared_ptr<Conversation> to_;
};

Task<> speak(std::shared_ptr<Conversation> conversation) {
  auto& c = *conversation;
  bool there = true;
  while (there && !(c.over && c.out.empty())) {
    if (c.out.empty()) {
      co_await c.spoken.wait();
      continue;
    }
    const auto text = std::exchange(c.out, {});
    for (std::size_t at = 0; there && at < text.size(); at += kFrame)
      there = (co_await c.socket->send_binary(std::string_view(text).substr(at, kFrame))).has_value();
  }
  c.flushed = true;
  c.spoken.notify_all();
}

void listen(Conversation& c, Peer& peer, const std::shared_ptr<Lines>& lines) {
  while (!c.input.empty()) {
    const auto item = c.input.take();
    if (const auto* value = std::get_if<json::value>(&item))
      peer.take(*value, lines);
    else if (std::holds_alternative<Input::TooLong>(item))
      peer.refuse({.code = Code::invalid_request, .message = "Invalid request: the message is too long"}, *lines);
    else
      peer.refuse({.code = Code::parse_error, .message = "Parse error"}, *lines);
  }
}

Task<> give_up_on_what_stays_unfinished(std::shared_ptr<Conversation> conversation, std::shared_ptr<Peer> peer,
                                        std::shared_ptr<Lines> lines) {
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

}  // namespace

Task<> Endpoint::line(http::Exchange& exchange) {
  auto accepted = co_await exchange.accept_websocket();
  if (!accepted) co_return;
  const auto conversation = std::make_shared<Conversation>(executor_);
  auto& c = *conversation;
  c.socket = std::move(*accepted);
  Peer::Options options{.tenant = exchange.request().principal.tenant,
                        .key_id = exchange.request().principal.key_id,
                        .may_be_bare = true};
  const auto peer = std::make_shared<Peer>(executor_, tasks_, service_, std::move(options));
  const auto lines = std::make_shared<Lines>(conversation);
  tasks_.spawn("speak to an MCP client", speak(conversation));
  tasks_.spawn("watch an MCP client", give_up_on_what_stays_unfinished(conversation, peer, lines));

  bool there = true;
  while (there) {
    const auto message = co_await c.socket->read();
    there = message.has_value();
    if (!there || (message->text && message->data == kEnd)) break;
    c.input.feed(message->data);
    c.last_heard = Clock::now();
    listen(c, *peer, lines);
    c.heard.notify_all();
  }
  if (there) {
    c.input.give_up();
    listen(c, *peer, lines);
    peer->hang_up();
    while (peer->in_flight() > 0) co_await peer->changed().wait();
  } else {
    peer->cancel_all();
  }
  c.over = true;
  c.heard.notify_all();
  c.spoken.notify_all();
  while (!c.flushed) co_await c.spoken.wait();
  if (there) co_await c.socket->close(1000, "");
}

}  // namespace cove::doors::mcp
