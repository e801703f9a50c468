"""SG: signals, orphans, zombies. Arguments: which attack, and a word by which the host can find the processes."""
import ctypes
import os
import resource
import signal
import struct
import sys
import time

from probelib import call, errno_name, fact, libc, status, tried, tried_call

attack = sys.argv[1]


def ignore_everything():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))


def daemonise(then):
    """Double fork, new session, no descriptors."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 1024)
            then()
        os._exit(0)
    os.wait()


def kill_init():
    for number in [*range(1, 65)] * 3:
        tried(f"kill:{number}", os.kill, 1, number)
    pidfd = call("pidfd_open", 1, 0)
    for number in (9, 15, 19, 11):
        tried_call(f"pidfd:{number}", "pidfd_send_signal", pidfd, number, 0, 0)
    tried_call("queue", "rt_sigqueueinfo", 1, 9, ctypes.create_string_buffer(struct.pack("iii", 9, 0, -1), 128))
    child = os.fork()
    if child == 0:
        time.sleep(60)
    tried("everyone", os.kill, -1, 9)
    fact("child", signal=os.WTERMSIG(os.waitpid(child, 0)[1]))
    time.sleep(0.3)
    fact("init", state=status(1)["State"][0], name=status(1)["Name"])


def kill_parent():
    for number in (9, 15, 19, 2, 11):
        tried(f"kill:{number}", os.kill, os.getppid(), number)
    time.sleep(0.2)
    fact("parent", pid=os.getppid())


def daemon():
    daemonise(lambda: (ignore_everything(), time.sleep(300)))
    fact("left", pids=[int(name) for name in os.listdir("/proc") if name.isdigit()])


def holds_output():
    if os.fork() == 0:
        os.setsid()
        time.sleep(30)
        os._exit(0)
    fact("told", pid=os.getpid())


def stubborn():
    ignore_everything()
    print("ready", flush=True)
    while True:
        time.sleep(1)


def storm():
    print("ready", flush=True)
    for _ in range(4):
        if os.fork() == 0:
            break
    while True:
        try:
            if os.fork() == 0:
                os._exit(0)
        except OSError:
            pass
        try:
            os.waitpid(-1, os.WNOHANG)
        except OSError:
            pass


def stopped():
    """Everything in state T, and a parent that waits in vfork for a child that sleeps."""
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    if os.fork() == 0:
        libc.vfork.restype = ctypes.c_int
        if call(58) == 0:
            time.sleep(300)
    time.sleep(0.2)
    print("ready", flush=True)
    os.kill(-1, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)


def stops_the_helper():
    """Leaves a process behind that stops whatever else starts in the sandbox, the one that copies results out included."""
    with open("result", "w") as file:
        file.write("x" * 100_000)
    end = time.monotonic() + float(sys.argv[3])

    def stop_others():
        me = os.getpid()
        while time.monotonic() < end:
            for name in os.listdir("/proc"):
                if name.isdigit() and int(name) not in (1, me):
                    try:
                        os.kill(int(name), signal.SIGSTOP)
                    except OSError:
                        pass
        os.kill(-1, signal.SIGCONT)
        os._exit(0)

    parent = os.getpid()
    if os.fork() == 0:
        os.setsid()
        while os.path.exists(f"/proc/{parent}"):
            time.sleep(0.001)
        stop_others()
    os._exit(0)


def disguise():
    for name in (b"cove", b"cove-keeper", b"cove-init"):
        call("prctl", 15, name, 0, 0, 0)
    seen = set()
    for _ in range(3000):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        seen.add(pid)
        os.waitpid(pid, 0)
    fact("recycled", processes=3000, highest=max(seen), name=status()["Name"])


def groups():
    for _ in range(4):
        if os.fork() == 0:
            os.setpgid(0, 0)
            ignore_everything()
            try:
                tty = os.open("/dev/tty", os.O_RDWR)
                os.tcsetpgrp(tty, os.getpgrp())
                os.write(tty, b"\x1b[?25l\x1b[8m")
            except OSError:
                pass
            time.sleep(300)
    if os.fork() == 0:
        os.setsid()
        time.sleep(300)
    time.sleep(0.3)
    fact("groups", pids=len([name for name in os.listdir("/proc") if name.isdigit()]))


def zombies():
    made = 0
    try:
        for _ in range(5000):
            if os.fork() == 0:
                os._exit(0)
            made += 1
        fact("zombies", made=made, errno=None)
    except OSError as error:
        fact("zombies", made=made, errno=errno_name(error.errno))


def orphan_zombies():
    """Zombies whose parent dies: init must reap them."""
    for _ in range(20):
        if os.fork() == 0:
            for _ in range(20):
                if os.fork() == 0:
                    os._exit(0)
            os._exit(0)
        os.wait()
    time.sleep(0.3)
    left = {name: status(name)["State"] for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())}
    fact("left", processes=left)


def queue():
    signal.pthread_sigmask(signal.SIG_BLOCK, [40])
    sent = 0
    information = ctypes.create_string_buffer(struct.pack("iii", 40, 0, -1), 128)
    try:
        for _ in range(1_000_000):
            call("rt_sigqueueinfo", os.getpid(), 40, information)
            sent += 1
        fact("queued", number=sent, errno=None)
    except OSError as error:
        fact("queued", number=sent, errno=errno_name(error.errno))
    timer, made = ctypes.c_int(), 0
    try:
        for _ in range(100_000):
            call("timer_create", 1, 0, ctypes.byref(timer))
            made += 1
        fact("timers", number=made, errno=None)
    except OSError as error:
        fact("timers", number=made, errno=errno_name(error.errno))
    if len(sys.argv) > 2 and sys.argv[2] == "hold":
        print("done", flush=True)
        sys.stdin.readline()


def core():
    tried_call("raise", "prlimit64", 0, resource.RLIMIT_CORE, ctypes.create_string_buffer(struct.pack("QQ", 1 << 40, 1 << 40), 16), 0)
    # Lowering matters too: with a piped core_pattern a limit of exactly 1 means no core, and 0 does not (core(5)).
    new = ctypes.create_string_buffer(struct.pack("QQ", 0, 0), 16)
    tried_call("lower", "prlimit64", 0, resource.RLIMIT_CORE, new, 0)
    tried_call("lower-old", 160, resource.RLIMIT_CORE, new)
    # A pointer whose low half is zero is not null.
    page = call("mmap", 1 << 40, 4096, 3, 0x100022, -1, 0)
    fact("page", address=page)
    tried_call("lower-high", "prlimit64", 0, resource.RLIMIT_CORE, page, 0)
    line = next(line for line in open("/proc/self/limits") if line.startswith("Max core file size"))
    fact("limit", value=[int(number) for number in line.split()[4:6]], told=resource.getrlimit(resource.RLIMIT_CORE))
    os.abort()


def orphans():
    tried_call("prctl:subreaper", "prctl", 36, 1, 0, 0, 0)
    tried_call("prctl:pdeathsig", "prctl", 1, 9, 0, 0, 0)
    tried_call("prctl:ptracer", "prctl", 0x59616D61, -1, 0, 0, 0)
    for _ in range(5):
        daemonise(lambda: (call("prctl", 1, 0, 0, 0, 0), ignore_everything(), time.sleep(300)))
    if os.fork() == 0:
        call("prctl", 36, 1, 0, 0, 0)
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                time.sleep(300)
        time.sleep(300)
    time.sleep(0.2)


globals()[attack.replace("-", "_")]()
