#include "egress/relay.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "async/deadline.hpp"
#include "egress/carry.hpp"
#include "egress/destination.hpp"
#include "egress/dial.hpp"
#include "egress/intercept.hpp"
#include "egress/sandbox_egress.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
namespace ip = asio::ip;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::seconds kDialPatience{20};
constexpr int kOriginalDestination = 80;  // SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST

Task<> serve_connection(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow) {
  const auto meant = egress->common.original_destination(flow->client.native_handle());
  if (!meant) {
    egress->refuse(*flow, {.verdict = Verdict::denied, .rule = "unknown destination"});
    co_return;
  }
  if (!set_destination(*egress, *flow, meant->address(), meant->port())) {
    auto decision = flow->decision;
    egress->refuse(*flow, std::move(decision));
    co_return;
  }
  const auto dialled = co_await dial(egress, flow, Clock::now() + kDialPatience);
  if (!dialled) {
    flow->cut(dialled.error().code == Errc::denied ? flow->decision.rule : dialled.error().message);
    co_return;
  }
  if (adds_headers(*egress, *flow))
    co_await intercept(egress, flow, {});
  else
    co_await carry(egress, flow, {});
}

}  // namespace

Result<ip::tcp::endpoint> original_destination(int socket) {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&local), &size) != 0)
    return fail_errno(errno, "ask for the address of a connection");
  if (local.ss_family == AF_INET) {
    sockaddr_in in{};
    size = sizeof in;
    if (::getsockopt(socket, SOL_IP, kOriginalDestination, &in, &size) != 0)
      return fail_errno(errno, "ask for the destination of a connection");
    return ip::tcp::endpoint(ip::address_v4(ntohl(in.sin_addr.s_addr)), ntohs(in.sin_port));
  }
  sockaddr_in6 in{};
  size = sizeof in;
  if (::getsockopt(socket, SOL_IPV6, kOriginalDestination, &in, &size) != 0)
    return fail_errno(errno, "ask for the destination of a connection");
  ip::address_v6::bytes_type bytes{};
  std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
  return ip::tcp::endpoint(ip::address_v6(bytes), ntohs(in.sin6_port));
}

Task<> accept_all(std::shared_ptr<SandboxEgress> egress, ip::tcp::acceptor& acceptor, AuditKind kind,
                  std::function<Task<>(std::shared_ptr<SandboxEgress>, std::shared_ptr<Flow>)> serve) {
  while (acceptor.is_open()) {
    while (const auto later = egress->meter.next_connection(Clock::now())) co_await async::sleep_until(*later);
    auto [failed, socket] = co_await acceptor.async_accept(kTuple);
    if (failed == asio::error::operation_aborted || failed == asio::error::bad_descriptor) co_return;
    if (failed) {
      // No descriptors, or no memory: later perhaps.
      co_await async::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    if (auto flow = egress->admit(std::move(socket), kind)) {
      auto served = serve(egress, std::move(flow));
      egress->tasks.spawn("connection", std::move(served));
    }
  }
}

Task<> serve_relay(std::shared_ptr<SandboxEgress> egress, ip::tcp::acceptor& acceptor) {
  co_await accept_all(std::move(egress), acceptor, AuditKind::connect, serve_connection);
}

}  // namespace cove::egress
