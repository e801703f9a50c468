"""POST /v1/execute (section 3), what a last expression shows (section 4)."""
import json
import threading

import pytest
from interpreter import ask, fetch, keep, run, unknown_id


def test_the_examples_of_the_contract(server):
    result = run(server, "import math\nprint('area')\nmath.pi * 2**2", timeout_ms=3000)
    assert {**result, "duration_ms": 0} == {"stdout": "area\n12.566370614359172\n", "stderr": "", "exit_code": 0, "timed_out": False, "duration_ms": 0, "files": []}
    result = run(server, "import time\nprint('start')\ntime.sleep(60)", timeout_ms=500)
    assert result["duration_ms"] >= 500
    assert {**result, "duration_ms": 0} == {"stdout": "start\n", "stderr": "", "exit_code": None, "timed_out": True, "duration_ms": 0, "files": []}
    answer = ask(server, "1", files=[{"path": "/etc/x", "file_id": keep(server, "x")}])
    assert (answer.status, answer.json) == (422, {"detail": "File paths must be relative."})


def test_types_of_a_result(server):
    result = run(server, "import sys\nprint('o')\nprint('e', file=sys.stderr)")
    assert (result["stdout"], result["stderr"], result["exit_code"], result["timed_out"], result["files"]) == ("o\n", "e\n", 0, False, [])
    assert type(result["duration_ms"]) is int and result["duration_ms"] >= 0 and type(result["timed_out"]) is bool


# --- how programs end

@pytest.mark.parametrize("code, status", [
    ("", 0), ("import sys; sys.exit(3)", 3), ("import sys; sys.exit(300)", 44), ("import sys; sys.exit()", 0), ("import os; os._exit(9)", 9), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139), ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143),
])
@pytest.mark.parametrize("echo", [True, False])
def test_exit_codes(server, code, status, echo):
    result = run(server, code, last_line_interactive=echo)
    assert (result["exit_code"], result["timed_out"]) == (status, False)


@pytest.mark.parametrize("echo", [True, False])
def test_words_at_the_end_go_to_stderr(server, echo):
    result = run(server, "import sys\nsys.exit('bye')", last_line_interactive=echo)
    assert (result["exit_code"], result["stderr"], result["stdout"]) == (1, "bye\n", "")


@pytest.mark.parametrize("echo", [True, False])
def test_an_exception_is_a_traceback_and_1(server, echo):
    result = run(server, "print('before')\n1/0\nprint('after')", last_line_interactive=echo)
    assert (result["exit_code"], result["stdout"]) == (1, "before\n")
    assert result["stderr"].startswith("Traceback (most recent call last):\n") and "line 2" in result["stderr"] and result["stderr"].endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("echo", [True, False])
def test_a_nul_in_the_code_is_a_syntax_error(server, echo):
    result = run(server, "print(1)\0", last_line_interactive=echo)
    assert (result["exit_code"], result["stdout"]) == (1, "") and "SyntaxError" in result["stderr"]


def test_a_program_that_uses_up_memory_is_137(server):
    result = run(server, "b = bytearray(2 * 10**9)")
    assert (result["exit_code"], result["timed_out"]) == (137, False)


def test_a_program_that_fills_the_workspace_meets_a_limit(server):
    result = run(server, "print('x')\ntry:\n  open('big', 'wb').write(bytes(10**9))\nfinally:\n  import os; os.unlink('big')")
    assert result["stdout"] == "x\n" and result["exit_code"] in (1, 137)


def test_what_is_left_running_ends_with_the_program(server):
    from conftest import new_marker, processes_with
    marker = new_marker()
    result = run(server, f"import subprocess\nsubprocess.Popen(['sleep', '600', '{marker}'][:2] + [], executable='sleep')\nsubprocess.Popen(['bash', '-c', 'sleep 600; : {marker}'])\nprint('done')", last_line_interactive=False)
    assert (result["stdout"], result["exit_code"]) == ("done\n", 0)
    from conftest import wait_until
    assert wait_until(lambda: not processes_with(marker), 10)


# --- input

@pytest.mark.parametrize("given, want", [(None, "EOFError"), ("", "EOFError"), ("grüße\nx", "'grüße'"), ("no newline", "'no newline'")])
def test_stdin(server, given, want):
    result = run(server, "try: print(repr(input()))\nexcept EOFError: print('EOFError')", stdin=given)
    assert result["stdout"] == want + "\n"


def test_large_input_and_input_that_nobody_reads(server):
    text = "0123456789" * 100_000
    assert run(server, "import sys, hashlib\nprint(hashlib.md5(sys.stdin.buffer.read()).hexdigest())", stdin=text)["stdout"].strip() == __import__("hashlib").md5(text.encode()).hexdigest()
    assert run(server, "print('x')", stdin=text)["stdout"] == "x\n"


def test_large_code(server):
    code = "x = '" + "é" * 1_500_000 + "'\nlen(x)"
    assert run(server, code)["stdout"] == "1500000\n"


# --- time

def test_time_out_keeps_what_came_and_what_was_written(server):
    code = "import time, sys\nopen('kept.txt', 'w').write('half')\nprint('out'); print('err', file=sys.stderr)\nwhile True: time.sleep(1)"
    result = run(server, code, timeout_ms=700)
    assert (result["stdout"], result["stderr"], result["exit_code"], result["timed_out"]) == ("out\n", "err\n", None, True)
    [entry] = result["files"]
    assert entry["path"] == "kept.txt" and fetch(server, entry["file_id"]) == b"half"


def test_a_millisecond_is_a_time_too(server):
    result = run(server, "import time; time.sleep(30)", timeout_ms=1)
    assert (result["timed_out"], result["exit_code"], result["stdout"]) == (True, None, "")


def test_a_program_that_hides_behind_children_times_out(server):
    result = run(server, "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork(): os._exit(0)\ntime.sleep(60)", timeout_ms=500)
    assert result["timed_out"] is True


# --- what a program finds

FACTS = """
import json, os, sys, socket
def network():
    try:
        socket.create_connection(('1.1.1.1', 53), 1)
        return 'connected'
    except OSError:
        return 'none'
facts = dict(argv=sys.argv, name=__name__, path=sys.path[0], cwd=os.getcwd(), file=__file__, uid=os.getuid(), gid=os.getgid(), network=network(), env=dict(os.environ), there=os.listdir('/workspace'), tmp=os.listdir('/tmp'),
             main=sys.modules['__main__'].__dict__ is globals(), stdout=sys.stdout.encoding)
print(json.dumps(facts))
"""


@pytest.mark.parametrize("echo", [True, False])
def test_what_a_program_finds(server, echo):
    result = run(server, FACTS, last_line_interactive=echo)
    assert result["stderr"] == ""
    facts = json.loads(result["stdout"])
    assert (facts["argv"], facts["name"], facts["path"], facts["cwd"], facts["file"]) == (["/workspace/__main__.py"], "__main__", "/workspace", "/workspace", "/workspace/__main__.py")
    assert (facts["there"], facts["tmp"], facts["network"], facts["main"], facts["stdout"].lower()) == (["__main__.py"], [], "none", True, "utf-8")
    wanted = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8", "MPLCONFIGDIR": "/tmp/matplotlib", "VIRTUAL_ENV": "/opt/executor-venv", "LANG": "C.UTF-8"}
    assert {name: facts["env"][name] for name in wanted} == wanted and facts["env"]["PATH"].startswith("/opt/executor-venv/bin:")
    # Ours, and not the original's: a user with a name and a home.
    assert (facts["uid"], facts["gid"], facts["env"]["HOME"]) == (1000, 1000, "/home/cove")


def test_nothing_survives_between_runs(server):
    run(server, "open('/workspace/a', 'w'); open('/tmp/b', 'w')")
    assert run(server, "import os\nprint(os.listdir('/workspace'), os.listdir('/tmp'))")["stdout"] == "['__main__.py'] []\n"


# --- too much output

def test_output_at_the_limit_is_whole(server):
    result = run(server, "import sys\nsys.stdout.write('x' * 1000000)\nsys.stderr.write('y' * 1000000)\nNone")
    assert (result["stdout"], result["stderr"]) == ("x" * 1_000_000, "y" * 1_000_000)


def test_output_over_the_limit_is_cut_each_stream_by_itself(server):
    result = run(server, "import sys\nsys.stdout.write('x' * 3000000)\nprint('short', file=sys.stderr)")
    assert len(result["stdout"]) == 999983 and result["stdout"] == "x" * 999968 + "\n...[truncated]"
    assert result["stderr"] == "short\n" and result["exit_code"] == 0


def test_a_character_at_the_cut_becomes_a_replacement(server):
    result = run(server, "import sys\nsys.stdout.write('x' + 'é' * 600000)\nNone")
    assert result["stdout"] == "x" + "é" * 499983 + "\ufffd\n...[truncated]"


def test_a_small_limit_leaves_the_marker_alone(fresh_server):
    server = fresh_server("--execute-output-limit", "20")
    assert run(server, "print('x' * 19)")["stdout"] == "x" * 19 + "\n"
    assert run(server, "print('x' * 20)")["stdout"] == "\n...[truncated]"


def test_bytes_that_are_no_text(server):
    result = run(server, "import os\nos.write(1, b'a\\xff\\xfeb\\xf0\\x9f\\x98')\nNone")
    assert result["stdout"] == b"a\xff\xfeb\xf0\x9f\x98".decode(errors="replace")


# --- which failure counts

def test_the_order_of_failures(server):
    good, bad = keep(server, "x"), unknown_id()
    illegal, unknown = {"path": "../x", "file_id": good}, {"path": "y", "file_id": bad}
    assert isinstance(ask(server, 5, timeout_ms=10**9, files=[unknown]).json["detail"], list)
    assert ask(server, "1", timeout_ms=10**9, files=[unknown]).json["detail"].startswith("timeout_ms exceeds")
    answer = ask(server, "1", files=[illegal, unknown])
    assert (answer.status, answer.json["detail"]) == (404, f"File with ID '{bad}' not found for path 'y'.")
    assert ask(server, "1", files=[illegal]).status == 422


def test_ids_that_were_not_given_by_us_are_unknown(server, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for bad in (str(secret), "../" * 10 + str(secret)[1:], "/etc/passwd", "../cove.db", "", ".", "x" * 5000, keep(server, "x") + ".meta.json", keep(server, "x").upper()):
        answer = ask(server, "print(open('f').read())", files=[{"path": "f", "file_id": bad}])
        assert (answer.status, answer.json["detail"]) == (404, f"File with ID '{bad}' not found for path 'f'.")
        assert server.get("/v1/files/" + __import__("urllib.parse").parse.quote(bad, safe="")).status in (404, 307)


def test_five_at_once(server):
    results = []
    threads = [threading.Thread(target=lambda n=n: results.append((n, run(server, f"print({n})")))) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 5 and all(result["stdout"] == f"{n}\n" and result["exit_code"] == 0 for n, result in results)


# --- the last expression

ECHO = [
    ("2 + 2", "4\n"), ("'abc'", "'abc'\n"), ('"""doc"""', "'doc'\n"), ("None", ""), ("print('a')", "a\n"), ("x = 1", ""), ("import os", ""), ("def f(): pass", ""), ("x = 1\ndel x", ""), ("x = 1; x", "1\n"), ("5;", "5\n"),
    ("if True: 3", ""), ("for i in range(2): i", ""), ("with open('f', 'w'): 3", ""), ("(1 +\n 2)", "3\n"), ("(n := 10)", "10\n"), ("...", "Ellipsis\n"), ("from pathlib import Path\nPath('f').write_text('hello')", "5\n"), ("# nothing", ""),
    ("", ""), ("1\n2\n3", "3\n"), ("print('p')\n7", "p\n7\n"), ("_ = 5\n_ + 1", "6\n"), ("import sys\nsys.displayhook = lambda v: print('hook', v)\n3", "hook 3\n"), ("3 # comment\n\n# more\n", "3\n"), ("[1,\n 2]", "[1, 2]\n"),
]


@pytest.mark.parametrize("code, want", ECHO)
def test_what_a_last_expression_shows(server, code, want):
    result = run(server, code)
    assert (result["stdout"], result["stderr"], result["exit_code"]) == (want, "", 0)


@pytest.mark.parametrize("code", ["2 + 2", "print(1)\n5", "'abc'"])
def test_without_the_flag_nothing_is_shown(server, code):
    assert run(server, code, last_line_interactive=False)["stdout"] == ("1\n" if "print" in code else "")


def test_after_an_exception_nothing_is_shown(server):
    result = run(server, "1 / 0\n2 + 2")
    assert (result["stdout"], result["exit_code"]) == ("", 1) and "ZeroDivisionError" in result["stderr"]


@pytest.mark.parametrize("echo", [True, False])
def test_a_syntax_error_means_that_nothing_runs(server, echo):
    result = run(server, "print('no')\nx = = 1", last_line_interactive=echo)
    assert (result["stdout"], result["exit_code"]) == ("", 1) and result["stderr"].splitlines()[-1].startswith("SyntaxError: ")


@pytest.mark.parametrize("last", ["return 1", "await x"])
def test_what_only_the_compiler_finds_comes_after_what_ran(server, last):
    result = run(server, f"print('ran')\n{last}")
    assert (result["stdout"], result["exit_code"]) == ("ran\n", 1) and "SyntaxError" in result["stderr"]


def test_no_helper_lives_in_the_namespace(server):
    assert run(server, "tree = ast = body = code = module = 1\nsorted(k for k in globals() if not k.startswith('__'))")["stdout"] == "['ast', 'body', 'code', 'module', 'tree']\n"


def test_without_the_flag_a_traceback_has_file_and_source(server):
    result = run(server, "x = 1\nraise ValueError('bad')", last_line_interactive=False)
    assert 'File "/workspace/__main__.py", line 2, in <module>\n    raise ValueError(\'bad\')' in result["stderr"]
