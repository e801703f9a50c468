"""XT: one of two sandboxes side by side. Each line of stdin is a JSON list, an order and its arguments; facts answer it, then "done"."""
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys

from probelib import BAD, call, fact, libc, read, tried, tried_call

held = []
WRITABLE = ("/workspace", "/tmp", "/home/cove", "/dev/shm")
SHARED = ("/usr/bin/env", "/etc/passwd", "/usr/lib/os-release")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def mark(word):
    for place in WRITABLE:
        for name in (f"{word}", f".{word}"):
            with open(f"{place}/{name}", "w") as file:
                file.write(word)
    for path in (".cache/pip/x", ".local/lib/python3.11/site-packages/evil.pth", ".npm/x", ".bashrc"):
        os.makedirs(os.path.dirname(f"/home/cove/{path}"), exist_ok=True)
        with open(f"/home/cove/{path}", "w") as file:
            file.write(word)
    os.environ["MARK"] = word
    held.append(bytes(word, "ascii") * 10)


def search(word):
    found, seen = [], 0
    for parent, directories, files in os.walk("/"):
        if parent == "/":
            directories.remove("proc")
        for name in directories + files:
            seen += 1
            if word in name:
                found.append(os.path.join(parent, name))
        if parent.startswith(WRITABLE):
            for name in files:
                path = os.path.join(parent, name)
                if os.path.isfile(path) and word in read(path, 1 << 20):
                    found.append(path)
    fact("search", found=found, seen=seen)


def look():
    """What of the own standing an earlier sandbox could have bent."""
    mask = os.umask(0o22)
    fact("standing", environment=dict(os.environ), umask=mask, cwd=os.getcwd(), handlers=[str(signal.getsignal(n)) for n in (1, 2, 13, 15)], home=sorted(os.listdir("/home/cove")),
         tmp=os.listdir("/tmp"), shm=os.listdir("/dev/shm"), modules=sorted(name for name in sys.modules if "evil" in name), nice=os.getpriority(0, 0), blocked=sorted(signal.pthread_sigmask(0, [])))


def bend():
    import builtins
    builtins.print_before = print
    os.environ.update(EVIL="1", LD_PRELOAD="/tmp/evil.so")
    os.umask(0o777)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.chdir("/tmp")
    os.nice(5)


def processes():
    fact("processes", pids=sorted(int(name) for name in os.listdir("/proc") if name.isdigit()), own=os.getpid())


def reach_pids(*pids):
    for pid in pids:
        tried(f"kill:{pid}", os.kill, pid, 0)
        tried_call(f"pidfd:{pid}", "pidfd_open", pid, 0)
        tried_call(f"ptrace:{pid}", "ptrace", 16, pid, 0, 0)
        tried(f"open:{pid}", os.listdir, f"/proc/{pid}")


def listen(name):
    ports = {}
    for address in ("127.0.0.1", "0.0.0.0", "::1", "::"):
        listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        listener.bind((address, 0))
        listener.listen()
        held.append(listener)
        ports[address] = listener.getsockname()[1]
    for path in ("\0" + name, f"/tmp/{name}", f"/dev/shm/{name}"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        held.append(listener)
    fact("ports", ports=ports)


def connect(ports, name):
    for address, port in ports.items():
        for target in ("::1",) if ":" in address else ("127.0.0.1", "0.0.0.0"):
            with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET) as peer:
                peer.settimeout(2)
                tried(f"tcp:{address}:{target}", peer.connect, (target, port))
    for path in ("\0" + name, f"/tmp/{name}", f"/dev/shm/{name}"):
        with socket.socket(socket.AF_UNIX) as peer:
            tried(f"unix:{path}", peer.connect, path)


def ipc(word):
    """The same keys and names in both; what stands in them."""
    segment = call("shmget", 0xC0FE, 4096, 0o1600)
    address = call("shmat", segment, 0, 0)
    before = ctypes.string_at(address, len(word)).decode(errors="replace")
    ctypes.memmove(address, word.encode(), len(word))
    fact("shm", before=before.strip("\0"), now=ctypes.string_at(address, len(word)).decode())
    semaphore = call("semget", 0xC0FE, 1, 0o1600)
    libc.semctl(semaphore, 0, 16, len(word))  # SETVAL
    fact("sem", value=libc.semctl(semaphore, 0, 12))
    tried("msg-exclusive", lambda: call("msgget", 0xC0FE, 0o3600))  # IPC_CREAT|IPC_EXCL
    tried("mq", lambda: call("mq_open", b"c0fe", 0o302, 0o600, 0))
    fd = os.open("/dev/shm/c0fe", os.O_CREAT | os.O_RDWR)
    fact("posix-shm", before=os.read(fd, 100).decode())
    os.write(fd, word.encode())


OFD_SETLK = 37


def locks(paths):
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        held.append(fd)
        tried(f"flock:{path}", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for mode, label, flags in ((fcntl.F_RDLCK, "read", os.O_RDONLY), (fcntl.F_WRLCK, "write", os.O_WRONLY)):
            def ofd():
                other = os.open(path, flags)
                held.append(other)
                fcntl.fcntl(other, OFD_SETLK, struct.pack("hhqqi4x", mode, 0, 0, 1, 0))
            tried(f"ofd-{label}:{path}", ofd)
        tried(f"lease:{path}", lambda: libc.fcntl(fd, 1024, 0) == 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), "lease")))


def touch(paths):
    for path in paths:
        tried(f"touch:{path}", os.utime, path)


def times(paths):
    fact("times", times={path: os.stat(path).st_mtime_ns for path in paths})


def watch(paths):
    fd = libc.inotify_init1(os.O_NONBLOCK)
    held.append(fd)
    for path in paths:
        tried(f"watch:{path}", lambda: libc.inotify_add_watch(fd, path.encode(), 0xFFF))
    globals()["watching"] = fd


def events():
    data = b""
    while select.select([watching], [], [], 0.2)[0]:
        data += os.read(watching, 65536)
    masks, at = [], 0
    while at < len(data):
        _, mask, _, size = struct.unpack_from("iIII", data, at)
        masks.append(mask)
        at += 16 + size
    fact("events", masks=masks)


def use(paths):
    for path in paths:
        for _ in range(3):
            with open(path, "rb") as file:
                file.read(16)
    import colorsys  # noqa: F401  a module nobody has loaded yet
    import wave  # noqa: F401


def cached(path):
    fd = os.open(path, os.O_RDONLY)
    size = os.fstat(fd).st_size
    pages = (size + 4095) // 4096
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, size, 1, 1, fd, 0)
    vector = ctypes.create_string_buffer(pages)
    result = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), vector)
    fact("mincore", result=result, pages=pages, resident=sum(byte & 1 for byte in vector.raw))
    tried_call("cachestat", "cachestat", fd, BAD, BAD, 0)
    tried("preadv2", lambda: os.preadv(fd, [bytearray(4096)], 0, os.RWF_NOWAIT))


def machine():
    """sysinfo(2): what the kernel says of the whole machine."""
    buffer = ctypes.create_string_buffer(128)
    libc.sysinfo(buffer)
    uptime, load1, load5, load15, total, free, shared, buffers, swap_total, swap_free, count = struct.unpack_from("qQQQQQQQQQH", buffer.raw)
    fact("machine", processes=count, total=total, free=free, uptime=uptime)
    st = os.statvfs("/usr")
    fact("disk", total=st.f_blocks * st.f_frsize, free=st.f_bfree * st.f_frsize)


def crowd(number):
    for _ in range(number):
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        held.append(pid)


def disperse():
    for pid in [p for p in held if isinstance(p, int) and p > 2]:
        try:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        except OSError:
            pass


def channels():
    tried("vsock", lambda: os.close(call("socket", 40, 1, 0)))
    tried("netlink-user", lambda: os.close(call("socket", 16, 3, 2)))
    tried("netlink-uevent", lambda: os.close(call("socket", 16, 3, 15)))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
        tried("netlink-route-group", lambda: route.bind((0, 1)))
        tried("netlink-route-send", lambda: route.sendto(b"\0" * 32, (0, 1)))
    fact("pipes", inodes={fd: os.fstat(fd).st_ino for fd in range(3)})


print("done", flush=True)
for line in sys.stdin:
    order, *arguments = json.loads(line)
    globals()[order.replace("-", "_")](*arguments)
    print("done", flush=True)
