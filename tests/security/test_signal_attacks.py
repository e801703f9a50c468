"""SG: signals, pids, the end of things."""
import os
import pathlib
import pty
import signal
import subprocess
import termios
import time

import pytest

from conftest import COVE, PATIENCE, fair, new_marker, processes_with, wait_until
from arena import PROBES, Neighbour, attack, canaries, compiled, cove, run


def survivors(marker):
    """What is still there a second after the end."""
    wait_until(lambda: processes_with(marker) == [], 1)
    return processes_with(marker)


def started(*arguments, **streams):
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen([COVE, "run", *map(str, arguments)], **options)


def groups_of(pid):
    return [str(path) for path in pathlib.Path("/sys/fs/cgroup").rglob(f"cove-{pid}")]


def signals(*words, options=()):
    return started("--file", PROBES / "probelib.py", *options, "--quiet", PROBES / "signals.py", *words)


def test_SG_01_init_survives_every_signal_from_inside():
    report = attack("signals", "kill-init")
    assert report.run.result["exit_code"] == 0, report.run.err
    assert set(report.under("kill:").values()) == {None} and len(report.under("kill:")) == 64
    assert set(report.under("pidfd:").values()) == {None}
    assert report["child"]["signal"] == 9
    assert report["init"] == {"state": "S", "name": "init"}
    assert report.run.reason == "exited"


@pytest.mark.parametrize("number, name", [(9, "SIGKILL"), (15, "SIGTERM"), (11, "SIGSEGV"), (6, "SIGABRT"), (2, "SIGINT")])
def test_SG_01_a_program_that_kills_itself_is_reported_within_a_second(number, name):
    done = run("-c", f"import os, signal; signal.signal({number}, signal.SIG_DFL) if {number} not in (9,) else 0; os.kill(os.getpid(), {number})")
    assert (done.reason, done.result["signal"], done.status) == ("signalled", name, 128 + number)
    assert done.result["duration_ms"] < fair(1000)


def test_SG_02_killing_the_parent_does_nothing():
    report = attack("signals", "kill-parent")
    assert report.run.result["exit_code"] == 0 and report["parent"]["pid"] == 1


def test_SG_03_daemons_are_gone_with_the_run():
    marker = new_marker()
    report = attack("signals", "daemon", marker)
    assert report.run.result["exit_code"] == 0 and len(report["left"]["pids"]) == 3
    assert survivors(marker) == []


def test_SG_04_a_child_that_holds_the_output_does_not_hold_up_the_result():
    marker = new_marker()
    began = time.monotonic()
    report = attack("signals", "holds-output", marker)
    assert report["told"]["pid"] > 1 and report.run.reason == "exited"
    assert report.run.result["duration_ms"] < fair(1000) and time.monotonic() - began < fair(3)
    assert survivors(marker) == []


def test_SG_05_who_ignores_every_signal_still_meets_the_time_limit():
    marker = new_marker()
    report = attack("signals", "stubborn", marker, options=("--timeout", "500ms"))
    assert (report.run.reason, report.run.status, report.run.result["signal"]) == ("timeout", 124, "SIGKILL")
    assert 500 <= report.run.result["duration_ms"] < fair(1500)
    assert survivors(marker) == []


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_SG_05_who_ignores_every_signal_is_gone_when_the_caller_gives_up(number, status):
    marker = new_marker()
    with signals("stubborn", marker) as process:
        assert process.stdout.readline() == b"ready\n"
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(PATIENCE) == status
        assert time.monotonic() - began < fair(2)
    assert survivors(marker) == []


def test_SG_06_a_storm_of_forks_is_over_within_a_second_of_the_end():
    marker = new_marker()
    with signals("storm", marker) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
        assert time.monotonic() - began < fair(2)
    assert survivors(marker) == [] and groups_of(process.pid) == []


def test_SG_06_killing_cove_itself_leaves_no_storm_behind():
    marker = new_marker()
    with signals("storm", marker) as process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        process.wait(PATIENCE)
    wait_until(lambda: processes_with(marker) == [], 3)
    assert processes_with(marker) == []


def test_SG_07_stopped_and_vforked_processes_are_gone_too():
    marker = new_marker()
    report = attack("signals", "stopped", marker, options=("--timeout", "1s"))
    assert (report.run.reason, report.run.status) == ("timeout", 124)
    assert survivors(marker) == []


def test_SG_07_a_process_left_behind_cannot_stop_the_copying_out(workdir):
    # It sends SIGSTOP to whatever starts: the helper that copies a result runs under the same uid. Half a minute, then it lets go.
    marker = new_marker()
    began = time.monotonic()
    done = cove("run", "--timeout", "1s", "--file", PROBES / "probelib.py", "--out", f"result:{workdir / 'r'}", "--json", PROBES / "signals.py", "stops-the-helper", marker, "30")
    took = time.monotonic() - began
    assert done.result["reason"] == "exited"
    assert took < fair(4), f"cove waited {took:.1f} s for a helper that the sandbox had stopped; without the end of the probe it would wait for ever"
    assert survivors(marker) == []


def test_SG_08_a_false_name_and_recycled_pids_lead_no_signal_astray():
    planted = canaries()
    report = attack("signals", "disguise", options=("--timeout", "20s"))
    assert report.run.result["exit_code"] == 0, report.run.err
    assert report["recycled"]["processes"] == 3000
    assert report.run.reason == "exited" and planted.process.poll() is None


def test_SG_09_new_groups_and_sessions_are_killed_and_the_callers_terminal_is_sane():
    marker = new_marker()
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    try:
        process = started("--tty", "--file", PROBES / "probelib.py", "--quiet", PROBES / "signals.py", "groups", marker, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        text = b""
        while b'"fact": "groups"' not in text:
            text += os.read(master, 4096)
        assert process.wait(PATIENCE) == 0
        assert termios.tcgetattr(slave) == before
    finally:
        os.close(slave)
        os.close(master)
    assert survivors(marker) == []


def test_SG_10_zombies_count_against_the_limit():
    marker = new_marker()
    report = attack("signals", "zombies", marker, options=("--pids", "40"))
    assert report["zombies"]["errno"] == "EAGAIN" and 30 <= report["zombies"]["made"] <= 38
    assert survivors(marker) == []


def test_SG_10_orphaned_zombies_are_reaped_by_init():
    report = attack("signals", "orphan-zombies")
    assert report["left"]["processes"] == {}


OVERFLOW = "#include <string.h>\nint f(int n) { volatile char b[4096]; memset((void*)b, n, sizeof b); return f(n + 1) + b[0]; }\nint main(int c, char** v) { return f(c); }\n"


@pytest.mark.parametrize("program, reason, name, status", [
    ("import os; os._exit(0)", "exited", None, 0),
    ("import os; os._exit(7)", "exited", None, 7),
    ("import os; os.abort()", "signalled", "SIGABRT", 134),
    ("import ctypes; ctypes.string_at(0)", "signalled", "SIGSEGV", 139),
    ("import os; os._exit(137)", "exited", None, 137),
    ("import os; os._exit(124)", "exited", None, 124),
    ("import os; os._exit(139)", "exited", None, 139),
    ("raise SystemExit(3)", "exited", None, 3),
    ("import os; os.kill(os.getpid(), 31)", "signalled", "SIGSYS", 159),
    ("import os; os.execv('/bin/true', ['true'])", "exited", None, 0),
    ("import os, signal; signal.signal(25, signal.SIG_DFL); os.kill(os.getpid(), 24)", "signalled", "SIGXCPU", 152),
])
def test_SG_11_each_end_is_told_as_it_was(program, reason, name, status):
    done = run("-c", program)
    assert (done.reason, done.result["signal"], done.result["exit_code"], done.status) == (reason, name, status, status)


def test_SG_11_a_stack_overflow_is_a_segmentation_fault(workdir):
    done = run("--file", compiled(OVERFLOW, workdir, "-O0"), "--", "./probe")
    assert (done.reason, done.result["signal"], done.status) == ("signalled", "SIGSEGV", 139)


def test_SG_12_queued_signals_and_timers_are_limited():
    report = attack("signals", "queue")
    assert report["queued"]["errno"] == "EAGAIN" and report["queued"]["number"] <= 256
    assert report["timers"]["errno"] == "EAGAIN" and report["timers"]["number"] <= 256


def test_SG_12_another_sandbox_and_the_host_can_still_queue():
    with Neighbour("signals", "queue", "hold") as first:
        assert first.facts["queued"]["errno"] == "EAGAIN"
        second = attack("signals", "queue")
        assert second["queued"]["number"] == first.facts["queued"]["number"] > 200
        assert second["timers"]["number"] == first.facts["timers"]["number"]


def test_SG_13_no_core_is_written(workdir):
    report = attack("signals", "core")
    assert (report.run.reason, report.run.result["signal"]) == ("signalled", "SIGABRT")
    # Whoever sets the limit is told that it is done, and nothing is.
    assert report.errors("raise", "lower", "lower-old", "lower-high") == dict.fromkeys(("raise", "lower", "lower-old", "lower-high"))
    assert report["page"]["address"] == 1 << 40
    assert report["limit"]["value"] == [1, 1] == report["limit"]["told"]
    listed = cove("run", "--file", PROBES / "probelib.py", "--json", "-c", "import os, subprocess\nsubprocess.run(['python3', '-c', 'import os; os.abort()'])\nprint(sorted(os.listdir('.')))")
    assert listed.out == "['main.py', 'probelib.py']\n"


HANDLER = "#!/bin/sh\nhead -c 16 >/dev/null\necho \"$1\" >>{log}\ncat >/dev/null\n"


@pytest.mark.skipif(os.environ.get("COVE_TEST_HOST_SETTINGS") != "1", reason="changes kernel.core_pattern for a moment; COVE_TEST_HOST_SETTINGS=1 allows it")
def test_SG_13_no_core_reaches_a_piped_core_pattern(workdir):
    # A pipe is served whatever RLIMIT_CORE says, except when it is exactly 1 (core(5)): a root process of the host would read the sandbox's memory.
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern")
    before = pattern.read_text()
    log, handler = workdir / "log", workdir / "handler"
    workdir.chmod(0o755)
    handler.write_text(HANDLER.format(log=log))
    handler.chmod(0o755)
    try:
        pattern.write_text(f"|{handler} %e.%P")
        attack("signals", "core")
        wait_until(log.exists, 2)
    finally:
        pattern.write_text(before)
    assert pattern.read_text() == before
    assert not log.exists(), f"the host's handler was given a core of the sandbox: {log.read_text()}"
