"""Programs run to completion: what is echoed, what is printed, and the exit status, as `python3 FILE` gives it."""
import os
import pathlib
import signal
import subprocess
import time

import pytest
import runtimes
from conftest import fair
from runtimes import begin_program

# code, stdout: section 4 of the contract, then more of the same
ECHOED = {
    "an expression": ("2 + 2", "4\n"),
    "a string": ("'abc'", "'abc'\n"),
    "a docstring": ('"""doc"""', "'doc'\n"),
    "None": ("None", ""),
    "print": ("print('a')", "a\n"),
    "a call that returns None": ("[].append(1)", ""),
    "an assignment": ("x = 1", ""),
    "an import": ("import os", ""),
    "a function": ("def f(): return 1", ""),
    "a deletion": ("x = 1\ndel x", ""),
    "two statements on a line": ("x = 1; x", "1\n"),
    "a semicolon does not silence": ("5;", "5\n"),
    "an if": ("if True: 3", ""),
    "a for": ("for i in range(2): i", ""),
    "a with": ("import contextlib\nwith contextlib.suppress(): 5", ""),
    "over lines": ("(1 +\n 2)", "3\n"),
    "a walrus": ("(n := 10)", "10\n"),
    "an ellipsis": ("...", "Ellipsis\n"),
    "write_text": ("from pathlib import Path\nPath('f').write_text('hello')", "5\n"),
    "comments": ("# only\n# comments\n", ""),
    "nothing": ("", ""),
    "earlier expressions are not echoed": ("1\n2\n3", "3\n"),
    "the echo comes last": ("print('a')\n'b'", "a\n'b'\n"),
    "underscore is set": ("5", "5\n"),
    "names of a helper are the user's": ("tree = 1\nast = 2\ncode = 3\ntree + ast + code", "6\n"),
    "a future reaches later statements": ("from __future__ import annotations\nx = 1\ndef f(a: Missing): pass\nf.__annotations__", "{'a': 'Missing'}\n"),
    "a future reaches the echo": ("from __future__ import annotations\n(lambda: 5)()", "5\n"),
    "getsource": ("import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), end='')", "def f():\n    return 1\n"),
    "a module docstring": ('"""doc"""\n__doc__', "'doc'\n"),
    "a displayhook of the user's": ("import sys\nsys.displayhook = lambda v: print('hook', v)\n5", "hook 5\n"),
    "pickle": ("import pickle\nclass C: x = 5\npickle.loads(pickle.dumps(C())).x", "5\n"),
    "unicode": ("'añ中🎉'", "'añ中🎉'\n"),
    "globals": ("sorted(globals())", "['__annotations__', '__builtins__', '__cached__', '__doc__', '__file__', '__loader__', '__name__', '__package__', '__spec__']\n"),
    "a trailing backslash line": ("1 + \\\n 2", "3\n"),
    "an await": ("async def f(): return 1\nf.__name__", "'f'\n"),
    "ten thousand lines": ("\n".join(f"x{i} = {i}" for i in range(10_000)) + "\nx9999", "9999\n"),
}


@pytest.fixture
def run(start, workdir):
    """run(code, …) is (status, stdout, stderr), warm and cold."""
    def begin(code, **options):
        process = start()
        status = begin_program(process, workdir, code, **options)
        return status, process.stdout, process.stderr
    return begin


@pytest.fixture
def warm_run(warm, workdir):
    made = []

    def begin(code, **options):
        made.append(warm.start())
        status = begin_program(made[-1], workdir, code, **options)
        return status, made[-1].stdout, made[-1].stderr

    yield begin
    for process in made:
        process.end()


@pytest.mark.parametrize("code, out", ECHOED.values(), ids=ECHOED)
def test_the_last_expression_is_echoed(warm_run, code, out):
    assert warm_run(code, interactive=True) == (0, out, "")


@pytest.mark.parametrize("code", ["2 + 2", "'abc'", "5;", "..."])
def test_without_the_flag_nothing_is_echoed(warm_run, code):
    assert warm_run(code, interactive=False) == (0, "", "")


# code, status, stdout, how stderr ends
ENDS = {
    "the end": ("pass", 0, "", ""),
    "exit": ("import sys; sys.exit()", 0, "", ""),
    "exit None": ("raise SystemExit(None)", 0, "", ""),
    "exit 3": ("import sys; sys.exit(3)", 3, "", ""),
    "exit 300 is 44": ("import sys; sys.exit(300)", 44, "", ""),
    "exit -1 is 255": ("import sys; sys.exit(-1)", 255, "", ""),
    "exit True is 1": ("import sys; sys.exit(True)", 1, "", ""),
    "exit with text": ("import sys; sys.exit('text')", 1, "", "text\n"),
    "exit with an object": ("import sys; sys.exit([1])", 1, "", "[1]\n"),
    "the builtin exit": ("exit(4)", 4, "", ""),
    "the builtin quit": ("quit()", 0, "", ""),
    "an exception": ("print('a')\n1/0", 1, "a\n", "ZeroDivisionError: division by zero\n"),
    "not echoed after an exception": ("1/0\n5", 1, "", "ZeroDivisionError: division by zero\n"),
    "a syntax error runs nothing": ("print('a')\nx = = 1", 1, "", "SyntaxError: invalid syntax\n"),
    "return outside a function, after what ran": ("print('a')\nreturn", 1, "a\n", "SyntaxError: 'return' outside function\n"),
    "await outside a function": ("import asyncio\nprint('a')\nawait asyncio.sleep(0)", 1, "a\n", "SyntaxError: 'await' outside function\n"),
    "a NUL": ("x = '\0'", 1, "", "SyntaxError: source code string cannot contain null bytes\n"),
    "an exception of the user's": ("class E(Exception): pass\nraise E('é')", 1, "", "E: é\n"),
    "an excepthook of the user's": ("import sys\nsys.excepthook = lambda k, e, t: print('hook', k.__name__)\n1/0", 1, "hook ZeroDivisionError\n", ""),
    "an excepthook that fails": ("import sys\ndef hook(*a): raise ValueError\nsys.excepthook = hook\n1/0", 1, "", "ZeroDivisionError: division by zero\n"),
    "an excepthook that exits": ("import sys\nsys.excepthook = lambda *a: sys.exit(9)\n1/0", 9, "", ""),
    "an excepthook that is gone": ("import sys\ndel sys.excepthook\n1/0", 1, "", "ZeroDivisionError: division by zero\n"),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", -signal.SIGINT, "", "KeyboardInterrupt\n"),
    "os._exit": ("import os\nprint('a')\nos._exit(5)", 5, "a\n", ""),
    "abort": ("import os\nos.abort()", -signal.SIGABRT, "", ""),
    "a segmentation fault": ("import ctypes\nctypes.string_at(0)", -signal.SIGSEGV, "", ""),
    "SIGTERM": ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "", ""),
    "recursion": ("def f(): f()\nf()", 1, "", "RecursionError: maximum recursion depth exceeded\n"),
    "memory": ("x = 'x' * (1 << 62)", 1, "", "MemoryError\n"),
    "atexit": ("import atexit\natexit.register(print, 'last')\nprint('first')", 0, "first\nlast\n", ""),
    "atexit after an exception": ("import atexit\natexit.register(print, 'last')\n1/0", 1, "last\n", "ZeroDivisionError: division by zero\n"),
    "atexit that fails": ("import atexit\n_ = atexit.register(lambda: 1/0)", 0, "", "ZeroDivisionError: division by zero\n"),
    "a thread is waited for": ("import threading, time\ndef f():\n    time.sleep(0.05); print('thread')\nthreading.Thread(target=f).start()\nprint('main')", 0, "main\nthread\n", ""),
    "a daemon thread is not": ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()", 0, "", ""),
    "exit in a thread": ("import threading, sys\nt = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()", 0, "", ""),
    "an exception in a thread": ("import threading\nt = threading.Thread(target=lambda: 1/0); t.start(); t.join()", 0, "", "ZeroDivisionError: division by zero\n"),
    "a temporary directory is removed": ("import tempfile\nt = tempfile.TemporaryDirectory(dir='.')\nimport atexit, os\nprint(os.path.isdir(t.name))", 0, "True\n", ""),
    "stdout closed": ("import sys\nprint('a')\nsys.stdout.close()", 0, "a\n", ""),
    "stdout None": ("import sys\nprint('a', flush=True)\nsys.stdout = None", 0, "a\n", ""),
    "a fork": ("import os\npid = os.fork()\nif pid == 0:\n    print('child')\n    raise SystemExit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))", 0, "child\n3\n", ""),
    "multiprocessing": ("import multiprocessing as m\ndef f(x): return x + 1\nif __name__ == '__main__':\n    with m.get_context('fork').Pool(2) as p: print(p.map(f, [1, 2]))", 0, "[2, 3]\n", ""),
    "an exec": ("import os\nos.execvp('sh', ['sh', '-c', 'echo sh; exit 6'])", 6, "sh\n", ""),
    "asyncio.run": ("import asyncio\nasync def f(): return 5\nprint(asyncio.run(f()))", 0, "5\n", ""),
    "a subprocess": ("import subprocess\nprint(subprocess.run(['echo', 'x'], capture_output=True, text=True).stdout, end='')", 0, "x\n", ""),
    "logging": ("import logging\nlogging.warning('careful')", 0, "", "WARNING:root:careful\n"),
    "stderr takes anything": ("import sys\nprint('\\ud800', file=sys.stderr)", 0, "", "\\ud800\n"),
    "stdout does not": ("print('\\ud800')", 1, "", "surrogates not allowed\n"),
}


@pytest.mark.parametrize("interactive", [True, False])
@pytest.mark.parametrize("code, status, out, err", ENDS.values(), ids=ENDS)
def test_a_program_ends_with(warm_run, code, status, out, err, interactive):
    if not interactive and "outside" in err:
        out = ""  # a plain script is compiled whole
    got = warm_run(code, interactive=interactive)
    assert got[:2] == (status, out) and got[2].endswith(err) and (err or not got[2])
    assert "cove_runtime" not in got[2]


@pytest.mark.parametrize("name", ["exit 300 is 44", "an exception", "KeyboardInterrupt", "atexit", "a thread is waited for", "exit with text", "a NUL"])
def test_a_cold_program_ends_the_same(name, workdir):
    code, status, out, err = ENDS[name]
    process = runtimes.cold()
    assert begin_program(process, workdir, code, interactive=True) == status
    assert process.stdout == out and process.stderr.endswith(err)
    process.end()


REFERENCE = ["an exception", "an exception of the user's", "exit with an object", "atexit that fails", "an excepthook that fails", "an excepthook that is gone",
             "a syntax error runs nothing", "KeyboardInterrupt", "an exception in a thread", "stdout does not"]


@pytest.mark.parametrize("name", REFERENCE)
def test_a_script_says_exactly_what_python_says(warm_run, workdir, name):
    code = ENDS[name][0]
    ours = warm_run(code, interactive=False)
    theirs = subprocess.run([runtimes.PYTHON, str(workdir / "__main__.py")], capture_output=True, text=True, env=runtimes.ENV, cwd=workdir, timeout=20)

    def same(text):  # addresses and threads are numbered anew each time
        return [line for line in text.splitlines() if " at 0x" not in line and "Thread-" not in line]

    assert (ours[0], ours[1], same(ours[2])) == (theirs.returncode, theirs.stdout, same(theirs.stderr))


def test_a_traceback_shows_the_users_frames_with_their_lines_and_none_of_ours(warm_run, workdir):
    for interactive in (True, False):
        _, _, err = warm_run("def f(x):\n    return 1 / x\n\nf(0)", interactive=interactive)
        assert err == (
            "Traceback (most recent call last):\n"
            f'  File "{workdir}/__main__.py", line 4, in <module>\n    f(0)\n'
            f'  File "{workdir}/__main__.py", line 2, in f\n    return 1 / x\n           ~~^~~\n'
            "ZeroDivisionError: division by zero\n")


def test_where_and_what_it_is(run, workdir):
    code = ("import sys, os, __main__\nprint(__name__, __file__, sys.argv, os.getcwd(), sys.path[0], __main__.__dict__ is globals())\n"
            "print(sorted(os.environ), os.environ['HOME'], 'get_ipython' in dir(__builtins__), 'display' in dir(__builtins__), hasattr(sys, 'ps1'), exit)")
    status, out, err = run(code, argv=["prog", "a"], env={"HOME": "/somewhere"})
    path = f"{workdir}/__main__.py"
    assert (status, err) == (0, "")
    assert out.splitlines() == [f"__main__ {path} ['prog', 'a'] {workdir} {workdir} True",
                                f"{sorted(runtimes.ENV)} /somewhere False False False Use exit() or Ctrl-D (i.e. EOF) to exit"]


def test_it_finds_modules_beside_it_and_on_its_path(run, workdir):
    (workdir / "beside.py").write_text("x = 1")
    (workdir / "lib").mkdir()
    (workdir / "lib" / "afar.py").write_text("y = 2")
    assert run("import beside, afar\nprint(beside.x + afar.y)", env={"PYTHONPATH": str(workdir / "lib")}) == (0, "3\n", "")


def test_packages_of_the_users_are_found(run, workdir):
    packages = workdir / ".local" / "lib" / "python{}.{}".format(*map(int, subprocess.run(
        [runtimes.PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, timeout=20).stdout.split())) / "site-packages"
    packages.mkdir(parents=True)
    (packages / "installed.py").write_text("z = 3")
    assert run("import installed\nprint(installed.z)", env={"HOME": str(workdir)}) == (0, "3\n", "")


def test_stdin_is_the_pipe_and_then_its_end(run):
    assert run("print(input(), end='|')\nprint(input('? '))\ninput()", stdin="é1\nzwei\n".encode())[1] == "é1|? zwei\n"
    assert run("import sys\nprint(sys.stdin.read(3), sys.stdin.buffer.read())", stdin=b"abc")[1] == "abc b''\n"
    status, _, err = run("input()")
    assert status == 1 and err.endswith("EOFError: EOF when reading a line\n")


def test_the_file_is_written_unless_it_is_there(warm_run, workdir):
    warm_run("print(1)  # é\r\n")
    path = workdir / "__main__.py"
    assert path.read_bytes() == "print(1)  # é\r\n".encode() and path.stat().st_mode & 0o777 == 0o644
    path.write_text("print('kept')")
    assert warm_run("print('sent')", write=False)[1] == "sent\n"
    assert path.read_text() == "print('kept')"


def test_a_program_runs_though_its_file_cannot_be_written(warm_run, workdir):
    (workdir / "__main__.py").mkdir()
    assert warm_run("print(1)\n1/0", interactive=True)[:2] == (1, "1\n")


def test_output_is_buffered_unless_the_environment_says_so(warm, workdir):
    for unbuffered, seen in (("1", "early"), ("", "")):
        process = warm.start()
        process.send({"op": "begin", "mode": "program", "env": {**runtimes.ENV, "PYTHONUNBUFFERED": unbuffered}, "cwd": str(workdir),
                      "code": "import os, time\nprint('early', end='')\nos.write(2, b'x')\ntime.sleep(60)", "path": f"{workdir}/__main__.py"})
        process.receive()
        process.pump(lambda: process.stderr == "x")
        process.pump(lambda: process.stdout == seen)
        os.kill(process.pid, signal.SIGKILL)
        assert process.status() == -signal.SIGKILL
        process.end()


def test_the_limit_of_cpu_time_kills(warm, workdir):
    process = warm.start()
    began = time.monotonic()
    assert begin_program(process, workdir, "while True: pass", cpu_seconds=1) == -signal.SIGKILL
    assert time.monotonic() - began < fair(15)
    process.end()


def test_sigint_is_keyboard_interrupt(warm, workdir):
    process = warm.start()
    process.send({"op": "begin", "mode": "program", "env": runtimes.ENV, "cwd": str(workdir), "path": f"{workdir}/__main__.py",
                  "code": "try:\n    print('in')\n    while True: pass\nfinally: print('out')"})
    process.receive()
    process.pump(lambda: process.stdout == "in\n")
    process.interrupt()
    assert process.status() == -signal.SIGINT
    assert process.stdout == "in\nout\n" and process.stderr.endswith("KeyboardInterrupt\n")
    process.end()


REPLACED = {
    "builtins": "import builtins\nx = 41\nbuiltins.isinstance = builtins.getattr = builtins.len = builtins.type = builtins.print = None",
    "the imports": "import builtins, sys\nx = 41\nbuiltins.__import__ = None\nsys.modules.clear()",
    "json": "import json\nx = 41\njson.dumps = json.JSONEncoder = None",
}


@pytest.mark.parametrize("code", REPLACED.values(), ids=REPLACED)
def test_whatever_a_program_replaces_it_ends_well_and_its_outputs_are_told(start, workdir, code):
    process = start()
    process.close_stdin()
    process.send({"op": "begin", "mode": "program", "env": runtimes.ENV, "cwd": str(workdir), "path": f"{workdir}/__main__.py", "code": code, "outputs": ["x"]})
    assert process.receive()["type"] == "started"
    assert [str(value) for value in process.receive()["outputs"].values()] == ["41"]
    assert (process.status(), process.stderr) == (0, "")


def test_a_broken_pipe_at_the_end_is_120(warm, workdir):
    process = warm.start()
    os.close(process._pipes[0])
    process._open.discard(process._pipes[0])
    assert begin_program(process, workdir, "print('a')", env={"PYTHONUNBUFFERED": ""}) == 120
    assert "BrokenPipeError" in process.stderr
    process._pipes[0] = os.open("/dev/null", os.O_RDONLY)
    process.end()


def test_the_channel_is_closed_before_the_first_statement(run):
    assert run("import os\nprint(sorted(os.listdir('/proc/self/fd'))[:4])")[1] in ("['0', '1', '2', '3']\n",)
    assert run("import os\nos.fstat(3)")[0] == 1


def test_a_missing_directory_below_the_workspace_is_made(tmp_path):
    code = ("import sys, os\nsys.path.insert(0, sys.argv[1])\nfrom cove_runtime import birth\n"
            "birth.enter(sys.argv[2] + '/a/b', sys.argv[2])\nprint(os.getcwd())\n"
            "for bad in ('/no-such-place/x', sys.argv[2] + '/../no-such-place'):\n"
            "    try: birth.enter(bad, sys.argv[2])\n    except FileNotFoundError: print('refused')")
    done = subprocess.run([runtimes.PYTHON, "-I", "-B", "-c", code, str(runtimes.RUNTIME), str(tmp_path)], capture_output=True, text=True, timeout=20)
    assert done.stdout == f"{tmp_path}/a/b\nrefused\nrefused\n", done.stderr


def test_a_cold_program_does_not_pay_for_kernels(workdir):
    process = runtimes.cold()
    assert begin_program(process, workdir, "import sys\nprint([m for m in ('IPython', 'json', 'random', 'asyncio', 'socket', 'threading', 'inspect') if m in sys.modules])") == 0
    assert process.stdout == "[]\n"
    process.end()


def test_plots_in_a_warm_program_use_what_the_environment_says(warm_run, workdir):
    code = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig('p.png')\nimport matplotlib\nprint(matplotlib.get_backend().lower())"
    assert warm_run(code, env={"MPLBACKEND": "svg"}) == (0, "svg\n", "")
    assert warm_run(code) == (0, "agg\n", "")
    assert pathlib.Path(workdir / "p.png").read_bytes().startswith(b"\x89PNG")


def test_there_is_no_shell_in_a_warm_program(warm_run):
    assert warm_run("import IPython\nprint(IPython.get_ipython())") == (0, "None\n", "")
