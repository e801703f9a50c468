"""PR: looks through /proc, /sys and /dev for anything of the host's. Argument: the canaries as JSON."""
import fcntl
import json
import os
import platform
import socket
import struct
import sys
import time

from probelib import BAD, call, fact, read, status, tried, tried_call, write

canaries = json.loads(sys.argv[1])

# PR-01
for name in ("kcore", "kallsyms", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "config.gz", "iomem", "ioports", "vmallocinfo", "slabinfo", "modules",
             "meminfo", "cpuinfo", "stat", "uptime", "loadavg", "interrupts", "partitions", "diskstats", "cmdline", "version", "filesystems", "sys", "bus", "driver", "fs", "irq"):
    tried(f"proc:{name}", lambda: os.listdir(f"/proc/{name}") if os.path.isdir(f"/proc/{name}") else read(f"/proc/{name}", 64))
fact("proc-root", names=sorted(name for name in os.listdir("/proc") if not name.isdigit()))

# PR-02, NS-12
for name in ("kernel/core_pattern", "kernel/modprobe", "vm/overcommit_memory", "vm/drop_caches", "kernel/hostname", "kernel/randomize_va_space", "net/ipv4/ip_forward",
             "user/max_user_namespaces", "user/max_mnt_namespaces", "user/max_inotify_instances", "user/max_inotify_watches", "fs/inotify/max_user_instances"):
    tried(f"sysctl:{name}", write, f"/proc/sys/{name}", "1")
tried("sysrq", write, "/proc/sysrq-trigger", "h")

# PR-03
processes = {}
for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
    processes[pid] = {"name": read(f"/proc/{pid}/comm").strip(), "command": read(f"/proc/{pid}/cmdline").replace("\0", " ").strip(), "parent": status(pid)["PPid"]}
fact("processes", table=processes, own=os.getpid(), parent=os.getppid())
found = []
for pid in [*range(1, 2000), *range(2000, 4_194_304, 997)]:
    try:
        os.kill(pid, 0)
        found.append(pid)
    except OSError as error:
        if error.errno != 3:
            found.append(pid)
fact("signalable", pids=found)

# PR-04
for name in ("mountinfo", "mounts", "mountstats"):
    tried(f"mounts:{name}", lambda: read(f"/proc/self/{name}", 65536))
    tried(f"init-mounts:{name}", lambda: read(f"/proc/1/{name}", 65536))
tried_call("statmount", "statmount", BAD, BAD, 4096, 0)
tried_call("listmount", "listmount", BAD, BAD, 100, 0)

# PR-05
for name in ("cgroup", "cpuset"):
    tried(f"group:{name}", read, f"/proc/self/{name}")
    tried(f"init-group:{name}", read, f"/proc/1/{name}")

# PR-06
fact("environment", variables=dict(os.environ))
for name in ("environ", "cmdline", "auxv"):
    tried(f"own:{name}", read, f"/proc/self/{name}")
    tried(f"init:{name}", read, f"/proc/1/{name}")

# PR-07
for name in ("mem", "maps", "smaps", "stack", "syscall", "environ", "pagemap", "io", "personality", "timers"):
    tried(f"init-secret:{name}", read, f"/proc/1/{name}")
for name in ("fd", "fdinfo", "map_files", "ns"):
    tried(f"init-secret:{name}", os.listdir, f"/proc/1/{name}")
for name in ("exe", "root", "cwd", "fd/3", "ns/mnt", "ns/user"):
    tried(f"init-link:{name}", os.readlink, f"/proc/1/{name}")
for name in ("mem", "comm", "oom_score_adj", "clear_refs", "timerslack_ns", "autogroup", "coredump_filter"):
    tried(f"init-write:{name}", lambda: os.close(os.open(f"/proc/1/{name}", os.O_WRONLY)))

# PR-08
kinds = ("user", "mnt", "pid", "pid_for_children", "net", "ipc", "uts", "cgroup", "time")
fact("own-namespaces", links={kind: os.readlink(f"/proc/self/ns/{kind}") for kind in kinds})
for kind in kinds:
    fd = os.open(f"/proc/self/ns/{kind}", os.O_RDONLY)
    tried_call(f"setns:{kind}", "setns", fd, 0)
    for label, command in (("userns", 0xB701), ("parent", 0xB702), ("next-mnt", 0x8010B70B), ("previous-mnt", 0x8010B70C)):
        buffer = bytearray(64) if label.endswith("mnt") else 0
        tried(f"ns-{label}:{kind}", lambda: fcntl.ioctl(fd, command, buffer))
    os.close(fd)
pidfd = call("pidfd_open", 1, 0)
tried_call("setns-init", "setns", pidfd, 0x7E020000)
for number in range(1, 11):
    tried(f"pidfd-namespace:{number}", lambda: fcntl.ioctl(pidfd, 0xFF00 + number, 0))

# PR-09, PR-16
for path in ("/sys", "/sys/fs/cgroup", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent", "/sys/kernel/uevent_helper", "/sys/kernel/debug", "/sys/kernel/tracing",
             "/sys/fs/bpf", "/sys/kernel/security", "/sys/kernel/config", "/proc/sys/fs/binfmt_misc", "/sys/fs/pstore", "/sys/firmware/efi/efivars", "/sys/class/dmi/id", "/sys/class/net"):
    tried(f"sys:{path}", os.listdir, path)
for kind in (b"sysfs", b"cgroup", b"cgroup2", b"debugfs", b"tracefs", b"bpf", b"securityfs", b"configfs", b"binfmt_misc", b"pstore", b"efivarfs", b"proc", b"mqueue", b"devpts"):
    tried_call(f"mount:{kind.decode()}", "mount", kind, b"/tmp", kind, 0, 0)
    tried_call(f"fsopen:{kind.decode()}", "fsopen", kind, 0)

# PR-10
for name, text in (("oom_score_adj", "-1000"), ("oom_score_adj", "499"), ("oom_adj", "-17"), ("autogroup", "-20"), ("attr/current", "unconfined"), ("attr/exec", "unconfined"),
                   ("coredump_filter", "0xff"), ("timerslack_ns", "1"), ("loginuid", "0")):
    tried(f"self-write:{name}:{text}", write, f"/proc/self/{name}", text)
fact("oom-after", score=read("/proc/self/oom_score_adj").strip())

# PR-11
for name, text in (("uid_map", "0 0 1"), ("gid_map", "0 0 1"), ("setgroups", "allow"), ("projid_map", "0 0 1")):
    tried(f"map:self:{name}", write, f"/proc/self/{name}", text)
child = os.fork()
if child == 0:
    time.sleep(30)
    os._exit(0)
for name, text in (("uid_map", "0 0 1"), ("gid_map", "0 0 1"), ("setgroups", "allow")):
    tried(f"map:child:{name}", write, f"/proc/{child}/{name}", text)
os.kill(child, 9)
os.waitpid(child, 0)

# PR-12
for name in ("tcp", "tcp6", "udp", "unix", "route", "arp", "dev", "netlink", "if_inet6", "fib_trie", "netstat"):
    tried(f"net:{name}", lambda: read(f"/proc/self/net/{name}", 65536))
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
netlink.bind((0, 0))


def dump(kind):
    netlink.send(struct.pack("=IHHIIBxxxIII", 32, kind, 0x301, 1, 0, 0, 0, 0, 0))
    data = b""
    while True:
        part = netlink.recv(65536)
        data += part
        if struct.unpack_from("=H", part, 4)[0] == 3:
            break
    return data


fact("netlink-links", names=[name for _, name in socket.if_nameindex()])
fact("netlink-mentions", port=str(canaries["port"]) in dump(18).decode("latin1"))
netlink.close()

# PR-13
tree = {}
for parent, directories, files in os.walk("/dev"):
    for name in directories + files:
        path = os.path.join(parent, name)
        st = os.lstat(path)
        tree[path] = [st.st_mode >> 12, os.major(st.st_rdev), os.minor(st.st_rdev)]
fact("devices", tree=tree)
for name in ("mem", "kmem", "kmsg", "vda", "kvm", "fuse", "net/tun", "vsock", "vhost-vsock", "vhost-net", "loop-control", "loop0", "tty0", "tty", "console", "ptmx", "pts/ptmx", "port", "hwrng", "rtc0", "mapper/control", "userfaultfd"):
    tried(f"device:{name}", lambda: os.close(os.open(f"/dev/{name}", os.O_RDWR | os.O_NONBLOCK)))
for name in ("null", "zero", "full", "random", "urandom"):
    tried(f"good-device:{name}", lambda: os.close(os.open(f"/dev/{name}", os.O_RDONLY)))
fd = os.open("/dev/urandom", os.O_RDWR)
tried("random-reseed", lambda: fcntl.ioctl(fd, 0x5207, 0))  # RNDRESEEDCRNG
tried("random-add", lambda: fcntl.ioctl(fd, 0x40045201, struct.pack("i", 64)))  # RNDADDTOENTCNT

# PR-14
for action in (2, 3, 4, 5, 8, 10):
    tried_call(f"syslog:{action}", "syslog", action, BAD, 4096)

# PR-15
fact("identity", hostname=socket.gethostname(), nodename=platform.node(), domain=os.uname().nodename, machine_id=tried("machine-id", read, "/etc/machine-id"),
     timezone=tried("timezone", read, "/etc/timezone"), hosts=read("/etc/hosts"), resolv=read("/etc/resolv.conf"), passwd=read("/etc/passwd"))
for path in ("/proc/sys/kernel/random/boot_id", "/sys/class/dmi/id/product_uuid", "/sys/class/net/eth0/address", "/proc/cpuinfo", "/proc/meminfo", "/proc/uptime", "/proc/loadavg", "/proc/version",
             "/var/lib/dbus/machine-id", "/etc/ssh/ssh_host_rsa_key", "/var/log/dpkg.log", "/etc/fstab", "/etc/hostid"):
    tried(f"linkable:{path}", read, path)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    addresses = {}
    for _, name in socket.if_nameindex():
        addresses[name] = fcntl.ioctl(probe, 0x8927, struct.pack("256s", name.encode()))[18:24].hex()  # SIOCGIFHWADDR
fact("mac", addresses=addresses)
