"""What a hostile review tried: programs that fight pid 1, callers whose streams, files and directories misbehave."""
import os
import pathlib
import signal
import subprocess
import threading
import time

import lifeline
from conftest import COVE, PATIENCE, cove, python, run_json, started, wait_until


def test_what_a_slow_reader_has_not_taken_at_the_time_limit_still_reaches_it():
    with started("run", "--timeout", "500ms", "--output-limit", "4M", "--", "sh", "-c", "head -c 230000 /dev/zero; sleep 60") as process:
        time.sleep(2)  # past the time limit and the grace that init has
        assert len(process.stdout.read()) == 230_000
        assert process.wait(PATIENCE) == 124


def test_a_result_goes_into_a_fifo_that_waits_for_it(workdir):
    os.mkfifo(workdir / "fifo")
    got = []
    reader = threading.Thread(target=lambda: got.append((workdir / "fifo").read_text()))
    reader.start()
    assert wait_until(lambda: cove("run", "--out", f"o:{workdir / 'fifo'}", "--", "sh", "-c", "echo hi > o").status == 0)
    reader.join(PATIENCE)
    assert got == ["hi\n"] and (workdir / "fifo").is_fifo()


def test_a_result_into_a_device_leaves_the_device_alone():
    before = os.stat("/dev/null").st_rdev
    assert cove("run", "--out", "o:/dev/null", "--", "sh", "-c", "echo hi > o").status == 0
    assert os.stat("/dev/null").st_rdev == before


def test_a_file_name_cannot_speak_to_the_callers_terminal(workdir):
    (workdir / "d").mkdir()
    os.mkfifo(workdir / "d" / "\033]0;owned\007")
    done = cove("run", "--file", f"{workdir / 'd'}/\033]0;owned\007", "--", "true")
    assert done.status == 125 and b"\033" not in done.stderr and b"\\x1b" in done.stderr


def test_a_group_left_by_an_earlier_process_of_the_same_pid_is_taken_over():
    with started("run", "--", "sh", "-c", "echo up; read end") as process:
        assert process.stdout.readline() == b"up\n"
        places = [parent for parent, name in lifeline.groups() if name == f"cove-{process.pid}"]
    script = 'for place in "$@"; do mkdir "$place/cove-$$" || exit; done; exec "$0" run -- echo ran'
    assert places and subprocess.run(["sh", "-c", script, COVE, *places], capture_output=True, timeout=PATIENCE).stdout == b"ran\n"


def test_a_killed_keeper_leaves_nothing_running():
    marker = f"{time.time_ns()}"
    with started("run", "--", "sh", "-c", f"for i in 1 2 3; do setsid sleep {marker} & done; echo up; sleep {marker}") as process:
        assert process.stdout.readline() == b"up\n"
        keeper = int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        os.kill(keeper, signal.SIGKILL)
        assert process.wait(PATIENCE) == 125
    found = subprocess.run(["pgrep", "-f", marker], capture_output=True).stdout
    assert wait_until(lambda: subprocess.run(["pgrep", "-f", f"sleep {marker}"], capture_output=True).stdout == b""), found


def test_a_program_cannot_change_the_limits_or_the_scheduling_of_pid_1():
    run = python("""
import os, resource
def tried(call, *arguments):
    try:
        call(*arguments)
        return "done"
    except OSError as error:
        return error.strerror
print(tried(resource.prlimit, 1, resource.RLIMIT_NOFILE, (0, 0)), tried(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0)),
      tried(os.sched_setaffinity, 1, [0]), tried(os.setpriority, os.PRIO_PROCESS, 1, 19), tried(os.setpriority, os.PRIO_USER, 0, 19), sep="|")
print(tried(resource.prlimit, 0, resource.RLIMIT_NOFILE, (64, 64)), tried(os.setpriority, os.PRIO_PROCESS, 0, 5), tried(os.sched_setaffinity, 0, [0]))
""")
    assert run.out == "|".join(["Operation not permitted"] * 5) + "\ndone done done\n"


def test_RX_06_socket_buffers_are_within_the_memory_limit():
    run = run_json("--memory", "64M", "--timeout", "20s", "-c", """
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=512)
queued, kept = 0, []
for _ in range(200):
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    client.setblocking(False)
    kept += [client, peer]
    try:
        while True: queued += client.send(b"x" * 65536)
    except OSError: pass
print(queued)
""")
    assert run.reason in ("exited", "oom")
    assert run.reason == "oom" or int(run.out) < 64 << 20
