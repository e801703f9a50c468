"""NS: tries to get new namespaces, mounts, ids and privileges."""
import ctypes
import os
import struct
import subprocess

from probelib import BAD, call, fact, in_child, libc, status, tried, tried_aside, tried_call

FLAGS = {"user": 0x10000000, "mnt": 0x00020000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000, "cgroup": 0x02000000, "time": 0x00000080}
SIGCHLD = 17


def cloned(flags):
    pid = call("clone", flags | SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def cloned3(flags):
    arguments = struct.pack("QQQQQQQQQQQ", flags, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = call("clone3", ctypes.create_string_buffer(arguments, len(arguments)), len(arguments))
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def unshared(flags):
    """In a child: what would stick to this process would spoil the rest."""
    pid_in, pid_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            call("unshare", flags)
            os.write(pid_out, b"0")
        except OSError as error:
            os.write(pid_out, str(error.errno).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    number = int(os.read(pid_in, 16))
    os.close(pid_in)
    os.close(pid_out)
    if number:
        raise OSError(number, "unshare")


# NS-01, NS-02
for kind, flag in FLAGS.items():
    tried(f"unshare:{kind}", unshared, flag)
    tried(f"unshare-garbage:{kind}", unshared, flag | 0x7FFFFFFF00000000)
    if kind != "time":
        tried(f"clone:{kind}", cloned, flag)
        tried(f"clone-garbage:{kind}", cloned, flag | (0x5A5A << 32))
    tried(f"clone3:{kind}", cloned3, flag)
for command in (["unshare", "-Ur", "true"], ["unshare", "-Urmpf", "true"], ["bwrap", "--ro-bind", "/", "/", "true"], ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], ["nsenter", "-t", "1", "-a", "true"],
                ["chroot", "/", "true"]):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        fact("tool:" + " ".join(command[:2]), code=done.returncode, text=done.stderr[:200])
    except FileNotFoundError:
        fact("tool:" + " ".join(command[:2]), code=127, text="not installed")

# NS-03
os.makedirs("/tmp/m", exist_ok=True)
MS_BIND, MS_REMOUNT, MS_MOVE, MS_PRIVATE = 4096, 32, 8192, 1 << 18
tried_call("mount:tmpfs", "mount", b"none", b"/tmp/m", b"tmpfs", 0, 0)
tried_call("mount:bind", "mount", b"/usr", b"/tmp/m", 0, MS_BIND, 0)
tried_call("mount:remount-rw", "mount", b"none", b"/usr", 0, MS_REMOUNT, 0)
tried_call("mount:remount-bind-rw", "mount", b"none", b"/usr", 0, MS_REMOUNT | MS_BIND, 0)
tried_call("mount:move", "mount", b"/dev/shm", b"/tmp/m", 0, MS_MOVE, 0)
tried_call("mount:private", "mount", b"none", b"/", 0, MS_PRIVATE, 0)
tried_call("mount:overlay", "mount", b"none", b"/tmp/m", b"overlay", 0, b"lowerdir=/usr:/etc,userxattr")
for target in (b"/", b"/usr", b"/proc", b"/dev/null", b"/dev/shm"):
    tried_call(f"umount:{target.decode()}", "umount2", target, 2)
    tried_call(f"umount-plain:{target.decode()}", "umount2", target, 0)

# NS-04: with good pointers and with bad ones, which must be refused before they are read
buffer = ctypes.create_string_buffer(64)
tried_call("new-mount:fsopen", "fsopen", b"tmpfs", 0)
tried_call("new-mount:fsopen-bad", "fsopen", BAD, 0)
tried_call("new-mount:fsconfig", "fsconfig", 0, 6, 0, 0, 0)
tried_call("new-mount:fsconfig-bad", "fsconfig", 0, 1, BAD, BAD, 0)
tried_call("new-mount:fsmount", "fsmount", 0, 0, 0)
tried_call("new-mount:fspick", "fspick", -100, b"/", 0)
tried_call("new-mount:fspick-bad", "fspick", -100, BAD, 0)
tried_call("new-mount:open_tree-clone", "open_tree", -100, b"/usr", 1)
tried_call("new-mount:open_tree-plain", "open_tree", -100, b"/usr", 0)
tried_call("new-mount:open_tree-bad", "open_tree", -100, BAD, 1)
tried_call("new-mount:open_tree_attr", "open_tree_attr", -100, b"/usr", 1, buffer, 32)
tried_call("new-mount:move_mount", "move_mount", -100, b"/dev/shm", -100, b"/tmp/m", 0)
tried_call("new-mount:move_mount-bad", "move_mount", -100, BAD, -100, BAD, 0)
tried_call("new-mount:mount_setattr", "mount_setattr", -100, b"/usr", 0, buffer, 32)
tried_call("new-mount:mount_setattr-bad", "mount_setattr", -100, BAD, 0, BAD, 32)

# NS-05
tried_call("root:pivot_root", "pivot_root", b".", b".")
tried_call("root:pivot_root-bad", "pivot_root", BAD, BAD)
tried_call("root:chroot", "chroot", b"/tmp")
tried_call("root:chroot-bad", "chroot", BAD)

# NS-06
pidfd = call("pidfd_open", 1, 0)
own = call("pidfd_open", os.getpid(), 0)
for kind, flag in FLAGS.items():
    tried_call(f"setns-init:{kind}", "setns", pidfd, flag)
    tried_call(f"setns-own:{kind}", "setns", own, flag)
tried_call("setns-init:all", "setns", pidfd, sum(FLAGS.values()))
tried_call("setns-init:none", "setns", pidfd, 0)

# NS-07
tried_call("name:host", "sethostname", b"evil", 4)
tried_call("name:host-bad", "sethostname", BAD, 4)
tried_call("name:domain", "setdomainname", b"evil", 4)
fact("name-after", name=os.uname().nodename)

# NS-08
header = struct.pack("Ii", 0x20080522, 0)
everything = struct.pack("IIIIII", *[0xFFFFFFFF] * 6)
inheritable = struct.pack("IIIIII", 0, 0, 0xFFFFFFFF, 0, 0, 0xFFFFFFFF)
tried_call("caps:capset-all", "capset", ctypes.create_string_buffer(header, 8), ctypes.create_string_buffer(everything, 24))
tried_call("caps:capset-inheritable", "capset", ctypes.create_string_buffer(header, 8), ctypes.create_string_buffer(inheritable, 24))
for capability in (0, 21, 40):
    tried_call(f"caps:ambient-{capability}", "prctl", 47, 2, capability, 0, 0)
    tried_call(f"caps:bounding-{capability}", "prctl", 24, capability, 0, 0, 0)
fact("caps-after", sets={key: value for key, value in status().items() if key.startswith("Cap")})

# NS-09
groups = os.getgroups()
changed = []
for number in [*range(0, 70001), 65534, 0x70000000, 0xFFFFFFFE]:
    if number == 1000:
        continue
    if libc.setresuid(number, number, number) == 0 or libc.setresgid(number, number, number) == 0 or libc.setuid(number) == 0:
        changed.append(number)
fact("ids-changed", numbers=changed)
tried_call("ids:setgroups-0", "setgroups", 1, ctypes.byref(ctypes.c_uint(0)))
tried_call("ids:setgroups-own", "setgroups", 1, ctypes.byref(ctypes.c_uint(1000)))
tried_call("ids:setgroups-none", "setgroups", 0, 0)
tried_call("ids:setuid-0", "setuid", 0)
tried_call("ids:setgid-0", "setgid", 0)
libc.setfsuid(0), libc.setfsgid(0)
after = status()
fact("ids-after", uid=after["Uid"], gid=after["Gid"], groups=after["Groups"], groups_before=groups)

# NS-10
for label, arguments in {
        "no-new-privs-0": (38, 0, 0, 0, 0), "securebits-0": (28, 0, 0, 0, 0), "set-mm": (35, 8, BAD, 0, 0), "keepcaps": (8, 1, 0, 0, 0), "set-tsc": (26, 2, 0, 0, 0),
        "mce-kill": (33, 1, 1, 0, 0), "set-ptracer": (0x59616D61, -1, 0, 0, 0), "sched-core": (62, 1, 0, 1, 0), "set-seccomp-strict": (22, 1, 0, 0, 0), "io-flusher": (57, 1, 0, 0, 0),
        "speculation": (53, 0, 2, 0, 0), "syscall-dispatch": (59, 1, 0, 0, 0), "unknown": (0x7FFFFFFF, 0, 0, 0, 0), "timing": (14, 1, 0, 0, 0)}.items():
    tried_aside(f"prctl:{label}", "prctl", *arguments)
for label, arguments in {"no-new-privs": (39, 0, 0, 0, 0), "securebits": (27, 0, 0, 0, 0), "dumpable": (3, 0, 0, 0, 0)}.items():
    tried_call(f"prctl-get:{label}", "prctl", *arguments)

# NS-12: see proc_leaks for the files; here, that none appears after all
fact("sysctl-there", there=os.path.exists("/proc/sys"))


# NS-13
def own_filter(action):
    """A filter that answers everything with `action`, installed in a child; what that child then sees of getpid."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, action), 8)
    fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(program)), 16)
    call("seccomp", 1, 0, fprog)


ALLOW, ERRNO0, TRACE, LISTENER = 0x7FFF0000, 0x00050000, 0x7FF00000, 8
fact("own-filter:errno-0", **in_child(lambda: (own_filter(ERRNO0), os._exit(7))))
fact("own-filter:trace", **in_child(lambda: (own_filter(TRACE), os._exit(7))))
program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, ALLOW), 8)
fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(program)), 16)
tried_aside("own-filter:listener", "seccomp", 1, LISTENER, fprog)
tried_aside("own-filter:listener-garbage", "seccomp", 1, LISTENER | (1 << 40), fprog)
tried_call("own-filter:notify-sizes", "seccomp", 3, 0, buffer)
reader, writer = os.pipe()
if os.fork() == 0:
    stacked = 0
    try:
        for _ in range(10_000):
            own_filter(ALLOW)
            stacked += 1
    except OSError as error:
        os.write(writer, f"{stacked} {error.errno}".encode())
    else:
        os.write(writer, f"{stacked} 0".encode())
    try:
        call("unshare", FLAGS["user"])
        os.write(writer, b" loosened")
    except OSError as error:
        os.write(writer, f" {error.errno}".encode())
    os._exit(0)
os.wait()
fact("filters-stacked", text=os.read(reader, 100).decode())
