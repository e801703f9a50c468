"""What a run of tests starts ends with it, whatever becomes of the run. Here a run is a script of its own, ended in every way there is."""
import os
import pathlib
import signal
import subprocess

import lifeline
import pytest
from conftest import PATIENCE, ROOT, HostState, new_marker, processes_with, wait_until

RUN = """
import os, subprocess, sys, time
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/support"]
import lifeline
lifeline.guard()
from server import Server, at
marker, how = sys.argv[2:]
server = Server("--on-exit", "keep").start()
box = server.create()
server.start_process(box, "sh", "-c", "while :; do :; done", marker)
subprocess.Popen(["sh", "-c", "setsid sh -c 'while :; do :; done' $0 & wait", marker])
subprocess.Popen(["sh", "-c", "trap '' INT TERM HUP; while :; do sleep 60; done", marker])
print(os.getpid(), lifeline.guardian, lifeline.directory, flush=True)
if how == "fail":
    sys.exit(3)
time.sleep(600)
"""
# Who is struck by what: the process that was started, the guardian, the run itself, or the whole group.
ENDS = {
    "it fails": ("fail", None, 3),
    "it is killed": ("run", signal.SIGKILL, -signal.SIGKILL),
    "who started it is killed": ("front", signal.SIGKILL, -signal.SIGKILL),
    "it is asked to end": ("front", signal.SIGTERM, -signal.SIGTERM),
    "it is interrupted": ("front", signal.SIGINT, -signal.SIGINT),
    "everything in its group is killed": ("group", signal.SIGKILL, -signal.SIGKILL),
}


@pytest.mark.parametrize("who, number, status", ENDS.values(), ids=ENDS)
def test_nothing_goes_on_when(who, number, status):
    marker = new_marker()
    with subprocess.Popen(["/usr/bin/python3", "-c", RUN, str(ROOT / "tests"), marker, who], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        run, guardian, directory = process.stdout.readline().decode().split()
        groups = {group for group in lifeline.groups() if group[1].startswith("cove-keep-r") and directory in pathlib.Path("/run/cove/uid-ranges", group[1][11:]).read_text()}
        if who != "fail":
            assert len(processes_with(marker)) >= 4 and groups, "the script has started nothing"
            if who == "group":
                os.killpg(process.pid, number)
            else:
                os.kill({"front": process.pid, "run": int(run)}[who], number)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, err
    assert wait_until(lambda: int(guardian) not in HostState.all_processes(), PATIENCE)
    assert processes_with(marker) == [] and not os.path.exists(directory)
    assert not groups & set(lifeline.groups())
    if who in ("fail", "run"):
        assert marker.encode() in err, "it is told what had to be ended"
