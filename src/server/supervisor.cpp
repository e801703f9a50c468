#include "server/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/umask.hpp"
#include "config/value.hpp"
#include "keeper/abandoned.hpp"
#include "listeners/socket.hpp"
#include "server/builders.hpp"
#include "server/configuration_copy.hpp"
#include "server/egress_process.hpp"
#include "server/file_directory.hpp"
#include "server/front.hpp"
#include "server/front_home.hpp"
#include "server/host_servers.hpp"
#include "server/kept_descriptors.hpp"
#include "server/log.hpp"
#include "server/own_process.hpp"
#include "server/service_options.hpp"
#include "server/state_lock.hpp"
#include "server/stored_keys.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"
#include "sys/record.hpp"
#include "wire/supervisor_messages.hpp"

namespace cove::server {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kPortPatience{5};  // for the server before us to give up its port
constexpr std::uint32_t kDeviceSets = 64;
constexpr milliseconds kKeeperPatience{2000};  // for a keeper without its front to leave, or to say that it stays
// The supervisor gives up after this many fronts in a row that lived this briefly.
constexpr int kMaxQuickDeaths = 5;
constexpr std::chrono::seconds kQuickDeath{2};

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
    UniqueFd egress;
    std::vector<UniqueFd> sandbox_listeners;  // as listeners_
  };
  [[noreturn]] void become_front(FrontEnds ends);
  Result<> replace_keeper();
  void replace_egress();
  Result<> pass_on_configuration();
  Result<> pass_on(wire::SupervisorWord word, int descriptor) const;
  void reap();
  void pass_on_signals();
  void receive_from_front();

  config::Config config_;
  config::LoadInput reload_from_;
  PrivateServer own_;
  Log log_;
  std::vector<config::SandboxListener> listeners_;
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
  Builders builders_;
  HostServers host_servers_;
  EgressProcess egress_;
  bool asked_to_stop_ = false;
  const pid_t self_ = ::getpid();
};

// Without keys anybody who can connect may run programs, so then only this machine may connect.
Result<> Supervisor::look_at_keys() {
  const auto found = stored_keys(*home_);
  if (found == StoredKeys::active || found == StoredKeys::revoked) COVE_CHECK(require_keys(config_.state_dir));
  const bool nobody_can_enter = found != StoredKeys::active && own_.key.empty() && !config_.oauth.configured();
  const auto reachable = listeners::reachable_from_elsewhere(config_.listen, listeners_);
  if (nobody_can_enter && found != StoredKeys::unreadable && reachable) {
    return fail(Errc::denied, fmt::format("{} is reachable from other machines, and there are no keys: create one with "
                                          "`cove key create --tenant NAME "
                                          "--state-dir {}`, or listen on 127.0.0.1",
                                          reachable->text(), config_.state_dir));
  }
  if (found == StoredKeys::unreadable && reachable)
    return fail(Errc::io, fmt::format("{}/cove.db cannot be read: repair it or move it away", home_->path()));
  // The front moves a broken database aside; keys are required from then on.
  needs_keys_ =
      found != StoredKeys::none || keys_required(config_.state_dir) || !own_.key.empty() || config_.oauth.configured();
  return {};
}

Result<> Supervisor::prepare() {
  const UmaskScope umask(022);
  if (config_.state_dir.empty())
    return fail(Errc::invalid, "this user has no home directory to keep state in: give --state-dir or set HOME");
  COVE_CHECK(check_services(config_));
  COVE_CHECK(make_state_directory(config_.state_dir));
  COVE_TRY(lock_, lock_state(config_.state_dir, "lock"));
  // The address of a private server that was killed (cli/mcp/private_server.cpp).
  ::unlink((config_.state_dir + "/private.json").c_str());
  COVE_TRY(auto home, FrontHome::own(config_.state_dir));
  home_.emplace(std::move(home));
  for (const auto& text : config_.listeners) {
    COVE_TRY(auto listener, config::parse_listener(text));
    listeners_.push_back(std::move(listener));
  }
  COVE_CHECK(look_at_keys());
  COVE_TRY(token_keys_, read_token_keys(config_));
  // The default directory is inside the front's, and the front makes it.
  if (!config_.files.directory.empty()) {
    COVE_TRY(files_, open_file_directory(config_.files.directory, home_->owner()));
  }

  COVE_TRY(signals_, prepare_process());
  return {};
}

// Kills a keeper that does not leave by itself; the next one finds what it left undone. When no other keeper follows,
// it may stay for as long as it has frozen sandboxes.
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
  COVE_TRY(auto keeper,
           keeper::Keeper::start(
               {.state_dir = config_.state_dir,
                .device_sets = kDeviceSets,
                .keep = true,
                .zygotes = {.modules = config_.python.preload,
                            .light = config_.python.light,
                            .births = config_.python.warm ? config_.python.zygote_births : 0,
                            .interval = std::chrono::ceil<std::chrono::seconds>(config_.python.zygote_interval),
                            .age = std::chrono::ceil<std::chrono::seconds>(config_.python.zygote_age)}}));
  keeper_.emplace(std::move(keeper));
  const auto& enforced = keeper_->enforcement();
  if (!config_.allow_degraded && (!enforced.memory || !enforced.pids || !enforced.cpu)) {
    return fail(Errc::unsupported, fmt::format("this host cannot enforce every limit ({}). Run `cove doctor` to see "
                                               "how to fix it, or serve anyway with --allow-degraded",
                                               enforced.cgroup_shortcoming));
  }
  return {};
}

// Gives up every privilege, and every descriptor that is not listed.
void Supervisor::become_front(FrontEnds ends) {
  ::prctl(PR_SET_NAME, "cove-front");
  ::setsid();  // signals from a terminal are the supervisor's to pass on
  const auto path = home_->enter();
  if (!path) ::_exit(1);
  const auto link = keeper_->link().release();
  std::vector<int> kept{ends.listener.get(), link.get(),   ends.control.get(), ends.lock.get(),
                        log_.sink()->fd(),   files_.get(), ends.egress.get()};
  const auto own = kept.size();
  for (const auto& listener : ends.sandbox_listeners) kept.push_back(listener.get());
  if (!keep_only(kept)) ::_exit(1);
  // Signals that the front handles stay blocked until it can.
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
                       .egress = UniqueFd(9),
                       .directory = *path,
                       .needs_keys = needs_keys_,
                       .token_keys = token_keys_,
                       .own_key = own_.key,
                       .leave_after = own_.leave_after};
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    options.sandbox_listeners.push_back({.fd = UniqueFd(static_cast<int>(3 + own + i)),
                                         .endpoint = listeners_[i].endpoint,
                                         .name = listeners_[i].sandbox});
  }
  ::_exit(run_front(std::move(options)));
}

Result<> Supervisor::start_front() {
  COVE_TRY(auto listener, listeners::listen_on(config_.listen, kPortPatience));
  // A port that was chosen for us stays the same when the front has to be started again.
  config_.listen = listeners::bound_to(listener.get(), config_.listen);
  if (const auto report = std::exchange(own_.on_listening, {})) report(config_.listen);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  control_.reset(ends[0]);
  FrontEnds theirs{
      .listener = std::move(listener), .control = UniqueFd(ends[1]), .lock = {}, .egress = {}, .sandbox_listeners = {}};
  COVE_TRY(theirs.sandbox_listeners, listeners::listen_on_all(listeners_, kPortPatience));
  COVE_TRY(theirs.lock, lock_state(config_.state_dir, "front.lock"));
  COVE_TRY(theirs.egress, egress_.start(config_, *home_));
  auto clone = sys::clone_process({});
  if (clone.pid < 0) return fail_errno(errno, "start the front");
  if (clone.pid == 0) become_front(std::move(theirs));
  front_ = clone.pid;
  front_pidfd_ = std::move(clone.pidfd);
  front_status_.reset();
  // The front alone holds the keeper's socket: the keeper goes when the front does.
  keeper_->link().release().reset();
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

void Supervisor::replace_egress() {
  log_.warn("egress process died: starting another");
  const auto link = egress_.start(config_, *home_);
  const auto passed =
      link ? pass_on(wire::SupervisorWord::egress, link->get()) : Result<>(tl::unexpected<Error>(link.error()));
  if (!passed) log_.error(passed.error().message);
}

// The front may not be allowed to read the file, so it is sent the contents.
Result<> Supervisor::pass_on_configuration() {
  COVE_TRY(const auto copy, copy_configuration(config_.file));
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
    builders_.forget(info.si_pid);
    host_servers_.forget(info.si_pid);
    if (info.si_pid == egress_.pid()) egress_.forget();
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
  if (request.verb == wire::SupervisorVerb::start_host_server) {
    if (fds.size() == 1) host_servers_.start(config_.tools.named, request, std::move(fds.front()));
    return;
  }
  if (request.verb != wire::SupervisorVerb::replace_keeper) {
    if (const auto started = builders_.start(request, config_.state_dir, std::move(fds)); !started)
      log_.error(started.error().message);
    return;
  }
  if (!keeper_) return;
  log_.warn("keeper hangs: killing it");
  sys::kill_process(keeper_->pidfd());
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
      if (!front_status_ && egress_.pid() < 0 && !asked_to_stop_) replace_egress();
      if (front_status_ || keeper_) continue;
      // A keeper goes when its front does: which of the two went first is seen a moment later.
      for (int i = 0; i < (asked_to_stop_ ? 50 : 1) && !front_status_; ++i) {
        std::this_thread::sleep_for(milliseconds(20));
        reap();
      }
      if (front_status_) continue;
      if (++keeper_deaths > 3) std::this_thread::sleep_for(milliseconds(500));  // something keeps killing them
      if (auto replaced = replace_keeper(); !replaced) log_.error(replaced.error().message);
    }
    front_pidfd_.reset();
    const int status = *front_status_;
    // The keeper's socket closed with the front: it leaves, and its sandboxes stay.
    const bool over = asked_to_stop_ || status == 0;
    end_keeper(over ? Next::none : Next::keeper);
    if (over) {
      keeper::forget_if_nobody_lives(config_.state_dir);
      return status;
    }
    quick_deaths = Clock::now() - began < kQuickDeath ? quick_deaths + 1 : 0;
    if (quick_deaths >= kMaxQuickDeaths)
      return fail(Errc::io, "the front keeps exiting right after it starts: the log above says why");
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
