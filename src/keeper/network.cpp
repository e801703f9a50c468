#include "keeper/network.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "sys/local_routes.hpp"
#include "sys/process.hpp"
#include "sys/record.hpp"
#include "sys/redirects.hpp"
#include "sys/way_rules.hpp"
#include "wire/network_records.hpp"

namespace cove::keeper {
namespace {

constexpr unsigned kSeconds = 10;  // after which a helper that hangs is killed
constexpr int kBacklog = 256;

Result<wire::NetworkOrder> read_order(int memfd) {
  wire::NetworkOrder order;
  if (::pread(memfd, &order, sizeof order, 0) != static_cast<ssize_t>(sizeof order))
    return fail(Errc::invalid, "the network order is cut short");
  if (order.count > order.targets.size()) return fail(Errc::invalid, "too many network targets");
  for (const auto& target : std::span(order.targets).first(order.count)) {
    const bool known = (target.family == 4 && target.prefix <= 32) || (target.family == 6 && target.prefix <= 128);
    if (!known || target.first_port > target.last_port) return fail(Errc::invalid, "a network target is malformed");
  }
  return order;
}

// What the kernel of the sandbox is told besides the redirects.
struct Ways {
  std::set<sys::LocalRoute> routes;
  std::set<sys::WayRule> rules;
};

bool has_ipv6() {
  return static_cast<bool>(UniqueFd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)));
}

// Of a rule, 0 and 65535 are no ports. A range that covers everything between is any port.
sys::WayRule opening_of(const wire::NetworkTarget& target, std::uint8_t family) {
  sys::WayRule rule{.family = family, .prefix = target.prefix, .protocol = IPPROTO_TCP, .address = target.address};
  if (target.first_port <= 1 && target.last_port >= 65534) return rule;
  rule.first_port = std::clamp<std::uint16_t>(target.first_port, 1, 65534);
  rule.last_port = std::clamp<std::uint16_t>(target.last_port, 1, 65534);
  return rule;
}

void add_common_rules(Ways& ways, std::uint8_t family, wire::NetworkDns dns) {
  using Kind = sys::WayRule::Kind;
  ways.rules.insert({.kind = Kind::wall, .family = family});
  if (dns != wire::NetworkDns::every_address || family != AF_INET) return;
  ways.rules.insert({.kind = Kind::opening,
                     .family = family,
                     .protocol = IPPROTO_UDP,
                     .first_port = sys::kDnsPort,
                     .last_port = sys::kDnsPort});
}

bool closes_everything(const wire::NetworkOrder& order) {
  return order.count == 0 && order.sockets == wire::NetworkSockets::none;
}

Ways ways_of(const wire::NetworkOrder& order) {
  Ways ways;
  const bool six = has_ipv6();
  for (const auto& target : std::span(order.targets).first(order.count)) {
    const auto family = static_cast<std::uint8_t>(target.family == 4 ? AF_INET : AF_INET6);
    if (family == AF_INET6 && !six) continue;
    const bool opening = target.kind == wire::NetworkKind::opening;
    ways.routes.insert({.family = family,
                        .prefix = target.prefix,
                        .kind = opening ? sys::LocalRoute::Kind::local : sys::LocalRoute::Kind::excepted,
                        .address = target.address});
    if (opening) ways.rules.insert(opening_of(target, family));
  }
  if (closes_everything(order)) return ways;
  add_common_rules(ways, AF_INET, order.dns);
  if (six) add_common_rules(ways, AF_INET6, order.dns);
  return ways;
}

std::vector<sys::Redirect> redirects_of(const wire::NetworkOrder& order) {
  std::vector<sys::Redirect> redirects;
  for (const auto& target : std::span(order.targets).first(order.count)) {
    if (target.kind != wire::NetworkKind::opening) continue;
    redirects.push_back({.family = static_cast<std::uint8_t>(target.family == 4 ? AF_INET : AF_INET6),
                         .prefix = target.prefix,
                         .first_port = target.first_port,
                         .last_port = target.last_port,
                         .address = target.address});
  }
  return redirects;
}

// Removes or adds what it remembers, in the opposite order, unless told to keep it.
class Undo {
 public:
  void remember(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void keep() { steps_.clear(); }
  ~Undo() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) (*step)();
  }

 private:
  std::vector<std::function<void()>> steps_;
};

// New routes and rules first and old ones last, with the redirects in between, which change at once: what is allowed
// before and after is never cut off, and a failure leaves everything as it was.
Result<> change_ways(const wire::NetworkOrder& order) {
  COVE_TRY(const auto routes_before, sys::local_routes());
  COVE_TRY(const auto rules_before, sys::way_rules());
  const auto wanted = ways_of(order);
  Undo undo;
  for (const auto& route : wanted.routes) {
    if (routes_before.contains(route)) continue;
    COVE_CHECK(sys::add_local_route(route));
    undo.remember([route] { [[maybe_unused]] const auto removed = sys::remove_local_route(route); });
  }
  for (const auto& rule : wanted.rules) {
    if (rules_before.contains(rule)) continue;
    COVE_CHECK(sys::add_way_rule(rule));
    undo.remember([rule] { [[maybe_unused]] const auto removed = sys::remove_way_rule(rule); });
  }
  const auto dns = order.dns == wire::NetworkDns::every_address ? sys::DnsRedirect::yes : sys::DnsRedirect::no;
  COVE_CHECK(closes_everything(order) ? sys::remove_redirects() : sys::set_redirects(redirects_of(order), dns));
  undo.keep();
  for (const auto& rule : rules_before) {
    if (!wanted.rules.contains(rule)) COVE_CHECK(sys::remove_way_rule(rule));
  }
  for (const auto& route : routes_before) {
    if (!wanted.routes.contains(route)) COVE_CHECK(sys::remove_local_route(route));
  }
  return {};
}

// On the loopback address of this namespace.
Result<UniqueFd> socket_at(int family, int type, std::uint16_t port) {
  UniqueFd socket(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, "make a socket in the sandbox's network");
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  six.sin6_addr = in6addr_loopback;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_six = family == AF_INET6;
  const auto* address = is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  if (::bind(socket.get(), address, is_six ? sizeof six : sizeof four) != 0)
    return fail_errno(errno, "bind port {} in the sandbox's network", port);
  if (type == SOCK_STREAM && ::listen(socket.get(), kBacklog) != 0) return fail_errno(errno, "listen on port {}", port);
  return socket;
}

Result<std::vector<UniqueFd>> make_sockets(wire::NetworkAnswer& answer) {
  std::vector<UniqueFd> sockets;
  COVE_TRY(auto relay, socket_at(AF_INET, SOCK_STREAM, sys::kRelayPort));
  sockets.push_back(std::move(relay));
  if (has_ipv6()) {
    COVE_TRY(auto relay6, socket_at(AF_INET6, SOCK_STREAM, sys::kRelayPort));
    sockets.push_back(std::move(relay6));
    answer.has_relay6 = 1;
  }
  COVE_TRY(auto dns, socket_at(AF_INET, SOCK_DGRAM, sys::kDnsPort));
  sockets.push_back(std::move(dns));
  COVE_TRY(auto dns_tcp, socket_at(AF_INET, SOCK_STREAM, sys::kDnsPort));
  sockets.push_back(std::move(dns_tcp));
  // A program may have taken this port before there was a network.
  if (auto proxy = socket_at(AF_INET, SOCK_STREAM, wire::kProxyPort)) {
    sockets.push_back(std::move(*proxy));
    answer.has_proxy = 1;
  }
  return sockets;
}

// An address that no policy opens must be unreachable, or something in here does not hold (docs/attacks.md NW-25).
Result<> verify() {
  const UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in closed{};
  closed.sin_family = AF_INET;
  closed.sin_port = htons(443);
  closed.sin_addr.s_addr = htonl(0xC6130001);  // 198.19.0.1
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&closed), sizeof closed) == 0 || errno != ENETUNREACH)
    return fail(Errc::io, "an address that must be unreachable is not: the network stays closed");
  return {};
}

Result<std::vector<UniqueFd>> carry_out(int init_pidfd, int order_fd, wire::NetworkAnswer& answer) {
  if (::setns(init_pidfd, CLONE_NEWNET) != 0) return fail_errno(errno, "enter the sandbox's network");
  COVE_TRY(const auto order, read_order(order_fd));
  std::vector<UniqueFd> sockets;
  if (order.sockets == wire::NetworkSockets::wanted) {
    COVE_TRY(sockets, make_sockets(answer));
  }
  COVE_CHECK(change_ways(order));
  COVE_CHECK(verify());
  return sockets;
}

[[noreturn]] void help(int init_pidfd, int order, int answer_fd) {
  ::prctl(PR_SET_NAME, "cove-network");
  ::alarm(kSeconds);
  // The keeper's other descriptors are not for here. The copies have rising numbers.
  std::array<int, 3> kept{init_pidfd, order, answer_fd};
  unsigned next = 3;
  for (int& fd : kept) fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 100);
  for (const int fd : kept) {
    ::syscall(SYS_close_range, next, static_cast<unsigned>(fd) - 1, 0);
    next = static_cast<unsigned>(fd) + 1;
  }
  ::syscall(SYS_close_range, next, ~0U, 0);
  wire::NetworkAnswer answer;
  const auto sockets = carry_out(kept[0], kept[1], answer);
  std::vector<int> fds;
  if (sockets) {
    answer.done = 1;
    for (const auto& socket : *sockets) fds.push_back(socket.get());
  } else {
    answer.code = sockets.error().code;
    answer.sys_errno = sockets.error().sys_errno;
    const auto& text = sockets.error().message;
    std::memcpy(answer.message, text.data(), std::min(text.size(), sizeof answer.message - 1));
  }
  sys::send_record(kept[2], std::as_bytes(std::span(&answer, 1)), fds);
  ::_exit(0);
}

}  // namespace

Result<> NetworkHelpers::start(int init_pidfd, UniqueFd order, UniqueFd answer) {
  auto clone = sys::clone_process({});
  if (clone.pid < 0) return fail_errno(errno, "start a process that enters the sandbox's network");
  if (clone.pid == 0) help(init_pidfd, order.get(), answer.get());
  poller_.add(clone.pidfd.get(), {.source = Poller::Source::network});
  running_.insert(std::move(clone.pidfd));
  return {};
}

void NetworkHelpers::reap() {
  for (auto one = running_.begin(); one != running_.end();) {
    siginfo_t info{};
    const bool ended =
        ::waitid(P_PIDFD, static_cast<id_t>(one->get()), &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0;
    if (ended) poller_.remove(one->get());
    one = ended ? running_.erase(one) : std::next(one);
  }
}

}  // namespace cove::keeper
