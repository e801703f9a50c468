#include "sys/cgroup.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <map>

#include "base/io.hpp"
#include "base/text.hpp"
#include "sys/process.hpp"

namespace cove::sys {
namespace {

constexpr auto kDirFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
constexpr std::uint64_t kCpuPeriodUsec = 100'000;

std::uint64_t number_in(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::uint64_t read_number(int dir, const char* file) {
  const auto text = dir < 0 ? Result<std::string>("") : read_file_at(dir, file);
  return text ? number_in(*text) : 0;
}

// The number after `key ` at the start of a line of a flat-keyed file.
std::uint64_t read_keyed(int dir, const char* file, std::string_view key) {
  const auto text = dir < 0 ? Result<std::string>("") : read_file_at(dir, file);
  if (!text) return 0;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto line = take_until(rest, '\n');

    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ')
      return number_in(line.substr(key.size() + 1));
  }
  return 0;
}

constexpr std::uint64_t kMaxChargedAtOnce = 1U << 20;  // by the kernel, of memory

// A limit the kernel rounded or ignored is not the limit that was asked for.
Result<> write_limit(int dir, const char* file, std::uint64_t value) {
  COVE_TRY(const auto fd, open_at(dir, file, O_RDWR));
  const auto text = std::to_string(value);
  if (::pwrite(fd.get(), text.data(), text.size(), 0) < 0) return fail_errno(errno, "write {} to {}", value, file);
  std::array<char, 32> back{};
  const auto size = ::pread(fd.get(), back.data(), back.size(), 0);
  if (size < 0) return fail_errno(errno, "read {}", file);
  const std::string_view said(back.data(), static_cast<std::size_t>(size));
  if (number_in(said) > value) {
    return fail(Errc::unsupported, fmt::format("{} did not take {}: it says {}", file, value, said));
  }
  return {};
}

}  // namespace

Result<Cgroup> Cgroup::create(const CgroupTree& tree, std::string name) {
  return open(tree, std::move(name), Origin::made);
}

Result<Cgroup> Cgroup::adopt(const CgroupTree& tree, std::string name) {
  return open(tree, std::move(name), Origin::found);
}

Result<Cgroup> Cgroup::open(const CgroupTree& tree, std::string name, Origin origin) {
  Cgroup group;
  group.name_ = std::move(name);
  group.v2_memory_ = tree.v2_memory_;
  group.v2_pids_ = tree.v2_pids_;
  group.v2_cpu_ = tree.v2_cpu_;
  for (std::size_t slot = 0; slot < kCgroupSlots; ++slot) {
    if (!tree.parents_[slot].dir) continue;
    Borrowed parent(tree.parents_[slot].dir.get());
    if (origin == Origin::found) {
      // One that a hierarchy lost, or never got, is no obstacle to ending what is in the others.
      auto dir = open_at(parent.get(), group.name_, kDirFlags);
      if (!dir && dir.error().code == Errc::not_found) continue;
      if (!dir) {
        group.abandon();
        return tl::unexpected<Error>(dir.error());
      }
      group.parents_[slot] = std::move(parent);
      group.dirs_[slot] = std::move(*dir);
      continue;
    }
    if (::mkdirat(parent.get(), group.name_.c_str(), 0755) != 0)
      return fail_errno(errno, "make control group {}", group.name_);
    group.parents_[slot] = std::move(parent);  // owns the directory from here: any return undoes it
    COVE_TRY(group.dirs_[slot], open_at(group.parents_[slot].get(), group.name_, kDirFlags));
    if (static_cast<CgroupSlot>(slot) == CgroupSlot::unified) continue;
    COVE_TRY(auto join, open_at(group.dirs_[slot].get(), "tasks", O_WRONLY));
    group.join_.push_back(std::move(join));
  }
  if (auto watched = group.watch_oom(tree); !watched) {
    if (origin == Origin::found) group.abandon();
    return tl::unexpected<Error>(watched.error());
  }
  group.seen_oom_kills_ = origin == Origin::found ? group.usage().oom_kills : 0;
  return group;
}

Result<std::vector<UniqueFd>> Cgroup::open_join_fds() const {
  std::vector<UniqueFd> fds;
  for (std::size_t slot = 0; slot < kCgroupSlots; ++slot) {
    if (!dirs_[slot] || static_cast<CgroupSlot>(slot) == CgroupSlot::unified) continue;
    COVE_TRY(auto join, open_at(dirs_[slot].get(), "tasks", O_WRONLY));
    fds.push_back(std::move(join));
  }
  return fds;
}

Result<> Cgroup::limit(const CgroupTree& tree, const CgroupLimits& limits) {
  const int unified = unified_fd();
  if (tree.v2_memory_) {
    // Swap first: with memory.max alone, a sandbox at its limit pages out instead of being stopped.
    if (auto off = write_file_at(unified, "memory.swap.max", "0"); !off && off.error().code != Errc::not_found)
      return off;
    COVE_CHECK(write_limit(unified, "memory.max", limits.memory_bytes));
  } else if (const int memory = dir_of(CgroupSlot::memory); memory >= 0) {
    // Memory and swap together may not be below memory alone: the larger of the two is written first.
    const auto* both = "memory.memsw.limit_in_bytes";
    const bool raised = read_number(memory, both) < limits.memory_bytes;
    const auto write_both = [&]() -> Result<> {
      auto written = write_limit(memory, both, limits.memory_bytes);
      return !written && written.error().code == Errc::not_found ? Result<>() : written;
    };
    if (raised) COVE_CHECK(write_both());
    COVE_CHECK(write_limit(memory, "memory.limit_in_bytes", limits.memory_bytes));
    if (!raised) COVE_CHECK(write_both());
    // Socket buffers are a count of their own on v1; without a limit a sandbox could queue gigabytes to itself.
    if (auto sockets = write_limit(memory, "memory.kmem.tcp.limit_in_bytes", limits.memory_bytes / 4);
        !sockets && sockets.error().code != Errc::not_found) {
      return sockets;
    }
  }
  const std::uint64_t quota = std::max<std::uint64_t>(1000, limits.cpu_millis * kCpuPeriodUsec / 1000);
  if (tree.v2_cpu_) {
    COVE_CHECK(write_file_at(unified, "cpu.max", fmt::format("{} {}", quota, kCpuPeriodUsec)));
  } else if (const int cpu = dir_of(CgroupSlot::cpu); cpu >= 0) {
    auto written = write_limit(cpu, "cpu.cfs_quota_us", quota);
    // A group above allows less than this, so that its limit is the one that holds.
    if (!written && written.error().sys_errno == EINVAL) written = write_file_at(cpu, "cpu.cfs_quota_us", "-1");
    COVE_CHECK(written);
  }
  if (tree.v2_pids_) {
    COVE_CHECK(write_limit(unified, "pids.max", limits.pids));
  } else if (const int pids = dir_of(CgroupSlot::pids); pids >= 0) {
    COVE_CHECK(write_limit(pids, "pids.max", limits.pids));
  }
  return {};
}

Result<> Cgroup::watch_oom(const CgroupTree& tree) {
  if (tree.v2_memory_) {
    COVE_TRY(oom_event_, open_at(unified_fd(), "memory.events", O_RDONLY));
    return {};
  }
  const int memory = dir_of(CgroupSlot::memory);
  if (memory < 0) return {};
  COVE_TRY(const auto control, open_at(memory, "memory.oom_control", O_RDONLY));
  oom_event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!oom_event_) return fail_errno(errno, "eventfd");
  return write_file_at(memory, "cgroup.event_control", fmt::format("{} {}", oom_event_.get(), control.get()));
}

bool Cgroup::consume_oom_event() {
  if (!v2_memory_ && oom_event_) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(oom_event_.get(), &count, sizeof count);
  } else if (oom_event_) {
    // Reading the file is what clears POLLPRI.
    std::array<char, 512> text;
    [[maybe_unused]] const auto n = ::pread(oom_event_.get(), text.data(), text.size(), 0);
  }
  const auto kills = usage().oom_kills;
  return kills > std::exchange(seen_oom_kills_, kills);
}

CgroupUsage Cgroup::usage() const {
  CgroupUsage usage;
  const int unified = unified_fd();
  usage.cpu_usec = read_keyed(unified, "cpu.stat", "usage_usec");
  // Kills are counted where the victim was, whoever ran out of memory. A group that never met its own limit lost a
  // process to the host's shortage, or to a group above: not by what it did.
  if (v2_memory_) {
    usage.memory_peak_bytes = read_number(unified, "memory.peak");
    const bool met_limit = read_keyed(unified, "memory.events", "oom") > 0;
    usage.oom_kills = met_limit ? read_keyed(unified, "memory.events", "oom_kill") : 0;
  } else {
    const int memory = dir_of(CgroupSlot::memory);
    usage.memory_peak_bytes = read_number(memory, "memory.max_usage_in_bytes");
    // Its counter of failures stands still for some kernels when memory and swap have one limit; the peak tells then.
    const bool met_limit = read_number(memory, "memory.failcnt") > 0 ||
                           usage.memory_peak_bytes + kMaxChargedAtOnce >= read_number(memory, "memory.limit_in_bytes");
    usage.oom_kills = met_limit ? read_keyed(memory, "memory.oom_control", "oom_kill") : 0;
  }
  usage.pids_refused = read_keyed(v2_pids_ ? unified : dir_of(CgroupSlot::pids), "pids.events", "max");
  return usage;
}

CgroupContents Cgroup::contents() const {
  CgroupContents now;
  now.memory_bytes = v2_memory_ ? read_number(unified_fd(), "memory.current")
                                : read_number(dir_of(CgroupSlot::memory), "memory.usage_in_bytes");
  now.processes = processes();
  return now;
}

std::uint64_t Cgroup::processes() const {
  return read_number(v2_pids_ ? unified_fd() : dir_of(CgroupSlot::pids), "pids.current");
}

void Cgroup::abandon() {
  oom_event_.reset();
  join_.clear();
  for (auto& parent : parents_) parent.reset();
  for (auto& dir : dirs_) dir.reset();
}

void Cgroup::lift_cpu_limit() {
  [[maybe_unused]] const auto v2 = v2_cpu_ ? write_file_at(unified_fd(), "cpu.max", "max") : Result<>();
  const int cpu = dir_of(CgroupSlot::cpu);
  [[maybe_unused]] const auto v1 = cpu >= 0 ? write_file_at(cpu, "cpu.cfs_quota_us", "-1") : Result<>();
}

Result<> Cgroup::kill_all() {
  if (unified_fd() >= 0) {
    auto killed = write_file_at(unified_fd(), "cgroup.kill", "1");
    if (killed || killed.error().code != Errc::not_found) return killed;  // not_found: a kernel before 5.14
  }
  return kill_frozen();
}

// Where there is no cgroup.kill: stop everything, so that nobody forks between the listing and the signal, mark each
// with SIGKILL, and let go. On v1 the signal only works after the thaw. What would not stand still is killed all the
// same: who calls looks whether the group is empty, and comes again.
Result<> Cgroup::kill_frozen() {
  const int dir = freezer_fd();
  if (dir < 0)
    return fail(Errc::unsupported, "pause is not possible here: this host has no freezer control group (cove doctor)");
  [[maybe_unused]] const auto still = stop();
  auto killed = signal_members(dir);
  if (auto thawed = thaw(); !thawed) return thawed;
  return killed;
}

// A process that is not frozen may exit, and its number be given to somebody else: a handle is taken first, and whoever
// still is in the group then is who the handle is of.
Result<> Cgroup::signal_members(int dir) {
  COVE_TRY(const auto before, read_file_at(dir, "cgroup.procs"));
  std::map<pid_t, UniqueFd> handles;
  for (std::string_view rest = before; !rest.empty();) {
    const auto pid = static_cast<pid_t>(number_in(take_until(rest, '\n')));
    if (pid > 1) handles.emplace(pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
  }
  COVE_TRY(const auto after, read_file_at(dir, "cgroup.procs"));
  for (std::string_view rest = after; !rest.empty();) {
    const auto found = handles.find(static_cast<pid_t>(number_in(take_until(rest, '\n'))));
    if (found != handles.end() && found->second) kill_process(found->second.get());
  }
  return {};
}

bool Cgroup::empty() const {
  if (unified_fd() >= 0) return read_keyed(unified_fd(), "cgroup.events", "populated") == 0;
  for (const auto& dir : dirs_) {
    if (!dir) continue;
    const auto procs = read_file_at(dir.get(), "cgroup.procs");
    if (procs && !procs->empty()) return false;
  }
  return true;
}

Result<> Cgroup::freeze() {
  auto still = stop();
  // Half frozen is not what anybody asked for, and would stay so.
  if (!still) [[maybe_unused]]
    const auto thawed = thaw();
  return still;
}

Result<> Cgroup::stop() {
  const bool unified = unified_fd() >= 0;
  const int dir = freezer_fd();
  if (dir < 0)
    return fail(Errc::unsupported, "pause is not possible here: this host has no freezer control group (cove doctor)");
  // v1 may need the word again while tasks are still forking (freezer-subsystem.rst).
  for (int attempt = 0; attempt < 1000; ++attempt) {
    COVE_CHECK(unified ? write_file_at(dir, "cgroup.freeze", "1") : write_file_at(dir, "freezer.state", "FROZEN"));
    if (unified ? read_keyed(dir, "cgroup.events", "frozen") == 1
                : read_file_at(dir, "freezer.state").value_or("") == "FROZEN\n")
      return {};
    ::usleep(1000);
  }
  return fail(Errc::unavailable, "the control group did not freeze within a second");
}

Result<> Cgroup::thaw() {
  if (unified_fd() >= 0) return write_file_at(unified_fd(), "cgroup.freeze", "0");
  if (dir_of(CgroupSlot::freezer) < 0)
    return fail(Errc::unsupported, "pause is not possible here: this host has no freezer control group (cove doctor)");
  return write_file_at(dir_of(CgroupSlot::freezer), "freezer.state", "THAWED");
}

Result<> Cgroup::remove() {
  oom_event_.reset();
  join_.clear();
  for (std::size_t slot = 0; slot < kCgroupSlots; ++slot) {
    if (!parents_[slot]) continue;
    if (::unlinkat(parents_[slot].get(), name_.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      if (errno == EBUSY) return fail(Errc::unavailable, fmt::format("control group {} is not empty yet", name_));
      return fail_errno(errno, "remove control group {}", name_);
    }
    dirs_[slot].reset();
    parents_[slot].reset();
  }
  return {};
}

Cgroup::~Cgroup() {
  bool any = false;
  for (const auto& parent : parents_) any = any || static_cast<bool>(parent);
  if (!any) return;
  // Losing the handle can never strand a process; what is still dying keeps its empty directory for the next sweep.
  [[maybe_unused]] const auto killed = kill_all();
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (const auto removed = remove(); removed || removed.error().code != Errc::unavailable) return;
    ::usleep(1000);
  }
}

}  // namespace cove::sys
