"""The holes that the workspace API's servers are known for, each tried here and found closed (contract sandbox-runtime, sections 6 to 8)."""
import os
import pathlib
import uuid

import pytest
from hostile import server_with_tenants
from workspace import SE, call, create, execute, handled, listed, names, result, script, session


@pytest.fixture(scope="module")
def name(server):
    made = session(server)
    yield made
    server.delete(f"{SE}/session/{made}")


def test_ws_01_arguments_are_not_commands(server, name):
    for argument in ("; touch /workspace/injected", "$(touch /workspace/injected)", "`touch injected`", "| touch injected", "&& touch injected", "\n touch injected", "'; touch injected; '", '"; touch injected; "'):
        assert execute(server, name, "true", argument)["returncode"] == 0
        assert script(server, name, "true", script_type="shell", args=[argument])["returncode"] == 0
    assert "injected" not in names(listed(server, name))


def test_ws_02_a_script_name_writes_nothing_outside(server, name):
    marker = uuid.uuid4().hex
    for filename in (f"../{marker}", f"/../../tmp/{marker}", f"a/../../{marker}", f"../../../../../../../../tmp/{marker}"):
        assert server.post(f"{SE}/execute_code/{name}", {"code": "1", "filename": filename}).status == 500
    result(server.post(f"{SE}/execute_code/{name}", {"code": "1", "filename": f"/tmp/{marker}"}))
    assert not pathlib.Path(f"/tmp/{marker}.py").exists() and f"tmp/{marker}.py" in names(listed(server, name, query="?recursive=true"))


def test_ws_03_a_session_shares_nothing_with_the_host(server, name):
    os.environ.setdefault("COVE_TEST_CANARY", "canary")
    said = script(server, name, "import os, socket\nprint(os.getpid() < 100, os.getuid(), sorted(k for k in os.environ if 'CANARY' in k))\ntry:\n    socket.create_connection(('127.0.0.1', %d), 2)\n    print('reached')\nexcept OSError:\n    print('alone')" % server.port)
    assert said["stdout"].splitlines() == ["True 1000 []", "alone"], said
    processes = execute(server, name, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")["stdout"]
    assert "serve" not in processes and "keeper" not in processes


def test_ws_04_no_call_leaves_anything_for_the_next(server):
    marker = uuid.uuid4().hex
    leave = f"import builtins, threading, time\nbuiltins.left = '{marker}'\nopen('/tmp/left', 'w').write('{marker}')\nthreading.Thread(target=time.sleep, args=(60,)).start()\ndef handler(event):\n    return 1"
    look = "import builtins, os, threading\ndef handler(event):\n    return [getattr(builtins, 'left', None), os.path.exists('/tmp/left'), threading.active_count()]"
    for _ in range(4):
        assert handled(server, leave, {})["result"] == 1
        assert handled(server, look, {})["result"] == [None, False, 1]


def test_ws_05_a_runaway_does_not_run_on(server):
    answer = call(server, "import threading, time\ndef handler(event):\n    threading.Thread(target=lambda: time.sleep(300)).start()\n    while True: pass", {"__timeout": 1})
    assert answer.status == 500 and answer.json["detail"]["error_code"] == "Sandbox.ExecTimeout"
    from conftest import wait_until
    from hostile import inits

    def ready():
        text = server.get("/metrics").body.decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("cove_pool_ready"))
    assert wait_until(lambda: len(inits(server)) <= ready() + len(result(server.get(f"{SE}/workspaces"))["workspaces"]), 20), "its sandbox is gone"


def test_ws_06_no_network(server, name):
    code = "import socket\ndef handler(event):\n    out = []\n    for target in (('127.0.0.1', %d), ('169.254.169.254', 80), ('1.1.1.1', 53)):\n        try:\n            socket.create_connection(target, 2); out.append('reached')\n        except OSError: out.append('no')\n    return out" % server.port
    assert handled(server, code, {})["result"] == ["no", "no", "no"]
    assert execute(server, name, "cat /proc/net/route /proc/net/dev 2>/dev/null | grep -c eth")["stdout"] in ("0", "")


def test_ws_07_a_result_cannot_be_forged_from_outside_the_call(server):
    # The handler's own word over the channel may be anything; what the kernel saw wins.
    code = "import os\ndef handler(event):\n    os.write(3, b'\\x03' + b'{\"type\":\"result\",\"exit_code\":0,\"result\":\"forged\"}')\n    os.kill(os.getpid(), 9)"
    said = handled(server, code, {})
    assert (said["exit_code"], said["result"]) == (137, None)
    flood = "import os\ndef handler(event):\n    for _ in range(2000): os.write(3, b'\\x03' + b'x' * 60000)\n    return 'end'"
    said = handled(server, flood, {})
    assert said["result"] in ("end", None) and server.get(f"{SE}/healthy").status == 200
    deep = "import os\ndef handler(event):\n    os.write(3, b'\\x03' + b'{\"exit_code\":0,\"result\":' + b'[' * 50000 + b'}')\n    os._exit(0)"
    assert handled(server, deep, {})["exit_code"] == 3


def test_ws_08_clean_up_is_the_callers_own():
    server, tenants = server_with_tenants("red", "blue")
    red, blue = tenants["red"], tenants["blue"]
    try:
        for tenant in (red, blue):
            result(tenant.post(f"{SE}/session/x", {}))
        result(create(blue, "x", "kept", "blue's"))
        assert result(red.post(f"{SE}/cleanup-all", {"force": True}))["total"] == 1
        assert names(listed(blue, "x")) == ["kept"]
        ghost, theirs = red.get(f"{SE}/status/never-was"), red.get(f"{SE}/status/x")
        assert ghost.body.replace(b"never-was", b"x") == theirs.body, "another's is as none"
    finally:
        server.close()


def test_ws_09_uploads_cannot_leave_through_links_that_change(server, name):
    execute(server, name, "mkdir -p race/real; ln -sfn real race/dir")
    swap = server.start_process(name, "sh", "-c", "while :; do ln -sfn /etc race/tmp; mv -T race/tmp race/dir; ln -sfn real race/tmp; mv -T race/tmp race/dir; done")
    for n in range(40):
        create(server, name, f"race/dir/f{n}", "x")
        server.get(f"{SE}/download/{name}/race/dir/passwd")
    server.delete(f"/v1/sandboxes/{name}/processes/{swap['id']}")
    assert execute(server, name, "ls /etc | grep -c '^f[0-9]' || true")["stdout"] == "0"
    assert not [one for one in os.listdir("/etc") if one.startswith("f") and one[1:].isdigit()]


def test_ws_10_huge_and_odd_bodies_cost_little(server, name):
    from hostile import bounded_memory
    with bounded_memory(server, 160):
        answer = server.post(f"{SE}/execute/{name}", b'{"command": "' + b"x" * (17 << 20) + b'"}', headers={"Content-Type": "application/json"})
        assert answer.status == 413 and answer.json["detail"]
        answer = server.post(f"{SE}/v2/execute_code", b'{"handler_code": "", "event": ' + b"[" * 100000, headers={"Content-Type": "application/json"})
        assert answer.status in (400, 422)
        for _ in range(3):
            script(server, name, "print('y' * 5_000_000)")


def test_ws_11_a_command_is_no_option_of_the_shell(server, name):
    for command in ("-x", "--version", "-i"):
        assert execute(server, name, command)["returncode"] == 127, command


def test_ws_12_large_variables_cost_themselves_alone_and_that_is_said(server, name):
    said = script(server, name, "print('hello')\nx = 'a' * (30 << 20)", output_params=["x"])
    assert (said["stdout"], said["returncode"], said["output_variables"]) == ("hello", 0, {}) and "4 MiB" in said["output_variables_error"]
    said = script(server, name, "x = list(range(200000))", output_params=["x"])
    assert said["output_variables"] == {} and "100000 values" in said["output_variables_error"]
    assert "output_variables_error" not in script(server, name, "x = 1\n1 / 0", output_params=["x"])
    said = handled(server, "def handler(event):\n    print('hello')\n    return 'a' * (9 << 20)", {})
    assert (said["stdout"], said["result"], said["exit_code"]) == ("hello\n", None, 3) and "4 MiB" in said["stderr"]


def test_ws_13_answers_are_bounded(server, name):
    execute(server, name, "head -c 4194304 /dev/zero | tr '\\0' '\\001' > c.txt")
    assert len(server.get(f"{SE}/readfile/{name}/c.txt?buffer_size=4194304").body) < 12 << 20
    answer = server.post(f"{SE}/create/{name}", b'{"x": "' + b"y" * (8 << 20) + b'"}', headers={"Content-Type": "application/json"})
    assert answer.status == 422 and len(answer.body) < 1 << 20 and answer.json["detail"][0]["loc"] == ["body", "content"]
