"""Signals to cove itself: the run is cancelled, the status says by what, and nothing stays."""
import array
import fcntl
import json
import os
import re
import shlex
import signal
import termios

import pytest
from conftest import COVE, PATIENCE, HostState, cove, new_marker, processes_with, started, wait_until
from newborns import BORN, Program, warm


@pytest.mark.parametrize("name, status", [("INT", 130), ("TERM", 143), ("HUP", 129)])
def test_a_signal_to_cove_ends_the_sandbox_with_128_plus_its_number(name, status):
    marker = new_marker()
    with started("run", "--", "sh", "-c", "trap '' INT TERM HUP; echo up; while :; do sleep 600; done", marker) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(getattr(signal, "SIG" + name))
        assert process.wait(PATIENCE) == status
    assert processes_with(marker) == []


def test_the_json_of_a_cancelled_run_has_what_was_written_so_far():
    with started("run", "--json", "--", "sh", "-c", "echo up; exec sleep 600") as process:
        assert wait_until(lambda: processes_with("sleep\0" + "600\0"))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
    result = json.loads(out)
    assert (process.returncode, result["exit_code"], result["reason"], result["stdout"]) == (130, 130, "cancelled", "up\n")


def test_ctrl_c_of_a_shell_reaches_cove_and_not_the_keeper_behind_its_back():
    marker = new_marker()
    with started("run", "--", "sh", "-c", "echo up; exec sleep 600", marker, start_new_session=True) as process:
        assert process.stdout.readline() == b"up\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert processes_with(marker) == []


def test_a_second_signal_changes_nothing():
    with started("run", "--", "sh", "-c", "echo up; exec sleep 600") as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_cove_killed_by_sigkill_takes_the_sandbox_with_it():
    marker = new_marker()
    with started("run", "--", "sh", "-c", "setsid sleep 600 & echo up; wait", marker) as process:
        assert process.stdout.readline() == b"up\n"
        process.kill()
        process.wait(PATIENCE)
        assert wait_until(lambda: processes_with(marker) == [])
        name = f"/cove-{process.pid}"
    # Nobody was left to remove the control groups: the next run does.
    assert cove("run", "--", "true").status == 0
    assert wait_until(lambda: not [group for group in HostState.cgroups() if group.endswith(name)])


def test_cove_can_be_stopped_and_continued():
    with started("run", "-c", "print('up', flush=True)\nprint(input())") as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGSTOP)
        process.stdin.write(b"later\n")
        process.stdin.close()
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == b"later\n"
        assert process.wait(PATIENCE) == 0


def test_a_program_awaited_on_standard_input_can_be_cancelled():
    with started("run", "-") as process:
        assert wait_until(lambda: os.path.exists(f"/proc/{process.pid}/exe") and "cove" in os.readlink(f"/proc/{process.pid}/exe"))
        process.stdin.write(b"print(1)\n")  # and no end of file
        process.stdin.flush()
        assert wait_until(lambda: pipe_is_empty(process.stdin.fileno()))
        process.send_signal(signal.SIGINT)
        assert process.wait(10) in (130, -signal.SIGINT)


def test_a_host_file_that_never_comes_can_be_cancelled(workdir):
    os.mkfifo(workdir / "slow")
    with started("run", "--stdin", workdir / "slow", "--", "cat") as process:
        assert wait_until(lambda: sleeping(process.pid))
        process.send_signal(signal.SIGINT)
        assert process.wait(10) in (130, -signal.SIGINT)


def test_a_signal_while_a_large_directory_is_copied_in_is_told_as_such(workdir):
    many = workdir / "many"
    many.mkdir()
    for number in range(4000):
        (many / str(number)).touch()
    others = HostState.processes()
    with started("run", "--file", many, "--", "true") as process:
        # Once the sandbox is up, only the copying can be under way.
        assert wait_until(lambda: any("cove-init" in name for name in HostState.processes() - others))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


@pytest.mark.parametrize("name", ["INT", "HUP"])
def test_a_signal_that_whoever_started_cove_ignores_cancels_nothing(name):
    """So do shells for what runs in the background of a script, and nohup."""
    number = getattr(signal, "SIG" + name)
    with started("run", "--", "sh", "-c", "echo up; read word; echo $word", preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(number)
        process.stdin.write(b"whole\n")
        process.stdin.close()
        assert process.stdout.read() == b"whole\n"
        assert process.wait(PATIENCE) == 0


DEAF = ["env", "--ignore-signal", "--block-signal"]
STATUS = "import re; print(*re.findall('Sig(?:Blk|Ign):\\t(.*)', open('/proc/self/status').read()))"
OF_PYTHON = "0" * 16 + " 0000000001001000\n"  # it ignores SIGPIPE and SIGXFSZ itself


def test_programs_inherit_no_disposition_of_whoever_started_cove():
    run = cove(*DEAF[1:], COVE, "run", "--", "cat", "/proc/self/status", binary=DEAF[0])
    assert re.findall(r"Sig(?:Blk|Ign):\t(.*)", run.out) == ["0" * 16] * 2, run.err
    assert cove(*DEAF[1:], COVE, "run", "-c", STATUS, binary=DEAF[0]).out == OF_PYTHON


def test_programs_inherit_no_disposition_of_whoever_started_the_server(workdir, fresh_server):
    deaf = workdir / "deaf"
    deaf.write_text(f"#!/bin/sh\nexec {' '.join(DEAF)} {shlex.quote(COVE)} \"$@\"\n")
    deaf.chmod(0o755)
    server = fresh_server(binary=deaf, warm=True)
    name = server.create()
    assert re.findall(r"Sig(?:Blk|Ign):\t(.*)", server.exec(name, "cat", "/proc/self/status")["stdout"]) == ["0" * 16] * 2
    assert server.exec(name, "python3", "-c", STATUS)["stdout"] == OF_PYTHON
    warm(server)  # from here on interpreters are born and not started
    born = Program(server, BORN + "\n" + STATUS)
    assert born.out == "True\n" + OF_PYTHON
    assert server.stop() == 0


def pipe_is_empty(fd):
    waiting = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, waiting)
    return waiting[0] == 0


def sleeping(pid):
    """Whether cove (and not the fork that will become it) waits in a system call."""
    with open(f"/proc/{pid}/stat") as stat:
        name, state = re.match(r"\d+ \((.*)\) (\S)", stat.read()).groups()
    return (name, state) == ("cove", "S")
