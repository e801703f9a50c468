"""Asynchronous executions: `…/executions…` of docs/api.md, and the callbacks that tell of their end."""
import hashlib
import hmac
import json
import stat
import threading
import time

import pytest
from conftest import wait_until
from receiver import Stand
from server import Server, at, new_id

OK, SECRET = 200, "s3cret-é"


@pytest.fixture(scope="module")
def hooks():
    """A receiver that does as the path says."""
    hang = threading.Event()

    def answer(request):
        tries = sum(1 for one in request.server.came if one.path == request.path)
        if request.path.startswith("/flaky"):
            request.reply(503 if tries < 3 else 204)
        elif request.path.startswith("/hang"):
            hang.wait(30)
        elif request.path.startswith("/away"):
            request.reply(302, Location="http://169.254.169.254/latest")
        elif request.path.startswith("/never"):
            request.reply(500)
        else:
            request.reply(200)

    with Stand(answer) as stand:
        yield stand
        hang.set()


@pytest.fixture(scope="module")
def server(hooks):
    with Server(f"--callbacks-allow={hooks.place}", "--callbacks-backoff=50ms", "--callbacks-timeout=1s", "--callbacks-attempts=3", "--exec-history=5", "--drain", "2s", warm=True) as running:
        yield running


@pytest.fixture(scope="module")
def box(server):
    return server.create(ttlSeconds=600, memoryLimit="1Gi", pidsLimit=128)


def submit(server, box, code, **fields):
    answer = server.post(at(box, "executions"), {"code": code, **fields})
    assert answer.status == 201, answer
    assert answer.json["status"] in ("pending", "running") and answer.json["id"].startswith("x")
    return answer.json["id"]


def done(server, box, eid, wait=30):
    answer = server.get(at(box, f"executions/{eid}?wait={wait}"), timeout=60)
    assert answer.status == 200 and answer.json["endedAt"], answer
    return answer.json


def run(server, box, code, **fields):
    return done(server, box, submit(server, box, code, **fields))


def mine(hooks, path):
    return [one for one in hooks.came if one.path == path]


# --- what is run

def test_a_program_runs_and_everything_about_it_is_told(server, box):
    result = run(server, box, "import sys, os\nprint('out', sys.argv[1:], os.environ['A'], sys.stdin.read())\nprint('err', file=sys.stderr)\nopen('made.txt', 'w').write('x' * 7)\nsys.exit(3)",
                 args=["a b", "c"], env={"A": "one"}, stdin="in", timeoutSeconds=20)
    assert (result["status"], result["exitCode"], result["reason"], result["signal"]) == ("failed", 3, "exited", None)
    assert (result["stdout"], result["stderr"], result["stdoutBytes"]) == ("out ['a b', 'c'] one in\n", "err\n", 24)
    assert (result["stdoutTruncated"], result["stderrTruncated"], result["language"], result["timeoutSeconds"], result["args"]) == (False, False, "python", 20, ["a b", "c"])
    assert [(one["path"], one["size"]) for one in result["artifacts"]] == [("/workspace/made.txt", 7)], "and not the program itself"
    assert result["memoryPeakBytes"] > 0 and result["cpuMs"] >= 0 and result["durationMs"] >= 0 and result["createdAt"] <= result["startedAt"] <= result["endedAt"]
    assert server.out(box, "ls -A") == "made.txt\n" and server.sh(box, "rm made.txt")["exitCode"] == 0
    assert server.get(at(box, "processes")).json["processes"] == [], "an execution is no process"


@pytest.mark.parametrize("language,code", [("bash", "echo $((6*7)) $1"), ("javascript", "console.log(42, process.argv[2])"), ("perl", "print 6*7, \" $ARGV[0]\\n\""), ("sh", "echo 42 $1")])
def test_languages(server, box, language, code):
    result = run(server, box, code, language=language, args=["x"])
    assert (result["status"], result["stdout"], result["artifacts"]) == ("completed", "42 x\n", []), result


def test_files_stay_for_the_next(server, box):
    run(server, box, "open('kept', 'w').write('7')")
    assert run(server, box, "cat kept; rm kept", language="bash")["stdout"] == "7"


@pytest.mark.parametrize("code,fields,status,reason", [
    ("import time; time.sleep(60)", {"timeoutSeconds": 0.3}, "timeout", "timeout"),
    ("import os; os.kill(os.getpid(), 9)", {}, "crashed", "signalled"),
    ("x = bytearray(2 << 30)", {}, "crashed", "oom"),
    ("1/0", {}, "failed", "exited"),
    ("def", {}, "failed", "exited"),
], ids=["timeout", "signal", "memory", "exception", "syntax"])
def test_how_it_ends(server, box, code, fields, status, reason):
    result = run(server, box, code, **fields)
    assert (result["status"], result["reason"]) == (status, reason) or (reason == "oom" and result["status"] == "failed" and "MemoryError" in result["stderr"]), result


def test_output_past_its_limit_is_counted(server, box):
    result = run(server, box, "print('x' * 3_000_000)")
    assert (result["status"], len(result["stdout"]), result["stdoutBytes"], result["stdoutTruncated"]) == ("completed", 1 << 20, 3_000_001, True)


# --- handlers

@pytest.mark.parametrize("value", [None, True, 7, 1.5, "é", [1, [2]], {"a": {"b": []}}])
def test_a_handler_returns(server, box, value):
    result = run(server, box, "def handler(event):\n  print('hi')\n  return event['v']", event={"v": value})
    assert (result["status"], result["returnValue"], result["stdout"], result["exitCode"], result["handler"]) == ("completed", value, "hi\n", 0, True)


def test_a_handler_with_context_and_numbers_that_json_has_not(server, box):
    result = run(server, box, "def handler(event, context):\n  return [float('nan'), float('inf'), -float('inf'), 'NaN \\\\\" -Infinity', bool(context.request_id)]", event=None)
    assert result["returnValue"] == [None, None, None, 'NaN \\" -Infinity', True]


@pytest.mark.parametrize("code,said", [("def handler(event): raise KeyError('gone')", "KeyError"), ("x = 1", "handler"), ("def handler(event): return object()", "object"), ("import os\ndef handler(event): os._exit(5)", "")])
def test_a_handler_that_fails(server, box, code, said):
    result = run(server, box, code, event={})
    assert result["status"] == "failed" and result["exitCode"] != 0 and result["returnValue"] is None and said in result["stderr"], result


# --- in a kernel

def test_in_a_kernel(server, box):
    kernel = server.post(at(box, "kernels"), {}).json["id"]
    assert run(server, box, "x = 41", kernel=kernel)["status"] == "completed"
    result = run(server, box, "print('hi'); x + 1", kernel=kernel)
    assert (result["status"], result["stdout"], result["outputs"][0]["data"]["text/plain"], result["kernel"]) == ("completed", "hi\n", "42", kernel)
    failed = run(server, box, "1/0", kernel=kernel)
    assert failed["status"] == "failed" and failed["error"]["ename"] == "ZeroDivisionError"
    eid = submit(server, box, "while True: pass", kernel=kernel)
    assert server.delete(at(box, f"executions/{eid}")).status == 204
    assert done(server, box, eid)["status"] == "cancelled"
    assert server.delete(at(box, f"kernels/{kernel}")).status == 204
    assert server.post(at(box, "executions"), {"code": "1", "kernel": kernel}).status == 404


# --- following, cancelling, history

def test_events_live_and_again(server, box):
    eid = submit(server, box, "import os, time\nprint('one', flush=True)\nwhile not os.path.exists('gate'): time.sleep(0.01)\nos.remove('gate')\nprint('two')")
    with server.sse(at(box, f"executions/{eid}/events")) as stream:
        before = stream.until(lambda data: data.get("data", "").endswith("\n"))
        server.out(box, "touch gate")
        after = list(stream)

    def text(events):  # Python is unbuffered, and writes a line and its end one after the other
        return "".join(one["data"]["data"] for one in events if one["event"] == "stdout")

    assert [one["event"] for one in before + after if one["event"] != "stdout"] == ["started", "end"]
    assert (text(before), text(after)) == ("one\n", "two\n")
    assert before[0]["data"]["executionId"] == eid and after[-1]["data"]["exitCode"] == 0
    with server.sse(at(box, f"executions/{eid}/events?from={before[-1]['id'] + 1}")) as stream:
        again = list(stream)
    assert text(again) == "two\n" and again[-1]["event"] == "end"


def test_cancel(server, box):
    eid = submit(server, box, "print('go', flush=True)\nimport time; time.sleep(60)")
    assert wait_until(lambda: server.get(at(box, f"executions/{eid}")).json["status"] == "running")
    assert server.get(at(box, f"executions/{eid}?wait=0")).json["endedAt"] is None
    assert server.delete(at(box, f"executions/{eid}")).status == 204
    result = done(server, box, eid, 0)
    assert (result["status"], result["reason"]) == ("cancelled", "cancelled")
    assert server.delete(at(box, f"executions/{eid}")).status == 204, "it is over already"


def test_history_is_kept_newest_first_and_bounded(server):
    box = server.create(ttlSeconds=600)
    ids = [submit(server, box, f"exit {n % 2}", language="sh") for n in range(7)]
    for eid in ids:
        assert wait_until(lambda: server.get(at(box, f"executions/{eid}")).json.get("endedAt") or server.get(at(box, f"executions/{eid}")).status == 404)
    page = server.get(at(box, "executions?limit=3")).json
    assert [one["id"] for one in page["executions"]] == ids[:3:-1] and page["nextCursor"] and "stdout" not in page["executions"][0]
    rest = server.get(at(box, f"executions?limit=3&cursor={page['nextCursor']}")).json
    assert [one["id"] for one in rest["executions"]] == [ids[3], ids[2]] and rest["nextCursor"] is None, "five are kept"
    assert [one["id"] for one in server.get(at(box, "executions?status=failed")).json["executions"]] == [ids[5], ids[3]]
    assert server.get(at(box, f"executions/{ids[0]}")).status == 404
    assert server.delete(at(box)).status == 204 and server.get(at(box, f"executions/{ids[6]}")).status == 404


# --- what is refused

@pytest.mark.parametrize("body,field", [
    ({}, "code"), ({"code": ""}, "code"), ({"code": 1}, "code"), ({"code": "1", "language": "cobol"}, "language"), ({"code": "1", "args": "x"}, "args"), ({"code": "1", "args": [1]}, "args"),
    ({"code": "1", "env": []}, "env"), ({"code": "1", "stdin": 1}, "stdin"), ({"code": "1", "timeoutSeconds": 0}, "timeoutSeconds"), ({"code": "1", "event": {}, "language": "bash"}, "event"),
    ({"code": "1", "kernel": 1}, "kernel"), ({"code": "1", "kernel": "k1", "event": {}}, "event"), ({"code": "1", "callback": "x"}, "callback"), ({"code": "1", "callback": {}}, "callback.url"),
    ({"code": "1", "callback": {"url": "gopher://h/"}}, "callback.url"), ({"code": "1", "callback": {"url": "file:///etc/passwd"}}, "callback.url"), ({"code": "1", "callback": {"url": "http://u:p@example.org/"}}, "callback.url"),
    ({"code": "1", "callback": {"url": "http://127.0.0.1:1/"}}, "callback.url"), ({"code": "1", "callback": {"url": "http://169.254.169.254/"}}, "callback.url"), ({"code": "1", "callback": {"url": "http://[::ffff:127.0.0.1]/"}}, "callback.url"),
    ({"code": "1", "callback": {"url": "http://2130706433/"}}, "callback.url"), ({"code": "1", "callback": {"url": "https://example.org/", "secret": ""}}, "callback.secret"),
])
def test_what_is_refused_names_its_field(server, box, body, field):
    answer = server.post(at(box, "executions"), body)
    assert answer.status == 400 and field in answer.json["error"], answer


def test_limits_and_unknown_things(server, box):
    assert server.post(at(box, "executions"), {"code": "#" * ((1 << 20) + 1)}).status == 413
    for path in ("executions?limit=0", "executions?limit=x", "executions?status=odd", "executions?cursor=!", "executions?cursor=eA"):
        assert server.get(at(box, path)).status == 400, path
    assert server.get(at(box, "executions/xnone")).status == 404 and server.delete(at(box, "executions/xnone")).status == 404 and server.get(at(box, "executions/xnone/events")).status == 404
    assert server.get(at(new_id(), "executions")).status == 404 and server.post(at(new_id(), "executions"), {"code": "1"}).status == 404
    other = server.create()
    eid = submit(server, box, "1")
    assert server.get(at(other, f"executions/{eid}")).status == 404, "it is another sandbox's"
    assert server.get(at(box, f"executions/{eid}?wait=301")).status == 400
    server.post(at(other, "pause"))
    assert server.post(at(other, "executions"), {"code": "1"}).status == 409
    server.delete(at(other))


# --- callbacks

def delivered(server, box, eid, status="delivered"):
    def told():
        callback = server.get(at(box, f"executions/{eid}")).json["callback"]
        return callback if callback["status"] not in ("waiting", "pending") else None
    callback = wait_until(told, 30)
    assert callback and callback["status"] == status, server.get(at(box, f"executions/{eid}")).json
    return callback


def test_the_secret_of_a_callback_lies_sealed_on_disk(server, box, hooks):
    secret = "only-the-receiver-knows-0123456789"
    eid = submit(server, box, "import time; time.sleep(2)", callback={"url": hooks.url("/sealed"), "secret": secret})
    front = server.state_dir / "front"
    for path in front.iterdir():
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    key = front / "secrets.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_bytes()) == 32
    assert delivered(server, box, eid)["signed"] is True
    [request] = mine(hooks, "/sealed")
    wanted = hmac.new(secret.encode(), request.headers["X-Cove-Timestamp"].encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Cove-Signature"] == f"sha256={wanted}"
    for path in front.iterdir():
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_a_callback_is_signed(server, box, hooks):
    eid = submit(server, box, "print('é')", callback={"url": hooks.url("/plain"), "secret": SECRET})
    assert delivered(server, box, eid) == {"url": hooks.url("/plain"), "signed": True, "status": "delivered", "attempts": 1, "lastStatus": 200, "lastError": ""}
    [request] = mine(hooks, "/plain")
    stamp = request.headers["X-Cove-Timestamp"]
    wanted = hmac.new(SECRET.encode(), stamp.encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Cove-Signature"] == f"sha256={wanted}" and abs(int(stamp) - time.time()) < 60
    assert request.headers["X-Cove-Delivery"] == eid and request.headers["Content-Type"] == "application/json"
    told = json.loads(request.body)
    assert (told["id"], told["status"], told["stdout"], told["sandbox"]) == (eid, "completed", "é\n", box)
    assert SECRET not in request.body.decode() and SECRET not in server.get(at(box, f"executions/{eid}")).body.decode()


def test_one_that_fails_is_tried_again_under_the_same_id(server, box, hooks):
    eid = submit(server, box, "1", callback={"url": hooks.url("/flaky")})
    assert delivered(server, box, eid)["attempts"] == 3
    assert {one.headers["X-Cove-Delivery"] for one in mine(hooks, "/flaky")} == {eid} and mine(hooks, "/flaky")[0].headers["X-Cove-Signature"] is None


@pytest.mark.parametrize("path,said", [("/never", "answered 500"), ("/hang", "no answer in time"), ("/away", "redirects are not followed")])
def test_one_that_never_works_is_given_up(server, box, hooks, path, said):
    eid = submit(server, box, "1", callback={"url": hooks.url(path)})
    callback = delivered(server, box, eid, "failed")
    assert said in callback["lastError"] and callback["attempts"] == 3 and len(mine(hooks, path)) == 3


def test_a_name_that_leads_inside_is_not_called(server, box, hooks):
    eid = submit(server, box, "1", callback={"url": f"http://localhost:{hooks.server_address[1]}/inside"})
    callback = delivered(server, box, eid, "failed")
    assert "no public address" in callback["lastError"] and callback["attempts"] == 1 and not mine(hooks, "/inside")


def test_a_large_result_is_told_without_its_output(server, box, hooks):
    eid = submit(server, box, "import sys; print('x' * 900_000); print('y' * 900_000, file=sys.stderr)", callback={"url": hooks.url("/large")})
    delivered(server, box, eid)
    told = json.loads(mine(hooks, "/large")[0].body)
    assert told["omitted"] == ["stdout"] and "stdout" not in told and len(told["stderr"]) == 900_001 and told["stdoutBytes"] == 900_001


def test_a_sandbox_that_goes_is_told_of(server, hooks):
    box = server.create()
    eid = submit(server, box, "import time; time.sleep(60)", callback={"url": hooks.url("/gone")})
    assert wait_until(lambda: server.get(at(box, f"executions/{eid}")).json["status"] == "running")
    assert server.delete(at(box)).status == 204
    assert wait_until(lambda: mine(hooks, "/gone"))
    assert json.loads(mine(hooks, "/gone")[0].body)["status"] == "crashed"


# --- over a restart

def test_a_restart_loses_nothing(hooks):
    with Server(f"--callbacks-allow={hooks.place}", "--callbacks-backoff=50ms") as server:
        box = server.create(ttlSeconds=600)
        kernel = server.post(at(box, "kernels"), {}).json["id"]
        over = submit(server, box, "print('before')")
        assert done(server, box, over)["stdout"] == "before\n"
        running = submit(server, box, "import time, os\nprint('one', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('two')\nraise SystemExit(4)", callback={"url": hooks.url("/restart"), "secret": "k"})
        handler = submit(server, box, "import time, os\ndef handler(event):\n  while not os.path.exists('go'): time.sleep(0.02)\n  return event", event={"n": 1})
        late = submit(server, box, "import time; time.sleep(60)", timeoutSeconds=3)
        cell = submit(server, box, "import time; time.sleep(60)", kernel=kernel)
        for eid in (running, handler, late, cell):
            assert wait_until(lambda: server.get(at(box, f"executions/{eid}")).json["status"] == "running"), eid
        server.restart()
        assert done(server, box, over, 0)["stdout"] == "before\n"
        assert server.get(at(box, f"executions/{running}")).json["status"] == "running"
        server.out(box, "touch go")
        result = done(server, box, running)
        assert (result["status"], result["exitCode"], result["stdout"]) == ("failed", 4, "one\ntwo\n")
        assert done(server, box, handler)["returnValue"] == {"n": 1}
        assert done(server, box, late)["status"] == "timeout"
        lost = done(server, box, cell)
        assert (lost["status"], lost["reason"]) == ("crashed", "shutdown") and "kernel" in lost["error"]
        assert wait_until(lambda: mine(hooks, "/restart")) and json.loads(mine(hooks, "/restart")[0].body)["exitCode"] == 4
