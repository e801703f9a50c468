"""`cove mcp`: the base cases of the contract over pipes, with a server of its own in the background."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.parse

import pytest
from conftest import COVE, cove, fair, new_marker, processes_with, wait_until
from mcp_stdio import Stdio, own_state, piped
from server import Server, new_id

QUIET = {"COVE_PYTHON_WARM": "false", "COVE_POOL_SIZE": "0"}  # a server that costs little to start


@pytest.fixture(scope="module")
def state():
    with own_state() as directory:
        yield directory


@pytest.fixture(scope="module")
def flags(state):
    return ["--state-dir", state]


def call(number=1, code="print('hello')", language="python", **more):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "execute_code", "arguments": {"language": language, "code": code, **more}}}


def texts(result):
    return [block["text"] for block in result["content"] if block["type"] == "text"]


def test_d01_a_bare_call_and_the_end(flags):
    messages, run = piped(json.dumps(call()), *flags, env=QUIET)
    assert run.status == 0 and run.stderr == b"" and len(messages) == 1
    assert b'"isError":false' in run.stdout
    assert run.stdout.count(b"\n") == 1
    code, line, words, end = messages[0]["result"]["content"]
    assert (code["text"], code["mimeType"], code["annotations"]) == ("print('hello')", "text/x-python", {"mime_type": "text/x-python"})
    assert line["text"] == "hello" and line["annotations"] == {"role": "stdout", "streamed": True}
    assert words["text"].startswith("Exit code: 0\nExecution time: 0.") and words["annotations"] == {"final": True}
    assert end["annotations"] == {"role": "result", "final": True} and end["mimeType"] == "application/json"
    assert '"exit_code": 0' in end["text"]
    told = json.loads(end["text"])
    assert told["outputLines"] == 1 and told["errorLines"] == 0 and told["timestamp"]


def test_d02_a_request_written_for_eyes(flags):
    messages, run = piped(json.dumps(call(), indent=2), *flags, env=QUIET)
    assert run.stderr == b"" and len(messages) == 1 and "hello" in texts(messages[0]["result"])


def test_d03_what_is_no_json_is_told_and_the_next_is_served(flags):
    messages, _ = piped("not json\n" + json.dumps(call(2)) + "\n", *flags, env=QUIET)
    assert messages[0]["error"]["code"] == -32700 and messages[0]["id"] is None
    assert messages[1]["id"] == 2 and "hello" in texts(messages[1]["result"])


def test_d04_blank_lines_are_nothing(flags):
    messages, run = piped("\n   \n\t\r\n" + '{"jsonrpc":"2.0","id":5,"method":"ping"}' + "\r\n\n", *flags, env=QUIET)
    assert [message["id"] for message in messages] == [5] and messages[0]["result"] == {} and run.status == 0


def test_d05_an_unknown_method(flags):
    messages, _ = piped('{"jsonrpc":"2.0","id":9,"method":"nope"}', *flags, env=QUIET)
    assert messages[0]["id"] == 9 and messages[0]["error"] == {"code": -32601, "message": "Method not found: nope"}


def test_d06_notifications_are_never_answered(flags):
    lines = ['{"jsonrpc":"2.0","method":"notifications/nope"}', '{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}', '{"jsonrpc":"2.0","method":"initialized"}']
    messages, run = piped("\n".join(lines) + "\n", *flags, env=QUIET)
    assert messages == [] and run.status == 0 and run.stderr == b""


@pytest.mark.parametrize("number", ["a", "", 0, -7, 2**53 - 1])
def test_d07_ids_come_back_as_they_were(flags, number):
    messages, _ = piped(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}), *flags, env=QUIET)
    assert messages[0]["id"] == number and type(messages[0]["id"]) is type(number)


def test_d08_a_ping_overtakes_calls_and_calls_run_side_by_side(flags):
    with Stdio(*flags, env=QUIET) as client:
        client.initialize()
        client.send(call("slow-1", "sleep 1; echo one", "bash"))
        client.send(call("slow-2", "import time; time.sleep(1); print('two')"))
        client.send({"jsonrpc": "2.0", "id": "ping", "method": "ping"})
        order = [client.read()["id"] for _ in range(3)]
        assert order[0] == "ping" and sorted(order[1:]) == ["slow-1", "slow-2"]


def test_d09_batches(flags):
    batch = [call(1), {"jsonrpc": "2.0", "method": "notifications/nope"}, {"jsonrpc": "2.0", "id": 2, "method": "ping", "description": "extra keys are ignored"}]
    messages, _ = piped(json.dumps(batch), *flags, env=QUIET)
    assert len(messages) == 1 and {answer["id"] for answer in messages[0]} == {1, 2}
    for version, allowed in (("2025-03-26", True), ("2025-06-18", False)):
        with Stdio(*flags, env=QUIET) as client:
            client.initialize(version)
            client.send(batch)
            answer = client.read()
            assert isinstance(answer, list) if allowed else answer["error"]["code"] == -32600


def test_d10_a_line_of_12_mib(flags):
    with Stdio(*flags, env=QUIET) as client:
        client.initialize()
        client.send(call(7, "pass #" + "x" * (12 << 20)))
        answer = client.read()
        assert answer["id"] == 7 and "result" in answer
        assert client.ask("ping")[0]["result"] == {}


def test_b13_a_line_that_is_too_long_is_refused_and_the_next_is_served(flags):
    with Stdio(*flags, env=QUIET) as client:
        client.initialize()
        client.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * (17 << 20) + b'"}}\n')
        assert client.read()["error"]["code"] == -32600
        assert client.ask("ping")[0]["result"] == {}


def test_d13_sigterm_ends_what_runs(flags):
    marker = new_marker()
    with Stdio(*flags, env=QUIET) as client:
        client.send(call(1, f"exec -a {marker} sleep 300", "bash"))
        assert wait_until(lambda: processes_with(marker))
        began = time.monotonic()
        client.popen.send_signal(signal.SIGTERM)
        assert client.popen.wait(10) == 0
        assert time.monotonic() - began < fair(2)
        assert wait_until(lambda: not processes_with(marker))
        assert client.popen.stderr.read() == b"" and client.read() is None


def test_the_end_of_the_reader_ends_what_runs(flags):
    """A client that was killed leaves nothing that runs."""
    marker = new_marker()
    with Stdio(*flags, env=QUIET) as client:
        client.send(call(1, f"exec -a {marker} sleep 300", "bash"))
        assert wait_until(lambda: processes_with(marker))
        client.popen.kill()
        assert wait_until(lambda: not processes_with(marker))


def test_d62_a_cancelled_call_is_not_answered_and_leaves_no_process(flags):
    marker = new_marker()
    with Stdio(*flags, env=QUIET) as client:
        client.initialize()
        client.send(call("long", f"sleep 300; : {marker}", "bash"))
        client.send(call("twin", f"exec -a {marker} sleep 300", "bash", session_id=new_id()))
        assert wait_until(lambda: processes_with(marker))
        for number in ("long", "twin", "unknown"):
            client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number, "reason": "test"}})
        assert wait_until(lambda: not processes_with(marker))
        answer, before = client.ask("tools/call", {"name": "execute_code", "arguments": {"language": "bash", "code": "echo next"}})
        assert before == [] and "next" in texts(answer["result"])


def test_state_lasts_as_long_as_the_connection(flags):
    with Stdio(*flags, env=QUIET) as client:
        client.call("execute_code", language="python", code="x = 41")
        assert "42" in texts(client.call("execute_code", language="python", code="x + 1"))
    with Stdio(*flags, env=QUIET) as client:
        assert any("NameError" in text for text in texts(client.call("execute_code", language="python", code="x + 1")))


def test_named_sessions_survive_processes(flags):
    """The multi-file examples are sent one process for each step."""
    name = new_id()
    piped(json.dumps(call(1, "open('left.txt', 'w').write('here'); y = 7", session_id=name)), *flags, env=QUIET)
    messages, _ = piped(json.dumps(call(1, "print(open('left.txt').read(), y)", session_id=name)), *flags, env=QUIET)
    assert "here 7" in texts(messages[0]["result"])


def test_many_processes_share_one_server(flags, state):
    with Stdio(*flags, env=QUIET) as one, Stdio(*flags, env=QUIET) as two:
        name = new_id()
        one.call("execute_code", language="python", code="shared = 'yes'", session_id=name)
        assert "yes" in texts(two.call("execute_code", language="python", code="print(shared)", session_id=name))
        address = json.loads((pathlib.Path(state) / "private.json").read_text())
        assert (pathlib.Path(state) / "private.json").stat().st_mode & 0o777 == 0o600
        assert len(processes_with(state)) >= 2 and address["pid"] > 1


def test_the_server_goes_when_nobody_is_left():
    with own_state() as directory:
        piped(json.dumps(call()), "--state-dir", directory, env=QUIET)
        pid = json.loads((pathlib.Path(directory) / "private.json").read_text())["pid"]
        assert pathlib.Path(f"/proc/{pid}").exists()
        assert wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), patience=40)
        messages, _ = piped(json.dumps(call()), "--state-dir", directory, env=QUIET)  # and another comes when one is wanted
        assert "hello" in texts(messages[0]["result"])


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_works_for_a_user_without_rights(tmp_path_factory):
    """With what the host can enforce for such a user, as `cove run`."""
    home = tmp_path_factory.mktemp("home")
    for directory in (home, *list(home.parents)[:-2]):
        directory.chmod(0o755)
    os.chown(home, 54321, 54321)
    run = lambda *words: cove("mcp", *words, stdin=json.dumps(call()).encode(), env={**QUIET, "HOME": str(home)}, user=54321)
    try:
        said = run()
        assert said.status == 0 and said.stderr == b"" and "hello" in texts(json.loads(said.stdout)["result"])
    finally:
        assert run("stop").status == 0


def test_nobody_else_can_use_the_server(flags, state):
    """It is on this machine's loopback, but its key is in a file for our eyes."""
    with Stdio(*flags, env=QUIET) as client:
        client.ask("ping")
        url = urllib.parse.urlsplit(json.loads((pathlib.Path(state) / "private.json").read_text())["url"])
        for path in ("/mcp/line", "/v1/sandboxes", "/mcp"):
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=10)
            connection.request("GET", path)
            assert connection.getresponse().status == 401
            connection.close()


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


def test_attaches_to_a_server(server):
    name = new_id()
    with Stdio("--url", f"http://127.0.0.1:{server.port}") as client:
        client.initialize()
        client.call("execute_code", language="python", code="open('a.txt', 'w').write('seen')", session_id=name)
    assert server.get(f"/v1/sandboxes/{name}/files?path=/workspace/a.txt").body == b"seen"  # the same sandbox, by another door


def test_attaches_with_a_key():
    with Server() as running:
        running.stop()
        key = cove("key", "create", "--tenant", "mcp", "--state-dir", running.state_dir).out.strip()
        running.start()
        url = f"http://127.0.0.1:{running.port}"
        messages, run = piped('{"id":1,"method":"ping"}', "--url", url)
        assert run.status == 1 and messages == [] and b"key" in run.stderr
        messages, run = piped('{"id":1,"method":"ping"}', "--url", url, env={"COVE_API_KEY": key})
        assert run.status == 0 and messages[0]["result"] == {}


def test_nobody_there_is_said_in_a_sentence():
    _, run = piped('{"id":1,"method":"ping"}', "--url", "http://127.0.0.1:1")
    assert run.status == 1 and run.stderr.startswith(b"cove: ") and run.stdout == b""


def test_a_state_dir_of_a_server_is_refused_with_what_to_do(server):
    _, run = piped('{"id":1,"method":"ping"}', "--state-dir", server.state_dir)
    assert run.status == 1 and b"--url" in run.stderr


@pytest.mark.parametrize("client, member", [("claude-desktop", "mcpServers"), ("claude-code", "mcpServers"), ("cursor", "mcpServers"), ("vscode", "servers")])
def test_config_of_a_client_starts_us(client, member, state):
    run = cove("mcp", "config", "--client", client, "--state-dir", state)
    entry = json.loads(run.stdout)[member]["cove"]
    assert os.path.realpath(entry["command"]) == os.path.realpath(COVE) and entry["args"] == ["mcp", "--state-dir", state]
    said = subprocess.run([entry["command"], *entry["args"]], input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}', capture_output=True, timeout=60, env={**os.environ, **QUIET})
    assert json.loads(said.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_config_shows_every_client_and_refuses_one_it_does_not_know():
    everything = cove("mcp", "config").out
    assert all(title in everything for title in ("Claude Desktop", "Claude Code", "Cursor", "VS Code"))
    refused = cove("mcp", "config", "--client", "emacs")
    assert refused.status == 2 and b"claude-desktop" in refused.stderr
