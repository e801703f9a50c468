"""Sandboxes whose server is gone for good end too."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from conftest import COVE, cove, wait_until
from hostile import first_of_its_namespace, front, inits
from server import Server, at

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="looks at other processes of the host")


def alive(pid):
    return Server.alive(pid)


def kill_server(server):
    """All three processes, as `kill -9` of its group or an out-of-memory killer would: nobody is left to end anything."""
    pids = [server.pid, front(server), server.keeper()]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(pid, 9)
    server.popen.wait(10)
    assert wait_until(lambda: not any(alive(pid) for pid in pids if pid))


@pytest.fixture
def server():
    server = Server("--sandbox-orphan-grace", "1s")
    try:
        yield server.start()
    finally:
        server.close() if server.state_dir.exists() else server.discard()


def test_a_sandbox_ends_by_itself_when_its_time_is_over_and_no_server_has_come_back(server):
    short = server.create(ttlSeconds=1)
    long = server.create(ttlSeconds=600)
    both = inits(server)
    assert len(both) == 2
    began = time.monotonic()
    kill_server(server)
    # A server that is started again must find it: so it lives a quarter of a minute, whatever its time.
    assert wait_until(lambda: sum(alive(pid) for pid in both) == 1, 40)
    assert time.monotonic() - began > 10
    time.sleep(1)
    assert sum(alive(pid) for pid in both) == 1, "the other still has its time"
    server.start()
    assert server.exec(long, "echo", "found")["stdout"] == "found\n"
    assert server.get(at(short)).status == 404


def test_a_paused_one_too(server):
    """Its init is frozen and cannot end it: a keeper that has lost its front stays for that."""
    name = server.create(ttlSeconds=1)
    assert server.post(at(name, "pause")).status == 200
    [init] = inits(server)
    keeper = server.keeper()
    server.kill9()
    assert wait_until(lambda: not alive(init), 40)
    assert wait_until(lambda: not alive(keeper), 10), "and leaves when nothing is frozen any more"


def test_a_keeper_that_stayed_makes_way_for_the_next_server(server):
    name = server.create(ttlSeconds=600)
    server.out(name, "echo kept > file")
    assert server.post(at(name, "pause")).status == 200
    keeper = server.keeper()
    server.kill9()
    time.sleep(0.5)
    assert alive(keeper)
    server.start()
    assert not alive(keeper)
    assert server.post(at(name, "resume")).status == 200
    assert server.out(name, "cat file") == "kept\n"


def test_the_next_cove_sweeps_what_a_server_left_whose_state_directory_is_gone(server):
    running, paused = server.create(ttlSeconds=3600), server.create(ttlSeconds=3600)
    assert server.post(at(paused, "pause")).status == 200
    pids = inits(server)
    assert len(pids) == 2
    groups = {path for path in pathlib.Path("/sys/fs/cgroup").glob("*/cove-keep-*") if any(str(pid) in (leaf / "cgroup.procs").read_text().split() for pid in pids for leaf in path.glob("s-*"))}
    kill_server(server)
    # As long as there is a state directory they belong to it.
    assert cove("run", "--", "true").status == 0
    assert all(alive(pid) for pid in pids)
    shutil.rmtree(server.directory)
    assert cove("run", "--", "true").status == 0
    assert wait_until(lambda: not any(alive(pid) for pid in pids), 10)
    assert not any(path.exists() for path in groups), groups


def groups_of(server):
    """Its control groups, of those of every cove on this machine: a sandbox's init is in one of them, whatever happens to the others meanwhile."""
    init = next(iter(inits(server)))
    lines = pathlib.Path(f"/proc/{init}/cgroup").read_text().splitlines()
    names = {part for line in lines for part in line.rpartition(":")[2].split("/") if part.startswith("cove-keep-")}
    return [path for name in names for path in pathlib.Path("/sys/fs/cgroup").glob(f"*/{name}")] + [
        path for name in names for path in pathlib.Path("/sys/fs/cgroup").glob(name)]


def test_a_clean_stop_leaves_no_control_group():
    for _ in range(6):
        with Server(warm=True) as server:
            server.exec(server.create(), "true")
            groups = groups_of(server)
            assert groups
            assert server.stop() == 0
            assert [path for path in groups if path.exists()] == []
            assert not (server.state_dir / "keeper").exists(), "nothing is recorded of what is gone"
