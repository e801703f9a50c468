"""`cove sandbox-run`: a handler called once, without a server (contract sandbox-runtime, section 10)."""
import json
import os
import signal
import subprocess
import time

import pytest
import yaml
from conftest import COVE, PATIENCE, cove

SCRIPT = "def handler(event):\n    print('out ü')\n    return {'n': event.get('n', 0) + 1, 'list': [1.5, None, 1e20]}\n"


@pytest.fixture
def script(workdir):
    def write(code=SCRIPT, name="h.py"):
        path = workdir / name
        path.write_text(code)
        return path
    return write


def run(*words, **options):
    return cove("sandbox-run", *words, **options)


def report(*words, **options):
    done = run(*words, "--format", "json", **options)
    return done.status, json.loads(done.stdout)


def test_the_pretty_form(script):
    path = script()
    done = run(path, "-e", '{"n": 1}')
    text = done.stdout.decode()
    assert done.status == 0 and done.stderr == b""
    assert text.startswith(f"Executing: {path}\n" + "-" * 50 + "\n✅ Execution succeeded\n\n📤 STDOUT:\n" + "-" * 40 + "\nout ü\n") and '"n": 2' in text and "METRICS" not in text
    quiet = run(path, "-q", "-p").stdout.decode()
    assert quiet.startswith("✅") and "⚡ METRICS:" in quiet and "Memory Peak:" in quiet and "DETAILS" not in quiet
    assert "🔍 DETAILS:" in run(path, "-v").stdout.decode()


def test_json_and_yaml_are_parseable_as_they_are(script, workdir):
    path = script()
    status, said = report(path, "-e", '{"n": 4}')
    assert status == 0 and {**said, "metrics": 0} == {"exit_code": 0, "stdout": "out ü\n", "stderr": "", "result": {"n": 5, "list": [1.5, None, 1e20]}, "metrics": 0}
    assert list(said["metrics"]) == ["duration_ms", "cpu_time_ms", "memory_peak_mb"] and said["metrics"]["duration_ms"] > 0 and said["metrics"]["memory_peak_mb"] > 1
    assert "timestamp" in report(path, "-v")[1]
    done = run(path, "--format", "yaml", "-o", workdir / "r.yaml", "--log-level", "DEBUG")
    parsed = yaml.safe_load(done.stdout)
    assert parsed["result"] == {"n": 1, "list": [1.5, None, 1e20]} and parsed["stdout"] == "out ü\n"
    assert yaml.safe_load((workdir / "r.yaml").read_text()) == parsed
    assert b"Executing: " in done.stderr and b"Result saved to: " in done.stderr


def test_events_and_contexts_from_files(script, workdir):
    path = script("def handler(event, context):\n    return [event, context.function_name, context.memory_limit_in_mb]")
    (workdir / "e.json").write_text('{"a": "ü", "big": 123456789012345678901234567890}')
    (workdir / "c.json").write_text('{"function_name": "mine"}')
    assert report(path, "-f", workdir / "e.json", "--context-file", workdir / "c.json")[1]["result"] == [{"a": "ü", "big": 123456789012345678901234567890}, "mine", 256]
    assert report(path, "--event", '{"a": 1}', "-c", '{"memory_limit_in_mb": 5}')[1]["result"] == [{"a": 1}, "unknown-function", 5]


@pytest.mark.parametrize("code, status, words", [
    ("def handler(event):\n    raise KeyError('x')", 2, "KeyError"), ("x = 1", 6, "System error"), ("def (", 6, "System error"), ("raise ValueError('no')\ndef handler(e): pass", 1, "ValueError"),
    ("def handler(event):\n    return {1}", 2, "TypeError"), ("def handler(event):\n    import os; os._exit(4)", 3, "status 4"), ("def handler(event):\n    return bytearray(400_000_000)", 137, "memory limit"),
    ("def handler(event):\n    import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139, "")])
def test_the_status_is_the_exit_code(script, code, status, words):
    got, said = report(script(code))
    assert (got, said["exit_code"], said["result"]) == (status, status, None) and words in said["stderr"], said


def test_time(script):
    path = script("import time\ndef handler(event):\n    print('begun', flush=True)\n    time.sleep(60)")
    done = run(path, "-t", "1", "-q")
    assert (done.status, done.stdout, done.stderr) == (4, b"", b"Error: Execution timed out after 1 seconds\n")
    status, said = report(path, "-e", '{"__timeout": 0.5}')
    assert (status, said["exit_code"], said["stdout"]) == (124, 124, "begun\n")


@pytest.mark.parametrize("words, status, says", [
    (["none.py"], 2, "Script file not found: none.py"), (["{dir}"], 2, "Path is not a file"), (["{h}", "-e", "{{"], 2, "Invalid event JSON"), (["{h}", "-c", "[]"], 2, "must be an object"), (["{h}", "-f", "none.json"], 2, "File not found: none.json"),
    (["{h}", "--format", "xml"], 2, "sandbox-run: error"), (["{h}", "-e", "{{}}", "-f", "x"], 2, "sandbox-run: error"), ([], 2, "sandbox-run: error"), (["{h}", "--bad"], 2, "sandbox-run: error"), (["{t}"], 1, "Script must be a Python file"), (["{e}"], 1, "Script file is empty"),
    (["{h}", "-e", '{{"__timeout": "x"}}'], 2, "__timeout"), (["{h}", "-t", "soon"], 2, "sandbox-run: error")])
def test_mistakes(script, workdir, words, status, says):
    names = {"h": script(), "t": script(name="h.txt"), "e": script(" \n", "empty.py"), "dir": workdir}
    done = run(*(word.format(**names) for word in words))
    assert done.status == status and says in done.stderr.decode() and done.stdout.replace(b"Executing", b"") is not None, done.stderr


def test_a_link_of_its_name(script, workdir):
    link = workdir / "sandbox-run"
    link.symlink_to(os.path.abspath(COVE))
    done = subprocess.run([link, script(), "--format", "json", "-q"], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and json.loads(done.stdout)["result"]["n"] == 1 and done.stderr == b""
    assert subprocess.run([link, "--version"], capture_output=True, timeout=PATIENCE).stdout == b"sandbox-run 1.0.0\n"


def test_an_interrupt(script):
    path = script("import time\ndef handler(event):\n    time.sleep(60)")
    process = subprocess.Popen([COVE, "sandbox-run", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)  # the header: it is under way
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and b"Interrupted" in errors


def test_a_large_event_goes_in_and_out(script):
    path = script("def handler(event):\n    return event['x'][::-1]")
    large = script(json.dumps({"x": "ab" * 900000}), "large.json")
    assert report(path, "-f", large)[1]["result"] == "ba" * 900000
