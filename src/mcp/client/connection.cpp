#include "mcp/client/connection.hpp"

#include <algorithm>

#include "json/fields.hpp"
#include "mcp/client/request_headers.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{200};  // how often it is seen whether anybody still waits
constexpr std::chrono::seconds kSending{30};     // of what has no answer
constexpr std::size_t kMaxBatch = 100;
constexpr std::size_t kMaxAnswering = 16;  // requests of the server at once
constexpr std::size_t kComplaintsPerSecond = 5;

constexpr std::string_view kPrefix = "io.modelcontextprotocol/";

}  // namespace

struct Connection::Waiting {
  explicit Waiting(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
  std::optional<Result<Reply>> outcome;
  async::Signal changed;
  Clock::time_point last_sign = Clock::now();
  std::function<void(const Progress&)> on_progress;
  std::optional<double> progress;
};

// Whoever goes before the answer has come, by an error or because the task was cancelled, tells the server.
struct Connection::Leave {
  std::shared_ptr<Connection> self;
  std::uint64_t id;
  bool cancellable;
  ~Leave() { self->forget(id, cancellable); }
};

Connection::Connection(std::shared_ptr<const Environment> environment, std::shared_ptr<Counters> counters)
    : environment_(std::move(environment)),
      counters_(std::move(counters)),
      group_(environment_->executor, [environment = environment_](std::string_view name, const std::exception_ptr&) {
        if (environment->log) environment->log(fmt::format("its {} could not be answered", name));
      }) {}

Connection::~Connection() = default;

void Connection::settled() {
  settled_ = true;
  if (transport_ && !over_) transport_->settled(name_of(revision_));
}

json::object Connection::capabilities() const {
  json::object out;
  const auto& handlers = environment_->handlers;
  if (!handlers.roots.empty()) out["roots"] = json::object();
  if (handlers.sampling) out["sampling"] = json::object();
  if (handlers.elicitation) out["elicitation"] = json::object();
  if (modern(revision_)) out["extensions"] = {{"io.modelcontextprotocol/tasks", json::object()}};
  return out;
}

void Connection::envelop(json::object& params) const {
  json::object meta;
  if (const auto* given = params.if_contains("_meta"); given != nullptr && given->is_object())
    meta = given->as_object();
  const auto key = [](std::string_view name) { return std::string(kPrefix) + std::string(name); };
  meta[key("protocolVersion")] = name_of(revision_);
  meta[key("clientInfo")] = {{"name", environment_->name}, {"version", environment_->version}};
  meta[key("clientCapabilities")] = capabilities();
  params["_meta"] = std::move(meta);
}

Task<Result<Reply>> Connection::ask(std::string method, json::object params, AskOptions options) {
  const auto self = shared_from_this();
  if (over_) co_return tl::unexpected<Error>(*over_);
  if (waiting_.size() >= environment_->limits.outstanding_calls)
    co_return fail(Errc::over_limit,
                   fmt::format("{} calls wait for this server already; try again when one has ended", waiting_.size()));
  const auto id = ++last_id_;
  if (!options.meta.empty()) params["_meta"] = std::move(options.meta);
  if (options.on_progress) {
    if (!params.contains("_meta")) params["_meta"] = json::object();
    params["_meta"].as_object()["progressToken"] = id;
  }
  if (modern(revision_)) envelop(params);
  const auto waiting = std::make_shared<Waiting>(environment_->executor);
  waiting->on_progress = std::move(options.on_progress);
  const auto hard = Clock::now() + options.most;
  Outgoing out{.message = {}, .id = id, .headers = std::move(options.headers), .until = hard};
  if (modern(revision_)) add_standard_headers(out.headers, method, params);
  out.message = request_message(id, method, std::move(params));
  waiting_.emplace(id, waiting);
  const Leave leave{self, id, options.cancellable};
  if (auto sent = transport_->send(std::move(out)); !sent) {
    waiting_.erase(id);
    co_return tl::unexpected<Error>(sent.error());
  }
  while (!waiting->outcome) {
    auto until = std::min(waiting->last_sign + options.timeout, hard);
    if (Clock::now() >= until) {
      const auto spent = until == hard ? options.most : options.timeout;
      co_return tl::unexpected<Error>(
          Error{.code = Errc::unavailable,
                .message = fmt::format("no answer to {} within {} ms", shown(method, 100), spent.count()),
                .sys_errno = ETIMEDOUT});
    }
    if (options.abandoned) {
      if (options.abandoned())
        co_return tl::unexpected<Error>(Error{
            .code = Errc::unavailable, .message = "nobody waits for the answer any more", .sys_errno = ECANCELED});
      until = std::min(until, Clock::now() + kLook);
    }
    co_await waiting->changed.wait_until(until);
  }
  co_return std::move(*waiting->outcome);
}

void Connection::forget(std::uint64_t id, bool cancellable) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  waiting_.erase(found);
  if (over_ || !transport_) return;
  const bool told = transport_->abandon(id);
  if (told || !cancellable) return;
  if (!notify("notifications/cancelled", {{"requestId", id}, {"reason", "nobody waits for the answer any more"}}))
    complain("it could not be told that a request was given up");
}

Outgoing Connection::notification(std::string_view method, json::object params) const {
  if (modern(revision_)) envelop(params);
  Outgoing out{.message = {}, .id = 0, .headers = {}, .until = Clock::now() + kSending};
  if (modern(revision_)) add_standard_headers(out.headers, method, params);
  out.message = notification_message(method, std::move(params));
  return out;
}

Result<> Connection::notify(std::string_view method, json::object params) {
  if (over_) return tl::unexpected<Error>(*over_);
  return transport_->send(notification(method, std::move(params)));
}

Task<Result<>> Connection::deliver(std::string method, json::object params) {
  const auto self = shared_from_this();
  if (over_) co_return tl::unexpected<Error>(*over_);
  auto out = notification(method, std::move(params));
  if (!modern(revision_)) out.headers.emplace_back("MCP-Protocol-Version", name_of(revision_));
  co_return co_await transport_->deliver(std::move(out));
}

void Connection::receive(json::value message, std::uint64_t bytes) {
  if (!message.is_array()) return take(message, bytes);
  if (message.as_array().size() > kMaxBatch) {
    ++counters_->unusable_messages;
    return complain(fmt::format("a batch of {} messages was passed over", message.as_array().size()));
  }
  for (const auto& item : message.as_array()) take(item, bytes);
}

void Connection::take(const json::value& value, std::uint64_t bytes) {
  auto message = read_message(value, Strictness::strict);
  if (!message) {
    ++counters_->unusable_messages;
    return complain(fmt::format("a message was passed over: {}", message.error().fault.message));
  }
  switch (message->kind) {
    case Message::Kind::response:
      return take_answer(std::move(*message), bytes);
    case Message::Kind::notification:
      return take_notification(*message);
    case Message::Kind::request:
      // A modern server has no requests, and no way to be answered.
      if (modern(revision_) || answering_ >= kMaxAnswering) {
        ++counters_->refused_requests;
        return complain(fmt::format("its request {} was passed over", shown(message->method, 100)));
      }
      ++answering_;
      const auto name = shown(message->method, 100);
      return group_.spawn(name, answer(shared_from_this(), std::move(*message)));
  }
}

void Connection::take_answer(Message message, std::uint64_t bytes) {
  std::uint64_t id = 0;
  if (message.id.is_int64() && message.id.as_int64() > 0) id = static_cast<std::uint64_t>(message.id.as_int64());
  if (message.id.is_uint64()) id = message.id.as_uint64();
  if (id == 0 || !waiting_.contains(id)) {
    ++counters_->late_answers;
    return;
  }
  Reply reply{.bytes = bytes};
  if (message.answer.is_object())
    reply.result = std::move(message.answer.as_object());
  else if (message.answer.is_null() && (message.fault.code != Code::internal || !message.fault.message.empty()))
    reply.fault = std::move(message.fault);
  else
    return settle(id, fail(Errc::conflict, "the server's answer is neither an object nor an error"));
  settle(id, std::move(reply));
}

void Connection::settle(std::uint64_t id, Result<Reply> outcome) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  const auto waiting = std::move(found->second);
  waiting_.erase(found);
  waiting->outcome = std::move(outcome);
  waiting->changed.notify_all();
}

void Connection::count_seconds() {
  const auto now = Clock::now();
  if (now - second_ < std::chrono::seconds(1)) return;
  second_ = now;
  notifications_ = 0;
  complaints_ = 0;
}

bool Connection::admit_notification() {
  count_seconds();
  if (++notifications_ <= environment_->limits.notifications_per_second) return true;
  ++counters_->dropped_notifications;
  return false;
}

void Connection::take_notification(const Message& message) {
  if (!admit_notification()) return;
  if (message.method == "notifications/progress") return take_progress(message.params);
  if (message.method == "notifications/tools/list_changed" && on_tools_changed) on_tools_changed();
}

void Connection::take_progress(const json::object& params) {
  const auto* token = params.if_contains("progressToken");
  const auto* progress = params.if_contains("progress");
  if (token == nullptr || !token->is_int64() || progress == nullptr || !progress->is_number()) return;
  const auto found = waiting_.find(static_cast<std::uint64_t>(token->as_int64()));
  if (found == waiting_.end() || !found->second->on_progress) return;
  const auto waiting = found->second;
  Progress step{.progress = progress->to_number<double>()};
  // One that does not get on is no sign of life.
  if (waiting->progress && step.progress <= *waiting->progress) return;
  waiting->progress = step.progress;
  if (const auto* total = params.if_contains("total"); total != nullptr && total->is_number())
    step.total = total->to_number<double>();
  step.message = cove::json::text_of(params, "message");
  waiting->last_sign = Clock::now();
  waiting->on_progress(step);
}

Task<Or<>> Connection::serve(std::string method, json::object params) {
  const auto& handlers = environment_->handlers;
  if (method == "ping") co_return json::object();
  if (method == "roots/list" && !handlers.roots.empty()) {
    json::array roots(handlers.roots.begin(), handlers.roots.end());
    co_return json::object{{"roots", std::move(roots)}};
  }
  if (method == "sampling/createMessage" && handlers.sampling) co_return co_await handlers.sampling(std::move(params));
  if (method == "elicitation/create") {
    if (handlers.elicitation) co_return co_await handlers.elicitation(std::move(params));
    co_return json::object{{"action", "decline"}};
  }
  co_return fault(Code::method_not_found, fmt::format("Method not found: {}", shown(method, 100)));
}

Task<> Connection::answer(std::shared_ptr<Connection> self, Message message) {
  struct Done {
    Connection& connection;
    ~Done() { --connection.answering_; }
  } const done{*self};
  auto outcome = co_await self->serve(message.method, std::move(message.params));
  if (!outcome) ++self->counters_->refused_requests;
  if (self->over_) co_return;
  Outgoing out{.message = {}, .id = 0, .headers = {}, .until = Clock::now() + kSending};
  out.message = outcome ? result_message(message.id, std::move(*outcome))
                        : error_message(message.id, outcome.error(), UnknownId::omitted);
  if (!self->transport_->send(std::move(out))) self->complain("it could not be answered");
}

void Connection::complain(std::string_view what) {
  count_seconds();
  if (environment_->log && ++complaints_ <= kComplaintsPerSecond) environment_->log(shown(what, 500));
}

void Connection::lost(Error why) {
  if (over_) return;
  over_ = std::move(why);
  const auto waiting = std::exchange(waiting_, {});
  for (const auto& [id, one] : waiting) {
    one->outcome = tl::unexpected<Error>(*over_);
    one->changed.notify_all();
  }
}

Task<> Connection::close() {
  const auto self = shared_from_this();
  lost(Error{.code = Errc::unavailable, .message = "the connection to the server was closed"});
  group_.cancel();
  if (transport_) co_await transport_->close();
  co_await group_.join();
}

}  // namespace cove::mcp::client
