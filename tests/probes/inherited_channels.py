"""XT-16, ZY-06: what two children of one zygote have in common, tried as a line between them. `listen SECONDS` tells what it noticed, `talk SECONDS` does what could be noticed."""
import ctypes
import fcntl
import os
import sys
import threading
import time

from probelib import call, errno_name, fact, libc, read, tried

WAIT, WAKE = 0, 1


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def mappings():
    """[(start, rights, path)] of what is mapped from files."""
    lines = [line.split(None, 5) for line in open("/proc/self/maps")]
    return [(int(words[0].split("-")[0], 16), words[1], words[5].strip()) for words in lines if len(words) == 6 and words[5].startswith("/")]


def inherited_files():
    """Ways to the files the zygote had mapped."""
    return ["/proc/self/exe", *(f"/proc/self/map_files/{name}" for name in os.listdir("/proc/self/map_files")[:5])]


def open_for(path, flags):
    return lambda: os.close(os.open(path, flags))


def cooperate(role, until):
    """Lock, lease and notification on what each can open of the zygote's."""
    for path in inherited_files():
        short = path if path == "/proc/self/exe" else "/proc/self/map_files"
        tried(f"open:{short}", open_for(path, os.O_RDONLY))
        tried(f"write:{short}", open_for(path, os.O_WRONLY))
    if role == "talk":
        while time.monotonic() < until:
            for act in (lambda: os.close(os.open("/proc/self/exe", os.O_RDONLY)), lambda: os.close(os.open("/proc/self/exe", os.O_PATH)), lambda: os.stat("/proc/self/exe"),
                        lambda: os.utime("/proc/self/exe"), lambda: os.chmod("/proc/self/exe", 0o755), lambda: os.setxattr("/proc/self/exe", "user.a", b"b"),
                        lambda: os.execv("/proc/self/exe", ["python3", "-c", ""])):
                try:
                    act()
                except OSError:
                    pass
            # With an O_PATH descriptor, which Landlock lets pass, nothing can be locked.
            handle = os.open("/proc/self/exe", os.O_PATH)
            tried("flock", fcntl.flock, handle, fcntl.LOCK_EX)
            tried("lease", fcntl.fcntl, handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            tried("exec", os.execve, handle, ["python3"], {})
            os.close(handle)
            time.sleep(0.05)


def notice(until):
    """Whether anything happens to the zygote's own program file."""
    watcher = libc.inotify_init1(os.O_NONBLOCK)
    watch = libc.inotify_add_watch(watcher, b"/proc/self/exe", 0xFFF)
    fact("watch", result=watch >= 0)
    time.sleep(max(0, until - time.monotonic()))
    try:
        fact("noticed", bytes=len(os.read(watcher, 4096)))
    except BlockingIOError:
        fact("noticed", bytes=0)


def futexes():
    """{what: address} in memory that both have mapped: what is private by its kind, and what is a page of a file below."""
    found = {"heap": id(futexes) & ~3, "stack": ctypes.addressof(ctypes.create_string_buffer(16)) & ~3}
    for start, rights, path in mappings():
        if "python3" in path and rights == "rw-p":
            found["data of the program"] = start
        if "python3" in path and rights == "r-xp":
            found["text of the program"] = start
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    with open("/usr/bin/env", "rb") as file:
        found["a file of /usr"] = libc.mmap(None, 4096, 1, 2, file.fileno(), 0)
    with open("/workspace/own", "wb+") as file:
        file.truncate(4096)
        found["a file of its own"] = libc.mmap(None, 4096, 3, 1, file.fileno(), 0)
    return found


def futex(address, operation, value, timeout=None):
    result = libc.syscall(202, ctypes.c_void_p(address), operation, ctypes.c_uint(value), ctypes.byref(timeout) if timeout else None, None, 0)
    return result if result >= 0 else errno_name(ctypes.get_errno())


role, seconds = sys.argv[1], float(sys.argv[2])
until = time.monotonic() + seconds
places, woken = futexes(), {}
shared = [path for start, rights, path in mappings() if rights[3] == "s" and path != "/workspace/own"]
writable = [path for start, rights, path in mappings() if rights[3] == "s" and rights[1] == "w" and path != "/workspace/own"]
anonymous = [line for line in open("/proc/self/maps") if line.split()[1][3] == "s" and len(line.split()) < 6]
fact("shared", paths=shared, writable=writable, anonymous=anonymous)
for name, number in (("userfaultfd", "userfaultfd"), ("keyctl", "keyctl"), ("fanotify", "fanotify_init"), ("memfd_secret", "memfd_secret"), ("kcmp", "kcmp")):
    tried(f"call:{name}", call, number, 0, 0, 0, 0, 0)


def wait(name, address):
    value = ctypes.c_uint.from_address(address).value
    woken[name] = futex(address, WAIT, value, Timespec(int(seconds), int(seconds % 1 * 1e9)))


if role == "listen":
    threads = [threading.Thread(target=wait, args=place) for place in places.items()]
    threads.append(threading.Thread(target=notice, args=(until,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cooperate(role, until)
else:
    woken = dict.fromkeys(places, 0)

    def wake():
        while time.monotonic() < until:
            for name, address in places.items():
                woken[name] = max(woken[name], futex(address, WAKE, 100))
            time.sleep(0.02)

    thread = threading.Thread(target=wake)
    thread.start()
    cooperate(role, until)
    thread.join()
fact("futex", woken=woken)
