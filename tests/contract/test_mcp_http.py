"""MCP over HTTP as a transport: sessions, streams that break, headers, who may come in, and the events of before."""
import concurrent.futures
import json
import time

import pytest
from conftest import cove, new_marker, processes_with, wait_until
from server import Server, new_id

BOTH = "application/json, text/event-stream"
JSON = {"Content-Type": "application/json", "Accept": BOTH}


@pytest.fixture(scope="module")
def server():
    with Server("--mcp-sse=true", "--http-allowed-origins=https://console.example") as running:
        yield running


def initialize(server, version="2025-11-25", headers=None, capabilities=None):
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": {"name": "t", "version": "1"}}}
    return server.post("/mcp", body, headers={**JSON, **(headers or {})})


@pytest.fixture()
def session(server):
    return {**JSON, "Mcp-Session-Id": initialize(server).headers["Mcp-Session-Id"]}


def request(method, number=1, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def run(code, language="python", number=1, meta=None, **arguments):
    return request("tools/call", number, name="execute_code", arguments={"language": language, "code": code, **arguments}, **({"_meta": meta} if meta else {}))


def messages_of(stream):
    """Those of an event stream until it ends; what primes it is none."""
    out = []
    while (event := stream.next_as_sent()) is not None:
        if event["data"]:
            out.append((event.get("id"), json.loads(event["data"])))
    return out


def result_of(answer):
    """Of a POST, in whichever form it came."""
    if answer.headers["Content-Type"] == "application/json":
        return answer.json["result"]
    return json.loads(answer.body.decode().strip().rpartition("data: ")[2])["result"]


def test_d80_initialize_gives_a_session(server):
    answer = initialize(server)
    name = answer.headers["Mcp-Session-Id"]
    assert answer.status == 200 and len(name) >= 32 and all(0x21 <= ord(c) <= 0x7e for c in name)
    assert answer.json["result"]["protocolVersion"] == "2025-11-25" and answer.json["result"]["serverInfo"]["name"] == "cove"
    assert initialize(server).headers["Mcp-Session-Id"] != name


def test_d81_requests_without_a_session(server, session):
    assert server.post("/mcp", request("ping"), headers=session).json["result"] == {}
    without = server.post("/mcp", request("ping"), headers=JSON)
    assert (without.status, without.json["error"]["code"]) == (400, -32000)
    unknown = server.post("/mcp", request("ping"), headers={**JSON, "Mcp-Session-Id": "f" * 32})
    assert (unknown.status, unknown.json["error"]["code"]) == (404, -32001)
    assert server.delete("/mcp", headers=session).status == 204
    assert server.post("/mcp", request("ping"), headers=session).status == 404
    assert server.delete("/mcp", headers=session).status == 404


def test_deleting_a_session_ends_what_runs_in_it(server, session):
    marker = new_marker()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        call = pool.submit(server.post, "/mcp", run(f"exec -a {marker} sleep 300", "bash"), headers=session)
        assert wait_until(lambda: processes_with(marker))
        assert server.delete("/mcp", headers=session).status == 204
        assert wait_until(lambda: not processes_with(marker))
        call.result(timeout=20)


@pytest.mark.parametrize("headers, status", [
    ({"MCP-Protocol-Version": "1999-01-01"}, 400),
    ({"MCP-Protocol-Version": "2025-06-18"}, 200),
    ({"Accept": "text/html"}, 406),
    ({"Accept": "*/*"}, 200),
    ({"Accept": "application/json"}, 200),
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": "application/json; charset=utf-8"}, 200),
])
def test_d82_headers(server, session, headers, status):
    assert server.post("/mcp", request("ping"), headers={**session, **headers}).status == status


def test_d82_a_body_that_is_too_large(server, session):
    answer = server.post("/mcp", run("#" + "x" * (5 << 20)), headers=session)
    assert answer.status == 413 and answer.json["error"]["code"] == -32600


def test_d82_a_body_that_is_no_json(server, session):
    answer = server.request("POST", "/mcp", b"{", headers=session)
    assert answer.status == 400 and answer.json["error"]["code"] == -32700


def test_one_form_is_listed_and_that_is_used(server, session):
    with server.sse("/mcp", "POST", request("ping"), headers={**session, "Accept": "text/event-stream"}) as stream:
        assert [message["result"] for _, message in messages_of(stream)] == [{}]
    answer = server.post("/mcp", run("print(1)", meta={"progressToken": 1}), headers={**session, "Accept": "application/json"})
    assert answer.headers["Content-Type"] == "application/json" and answer.json["id"] == 1


def test_d83_what_wants_no_answer_is_taken(server, session):
    for body in ({"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 5, "result": {}}):
        answer = server.post("/mcp", body, headers=session)
        assert answer.status == 202 and answer.body == b""


def test_d84_the_stream_of_the_server(server, session):
    accept = {**session, "Accept": "text/event-stream"}
    with server.sse("/mcp", headers=accept) as first:
        with server.sse("/mcp", headers=accept):
            assert first.next_as_sent() is None  # the newest has it
    assert server.get("/mcp", headers={**session, "Accept": "application/json"}).status == 406
    other = server.put("/mcp", b"", headers=session)
    assert other.status == 405 and "POST" in other.headers["Allow"]


def test_d85_three_calls_at_once_get_their_own_answers(server, session):
    def one(number):
        body = run(f"for i in range(3): print({number}, flush=True); __import__('time').sleep(0.3)", number=f"call-{number}", meta={"progressToken": f"token-{number}"}, session_id=f"{new_id()}")
        with server.sse("/mcp", "POST", body, headers=session) as stream:
            return [message for _, message in messages_of(stream)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for number, messages in enumerate(pool.map(one, range(3))):
            assert messages[-1]["id"] == f"call-{number}" and messages[-1]["result"]["structuredContent"]["stdout"] == f"{number}\n" * 3
            assert all(message["params"]["progressToken"] == f"token-{number}" for message in messages[:-1])


def test_d86_a_stream_that_broke_goes_on(server, session):
    code = "import time\nfor i in range(5): print('line', i, flush=True); time.sleep(0.4)"
    with server.sse("/mcp", "POST", run(code, meta={"progressToken": "p"}), headers=session) as stream:
        primer = stream.next_as_sent()
        assert primer["id"] and not primer["data"]
        first = stream.next_as_sent()
        assert json.loads(first["data"])["method"] == "notifications/progress"
    with server.sse("/mcp", headers={**session, "Accept": "text/event-stream", "Last-Event-ID": first["id"]}) as stream:
        rest = messages_of(stream)
    assert rest[-1][1]["result"]["structuredContent"]["exit_code"] == 0
    steps = [message["params"]["progress"] for _, message in rest[:-1]]
    assert steps == sorted(set(steps)) and steps[0] == 2  # each once, and none is missing
    with server.sse("/mcp", headers={**session, "Accept": "text/event-stream", "Last-Event-ID": primer["id"]}) as stream:
        assert len(messages_of(stream)) == len(rest) + 1  # it can be had again


def test_d86_an_event_that_never_was(server, session):
    for name in ("nothing", "99_1", "_", "1_x"):
        assert server.get("/mcp", headers={**session, "Accept": "text/event-stream", "Last-Event-ID": name}).status == 400


def test_a_slow_answer_becomes_events_that_can_be_come_back_to(server, session):
    answer = server.post("/mcp", request("tools/list"), headers=session)
    assert answer.headers["Content-Type"] == "application/json"
    with server.sse("/mcp", "POST", run("import time; time.sleep(2); print('slow')"), headers=session) as stream:
        primer = stream.next_as_sent()
    with server.sse("/mcp", headers={**session, "Accept": "text/event-stream", "Last-Event-ID": primer["id"]}) as stream:
        assert messages_of(stream)[-1][1]["result"]["structuredContent"]["stdout"] == "slow\n"


def test_no_empty_event_for_clients_that_would_parse_it(server):
    session = {**JSON, "Mcp-Session-Id": initialize(server, "2025-03-26").headers["Mcp-Session-Id"]}
    with server.sse("/mcp", "POST", run("print(1)", meta={"progressToken": 1}), headers={**session, "Accept": "text/event-stream"}) as stream:
        assert json.loads(stream.next_as_sent()["data"])


def test_d64_who_leaves_cancels_in_the_newest_revision_and_not_before(server, session):
    modern = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 1}
    headers = {**JSON, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "execute_code"}
    for left, (body_meta, sent) in {"killed": (modern, headers), "runs on": ({"progressToken": 1}, session)}.items():
        marker = new_marker()
        with server.sse("/mcp", "POST", run(f"echo begun; exec -a {marker} sleep 300", "bash", meta=body_meta), headers=sent):
            assert wait_until(lambda: processes_with(marker))
        if left == "killed":
            assert wait_until(lambda: not processes_with(marker))
        else:
            time.sleep(0.7)  # as long as it would have taken to notice
            assert processes_with(marker)
            server.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, headers=session)
            assert wait_until(lambda: not processes_with(marker))


@pytest.mark.parametrize("headers, status", [
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Host": "evil.example"}, 403),
    ({"Host": "localhost"}, 200),
    ({"Host": "127.0.0.1"}, 200),
    ({"Host": "[::1]"}, 200),
    ({"Origin": "https://console.example"}, 200),
])
def test_d87_origins_and_hosts(server, headers, status):
    assert initialize(server, headers=headers).status == status


def test_pages_of_allowed_origins_can_read_and_no_others(server):
    asked = {"Origin": "https://console.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-session-id"}
    answer = server.request("OPTIONS", "/mcp", headers=asked)
    assert answer.status == 204 and answer.headers["Access-Control-Allow-Origin"] == "https://console.example"
    assert "mcp-session-id" in answer.headers["Access-Control-Allow-Headers"]
    read = initialize(server, headers={"Origin": "https://console.example"})
    assert "Mcp-Session-Id" in read.headers["Access-Control-Expose-Headers"]
    refused = server.request("OPTIONS", "/mcp", headers={**asked, "Origin": "https://evil.example"})
    assert refused.status == 403 and "Access-Control-Allow-Origin" not in refused.headers
    assert "Access-Control-Allow-Origin" not in initialize(server).headers


@pytest.fixture(scope="module")
def guarded():
    with Server() as running:
        running.stop()
        running.keys = {tenant: cove("key", "create", "--tenant", tenant, "--state-dir", running.state_dir).out.strip() for tenant in ("a", "b")}
        running.start()
        yield running


def test_d88_keys(guarded):
    for headers in ({}, {"Authorization": "Bearer cove_wrong"}):
        answer = initialize(guarded, headers=headers)
        assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert initialize(guarded, headers={"Authorization": f"Bearer {guarded.keys['a']}"}).status == 200
    assert guarded.post(f"/mcp?key={guarded.keys['a']}", request("ping"), headers=JSON).status == 401


def test_a_session_is_its_owners(guarded):
    owner, other = ({"Authorization": f"Bearer {guarded.keys[tenant]}"} for tenant in ("a", "b"))
    session = {**JSON, "Mcp-Session-Id": initialize(guarded, headers=owner).headers["Mcp-Session-Id"]}
    assert guarded.post("/mcp", request("ping"), headers={**session, **owner}).status == 200
    for method in ("POST", "GET", "DELETE"):
        assert guarded.request(method, "/mcp", request("ping") if method == "POST" else None, headers={**session, **other}).status == 404
    assert guarded.post("/mcp", request("ping"), headers=session).status == 401


def test_d54_two_tenants_with_one_session_id_are_apart(guarded):
    name = new_id()
    seen = []
    for tenant in ("a", "b"):
        owner = {"Authorization": f"Bearer {guarded.keys[tenant]}"}
        session = {**JSON, **owner, "Mcp-Session-Id": initialize(guarded, headers=owner).headers["Mcp-Session-Id"]}
        code = "import os\nprint(sorted(os.listdir('.')))\nopen('mine.txt', 'w').close()"
        answer = guarded.post("/mcp", run(code, session_id=name), headers=session)
        seen.append(result_of(answer)["structuredContent"]["stdout"])
    assert seen == ["[]\n", "[]\n"]


def test_requests_without_a_session_where_that_is_configured():
    with Server("--mcp-stateless=true") as running:
        answer = running.post("/mcp", run("print(6 * 7)"), headers=JSON)
        assert answer.status == 200 and any(block.get("text") == "42" for block in result_of(answer)["content"])
        begun = initialize(running)
        assert begun.status == 200 and "Mcp-Session-Id" not in begun.headers


def test_get_and_delete_are_not_of_the_newest_revision(server):
    for method in ("GET", "DELETE"):
        answer = server.request(method, "/mcp", headers={"Accept": "text/event-stream", "MCP-Protocol-Version": "2026-07-28"})
        assert answer.status == 405 and answer.headers["Allow"] == "POST"


def test_an_answer_nobody_asked_for_is_refused_in_the_newest_revision(server):
    answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "result": {}}, headers={**JSON, "MCP-Protocol-Version": "2026-07-28"})
    assert answer.status == 400 and answer.json["error"]["code"] == -32600


# --- HTTP with events

def test_d89_http_with_events(server):
    with server.sse("/sse", headers={"Accept": "text/event-stream"}) as stream:
        endpoint = stream.next_as_sent()
        assert endpoint["event"] == "endpoint" and endpoint["data"].startswith("/message?sessionId=")
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}}
        taken = server.post(endpoint["data"], body, headers=JSON)
        assert (taken.status, taken.body) == (202, b"Accepted")
        assert json.loads(stream.next_as_sent()["data"])["result"]["protocolVersion"] == "2024-11-05"
        server.post(endpoint["data"], run("print(7)", number=2), headers=JSON)
        result = json.loads(stream.next_as_sent()["data"])["result"]
        assert "7" in [block["text"] for block in result["content"]] and "structuredContent" not in result
    assert server.post("/message?sessionId=none", body, headers=JSON).status == 404
    assert wait_until(lambda: server.post(endpoint["data"], body, headers=JSON).status == 404)  # with its stream it is gone


def test_http_with_events_is_off_unless_asked_for(guarded):
    owner = {"Authorization": f"Bearer {guarded.keys['a']}"}
    answer = guarded.get("/sse", headers={"Accept": "text/event-stream", **owner})
    assert answer.status == 404 and "--mcp-sse" in answer.json["error"]["message"]
    assert guarded.post("/message?sessionId=x", {}, headers={**JSON, **owner}).status == 404
    assert guarded.get("/sse", headers={"Accept": "text/event-stream"}).status == 401


def test_200_calls_at_once_8_wide(server, session):
    def one(number):
        answer = server.post("/mcp", run(f"print({number})", number=number, session_id=f"wide-{number % 8}"), headers=session)
        return result_of(answer)["structuredContent"]["stdout"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(200))) == [f"{number}\n" for number in range(200)]
