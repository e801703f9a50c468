#include "mcp/client/streamable.hpp"

#include <algorithm>
#include <map>

#include "async/deadline.hpp"
#include "async/task_group.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxSending = 64;  // notifications and responses under way
constexpr std::chrono::milliseconds kFirstWait{1000};
constexpr std::chrono::milliseconds kLongestWait{30'000};
constexpr int kFruitless = 2;  // attempts to take up a stream without a single event
constexpr std::chrono::hours kStreamLife{24};
constexpr std::chrono::seconds kGoodbye{2};

bool visible_ascii(std::string_view text) {
  return !text.empty() && text.size() <= 1024 &&
         std::ranges::all_of(text, [](char c) { return c >= 0x21 && c <= 0x7e; });
}

// Waits grow by half while nothing comes of them.
std::chrono::milliseconds longer(std::chrono::milliseconds wait) {
  return std::min(kLongestWait, std::max(wait, kFirstWait) * 3 / 2);
}

}  // namespace

// Shared with the tasks, which may come to their end after the transport.
struct Streamable::State : std::enable_shared_from_this<Streamable::State> {
  State(HttpSide own, Listener& to)
      : side(std::move(own)),
        listener(&to),
        group(side.executor(), [](std::string_view, const std::exception_ptr&) {}) {}

  HttpSide side;
  Listener* listener;    // null once nobody listens
  std::string revision;  // agreed on; of the older ones, later requests name it
  bool modern = true;    // streams are not taken up again, and closing one gives up its request
  std::string session;
  std::map<std::uint64_t, std::unique_ptr<async::TaskGroup>> asked;  // one for each request, to give it up alone
  async::TaskGroup group;

  [[nodiscard]] outbound::Request request(std::string method, Clock::time_point until) const {
    auto out = side.request(std::move(method), side.url(), until);
    if (!session.empty()) out.headers.emplace_back("Mcp-Session-Id", session);
    if (!revision.empty()) out.headers.emplace_back("MCP-Protocol-Version", revision);
    return out;
  }

  [[nodiscard]] outbound::Request post(Outgoing& message) const {
    auto out = request("POST", message.until);
    out.headers.emplace_back("Content-Type", "application/json");
    out.headers.emplace_back("Accept", "application/json, text/event-stream");
    for (auto& header : message.headers) out.headers.push_back(std::move(header));
    out.body = json::serialize(message.message);
    return out;
  }

  // One message of a stream, or of a body. True: it answers the request.
  bool hear(std::string_view text, std::uint64_t id) {
    if (listener == nullptr || text.find_first_not_of(" \t\r\n") == std::string_view::npos) return false;
    auto value = parse_text(text, side.limits().json_depth);
    if (!value) {
      listener->complain(fmt::format("a message was passed over: {}: {}", value.error().message, shown(text, 200)));
      return false;
    }
    const auto is_ours = [id](const json::value& one) { return id != 0 && answered_by(one) == id; };
    const bool ours = is_ours(*value) || (value->is_array() && std::ranges::any_of(value->as_array(), is_ours));
    listener->receive(std::move(*value), text.size());
    return ours;
  }

  [[nodiscard]] OnEvent hear_events(std::uint64_t id, std::shared_ptr<bool> answered) {
    return [self = shared_from_this(), id, answered](const StreamEvent& event) {
      if (self->listener == nullptr) return Wants::no_more;
      if (event.type != "message") return Wants::more;
      if (self->hear(event.data, id)) *answered = true;
      return *answered ? Wants::no_more : Wants::more;
    };
  }

  void settle(std::uint64_t id, Result<Reply> outcome) const {
    if (listener != nullptr) listener->settle(id, std::move(outcome));
  }

  static Task<> ask(std::shared_ptr<State> self, Outgoing message);
  static Task<> resume(std::shared_ptr<State> self, std::uint64_t id, HttpAnswer stream, std::shared_ptr<bool> answered,
                       Clock::time_point until);
  static Task<> listen(std::shared_ptr<State> self);
  static Task<> tell(std::shared_ptr<State> self, Outgoing message);
};

// A request, until its answer has come or cannot come any more.
Task<> Streamable::State::ask(std::shared_ptr<State> self, Outgoing message) {
  const auto id = message.id;
  const auto until = message.until;
  const bool begins = message.message["method"] == "initialize";
  const bool of_session = !self->session.empty();
  if (begins) self->modern = false;
  const auto answered = std::make_shared<bool>(false);
  const OnHead remember = [self, begins](const outbound::Head& head) {
    const auto given = head.header("Mcp-Session-Id");
    if (begins && head.status < 300 && visible_ascii(given)) self->session = given;
  };
  auto request = self->post(message);
  auto answer = co_await self->side.send(std::move(request), remember, self->hear_events(id, answered));
  if (*answered || self->listener == nullptr) co_return;
  if (!answer) co_return self->settle(id, tl::unexpected<Error>(answer.error()));
  const auto status = answer->head.status;
  if (status >= 300) {
    auto refused = self->side.refusal(*answer);
    refused.session_lost = status == 404 && of_session;
    co_return self->settle(id, std::move(refused));
  }
  if (answer->events) {
    auto stream = std::move(*answer);
    co_await resume(self, id, std::move(stream), answered, until);
    co_return;
  }
  if (status == 202 || answer->body.empty())
    co_return self->settle(
        id, fail(Errc::conflict, fmt::format("the server took a request without answering it (HTTP {})", status)));
  if (self->hear(answer->body, id)) co_return;
  auto refused = self->side.refusal(*answer);
  if (refused.fault) co_return self->settle(id, std::move(refused));
  self->settle(id, fail(Errc::conflict, fmt::format("the server's answer (HTTP {}, {}) has no response to the request",
                                                    status, shown(answer->type(), 100))));
}

// The stream has ended and the answer was not in it.
Task<> Streamable::State::resume(std::shared_ptr<State> self, std::uint64_t id, HttpAnswer stream,
                                 std::shared_ptr<bool> answered, Clock::time_point until) {
  auto last = stream.last_id;
  if (self->modern || !last) {
    const auto why = stream.broken ? stream.broken->message : std::string("the server closed it");
    co_return self->settle(id, fail(Errc::unavailable, fmt::format("the stream ended before the answer: {}", why)));
  }
  auto wait = stream.retry.value_or(kFirstWait);
  for (int fruitless = 0; fruitless < kFruitless;) {
    co_await async::sleep_for(wait);
    if (self->listener == nullptr) co_return;
    auto request = self->request("GET", until);
    request.headers.emplace_back("Accept", "text/event-stream");
    request.headers.emplace_back("Last-Event-ID", *last);
    auto answer = co_await self->side.send(std::move(request), {}, self->hear_events(id, answered));
    if (self->listener == nullptr) co_return;
    if (answer && answer->events) self->listener->resumed();
    if (*answered) co_return;
    if (answer && answer->head.status >= 400 && answer->head.status < 500) {
      auto refused = self->side.refusal(*answer);
      if (answer->head.status == 404) refused.session_lost = true;
      co_return self->settle(id, std::move(refused));
    }
    const bool progress = answer && answer->count > 0;
    if (progress && answer->last_id) last = answer->last_id;
    fruitless = progress ? 0 : fruitless + 1;
    const auto said = answer ? answer->retry : std::nullopt;
    wait = said ? *said : (progress ? kFirstWait : longer(wait));
  }
  self->settle(id, fail(Errc::unavailable, "the stream broke before the answer, and could not be taken up again"));
}

// What the server says without having been asked.
Task<> Streamable::State::listen(std::shared_ptr<State> self) {
  const auto never = std::make_shared<bool>(false);
  std::optional<std::string> last;
  auto wait = kFirstWait;
  while (self->listener != nullptr) {
    auto request = self->request("GET", Clock::now() + kStreamLife);
    request.headers.emplace_back("Accept", "text/event-stream");
    if (last) request.headers.emplace_back("Last-Event-ID", *last);
    auto answer = co_await self->side.send(std::move(request), {}, self->hear_events(0, never));
    if (self->listener == nullptr) co_return;
    // Most servers have nothing to say: 405. One that forgot the session says so to the next request too.
    if (answer && !answer->events) co_return;
    const bool progress = answer && answer->count > 0;
    if (progress && answer->last_id) last = answer->last_id;
    const auto said = answer ? answer->retry : std::nullopt;
    wait = progress ? said.value_or(kFirstWait) : longer(said.value_or(wait));
    co_await async::sleep_for(wait);
  }
}

Task<> Streamable::State::tell(std::shared_ptr<State> self, Outgoing message) {
  auto request = self->post(message);
  const auto answer =
      co_await self->side.send(std::move(request), {}, [](const StreamEvent&) { return Wants::no_more; });
  if (self->listener == nullptr) co_return;
  if (!answer)
    self->listener->complain(fmt::format("a notification did not arrive: {}", answer.error().message));
  else if (answer->head.status >= 300)
    self->listener->complain(fmt::format("a notification was refused (HTTP {})", answer->head.status));
}

Streamable::Streamable(HttpSide side, Listener& listener)
    : state_(std::make_shared<State>(std::move(side), listener)) {}

Streamable::~Streamable() {
  state_->listener = nullptr;
  state_->asked.clear();
  state_->group.cancel();
}

Result<> Streamable::send(Outgoing message) {
  auto& state = *state_;
  // Those that have come to their end. They may not be destroyed by themselves.
  std::erase_if(state.asked, [](const auto& one) { return one.second->size() == 0; });
  if (message.id == 0) {
    if (state.group.size() >= kMaxSending) return fail(Errc::over_limit, "the server takes no more notifications");
    state.group.spawn("tell", State::tell(state_, std::move(message)));
    return {};
  }
  const auto id = message.id;
  const auto failed = [weak = state_->weak_from_this(), id](std::string_view, const std::exception_ptr&) {
    if (const auto self = weak.lock()) self->settle(id, fail(Errc::unavailable, "the request was broken off"));
  };
  auto& group = state.asked[id];
  group = std::make_unique<async::TaskGroup>(state.side.executor(), failed);
  group->spawn("ask", State::ask(state_, std::move(message)));
  return {};
}

bool Streamable::abandon(std::uint64_t id) {
  state_->asked.erase(id);
  return state_->modern;
}

void Streamable::settled(std::string_view revision) {
  state_->modern = revision == name_of(kModern);
  if (state_->modern) return;
  state_->revision = revision;
  state_->group.spawn("listen", State::listen(state_));
}

Task<Result<>> Streamable::deliver(Outgoing message) {
  const auto state = state_;
  auto request = state->post(message);
  const auto answer =
      co_await state->side.send(std::move(request), {}, [](const StreamEvent&) { return Wants::no_more; });
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  if (answer->head.status < 300) co_return Result<>();
  co_return fail(Errc::unavailable, fmt::format("the server refused a notification (HTTP {})", answer->head.status));
}

Task<> Streamable::close() {
  const auto state = state_;
  state->listener = nullptr;
  state->asked.clear();
  state->group.cancel();
  co_await state->group.join();
  if (state->session.empty()) co_return;
  auto request = state->request("DELETE", Clock::now() + kGoodbye);
  // Whether it takes it or not, it is over.
  const auto ended =
      co_await state->side.send(std::move(request), {}, [](const StreamEvent&) { return Wants::no_more; });
  (void)ended;
}

}  // namespace cove::mcp::client
