"""The MCP client over HTTP against servers that do what few do: eras, sessions, broken streams, headers (contracts/mcp.md, C3 and cases 91 to 93)."""
import base64
import json
import threading
import time

import pytest
from client_program import LEGACY, MODERN, Client, HttpServer, NotConnected, discovery, greeting, modern, text_result, tool


def legacy(on_call, tools=(tool("echo"),), session="s1", on_other=None):
    """A handler of a server of an older revision."""
    def handle(request):
        if on_other and on_other(request):
            return None
        if request.method != "POST":
            return request.answer(200 if request.method == "DELETE" else 405)
        message = request.json
        method = message.get("method")
        if method == "server/discover":
            return request.fault(400, -32000, "Bad Request: no session")
        if method == "initialize":
            return request.result(greeting(), **({"Mcp-Session-Id": session} if session else {}))
        if "id" not in message or method is None:
            return request.answer(202)
        if method == "tools/list":
            return request.result({"tools": list(tools)})
        return on_call(request)
    return handle


def connected(server, **more):
    return Client({"url": server.url, "type": "http", **more}, reach=server.reach)


def echo(request):
    request.result(text_result(json.dumps(request.json["params"]["arguments"])))


def header(request, name):
    return request.headers.get(name)


# --- the older revisions ----------------------------------------------------------------------------------------------

def test_a_session_is_named_in_every_request_and_ended():
    with HttpServer(legacy(echo)) as server:
        with connected(server, headers={"X-Key": "k"}) as client:
            assert client.hello["revision"] == LEGACY
            assert client.text("echo", {"a": 1}) == '{"a": 1}'
        first = server.of_method("initialize")[0]
        assert header(first, "Mcp-Session-Id") is None and header(first, "MCP-Protocol-Version") is None
        later = [one for one in server.requests if one.at > first.at]
        assert {header(one, "Mcp-Session-Id") for one in later} == {"s1"}
        assert {header(one, "MCP-Protocol-Version") for one in later} == {LEGACY}
        assert {header(one, "X-Key") for one in server.requests} == {"k"}
        assert all("application/json" in header(one, "Accept") and "text/event-stream" in header(one, "Accept") for one in server.requests if one.method == "POST")
        methods = [one.json["method"] for one in server.requests if one.json]
        assert methods.index("notifications/initialized") < methods.index("tools/list")
        assert server.requests[-1].method == "DELETE"


def test_a_forgotten_session_is_begun_anew_once():
    """Case 92."""
    sessions = []

    def handle(request):
        if request.json and request.json.get("method") == "initialize":
            sessions.append(f"s{len(sessions)}")
            return request.result(greeting(), **{"Mcp-Session-Id": sessions[-1]})
        named = header(request, "Mcp-Session-Id")
        if named and named != sessions[-1] or named in gone:
            return request.answer(404)
        return legacy(echo)(request)
    gone = set()
    with HttpServer(handle) as server, connected(server) as client:
        assert client.text("echo") == "{}"
        gone.add("s0")
        numbers = [client.order("call", name="echo", arguments={"n": i}) for i in range(10)]
        assert [client.answer(number)["content"][0]["text"] for number in numbers] == [json.dumps({"n": i}) for i in range(10)]
        assert sessions == ["s0", "s1"]
        gone.update(f"s{i}" for i in range(100))
        error = client.call("echo")["error"]
        assert error["code"] in ("unavailable", "not_found", "conflict")
        assert len(sessions) == 3


@pytest.mark.parametrize("retry", [500, None])
def test_a_broken_stream_is_taken_up_again(retry):
    """Case 92: GET with Last-Event-ID, after exactly the time that the server wants, 1 s else."""
    broken = []

    def other(request):
        if request.method != "GET" or not header(request, "Last-Event-ID"):
            return False
        request.stream()
        request.event({"jsonrpc": "2.0", "id": broken[0][1], "result": text_result("at last")}, number="e2")
        return True

    def call(request):
        request.stream()
        request.event(None, number="e1", retry=retry)
        broken.append((time.monotonic(), request.json["id"]))
    with HttpServer(legacy(call, on_other=other)) as server, connected(server) as client:
        assert client.text("echo") == "at last"
        again = [one for one in server.requests if header(one, "Last-Event-ID")]
        assert [header(one, "Last-Event-ID") for one in again] == ["e1"]
        wait = again[0].at - broken[0][0]
        wanted = (retry or 1000) / 1000
        assert wanted - 0.01 <= wait < wanted + 0.25, wait
        assert client.info()["counters"]["resumed_streams"] == 1


def test_a_stream_that_cannot_be_taken_up_again_ends_the_call():
    def call(request):
        request.stream()
        request.event(None, number="e1", retry=50)
    with HttpServer(legacy(call)) as server, connected(server) as client:
        error = client.call("echo")["error"]
        assert error["code"] == "unavailable", error
    with HttpServer(legacy(lambda request: request.stream())) as server, connected(server) as client:
        error = client.call("echo")["error"]
        assert error["code"] == "unavailable" and "the stream ended before the answer" in error["message"]


def test_two_fruitless_attempts_are_enough():
    attempts = []

    def other(request):
        if not header(request, "Last-Event-ID"):
            return False
        attempts.append(time.monotonic())
        request.stream()
        return True

    def call(request):
        request.stream()
        request.event(None, number="e1", retry=100)
    with HttpServer(legacy(call, on_other=other)) as server, connected(server) as client:
        assert client.call("echo")["error"]["code"] == "unavailable"
        assert len(attempts) == 2


def test_events_in_every_shape_are_read():
    """Comments, both ends of lines, many lines of data, a mark at the beginning, characters cut in the middle."""
    def call(request):
        request.stream()
        answer = json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": text_result("é\u2028x")}, indent=1, ensure_ascii=False)
        data = "\ufeff: hello\r\n\r\nevent: other\ndata: {}\n\nretry: x\ndata:\n\n" + "".join(f"data:{line}\r\n" for line in answer.split("\n")) + "\r\n"
        for i in range(0, len(data.encode()), 7):
            request.write(data.encode()[i:i + 7])
    with HttpServer(legacy(call)) as server, connected(server) as client:
        assert client.text("echo") == "é\u2028x"


def test_what_the_server_says_on_its_own_is_heard():
    def other(request):
        if request.method != "GET":
            return False
        request.stream()
        request.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        request.event({"jsonrpc": "2.0", "id": "p1", "method": "ping"})
        time.sleep(2)
        return True
    with HttpServer(legacy(echo, on_other=other)) as server, connected(server) as client:
        client.wait_for(lambda one: {"changed": "tools"} in one.said)
        until = time.monotonic() + 5
        while not any(one.json == {"jsonrpc": "2.0", "id": "p1", "result": {}} for one in server.requests):
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_call_given_up_is_cancelled_by_a_message():
    def call(request):
        time.sleep(3)
    with HttpServer(legacy(call)) as server, connected(server) as client:
        assert client.call("echo", timeout_ms=300)["error"]["errno"] == 110
        until = time.monotonic() + 5
        while not server.of_method("notifications/cancelled"):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert server.of_method("notifications/cancelled")[0].json["params"]["requestId"] == server.of_method("tools/call")[0].json["id"]


def test_refusals_are_told_as_the_server_says_them():
    answers = iter([(500, b"out of order"), (401, b"who are you"), (403, b"not you"), (200, b"<html>"), (202, b""), (302, b"")])

    def call(request):
        status, body = next(answers)
        request.answer(status, body, **{"Content-Type": "text/html", "Location": "http://127.0.0.1:1/"})
    with HttpServer(legacy(call)) as server, connected(server) as client:
        for code, words in (("unavailable", "HTTP 500"), ("denied", "HTTP 401"), ("denied", "HTTP 403"), ("conflict", "no response"), ("conflict", "without answering"), ("unavailable", "HTTP 302")):
            error = client.call("echo")["error"]
            assert error["code"] == code and words in error["message"], error


# --- the newest revision ----------------------------------------------------------------------------------------------

def newest(on_call, tools=(tool("echo"),), on_other=None):
    def handle(request):
        if on_other and on_other(request):
            return None
        if request.method != "POST":
            return request.answer(405)
        method = request.json.get("method")
        if method == "server/discover":
            return request.result(discovery())
        if method == "tools/list":
            return request.result(modern({"tools": list(tools)}))
        return on_call(request)
    return handle


def test_every_request_of_the_newest_revision_says_what_it_is():
    with HttpServer(newest(lambda request: request.result(modern(text_result("x"))))) as server:
        with connected(server) as client:
            assert client.hello["revision"] == MODERN and client.hello["server"]["name"] == "odd"
            assert client.text("echo") == "x"
        assert [one.json["method"] for one in server.requests] == ["server/discover", "tools/list", "tools/call"]
        for one in server.requests:
            meta = one.json["params"]["_meta"]
            assert header(one, "MCP-Protocol-Version") == meta["io.modelcontextprotocol/protocolVersion"] == MODERN
            assert header(one, "Mcp-Method") == one.json["method"]
            assert "io.modelcontextprotocol/clientCapabilities" in meta
            assert header(one, "Mcp-Session-Id") is None
        assert header(server.requests[-1], "Mcp-Name") == "echo"


def test_arguments_are_mirrored_as_the_schema_says():
    """Case 93."""
    schema = {"type": "object", "properties": {
        "plain": {"type": "string", "x-mcp-header": "Plain"}, "text": {"type": "string", "x-mcp-header": "Text"}, "count": {"type": "integer", "x-mcp-header": "Count"},
        "flag": {"type": "boolean", "x-mcp-header": "Flag"}, "nothing": {"type": "string", "x-mcp-header": "Nothing"}, "other": {"type": "string"},
        "within": {"type": "object", "properties": {"deep": {"type": "string", "x-mcp-header": "Deep"}}}}}
    illegal = [{"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": name}}} for kind, name in (("number", "A"), ("object", "A"), ("string", ""), ("string", "a b"), ("string", 5))]
    illegal.append({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}})
    tools = [tool("mirrors é", schema)] + [tool(f"illegal {i}", one) for i, one in enumerate(illegal)]
    with HttpServer(newest(lambda request: request.result(modern(text_result("x"))), tools)) as server, connected(server) as client:
        assert list(client.tools()) == ["mirrors é"]
        client.text("mirrors é", {"plain": "a b", "text": "é ", "count": 42, "flag": False, "nothing": None, "other": "o", "within": {"deep": "=?base64?eA==?="}})
        call = server.of_method("tools/call")[0]

        def coded(text):
            return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
        assert header(call, "Mcp-Name") == coded("mirrors é")
        assert header(call, "Mcp-Param-Plain") == "a b" and header(call, "Mcp-Param-Text") == coded("é ")
        assert header(call, "Mcp-Param-Count") == "42" and header(call, "Mcp-Param-Flag") == "false"
        assert header(call, "Mcp-Param-Deep") == coded("=?base64?eA==?=")
        assert header(call, "Mcp-Param-Nothing") is None and header(call, "Mcp-Param-Other") is None


def test_a_mirror_that_is_out_of_date_is_renewed_once():
    schemas = [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]
    lists = []

    def other(request):
        if not request.json or request.json.get("method") != "tools/list":
            return False
        lists.append(1)
        request.result(modern({"tools": [tool("echo", schemas[min(len(lists), 2) - 1])]}))
        return True

    def call(request):
        if header(request, "Mcp-Param-A") is None:
            return request.fault(400, -32020, "Header mismatch")
        return request.result(modern(text_result("mirrored")))
    with HttpServer(newest(call, on_other=other)) as server, connected(server) as client:
        assert client.text("echo", {"a": "x"}) == "mirrored"
        assert len(lists) == 2 and len(server.of_method("tools/call")) == 2
    with HttpServer(newest(lambda request: request.fault(400, -32020))) as server, connected(server) as client:
        assert client.call("echo")["fault"]["code"] == -32020
        assert len(server.of_method("tools/call")) == 2


def test_closing_the_stream_gives_a_call_up():
    closed = threading.Event()

    def call(request):
        request.stream()
        try:
            for _ in range(100):
                request.write(": still here\n\n")
                time.sleep(0.05)
        except OSError:
            closed.set()
            raise
    with HttpServer(newest(call)) as server, connected(server) as client:
        assert client.call("echo", timeout_ms=300)["error"]["errno"] == 110
        assert closed.wait(5)
        assert not server.of_method("notifications/cancelled")


@pytest.mark.parametrize("harmless", [True, False])
def test_a_broken_stream_is_asked_again_where_that_does_no_harm(harmless):
    calls = []

    def call(request):
        calls.append(request.json["id"])
        if len(calls) == 1:
            return request.stream()
        return request.result(modern(text_result("second")))
    with HttpServer(newest(call, [tool("echo", annotations={"readOnlyHint": harmless})])) as server, connected(server) as client:
        if harmless:
            assert client.text("echo") == "second"
            assert len(set(calls)) == 2
        else:
            assert client.call("echo")["error"]["code"] == "unavailable"
            assert len(calls) == 1


def test_a_list_lives_as_long_as_the_server_says():
    lists = []

    def other(request):
        if not request.json or request.json.get("method") != "tools/list":
            return False
        lists.append(1)
        request.result({**modern({"tools": [tool(f"t{len(lists)}")]}), "ttlMs": 1500})
        return True
    with HttpServer(newest(lambda request: request.result(modern(text_result("x"))), on_other=other)) as server, connected(server) as client:
        assert list(client.tools()) == list(client.tools()) == ["t1"]
        time.sleep(1.6)
        assert list(client.tools()) == ["t2"]


# --- eras over HTTP (case 91) -----------------------------------------------------------------------------------------

def test_an_unsupported_first_choice_is_followed_by_what_is_supported():
    asked = []

    def other(request):
        if not request.json or request.json.get("method") != "server/discover" or asked:
            return False
        asked.append(1)
        request.fault(400, -32022, data={"supported": [MODERN], "requested": "x"})
        return True
    with HttpServer(newest(echo, on_other=other)) as server, connected(server) as client:
        assert client.hello["revision"] == MODERN


@pytest.mark.parametrize("answer", [(400, -32000), (404, -32001), (405, -32000), (200, -32601), (200, -32600), (500, -32603)])
def test_any_other_answer_means_an_older_revision(answer):
    def other(request):
        if not request.json or request.json.get("method") != "server/discover":
            return False
        request.fault(*answer)
        return True
    with HttpServer(legacy(echo, on_other=other)) as server, connected(server) as client:
        assert client.hello["revision"] == LEGACY


def test_neither_kind_of_server_is_told_so():
    with HttpServer(lambda request: request.answer(404, b"nothing here", Content_Type="text/plain")) as server:
        with pytest.raises(NotConnected) as raised:
            Client({"url": server.url}, reach=server.reach)
        assert raised.value.error["code"] == "unsupported" and "HTTP 404" in raised.value.error["message"]


# --- HTTP+SSE ---------------------------------------------------------------------------------------------------------

class Events:
    """A server of HTTP+SSE."""

    def __init__(self, endpoint="/post?sessionId=1"):
        self.endpoint = endpoint
        self.stream = None
        self.opened = threading.Event()
        self.over = threading.Event()

    def __call__(self, request):
        if request.method == "GET":
            request.stream()
            request.event(self.endpoint, kind="endpoint")
            self.stream = request
            self.opened.set()
            self.over.wait(30)
        elif not request.path.startswith("/post"):
            request.answer(405)
        else:
            request.answer(202, b"Accepted")
            message = request.json
            answers = {"initialize": greeting("2024-11-05"), "tools/list": {"tools": [tool("echo"), tool("end")]}, "tools/call": text_result("x")}
            if message.get("method") == "tools/call" and message["params"]["name"] == "end":
                self.over.set()
            elif message.get("method") in answers:
                self.stream.event({"jsonrpc": "2.0", "id": message["id"], "result": answers[message["method"]]})


def test_the_oldest_transport_is_found_when_the_newer_are_not_there():
    events = Events()
    with HttpServer(events) as server, Client({"url": server.url}, reach=server.reach) as client:
        assert client.hello["revision"] == "2024-11-05"
        assert client.text("echo") == "x"
        events.over.set()


def test_the_end_of_the_stream_is_the_end_of_the_session():
    events = Events()
    with HttpServer(events) as server, Client({"url": server.url, "type": "sse"}, reach=server.reach) as client:
        error = client.call("end")["error"]
        assert error["code"] == "unavailable" and "session is over" in error["message"]
        events.over.clear()
        assert client.text("echo") == "x"
        events.over.set()


def test_an_endpoint_elsewhere_is_refused():
    for endpoint in ("http://127.0.0.1:1/post", "https://evil.example/post", "//evil.example/post", "file:///etc/passwd", "javascript:1"):
        with HttpServer(Events(endpoint)) as server:
            with pytest.raises(NotConnected) as raised:
                Client({"url": server.url.replace("/mcp", "/sse"), "type": "sse"}, reach=[*server.reach, "127.0.0.1:1"])
            assert raised.value.error["code"] == "denied" and "another origin" in raised.value.error["message"]
            assert [one.method for one in server.requests] == ["GET"]
