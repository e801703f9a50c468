#include "doctor/sysctls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace cove::doctor {
namespace {

// What it means that the file is not there.
struct Absence {
  Host::Version switch_since{0, 0};  // a kernel this new without the file was built without the feature
  const char* weak_fix = nullptr;    // set: a kernel without the file is weak whatever its version
};

struct Range {
  int least;
  int most;
};

struct Sysctl {
  std::string_view name;
  Range good;
  int wanted;  // what the fix sets
  Status weak = Status::warn;
  Absence absence;
  const char* consequence;
};

constexpr int kAny = 1'000'000'000;
constexpr std::string_view kAppArmor = "kernel.apparmor_restrict_unprivileged_userns";
constexpr auto kSysctls = std::to_array<Sysctl>({
    {.name = "user.max_user_namespaces",
     .good = {2, kAny},
     .wanted = 65536,
     .weak = Status::fail,
     .consequence = "a sandbox takes two user namespaces, one inside the other: none can be made"},
    // Judged by the capabilities in the host's own namespace, which not even root's keeper still has.
    {.name = "kernel.unprivileged_userns_clone",
     .good = {1, kAny},
     .wanted = 1,
     .weak = Status::fail,
     .consequence = "the keeper may not make the user namespaces of sandboxes: none can be made"},
    {.name = kAppArmor,
     .good = {0, 0},
     .wanted = 0,
     .consequence = "AppArmor takes the capabilities in user namespaces from users other than root, unless a profile "
                    "for cove allows them: without one they cannot make sandboxes"},
    {.name = "kernel.io_uring_disabled",
     .good = {2, 2},
     .wanted = 2,
     .absence = {.switch_since = {6, 6}},
     .consequence = "io_uring, the source of many kernel escapes, is open to everyone: seccomp is the only wall in "
                    "front of it"},
    {.name = "dev.tty.legacy_tiocsti",
     .good = {0, 0},
     .wanted = 0,
     .absence = {.weak_fix = "run a kernel of 6.2 or newer, which has the switch"},
     .consequence = "a program that gets hold of your terminal can type commands into it; a session of its own and "
                    "seccomp are what keeps sandboxes from it"},
    {.name = "kernel.unprivileged_bpf_disabled",
     .good = {1, 2},
     .wanted = 2,
     .absence = {.switch_since = {4, 4}},
     .consequence =
         "everyone may load BPF programs into the kernel: seccomp is the only wall in front of its verifier"},
    {.name = "kernel.perf_event_paranoid",
     .good = {3, kAny},
     .wanted = 3,
     .consequence = "everyone may measure their own processes with perf, an exact clock for side channels and a large "
                    "part of the kernel: seccomp is the only wall in front of it"},
    {.name = "vm.unprivileged_userfaultfd",
     .good = {0, 0},
     .wanted = 0,
     .absence = {.switch_since = {5, 2}},
     .consequence = "everyone may stop the kernel in the middle of a copy, which makes races in it easy to win: "
                    "seccomp is the only wall in front of it"},
    {.name = "kernel.yama.ptrace_scope",
     .good = {1, kAny},
     .wanted = 1,
     .absence = {.weak_fix = "add yama to lsm= on the kernel's command line, then sysctl kernel.yama.ptrace_scope=1"},
     .consequence = "processes of one user may trace each other: whoever gets out of a sandbox of an ordinary user has "
                    "all that user runs"},
    {.name = "kernel.kptr_restrict",
     .good = {1, kAny},
     .wanted = 1,
     .absence = {.weak_fix = "run a kernel that has kernel.kptr_restrict"},
     .consequence = "kernel addresses can be read from /proc on the host, which helps to exploit a bug in it"},
    {.name = "kernel.dmesg_restrict",
     .good = {1, kAny},
     .wanted = 1,
     .absence = {.weak_fix = "run a kernel that has kernel.dmesg_restrict"},
     .consequence = "every user can read the kernel log, with addresses and traces that help to exploit a bug"},
});

std::string path_of(std::string_view name) {
  std::string path(name);
  std::ranges::replace(path, '.', '/');
  return "proc/sys/" + path;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec == std::errc::result_out_of_range) return kAny;
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string set_to(std::string_view assignments) {
  return fmt::format("sysctl -w {} (and the same in /etc/sysctl.d/60-cove.conf)", assignments);
}

// For people; the id is the whole name.
std::string title_of(std::string_view name) {
  return name == kAppArmor ? "AppArmor on user namespaces" : std::string(name);
}

Check absent(const Host& host, const Sysctl& sysctl) {
  Check check{.id = std::string(sysctl.name),
              .title = title_of(sysctl.name),
              .found = "absent: this kernel has no such switch"};
  const auto since = sysctl.absence.switch_since;
  if (sysctl.absence.weak_fix != nullptr) {
    check.found = "absent";
    check.fix = sysctl.absence.weak_fix;
  } else if (host.kernel() < since) {
    check.found = fmt::format("absent: the switch came with Linux {}.{}", since.first, since.second);
    check.fix = fmt::format("run a kernel of {}.{} or newer, then sysctl -w {}={}", since.first, since.second,
                            sysctl.name, sysctl.wanted);
  } else {
    return check;
  }
  check.status = sysctl.weak;
  check.consequence = sysctl.consequence;
  return check;
}

Check check_one(const Host& host, const Sysctl& sysctl) {
  const auto text = host.read(path_of(sysctl.name));
  if (!text && text.error().code == Errc::not_found) return absent(host, sysctl);
  Check check{.id = std::string(sysctl.name),
              .title = title_of(sysctl.name),
              .found = text.value_or("this user may not read it")};
  const auto value = number(text.value_or(""));
  if (value && *value >= sysctl.good.least && *value <= sysctl.good.most) return check;
  check.status = value ? sysctl.weak : Status::warn;
  check.consequence = sysctl.consequence;
  check.fix = value ? set_to(fmt::format("{}={}", sysctl.name, sysctl.wanted)) : "run cove doctor as root to see it";
  return check;
}

// Four switches with one purpose, so one line.
Check check_protected_links(const Host& host) {
  Check check{.id = "fs.protected", .title = "fs.protected_*"};
  std::string weak;
  std::string unknown;
  for (const std::string_view name : {"hardlinks", "symlinks", "fifos", "regular"}) {
    const auto text = host.read(fmt::format("proc/sys/fs/protected_{}", name));
    check.found += fmt::format("{}{}={}", check.found.empty() ? "" : " ", name, text.value_or("?"));
    if (!text)
      unknown += name;
    else if (number(*text).value_or(0) < 1)
      weak += fmt::format("{}fs.protected_{}=1", weak.empty() ? "" : " ", name);
  }
  if (weak.empty() && unknown.empty()) return check;
  check.status = Status::warn;
  check.consequence =
      "in /tmp and the like one user can plant a link, FIFO or file that another user's program then opens";
  check.fix = weak.empty() ? "run cove doctor as root to see it" : set_to(weak);
  return check;
}

}  // namespace

Checks check_sysctls(const Host& host) {
  Checks checks;
  for (const auto& sysctl : kSysctls) checks.push_back(check_one(host, sysctl));
  checks.push_back(check_protected_links(host));
  return checks;
}

}  // namespace cove::doctor
