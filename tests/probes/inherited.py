"""ZY-11: everything a process may have inherited from whoever made it, as one table."""
import ctypes
import locale
import os
import resource
import signal
import stat

from probelib import call, errno_name, fact, libc, read, status

STATUS = ("Umask", "Uid", "Gid", "Groups", "TracerPid", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
          "Seccomp", "Seccomp_filters", "Speculation_Store_Bypass", "SpeculationIndirectBranch", "Cpus_allowed", "Mems_allowed", "Threads", "THP_enabled", "VmLck")
LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"]


def told(function, *arguments):
    """What it says, or how it was refused."""
    try:
        return function(*arguments)
    except OSError as error:
        return errno_name(error.errno)
    except ValueError as error:
        return str(error)


def prctl(option):
    """Of an option that answers with its value."""
    return told(call, "prctl", option, 0, 0, 0, 0)


def prctl_pointer(option):
    """Of one that writes its answer."""
    word = ctypes.c_int(-1)
    return told(lambda: (call("prctl", option, ctypes.byref(word), 0, 0, 0), word.value)[1])


def kinds():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            mode, number = os.fstat(int(name)).st_mode, int(name)
        except OSError:
            continue  # that of the listing itself
        found[number] = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFCHR: "character"}[stat.S_IFMT(mode)]
    return found


def alternate_stack():
    words = (ctypes.c_uint64 * 3)()
    libc.sigaltstack(None, words)
    return words[1] & 0xFFFFFFFF  # SS_DISABLE is 2


own = status()
table = {key: " ".join(own[key].split()) for key in STATUS if key in own}
table.update({name: list(told(resource.getrlimit, getattr(resource, name))) if not isinstance(told(resource.getrlimit, getattr(resource, name)), str)
              else told(resource.getrlimit, getattr(resource, name)) for name in LIMITS})
table.update(
    cwd=os.getcwd(), root=os.readlink("/proc/self/root"), parent=os.getppid(), leads_session=os.getsid(0) == os.getpid(), leads_group=os.getpgrp() == os.getpid(),
    terminal=told(lambda: os.open("/dev/tty", os.O_RDWR)), nice=os.getpriority(os.PRIO_PROCESS, 0), scheduler=os.sched_getscheduler(0),
    priority=os.sched_getparam(0).sched_priority, affinity=sorted(os.sched_getaffinity(0)), io_priority=told(call, 252, 1, 0),
    oom_score_adj=read("/proc/self/oom_score_adj").strip(), personality=read("/proc/self/personality").strip(), coredump_filter=told(read, "/proc/self/coredump_filter"),
    timers=told(read, "/proc/self/timers"), itimers=[signal.getitimer(kind) for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)],
    keyring=told(call, "keyctl", 0, -3, 0), add_key=told(call, "add_key", b"user", b"n", b"v", 1, -3), request_key=told(call, "request_key", b"user", b"n", 0, 0),
    dumpable=prctl(3), keep_capabilities=prctl(7), securebits=prctl(27), timer_slack=prctl(30), no_new_privileges=prctl(39), thp_disabled=prctl(42),
    parent_death_signal=prctl_pointer(2), subreaper=prctl_pointer(37), machine_check=prctl(34), io_flusher=prctl(58), alternate_stack=alternate_stack(),
    locale=locale.setlocale(locale.LC_ALL), file_system_encoding=__import__("sys").getfilesystemencoding(), environment=dict(os.environ),
    descriptors=kinds(), group=sorted({line.split(":", 2)[2] for line in read("/proc/self/cgroup").splitlines()}), uid_map=read("/proc/self/uid_map").split(),
    gid_map=read("/proc/self/gid_map").split(), setgroups=read("/proc/self/setgroups").strip(), hostname=os.uname().nodename,
    login=told(read, "/proc/self/loginuid"), audit_session=told(read, "/proc/self/sessionid"), mounts=len(read("/proc/self/mountinfo", 1 << 20).splitlines()),
    namespaces={name: os.readlink(f"/proc/self/ns/{name}") == told(os.readlink, f"/proc/{os.getppid()}/ns/{name}") or told(os.readlink, f"/proc/{os.getppid()}/ns/{name}") for name in os.listdir("/proc/self/ns")},
    landlock_write=told(lambda: open("/planted", "w")), landlock_device=told(lambda: os.mknod("/tmp/d", 0o600 | stat.S_IFBLK, 0)), landlock_exe=told(lambda: os.open("/proc/self/exe", os.O_RDONLY) > 0),
    signal_to_init=told(os.kill, 1, 0), comm=read("/proc/self/comm").strip(), command=read("/proc/self/cmdline").split("\0"),
    first_environment=read("/proc/self/environ").split("\0"),
    handlers={number.name: str(signal.getsignal(number)) for number in signal.Signals if signal.getsignal(number) not in (signal.SIG_DFL,)},
    wakeup=signal.set_wakeup_fd(-1))
fact("inherited", table=table)
