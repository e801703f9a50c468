"""The exit status: the program's own, or by the conventions of env(1), timeout(1) and the shell."""
import signal

import pytest
from conftest import cove, python, run_json


@pytest.mark.parametrize("code", [0, 1, 2, 42, 124, 125, 126, 127, 130, 137, 143, 255])
def test_the_programs_own_code_is_passed_on_and_called_exited(code):
    run = run_json("--", "sh", "-c", f"exit {code}")
    assert (run.status, run.result["exit_code"], run.reason, run.result["signal"]) == (code, code, "exited", None)


def test_the_streaming_mode_passes_the_code_on_too():
    assert cove("run", "--", "sh", "-c", "exit 77").status == 77


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "ILL", "ABRT", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "BUS", "SYS"])
def test_a_program_killed_by_a_signal_gives_128_plus_its_number(name):
    run = python(f"import os, signal\nsignal.signal(signal.SIG{name}, signal.SIG_DFL) if '{name}' != 'KILL' else 0\nos.kill(os.getpid(), signal.SIG{name})")
    assert (run.status, run.reason, run.result["signal"]) == (128 + getattr(signal, "SIG" + name), "signalled", "SIG" + name)


def test_a_realtime_signal_gives_128_plus_its_number():
    run = python("import os\nos.kill(os.getpid(), 40)")
    assert (run.status, run.reason) == (168, "signalled")


@pytest.mark.parametrize("code, name", [
    ("import os; os.abort()", "SIGABRT"),
    ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    ("import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __repr__(self): return repr(self)\nimport functools\nf = None\nfor _ in range(10**6): f = functools.partial(print, f)\nrepr(f)", "SIGSEGV"),
    ("import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)\nctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer_copy(b'x')), 0, 1 << 40)", "SIGSEGV"),
], ids=["abort", "null pointer", "stack overflow", "wild write"])
def test_each_crash_is_told_by_its_true_signal(code, name):
    run = python(code)
    assert (run.reason, run.result["signal"], run.status) == ("signalled", name, 128 + getattr(signal, name))


def test_a_python_exception_is_exit_code_one_with_its_traceback_on_stderr():
    run = python("1/0")
    assert (run.status, run.reason) == (1, "exited")
    assert "ZeroDivisionError" in run.err


@pytest.mark.parametrize("command", ["no-such-command", "./no-such-file", "/no/such/path"])
def test_a_command_that_is_not_there_is_127(command):
    run = cove("run", "--", command)
    assert run.status == 127
    assert run.err.startswith(f"cove: {command}: ") and "not found" in run.err


@pytest.mark.parametrize("mode, content, command", [
    (0o644, b"#!/bin/sh\necho no\n", "./tool"),
    (0o755, b"just words\n", "./tool"),
    (0o755, b"\x7fELF but not really", "./tool"),
    (0o755, b"", "./tool"),
    (0o644, b"", "/usr"),
], ids=["no execute bit", "no shebang", "broken ELF", "empty", "a directory"])
def test_what_cannot_be_executed_is_126(workdir, mode, content, command):
    tool = workdir / "tool"
    tool.write_bytes(content)
    tool.chmod(mode)
    run = cove("run", "--file", tool, "--", command)
    assert run.status == 126
    assert run.err.startswith(f"cove: {command}: cannot be run: ")


@pytest.mark.parametrize("arguments, status", [
    (["--", "no-such-command"], 127), (["--", "/usr"], 126), (["--stdin", "/no/such", "--", "true"], 125), (["/no/such.py"], 125),
])
def test_with_json_trouble_is_an_object_with_exit_code_and_error(arguments, status):
    run = run_json(*arguments)
    assert run.status == status
    assert set(run.result) == {"exit_code", "error"}
    assert run.result["exit_code"] == status
    assert run.result["error"] and run.result["error"] in run.stderr.decode()


@pytest.mark.parametrize("arguments", [["--memory", "lots", "--", "true"], ["--net", "full", "--", "true"], ["--pids", "many", "--", "true"], []])
def test_with_json_a_refused_command_line_is_an_object_too(arguments):
    run = run_json(*arguments)
    assert run.status == 125
    assert run.result and run.result["exit_code"] == 125 and run.result["error"]


@pytest.mark.parametrize("number", ["KILL", "TERM", "STOP", "INT", "SEGV"])
def test_the_program_cannot_hurt_pid_one(number):
    run = python(f"import os, signal\nos.kill(1, signal.SIG{number})\nprint('still here')\nraise SystemExit(4)")
    assert (run.status, run.reason, run.out) == (4, "exited", "still here\n")


def test_a_child_that_kills_everything_it_can_ends_the_program_by_a_signal_not_the_sandbox():
    run = python("import os, time\nif os.fork() == 0:\n    os.kill(-1, 9)\n    os._exit(0)\ntime.sleep(600)")
    assert (run.status, run.reason) == (137, "signalled")


def test_killing_the_parent_changes_nothing():
    run = python("import os\nos.kill(os.getppid(), 9)\nprint(os.getppid())")
    assert (run.status, run.out) == (0, "1\n")
