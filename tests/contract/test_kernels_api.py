"""Kernels: `…/kernels…` of docs/api.md, with real interpreters."""
import base64
import json
import socket
import subprocess
import threading
import time

import pytest
from conftest import COVE, fair, wait_until
from kernels import RESULT, Kernel
from server import at, new_id

FIELDS = {"id", "language", "state", "startedAt", "executions", "queued", "birth"}
TABLE, CHART = "application/vnd.cove.table+json", "application/vnd.cove.chart+json"
BUSY = "while True: pass"
STUBBORN = "import time\nwhile True:\n  try:\n    time.sleep(60)\n  except KeyboardInterrupt: pass"


@pytest.fixture(scope="module")
def box(server):
    name = server.create(ttlSeconds=600, memoryLimit="1Gi", pidsLimit=200)
    yield name
    server.delete(at(name))


@pytest.fixture(scope="module")
def shared(server, box):
    """A kernel that tests share: they leave it alive, with names of their own in it."""
    return Kernel(server, box)


@pytest.fixture
def kernel(server, box):
    """One for a test alone."""
    made = Kernel(server, box)
    yield made
    server.delete(made.at(), timeout=20)


# --- their life

def test_a_kernel_is_made_seen_and_deleted(server, sandbox):
    kernel = Kernel(server, sandbox, language="python", env={"A": "one", "N": 2})
    assert set(kernel.born) == FIELDS and (kernel.id, kernel.born["language"], kernel.born["state"], kernel.born["executions"], kernel.born["queued"]) == ("k1", "python", "idle", 0, 0)
    assert kernel.born["birth"] in ("warm", "cold")
    assert kernel.out("import os; print(os.environ['A'], os.environ['N'], os.getcwd())") == "one 2 /workspace\n"
    assert kernel.get().json["executions"] == 1
    second = Kernel(server, sandbox)
    assert [one["id"] for one in server.get(at(sandbox, "kernels")).json["kernels"]] == ["k1", "k2"]
    assert server.get(at(sandbox, "processes")).json["processes"] == [], "a kernel is no process"
    assert server.delete(kernel.at()).status == 204
    assert kernel.get().status == 404
    assert [one["id"] for one in server.get(at(sandbox, "kernels")).json["kernels"]] == ["k2"]
    assert second.value("6*7") == "42"
    assert Kernel(server, sandbox).id == "k3", "ids are not given twice"


def test_a_kernel_of_javascript(server, sandbox):
    kernel = Kernel(server, sandbox, language="javascript", env={"A": "one"})
    assert set(kernel.born) == FIELDS and (kernel.born["language"], kernel.born["birth"]) == ("javascript", "cold")
    assert kernel.out("let x = 1; console.log(process.env.A, process.cwd())") == "one /workspace\n"
    assert kernel.value("x += await Promise.resolve(1)") == "2"
    failed = kernel.run("throw new RangeError('far')")
    assert (failed["status"], failed["error"]["name"], failed["error"]["value"]) == ("error", "RangeError", "far")
    assert kernel.run("while (true) {}", timeoutSeconds=0.5)["reason"] == "timeout"
    assert kernel.value("x") == "2", "an interrupt keeps the state"
    answer = kernel.post("complete", {"code": "cons"})
    assert (answer.status, answer.code) == (409, "conflict"), answer


@pytest.mark.parametrize("hook", ["import atexit, time\natexit.register(time.sleep, 60)", "import time\nclass Never:\n  def __del__(self): time.sleep(60)\nx = Never()", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)", STUBBORN], ids=["atexit", "del", "deaf", "busy"])
def test_it_is_gone_when_delete_returns(server, box, hook):
    kernel = Kernel(server, box)
    pid = kernel.value("import os; os.getpid()")
    waiting = None
    if hook is STUBBORN:
        waiting = kernel.background(hook)
        kernel.busy()
    else:
        kernel.run(hook)
    began = time.monotonic()
    assert server.delete(kernel.at(), timeout=20).status == 204
    assert time.monotonic() - began < fair(3)
    assert server.sh(box, f"test -d /proc/{pid}")["exitCode"] == 1
    if waiting:
        assert (waiting()["reason"], waiting()["status"]) == ("cancelled", "error")


@pytest.mark.parametrize("body, word", [({"language": "r"}, '"javascript"'), ({"language": 3}, "language"), ({"env": []}, "env"), ({"env": {"A=B": "x"}}, "env"), ({"env": {"A": None}}, "env.A"), (b"[]", "object"), (b"{", "JSON")], ids=str)
def test_a_kernel_that_cannot_be_is_400(server, sandbox, body, word):
    answer = server.post(at(sandbox, "kernels"), body)
    assert (answer.status, answer.code) == (400, "invalid") and word in answer.json["error"], answer
    assert server.get(at(sandbox, "kernels")).json == {"kernels": []}


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
def test_a_python_start_that_meets_a_pause_is_409_and_never_404(fresh_server, warm):
    server = fresh_server(*(["--python-warm=true"] if warm else []))
    name = server.create()
    statuses = []

    def start():
        statuses.append(server.post(at(name, "kernels"), timeout=60))

    for _ in range(25):
        starts = [threading.Thread(target=start) for _ in range(2)]
        pause = threading.Thread(target=lambda: server.post(at(name, "pause"), timeout=60))
        for thread in (starts[0], pause, starts[1]):
            thread.start()
        for thread in (*starts, pause):
            thread.join()
        assert server.post(at(name, "resume"), timeout=60).status == 200
        for kernel in server.get(at(name, "kernels")).json["kernels"]:
            server.delete(at(name, f"kernels/{kernel['id']}"))
    assert {answer.status for answer in statuses} <= {201, 409}, statuses
    assert all("paused" in answer.json["error"] for answer in statuses if answer.status == 409), statuses


def test_a_kernel_keeps_its_environment_over_restarts_of_itself_and_of_the_server(fresh_server):
    server = fresh_server()
    name = server.create()
    kernels = [Kernel(server, name, language=language, env={"COLOUR": "blue", "EMPTY": ""}) for language in ("python", "javascript")]
    show = {"python": "import os; print(os.environ.get('COLOUR'), repr(os.environ.get('EMPTY')))", "javascript": "console.log(process.env.COLOUR, JSON.stringify(process.env.EMPTY))"}
    want = {"python": "blue ''\n", "javascript": 'blue ""\n'}
    for _ in range(2):
        for kernel in kernels:
            for _ in range(2):
                assert kernel.post("restart", timeout=60).status == 200
                assert kernel.out(show[kernel.born["language"]]) == want[kernel.born["language"]]
        server.restart()


def test_a_picture_that_is_too_large_is_named_in_its_place(shared):
    result = shared.run("display({'image/png': 'A' * 12_000_000, 'text/plain': 'x'}, raw=True); display({'image/png': 'A' * 8_000_000}, raw=True); display({'image/jpeg': 'A' * 40_000_000}, raw=True)")
    assert result["status"] == "ok" and result["truncated"]["displays"] == 2
    texts = [one["data"]["text/plain"] for one in result["outputs"][1:]]
    assert texts[0].startswith("[image/png of 5.7M left out: an execution shows at most 16M") and texts[1].startswith("[image/jpeg of more than 17M left out"), texts


EXECUTE = {"code": [None, 1, "nul\0"], "timeoutSeconds": [0, -1, "x"], "silent": [1], "storeHistory": ["no"], "allowStdin": [0], "colour": ["red"], "userExpressions": [[], {"a": 1}], "outputLimit": [-1, 1.5, "x"]}


def test_every_bad_field_is_400_and_named(shared):
    for field, values in EXECUTE.items():
        for value in values:
            answer = shared.post("execute", {"code": "1", field: value})
            assert (answer.status, answer.code) == (400, "invalid") and field in answer.json["error"], (field, value, answer)
    for path, body, word in [
            ("execute?detach=maybe", {"code": "1"}, "detach"), ("complete", {}, "code"), ("complete", {"code": "a", "cursorPos": -1}, "cursorPos"), ("inspect", {"code": "a", "detailLevel": 2}, "detailLevel"),
            ("is_complete", {"code": 3}, "code"), ("history", {"access": "all"}, "access"), ("history", {"n": 1.5}, "n must"), ("input", {}, "value"), ("input", {"value": "x", "eof": True}, "value"), ("input", {"value": 3}, "value"),
            ("comms", {"type": "say"}, "type"), ("comms", {"type": "msg"}, "commId"), ("comms", {"type": "open"}, "targetName"), ("comms", {"type": "msg", "commId": "c", "data": 3}, "data")]:
        answer = shared.post(path, body)
        assert (answer.status, answer.code) == (400, "invalid") and word in answer.json["error"], (path, body, answer)
    for query in ("variables?max=0", "variables?max=x", "variables?previewBytes=9999999", "history?n=x"):
        assert shared.get(query).status == 400, query


def test_what_is_not_there_is_404(server, shared, box):
    for path in (at(box, "kernels/k99"), at("nowhere", "kernels"), at("nowhere", "kernels/k1"), shared.at("executions/e1"), shared.at("executions/1"), shared.at("executions/e1/events"), at(box, "kernels/k99/variables")):
        assert server.get(path).status == 404, path
    for word in ("execute", "interrupt", "restart", "complete", "input", "comms"):
        assert server.post(at(box, f"kernels/k99/{word}"), {"code": "1", "value": "x", "type": "close", "commId": "c"}).status == 404, word
    assert server.delete(at(box, "kernels/k99")).status == 404 and server.delete(shared.at("executions/e1")).status == 404


def test_a_body_that_is_too_large_is_413(shared):
    assert shared.post("execute", {"code": "#" * (17 << 20)}).status == 413


def test_there_is_an_end_to_the_kernels_of_a_sandbox(server):
    name = server.create(memoryLimit="2Gi", pidsLimit=200)
    statuses = [server.post(at(name, "kernels")).status for _ in range(33)]
    assert statuses == [201] * 32 + [429]
    server.delete(at(name))


def test_tenants_do_not_see_each_other(fresh_server):
    with_keys = fresh_server()
    keys = []
    for tenant in ("a", "b"):
        done = subprocess.run([COVE, "key", "create", "--json", "--tenant", tenant, "--state-dir", with_keys.state_dir], capture_output=True, text=True, timeout=20)
        keys.append({"Authorization": "Bearer " + json.loads(done.stdout)["key"]})
    with_keys.restart()
    name = new_id()
    assert with_keys.put(at(name), {}, headers=keys[0]).status == 200
    assert with_keys.post(at(name, "kernels"), headers=keys[0]).status == 201
    for path in ("kernels", "kernels/k1", "kernels/k1/variables"):
        assert with_keys.get(at(name, path), headers=keys[0]).status == 200
        assert with_keys.get(at(name, path), headers=keys[1]).status == 404
        assert with_keys.get(at(name, path)).status == 401
    assert with_keys.post(at(name, "kernels/k1/execute"), {"code": "1"}, headers=keys[1]).status == 404


# --- what a cell is

def test_the_result_of_a_cell(shared):
    result = shared.run("import sys\nprint('out'); print('err', file=sys.stderr); display('shown'); 40 + 2")
    assert (result["status"], result["reason"], result["stdout"], result["stderr"], result["error"]) == ("ok", "exited", "out\n", "err\n", None)
    assert [one["type"] for one in result["outputs"]] == ["display", "result"]
    assert result["outputs"][0]["data"] == {"text/plain": "'shown'"} and result["outputs"][1]["data"] == {"text/plain": "42"}
    assert result["outputs"][1]["executionCount"] == result["executionCount"] > 0
    assert result["truncated"] == {"stdoutBytes": 0, "stderrBytes": 0, "displays": 0} and "note" not in result


def test_an_error_has_a_name_a_value_and_a_traceback(shared):
    result = shared.run("def f(): return 1/0\nf()")
    assert (result["status"], result["reason"]) == ("error", "exited")
    assert (result["error"]["name"], result["error"]["value"]) == ("ZeroDivisionError", "division by zero")
    assert "\x1b[" not in "".join(result["error"]["traceback"]) and "f()" in "".join(result["error"]["traceback"])
    assert "\x1b[" in "".join(shared.run("1/0", colour=True)["error"]["traceback"])
    assert shared.run("import sys; sys.exit(3)")["error"]["name"] == "SystemExit" and shared.value("1") == "1"


def test_silent_history_and_expressions(shared):
    before = shared.run("1")["executionCount"]
    assert shared.run("2", silent=True)["outputs"] == []
    assert shared.run("3", storeHistory=False)["outputs"][0]["data"]["text/plain"] == "3"
    assert shared.run("4")["executionCount"] == before + 1
    asked = shared.run("x = 20", userExpressions={"twice": "x*2", "wrong": "1/0"})["userExpressions"]
    assert asked["twice"] == {"status": "ok", "data": {"text/plain": "40"}, "metadata": {}}
    assert (asked["wrong"]["status"], asked["wrong"]["name"]) == ("error", "ZeroDivisionError")


def test_magics_commands_and_await(shared):
    assert shared.out("%%bash\necho from $((6*7))") == "from 42\n"
    assert shared.out("!echo one; echo two >&2") == "one\ntwo\n"
    assert shared.out("import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')") == "awaited\n"
    assert "per loop" in shared.out("%timeit -n1 -r1 pass")


def test_what_programs_write_comes_before_the_end_in_whole_characters(shared):
    for _ in range(5):
        assert shared.out("import subprocess; subprocess.run(['sh', '-c', 'echo hi; printf \"é%.0s\" $(seq 50000)'])") == "hi\n" + "é" * 50000
    result = shared.run(r"import subprocess; x = subprocess.run(['printf', r'a\377b\000c'])")
    assert result["stdout"] == "a\ufffdb\0c"
    assert shared.out(r"!printf 'x\377y'") == "x\ufffdy"


def test_a_plot_comes_back_as_a_picture_and_as_data(shared):
    result = shared.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9], label='squares'); plt.title('T'); plt.legend(); plt.show()")
    [shown] = result["outputs"]
    assert shown["type"] == "display" and base64.b64decode(shown["data"]["image/png"]).startswith(b"\x89PNG\r\n\x1a\n")
    [axes] = shown["data"][CHART]["axes"]
    assert axes["title"] == "T" and axes["series"][0]["label"] == "squares" and axes["series"][0]["y"] == [1, 4, 9]


def test_a_frame_comes_back_as_a_table(shared):
    result = shared.run("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})")
    data = result["outputs"][0]["data"]
    assert "<table" in data["text/html"] and [column["name"] for column in data[TABLE]["columns"]] == ["a", "b"]
    assert [row[-2:] for row in data[TABLE]["rows"]] == [[1, "x"], [2, None]]


def test_displays_are_updated_and_cleared(shared):
    result = shared.run("from IPython.display import clear_output\nh = display('one', display_id='d1')\nh.update('two')\nclear_output(wait=True)")
    assert [(one["type"], one.get("displayId")) for one in result["outputs"]] == [("display", "d1"), ("update_display", "d1"), ("clear_output", None)]
    assert result["outputs"][2]["wait"] is True


def test_texts_of_every_kind_arrive(shared):
    assert shared.out("print('\\ud800 lone', end='')") in ("\ufffd lone", "? lone")
    assert shared.out("print('a\\0b\\x1b[1m\\r\\n', end='')") == "a\0b\x1b[1m\r\n"
    assert shared.out("print('𝄞 é \\u2028', end='')") == "𝄞 é \u2028"
    assert shared.value("float('nan'), float('inf')") == "(nan, inf)"
    result = shared.run("display({'text/plain': 'x', 'bad\\r\\nX-Evil: 1/2': 'y', 'nonsense': 'z', 'application/json': {'n': float('inf'), 's': '\\udc80'}}, raw=True)")
    assert set(result["outputs"][0]["data"]) == {"text/plain", "application/json"}
    assert shared.run("raise ValueError('\\ud800\\0')")["error"]["name"] == "ValueError"


def test_bad_words_through_a_hole_in_the_runtime_spoil_only_their_own_kernel(kernel):
    result = kernel.run("import os, json\nbad = {'type': 'display_data', 'parent': get_ipython().kernel.outlet.parent, 'content': {'data': {'a/b\\r\\nX: y': 'evil', 'text/plain': 'good'}, 'metadata': {}}}\nos.write(3, b'\\x03' + json.dumps(bad).encode())")
    assert result["outputs"][0]["data"] == {"text/plain": "good"}
    result = kernel.run("os.write(3, b'\\x03{not json'); import time; time.sleep(5)")
    assert (result["status"], result["reason"]) == ("error", "kernel_died") and "protocol error" in result["note"]
    assert "protocol error" in kernel.post("execute", {"code": "1"}).json["error"]


# --- how much

def test_output_past_its_limit_is_counted(shared):
    result = shared.run("print('x' * 3_000_000, end='')")
    assert len(result["stdout"]) == 1 << 20 and result["truncated"]["stdoutBytes"] == 3_000_000 - (1 << 20) and result["status"] == "ok"
    result = shared.run("import sys\nfor _ in range(100): print('é' * 10)\nprint('e' * 50, file=sys.stderr)", outputLimit=99)
    assert len(result["stdout"].encode()) <= 99 and result["truncated"]["stdoutBytes"] == 2100 - len(result["stdout"].encode())
    assert len(result["stderr"]) == 51 and result["truncated"]["stderrBytes"] == 0
    assert shared.run("import subprocess; x = subprocess.run(['head', '-c', '2000000', '/dev/zero'])")["truncated"]["stdoutBytes"] == 2_000_000 - (1 << 20)


def test_a_display_of_ten_megabytes_comes_and_larger_ones_are_counted(shared):
    result = shared.run("display({'text/plain': 'y' * 10_000_000}, raw=True); display({'text/plain': 'z' * 10_000_000}, raw=True); display({'text/plain': 'w' * 40_000_000}, raw=True); display('small')")
    assert [len(one["data"]["text/plain"]) for one in result["outputs"]] == [10_000_000, 7]
    assert result["truncated"]["displays"] == 2 and result["status"] == "ok"
    assert len(shared.run("raise ValueError('v' * 5_000_000)")["error"]["value"]) < 70_000


def test_a_message_of_very_many_elements_is_counted_and_passed_over(shared):
    result = shared.run("display({'text/plain': 'x', 'application/json': [0] * 600_000}, raw=True); display('small')")
    assert [one["data"]["text/plain"] for one in result["outputs"]] == ["'small'"] and result["truncated"]["displays"] == 1 and result["status"] == "ok"


def test_code_of_megabytes_is_run(shared):
    assert shared.run("big = '" + "a" * 3_000_000 + "'; len(big)")["outputs"][0]["data"]["text/plain"] == "3000000"


def test_prints_without_number_do_not_keep_the_server_busy_for_long(shared):
    result = shared.run("for n in range(60_000): print(n, flush=True)")
    assert result["stdout"].startswith("0\n1\n2\n") and result["stdout"].endswith("59999\n")


# --- streams

def test_a_stream_of_events(shared):
    with shared.stream("import time\nprint('a'); time.sleep(0.3); display('b'); print('c')\n1/0") as stream:
        assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
        events = list(stream)
    assert [event["id"] for event in events] == list(range(1, len(events) + 1)) and all(event["event"] == event["data"]["type"] and event["id"] == event["data"]["seq"] for event in events)
    assert [event["event"] for event in events] == ["queued", "started", "stdout", "display", "stdout", "error", "end"]
    assert events[2]["data"]["data"] == "a\n" and events[5]["data"]["name"] == "ZeroDivisionError"
    end = events[-1]["data"]
    assert (end["status"], end["reason"], end["error"]["name"]) == ("error", "exited", "ZeroDivisionError") and end["durationMs"] >= 300
    again = shared.ended(events[0]["data"]["executionId"])
    assert again["stdout"] == "a\nc\n" and again["state"] == "ended" and again["lastSeq"] == 7


def test_output_comes_while_the_cell_runs(shared):
    with shared.stream("import os, time\nprint('now')\nwhile not os.path.exists('heard'): time.sleep(0.02)\nprint('later')") as stream:
        stream.until(lambda data: data["type"] == "stdout" and data["data"] == "now\n")
        shared.server.out(shared.sandbox, "touch heard")
        stream.until(lambda data: data["type"] == "end")


@pytest.mark.parametrize("way", ["json", "sse"])
def test_a_client_that_goes_away_cancels_its_cell(kernel, way):
    kernel.run("kept = 1")
    # Of a JSON answer the head comes after a second.
    stream = kernel.server.sse(kernel.at("execute"), "POST", {"code": BUSY}, {"Accept": "application/json" if way == "json" else "text/event-stream"})
    kernel.busy()
    stream.close()
    assert wait_until(lambda: kernel.state == "idle", 5), kernel.get()
    assert kernel.value("kept") == "1", "what it knew is kept"


def test_detached_cells_go_on_alone(shared):
    execution = shared.detach("import time\nfor n in range(5): print(n); time.sleep(0.1)\n'done'")
    assert shared.get(f"executions/{execution}").json["state"] in ("queued", "running")
    with shared.server.sse(shared.at(f"executions/{execution}/events?from=1")) as stream:
        first = stream.until(lambda data: data["type"] == "stdout")
    with shared.server.sse(shared.at(f"executions/{execution}/events"), headers={"Last-Event-ID": str(first[-1]["id"])}) as stream:
        rest = list(stream)
    assert [event["id"] for event in first + rest] == list(range(1, len(first + rest) + 1)) and rest[-1]["event"] == "end"
    assert "".join(event["data"]["data"] for event in first + rest if event["event"] == "stdout") == "0\n1\n2\n3\n4\n"
    result = shared.ended(execution)
    assert RESULT <= set(result) and result["stdout"] == "0\n1\n2\n3\n4\n" and result["outputs"][0]["data"]["text/plain"] == "'done'"
    with shared.stream("import time\ntime.sleep(0.5); print('after')", "?detach=true") as stream:
        execution = stream.next()["data"]["executionId"]
    assert shared.ended(execution)["stdout"] == "after\n", "a reader that leaves does not end it"


def test_a_detached_cell_is_cancelled(kernel):
    first, second = kernel.detach(BUSY), kernel.detach("print('never')")
    assert kernel.server.delete(kernel.at(f"executions/{second}")).status == 204
    assert (kernel.ended(second)["status"], kernel.ended(second)["reason"]) == ("aborted", "cancelled")
    assert kernel.server.delete(kernel.at(f"executions/{first}")).status == 204
    assert (kernel.ended(first)["status"], kernel.ended(first)["reason"], kernel.ended(first)["error"]["name"]) == ("error", "cancelled", "KeyboardInterrupt")
    assert kernel.state == "idle"


# --- interrupts, time, death

@pytest.mark.parametrize("code", [BUSY, "import time; time.sleep(60)", "import asyncio; await asyncio.sleep(60)", "!sleep 60", "import subprocess; subprocess.run(['sleep', '60'])"], ids=["loop", "sleep", "await", "command", "subprocess"])
def test_an_interrupt_ends_the_cell_and_keeps_the_state(shared, code):
    shared.run("kept = 'here'")
    began = time.monotonic()
    waiting = shared.background(code)
    shared.busy()
    time.sleep(0.15)
    assert shared.post("interrupt").status == 204
    result = waiting()
    assert time.monotonic() - began < fair(5) and (result["status"], result["reason"], result["error"]["name"]) == ("error", "exited", "KeyboardInterrupt")
    assert shared.value("kept") == "'here'"
    assert shared.post("interrupt").status == 204, "of one that is idle"
    assert shared.value("kept") == "'here'"


def test_a_cell_that_takes_too_long_is_interrupted(shared):
    shared.run("kept = [1]")
    result = shared.run("kept.append(2)\n" + BUSY, timeoutSeconds=0.4)
    assert (result["status"], result["reason"], result["error"]["name"]) == ("error", "timeout", "KeyboardInterrupt") and 350 < result["durationMs"] < fair(2000)
    assert shared.value("kept") == "[1, 2]"


def test_one_that_will_not_be_interrupted_is_killed_and_so_is_its_kernel(kernel):
    result_of_first = kernel.background(STUBBORN, timeoutSeconds=0.3)
    kernel.busy()
    waiting = kernel.background("print('never')")
    result = result_of_first()
    assert (result["status"], result["reason"]) == ("error", "timeout") and 2000 < result["durationMs"] < fair(5000) and result["note"]
    assert (waiting()["status"], waiting()["reason"]) == ("aborted", "kernel_died")
    answer = kernel.post("execute", {"code": "1"})
    assert (answer.status, answer.code) == (409, "conflict") and "in time" in answer.json["error"]


@pytest.mark.parametrize("code, note", [("import os; os._exit(3)", "status 3"), ("import ctypes; ctypes.string_at(0)", "SIGSEGV"), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL")], ids=["exit", "segfault", "kill"])
def test_everybody_who_waits_hears_at_once_that_the_kernel_died(kernel, code, note):
    first = kernel.background("import time; time.sleep(0.7)\n" + code)
    kernel.busy()
    others = [kernel.background("print('never')") for _ in range(5)]
    assert wait_until(lambda: kernel.get().json["queued"] == 5, 5)
    began = time.monotonic()
    result = first()
    assert (result["status"], result["reason"]) == ("error", "kernel_died") and note in result["note"], result
    for other in others:
        assert (other()["status"], other()["reason"], other()["stdout"]) == ("aborted", "kernel_died", "") and note in other()["note"]
    assert time.monotonic() - began < fair(2.5)
    dead = kernel.get().json
    assert dead["state"] == "dead" and note in dead["note"]
    for path, body in (("execute", {"code": "1"}), ("complete", {"code": "a"}), ("interrupt", None), ("history", {})):
        answer = kernel.post(path, body)
        assert (answer.status, answer.code) == (409, "conflict") and note in answer.json["error"], (path, answer)
    assert kernel.get("variables").status == 409
    assert kernel.post("restart").json["state"] == "idle" and kernel.value("6*7") == "42"


def test_a_kernel_that_needs_too_much_memory(server):
    name = server.create(memoryLimit="192Mi")
    kernel = Kernel(server, name)
    result = kernel.run("x = []\nwhile True: x.append(bytearray(1 << 20))")
    assert (result["status"], result["reason"]) == ("error", "oom") and "memory" in result["note"]
    answer = kernel.post("execute", {"code": "1"})
    assert answer.status == 409 and "memory" in answer.json["error"]
    assert kernel.post("restart").status == 200
    result = kernel.run("import os; os._exit(4)")
    assert result["reason"] == "kernel_died", "what was killed before is not this one's end"
    server.delete(at(name))


def test_a_kernel_that_exits_is_not_charged_with_what_an_earlier_cell_met(server):
    name = server.create(pidsLimit=24, memoryLimit="256Mi")
    kernel = Kernel(server, name)
    threads = "import threading, time\nfor _ in range(100): threading.Thread(target=time.sleep, args=(0.2,), daemon=True).start()"
    assert kernel.run(threads)["status"] == "error"
    time.sleep(0.5)
    result = kernel.run("import os; os._exit(3)")
    assert (result["reason"], result["note"]) == ("kernel_died", "it exited with status 3")
    assert kernel.post("restart").status == 200
    result = kernel.run(f"try:\n    exec({threads!r})\nexcept RuntimeError: pass\nimport os; os._exit(3)")
    assert result["reason"] == "pids" and result["note"].startswith("process limit 24 reached ("), result
    server.delete(at(name))


def test_a_cell_whose_child_was_killed_for_memory_is_told_of_it(server):
    name = server.create(memoryLimit="192Mi")
    kernel = Kernel(server, name)
    result = kernel.run("import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', 'b = bytearray(400 << 20)']); time.sleep(0.3)")
    assert (result["status"], result["reason"], result["oomKills"]) == ("ok", "exited", 1)
    assert result["note"].startswith("a process was killed: memory limit 192M reached"), result
    assert "note" not in kernel.run("1")
    server.delete(at(name))


def test_exit_ends_the_kernel_after_its_reply(kernel):
    assert kernel.run("exit()")["status"] == "ok"
    assert wait_until(lambda: kernel.state == "dead", 5)
    assert "status 0" in kernel.get().json["note"]


def test_a_restart_is_a_new_interpreter_of_the_same_name(kernel):
    kernel.run("x = 1")
    pid = kernel.value("import os; os.getpid()")
    running, waiting = kernel.background(STUBBORN), None
    kernel.busy()
    waiting = kernel.background("print('never')")
    assert wait_until(lambda: kernel.get().json["queued"] == 1, 5)
    answer = kernel.post("restart")
    assert answer.status == 200 and (answer.json["id"], answer.json["state"]) == (kernel.id, "idle")
    assert (running()["reason"], waiting()["reason"], waiting()["status"]) == ("cancelled", "cancelled", "aborted")
    assert kernel.run("x")["error"]["name"] == "NameError" and kernel.value("import os; os.getpid()") != pid
    assert kernel.run("1")["executionCount"] == 3


# --- more than one

def test_kernels_of_a_sandbox_share_files_and_nothing_else(shared, kernel):
    shared.run("mine = 1; open('/workspace/shared.txt', 'w').write('hello')")
    assert kernel.run("mine")["error"]["name"] == "NameError"
    assert kernel.out("print(open('shared.txt').read())") == "hello\n"
    slow = shared.background("import os, time\nwhile not os.path.exists('answered'): time.sleep(0.02)")
    shared.busy()
    assert kernel.value("1") == "1", "they do not wait for each other"
    kernel.run("open('answered', 'w')")
    assert slow()["status"] == "ok"


def test_cells_of_one_kernel_run_in_their_order(shared):
    shared.run("order = []")
    first = shared.background("import time; time.sleep(0.5); order.append(0)")
    shared.busy()
    for number in range(1, 6):
        shared.detach(f"order.append({number})")
    first()
    assert shared.value("order") == "[0, 1, 2, 3, 4, 5]"


def test_a_thread_that_speaks_after_the_end_is_not_heard_in_the_next_cell(shared):
    shared.run("import threading, time\ndef late():\n  time.sleep(0.3); print('late'); print('no line end', end='')\nthreading.Thread(target=late).start()")
    time.sleep(0.6)
    result = shared.run("print('mine')")
    assert (result["stdout"], result["stderr"]) == ("mine\n", "")


# --- input

def test_input_is_asked_for_and_given(shared):
    with shared.stream("name = input('who? ')\nimport getpass\nsecret = getpass.getpass('word: ')\nprint(name, secret)", allowStdin=True) as stream:
        asked = stream.until(lambda data: data["type"] == "input_request")[-1]["data"]
        assert (asked["prompt"], asked["password"]) == ("who? ", False)
        assert shared.post("input", {"value": "Ada\ud83d\ude00"}).status == 204
        asked = stream.until(lambda data: data["type"] == "input_request")[-1]["data"]
        assert asked["password"] is True
        assert shared.post("input", {"value": "x" * 100_000}).status == 204
        events = stream.until(lambda data: data["type"] == "end")
    assert "".join(event["data"]["data"] for event in events if event["event"] == "stdout") == "Ada😀 " + "x" * 100_000 + "\n"
    answer = shared.post("input", {"value": "x"})
    assert (answer.status, answer.code) == (409, "conflict")


def test_input_may_end_or_be_interrupted_or_not_be_allowed(shared):
    execution = shared.detach("input('?')", allowStdin=True)
    assert wait_until(lambda: shared.get(f"executions/{execution}").json["waitsForInput"], 5)
    assert shared.post("input", {"eof": True}).status == 204
    assert shared.ended(execution)["error"]["name"] == "EOFError"
    execution = shared.detach("input('?')", allowStdin=True)
    assert wait_until(lambda: shared.get(f"executions/{execution}").json["waitsForInput"], 5)
    assert shared.post("interrupt").status == 204
    assert shared.ended(execution)["error"]["name"] == "KeyboardInterrupt"
    assert shared.run("input()")["error"]["name"] == "StdinNotImplementedError"


# --- questions

def test_questions_to_a_kernel(kernel):
    kernel.run("number = 42\ntext = 'x' * 1000\nimport numpy as np\narray = np.zeros((3, 4))")
    variables = {one["name"]: one for one in kernel.get("variables").json["variables"]}
    assert set(variables) >= {"number", "text", "array"} and variables["number"]["preview"] == "42" and variables["array"]["shape"] == [3, 4] and "sizeBytes" in variables["array"]
    assert len(kernel.get("variables?max=1&previewBytes=10").json["variables"]) == 1
    found = kernel.post("complete", {"code": "numb", "cursorPos": 4}).json
    assert "number" in found["matches"] and (found["cursorStart"], found["cursorEnd"]) == (0, 4)
    assert kernel.post("complete", {"code": "arr"}).json["matches"] == ["array"]
    told = kernel.post("inspect", {"code": "number", "cursorPos": 3}).json
    assert told["found"] is True and "int" in told["data"]["text/plain"]
    assert kernel.post("inspect", {"code": "nothing_of_this_name"}).json["found"] is False
    assert kernel.post("is_complete", {"code": "for x in y:"}).json["status"] == "incomplete" and "indent" in kernel.post("is_complete", {"code": "for x in y:"}).json
    assert kernel.post("is_complete", {"code": "1"}).json == {"status": "complete"}
    assert kernel.post("is_complete", {"code": "1 +"}).json["status"] == "invalid"
    kernel.run("'second'")
    assert [line[2] for line in kernel.get("history?n=1").json["history"]] == ["'second'"]
    assert len(kernel.post("history", {"access": "range", "start": 1, "stop": 3}).json["history"]) == 2
    assert kernel.post("history", {"access": "search", "pattern": "*number*"}).json["history"][0][2].startswith("number = 42")


def test_comms(kernel):
    kernel.run("def opened(comm, message):\n  comm.on_msg(lambda m: comm.send({'got': m['content']['data']}))\n  comm.send({'hello': 1})\nget_ipython().kernel.comm_manager.register_target('t', opened)")
    events = kernel.post("comms", {"type": "open", "commId": "c1", "targetName": "t"}).json["events"]
    assert [(event["type"], event["commId"], event["data"]) for event in events] == [("comm_msg", "c1", {"hello": 1})]
    events = kernel.post("comms", {"type": "msg", "commId": "c1", "data": {"a": [1]}}).json["events"]
    assert events[0]["data"] == {"got": {"a": [1]}}
    assert kernel.get("comms").json == {"comms": [{"commId": "c1", "targetName": "t"}]}
    assert kernel.post("comms", {"type": "close", "commId": "c1"}).status == 200 and kernel.get("comms").json == {"comms": []}


def test_a_question_waits_for_its_turn_and_a_client_that_leaves_takes_it_back(shared):
    slow = shared.background("import time; time.sleep(1.5); answer = 1")
    shared.busy()
    with socket.create_connection(("127.0.0.1", shared.server.port), 10) as connection:
        connection.sendall(f"GET {shared.at('variables')} HTTP/1.1\r\nHost: 127.0.0.1:{shared.server.port}\r\n\r\n".encode())
        assert wait_until(lambda: shared.get().json["queued"] == 1, 5)
    assert wait_until(lambda: shared.get().json["queued"] == 0, 5) and shared.state == "busy"
    assert "answer" in {one["name"] for one in shared.get("variables").json["variables"]}
    slow()


# --- around them

def test_a_paused_sandbox_is_409(server, sandbox):
    kernel = Kernel(server, sandbox)
    kernel.run("x = 1")
    assert server.post(at(sandbox, "pause")).status == 200
    for method, path, body in [("POST", "execute", {"code": "1"}), ("POST", "interrupt", None), ("POST", "restart", None), ("GET", "variables", None), ("DELETE", "", None), ("POST", "input", {"value": "x"})]:
        answer = server.request(method, kernel.at(path), body)
        assert (answer.status, answer.code) == (409, "conflict") and "paused" in answer.json["error"], (path, answer)
    assert server.post(at(sandbox, "kernels"), {}).status == 409 and kernel.get().status == 200
    assert server.post(at(sandbox, "resume")).status == 200
    assert kernel.value("x") == "1"


def test_a_cell_keeps_its_sandbox_alive(server):
    name = server.create(ttlSeconds=1)
    kernel = Kernel(server, name)
    kernel.detach("import time; time.sleep(2.2)")
    time.sleep(1.9)
    assert kernel.get().status == 200
    assert wait_until(lambda: server.get(at(name)).status == 404, 6)


def test_the_end_of_the_sandbox_is_the_end_of_its_cells(server):
    name = server.create()
    kernel = Kernel(server, name)
    waiting = kernel.background(BUSY)
    kernel.busy()
    assert server.delete(at(name)).status == 204
    assert waiting()["reason"] == "sandbox_gone"


def test_executions_at_once_are_a_quota(fresh_server):
    server = fresh_server("--exec-max-concurrent", "2")
    kernel = Kernel(server, server.create())
    slow = kernel.detach("import time; time.sleep(0.8)")
    began = time.monotonic()
    waiting = [kernel.background("1") for _ in range(2)]
    for one in waiting:
        assert one()["status"] == "ok"
    assert time.monotonic() - began > 0.4
    kernel.ended(slow)


def test_metrics_tell_of_kernels(server, shared):
    shared.run("1")
    text = server.get("/metrics").body.decode()
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line and not line.startswith("#")}
    assert values['cove_kernels{state="idle"}'] >= 1 and values['cove_kernels{state="starting"}'] == 0
    assert values['cove_kernel_executions_total{reason="exited"}'] >= 1 and 'cove_kernel_executions_total{reason="oom"}' in values
    assert values['cove_python_starts_total{birth="warm"}'] + values['cove_python_starts_total{birth="cold"}'] >= 1


# --- a server that dies

def test_kernels_outlive_the_server(fresh_server):
    server = fresh_server()
    name = server.create(ttlSeconds=300)
    kernel, busy, other = Kernel(server, name), Kernel(server, name), Kernel(server, name)
    kernel.run("x = {'big': list(range(1000))}; print('y' * 200_000)")
    busy.run("import time; state = 'before'")
    busy.detach("time.sleep(1.5); state = 'after'")
    server.delete(other.at())
    busy.busy()
    server.restart()
    assert [one["id"] for one in server.get(at(name, "kernels")).json["kernels"]] == ["k1", "k2"]
    assert kernel.value("len(x['big'])") == "1000"
    assert kernel.run("print('again')")["stdout"] == "again\n"
    assert busy.value("state") == "'after'", "what it was at goes on"
    assert Kernel(server, name).id in ("k3", "k4")
    assert server.post(at(name, "pause")).status == 200
    server.restart()
    assert server.post(at(name, "resume")).status == 200
    assert kernel.value("len(x['big'])") == "1000"
    assert kernel.post("restart").status == 200 and kernel.run("x")["error"]["name"] == "NameError"


def test_a_server_that_stops_ends_cells_and_says_why(fresh_server):
    server = fresh_server("--drain", "300ms", "--on-exit", "keep")
    kernel = Kernel(server, server.create(ttlSeconds=300))
    kernel.run("x = 1")
    waiting = kernel.background("import time; time.sleep(60)")
    kernel.busy()
    assert server.stop(10) == 0
    assert waiting()["reason"] == "shutdown"
    server.start()
    assert kernel.value("x") == "1"
