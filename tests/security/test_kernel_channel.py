"""KP: what code can do to the interpreter it runs in and to the word that goes out of it. Everything said from inside is the attacker's; what counts is what init, the control
group and the clock say.

First for programs, which give the channel up before their first line; born from a zygote and started cold, as both are the same program to their user. Then for
kernels, which keep it."""
import concurrent.futures
import json
import os
import time

import pytest

from conftest import fair, leaving_nothing, wait_until
from hostile import alive, bounded_memory, descriptors, front
from interpreter import ask, stream
from kernels import Kernel
from newborns import Program, serves, warm, zygotes
from server import Server, at

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the zygote is looked at from the host as root")


@pytest.fixture(scope="module")
def both():
    """A server whose programs are born, and one whose are started."""
    with leaving_nothing(), Server("--drain", "1s") as cold, Server("--drain", "1s", "--python-zygote-births", "100000", warm=True) as born:
        born.zygote = warm(born)
        yield {"born": born, "cold": cold}
        assert zygotes(born) == [born.zygote]


@pytest.fixture(params=["born", "cold"])
def server(both, request):
    return both[request.param]


@pytest.fixture(scope="module")
def born(both):
    return both["born"]


@pytest.fixture(autouse=True)
def unharmed(both):
    """After every attack: the zygote serves, and the server answers."""
    yield
    assert serves(both["born"].zygote) and alive(both["born"]) < 5


# --- KP-01, KP-03, KP-04: the descriptors

def test_KP_01_there_is_no_channel_to_forge_an_end_on(server):
    told = Program(server, """
import json, os, sys
record = b'\\x03' + json.dumps({'type': 'execute_reply', 'status': 'ok', 'content': {'status': 'ok'}}).encode()
taken = []
for fd in [*range(3, 256)]:
    try:
        os.write(fd, record)
        taken.append(fd)
    except OSError:
        pass
print(taken)
sys.exit(9)
""")
    assert (told.status, told.out) == (9, "[]\n")


def test_KP_03_closing_every_descriptor_is_the_programs_own_loss(server):
    """Its end is the process's, so it is still told truly."""
    began = time.monotonic()
    gone = Program(server, "import os\nos.closerange(0, 65536)\nos._exit(5)", timeout_ms=10000)
    assert (gone.status, gone.out, gone.err, gone.result["timed_out"]) == (5, "", "", False) and time.monotonic() - began < fair(5)
    assert Program(server, "import os\nos.closerange(3, 65536)\nprint('here')").out == "here\n"
    crashed = Program(server, "import os, signal\nos.closerange(0, 65536)\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert crashed.status == 128 + 11


def test_KP_04_streams_moved_about_and_back_are_not_confused(server):
    told = Program(server, """
import os, sys
kept = os.dup(1), os.dup(2)
os.dup2(2, 1)
os.write(1, b'to err\\n')
os.dup2(kept[0], 2)
os.write(2, b'to out\\n')
os.dup2(kept[0], 1); os.dup2(kept[1], 2)
os.write(1, b'\\x00\\x01\\x02\\x03' * 4 + b'\\n')
print('end')
""")
    assert told.out == "to out\n" + "\0\1\2\3" * 4 + "\nend\n" and told.err == "to err\n"


# --- KP-05, KP-06: the word of the end

PATCHES = """
import builtins, gc, io, json, os, sys, threading, time, types
names = sys.modules
for thing in gc.get_objects():
    if isinstance(thing, types.FunctionType) and 'cove' in (thing.__module__ or ''):
        thing.__code__ = (lambda *a, **k: 0).__code__ if not thing.__code__.co_freevars else thing.__code__
for name in list(names):
    if name.startswith('cove_runtime'):
        for key in list(vars(names[name])):
            setattr(names[name], key, lambda *a, **k: 0)
builtins.exec = builtins.compile = lambda *a, **k: None
json.dumps = lambda *a, **k: '{"status": "ok"}'
time.time = time.monotonic = time.perf_counter = lambda: 0
threading.Thread.start = lambda self: None
sys.excepthook = lambda *a: None
os._exit = sys.exit = lambda *a: None
class Liar(io.StringIO):
    pass
out, sys.stdout, sys.stderr = sys.stdout, Liar(), Liar()
out.write('patched\\n'); out.flush()
"""


def test_KP_05_whatever_is_patched_the_kernel_tells_how_it_ended_and_how_long_it_took(server):
    # As one piece: the last line is run by an exec of its own otherwise, which is patched.
    def run(code, **fields):
        return Program(server, PATCHES + "import select\n" + code, last_line_interactive=False, **fields)

    killed = run("os.kill(os.getpid(), 9)")
    assert killed.status == 137 and killed.out == "patched\n"
    began = time.monotonic()
    slow = run("select.select([], [], [], 0.4)\nos.kill(os.getpid(), 9)")
    assert slow.status == 137 and 400 <= slow.result["duration_ms"] < 1000 * (time.monotonic() - began)
    late = run("select.select([], [], [], 30)", timeout_ms=500)
    assert late.result["timed_out"] and late.status is None
    greedy = run("held = []\nwhile True: held.append(bytearray(16 << 20))")
    assert greedy.status == 137 and not greedy.result["timed_out"]


# What a program does at its end, and its status. As `python3 FILE` would have it.
ENDS = {
    "exit": ("import sys\nsys.exit(3)", 3),
    "exit with a word": ("import sys\nsys.exit('no')", 1),
    "exit in a thread": ("import sys, threading\nt = threading.Thread(target=lambda: sys.exit(3)); t.start(); t.join()\nprint('on')", 0),
    "at once": ("import os\nos._exit(4)", 4),
    "at once with success in the middle of failing": ("import os\ntry:\n    1 / 0\nfinally:\n    os._exit(0)", 0),
    "uncaught": ("1 / 0", 1),
    "another program": ("import os\nos.execv('/bin/sh', ['sh', '-c', 'echo other; exit 6'])", 6),
    "another program that fails": ("import os\nos.execv('/bin/false', ['false'])", 1),
    "abort": ("import os\nos.abort()", 128 + 6),
    "raised signal": ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", 128 + 15),
    "recursion in C": ("import sys\nsys.setrecursionlimit(10**9)\nf = lambda: [].sort(key=lambda _: f()) or [1].sort(key=lambda _: f())\nf()", 128 + 11),
    "null": ("import ctypes\nctypes.string_at(0)", 128 + 11),
    "spoiled references": ("import ctypes\nfor _ in range(64): ctypes.memset(id(None), 0, 16)\nx = [None] * 10**6\ndel x\nimport gc; gc.collect()\nprint(None)", None),
    "a child that ends well after a parent that did not": ("import os, time\nif os.fork() == 0:\n    time.sleep(0.1); os._exit(0)\nos._exit(8)", 8),
}


@pytest.mark.parametrize("how", ENDS)
def test_KP_06_KP_09_every_end_has_its_own_true_status(server, how):
    code, status = ENDS[how]
    told = Program(server, code)
    assert not told.result["timed_out"]
    if status is None:
        assert told.status != 0, told.result  # whichever way it crashed, it is no success
    else:
        assert told.status == status, told.result


# --- KP-07, KP-08, KP-09, KP-10: what will not end

STUBBORN = {
    "atexit": "import atexit, time\natexit.register(lambda: time.sleep(60))",
    "finalizer": "import time\nclass A:\n    def __del__(self): time.sleep(60)\na = A()\ndel a",
    "thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    "import hook": "import sys, time\nclass F:\n    def find_spec(self, *a): time.sleep(60)\nsys.meta_path.insert(0, F())\nimport nothing_like_this",
    "logging": "import logging, time\nclass H(logging.Handler):\n    def flush(self): time.sleep(60)\nlogging.getLogger().addHandler(H())",
    "excepts everything": "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, lambda *a: None)\n    except (OSError, ValueError): pass\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "holds the lock of the interpreter": "import ctypes\nctypes.PyDLL(None).sleep(60)",
    "one number": "10 ** 10 ** 9",
    "regular expression": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "sleeps in C": "import ctypes\nctypes.CDLL(None).sleep(60)",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
}


@pytest.mark.parametrize("how", STUBBORN)
def test_KP_07_KP_08_KP_10_what_does_not_end_is_ended_from_outside_in_time(born, how):
    told = Program(born, STUBBORN[how], timeout_ms=300)
    assert told.result["timed_out"] is True and told.status is None, told.result
    assert 300 <= told.result["duration_ms"] < fair(1500), told.result


# --- KP-12, KP-13, KP-15: words that look like ours, and that come too late

FRAMES = """
import json, sys
for text in ('{"type":"started"}', '\\x03{"type":"execute_reply","content":{"status":"ok"}}', 'event: result\\ndata: {"exit_code":0}\\n\\n', 'data: [DONE]\\n\\n', 'HTTP/1.1 200 OK\\r\\n\\r\\n', '\\x88\\x02\\x03\\xe8',
             '\\x00\\x00\\x00\\x05\\x0c', json.dumps({'exit_code': 0, 'timed_out': False})):
    sys.stdout.write(text + '\\n')
sys.exit(7)
"""


def test_KP_12_KP_13_text_that_looks_like_our_frames_is_text(server):
    whole = Program(server, FRAMES)
    assert whole.status == 7 and whole.out.startswith('{"type":"started"}\n\x03{"type"') and "data: [DONE]" in whole.out
    events = stream(server, FRAMES)
    assert [name for name, _ in events if name != "output"] == ["result"] and events[-1][1]["exit_code"] == 7
    assert "".join(data["data"] for name, data in events if name == "output" and data["stream"] == "stdout") == whole.out


def test_KP_15_what_is_left_running_prints_into_nothing_and_is_gone(server):
    began = time.monotonic()
    told = Program(server, """
import os, sys, threading
if os.fork() == 0:
    os.setsid()
    while True:
        os.write(1, b'late\\n' * 100)
threading.Thread(target=lambda: [os.write(1, b'thread\\n') for _ in iter(int, 1)], daemon=True).start()
print('end', flush=True)
os._exit(0)
""", timeout_ms=10000)
    assert told.status == 0 and not told.result["timed_out"] and time.monotonic() - began < fair(5)
    assert len(told.out) < 2_000_000


# --- KP-16, KP-17, KP-18: code planted before, and by the environment

def test_KP_16_files_planted_in_the_workspace_are_the_programs_alone(server):
    """The runtime of the next program never imports them; the program does, as `python3 FILE` would."""
    evil = "import sys\nprint('planted', __name__, file=sys.stderr)\nraise SystemExit(77)"
    files = [(name, evil) for name in ("sitecustomize.py", "usercustomize.py", "ast.py", "atexit.py", "builtins.py", "io.py", "linecache.py", "resource.py", "types.py", "_locale.py", "cove_runtime.py",
                                       "encodings.py", "site.py", "planted.pth", "IPython.py", "traitlets.py", "signal.py", "codecs.py")]
    told = Program(server, "print('ran')", files)
    assert (told.status, told.out, told.err) == (0, "ran\n", "")
    # Its own import of its own module is its own affair.
    assert Program(server, "import mine", [("mine.py", "print('mine')")]).out == "mine\n"
    where = Program(server, "import sys\nprint(sorted({m.__file__.rsplit('/', 2)[0] for n, m in sys.modules.items() if n.startswith('cove_runtime') and m.__file__}))\n"
                            "try: open('/cove/python/cove_runtime/program.py', 'a')\nexcept OSError as error: print(error.errno)")
    assert where.out.splitlines()[-1] in ("30", "13") and set(json.loads(where.out.splitlines()[0].replace("'", '"'))) <= {"/cove/python"}


def test_KP_17_variables_that_load_code_reach_what_the_program_starts_and_nothing_before(server):
    """A run has no field for variables; what a program sets is for its own children."""
    answer = ask(server, "print(1)", env={"LD_PRELOAD": "/workspace/x.so"})
    assert answer.status in (200, 422)
    if answer.status == 200:
        assert answer.json["stdout"] == "1\n"
    told = Program(server, """
import os, subprocess, sys
open('start.py', 'w').write("print('started')")
open('sitecustomize.py', 'w').write("print('customized')")
said = subprocess.run([sys.executable, '-c', 'print(1)'], env={**os.environ, 'PYTHONPATH': '/workspace', 'BASH_ENV': '/workspace/b', 'PYTHONINSPECT': '1'}, input=b'', capture_output=True)
print(said.stdout.decode().split())
""")
    assert told.out == "['customized', '1']\n"
    assert Program(server, "import os\nprint([name for name in os.environ if name.startswith(('LD_', 'PYTHONPATH', 'PYTHONSTARTUP', 'PYTHONINSPECT', 'BASH_ENV', 'COVE'))])").out == "[]\n"


def test_KP_18_debugging_hooks_stay_in_the_sandbox(server):
    told = Program(server, """
import faulthandler, os, signal, sys
faulthandler.enable(); faulthandler.register(signal.SIGUSR1)
print(hasattr(sys, 'remote_exec'), flush=True)
os.kill(os.getpid(), signal.SIGUSR1)
os.environ['PYTHONBREAKPOINT'] = 'os.abort'
sys.breakpointhook = lambda: print('hooked')
breakpoint()
faulthandler.dump_traceback_later(0.1, exit=True)
import time
time.sleep(5)
""")
    assert told.out.split() == ["False", "hooked"] and "Current thread" in told.err and told.status == 1


# --- KP-19, KP-20: too much, and malformed

def test_KP_19_a_million_tiny_writes_starve_nobody(born):
    with concurrent.futures.ThreadPoolExecutor(2) as pool, bounded_memory(born, 64):
        floods = [pool.submit(Program, born, "import os\nwhile True: os.write(1, b'x')", timeout_ms=1000) for _ in range(2)]
        time.sleep(0.3)
        times = []
        for _ in range(5):
            began = time.monotonic()
            assert Program(born, "print(6 * 7)").out == "42\n"
            times.append(time.monotonic() - began)
        assert {flood.result().result["timed_out"] for flood in floods} == {True}
        assert all(len(flood.result().out) <= 1_000_100 for flood in floods)
    assert sorted(times)[2] < 2 and alive(born) < 1, times


@pytest.mark.parametrize("fields", [
    {"code": "x = '\0'"}, {"code": "x = '\ud800'"}, {"files": [{"path": "a\0b", "file_id": "0" * 36}]}, {"files": [{"path": "../" * 40 + "etc/passwd", "file_id": "0" * 36}]},
    {"files": [{"path": "a" * 100_000, "file_id": "0" * 36}]}, {"files": [{"path": "a\r\nb: c", "file_id": "x\r\n"}]}, {"stdin": "\0" * 1000}, {"timeout_ms": 2 ** 63}, {"timeout_ms": -1},
    {"last_line_interactive": {"a": []}}, {"code": {"deep": [[[[[[[[]]]]]]]]}},
], ids=["nul in code", "half a character", "nul in a path", "a way out", "a long name", "lines in a name", "nul in input", "a great time", "a negative time", "another type", "another shape"])
def test_KP_20_what_a_client_says_is_checked_before_anything_is_born(born, fields):
    pid = front(born)
    answer = ask(born, **{"code": "print(1)", "timeout_ms": 5000, **fields})
    assert answer.status in (200, 400, 404, 422), answer
    if answer.status == 200 and "code" not in fields:
        assert answer.json["exit_code"] == 0
    assert front(born) == pid


# --- kernels

@pytest.fixture(scope="module")
def den(born):
    name = born.create(ttlSeconds=600, memoryLimit="512Mi", pidsLimit=200)
    yield name
    born.delete(at(name))


@pytest.fixture(scope="module")
def witness(born, den):
    """A kernel of the same sandbox, to which nothing is to happen."""
    return Kernel(born, den)


@pytest.fixture
def kernel(born, den):
    made = Kernel(born, den)
    yield made
    born.delete(made.at(), timeout=30)


# What every attack on the channel begins with: it is found, as everything in one's own process is.
SAY = """
import json, os, time
def say(**message):
    os.write(3, b'\\x03' + json.dumps(message).encode())
parent = get_ipython().kernel.outlet.parent
"""


def test_KP_01_KP_12_an_end_forged_early_spoils_its_own_result_and_not_the_next(kernel):
    result = kernel.run(SAY + "say(type='execute_reply', parent=parent, content={'status': 'ok', 'execution_count': 99})\ntime.sleep(4)\nprint('late')\n1 / 0")
    assert result["status"] == "ok" and result["stdout"] == "" and result["durationMs"] < fair(500)  # measured outside
    # Its own end, when it comes, is nobody's; nor is what it printed.
    following = kernel.run("print('mine')")
    assert (following["status"], following["stdout"]) == ("ok", "mine\n")
    # An end for one that does not run is no end.
    result = kernel.run(SAY + "for n in range(1, 50): say(type='execute_reply', parent=parent + n, content={'status': 'ok'}); say(type='execute_reply', parent=parent - n, content={'status': 'ok'})\n1 / 0")
    assert result["status"] == "error" and result["error"]["name"] == "ZeroDivisionError"
    assert kernel.run("1 / 0")["status"] == "error"


def test_KP_01_a_word_of_success_does_not_hide_a_death(kernel):
    result = kernel.run(SAY + "os.kill(os.getpid(), 9)\nsay(type='execute_reply', parent=parent, content={'status': 'ok'})")
    assert (result["status"], result["reason"]) == ("error", "kernel_died") and "SIGKILL" in result["note"]


# (what is written to the channel, whether the kernel is ended for it)
JUNK = {
    "no flags": ("os.write(3, b'\\xff\\xff\\xff\\xff')", True),
    "not JSON": ("os.write(3, b'\\x03{]')", True),
    "not an object": ("os.write(3, b'\\x03[1, 2]')", True),
    "bad UTF-8": ("os.write(3, b'\\x03{\"type\": \"\\xff\\xfe\"}')", True),
    "half a character": ("os.write(3, b'\\x03{\"type\": \"\\\\ud800\"}')", True),
    "deep": ("os.write(3, b'\\x03' + b'{\"a\":' * 9000 + b'1' + b'}' * 9000)", True),
    "no parts": ("say(type='stream')", True),
    "a stream of no name": ("say(type='stream', parent=parent, content={'name': 'stdlog', 'text': 'x'})", True),
    "too large": ("os.write(3, b'\\x01{\"type\": \"stream\", \"x\": \"')\nfor _ in range(1200): os.write(3, b'\\x00' + b'x' * 60000)\nos.write(3, b'\\x02\"}')", True),
    "many elements": ("os.write(3, b'\\x01{\"type\": \"stream\", \"x\": [1')\nfor _ in range(400): os.write(3, b'\\x00' + b',1' * 30000)\nos.write(3, b'\\x02]}')", True),
    "never ends": ("for _ in range(2000): os.write(3, b'\\x01' + b'x' * 60000)", False),
    "unknown type": ("say(type='launch', parent=parent, content={})", False),
    "wrong types": ("say(type='stream', parent=str(parent), content={'name': 'stdout', 'text': 'forged'}); say(type='stream', parent=-1, content={}); say(type='stream', parent=1e308, content={}); say(type='stream', parent=2**63, content={})", False),
    "out of order": ("say(type='ready', parent=parent, content={}); say(type='pong', parent=0, content={}); say(type='complete_reply', parent=parent + 1, content={})", False),
    "no bytes": ("import socket; socket.socket(fileno=os.dup(3)).send(b'')", None),
    "descriptors": ("import socket; socket.send_fds(socket.socket(fileno=os.dup(3)), [b'\\x03{}'], [0, 1, 2])", True),
}


@pytest.mark.parametrize("what", JUNK)
def test_KP_02_what_breaks_the_protocol_ends_one_kernel_and_nothing_else(born, den, kernel, witness, what):
    code, ends = JUNK[what]
    before = descriptors(front(born))
    with bounded_memory(born, 64):
        result = kernel.run(SAY + code + "\ntime.sleep(0.2)\nprint('here')", timeoutSeconds=20)
    if ends is None:
        assert kernel.state in ("idle", "dead")
    elif ends:
        assert (result["status"], result["reason"]) == ("error", "kernel_died") and "protocol error" in result["note"], result
    else:
        assert result["status"] == "ok" and result["stdout"] == "here\n" and kernel.out("print(6 * 7)") == "42\n"
    assert descriptors(front(born)) <= before + 4
    assert witness.out("print('unharmed')") == "unharmed\n"


def test_KP_03_a_kernel_without_descriptors_has_died(kernel):
    began = time.monotonic()
    result = kernel.run("import os\nos.closerange(3, 65536)", patience=20)
    assert (result["status"], result["reason"]) == ("error", "kernel_died") and time.monotonic() - began < fair(3), result


def test_KP_05_what_is_patched_in_a_kernel_changes_no_fact(kernel):
    patched = PATCHES.split("class Liar")[0]
    result = kernel.run(patched + "import select\nselect.select([], [], [], 30)", timeoutSeconds=0.5, patience=30)
    assert result["status"] == "error" and result["reason"] in ("timeout", "kernel_died") and 500 <= result["durationMs"] < fair(6000), result


@pytest.mark.parametrize("code, reason", [
    ("import os\nos._exit(0)", "kernel_died"), ("import os\nos.execv('/bin/true', ['true'])", "kernel_died"), ("import ctypes\nctypes.string_at(0)", "kernel_died"),
    ("import os\nos.abort()", "kernel_died"), ("x = []\nwhile True: x.append(bytearray(16 << 20))", "oom"),
], ids=["at once", "another program", "null", "abort", "memory"])
def test_KP_06_KP_09_a_kernel_that_is_gone_was_no_success(kernel, code, reason):
    result = kernel.run(code)
    assert (result["status"], result["reason"]) == ("error", reason) and result["note"], result


def test_KP_08_KP_10_a_cell_that_does_not_end_is_interrupted_then_killed(born, den):
    def attack(how):
        kernel = Kernel(born, den)
        began = time.monotonic()
        result = kernel.run(STUBBORN[how], timeoutSeconds=0.5, patience=30)
        assert result["status"] == "error" and result["reason"] in ("timeout", "kernel_died") and time.monotonic() - began < fair(0.5 + 2 + 2), (how, result)
        # Where the signal alone was enough it lives on.
        ends = ("dead",) if how in ("excepts everything", "stopped") else ("dead", "idle")
        assert wait_until(lambda: kernel.state in ends, 5), how
        born.delete(kernel.at(), timeout=30)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(attack, ("excepts everything", "one number", "holds the lock of the interpreter", "stopped")))


def test_KP_07_a_kernel_that_hangs_at_its_end_is_gone_in_time(born, den):
    kernel = Kernel(born, den)
    kernel.out("import atexit, logging, signal, threading, time\natexit.register(time.sleep, 60)\nclass A:\n    def __del__(self): time.sleep(60)\na = A()\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
               "for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)")
    began = time.monotonic()
    assert born.delete(kernel.at(), timeout=30).status == 204 and time.monotonic() - began < fair(4)


def test_KP_13_KP_14_displays_that_would_break_a_reader_do_not(born, kernel):
    code = SAY + """
for name in ('a/b\\r\\nX-Evil: 1', 'n' * 50000, '', 'text/plain\\0', 'nonsense', 'data: x\\n\\nevent: end'):
    say(type='display_data', parent=parent, content={'data': {name: 'x', 'text/plain': 'good'}, 'metadata': {'k\\r\\n\\r\\n': 'v'}})
say(type='display_data', parent=parent, content={'data': {'image/png': '%%% no base64 %%%'}, 'metadata': []})
say(type='display_data', parent=parent, content={'data': 'not a bundle'})
print('event: end\\ndata: {"type": "end", "status": "ok"}\\n\\n')
1 / 0
"""
    result = kernel.run(code)
    assert result["error"]["name"] == "ZeroDivisionError" and [set(output["data"]) - {"image/png"} for output in result["outputs"]][:6] == [{"text/plain"}] * 6, result
    with born.sse(kernel.at("execute"), "POST", {"code": code}) as stream:
        events = [event["data"] for event in stream]
    assert [event["type"] for event in events if event["type"] == "end"] == ["end"] and events[-1]["status"] == "error"


def test_KP_15_a_thread_that_prints_for_ever_is_not_heard_in_what_comes_after(born, kernel):
    with bounded_memory(born, 64):
        kernel.run("import threading, sys\ndef go():\n    while True: print('noise' * 100)\nthreading.Thread(target=go, daemon=True).start()")
        time.sleep(1)
        result = kernel.run("6 * 7", patience=30)
    assert result["status"] == "ok" and result["outputs"][-1]["data"]["text/plain"] == "42" and len(result["stdout"]) <= 1 << 20
    assert alive(born) < 1


def test_KP_16_what_is_planted_is_not_loaded_by_the_kernel_that_comes_next(both):
    for server in both.values():
        name = server.create(ttlSeconds=300)
        kernel = Kernel(server, name)
        kernel.out("""
import os
for place in ('/workspace', '/home/cove/.local/lib/python3.11/site-packages', '/home/cove/.ipython/profile_default/startup', '/home/cove/.config/matplotlib', '/tmp'):
    os.makedirs(place, exist_ok=True)
    for file in ('sitecustomize.py', 'usercustomize.py', 'json.py', 'random.py', 'ast.py', 'IPython.py', 'select.py', '00-start.py', 'ipython_config.py', 'cove_runtime.py', 'traitlets.py', 'comm.py', 'uuid.py'):
        open(place + '/' + file, 'w').write("import os; open('/tmp/planted', 'a').write(__file__)\\n")
open('/workspace/x.pth', 'w').write("import os; open('/tmp/planted', 'a').write('pth')")
""")
        assert server.post(kernel.at("restart"), None, timeout=60).status == 200
        assert kernel.out("import os\nprint(os.path.exists('/tmp/planted'), 6 * 7)") == "False 42\n"
        server.delete(at(name))


def test_KP_17_variables_of_a_kernel_reach_its_children_and_not_its_own_start(both):
    poison = {"LD_PRELOAD": "/workspace/x.so", "PYTHONSTARTUP": "/workspace/start.py", "PYTHONINSPECT": "1", "BASH_ENV": "/workspace/b.sh", "LD_LIBRARY_PATH": "/workspace", "PYTHONHOME": "/workspace",
              "MALLOC_PERTURB_": "1", "OPENSSL_CONF": "/workspace/o.cnf", "GCONV_PATH": "/workspace"}
    for server in both.values():
        name = server.create(ttlSeconds=300)
        answer = server.post(at(name, "kernels"), {"env": poison}, timeout=60)
        assert answer.status in (201, 400, 409, 422), answer
        if answer.status == 201:
            kernel = Kernel.__new__(Kernel)
            kernel.server, kernel.sandbox, kernel.id = server, name, answer.json["id"]
            assert kernel.out("import os\nprint(os.environ['LD_PRELOAD'], [line for line in open('/proc/self/maps') if '/workspace' in line])") == "/workspace/x.so []\n"
        server.delete(at(name))


def test_KP_19_a_flood_of_tiny_messages_starves_nobody(born, den, kernel, witness):
    with concurrent.futures.ThreadPoolExecutor(1) as pool, bounded_memory(born, 96):
        flood = pool.submit(kernel.run, SAY + "until = time.time() + 1\nwhile time.time() < until: say(type='stream', parent=parent, content={'name': 'stdout', 'text': 'x'})")
        time.sleep(0.3)
        times = []
        for _ in range(6):
            began = time.monotonic()
            assert witness.out("print(6 * 7)") == "42\n"
            times.append(time.monotonic() - began)
        result = flood.result()
    assert result["status"] == "ok" and len(result["stdout"]) <= 1 << 20
    assert sorted(times)[3] < 1, times
