"""Everything a process can see of its own standing, then waits for a line so that the host can look as well."""
import os
import stat
import sys
import threading

from probelib import errno_name, fact, libc, read, status

KEYS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "SigBlk", "Umask", "TracerPid")


def kind(fd):
    return {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFCHR: "character"}[stat.S_IFMT(os.fstat(fd).st_mode)]


fds = [int(name) for name in os.listdir("/proc/self/fd")]
fact("descriptors", table={fd: kind(fd) for fd in sorted(fds) if os.path.lexists(f"/proc/self/fd/{fd}")})
gate = threading.Event()
threads = [threading.Thread(target=gate.wait) for _ in range(3)]
for thread in threads:
    thread.start()
fact("threads", each=[{key: value for key, value in status(f"self/task/{task}").items() if key in KEYS} for task in os.listdir("/proc/self/task")])
gate.set()
own = status()
fact("status", **{key: own[key] for key in KEYS})
fact("maps", uid=read("/proc/self/uid_map").split(), gid=read("/proc/self/gid_map").split(), setgroups=read("/proc/self/setgroups").strip())
fact("namespaces", links={name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")})
fact("mounts", table=read("/proc/self/mountinfo", 1 << 20).splitlines())
fact("root", names=sorted(os.listdir("/")))
fact("environment", variables=dict(os.environ))
limits = {}
for line in read("/proc/self/limits").splitlines()[1:]:
    limits[line[:26].strip()] = [line[26:47].strip(), line[47:68].strip()]
fact("limits", table=limits)
fact("group", lines=sorted({line.split(":", 2)[2] for line in read("/proc/self/cgroup").splitlines()}))
fact("standing", oom=read("/proc/self/oom_score_adj").strip(), cwd=os.getcwd(), pid=os.getpid(), session=os.getsid(0), group=os.getpgrp(), parent=os.getppid(), nice=os.getpriority(0, 0),
     personality=read("/proc/self/personality").strip(), dumpable=libc.prctl(3, 0, 0, 0, 0), securebits=libc.prctl(27, 0, 0, 0, 0), terminal=os.isatty(0), hostname=os.uname().nodename,
     scheduler=os.sched_getscheduler(0))
init = {}
for name in ("environ", "maps", "mem", "fd", "root", "cwd", "exe", "ns", "io"):
    try:
        path = f"/proc/1/{name}"
        os.listdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.readlink(path) if os.path.islink(path) else read(path)
        init[name] = "readable"
    except OSError as error:
        init[name] = errno_name(error.errno)
fact("init", files=init, owner=os.stat("/proc/1/environ").st_uid, command=read("/proc/1/cmdline"), session=os.getsid(1), group=os.getpgid(1),
     **{key: status(1)[key] for key in KEYS})
print("done", flush=True)
sys.stdin.readline()
