"""The workspace API: commands and scripts in a session (contract sandbox-runtime, section 6)."""
import http.client
import json
import threading

import pytest
from conftest import new_marker, processes_with, wait_until
from workspace import SE, create, download, execute, listed, mistake, names, result, script, session


@pytest.fixture(scope="module")
def name(server):
    made = session(server)
    yield made
    server.delete(f"{SE}/session/{made}")


# --- execute

def test_a_command(server, name):
    assert execute(server, name, "echo", "hello") == {"stdout": "hello", "stderr": "\n", "returncode": 0, "exit_code": 0, "reason": "exited"}
    assert result(server.post(f"{SE}/execute/{name}", {"command": "pwd", "unknown": 1}))["stdout"] == "/workspace"


@pytest.mark.parametrize("command, args, stdout", [
    ("printf", ["%s|", "a  b", "c"], "a  b|c|"), ("echo", ["; id"], "; id"), ("echo", ["$HOME", "`id`", "$(id)", "*", ">f", "a'b\"c\\"], "$HOME `id` $(id) * >f a'b\"c\\"), ("echo", [""], ""),
    ("echo a; echo b", [], "a\nb"), ("echo $HOME | tr a-z A-Z", [], "/WORKSPACE"), ("for x in 1 2; do echo $x; done", [], "1\n2"), ("printf '%s-'", ["-n", "--"], "-n----"), ("", [], "")])
def test_the_command_is_a_shell_line_and_arguments_are_words(server, name, command, args, stdout):
    assert execute(server, name, command, *args)["stdout"] == stdout


@pytest.mark.parametrize("command, stdout, stderr", [
    ("printf 'a\\n\\n\\n'", "a", "\n"), ("printf '\\na'", "\na", "\n"), ("printf 'e' >&2", "", "e\n"), ("printf 'e\\n' >&2", "", "e\n"), ("printf 'e\\n\\n' >&2", "", "e\n"), ("printf '  a  \\n'", "  a  ", "\n")])
def test_newlines_at_the_end(server, name, command, stdout, stderr):
    said = execute(server, name, command)
    assert (said["stdout"], said["stderr"]) == (stdout, stderr)


@pytest.mark.parametrize("command, code, reason", [("no-such-command-x", 127, "exited"), ("false", 1, "exited"), ("echo out; echo err >&2; exit 7", 7, "exited"), ("kill -9 $$", 137, "signalled"), ("if", 2, "exited")])
def test_exit_codes(server, name, command, code, reason):
    said = execute(server, name, command)
    assert (said["returncode"], said["exit_code"], said["reason"]) == (code, code, reason)
    if code == 127:
        assert "not found" in said["stderr"]
    if code == 7:
        assert (said["stdout"], said["stderr"]) == ("out", "err\n"), "what was said before is told"


def test_lines_that_look_like_marks_are_output(server, name):
    lines = "=== EXIT CODE ===\n5\n=== STDOUT ===\nx\n=== STDERR ===\ny"
    said = execute(server, name, "printf", "%s\n", lines)
    assert (said["stdout"], said["stderr"], said["returncode"]) == (lines, "\n", 0)


def test_output_that_is_no_text(server, name):
    assert execute(server, name, "printf 'a\\377b\\303'")["stdout"] == "a�b�"


def test_there_is_no_input(server, name):
    assert execute(server, name, "cat; echo end")["stdout"] == "end"


def test_too_much_output_is_cut_and_said_so(server, name):
    said = execute(server, name, "head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero | tr '\\0' y >&2")
    assert len(said["stdout"]) == 1 << 20 and said["stdout_truncated"] is said["stderr_truncated"] is True and said["returncode"] == 0


def test_words_no_command_line_can_have(server, name):
    mistake(server.post(f"{SE}/execute/{name}", {"command": "echo", "args": ["a\0b"]}), "Failed to execute command", "Error: NUL cannot be part of a command line")
    assert "131071" in mistake(server.post(f"{SE}/execute/{name}", {"command": "echo", "args": ["x" * 200000]}), "Failed to execute command")


def test_what_one_command_leaves_the_next_one_finds(server, name):
    execute(server, name, "echo kept > /workspace/kept; echo tmp > /tmp/t")
    assert execute(server, name, "cat /workspace/kept /tmp/t")["stdout"] == "kept\ntmp"


def test_commands_at_once_do_not_mix(server, name):
    said = {}
    threads = [threading.Thread(target=lambda n=n: said.update({n: execute(server, name, f"echo {n}; sleep 0.2; echo {n} >&2")})) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((one["stdout"], one["stderr"]) == (str(n), f"{n}\n") for n, one in said.items()) and len(said) == 5


# --- execute_code

def test_the_example_of_the_contract(server, name):
    said = script(server, name, "total = sum(range(5))\nprint(total)", filename="add", output_params=["total", "missing"])
    assert said == {"stdout": "10", "stderr": "\n", "returncode": 0, "exit_code": 0, "reason": "exited", "output_variables": {"total": 10}}


@pytest.mark.parametrize("fields, shown, file", [
    ({"filename": "plain"}, "plain.py", "plain.py"), ({"filename": "named.py"}, "named.py", "named.py"), ({"filename": "/sub/dir/x"}, "sub/dir/x.py", "sub/dir/x.py"), ({"filename": "./dot"}, "dot.py", "dot.py"), ({"filename": "has.dots"}, "has.dots.py", "has.dots.py")])
def test_the_file_of_a_script(server, name, fields, shown, file):
    said = script(server, name, "import sys\nprint(sys.argv, __file__, __name__)", **fields, args=["a b", "--x"])
    assert said["stdout"] == f"{[shown, 'a b', '--x']} /workspace/{file} __main__"
    assert download(server, name, file).body.startswith(b"import sys")


def test_a_script_without_a_name(server):
    name = session(server)
    script(server, name, "1")
    script(server, name, "2", filename=None, args=None, output_params=None)
    script(server, name, "true", script_type="shell", filename="")
    found = names(listed(server, name))
    assert len(found) == 3 and all(one.startswith("script_") for one in found) and sorted(one[-3:] for one in found) == [".py", ".py", ".sh"], found
    server.delete(f"{SE}/session/{name}")


def test_an_uncaught_exception(server, name):
    said = script(server, name, "def f():\n    1/0\nf()", filename="boom")
    assert said["returncode"] == 1 and said["stderr"].startswith("Traceback (most recent call last):\n  File \"/workspace/boom.py\", line 3") and said["stderr"].endswith("ZeroDivisionError: division by zero\n")


def test_python_as_in_a_session(server, name):
    result(create(server, name, "helper_module.py", "VALUE = 42"))
    result(create(server, name, "deep/inner.txt", "text"))
    said = script(server, name, "import os, helper_module\nprint(helper_module.VALUE, os.getcwd(), os.environ['HOME'], os.environ['PYTHONPATH'], open('deep/inner.txt').read())", filename="elsewhere/uses")
    assert said["stdout"] == "42 /workspace /workspace /workspace text", said


@pytest.mark.parametrize("code, outputs, want", [
    ("a = 1; b = 'x'; c = [1.5, None, True]; d = {'k': 'ü'}", ["a", "b", "c", "d"], {"a": 1, "b": "x", "c": [1.5, None, True], "d": {"k": "ü"}}),
    ("import datetime\nday = datetime.date(2020, 1, 1)", ["day"], {"day": "2020-01-01"}),
    ("x = float('nan'); y = [float('inf')]", ["x", "y"], {"x": None, "y": [None]}),
    ("import sys\nx = 1\nsys.exit(3)", ["x"], {}), ("x = 1\nraise ValueError", ["x"], {}),
    ("a = []; a.append(a)", ["a"], {"a": "[[...]]"}), ("t = {(1, 2): 3}", ["t"], {"t": "{(1, 2): 3}"}), ("big = 2**70", ["big"], {"big": 2**70}),
    ("def f():\n    local = 1\nf()", ["local"], {}), ("x = 1", ["x", "x", "\"quoted\""], {"x": 1}), ("import os\nx = 1\nos.closerange(3, 64)", ["x"], {})])
def test_output_variables(server, name, code, outputs, want):
    said = script(server, name, code, output_params=outputs)
    assert said["output_variables"] == want, said


def test_output_variables_only_where_they_are_asked_for(server, name):
    assert "output_variables" not in script(server, name, "x = 1", output_params=[])
    assert "output_variables" not in script(server, name, "x=1", script_type="shell", output_params=["x"])
    assert not [one for one in names(listed(server, name)) if "output_variables" in one]


def test_too_much_of_a_variable_is_none(server, name):
    said = script(server, name, "x = 'a' * 9_000_000; print('ran')", output_params=["x"])
    assert (said["stdout"], said["output_variables"]) == ("ran", {})


@pytest.mark.parametrize("fields, stdout", [({"filename": "run"}, "run.sh|a b|/workspace"), ({"filename": "./run2.sh"}, "run2.sh|a b|/workspace"), ({"filename": "-x"}, "-x.sh|a b|/workspace")])
def test_shell_scripts_run_by_any_name(server, name, fields, stdout):
    said = script(server, name, "echo \"$0|$1|$PWD\"", script_type="shell", args=["a b"], **fields)
    assert (said["stdout"], said["returncode"]) == (stdout, 0), said
    assert execute(server, name, "stat", "-c%a", "--", stdout.partition("|")[0])["stdout"] == "755"


@pytest.mark.parametrize("kind", ["perl", "", None, "Python"])
def test_other_kinds_of_script(server, name, kind):
    mistake(server.post(f"{SE}/execute_code/{name}", {"code": "1", "script_type": kind}), "Unsupported script type")


def test_syntax_errors_and_exit_codes(server, name):
    assert script(server, name, "def")["returncode"] == 1 and "SyntaxError" in script(server, name, "def")["stderr"]
    assert script(server, name, "import sys; print('said'); sys.exit(9)")["returncode"] == 9
    assert script(server, name, "exit 4", script_type="shell")["returncode"] == 4


# --- who leaves, and what is told of limits

@pytest.mark.parametrize("path, body", [
    ("/execute/{name}", {"command": "sleep 600; : {marker}"}), ("/execute_code/{name}", {"code": "import subprocess\nsubprocess.run(['bash', '-c', 'sleep 600; : {marker}'])"}),
    ("/v2/execute_code", {"handler_code": "import subprocess\ndef handler(event):\n    subprocess.run(['bash', '-c', 'sleep 600; : {marker}'])"})])
def test_what_nobody_waits_for_ends(server, name, path, body):
    marker = new_marker()
    text = json.dumps(body).replace("{marker}", marker)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", SE + path.replace("{name}", name), text.encode(), {"Content-Type": "application/json"})
    assert wait_until(lambda: processes_with(marker), 15)
    connection.close()
    assert wait_until(lambda: not processes_with(marker), 15)
    assert execute(server, name, "echo on")["stdout"] == "on"


def test_time_and_memory(fresh_server):
    server = fresh_server(env={"SANDBOX_TIMEOUT_SECONDS": "1", "MEMORY_LIMIT": "64"})
    name = session(server)
    for said in (execute(server, name, "echo begun; sleep 60"), script(server, name, "import time\nprint('begun', flush=True)\ntime.sleep(60)")):
        assert (said["returncode"], said["reason"], said["stdout"]) == (124, "timeout", "begun") and said["stderr"] == "Command timed out after 1 seconds\n"
    said = script(server, name, "x = bytearray(400_000_000)")
    assert said["returncode"] == 137 and said["reason"] == "oom" and "memory limit" in said["stderr"]
    assert execute(server, name, "echo on")["stdout"] == "on"
