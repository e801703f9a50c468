"""The workspace API: handlers that are called once (contract sandbox-runtime, section 8)."""
import threading

import pytest
from workspace import call, handled

ADD = "def handler(event):\n    print('hi')\n    return {'n': event['n'] + 1}"


def test_the_examples_of_the_contract(server):
    said = handled(server, ADD, {"n": 1, "__timeout": 5})
    assert {**said, "metrics": 0} == {"stdout": "hi\n", "stderr": "", "result": {"n": 2}, "exit_code": 0, "metrics": 0}
    assert list(said["metrics"]) == ["duration_ms", "memory_peak_mb", "cpu_time_ms", "timeout_seconds"] and said["metrics"]["timeout_seconds"] == 5
    answer = call(server, "import time\ndef handler(event):\n    time.sleep(60)", {"__timeout": 1})
    assert answer.status == 500
    assert {**answer.json["detail"], "solution": ""} == {"error_code": "Sandbox.ExecTimeout", "description": "Handler execution timeout", "error_detail": "Execution timed out after 1 seconds", "solution": ""}


@pytest.mark.parametrize("head, body, result", [
    ("event", "event", {"a": 1}), ("event, context", "context.function_name", "unknown-function"), ("event, context=None", "context.function_version", "$LATEST"), ("event, ctx", "ctx.memory_limit_in_mb", 256),
    ("event, retries=3", "retries", 3), ("event, *rest", "list(rest)", []), ("event, *, context=5", "context", 5), ("event, **named", "named", {}), ("event, context, /", "context.get_remaining_time_in_millis()", 3000)])
def test_a_second_parameter_gets_the_context(server, head, body, result):
    assert handled(server, f"def handler({head}):\n    return {body}", {"a": 1})["result"] == result


def test_the_context(server):
    keys = ["function_name", "function_version", "request_id", "log_group_name", "log_stream_name", "remaining_time_in_millis", "memory_limit_in_mb", "invoked_function_arn"]
    code = f"def handler(event, context):\n    return [getattr(context, key) for key in {keys}]"
    usual = handled(server, code, {})["result"]
    assert usual[:2] + usual[3:4] + usual[5:] == ["unknown-function", "$LATEST", "/lambda-sandbox/logs", 3000, 256, None]
    assert len(usual[2]) == len(usual[4]) == 36 and usual[2] != usual[4]
    given = {key: f"v-{key}" for key in keys}
    assert handled(server, code, {}, context=given)["result"] == list(given.values())
    said = handled(server, code, {}, context={"other": 1})
    assert said["stderr"].startswith("System error: ") and "other" in said["stderr"] and (said["result"], said["exit_code"]) == (None, 6)
    assert handled(server, ADD, {"n": 1}, context=None)["result"] == {"n": 2}


@pytest.mark.parametrize("value", [None, True, 7, 1.5, "text ü", [1, [2]], {"a": {"b": None}}, 2**70, ""])
def test_results_of_every_kind(server, value):
    assert handled(server, f"def handler(event):\n    return event['v'] if {isinstance(value, (int, float, str)) and not isinstance(value, bool)} else {value!r}", {"v": value})["result"] == value


@pytest.mark.parametrize("code, status, words", [
    ("def handler(event):\n    raise KeyError('gone')", 2, "KeyError: 'gone'"), ("def handler(event):\n    return {1, 2}", 2, "TypeError"), ("def handler(event):\n    import sys; sys.exit(4)", 2, "SystemExit"),
    ("raise ValueError('no')\ndef handler(event): pass", 1, "ValueError: no"), ("import no_such_module_x\ndef handler(event): pass", 2, "ModuleNotFoundError"), ("def handler(", 6, "System error: "), ("x = 1", 6, "System error: "), ("", 6, "System error: "),
    ("handler = 5", 6, "System error: "), ("def handler(event):\n    import os; os._exit(0)", 3, "System error: "), ("def handler(event):\n    import os; os._exit(9)", 3, "status 9"), ("def handler(event):\n    return 'x' * 9_000_000", 3, "4 MiB"),
    ("def handler(event):\n    import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, ""), ("def handler():\n    return 1", 2, "TypeError")])
def test_what_goes_wrong_is_told(server, code, status, words):
    said = handled(server, code, {})
    assert (said["result"], said["exit_code"]) == (None, status) and words in said["stderr"], said


def test_a_traceback_shows_the_line(server):
    said = handled(server, "def inner():\n    raise RuntimeError('here')\ndef handler(event):\n    print('before')\n    inner()", {})
    assert said["stdout"] == "before\n" and "line 2, in inner" in said["stderr"] and "raise RuntimeError('here')" in said["stderr"] and "cove_runtime" not in said["stderr"]


def test_not_a_number_is_null(server):
    assert handled(server, "def handler(event):\n    return [float('nan'), float('inf'), 1]", {})["result"] == [None, None, 1]


def test_output_keeps_its_newlines_and_cannot_look_like_a_result(server):
    code = "import os, sys\ndef handler(event):\n    print('{\"type\":\"result\",\"exit_code\":0,\"result\":1}\\n\\n')\n    print('err', file=sys.stderr)\n    os.write(1, b'\\xff\\n')\n    return 'true one'"
    said = handled(server, code, {})
    assert (said["stdout"], said["stderr"], said["result"]) == ('�\n{"type":"result","exit_code":0,"result":1}\n\n\n', "err\n", "true one") or said["stdout"].endswith("�\n")


@pytest.mark.parametrize("given, used", [(None, 300), (0, 300), (-5, 300), (7200, 3600), (2.5, 2.5), (True, 1), (10**30, 3600)])
def test_the_time_limit_asked_for(server, given, used):
    said = handled(server, "def handler(event):\n    return event.get('__timeout')", {} if given is None else {"__timeout": given})
    assert (said["metrics"]["timeout_seconds"], said["result"]) == (used, given), "and the handler sees what was asked"


@pytest.mark.parametrize("given", ["5", None, [1], {}])
def test_a_time_limit_that_is_no_number(server, given):
    answer = call(server, ADD, {"n": 1, "__timeout": given})
    assert answer.status == 400 and answer.json["detail"]["error_code"] == "Sandbox.InvalidParameter" and "__timeout" in answer.json["detail"]["error_detail"]


def test_the_figures_are_true(server):
    code = "import time\ndef handler(event):\n    x = bytearray(50_000_000)\n    end = time.process_time() + 0.4\n    while time.process_time() < end: pass\n    time.sleep(0.3)\n    return len(x)"
    said = handled(server, code, {})["metrics"]
    assert said["cpu_time_ms"] >= 400 and said["duration_ms"] >= 700 and 50 < said["memory_peak_mb"] < 128, said
    idle = handled(server, "import time\ndef handler(event):\n    time.sleep(0.5)", {})["metrics"]
    assert idle["cpu_time_ms"] < 400 and idle["duration_ms"] >= 500 and idle["memory_peak_mb"] < said["memory_peak_mb"]


def test_memory_beyond_the_limit(server):
    said = handled(server, "def handler(event):\n    x = bytearray(300_000_000)\n    return len(x)", {})
    assert (said["result"], said["exit_code"]) == (None, 137) and "memory limit" in said["stderr"]


def test_nothing_is_shared_between_calls(server):
    leave = "import sys, os\nsys.left = 1\nimport json\njson.left = 2\nopen('/tmp/left', 'w').write('x')\nopen('/workspace/left', 'w').write('x')\nos.environ['LEFT'] = '1'\nimport subprocess\nsubprocess.Popen(['sleep', '300'])\ndef handler(event):\n    return 1"
    look = "import sys, os, json\ndef handler(event):\n    return [hasattr(sys, 'left'), hasattr(json, 'left'), os.path.exists('/tmp/left'), os.listdir('/workspace'), 'LEFT' in os.environ, [p for p in os.listdir('/proc') if p.isdigit() and 'sleep' in open(f'/proc/{p}/cmdline').read()]]"
    for _ in range(6):
        assert handled(server, leave, {})["result"] == 1
        assert handled(server, look, {})["result"] == [False, False, False, [], False, []]


def test_many_at_once(server):
    said = {}
    threads = [threading.Thread(target=lambda n=n: said.update({n: handled(server, "def handler(event):\n    return event['n']", {"n": n})["result"]})) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {n: n for n in range(12)}


def test_they_come_from_the_pool(server):
    def hits():
        text = server.get("/metrics").body.decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith('cove_pool_hits_total{kind="handler"'))
    from conftest import wait_until
    assert wait_until(lambda: 'cove_pool_ready{kind="handler"} 2' in server.get("/metrics").body.decode(), 20)
    before = hits()
    handled(server, ADD, {"n": 1})
    assert hits() == before + 1


def test_the_main_block_of_a_handler_does_not_run(server):
    said = handled(server, "import pickle\nclass A: pass\ndef handler(event):\n    return [__name__, type(pickle.loads(pickle.dumps(A()))).__name__]\nif __name__ == '__main__':\n    print('main')", {})
    assert (said["stdout"], said["result"]) == ("", ["handler", "A"])


def test_the_variables_of_such_servers(fresh_server):
    server = fresh_server(env={"SANDBOX_CPU_QUOTA": "1", "SANDBOX_MEMORY_LIMIT": "65536", "SANDBOX_ALLOW_NETWORK": "True", "SANDBOX_TIMEOUT_SECONDS": "2", "SANDBOX_MAX_USER_PROGRESS": "4", "SANDBOX_POOL_SIZE": "1", "log_level": "DEBUG"})
    said = handled(server, "import socket\ndef handler(event):\n    return socket.gethostbyname('some.test')", {})
    assert said["result"].startswith("198.18."), "there is a network, which answers names by itself"
    said = handled(server, "def handler(event):\n    return bytearray(80_000_000)", {})
    assert said["exit_code"] == 137, "65536 KB of real memory"
    code = "import threading, time\ndef handler(event):\n    made = 0\n    try:\n        for _ in range(20):\n            threading.Thread(target=time.sleep, args=(5,), daemon=True).start(); made += 1\n    except RuntimeError:\n        pass\n    return made"
    assert handled(server, code, {})["result"] in (3, 4), "itself among them, and one of ours where it was not needed"
    answer = call(server, "import time\ndef handler(event):\n    time.sleep(60)", {})
    assert (answer.status, answer.json["detail"]["error_detail"]) == (500, "Execution timed out after 2 seconds")


def test_processor_time_is_the_handlers_own(server):
    """Not that of an interpreter that waited for it, or had to be started."""
    quick = [handled(server, "def handler(event):\n    return 1", {})["metrics"]["cpu_time_ms"] for _ in range(3)]
    busy = handled(server, "import time\ndef handler(event):\n    until = time.process_time() + 0.3\n    while time.process_time() < until: pass", {})["metrics"]["cpu_time_ms"]
    assert min(quick) < 10 and 290 <= busy < 600, (quick, busy)
