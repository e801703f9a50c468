#include "keeper/adoption.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "keeper/predecessor.hpp"

namespace cove::keeper {
namespace {

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// "s-" and digits: a name of ours, and no path.
std::optional<std::string> from_group_name(const wire::GroupName& name) {
  const std::string text(name.text, ::strnlen(name.text, sizeof name.text));
  const bool ours = text.size() > 2 && text.starts_with("s-") && text.find_first_not_of("0123456789", 2) == text.npos;
  return ours ? std::optional(text) : std::nullopt;
}

}  // namespace

wire::GroupName to_group_name(std::string_view text) {
  wire::GroupName name;
  std::memcpy(name.text, text.data(), std::min(text.size(), sizeof name.text - 1));
  return name;
}

Result<Sandbox> adopt(const wire::KeeperRequest& request, const sys::CgroupTree& tree) {
  Sandbox sandbox;
  sandbox.id = request.id;
  sandbox.root = request.root;
  sandbox.create_serial = request.serial;
  sandbox.running = true;
  sandbox.process.pid = request.init_pid;
  sandbox.process.pidfd = open_pidfd(request.init_pid);
  if (!sandbox.process.pidfd) return fail_errno(errno, "find the sandbox's init");
  const auto uid = user_of(request.init_pid);
  if (!uid || !is_our_init(request.init_pid)) return fail(Errc::not_found, "the sandbox's init is gone");
  sandbox.uid = *uid;
  if (tree.mode() == sys::CgroupMode::none) return sandbox;
  const auto group = from_group_name(request.group);
  if (!group) return fail(Errc::invalid, "the control group's name is malformed");
  COVE_TRY(auto cgroup, sys::Cgroup::adopt(tree, *group));
  sandbox.cgroup.emplace(std::move(cgroup));
  return sandbox;
}

std::vector<Sandbox> stray_inits(const std::set<pid_t>& known) {
  std::vector<Sandbox> strays;
  for (const auto pid : our_inits()) {
    if (known.contains(pid)) continue;
    Sandbox sandbox;
    sandbox.process.pid = pid;
    sandbox.process.pidfd = open_pidfd(pid);
    // Checked again now that a descriptor holds it: the number may have become another process's before.
    const auto uid = user_of(pid);
    if (!sandbox.process.pidfd || !is_our_init(pid) || !uid) continue;
    sandbox.uid = *uid;
    sandbox.running = true;
    strays.push_back(std::move(sandbox));
  }
  return strays;
}

std::vector<Sandbox> stray_groups(const sys::CgroupTree& tree, const std::set<std::string>& known) {
  std::vector<Sandbox> strays;
  for (auto& name : tree.leaves()) {
    if (known.contains(name)) continue;
    auto group = sys::Cgroup::adopt(tree, std::move(name));
    if (!group) continue;
    Sandbox sandbox;
    sandbox.cgroup.emplace(std::move(*group));
    sandbox.running = true;
    sandbox.reaped = true;
    strays.push_back(std::move(sandbox));
  }
  return strays;
}

}  // namespace cove::keeper
