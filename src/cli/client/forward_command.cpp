#include "cli/client/forward_command.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <list>

#include "cli/console.hpp"
#include "cli/interrupt.hpp"
#include "client/websocket.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::Opcode;

constexpr std::size_t kUnsentLimit = 256U << 10;  // of one direction of one connection
constexpr std::size_t kPiece = 64U << 10;
constexpr std::size_t kMaxConnections = 256;
constexpr int kNothingListens = 1;  // what /cove/bin/connect exits with

struct ForwardArguments : ClientOptions {
  std::string id, ports;
  std::string address = "127.0.0.1";
};

struct Ports {
  std::uint16_t local = 0;
  std::uint16_t inside = 0;
};

Result<std::uint16_t> port_of(std::string_view text, std::uint16_t least) {
  std::uint16_t port = 0;
  const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (wrong != std::errc() || rest != text.data() + text.size() || port < least)
    return fail(Errc::invalid, fmt::format("\"{}\" is not a port: give PORT, or LOCAL:PORT", text));
  return port;
}

Result<Ports> parse_ports(std::string_view text) {
  Ports ports;
  const auto colon = text.find(':');
  COVE_TRY(ports.inside, port_of(colon == std::string_view::npos ? text : text.substr(colon + 1), 1));
  ports.local = ports.inside;
  if (colon != std::string_view::npos) {
    COVE_TRY(ports.local, port_of(text.substr(0, colon), 0));
  }
  return ports;
}

Result<UniqueFd> listen_on(const std::string& address, std::uint16_t& port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1)
    return fail(Errc::invalid, fmt::format("--address: \"{}\" is not an IPv4 address", address));
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(errno, "make a socket");
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  auto* plain = reinterpret_cast<sockaddr*>(&where);
  if (::bind(fd.get(), plain, sizeof where) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return fail_errno(errno, "listen on {}:{} (0:PORT takes any free port)", address, port);
  socklen_t size = sizeof where;
  if (::getsockname(fd.get(), plain, &size) != 0) return fail_errno(errno, "look up the port");
  port = ntohs(where.sin_port);
  return fd;
}

// A connection of this machine, and the WebSocket that leads it into the sandbox.
class Tunnel {
 public:
  Tunnel(UniqueFd local, client::WebSocket remote) : local_(std::move(local)), remote_(std::move(remote)) {}

  [[nodiscard]] pollfd local_poll() const {
    const bool reads = local_open_ && remote_.unsent() < kUnsentLimit;
    const auto events = static_cast<short>((reads ? POLLIN : 0) | (unsent_.empty() ? 0 : POLLOUT));
    return {.fd = events != 0 ? local_.get() : -1, .events = events, .revents = 0};
  }
  [[nodiscard]] pollfd remote_poll() const {
    const bool reads = !ended_ && unsent_.size() < kUnsentLimit;
    const auto events = static_cast<short>((reads ? POLLIN : 0) | (remote_.wants_write() ? POLLOUT : 0));
    return {.fd = events != 0 ? remote_.fd() : -1, .events = events, .revents = 0};
  }

  // False when it is over.
  Result<bool> turn(const pollfd& local, const pollfd& remote) {
    if ((local.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && local_open_) read_local();
    if (remote.revents != 0 && !ended_ && unsent_.size() < kUnsentLimit) COVE_CHECK(take_messages());
    if (!unsent_.empty() && !write_local()) return false;
    if (!ended_) COVE_CHECK(remote_.flush());
    return !(ended_ && unsent_.empty());
  }
  // What the way into the sandbox ended with: 0, or why it did not come about.
  [[nodiscard]] std::int64_t status() const { return status_; }

 private:
  void read_local() {
    std::array<char, kPiece> piece;
    const auto n = ::read(local_.get(), piece.data(), piece.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) return remote_.send(Opcode::binary, {piece.data(), static_cast<std::size_t>(n)});
    local_open_ = false;
    remote_.send(Opcode::text, R"({"type":"eof"})");
  }
  Result<> take_messages() {
    COVE_TRY(const auto messages, remote_.receive());
    for (const auto& message : messages) {
      if (!message.text) {
        unsent_ += message.data;
        continue;
      }
      COVE_TRY(const auto object, object_of(message.data));
      if (text_of(object, "type") != "end") continue;
      status_ = number_of(object, "exitCode");
      ended_ = true;
    }
    ended_ = ended_ || remote_.closed();
    return {};
  }
  bool write_local() {
    const auto n = ::send(local_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    unsent_.erase(0, static_cast<std::size_t>(n));
    return true;
  }

  UniqueFd local_;
  client::WebSocket remote_;
  std::string unsent_;  // to the local side
  bool local_open_ = true;
  bool ended_ = false;
  std::int64_t status_ = 0;
};

class Forward {
 public:
  Forward(const ForwardArguments& arguments, client::Client& client, Ports ports)
      : arguments_(arguments), client_(client), ports_(ports) {}

  Result<> run() {
    COVE_TRY(const auto listener, listen_on(arguments_.address, ports_.local));
    tell("forwarding {}:{} to port {} of {}; Ctrl-C ends it", arguments_.address, ports_.local, ports_.inside,
         arguments_.id);
    Interrupt signals;
    std::vector<pollfd> polls;
    while (true) {
      polls.assign({{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                    {.fd = tunnels_.size() < kMaxConnections ? listener.get() : -1, .events = POLLIN, .revents = 0}});
      for (const auto& tunnel : tunnels_) {
        polls.push_back(tunnel.local_poll());
        polls.push_back(tunnel.remote_poll());
      }
      if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return fail_errno(errno, "poll");
      if (polls[0].revents != 0) return {};
      turn_tunnels(polls);
      if (polls[1].revents != 0) COVE_CHECK(accept(listener.get()));
    }
  }

 private:
  void turn_tunnels(const std::vector<pollfd>& polls) {
    std::size_t at = 2;
    for (auto tunnel = tunnels_.begin(); tunnel != tunnels_.end(); at += 2) {
      const auto goes_on = tunnel->turn(polls[at], polls[at + 1]);
      if (goes_on && *goes_on) {
        ++tunnel;
        continue;
      }
      if (!goes_on) tell("a connection was cut off: {}", goes_on.error().message);
      if (tunnel->status() == kNothingListens) tell("nothing listens on port {} in {}", ports_.inside, arguments_.id);
      tunnel = tunnels_.erase(tunnel);
    }
  }
  // A sandbox that is gone ends everything; a connection that left again ends itself.
  Result<> accept(int listener) {
    UniqueFd local(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!local) return {};
    const auto target = client::sandbox_target(arguments_.id, fmt::format("/ports/{}", ports_.inside)).text();
    COVE_TRY(auto remote, client::WebSocket::open(client_.options(), target));
    tunnels_.emplace_back(std::move(local), std::move(remote));
    return {};
  }

  const ForwardArguments& arguments_;
  client::Client& client_;
  Ports ports_;
  std::list<Tunnel> tunnels_;
};

Result<> forward(const ForwardArguments& arguments) {
  COVE_TRY(const auto ports, parse_ports(arguments.ports));
  COVE_TRY(auto client, connect(arguments));
  COVE_CHECK(client.ask({.method = "GET", .target = client::sandbox_target(arguments.id, "").text()}));
  return Forward(arguments, client, ports).run();
}

}  // namespace

void add_forward_command(App& app, Commands& commands) {
  auto* command = app.add_subcommand("forward", "Reach a server in a sandbox through a port of this machine");
  const auto a = std::make_shared<ForwardArguments>();
  command->add_option("id", a->id, "Sandbox id")->required();
  command->add_option("port", a->ports, "Port in the sandbox; LOCAL:PORT for another one here, 0 for any")->required();
  command->add_option("--address", a->address, "Address of this machine to listen on")->capture_default_str();
  command->footer(
      "The sandbox needs no network for it.\n"
      "Examples:\n"
      "  cove exec --detach demo -- python3 -m http.server 8080\n"
      "  cove forward demo 8080\n"
      "  cove forward demo 3000:8080");
  describe(*command, *a, "ID PORT");
  commands.push_back({command, [a](const AfterDashes&) {
                        const auto done = forward(*a);
                        return done ? 0 : report_error(*a, done.error());
                      }});
}

}  // namespace cove::cli
