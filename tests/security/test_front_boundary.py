"""What a front that was taken over, and a local user, gain from what root does for the server: nothing.

One test for each row of "Files of the front that root touches" in docs/threat-model.md.
"""
import contextlib
import ctypes
import os
import pathlib
import signal
import sqlite3
import stat
import subprocess
import sys
import time

import pytest

from conftest import COVE, HostState, cove, wait_until
from hostile import front
from server import Server

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what root does for a server needs root")

STRANGER = 54321


@pytest.fixture
def server():
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.close()


def owner_of(path):
    return os.lstat(path).st_uid, stat.S_IMODE(os.lstat(path).st_mode)


def as_owner(server, code, *arguments):
    """Runs Python as the front's id, in the front's directory: what a front that was taken over can do there."""
    home = server.state_dir / "front"
    uid = home.stat().st_uid
    for parent in home.parents:  # only so that this test's Python reaches it
        if parent.is_relative_to(server.directory):
            parent.chmod(0o755)
    done = subprocess.run([sys.executable if sys.executable.startswith("/usr/") else "/usr/bin/python3", "-c", code, *map(str, arguments)], cwd=home, user=uid, group=uid,
                          extra_groups=[], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start_and_see(server):
    """Starts it; what becomes of it is for the test to say."""
    with contextlib.suppress(RuntimeError):
        server.start()


def test_every_server_has_a_front_of_its_own_uid():
    with Server() as one, Server() as other:
        uids = [pathlib.Path(f"/proc/{front(server)}").stat().st_uid for server in (one, other)]
        status = [dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{front(server)}/status").read_text().splitlines() if ":" in line) for server in (one, other)]
        uids = [int(fields["Uid"].split()[0]) for fields in status]
        assert uids[0] != uids[1] and 0 not in uids
        assert [owner_of(server.state_dir / "front") for server in (one, other)] == [(uids[0], 0o700), (uids[1], 0o700)]
        # The one cannot even look into the directory of the other.
        looked = subprocess.run(["ls", str(other.state_dir / "front")], user=uids[0], group=uids[0], extra_groups=[], capture_output=True, check=False)
        assert looked.returncode != 0 and b"Permission denied" in looked.stderr
        assert not (one.state_dir / "front").samefile(other.state_dir / "front")


def test_the_uid_stays_the_same_over_restarts(server):
    before = owner_of(server.state_dir / "front")
    server.stop()
    server.start()
    assert owner_of(server.state_dir / "front") == before


@pytest.mark.parametrize("victim_is", ["outside", "templates"])
def test_a_link_in_place_of_the_kept_files_gives_nothing_away(server, tmp_path, victim_is):
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    target = victim if victim_is == "outside" else pathlib.Path("../templates")
    watched = victim if victim_is == "outside" else server.state_dir / "templates"
    server.stop()
    before = owner_of(watched)
    as_owner(server, "import os, sys; os.rename('files', 'files.old'); os.symlink(sys.argv[1], 'files')", target)
    start_and_see(server)
    assert owner_of(watched) == before
    as_owner(server, "import os; os.unlink('files'); os.rename('files.old', 'files')")
    if server.popen.poll() is None:
        server.stop()
    server.start()


def test_hard_links_under_the_databases_names_change_no_owner(server, tmp_path):
    victim = server.directory / "victim"
    victim.write_text("root's")
    victim.chmod(0o600)
    server.stop()
    # As with fs.protected_hardlinks=0, where the front could do this itself.
    (server.state_dir / "front" / "cove.db-wal").unlink(missing_ok=True)
    os.link(victim, server.state_dir / "front" / "cove.db-wal")
    start_and_see(server)
    assert owner_of(victim) == (0, 0o600) and victim.read_text() == "root's"
    if server.popen.poll() is None:
        server.stop()
    (server.state_dir / "front" / "cove.db-wal").unlink(missing_ok=True)
    server.start()


def test_a_hostile_database_neither_holds_up_root_nor_is_read_by_it(server):
    server.stop()
    as_owner(server, """
import sqlite3
with sqlite3.connect('cove.db') as database:
    columns = [row[1] for row in database.execute('PRAGMA table_info(keys)')]
    database.execute('ALTER TABLE keys RENAME TO k2')
    database.execute('CREATE VIEW keys AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT ' + ', '.join(f'x AS {name}' for name in columns) + ' FROM c')
""")
    began = time.monotonic()
    server.start()
    assert time.monotonic() - began < 25
    # The file is put aside, and since keys may have been lost with it, one is asked for.
    assert "could not be used" in server.log
    assert server.get("/v1/sandboxes").status == 401


def opened_by_root(server, action):
    """Paths below the front's directory that a process with root's id opened while `action` ran."""
    trace = server.directory / "trace"
    action(["strace", "-f", "-qq", "-e", "trace=open,openat,openat2,rename,renameat2,unlink,unlinkat,chown,fchownat,lchown,chmod,fchmodat", "-o", str(trace)])
    return trace.read_text(errors="replace")


def test_root_opens_and_changes_nothing_below_the_fronts_directory(tmp_path):
    """Seen by what it does: every call with a path in there comes from a process that has left root behind."""
    server = Server()
    trace = server.directory / "trace"
    try:
        server.binary = COVE
        arguments = ["strace", "-f", "-qq", "-s", "300", "-e", "trace=setresuid,open,openat,openat2,fchown,fchownat,lchown,chown,fchmod,fchmodat,unlink,unlinkat,rename,renameat2,link,linkat,symlink,symlinkat,mknodat",
                     "-o", str(trace), COVE, "serve", "--listen", "127.0.0.1:0", "--state-dir", str(server.state_dir), "--python-warm=false", "--pool-size=0"]
        with open(server.log_path, "ab") as log, subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL) as traced:
            try:
                assert wait_until(lambda: "serving on" in server.log, 60), server.log
                made = cove("key", "create", "--tenant", "a", "--state-dir", server.state_dir)
                assert made.status == 0
                child = HostState.all_processes()
                supervisor = [pid for pid, (name, parent) in child.items() if parent == traced.pid]
                os.kill(supervisor[0], signal.SIGHUP)
                assert wait_until(lambda: "reloaded" in server.log, 20), server.log
                os.kill(supervisor[0], signal.SIGTERM)
                traced.wait(60)
            finally:
                if traced.poll() is None:
                    traced.kill()
    finally:
        lines = trace.read_text(errors="replace").splitlines() if trace.exists() else []
        server.popen = None
        import shutil
        shutil.rmtree(server.directory, ignore_errors=True)
    left_root = set()
    touched = []
    for line in lines:
        pid, _, call = line.partition(" ")
        if "setresuid(" in call and call.rstrip().endswith("= 0") and "setresuid(0" not in call:
            left_root.add(pid)
        inside = f'{server.state_dir}/front/' in call or "/run/cove/front/" in call
        if inside and pid not in left_root:
            touched.append(line)
    assert lines and left_root
    assert touched == []


def test_the_front_holds_no_descriptor_of_the_supervisors_lock(server):
    held = {os.readlink(path) for path in pathlib.Path(f"/proc/{front(server)}/fd").iterdir() if path.is_symlink() or True}
    assert str(server.state_dir / "lock") not in held
    assert not any(link.startswith(str(server.state_dir)) and not link.startswith((str(server.state_dir / "front"), str(server.state_dir / "front.lock"))) for link in held), held


# --- what a local user gains

CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000

A_STRANGERS_NAMESPACE = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x10000000) == 0, ctypes.get_errno()
inode = os.stat('/proc/self/ns/user').st_ino
print(inode, flush=True)
sys.stdin.readline()                     # the map of it has been written
assert libc.unshare(0x10000000 | 0x20000000) == 0, ctypes.get_errno()
if os.fork() == 0:
    libc.prctl(1, 9)                         # it ends with its parent
    print('there', flush=True)
    time.sleep(60)
os.wait()
"""


@pytest.mark.parametrize("counted", [True, False])
def test_a_keeper_joins_no_user_namespace_that_a_local_user_made(counted):
    """A number that was recorded and given again by the kernel, in a namespace with sandboxes of its own making."""
    server = Server("--allow-degraded")
    stranger = None
    try:
        server.start()
        server.stop()
        stranger = subprocess.Popen(["/usr/bin/python3", "-c", A_STRANGERS_NAMESPACE], user=STRANGER, group=STRANGER, extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        inode = int(stranger.stdout.readline())
        for which in ("uid_map", "gid_map"):
            pathlib.Path(f"/proc/{stranger.pid}/{which}").write_text(f"0 {STRANGER} 1\n1 900000 65535\n")
        stranger.stdin.write("\n")
        stranger.stdin.flush()
        assert stranger.stdout.readline() == "there\n"
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        record = f"boot {boot}\nuser_namespace {inode}\nuid_map 0 {STRANGER} 1 1 900000 65535\ncgroup cove-keep-r7\nrange 7\n"
        if counted:
            record += "base 4 /sys/fs/cgroup/unified\n"
        (server.state_dir / "keeper").write_text(record)
        server.start()
        keeper = server.keeper()
        assert os.stat(f"/proc/{keeper}/ns/user").st_ino != inode
        status = pathlib.Path(f"/proc/{keeper}/status").read_text()
        assert f"Uid:\t{STRANGER}\t" not in status
        assert server.exec(server.create(), "echo", "in our own")["stdout"] == "in our own\n"
    finally:
        if stranger:
            stranger.kill()
            stranger.wait()
        server.close()


def test_cove_mcp_trusts_no_directory_of_somebody_else(tmp_path):
    """Without HOME it once looked in the common temporary directory, where anybody could have been first."""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        with contextlib.suppress(OSError):
            if parent.is_relative_to("/tmp") and str(parent) != "/tmp":
                parent.chmod(0o755)
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, STRANGER, STRANGER)
    (state / "private.json").write_text('{"url": "http://127.0.0.1:1", "key": "k", "pid": 1}')
    (state / "private.json").chmod(0o644)
    said = cove("mcp", "--state-dir", state, stdin=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert said.status != 0 and f"belongs to uid {STRANGER}".encode() in said.stderr, said.stderr
    # And nobody's home is no reason to use a common place.
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_STATE_HOME", "COVE_STATE_DIR")}
    done = subprocess.run([COVE, "mcp"], input=b"", capture_output=True, env=environment, user=STRANGER + 1, group=STRANGER + 1, extra_groups=[], timeout=60, check=False)
    assert done.returncode != 0 and b"no home directory" in done.stderr, done.stderr
