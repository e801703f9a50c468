"""Cells and what they cause, as one table: what a row does not name must not happen."""
import re

import pytest
import runtimes


@pytest.fixture(scope="module")
def kernel(warm, tmp_path_factory):
    """One kernel for all rows: a row leaves nothing behind that another could trip over."""
    process = warm.start()
    runtimes.begin_kernel(process, tmp_path_factory.mktemp("cells"))
    yield process
    process.end()


class Some(str):
    """Part of a text."""

    def __eq__(self, other):
        return isinstance(other, str) and str(self) in other

    __hash__ = str.__hash__


TEXT = "text/plain"
TABLE = "application/vnd.cove.table+json"
CHART = "application/vnd.cove.chart+json"

# name, code, and of: result, out, err, error (its name), says (its message), shown (kinds of each display), value (of the result, by MIME)
CELLS = [
    # the value of a cell
    ("an expression", "1 + 1", dict(result="2")),
    ("a string is shown as its repr", "'a' + \"b\"", dict(result="'ab'")),
    ("None is not shown", "None", {}),
    ("a call that returns None", "[].append(1)", {}),
    ("an assignment", "quiet = 3", {}),
    ("only the last expression", "1\n2\n3", dict(result="3")),
    ("an expression in a block is not shown", "if True:\n    5", {}),
    ("a semicolon silences", "5;", {}),
    ("a semicolon and a comment silence", "5;  # five", {}),
    ("a semicolon inside a string does not", "'a;'", dict(result="'a;'")),
    ("two statements on a line", "two = 2; two", dict(result="2")),
    ("print and a value", "print('a')\n'b'", dict(out="a\n", result="'b'")),
    ("an ellipsis", "...", dict(result="Ellipsis")),
    ("a walrus", "(walrus := 10)", dict(result="10")),
    ("an expression over lines", "(1 +\n 2)", dict(result="3")),
    ("a float", "0.1 + 0.2", dict(result="0.30000000000000004")),
    ("a bool", "1 == 1", dict(result="True")),
    ("bytes", "b'\\x00'", dict(result="b'\\x00'")),
    ("a long list is wrapped", "list(range(30))", dict(result=Some("\n"))),
    ("a dict", "{'a': [1]}", dict(result="{'a': [1]}")),
    ("an empty cell", "", {}),
    ("white space", "   \n\t\n", {}),
    ("comments only", "# nothing\n# at all", {}),
    ("indented code, as documents paste it", "\n            a = 1\n            for i in range(2):\n                a += i\n            a", dict(result="2")),
    ("a pasted prompt", ">>> 1 + 2", dict(result="3")),
    ("carriage returns", "cr = 1\r\ncr + 1\r\n", dict(result="2")),
    ("underscore is the last value", "41 + 1\n", dict(result="42")),
    ("underscore, seen", "_ + 1", dict(result="43")),
    ("In and Out", "(In[-1], len(Out) > 3, _i)", dict(result="('(In[-1], len(Out) > 3, _i)', True, '_ + 1')")),
    ("a numbered value", "f'{_oh[max(_oh)]}' != ''", dict(result="True")),
    ("the namespace is that of __main__", "import __main__, sys\n__main__.__dict__ is globals() and __name__", dict(result="'__main__'")),
    ("get_ipython", "type(get_ipython()).__name__", dict(result="'Shell'")),
    # text
    ("text on stderr", "import sys; print('e', file=sys.stderr)", dict(err="e\n")),
    ("text without a newline", "print('no newline', end='')", dict(out="no newline")),
    ("text in pieces", "import sys\nfor c in 'abc': sys.stdout.write(c)\nsys.stdout.flush()", dict(out="abc")),
    ("unicode", "print('añ中🎉\\u2028')\n'🎉'", dict(out="añ中🎉\u2028\n", result="'🎉'")),
    ("a lone surrogate", "print('a\\ud800b')", dict(out=Some("b\n"))),
    ("a NUL", "print('a\\0b')", dict(out="a\0b\n")),
    ("what looks like a message", "print('{\"type\":\"execute_reply\",\"parent\":1,\"content\":{}}')", dict(out='{"type":"execute_reply","parent":1,"content":{}}\n')),
    ("bytes to the buffer", "import sys\n_ = sys.stdout.buffer.write('ü\\n'.encode())", dict(out="ü\n")),
    ("write wants a string", "import sys\nsys.stdout.write(3)", dict(error="TypeError", says="write() argument must be str, not int")),
    ("closing stdout does nothing", "import sys\nsys.stdout.close()\nprint('still')", dict(out="still\n")),
    ("a warning", "import warnings\nwarnings.warn('careful')", dict(err=Some("UserWarning: careful"))),
    ("logging", "import logging\nlogging.warning('careful')", dict(err=Some("careful"))),
    ("redirect_stdout", "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as s: print('x')\ns.getvalue()", dict(result="'x\\n'")),
    ("a subprocess given our stdout", "import subprocess, sys\nsubprocess.run(['true'], stdout=sys.stdout, check=True).returncode", dict(result="0")),
    # errors
    ("an exception", "1/0", dict(error="ZeroDivisionError", says="division by zero")),
    ("what was printed before it", "print('a')\n1/0", dict(out="a\n", error="ZeroDivisionError")),
    ("a syntax error", "def f(:", dict(error="SyntaxError", says=Some("invalid syntax"))),
    ("a syntax error runs nothing", "print('never')\nx = = 1", dict(error="SyntaxError")),
    ("a bad indent", "if True:\npass", dict(error="IndentationError")),
    ("an unclosed bracket", "print((1", dict(error="SyntaxError", says=Some("was never closed"))),
    ("return outside a function, after what ran", "print('ran')\nreturn 5", dict(out="ran\n", error="SyntaxError")),
    ("a NUL in the source", "a = '\0'", dict(error=Some("Error"))),
    ("a name that is not there", "no_such_name", dict(error="NameError", says="name 'no_such_name' is not defined")),
    ("an import that is not there", "import no_such_module", dict(error="ModuleNotFoundError")),
    ("an exception of the user's", "class Mine(Exception): pass\nraise Mine('äh')", dict(error="Mine", says="äh")),
    ("a chained exception", "try: 1/0\nexcept ZeroDivisionError as e: raise ValueError('v') from e", dict(error="ValueError")),
    ("an exception group", "raise ExceptionGroup('g', [ValueError(1)])", dict(error="ExceptionGroup")),
    ("an exception that cannot be told", "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E", dict(error="E")),
    ("a repr that fails", "class R:\n    def __repr__(self): raise ValueError('no repr')\nR()", dict(error="ValueError", status="ok")),
    ("recursion", "def deep(n): return deep(n + 1)\ndeep(0)", dict(error="RecursionError")),
    ("an assertion", "assert 1 == 2, 'sums'", dict(error="AssertionError", says="sums")),
    ("SystemExit", "import sys\nsys.exit(3)", dict(error="SystemExit", says="3")),
    ("SystemExit by raise", "raise SystemExit", dict(error="SystemExit")),
    ("KeyboardInterrupt by raise", "raise KeyboardInterrupt", dict(error="KeyboardInterrupt")),
    ("GeneratorExit", "raise GeneratorExit", dict(error="GeneratorExit")),
    ("state is kept after an error", "kept = 1\n1/0", dict(error="ZeroDivisionError")),
    ("state that was kept", "kept", dict(result="1")),
    # async
    ("await", "import asyncio\nawait asyncio.sleep(0)\n'done'", dict(result="'done'")),
    ("await as the value", "async def five(): return 5\nawait five()", dict(result="5")),
    ("async for and with", "class C:\n    async def __aenter__(self): return 1\n    async def __aexit__(self, *a): pass\nasync with C() as c: print(c)", dict(out="1\n")),
    ("a task is awaited", "async def t(): print('in task'); return 1\ntask = asyncio.create_task(t())\nawait task", dict(out="in task\n", result="1")),
    ("gather", "await asyncio.gather(five(), five())", dict(result="[5, 5]")),
    ("an exception in a coroutine", "async def bad(): raise ValueError('async')\nawait bad()", dict(error="ValueError", says="async")),
    ("asyncio.run in a plain cell", "asyncio.run(five())", dict(result="5")),
    ("await after asyncio.run", "await five()", dict(result="5")),
    ("async and prints in order", "for i in range(3):\n    print(i)\n    await asyncio.sleep(0)", dict(out="0\n1\n2\n")),
    # magics and commands
    ("a line magic", "%who_ls str", dict(result=Some("["))),
    ("a magic without its sign", "pwd", dict(result=Some("/"))),
    ("an unknown magic", "%no_such_magic", dict(error="UsageError")),
    ("%%time", "%%time\n3", dict(out=Some("Wall time"), result="3")),
    ("%timeit", "%timeit -n1 -r1 pass", dict(out=Some("per loop"))),
    ("%%capture", "%%capture captured\nprint('x')\n5", {}),
    ("what was captured", "captured.stdout", dict(result="'x\\n'")),
    ("%%writefile and %run", "%%writefile made.py\nmade = 7\nprint('made')", dict(out="Writing made.py\n")),
    ("%run", "%run made.py\nmade", dict(out="made\n", result="7")),
    ("%env", "%env COVE_TEST=1\nimport os\nos.environ['COVE_TEST']", dict(out="env: COVE_TEST=1\n", result="'1'")),
    ("%cd and back", "here = %pwd\n%cd -q /\nimport os\nwhere = os.getcwd()\n%cd -q $here\nwhere", dict(result="'/'")),
    ("%load_ext", "%load_ext autoreload\n%autoreload 0", {}),
    ("%xmode", "%xmode Plain", dict(out="Exception reporting mode: Plain\n")),
    ("%xmode back", "%xmode Context", dict(out="Exception reporting mode: Context\n")),
    ("a command", "!echo hi", dict(out="hi\n")),
    ("a command with a variable", "word = 'there'\n!echo hi {word} $word", dict(out="hi there there\n")),
    ("a command's output as a value", "lines = !printf 'a\\nb\\n'\nlines", dict(result="['a', 'b']")),
    ("a command's stderr", "!echo oops >&2", dict(out="oops\n")),
    ("a command that fails", "!exit 3\n_exit_code", dict(result="3")),
    ("a command that is not there", "!no-such-command-at-all", dict(out=Some("not found"))),
    ("a command has no stdin", "!cat", {}),
    ("a command in the background does not hold the cell", "!sleep 20 &\n'on'", dict(result="'on'")),
    ("a daemon that a command leaves does not hold the cell", "!(sleep 20; echo late) & echo now", dict(out="now\n")),
    ("%%bash", "%%bash\nx=5\necho $x\necho err >&2", dict(out="5\n", err="err\n")),
    ("%%bash that fails", "%%bash\nexit 4", dict(error="CalledProcessError")),
    ("%%bash into a variable", "%%bash --out bashed\nprintf 'a\\nb\\n'", {}),
    ("%%bash, the variable", "bashed", dict(result="'a\\nb\\n'")),
    ("%%script of what is not there", "%%script no-such-program\nx", dict(out="Couldn't find program: 'no-such-program'\n")),
    ("help goes to the pager", "len?", dict(payload="page")),
    ("%precision", "%precision 3\n3.14159", dict(result=Some("3.142"))),
    ("%precision back", "%precision %r\n0.5", dict(result="0.5")),
    # display
    ("display", "display('a', 2)", dict(shown=[{TEXT}, {TEXT}])),
    ("HTML", "from IPython.display import *\nHTML('<b>x</b>')", dict(value={"text/html": "<b>x</b>"}, result=Some("HTML"))),
    ("Markdown", "Markdown('# x')", dict(value={"text/markdown": "# x"}, result=Some("Markdown"))),
    ("Latex", "Latex('$x$')", dict(value={"text/latex": "$x$"}, result=Some("Latex"))),
    ("Math", "Math('x')", dict(value={"text/latex": "$\\displaystyle x$"}, result=Some("Math"))),
    ("SVG", "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", dict(value={"image/svg+xml": Some("<svg")}, result=Some("SVG"))),
    ("JSON", "JSON({'a': [1, None]})", dict(value={"application/json": {"a": [1, None]}}, result=Some("JSON"))),
    ("Javascript", "Javascript('1')", dict(value={"application/javascript": "1"}, result=Some("Javascript"))),
    ("a PNG", "import base64\npng = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\nImage(png)", dict(value={"image/png": Some("iVBORw0KGgo")}, result=Some("Image"))),
    ("a PNG given as bytes", "class P:\n    def _repr_png_(self): return png\ndisplay(P())", dict(shown=[{TEXT, "image/png"}])),
    ("a bundle", "class B:\n    def _repr_mimebundle_(self, **k): return {'text/plain': 'p', 'application/x-mine+json': {'k': 1}}\nB()", dict(result="p", value={"application/x-mine+json": {"k": 1}})),
    ("what is not JSON is left out", "display({'text/plain': 'p', 'application/json': object(), 'bad key': 'x', 3: 'y', 'text/html': {'a': float('nan')}}, raw=True)", dict(shown=[{TEXT, "text/html"}])),
    ("JSON that is too deep is left out", "deep = []\nfor _ in range(100): deep = [deep]\ndisplay({'text/plain': 'p', 'application/json': deep}, raw=True)", dict(shown=[{TEXT}])),
    ("a run of a cell within a cell", "r = get_ipython().run_cell('print(7)\\n8')\nr.result", dict(out="7\n", results=["8", "8"])),
    ("%pip", "%pip --version", dict(out=Some("pip "))),
    ("%store", "%load_ext storemagic\nstored = 5\n%store stored", dict(out="Stored 'stored' (int)\n")),
    ("a PIL image", "from PIL import Image as PImage\nPImage.new('RGB', (2, 2))", dict(value={"image/png": Some("iVBORw0KGgo")}, result=Some("PIL.Image"))),
    ("clear_output", "print('a')\nclear_output(wait=True)\nprint('b')", dict(out="a\nb\n", cleared=[{"wait": True}])),
    ("a formatter of the user's for str", "f = get_ipython().display_formatter.formatters['text/html']\nf.for_type(str, lambda s: '<i>')\nx = 1", {}),
    ("is used", "'abc'", dict(result="'abc'", value={"text/html": "<i>"})),
    ("and taken back", "f.pop(str);", {}),
    # pandas
    ("a frame", "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]}, index=['r', 's'])", dict(result=Some("a"), value={"text/html": Some("<table"), TABLE: {
        "columns": [{"name": "a", "dtype": "int64"}, {"name": "b", "dtype": "object"}], "index": {"name": None, "dtype": "object"},
        "index_values": ["r", "s"], "rows": [[1, "x"], [2, None]], "total_rows": 2, "total_columns": 2, "truncated": False}})),
    ("a series", "pd.Series([1.5, float('nan'), float('inf')], name='s')", dict(result=Some("1.5"), value={TABLE: {
        "columns": [{"name": "s", "dtype": "float64"}], "index": {"name": None, "dtype": "int64"}, "index_values": [0, 1, 2],
        "rows": [[1.5], [None], [None]], "total_rows": 3, "total_columns": 1, "truncated": False}})),
    ("times", "pd.DataFrame({'t': pd.to_datetime(['2024-01-02 03:04', None])})", dict(result=Some("2024"), value={"rows of": [["2024-01-02T03:04:00"], [None]]})),
    ("two levels of columns", "pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([('a', 'x'), ('a', 'y')]))", dict(result=Some("x"), value={"rows of": [[1, 2]]})),
    ("objects of the user's are named, not asked", "class Cell:\n    def __repr__(self): return 'cell'\npd.Series([Cell()], name='c')", dict(result=Some("cell"), value={"rows of": [["<__main__.Cell>"]]})),
    ("an empty frame", "pd.DataFrame()", dict(result=Some("Empty"), value={"rows of": []})),
    # state and introspection
    ("a future", "from __future__ import annotations\ndef noted(x: NotDefined): pass\nnoted.__annotations__", dict(result="{'x': 'NotDefined'}")),
    ("a future lasts", "def later(x: AlsoNot): pass\nlater.__annotations__", dict(result="{'x': 'AlsoNot'}")),
    ("the source of a function", "def sourced():\n    return 1  # one\nimport inspect\nprint(inspect.getsource(sourced), end='')", dict(out="def sourced():\n    return 1  # one\n")),
    ("pickle", "import pickle\nclass Pickled:\n    def __init__(self): self.x = 5\npickle.loads(pickle.dumps(Pickled())).x", dict(result="5")),
    ("copy of a function by name", "pickle.loads(pickle.dumps(sourced)) is sourced", dict(result="True")),
    ("dataclasses", "from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int = 1\nD()", dict(result="D(a=1)")),
    ("typing.get_type_hints", "import typing\ndef h(a: int) -> str: ...\ntyping.get_type_hints(h)", dict(result=Some("int"))),
    # processes and threads
    ("a thread prints", "import threading\nt = threading.Thread(target=lambda: print('threaded')); t.start(); t.join()", dict(out="threaded\n")),
    ("an exception in a thread", "t = threading.Thread(target=lambda: 1/0); t.start(); t.join()", dict(err=Some("ZeroDivisionError"))),
    ("a pool of threads", "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool: print(sum(pool.map(lambda x: x * x, range(100))))", dict(out="328350\n")),
    ("a pool of processes", "import multiprocessing\ndef square(x): return x * x\nwith multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(square, range(4)))", dict(out="[0, 1, 4, 9]\n")),
    ("check_output", "subprocess.check_output(['echo', 'x'])", dict(result="b'x\\n'")),
    ("os.system returns", "import os\nos.system('exit 2') >> 8", dict(result="2")),
    ("a signal to oneself", "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *a: print('got it'))\nos.kill(os.getpid(), signal.SIGUSR1)", dict(out="got it\n")),
    ("an alarm ends a sleep", "import time\ndef ring(*a): raise TimeoutError('rang')\nsignal.signal(signal.SIGALRM, ring)\n_ = signal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(5)", dict(error="TimeoutError", says="rang")),
    ("sqlite", "import sqlite3\nsqlite3.connect(':memory:').execute('select 1').fetchone()", dict(result="(1,)")),
    ("numpy", "import numpy as np\nnp.arange(3) * 2", dict(result="array([0, 2, 4])")),
    ("tempfile", "import tempfile\nwith tempfile.NamedTemporaryFile() as f: print(f.name != '')", dict(out="True\n")),
    ("no stdin without leave", "input('?')", dict(error="StdinNotImplementedError")),
    ("nor a password", "import getpass\ngetpass.getpass()", dict(error="StdinNotImplementedError")),
    ("%who shows the user's names only", "%reset -f\nonly_mine = 1\n%who", dict(out="only_mine\t \n")),
]


@pytest.mark.parametrize("code, want", [row[1:] for row in CELLS], ids=[row[0] for row in CELLS])
def test_a_cell_causes(kernel, code, want):
    events = kernel.execute(code)
    want = dict(want)
    reply = events.reply
    assert events.kinds[0] == "execute_input" and events.kinds.count("execute_reply") == 1
    error = want.pop("error", None)
    status = want.pop("status", "error" if error else "ok")
    says, payload, value = want.pop("says", None), want.pop("payload", None), want.pop("value", {})
    found = {"result": events.result, "out": events.text(), "err": events.text("stderr"), "shown": [set(data) for data in events.shown],
             "cleared": events.of("clear_output")}
    wanted = {"result": None, "out": "", "err": "", "shown": [], "cleared": [], **want}
    if "results" in wanted:
        assert [content["data"][TEXT] for content in events.of("execute_result")] == wanted.pop("results")
        wanted["result"] = found["result"]
    if value and "result" not in want:
        wanted["result"] = found["result"]
    # wanted first: a Some() compares by being part of the other
    assert [name for name in wanted if not wanted[name] == found[name]] == [], (found, events.of("error"))
    assert (error is None and events.error is None) or error == events.error, events.of("error")
    assert reply["status"] == status
    if error and status == "error":
        assert error == reply["ename"] and isinstance(reply["traceback"], list)
        assert "cove_runtime" not in "\n".join(reply["traceback"])
        assert "\x1b" not in "\n".join(reply["traceback"])
        if says is not None:
            assert says == reply["evalue"]
    assert [item["source"] for item in reply["payload"]] == ([payload] if payload else [])
    data = events.of("execute_result")[0]["data"] if events.of("execute_result") else {}
    for kind, part in value.items():
        assert part == (data[TABLE]["rows"] if kind == "rows of" else data[kind])
    assert len({content["execution_count"] for content in events.of("execute_input") + events.of("execute_result") + [reply]}) == 1


PLAIN = ["x % 2", "f'{x!r}'", "a != b", "'?'", "x = y % z\nw = 1", "[1,\n 2]", "d = {'a': '50%'}", "print('what?')", "x = 1 # why", "a = [\n    1 % 2,\n]"]


def test_cells_that_are_plain_python_are_read_as_ipython_reads_them(kernel):
    """What is not worth IPython's own reading must come out of it the same."""
    codes = [row[1] for row in CELLS if "\0" not in row[1]] + PLAIN
    kernel.execute("_shell = get_ipython()\n_theirs = super(type(_shell), _shell).transform_cell")
    assert kernel.execute(f"[_code for _code in {codes!r} if _code and not _code.isspace() and _shell.transform_cell(_code) != _theirs(_code)]").result == "[]"
    assert kernel.execute(f"[_code for _code in {PLAIN!r} if __import__(type(_shell).__module__, fromlist=['x'])._SPECIAL(_code)]").result == "[]"


def test_there_are_at_least_ninety_of_them():
    assert len(CELLS) >= 90 and len({row[0] for row in CELLS}) == len(CELLS)


def test_it_is_still_the_same_kernel(kernel):
    assert kernel.execute("only_mine").result == "1"
    assert re.fullmatch(r"\d+", kernel.execute("import os; os.getpid()").result)
