"""`cove key`: create, list, revoke."""
import concurrent.futures
import json
import os
import re
import sqlite3
import stat
import threading

import pytest

from conftest import PATIENCE, cove, started
from hostile import Tenant, make_key
from server import at, new_id

KEY = re.compile(r"cove_[A-Za-z0-9]{43}")
ID = re.compile(r"key_[a-z2-7]{16}")


@pytest.fixture
def key(workdir):
    """`cove key ARGUMENTS…` with a state directory of the test's own."""
    return lambda *arguments, **options: cove("key", *arguments, "--state-dir", workdir / "state", **options)


def listed(key, *arguments):
    said = key("list", "--json", *arguments)
    assert said.status == 0, said.stderr
    return said.result["keys"]


def test_create_prints_the_key_alone_on_stdout_and_the_words_on_stderr(key):
    made = key("create", "--tenant", "acme")
    assert made.status == 0
    assert KEY.fullmatch(made.stdout.decode().rstrip("\n"))
    said = made.stderr.decode()
    assert "shown only once" in said and "Authorization: Bearer" in said and "cove key revoke key_" in said
    assert not KEY.search(said)


def test_create_as_json_tells_everything_once(key):
    made = key("create", "--tenant", "acme", "--max-sandboxes", "5", "--max-memory", "4G", "--executions-per-minute", "60",
               "--concurrent-executions", "2", "--note", "grüße an CI", "--json")
    assert made.status == 0 and made.stderr == b""
    result = made.result
    assert KEY.fullmatch(result["key"]) and ID.fullmatch(result["id"])
    assert result["tenant"] == "acme" and result["note"] == "grüße an CI"
    assert result["quotas"] == {"maxSandboxes": 5, "maxMemoryBytes": 4 << 30, "executionsPerMinute": 60, "concurrentExecutions": 2}
    assert result["revokedAt"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result["createdAt"])
    rest = {name: value for name, value in result.items() if name != "key"}
    assert listed(key) == [rest]


def test_the_key_itself_is_nowhere_on_disk(key, workdir):
    made = key("create", "--tenant", "acme", "--json").result["key"]
    for path in (workdir / "state" / "front").iterdir():
        assert made.encode() not in path.read_bytes(), path
        assert made[5:].encode() not in path.read_bytes(), path


def test_what_is_made_belongs_to_its_owner_alone(key, workdir):
    assert key("create", "--tenant", "acme").status == 0
    front = workdir / "state" / "front"
    assert stat.S_IMODE(front.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in front.iterdir()] == [0o600]


def test_list_is_of_all_or_of_one_tenant(key):
    for tenant in ("a", "b", "a"):
        assert key("create", "--tenant", tenant).status == 0
    assert [row["tenant"] for row in listed(key)] == ["a", "b", "a"]
    assert [row["tenant"] for row in listed(key, "--tenant", "b")] == ["b"]
    table = key("list").stdout.decode().splitlines()
    assert table[0].split()[:4] == ["ID", "TENANT", "KEY", "STATE"]
    assert len(table) == 4 and all("active" in line for line in table[1:])


def test_an_empty_list_says_how_to_begin(key, workdir):
    said = key("list")
    assert said.status == 0 and said.stdout == b""
    assert b"cove key create --tenant" in said.stderr
    assert listed(key) == []
    assert not (workdir / "state").exists(), "a look changes nothing"


def test_revoke_ends_a_key_and_may_be_repeated(key):
    made = key("create", "--tenant", "acme", "--json").result
    first = key("revoke", made["id"], "--json")
    assert first.status == 0 and first.result["revokedAt"]
    again = key("revoke", made["id"], "--json")
    assert again.status == 0 and again.result == first.result
    assert [row["revokedAt"] for row in listed(key)] == [first.result["revokedAt"]]
    assert b"revoked" in key("list").stdout


@pytest.mark.parametrize("made_before", [False, True])
def test_revoke_of_an_unknown_id_fails_and_says_where_to_look(key, made_before):
    if made_before:
        key("create", "--tenant", "acme")
    said = key("revoke", "key_aaaaaaaaaaaaaaaa", "--json")
    assert said.status == 1
    assert said.result["code"] == "not_found" and "cove key list" in said.result["error"]


@pytest.mark.parametrize("arguments, reason", [
    (["create"], "--tenant"),
    (["create", "--tenant", ""], "--tenant"),
    (["create", "--tenant", "a b"], "--tenant"),
    (["create", "--tenant", "../x"], "--tenant"),
    (["create", "--tenant", "ü"], "--tenant"),
    (["create", "--tenant", "x" * 65], "--tenant"),
    (["create", "--tenant", "a", "--max-memory", "lots"], "--max-memory"),
    (["create", "--tenant", "a", "--max-memory", "0"], "--max-memory"),
    (["create", "--tenant", "a", "--max-sandboxes", "-1"], "--max-sandboxes"),
    (["create", "--tenant", "a", "--executions-per-minute", "1.5"], "--executions-per-minute"),
    (["create", "--tenant", "a", "--concurrent-executions", "99999999999"], "--concurrent-executions"),
    (["create", "--tenant", "a", "--note", "two\nlines"], "--note"),
    (["revoke"], "id"),
    (["revoke", "cove_0123456789012345678901234567890123456789012"], "not the id of one"),
    (["rotate"], "rotate"),
    ([], "create, list or revoke"),
], ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "")
def test_what_makes_no_sense_is_refused_with_2(workdir, arguments, reason):
    said = cove("key", *arguments, env={"COVE_STATE_DIR": str(workdir / "state")})
    assert said.status == 2
    assert said.stdout == b"" and reason in said.stderr.decode()
    assert not (workdir / "state").exists()


def test_a_refusal_is_json_when_json_was_asked_for(workdir):
    said = cove("key", "create", "--json", "--state-dir", workdir)
    assert said.status == 2 and said.result["code"] == "invalid"


def test_the_state_directory_may_come_from_the_environment(workdir):
    assert cove("key", "create", "--tenant", "a", env={"COVE_STATE_DIR": str(workdir / "other")}).status == 0
    assert (workdir / "other" / "front" / "cove.db").exists()


def test_many_at_once_all_succeed(key):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: key("create", "--tenant", "a", "--json"), range(16)))
    assert [run.status for run in made] == [0] * 16, [run.stderr for run in made]
    assert len({run.result["key"] for run in made}) == 16
    assert len(listed(key)) == 16


def test_a_key_that_could_not_be_shown_is_not_valid(key, workdir):
    with open("/dev/full", "wb") as full, started("key", "create", "--tenant", "a", "--state-dir", workdir / "state", stdout=full) as process:
        assert process.wait(PATIENCE) == 1
    assert [row["revokedAt"] is not None for row in listed(key)] == [True]


def test_a_file_that_is_no_database_is_left_alone(key, workdir):
    front = workdir / "state" / "front"
    front.mkdir(parents=True)
    (front / "cove.db").write_bytes(b"x" * 5000)
    (front / "cove.db").chmod(0o600)
    said = key("list")
    assert said.status == 1 and b"is no database" in said.stderr
    assert (front / "cove.db").read_bytes() == b"x" * 5000


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
class TestAsRoot:
    OWNER = 65534

    def test_files_go_to_the_owner_of_the_directory(self, key, workdir):
        front = workdir / "state" / "front"
        front.mkdir(parents=True, mode=0o755)
        front.chmod(0o700)
        workdir.chmod(0o755)
        os.chown(front, self.OWNER, self.OWNER)
        assert key("create", "--tenant", "a").status == 0
        # The server's own connection keeps -wal and -shm in being.
        with sqlite3.connect(front / "cove.db") as server:
            server.execute("select * from keys").fetchall()
            assert key("create", "--tenant", "b").status == 0
        assert {path.stat().st_uid for path in front.iterdir()} == {self.OWNER}
        own = cove("key", "list", "--json", "--state-dir", workdir / "state", user=self.OWNER)
        assert own.status == 0 and len(own.result["keys"]) == 2

    def test_files_go_to_the_owner_even_where_it_cannot_reach_them_by_name(self, key, workdir):
        front = workdir / "state" / "front"
        front.mkdir(parents=True)
        os.chown(front, self.OWNER, self.OWNER)
        workdir.chmod(0o700)
        assert key("create", "--tenant", "a").status == 0
        assert {path.stat().st_uid for path in front.iterdir()} == {self.OWNER}

    def test_a_stranger_is_told_whose_it_is(self, key, workdir):
        assert key("create", "--tenant", "a").status == 0
        workdir.chmod(0o755)
        said = cove("key", "list", "--state-dir", workdir / "state", user=self.OWNER)
        assert said.status == 1
        owner = (workdir / "state" / "front").stat().st_uid
        assert b"Permission denied" in said.stderr and f"belongs to uid {owner}".encode() in said.stderr


def test_many_at_once_beside_a_server_that_writes_all_succeed(fresh_server):
    server = fresh_server()
    writer_of = Tenant(server, make_key(server, "writer")["key"])
    stop, failures = threading.Event(), []

    def write():
        while not stop.is_set():
            answers = [writer_of.put(at(name := new_id()), {}), writer_of.delete(at(name))]
            failures.extend(answer for answer in answers if answer.status not in (200, 204))

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        made = list(pool.map(lambda n: cove("key", "create", "--tenant", f"t{n % 3}", "--state-dir", server.state_dir), range(48)))
        stop.set()
    for writer in writers:
        writer.join()
    assert [one.stderr for one in made if one.status != 0] == [] and failures == []
    assert not [line for line in server.log.splitlines() if "locked" in line or "another program holds" in line]


def test_a_program_that_holds_the_database_for_a_while_is_waited_for(key, workdir):
    assert key("create", "--tenant", "acme").status == 0
    holder = sqlite3.connect(workdir / "state" / "front" / "cove.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    release = threading.Timer(4, lambda: None)
    waiting = concurrent.futures.ThreadPoolExecutor(1).submit(key, "create", "--tenant", "acme")
    release.start()
    release.join()
    holder.execute("COMMIT")
    assert waiting.result().status == 0, waiting.result().stderr
