#include "outbound/resolver.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstring>
#include <deque>
#include <map>
#include <optional>

#include "async/signal.hpp"

namespace cove::outbound {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

// How long name servers are asked is set for each thread (resolv.conf(5): timeout and attempts). Read anew every time,
// since what was set by a program is not replaced when the file changes. Of two rounds the second waits twice as long.
void limit_patience(std::chrono::milliseconds timeout) {
  if (::res_init() != 0) return;
  constexpr int kRounds = 2;
  _res.retry = kRounds;
  _res.retrans = static_cast<int>(std::max<std::int64_t>(1, timeout.count() / 3000));
}

}  // namespace

Result<Addresses> Resolver::ask_system(const std::string& host, std::chrono::milliseconds timeout) {
  limit_patience(timeout);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed != 0) return fail(Errc::unavailable, fmt::format("{} has no address: {}", host, ::gai_strerror(failed)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  Addresses addresses;
  for (const auto* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET) {
      sockaddr_in in{};
      std::memcpy(&in, entry->ai_addr, sizeof in);
      addresses.emplace_back(asio::ip::address_v4(ntohl(in.sin_addr.s_addr)));
    } else if (entry->ai_family == AF_INET6) {
      sockaddr_in6 in{};
      std::memcpy(&in, entry->ai_addr, sizeof in);
      asio::ip::address_v6::bytes_type bytes{};
      std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
      addresses.emplace_back(asio::ip::address_v6(bytes, in.sin6_scope_id));
    }
  }
  return addresses;
}

struct Resolver::Lookup {
  Lookup(const asio::any_io_executor& executor, std::string name) : host(std::move(name)), done(executor) {}
  std::string host;
  std::optional<Result<Addresses>> answer;
  async::Signal done;
};

// Touched by the loop alone: a thread hands its answer over by posting.
struct Resolver::State : std::enable_shared_from_this<Resolver::State> {
  struct Line {
    std::deque<std::shared_ptr<Lookup>> waiting;
    std::size_t running = 0;
  };
  using Lines = std::map<std::string, Line>;

  State(asio::any_io_executor loop, Options limits, LookUp how)
      : executor(std::move(loop)), options(limits), look_up(std::move(how)) {}

  // The tenant after the one whose turn it was, among those that wait and use the least.
  Lines::iterator next() {
    auto best = lines.end();
    auto line = lines.upper_bound(last);
    for (std::size_t n = 0; n < lines.size(); ++n, ++line) {
      if (line == lines.end()) line = lines.begin();
      const auto& [tenant, of_tenant] = *line;
      if (of_tenant.waiting.empty() || of_tenant.running >= options.tenant_running) continue;
      if (best == lines.end() || of_tenant.running < best->second.running) best = line;
    }
    return best;
  }

  void start() {
    while (running < options.max_running) {
      const auto line = next();
      if (line == lines.end()) return;
      last = line->first;
      begin(line->first, line->second);
    }
  }

  void begin(const std::string& tenant, Line& line) {
    auto lookup = line.waiting.front();
    line.waiting.pop_front();
    --waiting;
    ++line.running;
    ++running;
    ++counters.begun;
    if (!threads) threads = std::make_unique<asio::thread_pool>(options.max_running);
    // No copy of the state goes to the thread: the last one would wait there for the thread itself.
    asio::post(*threads, [weak = weak_from_this(), loop = executor, how = look_up, timeout = options.timeout, tenant,
                          host = lookup->host, lookup]() mutable {
      auto answer = how(host, timeout);
      asio::post(loop,
                 [weak = std::move(weak), tenant, lookup = std::move(lookup), answer = std::move(answer)]() mutable {
                   lookup->answer = std::move(answer);
                   lookup->done.notify_all();
                   if (const auto state = weak.lock()) state->finish(tenant);
                 });
    });
  }

  void finish(const std::string& tenant) {
    --running;
    --lines.at(tenant).running;
    tidy(tenant);
    start();
  }

  void leave(const std::string& tenant, const std::shared_ptr<Lookup>& lookup) {
    const auto line = lines.find(tenant);
    if (line == lines.end()) return;
    const auto found = std::ranges::find(line->second.waiting, lookup);
    if (found == line->second.waiting.end()) return;
    line->second.waiting.erase(found);
    --waiting;
    tidy(tenant);
  }

  void tidy(const std::string& tenant) {
    const auto line = lines.find(tenant);
    if (line->second.waiting.empty() && line->second.running == 0) lines.erase(line);
  }

  asio::any_io_executor executor;
  Options options;
  LookUp look_up;
  Lines lines;
  std::size_t running = 0;
  std::size_t waiting = 0;
  std::string last;
  Counters counters;
  std::unique_ptr<asio::thread_pool> threads;
};

Resolver::Resolver(asio::any_io_executor executor, Options options, LookUp look_up)
    : state_(std::make_shared<State>(std::move(executor), options, std::move(look_up))) {}

Resolver::~Resolver() = default;

std::size_t Resolver::running() const {
  return state_->running;
}

std::size_t Resolver::waiting() const {
  return state_->waiting;
}

const Resolver::Counters& Resolver::counters() const {
  return state_->counters;
}

async::Task<Result<Addresses>> Resolver::resolve(std::string host, std::string tenant,
                                                 std::chrono::steady_clock::time_point until) {
  boost::system::error_code not_literal;
  const auto literal = asio::ip::make_address(host, not_literal);
  if (!not_literal) co_return Addresses{literal};
  auto& state = *state_;
  auto& line = state.lines[tenant];
  // One that would begin at once does not wait.
  const bool at_once =
      line.waiting.empty() && line.running < state.options.tenant_running && state.running < state.options.max_running;
  const bool too_many_own = line.waiting.size() >= state.options.tenant_waiting;
  if (!at_once && (too_many_own || state.waiting >= state.options.max_waiting)) {
    ++state.counters.refused;
    state.tidy(tenant);
    co_return fail(Errc::unavailable, fmt::format("too many names are being looked up (outbound.{}_lookup_queue)",
                                                  too_many_own ? "tenant" : "max"));
  }
  const auto lookup = std::make_shared<Lookup>(state.executor, host);
  line.waiting.push_back(lookup);
  ++state.waiting;
  // Leaves the line on every way out, also when this task is cancelled or outlives us.
  struct Leaving {
    std::weak_ptr<State> state;
    const std::string& tenant;
    const std::shared_ptr<Lookup>& lookup;
    ~Leaving() {
      if (const auto held = state.lock()) held->leave(tenant, lookup);
    }
  } const leaving{state_, tenant, lookup};
  state.start();
  until = std::min(until, Clock::now() + state.options.timeout);
  while (!lookup->answer) {
    const bool told = co_await lookup->done.wait_until(until);
    if (told || lookup->answer) continue;
    ++state.counters.timed_out;
    co_return tl::unexpected<Error>(Error{.code = Errc::unavailable,
                                          .message = fmt::format("{} was not looked up in time", host),
                                          .sys_errno = ETIMEDOUT});
  }
  co_return std::move(*lookup->answer);
}

}  // namespace cove::outbound
