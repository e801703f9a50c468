#include "keeper/predecessor.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <set>

#include "base/io.hpp"
#include "base/text.hpp"
#include "sys/process.hpp"

namespace cove::keeper {
namespace {

std::vector<std::string> processes() {
  std::vector<std::string> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), [](DIR* d) { return ::closedir(d); });
  while (const auto* entry = proc ? ::readdir(proc.get()) : nullptr) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') pids.emplace_back(entry->d_name);
  }
  return pids;
}

UniqueFd parent_user_namespace(const std::string& pid) {
  const UniqueFd inner(::open(fmt::format("/proc/{}/ns/user", pid).c_str(), O_RDONLY | O_CLOEXEC));
  return UniqueFd(inner ? ::ioctl(inner.get(), NS_GET_PARENT) : -1);
}

bool same_namespace(int a, int b) {
  struct stat one{};
  struct stat other{};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

std::vector<std::string> directories_in(int directory) {
  std::vector<std::string> names;
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy),
                                                    [](DIR* d) { return ::closedir(d); });
  while (const auto* entry = entries ? ::readdir(entries.get()) : nullptr) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

std::uint64_t inode_of(int fd) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 ? st.st_ino : 0;
}

// The first process of a pid namespace one below ours: "NSpid: 1234 1".
bool first_of_its_kind(const std::string& pid) {
  const auto status = read_file_at(AT_FDCWD, fmt::format("/proc/{}/status", pid)).value_or("");
  const auto line = status.find("\nNSpid:\t");
  return line != std::string::npos && status.compare(line + 8, pid.size() + 3, fmt::format("{}\t1\n", pid)) == 0;
}

// Every process in a leaf of the recorded tree; nullopt when there are no control groups. The tree's directory lies in
// one that only we can write to, so nobody else can have made another of its name there.
std::optional<std::set<pid_t>> counted_in(const host::KeeperRecord& record) {
  std::optional<std::set<pid_t>> pids;
  for (const auto& base : record.cgroup_bases) {
    if (base.empty()) continue;
    if (!pids) pids.emplace();
    const auto tree = open_at(AT_FDCWD, fmt::format("{}/{}", base, record.cgroup_name), O_RDONLY | O_DIRECTORY);
    if (!tree) continue;
    for (const auto& leaf : directories_in(tree->get())) {
      if (!leaf.starts_with("s-")) continue;
      const auto procs = read_file_at(tree->get(), leaf + "/cgroup.procs").value_or("");
      for (std::string_view rest = procs; !rest.empty();)
        pids->insert(static_cast<pid_t>(std::strtol(std::string(take_until(rest, '\n')).c_str(), nullptr, 10)));
    }
  }
  return pids;
}

// Read by a child that has entered it, so that it shows the ids outside.
std::string uid_map_of(int user_namespace) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const auto child = ::fork();
  if (child == 0) {
    const bool entered = ::setns(user_namespace, CLONE_NEWUSER) == 0;
    const auto map = entered ? read_file_at(AT_FDCWD, "/proc/self/uid_map").value_or("") : "";
    ::_exit(write_all(writing.get(), map) ? 0 : 1);
  }
  writing.reset();
  const auto map = read_all(reading.get(), 4096).value_or("");
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return host::words_of(map);
}

bool is_the_one(int user_namespace, const host::KeeperRecord& record) {
  uid_t owner = 0;
  return inode_of(user_namespace) == record.user_namespace && ::ioctl(user_namespace, NS_GET_OWNER_UID, &owner) == 0 &&
         owner == ::geteuid() && (record.uid_map.empty() || uid_map_of(user_namespace) == record.uid_map);
}

}  // namespace

UniqueFd find_user_namespace(const host::KeeperRecord& record) {
  const auto counted = counted_in(record);
  for (const auto& pid : processes()) {
    const auto number = static_cast<pid_t>(std::strtol(pid.c_str(), nullptr, 10));
    if (!first_of_its_kind(pid) || (counted && !counted->contains(number))) continue;
    auto parent = parent_user_namespace(pid);
    if (parent && inode_of(parent.get()) == record.user_namespace && is_the_one(parent.get(), record)) return parent;
  }
  return {};
}

void end_inits(int user_namespace) {
  std::vector<UniqueFd> ended;
  for (const auto& pid : processes()) {
    const auto number = static_cast<pid_t>(std::strtol(pid.c_str(), nullptr, 10));
    UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, number, 0)));
    const auto parent = handle && first_of_its_kind(pid) ? parent_user_namespace(pid) : UniqueFd();
    if (!parent || !same_namespace(parent.get(), user_namespace)) continue;
    sys::kill_process(handle.get());
    ended.push_back(std::move(handle));
  }
  for (const auto& handle : ended) {
    pollfd gone{.fd = handle.get(), .events = POLLIN, .revents = 0};
    ::poll(&gone, 1, 1000);
  }
}

Result<> end_members(int user_namespace) {
  std::vector<UniqueFd> ended;
  for (const auto& pid : processes()) {
    const auto number = static_cast<pid_t>(std::strtol(pid.c_str(), nullptr, 10));
    UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, number, 0)));
    // Checked while we hold the pidfd: the number cannot become another process's unseen.
    const UniqueFd own(::open(fmt::format("/proc/{}/ns/user", pid).c_str(), O_RDONLY | O_CLOEXEC));
    if (!handle || !own || !same_namespace(own.get(), user_namespace)) continue;
    sys::kill_process(handle.get());
    ended.push_back(std::move(handle));
  }
  for (const auto& handle : ended) {
    pollfd gone{.fd = handle.get(), .events = POLLIN, .revents = 0};
    if (::poll(&gone, 1, 2000) != 1)
      return fail(Errc::unavailable,
                  "the previous keeper does not end: kill the process cove-keeper, then start again");
  }
  return {};
}

bool is_our_init(pid_t pid) {
  const auto parent = parent_user_namespace(std::to_string(pid));
  struct stat ours{};
  return parent && ::stat("/proc/self/ns/user", &ours) == 0 && inode_of(parent.get()) == ours.st_ino &&
         first_of_its_kind(std::to_string(pid));
}

// From its status: init is not dumpable, so its files in /proc belong to root.
std::optional<std::uint32_t> user_of(pid_t pid) {
  const auto status = read_file_at(AT_FDCWD, fmt::format("/proc/{}/status", pid)).value_or("");
  const auto line = status.find("\nUid:\t");
  if (line == std::string::npos) return std::nullopt;
  return static_cast<std::uint32_t>(std::strtoul(status.c_str() + line + 6, nullptr, 10));
}

std::vector<pid_t> our_inits() {
  std::vector<pid_t> inits;
  for (const auto& text : processes()) {
    if (const auto pid = static_cast<pid_t>(std::strtol(text.c_str(), nullptr, 10)); is_our_init(pid))
      inits.push_back(pid);
  }
  return inits;
}

}  // namespace cove::keeper
