"""Flags win over the environment, in every command: one test walks all that there are."""
import http.server
import json
import os
import re
import threading

import pytest
from conftest import COVE, cove

OTHERS = {"COVE_URL": "http://127.0.0.1:1", "COVE_API_KEY": "cove_of_the_environment"}

# What each command that talks to a server needs besides its options.
WORDS = {
    "create": ["demo"], "ls": [], "inspect": ["demo"], "touch": ["demo"], "pause": ["demo"], "resume": ["demo"], "rm": ["demo"], "update": ["demo", "--pids", "99"],
    "exec": ["demo", "true"], "ps": ["demo"], "logs": ["demo", "p1"], "cp": ["demo:a", "b"], "upload": ["demo", __file__], "download": ["demo"], "install": ["demo", "six"], "forward": ["demo", "0:80"],
    "kernel create": ["demo"], "kernel ls": ["demo"], "kernel exec": ["demo", "k1", "-c", "1"], "kernel attach": ["demo"], "kernel vars": ["demo", "k1"],
    "kernel interrupt": ["demo", "k1"], "kernel restart": ["demo", "k1"], "kernel rm": ["demo", "k1"],
    "executions submit": ["demo", "-c", "1"], "executions ls": ["demo"], "executions get": ["demo", "x1"], "executions cancel": ["demo", "x1"],
    "template list": [], "template build": ["x", "--packages", "jq"], "template show": ["x"], "template log": ["x"], "template delete": ["x"], "mcp": [],
    "tools add": ["demo", "srv", "--server", "http://127.0.0.1:9/mcp"], "tools ls": ["demo"], "tools rm": ["demo", "srv"], "tools call": ["demo", "srv", "tool"],
    "network": ["demo"], "journal": ["demo"], "replay": ["demo"], "up": ["ipybox", "--name", "demo"], "down": ["demo"],
    "shell": None,  # wants a terminal: its options are described by the same function as those of exec
}


class Recorder(http.server.BaseHTTPRequestHandler):
    """Remembers who called with which key, and refuses."""

    def answer(self):
        self.server.keys.append(self.headers.get("Authorization", ""))
        body = json.dumps({"error": "recorded"}).encode()
        self.send_response(418)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = answer

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def recorder():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.keys = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def commands(path=()):
    """Every command, as its words, read off the help."""
    text = cove(*path, "--help").out
    # cove itself has its commands in groups, each group under a title; everybody else under one.
    lists = re.findall(r"^(?:Subcommands|[A-Z][a-z ]+):\n((?:  .*\n)+)", text, re.M) if not path else re.findall(r"^Subcommands:\n((?:  .*\n)+)", text, re.M)
    found = []
    for name in re.findall(r"^  ([a-z][a-z-]*)", "".join(lists), re.M):
        if name not in ("noxrc", "sandbox-run"):
            found += [(*path, name), *commands((*path, name))]
    return found


ALL = commands() if os.path.exists(COVE) else []
WITH_URL = [path for path in ALL if re.search(r"^  --url\b", cove(*path, "--help").out, re.M) and path != ("mcp", "config")]
WITH_STATE = [path for path in ALL if re.search(r"^  --state-dir\b", cove(*path, "--help").out, re.M)]


def test_the_walk_finds_the_commands():
    assert {("ls",), ("kernel", "exec"), ("mcp",), ("template", "build"), ("executions", "get")} <= set(WITH_URL)
    assert {("run",), ("doctor",), ("serve",), ("key", "create"), ("mcp",), ("mcp", "stop")} <= set(WITH_STATE)


@pytest.mark.parametrize("path", WITH_URL, ids=" ".join)
def test_the_flags_of_a_command_win_over_the_variables(path, recorder, tmp_path):
    name = " ".join(path)
    words = WORDS[name]
    if words is None:
        pytest.skip("wants a terminal")
    recorder.keys.clear()
    run = cove(*path, "--url", f"http://127.0.0.1:{recorder.server_address[1]}", "--key", "cove_of_the_flag", *words, env=OTHERS, cwd=tmp_path)
    assert recorder.keys and set(recorder.keys) == {"Bearer cove_of_the_flag"}, run.err
    recorder.keys.clear()
    run = cove(*path, *words, cwd=tmp_path, env={"COVE_URL": f"http://127.0.0.1:{recorder.server_address[1]}", "COVE_API_KEY": "cove_of_the_environment"})
    assert recorder.keys and set(recorder.keys) == {"Bearer cove_of_the_environment"}, run.err


def test_the_settings_of_a_client_have_the_flags(recorder):
    config = cove("mcp", "config", "--client", "cursor", "--url", "http://127.0.0.1:9", "--key", "cove_of_the_flag", env=OTHERS).out
    assert "http://127.0.0.1:9" in config and "cove_of_the_flag" in config
    assert "of_the_environment" not in config and "127.0.0.1:1\"" not in config
    assert cove("mcp", "--url", "http://127.0.0.1:9", "config", "--client", "cursor", env=OTHERS).out.count("127.0.0.1:9") == 1


STATE_WORDS = {"run": ["--", "true"], "doctor": ["--json"], "key create": ["--tenant", "a"], "key list": [], "key revoke": ["key_x"], "mcp stop": [],
               "serve": ["--listen", "256.0.0.1:1"], "mcp": [], "mcp config": ["--client", "cursor"]}


@pytest.mark.parametrize("path", WITH_STATE, ids=" ".join)
def test_the_state_directory_of_the_flag_wins(path, tmp_path):
    flag, variable = tmp_path / "flag", tmp_path / "variable"
    words = STATE_WORDS[" ".join(path)]
    run = cove(*path, "--state-dir", flag, *words, env={"COVE_STATE_DIR": str(variable), **OTHERS})
    assert not variable.exists(), run.err
    if path == ("mcp",):
        assert flag.exists(), "--state-dir asks for a server of our own, whatever COVE_URL says"
        assert cove("mcp", "stop", "--state-dir", flag).status == 0
    assert flag.exists() or str(flag) in run.err + run.out or path == ("serve",), run.err
