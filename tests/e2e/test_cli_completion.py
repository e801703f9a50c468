"""cove completion: the scripts run in real shells, with a real server to ask for ids."""
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import COVE, PATIENCE, cove


def bash(line, server):
    script = """
source <("$COVE" completion bash)
COMP_LINE=$LINE COMP_POINT=${#LINE}
_cove
printf '%s\\n' "${COMPREPLY[@]}"
"""
    environment = {**os.environ, "COVE": COVE, "LINE": line, "COVE_URL": f"http://127.0.0.1:{server.port}", "PATH": f"{pathlib.Path(COVE).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert done.stderr == ""
    return done.stdout.split()


def zsh(line, server):
    # The completion system's own functions are stood in for: what they would be given is printed.
    script = """
compdef() { :; }
_describe() { local name=${@[-1]}; print -l -- ${${(P)name}%%:*}; }
compadd() { while [[ $1 == -* && $1 != -- ]]; do [[ $1 == -S ]] && shift; shift; done; shift; print -l -- "$@"; }
_files() { print -- FILES; }
source <("$COVE" completion zsh)
words=("${(@s: :)LINE}") CURRENT=${#words}
_cove
"""
    environment = {**os.environ, "COVE": COVE, "LINE": line, "COVE_URL": f"http://127.0.0.1:{server.port}", "PATH": f"{pathlib.Path(COVE).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert done.stderr == ""
    return done.stdout.split()


shells = pytest.mark.parametrize("complete", [bash, pytest.param(zsh, marks=pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here"))])


@shells
def test_commands_and_options(complete, server):
    assert {"create", "exec", "shell", "run", "serve", "key", "completion"} <= set(complete("cove ", server))
    assert "list" in complete("cove key ", server)
    assert {"--ttl", "--label", "--url", "--json"} <= set(complete("cove create -", server))
    assert "--tenant" in complete("cove key create --", server)


def test_bash_narrows_by_what_was_typed(server):
    assert bash("cove cre", server) == ["create"]
    assert bash("cove create --me", server) == ["--memory"]
    assert set(bash("cove r", server)) >= {"rm", "run", "resume"}


@shells
def test_ids_come_from_the_server(complete, server, sandbox):
    assert sandbox in complete("cove exec ", server)
    assert sandbox in complete("cove exec --workdir /tmp ", server)
    assert sandbox in complete("cove rm other ", server)
    assert sandbox not in complete("cove exec x ", server), "the command comes next"
    assert sandbox not in complete("cove exec --workdir ", server), "a value comes next"
    assert any(word.startswith(sandbox) for word in complete("cove cp ", server))


@shells
def test_a_server_that_is_not_there_is_no_noise(complete):
    class Nobody:
        port = 1
    assert [word for word in complete("cove exec ", Nobody) if word != "FILES"] == []


def test_other_shells_are_refused():
    assert cove("completion", "fish").status == 125
