#include "server/host_launch.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>

#include "async/readiness.hpp"
#include "mcp/client/host_pipes.hpp"
#include "sys/record.hpp"

namespace cove::server {
namespace {

using async::Task;
using mcp::client::Pipes;

Task<Result<std::unique_ptr<Pipes>>> start_on_host(boost::asio::any_io_executor executor, SupervisorLink& link,
                                                   std::string name) {
  wire::SupervisorRequest request{.verb = wire::SupervisorVerb::start_host_server};
  if (name.size() >= sizeof request.packages) co_return fail(Errc::invalid, "the name of the server is too long");
  ::memcpy(request.packages, name.data(), name.size());
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    co_return fail_errno(errno, "socketpair");
  const UniqueFd own(ends[0]);
  UniqueFd theirs(ends[1]);
  ::fcntl(own.get(), F_SETFL, O_NONBLOCK);
  if (const auto asked = link.ask(request, sys::descriptors(std::move(theirs))); !asked)
    co_return tl::unexpected<Error>(asked.error());
  async::Readiness readiness(executor, own.get());
  wire::HostServerAnswer answer;
  std::vector<UniqueFd> fds;
  ssize_t size = -1;
  // A supervisor that dies takes this process along; one that does not answer closes the socket.
  while (size < 0 && co_await readiness.readable()) {
    size = sys::receive_record(own.get(), std::as_writable_bytes(std::span(&answer, 1)), fds);
    if (size < 0 && errno != EAGAIN && errno != EINTR) break;
  }
  answer.why[sizeof answer.why - 1] = '\0';
  if (size == static_cast<ssize_t>(sizeof answer) && answer.why[0] != '\0')
    co_return fail(Errc::unsupported, std::string(answer.why));
  if (size != static_cast<ssize_t>(sizeof answer) || fds.size() != 4)
    co_return fail(Errc::unavailable, "the supervisor could not start the server on the host");
  mcp::client::HostEnds pipes{.input = std::move(fds[0]),
                              .output = std::move(fds[1]),
                              .errors = std::move(fds[2]),
                              .control = std::move(fds[3])};
  co_return mcp::client::make_host_pipes(executor, std::move(pipes));
}

}  // namespace

mcp::client::Launch launch_on_host(boost::asio::any_io_executor executor, SupervisorLink& link, std::string name) {
  return [executor, &link, name](mcp::client::ServerConfig) { return start_on_host(executor, link, name); };
}

}  // namespace cove::server
