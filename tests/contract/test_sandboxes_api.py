"""docs/api.md beyond the NoxRunner contract: sandboxes, exec as a stream, events, and what an operator reads."""
import base64
import json
import pathlib
import re
import threading
import time

import pytest
from conftest import fair, new_marker, processes_with, wait_until
from server import at, joined, new_id

SANDBOX_FIELDS = {"workdir", "id", "podName", "state", "createdAt", "expiresAt", "ttlSeconds", "template", "limits", "isolation", "network", "env", "labels", "metadata", "processes", "notes"}


def at_once(*works):
    """Runs all of them at the same time; their results in order."""
    results = [None] * len(works)

    def run(number):
        results[number] = works[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


# --- one sandbox

def test_a_sandbox_is_described_as_documented(server):
    name = server.create(ttlSeconds=300, memoryLimit="256Mi", cpuLimit="500m", pidsLimit=32, env={"SECRET": "hidden", "B": "2"}, labels={"team": "a"}, metadata={"any": ["json", 1, None]})
    box = server.get(at(name)).json
    assert set(box) == SANDBOX_FIELDS | {"usage", "dependencies"}
    assert (box["id"], box["state"], box["ttlSeconds"], box["template"]) == (name, "running", 300, "host")
    assert box["limits"] == {"memoryBytes": 256 << 20, "diskBytes": box["limits"]["diskBytes"], "inodes": 65536, "pids": 32, "cpuMillis": 500}
    assert set(box["usage"]) == {"memoryBytes", "memoryPeakBytes", "cpuMs", "pids", "oomKills"}
    assert box["usage"]["pids"] >= 1 and 0 < box["usage"]["memoryBytes"] <= box["usage"]["memoryPeakBytes"]
    assert set(box["isolation"]) == {"identity", "cgroup", "landlock", "seccomp", "degraded"} and box["isolation"]["seccomp"] is True
    assert box["network"] == {"mode": "none"} and box["labels"] == {"team": "a"} and box["metadata"] == {"any": ["json", 1, None]}
    assert sorted(box["env"]) == ["B", "SECRET"] and "hidden" not in json.dumps(box)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", box["createdAt"])
    assert box["processes"] == 0 and box["notes"] == []
    server.delete(at(name))


def test_the_environment_of_a_sandbox_is_that_of_its_processes(server):
    name = server.create(env={"A": "it's 'quoted'", "N": 3, "T": True})
    assert server.out(name, 'echo "$A $N $T"') == "it's 'quoted' 3 true\n"
    process = server.start_process(name, "sh", "-c", 'echo "$A"')
    server.ended(name, process["id"])
    assert server.output(name, process["id"]) == "it's 'quoted'\n"
    server.delete(at(name))


def test_usage_counts_what_is_used(server, sandbox):
    server.start_process(sandbox, "python3", "-c", "x = bytearray(50 << 20)\nwhile True: pass", timeoutSeconds=20)
    assert wait_until(lambda: server.get(at(sandbox)).json["usage"]["memoryBytes"] > 50 << 20)
    before = server.get(at(sandbox)).json["usage"]["cpuMs"]
    assert wait_until(lambda: server.get(at(sandbox)).json["usage"]["cpuMs"] > before + 50)
    assert server.get(at(sandbox)).json["processes"] == 1


def test_the_process_limit_is_typed_and_a_full_sandbox_can_still_be_asked_and_deleted(server):
    name = server.create(pidsLimit=10)
    assert server.sh(name, "for i in $(seq 40); do sleep 30 & done")["reason"] == "pids"
    full = server.exec(name, "true")
    assert (full["exitCode"], full["reason"]) == (126, "pids") and "process limit" in full["stderr"]
    answer = server.get(at(name, "files/list"))
    assert (answer.status, answer.code) == (409, "conflict")
    assert server.get(at(name)).json["usage"]["pids"] >= 8
    assert server.delete(at(name)).status == 204


def test_a_workdir_that_cannot_be_made_for_want_of_processes_is_no_mistake_of_the_caller(server):
    """Making it takes a process; with as many as the limit allows, that is what is missing."""
    seen = set()
    for limit in (11, 13, 13, 13, 15):
        name = server.create(pidsLimit=limit)
        for _ in range(5):
            server.start_process(name, "sleep", "60")
        for attempt in range(40):
            answer = server.post(at(name, "exec"), {"cmd": ["true"], "workdir": f"new-{attempt}"})
            assert answer.status == 200, (limit, attempt, answer)
            seen.add(answer.json["reason"])
        server.delete(at(name))
    assert seen == {"exited", "pids"}


def test_what_an_earlier_command_was_refused_is_not_charged_to_a_later_one(server):
    name = server.create(pidsLimit=12)
    coping = "import os, signal, time\nmade = []\ntry:\n  while True:\n    pid = os.fork()\n    if pid == 0: time.sleep(60); os._exit(0)\n    made.append(pid)\nexcept OSError: pass\nfor pid in made: os.kill(pid, 9); os.waitpid(pid, 0)"
    for _ in range(5):
        coped = server.exec(name, "python3", "-c", coping)
        assert (coped["exitCode"], coped["reason"]) == (0, "exited"), coped
        later = server.sh(name, "exit 3")
        assert (later["exitCode"], later["reason"]) == (3, "exited"), later
    # Also when the earlier one was not even started.
    sleepers = [server.start_process(name, "sleep", "60")["id"] for _ in range(5)]
    assert server.exec(name, "true")["reason"] == "pids"
    for process in sleepers:
        assert server.delete(at(name, f"processes/{process}")).status == 204
    later = server.sh(name, "exit 3")
    assert (later["exitCode"], later["reason"]) == (3, "exited"), later


@pytest.mark.parametrize("body", [
    {"labels": []}, {"labels": {"a": 1}}, {"labels": {"": "x"}}, {"labels": {"a=b": "x"}}, {"labels": {"a": "x" * 300}}, {"labels": {str(number): "x" for number in range(65)}},
    {"metadata": []}, {"metadata": "x"}, {"metadata": {"x": "y" * 17000}}, {"env": {"A=": "x"}}, {"env": {"": "x"}}, {"env": {"A": None}}, {"env": []}, {"env": {"A": "x" * 200_000}},
    {"pidsLimit": 0}, {"pidsLimit": 1}, {"pidsLimit": -5}, {"pidsLimit": "many"}, {"pidsLimit": 10**7}, {"image": 3}, {"id": 3},
], ids=lambda body: json.dumps(body)[:40])
def test_a_create_body_that_cannot_be_is_400(server, body):
    answer = server.post("/v1/sandboxes", body)
    assert (answer.status, answer.code) == (400, "invalid"), answer
    assert next(iter(body)) in answer.json["error"]


# --- create with POST

def test_post_creates_with_an_id_of_the_servers_choice(server):
    one, other = server.post("/v1/sandboxes"), server.post("/v1/sandboxes", {"ttlSeconds": 60})
    assert (one.status, other.status) == (201, 201) and one.json["id"] != other.json["id"]
    for answer in (one, other):
        assert set(answer.json) == SANDBOX_FIELDS
        assert server.out(answer.json["id"], "echo here") == "here\n"
        assert server.delete(at(answer.json["id"])).status == 204


def test_post_takes_an_id_that_is_free_and_refuses_one_that_is_not(server):
    name = new_id() + "/ü"
    assert server.post("/v1/sandboxes", {"id": name}).json["id"] == name
    again = server.post("/v1/sandboxes", {"id": name})
    assert (again.status, again.code) == (409, "exists")
    server.delete(at(name))
    for bad in ("", ".", "..", "a\nb", "x" * 256):
        assert server.post("/v1/sandboxes", {"id": bad}).status == 400, bad


def test_a_repeat_under_one_key_gets_the_first_answer(server):
    key, body = new_id("key"), {"ttlSeconds": 60, "labels": {"a": "b"}}
    first = server.post("/v1/sandboxes", body, headers={"Idempotency-Key": key})
    again = server.post("/v1/sandboxes", body, headers={"Idempotency-Key": key})
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json and first.headers["Idempotent-Replayed"] is None and again.headers["Idempotent-Replayed"] == "true"
    other = server.post("/v1/sandboxes", body, headers={"Idempotency-Key": key + "2"})
    assert other.json["id"] != first.json["id"]
    for answer in (first, other):
        server.delete(at(answer.json["id"]))


def test_one_key_with_another_body_is_a_conflict(server):
    key = new_id("key")
    first = server.post("/v1/sandboxes", {"ttlSeconds": 60}, headers={"Idempotency-Key": key})
    other = server.post("/v1/sandboxes", {"ttlSeconds": 61}, headers={"Idempotency-Key": key})
    assert (other.status, other.code) == (409, "conflict")
    server.delete(at(first.json["id"]))


def test_requests_at_once_under_one_key_make_one_sandbox(server):
    key = new_id("key")
    before = len(server.get("/v1/sandboxes?limit=1000").json["sandboxes"])
    answers = at_once(*[lambda: server.post("/v1/sandboxes", {"ttlSeconds": 60}, headers={"Idempotency-Key": key})] * 6)
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json["podName"] for answer in answers}) == 1
    assert len(server.get("/v1/sandboxes?limit=1000").json["sandboxes"]) == before + 1
    server.delete(at(answers[0].json["id"]))


def test_two_bodies_at_once_under_one_key_are_one_sandbox_and_a_conflict(server):
    for _ in range(3):
        key = new_id("key")
        answers = at_once(*[lambda ttl=ttl: server.post("/v1/sandboxes", {"ttlSeconds": ttl}, headers={"Idempotency-Key": key}) for ttl in (60, 61)])
        assert sorted(answer.status for answer in answers) == [201, 409], answers
        server.delete(at(next(answer.json["id"] for answer in answers if answer.status == 201)))


def test_a_key_does_not_take_over_a_sandbox_that_somebody_else_made(server, sandbox):
    before = server.get(at(sandbox)).json
    answer = server.post("/v1/sandboxes", {"id": sandbox, "ttlSeconds": 7}, headers={"Idempotency-Key": new_id("key")})
    assert (answer.status, answer.code) == (409, "exists")
    assert server.get(at(sandbox)).json["ttlSeconds"] == before["ttlSeconds"]


def test_a_key_that_is_too_long_is_400(server):
    assert server.post("/v1/sandboxes", {}, headers={"Idempotency-Key": "x" * 256}).status == 400


# --- lists

@pytest.fixture(scope="module")
def many(server):
    """Twelve sandboxes with labels, and what marks them."""
    mark = new_id("mark")
    names = sorted(server.create(f"{mark}-{number:02}", labels={"mark": mark, "parity": "even" if number % 2 == 0 else "odd", "number": str(number)}) for number in range(12))
    yield mark, names
    for name in names:
        server.delete(at(name))


def test_a_list_is_ordered_by_id_and_walked_by_pages(server, many):
    mark, names = many
    seen, cursor, pages = [], None, 0
    while True:
        page = server.get(f"/v1/sandboxes?limit=5&label=mark={mark}" + (f"&cursor={cursor}" if cursor else "")).json
        seen += [box["id"] for box in page["sandboxes"]]
        pages += 1
        cursor = page["nextCursor"]
        if cursor is None:
            break
        assert len(page["sandboxes"]) == 5
    assert seen == names and pages == 3


def test_a_page_that_ends_with_the_last_sandbox_has_no_next(server, many):
    mark, names = many
    page = server.get(f"/v1/sandboxes?limit=12&label=mark={mark}").json
    assert [box["id"] for box in page["sandboxes"]] == names and page["nextCursor"] is None


def test_walking_survives_deletion_and_creation_in_between(server, many):
    mark, names = many
    extra = server.create(f"{mark}-04x", labels={"mark": mark})
    first = server.get(f"/v1/sandboxes?limit=6&label=mark={mark}").json
    assert first["sandboxes"][-1]["id"] == extra
    server.delete(at(extra))
    rest = server.get(f"/v1/sandboxes?limit=100&label=mark={mark}&cursor={first['nextCursor']}").json
    assert [box["id"] for box in rest["sandboxes"]] == names[5:]


def test_labels_must_all_match(server, many):
    mark, names = many
    assert [box["id"] for box in server.get(f"/v1/sandboxes?label=mark={mark}&label=parity=odd").json["sandboxes"]] == names[1::2]
    assert [box["id"] for box in server.get(f"/v1/sandboxes?label=mark%3D{mark}&label=number%3D7").json["sandboxes"]] == [names[7]]
    assert server.get(f"/v1/sandboxes?label=mark={mark}&label=parity=none").json == {"sandboxes": [], "nextCursor": None}


def test_lists_have_no_usage_and_know_states(server, many):
    mark, names = many
    server.post(at(names[3], "pause"))
    try:
        paused = server.get(f"/v1/sandboxes?state=paused&label=mark={mark}").json["sandboxes"]
        assert [box["id"] for box in paused] == [names[3]] and "usage" not in paused[0]
        assert len(server.get(f"/v1/sandboxes?state=running&label=mark={mark}").json["sandboxes"]) == 11
    finally:
        server.post(at(names[3], "resume"))


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "cursor=!!!", "label=x", "label==x", "state=asleep"])
def test_a_list_that_cannot_be_is_400(server, query):
    assert server.get(f"/v1/sandboxes?{query}").status == 400


# --- pause and resume

def test_a_paused_sandbox_stands_still_and_goes_on(server):
    name = server.create(ttlSeconds=300)
    server.start_process(name, "python3", "-c", "import time\nn = 0\nwhile True:\n  n += 1; open('/workspace/counter', 'w').write(str(n)); time.sleep(0.01)")

    def cpu():
        return server.get(at(name)).json["usage"]["cpuMs"]

    assert wait_until(lambda: server.sh(name, "cat counter")["stdout"] not in ("", "0"))
    paused = server.post(at(name, "pause"))
    assert (paused.status, paused.json["state"]) == (200, "paused")
    assert server.post(at(name, "pause")).status == 200
    before = cpu()
    time.sleep(0.6)
    assert cpu() == before
    for method, rest, body in [("POST", "exec", {"cmd": ["true"]}), ("POST", "processes", {"cmd": ["true"]}), ("GET", "files?path=counter", None), ("GET", "files/download", None)]:
        answer = server.request(method, at(name, rest), body)
        assert (answer.status, answer.code) == (409, "conflict"), (rest, answer)
    assert server.get(at(name)).json["state"] == "paused"
    resumed = server.post(at(name, "resume"))
    assert (resumed.status, resumed.json["state"]) == (200, "running")
    assert server.post(at(name, "resume")).status == 200
    first = int(server.out(name, "sleep 0.1; cat counter") or 0)
    assert wait_until(lambda: int(server.out(name, "sleep 0.05; cat counter") or 0) > first)
    server.delete(at(name))


def test_the_counter_of_a_paused_sandbox_does_not_move(server):
    name = server.create()
    server.start_process(name, "sh", "-c", "while :; do date +%s.%N >>ticks; sleep 0.02; done")
    time.sleep(0.4)
    server.post(at(name, "pause"))
    time.sleep(1.5)
    server.post(at(name, "resume"))
    time.sleep(0.3)
    ticks = [float(line) for line in server.out(name, "cat ticks").split()]
    gaps = sorted(later - sooner for sooner, later in zip(ticks, ticks[1:]))
    assert gaps[-1] > 1.3 and gaps[-2] < 0.5
    server.delete(at(name))


def test_a_paused_sandbox_is_deleted_and_expires_like_any_other(server):
    marker = new_marker()
    one, other = server.create(), server.create(ttlSeconds=1)
    for name in (one, other):
        server.start_process(name, "sh", "-c", f"while :; do sleep 1; done; : {marker}")
        assert server.post(at(name, "pause")).status == 200
    assert server.delete(at(one)).status == 204
    assert wait_until(lambda: not processes_with(marker), 4)
    assert server.get(at(other)).status == 404


def test_an_exec_that_runs_while_its_sandbox_is_paused_goes_on_afterwards(server):
    name = server.create()
    results = []
    thread = threading.Thread(target=lambda: results.append(server.sh(name, "sleep 0.5; echo done", timeoutSeconds=30)))
    thread.start()
    time.sleep(0.2)
    server.post(at(name, "pause"))
    time.sleep(1.5)
    assert results == []
    server.post(at(name, "resume"))
    thread.join(10)
    assert results[0]["stdout"] == "done\n"
    server.delete(at(name))


# --- exec, ours

def test_exec_takes_standard_input_as_text_or_base64(server, sandbox):
    assert server.exec(sandbox, "cat", stdin="grüße\n")["stdout"] == "grüße\n"
    data = bytes(range(256)) * 4000
    result = server.exec(sandbox, "sha256sum", stdinBase64=base64.b64encode(data).decode())
    import hashlib
    assert result["stdout"].split()[0] == hashlib.sha256(data).hexdigest()
    assert server.exec(sandbox, "cat", stdin="")["stdout"] == ""
    assert server.exec(sandbox, "true", stdin="x" * 3_000_000)["exitCode"] == 0


@pytest.mark.parametrize("fields", [{"stdin": "a", "stdinBase64": "YQ=="}, {"stdinBase64": "!!!"}, {"stdin": 3}, {"stdin": ["a"]}])
def test_standard_input_that_cannot_be_is_400(server, sandbox, fields):
    answer = server.post(at(sandbox, "exec"), {"cmd": ["cat"], **fields})
    assert answer.status == 400 and "stdin" in answer.json["error"]


def test_exec_as_a_stream_of_events_comes_as_it_happens(server, sandbox):
    with server.sse(at(sandbox, "exec"), "POST", {"cmd": ["sh", "-c", "echo one; until [ -e heard ]; do sleep 0.02; done; echo two >&2; sleep 1; printf '\\377'; exit 3"]}) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"] == "text/event-stream"
        first = stream.next()
        assert first == {"id": 1, "event": "started", "data": {"seq": 1, "type": "started", "processId": first["data"]["processId"]}}
        second = stream.next()
        assert second["data"] == {"seq": 2, "type": "stdout", "data": "one\n"}
        server.out(sandbox, "touch heard")
        rest = list(stream)
    assert [event["data"]["seq"] for event in rest] == [3, 4, 5]
    assert rest[0]["data"]["type"] == "stderr" and rest[1]["data"]["base64"] == base64.b64encode(b"\xff").decode()
    end = rest[-1]["data"]
    assert (end["type"], end["exitCode"], end["signal"], end["reason"], end["stdoutBytes"], end["stderrBytes"]) == ("end", 3, None, "exited", 5, 4)
    assert end["durationMs"] > 900 and "cpuMs" in end


def test_a_streamed_exec_has_no_output_limit_and_loses_nothing(server, sandbox):
    with server.sse(at(sandbox, "exec"), "POST", {"cmd": ["sh", "-c", "seq 1 400000"]}) as stream:
        events = [event["data"] for event in stream]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert joined(events) == "".join(f"{number}\n" for number in range(1, 400001))
    assert events[-1]["stdoutBytes"] == len(joined(events))


def test_a_streamed_exec_that_times_out_or_cannot_start_says_so_in_its_end(server, sandbox):
    with server.sse(at(sandbox, "exec"), "POST", {"cmd": ["sleep", "60"], "timeoutSeconds": 0.5}) as stream:
        assert [event["data"] for event in stream][-1]["reason"] == "timeout"
    with server.sse(at(sandbox, "exec"), "POST", {"cmd": ["no-such-tool"]}) as stream:
        assert stream.status == 200
        end = [event["data"] for event in stream][-1]
        assert (end["type"], end["exitCode"], end["reason"]) == ("end", 127, "not_started")
    with server.sse(at("no-such", "exec"), "POST", {"cmd": ["true"]}) as stream:
        assert stream.status == 404


def test_a_streamed_exec_whose_client_goes_away_is_cancelled(server, sandbox):
    marker = new_marker()
    with server.sse(at(sandbox, "exec"), "POST", {"cmd": ["sh", "-c", f"while :; do echo x; sleep 0.05; done; : {marker}"], "timeoutSeconds": 600}) as stream:
        stream.next()
        assert wait_until(lambda: processes_with(marker))
    assert wait_until(lambda: not processes_with(marker), 5)


def test_a_slow_reader_slows_the_command_and_nobody_else(server, sandbox):
    with server.sse(at(sandbox, "exec"), "POST", {"cmd": ["sh", "-c", "yes 0123456789 | head -c 30000000"], "timeoutSeconds": 60}) as stream:
        stream.next()
        time.sleep(1)
        began = time.monotonic()
        assert server.exec(sandbox, "echo", "x")["stdout"] == "x\n"
        assert time.monotonic() - began < fair(1)
        events = [event["data"] for event in stream]
    assert sum(len(event["data"]) for event in events if event["type"] == "stdout") == 30_000_000


# --- lifecycle events

def test_what_happens_to_a_sandbox_is_told_in_order(server):
    name = new_id()
    start = server.get("/v1/events?from=1000000000").json["next"]
    last = server.get("/v1/events").json
    while len(last["events"]) == 500:
        last = server.get(f"/v1/events?from={last['next']}").json
    server.create(name)
    server.post(at(name, "pause"))
    server.post(at(name, "resume"))
    server.delete(at(name))
    events = [event for event in server.get(f"/v1/events?from={last['next']}").json["events"] if event["sandbox"] == name]
    assert [event["type"] for event in events] == ["created", "paused", "resumed", "deleted"]
    assert [event["seq"] for event in events] == sorted(event["seq"] for event in events)
    assert events[-1]["why"] == "deleted" and all(event["podName"] and event["at"] for event in events)
    assert start >= 1000000000


def test_expiry_is_an_event(server):
    name = new_id()
    with server.sse("/v1/events") as stream:
        assert stream.status == 200 and stream.comment()
        server.create(name, ttlSeconds=1)
        seen = stream.until(lambda data: data["sandbox"] == name and data["type"] == "deleted")
    mine = [event["data"] for event in seen if event["data"]["sandbox"] == name]
    assert [event["type"] for event in mine] == ["created", "expired", "deleted"] and mine[-1]["why"] == "expired"


def test_a_stream_of_events_resumes_where_it_broke_off(server):
    names = [new_id() for _ in range(6)]
    with server.sse("/v1/events") as stream:
        stream.comment()
        for name in names[:3]:
            server.create(name)
        seen = stream.until(lambda data: data["sandbox"] == names[1] and data["type"] == "created")
    last = seen[-1]["id"]
    for name in names[3:]:
        server.create(name)
    with server.sse("/v1/events", headers={"Last-Event-ID": str(last)}) as stream:
        seen = stream.until(lambda data: data["sandbox"] == names[5])
    assert [event["data"]["sandbox"] for event in seen if event["data"]["type"] == "created" and event["data"]["sandbox"] in names] == names[2:]
    assert all(event["id"] == event["data"]["seq"] and event["event"] == event["data"]["type"] for event in seen)
    with server.sse(f"/v1/events?from={last}") as stream:
        assert stream.next()["id"] == last
    for name in names:
        server.delete(at(name))


def test_events_of_a_number_that_is_none_are_400(server):
    assert server.get("/v1/events?from=x").status == 400


# --- keys and tenants

def test_one_tenant_cannot_tell_whether_anothers_sandbox_exists(fresh_server):
    from conftest import cove
    running = fresh_server()
    keys = {tenant: cove("key", "create", "--tenant", tenant, "--json", "--state-dir", running.state_dir).result["key"] for tenant in ("a", "b")}
    running.stop()
    running.start()

    def ask(tenant, method, path, body=None):
        return running.request(method, path, body, headers={"Authorization": f"Bearer {keys[tenant]}"})

    assert running.get("/v1/sandboxes").status == 401 and running.get("/healthz").status == 200
    assert ask("a", "PUT", at("same"), {}).status == 200
    for method, rest, body in [("GET", "", None), ("DELETE", "", None), ("POST", "touch", b""), ("POST", "exec", {"cmd": ["true"]}), ("GET", "files/list", None)]:
        theirs, none = ask("b", method, at("same", rest), body), ask("b", method, at("none", rest), body)
        assert (theirs.status, theirs.json["error"].replace("same", "none")) == (404, none.json["error"])
    assert ask("b", "GET", "/v1/sandboxes").json["sandboxes"] == []
    assert ask("b", "GET", "/v1/events").json["events"] == []
    assert ask("b", "PUT", at("same"), {}).json["podName"] != ask("a", "GET", at("same")).json["podName"]


# --- the operator's door

def test_version_says_what_runs(server):
    answer = server.get("/version")
    assert answer.status == 200 and answer.json["name"] == "cove" and re.match(r"\d+\.\d+", answer.json["version"])


def test_metrics_are_prometheus_text_and_count(server, sandbox):
    def value(name):
        text = server.get("/metrics").body.decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if re.match(re.escape(name) + r"[{ ]", line))

    answer = server.get("/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    named = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    for line in lines:
        if not line.startswith("#"):
            assert re.fullmatch(r'[a-z_]+(\{([a-z]+="[^"]*",?)*\})? [-+0-9.e]+(Inf|NaN)?', line), line
            assert any(line.startswith(name) for name in named), line
    assert {"cove_sandboxes", "cove_sandboxes_created_total", "cove_executions_running", "cove_http_requests_total", "cove_http_request_seconds", "cove_http_connections"} <= named
    created, living, requests = value("cove_sandboxes_created_total"), value("cove_sandboxes"), value("cove_http_requests_total")
    other = server.create()
    assert (value("cove_sandboxes_created_total"), value("cove_sandboxes")) == (created + 1, living + 1)
    assert value("cove_http_requests_total") > requests
    server.delete(at(other))
    assert value("cove_sandboxes") == living


def test_metrics_do_not_grow_with_what_clients_make_up(server):
    for number in range(30):
        server.request("GET", f"/made/up/{number}")
        server.raw(f"MADEUP{number} / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode())
    text = server.get("/metrics").body.decode()
    assert "madeup" not in text.lower() and "/made/" not in text and len(text) < 50_000


def test_every_answer_has_a_request_id_and_the_log_knows_it(server):
    answer = server.get("/v1/sandboxes/no-such")
    assert answer.headers["X-Request-Id"] == answer.json["requestId"]
    assert wait_until(lambda: answer.json["requestId"] in server.log)


def test_a_foreign_host_or_origin_is_refused(server):
    assert server.get("/v1/sandboxes", headers={"Host": "evil.example"}).status == 403
    assert server.get("/v1/sandboxes", headers={"Origin": "https://evil.example"}).status == 403
    assert server.get("/v1/sandboxes", headers={"Host": f"localhost:{server.port}"}).status == 200


def test_the_front_runs_without_privilege(server):
    [front] = [pid for pid in server.children() if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "cove-front"]
    status = pathlib.Path(f"/proc/{front}/status").read_text()
    assert re.search(r"CapEff:\s*0+$", status, re.M) and re.search(r"CapPrm:\s*0+$", status, re.M) and re.search(r"NoNewPrivs:\s*1", status)
    uids = set(re.search(r"Uid:\s*(.*)", status)[1].split())
    import os
    assert os.geteuid() != 0 or "0" not in uids


def test_a_server_that_everybody_can_reach_without_keys_does_not_start(workdir):
    from conftest import cove
    run = cove("serve", "--listen", "0.0.0.0:0", "--state-dir", workdir / "state")
    assert run.status != 0 and "cove key create" in run.err


def test_two_servers_on_one_state_directory_are_refused(server):
    from conftest import cove
    run = cove("serve", "--listen", "127.0.0.1:0", "--state-dir", server.state_dir)
    assert run.status != 0 and "another" in run.err
    assert server.get("/healthz").status == 200


def test_a_sandbox_may_work_in_app(fresh_server):
    server = fresh_server("--on-exit", "keep")
    name = server.create(workdir="/app")
    assert server.create() and server.get(at(name)).json["workdir"] == "/app"

    def places():
        kernel = server.post(at(name, "kernels"), {}).json["id"]
        cell = server.post(at(name, f"kernels/{kernel}/execute"), {"code": "import os; print(os.getcwd(), end='')"}).json["stdout"]
        return [server.exec(name, "pwd")["stdout"], server.exec(name, "pwd", workdir="sub/dir")["stdout"], server.exec(name, "pwd", workdir="/workspace")["stdout"], cell]
    assert places() == ["/app\n", "/app/sub/dir\n", "/workspace\n", "/app"], "relative directories are made in it, as in /workspace"
    server.restart()
    assert server.get(at(name)).json["workdir"] == "/app" and places()[0] == "/app\n", "after a crash too"
    again = server.put(at(name), {"workdir": "/workspace"})
    assert again.json["workdir"] == "/app" and any("workdir" in note for note in again.json["notes"])
    for wrong in ("/etc", "app", "/app/", "/", 5):
        answer = server.put(at(new_id()), {"workdir": wrong})
        assert answer.status == 400 and "workdir" in answer.json["error"], wrong
    server.delete(at(name))
