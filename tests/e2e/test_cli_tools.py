"""`cove tools`: the MCP servers whose tools code in a sandbox may call."""
import json
import pathlib
import subprocess

import pytest
import tool_server
from conftest import COVE
from server import Server, at

PROGRAM = pathlib.Path(tool_server.__file__).read_bytes()


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        assert running.put(at("box"), {}).status == 200
        assert running.request("POST", at("box", "resources/files/server.py"), PROGRAM).status == 200
        yield running


@pytest.fixture
def cove(server):
    def run(*words):
        return subprocess.run([COVE, "tools", *words], capture_output=True, text=True, timeout=60, env={"COVE_URL": f"http://127.0.0.1:{server.port}", "PATH": "/usr/bin:/bin"})
    return run


def test_a_server_is_added_listed_called_and_removed(cove):
    added = cove("add", "box", "srv", "--place", "inside", "--deny", "fail", "-e", "WORD=x", "--", "python3", "server.py")
    assert added.returncode == 0, added
    assert [line.split() for line in added.stdout.splitlines()[:2]] == [["SERVER", "TOOL", "MODULE", "PACKAGE", "POLICY"], ["srv", "tool-1", "tool_1", "mcptools.srv"]]
    assert "deny" in added.stdout
    assert cove("ls", "box").stdout == added.stdout
    assert cove("call", "box", "srv", "tool-1", '{"s": "x"}').stdout == '{"s": "x"}\n'
    assert json.loads(cove("call", "box", "srv", "tool-2", '{"a": 2}').stdout) == {"sum": 2}
    assert json.loads(cove("call", "box", "srv", "tool_1", '{"s": "x"}', "--json").stdout)["result"]["is_error"] is False
    refused = cove("call", "box", "srv", "fail")
    assert refused.returncode == 1 and "denies" in refused.stderr
    assert cove("rm", "box", "srv").returncode == 0
    assert cove("call", "box", "srv", "tool-1").returncode == 1


@pytest.mark.parametrize("words,said", [
    (("add", "box", "srv"), "command"), (("add", "box", "srv", "--server", "http://x.example/", "--", "x"), "not both"), (("add", "box", "a-b", "--", "x"), "name"),
    (("call", "box", "srv", "t", "[1]"), "JSON object"), (("add", "box", "srv", "--server", "http://127.0.0.1:1/mcp"), "127.0.0.1"),
])
def test_what_is_wrong_is_said(cove, words, said):
    done = cove(*words)
    assert done.returncode == 1 and said in done.stderr, done


def test_words_of_a_tool_do_not_reach_the_terminal_raw(cove):
    cove("add", "box", "raw", "--place", "inside", "--", "python3", "server.py")
    shown = cove("call", "box", "raw", "environment", '{"name": "PATH"}')
    assert shown.returncode == 0 and "\x1b" not in cove("call", "box", "raw", "tool-1", '{"s": "\\u001b[31m"}').stdout
