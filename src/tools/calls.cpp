// What becomes of a call: policy, approval, limits, the call itself, its record.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "tools/broker.hpp"

namespace cove::tools {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
using Kind = Failure::Kind;

constexpr std::uint32_t kMaxWaiting = 1024;  // calls of one sandbox that wait for others to end
constexpr std::size_t kMaxArguments = 8U << 20;
constexpr std::chrono::milliseconds kLook{200};
constexpr std::size_t kShownName = 200;
constexpr std::size_t kShownMessage = 1000;
constexpr std::uint32_t kMaxActs = 120;  // of the journal, for the calls of one sandbox in kActsTime
constexpr std::chrono::minutes kActsTime{1};

std::string_view word_of(Kind kind) {
  return kind == Kind::rejected   ? "rejected"
         : kind == Kind::timeout  ? "timeout"
         : kind == Kind::protocol ? "protocol"
                                  : "error";
}

std::string_view word_of(const Outcome& outcome) {
  if (!outcome) return word_of(outcome.error().kind);
  return outcome->is_error ? "tool error" : "ok";
}

journal::Outcome act_outcome_of(const Outcome& outcome) {
  journal::Outcome out{.word = std::string(word_of(outcome)), .good = outcome && !outcome->is_error};
  if (!outcome) out.result["message"] = one_line(outcome.error().message, kShownMessage);
  return out;
}

Failure failure_of(const Error& error) {
  return {.message = error.message,
          .retryable = error.code == Errc::unavailable || error.code == Errc::over_limit || error.code == Errc::quota};
}

}  // namespace

// Moved, member by member: a braced list of JSON is copied.
json::object to_json(Outcome outcome) {
  json::object answer;
  if (outcome) {
    auto& result = answer["result"].emplace_object();
    result["content"] = std::move(outcome->content);
    result["is_error"] = outcome->is_error;
    if (outcome->structured) result["structured"] = std::move(*outcome->structured);
    return answer;
  }
  auto& failure = outcome.error();
  auto& error = answer["error"].emplace_object();
  error["type"] = word_of(failure.kind);
  error["message"] = std::move(failure.message);
  if (failure.kind == Kind::protocol) error["code"] = failure.code;
  if (!failure.data.is_null()) error["data"] = std::move(failure.data);
  if (failure.retryable) error["retryable"] = true;
  return answer;
}

// A slot among the calls that run at once, and one of the calls of this second.
async::Task<Result<>> Broker::take_slot(std::shared_ptr<Group> group, std::function<bool()> abandoned) {
  const auto settings = settings_();
  const auto now = Clock::now();
  const double rate = settings.rate;
  group->credit = std::min(rate, group->credit + std::chrono::duration<double>(now - group->credited).count() * rate);
  group->credited = now;
  if (group->credit < 1) {
    ++counters_.limited;
    co_return fail_until(std::chrono::milliseconds(1000 / std::max(1U, settings.rate) + 1), Errc::quota,
                         fmt::format("more than {} calls of tools in a second (tools.rate)", settings.rate));
  }
  group->credit -= 1;
  if (group->running >= settings.concurrent && group->waiting >= kMaxWaiting) {
    ++counters_.limited;
    co_return fail(Errc::quota, fmt::format("{} calls of tools run and {} wait in this sandbox (tools.concurrent)",
                                            group->running, group->waiting));
  }
  ++group->waiting;
  const std::shared_ptr<void> waited(nullptr, [group](void*) { --group->waiting; });
  while (group->running >= settings.concurrent) {
    if (abandoned && abandoned()) co_return fail(Errc::unavailable, "the call was given up");
    co_await group->freed.wait_until(Clock::now() + kLook);
  }
  ++group->running;
  co_return Result<>();
}

async::Task<std::optional<Failure>> Broker::permit(const Call& call, const Server* server) {
  const auto& sandbox_id = call.sandbox->row().id;
  const auto said = server == nullptr ? std::nullopt : server->definition.verdict_on(call.tool);
  const auto verdict = said.value_or(approvals_.supervised(sandbox_id) ? Verdict::ask : Verdict::allow);
  if (verdict == Verdict::allow) co_return std::nullopt;
  if (verdict == Verdict::deny) {
    ++counters_.refused;
    co_return Failure{.kind = Kind::rejected,
                      .message = fmt::format("the policy of server {} denies its tool {}", call.server,
                                             json::serialize(json::value(call.tool)))};
  }
  // Behind the disconnection of its approver a sandbox is not without one: nobody has said that it may go on alone.
  const auto unattended = approvals_.supervised(sandbox_id) ? Approvals::Unattended::fail : call.unattended;
  ApprovalRequest request{.server = call.server, .tool = call.tool, .arguments = call.arguments, .kernel = call.kernel};
  if (call.on_waiting) call.on_waiting(true);
  const std::shared_ptr<void> over(nullptr, [on_waiting = call.on_waiting](void*) {
    if (on_waiting) on_waiting(false);
  });
  auto answer =
      co_await approvals_.ask(sandbox_id, std::move(request), settings_().approval_timeout, unattended, call.abandoned);
  if (!answer) co_return failure_of(answer.error());
  auto refusal = refusal_of(*answer, call.server, call.tool);
  if (refusal.empty()) co_return std::nullopt;
  ++counters_.refused;
  const auto kind = answer->kind == ApprovalAnswer::Kind::rejected  ? Kind::rejected
                    : answer->kind == ApprovalAnswer::Kind::expired ? Kind::timeout
                                                                    : Kind::error;
  co_return Failure{.kind = kind, .message = std::move(refusal)};
}

async::Task<tl::expected<void, Failure>> Broker::approve(Call call) {
  const auto server = server_of(*call.sandbox, call.server);
  const sandbox::Sandbox::Activity activity(call.sandbox);
  auto refused = co_await permit(call, server.get());
  if (refused) co_return tl::unexpected<Failure>(std::move(*refused));
  co_return tl::expected<void, Failure>();
}

async::Task<Outcome> Broker::attempt(Call& call, std::shared_ptr<Server> server) {
  const auto connection = server->connection;
  const auto settings = settings_();
  for (int left = server->repeatable[call.tool] ? 1 : 0;; --left) {
    auto client = co_await Connection::get(connection);
    if (!client) co_return tl::unexpected<Failure>(failure_of(client.error()));
    if (const auto same = co_await check_pins(server, *client, call.tool); !same) {
      core_.registry.publish("tools_changed", *call.sandbox,
                             json::serialize(json::object{{"server", call.server}, {"tool", call.tool}}));
      co_return tl::unexpected<Failure>(Failure{.kind = Kind::rejected, .message = same.error().message});
    }
    mcp::client::CallOptions options{.timeout = call.timeout, .abandoned = call.abandoned};
    auto result = co_await (*client)->call(call.tool, call.arguments, std::move(options));
    connection->report(result);
    if (result && result->fault)
      co_return tl::unexpected<Failure>(Failure{.kind = Kind::protocol,
                                                .message = result->fault->message,
                                                .code = static_cast<int>(result->fault->code),
                                                .data = result->fault->data});
    if (result) co_return std::move(*result);
    const auto& error = result.error();
    // A tool that changes nothing, or the same thing twice, may be called again when its server died.
    const bool again = left > 0 && error.code == Errc::unavailable && error.sys_errno == 0;
    if (!again || (call.abandoned && call.abandoned())) co_return tl::unexpected<Failure>(failure_of(error));
    ++counters_.retried;
  }
}

async::Task<Outcome> Broker::call(Call call) {
  const auto group = group_of(call.sandbox->row().id);
  const auto began = Clock::now();
  const sandbox::Sandbox::Activity activity(call.sandbox);
  ++counters_.calls;
  Sha256 sum;
  const auto text = json::serialize(call.arguments);
  sum.add(text);
  const auto hash = sum.hex();
  const auto entry = begin_act(group->journaled, call, hash);
  const auto ended = [&](Outcome outcome) {
    if (!outcome) ++counters_.failed;
    record(*group, call, hash, outcome, began);
    if (entry) entry->end(act_outcome_of(outcome));
    return outcome;
  };
  const auto obtained = co_await obtain(call.sandbox, call.server);
  if (!obtained) co_return ended(tl::unexpected<Failure>(failure_of(obtained.error())));
  const auto server = *obtained;
  // Modules go by their own names, which the server does not know.
  if (std::ranges::find(server->tools, call.tool) == server->tools.end()) {
    const auto module = std::ranges::find(server->modules, call.tool);
    if (module == server->modules.end())
      co_return ended(tl::unexpected<Failure>(
          Failure{.message = fmt::format("server {} has no tool {}", call.server,
                                         json::serialize(json::value(call.tool.substr(0, 200))))}));
    call.tool = server->tools[static_cast<std::size_t>(module - server->modules.begin())];
  }
  if (text.size() > kMaxArguments) {
    ++counters_.limited;
    co_return ended(tl::unexpected<Failure>(
        Failure{.message = fmt::format("the arguments are larger than {} MiB", kMaxArguments >> 20)}));
  }
  if (auto refused = co_await permit(call, server.get())) co_return ended(tl::unexpected<Failure>(std::move(*refused)));
  if (const auto slot = co_await take_slot(group, call.abandoned); !slot)
    co_return ended(tl::unexpected<Failure>(failure_of(slot.error())));
  const std::shared_ptr<void> over(nullptr, [group](void*) {
    --group->running;
    group->freed.notify_all();
  });
  auto outcome = co_await attempt(call, server);
  co_return ended(std::move(outcome));
}

async::Task<tl::expected<json::array, Failure>> Broker::read(Call call, std::string uri) {
  const auto obtained = co_await obtain(call.sandbox, call.server);
  if (!obtained) co_return tl::unexpected<Failure>(failure_of(obtained.error()));
  const auto server = *obtained;
  const auto group = group_of(call.sandbox->row().id);
  if (const auto slot = co_await take_slot(group, call.abandoned); !slot)
    co_return tl::unexpected<Failure>(failure_of(slot.error()));
  const std::shared_ptr<void> over(nullptr, [group](void*) {
    --group->running;
    group->freed.notify_all();
  });
  auto client = co_await Connection::get(server->connection);
  if (!client) co_return tl::unexpected<Failure>(failure_of(client.error()));
  // The server is asked, and nobody else: what the address says is its business.
  mcp::client::CallOptions options{.timeout = call.timeout, .abandoned = call.abandoned};
  auto answer = co_await (*client)->request("resources/read", {{"uri", uri}}, std::move(options));
  if (!answer) co_return tl::unexpected<Failure>(failure_of(answer.error()));
  if (!*answer)
    co_return tl::unexpected<Failure>(Failure{.kind = Kind::protocol,
                                              .message = answer->error().message,
                                              .code = static_cast<int>(answer->error().code),
                                              .data = answer->error().data});
  auto* contents = (*answer)->if_contains("contents");
  if (contents == nullptr || !contents->is_array())
    co_return tl::unexpected<Failure>(Failure{.message = "the server gave no contents"});
  co_return std::move(contents->get_array());
}

std::shared_ptr<journal::Entry> Broker::begin_act(Journaled& journaled, const Call& call, const std::string& hash) {
  const auto now = Clock::now();
  if (now - journaled.since >= kActsTime) journaled = {.since = now, .left_out = journaled.left_out};
  if (journaled.acts >= kMaxActs) {
    ++journaled.left_out;
    return nullptr;
  }
  ++journaled.acts;
  const auto server = one_line(call.server, kShownName);
  const auto tool = one_line(call.tool, kShownName);
  journal::Act act{.kind = journal::kind::kTool, .summary = server + "." + tool};
  act.detail["server"] = server;
  act.detail["tool"] = tool;
  if (!call.kernel.empty()) act.detail["kernel"] = call.kernel;
  act.detail["argumentsSha256"] = hash;
  if (const auto left_out = std::exchange(journaled.left_out, 0); left_out > 0) act.detail["leftOut"] = left_out;
  return call.sandbox->begin_act(call.actor, std::move(act));
}

void Broker::record(Group& group, const Call& call, const std::string& hash, const Outcome& outcome,
                    Clock::time_point began) {
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began).count();
  json::object entry{{"number", group.records.next++},
                     {"time", unix_millis()},
                     {"server", call.server.substr(0, 100)},
                     {"tool", call.tool.substr(0, 200)},
                     {"kernel", call.kernel.empty() ? json::value() : json::value(call.kernel)},
                     {"argumentsSha256", hash},
                     {"outcome", word_of(outcome)},
                     {"milliseconds", took}};
  auto& list = group.records.list;
  list.push_back(std::move(entry));
  while (list.size() > settings_().log_records) list.pop_front();
}

std::vector<json::object> Broker::log(const sandbox::Sandbox& sandbox, std::uint64_t after, std::size_t most) const {
  std::vector<json::object> out;
  const auto group = groups_.find(sandbox.row().id);
  if (group == groups_.end()) return out;
  for (const auto& entry : group->second->records.list) {
    if (entry.at("number").to_number<std::uint64_t>() > after && out.size() < most) out.push_back(entry);
  }
  return out;
}

}  // namespace cove::tools
