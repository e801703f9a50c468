#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "base/io.hpp"
#include "base/text.hpp"
#include "sys/cgroup.hpp"
#include "sys/mountinfo.hpp"

namespace cove::sys {
namespace {

constexpr auto kTreeFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// The path of this process in each hierarchy: "" is v2, otherwise the v1 controller list.
struct Membership {
  std::string controllers;
  std::string path;
};

std::vector<Membership> memberships(std::string_view text) {
  std::vector<Membership> out;
  while (!text.empty()) {
    const auto line = take_until(text, '\n');

    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    out.push_back({.controllers = std::string(line.substr(first + 1, second - first - 1)),
                   .path = std::string(line.substr(second + 1))});
  }
  return out;
}

bool lists(std::string_view list, std::string_view word, char separator) {
  while (!list.empty()) {
    const auto item = list.substr(0, list.find(separator));
    if (item == word) return true;
    list.remove_prefix(std::min(list.size(), item.size() + 1));
  }
  return false;
}

// Where this process's own group is below a mount of its hierarchy; the mount itself when that does not show it.
std::string own_directory(const Mount& mount, const std::string& path) {
  std::string_view rest = path;
  if (mount.root != "/") {
    if (!rest.starts_with(mount.root)) return mount.target;
    rest.remove_prefix(mount.root.size());
  }
  return rest.empty() || rest == "/" ? mount.target : mount.target + std::string(rest);
}

bool is_cgroup(int fd) {
  struct statfs fs{};
  if (::fstatfs(fd, &fs) != 0) return false;
  const auto type = static_cast<std::uint64_t>(fs.f_type);
  return type == CGROUP_SUPER_MAGIC || type == CGROUP2_SUPER_MAGIC;
}

bool alive(std::string_view group_name) {
  const auto dash = group_name.rfind('-');
  pid_t pid = 0;
  const auto digits = group_name.substr(dash + 1);
  if (std::from_chars(digits.data(), digits.data() + digits.size(), pid).ec != std::errc{}) return true;
  return ::kill(pid, 0) == 0 || errno == EPERM;
}

std::vector<std::string> directories_in(int dir) {
  std::vector<std::string> names;
  const int copy = ::openat(dir, ".", kTreeFlags);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy),
                                                    [](DIR* d) { return ::closedir(d); });
  while (const auto* entry = entries ? ::readdir(entries.get()) : nullptr) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

// Groups named like ours ("cove-PID") whose maker is gone, or had our pid before us: what a `kill -9` left. Only empty
// ones can be removed, so a sandbox that outlives its maker on purpose keeps its group.
void sweep(int base, std::string_view name) {
  const auto prefix = name.substr(0, name.rfind('-') + 1);
  if (prefix.empty()) return;
  for (const auto& found : directories_in(base)) {
    if (!found.starts_with(prefix) || (found != name && alive(found))) continue;
    const UniqueFd stale(::openat(base, found.c_str(), kTreeFlags));
    for (const auto& leaf : directories_in(stale.get())) ::unlinkat(stale.get(), leaf.c_str(), AT_REMOVEDIR);
    ::unlinkat(base, found.c_str(), AT_REMOVEDIR);
  }
}

// SIGKILL to everything in the groups below; what is frozen by v1 is let go, or it would not die.
void kill_leaves(int tree) {
  for (const auto& leaf : directories_in(tree)) {
    const UniqueFd dir(::openat(tree, leaf.c_str(), kTreeFlags));
    if (!dir || write_file_at(dir.get(), "cgroup.kill", "1")) continue;
    const auto procs = read_file_at(dir.get(), "cgroup.procs").value_or("");
    for (std::string_view rest = procs; !rest.empty();) {
      pid_t pid = 0;
      const auto line = take_until(rest, '\n');
      std::from_chars(line.data(), line.data() + line.size(), pid);
      if (pid > 1) ::kill(pid, SIGKILL);
    }
    [[maybe_unused]] const auto thawed = write_file_at(dir.get(), "freezer.state", "THAWED");
  }
}

// True when none is left.
bool remove_leaves(int tree) {
  bool left = false;
  for (const auto& leaf : directories_in(tree)) left = ::unlinkat(tree, leaf.c_str(), AT_REMOVEDIR) != 0 || left;
  return !left;
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// v2 hands controllers to children only where no process sits beside them, the root group excepted.
Result<> hand_down_controllers(int dir) {
  COVE_TRY(const auto offered, read_file_at(dir, "cgroup.controllers"));
  COVE_TRY(const auto given, read_file_at(dir, "cgroup.subtree_control"));
  for (const std::string_view controller : {"memory", "pids", "cpu"}) {
    const auto words = first_line(offered);
    const auto have = first_line(given);
    if (!lists(words, controller, ' ') || lists(have, controller, ' ')) continue;
    COVE_CHECK(write_file_at(dir, "cgroup.subtree_control", fmt::format("+{}", controller)));
  }
  return {};
}

constexpr std::string_view kFront = "cove-front";
constexpr std::string_view kFirst = "10000";  // the greatest weight there is

// A service that was given a group of its own sits alone in it, exactly where controllers cannot be handed down from:
// it moves into a leaf first.
Result<> step_aside(int dir) {
  COVE_TRY(const auto procs, read_file_at(dir, "cgroup.procs"));
  if (procs != fmt::format("{}\n", ::getpid())) return fail(Errc::denied, "other processes are in this control group");
  if (::mkdirat(dir, kFront.data(), 0755) != 0 && errno != EEXIST) {
    return fail_errno(errno, "make control group {}", kFront);
  }
  return write_file_at(dir, fmt::format("{}/cgroup.procs", kFront), "0");
}

// Whether a group lacks one of our controllers that the top has: systemd gives a plain service no cpu, for one.
Result<bool> offers_less(const std::string& group, const std::string& top) {
  COVE_TRY(const auto here, read_file_at(AT_FDCWD, group + "/cgroup.controllers"));
  COVE_TRY(const auto there, read_file_at(AT_FDCWD, top + "/cgroup.controllers"));
  const auto lacks = [&](std::string_view controller) {
    return lists(first_line(there), controller, ' ') && !lists(first_line(here), controller, ' ');
  };
  return lacks("memory") || lacks("pids") || lacks("cpu");
}

}  // namespace

std::string_view name_of(CgroupMode mode) {
  switch (mode) {
    case CgroupMode::none:
      return "none";
    case CgroupMode::v1:
      return "v1";
    case CgroupMode::hybrid:
      return "hybrid";
    case CgroupMode::v2:
      return "v2";
  }
  return "none";
}

Result<> CgroupTree::add(CgroupSlot slot, const std::string& base_path, const Options& options) {
  Parent parent;
  COVE_TRY(parent.base, open_at(AT_FDCWD, base_path, kTreeFlags));
  if (!is_cgroup(parent.base.get()))
    return fail(Errc::unsupported, fmt::format("{} is not a control group", base_path));
  sweep(parent.base.get(), options.name);
  if (::mkdirat(parent.base.get(), options.name.c_str(), 0755) != 0 && !(options.kept && errno == EEXIST))
    return fail_errno(errno, "make control group {} in {}", options.name, base_path);
  parents_[static_cast<std::size_t>(slot)].base = std::move(parent.base);
  bases_[static_cast<std::size_t>(slot)] = base_path;
  auto& kept = parents_[static_cast<std::size_t>(slot)];
  COVE_TRY(kept.dir, open_at(kept.base.get(), options.name, kTreeFlags));
  if (::fchown(kept.dir.get(), options.owner, options.group) != 0)
    return fail_errno(errno, "give away control group {}", options.name);
  return {};
}

Result<> CgroupTree::add_unified(const std::string& mount, const std::string& own, const Options& options) {
  // An earlier tree of this process may have stepped aside already.
  const bool aside = own.size() > mount.size() && own.ends_with(fmt::format("/{}", kFront));
  const std::string home = aside ? own.substr(0, own.size() - kFront.size() - 1) : own;
  const auto attempt = [&](const std::string& base) -> Result<> {
    COVE_TRY(auto dir, open_at(AT_FDCWD, base, kTreeFlags));
    if (auto handed = hand_down_controllers(dir.get()); !handed) {
      if (handed.error().sys_errno != EBUSY) return handed;
      COVE_CHECK(step_aside(dir.get()));
      stepped_from_ = std::move(dir);
      COVE_CHECK(hand_down_controllers(stepped_from_.get()));
    }
    return add(CgroupSlot::unified, base, options);
  };
  // A login session's group is full of other processes and a service's may lack a controller; root may make ours beside
  // it, at the top, as container engines do.
  const bool may_use_top = home != mount && ::geteuid() == 0;
  COVE_TRY(const bool top_first, may_use_top ? offers_less(home, mount) : Result<bool>(false));
  auto made = attempt(top_first ? mount : home);
  if (!made && may_use_top) made = attempt(top_first ? home : mount);
  COVE_CHECK(std::move(made));
  return settle_unified(options);
}

Result<> CgroupTree::settle_unified(const Options& options) {
  const int dir = dir_of(CgroupSlot::unified);
  COVE_CHECK(hand_down_controllers(dir));
  COVE_TRY(const auto given, read_file_at(dir, "cgroup.subtree_control"));
  const auto words = first_line(given);
  v2_memory_ = lists(words, "memory", ' ');
  v2_pids_ = lists(words, "pids", ' ');
  v2_cpu_ = lists(words, "cpu", ' ');

  if (::mkdirat(dir, "keeper", 0755) != 0 && !(options.kept && errno == EEXIST))
    return fail_errno(errno, "make the keeper's control group");
  COVE_TRY(keeper_, open_at(dir, "keeper", kTreeFlags));
  for (const char* file :
       {"cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "keeper", "keeper/cgroup.procs"}) {
    if (::fchownat(dir, file, options.owner, options.group, 0) != 0)
      return fail_errno(errno, "give away control group file {}", file);
  }
  return {};
}

// The processor's share of all sandboxes together. On v1 a group stands beside processes and weighs as much as one of
// them: ours weighs as much as one on each core, so that sandboxes on a busy host wait no longer than other work does.
// On v2 it stands beside other groups, whose weight it has; the keeper and the server need little and come first.
Result<> CgroupTree::weigh() {
  if (v2_cpu_) {
    if (stepped_from_) COVE_CHECK(write_file_at(stepped_from_.get(), fmt::format("{}/cpu.weight", kFront), kFirst));
    return write_file_at(keeper_.get(), "cpu.weight", kFirst);
  }
  if (!has(CgroupSlot::cpu)) return {};
  const auto cores = static_cast<unsigned long>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return write_file_at(dir_of(CgroupSlot::cpu), "cpu.shares", std::to_string(std::min(262'144UL, 1024 * cores)));
}

Result<CgroupTree> CgroupTree::create(const Options& options) {
  CgroupTree tree;
  tree.name_ = options.name;
  tree.made_by_ = ::getpid();
  tree.kept_ = options.kept;
  COVE_TRY(const auto mounts, read_mounts());
  COVE_TRY(const auto own_text, read_file_at(AT_FDCWD, "/proc/self/cgroup"));
  const auto owns = memberships(own_text);
  const auto own_of = [&](std::string_view controller) -> const Membership* {
    for (const auto& own : owns) {
      if (controller.empty() ? own.controllers.empty() : lists(own.controllers, controller, ',')) return &own;
    }
    return nullptr;
  };

  std::string reasons;
  const auto note = [&](const Error& error) {
    if (!reasons.empty()) reasons += "; ";
    reasons += error.message;
  };
  bool any_v1 = false;
  // Where an earlier tree is, whatever group we were started in this time.
  for (std::size_t i = 0; i < kCgroupSlots; ++i) {
    const auto slot = static_cast<CgroupSlot>(i);
    if (options.bases[i].empty()) continue;
    auto added = tree.add(slot, options.bases[i], options);
    if (added && slot == CgroupSlot::unified) added = tree.settle_unified(options);
    if (!added) note(added.error());
    any_v1 = any_v1 || (tree.has(slot) && slot != CgroupSlot::freezer && slot != CgroupSlot::unified);
  }
  for (const auto& mount : mounts) {
    if (mount.type == "cgroup2" && !options.ignore_unified && !tree.has(CgroupSlot::unified)) {
      const auto* own = own_of("");
      if (own == nullptr) continue;
      if (auto added = tree.add_unified(mount.target, own_directory(mount, own->path), options); !added)
        note(added.error());
    }
    if (mount.type != "cgroup") continue;
    constexpr auto kV1 = std::to_array<std::pair<CgroupSlot, std::string_view>>({{CgroupSlot::memory, "memory"},
                                                                                 {CgroupSlot::pids, "pids"},
                                                                                 {CgroupSlot::cpu, "cpu"},
                                                                                 {CgroupSlot::freezer, "freezer"}});
    for (const auto& [slot, controller] : kV1) {
      if (!lists(mount.super_options, controller, ',') || tree.has(slot)) continue;
      const auto* own = own_of(controller);
      if (own == nullptr) continue;
      if (auto added = tree.add(slot, own_directory(mount, own->path), options); !added) note(added.error());
      any_v1 = any_v1 || (tree.has(slot) && slot != CgroupSlot::freezer);
    }
  }
  // The v2 tree freezes and kills better than the v1 freezer: one of the two is enough.
  if (tree.has(CgroupSlot::unified) && tree.has(CgroupSlot::freezer)) {
    auto& freezer = tree.parents_[static_cast<std::size_t>(CgroupSlot::freezer)];
    ::unlinkat(freezer.base.get(), options.name.c_str(), AT_REMOVEDIR);
    freezer = {};
    tree.bases_[static_cast<std::size_t>(CgroupSlot::freezer)].clear();
  }
  if (auto weighed = tree.weigh(); !weighed) note(weighed.error());
  const bool v2 = tree.v2_memory_ || tree.v2_pids_ || tree.v2_cpu_;
  if (any_v1) {
    tree.mode_ = tree.has(CgroupSlot::unified) ? CgroupMode::hybrid : CgroupMode::v1;
  } else {
    tree.mode_ = v2 || tree.has(CgroupSlot::unified) ? CgroupMode::v2 : CgroupMode::none;
  }
  if (!tree.limits_memory() || !tree.limits_pids() || !tree.limits_cpu()) {
    tree.shortcoming_ = reasons.empty() ? "the host mounts no control group hierarchy with these controllers" : reasons;
  }
  return tree;
}

std::vector<std::string> CgroupTree::leaves() const {
  std::vector<std::string> names;
  for (const auto& parent : parents_) {
    if (!parent.dir) continue;
    for (auto& name : directories_in(parent.dir.get())) {
      if (name != "keeper" && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
    }
  }
  return names;
}

// Ends and removes what is still below us: a keeper that was killed could not.
void CgroupTree::clear() {
  for (const auto slot : {CgroupSlot::unified, CgroupSlot::freezer}) {
    if (has(slot)) kill_leaves(dir_of(slot));
  }
  for (int attempt = 0; attempt < 1000; ++attempt) {
    bool left = false;
    for (const auto& parent : parents_) {
      if (parent.dir) left = !remove_leaves(parent.dir.get()) || left;
    }
    if (!left) return;
    ::usleep(1000);
  }
}

void end_group_tree(const std::string& name, const std::array<std::string, kCgroupSlots>& bases) {
  if (name.empty() || name.find('/') != std::string::npos) return;
  const auto tree_in = [&](const std::string& base) {
    const UniqueFd directory(::open(base.c_str(), kTreeFlags));
    return directory && is_cgroup(directory.get())
               ? UniqueFd(::openat(directory.get(), name.c_str(), kTreeFlags | O_NOFOLLOW))
               : UniqueFd();
  };
  for (const auto slot : {CgroupSlot::unified, CgroupSlot::freezer}) {
    const auto& base = bases[static_cast<std::size_t>(slot)];
    if (const auto tree = base.empty() ? UniqueFd() : tree_in(base)) kill_leaves(tree.get());
  }
  for (const auto& base : bases) {
    const auto tree = base.empty() ? UniqueFd() : tree_in(base);
    for (int attempt = 0; tree && attempt < 1000 && !remove_leaves(tree.get()); ++attempt) ::usleep(1000);
    if (tree) ::rmdir(fmt::format("{}/{}", base, name).c_str());
  }
}

CgroupTree::~CgroupTree() {
  if (made_by_ != ::getpid()) return;
  // The keeper is gone, but its zygotes may still be ending.
  for (int attempt = 0; keeper_ && attempt < 1000; ++attempt) {
    if (::unlinkat(dir_of(CgroupSlot::unified), "keeper", AT_REMOVEDIR) == 0 || errno != EBUSY) break;
    ::usleep(1000);
  }
  if (kept_) {
    // Only what is empty can be removed: whoever lives on keeps its group.
    for (const auto& parent : parents_) {
      if (!parent.dir) continue;
      for (const auto& leaf : directories_in(parent.dir.get()))
        ::unlinkat(parent.dir.get(), leaf.c_str(), AT_REMOVEDIR);
    }
  }
  for (const auto& parent : parents_) {
    if (!parent.dir || ::unlinkat(parent.base.get(), name_.c_str(), AT_REMOVEDIR) == 0 || kept_) continue;
    clear();
    ::unlinkat(parent.base.get(), name_.c_str(), AT_REMOVEDIR);
  }
  // Back to where we came from, so that the group can be entered again. Another tree below it keeps us aside.
  if (stepped_from_ && write_file_at(stepped_from_.get(), "cgroup.subtree_control", "-memory -pids -cpu") &&
      write_file_at(stepped_from_.get(), "cgroup.procs", "0")) {
    ::unlinkat(stepped_from_.get(), kFront.data(), AT_REMOVEDIR);
  }
}

}  // namespace cove::sys
