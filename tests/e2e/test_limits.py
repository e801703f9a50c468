"""Every limit of `cove run`, by a program that hits it, and the reason the result gives."""
import re

import pytest
from conftest import cove, new_marker, processes_with, python, run_json

FORK_UNTIL_REFUSED = """
import os, sys, time
children = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        children += 1
except OSError as error:
    print(children, error.errno)
"""
THREADS_UNTIL_REFUSED = """
import sys, threading, time
threads = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        threads += 1
except RuntimeError as error:
    print(threads, flush=True)
"""
EAGAIN, ENOSPC, EFBIG = 11, 28, 27


def test_a_program_that_runs_too_long_ends_with_reason_timeout():
    run = run_json("--timeout", "300ms", "--", "sleep", "600")
    assert (run.status, run.reason, run.result["exit_code"], run.result["signal"]) == (124, "timeout", 124, "SIGKILL")
    assert run.result["duration_ms"] >= 300


@pytest.mark.parametrize("stubborn", [
    "import signal, time\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nprint('deaf', flush=True)\nwhile True: time.sleep(600)",
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nprint('deaf', flush=True)\nwhile True: pass",
    "import os, signal\nprint('deaf', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)",
    "import os, time\nprint('deaf', flush=True)\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)",
], ids=["ignores every signal", "blocks every signal", "stops itself", "has a child in a session of its own"])
def test_a_timeout_ends_a_program_that_does_not_want_to_end(stubborn):
    run = python(stubborn, "--timeout", "1s")
    assert (run.status, run.reason, run.out) == (124, "timeout", "deaf\n")


def test_output_written_before_the_timeout_is_kept():
    run = run_json("--timeout", "1s", "--", "sh", "-c", "echo early; echo late >&2; sleep 600")
    assert (run.reason, run.out, run.err) == ("timeout", "early\n", "late\n")


def test_a_process_over_the_memory_limit_ends_with_reason_oom():
    run = python("b = bytearray(400 << 20)", "--memory", "64M")
    assert (run.status, run.reason, run.result["signal"]) == (137, "oom", "SIGKILL")
    assert run.result["peak_memory_bytes"] <= 64 << 20
    assert run.result["peak_memory_bytes"] >= 60 << 20


def test_memory_within_the_limit_can_be_used():
    run = python("b = bytearray(100 << 20); print(len(b))", "--memory", "256M")
    assert (run.status, run.reason, run.out) == (0, "exited", f"{100 << 20}\n")
    assert run.result["peak_memory_bytes"] >= 100 << 20


HOG = "python3 -c 'b = bytearray(400 << 20)'"


@pytest.mark.parametrize("status, reason", [(0, "exited"), (3, "oom")])
def test_a_program_whose_child_was_killed_for_memory_goes_on_and_keeps_its_own_status(status, reason):
    run = run_json("--memory", "96M", "--", "bash", "-c", f"{HOG}; sleep 0.3; echo still here; exit {status}")
    assert (run.status, run.reason, run.out, run.result["signal"]) == (status, reason, "still here\n", None)
    assert run.result["oom_kills"] == 1
    assert run.result["note"].startswith(f"a process was killed: memory limit 96M reached (peak ")
    assert f"the program went on and exited with status {status}; --memory 192M gives more" in run.result["note"]


def test_a_killed_child_is_told_in_one_line_beside_the_status_of_the_program():
    run = cove("run", "--memory", "96M", "--", "bash", "-c", f"{HOG}; exit 3")
    assert run.status == 3
    assert re.search(r"cove: a process was killed: memory limit 96M reached .*; the program went on and exited with status 3; ", run.err)


def test_a_program_that_waits_for_the_child_that_was_killed_for_memory_has_reason_oom_at_its_time_limit():
    run = python("import subprocess, sys, time\n"
                 "subprocess.run([sys.executable, '-c', 'b = bytearray(400 << 20)'])\n"
                 "time.sleep(600)", "--memory", "96M", "--timeout", "2s")
    assert (run.status, run.reason) == (137, "oom") and "until its time limit" in run.result["note"]


def test_the_memory_limit_counts_all_processes_together():
    run = python("import os, time\n"
                 "for _ in range(8):\n"
                 "    if os.fork() == 0:\n"
                 "        b = bytearray(30 << 20); time.sleep(600)\n"
                 "time.sleep(600)", "--memory", "128M", "--timeout", "3s")
    assert (run.status, run.reason) == (137, "oom")


def test_files_count_as_memory_but_stop_at_the_disk_limit_first():
    run = run_json("--memory", "64M", "--disk", "16M", "--", "sh", "-c", "head -c 30M /dev/zero >a; rm a; head -c 10M /dev/zero >b && stat -c %s b")
    assert (run.status, run.reason, run.out) == (0, "exited", f"{10 << 20}\n")


@pytest.mark.parametrize("program", [FORK_UNTIL_REFUSED, THREADS_UNTIL_REFUSED], ids=["processes", "threads"])
def test_the_pids_limit_holds_and_a_program_that_fails_by_it_has_reason_pids(program):
    run = python(program + "raise SystemExit(3)", "--pids", "20")
    assert (run.status, run.reason) == (3, "pids")
    assert 10 <= int(run.out.split()[0]) < 20


def test_a_refused_fork_is_told_as_eagain():
    assert python(FORK_UNTIL_REFUSED, "--pids", "20").out.split()[1] == str(EAGAIN)


def test_a_program_that_copes_with_the_pids_limit_has_simply_exited():
    run = python(FORK_UNTIL_REFUSED, "--pids", "20")
    assert (run.status, run.reason) == (0, "exited")


@pytest.mark.parametrize("bomb", [
    ["python3", "-c", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", "MARKER"],
    ["bash", "-c", "bomb() { bomb | bomb & }; bomb 2>/dev/null; while :; do :; done", "MARKER"],
], ids=["python", "bash"])
def test_a_fork_bomb_ends_with_the_timeout_and_leaves_nothing(bomb):
    marker = new_marker()
    run = run_json("--timeout", "1s", "--", *[marker if word == "MARKER" else word for word in bomb])
    assert (run.status, run.reason) == (124, "timeout")
    assert processes_with(marker) == []


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/home/cove", "/dev/shm"])
def test_bytes_over_the_disk_limit_end_in_reason_disk_wherever_they_are_written(place):
    run = run_json("--disk", "8M", "--", "sh", "-c", f"cd {place} && head -c 5M /dev/zero >a && head -c 5M /dev/zero >b")
    assert run.reason == "disk"
    assert run.status == 1
    assert "No space left on device" in run.err


def test_the_disk_limit_counts_all_places_together():
    run = run_json("--disk", "8M", "--", "sh", "-c", "head -c 5M /dev/zero >/tmp/a && head -c 5M /dev/zero >/dev/shm/b")
    assert run.reason == "disk"


def test_files_over_the_inode_limit_end_in_reason_disk():
    run = python("made = 0\n"
                 "try:\n"
                 "    while True:\n"
                 "        open(f'/workspace/{made}', 'w').close(); made += 1\n"
                 "except OSError as error:\n"
                 "    print(made, error.errno); raise SystemExit(1)", "--disk", "4M")
    made, number = map(int, run.out.split())
    assert (run.status, run.reason, number) == (1, "disk", ENOSPC)
    assert 500 < made <= run.result["limits"]["inodes"]
    assert run.result["note"].startswith(f"failed: file limit {run.result['limits']['inodes']} reached: ")


@pytest.mark.parametrize("command", [["dd", "if=/dev/zero", "of=big", "bs=1M", "count=20"],
                                     ["python3", "-c", "open('big', 'wb').write(bytes(20 << 20))"]], ids=["dd", "python"])
def test_one_file_that_fills_the_disk_meets_a_full_disk_and_no_signal(command):
    run = run_json("--disk", "8M", "--memory", "128M", "--", *command)
    assert (run.status, run.reason, run.result["signal"]) == (1, "disk", None)
    assert "No space left on device" in run.err
    assert run.result["note"] == "failed: disk limit 8M reached; delete files, or --disk 16M gives more"


def test_the_memory_message_says_that_files_count_when_they_hold_much_of_it():
    run = run_json("--memory", "96M", "--disk", "64M", "--", "bash", "-c", f"head -c 50M /dev/zero >big; {HOG}")
    assert run.reason == "oom" and ", 50M of it by files, which count as memory" in run.result["note"]


def test_a_program_that_copes_with_a_full_disk_has_simply_exited():
    run = run_json("--disk", "8M", "--", "sh", "-c", "head -c 20M /dev/zero >a 2>/dev/null; exit 0")
    assert (run.status, run.reason) == (0, "exited")


def test_a_failure_that_has_nothing_to_do_with_limits_has_reason_exited():
    run = run_json("--disk", "8M", "--pids", "20", "--", "sh", "-c", "head -c 1M /dev/zero >a; exit 9")
    assert (run.status, run.reason) == (9, "exited")


def test_a_single_file_longer_than_the_disk_limit_is_stopped_by_signal_with_reason_disk():
    run = run_json("--disk", "8M", "--", "truncate", "-s", "9M", "file")
    assert (run.status, run.reason, run.result["signal"]) == (128 + 25, "disk", "SIGXFSZ")


def test_a_single_file_longer_than_the_disk_limit_is_an_error_to_who_ignores_the_signal():
    run = python("import os\nf = open('f', 'w')\ntry: os.truncate(f.fileno(), 9 << 20)\nexcept OSError as error: print(error.errno)", "--disk", "8M")
    assert (run.status, run.reason, run.out) == (0, "exited", f"{EFBIG}\n")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_past_its_limit_is_dropped_and_counted_exactly_and_the_run_goes_on(stream):
    run = python(f"import sys\nsys.{stream}.write('x' * 5000)\nsys.{stream}.flush()\nopen('after', 'w').close()\nraise SystemExit(6)", "--output-limit", "1000")
    other = {"stdout": "stderr", "stderr": "stdout"}[stream]
    assert (run.status, run.reason) == (6, "exited")
    assert run.result[stream] == "x" * 1000
    assert run.result["truncated"] == {stream: 4000, other: 0}


def test_output_of_exactly_the_limit_is_whole():
    run = python("print('x' * 999)", "--output-limit", "1000")
    assert (len(run.out), run.result["truncated"]) == (1000, {"stdout": 0, "stderr": 0})


def test_an_output_limit_of_zero_drops_everything():
    run = run_json("--output-limit", "0", "--", "sh", "-c", "echo out; echo err >&2")
    assert (run.status, run.out, run.err, run.result["truncated"]) == (0, "", "", {"stdout": 4, "stderr": 4})


def test_a_flood_that_never_stops_ends_with_reason_output_limit():
    run = run_json("--timeout", "50s", "--cpus", "2", "--", "cat", "/dev/zero")
    assert (run.status, run.reason) == (137, "output_limit")
    assert len(run.out) == 1 << 20
    assert run.result["truncated"]["stdout"] > 1 << 30


def test_a_share_of_a_core_is_held():
    run = python("import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass", "--cpus", "0.5")
    assert 0.2 < run.result["cpu_ms"] / run.result["duration_ms"] < 0.75


def test_a_share_of_a_core_is_held_for_all_processes_together():
    run = python("import os, time\nend = time.monotonic() + 1.5\nos.fork(); os.fork()\nwhile time.monotonic() < end: pass\n"
                 "try:\n    while True: os.wait()\nexcept ChildProcessError: pass", "--cpus", "0.3")
    assert 0.1 < run.result["cpu_ms"] / run.result["duration_ms"] < 0.5


LINES = [
    (["--memory", "64M", "-c", "b = bytearray(400 << 20)"], 137, r"cove: killed: memory limit 64M reached \(peak (64M|6[0-3](\.\d)?M)\); --memory 128M gives more"),
    (["--timeout", "200ms", "--", "sleep", "600"], 124, r"cove: killed: time limit 200ms reached"),
    (["--disk", "8M", "--", "sh", "-c", "for i in a b c; do head -c 5M /dev/zero 2>/dev/null >$i || exit 1; done"], 1, r"cove: failed: disk limit 8M reached; delete files, or --disk 16M gives more"),
    (["--pids", "20", "-c", FORK_UNTIL_REFUSED + "raise SystemExit(3)"], 3, r"cove: failed: process limit 20 reached \(\d+ more refused\); --pids 40 gives more"),
    (["--", "sh", "-c", "kill -SEGV $$"], 139, r"cove: the program was ended by SIGSEGV \(Segmentation fault\)"),
    (["--", "sh", "-c", "kill -ABRT $$"], 134, r"cove: the program was ended by SIGABRT \(Aborted\)"),
    (["--output-limit", "1K", "-c", "print('x' * 2000)"], 0, r"cove: output truncated: 977 bytes of stdout and 0 of stderr past --output-limit 1K were dropped"),
]


@pytest.mark.parametrize("arguments, status, line", LINES, ids=["memory", "timeout", "disk", "pids", "segmentation fault", "abort", "output"])
def test_a_limit_that_was_hit_is_told_in_one_line_on_stderr(arguments, status, line):
    run = cove("run", *arguments)
    assert run.status == status
    ours = [text for text in run.err.splitlines() if text.startswith("cove:")]
    assert len(ours) == 1 and re.fullmatch(line, ours[0]), run.err


@pytest.mark.parametrize("arguments, status, line", LINES, ids=["memory", "timeout", "disk", "pids", "segmentation fault", "abort", "output"])
def test_quiet_silences_the_line_and_changes_nothing_else(arguments, status, line):
    run = cove("run", "--quiet", *arguments)
    assert run.status == status
    assert "cove:" not in run.err


def test_a_run_that_met_no_limit_says_nothing_of_its_own():
    run = cove("run", "--", "sh", "-c", "echo mine >&2; exit 5")
    assert (run.status, run.err) == (5, "mine\n")
