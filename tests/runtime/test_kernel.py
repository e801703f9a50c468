"""Kernels: what is asked of them beside running cells, how they are interrupted, and how they end."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
import runtimes
from conftest import fair
from runtimes import begin_kernel


@pytest.fixture
def kernel(warm, tmp_path):
    """A kernel of this test's own."""
    process = warm.start()
    begin_kernel(process, tmp_path)
    yield process
    process.end()


@pytest.fixture(scope="module")
def shared(warm, tmp_path_factory):
    process = warm.start()
    begin_kernel(process, tmp_path_factory.mktemp("shared"))
    yield process
    process.end()


# how it begins


def test_it_says_what_it_is_warm_or_cold(start, workdir):
    process = start()
    ready = begin_kernel(process, workdir)
    assert ready["language"]["name"] == "python" and ready["language"]["version"] == ready["python"]
    assert ready["pid"] == process.pid and "IPython" in ready["banner"] and "nonexistent" not in ready["banner"]
    events = process.execute("x = 20\nprint('hi')\nx + 1")
    assert events.kinds == ["execute_input", "stream", "execute_result", "execute_reply"]
    assert events.reply == {"status": "ok", "execution_count": 1, "user_expressions": {}, "payload": []}
    assert events.of("execute_input") == [{"code": "x = 20\nprint('hi')\nx + 1", "execution_count": 1}]
    assert events.of("execute_result") == [{"execution_count": 1, "data": {"text/plain": "21"}, "metadata": {}}]
    assert process.execute("(x, _, len(In), list(Out))").result == "(20, 21, 3, [1])"


def test_nothing_has_happened_in_it_yet(start, workdir):
    process = start()
    begin_kernel(process, workdir)
    assert process.execute("(_, __, ___, Out, len(In), [name for name in dir() if name[:2] in ('_1', '_e')])").result == "('', '', '', {}, 2, [])"
    assert process.execute("import linecache\nlen([name for name in linecache.cache if 'ipython-input' in name])").result == "2"


def test_environment_directory_and_time_zone_are_those_of_the_first_message(start, workdir):
    process = start()
    (workdir / "extra").mkdir()
    begin_kernel(process, workdir, {"COLOUR": "blé", "TZ": "Asia/Tokyo", "HOME": str(workdir), "PYTHONPATH": str(workdir / "extra")})
    (workdir / "extra" / "found_by_path.py").write_text("x = 1")
    (workdir / "beside.py").write_text("y = 2")
    assert process.execute("import os, time\n' '.join(sorted(os.environ))").result == repr(" ".join(sorted([*runtimes.ENV, "COLOUR", "TZ", "PYTHONPATH"])))
    assert process.execute("!echo $COLOUR").text() == "blé\n"
    assert eval(process.execute("(time.tzname[0], os.getcwd(), os.path.expanduser('~'))").result) == ("JST", str(workdir), str(workdir))
    assert process.execute("import found_by_path, beside\nfound_by_path.x + beside.y").result == "3"
    assert process.execute("get_ipython().ipython_dir").result == repr(str(workdir / ".ipython"))
    assert sorted(entry.name for entry in workdir.iterdir()) == ["beside.py", "extra"]


def test_two_kernels_of_one_parent_draw_different_numbers(warm, tmp_path):
    code = ("import random, numpy, uuid, tempfile, secrets, multiprocessing.process as m\n"
            "str([random.random(), numpy.random.rand(), numpy.random.default_rng().random(), uuid.uuid4(), uuid.uuid1(),"
            " next(tempfile._get_candidate_names()), secrets.token_hex(), bytes(m.current_process().authkey)])")
    drawn = []
    for _ in range(4):
        process = warm.start()
        begin_kernel(process, tmp_path)
        drawn.append(eval(process.execute(code).result).split(", "))
        process.end()
    for values in zip(*drawn):
        assert len(set(values)) == 4, values


def test_a_directory_that_cannot_be_entered_is_said(start, tmp_path):
    process = start()
    process.send({"op": "begin", "mode": "kernel", "env": {}, "cwd": str(tmp_path / "missing")})
    message = process.receive()
    assert message["type"] == "failed" and "No such file" in message["message"]
    assert process.status() == 1


def test_startup_code_runs_silently(warm, tmp_path):
    process = warm.start()
    begin_kernel(process, tmp_path, startup="started = 7\nstarted")
    assert process.execute("started").of("execute_result") == [{"execution_count": 1, "data": {"text/plain": "7"}, "metadata": {}}]
    process.end()


def test_a_new_kernel_has_no_threads_no_extra_descriptors_and_leaves_no_files(start, tmp_path):
    process = start()
    begin_kernel(process, tmp_path, {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)})
    process.execute("x = 1\nx")
    process.execute("1/0")
    assert os.listdir(f"/proc/{process.pid}/task") == [str(process.pid)]
    assert sorted(map(int, os.listdir(f"/proc/{process.pid}/fd"))) == [0, 1, 2, 3]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("waited", [0, 0.5])
def test_one_that_was_told_what_it_will_be_is_no_other_kernel(start, tmp_path, waited):
    process = start()
    process.send({"op": "begin", "mode": "expect", "use": "kernel", "env": {"GIVEN": "early"}, "cwd": "/"})
    time.sleep(waited)
    begin_kernel(process, tmp_path, {"GIVEN": "late"})
    assert process.execute("import os; os.environ['GIVEN']").of("execute_result") == [{"execution_count": 1, "data": {"text/plain": "'late'"}, "metadata": {}}]
    assert process.execute("os.getcwd()").result == repr(str(tmp_path))
    assert process.execute("[name for name in dir() if not name.startswith('_')]").result == "['In', 'Out', 'exit', 'get_ipython', 'os', 'quit']"
    process.end()


def test_names_of_ours_are_not_among_the_users(shared):
    assert shared.execute("[name for name in dir() if not name.startswith('_')]").result == "['In', 'Out', 'exit', 'get_ipython', 'quit']"
    assert shared.execute("import sys; sys.path[0]").result == "''"
    assert shared.execute("any('cove' in part for part in sys.path)").result == "False"


# execute


def test_silent_shows_nothing_and_counts_nothing(shared):
    before = shared.execute("0").reply["execution_count"]
    events = shared.execute("silently = 1\nsilently", silent=True)
    assert events.kinds == ["execute_input", "execute_reply"] and events.of("execute_input") == [{}]  # only that it has begun
    assert shared.execute("silently").of("execute_result")[0]["execution_count"] == before + 1
    assert "silently = 1" not in str(shared.call("history", hist_access_type="tail", n=50))


def test_without_history_the_count_stays(shared):
    first = shared.execute("1", store_history=False)
    second = shared.execute("2", store_history=False)
    assert first.reply["execution_count"] == second.reply["execution_count"] == second.of("execute_input")[0]["execution_count"]


def test_user_expressions(shared):
    reply = shared.execute("ue = [1]", user_expressions={"good": "ue + [2]", "bad": "1/0"}).reply
    assert reply["user_expressions"]["good"] == {"status": "ok", "data": {"text/plain": "[1, 2]"}, "metadata": {}}
    assert (reply["user_expressions"]["bad"]["status"], reply["user_expressions"]["bad"]["ename"]) == ("error", "ZeroDivisionError")
    assert shared.execute("1/0", user_expressions={"x": "1"}).reply["user_expressions"] == {}


def test_colour_is_chosen_at_the_beginning_or_by_each_execute(warm, tmp_path):
    process = warm.start()
    begin_kernel(process, tmp_path, colour=True)
    coloured = [process.execute("1/0", **more).reply["traceback"] for more in ({}, {"colour": False}, {"colour": None}, {"colour": True})]
    assert ["\x1b[" in "".join(lines) for lines in coloured] == [True, False, True, True]
    assert all("ZeroDivisionError" in "".join(lines) and "cove_runtime" not in "".join(lines) for lines in coloured)
    process.end()


def test_a_traceback_names_the_cell_its_line_and_its_functions(shared):
    shared.execute("def divide(a, b):\n    c = 1\n    return a / b")
    text = "\n".join(shared.execute("x = 1\ndivide(1, 0)").reply["traceback"])
    assert "divide(a, b)" in text and "return a / b" in text and "line 2" in text and "shell.py" not in text


def test_big_output_arrives_whole_in_bounded_messages(shared):
    events = shared.execute("print('x' * 500_000)\nfor i in range(20_000): print(i)")
    assert events.text() == "x" * 500_000 + "\n" + "".join(f"{i}\n" for i in range(20_000))
    assert max(len(content["text"].encode()) for content in events.of("stream")) <= 65536
    events = shared.execute("print('🎉' * 100_000)\nlen(print.__doc__) and '中' * 200_000")
    assert events.text() == "🎉" * 100_000 + "\n" and len(events.result) == 200_002
    assert max(len(content["text"].encode()) for content in events.of("stream")) <= 65536


def test_a_big_request_arrives_whole(shared):
    code = "\n".join(f"big_{i} = {i}" for i in range(10_000)) + "\nbig_9999"
    assert shared.execute(code).result == "9999"


def test_each_line_is_sent_when_it_is_written(kernel):
    asked = kernel.ask("execute", code="import time\nprint('first')\nprint('half', end='', flush=True)\ntime.sleep(30)")
    texts = [kernel.receive()["content"].get("text") for _ in range(3)]
    assert texts[1:] == ["first\n", "half"]
    kernel.interrupt()
    assert kernel.replies(asked)[-1]["content"]["ename"] == "KeyboardInterrupt"


def test_streams_keep_their_order_among_each_other_and_with_displays(shared):
    events = shared.execute("import sys\nprint('a', end='')\nprint('b', file=sys.stderr, end='')\nprint('c', end='')\ndisplay(1)\nprint('d', end='')")
    assert [(m["type"], m["content"].get("text")) for m in events[1:-1]] == [
        ("stream", "a"), ("stream", "b"), ("stream", "c"), ("display_data", None), ("stream", "d")]


def test_what_is_written_to_the_descriptors_goes_to_the_pipes(kernel):
    events = kernel.execute("import os, subprocess\nos.write(1, b'raw')\n_ = subprocess.run('echo sub; echo err >&2', shell=True)")
    assert events.text() == ""
    kernel.pump(lambda: kernel.stdout == "rawsub\n" and kernel.stderr == "err\n")


def test_what_a_cells_programs_wrote_is_read_before_its_reply(kernel):
    for size in (10, 200_000, 1_000_000):
        before = len(kernel.stdout)
        kernel.execute(f"import subprocess; x = subprocess.run(['head', '-c', '{size}', '/dev/zero'])")
        assert len(kernel.stdout) - before == size
    began = time.monotonic()
    kernel.execute("import os; null = os.open('/dev/null', os.O_WRONLY); os.dup2(null, 1); os.close(2)")
    assert kernel.execute("1 + 1").result == "2" and time.monotonic() - began < fair(5), "a cell may have replaced or closed them"


def test_a_message_that_a_host_left_half_sent_is_forgotten(kernel):
    kernel.channel.send(b"\x01" + b'{"op": "execute", "id": 900, "content": {"code": "x = ')
    assert kernel.execute("'whole'").result == "'whole'"


def test_what_a_thread_says_between_cells_is_not_the_next_cells(kernel):
    kernel.execute("import threading\ngo, gone = threading.Event(), threading.Event()\ndef say():\n  go.wait(); print('between', end='', flush=False); gone.set()\nthread = threading.Thread(target=say); thread.start()\nthreading.Timer(0.2, go.set).start()")
    time.sleep(0.6)
    assert kernel.execute("print('mine', gone.is_set())").text() == "mine True\n"


def test_displays_can_be_updated(shared):
    events = shared.execute("h = display('one', display_id='mine')\nh.update('two')\ndisplay('three', display_id='mine', update=True);")
    assert [(m["type"], m["content"]["data"]["text/plain"], m["content"]["transient"]) for m in events[1:-1]] == [
        ("display_data", "'one'", {"display_id": "mine"}), ("update_display_data", "'two'", {"display_id": "mine"}),
        ("update_display_data", "'three'", {"display_id": "mine"})]


def test_set_next_input_is_a_payload(shared):
    payload = shared.execute("get_ipython().set_next_input('x = 1')").reply["payload"]
    assert payload == [{"source": "set_next_input", "text": "x = 1", "replace": False}]
    assert shared.execute("1").reply["payload"] == []


# input


def test_input_is_asked_of_the_client(shared):
    asked = shared.ask("execute", code="name = input('Name? ')\nimport getpass\nsecret = getpass.getpass('Word: ')\n(name, secret)", allow_stdin=True)
    requests = []
    for value in ("Zoë", "pässword"):
        while (message := shared.receive())["type"] != "input_request":
            pass
        requests.append(message["content"])
        shared.send({"op": "input_reply", "parent": asked, "content": {"value": value}})
    events = runtimes.Events(shared.replies(asked))
    assert requests == [{"prompt": "Name? ", "password": False}, {"prompt": "Word: ", "password": True}]
    assert events.result == "('Zoë', 'pässword')"


def test_a_client_that_has_no_answer_is_end_of_file(shared):
    asked = shared.ask("execute", code="input()", allow_stdin=True)
    shared.receive(), shared.receive()
    shared.send({"op": "input_reply", "parent": asked, "content": {"error": True}})
    assert shared.replies(asked)[-1]["content"]["ename"] == "EOFError"


def test_requests_that_come_while_input_is_waited_for_are_answered_after(shared):
    asked = shared.ask("execute", code="print('got', input('?'))", allow_stdin=True)
    assert [shared.receive()["type"], shared.receive()["type"]] == ["execute_input", "input_request"]
    later, ping = shared.ask("execute", code="'later'"), shared.ask("ping")
    shared.send({"op": "input_reply", "parent": asked, "content": {"value": "it"}})
    assert runtimes.Events(shared.replies(asked)).text() == "got it\n"
    assert runtimes.Events(shared.replies(later)).result == "'later'"
    assert shared.replies(ping)[-1]["type"] == "pong"


def test_an_interrupt_ends_the_wait_for_input_and_a_late_answer_is_nobodys(shared):
    asked = shared.ask("execute", code="input('?')", allow_stdin=True)
    assert [shared.receive()["type"], shared.receive()["type"]] == ["execute_input", "input_request"]
    shared.interrupt()
    assert shared.replies(asked)[-1]["content"]["ename"] == "KeyboardInterrupt"
    shared.send({"op": "input_reply", "parent": asked, "content": {"value": "late"}})
    assert shared.execute("1 + 1").result == "2"


# interrupts

INTERRUPTED = {
    "a tight loop": "n = 0\nprint('in')\nwhile True: n += 1",
    "a sleep": "import time\nn = 5\nprint('in')\ntime.sleep(60)",
    "an await": "import asyncio\nn = 5\nprint('in')\nawait asyncio.sleep(60)",
    "a wait for an event": "import threading\nn = 5\nprint('in')\nthreading.Event().wait(60)",
    "a subprocess": "import subprocess\nn = 5\nprint('in')\nsubprocess.run(['sleep', '60'])",
    "a command": "n = 5\n!echo in; sleep 60",
    "%%bash": "%%bash\necho in\nsleep 60",
    "a tight loop in a coroutine": "async def spin():\n    while True: pass\nn = 5\nprint('in')\nawait spin()",
    "a repr": "class Slow:\n    def __repr__(self):\n        print('in')\n        while True: pass\nn = 5\nSlow()",
    "printing without end": "n = 5\nprint('in')\nwhile True: print('x')",
    "a handler of the user's does not outlive its cell": "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nn = 5\nprint('in')\nwhile True: pass",
}


@pytest.mark.parametrize("code", INTERRUPTED.values(), ids=INTERRUPTED)
def test_an_interrupt_ends(shared, code):
    shared.execute("n = 5")
    asked = shared.ask("execute", code=code)
    while "in\n" not in str(shared.receive()["content"].get("text", "")):
        pass
    time.sleep(0.02)
    shared.interrupt()
    events = runtimes.Events(shared.replies(asked))
    assert events.error == "KeyboardInterrupt" and events.reply["ename"] == "KeyboardInterrupt" and events.reply["status"] == "error"
    assert "cove_runtime" not in "".join(events.reply["traceback"])
    assert shared.execute("n >= 5").result == "True"


def test_an_interrupt_right_behind_the_first_word_is_not_lost(kernel):
    for _ in range(300):
        asked = kernel.ask("execute", code="print('in')\nwhile True: pass")
        while "in\n" not in str(kernel.receive()["content"].get("text", "")):
            pass
        kernel.interrupt()
        assert kernel.replies(asked)[-1]["content"]["ename"] == "KeyboardInterrupt"


TAIL = """
from signal import raise_signal
from cove_runtime.interrupts import Interrupts
interrupts, log = Interrupts(), []
def early(): raise_signal(2); interrupts.hold(); log.append('whole'); interrupts.release(); log.append('behind')
def late(): interrupts.hold(); interrupts.release(); raise_signal(2); log.append('behind')
interrupts.install()
interrupts.allowed = True
for shielded in (early, late):
    interrupts.shield(shielded.__code__)
    try: shielded()
    except KeyboardInterrupt: log.append(shielded.__name__)
print(log)
"""


def test_an_interrupt_waits_before_a_message_and_strikes_behind_it():
    run = subprocess.run(["/usr/bin/python3", "-c", TAIL], env={"PYTHONPATH": str(pathlib.Path(__file__).parents[2] / "runtime/python")}, capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == "['whole', 'early', 'late']", run


def test_an_interrupt_before_the_first_line_of_a_cell_that_was_announced_is_not_lost(kernel):
    for _ in range(50):
        asked = kernel.ask("execute", code="while True: pass")
        assert kernel.receive()["type"] == "execute_input"
        kernel.interrupt()
        assert kernel.replies(asked)[-1]["content"]["ename"] == "KeyboardInterrupt"
    assert kernel.execute("1 + 1").result == "2"


@pytest.mark.parametrize("event", ["pre_execute", "pre_run_cell", "post_execute", "post_run_cell"])
def test_an_interrupt_in_what_is_called_around_cells_ends_the_cell(kernel, event):
    kernel.execute(f"def hook(*a):\n    get_ipython().events.unregister('{event}', hook)\n    print('in')\n    while True: pass")
    kernel.execute(f"get_ipython().events.register('{event}', hook)" if event.startswith("pre") else "None")
    asked = kernel.ask("execute", code="ran = True" if event.startswith("pre") else f"get_ipython().events.register('{event}', hook)")
    while "in\n" not in str(kernel.receive()["content"].get("text", "")):
        pass
    kernel.interrupt()
    events = runtimes.Events(kernel.replies(asked))
    assert events.error == "KeyboardInterrupt"
    assert kernel.execute("'ran' in dir()").result == "False"


def test_an_interrupt_while_idle_is_ignored(shared):
    for _ in range(5):
        shared.interrupt()
        assert shared.execute("1 + 1").result == "2"


def test_interrupts_at_any_moment_leave_the_line_whole(kernel):
    """The cell prints as fast as it can and survives what it can; every message must still be one."""
    kernel.execute("def work():\n    for _ in range(200): print('x' * 300)\n    display({'text/plain': 'y' * 200_000}, raw=True)")
    for i in range(30):
        asked = kernel.ask("execute", code="work()")
        time.sleep(i * 0.0002)
        kernel.interrupt()
        assert runtimes.Events(kernel.replies(asked)).reply["status"] in ("ok", "error")
    assert kernel.execute("'whole'").result == "'whole'"


def test_an_interrupt_that_the_cell_catches_is_the_cells(shared):
    asked = shared.ask("execute", code="import time\ntry:\n    print('in')\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('caught')")
    shared.receive(), shared.receive()
    time.sleep(0.02)
    shared.interrupt()
    events = runtimes.Events(shared.replies(asked))
    assert (events.text(), events.reply["status"]) == ("caught\n", "ok")


def test_a_thread_is_not_interrupted(kernel):
    kernel.execute("import threading, time\nticks = 0\nstop = False\ndef tick():\n    global ticks\n    while not stop:\n        ticks += 1; time.sleep(0.001)\nt = threading.Thread(target=tick); t.start()")
    asked = kernel.ask("execute", code="print('in')\nwhile True: pass")
    kernel.receive(), kernel.receive()
    kernel.interrupt()
    assert kernel.replies(asked)[-1]["content"]["ename"] == "KeyboardInterrupt"
    assert kernel.execute("a = ticks; time.sleep(0.1); t.is_alive() and ticks > a").result == "True"
    kernel.execute("stop = True; t.join()")


# the other requests


def test_completion(shared):
    shared.execute("import os\nclass Thing: alpha = 1; alphabet = 2\nthing = Thing()\ntable = {'column one': 1}")
    reply = shared.call("complete", code="x = 1\nthing.alp", cursor_pos=15)
    assert (reply["status"], reply["cursor_start"], reply["cursor_end"]) == ("ok", 6, 15)
    assert reply["matches"] == ["thing.alpha", "thing.alphabet"]
    assert "os.path" in shared.call("complete", code="os.pa")["matches"]
    assert "print" in shared.call("complete", code="pri", cursor_pos=3)["matches"]
    assert any("column one" in match for match in shared.call("complete", code="table['col")["matches"])
    assert shared.call("complete", code="no_such_thing.", cursor_pos=14)["matches"] == []
    assert shared.call("complete", code="", cursor_pos=99)["status"] == "ok"
    assert "%timeit" in shared.call("complete", code="%timei")["matches"]


def test_inspection(shared):
    shared.execute("def documented(a, b=2):\n    'What it does.'\n    return 'the body'")
    reply = shared.call("inspect", code="documented(1)", cursor_pos=5)
    assert reply["found"] and "What it does." in reply["data"]["text/plain"] and "b=2" in reply["data"]["text/plain"]
    assert "the body" not in reply["data"]["text/plain"]
    assert "the body" in shared.call("inspect", code="documented", cursor_pos=3, detail_level=1)["data"]["text/plain"]
    assert shared.call("inspect", code="no_such", cursor_pos=3) == {"status": "ok", "found": False, "data": {}, "metadata": {}}


@pytest.mark.parametrize("code, want", [
    ("1 + 1", {"status": "complete"}), ("for i in range(3):", {"status": "incomplete", "indent": "    "}), ("f(", {"status": "incomplete", "indent": ""}),
    ("x = = 1", {"status": "invalid"}), ("", {"status": "complete"}), ("%%bash", {"status": "incomplete", "indent": ""}), ("'''", {"status": "incomplete", "indent": ""}),
])
def test_completeness(shared, code, want):
    assert shared.call("is_complete", code=code) == want


def test_history(warm, tmp_path):
    process = warm.start()
    begin_kernel(process, tmp_path)
    for code in ("a = 1", "b = 2", "%who", "a = 1"):
        process.execute(code)

    def history(**content):
        return process.call("history", **content)["history"]

    assert history(hist_access_type="tail", n=2) == [[0, 3, "%who"], [0, 4, "a = 1"]]
    assert history(hist_access_type="range", session=0, start=1, stop=3) == [[0, 1, "a = 1"], [0, 2, "b = 2"]]
    assert history(hist_access_type="range", session=0, start=3, stop=4, raw=False) == [[0, 3, "get_ipython().run_line_magic('who', '')"]]
    assert history(hist_access_type="search", pattern="a*") == [[0, 1, "a = 1"], [0, 4, "a = 1"]]
    assert history(hist_access_type="search", pattern="a*", unique=True) == [[0, 4, "a = 1"]]
    assert history(hist_access_type="search", pattern="*", n=1) == [[0, 4, "a = 1"]]
    process.execute("5")
    assert history(hist_access_type="tail", n=1, output=True) == [[0, 5, ["5", "5"]]]
    assert process.execute("%history -l 1").text() == "5\n"
    process.end()


def test_variables_are_described_without_asking_the_users_code(kernel):
    kernel.execute("""
import numpy as np, pandas as pd, math
class Loud:
    def __repr__(self): raise SystemExit('asked')
    __str__ = __len__ = __sizeof__ = __getattr__ = __eq__ = __hash__ = lambda *a: Loud.__repr__(0)
class Meta(type):
    def __repr__(cls): raise SystemExit('asked')
    @property
    def __name__(cls): raise SystemExit('asked')
class Made(metaclass=Meta): pass
class Mine(list):
    def __repr__(self): raise SystemExit('asked')
loud, made, mine, listed = Loud(), Made(), Mine([1]), [Loud()]
number, big, text, many = 3, 10**10_000, 'é' * 1000, list(range(1000))
array, frame, series = np.zeros((3, 4)), pd.DataFrame({'a': [1, 2]}), pd.Series([1.5])
objects = np.empty(1, dtype=object)
objects[0] = loud
nested = {'k': [1, (2,)]}
def function(): pass
_hidden = 1
""")
    found = {one["name"]: one for one in kernel.call("variables")["variables"]}
    assert {"In", "Out", "_hidden", "exit", "get_ipython"} & set(found) == set()
    assert found["number"] == {"name": "number", "type": "int", "module": "builtins", "shape": None, "size_bytes": 28, "preview": "3"}
    assert (found["array"]["shape"], found["array"]["size_bytes"], found["array"]["module"]) == ([3, 4], 96, "numpy")
    assert found["frame"]["shape"] == [2, 1] and "2 rows × 1 columns: a" == found["frame"]["preview"]
    assert found["series"]["preview"] == "float64 1.5"
    assert found["loud"]["preview"] == "<__main__.Loud object>" and found["loud"]["size_bytes"] is None
    assert found["mine"]["preview"] == "<__main__.Mine object>" and found["made"]["type"] == "Made"
    assert found["listed"]["preview"] == "[<__main__.Loud object>]"
    assert found["big"]["preview"] == "<int of 33220 bits>"
    assert found["nested"]["preview"] == "{'k': [1, (2,)]}"
    assert found["function"]["preview"] == "<function function>"
    assert all(len(one["preview"].encode()) <= 200 for one in found.values())
    assert len(kernel.call("variables", max=3)["variables"]) == 3
    assert len(kernel.call("variables", preview_bytes=20)["variables"][-1]["preview"].encode()) <= 20


def test_comms_opened_by_code(shared):
    events = shared.execute("""
import comm
said = []
c = comm.create_comm(target_name='widget', data={'a': 1}, comm_id='one')
c.on_msg(lambda message: said.append(message['content']['data']))
c.on_close(lambda message: said.append('closed'))
c.send({'b': 2})""")
    assert events.of("comm_open")[0] == {"comm_id": "one", "data": {"a": 1}, "metadata": {}, "target_name": "widget", "target_module": None}
    assert events.of("comm_msg") == [{"comm_id": "one", "data": {"b": 2}, "metadata": {}}]
    assert shared.call("comm_info") == {"status": "ok", "comms": {"one": {"target_name": "widget"}}}
    assert shared.call("comm_info", target_name="other") == {"status": "ok", "comms": {}}
    assert shared.call("comm_msg", comm_id="one", data={"c": 3}) == {}
    assert shared.call("comm_close", comm_id="one", data={}) == {}
    assert shared.execute("said").result == "[{'c': 3}, 'closed']"
    assert shared.call("comm_info")["comms"] == {}


def test_comms_opened_by_the_client(shared):
    shared.execute("""
def target(c, message):
    print('opened', message['content']['data'])
    c.on_msg(lambda m: c.send({'echo': m['content']['data']}))
get_ipython().kernel.comm_manager.register_target('mine', target)""")
    events = runtimes.Events(shared.replies(shared.ask("comm_open", comm_id="two", target_name="mine", data={"x": 1})))
    assert events.text() == "opened {'x': 1}\n" and events.kinds[-1] == "done"
    events = runtimes.Events(shared.replies(shared.ask("comm_msg", comm_id="two", data=5)))
    assert events.of("comm_msg") == [{"comm_id": "two", "data": {"echo": 5}, "metadata": {}}]
    events = runtimes.Events(shared.replies(shared.ask("comm_open", comm_id="three", target_name="nobody", data={})))
    assert events.of("comm_close")[0]["comm_id"] == "three"
    shared.execute("def bad(c, m): 1/0\nget_ipython().kernel.comm_manager.register_target('bad', bad)")
    assert runtimes.Events(shared.replies(shared.ask("comm_open", comm_id="four", target_name="bad", data={}))).error == "ZeroDivisionError"


def test_a_ping_and_a_request_that_is_none(shared):
    assert shared.replies(shared.ask("ping")) == [{"type": "pong", "parent": shared._ids, "content": {}}]
    reply = shared.replies(shared.ask("no_such_thing"))[-1]
    assert (reply["type"], reply["content"]["status"]) == ("done", "error")


# between cells


def test_tasks_go_on_while_the_kernel_waits(kernel):
    kernel.execute("import asyncio\nran = []\nasync def later():\n    await asyncio.sleep(0.02)\n    ran.append(1)\n    print('from a task')\ntask = asyncio.create_task(later())\nawait asyncio.sleep(0)")
    assert kernel.receive() == {"type": "stream", "parent": None, "content": {"name": "stdout", "text": "from a task\n"}}
    assert kernel.execute("ran").result == "[1]"


def test_a_thread_that_prints_between_cells_belongs_to_the_cell_that_started_it(kernel):
    kernel.execute("import threading, time\ndef late():\n    time.sleep(0.05); print('late')\nthreading.Thread(target=late).start()")
    assert kernel.receive() == {"type": "stream", "parent": 1, "content": {"name": "stdout", "text": "late\n"}}


def test_a_thread_that_prints_while_a_later_cell_runs_says_nothing_in_it(kernel):
    kernel.execute("import threading, time\nstop = threading.Event()\ndef talk():\n    while not stop.wait(0.002): print('old', end=' ')\nolder = threading.Thread(target=talk); older.start()")
    later = kernel.execute("def work():\n    for i in range(200): print('new', end=' '); time.sleep(0.0005)\nyounger = threading.Thread(target=work); younger.start()\nfor i in range(200): print('main', end=' '); time.sleep(0.0005)\nyounger.join()")
    words = later.text().split()
    assert (words.count("old"), words.count("new"), words.count("main")) == (0, 200, 200)
    stopped = kernel.execute("stop.set(); older.join(); again = threading.Thread(target=print, args=('again',)); again.start(); again.join()")
    assert stopped.text() == "again\n", "a thread that has the number of one that ended"


def test_half_a_million_lines_come_whole_in_order_and_among_the_rest(kernel):
    events = kernel.execute("""
import sys
from IPython.display import display
for i in range(500_000):
    print(i)
    if i % 100_000 == 99_999:
        print('err', i, file=sys.stderr)
        display(i)
print('last', end='')""", patience=120)
    seen, expected = [], []
    for message in events:
        if message["type"] == "stream":
            seen.append((message["content"]["name"], message["content"]["text"]))
        elif message["type"] == "display_data":
            seen.append(("display", message["content"]["data"]["text/plain"]))
    for part in range(5):
        last = part * 100_000 + 99_999
        expected += [("stdout", "".join(f"{i}\n" for i in range(last - 99_999, last + 1))), ("stderr", f"err {last}\n"), ("display", str(last))]
    expected.append(("stdout", "last"))
    merged = []
    for name, text in seen:
        if merged and merged[-1][0] == name and name != "display":
            merged[-1][1].append(text)
        else:
            merged.append((name, [text]))
    assert [(name, "".join(texts)) for name, texts in merged] == expected
    assert len(seen) < 3000, "lines of a burst go in pieces"
    assert kernel.execute("import os; len(os.listdir('/proc/self/task'))").result == "1"


def test_lines_that_do_not_come_in_a_burst_come_one_by_one_and_at_once(kernel):
    asked = kernel.ask("execute", code="import time\nfor i in range(200): print(i)\nprint('before')\ntime.sleep(30)")
    said, since = "", time.monotonic()
    while "before" not in said:
        message = kernel.receive(20)
        said += message["content"].get("text", "") if message["type"] == "stream" else ""
    assert time.monotonic() - since < 10, "also the end of a burst does not wait for the end of the cell"
    kernel.interrupt()
    assert kernel.replies(asked)[-1]["content"]["ename"] == "KeyboardInterrupt"
    slowly = kernel.execute("for i in range(20): print(i); time.sleep(0.005)")
    assert sum(message["type"] == "stream" for message in slowly) == 20


def test_an_interrupt_in_a_burst_loses_nothing_that_was_printed(kernel):
    for _ in range(5):
        asked = kernel.ask("execute", code="done = -1\nwhile True:\n    print(done + 1)\n    done += 1")
        time.sleep(0.1)
        kernel.interrupt()
        events = [message["content"]["text"] for message in kernel.replies(asked) if message["type"] == "stream"]
        lines = "".join(events).splitlines()
        done = int(kernel.execute("done").result)
        assert lines[:done + 1] == [str(i) for i in range(done + 1)] and len(lines) - done in (1, 2)


def test_many_threads_printing_at_once_lose_nothing(kernel):
    events = kernel.execute("""
import threading
def work(k):
    for i in range(300): print(f'{k}:{i}')
threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
[t.start() for t in threads]; [t.join() for t in threads];""")
    lines = [line for line in events.text().split("\n") if line]
    assert sorted(events.text().replace("\n", "")) == sorted("".join(f"{k}:{i}" for k in range(8) for i in range(300)))
    assert len(lines) <= 2400


def test_a_handler_that_prints_in_the_middle_of_a_message(kernel):
    events = kernel.execute("""
import signal
rang = 0
def ring(*a):
    global rang
    rang += 1
    print('ring')
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for _ in range(100): display({'text/plain': 'z' * 300_000}, raw=True)
_ = signal.setitimer(signal.ITIMER_REAL, 0)
print()
rang""")
    assert events.text().count("ring") == int(events.result) > 0
    assert len(events.shown) == 100


# forks


def test_a_child_that_the_cell_forks_never_speaks_for_the_kernel(kernel):
    events = kernel.execute("""
import os
print('before', end='')
pid = os.fork()
if pid == 0:
    print('child speaking')
    display('child')
    raise ValueError('in the child')
_, status = os.waitpid(pid, 0)
os.waitstatus_to_exitcode(status)""")
    assert (events.text(), events.result, events.kinds) == ("before", "1", ["execute_input", "stream", "execute_result", "execute_reply"])
    kernel.pump(lambda: "child speaking\n" in kernel.stdout and "in the child" in kernel.stderr)
    assert "before" not in kernel.stdout
    assert kernel.execute("'parent'").result == "'parent'"


def test_a_forked_child_that_stays_does_not_keep_the_channel_open(kernel):
    kernel.execute("import os, time\nif os.fork() == 0:\n    time.sleep(5)\n    os._exit(0)")
    kernel.ask("execute", code="os._exit(3)")
    with pytest.raises(runtimes.Dead):
        while True:
            kernel.receive(3)
    assert kernel.status() == 3


# the end

ENDS = {
    "os._exit": ("import os\nos._exit(7)", 7),
    "a segmentation fault": ("import ctypes\nctypes.string_at(0)", -signal.SIGSEGV),
    "abort": ("import os\nos.abort()", -signal.SIGABRT),
    "SIGKILL": ("import os\nos.kill(os.getpid(), 9)", -signal.SIGKILL),
    "exec of another program": ("import os\nos.execvp('sh', ['sh', '-c', 'exit 5'])", 5),
    "the channel closed": ("import os\nos.closerange(3, 64)", 1),
    "another file in place of the channel": ("import os\nos.dup2(1, 3)", None),
}


@pytest.mark.parametrize("code, status", ENDS.values(), ids=ENDS)
def test_a_kernel_ends_with(kernel, code, status):
    kernel.ask("execute", code=code)
    with pytest.raises(runtimes.Dead):
        while True:
            kernel.receive(5)
    assert kernel.status(5) == status or status is None


@pytest.mark.parametrize("code", ["exit", "quit", "exit()", "quit()"])
def test_exit_ends_the_kernel_after_its_reply(kernel, code):
    assert kernel.execute(code).reply["payload"] == [{"source": "ask_exit", "keepkernel": False}]
    assert kernel.status() == 0


def test_exit_may_keep_the_kernel(kernel):
    assert kernel.execute("exit(keep_kernel=True)").reply["payload"] == [{"source": "ask_exit", "keepkernel": True}]
    assert kernel.execute("1").result == "1"


@pytest.mark.parametrize("busy", [False, True])
def test_when_the_host_is_gone_the_kernel_ends(kernel, busy):
    if busy:
        kernel.ask("execute", code="import time\nwhile True:\n    time.sleep(0.01)\n    print('x')")
        kernel.receive()
    kernel.channel.shutdown(socket.SHUT_RDWR)
    assert kernel.status(5) == 0


def test_a_process_that_is_never_told_what_to_be_ends_with_the_channel(start):
    process = start()
    process.channel.close()
    assert process.status(10) == 0


# hostile cells: only their own session suffers, and it goes on

PATCHES = [
    "import json\njson.dumps = json.loads = json.JSONEncoder = json.encoder = json.decoder = None",
    "import builtins\nbuiltins.print = lambda *a, **k: None",
    "import builtins\nbuiltins.len = builtins.isinstance = builtins.getattr = builtins.int = builtins.type = None",
    "import sys\nsys.stdout = sys.stderr = None",
    "import sys\ndel sys.stdout, sys.stderr",
    "import sys, io\nsys.stdout = io.StringIO()\nsys.stdout.close()",
    "import os\nos.write = os.read = os.getpid = os.fstat = os._exit = None",
    "import sys\nsys.displayhook = sys.excepthook = None",
    "import builtins\nbuiltins.exec = builtins.compile = builtins.eval = builtins.open = None",
    "import threading, _thread\nthreading.Lock = _thread.get_ident = _thread.allocate_lock = None",
    "import signal\nsignal.signal = signal.getsignal = None",
    "import time\ntime.monotonic = time.time = None",
    "import sys\nsys.modules.clear()",
    "import linecache\nlinecache.cache = None",
    "import sys\nsys.setrecursionlimit(60)",
    "import ast\nast.Expr = ast.Module = ast.Interactive = None",
    "import asyncio\nawait asyncio.sleep(0)\nasyncio.all_tasks = None",
    "import base64, re\nbase64.b64encode = re.compile = None",
    "globals().clear()",
    "del In, Out, get_ipython, _ih, _oh, _dh",
    "get_ipython().user_ns_hidden.clear()",
    "get_ipython().events.register('pre_run_cell', lambda info: 1/0)",
    "get_ipython().events.register('post_execute', lambda: 1/0)",
    "import gc\ngc.set_threshold(1)",
    "class Evil(BaseException): pass\nraise Evil",
    "import sys\nsys.settrace(lambda *a: None)",
    "import faulthandler, signal\nfaulthandler.register(signal.SIGUSR1)",
    "import builtins\nbuiltins.__import__ = None",
    "import sys\nsys.path = sys.meta_path = sys.path_hooks = None",
    "import os\nos.environ = os.path = None",
    "import os.path\nos.path.join = os.path.isdir = os.path.normcase = None",
    "import site, importlib\nsite.addsitedir = importlib.invalidate_caches = None",
    "import sys\ndel sys.version_info, sys.modules",
]


SLOW_TO_SHOW = """
class Slow(Exception):
    def _render_traceback_(self):
        print("showing", flush=True)
        import time
        time.sleep(60)

def fail(info):
    raise Slow

get_ipython().events.register("pre_run_cell", fail)
"""


def test_an_interrupt_while_the_error_of_a_hook_is_shown_ends_the_cell(kernel):
    assert kernel.execute(SLOW_TO_SHOW).kinds[-1] == "execute_reply"
    asked = kernel.ask("execute", code="while True: pass")
    while "showing" not in str(kernel.receive()):
        pass
    kernel.interrupt()
    assert kernel.replies(asked)[-1]["content"]["status"] == "error"


@pytest.mark.parametrize("started, installed", [("warm", "never"), ("warm", "before"), ("warm", "later"), ("cold", "later")])
@pytest.mark.parametrize("code", PATCHES)
def test_whatever_a_cell_replaces_the_next_one_is_answered(warm, workdir, code, started, installed):
    """Also while a kernel looks for packages that its user may have installed."""
    packages = workdir / ".local" / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    if installed == "before":
        packages.mkdir(parents=True)
    kernel = warm.start() if started == "warm" else runtimes.cold()
    begin_kernel(kernel, workdir, {"HOME": str(workdir)})
    assert kernel.execute(code).kinds[-1] == "execute_reply"
    for attempt in range(2):
        if installed == "later" and attempt == 1:
            packages.mkdir(parents=True)
        events = kernel.execute("1 + 1")
        assert events.kinds[0] == "execute_input" and events.kinds[-1] == "execute_reply"
    assert kernel.replies(kernel.ask("ping"))[-1]["type"] == "pong"
    asked = kernel.ask("execute", code="while True: pass")
    while kernel.receive()["type"] != "execute_input":
        pass
    kernel.interrupt()
    assert kernel.replies(asked)[-1]["content"]["status"] == "error"


@pytest.mark.parametrize("code", PATCHES[:2] + PATCHES[3:4] + PATCHES[6:9])
def test_after_common_replacements_values_are_still_shown(kernel, code):
    kernel.execute(code, 5)
    assert kernel.execute("1 + 1", 5).result == "2"
