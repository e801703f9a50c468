"""FS: out of the filesystem. What a one-shot run can show; --file and --out stand for the file API."""
import json
import os
import stat
import subprocess
import threading
import time

import pytest

from conftest import COVE, PATIENCE, fair
from arena import SECRET, canaries, code, cove, digest, run, seen

# glibc's words and musl's.
LOOP = ("Too many levels of symbolic links", "Symbolic link loop")
NOT_FOUND = "path not found"  # the file helper's words
TOO_LONG = ("File name too long", "Filename too long")
HOST_FILES = ("/usr/bin/env", "/usr/bin/python3", "/bin/sh")


def reach():
    return seen("fs_reach", canaries().as_argument())


def out(program, *outs, options=()):
    """Runs Python source and copies results out: (the run, seconds)."""
    began = time.monotonic()
    done = cove("run", *options, *(word for pair in outs for word in ("--out", f"{pair[0]}:{pair[1]}")), "--json", "-c", program)
    assert SECRET.encode() not in done.stdout
    return done, time.monotonic() - began


# FS-01
def test_FS_01_the_hosts_files_are_not_there():
    expected = {"/etc/shadow": "ENOENT", "/root/.ssh/id_rsa": "ENOENT", "/etc/gshadow": "ENOENT", "/var/lib/cove": "ENOENT"}
    assert reach().under("open:") == {**expected, **{str(path): "ENOENT" for path in json.loads(canaries().as_argument())["files"]}, str(canaries().state): "ENOENT"}
    assert canaries().untouched()


def test_FS_01_a_state_directory_in_use_is_not_there():
    planted = canaries()
    report = code(f"from probelib import *\ntried('state', os.listdir, {str(planted.state)!r})\ntried('kept', read, {str(planted.in_state)!r})", "--state-dir", str(planted.state))
    assert report.under("") == {"state": "ENOENT", "kept": "ENOENT"}
    assert planted.untouched()


def test_FS_02_dots_lead_no_higher_than_the_root():
    assert set(reach().under("dots:").values()) == {"ENOENT"}
    assert len(reach().under("dots:")) == 9


def test_FS_03_a_link_is_copied_out_as_what_it_is_inside(workdir):
    planted = canaries()
    done, _ = out(f"import os\nos.symlink('/', 'l')\nos.symlink({str(planted.world)!r}, 'w')\nos.symlink({str(planted.root_only)!r}, 'r')",
                  ("l/etc/hostname", workdir / "hostname"), ("w", workdir / "w"), ("r", workdir / "r"), ("l", workdir / "l"))
    assert (workdir / "hostname").read_text() == "cove\n"
    errors = [entry.get("error", "") for entry in done.result["out"]]
    assert errors[0] == "" and all(error.startswith(NOT_FOUND) for error in errors[1:3]) and errors[3].endswith("is a directory")
    assert sorted(os.listdir(workdir)) == ["hostname"]
    assert done.status == 125 and done.result["exit_code"] == 0


@pytest.mark.parametrize("kept", ["root_only", "world"])
def test_FS_03_a_link_in_a_directory_sent_in_does_not_bring_the_hosts_file(workdir, kept):
    # An unpacked archive or a cloned repository holds links its author chose: --file must not follow them.
    (workdir / "project").mkdir()
    (workdir / "project" / "readme").write_text("hello")
    (workdir / "project" / "link").symlink_to(getattr(canaries(), kept))
    done = cove("run", "--file", workdir / "project", "--json", "--", "cat", "project/readme", "project/link")
    assert SECRET.encode() not in done.stdout, "--file followed a link out of the directory"
    assert canaries().untouched()


def test_FS_03_linked_directories_in_a_directory_sent_in_are_not_walked(workdir):
    (workdir / "project").mkdir()
    (workdir / "project" / "readme").write_text("hello")
    (workdir / "project" / "state").symlink_to(canaries().directory)
    for name in ("a", "b"):
        (workdir / "project" / name).symlink_to(".")
    done = cove("run", "--file", workdir / "project", "--json", "-c", "import os\nfor parent, _, names in os.walk('project'):\n  for name in names:\n    if not os.path.islink(os.path.join(parent, name)): print(open(os.path.join(parent, name)).read())\nprint(os.readlink('project/a'))")
    assert SECRET.encode() not in done.stdout, "--file walked through a link out of the directory"
    assert done.result.get("exit_code") == 0 and done.out == "hello\n.\n", done.result


def test_FS_04_swapping_a_directory_while_it_is_copied_out_never_yields_host_bytes(workdir):
    planted = canaries()
    swapper = f"""
import ctypes, os, time
os.makedirs('dir'); open('dir/world', 'w').write('inside')
os.symlink({str(planted.directory)!r}, 'link')
if os.fork() == 0:
    os.setsid()
    libc = ctypes.CDLL(None)
    end = time.time() + 8
    while time.time() < end:
        libc.syscall(316, -100, b'dir', -100, b'link', 2)
    os._exit(0)
"""
    done, _ = out(swapper, *[("dir/world", workdir / f"out{i}") for i in range(60)])
    texts = {path.read_text() for path in workdir.iterdir()}
    errors = {entry.get("error", "").partition(": ")[0] for entry in done.result["out"]}
    assert texts <= {"inside"}
    # What the program left behind is ended before anything is copied, so nobody swaps any more: all one way or all the other.
    assert len({"error" in entry for entry in done.result["out"]}) == 1
    assert errors <= {"", NOT_FOUND}
    assert planted.untouched()


def test_FS_05_a_link_waiting_where_a_file_is_sent_does_not_lead_the_write_out(workdir):
    # Inside, /etc/mtab is a link to /proc/self/mounts, in a directory that cannot be written to.
    (workdir / "f").write_text("overwritten")
    refused = cove("run", "--file", f"{workdir / 'f'}:/etc/mtab", "--json", "--", "true")
    assert refused.status == 125 and "/etc/mtab" in refused.result["error"]
    # Where it can be, the link itself is replaced: the last part is never followed, and nothing leaves the root.
    (workdir / "d").mkdir()
    (workdir / "d" / "target").write_text("kept")
    (workdir / "d" / "link").symlink_to("target")
    replaced = cove("run", "--file", workdir / "d", "--file", f"{workdir / 'f'}:d/link", "--json", "--", "sh", "-c", "cat d/target d/link; test -h d/link || echo ' no link'")
    assert replaced.out == "keptoverwritten no link\n"
    inside = cove("run", "--file", f"{workdir / 'f'}:../../../../../../{canaries().world}", "--json", "--", "cat", canaries().world)
    assert inside.out == "overwritten"  # a file of the sandbox's own, at the same name
    assert canaries().untouched()


def test_FS_05_the_result_replaces_a_link_on_the_host_instead_of_writing_through_it(workdir):
    victim = workdir / "victim"
    victim.write_text("kept")
    (workdir / "result").symlink_to(victim)
    out("open('r', 'w').write('new')", ("r", workdir / "result"))
    assert victim.read_text() == "kept"
    assert (workdir / "result").read_text() == "new" and not (workdir / "result").is_symlink()


def test_FS_06_tearing_down_changes_no_owner_or_mode_on_the_host():
    planted = canaries()
    watched = [*HOST_FILES, "/usr", "/etc/passwd", "/dev/null", str(planted.directory)]
    facts = lambda: [(p, os.stat(p).st_uid, os.stat(p).st_gid, os.stat(p).st_mode, os.stat(p).st_nlink) for p in watched]
    before = facts()
    report = code(f"""
from probelib import *
for i, target in enumerate(['/usr/bin/env', '/etc/passwd', '/dev/null', '/', {str(planted.world)!r}, '../../..']):
    os.symlink(target, f'l{{i}}')
    tried(f'hard:{{target}}', os.link, target, f'h{{i}}')
    tried(f'chown:{{target}}', os.chown, target, 1000, 1000)
    tried(f'chmod:{{target}}', os.chmod, target, 0o777)
os.mkdir('sub', 0o000)
""")
    assert report.run.result["exit_code"] == 0
    assert report["chmod:/dev/null"]["errno"] == "EROFS" and report["chown:/dev/null"]["errno"] == "EROFS"
    assert facts() == before
    assert planted.untouched()


def test_FS_07_the_layer_beneath_cannot_be_linked_written_or_removed():
    hashes = {path: digest(path) for path in HOST_FILES}
    report = reach()
    assert report.errors("link-lower", "link-etc", "create-in-usr", "rename-usr") == {"link-lower": "EXDEV", "link-etc": "EPERM", "create-in-usr": "EROFS", "rename-usr": "EACCES"}
    kinds = ("write", "truncate", "chmod", "unlink")
    assert [report[f"{kind}:/usr/bin/env"]["errno"] for kind in kinds] == ["EROFS", "EROFS", "EROFS", "EROFS"]
    for path in ("/etc/passwd", "/cove/init"):
        assert [report[f"{kind}:{path}"]["errno"] for kind in kinds] == ["EACCES", "EACCES", "EPERM", "EACCES"]
    assert {path: digest(path) for path in HOST_FILES} == hashes


def test_FS_08_no_device_node_can_be_made():
    assert set(reach().under("mknod:").values()) == {"EPERM"}
    assert set(reach().under("mknodat-garbage:").values()) == {"EPERM"}


def test_FS_09_a_fifo_where_a_result_is_expected_is_refused_at_once(workdir):
    done, took = out("import os; os.mkfifo('result.csv')", ("result.csv", workdir / "r"))
    assert done.result["out"][0]["error"].endswith("is not a regular file")
    assert done.status == 125 and took < fair(5)
    assert os.listdir(workdir) == []


def test_FS_09_a_fifo_in_a_directory_sent_in_does_not_hold_up_the_run(workdir):
    (workdir / "project").mkdir()
    (workdir / "project" / "readme").write_text("hello")
    os.mkfifo(workdir / "project" / "pipe")
    opener = None
    try:
        began = time.monotonic()
        # Opens the other end after a while, so that a blocked cove goes on and the suite does not wait for its patience to end.
        import threading
        opener = threading.Timer(30, lambda: os.close(os.open(workdir / "project" / "pipe", os.O_RDWR | os.O_NONBLOCK)))
        opener.start()
        cove("run", "--file", workdir / "project", "--json", "--", "true")
        took = time.monotonic() - began
    finally:
        opener.cancel()
    assert took < fair(4), "a FIFO blocked cove itself, before the time limit even began"


@pytest.mark.parametrize("kind, program, why", [
    ("link to a directory", "import os; os.mkdir('d'); os.symlink('d', 'r')", "is a directory"),
    ("socket", "import socket; socket.socket(socket.AF_UNIX).bind('r')", "is not a regular file"),
    ("device", "import os; os.symlink('/dev/zero', 'r')", "is not a regular file"),
    ("magic link", "import os; os.symlink('/proc/self/fd/0', 'r')", LOOP),
    ("loop", "import os; os.symlink('r', 'r')", LOOP),
], ids=["link-to-a-directory", "socket", "device", "magic-link", "loop"])
def test_FS_10_what_is_no_regular_file_is_refused_by_name(workdir, kind, program, why):
    done, took = out(program, ("r", workdir / "r"))
    assert done.result["out"][0]["error"].endswith(why), done.result["out"]
    assert took < fair(5) and os.listdir(workdir) == []


def test_FS_10_a_directory_comes_out_without_special_files_and_links_that_lead_out_of_it(workdir):
    planted = canaries()
    done, took = out("import os, socket\nos.mkdir('r'); open('r/f', 'w').write('x'); os.chmod('r/f', 0o6777)\n"
                     f"for name, to in (('a', {str(planted.world)!r}), ('b', '../' * 20 + 'etc/passwd'), ('c', '/'), ('k', 'f')): os.symlink(to, 'r/' + name)\n"
                     "os.mkfifo('r/p'); socket.socket(socket.AF_UNIX).bind('r/s')", ("r", workdir / "r"))
    assert done.status == 0 and "error" not in done.result["out"][0] and took < fair(5)
    assert sorted(os.listdir(workdir)) == ["r"] and sorted(os.listdir(workdir / "r")) == ["f", "k"] and os.readlink(workdir / "r" / "k") == "f"
    assert (workdir / "r" / "f").stat().st_mode & 0o7022 == 0
    assert planted.untouched()


def test_FS_10_a_sparse_terabyte_cannot_be_made(workdir):
    done, took = out("import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nf = open('r', 'wb')\ntry: f.truncate(1 << 40)\nexcept OSError as e: print(e.errno)", ("r", workdir / "r"))
    assert done.out == "27\n"  # EFBIG
    assert (workdir / "r").stat().st_size == 0 and took < fair(5)


def test_FS_10_a_link_to_an_endless_proc_file_does_not_hold_up_the_result(workdir):
    # /proc/PID/pagemap is a regular file of hundreds of gigabytes; the process it belongs to is one the program left behind.
    program = "import os, time\np = os.fork()\nif p == 0:\n    os.setsid(); time.sleep(30); os._exit(0)\nos.symlink(f'/proc/{p}/pagemap', 'r')"
    done, took = out(program, ("r", workdir / "r"), options=("--timeout", "1s"))
    assert took < fair(4), f"copying out went on for {took:.1f} s, past every limit"
    assert "error" in done.result["out"][0], "a file cut off at the limit was called a whole result"


def test_FS_11_the_root_of_a_process_is_no_way_out():
    assert reach()["root-above"]["same"] and "workspace" in reach()["root-above"]["names"]
    assert reach().under("init:") == {"/proc/1/root/etc/shadow": "EACCES", "/proc/1/cwd/..": "EACCES", "/proc/1/root": "EACCES"}
    assert set(reach().under("self-root:").values()) == {"ENOENT"}


def test_FS_12_only_three_pipes_are_open_and_no_directory():
    table = reach()["fds"]["table"]
    assert {fd: (entry["kind"], entry["link"]) for fd, entry in table.items()} == {str(fd): (stat.S_IFIFO, "pipe") for fd in range(3)}
    assert set(reach().under("fd-up:").values()) == {"ENOTDIR"}
    assert set(reach().under("fd-cd:").values()) == {"ENOTDIR"}


def test_FS_12_descriptors_the_caller_left_open_do_not_come_along():
    with_directory = os.open("/", os.O_RDONLY)
    with_secret = os.open(canaries().root_only, os.O_RDONLY)
    try:
        for target in (3, 9, 100):
            done = subprocess.run(["/usr/bin/python3", "-c", "import os, sys\nos.dup2(int(sys.argv[1]), int(sys.argv[3])); os.dup2(int(sys.argv[2]), int(sys.argv[3]) + 1)\n"
                                   "os.execv(sys.argv[4], sys.argv[4:])", str(with_directory), str(with_secret), str(target), COVE, "run", "--json", "-c",
                                   "import os\nprint([fd for fd in range(4096) if os.path.lexists(f'/proc/self/fd/{fd}')])"],
                                  pass_fds=(with_directory, with_secret), capture_output=True, timeout=PATIENCE)
            assert json.loads(done.stdout)["stdout"] == "[0, 1, 2]\n"
    finally:
        os.close(with_directory)
        os.close(with_secret)


@pytest.mark.parametrize("directory, why", [
    ("/proc/self/fd/7", "No such file or directory"),
    ("/proc/self/fd/0", "Not a directory"),
    ("/proc/1/root", "Permission denied"),
    ("/proc/1/cwd", "Permission denied"),
    ("/nowhere", "No such file or directory"),
    ("/" + "a" * 5000, TOO_LONG),
    ("/etc/passwd", "Not a directory"),
])
def test_FS_13_a_working_directory_that_is_none_is_refused(directory, why):
    done = cove("run", "--workdir", directory, "--json", "--", "pwd")
    assert done.status == 125
    assert done.result["error"].startswith("--workdir") and done.result["error"].endswith(why)


@pytest.mark.parametrize("directory", ["", "relative", "../.."])
def test_FS_13_a_working_directory_must_be_absolute(directory):
    done = cove("run", "--workdir", directory, "--json", "--", "pwd")
    assert done.status == 125 and b"--workdir" in done.stderr


@pytest.mark.parametrize("directory, seen_inside", [("/proc/self/root", "/"), ("/proc/self/cwd", "/"), ("/workspace/../../../..", "/"), ("/tmp", "/tmp")])
def test_FS_13_a_working_directory_is_always_below_the_root(directory, seen_inside):
    done = cove("run", "--workdir", directory, "--json", "--", "/bin/pwd", "-P")
    assert done.out == seen_inside + "\n"


def test_FS_14_a_change_to_the_image_is_seen_by_no_other_sandbox():
    plant = """
from probelib import *
import sysconfig
site = sysconfig.get_path('stdlib')
for place in (site + '/json/__init__.py', site + '/planted.py', '/usr/local/bin/planted', '/etc/planted', '/planted', '/home/cove/planted', '/tmp/planted',
              '/workspace/planted', '/dev/shm/planted', '/var/tmp/planted', '/var/planted', '/mnt/data/planted', '/data/planted', '/app/planted', '/cove/planted', '/cove/stand-ins/planted', '/opt/planted'):
    tried(place, lambda: os.close(os.open(place, os.O_CREAT | os.O_WRONLY)))
"""
    first = code(plant).under("")
    writable = {path for path, errno in first.items() if errno is None}
    assert writable == {"/home/cove/planted", "/tmp/planted", "/workspace/planted", "/dev/shm/planted", "/var/tmp/planted", "/mnt/data/planted", "/data/planted", "/app/planted"}
    assert set(first.values()) - {None} <= {"EROFS", "EACCES"}
    look = "from probelib import *\n" + "".join(f"fact({path!r}, errno=None, there=os.path.lexists({path!r}))\n" for path in first)
    second = code(look)
    assert {path for path in first if second[path]["there"] and not path.endswith("__init__.py")} == set()


def test_FS_15_no_running_binary_can_be_opened_for_writing():
    assert reach()["exe-self"]["errno"] == "EROFS"
    assert reach()["exe-init"]["errors"] == [13]  # EACCES, two thousand times


def test_FS_16_set_id_and_file_capabilities_give_nothing():
    report = reach()
    assert report["setcap"]["errno"] == "EPERM" and report["trusted-xattr"]["errno"] == "EPERM"
    assert report["suid-shell"]["text"] == report["suid-shell"]["expected"]
    for command in ("su", "mount", "newuidmap", "ping", "sudo"):
        assert report[f"set-id:{command}"]["code"] != 0, command
        assert not report[f"set-id:{command}"]["uid0"], command


def test_FS_17_chroot_is_refused_twice():
    assert reach().errors("chroot", "chroot-again") == {"chroot": "EPERM", "chroot-again": "EPERM"}
    assert set(reach().under("after-chroot:").values()) == {"ENOENT"}


@pytest.mark.parametrize("path", ["a" * 5000, "d/" + "b" * 256, "x/" * 10_000 + "f"], ids=["path", "component", "components"])
def test_FS_18_names_too_long_are_refused_quickly(workdir, path):
    done, took = out("pass", (path, workdir / "r"))
    error = done.result["out"][0]["error"]
    assert error.startswith(NOT_FOUND) or error.endswith((*TOO_LONG, "is over 4096 bytes"))
    assert took < fair(5) and os.listdir(workdir) == []


@pytest.mark.parametrize("name", ["new\nline", "'quo\"ted'", "-dash", "n" * 255, "   ", "a\u202eb", "tab\t", "{}", "$(id)"])
def test_FS_19_odd_names_come_out_whole_and_the_json_stays_valid(workdir, name):
    done, _ = out(f"open({name!r}, 'w').write('odd')", (name, workdir / "r"))
    assert done.result["out"][0] == {"path": "/workspace/" + name, "host": str(workdir / "r"), "bytes": 3}
    assert (workdir / "r").read_text() == "odd"


def test_FS_19_a_name_that_is_no_utf8_keeps_the_json_valid(workdir):
    done = cove("run", "--out", b"/workspace/\xff\xfe:".decode(errors="surrogateescape") + str(workdir / "r"), "--json", "-c", "open(b'/workspace/\\xff\\xfe', 'w').write('odd')")
    assert (workdir / "r").read_text() == "odd"
    json.loads(done.stdout.decode())  # strict UTF-8


def test_FS_20_the_workspace_cannot_be_moved_away():
    assert reach().errors("move-workspace", "move-workspace-tmp", "replace-workspace") == {"move-workspace": "EACCES", "move-workspace-tmp": "EACCES", "replace-workspace": "EACCES"}


def test_FS_21_there_is_no_fuse():
    assert reach().errors("fuse-device", "fuse-mount", "fuse-fsopen") == {"fuse-device": "ENOENT", "fuse-mount": "EPERM", "fuse-fsopen": "EPERM"}


def test_FS_23_a_petabyte_of_holes_is_refused_by_size(workdir):
    # Python ignores SIGXFSZ and gets EFBIG; who does not ignore it is ended by it, and the reason says disk.
    done, took = out("import os\nf = open('r', 'wb')\ntry: f.truncate(1 << 50)\nexcept OSError as e: print(e.errno)\nprint(os.stat('r').st_size)", ("r", workdir / "r"))
    assert done.out == "27\n0\n" and took < fair(5)
    killed = run("--", "truncate", "-s", "1P", "r")
    assert (killed.reason, killed.result["signal"], killed.status) == ("disk", "SIGXFSZ", 128 + 25)


def test_FS_25_trees_made_hard_to_delete_are_gone_with_the_run(workdir):
    began = time.monotonic()
    done = code("""
import os
for i in range(200):
    os.makedirs(f'wide/{i}/x'); open(f'wide/{i}/x/f', 'w').close()
for i in range(2000):
    os.mkdir('d'); os.chdir('d')
os.chdir('/workspace')
for name in ('wide/1', 'wide/2/x', 'wide'):
    os.chmod(name, 0)
""").run
    assert done.result["exit_code"] == 0, done.result
    assert time.monotonic() - began < fair(10)
