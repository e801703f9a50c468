"""Tools of MCP servers in sandboxes: servers come and go, calls from kernels and plain processes, approvals, limits (docs/tools.md)."""
import json
import pathlib
import time

import pytest
import tool_server
from conftest import wait_until
from kernels import Kernel
from server import Server, at, new_id

PROGRAM = pathlib.Path(tool_server.__file__).read_bytes()
STDIO = {"command": "python3", "args": ["server.py"], "place": "inside"}


@pytest.fixture(scope="module")
def server():
    with Server("--tools-allow-loopback", "--tools-variables", "OFFERED_*", env={"OFFERED_WORD": "a word of the operator", "COVE_SECRET_WORD": "ours"}) as running:
        yield running


@pytest.fixture(scope="module")
def http_server():
    serving = tool_server.Http()
    yield serving
    serving.shutdown()


@pytest.fixture
def box(server):
    name = new_id("tools")
    assert server.put(at(name), {}).status == 200
    assert server.request("POST", at(name, "resources/files/server.py"), PROGRAM).status == 200
    yield name
    server.delete(at(name))


@pytest.fixture
def kernel(server, box):
    return Kernel(server, box)


def add(server, box, name="srv", **fields):
    answer = server.post(at(box, "tools"), {"name": name, **(fields if "url" in fields else {**STDIO, **fields})}, timeout=60)
    assert answer.status == 201, answer
    return answer.json


def call(server, box, tool, to="srv", **arguments):
    answer = server.post(at(box, f"tools/{to}/call"), {"tool": tool, "arguments": arguments}, timeout=60)
    assert answer.status == 200, answer
    return answer.json


def test_a_server_is_listed_with_its_tools_and_goes(server, box):
    assert server.get(at(box, "tools")).json == {"servers": []}
    made = add(server, box)
    assert made["package"] == "mcptools.srv" and made["connected"] is True and made["place"] == "inside"
    assert [tool["module"] for tool in made["tools"]][:3] == ["tool_1", "tool_2", "slow"]
    assert server.get(at(box, "tools")).json == {"servers": [made]}
    assert server.get(at(box, "tools/srv")).json == made
    assert server.delete(at(box, "tools/srv")).status == 204
    assert server.get(at(box, "tools/srv")).status == 404
    assert server.delete(at(box, "tools/srv")).status == 404


@pytest.mark.parametrize("body,words", [
    ({}, "name"), ({"name": "a-b", "command": "x"}, "name"), ({"name": "x"}, "command"), ({"name": "x", "command": "y", "policy": {"default": "maybe"}}, "policy.default"),
    ({"name": "x", "command": "y", "directory": "../up"}, "directory"), ({"name": "x", "command": "y", "place": "host"}, "place"),
])
def test_a_wrong_definition_is_refused_by_its_field(server, box, body, words):
    answer = server.post(at(box, "tools"), body)
    assert answer.status == 400 and words in answer.json["error"], answer


def test_a_program_that_is_none_is_told_with_its_last_words(server, box):
    answer = server.post(at(box, "tools"), {"name": "x", **STDIO, "args": ["-c", "import sys; sys.exit('no such thing')"]}, timeout=60)
    assert answer.status == 503 and "no such thing" in answer.json["error"], answer


def test_an_own_sandbox_has_neither_our_files_nor_a_network(server, box):
    source = PROGRAM.decode()
    made = add(server, box, name="own", place="own", args=["-c", source])
    assert made["place"] == "own"
    assert call(server, box, "tool-1", "own", s="x")["result"]["content"][0]["text"] == '{"s": "x"}'
    answer = server.post(at(box, "tools"), {"name": "x", "command": "python3", "args": ["server.py"]}, timeout=60)
    assert answer.status == 503 and "server.py" in answer.json["error"], answer


def test_calls_from_a_kernel_in_every_form(server, box, kernel):
    add(server, box)
    assert kernel.out("from mcptools.srv.tool_1 import tool_1, Params\nprint(tool_1(Params(s='x')))") == '{"s": "x"}\n'
    assert kernel.out("from mcptools.srv import tool_2\nprint(tool_2.run(tool_2.Params(a=1, my_b=2)).sum, tool_2.tool_2(tool_2.Params(a=4)))") == "3 4\n"
    assert kernel.out("from mcptools.srv import functions as f\nprint(f.tool_1('y'), f.tool_2(2, my_b=5).sum, f.image()[0].mime)") == '{"s": "y"} 7 image/png\n'
    assert kernel.out("from mcptools.srv.functions import aio\nimport asyncio\nprint(*await asyncio.gather(*[aio.tool_1(str(n)) for n in range(30)]))").count('{"s"') == 30
    assert kernel.out("print(await tool_2.arun(tool_2.Params(a=1)))") == "Result(sum=1)\n"
    assert kernel.run("f.fail()")["error"]["name"] == "ToolError"
    assert kernel.run("f.tool_2('x')")["error"]["value"] == "arguments.a must be an integer"
    assert kernel.out("from cove import tools\nprint(sorted(tools.servers()))") == "['srv']\n"


def test_calls_from_plain_processes(server, box):
    add(server, box)
    code = "from mcptools.srv import functions as f\nfrom mcptools.srv.functions import aio\nimport asyncio, concurrent.futures\nprint(f.tool_1('a'))\nprint(asyncio.run(aio.tool_2(1)).sum)\nprint(len(list(concurrent.futures.ThreadPoolExecutor(8).map(f.tool_1, 'abcdefgh'))))"
    done = server.exec(box, "python3", "-c", code)
    assert (done["stdout"], done["exitCode"]) == ('{"s": "a"}\n1\n8\n', 0), done


def test_a_plain_process_without_servers_is_told(server, box):
    done = server.exec(box, "python3", "-c", "import sys; sys.path.append('/cove/python/packages')\nfrom cove import tools\ntry:\n    tools.servers()\nexcept tools.ToolRunnerError as error: print(error)")
    assert "no tools are registered" in done["stdout"], done


def test_http_servers_on_loopback(server, box, kernel, http_server):
    add(server, box, name="web", url=http_server.url, headers={"X-Word": "${OFFERED_WORD}"})
    assert kernel.out("from mcptools.web import functions as f\nprint(f.environment('X-Word'))") == "a word of the operator\n"
    assert server.get(at(box, "tools/web")).json["params"]["headers"] == {"X-Word": "${OFFERED_WORD}"}
    assert "a word of the operator" not in server.exec(box, "cat", "mcptools/web/__init__.py")["stdout"]


def test_http_servers_on_loopback_are_refused_unless_they_are_let(http_server):
    with Server() as strict:
        strict.put(at("box"), {})
        answer = strict.post(at("box", "tools"), {"name": "web", "url": http_server.url}, timeout=60)
        assert answer.status == 403 and "127.0.0.1" in answer.json["error"], answer
    port = http_server.server_port
    with Server("--tools-allow", f"127.0.0.1:{port}") as strict:
        strict.put(at("box"), {})
        assert strict.post(at("box", "tools"), {"name": "web", "url": http_server.url}, timeout=60).status == 201


def test_values_of_variables_and_secrets_stay_out_of_the_sandbox(server, box):
    answer = server.post(at(box, "tools"), {"name": "x", **STDIO, "env": {"WORD": "${OFFERED_WORD}"}}, timeout=60)
    assert answer.status == 400 and "OFFERED_WORD" in answer.json["error"] and "own" in answer.json["error"], answer
    answer = server.post(at(box, "tools"), {"name": "x", "command": "x", "env": {"WORD": "${NO_SUCH_VARIABLE}"}}, timeout=60)
    assert answer.status == 400 and "NO_SUCH_VARIABLE" in answer.json["error"], answer
    answer = server.post(at(box, "tools"), {"name": "x", "command": "x", "env": {"WORD": "${COVE_SECRET_WORD}"}}, timeout=60)
    assert answer.status == 400 and "COVE_SECRET_WORD" in answer.json["error"], answer
    made = add(server, box, name="own", place="own", args=["-c", PROGRAM.decode()], env={"WORD": "${OFFERED_WORD}", "KEY": "literal"})
    assert made["params"]["env"] == {"WORD": "${OFFERED_WORD}", "KEY": "<withheld>"}
    assert call(server, box, "environment", "own", name="WORD")["result"]["content"][0]["text"] == "a word of the operator"
    found = server.exec(box, "sh", "-c", "grep -rl 'a word of the operator' . ; grep -rl literal mcptools; true")["stdout"]
    assert found == "", found


def test_a_tools_failure_is_a_result_and_a_servers_end_is_told(server, box):
    add(server, box)
    assert call(server, box, "fail")["result"]["is_error"] is True
    gone = call(server, box, "end")
    assert gone["error"]["retryable"] is True, gone
    assert call(server, box, "tool_1", s="again")["result"]["is_error"] is False


def test_unknown_tools_and_servers_are_named(server, box):
    add(server, box)
    assert call(server, box, "nope")["error"]["message"] == 'server srv has no tool "nope"'
    answer = server.post(at(box, "tools/none/call"), {"tool": "x"})
    assert answer.status == 404 and "srv" in answer.json["error"]


def test_a_time_limit_interrupts_and_gives_the_call_up(server, box, kernel):
    add(server, box)
    kernel.out("from mcptools.srv import functions as f")
    began = time.monotonic()
    result = kernel.run("f.slow(30)", timeoutSeconds=1)
    assert result["reason"] == "timeout" and time.monotonic() - began < 10
    assert kernel.out("print(f.slow(0))") == "slept\n"
    assert kernel.run("from cove import tools\ntools.call('srv', 'slow', {'seconds': 30}, timeout=0.3)")["error"]["name"] == "ToolRunnerError"


def test_an_interrupt_cancels_the_call(server, box, kernel):
    add(server, box)
    kernel.out("from mcptools.srv import functions as f")
    result = kernel.background("f.slow(60)")
    wait_until(lambda: kernel.state == "busy", 10)
    time.sleep(0.3)
    assert kernel.post("interrupt").status < 300
    assert result()["error"]["name"] == "KeyboardInterrupt"
    wait_until(lambda: any(record["tool"] == "slow" for record in server.get(at(box, "tool-calls")).json["records"]), 10)


def test_every_call_is_recorded_by_the_hash_of_its_arguments(server, box):
    add(server, box)
    call(server, box, "tool-1", s="secret words")
    call(server, box, "fail")
    records = server.get(at(box, "tool-calls")).json["records"]
    assert [(record["tool"], record["outcome"]) for record in records] == [("tool-1", "ok"), ("fail", "tool error")]
    assert "secret words" not in json.dumps(records) and len(records[0]["argumentsSha256"]) == 64
    assert server.get(at(box, "tool-calls?after=1")).json["records"] == records[1:]


def test_results_larger_than_the_limit_end_the_call_only(server, box):
    add(server, box)
    assert "error" in call(server, box, "large", bytes=9 << 20)
    assert len(call(server, box, "large", bytes=7 << 20)["result"]["content"][0]["text"]) == 7 << 20


# approvals

def pending(server, box):
    return server.get(at(box, "approvals")).json["approvals"]


def wait_for_one(server, box):
    wait_until(lambda: pending(server, box), 10)
    return pending(server, box)[0]


def test_a_policy_allows_denies_and_asks(server, box, kernel):
    made = add(server, box, policy={"default": "ask", "allow": ["tool-2"], "deny": ["f*"]})
    assert [tool["policy"] for tool in made["tools"]][:4] == ["ask", "allow", "ask", "deny"]
    kernel.out("from mcptools.srv import functions as f")
    assert kernel.out("print(f.tool_2(1).sum)") == "1\n"
    assert kernel.run("f.fail()")["error"]["name"] == "ApprovalRejectedError"
    result = kernel.background("f.tool_1('x')", timeoutSeconds=1)
    request = wait_for_one(server, box)
    assert (request["server"], request["tool"], request["arguments"], request["kernel"]) == ("srv", "tool-1", {"s": "x"}, kernel.id)
    time.sleep(1.5)  # the wait is not the cell's
    assert server.post(at(box, f"approvals/{request['id']}"), {"approved": True}).status == 200
    assert result()["status"] == "ok"
    assert server.post(at(box, f"approvals/{request['id']}"), {"approved": True}).status == 404


def test_a_refusal_is_an_exception_with_its_reason(server, box, kernel):
    add(server, box, policy={"default": "ask"})
    result = kernel.background("from mcptools.srv import functions as f\nf.tool_1('x')")
    request = wait_for_one(server, box)
    assert server.post(at(box, f"approvals/{request['id']}"), {}).status == 400
    assert server.post(at(box, f"approvals/{request['id']}"), {"approved": False, "reason": "too dear"}).status == 200
    assert result()["error"] | {"traceback": 0} == {"name": "ApprovalRejectedError", "value": "Approval request for srv.tool-1 rejected: too dear", "traceback": 0}


def test_an_interrupt_ends_a_wait_for_approval(server, box, kernel):
    add(server, box, policy={"default": "ask"})
    result = kernel.background("from mcptools.srv import functions as f\nf.tool_1('x')")
    wait_for_one(server, box)
    kernel.post("interrupt")
    assert result()["error"]["name"] == "KeyboardInterrupt"
    wait_until(lambda: not pending(server, box), 10)


def test_approval_expires():
    with Server("--tools-approval-timeout", "1s") as quick:
        quick.put(at("box"), {})
        quick.request("POST", at("box", "resources/files/server.py"), PROGRAM)
        add(quick, "box", policy={"default": "ask"})
        assert call(quick, "box", "tool-1", s="x")["error"] == {"type": "timeout", "message": "Approval request for srv.tool-1 expired"}


# configured for everybody

def test_servers_of_the_configuration_are_in_every_sandbox(tmp_path, http_server):
    config = tmp_path / "cove.toml"
    config.write_text(f'[tools]\nallow_loopback = true\n[tools.web]\nurl = "{http_server.url}"\nheaders = {{ X-Word = "${{PRIVATE_WORD}}" }}\npolicy = {{ deny = ["fail"] }}\n')
    with Server("--config", config, env={"PRIVATE_WORD": "of the operator"}) as running:
        running.put(at("box"), {})
        kernel = Kernel(running, "box")
        assert [view["name"] for view in running.get(at("box", "tools")).json["servers"]] == ["web"]
        assert kernel.out("from cove import tools\nprint(tools.call('web', 'environment', {'name': 'X-Word'}))") == "of the operator\n"
        assert kernel.run("tools.call('web', 'fail')")["error"]["name"] == "ApprovalRejectedError"
        assert running.post(at("box", "tools"), {"name": "web"}, timeout=60).json["package"] == "mcptools.web"
        assert kernel.out("from mcptools.web import functions as f\nprint(f.tool_1('x'))") == '{"s": "x"}\n'


def test_a_wrong_server_of_the_configuration_is_told_at_the_start(tmp_path):
    config = tmp_path / "cove.toml"
    config.write_text('[tools.web]\nurl = "http://127.0.0.1/"\npolicy = { default = "maybe" }\n')
    broken = Server("--config", config)
    with pytest.raises(RuntimeError, match=r"\[tools.web\]: policy.default"):
        broken.start()
    broken.discard()
