"""register_mcp_server: tools of another MCP server, for the Python code of a session."""
import pathlib

import pytest
import tool_server
from mcp_tools import Client
from server import Server

PROGRAM = pathlib.Path(tool_server.__file__).read_text()


@pytest.fixture(scope="module")
def client():
    with Server("--mcp-all-tools=true") as running:
        yield Client(running)


def test_a_server_is_registered_and_its_tools_called(client):
    client.facts("write_file", path="server.py", content=PROGRAM)
    facts = client.facts("register_mcp_server", server_name="srv", server_params={"command": "python3", "args": ["server.py"]})
    assert facts["package"] == "mcptools.srv" and facts["tools"][:2] == ["tool_1", "tool_2"]
    result = client.facts("execute_code", language="python", code="from mcptools.srv.functions import tool_1\nprint(tool_1('x'))", session_id=facts["session_id"])
    assert result["stdout"] == '{"s": "x"}\n', result


@pytest.mark.parametrize("arguments,words", [
    ({}, "server_name"), ({"server_name": "x"}, "server_params"), ({"server_name": "x", "server_params": "y"}, "server_params"),
    ({"server_name": "a-b", "server_params": {"command": "x"}}, "name"), ({"server_name": "x", "server_params": {"command": "/no/such/program"}}, "no/such"),
    ({"server_name": "x", "server_params": {"url": "http://127.0.0.1:1/mcp"}}, "127.0.0.1"),
])
def test_what_cannot_be_is_told(client, arguments, words):
    assert words in client.refusal("register_mcp_server", **arguments)
