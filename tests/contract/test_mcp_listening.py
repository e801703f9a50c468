"""Subscriptions over pipes: many requests and their streams on one line."""
import pytest
from mcp_client import KEY, MODERN
from mcp_stdio import Stdio
from server import Server

META = {KEY + "protocolVersion": MODERN, KEY + "clientCapabilities": {}}


@pytest.fixture(scope="module")
def server():
    with Server("--mcp-fixtures=true") as running:
        yield running


@pytest.fixture()
def line(server):
    with Stdio("--url", f"http://127.0.0.1:{server.port}") as running:
        yield running


def listen(line, number, **wishes):
    line.send({"jsonrpc": "2.0", "id": number, "method": "subscriptions/listen", "params": {"_meta": META, "notifications": wishes}})


def change(line, number, what):
    line.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"_meta": META, "name": f"test_trigger_{what}_change"}})


def test_several_listen_on_one_line_until_they_are_cancelled(line):
    listen(line, "a", toolsListChanged=True)
    listen(line, 7, promptsListChanged=True)
    acknowledged = [line.read() for _ in range(2)]
    assert {(m["method"], m["params"]["_meta"][KEY + "subscriptionId"]) for m in acknowledged} == {("notifications/subscriptions/acknowledged", "a"), ("notifications/subscriptions/acknowledged", 7)}
    change(line, 8, "tool")
    told = [line.read() for _ in range(2)]
    assert {m.get("method", m.get("id")) for m in told} == {"notifications/tools/list_changed", 8}
    assert next(m for m in told if "method" in m)["params"]["_meta"][KEY + "subscriptionId"] == "a"
    line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}})
    change(line, 9, "tool")
    change(line, 10, "prompt")
    told = [line.read() for _ in range(3)]
    assert {m.get("method", m.get("id")) for m in told} == {"notifications/prompts/list_changed", 9, 10}


def test_the_end_of_the_input_ends_who_listens(line):
    listen(line, 1, toolsListChanged=True)
    assert line.read()["method"] == "notifications/subscriptions/acknowledged"
    assert line.close() == 0
    last = line.read()
    assert last["id"] == 1 and last["result"]["resultType"] == "complete" and last["result"]["_meta"][KEY + "subscriptionId"] == 1
    assert line.read() is None


def test_a_legacy_client_hears_of_lists_on_the_line(line):
    line.initialize()
    line.send({"jsonrpc": "2.0", "id": 50, "method": "tools/call", "params": {"name": "test_trigger_tool_change"}})
    told = [line.read() for _ in range(2)]
    assert {m.get("method", m.get("id")) for m in told} == {"notifications/tools/list_changed", 50}


def test_nothing_unasked_for_comes_without_a_handshake(line):
    for number in (1, 2):
        line.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "test_trigger_tool_change"}})
        assert line.read()["id"] == number
    assert line.close() == 0 and line.read() is None
