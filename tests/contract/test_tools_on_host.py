"""MCP servers that the operator runs on the host (place = "host"): started by the supervisor alone, as another user, and gone with the server (docs/tools.md)."""
import json
import os
import pathlib
import pwd
import signal

import pytest
from conftest import wait_until
from server import Server, at

# A server whose only tool tells what it is.
PROGRAM = r"""
import json, os, sys
def facts():
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    return {"pid": os.getpid(), "parent": os.getppid(), "uid": os.getuid(), "groups": os.getgroups(), "caps": status["CapEff"], "bounding": status["CapPrm"], "locked": status["NoNewPrivs"],
            "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")), "env": dict(os.environ), "argv": sys.argv[1:], "cwd": os.getcwd(), "blocked": status["SigBlk"], "ignored": status["SigIgn"]}
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if "id" not in message: continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize": answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "host", "version": "1"}}
    elif method == "tools/list": answer["result"] = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("facts", "end")]}
    elif method == "tools/call" and message["params"]["name"] == "end": print("last words", file=sys.stderr, flush=True); os._exit(4)
    elif method == "tools/call": answer["result"] = {"content": [{"type": "text", "text": json.dumps(facts())}]}
    else: answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"""
ROOT_HERE = os.geteuid() == 0
USER = "nobody" if ROOT_HERE else pwd.getpwuid(os.geteuid()).pw_name


def configuration(tmp_path, user=USER, **more):
    config = tmp_path / "cove.toml"
    fields = {"command": "python3", "args": ["-c", PROGRAM, "$(id)", "a b"], "place": "host", **({"user": user} if user else {}), **more}
    config.write_text("[tools.here]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items() if name != "env") + 'env = { WORD = "${PRIVATE_WORD}" }\n')
    return config


def call(server, tool="facts"):
    answer = server.post(at("box", "tools/here/call"), {"tool": tool, "arguments": {}}, timeout=60).json
    return json.loads(answer["result"]["content"][0]["text"]) if "result" in answer else answer["error"]


@pytest.fixture
def server(tmp_path):
    with Server("--config", configuration(tmp_path), env={"PRIVATE_WORD": "of the operator", "OTHER_WORD": "x"}) as running:
        running.put(at("box"), {})
        yield running


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_it_runs_on_the_host_as_its_user_without_privilege(server):
    seen = call(server)
    assert seen["uid"] == pwd.getpwnam(USER).pw_uid
    assert int(seen["caps"], 16) == int(seen["bounding"], 16) == 0 and seen["locked"] == "1"
    assert [fd for fd in seen["fds"] if fd > 2] in ([], [3])  # the directory it lists
    assert int(seen["blocked"], 16) == 0
    assert seen["argv"] == ["$(id)", "a b"] and seen["cwd"] == "/"
    assert seen["env"]["WORD"] == "of the operator" and seen["env"]["USER"] == USER
    assert set(seen["env"]) <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "WORD", "LC_CTYPE"}
    assert pathlib.Path(f"/proc/{seen['pid']}/cgroup").exists()
    held = {os.readlink(f"/proc/{seen['parent']}/fd/{fd}") for fd in os.listdir(f"/proc/{seen['parent']}/fd") if int(fd) > 2}
    assert len(held) <= 3 and not any("lock" in name for name in held), held


def test_its_place_is_listed(server):
    assert server.get(at("box", "tools")).json["servers"][0]["place"] == "host"
    assert server.post(at("box", "tools"), {"name": "here"}, timeout=60).json["package"] == "mcptools.here"


def test_one_that_ended_is_started_again(server):
    first = call(server)["pid"]
    error = call(server, "end")
    assert "exit status 4" in error["message"] and "last words" in error["message"], error
    assert call(server)["pid"] != first
    wait_until(lambda: not alive(first))


@pytest.mark.parametrize("whom", ["front", "supervisor"])
def test_it_ends_with_the_server(server, whom):
    seen = call(server)
    if whom == "supervisor":
        server.kill9()
    else:
        os.kill(server.child("cove-front"), signal.SIGKILL)
    wait_until(lambda: not alive(seen["pid"]) and not alive(seen["parent"]))


def test_MC_07_nobody_else_can_have_one_there(server):
    for fields, words in (({"place": "host"}, "place must be own"), ({"user": "root"}, "user: only a server of the configuration"), ({"place": "host", "user": "root"}, "place must be own")):
        refused = server.post(at("box", "tools"), {"name": "mine", "command": "id", **fields})
        assert refused.status == 400 and words in refused.json["error"], refused


@pytest.mark.skipif(not ROOT_HERE, reason="without root it has no other user")
@pytest.mark.parametrize(("user", "words"), [(None, "user is missing"), ("root", "may not run as root"), ("no-such-user", "no user")])
def test_it_does_not_run_as_just_anybody(tmp_path, user, words):
    with Server("--config", configuration(tmp_path, user), env={"PRIVATE_WORD": "x"}) as running:
        running.put(at("box"), {})
        error = call(running)
        assert words in error["message"] and "[tools.here]" in error["message"], error
