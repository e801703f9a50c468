#include "doors/mcp/sessions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/random_name.hpp"
#include "base/units.hpp"
#include "doors/mcp/client_form.hpp"
#include "run/workplace.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::mcp {
namespace {

using cove::mcp::Call;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kLabels = R"({"door": "mcp"})";
constexpr std::size_t kMaxKnown = 10'000;
constexpr std::size_t kMaxGone = 1000;  // connections that are remembered for the sake of their tasks

constexpr std::string_view kUnnamed = "mcp-";
constexpr std::string_view kPython = "python";

tl::unexpected<Error> unknown(const std::string& name) {
  return fail(Errc::not_found,
              fmt::format("Unknown session: {}. It may have expired; list_sessions lists the existing ones.", name));
}

sandbox::CreateRequest request_for(const config::Config& config, const std::string& tenant, std::string name,
                                   const Sessions::New& wanted) {
  sandbox::CreateRequest request;
  request.tenant = tenant;
  request.name = std::move(name);
  request.ttl = wanted.idle;
  if (wanted.language == kPython && config.python.warm) request.content = sandbox::Pool::Content::kernel;
  request.labels_json = kLabels;
  request.limits = run::default_limits(config, wanted.memory_bytes);
  return request;
}

bool is_ours(const sandbox::Sandbox& sandbox) {
  return sandbox.row().labels_json == kLabels;
}

// A connection has one default session for all languages; clients of the old form have one for each.
std::string default_for(const Call& call, const std::string& language) {
  return reads_old_form(call) ? language : std::string();
}

std::chrono::milliseconds last_used(const sandbox::Sandbox& sandbox) {
  return sandbox.expires_boot() - std::chrono::milliseconds(sandbox.row().ttl_ms);
}

// Languages share a named session: the interpreters of the other languages are kept.
Task<std::size_t> end_interpreters(sandbox::Kernels& kernels, std::shared_ptr<sandbox::Sandbox> sandbox,
                                   std::string language) {
  std::size_t ended = 0;
  for (const auto& kernel : kernels.of(*sandbox)) {
    if (name_of(kernel->language()) != language) continue;
    co_await kernels.remove(sandbox, kernel);
    ++ended;
  }
  co_return ended;
}

}  // namespace

// The calls that wait for one session's lock, in order of arrival.
struct Sessions::LockQueue {
  explicit LockQueue(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
  async::Signal changed;
  std::deque<std::uint64_t> waiting;
  std::uint64_t next = 0;
};

Task<std::shared_ptr<void>> Sessions::lock_session(Call& call, std::string key) {
  std::erase_if(lock_queues_, [](const auto& queue) { return queue.second.expired(); });
  auto queue = lock_queues_[key].lock();
  if (!queue) lock_queues_[key] = queue = std::make_shared<LockQueue>(co_await boost::asio::this_coro::executor);
  const auto number = queue->next++;
  queue->waiting.push_back(number);
  const auto leave = [number](LockQueue* of) {
    std::erase(of->waiting, number);
    of->changed.notify_all();
  };
  std::shared_ptr<void> lock(queue.get(), [queue, leave](void*) { leave(queue.get()); });
  while (queue->waiting.front() != number && !call.cancelled())
    co_await queue->changed.wait_until(Clock::now() + std::chrono::milliseconds(250));
  co_return lock;
}

bool Sessions::is_gone(const std::string& connection) const {
  return std::ranges::find(gone_, connection) != gone_.end();
}

std::string Sessions::default_name(const Call& call, const std::string& language) {
  if (call.connection.empty() || is_gone(call.connection)) return random_name(kUnnamed);
  tenants_[call.connection] = call.tenant;
  auto& name = defaults_[{call.connection, default_for(call, language)}];
  if (name.empty()) name = random_name(kUnnamed);
  return name;
}

Task<Result<Session>> Sessions::open(Call& call, std::string name, std::string language, SessionWish wish) {
  if (services_.draining()) co_return fail(Errc::unavailable, "the server is shutting down");
  const auto config = services_.config();
  // A task whose connection is gone is a call without one: nobody would end a default session of that.
  const bool passing = name.empty() && (call.connection.empty() || is_gone(call.connection));
  const auto idle = passing ? config->mcp.unnamed_idle : config->mcp.session_idle;
  if (hidden(call, name)) co_return unknown(name);
  if (name.empty()) name = default_name(call, language);
  if (const auto checked = sandbox::checked_name(name); !checked)
    co_return fail(Errc::invalid, "Invalid argument: session_id: " + checked.error().message);
  auto lock = co_await lock_session(call, call.tenant + "\n" + name);
  if (call.cancelled()) co_return fail(Errc::unavailable, "the call was cancelled");
  const Key key(call.tenant, name);
  if (wish.only == Existing::yes && !co_await services_.registry.find(call.tenant, name)) co_return unknown(name);
  if (wish.reset == Reset::yes) {
    if (const auto found = co_await services_.registry.find(call.tenant, name))
      co_await services_.registry.remove(*found, "deleted", journal::actor_of(principal_of(call)));
    known_.erase(key);
  }
  const New wanted{.idle = idle, .memory_bytes = wish.memory_bytes, .language = language};
  const auto made = co_await ensure(call, name, wanted);
  if (!made) co_return tl::unexpected<Error>(made.error());
  auto note = remember(key, *made, idle);
  const auto has = made->sandbox->row().memory_bytes;
  if (wish.memory_bytes != 0 && has != wish.memory_bytes)
    note = fmt::format(
        "the session exists already, with a memory limit of {}: pass reset_session to get a new one with "
        "{}",
        format_size(has), format_size(wish.memory_bytes));
  co_return Session{.id = name,
                    .sandbox = made->sandbox,
                    .activity = sandbox::Sandbox::Activity(made->sandbox),
                    .lock = std::move(lock),
                    .fresh = made->created,
                    .note = std::move(note),
                    .last_written = known_.at(key).last_written};
}

Task<Result<sandbox::Registry::Ensured>> Sessions::ensure(const Call& call, std::string name, New wanted) {
  using sandbox::Registry;
  if (const auto found = co_await services_.registry.find(call.tenant, name)) {
    // A session with a short TTL is used again: it gets the full one.
    if (is_ours(**found) && (*found)->row().ttl_ms < wanted.idle.count()) (*found)->set_ttl(wanted.idle);
    co_return Registry::Ensured{.sandbox = *found, .created = false};
  }
  const auto config = services_.config();
  const auto share = services_.authority.allowance(principal_of(call)).sandboxes;
  const auto all = services_.registry.of(call.tenant, "");
  auto count = std::ranges::count_if(
      all, [](const auto& one) { return is_ours(*one) && one->state() != sandbox::State::deleting; });
  while (count-- >= config->mcp.sessions) {
    const auto oldest = oldest_idle(call.tenant);
    if (!oldest)
      co_return fail(Errc::quota,
                     fmt::format("The limit of {} sessions is reached and all of them are in use: wait for one to end",
                                 config->mcp.sessions));
    mark_evicted(*oldest);
    services_.registry.remove_later(oldest, "evicted");
  }
  while (true) {
    auto request = request_for(*config, call.tenant, name, wanted);
    request.actor = journal::actor_of(principal_of(call));
    auto made = co_await services_.registry.ensure(std::move(request), share, sandbox::IfThere::keep);
    if (made || made.error().code != Errc::quota) co_return made;
    const auto oldest = oldest_idle(call.tenant);
    if (!oldest) co_return made;
    mark_evicted(*oldest);
    co_await services_.registry.remove(oldest, "evicted");
  }
}

// The least recently used session, unnamed sessions first. Null when all are in use.
std::shared_ptr<sandbox::Sandbox> Sessions::oldest_idle(const std::string& tenant) const {
  std::shared_ptr<sandbox::Sandbox> oldest;
  for (const auto& one : services_.registry.of(tenant, "")) {
    if (!is_ours(*one) || one->in_use() || one->state() != sandbox::State::running) continue;
    const auto order = [](const sandbox::Sandbox& of) {
      return std::pair(!of.name().starts_with(kUnnamed), last_used(of));
    };
    if (!oldest || order(*one) < order(*oldest)) oldest = one;
  }
  return oldest;
}

void Sessions::mark_evicted(const sandbox::Sandbox& session) {
  const Key key(session.tenant(), session.name());
  if (const auto known = known_.find(key); known != known_.end()) known->second.evicted = true;
}

// Returns a note about the previous session of this name, if this one replaces it.
std::string Sessions::remember(const Key& key, const sandbox::Registry::Ensured& made, std::chrono::milliseconds idle) {
  const auto now = Clock::now();
  std::string note;
  if (const auto known = known_.find(key); made.created && known != known_.end()) {
    const auto& before = known->second;
    const auto what = before.evicted ? std::string("was evicted, because the limit of sessions was reached")
                      : now - before.used >= before.idle
                          ? fmt::format("expired after {} s without use",
                                        std::chrono::ceil<std::chrono::seconds>(before.idle).count())
                          : std::string("was ended");
    note = fmt::format("Session {} {}; a new one was started", key.second, what);
  }
  if (known_.size() >= kMaxKnown && !known_.contains(key))
    known_.erase(std::ranges::min_element(known_, {}, [](const auto& entry) { return entry.second.used; }));
  auto& known = known_[key];
  known.used = now;
  known.idle = idle;
  known.evicted = false;
  return note;
}

Task<Result<Session>> Sessions::open_existing(Call& call, SessionArgument which) {
  if (!which.name.empty()) {
    COVE_CO_CHECK(co_await find(call, which.name, which.language));
  }
  const SessionWish wish{.only = which.name.empty() ? Existing::no : Existing::yes};
  co_return co_await open(call, which.name, which.language, wish);
}

Task<Result<std::shared_ptr<sandbox::Sandbox>>> Sessions::find(const Call& call, std::string name,
                                                               std::string language) {
  if (name.empty()) {
    const auto known = defaults_.find({call.connection, default_for(call, language)});
    if (call.connection.empty() || known == defaults_.end())
      co_return fail(Errc::not_found,
                     "There is no default session yet: execute_code and run_command start one. Or pass "
                     "a session_id.");
    name = known->second;
  }
  if (const auto checked = sandbox::checked_name(name); !checked) co_return tl::unexpected<Error>(checked.error());
  const auto found = co_await services_.registry.find(call.tenant, name);
  if (!found || hidden(call, name)) co_return unknown(name);
  co_return *found;
}

Task<Result<std::size_t>> Sessions::reset(Call& call, std::string name, std::string language) {
  std::vector<std::string> names;
  if (!name.empty()) {
    if (hidden(call, name)) co_return unknown(name);
    names.push_back(name);
  } else {
    for (const auto& [key, value] : defaults_) {
      const bool meant = language == "all" || key.second == default_for(call, language);
      if (key.first == call.connection && meant) names.push_back(value);
    }
  }
  const bool of_one_language = name.empty() && reads_old_form(call);
  std::size_t ended = 0;
  for (const auto& one : names) {
    const auto lock = co_await lock_session(call, call.tenant + "\n" + one);
    if (call.cancelled()) break;
    const auto found = co_await services_.registry.find(call.tenant, one);
    if (!found) continue;
    if (of_one_language || language == "all") {
      co_await services_.registry.remove(*found, "deleted", journal::actor_of(principal_of(call)));
      known_.erase(Key(call.tenant, one));
      ++ended;
    } else {
      ended += co_await end_interpreters(services_.registry.kernels(), *found, language);
    }
  }
  co_return ended;
}

bool Sessions::hidden(const Call& call, const std::string& name) const {
  return std::ranges::any_of(
      defaults_, [&](const auto& entry) { return entry.second == name && entry.first.first != call.connection; });
}

void Sessions::forget(const std::string& connection) {
  const auto end_it = [](Services* services, std::string tenant, std::string name) -> Task<> {
    const auto found = co_await services->registry.find(tenant, name);
    if (found) co_await services->registry.remove(*found, "deleted");
  };
  std::erase_if(defaults_, [&](const auto& entry) {
    if (entry.first.first != connection) return false;
    services_.tasks.spawn("end a default session", end_it(&services_, tenants_[connection], entry.second));
    return true;
  });
  tenants_.erase(connection);
  gone_.push_back(connection);
  if (gone_.size() > kMaxGone) gone_.pop_front();
}

}  // namespace cove::doors::mcp
