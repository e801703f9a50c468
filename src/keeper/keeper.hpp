#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "host/identity.hpp"
#include "keeper/zygote_group.hpp"
#include "sys/cgroup.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::keeper {

// What this keeper enforces. A limit that is asked for and not listed here must be refused or named as degraded.
struct Enforcement {
  host::IdentityMode identity = host::IdentityMode::one_user;
  sys::CgroupMode cgroup = sys::CgroupMode::none;
  bool memory = false;
  bool pids = false;  // by the control group; without one by an rlimit that is exact but uncounted
  bool cpu = false;
  bool freeze = false;
  int landlock_abi = 0;
  std::string cgroup_shortcoming;  // why a limit is missing
};

// The limits that are not enforced, by name: memory, cpus, pids.
std::vector<std::string> not_enforced(const Enforcement& enforcement);

struct KeeperOptions {
  std::string state_dir;
  std::uint32_t device_sets = 1;  // how many sandboxes at a time get device nodes of their own
  bool ignore_unified = false;    // for tests: behave as on a host with cgroup v1 alone
  // Sandboxes outlive this keeper: when its front is gone it goes too and leaves them, and the next keeper with the
  // same state directory finds them. The caller must hold a lock on that directory.
  bool keep = false;
  ZygoteOptions zygotes = {};
};

// The front's end of the socket to its keeper. Its holder is the front: when the last holder is gone, the keeper ends.
class KeeperLink {
 public:
  KeeperLink() = default;
  explicit KeeperLink(UniqueFd socket) : socket_(std::move(socket)) {}

  // Readable when receive() has something, or when the keeper has died.
  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] UniqueFd release() { return std::move(socket_); }

  // `fds` are those that the verb carries (wire/keeper_messages.hpp), and no others.
  Result<> send(const wire::KeeperRequest& request, std::vector<UniqueFd> fds = {});
  // nullopt when there is nothing now; Errc::unavailable when the keeper is gone.
  Result<std::optional<wire::KeeperReply>> receive();

 private:
  UniqueFd socket_;
};

// A keeper: a process of its own, forked before its front has threads or secrets. Losing the handle ends it, with every
// sandbox it made unless those are to be kept, and waits for that.
class Keeper {
 public:
  static Result<Keeper> start(const KeeperOptions& options);
  Keeper(Keeper&& other) noexcept;
  Keeper& operator=(Keeper&&) = delete;
  ~Keeper();

  [[nodiscard]] const Enforcement& enforcement() const { return enforcement_; }
  [[nodiscard]] KeeperLink& link() { return link_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  // Readable when the process has ended.
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  // Whether it outlives its front, until frozen sandboxes have ended or another keeper takes over. Waits up to
  // `patience` for it to end or to report that.
  [[nodiscard]] bool lingers(std::chrono::milliseconds patience) const;
  // Gives up the handle without ending the process.
  void leave_behind();

 private:
  Keeper() = default;

  Enforcement enforcement_;
  sys::CgroupTree tree_;
  UniqueFd uid_lock_;
  UniqueFd root_lock_;
  UniqueFd entry_;  // in the list of servers
  KeeperLink link_;
  UniqueFd pidfd_;
  UniqueFd lingers_;
  pid_t pid_ = -1;
};

}  // namespace cove::keeper
