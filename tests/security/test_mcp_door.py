"""What an attack on the MCP door tried: one client that harms others, and answers or memory without a bound."""
import contextlib
import http.client
import json

import pytest
from conftest import cove
from mcp_client import Legacy
from mcp_stdio import Stdio
from server import Server, new_id

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def message(method, number=1, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize(server, headers=None, version="2025-11-25", **params):
    body = message("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "t", "version": "1"})
    body["params"].update(params)
    return server.post("/mcp", body, headers={**HEADERS, **(headers or {})})


@pytest.fixture(scope="module")
def tenants(server):  # which is to be ended after it, as it looks for what is left
    with Server() as running:
        running.stop()
        running.keys = {name: cove("key", "create", "--json", "--tenant", name, "--state-dir", running.state_dir).result for name in ("alice", "bob", "carol")}
        running.start()
        yield running


def key(server, name):
    return {"Authorization": f"Bearer {server.keys[name]['key']}"}


def test_a_path_of_a_megabyte_is_refused_before_it_is_looked_at(server):
    client = Legacy(server)
    path = "./" * 500_000 + "/"
    for tool, arguments in {"read_file": {"path": path}, "execute_code": {"language": "bash", "code": ":", "filename": path}}.items():
        result = client.call(tool, {"session_id": new_id(), **arguments})
        assert result["isError"] and "too long" in result["content"][0]["text"]


def test_one_tenant_cannot_end_the_sessions_of_another(tenants):
    bob = {**key(tenants, "bob"), "Mcp-Session-Id": initialize(tenants, key(tenants, "bob")).headers["Mcp-Session-Id"]}
    first = {**key(tenants, "alice"), "Mcp-Session-Id": initialize(tenants, key(tenants, "alice")).headers["Mcp-Session-Id"]}
    for _ in range(300):
        assert initialize(tenants, key(tenants, "alice")).status == 200
    assert tenants.post("/mcp", message("ping"), headers={**HEADERS, **bob}).status == 200
    assert tenants.post("/mcp", message("ping"), headers={**HEADERS, **first}).status == 404  # her own made way


def test_a_revoked_key_runs_nothing_more(tenants):
    shown = tenants.keys["carol"]
    with Stdio("--url", f"http://127.0.0.1:{tenants.port}", "--key", shown["key"]) as client:
        assert client.ask("ping")[0]["result"] == {}
        session = {**HEADERS, **key(tenants, "carol"), "Mcp-Session-Id": initialize(tenants, key(tenants, "carol")).headers["Mcp-Session-Id"]}
        with tenants.sse("/mcp", headers={**session, "Accept": "text/event-stream"}) as stream:
            cove("key", "revoke", shown["id"], "--state-dir", tenants.state_dir)
            client.send(message("tools/call", name="execute_code", arguments={"language": "bash", "code": "echo ran"}))
            assert client.read() is None
            with contextlib.suppress(OSError, http.client.HTTPException):  # an end is an end
                assert stream.next_as_sent() is None


def test_sessions_without_a_name_are_their_connections(server):
    mine, theirs = Legacy(server), Legacy(server)
    mine.call("execute_code", {"language": "python", "code": "secret = 1; open('s.txt', 'w').write('s')"})
    name = mine.call("execute_code", {"language": "python", "code": "1"})["structuredContent"]["session_id"]
    assert name in [one["session_id"] for one in mine.call("list_sessions", {})["structuredContent"]["sessions"]]
    assert name not in json.dumps(theirs.call("list_sessions", {})) and name not in json.dumps(theirs.request("resources/list"))
    for tool, arguments in {"execute_code": {"language": "python", "code": "secret"}, "read_file": {"path": "s.txt"}, "close_session": {}, "reset_session": {}}.items():
        said = theirs.call(tool, {**arguments, "session_id": name})
        assert said["isError"] and "Unknown session" in said["content"][0]["text"], tool
    assert mine.request("resources/read", uri=f"workspace://{name}/s.txt")["contents"][0]["text"] == "s"
    answer = server.post("/mcp", message("resources/read", uri=f"workspace://{name}/s.txt"), headers={**HEADERS, "Mcp-Session-Id": initialize(server).headers["Mcp-Session-Id"]})
    assert answer.json["error"]["code"] == -32002


def test_the_answers_of_a_batch_have_a_bound(server):
    client, name = Legacy(server), new_id()
    client.call("execute_code", {"language": "python", "code": "open('z', 'w').write('a' * (4 << 20))", "session_id": name})
    session = {**HEADERS, "Mcp-Session-Id": initialize(server, version="2025-03-26").headers["Mcp-Session-Id"]}
    batch = [message("resources/read", number, uri=f"workspace://{name}/z") for number in range(6)]
    answer = server.request("POST", "/mcp", json.dumps(batch).encode(), headers={**session, "Accept": "application/json"})
    answers = answer.json
    assert len(answer.body) < 9 << 20 and len(answers) == 6 and sorted(one["id"] for one in answers) == list(range(6))
    assert sum("error" in one for one in answers) >= 4


def test_a_file_of_control_bytes_is_no_answer_too_long_to_read(server):
    client, name = Legacy(server), new_id()
    client.call("execute_code", {"language": "python", "code": "open('c', 'w').write(chr(1) * (4 << 20))", "session_id": name})
    content = client.request("resources/read", uri=f"workspace://{name}/c")["contents"][0]
    assert "text" not in content and len(content["blob"]) < 8 << 20


def test_capabilities_without_a_bound_are_refused(server):
    answer = initialize(server, capabilities={"experimental": {"x": ["y"] * 100_000}})
    assert answer.json["error"]["code"] == -32602 and "capabilities" in answer.json["error"]["message"]


def test_more_than_can_be_held_is_refused_and_the_rest_is_served(server):
    """Calls that wait for their turn hold what was sent."""
    name, many = new_id(), 20
    with Stdio("--url", f"http://127.0.0.1:{server.port}") as client:
        client.initialize()
        call = lambda number, code, **more: message("tools/call", number, name="execute_code", arguments={"language": "bash", "code": code, "session_id": name}, **more)
        client.send(call("first", "sleep 600"))
        for number in range(many):
            client.send(call(number, "echo ok", junk="x" * 15_000_000))
        answers = [client.read()]  # a refusal: everything else waits for the first
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "first"}})
        answers += [client.read() for _ in range(many - 1)]
        assert {"error" in one for one in answers} == {True, False}
        assert all("too large" in one["error"]["message"] for one in answers if "error" in one)
        assert client.ask("ping")[0]["result"] == {}


def test_a_message_of_too_many_elements_is_refused_before_it_is_parsed(server):
    """A parsed element takes many times the memory of its text."""
    zeros = [0] * 200_001
    answer = server.request("POST", "/mcp", message("ping", junk=zeros), headers=HEADERS)
    assert answer.status == 413 and "200000 elements" in answer.json["error"]["message"]
    with Stdio("--url", f"http://127.0.0.1:{server.port}") as client:
        client.initialize()
        client.send(message("ping", 7, junk=zeros))
        assert "200000 elements" in client.read()["error"]["message"]
        assert client.ask("ping")[0]["result"] == {}


def test_an_error_that_cannot_be_shown_is_told_and_the_interpreter_lives(server):
    client, name = Legacy(server), new_id()
    for language, code in (("javascript", "var e = new Error('x'); Object.defineProperty(e, 'message', {get() { throw 1 }}); throw e"), ("javascript", "throw new Error('x'.repeat(2e7))"),
                           ("python", "raise Exception('x' * 20_000_000)")):
        client.call("execute_code", {"language": language, "code": "kept = 5", "session_id": name})
        result = client.call("execute_code", {"language": language, "code": code, "session_id": name})["structuredContent"]
        assert result["exit_code"] == 1 and result["stderr"], code
        assert client.call("execute_code", {"language": language, "code": "kept", "session_id": name})["structuredContent"]["stdout"] == "5\n", code


def test_what_was_left_early_can_be_come_back_to(server):
    session = {**HEADERS, "Mcp-Session-Id": initialize(server).headers["Mcp-Session-Id"]}
    call = message("tools/call", name="execute_code", arguments={"language": "bash", "code": "sleep 0.6; echo late"})
    with pytest.raises(TimeoutError):
        server.request("POST", "/mcp", call, headers=session, timeout=0.3)
    def rest():
        with server.sse("/mcp", headers={**session, "Accept": "text/event-stream", "Last-Event-ID": "3_0"}) as stream:
            return json.loads(stream.next_as_sent()["data"])["result"]["structuredContent"]["stdout"]
    assert rest() == "late\n"
