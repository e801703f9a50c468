"""Everything that a tenant can make the server hold has a bound, and one tenant's crowd costs the others nothing (docs/limits.md)."""
import contextlib
import os
import socket
import threading
import time

import pytest
from conftest import COVE, wait_until
from hostile import Tenant, cpu_seconds, front, head, make_key, memory_kib, metric, server_with_tenants
from interpreter import ask, form, keep, run, send_file, stream
from receiver import Stand
from server import Server, at, new_id

# --- callbacks


class Silent:
    """A receiver that accepts connections and never answers."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.place = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.held = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.held.append(self.listener.accept()[0])

    def close(self):
        self.listener.close()
        for connection in self.held:
            connection.close()


@contextlib.contextmanager
def tenants_with_receivers(*flags):
    """A server with the tenants alice and bob, a receiver that hangs, and one that answers."""
    silent = Silent()
    with Stand(lambda request: request.reply(200)) as answering:
        server, tenants = server_with_tenants("alice", "bob", flags=(f"--callbacks-allow={silent.place},{answering.place}", *flags))
        try:
            yield server, tenants["alice"], tenants["bob"], silent, answering
        finally:
            server.close()
            silent.close()


def submit(tenant, box, url, code="true"):
    return tenant.post(at(box, "executions"), {"language": "bash", "code": code, "callback": {"url": url}})


def ended(tenant, box, eid):
    answer = tenant.get(at(box, f"executions/{eid}?wait=60"), timeout=90)
    return answer.status == 404 or answer.json["endedAt"]


def hang(tenant, box, silent, count, size):
    """So many callbacks of this size that nobody takes, all of them pending."""
    for begun in range(0, count, 20):
        ids = []
        for _ in range(begun, min(begun + 20, count)):
            answer = submit(tenant, box, f"http://{silent.place}/", f"head -c {size} /dev/zero | tr '\\0' x")
            assert answer.status == 201, answer
            ids.append(answer.json["id"])
        assert all(ended(tenant, box, eid) for eid in ids)


def quickest(server, seconds=2.0):
    """The median time of /healthz within so many seconds."""
    times, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        assert server.get("/healthz").status == 200
        times.append(time.monotonic() - began)
        time.sleep(0.02)
    return sorted(times)[len(times) // 2]


def test_callbacks_that_hang_cost_neither_the_front_its_processor_nor_others_their_callbacks():
    with tenants_with_receivers("--exec-history=5", "--callbacks-timeout=60s", "--callbacks-tenant-pending-size=1G") as (server, alice, bob, silent, answering):
        boxes = alice.create(), bob.create()
        pid, before = front(server), memory_kib(front(server))
        idle = cpu_seconds(pid)
        time.sleep(3)
        idle = cpu_seconds(pid) - idle
        hang(alice, boxes[0], silent, 300, 300_000)
        assert metric(alice, "cove_callbacks_pending") == 300
        # Nothing is asked of the server now: what it spends, it spends on callbacks that hang.
        spent = cpu_seconds(pid)
        time.sleep(3)
        spent = cpu_seconds(pid) - spent
        assert spent <= idle + 0.3, f"{spent} s of 3 s, {idle} s when idle"
        assert metric(alice, "cove_callback_bodies_read_total") == metric(alice, "cove_callback_attempts_total") == 4
        assert memory_kib(pid) - before < 200 << 10, "pending bodies lie in the store, not in memory"
        assert quickest(server) < 0.1
        began = time.monotonic()
        assert submit(bob, boxes[1], answering.url("/bob")).status == 201
        answering.wait_for(1, 10)
        assert time.monotonic() - began < 5


def test_pending_callbacks_of_a_tenant_are_bounded_and_retry_after_is_true():
    flags = "--callbacks-tenant-pending=5", "--callbacks-timeout=2s", "--callbacks-attempts=1"
    with tenants_with_receivers(*flags) as (server, alice, bob, silent, answering):
        box, other = alice.create(), bob.create()
        hang(alice, box, silent, 5, 10)
        refused = submit(alice, box, f"http://{silent.place}/")
        assert (refused.status, refused.code) == (429, "quota") and "callbacks.tenant_pending" in refused.json["error"], refused
        assert alice.post(at(box, "executions"), {"language": "bash", "code": "true"}).status == 201, "one that asks for no callback"
        assert submit(bob, other, answering.url()).status == 201, "another tenant"
        after = int(refused.headers["Retry-After"])
        assert 1 <= after <= 2
        time.sleep(after)
        assert wait_until(lambda: submit(alice, box, answering.url("/alice")).status == 201, 0.5), "as it was told"
        assert wait_until(lambda: metric(alice, "cove_callbacks_pending") == 0, 20), "given back"
        assert metric(alice, "cove_callbacks_refused_total") >= 1 and metric(alice, "cove_callbacks_pending_bytes") == 0


def test_pending_callbacks_of_all_tenants_are_bounded():
    with tenants_with_receivers("--callbacks-max-pending=3") as (server, alice, bob, silent, answering):
        box, other = alice.create(), bob.create()
        hang(alice, box, silent, 3, 10)
        refused = submit(bob, other, answering.url())
        assert (refused.status, refused.code) == (503, "unavailable") and "callbacks.max_pending" in refused.json["error"], refused
        assert int(refused.headers["Retry-After"]) > 2


def test_bytes_of_pending_callbacks_are_bounded():
    with tenants_with_receivers("--callbacks-tenant-pending-size=100K") as (server, alice, bob, silent, answering):
        box = alice.create()
        hang(alice, box, silent, 3, 60_000)
        assert metric(alice, "cove_callbacks_pending_bytes") < 100 << 10 and metric(alice, "cove_callbacks_shortened_total") == 2
        hang(alice, box, silent, 9, 3500)
        assert wait_until(lambda: submit(alice, box, f"http://{silent.place}/", "head -c 3500 /dev/zero | tr '\\0' x").status == 429, 20)
        assert metric(alice, "cove_callbacks_pending_bytes") < 112 << 10


def test_pending_callbacks_are_counted_again_after_a_restart():
    with tenants_with_receivers("--callbacks-tenant-pending=3") as (server, alice, bob, silent, answering):
        box = alice.create()
        hang(alice, box, silent, 3, 1000)
        pending = metric(alice, "cove_callbacks_pending_bytes")
        server.restart()
        assert metric(alice, "cove_callbacks_pending_bytes") == pending > 3000
        assert submit(alice, box, answering.url()).status == 429


# --- kept files

MIB = 1 << 20


@contextlib.contextmanager
def two_tenants(*flags):
    server, tenants = server_with_tenants("alice", "bob", flags=flags)
    try:
        yield server, tenants["alice"], tenants["bob"]
    finally:
        server.close()


def full(answer, setting):
    """507 that names the setting and says when to come back, in seconds."""
    assert answer.status == 507 and setting in answer.json["detail"], answer
    return int(answer.headers["Retry-After"])


def on_disk(server):
    return len(os.listdir(server.state_dir / "front" / "files"))


def test_bytes_of_kept_files_are_bounded_for_a_tenant_and_given_back():
    with two_tenants("--files-tenant-size=3M") as (server, alice, bob):
        first = keep(alice, bytes(MIB))
        keep(alice, bytes(MIB))
        assert full(send_file(alice, bytes(MIB)), "files.tenant_size") > 60
        assert wait_until(lambda: on_disk(server) == 2, 5), "nothing is left of it"
        assert send_file(alice, bytes(1000)).status == 201, "what fits is taken"
        keep(bob, bytes(2 * MIB))
        assert metric(alice, "cove_files_refused_total") == 1 and metric(alice, "cove_files_kept") == 4
        assert alice.delete(f"/v1/files/{first}").status == 204
        assert send_file(alice, bytes(MIB)).status == 201


def test_the_number_of_kept_files_is_bounded_for_a_tenant_and_retry_after_is_true():
    with two_tenants("--files-tenant-count=3", "--files-ttl=3s") as (server, alice, bob):
        for _ in range(3):
            keep(alice, "x")
        after = full(send_file(alice, "x"), "files.tenant_count")
        assert 1 <= after <= 3 and send_file(bob, "x").status == 201
        time.sleep(after)
        assert send_file(alice, "x").status == 201, "as it was told"


def test_kept_files_of_all_tenants_are_bounded():
    with two_tenants("--files-max-total-count=3", "--files-max-total-size=2M") as (server, alice, bob):
        keep(alice, bytes(MIB))
        full(send_file(bob, bytes(MIB)), "files.max_total_size")
        keep(alice, "x"), keep(alice, "x")
        full(send_file(bob, "x"), "files.max_total_count")


def test_what_is_being_uploaded_counts_as_well():
    with two_tenants("--files-tenant-size=3M") as (server, alice, bob):
        body = form(('name="file"; filename="half"', bytes(2 * MIB)))
        lines = "Authorization: " + alice.headers["Authorization"], "Content-Type: multipart/form-data; boundary=boundary-1", f"Content-Length: {len(body)}"
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            half.sendall(head(server, "POST", "/v1/files", *lines) + body[:-100])
            assert wait_until(lambda: metric(alice, "cove_files_kept_bytes") > MIB, 10)
            full(send_file(alice, bytes(2 * MIB)), "files.tenant_size")
        assert wait_until(lambda: metric(alice, "cove_files_kept_bytes") == 0, 10), "an upload that was broken off gives it back"
        assert send_file(alice, bytes(2 * MIB)).status == 201


def test_files_leave_the_database_a_reserve_of_the_disk():
    with two_tenants("--files-reserve=16T") as (server, alice, bob):
        answer = send_file(alice, "x")
        assert answer.status == 507 and "files.reserve" in answer.json["detail"], answer
        assert alice.put(at("box"), {}).status == 200, "the database has room"


def test_a_run_that_makes_thirty_thousand_files_keeps_five_thousand_and_says_so():
    with two_tenants("--execute-memory=1G", "--files-tenant-count=20000") as (server, alice, bob):
        times, over = [], threading.Event()

        def watch():
            while not over.is_set():
                began = time.monotonic()
                assert server.get("/healthz").status == 200
                times.append(time.monotonic() - began)
                time.sleep(0.005)

        watcher = threading.Thread(target=watch)
        watcher.start()
        code = "for n in range(30_000): open(str(n), 'w').close()"
        result = run(alice, code)
        over.set()
        watcher.join()
        assert (len(result["files"]), result["files_omitted"], result["exit_code"]) == (5000, 25_000, 0)
        assert on_disk(server) == 5000 and metric(alice, "cove_files_omitted_total") == 25_000
        assert sorted(times)[int(len(times) * 0.95)] < 0.2, sorted(times)[-5:]
        assert stream(alice, code)[-1][1]["files_omitted"] == 25_000
        assert "files_omitted" not in run(alice, "open('one', 'w').close()"), "where nothing is missing, the answer is as it was"


def test_outputs_of_a_run_that_do_not_fit_are_refused_and_none_is_left():
    with two_tenants("--files-tenant-count=50") as (server, alice, bob):
        keep(alice, "x")
        full(ask(alice, "for n in range(60): open(str(n), 'w').close()", timeout_ms=20_000), "files.tenant_count")
        assert on_disk(server) == 1 and metric(alice, "cove_files_kept") == 1
        [(name, data)] = stream(alice, "for n in range(60): open(str(n), 'w').close()")
        assert name == "error" and "files.tenant_count" in data["message"]


def test_kept_files_are_counted_again_after_a_restart():
    with two_tenants("--files-tenant-size=3M") as (server, alice, bob):
        keep(alice, bytes(2 * MIB))
        server.restart()
        assert metric(alice, "cove_files_kept_bytes") > 2 * MIB
        full(send_file(alice, bytes(MIB)), "files.tenant_size")


# --- answers under an Idempotency-Key, lifecycle events


def create_and_delete(tenant, count, **fields):
    for _ in range(count):
        made = tenant.post("/v1/sandboxes", fields, headers={"Idempotency-Key": new_id("key")})
        assert made.status == 201, made
        assert tenant.delete(at(made.json["id"])).status == 204


def test_answers_under_an_idempotency_key_are_bounded_and_the_oldest_go_first():
    metadata = {"padding": "x" * 15_000}
    with two_tenants("--idempotency-tenant-size=100K", "--idempotency-tenant-count=1000") as (server, alice, bob):
        first = bob.post("/v1/sandboxes", {}, headers={"Idempotency-Key": "bob"})
        create_and_delete(alice, 30, metadata=metadata)
        assert metric(alice, "cove_idempotency_bytes") <= 102 << 10 and metric(alice, "cove_idempotency_evicted_total") >= 20
        assert bob.post("/v1/sandboxes", {}, headers={"Idempotency-Key": "bob"}).json == first.json, "nobody else's"
        body = {"metadata": metadata}
        made = alice.post("/v1/sandboxes", body, headers={"Idempotency-Key": "again"})
        create_and_delete(alice, 2, metadata=metadata)
        again = alice.post("/v1/sandboxes", body, headers={"Idempotency-Key": "again"})
        assert (again.status, again.json, again.headers["Idempotent-Replayed"]) == (201, made.json, "true"), "within the bound it is the same answer"
        server.restart()
        assert 0 < metric(alice, "cove_idempotency_bytes") <= 102 << 10
        assert alice.post("/v1/sandboxes", body, headers={"Idempotency-Key": "again"}).json == made.json


def test_one_tenants_churn_costs_another_none_of_its_events_and_a_gap_is_told():
    with two_tenants("--events-tenant-count=10") as (server, alice, bob):
        box = bob.create()
        mine = bob.get("/v1/events?from=1").json
        assert [one["type"] for one in mine["events"]] == ["created"] and mine["firstSeq"] == 1 and "gap" not in mine
        create_and_delete(alice, 20)
        assert bob.get("/v1/events?from=1").json == mine, "nothing of it is gone, and nothing is said to be"
        theirs = alice.get("/v1/events?from=1").json
        assert len(theirs["events"]) == 10 and theirs["firstSeq"] == theirs["events"][0]["seq"]
        assert theirs["gap"] == {"type": "gap", "from": 1, "to": theirs["firstSeq"] - 1}
        whole = alice.get(f"/v1/events?from={theirs['firstSeq']}").json
        assert whole["events"] == theirs["events"] and "gap" not in whole
        with alice.sse("/v1/events?from=1") as events:
            first, second = events.next(), events.next()
        assert (first["event"], first["id"], first["data"]) == ("gap", None, theirs["gap"]) and second["id"] == theirs["firstSeq"]
        with bob.sse("/v1/events?from=1") as events:
            assert events.next()["event"] == "created"
            assert bob.delete(at(box)).status == 204
            assert events.next()["event"] == "deleted", "and it goes on"
        assert metric(alice, "cove_events_kept") == 12 and metric(alice, "cove_events_evicted_total") == 30
        server.restart()
        assert alice.get("/v1/events?from=1").json["gap"] == theirs["gap"] and "gap" not in bob.get("/v1/events?from=1").json


def test_events_of_all_are_bounded_and_the_largest_holder_loses_first():
    with two_tenants("--events-max-count=10") as (server, alice, bob):
        create_and_delete(alice, 10)
        create_and_delete(bob, 2)
        assert [len(tenant.get("/v1/events?from=1").json["events"]) for tenant in (alice, bob)] == [6, 4]
        assert "gap" not in bob.get("/v1/events?from=1").json


def test_who_follows_events_as_they_come_misses_none():
    with two_tenants("--events-tenant-count=5") as (server, alice, bob):
        with alice.sse("/v1/events") as events:
            assert events.comment()
            create_and_delete(alice, 10)
            seen = [events.next()["event"] for _ in range(20)]
        assert seen == ["created", "deleted"] * 10


# --- names


class SilentNames:
    """A name server that answers for good.test alone, with 203.0.113.7, and leaves every other question open."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.53.53.53", 53))
        self.asked = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                question, peer = self.socket.recvfrom(1024)
                labels, at_byte = [], 12
                while size := question[at_byte]:
                    labels.append(question[at_byte + 1:at_byte + 1 + size].decode())
                    at_byte += 1 + size
                self.asked.append(".".join(labels))
                if self.asked[-1] != "good.test":
                    continue
                wants_v4 = question[at_byte + 1:at_byte + 3] == b"\0\1"
                answer = question[:2] + b"\x81\x80\0\1" + (b"\0\1" if wants_v4 else b"\0\0") + b"\0\0\0\0" + question[12:at_byte + 5]
                answer += b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\xcb\0\x71\x07" if wants_v4 else b""
                self.socket.sendto(answer, peer)

    def close(self):
        self.socket.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="a name server, and another resolv.conf, need root")
def test_names_that_nobody_answers_for_hold_up_their_own_tenant_alone(workdir):
    names = SilentNames()
    (workdir / "resolv.conf").write_text("nameserver 127.53.53.53\n")
    starter = workdir / "cove"
    inside = f'mount --bind {workdir}/resolv.conf /etc/resolv.conf && exec {COVE} "$@"'
    starter.write_text(f"#!/bin/sh\nexec unshare -m sh -c '{inside}' cove \"$@\"\n")
    starter.chmod(0o755)
    workdir.chmod(0o755)
    (workdir / "resolv.conf").chmod(0o644)
    try:
        server = Server("--drain", "1s", "--callbacks-attempts=1", "--callbacks-timeout=30s", "--callbacks-tenant-concurrent=30", "--outbound-lookup-timeout=3s")
        keys = {name: make_key(server, name)["key"] for name in ("alice", "bob")}
        server.binary = starter
        with server:
            alice, bob = (Tenant(server, keys[name]) for name in ("alice", "bob"))
            boxes = alice.create(), bob.create()
            ids = [submit(alice, boxes[0], f"http://n{n}.hang.test/").json["id"] for n in range(20)]
            assert wait_until(lambda: metric(alice, "cove_lookups_running") == 2 and metric(alice, "cove_lookups_waiting") > 5, 20)
            began = time.monotonic()
            mine = submit(bob, boxes[1], "http://good.test/").json["id"]
            told = wait_until(lambda: bob.get(at(boxes[1], f"executions/{mine}")).json["callback"].get("lastError"), 10)
            assert "good.test has no public address" in told and time.monotonic() - began < 3, "looked up, and refused for its address"
            told = wait_until(lambda: alice.get(at(boxes[0], f"executions/{ids[0]}")).json["callback"].get("lastError"), 20)
            assert "not looked up in time" in told or "no address" in told
            assert wait_until(lambda: metric(alice, "cove_lookups_running") == 0, 30), "a look-up ends by itself"
            assert metric(alice, "cove_lookups_timed_out_total") > 0
    finally:
        names.close()


# --- executions in kernels, and installs

def test_executions_in_kernels_are_kept_within_the_share_of_their_tenant():
    server, tenants = server_with_tenants("alice", "bob", flags=("--exec-tenant-recent-size", "3M", "--exec-max-recent-size", "4M"))
    try:
        alice, bob = tenants["alice"], tenants["bob"]

        def kernel(tenant):
            box = tenant.create()
            return at(box, f"kernels/{tenant.post(at(box, 'kernels'), {}).json['id']}")

        def execute(tenant, where):
            answer = tenant.post(f"{where}/execute?detach=true", {"code": "print('x' * 700000)"})
            assert answer.status == 202, answer
            eid = answer.json["executionId"]
            assert wait_until(lambda: tenant.get(f"{where}/executions/{eid}").json["state"] not in ("queued", "running"), 20)
            return eid

        def kept(tenant, where, ids):
            return [eid for eid in ids if tenant.get(f"{where}/executions/{eid}").status == 200]

        first, second, others = kernel(alice), kernel(alice), kernel(bob)
        theirs = [execute(bob, others) for _ in range(2)]
        mine = [execute(alice, first) for _ in range(3)]
        more = [execute(alice, second) for _ in range(4)]
        held = len(kept(alice, first, mine)) + len(kept(alice, second, more))
        assert 1 <= held <= 4, "3M of her own, 4M together with his"
        assert kept(alice, second, more)[-1] == more[-1], "the newest is there"
        assert kept(bob, others, theirs) == theirs, "another tenant loses none"
        assert metric(alice, "cove_kernel_recent_bytes") <= 4 << 20
        assert metric(alice, "cove_kernel_recent_evicted_total") >= 3
    finally:
        server.close()


def test_installs_take_turns():
    """Pages that nobody sends keep one tenant's installs waiting, and none of another's."""
    go = threading.Event()

    def answer(request):
        if "stuck" in request.path:
            go.wait(60)
        request.reply(404)

    with Stand(answer) as index:
        flags = (f"--dependencies-index={index.url('/simple')}", "--dependencies-tenant-concurrent", "2", "--dependencies-max-concurrent", "3")
        server, tenants = server_with_tenants("alice", "bob", flags=flags)
        try:
            alice, bob = tenants["alice"], tenants["bob"]
            boxes = [alice.create(memoryLimit="1Gi", pidsLimit=128) for _ in range(4)]
            for box in boxes:
                assert alice.post(at(box, "dependencies"), {"packages": ["stuck"]}).status == 202
            assert wait_until(lambda: (metric(alice, "cove_installs_running"), metric(alice, "cove_installs_waiting")) == (2, 2), 30)
            his = bob.create(memoryLimit="1Gi", pidsLimit=128)
            assert bob.post(at(his, "dependencies"), {"packages": ["nothing"]}).status == 202
            assert wait_until(lambda: bob.get(at(his, "dependencies")).json["status"] == "failed", 60), "it was looked for, and is not there"
            assert metric(alice, "cove_installs_waiting") == 2
            go.set()
            assert all(wait_until(lambda box=box: alice.get(at(box, "dependencies")).json["status"] == "failed", 90) for box in boxes)
            assert (metric(alice, "cove_installs_running"), metric(alice, "cove_installs_waiting")) == (0, 0)
        finally:
            go.set()
            server.close()
