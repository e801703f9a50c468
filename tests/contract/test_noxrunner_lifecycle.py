"""Create, touch, delete, expiry, readiness and what is inside: sections 2.2, 2.3 and 2.7 to 2.10 of the NoxRunner contract."""
import datetime
import json
import re
import threading
import time

import pytest
from conftest import fair, new_marker, processes_with, wait_until
from server import at, new_id, tar_gz

UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def left(answer):
    """Seconds until an answer's expiresAt."""
    assert UTC.fullmatch(answer.json["expiresAt"]), answer
    at_time = datetime.datetime.strptime(answer.json["expiresAt"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    return at_time.timestamp() - time.time()


@pytest.fixture
def name(server):
    """An id without a sandbox."""
    made = new_id()
    yield made
    server.delete(at(made))


# --- create

def test_create_answers_200_with_pod_name_and_expiry_whether_it_made_one_or_not(server, name):
    first = server.put(at(name), {"ttlSeconds": 300})
    assert (first.status, first.reason) == (200, "OK")
    assert re.fullmatch(r"sbx-[0-9a-f]{10}", first.json["podName"])
    assert 295 < left(first) <= 300
    again = server.put(at(name), {"ttlSeconds": 300})
    assert (again.status, again.json["podName"]) == (200, first.json["podName"])


@pytest.mark.parametrize("body", [b"", b"{}", b'{"ttlSeconds": null}', b" \n "])
def test_without_a_ttl_it_is_900_seconds(server, name, body):
    answer = server.put(at(name), body)
    assert answer.status == 200 and answer.json["ttlSeconds"] == 900 and 895 < left(answer) <= 900


@pytest.mark.parametrize("given, want", [("1", 1), ("900", 900), ("604800", 604800), ("300.0", 300), ("3e2", 300)])
def test_a_whole_ttl_is_taken(server, name, given, want):
    answer = server.put(at(name), b'{"ttlSeconds": %s}' % given.encode())
    assert answer.status == 200 and answer.json["ttlSeconds"] == want


@pytest.mark.parametrize("given", ["0", "-1", "-0.0", "0.5", "1.5", "300.25", "604801", "1e9", "1e400", "99999999999999999999", '"300"', '"abc"', '""', "true", "false", "[]", "[300]", "{}"])
def test_a_ttl_that_makes_no_sense_is_400_and_makes_nothing(server, name, given):
    answer = server.put(at(name), b'{"ttlSeconds": %s}' % given.encode())
    assert (answer.status, answer.code) == (400, "invalid"), answer
    assert server.get(at(name)).status == 404


def test_a_refused_ttl_leaves_a_living_sandbox_as_it_was(server, sandbox):
    before = server.get(at(sandbox)).json
    assert server.put(at(sandbox), {"ttlSeconds": 0}).status == 400
    after = server.get(at(sandbox)).json
    assert (after["podName"], after["ttlSeconds"]) == (before["podName"], before["ttlSeconds"])


def test_a_repeat_keeps_files_and_processes_and_sets_the_ttl_anew(server, name):
    server.create(name, ttlSeconds=300)
    server.out(name, "echo kept >file")
    process = server.start_process(name, "sleep", "600")
    for ttl in (900, 300, 60):
        answer = server.put(at(name), {"ttlSeconds": ttl})
        assert answer.status == 200 and answer.json["ttlSeconds"] == ttl and ttl - 5 < left(answer) <= ttl
    assert server.out(name, "cat file") == "kept\n"
    assert server.process(name, process["id"])["state"] == "running"
    # A touch uses the length that was set last.
    assert 55 < left(server.post(at(name, "touch"))) <= 60


def test_a_repeat_without_a_ttl_sets_the_default(server, name):
    server.create(name, ttlSeconds=60)
    assert server.put(at(name)).json["ttlSeconds"] == 900


def test_a_repeat_with_other_limits_or_image_succeeds_and_keeps_the_first(server, name):
    first = server.put(at(name), {"memoryLimit": "128Mi", "cpuLimit": "500m"}).json
    again = server.put(at(name), {"memoryLimit": "256Mi", "cpuLimit": "1", "image": "python:3.10"})
    assert again.status == 200
    assert again.json["limits"] == first["limits"] and again.json["podName"] == first["podName"]


@pytest.mark.parametrize("field, given, limit, want", [
    ("memoryLimit", "512Mi", "memoryBytes", 512 << 20), ("memoryLimit", "1Gi", "memoryBytes", 1 << 30), ("memoryLimit", "256M", "memoryBytes", 256_000_000),
    ("memoryLimit", "0.5Gi", "memoryBytes", 512 << 20), ("memoryLimit", "134217728", "memoryBytes", 128 << 20), ("memoryLimit", "131072Ki", "memoryBytes", 128 << 20),
    ("memoryLimit", "100000k", "memoryBytes", 100_000_000), ("memoryLimit", "134217728000m", "memoryBytes", 128 << 20), ("memoryLimit", "1G", "memoryBytes", 10**9),
    ("cpuLimit", "1", "cpuMillis", 1000), ("cpuLimit", "500m", "cpuMillis", 500), ("cpuLimit", "0.25", "cpuMillis", 250), ("cpuLimit", "1500m", "cpuMillis", 1500),
    ("ephemeralStorageLimit", "64Mi", "diskBytes", 64 << 20), ("ephemeralStorageLimit", "100M", "diskBytes", 100_000_000),
    ("memoryLimit", "", "memoryBytes", 1 << 30), ("cpuLimit", "", "cpuMillis", 1000),
])
def test_a_quantity_is_read_as_kubernetes_writes_it(server, name, field, given, limit, want):
    answer = server.put(at(name), {field: given})
    assert answer.status == 200 and answer.json["limits"][limit] == want, answer


@pytest.mark.parametrize("field", ["memoryLimit", "cpuLimit", "ephemeralStorageLimit"])
@pytest.mark.parametrize("given", ["lots", "-1", "+1", "1 Gi", "1gi", "1GiB", "1e3", "1.2.3", ".", "Mi", "0x10", "1Ei1", "99999999999Pi", "NaN", "inf", True, [], {}])
def test_a_quantity_that_is_none_is_400_naming_the_field(server, name, field, given):
    answer = server.put(at(name), {field: given})
    assert answer.status == 400 and field in answer.json["error"], answer
    assert server.get(at(name)).status == 404


@pytest.mark.parametrize("field, given", [("memoryLimit", "100Gi"), ("memoryLimit", "1"), ("cpuLimit", "1000"), ("cpuLimit", "0"), ("ephemeralStorageLimit", "100Ti"), ("memoryLimit", "0")])
def test_a_limit_the_server_does_not_give_is_400(server, name, field, given):
    answer = server.put(at(name), {field: given})
    assert answer.status == 400 and field in answer.json["error"]


def test_storage_that_does_not_fit_into_memory_is_given_as_far_as_it_goes_and_said(server, name):
    answer = server.put(at(name), {"ephemeralStorageLimit": "2Gi", "cpuLimit": "1", "memoryLimit": "1Gi"})
    assert answer.status == 200 and answer.json["limits"]["diskBytes"] < 1 << 30
    assert any("storage" in note for note in answer.json["notes"])


def test_the_limits_hold(server, name):
    server.create(name, memoryLimit="64Mi", ephemeralStorageLimit="4Mi")
    result = server.exec(name, "python3", "-c", "x = bytearray(200 << 20)")
    assert result["exitCode"] == 137 and result["reason"] == "oom" and "memory limit" in result["stderr"]
    full = server.sh(name, "for part in 1 2 3; do head -c 2000000 /dev/zero >big$part || exit 1; done")
    assert full["exitCode"] != 0 and "No space left" in full["stderr"]
    assert server.out(name, "rm big*; echo fine") == "fine\n"


@pytest.mark.parametrize("image", ["python:3.10", "sandbox-runner:1.0.0", "no/such/image@sha256:00"])
def test_an_unknown_image_is_accepted_and_said_to_be_unknown(server, name, image):
    answer = server.put(at(name), {"ttlSeconds": 60, "image": image})
    assert answer.status == 200 and answer.json["template"] == "host"
    assert any(image in note for note in answer.json["notes"])
    assert server.exec(name, "python3", "-c", "print(1)")["stdout"] == "1\n"


def test_in_strict_mode_an_unknown_image_is_400_and_a_configured_one_is_not(fresh_server, workdir):
    config = workdir / "cove.toml"
    config.write_text('[sandbox]\nstrict_images = true\n[images]\n"python:3.10" = "host"\n')
    running = fresh_server("--config", config)
    answer = running.put(at("x"), {"image": "python:9"})
    assert answer.status == 400 and "python:9" in answer.json["error"]
    answer = running.put(at("x"), {"image": "python:3.10"})
    assert answer.status == 200 and answer.json["notes"] == []


def test_two_creates_of_one_id_at_once_make_one_sandbox(server, name):
    answers = []

    def create():
        answers.append(server.put(at(name), {"ttlSeconds": 60}))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [answer.status for answer in answers] == [200] * 8
    assert len({answer.json["podName"] for answer in answers}) == 1


# --- touch

def test_touch_re_arms_the_sessions_own_ttl_and_nothing_else(server, name):
    server.create(name, ttlSeconds=30)
    time.sleep(2.1)
    before = left(server.get(at(name)))
    answer = server.raw_request("POST", at(name, "touch"), b"")
    assert answer.status == 200 and answer.json["podName"]
    assert 28.5 < left(answer) <= 30
    assert before < 28.5
    # A body cannot change the length.
    assert server.post(at(name, "touch"), {"ttlSeconds": 600}).json["ttlSeconds"] == 30


def test_reading_a_sandbox_is_not_activity(server, name):
    server.create(name, ttlSeconds=30)
    time.sleep(2.1)
    server.get(at(name))
    server.get("/v1/sandboxes")
    assert left(server.get(at(name))) < 28.5


def test_work_in_a_sandbox_re_arms_its_ttl(server):
    act = {
        "exec": lambda name: server.post(at(name, "exec"), {"cmd": ["true"]}),
        "upload": lambda name: server.upload(name, tar_gz({"a": "b"})),
        "download": lambda name: server.download(name),
        "put": lambda name: server.put(at(name), {"ttlSeconds": 30}),
        "write": lambda name: server.put(at(name, "files?path=a"), b"x"),
        "process": lambda name: server.get(at(name, "processes/p1/events")),
    }
    names = {activity: server.create(ttlSeconds=30) for activity in act}
    server.start_process(names["process"], "true")
    time.sleep(2.1)
    for activity, name in names.items():
        assert act[activity](name).status == 200, activity
        assert left(server.get(at(name))) > 28.5, activity
        server.delete(at(name))


# --- delete

def test_delete_is_204_without_a_body_then_404(server):
    name = server.create()
    answer = server.raw_request("DELETE", at(name))
    assert (answer.status, answer.reason, answer.body) == (204, "No Content", b"")
    assert answer.headers["Content-Length"] in (None, "0") and answer.headers["Transfer-Encoding"] is None
    again = server.raw_request("DELETE", at(name))
    assert again.status == 404 and again.json["error"] == f"sandbox not found: {name}"


def test_when_delete_answers_every_process_is_gone(server):
    name, marker = server.create(), new_marker()
    server.start_process(name, "sh", "-c", f"trap '' TERM INT HUP; exec -a {marker} sleep 600 {marker}")
    server.start_process(name, "python3", "-c", f"import os, time\n'{marker}'\nfor _ in range(5): os.fork()\nos.setsid() if os.getpid() != os.getpgrp() else 0\ntime.sleep(600)")
    assert wait_until(lambda: len(processes_with(marker)) > 20)
    assert server.delete(at(name)).status == 204
    assert processes_with(marker) == []


def test_a_running_exec_of_a_deleted_sandbox_ends_with_137(server):
    name = server.create()
    results = []
    thread = threading.Thread(target=lambda: results.append(server.post(at(name, "exec"), {"cmd": ["sleep", "60"], "timeoutSeconds": 60})))
    thread.start()
    time.sleep(0.5)
    assert server.delete(at(name)).status == 204
    thread.join(10)
    assert results and results[0].status == 200
    assert results[0].json["exitCode"] == 137 and results[0].json["reason"] == "sandbox_gone"


def test_an_id_is_free_at_once_and_the_new_sandbox_is_empty(server):
    name = new_id()
    pods = set()
    for _ in range(10):
        pods.add(server.put(at(name), {"ttlSeconds": 60}).json["podName"])
        assert server.out(name, "ls -A; echo x >left; echo x >/tmp/left") == ""
        assert server.delete(at(name)).status == 204
    assert len(pods) == 10


def test_create_while_delete_is_under_way_gives_a_fresh_sandbox(server):
    name = new_id()
    for _ in range(5):
        server.create(name)
        server.out(name, "echo old >old")
        thread = threading.Thread(target=lambda: server.delete(at(name)))
        thread.start()
        answer = server.put(at(name), {"ttlSeconds": 60})
        thread.join(10)
        assert answer.status == 200
        later = server.post(at(name, "exec"), {"cmd": ["ls", "-A"]})
        assert later.status == 404 or later.json["stdout"] in ("", "old\n")
        server.delete(at(name))


# --- expiry

def test_an_expired_sandbox_is_gone_within_a_second_with_everything_in_it(server):
    name, marker = new_id(), new_marker()
    server.create(name, ttlSeconds=2)
    loop = f": {marker}; while :; do sleep 0.1; done"
    server.sh(name, f"sh -c '{loop}' >/dev/null 2>&1 & setsid sh -c '{loop}' >/dev/null 2>&1 &")  # what a command leaves behind holds nothing
    touched = time.monotonic()
    assert processes_with(marker)
    while time.monotonic() - touched < 1.7:
        time.sleep(0.05)
    assert processes_with(marker)
    assert wait_until(lambda: not processes_with(marker), 5)
    assert time.monotonic() - touched < fair(3.0 + 0.3)
    assert server.get(at(name)).status == 404
    assert server.post(at(name, "exec"), {"cmd": ["true"]}).status == 404
    assert server.post(at(name, "touch")).status == 404
    assert server.delete(at(name)).status == 404


def test_an_expired_id_made_again_is_a_fresh_sandbox(server):
    name = new_id()
    first = server.put(at(name), {"ttlSeconds": 1}).json["podName"]
    server.out(name, "echo old >old")
    time.sleep(2.1)
    assert server.put(at(name), {"ttlSeconds": 60}).json["podName"] != first
    assert server.out(name, "ls -A") == ""
    server.delete(at(name))


def test_a_running_exec_holds_its_sandbox_alive_and_its_end_counts_as_activity(server):
    name = server.create(ttlSeconds=1)
    result = server.sh(name, "sleep 3; echo survived")
    assert result["stdout"] == "survived\n" and result["exitCode"] == 0
    assert server.post(at(name, "touch")).status == 200
    assert wait_until(lambda: server.get(at(name)).status == 404, 4)


def test_touching_in_time_keeps_a_sandbox_alive(server):
    name = server.create(ttlSeconds=1)
    server.out(name, "echo kept >file")
    for _ in range(8):
        time.sleep(0.5)
        assert server.post(at(name, "touch")).status == 200
    assert server.out(name, "cat file") == "kept\n"
    server.delete(at(name))


def test_many_sandboxes_expire_together_and_promptly(server):
    names = [server.create(ttlSeconds=2) for _ in range(15)]
    last = time.monotonic()
    assert wait_until(lambda: not {box["id"] for box in server.get("/v1/sandboxes?limit=1000").json["sandboxes"]} & set(names), 6)
    assert time.monotonic() - last < fair(3.3)


# --- readiness, and what is inside

def test_a_sandbox_is_ready_when_create_answers(server):
    for _ in range(5):
        name = server.create()
        result = server.exec(name, "echo", "ready", workdir="/workspace", timeoutSeconds=5)
        assert result["stdout"].strip() == "ready"
        server.delete(at(name))


def test_an_exec_that_arrives_while_its_sandbox_is_being_made_waits_for_it(server):
    name = new_id()
    created = threading.Thread(target=lambda: server.put(at(name), {"ttlSeconds": 60}))
    created.start()
    statuses = set()
    while created.is_alive():
        answer = server.post(at(name, "exec"), {"cmd": ["echo", "ready"]})
        statuses.add(answer.status)
        assert answer.status in (404, 503) or answer.json["stdout"] == "ready\n"
    created.join()
    server.delete(at(name))


def test_the_workspace_is_the_working_directory_and_writable_and_the_rest_is_as_promised(server, sandbox):
    assert server.out(sandbox, "pwd; touch a && ls; id -u | grep -qv '^0$' && echo not root") == "/workspace\na\nnot root\n"
    assert server.out(sandbox, "pwd; test -d /tmp && echo x >/tmp/x && cat /tmp/x; test -d /workspace && echo EXISTS", workdir="/") == "/\nx\nEXISTS\n"
    assert server.sh(sandbox, "echo x >/usr/bin/evil")["exitCode"] != 0
    assert server.sh(sandbox, "echo x >/etc/evil")["exitCode"] != 0


def test_there_is_no_network(server, sandbox):
    result = server.exec(sandbox, "python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {server.port}), 2)")
    assert result["exitCode"] != 0
    assert server.sh(sandbox, "curl -sS -m 2 http://1.1.1.1/")["exitCode"] != 0


def test_one_sandbox_sees_nothing_of_another(server):
    one, other = server.create(), server.create()
    marker = new_marker()
    server.out(one, f"echo {marker} >/workspace/secret; echo {marker} >/tmp/secret")
    server.start_process(one, "sleep", "600", env={"M": marker})
    assert marker not in server.out(other, "cat /workspace/* /tmp/* /proc/*/environ 2>/dev/null; true")
    for name in (one, other):
        server.delete(at(name))


def test_the_create_answer_is_valid_strict_json(server, name):
    answer = server.put(at(name), {"ttlSeconds": 60, "metadata": {"text": "\x00\x1f\u2028 ü"}})
    assert json.loads(answer.body.decode("utf-8"))["metadata"] == {"text": "\x00\x1f\u2028 ü"}
