#include "mcp/client/sse.hpp"

#include "async/signal.hpp"
#include "async/task_group.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxPosts = 512;  // under way; calls are limited by themselves
constexpr std::chrono::hours kSessionLife{24};

}  // namespace

// Shared with the tasks, which may come to their end after the transport.
struct Sse::State {
  State(HttpSide own, Listener& to)
      : side(std::move(own)),
        listener(&to),
        changed(side.executor()),
        group(side.executor(), [](std::string_view, const std::exception_ptr&) {}) {}

  HttpSide side;
  Listener* listener;  // null once nobody listens
  std::optional<outbound::Url> endpoint;
  std::optional<Error> failed;
  std::string revision;
  async::Signal changed;
  async::TaskGroup group;

  Wants take(const StreamEvent& event) {
    if (listener == nullptr) return Wants::no_more;
    if (event.type == "endpoint" && !endpoint) {
      auto named = outbound::resolve_url(side.url(), event.data);
      if (!named || !named->same_origin(side.url())) {
        failed = Error{.code = Errc::denied,
                       .message = fmt::format("the server names an address of another origin to post to: {}",
                                              shown(event.data, 200))};
        changed.notify_all();
        return Wants::no_more;
      }
      endpoint = std::move(*named);
      changed.notify_all();
    } else if (event.type == "message") {
      auto value = parse_text(event.data, side.limits().json_depth);
      if (value)
        listener->receive(std::move(*value), event.data.size());
      else
        listener->complain(fmt::format("a message was passed over: {}", value.error().message));
    }
    return listener == nullptr ? Wants::no_more : Wants::more;
  }

  void over(Error why) {
    if (!failed) failed = why;
    changed.notify_all();
    if (listener != nullptr && endpoint) listener->lost(std::move(why));
  }

  static Task<> read(std::shared_ptr<State> self) {
    auto request = self->side.request("GET", self->side.url(), Clock::now() + kSessionLife);
    request.headers.emplace_back("Accept", "text/event-stream");
    const auto answer = co_await self->side.send(std::move(request), {},
                                                 [self](const StreamEvent& event) { return self->take(event); });
    if (!answer) co_return self->over(answer.error());
    if (!answer->events) {
      const auto refused = self->side.refusal(*answer);
      const auto code = refused.unauthorized ? Errc::denied : Errc::unavailable;
      co_return self->over(Error{
          .code = code,
          .message = fmt::format("the server gives no stream of events (HTTP {}): {}", refused.status, refused.said)});
    }
    const auto why = answer->broken ? answer->broken->message : std::string("the server closed its stream");
    self->over(Error{.code = Errc::unavailable, .message = fmt::format("the session is over: {}", why)});
  }

  static Task<> post(std::shared_ptr<State> self, Outgoing message) {
    auto request = self->side.request("POST", *self->endpoint, message.until);
    request.headers.emplace_back("Content-Type", "application/json");
    if (!self->revision.empty()) request.headers.emplace_back("MCP-Protocol-Version", self->revision);
    request.body = json::serialize(message.message);
    const auto answer =
        co_await self->side.send(std::move(request), {}, [](const StreamEvent&) { return Wants::no_more; });
    if (self->listener == nullptr) co_return;
    if (answer && answer->head.status < 300) co_return;
    if (message.id == 0) {
      self->listener->complain("a notification did not arrive");
    } else if (!answer) {
      self->listener->settle(message.id, tl::unexpected<Error>(answer.error()));
    } else {
      auto refused = self->side.refusal(*answer);
      refused.session_lost = refused.status == 404;
      self->listener->settle(message.id, std::move(refused));
    }
  }
};

Sse::Sse(HttpSide side, Listener& listener) : state_(std::make_shared<State>(std::move(side), listener)) {}

Sse::~Sse() {
  state_->listener = nullptr;
  state_->group.cancel();
}

Task<Result<>> Sse::start(Clock::time_point until) {
  const auto state = state_;
  state->group.spawn("read", State::read(state));
  while (!state->endpoint && !state->failed) {
    if (!co_await state->changed.wait_until(until))
      co_return tl::unexpected<Error>(Error{.code = Errc::unavailable,
                                            .message = "the server's stream does not say where to post to",
                                            .sys_errno = ETIMEDOUT});
  }
  if (state->failed) co_return tl::unexpected<Error>(*state->failed);
  co_return Result<>();
}

Result<> Sse::send(Outgoing message) {
  if (!state_->endpoint) return fail(Errc::unavailable, "the session has not begun");
  if (state_->group.size() >= kMaxPosts) return fail(Errc::over_limit, "the server takes no more messages");
  state_->group.spawn("post", State::post(state_, std::move(message)));
  return {};
}

Task<Result<>> Sse::deliver(Outgoing message) {
  const auto state = state_;
  if (!state->endpoint) co_return fail(Errc::unavailable, "the session has not begun");
  co_await State::post(state, std::move(message));
  co_return Result<>();
}

void Sse::settled(std::string_view revision) {
  state_->revision = revision;
}

Task<> Sse::close() {
  const auto state = state_;
  state->listener = nullptr;
  state->group.cancel();
  co_await state->group.join();
}

}  // namespace cove::mcp::client
