"""The corpus with one lock left off at a time (the test-only binary): what the other two still hold, and what gets through.

docs/threat-model-locks.md tells the same as a table. Naming stands for the net, ipc and uts namespaces and the namespace counters; the
user, mount and pid namespaces cannot be left off, because the root is built in them."""
import ctypes
import functools
import os
import pathlib
import secrets
import socket

import pytest

from arena import PROBES, TESTLOCKS, Neighbour, Report, canaries, cove, no_secret_in

NAMING, SURFACE, OBJECTS = 1, 2, 4
LOCKS = {"naming": NAMING, "surface": SURFACE, "objects": OBJECTS}
pytestmark = pytest.mark.skipif(not TESTLOCKS.exists(), reason="the test-only binary cove-testlocks is not built")


@functools.cache
def told(probe, off):
    arguments = [canaries().as_argument()] if probe in ("fs_reach", "proc_leaks") else []
    done = cove("run", "--timeout", "30s", "--file", PROBES / "probelib.py", "--json", PROBES / f"{probe}.py", *arguments, binary=str(TESTLOCKS), env={"COVE_TEST_LOCKS_OFF": str(off)})
    report = Report(no_secret_in(done))
    assert report.run.result["exit_code"] == 0, report.run.result
    return report


def neighbour(off):
    return Neighbour("neighbour", binary=str(TESTLOCKS), env={"COVE_TEST_LOCKS_OFF": str(off)})


def errors(facts):
    return {name: fact["errno"] for name, fact in facts.items() if "errno" in fact}


# Class, probe, fact, and what is answered with every lock on, without naming, without surface, without objects. None would mean: it worked.
E, A, N, S = "EPERM", "EACCES", "ENOENT", "ENOSYS"
DMESG_IS_RESTRICTED = pathlib.Path("/proc/sys/kernel/dmesg_restrict").read_text() != "0\n"
ROWS = [
    # Escape: another root, other mounts, other namespaces, other ids, devices, the layer beneath
    ("escape", "namespaces", "unshare:user", (E, E, "ENOSPC", E)),       # the counters hold where seccomp does not
    ("escape", "namespaces", "clone:user", (E, E, "ENOSPC", E)),
    ("escape", "namespaces", "clone3:user", (S, S, "ENOSPC", S)),
    ("escape", "namespaces", "unshare:mnt", (E, E, E, E)),               # and here the missing capability
    ("escape", "namespaces", "unshare:net", (E, E, E, E)),
    ("escape", "namespaces", "mount:tmpfs", (E, E, E, E)),
    ("escape", "namespaces", "mount:bind", (E, E, E, E)),
    ("escape", "namespaces", "mount:remount-rw", (E, E, E, E)),
    ("escape", "namespaces", "umount:/proc", (E, E, E, E)),
    ("escape", "namespaces", "new-mount:fsopen", (E, E, E, E)),
    ("escape", "namespaces", "new-mount:open_tree-clone", (E, E, E, E)),
    ("escape", "namespaces", "new-mount:move_mount", (E, E, E, E)),
    ("escape", "namespaces", "root:pivot_root", (E, E, E, E)),
    ("escape", "namespaces", "root:chroot", (E, E, E, E)),
    ("escape", "namespaces", "setns-init:all", (E, E, E, E)),
    ("escape", "namespaces", "caps:capset-all", (E, E, E, E)),
    ("escape", "namespaces", "ids:setuid-0", ("EINVAL",) * 4),           # 0 is not mapped
    ("escape", "namespaces", "ids:setgroups-0", (E, E, E, E)),
    ("escape", "fs_reach", "mknod:vda:/workspace", (E, E, A, E)),        # Landlock, then the missing capability
    ("escape", "fs_reach", "mknod:mem:/dev/shm", (E, E, A, E)),
    ("escape", "fs_reach", "chroot", (E, E, E, E)),
    ("escape", "fs_reach", "fuse-mount", (E, E, E, E)),
    ("escape", "fs_reach", "write:/usr/bin/env", ("EROFS",) * 4),
    ("escape", "fs_reach", "write:/cove/init", (A, A, A, A)),
    ("escape", "fs_reach", "exe-self", ("EROFS",) * 4),
    ("escape", "fs_reach", "setcap", (E, E, E, E)),
    ("escape", "proc_leaks", "map:self:uid_map", (A, A, A, E)),
    ("escape", "proc_leaks", "setns:mnt", (E, E, E, E)),
    ("escape", "proc_leaks", "ns-parent:user", (E, E, E, E)),
    ("escape", "syscalls", "machine:reboot", (E, E, E, E)),
    ("escape", "syscalls", "machine:swapon", (E, E, E, E)),
    ("escape", "syscalls", "clock:adjtimex-set", (E, E, E, E)),
    # Host leak: files, processes, the kernel's own knowledge
    ("leak", "fs_reach", "open:/etc/shadow", (N, N, N, N)),
    ("leak", "fs_reach", "init:/proc/1/root", (A, A, A, A)),
    ("leak", "fs_reach", "init:/proc/1/root/etc/shadow", (A, A, A, A)),
    ("leak", "proc_leaks", "proc:kallsyms", (N, N, N, N)),
    ("leak", "proc_leaks", "proc:kcore", (N, N, N, N)),
    ("leak", "proc_leaks", "sysctl:kernel/core_pattern", (N, N, N, N)),
    ("leak", "proc_leaks", "sys:/sys", (N, N, N, N)),
    ("leak", "proc_leaks", "device:mem", (N, N, N, N)),
    ("leak", "proc_leaks", "device:kvm", (N, N, N, N)),
    ("leak", "syscalls", "kernel-log", (E, E, E if DMESG_IS_RESTRICTED else None, E)),
    ("leak", "syscalls", "bpf:prog-load", (E, E, E, E)),
    # Lateral: into init, which speaks for the sandbox
    ("lateral", "proc_leaks", "init-secret:mem", (A, A, A, A)),
    ("lateral", "proc_leaks", "init-secret:environ", (A, A, A, A)),
    ("lateral", "proc_leaks", "init-secret:fd", (A, A, A, A)),
    ("lateral", "proc_leaks", "init-write:mem", (A, A, A, A)),
    ("lateral", "syscalls", "ptrace:attach:init", (E, E, E, E)),
    ("lateral", "syscalls", "memory:read:init", (E, E, E, E)),
    ("lateral", "syscalls", "other:pidfd_getfd:init:3", (E, E, E, E)),
]


@pytest.mark.parametrize("off", [0, *LOCKS.values()], ids=["none", *LOCKS])
@pytest.mark.parametrize("kind, probe, name, answers", ROWS, ids=[f"{row[0]}-{row[2]}" for row in ROWS])
def test_a_lock_left_off_opens_no_way(kind, probe, name, answers, off):
    wanted = dict(zip((0, NAMING, SURFACE, OBJECTS), answers))
    assert told(probe, off)[name]["errno"] == wanted[off]


# What gets through without seccomp exactly where this machine offers it: asked of the kernel here, outside of any sandbox.
OFFERED = {
    "kernel-log": not DMESG_IS_RESTRICTED,
    # ARCH_SET_CPUID: whether the own process may use the instruction. 1, "yes", is how every process begins.
    "arch:0x1012": ctypes.CDLL(None).syscall(158, 0x1012, 1) == 0,
}

# Everything else that worked with one lock off and does not with all on. A kernel built with less may let less through, never more.
GETS_THROUGH = {
    NAMING: set(),
    SURFACE: {
        # a look at the own mount, switches of the own process, an own listener on own calls
        "new-mount:open_tree-plain", "prctl:set-tsc", "prctl:mce-kill", "prctl:set-seccomp-strict", "prctl:syscall-dispatch", "own-filter:listener", "own-filter:listener-garbage", "own-filter:notify-sizes",
        # into own children
        "ptrace:attach:child", "ptrace:seize:child", "ptrace:traceme", "other:kcmp:child", "other:kcmp:self", "other:pidfd_getfd:child:0", "other:pidfd_getfd:child:1", "other:pidfd_getfd:child:2",
        "memory:read:child", "memory:write:child",
        # keys of the own user namespace
        "key:add_key", "key:keyctl-0",
        # kernel code that nobody inside should run: io_uring, userfaultfd, secret memory, fanotify of own files, the LDT, personalities, old calls
        "io_uring:setup-good", "fault:userfaultfd-user-mode", "fault:memfd_secret", "watch:fanotify_init-unprivileged", "odd:modify_ldt-read", "odd:modify_ldt-write", "arch:0x1011", *(name for name, offered in OFFERED.items() if offered),
        "personality:no-randomize", "personality:read-implies-exec", "personality:linux32", "personality:garbage", "old:sysfs", "old:set_mempolicy_home_node", "old:set_mempolicy", "machine:sync",
        "sched:ext", "old:get_mempolicy", "odd:map_shadow_stack",
        # sockets; AF_VSOCK reaches the hypervisor out of an empty network namespace
        "socket:mptcp", "socket:mptcp6", "socket:udplite", "socket:sctp", "socket:dccp", "socket:vsock", "socket:vsock-dgram", "socket:vsock-garbage", "socket:alg", "socket:rxrpc", "socket:tipc", "socket:can", "socket:ping", "socket:ping6",
        "socket:netlink-audit", "socket:netlink-netfilter", "socket:netlink-generic", "socket:netlink-xfrm", "socket:netlink-uevent", "socket:netlink-diag", "option:udp-encap", "option:attach-filter",
    },
    OBJECTS: {
        # own files in /proc: the own chance to be killed first falls to the keeper's; the sandbox's own memory limit is unmoved
        "self-write:oom_score_adj:499", "self-write:coredump_filter:0xff", "self-write:timerslack_ns:1", "init-write:timerslack_ns",
        # a name beside /workspace in the sandbox's own layer
        "replace-workspace",
    },
}


@pytest.mark.parametrize("off", LOCKS.values(), ids=LOCKS)
def test_what_gets_through_without_a_lock_is_known(off):
    through = set()
    for probe in ("fs_reach", "proc_leaks", "namespaces", "syscalls"):
        on, without = told(probe, 0).facts, told(probe, off).facts
        through |= {name for name, fact in on.items() if fact.get("errno") and name in without and without[name].get("errno") is None}
    assert through <= GETS_THROUGH[off], through - GETS_THROUGH[off]
    if off == SURFACE:
        assert {name: name in through for name in OFFERED} == OFFERED, "the table above does not know this machine"


@pytest.mark.parametrize("off", LOCKS.values(), ids=LOCKS)
def test_no_canary_is_read_or_touched(off):
    for path in (str(canaries().root_only), str(canaries().world), str(canaries().in_state)):
        report = told("fs_reach", off)
        assert {fact["errno"] for name, fact in report.facts.items() if name.endswith(path)} == {"ENOENT"}
    assert canaries().untouched()


@pytest.mark.parametrize("off", LOCKS.values(), ids=LOCKS)
def test_ids_capabilities_and_processes_stay(off):
    report = told("namespaces", off)
    assert report["ids-changed"]["numbers"] == [] and report["ids-after"]["groups"] == ""
    assert set(report["caps-after"]["sets"].values()) == {"0" * 16}
    report = told("proc_leaks", off)
    assert report["signalable"]["pids"] == [1, report["processes"]["own"]]
    assert told("syscalls", off)["handles"]["errors"] == ["EPERM"]
    assert told("fs_reach", off)["suid-shell"]["text"] == told("fs_reach", off)["suid-shell"]["expected"]


@pytest.mark.parametrize("off", [0, SURFACE, OBJECTS], ids=["none", "surface", "objects"])
def test_the_network_stays_empty_without_surface_or_objects(off):
    report = told("proc_leaks", off)
    assert report["netlink-links"]["names"] == ["lo"] and len(report.value("net:tcp").splitlines()) == 1
    assert report["identity"]["hostname"] == "cove"


def test_without_naming_the_hosts_network_is_seen():
    # Known, and the reason why the network namespace is not optional: nothing else hides the host's interfaces, sockets and name.
    report = told("proc_leaks", NAMING)
    assert "lo" in report["netlink-links"]["names"]
    assert f":{canaries().port:04X}" in report.value("net:tcp")
    assert report["identity"]["hostname"] == os.uname().nodename
    assert report["oom-after"]["score"] == "0"


@pytest.mark.parametrize("off", [0, *LOCKS.values()], ids=["none", *LOCKS])
def test_what_neighbours_find_of_each_other(off):
    name = "n" + secrets.token_hex(8)
    with socket.create_server(("127.0.0.1", 0)) as listener, neighbour(off) as first, neighbour(off) as second:
        ports = first.ask("listen", name)["ports"]["ports"]
        answers = errors(second.ask("connect", ports, name))
        # Landlock's scope holds for abstract sockets, the own root for named ones. TCP on loopback is held by the network namespace alone
        # (docs/decisions/0004-landlock-without-tcp.md): without naming it gets through, to a neighbour and to the host.
        assert {errno for key, errno in answers.items() if key.startswith("tcp:")} == ({None} if off == NAMING else {"ECONNREFUSED"})
        assert answers[f"unix:\0{name}"] == ("EPERM" if off == NAMING else "ECONNREFUSED")
        assert answers[f"unix:/tmp/{name}"] == "ENOENT" and answers[f"unix:/dev/shm/{name}"] == "ENOENT"
        hosts = errors(second.ask("connect", {"127.0.0.1": listener.getsockname()[1]}, canaries().abstract))
        assert hosts["tcp:127.0.0.1:127.0.0.1"] == (None if off == NAMING else "ECONNREFUSED")
        assert hosts[f"unix:\0{canaries().abstract}"] == ("EPERM" if off == NAMING else "ECONNREFUSED")

        word = "mark" + secrets.token_hex(8)
        first.ask("mark", word)
        assert second.ask("search", word)["search"]["found"] == []
        pids = first.ask("processes")["processes"]
        assert pids["pids"] == [1, pids["own"]]
        told_of_pids = errors(second.ask("reach-pids", first.process.pid, os.getpid(), canaries().process.pid))
        assert {errno for key, errno in told_of_pids.items() if key.startswith("kill:")} == {"ESRCH"}
        assert {errno for key, errno in told_of_pids.items() if key.startswith("open:")} == {"ENOENT"}
    assert canaries().untouched()


@pytest.mark.parametrize("off", [0, SURFACE, OBJECTS], ids=["none", "surface", "objects"])
def test_the_same_ipc_keys_stay_different_things(off):
    with neighbour(off) as first, neighbour(off) as second:
        for sandbox, word in ((first, "first"), (second, "second")):
            facts = sandbox.ask("ipc", word)
            assert facts["shm"] == {"before": "", "now": word} and facts["posix-shm"]["before"] == ""
            assert facts["msg-exclusive"]["errno"] is None
            assert facts["mq"]["errno"] == (None if off == OBJECTS else "EACCES")


def test_without_naming_ipc_keys_are_common_but_belong_to_one_uid():
    # The second cannot read what the first put there: the key exists, and its owner is another host uid.
    with neighbour(NAMING) as first:
        facts = first.ask("ipc", "first")
        assert facts["shm"]["now"] == "first"
        try:
            done = cove("run", "--file", PROBES / "probelib.py", "--json", "-c", "from probelib import *\ntried('get', lambda: call('shmget', 0xC0FE, 4096, 0o1600))\ntried('sem', lambda: call('semget', 0xC0FE, 1, 0o1600))",
                        binary=str(TESTLOCKS), env={"COVE_TEST_LOCKS_OFF": str(NAMING)})
            assert Report(done).under("") == {"get": "EACCES", "sem": "EACCES"}
        finally:
            remove_ipc(0xC0FE)


def remove_ipc(key):
    """What a sandbox without an ipc namespace leaves on the host."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmctl(libc.shmget(key, 0, 0), 0, None)
    libc.semctl(libc.semget(key, 0, 0), 0, 0)
    libc.msgctl(libc.msgget(key, 0), 0, None)
