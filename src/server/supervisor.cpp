#include "server/supervisor.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "base/io.hpp"
#include "base/umask.hpp"
#include "builder/builder.hpp"
#include "keeper/abandoned.hpp"
#include "oauth/signing_key.hpp"
#include "server/file_directory.hpp"
#include "server/front.hpp"
#include "server/front_home.hpp"
#include "server/log.hpp"
#include "store/store.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"
#include "sys/record.hpp"
#include "wire/supervisor_messages.hpp"

namespace cove::server {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint32_t kDeviceSets = 64;
constexpr int kServerNice = -5;
constexpr std::chrono::seconds kPatience{5};    // for a server before us to be gone
constexpr std::chrono::seconds kQuickDeath{2};  // a front that lives shorter than this
constexpr milliseconds kKeeperPatience{2000};   // for a keeper without its front to leave, or to say that it stays
constexpr std::size_t kMostBuilders = 8;
constexpr int kQuickDeaths = 5;  // so many times in a row is not worth starting again

Result<> make_directory(const std::string& path, mode_t mode) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (::mkdir(path.substr(0, slash).c_str(), 0755) != 0 && errno != EEXIST)
      return fail_errno(errno, "make {}", path.substr(0, slash));
  }
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return fail_errno(errno, "make {}", path);
  return {};
}

// One file is the supervisor's and one the front's, which may let go of its own and of no other.
Result<UniqueFd> hold_lock(const std::string& state_dir, const char* name) {
  COVE_TRY(auto fd, open_at(AT_FDCWD, fmt::format("{}/{}", state_dir, name), O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  const auto until = Clock::now() + kPatience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno(errno, "lock {}", state_dir);
    if (Clock::now() > until)
      return fail(Errc::exists,
                  fmt::format("another `cove serve` uses {}: stop it, or give another --state-dir", state_dir));
    std::this_thread::sleep_for(milliseconds(10));
  }
  return fd;
}

Result<UniqueFd> listen_on(const config::Endpoint& endpoint) {
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
  const auto until = Clock::now() + kPatience;
  while (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno != EADDRINUSE || Clock::now() > until) return fail_errno(errno, "listen on {}", endpoint.text());
    std::this_thread::sleep_for(milliseconds(20));
  }
  if (::listen(fd.get(), 1024) != 0) return fail_errno(errno, "listen on {}", endpoint.text());
  return fd;
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

constexpr unsigned kLookPatience = 5;  // seconds for a look into the front's database
// What such a look found, as the status of the process that looked.
enum Keys : int { kNoKey = 10, kActiveKey = 11, kRevokedKey = 12, kBrokenStore = 13 };

int look_for_keys(const std::string& directory) {
  const auto store = store::Store::open(directory, store::OnBroken::refuse);
  const auto active = store ? (*store)->keys().count() : Result<std::int64_t>(0);
  const auto all = store ? (*store)->keys().list() : Result<std::vector<store::KeyRow>>();
  if (!store || !active || !all) return kBrokenStore;
  return *active > 0 ? kActiveKey : all->empty() ? kNoKey : kRevokedKey;
}

class Supervisor {
 public:
  Supervisor(config::Config config, config::LoadInput reload_from, PrivateServer own)
      : config_(std::move(config)),
        reload_from_(std::move(reload_from)),
        own_(std::move(own)),
        log_(config_.log, LogSink::of_stderr()) {}
  Result<int> run();

 private:
  Result<> prepare();
  Result<> look_at_keys();
  Result<> start_keeper();
  enum class Next { keeper, none };
  void end_keeper(Next next);
  Result<> start_front();
  struct FrontEnds {
    UniqueFd listener;
    UniqueFd control;
    UniqueFd lock;
  };
  [[noreturn]] void become_front(FrontEnds ends);
  Result<> replace_keeper();
  Result<> pass_on_configuration();
  Result<> pass_on(wire::SupervisorWord word, int descriptor) const;
  void reap();
  void pass_on_signals();
  void receive_from_front();
  void start_builder(const wire::SupervisorRequest& request, std::vector<UniqueFd> fds);

  config::Config config_;
  config::LoadInput reload_from_;
  PrivateServer own_;
  Log log_;
  std::optional<FrontHome> home_;
  std::string token_keys_;
  bool needs_keys_ = false;
  UniqueFd lock_;
  UniqueFd files_;
  UniqueFd signals_;
  std::optional<keeper::Keeper> keeper_;
  pid_t front_ = -1;
  UniqueFd front_pidfd_;
  UniqueFd control_;
  std::optional<int> front_status_;
  std::set<pid_t> builders_;
  bool asked_to_stop_ = false;
  const pid_t self_ = ::getpid();
};

// Anybody who can connect could run programs here: only this machine may, unless there are keys. Whether there are is
// read by a process that is nobody: the database is the front's, and a front that was taken over writes what it likes.
Result<> Supervisor::look_at_keys() {
  const auto found = home_->inside(kLookPatience, look_for_keys).value_or(kBrokenStore);
  if (found == kActiveKey || found == kRevokedKey) COVE_CHECK(require_keys(config_.state_dir));
  const bool nobody_can_enter = found != kActiveKey && own_.key.empty() && !config_.oauth.configured();
  if (nobody_can_enter && found != kBrokenStore && !config_.listen.loopback()) {
    return fail(
        Errc::denied,
        fmt::format(
            "{} can be reached from other machines and there are no keys: make one with `cove key create --tenant NAME "
            "--state-dir {}`, or listen on 127.0.0.1",
            config_.listen.text(), config_.state_dir));
  }
  if (found == kBrokenStore && !config_.listen.loopback())
    return fail(Errc::io, fmt::format("{}/cove.db cannot be read: repair it or move it away", home_->path()));
  // A broken database is the front's to move aside; it asks for keys then.
  needs_keys_ = found != kNoKey || keys_required(config_.state_dir) || !own_.key.empty() || config_.oauth.configured();
  return {};
}

Result<> Supervisor::prepare() {
  const UmaskScope umask(022);
  if (config_.state_dir.empty())
    return fail(Errc::invalid, "this user has no home directory to keep state in: give --state-dir, or set HOME");
  COVE_CHECK(make_directory(config_.state_dir, 0755));
  COVE_TRY(lock_, hold_lock(config_.state_dir, "lock"));
  // Where one before us could be found, which was killed (cli/mcp/private_server.cpp).
  ::unlink((config_.state_dir + "/private.json").c_str());
  COVE_TRY(auto home, FrontHome::own(config_.state_dir));
  home_.emplace(std::move(home));
  COVE_CHECK(look_at_keys());
  if (config_.oauth.configured()) {
    COVE_TRY(token_keys_, read_file_at(AT_FDCWD, config_.oauth.keys_file));
    if (const auto keys = oauth::read_key_set(token_keys_); !keys)
      return fail(Errc::invalid, fmt::format("oauth.keys_file {}: {}", config_.oauth.keys_file, keys.error().message));
  }
  // The default is in the front's directory, and the front's to make.
  if (!config_.files.directory.empty()) {
    COVE_TRY(files_, open_file_directory(config_.files.directory, home_->owner()));
  }

  // Whatever sandboxes do with the processor, the server's own parts get it when they need it; what runs in a sandbox
  // has no such priority (jail::reset_process). Without root there is none to be had.
  ::setpriority(PRIO_PROCESS, 0, kServerNice);
  // Sandboxes of a keeper that died become our children, so that none stays behind unburied.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  sigset_t heard;
  ::sigemptyset(&heard);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&heard, number);
  ::sigprocmask(SIG_BLOCK, &heard, nullptr);
  signals_.reset(::signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail_errno(errno, "signalfd");
  return {};
}

// One that does not go by itself is made to: what it leaves undone the next one finds. When there is no next one, it
// may stay for as long as sandboxes are frozen.
void Supervisor::end_keeper(Next next) {
  if (!keeper_) return;
  if (keeper_->lingers(kKeeperPatience) && next == Next::none) {
    keeper_->leave_behind();
  } else {
    pollfd ended{.fd = keeper_->pidfd(), .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, 0) != 1) sys::kill_process(keeper_->pidfd());
  }
  keeper_.reset();
}

Result<> Supervisor::start_keeper() {
  end_keeper(Next::keeper);
  COVE_TRY(auto keeper, keeper::Keeper::start(
                            {.state_dir = config_.state_dir,
                             .device_sets = kDeviceSets,
                             .keep = true,
                             .zygotes = {.modules = config_.python.preload,
                                         .births = config_.python.warm ? config_.python.zygote_births : 0,
                                         .age = std::chrono::ceil<std::chrono::seconds>(config_.python.zygote_age)}}));
  keeper_.emplace(std::move(keeper));
  const auto& enforced = keeper_->enforcement();
  if (!config_.allow_degraded && (!enforced.memory || !enforced.pids || !enforced.cpu)) {
    return fail(Errc::unsupported, fmt::format("this host cannot enforce every limit ({}). `cove doctor` says how to "
                                               "mend it; --allow-degraded serves anyway",
                                               enforced.cgroup_shortcoming));
  }
  return {};
}

// From here on no privilege, and no descriptor but those that are listed.
void Supervisor::become_front(FrontEnds ends) {
  ::prctl(PR_SET_NAME, "cove-front");
  ::setsid();  // signals from a terminal are the supervisor's to pass on
  const auto path = home_->enter();
  if (!path) ::_exit(1);
  const auto link = keeper_->link().release();
  const std::array<int, 6> kept{ends.listener.get(), link.get(),        ends.control.get(),
                                ends.lock.get(),     log_.sink()->fd(), files_.get()};
  std::array<int, kept.size()> moved{};
  for (std::size_t i = 0; i < kept.size(); ++i) {
    moved[i] = kept[i] < 0 ? -1 : ::fcntl(kept[i], F_DUPFD_CLOEXEC, 100);
    if (kept[i] >= 0 && moved[i] < 0) ::_exit(1);
  }
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const int place = 3 + static_cast<int>(i);
    if (moved[i] < 0 ? ::close(place) != 0 && errno != EBADF : ::dup3(moved[i], place, O_CLOEXEC) < 0) ::_exit(1);
  }
  ::syscall(SYS_close_range, 3 + moved.size(), ~0U, 0);
  // Those the front handles wait until it can.
  sigset_t handled;
  ::sigemptyset(&handled);
  ::sigaddset(&handled, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &handled, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);  // a new configuration comes from the supervisor
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // After the change of id, which would have cleared it: a server whose supervisor was killed must free its port.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != self_) ::_exit(1);
  FrontOptions options{.config = config_,
                       .reload_from = reload_from_,
                       .enforcement = keeper_->enforcement(),
                       .listener = UniqueFd(3),
                       .keeper = UniqueFd(4),
                       .supervisor = UniqueFd(5),
                       .log = UniqueFd(7),
                       .files = files_ ? UniqueFd(8) : UniqueFd(),
                       .directory = *path,
                       .needs_keys = needs_keys_,
                       .token_keys = token_keys_,
                       .own_key = own_.key,
                       .leave_after = own_.leave_after};
  ::_exit(run_front(std::move(options)));
}

Result<> Supervisor::start_front() {
  COVE_TRY(auto listener, listen_on(config_.listen));
  // A port that was chosen for us stays the same when the front has to be started again.
  config_.listen = bound_to(listener.get(), config_.listen);
  if (const auto tell = std::exchange(own_.on_listening, {})) tell(config_.listen);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  control_.reset(ends[0]);
  FrontEnds theirs{.listener = std::move(listener), .control = UniqueFd(ends[1]), .lock = {}};
  COVE_TRY(theirs.lock, hold_lock(config_.state_dir, "front.lock"));
  auto clone = sys::clone_process({});
  if (clone.pid < 0) return fail_errno(errno, "start the front");
  if (clone.pid == 0) become_front(std::move(theirs));
  front_ = clone.pid;
  front_pidfd_ = std::move(clone.pidfd);
  front_status_.reset();
  // The front alone holds the line: with it the keeper goes too.
  [[maybe_unused]] const auto given = keeper_->link().release();
  return {};
}

Result<> Supervisor::pass_on(wire::SupervisorWord word, int descriptor) const {
  if (sys::send_record(control_.get(), std::as_bytes(std::span(&word, 1)), std::array{descriptor}) != 1)
    return fail_errno(errno, "send a descriptor to the front");
  return {};
}

Result<> Supervisor::replace_keeper() {
  log_.warn("keeper died: starting another");
  COVE_CHECK(start_keeper());
  const auto link = keeper_->link().release();
  return pass_on(wire::SupervisorWord::keeper, link.get());
}

// The file may be for root's eyes alone: the front gets what is in it.
Result<> Supervisor::pass_on_configuration() {
  std::string text;
  if (!config_.file.empty()) {
    COVE_TRY(text, read_file_at(AT_FDCWD, config_.file));
  }
  const UniqueFd copy(::memfd_create("cove.toml", MFD_CLOEXEC));
  if (!copy) return fail_errno(errno, "copy the configuration");
  COVE_CHECK(write_all(copy.get(), text));
  return pass_on(wire::SupervisorWord::configuration, copy.get());
}

void Supervisor::reap() {
  while (true) {
    siginfo_t info{};
    // The keeper is waited for by its handle.
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (keeper_ && info.si_pid == keeper_->pid()) {
      keeper_.reset();
      continue;
    }
    int status = 0;
    ::waitpid(info.si_pid, &status, 0);
    builders_.erase(info.si_pid);
    if (info.si_pid == front_) front_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

// One request from the front: replace a hung keeper, remember that keys are required, or start a builder, which parses
// the rest.
void Supervisor::receive_from_front() {
  wire::SupervisorRequest request;
  std::vector<UniqueFd> fds;
  const auto size = sys::receive_record(control_.get(), std::as_writable_bytes(std::span(&request, 1)), fds);
  if (size != static_cast<ssize_t>(sizeof request)) return;
  if (request.verb == wire::SupervisorVerb::require_keys) {
    needs_keys_ = true;
    if (const auto required = require_keys(config_.state_dir); !required) log_.error(required.error().message);
    return;
  }
  if (request.verb != wire::SupervisorVerb::replace_keeper) return start_builder(request, std::move(fds));
  if (!keeper_) return;
  log_.warn("keeper hangs: ending it");
  sys::kill_process(keeper_->pidfd());
}

// If the fork fails, the closed answer pipe tells the front.
void Supervisor::start_builder(const wire::SupervisorRequest& request, std::vector<UniqueFd> fds) {
  if (fds.empty() || fds.size() > 2 || builders_.size() >= kMostBuilders) return;
  const auto clone = sys::clone_process({});
  if (clone.pid == 0) {
    ::_exit(builder::work({.request = request,
                           .state_dir = config_.state_dir,
                           .answer = std::move(fds[0]),
                           .log = fds.size() == 2 ? std::move(fds[1]) : UniqueFd()}));
  }
  if (clone.pid < 0)
    log_.error(fmt::format("cannot start a builder reason=\"{}\"", std::strerror(errno)));
  else
    builders_.insert(clone.pid);
}

void Supervisor::pass_on_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) continue;
    if (number == SIGTERM || number == SIGINT) asked_to_stop_ = true;
    if (number == SIGHUP) {
      if (const auto passed = pass_on_configuration(); !passed)
        log_.error(fmt::format("reload refused, the old configuration stays: {}", passed.error().message));
      continue;
    }
    if (front_pidfd_)
      ::syscall(SYS_pidfd_send_signal, front_pidfd_.get(), number == SIGINT ? SIGTERM : number, nullptr, 0);
  }
}

Result<int> Supervisor::run() {
  COVE_CHECK(prepare());
  int quick_deaths = 0;
  while (true) {
    COVE_CHECK(start_keeper());
    COVE_CHECK(start_front());
    const auto began = Clock::now();
    int keeper_deaths = 0;
    while (!front_status_) {
      std::array<pollfd, 2> ready{{{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = control_.get(), .events = POLLIN, .revents = 0}}};
      ::poll(ready.data(), ready.size(), 1000);
      pass_on_signals();
      receive_from_front();
      reap();
      if (front_status_ || keeper_) continue;
      // A keeper goes when its front does: which of the two went first is seen a moment later.
      for (int i = 0; i < (asked_to_stop_ ? 50 : 1) && !front_status_; ++i) {
        std::this_thread::sleep_for(milliseconds(20));
        reap();
      }
      if (front_status_) continue;
      if (++keeper_deaths > 3) std::this_thread::sleep_for(milliseconds(500));  // something ends them: not in a frenzy
      if (auto replaced = replace_keeper(); !replaced) log_.error(replaced.error().message);
    }
    front_pidfd_.reset();
    const int status = *front_status_;
    // With its line gone the keeper leaves, and leaves the sandboxes.
    const bool over = asked_to_stop_ || status == 0;
    end_keeper(over ? Next::none : Next::keeper);
    if (over) {
      keeper::forget_if_nobody_lives(config_.state_dir);
      return status;
    }
    quick_deaths = Clock::now() - began < kQuickDeath ? quick_deaths + 1 : 0;
    if (quick_deaths >= kQuickDeaths) return fail(Errc::io, "the front ends as soon as it is started");
    log_.error(fmt::format("front died status={}: starting another", status));
  }
}

}  // namespace

int run_supervisor(const config::Config& config, const config::LoadInput& reload_from, PrivateServer own) {
  Supervisor supervisor(config, reload_from, std::move(own));
  const auto done = supervisor.run();
  if (done) return *done;
  const Log log(config.log, LogSink::of_stderr());
  log.error(done.error().message);
  return 1;
}

}  // namespace cove::server
