"""Without root: what cannot be enforced is refused, or run and named."""
import contextlib
import os
import pathlib
import shutil
import sqlite3
import tempfile

import pytest
from conftest import COVE, cove, leaving_nothing, new_marker, processes_with, wait_until
from names import NameServer
from server import Server, at
from web import Web

NOBODY = 65534


@pytest.fixture(scope="module")
def ordinary():
    """Runs cove as an ordinary user with a home of its own and a binary it can reach."""
    if os.geteuid() != 0:
        pytest.skip("changing to another user needs root")
    with tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        home = pathlib.Path(directory)
        home.chmod(0o755)
        shutil.copy(COVE, home / "cove")
        os.chown(home, NOBODY, NOBODY)
        yield lambda *arguments, **options: cove(*arguments, binary=str(home / "cove"), user=NOBODY, cwd=home, env={"HOME": str(home), "XDG_STATE_HOME": "", "COVE_STATE_DIR": ""}, **options)


@pytest.fixture(scope="module")
def degraded(ordinary):
    run = ordinary("run", "--json", "--allow-degraded", "--", "true")
    if run.result and run.result.get("isolation", {}).get("degraded") == []:
        pytest.skip("this host lets an ordinary user enforce everything")
    return run


def test_what_cannot_be_enforced_is_refused_by_name(ordinary, degraded):
    run = ordinary("run", "--", "echo", "ran")
    assert (run.status, run.stdout) == (125, b"")
    assert "memory" in run.err and "cpus" in run.err and "--allow-degraded" in run.err


def test_with_json_the_refusal_is_an_object(ordinary, degraded):
    run = ordinary("run", "--json", "--", "true")
    assert (run.status, run.result["exit_code"]) == (125, 125)
    assert "memory" in run.result["error"]


def test_allow_degraded_runs_and_names_what_is_not_enforced(ordinary, degraded):
    run = ordinary("run", "--json", "--allow-degraded", "-c", "print(6 * 7)")
    assert (run.status, run.out) == (0, "42\n")
    words = [item.split(":")[0] for item in run.result["isolation"]["degraded"]]
    assert "memory" in words and "cpus" in words
    assert run.result["isolation"]["mode"].startswith("rootless")


def test_a_human_is_told_too_unless_quiet(ordinary, degraded):
    assert "cove: not enforced: memory" in ordinary("run", "--allow-degraded", "--", "true").err
    assert ordinary("run", "--allow-degraded", "--quiet", "--", "true").err == ""


def test_the_other_locks_are_on(ordinary):
    run = ordinary("run", "--allow-degraded", "--quiet", "--", "sh", "-c", "id -u; grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/self/status")
    words = run.out.split()
    assert words[0] == "1000"
    assert dict(zip(words[1:9:2], words[2:9:2])) == {"CapEff:": "0" * 16, "CapBnd:": "0" * 16, "NoNewPrivs:": "1", "Seccomp:": "2"}


@pytest.mark.parametrize("arguments, status, reason", [
    (["--timeout", "300ms", "--", "sleep", "600"], 124, "timeout"),
    (["--disk", "8M", "--", "sh", "-c", "head -c 5M /dev/zero >a && head -c 5M /dev/zero >b"], 1, "disk"),
    (["--", "sh", "-c", "kill -9 $$"], 137, "signalled"),
], ids=["timeout", "disk", "signal"])
def test_the_limits_that_need_no_control_group_hold(ordinary, arguments, status, reason):
    run = ordinary("run", "--json", "--allow-degraded", *arguments)
    assert (run.status, run.reason) == (status, reason)


def test_the_process_limit_holds_by_rlimit(ordinary, degraded):
    code = "import os, time\nn = 0\ntry:\n    while n < 200:\n        if os.fork() == 0: time.sleep(600)\n        n += 1\nexcept OSError: pass\nprint(n)"
    run = ordinary("run", "--json", "--allow-degraded", "--pids", "20", "-c", code)
    assert 5 < int(run.out) < 20


def test_the_memory_limit_holds_for_each_process(ordinary, degraded):
    run = ordinary("run", "--json", "--allow-degraded", "--memory", "200M", "-c", "try: bytearray(400 << 20)\nexcept MemoryError: print('refused')")
    assert run.out == "refused\n"


def test_a_daemon_is_gone_with_the_run(ordinary):
    marker = new_marker()
    run = ordinary("run", "--allow-degraded", "--quiet", "--", "sh", "-c", "setsid sh -c 'sleep 600; :' $0 & echo up", marker)
    assert (run.status, run.out) == (0, "up\n")
    assert processes_with(marker) == []


def test_files_go_in_and_out(ordinary):
    with tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        os.chown(directory, NOBODY, NOBODY)
        given = pathlib.Path(directory) / "in"
        given.write_text("abc")
        run = ordinary("run", "--allow-degraded", "--quiet", "--file", given, "--out", f"out:{directory}/out", "--", "cp", "in", "out")
        assert run.status == 0
        assert (pathlib.Path(directory) / "out").read_text() == "abc"


def test_what_nobody_claims_is_ended_at_the_next_start_without_control_groups(ordinary, degraded):
    with leaving_nothing(), tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        os.chmod(directory, 0o755)
        binary = shutil.copy(COVE, directory)
        with Server("--allow-degraded", "--on-exit", "destroy", user=NOBODY, binary=binary, env={"HOME": directory}) as server:
            name, marker = server.create(), new_marker()
            kept = server.create()
            server.start_process(name, "sh", "-c", f"while :; do sleep 0.1; done; : {marker}")
            assert wait_until(lambda: processes_with(marker))
            server.kill9()
            assert processes_with(marker)
            with contextlib.closing(sqlite3.connect(server.state_dir / "front" / "cove.db")) as opened, opened:
                opened.execute("DELETE FROM sandboxes WHERE name = ?", [name])
            server.restart()
            assert wait_until(lambda: not processes_with(marker), 5)
            assert server.get(at(name)).status == 404 and server.out(kept, "echo alive") == "alive\n"


def test_templates_cannot_be_built_with_one_user_id_for_everything(ordinary, degraded):
    with tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        os.chmod(directory, 0o755)
        binary = shutil.copy(COVE, directory)
        with Server("--allow-degraded", user=NOBODY, binary=binary, env={"HOME": directory}) as server:
            refused = server.post("/v1/templates", {"name": "x", "packages": ["python3"]})
            assert (refused.status, refused.code) == (501, "unsupported") and "/etc/subuid" in refused.json["error"]
            assert [one["name"] for one in server.get("/v1/templates").json["templates"]] == ["host"]


def test_the_way_out_works_without_root_too(ordinary):
    with Web() as web, NameServer(ok_test=["127.0.0.1"]) as names:
        listed = ("run", "--allow-degraded", "--quiet", "--resolver", names.address, "--allow", f"ok.test:{web.port}", "--allow", "127.0.0.1")
        run = ordinary(*listed, "--", "curl", "-sS", f"http://ok.test:{web.port}/")
        assert (run.status, run.out) == (0, "hello"), run.err
        run = ordinary(*listed, "--", "curl", "-sS", "-x", "http://127.0.0.1:3128", f"http://ok.test:{web.port}/")
        assert (run.status, run.out) == (0, "hello"), run.err
        run = ordinary(*listed, "-c", f"import socket; socket.create_connection(('other.test', {web.port}))")
        assert run.status == 1 and "Network is unreachable" in run.err, run.err
        run = ordinary(*listed, "-c", "import socket; socket.create_connection(('203.0.113.7', 443))")
        assert run.status == 1 and "Network is unreachable" in run.err, run.err


def test_a_server_without_root_gives_a_way_out_too(ordinary):
    with Web() as web, NameServer(ok_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names, tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        os.chmod(directory, 0o755)
        binary = shutil.copy(COVE, directory)
        with Server("--allow-degraded", "--resolver", names.address, user=NOBODY, binary=binary, env={"HOME": directory}) as server:
            box = server.create(network={"allow": [f"ok.test:{web.port}", "127.0.0.1"]})
            assert server.out(box, f"curl -sS http://ok.test:{web.port}/") == "hello"
            refused = server.exec(box, "curl", "-sS", f"http://other.test:{web.port}/")
            assert refused["exitCode"] == 7 and "mode allow" in refused["stderr"], refused
            server.put(f"{at(box)}/network", {"mode": "none"})
            assert server.exec(box, "curl", "-sS", f"http://ok.test:{web.port}/")["exitCode"] == 6
