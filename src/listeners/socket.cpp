#include "listeners/socket.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace cove::listeners {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

Result<UniqueFd> listen_on(const config::Endpoint& endpoint, milliseconds patience) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  UniqueFd fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(errno, "make a socket");
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  socklen_t size = 0;
  bool parsed = false;
  if (v6) {
    auto& in = reinterpret_cast<sockaddr_in6&>(address);
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(endpoint.port);
    parsed = ::inet_pton(AF_INET6, endpoint.host.c_str(), &in.sin6_addr) == 1;
    size = sizeof in;
  } else {
    auto& in = reinterpret_cast<sockaddr_in&>(address);
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    parsed = ::inet_pton(AF_INET, endpoint.host.c_str(), &in.sin_addr) == 1;
    size = sizeof in;
  }
  if (!parsed) return fail(Errc::invalid, fmt::format("{} is not an address", endpoint.host));
  const auto until = Clock::now() + patience;
  while (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno != EADDRINUSE) return fail_errno(errno, "listen on {}", endpoint.text());
    if (Clock::now() >= until)
      return fail(Errc::conflict, fmt::format("listen on {}: {}", endpoint.text(), std::strerror(errno)));
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (::listen(fd.get(), 1024) != 0) return fail_errno(errno, "listen on {}", endpoint.text());
  return fd;
}

Result<std::vector<UniqueFd>> listen_on_all(std::vector<config::SandboxListener>& listeners, milliseconds patience) {
  std::vector<UniqueFd> sockets;
  for (auto& listener : listeners) {
    COVE_TRY(auto socket, listen_on(listener.endpoint, patience));
    listener.endpoint = bound_to(socket.get(), listener.endpoint);
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

std::optional<config::Endpoint> reachable_from_elsewhere(const config::Endpoint& main,
                                                         const std::vector<config::SandboxListener>& listeners) {
  if (!main.loopback()) return main;
  const auto found = std::ranges::find_if(listeners, [](const auto& one) { return !one.endpoint.loopback(); });
  return found == listeners.end() ? std::nullopt : std::optional(found->endpoint);
}

config::Endpoint bound_to(int listener, config::Endpoint endpoint) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    endpoint.port = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                                        : reinterpret_cast<sockaddr_in&>(address).sin_port);
  }
  return endpoint;
}

}  // namespace cove::listeners
