// connect PORT: a connection to 127.0.0.1:PORT, or to [::1]:PORT, as standard input and output. Exits with 0 when both
// directions have ended, with 1 when nothing listens there.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace {

int dial(std::uint16_t port) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  six.sin6_addr = in6addr_loopback;
  struct Way {
    const void* address;
    socklen_t size;
    int family;
  };
  for (const auto& way : {Way{&four, sizeof four, AF_INET}, Way{&six, sizeof six, AF_INET6}}) {
    const int fd = ::socket(way.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    if (::connect(fd, static_cast<const sockaddr*>(way.address), way.size) == 0) return fd;
    ::close(fd);
  }
  return -1;
}

// One direction, and what of it was read and not yet written.
struct Direction {
  int from;
  int to;
  bool open = true;
  std::array<char, 64U << 10> bytes{};
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] bool waiting() const { return begin < end; }
  [[nodiscard]] short wants_in() const { return open && !waiting() ? POLLIN : 0; }
  [[nodiscard]] short wants_out() const { return waiting() ? POLLOUT : 0; }

  // False at the end of what comes.
  bool read_some() {
    const auto n = ::read(from, bytes.data(), bytes.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    open = n > 0;
    begin = 0;
    end = n > 0 ? static_cast<std::size_t>(n) : 0;
    return open;
  }
  // False when nobody takes it any more.
  bool write_some() {
    const auto n = ::write(to, bytes.data() + begin, end - begin);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    begin += static_cast<std::size_t>(n);
    return true;
  }
};

void relay(int socket) {
  // Neither side may hold up the other direction.
  for (const int fd : {socket, STDIN_FILENO, STDOUT_FILENO}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  static Direction in{.from = STDIN_FILENO, .to = socket};
  static Direction out{.from = socket, .to = STDOUT_FILENO};
  while (out.open || out.waiting()) {
    std::array<pollfd, 3> polls{
        {{.fd = in.wants_in() != 0 ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
         {.fd = socket, .events = static_cast<short>(out.wants_in() | in.wants_out()), .revents = 0},
         {.fd = out.waiting() ? STDOUT_FILENO : -1, .events = POLLOUT, .revents = 0}}};
    if (polls[1].events == 0) polls[1].fd = -1;
    if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return;
    if (polls[0].revents != 0 && !in.read_some()) ::shutdown(socket, SHUT_WR);
    if ((polls[1].revents & (POLLOUT | POLLERR | POLLHUP)) != 0 && in.waiting() && !in.write_some()) in.begin = in.end;
    if ((polls[1].revents & (POLLIN | POLLERR | POLLHUP)) != 0 && out.wants_in() != 0) out.read_some();
    if (polls[2].revents != 0 && !out.write_some()) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::uint16_t port = 0;
  const std::string_view text = argc == 2 ? argv[1] : "";
  const auto [rest, wrong] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (wrong != std::errc() || rest != text.data() + text.size() || port == 0) {
    constexpr std::string_view kUsage = "usage: connect PORT\n";
    return ::write(STDERR_FILENO, kUsage.data(), kUsage.size()) < 0 ? 3 : 2;
  }
  const int socket = dial(port);
  if (socket < 0) return 1;
  relay(socket);
  return 0;
}
