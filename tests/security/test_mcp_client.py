"""MCP servers as attackers of the client that calls them: whatever they send, the client stays small, the call ends, and the reason is told."""
import json
import pathlib
import time

import pytest
from client_program import Client, HttpServer, NotConnected, discovery, modern, odd_server, tool

MIB = 1 << 20


def test_MC_02_a_list_without_an_end():
    with Client(odd_server("endless_pages", "endless")) as client:
        error = client.ask("tools")["error"]
        assert error["code"] == "over_limit" and "over 1000 pages" in error["message"]
    with Client(odd_server("endless_pages", "circle")) as client:
        error = client.ask("tools")["error"]
        assert error["code"] == "conflict" and "read before" in error["message"]


def test_MC_02_a_list_of_great_size():
    with Client(odd_server("huge_list", "bytes")) as client:
        error = client.ask("tools")["error"]
        assert error["code"] == "over_limit" and "larger than" in error["message"]
        assert client.memory() < 300 * MIB
    with Client(odd_server("huge_list", "tools")) as client:
        error = client.ask("tools")["error"]
        assert error["code"] == "over_limit" and "over 10000 tools" in error["message"]


def test_MC_02_a_schema_that_leads_to_itself():
    with Client(odd_server("huge_list", "circle")) as client:
        since = time.monotonic()
        error = client.call("circle", {"a": {}})["error"]
        assert error["code"] == "invalid" and "too deep or too costly" in error["message"]
        assert time.monotonic() - since < 5
        assert client.text("echo") == "{}"


def test_MC_03_a_line_without_an_end():
    with Client(odd_server("long_line", 200), env={"COVE_TEST_MESSAGE_BYTES": str(64 * MIB)}) as client:
        error = client.call("echo")["error"]
        assert error["code"] == "over_limit" and "longer than" in error["message"]
        assert client.memory() < 250 * MIB


def test_MC_03_a_result_that_is_too_large():
    with Client(odd_server("long_line", 9)) as client:
        error = client.call("echo")["error"]
        assert error["code"] == "over_limit" and "at most 8388608" in error["message"]
        assert client.hello["revision"]


@pytest.mark.parametrize("kind", ["deep", "many_parts"])
def test_MC_03_json_that_is_a_bomb(kind):
    with Client({**odd_server(kind), "timeout": 3}) as client:
        error = client.call("echo")["error"]
        assert error["errno"] == 110
        assert any("nested deeper" in line or "parts" in line for line in client.logged())
        assert client.memory() < 200 * MIB


def test_MC_03_a_server_that_reads_nothing():
    with Client({**odd_server("no_reading"), "timeout": 2}) as client:
        client.tools()
        numbers = [client.order("call", name="echo", arguments={"x": "x" * MIB}) for _ in range(200)]
        errors = [client.answer(number)["error"] for number in numbers]
        assert {error["code"] for error in errors} == {"over_limit", "unavailable"}
        assert any("does not read" in error["message"] for error in errors)
        assert client.memory() < 600 * MIB


def test_MC_03_calls_are_bounded_in_number():
    with Client({**odd_server("hangs"), "timeout": 3}, env={"COVE_TEST_OUTSTANDING": "10"}) as client:
        client.tools()
        errors = [client.answer(number)["error"] for number in [client.order("call", name="hang") for _ in range(30)]]
        assert [error["code"] for error in errors].count("over_limit") == 20


def endless(piece, pause=0.0):
    def call(request):
        request.stream()
        while True:
            request.write(piece)
            time.sleep(pause)
    return call


def newest(on_call):
    def handle(request):
        method = request.json.get("method") if request.json else None
        if method == "server/discover":
            return request.result(discovery())
        if method == "tools/list":
            return request.result(modern({"tools": [tool("echo")]}))
        return on_call(request)
    return handle


@pytest.mark.parametrize(("piece", "pause", "code", "words"), [
    ("data: " + "x" * MIB, 0, "over_limit", "larger than"), ("data: x\n" * 10_000, 0, "over_limit", "larger than"), ("x" * 65536, 0, "over_limit", "larger than"),
    (": drip\n\n", 0.05, "unavailable", "no answer"), ("event: x\n\n", 0.001, "unavailable", "no answer"), ("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", 0.001, "unavailable", "no answer")],
    ids=["one line", "many lines", "no field", "comments", "empty", "notifications"])
def test_MC_03_events_without_an_end(piece, pause, code, words):
    with HttpServer(newest(endless(piece, pause))) as server:
        with Client({"url": server.url, "timeout": 4}, reach=server.reach, env={"COVE_TEST_MESSAGE_BYTES": str(8 * MIB)}) as client:
            since = time.monotonic()
            error = client.call("echo", most_ms=6000)["error"]
            assert error["code"] == code and words in error["message"], error
            assert time.monotonic() - since < 15
            assert client.memory() < 150 * MIB


def test_MC_03_a_body_without_an_end():
    def call(request):
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.end_headers()
        while True:
            request.write("x" * 65536)
    with HttpServer(newest(call)) as server, Client({"url": server.url, "timeout": 20}, reach=server.reach, env={"COVE_TEST_MESSAGE_BYTES": str(8 * MIB)}) as client:
        error = client.call("echo")["error"]
        assert error["code"] == "over_limit" and "larger than" in error["message"]
        assert client.memory() < 100 * MIB


def test_MC_05_what_a_result_names_is_not_fetched():
    with HttpServer(lambda request: request.answer(200)) as canary:
        links = [{"type": "resource_link", "uri": uri, "name": "x"} for uri in (canary.url, "file:///etc/passwd", "http://169.254.169.254/")]
        with HttpServer(newest(lambda request: request.result(modern({"content": links})))) as server, Client({"url": server.url}, reach=server.reach + canary.reach) as client:
            assert client.call("echo")["content"] == links
        assert canary.requests == []


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:9/mcp", "http://[::1]:9/mcp", "http://10.0.0.1/mcp", "http://[::ffff:127.0.0.1]/mcp", "http://0.0.0.0/mcp"])
def test_MC_06_addresses_inside_are_not_dialled(url):
    with pytest.raises(NotConnected) as raised:
        Client({"url": url, "connect_timeout": 5})
    assert raised.value.error["code"] == "denied", raised.value.error


def test_MC_06_a_redirect_leads_nowhere_else_and_takes_no_secret_along():
    with HttpServer(lambda request: request.answer(200, {})) as other:
        for status in (301, 302, 303, 307, 308):
            with HttpServer(lambda request, status=status: request.answer(status, Location=other.url)) as server:
                with pytest.raises(NotConnected):
                    Client({"url": server.url, "type": "http", "headers": {"Authorization": "Bearer secret"}}, reach=server.reach + other.reach)
        assert other.requests == []


def oauth(place, document, **more):
    """A server that wants a token, and where it says one is to be had."""
    def handle(request):
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            return request.answer(200, {"resource": request_url(request), **document})
        if request.path.startswith("/.well-known/oauth-authorization-server"):
            return request.answer(200, {"issuer": request_url(request).removesuffix("/mcp"), **more})
        return request.answer(401, {}, **({"WWW-Authenticate": f'Bearer resource_metadata="{place}"'} if place else {}))
    return handle


def request_url(request):
    return f"http://127.0.0.1:{request.server.server_address[1]}/mcp"


@pytest.mark.parametrize("where", ["place", "server", "endpoint"])
@pytest.mark.parametrize("address", ["http://169.254.169.254/x", "http://127.0.0.1:9/x", "file:///etc/passwd", "javascript:alert(1)", "http://localhost:9/"])
def test_MC_06_authorization_that_leads_inside(where, address):
    handle = {"place": lambda: oauth(address, {}), "server": lambda: oauth(None, {"authorization_servers": [address]}), "endpoint": lambda: oauth(None, {}, token_endpoint=address)}[where]()
    with HttpServer(handle) as server:
        with pytest.raises(NotConnected) as raised:
            Client({"url": server.url, "type": "http", "auth": {"client_id": "me", "client_secret": "secret"}}, reach=server.reach)
        assert raised.value.error["code"] == "denied" and "none can be had" in raised.value.error["message"], raised.value.error


def test_MC_06_a_server_without_a_token_is_told_once():
    with HttpServer(lambda request: request.answer(401, {})) as server:
        with pytest.raises(NotConnected) as raised:
            Client({"url": server.url, "type": "http"}, reach=server.reach)
        assert raised.value.error["code"] == "denied" and len(server.requests) == 1


def test_MC_07_no_shell_reads_the_words_of_a_command(workdir):
    mark = workdir / "mark"
    for command in (f"touch {mark}", f"sh -c 'touch {mark}'", f"$(touch {mark})", f"`touch {mark}`", f"true;touch {mark}"):
        with pytest.raises(NotConnected) as raised:
            Client({"command": command, "connect_timeout": 5})
        assert "No such file" in raised.value.error["message"]
    config = odd_server("environment", f"$(touch {mark})", f"; touch {mark}", "--help", "\n")
    config["env"] = {"X": f"$(touch {mark})", "BASH_ENV": str(mark)}
    with Client(config) as client:
        assert json.loads(client.text("show"))["argv"][2:] == config["args"][2:]
    assert not mark.exists()


def test_MC_08_what_a_server_asks_for_is_refused():
    with Client(odd_server("asks")) as client:
        for method in ("sampling/createMessage", "roots/list"):
            assert json.loads(client.text(method))["error"]["code"] == -32601
        assert json.loads(client.text("elicitation/create")) == {"result": {"action": "decline"}}
        assert client.info()["counters"]["refused_requests"] == 2


def test_MC_09_answers_with_other_ids_are_dropped():
    with Client(odd_server("wrong_ids")) as client:
        for _ in range(5):
            assert client.text("echo") == "yours"
        counters = client.info()["counters"]
        assert counters["late_answers"] >= 20 and counters["unusable_messages"] >= 15
        assert client.info()["outstanding"] == 0


def test_MC_09_a_flood_of_notifications():
    with Client(odd_server("floods")) as client:
        assert client.text("echo") == "done"
        assert client.info()["counters"]["dropped_notifications"] > 10_000
        assert client.memory() < 100 * MIB


def test_MC_10_standard_error_is_bounded_and_shown_without_control_characters():
    with Client(odd_server("errors", 2000)) as client:  # 160 MiB
        message = client.call("echo")["error"]["message"]
        assert "END ?[31m of it ?2J" in message and len(message) < 3000
        assert all(ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0 for c in message)
        assert client.memory() < 100 * MIB


def test_MC_11_a_program_that_dies_at_once_is_not_started_ever_again():
    with Client(odd_server("crashes_at_once")) as client:
        since, errors = time.monotonic(), []
        while time.monotonic() - since < 4:
            errors.append(client.call("exit")["error"])
        assert all(error["code"] == "unavailable" for error in errors)
        waits = [error["retry_after_ms"] for error in errors if error["retry_after_ms"]]
        assert waits and max(waits) > 1500
        assert client.info()["counters"]["restarts"] <= 4


def test_MC_11_one_that_dies_leaves_the_others_alone():
    with Client(odd_server("plain")) as good, Client(odd_server("crashes_at_once")) as bad:
        bad.call("exit")
        assert good.text("echo") == "{}"
        pids = [int(line) for line in pathlib.Path(f"/proc/{bad.popen.pid}/task/{bad.popen.pid}/children").read_text().split()]
        assert len(pids) <= 1
