#include "keeper/predecessor.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <memory>

#include "base/io.hpp"

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

// The number of a namespace may have been given to another since: its sandboxes are known by where they are counted,
// too.
bool is_counted_in(const std::string& pid, const Record& record) {
  bool any = false;
  for (const auto& base : record.cgroup_bases) any = any || !base.empty();
  if (!any) return true;
  const auto groups = read_file_at(AT_FDCWD, fmt::format("/proc/{}/cgroup", pid)).value_or("");
  return groups.find(fmt::format("/{}/", record.cgroup_name)) != std::string::npos;
}

}  // namespace

UniqueFd find_user_namespace(const Record& record) {
  for (const auto& pid : processes()) {
    if (!first_of_its_kind(pid) || !is_counted_in(pid, record)) continue;
    auto parent = parent_user_namespace(pid);
    if (parent && inode_of(parent.get()) == record.user_namespace) return parent;
  }
  return {};
}

bool is_our_init(pid_t pid) {
  const auto parent = parent_user_namespace(std::to_string(pid));
  struct stat ours{};
  return parent && ::stat("/proc/self/ns/user", &ours) == 0 && inode_of(parent.get()) == ours.st_ino &&
         first_of_its_kind(std::to_string(pid));
}

// From its status: init cannot be looked into, so that its files in /proc are root's.
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
