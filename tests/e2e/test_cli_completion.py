"""cove completion: the scripts run in real shells, with a real server to ask for ids."""
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import COVE, PATIENCE, cove
from server import at


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


@shells
def test_values_of_options_and_the_word_after_a_sandbox(complete, server, sandbox):
    assert {"python", "javascript", "bash"} <= set(complete("cove run --lang ", server))
    assert "host" in complete("cove create --template ", server)
    kernel = server.post(at(sandbox, "kernels"), {}).json["id"]
    assert complete(f"cove kernel exec {sandbox} ", server) == [kernel]


def test_what_follows_a_colon_is_not_said_twice(server, sandbox):
    assert bash(f"cove cp {sandbox}:", server) == [], "the part before the colon stands already"


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish here")
def test_fish(server, sandbox):
    environment = {**os.environ, "COVE_URL": f"http://127.0.0.1:{server.port}", "PATH": f"{pathlib.Path(COVE).parent}:{os.environ['PATH']}"}

    def fish(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"cove completion fish | source; complete -C '{line}'"], capture_output=True, text=True, env=environment, timeout=PATIENCE)
        assert done.stderr == ""
        return [found.split("\t")[0] for found in done.stdout.splitlines()]

    assert {"create", "kernel", "serve"} <= set(fish("cove "))
    assert "exec" in fish("cove kernel ") and "create" not in fish("cove exec ")
    assert sandbox in fish("cove exec ")
    assert "--memory" in fish("cove create --me") and "python" in fish("cove run --lang ")


def test_other_shells_are_refused():
    assert cove("completion", "tcsh").status == 125
