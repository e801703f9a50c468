"""What every probe shares: raw system calls, and facts told as JSON lines. A probe tells what it saw; the test judges."""
import ctypes
import errno
import json
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

BAD = 0x7FFFFFFFFFFFF000  # outside every address space: EFAULT would mean that the kernel had begun to work
NR = {
    "mmap": 9, "mprotect": 10, "ioctl": 16, "shmget": 29, "shmat": 30, "getpid": 39, "socket": 41, "clone": 56, "fork": 57, "semget": 64, "msgget": 68,
    "ptrace": 101, "syslog": 103, "setuid": 105, "setgid": 106, "setgroups": 116, "setresuid": 117, "setresgid": 119, "capset": 126,
    "rt_sigqueueinfo": 129, "uselib": 134, "personality": 135, "ustat": 136, "sysfs": 139, "sched_setparam": 142, "sched_setscheduler": 144,
    "mlockall": 151, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "prctl": 157, "arch_prctl": 158, "adjtimex": 159, "chroot": 161,
    "sync": 162, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
    "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179,
    "nfsservctl": 180, "futex": 202, "sched_setaffinity": 203, "io_setup": 206, "lookup_dcookie": 212, "remap_file_pages": 216,
    "timer_create": 222, "clock_settime": 227, "mbind": 237, "set_mempolicy": 238, "get_mempolicy": 239, "mq_open": 240,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "ioprio_set": 251, "inotify_add_watch": 254,
    "migrate_pages": 256, "mknodat": 259, "unshare": 272, "splice": 275, "vmsplice": 278, "move_pages": 279, "perf_event_open": 298,
    "fanotify_init": 300, "fanotify_mark": 301, "prlimit64": 302, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "sched_setattr": 314,
    "renameat2": 316, "seccomp": 317, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321, "execveat": 322, "userfaultfd": 323,
    "preadv2": 327, "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448,
    "set_mempolicy_home_node": 450, "cachestat": 451, "map_shadow_stack": 453, "statmount": 457, "listmount": 458, "open_tree_attr": 467,
}


def fact(name, /, **values):
    print(json.dumps({"fact": name, **values}), flush=True)


def errno_name(number):
    return errno.errorcode.get(number, f"E{number}")


def call(number, *arguments):
    """A raw system call; OSError when it fails."""
    number = NR[number] if isinstance(number, str) else number
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else a if isinstance(a, (ctypes._Pointer, ctypes.Array)) or type(a).__name__ == "CArgObject"
             else ctypes.c_long(a) for a in arguments]
    words += [ctypes.c_long(0)] * (6 - len(words))
    result = libc.syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def tried(name, function, *arguments):
    """Tells the errno of what failed, or what came of it; returns the value, None when it failed."""
    try:
        value = function(*arguments)
    except OSError as error:
        fact(name, errno=errno_name(error.errno))
        return None
    plain = isinstance(value, (str, int, float, list, dict, bool, type(None)))
    fact(name, errno=None, value=value if plain else repr(value)[:200])
    return value


def tried_call(name, number, *arguments):
    return tried(name, lambda: call(number, *arguments))


def tried_aside(name, number, *arguments):
    """As tried_call, in a child of its own: for what would spoil the process that gets it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            call(number, *arguments)
            os.write(writer, b"0")
        except OSError as error:
            os.write(writer, str(error.errno).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    answer = os.read(reader, 16)
    os.close(reader)
    fact(name, errno=None if answer in (b"", b"0") else errno_name(int(answer)))


def read(path, most=4096):
    with open(path, "rb") as file:
        return file.read(most).decode(errors="replace")


def write(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        return os.write(fd, text.encode())
    finally:
        os.close(fd)


def status(pid="self"):
    """/proc/PID/status as a dict."""
    return {key: value.strip() for key, _, value in (line.partition(":") for line in open(f"/proc/{pid}/status"))}


def in_child(function):
    """Runs it in a child of its own: (exit code, signal)."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except BaseException:
            os._exit(99)
        os._exit(0)
    _, ended = os.waitpid(pid, 0)
    return {"code": os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else None, "signal": os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0}
