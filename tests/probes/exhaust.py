"""RX: takes as much of one thing as it can get. Argument: which thing."""
import array
import ctypes
import mmap
import os
import signal
import socket
import sys
import threading
import time

from probelib import call, errno_name, fact, libc, tried

attack = sys.argv[1]


def until_refused(name, take, most=1_000_000):
    """Takes until an errno comes; tells how many and which."""
    taken = 0
    try:
        while taken < most:
            take(taken)
            taken += 1
        fact(name, taken=taken, errno=None)
    except OSError as error:
        fact(name, taken=taken, errno=errno_name(error.errno))
    return taken


def hold():
    """With "hold" as the second argument: keeps everything until the test says go on."""
    if "hold" in sys.argv[2:]:
        print("done", flush=True)
        sys.stdin.readline()


def fork_bomb():
    until_refused("forks", lambda i: os.fork() or (time.sleep(20), os._exit(0)))


def fork_bomb_endless():
    while True:
        try:
            os.fork()
        except OSError:
            pass


def threads():
    made = []
    try:
        for _ in range(100_000):
            thread = threading.Thread(target=time.sleep, args=(2,), daemon=True)
            thread.start()
            made.append(thread)
    except RuntimeError as error:
        fact("threads", made=len(made), error=str(error))
    os._exit(0)


def memory():
    size = int(sys.argv[2])
    print("begun", flush=True)
    held = []
    for _ in range(size >> 20):
        held.append(b"\1" * (1 << 20))
    fact("memory", held=len(held))


def children_memory():
    """Each child well below the limit, all together above it."""
    each = int(sys.argv[2])
    reader, writer = os.pipe()
    for _ in range(8):
        if os.fork() == 0:
            held = bytearray(b"\1") * each
            os.write(writer, b"x")
            time.sleep(5)
            os._exit(len(held) and 0)
    os.close(writer)
    ends = [os.WTERMSIG(os.wait()[1]) for _ in range(8)]
    fact("children", signals=ends)


def disk():
    block = b"\0" * (1 << 20)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    total = 0
    for place in ("/workspace", "/tmp", "/dev/shm", "/home/cove", "/var/tmp", "/mnt/data", "/data", "/app"):
        with open(f"{place}/fill", "wb", buffering=0) as file:
            try:
                while True:
                    total += file.write(block)
            except OSError as error:
                fact(f"disk:{place}", errno=errno_name(error.errno))
    fact("disk-total", bytes=total)
    for place in ("/", "/var", "/etc", "/run", "/root", "/dev", "/cove", "/opt", "/srv", "/usr"):
        tried(f"other:{place}", lambda: os.open(f"{place}/fill", os.O_CREAT | os.O_WRONLY))
    sys.exit(1)


def rewrite():
    """Far more written than may be kept, with fsync."""
    block = b"\0" * (1 << 20)
    for round in range(4):
        fd = os.open("/workspace/f", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        written = 0
        try:
            for _ in range(2000):
                written += os.write(fd, block)
                os.fsync(fd)
            fact(f"written:{round}", bytes=written, errno=None)
        except OSError as error:
            fact(f"written:{round}", bytes=written, errno=errno_name(error.errno))
        os.close(fd)


def memfds():
    held = []

    def take(i):
        fd = os.memfd_create(f"m{i}")
        held.append(fd)
        os.posix_fallocate(fd, 0, 32 << 20)
    until_refused("memfd", take, 64)


def shared_memory():
    held = []

    def take(i):
        address = call("shmat", call("shmget", 0, 32 << 20, 0o1600), 0, 0)
        ctypes.memset(address, 1, 32 << 20)
        held.append(address)
    until_refused("shm", take, 64)


def pipes():
    held, pages = [], []

    def take(i):
        ends = os.pipe()
        held.append(ends)
        libc.fcntl(ends[1], 1031, 1 << 20)  # F_SETPIPE_SZ
        os.set_blocking(ends[1], False)
        try:
            while True:
                pages.append(os.write(ends[1], b"x" * 65536))
        except BlockingIOError:
            pass
    until_refused("pipes", take)
    fact("pipe-bytes", bytes=sum(pages))
    hold()


def sockets():
    held, sent = [], []

    def take(i):
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        held.extend((one, two))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
        one.setblocking(False)
        try:
            while True:
                sent.append(one.send(b"x" * 65536))
        except BlockingIOError:
            pass
    until_refused("sockets", take)
    fact("socket-bytes", bytes=sum(sent))


def huge_pages():
    for label, flags in (("2m", 21 << 26), ("1g", 30 << 26), ("default", 0)):
        tried(f"huge:{label}", lambda: mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000 | flags) and 0)
    tried("memfd-huge", lambda: os.memfd_create("h", 4))


def files():
    os.mkdir("many")
    until_refused("files", lambda i: os.close(os.open(f"many/{i}", os.O_CREAT | os.O_WRONLY)))
    sys.exit(1)


def deep():
    until_refused("deep", lambda i: (os.mkdir("d"), os.chdir("d")), int(sys.argv[2]))


def descriptors():
    held = []
    until_refused("open", lambda i: held.append(os.open("/dev/null", os.O_RDONLY)))
    for fd in held[100:]:
        os.close(fd)

    # Sent over sockets and closed here: only in flight.
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.setblocking(False)
    pairs = [(one, two)]

    def take(i):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", held[:50]))]
        try:
            pairs[-1][0].sendmsg([b"x"], rights)
        except BlockingIOError:
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            pair[0].setblocking(False)
            pairs.append(pair)
            pair[0].sendmsg([b"x"], rights)
    until_refused("in-flight", take)


def counters():
    """Everything the kernel counts by user: as much of each as it gives."""
    held = []

    def inotify(i):
        fd = libc.inotify_init1(0)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        held.append(fd)
    until_refused("inotify", inotify)
    first = held[0]
    os.makedirs("w", exist_ok=True)

    def watch(i):
        os.close(os.open(f"w/{i}", os.O_CREAT | os.O_WRONLY))
        if libc.inotify_add_watch(first, f"w/{i}".encode(), 2) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
    until_refused("watches", watch, 20_000)
    epoll = call(291, 0)
    ends = [os.pipe() for _ in range(100)]
    event = ctypes.create_string_buffer(12)
    until_refused("epoll", lambda i: call(233, epoll, 1, ends[i][0], event), 100)
    hold()


def stdout_flood():
    end = time.monotonic() + float(sys.argv[2])
    line = b"x" * 1000 + b"\n"
    while time.monotonic() < end:
        os.write(1, line * 64)


def one_line():
    left = int(sys.argv[2])
    block = b"y" * 65536
    while left > 0:
        left -= os.write(1, block[:left])


def odd_bytes():
    text = bytes(range(256)) + b"\x00\xff\xfe\xc3\x28\xed\xa0\x80\x1b[2J\xe2\x80\xa8\x80" + "\u2028\U0001f600".encode()
    os.write(1, text * int(sys.argv[2]))


def never_reads():
    print("ready", flush=True)
    time.sleep(60)


def spin():
    for _ in range(7):
        if os.fork() == 0:
            break
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        pass
    os._exit(0)


def sleep():
    time.sleep(60)


def select():
    import select
    select.select([], [], [])


def deadlock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def busy():
    while True:
        pass


def lookups():
    libc.access.restype = ctypes.c_int
    for i in range(int(sys.argv[2])):
        libc.access(b"/workspace/none-%d" % i, 0)
    fact("lookups", number=int(sys.argv[2]))


def unix_sockets():
    held = []

    def take(i):
        one = socket.socket(socket.AF_UNIX)
        one.bind(f"\0s{i}")
        held.append(one)
    until_refused("unix", take, 100_000)


globals()[attack.replace("-", "_")]()
