#include "network/kernel_order.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "async/readiness.hpp"
#include "async/signal.hpp"
#include "egress/network_order.hpp"
#include "sys/record.hpp"

namespace cove::network {
namespace {

async::Task<Result<std::vector<UniqueFd>>> carry_out(std::shared_ptr<sandbox::Sandbox> sandbox,
                                                     const wire::NetworkOrder& order, wire::NetworkAnswer& answer) {
  UniqueFd memory(::memfd_create("network", MFD_CLOEXEC));
  if (!memory || ::write(memory.get(), &order, sizeof order) != static_cast<ssize_t>(sizeof order))
    co_return fail_errno(errno, "write down the order for the keeper");
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    co_return fail_errno(errno, "socketpair");
  const UniqueFd own(ends[0]);
  UniqueFd theirs(ends[1]);
  async::Readiness readiness(sandbox->executor(), own.get());
  COVE_CO_CHECK(co_await sandbox->order_network(std::move(memory), std::move(theirs)));
  // The end of the helper is the end of the other side: this never waits for nothing.
  while (co_await readiness.readable()) {
    std::vector<UniqueFd> sockets;
    const auto n = sys::receive_record(own.get(), std::as_writable_bytes(std::span(&answer, 1)), sockets);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n != static_cast<ssize_t>(sizeof answer)) break;
    if (answer.done != 0) co_return sockets;
    co_return tl::unexpected<Error>(
        Error{.code = Errc::unavailable,
              .message = std::string(answer.message, ::strnlen(answer.message, sizeof answer.message)),
              .sys_errno = answer.sys_errno});
  }
  co_return fail(Errc::unavailable, "the network of the sandbox could not be changed");
}

}  // namespace

async::Task<Result<Sockets>> order_ways(std::shared_ptr<sandbox::Sandbox> sandbox, egress::Policy policy,
                                        wire::NetworkSockets wanted) {
  COVE_CO_TRY(const auto order, egress::network_order(policy, wanted));
  wire::NetworkAnswer answer;
  COVE_CO_TRY(auto made, co_await carry_out(sandbox, order, answer));
  Sockets sockets;
  if (wanted == wire::NetworkSockets::none) co_return sockets;
  if (made.size() != 3U + (answer.has_relay6 != 0 ? 1 : 0) + (answer.has_proxy != 0 ? 1 : 0))
    co_return fail(Errc::io, "a socket of the sandbox's network is missing");
  auto next = made.begin();
  sockets.relay = std::move(*next++);
  sockets.relay6 =
      answer.has_relay6 != 0 ? std::move(*next++) : UniqueFd(::fcntl(sockets.relay.get(), F_DUPFD_CLOEXEC, 3));
  sockets.dns = std::move(*next++);
  sockets.dns_tcp = std::move(*next++);
  if (answer.has_proxy != 0) sockets.proxy = std::move(*next);
  co_return sockets;
}

async::Task<Result<>> order_no_ways(std::shared_ptr<sandbox::Sandbox> sandbox) {
  const wire::NetworkOrder nothing;
  wire::NetworkAnswer answer;
  const auto done = co_await carry_out(sandbox, nothing, answer);
  if (!done) co_return tl::unexpected<Error>(done.error());
  co_return Result<>();
}

}  // namespace cove::network
