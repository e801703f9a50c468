"""Tools as ipybox's clients use them: packages through the resource server, calls and approvals through the tool server (contracts of both)."""
import asyncio
import contextlib
import json
import pathlib

import aiohttp
import pytest
import tool_server
from ipybox_client import ExecutionClient, ExecutionError
from resource_client import ResourceClient, ResponseError, ToolServer
from server import Server, at

PROGRAM = pathlib.Path(tool_server.__file__)
STDIO = {"command": "python3", "args": ["server.py"]}


@pytest.fixture(scope="module")
def served():
    """A server with a sandbox /app, and a listener that is bound to it."""
    with Server("--tools-allow-loopback") as running:
        assert running.put(at("box"), {"workdir": "/app"}).status == 200
        made = running.post("/v1/listeners", {"sandbox": "box"})
        assert made.status == 201, made
        running.box_port = made.json["port"]
        ResourceClient(running.box_port, "127.0.0.1").upload_file("server.py", PROGRAM)
        yield running


@pytest.fixture
def client(served):
    return ResourceClient(served.box_port, "127.0.0.1")


@pytest.fixture
def tools(served):
    made = ToolServer(served.box_port)
    yield made
    made.reset()


@pytest.fixture(scope="module")
def http_server():
    serving = tool_server.Http()
    yield serving
    serving.shutdown()


def test_packages_are_generated_and_read_back_in_two_ways(client):
    names = client.generate_mcp_sources("mcpgen", "srv", STDIO)
    assert names[:2] == ["tool_1", "tool_2"]
    sources = client.get_mcp_sources("mcpgen", "srv")
    assert list(sources) == sorted(names) or set(sources) == set(names)
    for fragment in ("def tool_1(params: Params) -> str:", 'run_sync("tool-1"', "class Params(", "from ipybox.mcp.run import run_sync", "    s: str\n"):
        assert fragment in sources["tool_1"], sources["tool_1"]
    assert client.get_module_sources(["mcpgen.srv.tool_1"]) == {"mcpgen.srv.tool_1": sources["tool_1"]}
    assert "SERVER_PARAMS = {'command': 'python3', 'args': ['server.py']}" in client.get_module_sources(["mcpgen.srv"])["mcpgen.srv"]


def test_a_second_generation_replaces_the_first_whole(client, served):
    client.generate_mcp_sources("twice", "srv2", STDIO)
    served.exec("box", "sh", "-c", "echo 'x = 1' > twice/srv2/stale.py")
    client.generate_mcp_sources("twice", "srv2", STDIO)
    assert "stale" not in client.get_mcp_sources("twice", "srv2")


def test_one_name_in_two_directories_is_two_servers(client, served):
    client.generate_mcp_sources("one", "same", STDIO)
    client.generate_mcp_sources("two", "same", {**STDIO, "env": {"WORD": "second"}})
    done = served.exec("box", "python3", "-c", "from one.same import functions as a\nfrom two.same import functions as b\nprint(repr(a.environment('WORD')), b.environment('WORD'))")
    assert done["stdout"] == "'' second\n", done


@pytest.mark.parametrize("params", [{}, {"nothing": 1}, {"command": "/no/such/program"}, {"url": "http://127.0.0.1:1/mcp"}, {"url": "no address"}])
def test_a_generation_that_fails_is_500_with_the_reason(client, params):
    with pytest.raises(ResponseError) as failed:
        client.generate_mcp_sources("mcpgen", "bad", params)
    assert failed.value.status == 500 and json.loads(failed.value.body)["detail"], failed.value.body


@pytest.mark.parametrize("path,status", [("mcpgen/a-b", 400), ("../x/srv", 400), ("a b/srv", 400), ("class/srv", 400)])
def test_paths_that_are_no_packages_are_refused(client, path, status):
    with pytest.raises(ResponseError) as failed:
        client.send("PUT", "/mcp/" + path.replace(" ", "%20"), body=json.dumps(STDIO), content_type="application/json")
    assert failed.value.status == status


def test_what_is_not_there_and_what_is_no_object(client, served):
    with pytest.raises(ResponseError) as failed:
        client.get_mcp_sources("mcpgen", "none")
    assert (failed.value.status, json.loads(failed.value.body)) == (404, {"detail": "MCP server none not found"})
    served.exec("box", "sh", "-c", "mkdir -p mcpgen/bare && touch mcpgen/bare/__init__.py")
    assert client.get_mcp_sources("mcpgen", "bare") == {}
    for body in ("[]", "no JSON", "3"):
        with pytest.raises(ResponseError) as failed:
            client.send("PUT", "/mcp/mcpgen/srv", body=body, content_type="application/json")
        assert failed.value.status == 422
    with pytest.raises(ResponseError) as failed:
        client.send("GET", "/mcp/mcpgen")
    assert failed.value.status == 422


def test_a_cell_calls_tools_over_pipes_and_http(client, served, http_server):
    client.generate_mcp_sources("mcpgen", "pipes", STDIO)
    client.generate_mcp_sources("mcpgen", "web", {"type": "streamable_http", "url": http_server.url, "headers": {"X-Word": "w"}})

    async def cells():
        async with ExecutionClient(served.box_port) as kernel:
            for name in ("pipes", "web"):
                text, _ = await kernel.execute(f"""
                    from mcpgen.{name}.tool_1 import tool_1, Params
                    print(tool_1(Params(s="x")))
                    """)
                assert text == '{"s": "x"}', text
            text, _ = await kernel.execute("from mcpgen.web.environment import *\nprint(environment(Params(name='X-Word')))")
            assert text == "w"
    asyncio.run(cells())


# the tool server

def test_run_answers_in_its_own_form(tools, client):
    assert client.json("GET", "/status") == {"status": "ok"}
    assert tools.run("runs", STDIO, "tool-1", {"s": "x"}) == {"result": '{"s": "x"}'}
    assert tools.run("runs", STDIO, "tool-2", {"a": 1}) == {"result": {"sum": 1}}
    assert tools.run("runs", STDIO, "image", {}) == {"result": None}
    assert tools.run("runs", STDIO, "fail", {}) == {"error": "it broke"}
    assert "error" in tools.run("runs", STDIO, "nope", {})
    assert "error" in tools.run("broken", {"command": "/no/such/program"}, "x", {})
    assert tools.reset() == {"reset": "success"}
    assert tools.run("runs", STDIO, "tool-1", {"s": "again"}) == {"result": '{"s": "again"}'}
    with pytest.raises(ResponseError) as failed:
        client.send("POST", "/run", body="{}", content_type="application/json")
    assert failed.value.status == 422


class Approver:
    """Answers what it is asked by a function: True, False, or None for nothing."""

    def __init__(self, tools, decide):
        self.address, self.decide, self.asked = tools.address, decide, []

    async def __aenter__(self):
        self.http = aiohttp.ClientSession()
        self.socket = await self.http.ws_connect(self.address)
        self.task = asyncio.ensure_future(self._answer())
        return self

    async def _answer(self):
        async for message in self.socket:
            request = json.loads(message.data)
            assert request["jsonrpc"] == "2.0" and request["method"] == "approve"
            self.asked.append(request["params"])
            result = self.decide(request["params"])
            if result is not None:
                await self.socket.send_json({"jsonrpc": "2.0", "result": result, "id": request["id"]})

    async def __aexit__(self, *_):
        await self.socket.close()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.http.close()


def test_an_approver_is_asked_and_its_answer_counts(tools):
    async def decided():
        async with Approver(tools, lambda params: params["tool_args"].get("s") != "no") as approver:
            run = lambda s: asyncio.to_thread(tools.run, "asked", STDIO, "tool-1", {"s": s})
            yes, no, more = await asyncio.gather(run("yes"), run("no"), run("more"))
            assert yes == {"result": '{"s": "yes"}'} and more == {"result": '{"s": "more"}'}
            assert no == {"error": "Approval request for asked.tool-1 rejected", "type": "rejected"}
            assert {"server_name": "asked", "tool_name": "tool-1", "tool_args": {"s": "yes"}} in approver.asked
            assert await asyncio.to_thread(tools.approve, "ipybox", "shell", {"cmd": "ls"}) == {"approved": True}
            assert await asyncio.to_thread(tools.approve, "ipybox", "shell", {"s": "no"}) == {"approved": False, "error": "Approval request for ipybox.shell rejected", "type": "rejected"}
    asyncio.run(decided())


def test_requests_fail_when_the_approver_leaves_and_while_there_is_none(tools):
    async def left():
        async with Approver(tools, lambda params: None) as approver:
            waiting = asyncio.ensure_future(asyncio.to_thread(tools.run, "asked", STDIO, "tool-1", {"s": "x"}))
            while not approver.asked:
                await asyncio.sleep(0.01)
        assert await waiting == {"error": "Approval request for asked.tool-1 failed: Approval channel disconnected"}
        gone = await asyncio.to_thread(tools.run, "asked", STDIO, "tool-1", {"s": "x"})
        assert gone == {"error": "Approval request for asked.tool-1 failed: Approval channel not connected"}
        await asyncio.to_thread(tools.reset)
        assert await asyncio.to_thread(tools.run, "asked", STDIO, "tool-1", {"s": "x"}) == {"result": '{"s": "x"}'}
    asyncio.run(left())


def test_there_is_one_approver_at_a_time(tools):
    async def two():
        async with Approver(tools, lambda params: True):
            async with aiohttp.ClientSession() as http, http.ws_connect(tools.address) as second:
                message = await second.receive(timeout=15)
                assert message.type == aiohttp.WSMsgType.CLOSE and message.data == 1008, message
        async with Approver(tools, lambda params: True):  # the first has left
            assert await asyncio.to_thread(tools.run, "asked", STDIO, "tool-1", {"s": "x"}) == {"result": '{"s": "x"}'}
    asyncio.run(two())


def test_a_cell_whose_approver_leaves_is_told(tools, client, served):
    client.generate_mcp_sources("mcpgen", "slowly", STDIO)

    async def think():
        async with ExecutionClient(served.box_port) as kernel:
            async with Approver(tools, lambda params: None) as approver:
                cell = asyncio.ensure_future(kernel.execute("from mcpgen.slowly.tool_1 import *\nprint(tool_1(Params(s='x')))"))
                while not approver.asked:
                    await asyncio.sleep(0.01)
                assert (await asyncio.to_thread(served.get, at("box", "approvals"))).json["approvals"][0]["tool"] == "tool-1"
            # It has left: the call fails, and so does the cell.
            with pytest.raises(ExecutionError, match="disconnected"):
                await cell
    asyncio.run(think())
