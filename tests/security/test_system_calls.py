"""SC: system calls."""
import os
import pathlib
import pty
import subprocess
import time

import pytest

from conftest import COVE, PATIENCE, new_marker, processes_with, wait_until
from arena import attack, canaries, code, compiled, digest, run, seen


def calls():
    return seen("syscalls")


def all_of(prefix):
    return set(calls().under(prefix).values())


def test_SC_01_ptrace_is_refused_on_everyone():
    assert all_of("ptrace:") == {"EPERM"} and len(calls().under("ptrace:")) == 11


def test_SC_02_no_way_into_another_process():
    assert all_of("other:") == {"EPERM"} and len(calls().under("other:")) == 21
    assert all_of("memory:") == {"EPERM"}


def test_SC_03_keys_are_refused():
    assert all_of("key:") == {"EPERM"}


def test_SC_04_bpf_is_refused():
    assert all_of("bpf:") == {"EPERM"}


def test_SC_05_io_uring_seems_not_to_exist():
    assert all_of("io_uring:") == {"ENOSYS"} and calls()["aio:setup"]["errno"] == "ENOSYS"


def test_SC_06_userfaultfd_is_refused():
    assert all_of("fault:") == {"EPERM"}


def test_SC_07_perf_events_are_refused():
    assert all_of("perf:") == {"EPERM"}


def test_SC_08_the_machine_cannot_be_stopped_extended_or_accounted():
    assert all_of("machine:") == {"EPERM"} and len(calls().under("machine:")) == 15


def test_SC_09_files_cannot_be_opened_by_inode_number():
    assert calls()["handles"]["errors"] == ["EPERM"]
    assert all_of("handle:") == {"EPERM"}


def test_SC_10_the_clock_cannot_be_set():
    drift = time.time() - time.monotonic()
    assert all_of("clock:") == {"EPERM"}
    assert abs((time.time() - time.monotonic()) - drift) < 1


def test_SC_11_terminal_tricks_are_refused_on_pipes():
    assert all_of("tty:") == {"EPERM"}


def test_SC_11_typing_into_a_terminal_is_refused():
    # A terminal inside and one of the caller's outside: neither may get input that nobody typed.
    program = ("import fcntl, os, sys\nfor fd in (0, 1, 2, os.open('/dev/tty', os.O_RDWR)):\n  for name in (0x5412, 0x541C, 0x5423, 0x541D):\n"
               "    try: fcntl.ioctl(fd, name, b'x'); print('WORKED', fd, hex(name))\n    except OSError as e: print('errno', e.errno)\nprint('end')")
    master, slave = pty.openpty()
    try:
        process = subprocess.Popen([COVE, "run", "--tty", "-c", program], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        text = b""
        while b"end" not in text:
            part = os.read(master, 4096)
            assert part
            text += part
        process.wait(PATIENCE)
    finally:
        os.close(master)
    assert b"WORKED" not in text and text.count(b"errno 1\r\n") == 16


INT80 = r"""
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  int numbers[] = {20, 359, 288, 310, 1}; /* getpid, socket, keyctl, unshare, exit of the 32-bit table */
  for (int i = 0; i < 5; ++i) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      long result = numbers[i];
      __asm__ volatile("int $0x80" : "+a"(result) : "b"(0x10000000L), "c"(1L), "d"(0L) : "memory");
      printf("answered %d %ld\n", numbers[i], result);
      fflush(stdout);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("%d signal %d\n", numbers[i], WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  }
  return 0;
}
"""


def test_SC_12_the_32_bit_door_kills_whoever_knocks(workdir):
    program = compiled(INT80, workdir)
    done = run("--file", program, "--", "./probe")
    assert done.out.splitlines() == [f"{number} signal 31" for number in (20, 359, 288, 310, 1)]


def test_SC_12_a_program_killed_so_is_reported_so(workdir):
    program = compiled('int main(void) { long r = 20; __asm__ volatile("int $0x80" : "+a"(r)); return 0; }', workdir)
    done = run("--file", program, "--", "./probe")
    assert (done.reason, done.result["signal"], done.status) == ("signalled", "SIGSYS", 128 + 31)


def test_SC_13_x32_numbers_seem_not_to_exist():
    assert all_of("x32:") == {"ENOSYS"} and calls()["x32-all"]["errors"] == ["ENOSYS"]


# Of the numbers a kernel of today knows between 335 and 700, those the profile answers with something else than ENOSYS; called with -1 everywhere.
ANSWERS = {
    424: "EINVAL",      # pidfd_send_signal
    428: "EPERM", 429: "EPERM", 430: "EPERM", 431: "EPERM", 432: "EPERM", 433: "EPERM",  # the new mount calls
    434: "EINVAL",      # pidfd_open
    436: "EINVAL",      # close_range
    437: "E2BIG",       # openat2
    438: "EPERM",       # pidfd_getfd
    439: "EINVAL",      # faccessat2
    440: "EPERM",       # process_madvise
    441: "EFAULT",      # epoll_pwait2
    442: "EPERM", 443: "EPERM",  # mount_setattr, quotactl_fd
    444: "EINVAL", 445: "EINVAL", 446: "EINVAL",  # landlock
    447: "EPERM", 448: "EPERM", 450: "EPERM", 451: "EPERM",  # memfd_secret, process_mrelease, set_mempolicy_home_node, cachestat
    452: "EINVAL",      # fchmodat2
    457: "EPERM", 458: "EPERM",  # statmount, listmount
    462: "EINVAL",      # mseal
    467: "EPERM",       # open_tree_attr
}


def test_SC_14_unknown_numbers_seem_not_to_exist():
    answers = {int(number): answer for number, answer in calls()["numbers"]["answers"].items()}
    assert sorted(answers) == list(range(337, 701))
    # The kernel's own exception from seccomp, since 6.14: a signal to the caller alone.
    assert calls()["probe-number:335"] in ({"code": 38, "signal": 0}, {"code": None, "signal": 4})  # ENOSYS or SIGILL
    assert calls()["probe-number:336"] in ({"code": 38, "signal": 0}, {"code": 6, "signal": 0})     # ENOSYS or ENXIO
    different = {number: answer for number, answer in answers.items() if answer != "ENOSYS"}
    assert different == ANSWERS
    assert calls()["strange-numbers"]["errors"] == ["ENOSYS"]


@pytest.mark.parametrize("again", range(3))
def test_SC_15_everyday_programs_meet_no_filter(again):
    report = attack("everyday", "5", options=("--timeout", "50s", "--memory", "1Gi"))
    assert report.run.result["exit_code"] == 0, report.run.err
    assert {name: fact["failures"] for name, fact in report.facts.items() if fact["failures"]} == {}
    assert set(report.facts) >= {"threads", "processes", "pool", "loop", "database", "secure", "signals", "files", "compiler"}


def test_SC_16_only_unix_and_internet_sockets_open():
    answers = {answer: {tuple(pair) for pair in pairs} for answer, pairs in calls()["families"]["answers"].items()}
    assert answers.pop("opened") == {(1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2), (16, 2), (16, 3)}
    assert answers.pop("EPERM") == {(family, kind) for family in (1, 2, 10, 16) for kind in (1, 2, 3, 4, 5, 6, 10)} - {
        (1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (10, 1), (10, 2), (16, 2), (16, 3)}
    assert set(answers) == {"EAFNOSUPPORT"}
    assert calls().under("pair:") == {"inet": "EAFNOSUPPORT", "vsock": "EAFNOSUPPORT", "netlink": "EAFNOSUPPORT"}


def test_SC_17_raw_and_rare_protocols_are_refused():
    refused = {"raw", "raw6", "ping", "ping6", "mptcp", "mptcp6", "sctp", "dccp", "udplite", "inet-garbage", "netlink-audit", "netlink-netfilter", "netlink-generic", "netlink-xfrm", "netlink-uevent", "netlink-diag"}
    unknown = {"packet", "alg", "vsock", "vsock-dgram", "xdp", "rxrpc", "tipc", "can", "bluetooth", "vsock-garbage"}
    assert calls().under("socket:") == {**{name: "EPERM" for name in refused}, **{name: "EAFNOSUPPORT" for name in unknown}}
    assert all_of("option:") == {"EPERM"}


def test_SC_19_personalities_are_refused():
    assert all_of("personality:") == {"EPERM"} and calls().value("personality-query") == 0


def test_SC_20_odd_corners_of_the_processor_are_refused():
    assert calls().under("odd:") == {"modify_ldt-read": "EPERM", "modify_ldt-write": "EPERM", "map_shadow_stack": "ENOSYS"}
    # 0x1003 asks for the FS base and may; its pointer leads nowhere.
    assert calls().under("arch:") == {"0x1003": "EFAULT", "0x1011": "EINVAL", "0x1012": "EINVAL", "0x2001": "EINVAL", "0x4001": "EINVAL", "0x5001": "EINVAL", "0x9999": "EINVAL"}


def test_SC_21_whole_filesystems_cannot_be_watched():
    assert all_of("watch:") == {"EPERM"}


def test_SC_22_a_program_from_memory_runs_under_the_same_locks():
    report = code("""
from probelib import *
import shutil, subprocess
fd = call('memfd_create', b'x', 0)
os.write(fd, open('/bin/cat', 'rb').read())
reader, writer = os.pipe()
pid = os.fork()
if pid == 0:
    os.dup2(writer, 1)
    argv = (ctypes.c_char_p * 3)(b'cat', b'/proc/self/status', None)
    environment = (ctypes.c_char_p * 1)(None)
    call('execveat', fd, b'', argv, environment, 0x1000)
    os._exit(9)
os.close(writer)
text = b''
while part := os.read(reader, 65536): text += part
os.waitpid(pid, 0)
lines = dict(line.split(':\\t', 1) for line in text.decode().splitlines() if ':\\t' in line)
fact('memfd', **{key: lines[key] for key in ('Seccomp', 'NoNewPrivs', 'CapEff', 'CapBnd', 'Uid')})
own = status()
fact('own', **{key: own[key] for key in ('Seccomp', 'NoNewPrivs', 'CapEff', 'CapBnd', 'Uid')})
for place in ('/tmp', '/workspace', '/home/cove', '/dev/shm'):
    shutil.copy('/bin/true', place + '/t')
    tried(f'exec:{place}', lambda: subprocess.run([place + '/t']).returncode)
""")
    assert report["memfd"] == report["own"]
    assert report["own"]["Seccomp"] == "2" and report["own"]["NoNewPrivs"] == "1" and report["own"]["CapBnd"] == "0" * 16
    assert report.under("exec:") == {"/tmp": None, "/workspace": None, "/home/cove": None, "/dev/shm": "EACCES"}


def test_SC_23_splicing_from_a_file_beneath_changes_no_byte_of_it():
    victims = ("/usr/bin/env", "/bin/sh", "/usr/bin/python3")
    before = {path: digest(path) for path in victims}
    report = code("""
from probelib import *
import socket
for path in ('/usr/bin/env', '/bin/sh', '/usr/bin/python3'):
    fd = os.open(path, os.O_RDONLY)
    reader, writer = os.pipe()
    tried(f'splice-in:{path}', os.splice, fd, writer, 4096, 0)
    one, two = socket.socketpair()
    tried(f'splice-out:{path}', os.splice, reader, one.fileno(), 4096)
    tried(f'splice-back:{path}', lambda: (os.write(writer, b'x' * 4096), os.splice(reader, fd, 4096, offset_dst=0))[1])
    # The shape of Dirty Pipe: fill and drain a pipe, splice one byte of the file, then write on.
    reader, writer = os.pipe()
    for _ in range(16): os.write(writer, b'y' * 4096)
    for _ in range(16): os.read(reader, 4096)
    os.splice(fd, writer, 1, 1)
    os.write(writer, b'Z' * 100)
    tried(f'sendfile:{path}', os.sendfile, one.fileno(), fd, 0, 4096)
    tried(f'private-map:{path}', lambda: __import__('mmap').mmap(fd, 4096, flags=1, prot=3) and 0)
tried_call('vmsplice', 'vmsplice', writer, BAD, 1, 8)
tried_call('alg', 'socket', 38, 5, 0)
""")
    assert report.run.result["exit_code"] == 0, report.run.err
    assert report.errors("vmsplice", "alg") == {"vmsplice": "ENOSYS", "alg": "EAFNOSUPPORT"}
    assert set(report.under("splice-back:").values()) == {"EBADF"} and set(report.under("private-map:").values()) == {"EACCES"}
    for path in victims:  # as it is in the page cache, and as it is on the disk
        assert digest(path) == before[path]
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        assert digest(path) == before[path]


def test_SC_24_requeueing_onto_a_pi_futex_seems_not_to_exist():
    assert all_of("futex:") == {"ENOSYS"}


def test_SC_25_no_priority_above_the_others_can_be_had():
    report = calls()
    assert report.under("sched:") == {"fifo": "EPERM", "rr": "EPERM", "deadline": "EPERM", "fifo-reset": "EPERM", "ext": "EPERM", "setattr": "ENOSYS", "setparam": "EINVAL"}
    assert report["nice"]["errno"] == "EACCES" and report["ioprio-realtime"]["errno"] == "EPERM"
    assert report["mlockall"]["errno"] == "ENOMEM"  # more than RLIMIT_MEMLOCK is mapped already
    assert set(report["affinity-after"]["after"]) <= os.sched_getaffinity(0)


def test_SC_26_old_doors_are_refused():
    assert all_of("old:") == {"EPERM"} and len(calls().under("old:")) == 14


def test_SC_27_orphan_tricks_do_not_outlive_the_run():
    marker = new_marker()
    report = attack("signals", "orphans", marker)
    assert report.run.result["exit_code"] == 0, report.run.err
    assert report.under("prctl:") == {"subreaper": None, "pdeathsig": None, "ptracer": "EPERM"}
    assert wait_until(lambda: processes_with(marker) == [], 1)


def test_SC_28_ipc_objects_are_limited_and_gone_with_the_sandbox():
    def hosts():
        return [pathlib.Path(f"/proc/sysvipc/{kind}").read_text() for kind in ("shm", "sem", "msg")] + sorted(os.listdir("/dev/shm"))
    before = hosts()
    report = code("""
from probelib import *
def many(name, make):
    made = 0
    try:
        for _ in range(10000):
            make(made); made += 1
        fact(name, made=made, errno=None)
    except OSError as error:
        fact(name, made=made, errno=errno_name(error.errno))
many('shm', lambda i: call('shmget', 0, 4096, 0o1600))
many('sem', lambda i: call('semget', 0, 1, 0o1600))
many('msg', lambda i: call('msgget', 0, 0o1600))
many('mq', lambda i: call('mq_open', f'q{i}'.encode(), 0o102, 0o600, 0))
many('posix-shm', lambda i: os.close(os.open(f'/dev/shm/o{i}', os.O_CREAT | os.O_RDWR)))
""", "--timeout", "20s")
    assert report.run.result["exit_code"] == 0, report.run.err
    assert report["shm"]["made"] <= 4096 and report["shm"]["errno"] == "ENOSPC"
    assert report["mq"] == {"made": 0, "errno": "EACCES"}  # Landlock: a queue lies below none of the paths that are allowed
    assert report["sem"]["errno"] in (None, "ENOSPC", "ENOMEM") and report["msg"]["errno"] in (None, "ENOSPC", "ENOMEM")
    assert report["posix-shm"]["made"] == 10000
    assert hosts() == before


def test_SC_29_code_pages_may_be_written_and_nothing_else_follows():
    assert calls()["rwx"]["mapped"] and calls()["jit"]["answer"] == 42
    assert calls()["shm-exec"]["errno"] is None
    assert calls()["status-after"] == {"seccomp": "2", "no_new_privs": "1", "caps": "0" * 16}


def kernel_complaints(since):
    """Lines of the kernel's log that speak of a bug in it, after this time of its clock."""
    done = subprocess.run(["dmesg"], capture_output=True, text=True, timeout=PATIENCE)
    words = ("WARNING:", "BUG:", "Oops", "general protection fault, ", "KASAN", "hung task")
    return [line for line in done.stdout.splitlines() if any(word in line for word in words) and float(line[1:].split("]")[0]) >= since]


def test_SC_30_random_calls_leave_the_host_as_it_was():
    began, clock = time.clock_gettime(time.CLOCK_BOOTTIME), time.time() - time.monotonic()
    report = attack("random_calls", "4", str(int(time.time())), options=("--timeout", "20s", "--pids", "32"))
    # It may harm itself in any way; what it may not do is hold on, or harm anything else.
    assert report.run.reason in ("exited", "signalled", "oom", "pids", "disk"), report.run.result
    assert report.run.reason != "exited" or report["random"]["children"] > 10
    assert kernel_complaints(began) == []
    assert abs(time.time() - time.monotonic() - clock) < 1
    assert canaries().untouched()
    assert run("-c", "print(6*7)").out == "42\n"
