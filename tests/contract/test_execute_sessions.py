"""Sessions (section 9)."""
import re
import threading
import time

import pytest
from conftest import new_marker, processes_with, wait_until
from interpreter import bash, keep, new_session, unknown_id
from server import at


@pytest.fixture
def session(server):
    made = new_session(server)
    yield made
    server.delete(f"/v1/sessions/{made}")


def test_the_examples_of_the_contract(server):
    answer = server.post("/v1/sessions", {"ttl_seconds": 120})
    assert answer.status == 201 and list(answer.json) == ["session_id", "expires_at"]
    assert re.fullmatch(r"code-session-[0-9a-f]{32}", answer.json["session_id"]) and isinstance(answer.json["expires_at"], float)
    assert abs(answer.json["expires_at"] - time.time() - 120) < 10
    name = answer.json["session_id"]
    result = bash(server, name, "echo hi > a; wc -c a; exit 4")
    assert list(result) == ["stdout", "stderr", "exit_code", "timed_out", "duration_ms"]
    assert {**result, "duration_ms": 0} == {"stdout": "3 a\n", "stderr": "", "exit_code": 4, "timed_out": False, "duration_ms": 0} and type(result["duration_ms"]) is int
    assert bash(server, name, "cat a; pwd")["stdout"] == "hi\n/workspace\n"
    assert (server.delete(f"/v1/sessions/{name}").status, server.delete(f"/v1/sessions/{name}").status) == (204, 404)


def test_the_default_time(server):
    answer = server.post("/v1/sessions", {})
    assert abs(answer.json["expires_at"] - time.time() - 900) < 10
    assert server.delete("/v1/sessions/" + answer.json["session_id"]).status == 204


def test_files_persist_and_nothing_else_does(server, session):
    bash(server, session, "cd /tmp; export X=1; echo kept > /workspace/f; alias q=ls")
    assert bash(server, session, "cat f; pwd; echo \"[$X]\"; cat; echo end")["stdout"] == "kept\n/workspace\n[]\nend\n", "and stdin is empty"


@pytest.mark.parametrize("cmd, code", [("no-such-command-x", 127), ("exit 300", 44), ("kill -9 $$", 137), ("", 0), ("true", 0), ("false", 1), ("if", 2)])
def test_exit_codes(server, session, cmd, code):
    assert bash(server, session, cmd)["exit_code"] == code


def test_tools_that_clients_need(server, session):
    cmd = "mkdir -p r/top/src && echo 'needle' > r/top/src/a.py && tar -czf repo.tar.gz -C r top && rm -r r && tar -xzf repo.tar.gz --strip-components=1 && rm repo.tar.gz && ls && grep -rn needle . && find . -name '*.py' && sed -n 1p src/a.py && python -c 'print(6*7)' && gzip --version | head -1"
    result = bash(server, session, cmd)
    assert result["exit_code"] == 0 and result["stdout"].startswith("src\n./src/a.py:1:needle\n./src/a.py\nneedle\n42\ngzip"), result


def test_a_repository_as_a_product_uploads_it(server):
    import io
    import tarfile
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for n in range(50):
            info = tarfile.TarInfo(f"repo-main/file{n}.py")
            info.size = 6
            archive.addfile(info, io.BytesIO(b"x = 1\n"))
    name = new_session(server, ttl_seconds=3600, files=[{"path": "repo.tar.gz", "file_id": keep(server, buffer.getvalue())}])
    result = bash(server, name, "tar -xzf repo.tar.gz --strip-components=1 && rm repo.tar.gz && ls | wc -l", timeout_ms=60000)
    assert (result["stdout"].strip(), result["exit_code"]) == ("50", 0)
    assert server.delete(f"/v1/sessions/{name}").status == 204


def test_staged_files_and_a_main_of_ones_own(server):
    name = new_session(server, files=[{"path": "__main__.py", "file_id": keep(server, "print('main')")}, {"path": "d/x", "file_id": keep(server, "y")}])
    assert bash(server, name, "python __main__.py; cat d/x; stat -c '%a %Y %U' d/x")["stdout"] == "main\ny644 0 cove\n"
    server.delete(f"/v1/sessions/{name}")


def test_what_is_wrong_leaves_no_session(server):
    before = server.get("/v1/sandboxes").json
    assert server.post("/v1/sessions", {"files": [{"path": "x", "file_id": unknown_id()}]}).status == 404
    for path in ("../x", "/x", ""):
        answer = server.post("/v1/sessions", {"files": [{"path": path, "file_id": keep(server, "x")}]})
        assert answer.status == 422 and answer.json["detail"].startswith("File path")
    assert server.post("/v1/sessions", {"files": [{"path": "n" * 256, "file_id": keep(server, "x")}]}).status == 422
    assert wait_until(lambda: server.get("/v1/sandboxes").json == before, 10)


def test_time_out_leaves_the_session_usable(server, session):
    marker = new_marker()
    result = bash(server, session, f"echo out; echo err >&2; bash -c 'sleep 600; : {marker}'", timeout_ms=500)
    assert (result["stdout"], result["stderr"], result["exit_code"], result["timed_out"]) == ("out\n", "err\n", None, True)
    assert wait_until(lambda: not processes_with(marker), 10)
    assert bash(server, session, "echo on")["stdout"] == "on\n"


def test_a_time_out_ends_its_own_command_alone(server, session):
    results = []
    thread = threading.Thread(target=lambda: results.append(bash(server, session, "sleep 2; echo whole")))
    thread.start()
    assert bash(server, session, "sleep 600", timeout_ms=300)["timed_out"]
    thread.join()
    assert results[0]["stdout"] == "whole\n"


def test_output_is_cut_as_of_a_run(server, session):
    result = bash(server, session, "head -c 2000000 /dev/zero | tr '\\0' x")
    assert result["stdout"] == "x" * 999968 + "\n...[truncated]"


@pytest.mark.parametrize("words", ["Error: no such container: x", "container is not running"])
def test_words_on_stderr_are_words(server, session, words):
    result = bash(server, session, f"echo '{words}' >&2; exit 1")
    assert (result["stderr"], result["exit_code"]) == (words + "\n", 1)


def test_limits_are_those_of_a_run(server, session):
    assert bash(server, session, "ulimit -t; id -u")["stdout"] == "5\n1000\n"
    assert server.get(at(session)).json["limits"]["memoryBytes"] == 256 << 20 and server.get(at(session)).json["limits"]["pids"] == 64
    assert bash(server, session, "echo $PYTHONUNBUFFERED $MPLCONFIGDIR $VIRTUAL_ENV")["stdout"] == "1 /tmp/matplotlib /opt/executor-venv\n"
    assert bash(server, session, "curl -m 2 http://1.1.1.1 2>&1 | head -c 1 | wc -c; ls /sys/class/net 2>/dev/null; true")["exit_code"] == 0


def test_unknown_sessions(server):
    server.create("not-a-session")
    server.create("code-session-made-by-hand")
    for name in ("code-session-" + "0" * 32, "x", "not-a-session", "code-session-made-by-hand"):
        want = (404, {"detail": f"Session '{name}' not found"})
        answer = server.post(f"/v1/sessions/{name}/bash", {"cmd": "true"})
        assert (answer.status, answer.json) == want
        answer = server.delete(f"/v1/sessions/{name}")
        assert (answer.status, answer.json) == want
    for name in ("not-a-session", "code-session-made-by-hand"):
        assert server.delete(at(name)).status == 204


def test_the_order_of_failures(server):
    path = "/v1/sessions/code-session-none/bash"
    assert isinstance(server.post(path, {"cmd": 1, "timeout_ms": 10**9}).json["detail"], list)
    assert server.post(path, {"cmd": "ls", "timeout_ms": 60001}).json == {"detail": "timeout_ms exceeds maximum of 60000 ms"}
    assert server.post(path, {"cmd": "ls", "timeout_ms": 60000}).status == 404


def test_it_is_a_sandbox_of_the_other_door_too(server, session):
    bash(server, session, "echo x > f")
    assert server.out(session, "cat /workspace/f") == "x\n"
    assert session in [box["id"] for box in server.get("/v1/sandboxes").json["sandboxes"]]
    assert server.delete(at(session)).status == 204
    assert server.delete(f"/v1/sessions/{session}").status == 404


def test_use_does_not_renew_its_time(server):
    name = new_session(server, ttl_seconds=3)
    ends = time.monotonic() + 3
    while time.monotonic() < ends - 1:
        bash(server, name, "true")
        server.post(at(name, "touch"))
        server.put(at(name), {"ttlSeconds": 600})
        time.sleep(0.2)
    answer = server.post(f"/v1/sessions/{name}/bash", {"cmd": "sleep 50"})
    assert (answer.status, answer.json) == (404, {"detail": f"Session '{name}' not found"}), "also under a command"
    assert time.monotonic() < ends + 20
    assert wait_until(lambda: server.get(at(name)).status == 404, 10)


def test_a_client_that_leaves_ends_its_command(server, session):
    import http.client
    import json
    marker = new_marker()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", f"/v1/sessions/{session}/bash", json.dumps({"cmd": f"bash -c 'sleep 600; : {marker}'", "timeout_ms": 60000}).encode())
    assert wait_until(lambda: processes_with(marker), 10)
    connection.close()
    assert wait_until(lambda: not processes_with(marker), 10)
    assert bash(server, session, "echo on")["stdout"] == "on\n"


def test_a_session_survives_a_crash_and_keeps_its_end(fresh_server):
    server = fresh_server()
    made = server.post("/v1/sessions", {"ttl_seconds": 300}).json
    bash(server, made["session_id"], "echo x > f")
    server.restart()
    assert bash(server, made["session_id"], "cat f")["stdout"] == "x\n"
    short = new_session(server, ttl_seconds=1)
    server.kill9()
    time.sleep(1)
    server.start()
    assert server.post(f"/v1/sessions/{short}/bash", {"cmd": "true"}).status == 404
    assert server.delete("/v1/sessions/" + made["session_id"]).status == 204
