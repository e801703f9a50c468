"""The object of --json: its keys, their types, and that it is the only thing on stdout."""
import json

import pytest
from conftest import cove, python, run_json

KEYS = {"exit_code", "signal", "reason", "stdout", "stderr", "truncated", "duration_ms", "cpu_ms", "peak_memory_bytes", "oom_kills", "forks_refused", "note", "limits", "isolation"}


def test_the_object_has_exactly_the_documented_keys_and_types():
    result = run_json("--", "echo", "hi").result
    assert set(result) == KEYS
    types = {key: type(value) for key, value in result.items()}
    assert types == {"exit_code": int, "signal": type(None), "reason": str, "stdout": str, "stderr": str, "truncated": dict, "duration_ms": int, "cpu_ms": int,
                     "peak_memory_bytes": int, "oom_kills": int, "forks_refused": int, "note": type(None), "limits": dict, "isolation": dict}


def test_the_nested_objects_have_exactly_the_documented_keys_and_types():
    result = run_json("--", "true").result
    assert {key: type(value) for key, value in result["truncated"].items()} == {"stdout": int, "stderr": int}
    limits = result["limits"]
    assert set(limits) == {"timeout_ms", "memory_bytes", "cpus", "pids", "disk_bytes", "inodes", "output_bytes"}
    assert all(type(value) in (int, float) for value in limits.values())
    isolation = result["isolation"]
    assert set(isolation) == {"backend", "mode", "unique_uid", "namespaces", "cgroup", "seccomp", "landlock", "network", "template", "degraded"}
    assert isolation["namespaces"] == ["user", "mount", "pid", "net", "ipc", "uts", "cgroup"]
    assert (isolation["network"], isolation["template"], isolation["degraded"]) == ("none", "host", [])


@pytest.mark.parametrize("arguments, extra", [
    (["-c", "pass"], set()),
    (["--timeout", "100ms", "--", "sleep", "600"], set()),
    (["--", "sh", "-c", "kill -9 $$"], set()),
    (["--out", "missing:/nowhere/x", "--", "true"], {"out"}),
    (["-c", "import os; os.write(1, b'\\xff')"], {"stdout_base64"}),
    (["-c", "import os; os.write(2, b'\\xff')"], {"stderr_base64"}),
], ids=["success", "timeout", "signal", "out", "binary stdout", "binary stderr"])
def test_the_keys_are_the_same_however_the_run_ended(arguments, extra):
    assert set(run_json(*arguments).result) == KEYS | extra


def test_it_is_one_line_and_nothing_else_is_on_stdout():
    run = cove("run", "--json", "-c", "print('a\\nb')")
    assert run.stdout.count(b"\n") == 1 and run.stdout.endswith(b"}\n")
    assert json.loads(run.stdout)["stdout"] == "a\nb\n"


def test_the_exit_status_of_cove_is_the_exit_code_of_the_object():
    run = run_json("--", "sh", "-c", "exit 42")
    assert run.status == run.result["exit_code"] == 42


def test_the_limits_are_those_that_were_asked_for():
    limits = run_json("--timeout", "5s", "--memory", "100M", "--cpus", "0.5", "--pids", "33", "--disk", "20M", "--output-limit", "5K", "--", "true").result["limits"]
    assert limits == {"timeout_ms": 5000, "memory_bytes": 100 << 20, "cpus": 0.5, "pids": 33, "disk_bytes": 20 << 20, "inodes": limits["inodes"], "output_bytes": 5120}
    assert limits["inodes"] > 0


def test_cpu_time_and_duration_are_measured():
    busy = python("import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass").result
    idle = python("import time\ntime.sleep(0.5)").result
    assert busy["cpu_ms"] >= 300 and busy["duration_ms"] >= 300
    assert idle["duration_ms"] >= 500 and idle["cpu_ms"] < busy["cpu_ms"]


def test_cpu_time_counts_children_nobody_waited_for():
    run = python("import os, time\n"
                 "if os.fork() == 0:\n"
                 "    end = time.process_time() + 0.4\n"
                 "    while time.process_time() < end: pass\n"
                 "    open('done', 'w').close(); time.sleep(600)\n"
                 "while not os.path.exists('done'): time.sleep(0.01)", "--cpus", "2")
    assert run.result["cpu_ms"] >= 400


def test_quiet_and_json_go_together():
    run = cove("run", "--json", "--quiet", "--timeout", "100ms", "--", "sleep", "600")
    assert (run.status, run.stderr) == (124, b"")
    assert run.result["reason"] == "timeout"
