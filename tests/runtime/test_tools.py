"""Calls of tools from a kernel: requests over its channel in the middle of a cell, and every way of waiting for the answer."""
import pathlib
import time

import pytest
import runtimes

PACKAGES = str(runtimes.RUNTIME / "packages")
SETUP = "from cove import tools"


@pytest.fixture(scope="module")
def kernel(warm, tmp_path_factory):
    process = warm.start()
    runtimes.begin_kernel(process, tmp_path_factory.mktemp("tools"))
    assert process.execute(SETUP).reply["status"] == "ok"
    yield process
    process.end()


def next_call(kernel):
    while (message := kernel.receive())["type"] not in ("tool_call", "tool_cancel"):
        assert message["type"] in ("execute_input", "stream", "input_request"), message
    return message


def answer(kernel, message, **content):
    kernel.send({"op": "tool_reply", "id": message["parent"], "content": {"call": message["content"]["call"], **content}})


def text(value):
    return {"content": [{"type": "text", "text": value}], "is_error": False}


def run(kernel, code, *answers):
    """The end of a cell whose calls get these answers, in their order."""
    asked = kernel.ask("execute", code=code)
    for given in answers:
        answer(kernel, next_call(kernel), **given)
    return runtimes.Events(kernel.replies(asked))


def test_a_call_is_a_message_of_its_cell_and_its_answer_a_value(kernel):
    asked = kernel.ask("execute", code="tools.call('weather', 'get-forecast', {'city': 'Linz'}, timeout=3)")
    message = next_call(kernel)
    assert message["parent"] == asked
    call = message["content"].pop("call")
    assert abs(message["content"].pop("at") / 1000 - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60, "when, for a server that comes after"
    assert message["content"] == {"server": "weather", "tool": "get-forecast", "arguments": {"city": "Linz"}, "timeout": 3}
    message["content"]["call"] = call
    answer(kernel, message, result=text("sunny"))
    assert runtimes.Events(kernel.replies(asked)).result == "'sunny'"


@pytest.mark.parametrize("given,want", [
    ({"content": [], "is_error": False, "structured": {"n": 1}}, "{'n': 1}"),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "is_error": False}, "['a', 'b']"),
    ({"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}], "is_error": False}, "[b'hi']"),
    ({"content": [{"type": "resource", "resource": {"uri": "x:y", "blob": "aGk=", "mimeType": "a/b"}}], "is_error": False}, "[b'hi']"),
    ({"content": [{"type": "resource_link", "uri": "file:///etc/passwd", "name": "n"}], "is_error": False}, "[ResourceLink('file:///etc/passwd')]"),
])
def test_results_become_values(kernel, given, want):
    assert run(kernel, "tools.call('s', 't')", {"result": given}).result == want


@pytest.mark.parametrize("given,kind,words", [
    ({"result": {"content": [{"type": "text", "text": "it broke"}], "is_error": True}}, "ToolError", "it broke"),
    ({"error": {"type": "rejected", "message": "no"}}, "ApprovalRejectedError", "no"),
    ({"error": {"type": "timeout", "message": "late"}}, "ApprovalTimeoutError", "late"),
    ({"error": {"type": "protocol", "message": "bad", "code": -32602}}, "ToolProtocolError", "bad"),
    ({"error": {"type": "error", "message": "gone"}}, "ToolRunnerError", "gone"),
])
def test_failures_become_exceptions(kernel, given, kind, words):
    reply = run(kernel, "tools.call('s', 't')", given).reply
    assert (reply["ename"], reply["evalue"]) == (kind, words)


def test_a_resource_is_read_from_its_server_and_never_from_its_address(kernel):
    link = {"result": {"content": [{"type": "resource_link", "uri": "file:///etc/passwd"}], "is_error": False}}
    asked = kernel.ask("execute", code="tools.call('s', 't')[0].read()")
    answer(kernel, next_call(kernel), **link)
    message = next_call(kernel)
    assert message["content"]["resource"] == "file:///etc/passwd" and message["content"]["server"] == "s"
    answer(kernel, message, result={"contents": [{"uri": "file:///etc/passwd", "text": "from the server"}]})
    assert runtimes.Events(kernel.replies(asked)).result == "'from the server'"


def test_threads_wait_for_their_own_answers_in_any_order(kernel):
    code = ("import threading\nfound = {}\n"
            "def ask(n): found[n] = tools.call('s', 't', {'n': n})\n"
            "threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]\n"
            "[t.start() for t in threads]; [t.join() for t in threads]\nstr(sorted(found.items()))")
    asked = kernel.ask("execute", code=code)
    for message in reversed([next_call(kernel) for _ in range(8)]):
        answer(kernel, message, result=text(str(message["content"]["arguments"]["n"])))
    assert runtimes.Events(kernel.replies(asked)).result == repr(str([(n, str(n)) for n in range(8)]))


def test_tasks_await_many_calls_at_once(kernel):
    asked = kernel.ask("execute", code="import asyncio\nstr(await asyncio.gather(*[tools.acall('s', 't', {'n': n}) for n in range(20)]))")
    for message in reversed([next_call(kernel) for _ in range(20)]):
        answer(kernel, message, result=text(str(message["content"]["arguments"]["n"])))
    assert runtimes.Events(kernel.replies(asked)).result == repr(str([str(n) for n in range(20)]))


def test_an_interrupt_gives_the_call_up(kernel):
    asked = kernel.ask("execute", code="tools.call('s', 't')")
    call = next_call(kernel)
    kernel.interrupt()
    cancel = next_call(kernel)
    assert cancel["type"] == "tool_cancel" and cancel["content"] == {"call": call["content"]["call"]}
    assert kernel.replies(asked)[-1]["content"]["ename"] == "KeyboardInterrupt"
    answer(kernel, call, result=text("late"))
    assert run(kernel, "tools.call('s', 't')", {"result": text("mine")}).result == "'mine'"


def test_an_interrupt_gives_an_awaited_call_up(kernel):
    asked = kernel.ask("execute", code="await tools.acall('s', 't')")
    call = next_call(kernel)
    kernel.interrupt()
    assert next_call(kernel)["content"] == {"call": call["content"]["call"]}
    assert kernel.replies(asked)[-1]["content"]["ename"] == "KeyboardInterrupt"
    assert kernel.execute("1 + 1").result == "2"


def test_a_task_that_a_cell_leaves_behind_gets_its_answer_between_cells(kernel):
    asked = kernel.ask("execute", code="import asyncio\nasync def later(): return await tools.acall('s', 't')\ntask = asyncio.ensure_future(later())\nawait asyncio.sleep(0.01)")
    call = next_call(kernel)
    assert runtimes.Events(kernel.replies(asked)).reply["status"] == "ok"
    answer(kernel, call, result=text("late but mine"))
    assert kernel.execute("await task").result == "'late but mine'"
    assert kernel.execute("1 + 1").result == "2"


def test_a_thread_that_a_cell_leaves_behind_gets_its_answer_between_cells(kernel):
    asked = kernel.ask("execute", code="import threading\nleft = []\nthread = threading.Thread(target=lambda: left.append(tools.call('s', 't')))\nthread.start()\nimport time; time.sleep(0.05)")
    call = next_call(kernel)
    kernel.replies(asked)
    answer(kernel, call, result=text("late"))
    assert kernel.execute("thread.join(5); left").result == "['late']"


def test_input_and_calls_do_not_take_each_others_answers(kernel):
    asked = kernel.ask("execute", allow_stdin=True, code="import threading\ngot = []\nthread = threading.Thread(target=lambda: got.append(tools.call('s', 't')))\nthread.start()\nname = input('?')\nthread.join()\n(name, got)")
    seen = {}
    while len(seen) < 2:
        message = kernel.receive()
        if message["type"] in ("tool_call", "input_request"):
            seen[message["type"]] = message
    kernel.send({"op": "input_reply", "parent": asked, "content": {"value": "Zoë"}})
    answer(kernel, seen["tool_call"], result=text("x"))
    assert runtimes.Events(kernel.replies(asked)).result == "('Zoë', ['x'])"


def test_what_is_no_json_is_refused_before_it_is_sent(kernel):
    assert kernel.execute("tools.call('s', 't', {'x': object()})").reply["ename"] == "TypeError"
    assert kernel.execute("1 + 1").result == "2"


def test_a_large_answer_comes_whole(kernel):
    asked = kernel.ask("execute", code="len(tools.call('s', 't'))")
    answer(kernel, next_call(kernel), result=text("x" * (1 << 20)))
    assert runtimes.Events(kernel.replies(asked)).result == str(1 << 20)


def test_a_forked_child_does_not_use_the_channel(kernel):
    code = "import os\npid = os.fork()\nif pid == 0:\n    try:\n        tools.call('s', 't')\n    except tools.ToolRunnerError as error:\n        os._exit(7)\n    os._exit(1)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    assert kernel.execute(code).result == "7"


def test_modules_of_ipybox_form_find_their_server(kernel, tmp_path):
    package = tmp_path / "srv"
    package.mkdir()
    (package / "__init__.py").write_text("from cove.tools import Client\nSERVER_PARAMS = {'command': 'x'}\nCLIENT = Client('srv', SERVER_PARAMS)\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport srv\nfrom ipybox.mcp.run import run_sync, run_async\nrun_sync('tool-1', {{'s': 1}}, srv.SERVER_PARAMS)"
    asked = kernel.ask("execute", code=code)
    message = next_call(kernel)
    assert (message["content"]["server"], message["content"]["tool"]) == ("srv", "tool-1")
    answer(kernel, message, result=text("ok"))
    assert runtimes.Events(kernel.replies(asked)).result == "'ok'"
    assert run(kernel, "await run_async('tool-1', {}, srv.SERVER_PARAMS)", {"result": text("too")}).result == "'too'"
    assert kernel.execute("run_sync('tool-1', {}, {'command': 'another'})").reply["ename"] == "ToolRunnerError"
    assert pathlib.Path(PACKAGES).is_dir()
