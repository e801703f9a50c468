#include "keeper/live_limits.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>

#include "base/units.hpp"
#include "sys/mount.hpp"

namespace cove::keeper {
namespace {

// The sandbox's storage, by a mount of it that nothing inside can move or cover: /dev is read-only there, and nobody
// has the capability to mount. The keeper's own namespace is not left.
Result<UniqueFd> open_storage(const Sandbox& sandbox) {
  const UniqueFd root(
      ::open(fmt::format("/proc/{}/root", sandbox.process.pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return fail_errno(errno, "open the sandbox's root");
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS;
  UniqueFd storage(static_cast<int>(::syscall(SYS_openat2, root.get(), "dev/shm", &how, sizeof how)));
  if (!storage) return fail_errno(errno, "open the sandbox's storage");
  // The number was still init's when it was looked up: its handle says that init lives.
  if (::syscall(SYS_pidfd_send_signal, sandbox.process.pidfd.get(), 0, nullptr, 0) != 0)
    return fail(Errc::not_found, "the sandbox's init is gone");
  return storage;
}

struct Storage {
  std::uint64_t size = 0;
  std::uint64_t used = 0;
};
Result<Storage> storage_of(int fd) {
  struct statfs found{};
  if (::fstatfs(fd, &found) != 0) return fail_errno(errno, "look at the sandbox's storage");
  const auto block = static_cast<std::uint64_t>(found.f_bsize);
  return Storage{.size = found.f_blocks * block, .used = (found.f_blocks - found.f_bfree) * block};
}

Result<> check_room(const char* what, std::uint64_t used, std::uint64_t wanted) {
  if (used <= wanted) return {};
  return fail(Errc::conflict, fmt::format("{} of {} are in use, more than the {} asked for", format_size(used), what,
                                          format_size(wanted)));
}

Result<> resize(int storage, std::uint64_t bytes) {
  if (sys::resize_filesystem(storage, std::to_string(bytes).c_str())) return {};
  if (errno == EINVAL) return fail(Errc::conflict, fmt::format("more than {} of disk are in use", format_size(bytes)));
  return fail_errno(errno, "resize the sandbox's storage");
}

// What init starts from now on has these as its hard limits (src/init/child.cpp).
struct InitLimit {
  __rlimit_resource resource;
  rlim_t value;
  const char* name;
};

Result<> check_room_of_init(pid_t init, const InitLimit& wanted) {
  rlimit now{};
  if (::prlimit(init, wanted.resource, nullptr, &now) != 0) return fail_errno(errno, "read a limit of init");
  if (wanted.value <= now.rlim_max) return {};
  return fail(Errc::conflict, fmt::format("{} can be raised to {} at most while this sandbox lives", wanted.name,
                                          static_cast<std::uint64_t>(now.rlim_max)));
}

Result<> limit_init(pid_t init, const InitLimit& wanted) {
  rlimit now{};
  if (::prlimit(init, wanted.resource, nullptr, &now) != 0) return fail_errno(errno, "read a limit of init");
  now.rlim_cur = wanted.value;
  if (::prlimit(init, wanted.resource, &now, nullptr) != 0) return fail_errno(errno, "set a limit of init");
  return {};
}

}  // namespace

Result<> change_limits(Sandbox& sandbox, const sys::CgroupTree& tree, const wire::KeeperRequest& request) {
  if (sandbox.ending || !sandbox.running) return fail(Errc::not_found, "there is no sandbox of this id");
  if (request.memory_bytes == 0 || request.disk_bytes == 0 || request.pids == 0 || request.cpu_millis == 0)
    return fail(Errc::invalid, "a limit is zero");
  if (!sandbox.cgroup || !tree.limits_memory() || !tree.limits_pids())
    return fail(Errc::unsupported, "without control groups the limits of a sandbox cannot be changed while it lives");
  COVE_TRY(const auto storage, open_storage(sandbox));
  COVE_TRY(const auto before, storage_of(storage.get()));
  const auto now = sandbox.cgroup->contents();
  COVE_CHECK(check_room("memory", now.memory_bytes, request.memory_bytes));
  COVE_CHECK(check_room("disk", before.used, request.disk_bytes));
  if (now.processes > request.pids)
    return fail(Errc::conflict, fmt::format("{} processes and threads are there, more than the {} asked for",
                                            now.processes, request.pids));
  const std::array<InitLimit, 2> init_limits{{{RLIMIT_FSIZE, request.disk_bytes + jail::kFileSlack, "disk"},
                                              {RLIMIT_NPROC, request.pids + rlim_t{jail::kProcessSlack}, "pids"}}};
  for (const auto& limit : init_limits) COVE_CHECK(check_room_of_init(sandbox.process.pid, limit));
  COVE_CHECK(resize(storage.get(), request.disk_bytes));
  auto limited = sandbox.cgroup->limit(
      tree, {.memory_bytes = request.memory_bytes, .pids = request.pids, .cpu_millis = request.cpu_millis});
  for (const auto& limit : init_limits) {
    if (limited) limited = limit_init(sandbox.process.pid, limit);
  }
  if (!limited) [[maybe_unused]]
    const auto undone = resize(storage.get(), before.size);
  return limited;
}

}  // namespace cove::keeper
