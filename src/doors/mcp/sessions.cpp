#include "doors/mcp/sessions.hpp"

#include <fmt/format.h>

#include <deque>

#include "base/random.hpp"
#include "doors/mcp/workplace.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::mcp {
namespace {

using cove::mcp::Call;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::hours kIdle{1};

std::string random_name() {
  return fmt::format("mcp-{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
}

sandbox::CreateRequest request_for(const config::Config& config, const std::string& tenant, std::string name) {
  sandbox::CreateRequest request;
  request.tenant = tenant;
  request.name = std::move(name);
  request.ttl = kIdle;
  request.limits = sandbox_limits(config);
  return request;
}

}  // namespace

// Those who want to run in one session, first come first served.
struct Sessions::Lane {
  explicit Lane(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
  async::Signal changed;
  std::deque<std::uint64_t> waiting;
  std::uint64_t next = 0;
};

Task<std::shared_ptr<void>> Sessions::take_turn(Call& call, std::string key) {
  std::erase_if(lanes_, [](const auto& lane) { return lane.second.expired(); });
  auto lane = lanes_[key].lock();
  if (!lane) lanes_[key] = lane = std::make_shared<Lane>(co_await boost::asio::this_coro::executor);
  const auto number = lane->next++;
  lane->waiting.push_back(number);
  const auto leave = [number](Lane* of) {
    std::erase(of->waiting, number);
    of->changed.notify_all();
  };
  std::shared_ptr<void> turn(lane.get(), [lane, leave](void*) { leave(lane.get()); });
  while (lane->waiting.front() != number && !call.cancelled())
    co_await lane->changed.wait_until(Clock::now() + std::chrono::milliseconds(250));
  co_return turn;
}

std::string Sessions::default_name(const Call& call, const std::string& language) {
  if (call.connection.empty()) return random_name();
  tenants_[call.connection] = call.tenant;
  auto& name = defaults_[{call.connection, language}];
  if (name.empty()) name = random_name();
  return name;
}

Task<Result<Session>> Sessions::open(Call& call, std::string name, std::string language) {
  if (services_.draining()) co_return fail(Errc::unavailable, "the server is shutting down");
  if (name.empty()) name = default_name(call, language);
  if (const auto checked = sandbox::checked_name(name); !checked) co_return tl::unexpected<Error>(checked.error());
  auto turn = co_await take_turn(call, call.tenant + "\n" + name);
  if (call.cancelled()) co_return fail(Errc::unavailable, "the call was cancelled");
  const auto config = services_.config();
  auto made = co_await services_.registry.ensure(request_for(*config, call.tenant, name),
                                                 sandbox_share(services_, call), sandbox::IfThere::keep);
  if (!made) co_return tl::unexpected<Error>(made.error());
  co_return Session{.id = name,
                    .sandbox = made->sandbox,
                    .activity = sandbox::Sandbox::Activity(made->sandbox),
                    .turn = std::move(turn),
                    .fresh = made->created};
}

Task<Result<Session>> Sessions::open_existing(Call& call, std::string name, std::string language) {
  if (!name.empty()) {
    const auto there = co_await find(call, name, language);
    if (!there) co_return tl::unexpected<Error>(there.error());
  }
  co_return co_await open(call, std::move(name), std::move(language));
}

Task<Result<std::shared_ptr<sandbox::Sandbox>>> Sessions::find(const Call& call, std::string name,
                                                               std::string language) {
  if (name.empty()) {
    const auto known = defaults_.find({call.connection, language});
    if (call.connection.empty() || known == defaults_.end())
      co_return fail(Errc::not_found, fmt::format("There is no session of {} yet. Give a session_id.", language));
    name = known->second;
  }
  if (const auto checked = sandbox::checked_name(name); !checked) co_return tl::unexpected<Error>(checked.error());
  const auto found = co_await services_.registry.find(call.tenant, name);
  if (!found)
    co_return fail(Errc::not_found,
                   fmt::format("Unknown session: {}. It may have expired; list_sessions shows those there are.", name));
  co_return *found;
}

Task<Result<std::size_t>> Sessions::reset(Call& call, std::string name, std::string language) {
  std::vector<std::string> names;
  if (!name.empty()) {
    names.push_back(name);
  } else {
    for (const auto& [key, value] : defaults_) {
      if (key.first == call.connection && (language == "all" || key.second == language)) names.push_back(value);
    }
  }
  std::size_t ended = 0;
  for (const auto& one : names) {
    const auto turn = co_await take_turn(call, call.tenant + "\n" + one);
    if (call.cancelled()) break;
    const auto found = co_await services_.registry.find(call.tenant, one);
    if (!found) continue;
    co_await services_.registry.remove(*found, "deleted");
    ++ended;
  }
  co_return ended;
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
}

}  // namespace cove::doors::mcp
