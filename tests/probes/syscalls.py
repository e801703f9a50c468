"""SC: calls that must be refused, made with pointers that lead nowhere: EFAULT would mean the kernel had begun to work."""
import ctypes
import os
import random
import socket
import struct
import sys
import time

from probelib import BAD, NR, call, errno_name, fact, in_child, libc, status, tried, tried_aside, tried_call

child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)

# SC-01
for label, target in (("child", child), ("init", 1), ("self", os.getpid())):
    for name, request in (("attach", 16), ("seize", 0x4206), ("peek", 1)):
        tried_call(f"ptrace:{name}:{label}", "ptrace", request, target, 0, 0)
tried_aside("ptrace:traceme", "ptrace", 0, 0, 0, 0)
tried_call("ptrace:garbage", "ptrace", 0x7FFFFFFF00000010, child, 0, 0)

# SC-02
pidfds = {"child": call("pidfd_open", child, 0), "init": call("pidfd_open", 1, 0)}
for label, target in (("child", child), ("init", 1), ("self", os.getpid())):
    tried_call(f"other:process_vm_readv:{label}", "process_vm_readv", target, BAD, 1, BAD, 1, 0)
    tried_call(f"other:process_vm_writev:{label}", "process_vm_writev", target, BAD, 1, BAD, 1, 0)
    tried_call(f"other:kcmp:{label}", "kcmp", os.getpid(), target, 1, 0, 0)
for label, pidfd in pidfds.items():
    for fd in range(4):
        tried_call(f"other:pidfd_getfd:{label}:{fd}", "pidfd_getfd", pidfd, fd, 0)
    tried_call(f"other:process_madvise:{label}", "process_madvise", pidfd, BAD, 1, 4, 0)
    tried_call(f"other:process_mrelease:{label}", "process_mrelease", pidfd, 0)

# With good pointers: what the kernel itself thinks of it when no filter stands before.
own_page = ctypes.create_string_buffer(64)
for label, target in (("child", child), ("init", 1)):
    local = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(own_page), 16), 16)
    remote = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(own_page) if label == "child" else 0x400000, 16), 16)
    tried_call(f"memory:read:{label}", "process_vm_readv", target, local, 1, remote, 1, 0)
    tried_call(f"memory:write:{label}", "process_vm_writev", target, local, 1, remote, 1, 0)
log = ctypes.create_string_buffer(4096)
tried_call("kernel-log", "syslog", 3, log, 4096)

# SC-03
tried_call("key:add_key", "add_key", b"user", b"canary", b"x", 1, -4)
tried_call("key:add_key-bad", "add_key", BAD, BAD, BAD, 1, -4)
tried_call("key:request_key", "request_key", b"user", b"canary", 0, -4)
for operation in (0, 1, 6, 10, 11, 22, 31):
    tried_call(f"key:keyctl-{operation}", "keyctl", operation, -4, BAD, BAD, 0)

# SC-04
attributes = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1), 128)
for name, command in (("map-create", 0), ("prog-load", 5), ("obj-get", 7), ("btf-load", 18), ("token-create", 36)):
    tried_call(f"bpf:{name}", "bpf", command, attributes, 128)
    tried_call(f"bpf:{name}-bad", "bpf", command, BAD, 128)

# SC-05
tried_call("io_uring:setup", "io_uring_setup", 8, BAD)
tried_call("io_uring:setup-good", "io_uring_setup", 8, ctypes.create_string_buffer(120))
tried_call("io_uring:enter", "io_uring_enter", 0, 1, 1, 0, 0, 0)
tried_call("io_uring:register", "io_uring_register", 0, 0, BAD, 0)
tried_call("aio:setup", "io_setup", 8, BAD)

# SC-06, SC-07
tried_call("fault:userfaultfd", "userfaultfd", 0)
tried_call("fault:userfaultfd-user-mode", "userfaultfd", 1)
tried_call("fault:memfd_secret", "memfd_secret", 0)
event = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 0), 128)
tried_call("perf:software", "perf_event_open", event, 0, -1, -1, 0)
tried_call("perf:bad", "perf_event_open", BAD, 0, -1, -1, 0)

# SC-08
for name, arguments in {
        "kexec_load": (0, 0, BAD, 0), "kexec_file_load": (0, 0, 0, BAD, 0), "init_module": (BAD, 10, BAD), "finit_module": (0, BAD, 0), "delete_module": (BAD, 0),
        "reboot": (0xFEE1DEAD, 672274793, 0, 0), "swapon": (BAD, 0), "swapoff": (BAD,), "acct": (BAD,), "iopl": (3,), "ioperm": (0x80, 1, 1), "quotactl": (0x800002 << 8, BAD, 0, BAD),
        "quotactl_fd": (0, 0, 0, BAD), "nfsservctl": (0, BAD, BAD), "sync": ()}.items():
    tried_call(f"machine:{name}", name, *arguments)

# SC-09
tried_call("handle:name", "name_to_handle_at", -100, BAD, BAD, BAD, 0)
tried_call("handle:name-pid", "name_to_handle_at", pidfds["init"], b"", BAD, BAD, 0x1000)
root = os.open("/", os.O_RDONLY)
errors = set()
for inode in range(1, 2000):
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, inode, 0), 16)
    try:
        os.close(call("open_by_handle_at", root, handle, 0))
        errors.add("opened")
    except OSError as error:
        errors.add(errno_name(error.errno))
fact("handles", errors=sorted(errors))

# SC-10
tried_call("clock:settimeofday", "settimeofday", BAD, 0)
tried_call("clock:clock_settime", "clock_settime", 0, BAD)
tried_call("clock:adjtimex", "adjtimex", BAD)
tried_call("clock:adjtimex-set", "adjtimex", ctypes.create_string_buffer(struct.pack("I", 0x4000), 256))
tried_call("clock:clock_adjtime", "clock_adjtime", 0, BAD)

# SC-11
for fd in range(3):
    for name, command in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSETD", 0x5423), ("TIOCCONS", 0x541D)):
        tried_call(f"tty:{name}:{fd}", "ioctl", fd, command, BAD)
        tried_call(f"tty:{name}-garbage:{fd}", "ioctl", fd, command | (0x1234 << 32), BAD)

# SC-13
X32 = 0x40000000
for name in ("getpid", "socket", "keyctl", "unshare", "ptrace", "mount"):
    tried_call(f"x32:{name}", X32 | NR[name], 0x10000000, 0, 0)
errors = set()
for number in [*range(0, 560)]:
    try:
        call(X32 | number, -1, -1, -1, -1, -1, -1)
        errors.add(f"{number} worked")
    except OSError as error:
        errors.add(errno_name(error.errno))
fact("x32-all", errors=sorted(errors))

# SC-14
answers = {}
# uretprobe and uprobe: the kernel lets them past every filter, and sends a signal to who is not a probe. In a child, then.
for number in (335, 336):
    fact(f"probe-number:{number}", **in_child(lambda: libc.syscall(number, -1, -1, -1) == -1 and os._exit(ctypes.get_errno())))
for number in range(337, 701):
    try:
        call(number, -1, -1, -1, -1, -1, -1)
        answers[number] = "worked"
    except OSError as error:
        answers[number] = errno_name(error.errno)
fact("numbers", answers=answers)
strange = set()
chosen = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
for _ in range(1000):
    number = chosen.choice([chosen.randrange(701, 1 << 30), chosen.randrange(1 << 31, 1 << 32), -chosen.randrange(2, 1 << 31), chosen.randrange(1 << 30, 1 << 31)])
    try:
        call(number, *[chosen.getrandbits(64) - (1 << 63) for _ in range(6)])
        strange.add(f"{number} worked")
    except OSError as error:
        strange.add(errno_name(error.errno))
fact("strange-numbers", errors=sorted(strange))

# SC-16, SC-17
families = {}
for family in range(65):
    for kind in (1, 2, 3, 4, 5, 6, 10):
        try:
            os.close(call("socket", family, kind, 0))
            answer = "opened"
        except OSError as error:
            answer = errno_name(error.errno)
        families.setdefault(answer, []).append([family, kind])
fact("families", answers=families)
for label, arguments in {
        "raw": (2, 3, 1), "raw6": (10, 3, 58), "ping": (2, 2, 1), "ping6": (10, 2, 58), "mptcp": (2, 1, 262), "mptcp6": (10, 1, 262), "sctp": (2, 1, 132), "dccp": (2, 6, 33), "udplite": (2, 2, 136),
        "packet": (17, 3, 0x300), "alg": (38, 5, 0), "vsock": (40, 1, 0), "vsock-dgram": (40, 2, 0), "xdp": (44, 3, 0), "rxrpc": (33, 2, 2), "tipc": (30, 1, 0), "can": (29, 3, 1), "bluetooth": (31, 3, 1),
        "netlink-audit": (16, 3, 9), "netlink-netfilter": (16, 3, 12), "netlink-generic": (16, 3, 16), "netlink-xfrm": (16, 3, 6), "netlink-uevent": (16, 3, 15), "netlink-diag": (16, 3, 4),
        "inet-garbage": (2 | (7 << 32), 3, 1), "vsock-garbage": (40 | (1 << 33), 1, 0)}.items():
    tried(f"socket:{label}", lambda: os.close(call("socket", *arguments)))
pair = (ctypes.c_int * 2)()
for label, family in (("inet", 2), ("vsock", 40), ("netlink", 16)):
    tried_call(f"pair:{label}", 53, family, 1, 0, pair)
with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    for label, (which, level, option) in {
            "attach-filter": (tcp, 1, 26), "attach-bpf": (tcp, 1, 50), "reuseport-cbpf": (tcp, 1, 51), "tcp-ulp": (tcp, 6, 31), "iptables": (tcp, 0, 64), "arptables": (tcp, 0, 96), "udp-encap": (udp, 17, 100),
            "ip6tables": (tcp, 41, 64)}.items():
        tried(f"option:{label}", which.setsockopt, level, option, b"\0" * 64)
    tried("option:mark", tcp.setsockopt, 1, 36, 1)  # SO_MARK takes CAP_NET_ADMIN

# SC-19, SC-20
for label, value in (("no-randomize", 0x0040000), ("read-implies-exec", 0x0400000), ("linux32", 8), ("garbage", 0x0040000 | (9 << 32))):
    tried_call(f"personality:{label}", "personality", value)
tried_call("personality-query", "personality", 0xFFFFFFFF)
tried_call("odd:modify_ldt-read", "modify_ldt", 0, BAD, 64)
tried_call("odd:modify_ldt-write", "modify_ldt", 1, ctypes.create_string_buffer(16), 16)
for code in (0x1003, 0x1011, 0x1012, 0x2001, 0x4001, 0x5001, 0x9999):
    tried_call(f"arch:{code:#x}", "arch_prctl", code, BAD)
tried_call("odd:map_shadow_stack", "map_shadow_stack", 0, 4096, 0)

# SC-21 (alone; with a neighbour in test_neighbours)
tried_call("watch:fanotify_init", "fanotify_init", 0, 0)
tried_call("watch:fanotify_init-unprivileged", "fanotify_init", 0x200, 0)
tried_call("watch:fanotify_mark", "fanotify_mark", 0, 1, 1, -100, BAD)

# SC-24
word = ctypes.c_uint(0)
for label, operation in (("wait-requeue-pi", 11), ("cmp-requeue-pi", 12), ("wait-requeue-pi-private", 139), ("cmp-requeue-pi-private", 140), ("fd", 2), ("unknown", 77), ("garbage", 11 | (3 << 32))):
    tried_call(f"futex:{label}", "futex", ctypes.byref(word), operation, 1, 0, ctypes.byref(word), 0)  # 1 is not there: nobody waits

# SC-25
parameter = ctypes.c_int(1)
for label, policy in (("fifo", 1), ("rr", 2), ("deadline", 6), ("fifo-reset", 1 | 0x40000000), ("ext", 7)):
    tried_call(f"sched:{label}", "sched_setscheduler", 0, policy, ctypes.byref(parameter))
tried_call("sched:setattr", "sched_setattr", 0, BAD, 0)
tried_call("sched:setparam", "sched_setparam", 0, ctypes.byref(parameter))
tried("nice", os.setpriority, os.PRIO_PROCESS, 0, -20)
tried_call("ioprio-realtime", "ioprio_set", 1, 0, 1 << 13)
tried_call("mlockall", "mlockall", 3)
before = sorted(os.sched_getaffinity(0))
tried("affinity", os.sched_setaffinity, 0, range(1024))
fact("affinity-after", before=before, after=sorted(os.sched_getaffinity(0)))

# SC-26
for name, arguments in {
        "syslog": (3, BAD, 10), "lookup_dcookie": (0, BAD, 10), "uselib": (BAD,), "ustat": (0, BAD), "sysfs": (3, 0, 0), "vhangup": (), "move_pages": (1, 1, BAD, BAD, BAD, 0), "migrate_pages": (1, 1, BAD, BAD),
        "mbind": (BAD, 1, 0, BAD, 0, 0), "set_mempolicy": (0, BAD, 0), "get_mempolicy": (BAD, BAD, 0, 0, 0), "set_mempolicy_home_node": (0, 0, 0, 0), "remap_file_pages": (BAD, 1, 0, 0, 0), "cachestat": (0, BAD, BAD, 0)}.items():
    tried_call(f"old:{name}", name, *arguments)

# SC-29
page = libc.mmap
page.restype = ctypes.c_void_p
address = page(None, 4096, 7, 0x22, -1, 0)
fact("rwx", mapped=address not in (None, ctypes.c_void_p(-1).value))
ctypes.memmove(address, b"\xb8\x2a\x00\x00\x00\xc3", 6)  # mov eax, 42; ret
fact("jit", answer=ctypes.CFUNCTYPE(ctypes.c_int)(address)())
segment = call("shmget", 0, 4096, 0o1700)
tried_call("shm-exec", "shmat", segment, 0, 0o100000)
libc.shmctl(segment, 0, None)

after = status()
fact("status-after", seccomp=after["Seccomp"], no_new_privs=after["NoNewPrivs"], caps=after["CapEff"])
os.kill(child, 9)
os.waitpid(child, 0)
