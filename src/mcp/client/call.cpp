// What follows a tools/call: its questions, its task, and what its answer must look like.
#include <algorithm>
#include <set>

#include "async/deadline.hpp"
#include "json/fields.hpp"
#include "mcp/client/client_state.hpp"
#include "mcp/client/request_headers.hpp"
#include "schema/schema.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxQuestions = 32;  // in one round
constexpr std::chrono::milliseconds kUsualPoll{1000};
constexpr std::int64_t kShortestPoll = 50;
constexpr std::int64_t kLongestPoll = 60'000;

tl::unexpected<Error> broke_protocol(std::string_view how) {
  return fail(Errc::conflict, fmt::format("the server broke the protocol: {}", how));
}

// Answers what the server asks within a call, each by its key.
Task<Result<json::object>> answers_to(std::shared_ptr<Connection> connection, json::object questions) {
  json::object out;
  if (questions.size() > kMaxQuestions) co_return broke_protocol("it asks over 32 questions at once");
  for (auto& [key, question] : questions) {
    const auto* inner = question.if_object();
    const auto method = inner == nullptr ? std::string() : cove::json::text_of(*inner, "method");
    if (method.empty()) co_return broke_protocol("a question has no method");
    json::object params;
    if (const auto* given = inner->if_contains("params"); given != nullptr && given->is_object())
      params = given->as_object();
    auto answer = co_await connection->serve(method, std::move(params));
    if (!answer)
      co_return fail(Errc::unsupported,
                     fmt::format("the tool asks for {}, which is not offered to it", shown(method, 100)));
    out[key] = std::move(*answer);
  }
  co_return out;
}

Result<> check_reply(const Reply& reply) {
  if (reply.unauthorized)
    return fail(Errc::denied, fmt::format("the server wants other credentials (HTTP {}){}{}", reply.status,
                                          reply.said.empty() ? "" : ": ", reply.said));
  if (reply.status >= 300 && !reply.fault)
    return fail(Errc::unavailable, fmt::format("the server refuses the call (HTTP {}): {}", reply.status, reply.said));
  return {};
}

CallResult faulty(Fault fault) {
  return CallResult{.content = {}, .structured = {}, .is_error = false, .fault = std::move(fault)};
}

Result<CallResult> result_of(json::object result, const ListedTool& tool) {
  CallResult out;
  if (auto* content = result.if_contains("content")) {
    if (!content->is_array() ||
        !std::ranges::all_of(content->as_array(), [](const json::value& block) { return block.is_object(); }))
      return broke_protocol("the content of the answer is no array of objects");
    out.content = std::move(content->as_array());
  }
  if (const auto* error = result.if_contains("isError"); error != nullptr && error->is_bool())
    out.is_error = error->as_bool();
  if (auto* structured = result.if_contains("structuredContent"); structured != nullptr && !structured->is_null())
    out.structured = std::move(*structured);
  if (!tool.tool.output_schema || out.is_error) return out;
  if (!out.structured)
    return broke_protocol("the answer has no structuredContent, which the tool's outputSchema promises");
  if (const auto wrong = schema::find_fault(*tool.tool.output_schema, *out.structured))
    return broke_protocol(fmt::format("the answer does not fit the tool's outputSchema: structuredContent{}", *wrong));
  return out;
}

std::chrono::milliseconds poll_of(const json::object& task) {
  for (const auto* name : {"pollIntervalMs", "pollInterval"}) {
    if (const auto* value = task.if_contains(name); value != nullptr && value->is_int64())
      return std::chrono::milliseconds(std::clamp(value->as_int64(), kShortestPoll, kLongestPoll));
  }
  return kUsualPoll;
}

// Tells the server that nobody waits for its task any more, unless it has come to its end.
struct CancelTask {
  std::shared_ptr<Connection> connection;
  async::TaskGroup& group;
  std::string id;
  bool ended = false;

  static Task<> tell(std::shared_ptr<Connection> connection, std::string id) {
    AskOptions options{.timeout = std::chrono::seconds(5), .most = std::chrono::seconds(5)};
    options.cancellable = false;
    json::object params{{"taskId", id}};
    const auto reply = co_await connection->ask("tasks/cancel", std::move(params), std::move(options));
    (void)reply;  // it may have ended meanwhile
  }

  ~CancelTask() {
    if (!ended && !connection->over()) group.spawn("cancel a task", tell(connection, id));
  }
};

// The options of one of several requests that a call consists of.
AskOptions part_of(const AskOptions& whole, Clock::time_point until) {
  AskOptions out{.timeout = whole.timeout};
  out.most = std::max(std::chrono::milliseconds(1),
                      std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()));
  out.abandoned = whole.abandoned;
  return out;
}

Task<Result<>> wait_for(std::chrono::milliseconds time, AskOptions options, Clock::time_point until) {
  const auto then = Clock::now() + time;
  while (Clock::now() < then) {
    if (options.abandoned && options.abandoned())
      co_return tl::unexpected<Error>(
          Error{.code = Errc::unavailable, .message = "nobody waits for the answer any more", .sys_errno = ECANCELED});
    if (Clock::now() >= until)
      co_return tl::unexpected<Error>(
          Error{.code = Errc::unavailable,
                .message = fmt::format("the server's task did not end within {} ms", options.most.count()),
                .sys_errno = ETIMEDOUT});
    co_await async::sleep_until(std::min({then, until, Clock::now() + std::chrono::milliseconds(200)}));
  }
  co_return Result<>();
}

}  // namespace

// One call under way.
struct ToolCall {
  std::shared_ptr<Client::State> state;
  std::shared_ptr<Connection> connection;
  ListedTool tool;
  AskOptions options;
  Clock::time_point until;

  // Follows a task of the newest revision to its end.
  Task<Result<CallResult>> follow(json::object task) {
    const auto id = cove::json::text_of(task, "taskId");
    if (id.empty()) co_return broke_protocol("a task has no taskId");
    CancelTask cancel{.connection = connection, .group = state->group, .id = id};
    std::set<std::string, std::less<>> answered;
    while (true) {
      const auto status = cove::json::text_of(task, "status");
      if (status == "completed" || status == "failed" || status == "cancelled") {
        cancel.ended = true;
        if (const auto* result = task.if_contains("result"); result != nullptr && result->is_object())
          co_return result_of(result->as_object(), tool);
        if (const auto* error = task.if_contains("error"); error != nullptr && error->is_object()) {
          Fault fault{.code = Code::internal,
                      .message = shown(cove::json::text_of(error->as_object(), "message"), 1000)};
          if (const auto* code = error->as_object().if_contains("code"); code != nullptr && code->is_int64())
            fault.code = static_cast<Code>(code->as_int64());
          if (const auto* data = error->as_object().if_contains("data")) fault.data = *data;
          co_return faulty(std::move(fault));
        }
        if (status == "completed") {
          // Said by what created it; the result comes with the next answer.
          cancel.ended = false;
        } else {
          co_return fail(Errc::unavailable, fmt::format("the server's task was {}: {}", status,
                                                        shown(cove::json::text_of(task, "statusMessage"))));
        }
      } else if (status != "working" && status != "input_required") {
        co_return broke_protocol(fmt::format("a task has the status \"{}\"", shown(status, 50)));
      }
      if (const auto* questions = task.if_contains("inputRequests"); questions != nullptr && questions->is_object()) {
        json::object open;
        for (const auto& [key, question] : questions->as_object()) {
          if (!answered.contains(std::string_view(key)) && answered.size() + open.size() < kMaxQuestions)
            open[key] = question;
        }
        if (!open.empty()) {
          for (const auto& [key, question] : open) answered.emplace(key);
          auto responses = co_await answers_to(connection, std::move(open));
          if (!responses) co_return tl::unexpected<Error>(responses.error());
          json::object params{{"taskId", id}};
          params["inputResponses"] = std::move(*responses);
          auto told_options = part_of(options, until);
          const auto told = co_await connection->ask("tasks/update", std::move(params), std::move(told_options));
          if (!told) co_return tl::unexpected<Error>(told.error());
          if (told->fault) co_return faulty(*told->fault);
        }
      }
      const auto pause = poll_of(task);
      const auto waited = co_await wait_for(pause, options, until);
      if (!waited) co_return tl::unexpected<Error>(waited.error());
      json::object params{{"taskId", id}};
      auto poll_options = part_of(options, until);
      auto polled = co_await ask_again("tasks/get", std::move(params), std::move(poll_options));
      if (!polled) co_return tl::unexpected<Error>(polled.error());
      if (const auto good = check_reply(*polled); !good) co_return tl::unexpected<Error>(good.error());
      if (polled->fault) co_return faulty(std::move(*polled->fault));
      if (polled->bytes > state->environment->limits.result_bytes) co_return too_large(polled->bytes);
      task = std::move(polled->result);
    }
  }

  // The same of 2025-11-25, whose tasks/result answers at the end.
  Task<Result<CallResult>> follow_older(json::object task) {
    const auto id = cove::json::text_of(task, "taskId");
    if (id.empty()) co_return broke_protocol("a task has no taskId");
    CancelTask cancel{.connection = connection, .group = state->group, .id = id};
    json::object params{{"taskId", id}};
    auto waiting = part_of(options, until);
    waiting.timeout = waiting.most;
    auto reply = co_await connection->ask("tasks/result", std::move(params), std::move(waiting));
    if (!reply) co_return tl::unexpected<Error>(reply.error());
    cancel.ended = true;
    if (const auto good = check_reply(*reply); !good) co_return tl::unexpected<Error>(good.error());
    if (reply->fault) co_return faulty(std::move(*reply->fault));
    if (reply->bytes > state->environment->limits.result_bytes) co_return too_large(reply->bytes);
    co_return result_of(std::move(reply->result), tool);
  }

  [[nodiscard]] tl::unexpected<Error> too_large(std::uint64_t bytes) const {
    return fail(Errc::over_limit, fmt::format("the result has {} bytes; at most {} are taken", bytes,
                                              state->environment->limits.result_bytes));
  }

  // A question about the task, which may be asked as often as one likes.
  Task<Result<Reply>> ask_again(std::string method, json::object params, AskOptions asked) {
    return Client::State::ask(state, std::move(method), std::move(params), std::move(asked), Again::if_lost);
  }
};

Task<Result<CallResult>> Client::State::perform(std::shared_ptr<State> self, ListedTool tool, json::object arguments,
                                                CallOptions options) {
  auto whole = self->options_of(std::move(options));
  const auto until = Clock::now() + whole.most;
  const auto again = tool.harmless_again() ? Again::if_lost : Again::never;
  const bool over_http = self->config->kind != ServerConfig::Kind::stdio;
  json::object more;  // of the rounds after the first
  bool refreshed = false;
  for (std::size_t round = 1; round <= self->environment->limits.rounds;) {
    auto connection = co_await ready(self);
    if (!connection) co_return tl::unexpected<Error>(connection.error());
    json::object params{{"name", tool.tool.name}, {"arguments", arguments}};
    for (const auto& [name, value] : more) params[name] = value;
    if (tool.as_task) params["task"] = json::object();
    auto part = part_of(whole, until);
    part.on_progress = whole.on_progress;
    part.meta = whole.meta;
    if (over_http && modern((*connection)->revision()))
      part.headers = mirrored_headers(tool.tool.input_schema, arguments);
    auto reply = co_await ask(self, "tools/call", std::move(params), std::move(part), again);
    if (!reply) co_return tl::unexpected<Error>(reply.error());
    if (const auto good = check_reply(*reply); !good) co_return tl::unexpected<Error>(good.error());
    if (reply->fault && reply->fault->code == Code::header_mismatch && !refreshed) {
      refreshed = true;  // the schema that says what is mirrored may be another one by now
      self->tools_changed = true;
      const auto now = co_await list(self);
      if (!now) co_return tl::unexpected<Error>(now.error());
      const auto* listed = (*now)->find(tool.tool.name);
      if (listed == nullptr) co_return faulty(std::move(*reply->fault));
      tool = *listed;
      continue;
    }
    if (reply->fault) co_return faulty(std::move(*reply->fault));
    if (reply->bytes > self->environment->limits.result_bytes)
      co_return fail(Errc::over_limit, fmt::format("the result has {} bytes; at most {} are taken", reply->bytes,
                                                   self->environment->limits.result_bytes));
    auto& result = reply->result;
    ToolCall call{.state = self, .connection = *connection, .tool = tool, .options = whole, .until = until};
    const auto* type = result.if_contains("resultType");
    const auto kind = type == nullptr ? std::string("complete") : cove::json::text_of(result, "resultType");
    if (kind == "task") co_return co_await call.follow(std::move(result));
    if (tool.as_task && type == nullptr && result.contains("task") && result["task"].is_object()) {
      auto task = std::move(result["task"].as_object());
      co_return co_await call.follow_older(std::move(task));
    }
    if (kind == "complete") co_return result_of(std::move(result), tool);
    if (kind != "input_required")
      co_return broke_protocol(fmt::format("its answer is of the type \"{}\"", shown(kind, 50)));
    const auto* questions = result.if_contains("inputRequests");
    const auto* request_state = result.if_contains("requestState");
    if (questions == nullptr && request_state == nullptr)
      co_return broke_protocol("it wants input and does not say which");
    more.clear();
    json::object open;
    if (questions != nullptr && questions->is_object()) open = questions->as_object();
    auto responses = co_await answers_to(*connection, std::move(open));
    if (!responses) co_return tl::unexpected<Error>(responses.error());
    more["inputResponses"] = std::move(*responses);
    if (request_state != nullptr) more["requestState"] = *request_state;
    ++round;
  }
  co_return broke_protocol(
      fmt::format("it asked for input {} times within one call", self->environment->limits.rounds));
}

}  // namespace cove::mcp::client
