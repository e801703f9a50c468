#include "tools/peer_calls.hpp"

#include <fmt/format.h>

#include "async/deadline.hpp"
#include "json/fields.hpp"

namespace cove::tools {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr std::size_t kMaxUntaken = 4U << 20;   // of answers; those that follow wait
constexpr std::size_t kMaxRefused = 16U << 20;  // and are dropped
constexpr double kLongestTimeout = 24 * 3600;
constexpr milliseconds kLookAgain{20};

json::object error_of(std::string_view message) {
  return {{"error", {{"type", "error"}, {"message", message}}}};
}

std::string message_of(std::uint64_t parent, std::int64_t number, json::object answer) {
  answer["call"] = number;
  return json::serialize(json::object{{"op", "tool_reply"}, {"id", parent}, {"content", std::move(answer)}});
}

// {"servers": {name: [tool, …]}} as an answer.
json::object listed(const Broker& broker, const sandbox::Sandbox& sandbox) {
  json::object servers;
  for (const auto& view : broker.list(sandbox)) servers[view.definition->name] = json::value_from(view.tools);
  return {{"result", {{"servers", std::move(servers)}}}};
}

// What comes of a request: a call, a list, or the contents of a resource.
async::Task<json::object> serve(Broker& broker, Call call, json::object content) {
  if (const auto* list = content.if_contains("list"); list != nullptr && list->is_bool())
    co_return listed(broker, *call.sandbox);
  auto parsed = parse_call(content);
  if (!parsed) co_return error_of(parsed.error().message);
  parsed->sandbox = std::move(call.sandbox);
  parsed->kernel = std::move(call.kernel);
  parsed->abandoned = std::move(call.abandoned);
  parsed->on_waiting = std::move(call.on_waiting);
  if (auto uri = cove::json::text_of(content, "resource"); !uri.empty()) {
    auto contents = co_await broker.read(std::move(*parsed), std::move(uri));
    if (!contents) co_return to_json(Outcome(tl::unexpected<Failure>(contents.error())));
    co_return json::object{{"result", {{"contents", std::move(*contents)}}}};
  }
  auto outcome = co_await broker.call(std::move(*parsed));
  co_return to_json(outcome);
}

}  // namespace

Result<Call> parse_call(json::object& content) {
  Call call;
  COVE_TRY(const auto server, cove::json::text_field(content, "server"));
  call.server = server.value_or("");
  COVE_TRY(const auto tool, cove::json::text_field(content, "tool"));
  call.tool = tool.value_or("");
  COVE_TRY(const auto timeout, cove::json::number_field(content, "timeout"));
  if (timeout) {
    if (!(*timeout > 0) || *timeout > kLongestTimeout)
      return fail(Errc::invalid, "timeout must be more than 0 and at most a day, in seconds");
    call.timeout = milliseconds(static_cast<std::int64_t>(*timeout * 1000) + 1);
  }
  auto* arguments = content.if_contains("arguments");
  if (arguments != nullptr && !arguments->is_null()) {
    if (!arguments->is_object()) return fail(Errc::invalid, "arguments must be an object");
    call.arguments = std::move(arguments->get_object());
  }
  return call;
}

void PeerCalls::begin(const void* key, std::shared_ptr<Peer> peer, std::int64_t number,
                      sandbox::KernelMessage message) {
  const auto parent = message.parent.value_or(0);
  auto& calls = calls_[key];
  if (calls.going.contains(number)) return refuse(*peer, parent, number, "this number is that of another call");
  if (calls.going.size() >= kMaxCalls)
    return refuse(*peer, parent, number, fmt::format("{} calls are under way already", kMaxCalls));
  if (calls.bytes + message.bytes > kMaxBytes)
    return refuse(*peer, parent, number,
                  fmt::format("the calls that are under way have more than {} MiB", kMaxBytes >> 20));
  const auto going = std::make_shared<Going>(Going{.parent = parent, .bytes = message.bytes});
  calls.going.emplace(number, going);
  calls.bytes += going->bytes;
  tasks_.spawn("call a tool", run(key, std::move(peer), number, going, std::move(message.content)));
}

async::Task<> PeerCalls::run(const void* key, std::shared_ptr<Peer> peer, std::int64_t number,
                             std::shared_ptr<Going> going, json::object content) {
  const std::shared_ptr<void> over(nullptr, [this, key, number, going](void*) {
    const auto calls = calls_.find(key);
    if (calls == calls_.end()) return;
    const auto found = calls->second.going.find(number);
    if (found == calls->second.going.end() || found->second != going) return;
    calls->second.bytes -= going->bytes;
    calls->second.going.erase(found);
    if (calls->second.going.empty()) calls_.erase(calls);
  });
  Call call;
  call.sandbox = peer->sandbox();
  call.kernel = peer->kernel();
  call.abandoned = [going] { return going->abandoned; };
  call.on_waiting = [peer, parent = going->parent](bool waits) {
    if (waits)
      peer->hold_clock(parent);
    else
      peer->release_clock(parent);
  };
  // Who does not take its answers gets no more of them: what waits here is counted, and no call begins meanwhile.
  const auto full = [&] { return peer->untaken_bytes() > kMaxUntaken || held_for(key) > kMaxUntaken; };
  while (full() && !going->abandoned && !peer->gone()) co_await async::sleep_for(kLookAgain);
  if (going->abandoned || peer->gone()) co_return;
  auto given = co_await serve(broker_, std::move(call), std::move(content));
  if (going->abandoned) co_return;
  const auto message = message_of(going->parent, number, std::exchange(given, {}));
  calls_[key].held += message.size();
  const std::shared_ptr<void> told(nullptr, [this, key, size = message.size()](void*) {
    const auto calls = calls_.find(key);
    if (calls != calls_.end()) calls->second.held -= std::min(calls->second.held, size);
  });
  while (peer->untaken_bytes() > kMaxUntaken && !going->abandoned && !peer->gone())
    co_await async::sleep_for(kLookAgain);
  if (!going->abandoned) tell(*peer, message);
}

std::size_t PeerCalls::held_for(const void* key) const {
  const auto calls = calls_.find(key);
  return calls == calls_.end() ? 0 : calls->second.held;
}

void PeerCalls::tell(Peer& peer, std::string_view message) {
  if (!peer.tell(message)) broker_.count_dropped();
}

void PeerCalls::refuse(Peer& peer, std::uint64_t parent, std::int64_t number, std::string why) {
  if (peer.untaken_bytes() > kMaxRefused) return broker_.count_dropped();
  auto error = error_of(why);
  error.at("error").get_object()["retryable"] = true;
  tell(peer, message_of(parent, number, std::move(error)));
}

void PeerCalls::cancel(const void* key, std::int64_t number) {
  const auto calls = calls_.find(key);
  if (calls == calls_.end()) return;
  if (const auto going = calls->second.going.find(number); going != calls->second.going.end())
    going->second->abandoned = true;
}

void PeerCalls::cancel_parent(const void* key, std::uint64_t parent) {
  const auto calls = calls_.find(key);
  if (calls == calls_.end()) return;
  for (const auto& [number, going] : calls->second.going) {
    if (going->parent == parent) going->abandoned = true;
  }
}

// The next process with this key counts from one again.
void PeerCalls::cancel_all(const void* key) {
  const auto calls = calls_.find(key);
  if (calls == calls_.end()) return;
  for (const auto& [number, going] : calls->second.going) going->abandoned = true;
  calls_.erase(calls);
}

}  // namespace cove::tools
