"""Tool servers of sandboxes over a restart of the server, which is a kill -9 here: servers, verdicts, pins and supervision come back."""
import pathlib
import sqlite3
import time

import pytest
import tool_server
from conftest import wait_until
from kernels import Kernel
from server import Server, at

PROGRAM = pathlib.Path(tool_server.__file__).read_bytes()
STDIO = {"command": "python3", "args": ["server.py"], "place": "inside"}


@pytest.fixture
def server():
    with Server("--tools-allow-loopback", "--on-exit", "keep", "--tools-variables", "OFFERED_*", env={"OFFERED_WORD": "a word of the operator"}) as running:
        yield running


@pytest.fixture
def box(server):
    server.put(at("box"), {})
    assert server.request("POST", at("box", "resources/files/server.py"), PROGRAM).status == 200
    return "box"


@pytest.fixture
def http_server():
    serving = tool_server.Http()
    yield serving
    serving.shutdown()


def add(server, name, **fields):
    answer = server.post(at("box", "tools"), {"name": name, **fields}, timeout=60)
    assert answer.status == 201, answer
    return answer.json


def call(server, tool, to, **arguments):
    return server.post(at("box", f"tools/{to}/call"), {"tool": tool, "arguments": arguments}, timeout=60).json


def orderly(server):
    assert server.stop() == 0
    server.start()


def killed(server):
    server.restart()


@pytest.mark.parametrize("again", [killed, orderly])
def test_the_same_kernel_calls_its_tools_again(server, box, http_server, again):
    add(server, "inside", **STDIO)
    add(server, "own", command="python3", args=["-c", PROGRAM.decode()], env={"WORD": "${OFFERED_WORD}"}, directory="made/more")
    add(server, "web", url=http_server.url, headers={"X-Word": "${OFFERED_WORD}"}, policy={"default": "allow", "deny": ["fa*"]})
    add(server, "gone", url=http_server.url)
    assert server.delete(at(box, "tools/gone")).status == 204
    kernel = Kernel(server, box)
    assert kernel.out("from mcptools.inside import functions as i\nfrom made.more.own import functions as o\nfrom mcptools.web import functions as w\nprint(i.tool_1('a'))") == '{"s": "a"}\n'
    before = server.get(at(box, "tools")).json["servers"]
    for round in range(2):
        again(server)
        after = server.get(at(box, "tools")).json["servers"]
        assert after == [{**view, "connected": False} for view in before]
        assert kernel.out("print(i.tool_1('b'), i.tool_2(1, my_b=2).sum, o.environment('WORD'), w.environment('X-Word'))") == '{"s": "b"} 3 a word of the operator a word of the operator\n'
        assert http_server.calls == round + 1, "what was said to the server before is not done again"
        assert kernel.run("w.fail()")["error"]["name"] == "ApprovalRejectedError"
        plain = lambda: server.exec(box, "python3", "-c", "from mcptools.inside import functions as f; print(f.tool_1('plain'))")
        assert wait_until(lambda: plain()["stdout"] == '{"s": "plain"}\n', 10), plain()


def test_a_call_at_once_after_the_restart_finds_its_server(server, box):
    add(server, "srv", **STDIO)
    kernel = Kernel(server, box)
    kernel.out("from cove import tools\nimport threading, time\nseen = []\ndef ask():\n    while len(seen) < 4000:\n        try: tools.call('srv', 'tool-1', {'s': 'x'}); seen.append('ok')\n        except tools.ToolRunnerError as error: seen.append(str(error))\n        time.sleep(0.01)\nthreading.Thread(target=ask, daemon=True).start()")
    assert wait_until(lambda: kernel.value("'ok' in seen") == "True", 30)
    server.restart()
    assert wait_until(lambda: kernel.value("seen[-1]") == "'ok'", 20), kernel.value("seen[-3:]")
    assert "no tool server" not in kernel.value("sorted(set(seen))"), "heard before its servers were there"


def test_MC_04_a_tool_that_changed_while_no_server_ran_is_not_called(server, box, http_server):
    add(server, "web", url=http_server.url)
    assert "result" in call(server, "tool-1", "web", s="x")
    changed = [dict(tool, description="deletes everything") if tool["name"] == "tool-1" else tool for tool in tool_server.TOOLS]
    server.popen.kill()
    server.popen.wait()
    http_server.tools = changed
    server.restart()
    refused = call(server, "tool-1", "web", s="x")
    assert refused["error"]["type"] == "rejected" and "has changed" in refused["error"]["message"], refused
    assert "result" in call(server, "tool-2", "web", a=1)


def test_whoever_was_supervised_stays_so(server, box):
    add(server, "srv", **STDIO)
    with server.websocket(at(box, "resources/approval")) as line:
        assert line
    server.restart()
    assert call(server, "tool-1", "srv", s="x")["error"]["message"] == "Approval request for srv.tool-1 failed: Approval channel not connected"
    assert server.request("PUT", at(box, "resources/reset")).status == 200
    assert "result" in call(server, "tool-1", "srv", s="x")
    server.restart()
    assert "result" in call(server, "tool-1", "srv", s="x"), "and reset is remembered, too"


def test_a_server_of_the_configuration_is_pinned_over_a_restart_until_the_operator_changes_it(tmp_path, http_server):
    config = tmp_path / "cove.toml"
    text = f'[tools]\nallow_loopback = true\n[tools.web]\nurl = "{http_server.url}"\n'
    config.write_text(text)
    with Server("--config", config) as server:
        server.put(at("box"), {})
        assert "result" in call(server, "tool-1", "web", s="x")
        http_server.tools = [dict(tool, description="another") for tool in tool_server.TOOLS]
        server.restart()
        assert "has changed" in call(server, "tool-1", "web", s="x")["error"]["message"]
        config.write_text(text + 'timeout = 9\n')
        server.restart()
        assert "result" in call(server, "tool-1", "web", s="x"), "his word is newer"


def test_what_is_stored_holds_no_secret_in_the_clear_and_goes_with_the_sandbox(server, box, http_server):
    add(server, "web", url=http_server.url, headers={"Authorization": "Bearer hunter2-literal"})
    database = next(pathlib.Path(server.state_dir).rglob("cove.db"))
    rows = lambda: sqlite3.connect(f"file:{database}?mode=ro", uri=True).execute("SELECT name, sealed FROM tool_servers").fetchall()
    assert [name for name, _ in rows()] == ["web"] and rows()[0][1].startswith("sealed:")
    assert not any(b"hunter2-literal" in path.read_bytes() for path in database.parent.glob("cove.db*"))
    assert server.delete(at(box)).status in (200, 204)
    assert wait_until(lambda: rows() == [], 10)
    server.put(at("box"), {})
    server.restart()
    assert server.get(at("box", "tools")).json == {"servers": []}
