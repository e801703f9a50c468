"""Limits of a sandbox that lives, and what is said about a request that could not have all it asked for."""
import json

import pytest
from conftest import wait_until
from hostile import Tenant, make_key
from server import Server, at


def patch(server, name, **fields):
    return server.request("PATCH", at(name), fields)


@pytest.fixture
def box(server):
    name = server.create(memoryLimit="256Mi", pidsLimit=64)
    yield name
    server.delete(at(name))


def test_limits_of_a_sandbox_that_lives_are_changed_and_hold(server, box):
    assert server.sh(box, "head -c 200M /dev/zero >big")["exitCode"] != 0, "128M are half of the memory"
    server.out(box, "rm -f big")
    answer = patch(server, box, memoryLimit="512Mi", cpuLimit="500m", pidsLimit=100)
    assert answer.status == 200, answer
    limits = answer.json["limits"]
    assert (limits["memoryBytes"], limits["diskBytes"], limits["cpuMillis"], limits["pids"]) == (512 << 20, 256 << 20, 500, 100)
    assert server.out(box, "head -c 200M /dev/zero >big && stat -c %s big").strip() == str(200 << 20), "disk space follows the memory"
    server.out(box, "rm big")
    made = int(server.sh(box, "for i in $(seq 90); do sleep 20 >/dev/null 2>&1 & done; ls -d /proc/[0-9]* | wc -l")["stdout"])
    assert 64 < made <= 100, "more processes than at first"


SLACK = 64 << 10  # a file that grows meets the full disk before this limit
HARD = "import resource, json; print(json.dumps([resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_NPROC)]))"
RAISE = "import resource\nfor pid in (0, 1):\n    try: resource.prlimit(pid, resource.RLIMIT_NPROC, (4000, 4000)); print('raised')\n    except (OSError, ValueError): print('refused')"


@pytest.mark.parametrize("start", ["exec", "kernel"])
def test_no_program_has_room_above_its_limits(server, box, start):
    """Init's own hard limits leave room for a change; what it starts, and what is born beside it, has none."""
    def run(code):
        if start == "exec":
            return server.out(box, f"python3 - <<'E'\n{code}\nE")
        kernel = server.post(at(box, "kernels"), {}).json["id"]
        return server.post(at(box, f"kernels/{kernel}/execute"), {"code": code}).json["stdout"]

    assert json.loads(run(HARD)) == [[(128 << 20) + SLACK] * 2, [80, 80]]
    assert run(RAISE) == "refused\nrefused\n"
    assert patch(server, box, memoryLimit="512Mi", pidsLimit=100).status == 200
    assert json.loads(run(HARD)) == [[(256 << 20) + SLACK] * 2, [116, 116]]
    assert run(RAISE) == "refused\nrefused\n"


def test_what_was_changed_outlives_the_server(tmp_path):
    with Server("--drain", "1s", "--on-exit", "keep") as server:
        name = server.create(memoryLimit="128Mi")
        assert patch(server, name, memoryLimit="300Mi", pidsLimit=77).status == 200
        before = server.get(at(name)).json["limits"]
        server.restart()
        assert server.get(at(name)).json["limits"] == before and before["memoryBytes"] == 300 << 20 and before["pids"] == 77
        assert patch(server, name, memoryLimit="400Mi").status == 200, "also by the keeper that came after"


def test_less_than_is_in_use_is_refused_with_the_numbers(server, box):
    server.out(box, "head -c 100M /dev/zero >file")
    answer = patch(server, box, ephemeralStorageLimit="50Mi")
    assert (answer.status, answer.code) == (409, "conflict") and "disk" in answer.json["error"] and "50M" in answer.json["error"]
    answer = patch(server, box, memoryLimit="64Mi")
    assert (answer.status, answer.code) == (409, "conflict") and "memory" in answer.json["error"] and "64M" in answer.json["error"]
    server.out(box, "for i in $(seq 30); do sleep 20 & done")
    answer = patch(server, box, pidsLimit=8)
    assert (answer.status, answer.code) == (409, "conflict") and "processes" in answer.json["error"]
    limits = server.get(at(box)).json["limits"]
    assert (limits["memoryBytes"], limits["diskBytes"], limits["pids"]) == (256 << 20, 128 << 20, 64), "nothing was changed"


def test_a_change_has_its_event_and_an_empty_one_is_refused(server, box):
    assert patch(server, box, cpuLimit="1").status == 200
    events = [event for event in server.get("/v1/events?from=1").json["events"] if event["sandbox"] == box]
    assert events[-1]["type"] == "updated"
    assert patch(server, box).status == 400 and "memoryLimit" in patch(server, box).json["error"]
    assert patch(server, "no-such-box", pidsLimit=20).status == 404
    assert "8G" in patch(server, box, memoryLimit="1Ti").json["error"]


def test_a_change_counts_against_the_quota_of_memory():
    server = Server("--drain", "1s")
    key = make_key(server, "bound", "--max-memory", "600M")
    with server:
        tenant = Tenant(server, key["key"])
        assert tenant.put(at("a"), {"memoryLimit": "256Mi"}).status == 200
        assert tenant.put(at("b"), {"memoryLimit": "256Mi"}).status == 200
        answer = tenant.request("PATCH", at("a"), {"memoryLimit": "512Mi"})
        assert (answer.status, answer.code) == (429, "quota")
        assert tenant.request("PATCH", at("a"), {"memoryLimit": "300Mi"}).status == 200


def test_put_on_a_sandbox_that_exists_says_what_was_not_applied(server, box):
    again = server.put(at(box), {"memoryLimit": "2Gi", "pidsLimit": 128, "env": {"A": "1"}}).json
    notes = " ".join(again["notes"])
    assert "memoryLimit 2G (it has 256M)" in notes and "pidsLimit 128 (it has 64)" in notes and "PATCH" in notes and "env" in notes
    assert server.put(at(box), {"memoryLimit": "256Mi"}).json["notes"] == [], "it has that already"
    assert server.get(at(box)).json["notes"] == []


def test_unknown_fields_are_named_with_what_was_meant(server):
    made = server.put(at("noted"), {"memory": "2Gi", "ttl": 60, "cpu": 2, "colour": "blue", "memoryLimt": "1Gi"}).json
    notes = " ".join(made["notes"])
    for words in ("memory is not known and was ignored; did you mean memoryLimit?", "ttl is not known and was ignored; did you mean ttlSeconds?", "did you mean cpuLimit?", "field colour is not known"):
        assert words in notes
    answer = server.post(at("noted", "exec"), {"cmd": ["true"], "timeout": 1})
    assert answer.status == 200 and answer.headers["Cove-Notes"] == "field timeout is not known and was ignored; did you mean timeoutSeconds?"
    assert server.post(at("noted", "exec"), {"cmd": ["true"], "timeoutSeconds": 1}).headers["Cove-Notes"] is None
    hostile = server.post(at("noted", "exec"), {"cmd": ["true"], "x\r\nEvil: 1": 1})
    assert hostile.status == 200 and hostile.headers["Evil"] is None and "\\x0d\\x0a" in hostile.headers["Cove-Notes"]
    server.delete(at("noted"))


@pytest.mark.parametrize("text, meant", [("2GB", "2G is meant, or 2Gi"), ("512mb", "512M is meant, or 512Mi"), ("2gb", "2G is meant")])
def test_a_size_as_people_write_it_is_refused_with_the_one_that_is_meant(server, text, meant):
    answer = server.put(at("sized"), {"memoryLimit": text})
    assert answer.status == 400 and meant in answer.json["error"]


def test_the_defaults_are_the_documented_ones(server):
    made = server.put(at("plain"), {}).json["limits"]
    assert (made["memoryBytes"], made["diskBytes"], made["pids"]) == (1 << 30, 512 << 20, 256)
    server.delete(at("plain"))


def test_a_server_starts_with_little_memory_for_sandboxes_and_nothing_else_set():
    with Server("--drain", "1s", "--sandbox-memory", "128M") as server:
        limits = server.put(at("small"), {}).json["limits"]
        assert (limits["memoryBytes"], limits["diskBytes"]) == (128 << 20, 64 << 20)
        assert wait_until(lambda: server.exec("small", "true")["exitCode"] == 0)
