#include "doctor/host_baseline.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

namespace cove::doctor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A tree of our own that looks like a host without a weakness.
class FakeHost {
 public:
  FakeHost() {
    std::string name = fs::temp_directory_path() / "cove-doctor-test-XXXXXX";
    host.root = ::mkdtemp(name.data());
    write("proc/sys/kernel/osrelease", "6.18.3-test");
    write("proc/sys/user/max_user_namespaces", "63000");
    write("proc/sys/kernel/unprivileged_userns_clone", "1");
    write("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0");
    write("proc/sys/kernel/io_uring_disabled", "2");
    write("proc/sys/dev/tty/legacy_tiocsti", "0");
    write("proc/sys/kernel/unprivileged_bpf_disabled", "2");
    write("proc/sys/kernel/perf_event_paranoid", "3");
    write("proc/sys/vm/unprivileged_userfaultfd", "0");
    write("proc/sys/kernel/yama/ptrace_scope", "1");
    write("proc/sys/kernel/kptr_restrict", "1");
    write("proc/sys/kernel/dmesg_restrict", "1");
    for (const char* file : {"hardlinks", "symlinks", "fifos", "regular"})
      write(std::string("proc/sys/fs/protected_") + file, "1");
    write("proc/sys/kernel/core_pattern", "core");
    write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority");
    write("proc/1/cgroup", "0::/init.scope");
    write("proc/self/status", "Name:\tcove\nCapBnd:\t000001ffffffffff");
    write("sys/devices/system/cpu/smt/active", "0");
    write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
    write("etc/subuid", "tester:200000:65536");
    write("etc/subgid", "1234:200000:65536");
    write("usr/bin/newuidmap", "");
    write("usr/bin/newgidmap", "");
    fs::permissions(host.root + "/usr/bin/newuidmap", fs::perms::all);
    fs::permissions(host.root + "/usr/bin/newgidmap", fs::perms::all);
    host.uid = 1234;
    host.user_name = "tester";
    host.landlock_abi = 6;
    host.descriptors = {.soft = 1024, .hard = 1'048'576};
    host.state = {.path = "/var/lib/cove", .free_bytes = 1ULL << 40, .free_inodes = 1'000'000};
  }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;
  ~FakeHost() { fs::remove_all(host.root); }

  void write(const std::string& path, std::string_view text) {
    const fs::path full = fs::path(host.root) / path;
    fs::create_directories(full.parent_path());
    std::ofstream(full) << text << '\n';
  }
  void remove(const std::string& path) { fs::remove(fs::path(host.root) / path); }
  [[nodiscard]] Check check(std::string_view id) const {
    for (auto& check : host_baseline(host)) {
      if (check.id == id) return check;
    }
    return {.id = "there is no such check"};
  }

  Host host;
};

TEST(HostBaseline, FindsNothingWrongWithAStrongHost) {
  const FakeHost fake;
  for (const auto& check : host_baseline(fake.host)) {
    EXPECT_EQ(check.status, Status::ok) << check.id << ": " << check.found;
    EXPECT_FALSE(check.found.empty()) << check.id;
    EXPECT_EQ(check.consequence + check.fix, "") << check.id;
  }
}

TEST(HostBaseline, GivesEveryCheckAnIdOfItsOwn) {
  const FakeHost fake;
  std::vector<std::string> ids;
  for (const auto& check : host_baseline(fake.host)) ids.push_back(check.id);
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

struct Row {
  const char* name;
  const char* id;
  std::function<void(FakeHost&)> weaken;
  Status status;
  const char* found;
  const char* consequence;
  const char* fix;
};
class Weakness : public testing::TestWithParam<Row> {};

std::function<void(FakeHost&)> write(const char* path, const char* text) {
  return [=](FakeHost& fake) { fake.write(path, text); };
}
std::function<void(FakeHost&)> without(const char* path) {
  return [=](FakeHost& fake) { fake.remove(path); };
}

TEST_P(Weakness, IsNamedWithItsConsequenceAndFixAndNothingElseIs) {
  const auto& row = GetParam();
  FakeHost fake;
  row.weaken(fake);
  const auto check = fake.check(row.id);
  EXPECT_EQ(check.status, row.status);
  EXPECT_THAT(check.found, HasSubstr(row.found));
  EXPECT_THAT(check.consequence, HasSubstr(row.consequence));
  EXPECT_THAT(check.fix, HasSubstr(row.fix));
  for (const auto& other : host_baseline(fake.host)) {
    if (other.id != row.id) EXPECT_EQ(other.status, Status::ok) << other.id;
  }
}

const Row kWeaknesses[] = {
    {"KernelTooOld", "kernel", write("proc/sys/kernel/osrelease", "5.10.0-30-amd64"), Status::fail, "5.10",
     "no sandbox can be made", "6.1"},
    {"KernelOld", "kernel", write("proc/sys/kernel/osrelease", "5.15.0"), Status::warn, "5.15", "exploits", "6.1"},
    {"KernelWaitsForReboot", "kernel", write("run/reboot-required", ""), Status::warn, "reboot",
     "open in the running one", "reboot"},
    {"NoLandlock", "landlock_abi", [](FakeHost& f) { f.host.landlock_abi = 0; }, Status::fail, "none", "paths", "lsm="},
    {"OldLandlock", "landlock_abi", [](FakeHost& f) { f.host.landlock_abi = 4; }, Status::warn, "ABI 4",
     "device ioctls, signals", "6.12"},
    {"NoUserNamespaces", "user.max_user_namespaces", write("proc/sys/user/max_user_namespaces", "0"), Status::fail, "0",
     "none can be made", "sysctl -w user.max_user_namespaces="},
    {"UserNamespacesForRootAlone", "kernel.unprivileged_userns_clone",
     write("proc/sys/kernel/unprivileged_userns_clone", "0"), Status::fail, "0", "none can be made",
     "sysctl -w kernel.unprivileged_userns_clone=1"},
    {"AppArmorRestrictsUserNamespaces", "kernel.apparmor_restrict_unprivileged_userns",
     write("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"), Status::warn, "1", "AppArmor",
     "kernel.apparmor_restrict_unprivileged_userns=0"},
    {"IoUring", "kernel.io_uring_disabled", write("proc/sys/kernel/io_uring_disabled", "0"), Status::warn, "0",
     "seccomp is the only wall", "sysctl -w kernel.io_uring_disabled=2"},
    {"IoUringForSome", "kernel.io_uring_disabled", write("proc/sys/kernel/io_uring_disabled", "1"), Status::warn, "1",
     "io_uring", "kernel.io_uring_disabled=2"},
    {"Tiocsti", "dev.tty.legacy_tiocsti", write("proc/sys/dev/tty/legacy_tiocsti", "1"), Status::warn, "1", "terminal",
     "dev.tty.legacy_tiocsti=0"},
    {"TiocstiWithoutSwitch", "dev.tty.legacy_tiocsti", without("proc/sys/dev/tty/legacy_tiocsti"), Status::warn,
     "absent", "terminal", "6.2"},
    {"Bpf", "kernel.unprivileged_bpf_disabled", write("proc/sys/kernel/unprivileged_bpf_disabled", "0"), Status::warn,
     "0", "BPF", "kernel.unprivileged_bpf_disabled=2"},
    {"Perf", "kernel.perf_event_paranoid", write("proc/sys/kernel/perf_event_paranoid", "2"), Status::warn, "2", "perf",
     "kernel.perf_event_paranoid=3"},
    {"PerfForAll", "kernel.perf_event_paranoid", write("proc/sys/kernel/perf_event_paranoid", "-1"), Status::warn, "-1",
     "perf", "kernel.perf_event_paranoid=3"},
    {"Userfaultfd", "vm.unprivileged_userfaultfd", write("proc/sys/vm/unprivileged_userfaultfd", "1"), Status::warn,
     "1", "races", "vm.unprivileged_userfaultfd=0"},
    {"Ptrace", "kernel.yama.ptrace_scope", write("proc/sys/kernel/yama/ptrace_scope", "0"), Status::warn, "0", "trace",
     "kernel.yama.ptrace_scope=1"},
    {"NoYama", "kernel.yama.ptrace_scope", without("proc/sys/kernel/yama/ptrace_scope"), Status::warn, "absent",
     "trace", "lsm="},
    {"KernelPointers", "kernel.kptr_restrict", write("proc/sys/kernel/kptr_restrict", "0"), Status::warn, "0",
     "addresses", "kernel.kptr_restrict=1"},
    {"KernelLog", "kernel.dmesg_restrict", write("proc/sys/kernel/dmesg_restrict", "0"), Status::warn, "0", "log",
     "kernel.dmesg_restrict=1"},
    {"Hardlinks", "fs.protected", write("proc/sys/fs/protected_hardlinks", "0"), Status::warn, "hardlinks=0", "plant",
     "fs.protected_hardlinks=1"},
    {"Symlinks", "fs.protected", write("proc/sys/fs/protected_symlinks", "0"), Status::warn, "symlinks=0", "plant",
     "fs.protected_symlinks=1"},
    {"Fifos", "fs.protected", write("proc/sys/fs/protected_fifos", "0"), Status::warn, "fifos=0", "plant",
     "fs.protected_fifos=1"},
    {"RegularFiles", "fs.protected", write("proc/sys/fs/protected_regular", "0"), Status::warn, "regular=0", "plant",
     "fs.protected_regular=1"},
    {"Nonsense", "kernel.kptr_restrict", write("proc/sys/kernel/kptr_restrict", "maybe"), Status::warn, "maybe",
     "addresses", "as root"},
    {"BareSwap", "swap", write("proc/swaps", "Filename Type\n/dev/zram0 partition 1 0 5\n/dev/sda2 partition 1 0 -2"),
     Status::warn, "/dev/sda2 (not known to be encrypted)", "readable on disk", "swapoff"},
    {"SwapOnPlainMapper", "swap",
     [](FakeHost& f) {
       f.write("proc/swaps", "Filename Type\n/dev/dm-1 partition 1 0 -2");
       f.write("sys/block/dm-1/dm/uuid", "LVM-abc");
     },
     Status::warn, "/dev/dm-1", "readable on disk", "encrypted"},
    {"PipedCores", "core_pattern", write("proc/sys/kernel/core_pattern", "|/usr/share/apport/apport %p"), Status::warn,
     "|/usr/share/apport", "memory", "kernel.core_pattern=core"},
    {"HyperThreading", "smt", write("sys/devices/system/cpu/smt/active", "1"), Status::warn, "on", "one core", "nosmt"},
    {"Vsock", "family.vsock", [](FakeHost& f) { f.host.open_families = {"AF_VSOCK"}; }, Status::warn, "can be opened",
     "hypervisor", "install vsock /bin/false"},
    {"Alg", "family.af_alg", [](FakeHost& f) { f.host.open_families = {"AF_ALG"}; }, Status::warn, "can be opened",
     "cryptography", "install af_alg /bin/false"},
    {"Rxrpc", "family.rxrpc", [](FakeHost& f) { f.host.open_families = {"AF_RXRPC"}; }, Status::warn, "can be opened",
     "protocol", "install rxrpc /bin/false"},
    {"PrivilegedContainer", "container", write(".dockerenv", ""), Status::warn, "privileged", "owns the machine",
     "virtual machine"},
    {"PrivilegedPod", "container", write("proc/1/cgroup", "4:memory:/kubepods/pod1"), Status::warn, "kubepods",
     "owns the machine", "virtual machine"},
    {"SlowClock", "clock", write("sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm"),
     Status::warn, "acpi_pm", "slower", "tsc"},
    {"FullDisk", "state_dir", [](FakeHost& f) { f.host.state.free_bytes = 1U << 20; }, Status::warn, "1M",
     "may not fit", "--state-dir"},
    {"NoInodes", "state_dir", [](FakeHost& f) { f.host.state.free_inodes = 5; }, Status::warn, "5 inodes",
     "may not fit", "--state-dir"},
    {"FewDescriptors", "descriptors", [](FakeHost& f) { f.host.descriptors = {.soft = 256, .hard = 256}; },
     Status::warn, "256", "few", "LimitNOFILE"},
    {"NoSubordinateUids", "subuid", write("etc/subuid", "other:200000:65536"), Status::warn, "/etc/subuid",
     "one tenant", "--add-subuids"},
    {"NoSubordinateGids", "subuid", without("etc/subgid"), Status::warn, "/etc/subgid", "one tenant", "tester"},
    {"NoNewuidmap", "subuid", without("usr/bin/newuidmap"), Status::warn, "newuidmap", "one tenant", "uidmap"},
};
INSTANTIATE_TEST_SUITE_P(, Weakness, testing::ValuesIn(kWeaknesses),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(HostBaseline, TakesSwapInMemoryOrOnAnEncryptedDeviceForGood) {
  FakeHost fake;
  fake.write("proc/swaps", "Filename Type\n/dev/zram0 partition 1 0 5\n/dev/dm-0 partition 1 0 -2");
  fake.write("sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-0123");
  EXPECT_EQ(fake.check("swap").status, Status::ok);
  EXPECT_EQ(fake.check("swap").found, "/dev/zram0 (in memory), /dev/dm-0 (encrypted)");
}

TEST(HostBaseline, TakesAFeatureThatTheKernelWasBuiltWithoutForGood) {
  FakeHost fake;
  fake.remove("proc/sys/kernel/io_uring_disabled");
  EXPECT_EQ(fake.check("kernel.io_uring_disabled").status, Status::ok);
  fake.write("proc/sys/kernel/osrelease", "6.1.0");
  EXPECT_EQ(fake.check("kernel.io_uring_disabled").status, Status::warn) << "it has io_uring and no switch for it";
}

TEST(HostBaseline, MindsNoContainerWithoutPrivilege) {
  FakeHost fake;
  fake.write(".dockerenv", "");
  fake.write("proc/self/status", "CapBnd:\t00000000a80425fb");
  EXPECT_EQ(fake.check("container").status, Status::ok);
}

TEST(HostBaseline, CountsNoInodesWhereTheFilesystemDoesNot) {
  FakeHost fake;
  fake.host.state.free_inodes = 0;
  fake.host.state.counts_inodes = false;
  EXPECT_EQ(fake.check("state_dir").status, Status::ok);
}

TEST(HostBaseline, AsksNoSubordinateIdsOfRoot) {
  FakeHost fake;
  fake.host.uid = 0;
  fake.remove("etc/subuid");
  EXPECT_EQ(fake.check("subuid").status, Status::ok);
}

}  // namespace
}  // namespace cove::doctor
