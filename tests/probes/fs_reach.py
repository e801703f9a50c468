"""FS: tries to reach files of the host, the image beneath, devices and init, by every kind of name. Argument: the canaries as JSON."""
import os
import shutil
import stat
import subprocess
import sys
import json

from probelib import call, fact, read, status, tried, tried_call, write

canaries = json.loads(sys.argv[1])
wanted = ["/etc/shadow", "/root/.ssh/id_rsa", "/etc/gshadow", "/var/lib/cove", *canaries["files"], canaries["state"]]

# FS-01, FS-02
for path in wanted:
    tried(f"open:{path}", lambda: os.listdir(path) if os.path.isdir(path) else read(path))
for start in ("/workspace", "/tmp", "/"):
    os.chdir(start)
    for path in canaries["files"]:
        tried(f"dots:{start}:{path}", read, "../" * 64 + path[1:])
os.chdir("/workspace")

# FS-11
fact("root-above", same=os.stat("/proc/self/root/../..").st_ino == os.stat("/").st_ino, names=sorted(os.listdir("/proc/self/root/../..")))
for path in ("/proc/1/root/etc/shadow", "/proc/1/cwd/..", "/proc/1/root"):
    tried(f"init:{path}", os.listdir if path.endswith(("root", "..")) else read, path)
for path in canaries["files"]:
    tried(f"self-root:{path}", read, "/proc/self/root/../../.." + path)

# FS-12
fds = {}
for fd in range(4096):
    try:
        st = os.fstat(fd)
    except OSError:
        continue
    fds[fd] = {"kind": stat.S_IFMT(st.st_mode), "link": os.readlink(f"/proc/self/fd/{fd}").split(":")[0]}
fact("fds", table=fds)
for fd in fds:
    tried(f"fd-up:{fd}", lambda: os.open("..", os.O_RDONLY, dir_fd=fd))
    tried(f"fd-cd:{fd}", os.fchdir, fd)

# FS-07
tried("link-lower", os.link, "/usr/bin/env", "/workspace/hard")
tried("link-etc", os.link, "/etc/passwd", "/workspace/passwd")
if os.path.exists("/workspace/passwd"):
    tried("write-linked-etc", write, "/workspace/passwd", "x")
for path in ("/usr/bin/env", "/etc/passwd", "/cove/init"):
    tried(f"write:{path}", lambda: os.close(os.open(path, os.O_RDWR)))
    tried(f"truncate:{path}", os.truncate, path, 0)
    tried(f"chmod:{path}", os.chmod, path, 0o777)
    tried(f"unlink:{path}", os.unlink, path)
tried("rename-usr", os.rename, "/usr", "/usr2")
tried("create-in-usr", lambda: os.open("/usr/bin/planted", os.O_CREAT | os.O_WRONLY))

# FS-08
for label, kind, major, minor in (("vda", stat.S_IFBLK, 254, 0), ("mem", stat.S_IFCHR, 1, 1), ("fuse", stat.S_IFCHR, 10, 229), ("whiteout", stat.S_IFCHR, 0, 0)):
    for directory in ("/workspace", "/dev/shm", "/tmp"):
        tried(f"mknod:{label}:{directory}", os.mknod, f"{directory}/{label}", kind | 0o666, os.makedev(major, minor))
    tried_call(f"mknodat-garbage:{label}", "mknodat", -100, b"/workspace/g", 0xFFFF0000 | kind | 0o666, os.makedev(major, minor))

# FS-15
tried("exe-self", lambda: os.close(os.open("/proc/self/exe", os.O_RDWR)))
errors = set()
for _ in range(2000):
    try:
        os.close(os.open("/proc/1/exe", os.O_WRONLY))
        errors.add("opened")
    except OSError as error:
        errors.add(error.errno)
fact("exe-init", errors=sorted(errors, key=str))

# FS-16
before = status()
shutil.copy("/bin/sh", "/workspace/sh")
tried("chmod-suid", os.chmod, "/workspace/sh", 0o6755)
tried("setcap", os.setxattr, "/workspace/sh", "security.capability", b"\x01\x00\x00\x02\xff\xff\xff\xff" + b"\0" * 12)
tried("trusted-xattr", os.setxattr, "/workspace/sh", "trusted.overlay.opaque", b"y")
ran = subprocess.run(["/workspace/sh", "-p", "-c", "grep -E '^(Uid|Gid|Cap)' /proc/self/status"], capture_output=True, text=True)
fact("suid-shell", text=ran.stdout, expected="".join(f"{k}:\t{before[k]}\n" for k in ("Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")))
for command in (["su", "-c", "id"], ["mount", "-t", "tmpfs", "none", "/mnt"], ["newuidmap", str(os.getpid()), "0", "0", "1"], ["ping", "-c", "1", "127.0.0.1"], ["sudo", "-n", "id"]):
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=10)
        fact(f"set-id:{command[0]}", code=done.returncode, uid0="uid=0" in done.stdout)
    except FileNotFoundError:
        fact(f"set-id:{command[0]}", code=127, uid0=False)

# FS-17
os.makedirs("/workspace/jail", exist_ok=True)
outside = os.open("/", os.O_RDONLY)
tried("chroot", os.chroot, "/workspace/jail")
os.fchdir(outside)
for _ in range(64):
    os.chdir("..")
tried("chroot-again", os.chroot, ".")
for path in canaries["files"]:
    tried(f"after-chroot:{path}", read, path)
os.close(outside)
os.chdir("/workspace")

# FS-21
tried("fuse-device", lambda: os.open("/dev/fuse", os.O_RDWR))
tried("fuse-mount", lambda: call("mount", b"fuse", b"/workspace/jail", b"fuse", 0, b"fd=3,rootmode=40000,user_id=1000,group_id=1000"))
tried("fuse-fsopen", lambda: call("fsopen", b"fuse", 0))

# FS-20
tried("move-workspace", os.rename, "/workspace", "/elsewhere")
tried("move-workspace-tmp", os.rename, "/workspace", "/tmp/elsewhere")
tried("replace-workspace", os.symlink, "/", "/workspace2")
