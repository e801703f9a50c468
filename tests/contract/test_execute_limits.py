"""Settings, admission and what is counted (section 10); tenants; and that nothing of a run stays behind."""
import http.client
import json
import re
import threading
import time

import pytest
from conftest import HostState, new_marker, processes_with, wait_until
from hostile import Tenant, make_key, server_with_tenants
from interpreter import JSON, ask, bash, events_of, fetch, keep, new_session, run, send_file, stream
from server import Server, at

SLEEP = "import time; time.sleep(60)"


class Busy:
    """A run that goes on until it is told to end."""

    def __init__(self, server, path="/v1/execute", headers=None):
        self.marker = new_marker()
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        code = f"import subprocess; subprocess.run(['bash', '-c', 'sleep 600; : {self.marker}'])"
        self.connection.request("POST", path, json.dumps({"code": code, "timeout_ms": 60000}).encode(), {**JSON, **(headers or {})})
        assert wait_until(lambda: processes_with(self.marker), 10)

    def end(self):
        self.connection.close()
        assert wait_until(lambda: not processes_with(self.marker), 10)


# --- admission

def test_without_a_slot_it_is_429_before_any_stream(fresh_server):
    server = fresh_server(env={"MAX_CONCURRENT_EXECUTIONS": "1", "EXECUTION_QUEUE_TIMEOUT_SEC": "0", "EXECUTION_RETRY_AFTER_SEC": "7"})
    session = new_session(server)
    busy = Busy(server)
    asked = [("/v1/execute", {"code": "1"}), ("/v1/execute/stream", {"code": "1"}), ("/v1/sessions", {}), (f"/v1/sessions/{session}/bash", {"cmd": "true"})]
    for path, body in asked:
        answer = server.post(path, body)
        assert (answer.status, list(answer.json), answer.headers["Retry-After"]) == (429, ["detail"], "7") and "saturated" in answer.json["detail"], path
        assert answer.headers["Content-Type"] == "application/json"
    assert server.post("/v1/execute", {"code": "1", "timeout_ms": 10**9}).status == 422, "what is wrong is told first"
    assert server.post("/v1/execute", {"code": "1", "files": [{"path": "x", "file_id": "y"}]}).status == 429
    assert server.get("/health").json == {"status": "ok"} and server.get("/ready").status == 200 and send_file(server, "x").status == 201
    text = server.get("/metrics").body.decode()
    for operation in ("execute", "execute_stream", "session_create", "session_bash"):
        wanted = 2 if operation == "execute" else 1
        assert sample(text, "code_interpreter_executions_rejected_total", operation=operation, status="429", reason="concurrency_limit") == wanted
    assert sample(text, "code_interpreter_executions_active", operation="execute") == 1
    busy.end()
    assert wait_until(lambda: ask(server, "1", timeout_ms=20000).status == 200, 10), "the slot is free again"


def test_who_waits_runs_when_a_slot_comes_free(fresh_server):
    server = fresh_server("--execute-max-concurrent", "1", "--execute-queue-timeout", "60s")
    busy = Busy(server)
    results = []
    thread = threading.Thread(target=lambda: results.append(ask(server, "print('ran')", timeout_ms=20000)))
    thread.start()
    time.sleep(0.5)
    assert not results
    busy.end()
    thread.join(30)
    assert results[0].json["stdout"] == "ran\n"


def test_a_queue_has_its_time(fresh_server):
    server = fresh_server("--execute-max-concurrent", "1", "--execute-queue-timeout", "300ms")
    busy = Busy(server)
    assert ask(server, "1").status == 429
    busy.end()


def test_as_many_at_once_as_there_are_slots(fresh_server):
    server = fresh_server("--execute-max-concurrent", "8", "--execute-queue-timeout", "0")
    busy = [Busy(server) for _ in range(8)]
    assert ask(server, "1").status == 429
    for one in busy:
        one.end()


def test_no_sandbox_is_503_with_its_reason(fresh_server):
    server = fresh_server("--max-sandboxes", "1", env={"CAPACITY_RETRY_AFTER_SEC": "12"})
    server.create("takes-the-place")
    for path, body in (("/v1/execute", {"code": "1"}), ("/v1/execute/stream", {"code": "1"}), ("/v1/sessions", {})):
        answer = server.post(path, body)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "12") and answer.json["detail"].startswith("Executor capacity unavailable (quota_exceeded): ")
    assert sample(server.get("/metrics").body.decode(), "code_interpreter_executions_rejected_total", operation="execute", status="503", reason="quota_exceeded") == 1
    assert server.delete(at("takes-the-place")).status == 204
    assert ask(server, "1", timeout_ms=20000).status == 200


# --- what is counted

def sample(text, name, **labels):
    """The value of one series; None when it is not there."""
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if found and found[1] == name and dict(re.findall(r'(\w+)="([^"]*)"', found[2] or "")) == labels:
            return float(found[3])
    return None


def test_what_is_counted(fresh_server):
    server = fresh_server("--execute-max-concurrent", "5")
    text = server.get("/metrics").body.decode()
    assert sample(text, "code_interpreter_executions_limit") == 5
    for operation in ("execute", "execute_stream", "session_create", "session_bash"):
        assert sample(text, "code_interpreter_executions_active", operation=operation) == 0
        for histogram in ("code_interpreter_admission_wait_seconds", "code_interpreter_execution_duration_seconds"):
            bounds = [".05", ".1", ".25", ".5", "1", "2.5", "5", "10", "30", "60", "120", "300", "+Inf"]
            found = re.findall(histogram + r'_bucket\{operation="' + operation + r'",le="([^"]+)"\}', text)
            assert [float(bound) for bound in found] == [float(bound) for bound in bounds]
    run(server, "1/0")
    run(server, SLEEP, timeout_ms=200)
    ask(server, "1", files=[{"path": "x", "file_id": "unknown"}])
    stream(server, "1")
    session = new_session(server)
    bash(server, session, "exit 3")
    bash(server, session, "sleep 60", timeout_ms=200)

    def counted():
        text = server.get("/metrics").body.decode()
        completed = lambda operation, outcome: sample(text, "code_interpreter_executions_completed_total", operation=operation, outcome=outcome)
        return [completed("execute", "ok"), completed("execute", "timed_out"), completed("execute", "error"), completed("execute_stream", "ok"), completed("session_create", "ok"), completed("session_bash", "ok"), completed("session_bash", "timed_out"),
                sample(text, "code_interpreter_execution_duration_seconds_count", operation="execute"), sample(text, "code_interpreter_admission_wait_seconds_count", operation="execute")]

    assert wait_until(lambda: counted() == [1, 1, 1, 1, 1, 1, 1, 3, 3], 5), counted()


# --- settings by their other names

def test_settings_by_the_names_that_such_servers_know(fresh_server):
    server = fresh_server(env={"MAX_EXEC_TIMEOUT_MS": "5000", "MAX_OUTPUT_BYTES": "100", "CPU_TIME_LIMIT_SEC": "1", "MEMORY_LIMIT_MB": "64", "MAX_FILE_SIZE_MB": "1", "FILE_TTL_SEC": "", "HOST": "203.0.113.9", "PORT": "1"})
    assert ask(server, "1", timeout_ms=5001).json == {"detail": "timeout_ms exceeds maximum of 5000 ms"}
    assert ask(server, "1", timeout_ms=5000).status == 200
    assert run(server, "print('x' * 200)", timeout_ms=5000)["stdout"] == "x" * 68 + "\n...[truncated]"
    result = run(server, "while True: pass", timeout_ms=5000)
    assert (result["exit_code"], result["timed_out"]) == (137, False)
    assert run(server, "b = bytearray(100 << 20)", timeout_ms=5000)["exit_code"] == 137
    assert run(server, "b = bytearray(20 << 20)", timeout_ms=5000)["exit_code"] == 0
    assert send_file(server, bytes((1 << 20) + 1)).json == {"detail": "File size exceeds maximum of 1 MB"}
    assert send_file(server, bytes(1 << 20)).status == 201


def test_processor_time_is_counted_for_each_process(server):
    result = run(server, "while True: pass", timeout_ms=60000)
    assert (result["exit_code"], result["timed_out"], result["duration_ms"] >= 4000) == (137, False, True)


def test_processes_are_bounded(server):
    result = run(server, "import os, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(30)\n    n += 1\nexcept OSError: print(n < 64)", last_line_interactive=False)
    assert result["stdout"] == "True\n"


def test_settings_can_change_while_it_runs(tmp_path):
    file = tmp_path / "cove.toml"
    file.write_text('[execute]\nmax_timeout = "1s"\n')
    with Server("--config", file) as server:
        assert ask(server, "1", timeout_ms=2000).status == 422
        file.write_text('[execute]\nmax_timeout = "20s"\nmax_concurrent = 3\n[files]\nmax_size = "1M"\n')
        server.popen.send_signal(__import__("signal").SIGHUP)
        assert wait_until(lambda: ask(server, "1", timeout_ms=20000).status == 200, 10)
        assert send_file(server, bytes(2 << 20)).status == 413
        assert sample(server.get("/metrics").body.decode(), "code_interpreter_executions_limit") == 3


# --- tenants

@pytest.fixture(scope="module")
def tenants():
    server, tenants = server_with_tenants("a", "b")
    yield tenants["a"], tenants["b"]
    server.close()


def test_files_are_their_tenants_alone(tenants):
    a, b = tenants
    mine = keep(a, "secret", "mine")
    assert fetch(a, mine) == b"secret" and [entry["filename"] for entry in a.get("/v1/files").json["files"]] == ["mine"]
    assert b.get("/v1/files").json == {"files": []}
    for answer in (b.get("/v1/files/" + mine), b.delete("/v1/files/" + mine)):
        assert (answer.status, answer.json) == (404, {"detail": f"File with ID '{mine}' not found"})
    assert ask(b, "1", files=[{"path": "x", "file_id": mine}]).status == 404
    assert b.post("/v1/sessions", {"files": [{"path": "x", "file_id": mine}]}).status == 404
    made = run(a, "open('f', 'w').write('x')")["files"][0]["file_id"]
    assert b.get("/v1/files/" + made).status == 404 and a.get("/v1/files/" + made).status == 200


def test_sessions_are_their_tenants_alone(tenants):
    a, b = tenants
    session = new_session(a)
    assert bash(a, session, "echo x")["stdout"] == "x\n"
    assert b.post(f"/v1/sessions/{session}/bash", {"cmd": "true"}).status == 404 and b.delete(f"/v1/sessions/{session}").status == 404
    assert a.delete(f"/v1/sessions/{session}").status == 204


def test_what_a_key_allows_counts_here_too():
    server = Server("--drain", "1s", "--execute-queue-timeout", "200ms")
    try:
        one = make_key(server, "one", "--concurrent-executions", "1")
        few = make_key(server, "few", "--executions-per-minute", "2")
        boxed = make_key(server, "boxed", "--max-sandboxes", "1")
        small = make_key(server, "small", "--max-memory", "100M")
        server.start()
        one, few, boxed, small = (Tenant(server, key["key"]) for key in (one, few, boxed, small))
        busy = Busy(server, headers=one.headers)
        assert ask(one, "1").status == 429 and ask(boxed, "1", timeout_ms=20000).status == 200
        busy.end()
        assert [ask(few, "1", timeout_ms=20000).status for _ in range(3)] == [200, 200, 429]
        assert wait_until(lambda: boxed.post("/v1/sessions", {}).status == 201, 5)
        answer = ask(boxed, "1")
        assert answer.status == 503 and "(quota_exceeded)" in answer.json["detail"]
        assert ask(small, "1").status == 503
    finally:
        server.close()


# --- nothing stays behind

def sandboxes(server):
    return sample(server.get("/metrics").body.decode(), "cove_sandboxes")


def test_runs_are_in_no_list_and_leave_no_event(fresh_server):
    server = fresh_server()
    busy = Busy(server)
    assert server.get("/v1/sandboxes").json["sandboxes"] == [] and sandboxes(server) == 1
    busy.end()
    assert run(server, "1")["stdout"] == "1\n"
    assert wait_until(lambda: sandboxes(server) == 0, 10)
    assert server.get("/v1/events").json["events"] == []


@pytest.mark.parametrize("path", ["/v1/execute", "/v1/execute/stream"])
def test_a_client_that_leaves_leaves_nothing(fresh_server, path):
    server = fresh_server()
    Busy(server, path).end()
    assert wait_until(lambda: sandboxes(server) == 0, 10)
    assert sample(server.get("/metrics").body.decode(), "code_interpreter_executions_active", operation="execute") == 0


def test_runs_end_when_the_server_does(fresh_server):
    for flags in ((), ("--on-exit", "keep")):
        server = fresh_server("--drain", "100ms", *flags)
        busy = Busy(server)
        assert server.stop() == 0
        assert wait_until(lambda: not processes_with(busy.marker), 5), flags


def test_a_server_that_stops_waits_for_its_runs(fresh_server):
    server = fresh_server("--drain", "30s")
    results = []
    thread = threading.Thread(target=lambda: results.append(ask(server, "import time; time.sleep(1.5); print('whole')", timeout_ms=20000)))
    thread.start()
    assert wait_until(lambda: sandboxes(server) == 1, 5)
    server.terminate()
    assert wait_until(lambda: server.get("/ready").status == 503 if server.popen.poll() is None else True, 5)
    thread.join(30)
    assert results[0].json["stdout"] == "whole\n" and server.popen.wait(30) == 0


def test_runs_of_a_server_that_was_killed_are_swept(fresh_server):
    server = fresh_server()
    busy = Busy(server)
    server.restart()
    assert wait_until(lambda: not processes_with(busy.marker), 10)
    assert sandboxes(server) == 0 and run(server, "1")["stdout"] == "1\n"


def test_a_keeper_that_dies_under_a_run_does_not_end_it(fresh_server):
    import os
    import signal
    server = fresh_server()
    results, marker = [], new_marker()
    code = f"import subprocess; subprocess.run(['bash', '-c', 'sleep 2; : {marker}']); print('whole')"
    thread = threading.Thread(target=lambda: results.append(ask(server, code, timeout_ms=20000)))
    thread.start()
    assert wait_until(lambda: processes_with(marker), 10)
    os.kill(server.keeper(), signal.SIGKILL)
    thread.join(30)
    assert results[0].status == 200 and results[0].json["stdout"] == "whole\n", results[0]
    assert wait_until(lambda: sandboxes(server) == 0, 20)
