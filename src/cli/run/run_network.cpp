#include "cli/run/run_network.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstring>
#include <utility>

#include "base/io.hpp"
#include "egress/network_order.hpp"
#include "egress/service.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"
#include "sys/record.hpp"
#include "wire/egress_messages.hpp"
#include "wire/network_records.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;

constexpr int kPatienceMillis = 10'000;
constexpr std::size_t kMaxRefused = 32;
// Below the ids of servers' egress processes (server/front_home.cpp): nobody's, and one for each process.
constexpr uid_t kFirstOwner = 0x6f000000;
constexpr uid_t kOwners = 0x400000;

bool become_nobody() {
  if (::geteuid() == 0) {
    const auto owner = kFirstOwner + static_cast<uid_t>(::getpid()) % kOwners;
    if (::setgroups(0, nullptr) != 0 || !sys::set_ids(owner, owner)) return false;
  }
  return sys::give_up_capabilities() && sys::set_no_new_privileges();
}

[[noreturn]] void become_egress(int socket, const std::string& resolver, pid_t parent) {
  ::prctl(PR_SET_NAME, "cove-egress");
  ::setsid();
  // Nothing of the caller's stays open in here.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  if (::dup2(socket, 3) != 3 || ::fcntl(3, F_SETFD, FD_CLOEXEC) != 0) ::_exit(1);
  ::syscall(SYS_close_range, 4, ~0U, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!become_nobody()) ::_exit(1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != parent) ::_exit(1);
  ::_exit(egress::serve({.front = UniqueFd(3), .resolver = resolver, .ca_file = {}}));
}

Result<std::pair<UniqueFd, UniqueFd>> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<UniqueFd> in_memory(std::string_view bytes) {
  UniqueFd memory(::memfd_create("network", MFD_CLOEXEC));
  if (!memory) return fail_errno(errno, "memfd_create");
  COVE_CHECK(write_all(memory.get(), bytes));
  return memory;
}

bool readable(int fd, int millis) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, millis) == 1;
}

struct Told {
  wire::EgressReply reply;
  std::string text;
};
// Nothing: there is nothing now, or nobody is left.
std::optional<Told> hear(int socket, int millis) {
  if (!readable(socket, millis)) return std::nullopt;
  std::array<char, sizeof(wire::EgressReply) + wire::kMaxEgressText> buffer{};
  std::vector<UniqueFd> fds;
  const auto size = sys::receive_record(socket, std::as_writable_bytes(std::span(buffer)), fds);
  Told told;
  if (size < static_cast<ssize_t>(sizeof told.reply)) return std::nullopt;
  std::memcpy(&told.reply, buffer.data(), sizeof told.reply);
  told.text.assign(buffer.data() + sizeof told.reply, static_cast<std::size_t>(size) - sizeof told.reply);
  return told;
}

}  // namespace

RunNetwork::RunNetwork(RunNetwork&& other) noexcept
    : socket_(std::move(other.socket_)), pid_(std::exchange(other.pid_, -1)) {}

RunNetwork::~RunNetwork() {
  socket_.reset();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

Result<RunNetwork> RunNetwork::start(const std::string& resolver) {
  COVE_TRY(auto ends, socket_pair());
  const auto parent = ::getpid();
  auto clone = sys::clone_process({});
  if (clone.pid < 0) return fail_errno(errno, "start the egress process");
  if (clone.pid == 0) become_egress(ends.second.get(), resolver, parent);
  return RunNetwork(std::move(ends.first), clone.pid);
}

Result<std::vector<UniqueFd>> RunNetwork::make_sockets(OneShot& shot, const egress::Policy& policy) {
  COVE_TRY(const auto order, egress::network_order(policy, wire::NetworkSockets::wanted));
  COVE_TRY(auto memory, in_memory({reinterpret_cast<const char*>(&order), sizeof order}));
  COVE_TRY(auto ends, socket_pair());
  COVE_CHECK(shot.order_network(std::move(memory), std::move(ends.second)));
  wire::NetworkAnswer answer;
  std::vector<UniqueFd> sockets;
  const auto size = readable(ends.first.get(), kPatienceMillis)
                        ? sys::receive_record(ends.first.get(), std::as_writable_bytes(std::span(&answer, 1)), sockets)
                        : 0;
  if (size != static_cast<ssize_t>(sizeof answer))
    return fail(Errc::unavailable, "the network of the sandbox could not be made");
  if (answer.done == 0)
    return tl::unexpected<Error>(
        Error{.code = Errc::unavailable,
              .message = std::string(answer.message, ::strnlen(answer.message, sizeof answer.message)),
              .sys_errno = answer.sys_errno});
  // Where the kernel has no IPv6 the other relay stands in its place.
  if (answer.has_relay6 == 0 && !sockets.empty())
    sockets.insert(sockets.begin() + 1, UniqueFd(::fcntl(sockets.front().get(), F_DUPFD_CLOEXEC, 3)));
  return sockets;
}

Result<> RunNetwork::open(OneShot& shot, const egress::Policy& policy) {
  COVE_TRY(auto memory, in_memory(json::serialize(egress::to_json(policy, egress::Secrets::shown))));
  COVE_TRY(auto sockets, make_sockets(shot, policy));
  const wire::EgressRequest request{.verb = wire::EgressVerb::open, .serial = 1, .id = shot.id()};
  std::vector<int> fds{memory.get()};
  for (const auto& socket : sockets) fds.push_back(socket.get());
  if (sys::send_record(socket_.get(), std::as_bytes(std::span(&request, 1)), fds) < 0)
    return fail_errno(errno, "tell the egress process");
  const auto told = hear(socket_.get(), kPatienceMillis);
  if (!told) return fail(Errc::unavailable, "the egress process does not answer");
  if (told->reply.word != wire::EgressWord::done) return fail(Errc::unavailable, told->text);
  return {};
}

std::vector<std::string> RunNetwork::refused() {
  std::vector<std::string> names;
  while (auto told = hear(socket_.get(), 0)) {
    boost::system::error_code failed;
    const auto value = json::parse(told->text, failed);
    const auto* record = failed ? nullptr : value.if_object();
    const auto* verdict = record != nullptr ? record->if_contains("verdict") : nullptr;
    if (verdict == nullptr || *verdict != "denied" || names.size() >= kMaxRefused) continue;
    const auto text = [record](std::string_view name) {
      const auto* found = record->if_contains(name);
      return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
    };
    const auto* port = record->if_contains("port");
    const auto number = port != nullptr && port->is_number() ? port->to_number<std::uint32_t>() : 0;
    auto host = text("name").empty() ? text("address") : text("name");
    if (host.empty()) continue;
    auto name = number == 0 ? host : fmt::format("{}:{}", host, number);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace cove::cli
