"""cove create, ls, inspect, touch, pause, resume, rm against a real server: for people and, with --json, for programs."""
import json
import os
import pty
import subprocess

from conftest import COVE, PATIENCE, cove
from server import Server, new_id


def test_create_prints_the_id_and_nothing_else(cli, server):
    name = new_id()
    run = cli("create", name, "--ttl", "10m", "--memory", "128M", "--cpus", "0.5", "--pids", "32", "-e", "COLOUR=green", "--label", "job=42")
    assert (run.status, run.out, run.err) == (0, name + "\n", "")
    made = server.get("/v1/sandboxes/" + name).json
    assert made["ttlSeconds"] == 600
    assert made["limits"]["memoryBytes"] == 128 << 20
    assert made["limits"]["cpuMillis"] == 500
    assert made["limits"]["pids"] == 32
    assert made["labels"] == {"job": "42"}
    assert server.out(name, "echo $COLOUR") == "green\n"
    assert cli("rm", name).out == name + "\n"


def test_the_server_chooses_an_id_when_none_is_given(cli):
    run = cli("create")
    assert run.status == 0
    name = run.out.strip()
    assert cli("rm", name).status == 0


def test_create_again_keeps_what_is_there(cli, server, sandbox):
    server.out(sandbox, "echo kept > file")
    assert cli("create", sandbox).status == 0
    assert server.out(sandbox, "cat file") == "kept\n"


def test_create_with_other_limits_says_what_was_not_applied_in_the_words_of_the_flags(cli, sandbox):
    run = cli("create", sandbox, "--memory", "2G", "--pids", "99")
    assert run.status == 0 and run.out == sandbox + "\n"
    assert "--memory 2G (it has" in run.err and "--pids 99 (it has" in run.err and "cove update" in run.err and "Limit" not in run.err


def test_update_changes_the_limits_of_a_sandbox(cli, server, sandbox):
    run = cli("update", sandbox, "--memory", "300M", "--cpus", "0.5", "--pids", "99")
    assert (run.status, run.err) == (0, "") and run.out == f"{sandbox}: memory 300M, disk 150M, 0.5 cpus, 99 pids\n"
    assert server.get("/v1/sandboxes/" + sandbox).json["limits"]["memoryBytes"] == 300 << 20
    assert cli("update", "--json", sandbox, "--ttl", "5m").result["ttlSeconds"] == 300
    assert cli("update", sandbox).status == 1 and "--memory" in cli("update", sandbox).err
    refused = cli("update", sandbox, "--memory", "999G")
    assert refused.status == 1 and refused.err.startswith("cove: --memory is more than this server's limit of 8G"), refused.err


def test_a_shell_line_that_was_taken_for_a_program_gets_a_hint(cli, sandbox):
    run = cli("exec", sandbox, "echo hi | wc")
    assert run.status == 127 and "bash -c" in run.err
    assert "bash -c" not in cli("exec", sandbox, "no-such-program").err


def test_notes_of_the_server_are_told(cli):
    name = new_id()
    run = cli("create", name, "--image", "python:3.10")
    assert run.status == 0 and "python:3.10 is not configured" in run.err
    cli("rm", name)


def test_nonsense_is_refused_before_it_is_sent(cli):
    for arguments, word in [(("--ttl", "soon"), "--ttl"), (("--memory", "much"), "--memory"), (("--cpus", "x"), "--cpus"), (("--pids", "1.5"), "--pids"), (("-e", "X"), "--env"), (("--label", "=y"), "--label")]:
        run = cli("create", *arguments)
        assert run.status != 0 and word in run.err and run.out == "", run.err


def test_ls_is_a_table_that_can_be_narrowed(cli):
    mark = new_id()
    names = sorted(new_id() for _ in range(3))
    for number, name in enumerate(names):
        assert cli("create", name, "--label", f"mark={mark}", "--label", f"n={number}").status == 0
    cli("pause", names[2])
    lines = cli("ls", "--label", f"mark={mark}").out.splitlines()
    assert lines[0].split() == ["ID", "STATE", "AGE", "EXPIRES", "IN", "MEMORY", "CPUS", "PROCS", "LABELS"]
    assert [line.split()[:2] for line in lines[1:]] == [[names[0], "running"], [names[1], "running"], [names[2], "paused"]]
    assert f"mark={mark},n=0" in lines[1] or f"n=0,mark={mark}" in lines[1]
    assert cli("ls", "-q", "--label", f"mark={mark}", "--label", "n=1").out == names[1] + "\n"
    assert cli("ls", "-q", "--label", f"mark={mark}", "--state", "paused").out == names[2] + "\n"
    as_json = cli("ls", "--json", "--label", f"mark={mark}").result
    assert [one["id"] for one in as_json["sandboxes"]] == names and as_json["nextCursor"] is None
    assert cli("rm", *names).out.split() == names


def test_inspect_shows_everything(cli, sandbox):
    shown = cli("inspect", sandbox)
    assert json.loads(shown.out)["id"] == sandbox
    assert '\n  "limits": {\n' in shown.out
    assert cli("inspect", "--json", sandbox).result["usage"]["pids"] >= 1


def test_touch_pause_and_resume(cli, sandbox):
    assert cli("touch", sandbox).out == sandbox + "\n"
    assert cli("pause", "--json", sandbox).result["state"] == "paused"
    run = cli("exec", sandbox, "true")
    assert run.status == 125 and "paused" in run.err
    assert cli("resume", "--json", sandbox).result["state"] == "running"


def test_rm_does_what_it_can_and_says_what_it_could_not(cli):
    name = new_id()
    cli("create", name)
    run = cli("rm", "no-such-sandbox", name)
    assert run.status == 1
    assert run.out == name + "\n"
    assert "no-such-sandbox" in run.err


def test_rm_all_asks_a_person_and_wants_yes_of_a_program(fresh_server):
    url = {"COVE_URL": f"http://127.0.0.1:{fresh_server().port}"}
    for name in ("one", "two"):
        cove("create", name, env=url)
    refused = cove("rm", "--all", env=url)
    assert refused.status == 125 and "--yes" in refused.err

    def answered(word):
        master, slave = pty.openpty()
        os.write(master, word + b"\n")
        done = subprocess.run([COVE, "rm", "--all"], stdin=slave, capture_output=True, env={**os.environ, **url}, timeout=PATIENCE)
        os.close(master)
        os.close(slave)
        assert b"Delete 2 sandboxes and everything in them? [y/N]" in done.stderr
        return done.returncode

    assert answered(b"n") == 1
    assert cove("ls", "-q", env=url).out == "one\ntwo\n"
    assert answered(b"y") == 0
    assert cove("ls", "-q", env=url).out == ""
    assert cove("rm", "--all", env=url).status == 0


def test_ids_of_any_kind_are_taken_as_they_are(cli):
    for name in ("a b", "ü/ö", "x?y#z", "100%"):
        assert cli("create", name).out == name + "\n"
        assert cli("exec", name, "echo", "hi").out == "hi\n"
        assert cli("rm", name).status == 0


def test_a_server_that_is_not_there():
    run = cove("ls", "--url", "http://127.0.0.1:1")
    assert (run.status, run.err) == (1, "cove: cannot reach http://127.0.0.1:1: is `cove serve` running?\n")
    assert cove("exec", "--url", "http://127.0.0.1:1", "x", "true").status == 125
    run = cove("ls", "--json", "--url", "http://127.0.0.1:1")
    assert "is `cove serve` running?" in run.result["error"]
    assert "http://" in cove("ls", "--url", "nonsense").err


def test_a_key_when_the_server_wants_one():
    server = Server()
    made = cove("key", "create", "--json", "--tenant", "me", "--state-dir", server.state_dir)
    assert made.status == 0, made.err
    with server:
        keys_open_the_door(f"http://127.0.0.1:{server.port}", made.result["key"])


def keys_open_the_door(url, key):
    run = cove("ls", "--url", url)
    assert run.status == 1 and run.err == "cove: the server requires a key: give --key or set COVE_API_KEY\n"
    for command, words in ((["ls"], []), (["exec"], ["demo", "true"]), (["kernel", "ls"], ["demo"]), (["mcp"], [])):
        run = cove(*command, "--url", url, "--key", "cove_wrong", *words)
        assert run.status != 0 and run.err == "cove: the server does not accept this key: it is wrong or was revoked (--key, COVE_API_KEY)\n", command
    assert cove("ls", "--url", url, "--key", key).status == 0
    assert cove("ls", "--url", url, env={"COVE_API_KEY": key}).status == 0
    assert cove("ls", "--url", f"{url}/{key}").status == 0, "a key as a prefix of the address"
    assert key not in cove("ls", "--help", env={"COVE_API_KEY": key}).out
    assert cove("ls", "--url", url, "--key", "x\r\nEvil: 1").status == 1
