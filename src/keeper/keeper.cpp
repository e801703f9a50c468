#include "keeper/keeper.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/io.hpp"
#include "base/umask.hpp"
#include "host/host_root.hpp"
#include "host/identity.hpp"
#include "host/keeper_record.hpp"
#include "keeper/abandoned.hpp"
#include "keeper/own_root.hpp"
#include "keeper/predecessor.hpp"
#include "keeper/service.hpp"
#include "sys/landlock.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"
#include "sys/record.hpp"

namespace cove::keeper {
namespace {

// What the new process needs of the one that starts it.
struct Inheritance {
  std::vector<int> callers;  // descriptors that are not for the keeper
  UniqueFd front;
  UniqueFd gate;  // a byte comes when our id maps are written
  host::IdentityMode identity;
  std::uint32_t uid_count;
  UniqueFd predecessor;  // the user namespace to join, when there are sandboxes to adopt
  bool keep;
  UniqueFd lingers;
  ZygoteOptions zygotes;
  host::RootSource root;
  host::TemplateSource templates;
  host::Devices devices;
  const sys::CgroupTree& tree;
};

// The descriptors the caller had before it began to start a keeper.
Result<std::vector<int>> open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), ::closedir);
  if (!directory) return fail_errno(errno, "list the open descriptors");
  std::vector<int> found;
  while (const auto* entry = ::readdir(directory.get())) {
    int fd = 0;
    const std::string_view name = entry->d_name;
    if (std::from_chars(name.data(), name.data() + name.size(), fd).ec != std::errc()) continue;
    if (fd > 2 && fd != ::dirfd(directory.get())) found.push_back(fd);
  }
  return found;
}

// A pipe, a log or a lock of the caller must not stay open in the keeper.
Result<> forget_callers_descriptors(const std::vector<int>& callers) {
  for (const int fd : callers) ::close(fd);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return fail_errno(errno, "open /dev/null");
  for (int fd = 0; fd <= 2; ++fd) {
    if (::dup2(null.get(), fd) < 0) return fail_errno(errno, "detach descriptor {}", fd);
  }
  return {};
}

Result<ServiceOptions> prepare_service(Inheritance& inherited) {
  if (inherited.predecessor) {
    if (::setns(inherited.predecessor.get(), CLONE_NEWUSER) != 0)
      return fail_errno(errno, "join the user namespace of the previous keeper");
    inherited.predecessor.reset();
    if (::unshare(CLONE_NEWNS) != 0) return fail_errno(errno, "make the keeper's mount namespace");
  }
  char byte = 0;
  if (::read(inherited.gate.get(), &byte, 1) != 1) return fail(Errc::denied, "the user id maps could not be written");
  inherited.gate.reset();
  if (inherited.identity != host::IdentityMode::one_user && ::setgroups(0, nullptr) != 0)
    return fail_errno(errno, "drop supplementary groups");
  if (!sys::set_ids(0, 0)) return fail_errno(errno, "take the keeper's id");
  if (!sys::keep_capabilities_across_ids()) return fail_errno(errno, "lock the securebits");
  COVE_CHECK(forget_callers_descriptors(inherited.callers));

  ServiceOptions options;
  COVE_TRY(options.host, enter_own_root(inherited.root, inherited.devices, inherited.templates));
  options.front = std::move(inherited.front);
  options.keep = inherited.keep;
  options.lingers = std::move(inherited.lingers);
  options.zygotes = std::move(inherited.zygotes);
  options.tree = &inherited.tree;
  options.device_sets = inherited.devices.sets;
  // 0 is the keeper itself wherever there is more than one id to give.
  options.first_uid = inherited.uid_count > 1 ? 1 : 0;
  options.uid_count = inherited.uid_count > 1 ? inherited.uid_count - 1 : 1;
  return options;
}

// The same at every start, so that what was left is found; no "-PID" at its end, so that nobody takes it for stale.
std::string kept_tree_name(const host::Identity& identity, const std::string& state_dir) {
  if (identity.mode == host::IdentityMode::root) return fmt::format("cove-keep-r{}", identity.range);
  struct stat st{};
  ::stat(state_dir.c_str(), &st);
  return fmt::format("cove-keep-u{:x}x{:x}", st.st_dev, st.st_ino);
}

[[noreturn]] void become_keeper(Inheritance inherited) {
  ::prctl(PR_SET_NAME, "cove-keeper");
  ::setsid();  // Ctrl-C is the front's to handle
  ::signal(SIGPIPE, SIG_IGN);
  sys::raise_descriptor_limit();  // each sandbox costs some
  const int front = inherited.front.get();
  auto options = prepare_service(inherited);
  if (!options) {
    wire::KeeperReply reply{.word = wire::KeeperWord::not_started};
    wire::set_error(reply, options.error());
    ::send(front, &reply, sizeof reply, MSG_NOSIGNAL);
    ::_exit(125);
  }
  ::_exit(serve(std::move(*options)));
}

}  // namespace

std::vector<std::string> not_enforced(const Enforcement& enforcement) {
  std::vector<std::string> missing;
  if (!enforcement.memory) missing.emplace_back("memory");
  if (!enforcement.cpu) missing.emplace_back("cpus");
  if (!enforcement.pids) missing.emplace_back("pids");
  return missing;
}

Result<Keeper> Keeper::start(const KeeperOptions& options) {
  if (options.state_dir.empty())
    return fail(Errc::invalid, "this user has no home directory to keep state in: give --state-dir, or set HOME");
  // What is made here is for every sandbox to read, and the keeper keeps this umask; the caller's is the caller's
  // affair.
  const UmaskScope umask(022);
  COVE_TRY(auto callers, open_descriptors());
  Keeper keeper;
  const auto record = options.keep ? host::read_record(options.state_dir) : std::nullopt;
  auto predecessor = record ? find_user_namespace(*record) : UniqueFd();
  if (predecessor) COVE_CHECK(end_members(predecessor.get()));
  // No sandbox of that record is left; its range and its groups are used again.
  if (options.keep && !predecessor) host::remove_record(options.state_dir);
  const bool adopting = static_cast<bool>(predecessor);
  sweep_abandoned();
  COVE_TRY(auto root, host::prepare_host_root(options.state_dir));
  COVE_TRY(auto templates, host::prepare_templates(options.state_dir));
  COVE_TRY(auto identity,
           host::choose_identity(options.keep ? options.state_dir : "", record ? record->range : std::nullopt));
  const bool give_away = identity.mode == host::IdentityMode::root;
  host::Devices devices;
  const std::string tree_name = record         ? record->cgroup_name
                                : options.keep ? kept_tree_name(identity, options.state_dir)
                                               : fmt::format("cove-{}", ::getpid());
  COVE_TRY(keeper.tree_,
           sys::CgroupTree::create({.name = tree_name,
                                    .owner = give_away ? identity.first : ::getuid(),
                                    .group = give_away ? identity.first_group : ::getgid(),
                                    .ignore_unified = options.ignore_unified,
                                    .kept = options.keep,
                                    .bases = record ? record->cgroup_bases : decltype(record->cgroup_bases)()}));
  if (give_away) {
    // The keeper will not be able to walk to a state directory that only root may enter: take it there as a mount.
    root.lower_mount.reset(::open_tree(AT_FDCWD, root.lower_path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (!root.lower_mount) return fail_errno(errno, "copy the mount of {}", root.lower_path);
    COVE_TRY(templates.mount, read_only_copy_of(templates.path));
    COVE_TRY(devices, host::make_devices(options.device_sets));
  }
  keeper.enforcement_ = Enforcement{
      .identity = identity.mode,
      .cgroup = keeper.tree_.mode(),
      .memory = keeper.tree_.limits_memory(),
      .pids = keeper.tree_.limits_pids(),
      .cpu = keeper.tree_.limits_cpu(),
      .freeze = keeper.tree_.freezes(),
      .landlock_abi = sys::landlock_abi(),
      .cgroup_shortcoming = keeper.tree_.shortcoming(),
  };

  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  keeper.link_ = KeeperLink(UniqueFd(ends[0]));
  UniqueFd keeper_end(ends[1]);
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  UniqueFd gate_end(ends[0]);
  UniqueFd gate(ends[1]);
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  keeper.lingers_.reset(ends[0]);
  UniqueFd lingers_end(ends[1]);

  auto clone =
      sys::clone_process({.namespaces = adopting ? 0U : static_cast<std::uint64_t>(CLONE_NEWUSER | CLONE_NEWNS),
                          .cgroup_fd = keeper.tree_.keeper_fd()});
  if (clone.pid < 0) return fail_errno(errno, "make the keeper's user namespace (`cove doctor` checks what it needs)");
  if (clone.pid == 0) {
    gate.reset();
    keeper.link_ = {};
    identity.lock.reset();
    become_keeper({.callers = std::move(callers),
                   .front = std::move(keeper_end),
                   .gate = std::move(gate_end),
                   .identity = identity.mode,
                   .uid_count = identity.mode == host::IdentityMode::subuid ? identity.count + 1 : identity.count,
                   .predecessor = std::move(predecessor),
                   .keep = options.keep,
                   .lingers = std::move(lingers_end),
                   .zygotes = options.zygotes,
                   .root = std::move(root),
                   .templates = std::move(templates),
                   .devices = std::move(devices),
                   .tree = keeper.tree_});
  }
  keeper.pid_ = clone.pid;
  keeper.pidfd_ = std::move(clone.pidfd);
  if (!adopting) COVE_CHECK(host::write_maps(identity, clone.pid));
  if (options.keep && adopting) {
    COVE_TRY(keeper.entry_, list_server(options.state_dir, *record));
  }
  if (options.keep && !adopting) {
    struct stat space{};
    const auto proc = fmt::format("/proc/{}", clone.pid);
    if (::stat((proc + "/ns/user").c_str(), &space) != 0)
      return fail_errno(errno, "look at the keeper's user namespace");
    COVE_TRY(const auto map, read_file_at(AT_FDCWD, proc + "/uid_map"));
    const host::KeeperRecord fresh{.user_namespace = space.st_ino,
                                   .uid_map = host::words_of(map),
                                   .range = give_away ? std::optional(identity.range) : std::nullopt,
                                   .cgroup_name = tree_name,
                                   .cgroup_bases = keeper.tree_.bases()};
    COVE_CHECK(host::write_record(options.state_dir, fresh));
    COVE_TRY(keeper.entry_, list_server(options.state_dir, fresh));
  }
  if (::write(gate.get(), "g", 1) != 1) return fail_errno(errno, "let the keeper go on");
  keeper.uid_lock_ = std::move(identity.lock);
  keeper.root_lock_ = std::move(root.lower_lock);
  return keeper;
}

Keeper::Keeper(Keeper&& other) noexcept
    : enforcement_(std::move(other.enforcement_)),
      tree_(std::move(other.tree_)),
      uid_lock_(std::move(other.uid_lock_)),
      root_lock_(std::move(other.root_lock_)),
      entry_(std::move(other.entry_)),
      link_(std::move(other.link_)),
      pidfd_(std::move(other.pidfd_)),
      lingers_(std::move(other.lingers_)),
      pid_(std::exchange(other.pid_, -1)) {}

Keeper::~Keeper() {
  if (pid_ < 0) return;
  link_ = {};
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool Keeper::lingers(std::chrono::milliseconds patience) const {
  pollfd said{.fd = lingers_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&said, 1, static_cast<int>(patience.count())) == 1 && (said.revents & POLLIN) != 0;
}

void Keeper::leave_behind() {
  link_ = {};
  tree_.abandon();
  pid_ = -1;
}

Result<> KeeperLink::send(const wire::KeeperRequest& request, std::vector<UniqueFd> fds) {
  std::vector<int> numbers;
  for (const auto& fd : fds) numbers.push_back(fd.get());
  if (sys::send_record(socket_.get(), std::as_bytes(std::span(&request, 1)), numbers) < 0)
    return fail(Errc::unavailable, fmt::format("the keeper does not answer: {}", std::strerror(errno)));
  return {};
}

Result<std::optional<wire::KeeperReply>> KeeperLink::receive() {
  wire::KeeperReply reply;
  const auto n = ::recv(socket_.get(), &reply, sizeof reply, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<wire::KeeperReply>();
  if (n != static_cast<ssize_t>(sizeof reply)) return fail(Errc::unavailable, "the keeper ended unexpectedly");
  if (reply.word == wire::KeeperWord::not_started)
    return fail(Errc::unavailable, fmt::format("the keeper could not start: {}", reply.message));
  return std::optional(reply);
}

}  // namespace cove::keeper
