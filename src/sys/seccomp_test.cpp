#include "sys/seccomp.hpp"

#include <gmock/gmock.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace cove::sys {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kNative = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kForeign = AUDIT_ARCH_I386;
#elif defined(__aarch64__)
constexpr std::uint32_t kNative = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kForeign = AUDIT_ARCH_ARM;
#endif

using Args = std::array<std::uint64_t, 6>;

// What the kernel would do with the call: the classic BPF that seccomp allows, as far as we use it.
std::uint32_t evaluate(std::span<const sock_filter> program, const seccomp_data& call) {
  std::uint32_t a = 0;
  for (std::size_t pc = 0; pc < program.size();) {
    const auto& op = program[pc++];
    switch (op.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (op.k % 4 != 0 || op.k + 4 > sizeof call) return SECCOMP_RET_TRAP;
        std::memcpy(&a, reinterpret_cast<const char*>(&call) + op.k, sizeof a);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= op.k;
        break;
      case BPF_JMP | BPF_JA:
        pc += op.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        pc += a == op.k ? op.jt : op.jf;
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        pc += a >= op.k ? op.jt : op.jf;
        break;
      case BPF_RET | BPF_K:
        return op.k;
      default:
        return SECCOMP_RET_TRAP;
    }
  }
  return SECCOMP_RET_TRAP;  // ran off the end
}

// The answer in words, so that a failure can be read.
std::string answer_on(std::uint32_t arch, std::int64_t number, const Args& args = {}) {
  seccomp_data call{.nr = static_cast<int>(number), .arch = arch, .instruction_pointer = 0, .args = {}};
  std::copy(args.begin(), args.end(), call.args);
  const auto action = evaluate(default_seccomp(), call);
  const auto data = static_cast<int>(action & SECCOMP_RET_DATA);
  switch (action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
      return "allow";
    case SECCOMP_RET_KILL_PROCESS:
      return "kill";
    case SECCOMP_RET_ERRNO:
      if (data == 0) return "ignore";
      return ::strerrorname_np(data) != nullptr ? ::strerrorname_np(data) : "an unknown errno";
    default:
      return "something else";
  }
}
std::string answer(std::int64_t number, const Args& args = {}) {
  return answer_on(kNative, number, args);
}

// ---- Calls whose arguments do not matter ----

struct CallRow {
  const char* name;
  std::vector<std::int64_t> calls;
  const char* want;
};
class SeccompCalls : public testing::TestWithParam<CallRow> {};

TEST_P(SeccompCalls, AnswerAlikeWhateverTheArguments) {
  std::mt19937_64 random(1);
  for (const auto call : GetParam().calls) {
    EXPECT_EQ(answer(call), GetParam().want) << "call " << call;
    for (int i = 0; i < 200; ++i) {
      Args args{};
      for (auto& arg : args) arg = random() >> (random() % 64);
      ASSERT_EQ(answer(call, args), GetParam().want) << "call " << call;
    }
  }
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(, SeccompCalls, testing::Values(
    CallRow{"NS01_02_Unshare", {SYS_unshare}, "EPERM"},
    CallRow{"NS01_Clone3FallsBackToClone", {SYS_clone3}, "ENOSYS"},
    CallRow{"NS03_Mount", {SYS_mount, SYS_umount2}, "EPERM"},
    CallRow{"NS04_NewMountApi", {SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_open_tree, SYS_move_mount,
        SYS_mount_setattr, 457 /* statmount */, 458 /* listmount */, 467 /* open_tree_attr */}, "EPERM"},
    CallRow{"NS05_ChangeOfRoot", {SYS_pivot_root, SYS_chroot}, "EPERM"},
    CallRow{"NS06_Setns", {SYS_setns}, "EPERM"},
    CallRow{"NS07_HostName", {SYS_sethostname, SYS_setdomainname}, "EPERM"},
    CallRow{"NS08_CapsetCanOnlyDrop", {SYS_capset, SYS_capget}, "allow"},
    CallRow{"NS09_OwnIds", {SYS_setuid, SYS_setresuid, SYS_setgroups, SYS_setfsuid}, "allow"},
    CallRow{"SC01_Ptrace", {SYS_ptrace}, "EPERM"},
    CallRow{"SC02_OtherProcesses", {SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_process_madvise,
        SYS_process_mrelease, SYS_kcmp}, "EPERM"},
    CallRow{"SC03_Keys", {SYS_add_key, SYS_request_key, SYS_keyctl}, "EPERM"},
    CallRow{"SC04_Bpf", {SYS_bpf}, "EPERM"},
    CallRow{"SC05_IoUringFallsBack", {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register}, "ENOSYS"},
    CallRow{"SC06_Userfaultfd", {SYS_userfaultfd}, "EPERM"},
    CallRow{"SC07_Perf", {SYS_perf_event_open}, "EPERM"},
    CallRow{"SC08_Machine", {SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_reboot,
        SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_quotactl_fd, SYS_nfsservctl}, "EPERM"},
    CallRow{"SC09_FileHandles", {SYS_name_to_handle_at, SYS_open_by_handle_at}, "EPERM"},
    CallRow{"SC10_Clock", {SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime}, "EPERM"},
    CallRow{"SC14_TooNewFallsBack", {453 /* map_shadow_stack */, 454, 455, 456 /* futex2 */, SYS_futex_waitv,
        463, 464, 465, 466 /* xattrat */}, "ENOSYS"},
    CallRow{"SC21_Fanotify", {SYS_fanotify_init, SYS_fanotify_mark}, "EPERM"},
    CallRow{"SC21_InotifyWorks", {SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch}, "allow"},
    CallRow{"SC22_MemfdAndExecveat", {SYS_memfd_create, SYS_execveat, SYS_execve}, "allow"},
    CallRow{"SC23_Vmsplice", {SYS_vmsplice}, "ENOSYS"},
    CallRow{"SC25_SetattrFallsBack", {SYS_sched_setattr}, "ENOSYS"},
    CallRow{"SC26_MemoryPolicy", {SYS_move_pages, SYS_migrate_pages, SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy,
        SYS_set_mempolicy_home_node}, "EPERM"},
    CallRow{"SC26_OldDoors", {SYS_syslog, SYS_lookup_dcookie, SYS_vhangup, SYS_remap_file_pages}, "EPERM"},
    CallRow{"SC28_Ipc", {SYS_shmget, SYS_semget, SYS_msgget, SYS_mq_open}, "allow"},
    CallRow{"XT07_PageCache", {451 /* cachestat */}, "EPERM"},
    CallRow{"SecretMemory", {SYS_memfd_secret}, "EPERM"},
    CallRow{"HostWideSync", {SYS_sync}, "EPERM"},
    CallRow{"KernelAioFallsBack", {SYS_io_setup, SYS_io_submit, SYS_io_getevents}, "ENOSYS"},
    CallRow{"TightenSelf", {SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
        462 /* mseal */}, "allow"},
    CallRow{"NewerFileCalls", {452 /* fchmodat2 */, SYS_openat2, SYS_statx, SYS_close_range, SYS_faccessat2}, "allow"},
    CallRow{"WhatInitNeeds", {SYS_wait4, SYS_waitid, SYS_pipe2, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait,
        SYS_signalfd4, SYS_timerfd_create, SYS_timerfd_settime, SYS_dup3, SYS_setsid, SYS_kill,
        SYS_pidfd_open,
        SYS_pidfd_send_signal, SYS_accept4, SYS_sendmsg, SYS_recvmsg, SYS_splice, SYS_statfs, SYS_fstatfs}, "allow"}
), [](const auto& row) { return std::string(row.param.name); });

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(X86, SeccompCalls, testing::Values(
    CallRow{"SC08_Ports", {SYS_iopl, SYS_ioperm, SYS_kexec_file_load}, "EPERM"},
    CallRow{"SC20_ModifyLdt", {SYS_modify_ldt}, "EPERM"},
    CallRow{"SC26_OldDoors", {SYS_uselib, SYS_ustat, SYS_sysfs}, "EPERM"},
    CallRow{"WhatInitNeeds", {SYS_vfork, SYS_fork, SYS_dup2}, "allow"}
), [](const auto& row) { return std::string(row.param.name); });
#endif
// clang-format on

// ---- Calls whose arguments decide ----

struct ArgRow {
  const char* name;
  std::int64_t call;
  Args args;
  const char* want;
};
class SeccompArguments : public testing::TestWithParam<ArgRow> {};

TEST_P(SeccompArguments, DecideByTheirLowHalf) {
  const auto& row = GetParam();
  EXPECT_EQ(answer(row.call, row.args), row.want);
  // The kernel reads these as 32-bit values: what stands above must neither open nor close anything.
  for (const std::uint64_t above : {1ULL << 32, 1ULL << 63, 0xffffffffULL << 32}) {
    for (std::size_t i = 0; i < row.args.size(); ++i) {
      auto args = row.args;
      args[i] |= above;
      EXPECT_EQ(answer(row.call, args), row.want) << "with rubbish above argument " << i;
    }
  }
}

// A pointer counts as a whole: one whose low half is zero points somewhere.
TEST(SeccompPointer, SG13_TheCoreLimitIsToldOnlyToWhoSetsNone) {
  EXPECT_EQ(answer(SYS_prlimit64, {0, RLIMIT_CORE, 0}), "allow");
  EXPECT_EQ(answer(SYS_prlimit64, {0, RLIMIT_CORE, 1}), "ignore");
  EXPECT_EQ(answer(SYS_prlimit64, {0, RLIMIT_CORE, 1ULL << 32}), "ignore");
  EXPECT_EQ(answer(SYS_prlimit64, {0, RLIMIT_CORE, 0x7f0000000000}), "ignore");
  EXPECT_EQ(answer(SYS_prlimit64, {0, RLIMIT_CORE | (1ULL << 32), 1ULL << 63}), "ignore");
}

constexpr std::uint64_t kSigned(int value) {  // as a C caller with an int passes it
  return static_cast<std::uint64_t>(std::int64_t{value});
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(, SeccompArguments, testing::Values(
    ArgRow{"ThreadOfGlibc", SYS_clone, {0x3d0f00}, "allow"},
    ArgRow{"ForkOfGlibc", SYS_clone, {0x1200011}, "allow"},
    ArgRow{"VforkByClone", SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}, "allow"},
    ArgRow{"NS01_CloneNewUser", SYS_clone, {CLONE_NEWUSER | SIGCHLD}, "EPERM"},
    ArgRow{"NS01_CloneNewUserAmongAll", SYS_clone, {0xffffffff}, "EPERM"},

    ArgRow{"NS10_SetName", SYS_prctl, {PR_SET_NAME}, "allow"},
    ArgRow{"NS10_NoNewPrivsOnlySets", SYS_prctl, {PR_SET_NO_NEW_PRIVS, 0}, "allow"},  // the kernel refuses 0 itself
    ArgRow{"NS10_Dumpable", SYS_prctl, {PR_SET_DUMPABLE}, "allow"},
    ArgRow{"NS10_NameMemory", SYS_prctl, {PR_SET_VMA}, "allow"},
    ArgRow{"NS10_Securebits", SYS_prctl, {PR_SET_SECUREBITS}, "EPERM"},
    ArgRow{"NS10_SetMm", SYS_prctl, {PR_SET_MM}, "EPERM"},
    ArgRow{"NS10_Keepcaps", SYS_prctl, {PR_SET_KEEPCAPS}, "EPERM"},
    ArgRow{"NS10_SetTsc", SYS_prctl, {PR_SET_TSC}, "EPERM"},
    ArgRow{"NS10_MceKill", SYS_prctl, {PR_MCE_KILL}, "EPERM"},
    ArgRow{"NS10_Speculation", SYS_prctl, {PR_SET_SPECULATION_CTRL}, "EPERM"},
    ArgRow{"NS10_SyscallUserDispatch", SYS_prctl, {PR_SET_SYSCALL_USER_DISPATCH}, "EPERM"},
    ArgRow{"NS08_AmbientRaise", SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE}, "EPERM"},
    ArgRow{"NS08_AmbientClear", SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL}, "allow"},
    ArgRow{"NS08_BoundingRead", SYS_prctl, {PR_CAPBSET_READ}, "allow"},
    ArgRow{"NS08_BoundingDrop", SYS_prctl, {PR_CAPBSET_DROP}, "EPERM"},
    ArgRow{"SC27_Subreaper", SYS_prctl, {PR_SET_CHILD_SUBREAPER}, "allow"},
    ArgRow{"SC27_SetPtracer", SYS_prctl, {PR_SET_PTRACER}, "EPERM"},

    ArgRow{"NS13_OwnFilter", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC}, "allow"},
    ArgRow{"NS13_Listener", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER}, "EPERM"},
    ArgRow{"NS13_ListenerAndMore", SYS_seccomp,
        {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_LOG}, "EPERM"},
    ArgRow{"NS13_FlagOfTomorrow", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, 1U << 20}, "EPERM"},
    ArgRow{"NS13_NotifySizes", SYS_seccomp, {SECCOMP_GET_NOTIF_SIZES}, "EPERM"},

    ArgRow{"SC11_Tiocsti", SYS_ioctl, {0, TIOCSTI}, "EPERM"},
    ArgRow{"SC11_Tioclinux", SYS_ioctl, {0, TIOCLINUX}, "EPERM"},
    ArgRow{"SC11_Tiocsetd", SYS_ioctl, {0, TIOCSETD}, "EPERM"},
    ArgRow{"SC11_Tioccons", SYS_ioctl, {0, TIOCCONS}, "EPERM"},
    ArgRow{"TerminalModes", SYS_ioctl, {0, TCGETS}, "allow"},
    ArgRow{"TerminalSize", SYS_ioctl, {0, TIOCSWINSZ}, "allow"},
    ArgRow{"TerminalNumberSignExtended", SYS_ioctl, {0, kSigned(static_cast<int>(TIOCGPTN))}, "allow"},
    ArgRow{"BytesWaiting", SYS_ioctl, {0, FIONREAD}, "allow"},

    ArgRow{"LimitsOfInitStay", SYS_prlimit64, {1, RLIMIT_NOFILE}, "EPERM"},
    ArgRow{"SchedulingOfInitStays", SYS_sched_setscheduler, {1, SCHED_IDLE}, "EPERM"},
    ArgRow{"AffinityOfInitStays", SYS_sched_setaffinity, {1}, "EPERM"},
    ArgRow{"AffinityOfAThreadIsFree", SYS_sched_setaffinity, {7}, "allow"},
    ArgRow{"PriorityOfInitStays", SYS_setpriority, {PRIO_PROCESS, 1}, "EPERM"},
    ArgRow{"PriorityOfTheWholeUserStays", SYS_setpriority, {PRIO_USER, 0}, "EPERM"},
    ArgRow{"OwnPriorityIsFree", SYS_setpriority, {PRIO_PROCESS, 0}, "allow"},
    ArgRow{"SG13_CoreLimitStays", SYS_setrlimit, {RLIMIT_CORE}, "ignore"},
    ArgRow{"SG13_CoreLimitStaysByPrlimit", SYS_prlimit64, {0, RLIMIT_CORE, 0x1000}, "ignore"},
    ArgRow{"SG13_CoreLimitStaysWhateverIsAbove", SYS_prlimit64, {0, RLIMIT_CORE | (1ULL << 32), 0x1000}, "ignore"},
    ArgRow{"SG13_CoreLimitOfInitStays", SYS_prlimit64, {1, RLIMIT_CORE, 0}, "EPERM"},
    ArgRow{"OtherLimitsMayBeLowered", SYS_prlimit64, {0, RLIMIT_NOFILE}, "allow"},
    ArgRow{"SC19_PersonalityPlain", SYS_personality, {0}, "allow"},
    ArgRow{"SC19_PersonalityQuery", SYS_personality, {0xffffffff}, "allow"},
    ArgRow{"SC19_NoRandomize", SYS_personality, {0x0040000}, "EPERM"},
    ArgRow{"SC19_ReadImpliesExec", SYS_personality, {0x0400000}, "EPERM"},

    ArgRow{"SC24_Wait", SYS_futex, {0, FUTEX_WAIT_PRIVATE}, "allow"},
    ArgRow{"SC24_WakeShared", SYS_futex, {0, FUTEX_WAKE}, "allow"},
    ArgRow{"SC24_WaitBitsetRealtime", SYS_futex, {0, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME}, "allow"},
    ArgRow{"SC24_LockPi", SYS_futex, {0, FUTEX_LOCK_PI_PRIVATE}, "allow"},
    ArgRow{"SC24_WaitRequeuePi", SYS_futex, {0, FUTEX_WAIT_REQUEUE_PI}, "ENOSYS"},
    ArgRow{"SC24_WaitRequeuePiPrivateRealtime", SYS_futex,
        {0, FUTEX_WAIT_REQUEUE_PI_PRIVATE | FUTEX_CLOCK_REALTIME}, "ENOSYS"},
    ArgRow{"SC24_CmpRequeuePi", SYS_futex, {0, FUTEX_CMP_REQUEUE_PI_PRIVATE}, "ENOSYS"},
    ArgRow{"SC24_OperationOfTomorrow", SYS_futex, {0, 14}, "ENOSYS"},

    ArgRow{"SC25_Other", SYS_sched_setscheduler, {0, SCHED_OTHER}, "allow"},
    ArgRow{"SC25_IdleResetOnFork", SYS_sched_setscheduler, {0, SCHED_IDLE | SCHED_RESET_ON_FORK}, "allow"},
    ArgRow{"SC25_Fifo", SYS_sched_setscheduler, {0, SCHED_FIFO}, "EPERM"},
    ArgRow{"SC25_RoundRobinResetOnFork", SYS_sched_setscheduler, {0, SCHED_RR | SCHED_RESET_ON_FORK}, "EPERM"},
    ArgRow{"SC25_Deadline", SYS_sched_setscheduler, {0, 6}, "EPERM"},

    ArgRow{"MkfifoAt", SYS_mknodat, {0, 0, S_IFIFO | 0600}, "allow"},
    ArgRow{"RegularWithoutType", SYS_mknodat, {0, 0, 0600}, "allow"},
    ArgRow{"CharacterDevice", SYS_mknodat, {0, 0, S_IFCHR | 0600}, "EPERM"},
    ArgRow{"BlockDevice", SYS_mknodat, {0, 0, S_IFBLK | 0600}, "EPERM"},

    ArgRow{"NoDelay", SYS_setsockopt, {0, IPPROTO_TCP, TCP_NODELAY}, "allow"},
    ArgRow{"ReuseAddress", SYS_setsockopt, {0, SOL_SOCKET, SO_REUSEADDR}, "allow"},
    ArgRow{"KernelTls", SYS_setsockopt, {0, IPPROTO_TCP, TCP_ULP}, "EPERM"},
    ArgRow{"UdpEncapsulation", SYS_setsockopt, {0, IPPROTO_UDP, UDP_ENCAP}, "EPERM"},
    ArgRow{"SocketFilter", SYS_setsockopt, {0, SOL_SOCKET, SO_ATTACH_FILTER}, "EPERM"},
    ArgRow{"SocketBpf", SYS_setsockopt, {0, SOL_SOCKET, SO_ATTACH_BPF}, "EPERM"},
    ArgRow{"ReuseportCbpf", SYS_setsockopt, {0, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF}, "EPERM"},
    ArgRow{"ReuseportEbpf", SYS_setsockopt, {0, SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF}, "EPERM"},
    ArgRow{"SameNumberOtherLevel", SYS_setsockopt, {0, IPPROTO_TCP, SO_ATTACH_FILTER}, "allow"},
    ArgRow{"MulticastGroup", SYS_setsockopt, {0, IPPROTO_IP, 35}, "allow"},
    ArgRow{"Iptables", SYS_setsockopt, {0, IPPROTO_IP, 64}, "EPERM"},
    ArgRow{"Ebtables", SYS_setsockopt, {0, IPPROTO_IP, 128}, "EPERM"},
    ArgRow{"Ipvs", SYS_setsockopt, {0, IPPROTO_IP, 1153}, "EPERM"},
    ArgRow{"Ip6tables", SYS_setsockopt, {0, IPPROTO_IPV6, 64}, "EPERM"},
    ArgRow{"Ipv6Only", SYS_setsockopt, {0, IPPROTO_IPV6, 26}, "allow"},
    ArgRow{"Ipv6TrafficClass", SYS_setsockopt, {0, IPPROTO_IPV6, 67}, "allow"},

    ArgRow{"SC17_Mptcp", SYS_socket, {AF_INET, SOCK_STREAM, 262}, "EPERM"},
    ArgRow{"SC17_Sctp", SYS_socket, {AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 132}, "EPERM"},
    ArgRow{"SC17_UdpLite", SYS_socket, {AF_INET, SOCK_DGRAM, 136}, "EPERM"},
    ArgRow{"SC17_Ping", SYS_socket, {AF_INET, SOCK_DGRAM, 1}, "EPERM"},
    ArgRow{"SC17_Dccp", SYS_socket, {AF_INET, 6, 33}, "EPERM"},
    ArgRow{"SC17_Raw", SYS_socket, {AF_INET, SOCK_RAW, 6}, "EPERM"},
    ArgRow{"NW04_Vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM}, "EAFNOSUPPORT"},
    ArgRow{"SC23_Alg", SYS_socket, {AF_ALG, SOCK_SEQPACKET}, "EAFNOSUPPORT"},
    ArgRow{"NetlinkNetfilter", SYS_socket, {AF_NETLINK, SOCK_RAW, 12}, "EPERM"},
    ArgRow{"UnixPair", SYS_socketpair, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC}, "allow"},
    ArgRow{"InetPair", SYS_socketpair, {AF_INET, SOCK_STREAM}, "EAFNOSUPPORT"},
    ArgRow{"TipcPair", SYS_socketpair, {AF_TIPC, SOCK_STREAM}, "EAFNOSUPPORT"}
), [](const auto& row) { return std::string(row.param.name); });

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(X86, SeccompArguments, testing::Values(
    ArgRow{"SC20_ThreadStorage", SYS_arch_prctl, {0x1002}, "allow"},
    ArgRow{"SC20_ShadowStack", SYS_arch_prctl, {0x5001}, "EINVAL"},
    ArgRow{"SC20_CpuidFaulting", SYS_arch_prctl, {0x1012}, "EINVAL"},
    ArgRow{"Mkfifo", SYS_mknod, {0, S_IFIFO | 0600}, "allow"},
    ArgRow{"Socket", SYS_mknod, {0, S_IFSOCK | 0600}, "allow"},
    ArgRow{"OverlayWhiteout", SYS_mknod, {0, S_IFCHR}, "EPERM"}
), [](const auto& row) { return std::string(row.param.name); });
#endif
// clang-format on

// ---- Whole ranges ----

TEST(Seccomp, NS02_RefusesEachNamespaceFlagOfCloneAndNoOtherFlag) {
  constexpr std::uint32_t kNamespaces =
      CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  for (std::uint32_t bit = 1; bit != 0; bit <<= 1) {
    EXPECT_EQ(answer(SYS_clone, {bit}), (bit & kNamespaces) != 0 ? "EPERM" : "allow") << std::hex << bit;
  }
}

TEST(Seccomp, SC12_KillsWhoeverCallsThroughAnotherArchitecture) {
  for (int number = 0; number < 700; ++number) {
    ASSERT_EQ(answer_on(kForeign, number), "kill") << number;
    ASSERT_EQ(answer_on(0, number), "kill") << number;
  }
}

TEST(Seccomp, SC13_DoesNotKnowX32Numbers) {
  for (int number = 0; number < 700; ++number) ASSERT_EQ(answer(0x40000000 | number), "ENOSYS") << number;
}

TEST(Seccomp, SC14_AnswersUnknownNumbersWithEnosys) {
  // Refused or allowed by name; whatever else is above the oldest calls must be unknown.
  const std::set<int> newer = {451, 452, 457, 458, 462, 467};
  for (int number = 335; number <= 700; ++number) {
    if (newer.contains(number) || (number >= 424 && number <= SYS_set_mempolicy_home_node)) continue;
    EXPECT_EQ(answer(number), "ENOSYS") << number;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto number = static_cast<int>(random() | 0x1000U);
    EXPECT_EQ(answer(number), "ENOSYS") << number;
  }
  EXPECT_EQ(answer(-1), "ENOSYS");
}

TEST(Seccomp, SC14_NeverKillsOnTheNativeArchitecture) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    Args args{};
    for (auto& arg : args) arg = random() >> (random() % 64);
    const auto number = static_cast<int>(random() % 1024);
    const auto said = answer(number, args);
    // SG-13: of the core limit alone a program is told what is not so.
    if (said == "ignore" && (number == SYS_setrlimit || number == SYS_prlimit64)) continue;
    ASSERT_THAT(said, testing::AnyOf("allow", "EPERM", "ENOSYS", "EINVAL", "EAFNOSUPPORT")) << number;
  }
}

TEST(Seccomp, SC16_OpensOnlyTheSocketsOnTheList) {
  for (std::uint64_t family = 0; family <= 64; ++family) {
    for (std::uint64_t type = 0; type < 16; ++type) {
      for (const std::uint64_t flags : {0U, 0U | SOCK_CLOEXEC, 0U | SOCK_CLOEXEC | SOCK_NONBLOCK, 0x10U}) {
        for (std::uint64_t protocol = 0; protocol < 300; ++protocol) {
          const bool known = family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
          bool good = flags != 0x10;  // a flag of tomorrow
          if (family == AF_UNIX) good = good && (type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET);
          if (family == AF_INET || family == AF_INET6) {
            good = good && (type == SOCK_STREAM || type == SOCK_DGRAM);
            good = good && (protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP);
          }
          if (family == AF_NETLINK) good = good && (type == SOCK_RAW || type == SOCK_DGRAM) && protocol == 0;
          const auto* want = !known ? "EAFNOSUPPORT" : good ? "allow" : "EPERM";
          ASSERT_EQ(answer(SYS_socket, {family, type | flags, protocol}), want)
              << "family " << family << " type " << type << " flags " << flags << " protocol " << protocol;
        }
      }
    }
  }
}

// ---- The program itself, and the kernel's opinion of it ----

TEST(Seccomp, IsOneProgramWithOneName) {
  EXPECT_GT(default_seccomp().size(), 100U);
  EXPECT_LT(default_seccomp().size(), 1000U);  // it is checked and compiled anew for every process that takes it
  EXPECT_NE(default_seccomp_hash(), 0U);
}

TEST(Seccomp, RefusesProgramsTheKernelCouldNotHold) {
  EXPECT_FALSE(install_seccomp({}));
  EXPECT_EQ(errno, EINVAL);
  const std::vector<sock_filter> endless(BPF_MAXINSNS + 1, sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW});
  EXPECT_FALSE(install_seccomp(endless));
  EXPECT_EQ(errno, EINVAL);
}

bool fails_with(int want, long result) {
  return result == -1 && errno == want;
}

// Runs `check` in a child under the filter. The child's wait status; a check that holds exits with 0.
template <typename Check>
int status_under_filter(Check check) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !install_seccomp(default_seccomp())) ::_exit(77);
    ::_exit(check());
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

class SeccompInTheKernel : public testing::Test {
 protected:
  void SetUp() override {
    const int status = status_under_filter([] { return 0; });
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 77) return;
    if (std::getenv("COVE_REQUIRE_KERNEL") != nullptr) FAIL() << "the kernel does not take the filter";
    GTEST_SKIP() << "the kernel does not take the filter";
  }
};

TEST_F(SeccompInTheKernel, LetsOrdinaryCallsThroughAndAnswersTheRest) {
  const int status = status_under_filter([] {
    if (::syscall(SYS_getpid) <= 0) return 1;
    if (!fails_with(EPERM, ::syscall(SYS_unshare, CLONE_NEWUSER))) return 2;
    if (!fails_with(EPERM, ::syscall(SYS_mount, 1, 1, 1, 0, 1))) return 3;  // refused before a pointer is looked at
    if (!fails_with(ENOSYS, ::syscall(SYS_clone3, 1, 1))) return 4;
    if (!fails_with(ENOSYS, ::syscall(699))) return 5;
    if (!fails_with(EAFNOSUPPORT, ::syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0))) return 6;
    if (!fails_with(EPERM, ::syscall(SYS_ioctl, 0, TIOCSTI | (1ULL << 32), 1))) return 7;
    if (!fails_with(EPERM, ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0))) return 8;
    if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2) return 9;
    return 0;
  });
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "which check failed";
}

#if defined(__x86_64__)
TEST_F(SeccompInTheKernel, SC12_KillsInt80) {
  const int status = status_under_filter([] {
    long result = 20;  // getpid in the table of i386
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return 1;
  });
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
  EXPECT_THAT(WTERMSIG(status), testing::AnyOf(SIGSYS, SIGSEGV));  // SIGSEGV: a kernel without 32-bit calls
}

TEST_F(SeccompInTheKernel, SC13_AnswersX32WithEnosys) {
  const int status = status_under_filter([] { return fails_with(ENOSYS, ::syscall(0x40000000 | SYS_getpid)) ? 0 : 1; });
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

}  // namespace
}  // namespace cove::sys
