#include "doctor/host_baseline.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/units.hpp"
#include "doctor/sysctls.hpp"

namespace cove::doctor {
namespace {

constexpr Host::Version kOldestKernel{5, 14};  // cgroup.kill, processes counted per user namespace
constexpr Host::Version kGoodKernel{6, 1};
constexpr int kGoodLandlock = 6;
constexpr std::uint64_t kLeastBytes = 256ULL << 20;
constexpr std::uint64_t kLeastInodes = 10'000;
constexpr std::uint64_t kSoftDescriptors = 1024;
constexpr std::uint64_t kHardDescriptors = 4096;  // what a sandbox may raise its own limit to

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto item = text.substr(0, text.find(separator));
    if (!item.empty()) out.push_back(item);
    text.remove_prefix(std::min(text.size(), item.size() + 1));
  }
  return out;
}

Check check_kernel(const Host& host) {
  Check check{.id = "kernel", .title = "kernel", .found = host.release()};
  if (host.kernel() < kGoodKernel) {
    check.status = host.kernel() < kOldestKernel ? Status::fail : Status::warn;
    check.consequence = host.kernel() < kOldestKernel
                            ? "no sandbox can be made: it lacks calls that each one needs (mount_setattr, cgroup.kill)"
                            : "known kernel exploits may still work, and newer locks are missing";
    check.fix = "run a kernel that still gets security fixes, 6.1 or newer, and install its updates";
  } else if (host.has("run/reboot-required")) {
    check.status = Status::warn;
    check.found += ", and an update waits for a reboot";
    check.consequence = "bugs that the installed kernel fixes are still open in the running one";
    check.fix = "reboot";
  }
  return check;
}

Check check_landlock(const Host& host) {
  struct Step {
    int abi;
    const char* right;
  };
  constexpr auto kSteps = std::to_array<Step>({{1, "paths"},
                                               {2, "moving between directories"},
                                               {3, "truncation"},
                                               {4, "TCP"},
                                               {5, "device ioctls"},
                                               {6, "signals and abstract sockets"}});
  Check check{.id = "landlock_abi", .title = "Landlock version", .found = fmt::format("ABI {}", host.landlock_abi)};
  if (host.landlock_abi >= kGoodLandlock) return check;
  std::vector<std::string_view> missing;
  for (const auto& step : kSteps) {
    if (step.abi > host.landlock_abi) missing.emplace_back(step.right);
  }
  check.status = host.landlock_abi == 0 ? Status::fail : Status::warn;
  if (host.landlock_abi == 0) check.found = "none";
  check.consequence = fmt::format("no second wall, behind the namespaces, for: {}", fmt::join(missing, ", "));
  check.fix = host.landlock_abi == 0 ? "add landlock to lsm= on the kernel's command line, on Linux 5.13 or newer"
                                     : "run Linux 6.12 or newer, which has all of them";
  return check;
}

// What is paged out to a bare disk can be read from it later, by whoever gets the disk.
Check check_swap(const Host& host) {
  Check check{.id = "swap", .title = "swap", .found = "none"};
  const auto table = host.read("proc/swaps").value_or("");
  std::vector<std::string> kinds;
  bool bare = false;
  for (const auto line : split(table, '\n')) {
    const auto device = line.substr(0, line.find_first_of(" \t"));
    if (device == "Filename") continue;
    const auto name = device.substr(device.rfind('/') + 1);
    const bool zram = name.starts_with("zram");
    const bool crypt = host.read(fmt::format("sys/block/{}/dm/uuid", name)).value_or("").starts_with("CRYPT-");
    bare = bare || !(zram || crypt);
    kinds.push_back(fmt::format("{} ({})", device,
                                zram    ? "in memory"
                                : crypt ? "encrypted"
                                        : "not known to be encrypted"));
  }
  if (!kinds.empty()) check.found = fmt::format("{}", fmt::join(kinds, ", "));
  if (!bare) return check;
  check.status = Status::warn;
  check.consequence =
      "what Cove or, under cgroup v1 without swap accounting, a sandbox held in memory may stay readable on disk";
  check.fix = "run swapoff -a, or swap to zram or to an encrypted device";
  return check;
}

Check check_core_pattern(const Host& host) {
  Check check{.id = "core_pattern",
              .title = "core dumps",
              .found = host.read("proc/sys/kernel/core_pattern").value_or("unknown")};
  if (!check.found.starts_with('|')) return check;
  check.status = Status::warn;
  // core(5): a pipe is started whatever RLIMIT_CORE says.
  check.consequence =
      "a crash inside a sandbox starts that program on the host, as root, and hands it the sandbox's memory";
  check.fix = "sysctl -w kernel.core_pattern=core; with systemd: mask systemd-coredump.socket and 50-coredump.conf";
  return check;
}

Check check_smt(const Host& host) {
  const auto active = host.read("sys/devices/system/cpu/smt/active");
  Check check{.id = "smt", .title = "hyper-threading", .found = "off"};
  if (!active) check.found = "none";
  if (active.value_or("0") != "1") return check;
  check.status = Status::warn;
  check.found = "on";
  check.consequence = "two sandboxes on the threads of one core can watch each other through its caches and buffers";
  check.fix = "echo off > /sys/devices/system/cpu/smt/control, or boot with nosmt, where tenants may be hostile";
  return check;
}

struct FamilyAdvice {
  const char* name;
  const char* module;
  const char* consequence;
};
constexpr auto kFamilyAdvice = std::to_array<FamilyAdvice>({
    {"AF_VSOCK", "vsock",
     "such a socket reaches the hypervisor even from an empty network namespace; seccomp is the only wall"},
    {"AF_ALG", "af_alg",
     "the kernel's cryptography, with a history of holes, is open to all; seccomp is the only wall"},
    {"AF_RXRPC", "rxrpc", "a rarely used protocol with a history of holes is open to all; seccomp is the only wall"},
});

Check check_family(const Host& host, const FamilyAdvice& family) {
  Check check{.id = fmt::format("family.{}", family.module),
              .title = fmt::format("{} sockets", family.name),
              .found = "cannot be opened"};
  if (std::ranges::find(host.open_families, family.name) == host.open_families.end()) return check;
  check.status = Status::warn;
  check.found = "can be opened";
  check.consequence = family.consequence;
  check.fix = fmt::format("if nothing needs it: 'install {} /bin/false' in /etc/modprobe.d/cove.conf, then reboot",
                          family.module);
  return check;
}

std::uint64_t bounding_set(const Host& host) {
  const auto status = host.read("proc/self/status").value_or("");
  for (const auto line : split(status, '\n')) {
    if (!line.starts_with("CapBnd:\t")) continue;
    std::uint64_t set = 0;
    std::from_chars(line.data() + 8, line.data() + line.size(), set, 16);
    return set;
  }
  return 0;
}

std::string container_sign(const Host& host) {
  if (host.has(".dockerenv")) return "/.dockerenv";
  if (host.has("run/.containerenv")) return "/run/.containerenv";
  if (host.has("run/systemd/container")) return "/run/systemd/container";
  const auto groups = host.read("proc/1/cgroup").value_or("");
  for (const std::string_view engine : {"docker", "kubepods", "containerd", "libpod", "lxc"}) {
    if (groups.find(engine) != std::string::npos) return fmt::format("{} in /proc/1/cgroup", engine);
  }
  return "";
}

Check check_container(const Host& host) {
  Check check{.id = "container", .title = "container", .found = "no sign of one around us"};
  const auto sign = container_sign(host);
  if (sign.empty()) return check;
  // CAP_SYS_ADMIN and CAP_SYS_MODULE: what engines give to --privileged containers, and to no others.
  constexpr std::uint64_t kPrivileged = (1ULL << 21) | (1ULL << 16);
  const bool privileged = (bounding_set(host) & kPrivileged) == kPrivileged;
  check.found = fmt::format("inside a{} container ({})", privileged ? " privileged" : "", sign);
  if (!privileged) return check;
  check.status = Status::warn;
  check.consequence = "whoever gets out of a sandbox and becomes root here owns the machine around the container too";
  check.fix = "run Cove on the host, in a virtual machine, or in a container without CAP_SYS_MODULE and the like";
  return check;
}

Check check_clock(const Host& host) {
  const auto source = host.read("sys/devices/system/clocksource/clocksource0/current_clocksource").value_or("unknown");
  Check check{.id = "clock", .title = "clock source", .found = source};
  const bool slow =
      source == "hpet" || source == "acpi_pm" || source == "pit" || source == "jiffies" || source == "refined-jiffies";
  if (!slow) return check;
  check.status = Status::warn;
  check.consequence = "reading the time takes a system call and slow hardware: everything that measures time is slower";
  check.fix =
      "boot with tsc=reliable where the hardware allows; in a virtual machine, give it kvm-clock or an invariant TSC";
  return check;
}

Check check_state_dir(const Host& host) {
  const auto& state = host.state;
  Check check{.id = "state_dir", .title = "state directory"};
  const auto inodes = state.counts_inodes ? fmt::format("{} inodes", state.free_inodes) : "no inode limit";
  check.found = fmt::format("{}: {} and {} free", state.path, format_size(state.free_bytes), inodes);
  if (state.free_bytes >= kLeastBytes && (!state.counts_inodes || state.free_inodes >= kLeastInodes)) return check;
  check.status = Status::warn;
  check.consequence = "the root of sandboxes is built there and may not fit: runs would fail";
  check.fix = fmt::format("free {} and {} inodes there, or give another directory with --state-dir",
                          format_size(kLeastBytes), kLeastInodes);
  return check;
}

Check check_descriptors(const Host& host) {
  const auto [soft, hard] = host.descriptors;
  Check check{.id = "descriptors", .title = "open files", .found = fmt::format("{} soft, {} hard", soft, hard)};
  if (soft >= kSoftDescriptors && hard >= kHardDescriptors) return check;
  check.status = Status::warn;
  check.consequence =
      "each sandbox takes some of the keeper's descriptors: few can run at once, and programs get fewer than usual";
  check.fix = "run ulimit -n 65536 before cove; in a systemd unit, set LimitNOFILE=65536";
  return check;
}

bool has_range(const Host& host, const std::string& file) {
  const auto text = host.read(file).value_or("");
  return std::ranges::any_of(split(text, '\n'), [&](std::string_view line) {
    const auto owner = line.substr(0, line.find(':'));
    return owner == std::to_string(host.uid) || (!host.user_name.empty() && owner == host.user_name);
  });
}

Check check_subuid(const Host& host) {
  Check check{.id = "subuid", .title = "subordinate ids", .found = "not needed: root has ranges of its own"};
  if (host.uid == 0) return check;
  std::vector<std::string_view> missing;
  if (!has_range(host, "etc/subuid")) missing.emplace_back("a range in /etc/subuid");
  if (!has_range(host, "etc/subgid")) missing.emplace_back("a range in /etc/subgid");
  if (!host.can_run("usr/bin/newuidmap") || !host.can_run("usr/bin/newgidmap"))
    missing.emplace_back("newuidmap and newgidmap");
  check.found = "ranges and newuidmap are there";
  if (missing.empty()) return check;
  check.status = Status::warn;
  check.found = fmt::format("missing: {}", fmt::join(missing, ", "));
  check.consequence = "every sandbox has this user's uid: only namespaces keep them apart; serve one tenant only";
  check.fix = fmt::format(
      "as root: install the package uidmap; usermod --add-subuids 200000-265535 --add-subgids 200000-265535 {}",
      host.user_name.empty() ? std::to_string(host.uid) : host.user_name);
  return check;
}

}  // namespace

Checks host_baseline(const Host& host) {
  Checks checks{check_kernel(host), check_landlock(host)};
  std::ranges::move(check_sysctls(host), std::back_inserter(checks));
  for (const auto& family : kFamilyAdvice) checks.push_back(check_family(host, family));
  for (auto* check : {check_swap, check_core_pattern, check_smt, check_container, check_clock, check_state_dir,
                      check_descriptors, check_subuid}) {
    checks.push_back(check(host));
  }
  return checks;
}

}  // namespace cove::doctor
