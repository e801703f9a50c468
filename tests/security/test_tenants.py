"""XT over HTTP: two tenants with keys of their own on one server. What neighbours can do to each other inside is in test_neighbours.py; here they meet through the server."""
import concurrent.futures
import contextlib
import json
import random
import re
import secrets
import socket
import subprocess
import threading
import time

import pytest

from conftest import COVE, ROOT, fair, leaving_nothing, wait_until
from hostile import SOAK, Tenant, alive, conversation, front, head, make_key, metric, server_with_tenants
from server import at, joined, members_of, new_id, parse_answer, tar_gz

ROUTES = json.loads(subprocess.run([COVE, "routes", "--json"], capture_output=True, timeout=20).stdout or "[]")


@pytest.fixture(scope="module")
def world():
    with leaving_nothing():
        server, tenants = server_with_tenants("alice", "bob")
        try:
            yield server, tenants["alice"], tenants["bob"]
        finally:
            server.close()


@pytest.fixture(scope="module")
def alice(world):
    return world[1]


@pytest.fixture(scope="module")
def bob(world):
    return world[2]


@pytest.fixture(scope="module")
def boxes(alice, bob):
    """Alice's sandbox and bob's, under the same name."""
    for tenant in (alice, bob):
        tenant.create("shared-name", ttlSeconds=600)
    return "shared-name"


def python(tenant, name, code, **fields):
    result = tenant.exec(name, "python3", "-c", code, **fields)
    assert result["exitCode"] == 0, result
    return result["stdout"]


def test_XT_01_marks_left_anywhere_by_one_are_not_found_by_the_other(alice, bob, boxes):
    mark = secrets.token_hex(8)
    left = alice.out(boxes, f"for d in $(find / -xdev -type d -writable 2>/dev/null) /dev/shm /tmp /var/tmp /run /workspace /home/cove; do echo {mark} > $d/{mark} 2>/dev/null && echo $d; done; true").split()
    assert "/workspace" in left and "/tmp" in left
    found = bob.sh(boxes, f"find / -name '*{mark}*' -not -path '/proc/*' 2>/dev/null; grep -rl {mark} /workspace /tmp /var /run /dev/shm /home /etc /cove 2>/dev/null", timeoutSeconds=60)
    assert found["stdout"] == ""
    for route in (f"files?path=/tmp/{mark}", f"files/stat?path=/workspace/{mark}", f"files/download?src=/workspace/{mark}"):
        assert bob.get(at(boxes, route)).status == 404


def test_XT_02_processes_of_the_other_are_invisible_and_out_of_reach(world, alice, bob, boxes):
    mark = "mark" + secrets.token_hex(8)
    process = alice.start_process(boxes, "sh", "-c", f"sleep 300; : {mark}")
    inner = [int(pid) for pid in alice.out(boxes, "ls /proc | grep -E '^[0-9]+$'").split()]
    outer = int(alice.get(at(boxes)).json["usage"]["pids"]) >= 1 and [int(p) for p in subprocess.run(["pgrep", "-f", mark], capture_output=True, text=True).stdout.split()]
    told = python(bob, boxes, f"""
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
mark = {mark[:10]!r} + {mark[10:]!r}
print(any(mark in open(f'/proc/{{p}}/cmdline').read() for p in os.listdir('/proc') if p.isdigit() and os.access(f'/proc/{{p}}/cmdline', os.R_OK)))
for pid in {outer!r}:
    for call in (lambda: os.kill(pid, 0), lambda: os.pidfd_open(pid)):
        try: call(); print('reached', pid)
        except OSError as e: print(e.errno)
""")
    lines = told.split("\n")
    assert lines[0] == "False" and set(lines[1:]) <= {"3", "1", "22", ""}, told
    assert alice.process(boxes, process["id"])["state"] == "running"
    # Through the API neither: bob's p-numbers are bob's own.
    assert bob.get(at(boxes, "processes")).json["processes"] == []
    assert bob.post(at(boxes, f"processes/{process['id']}/signal"), {"signal": 9}).status == 404
    assert alice.process(boxes, process["id"])["state"] == "running"
    alice.delete(at(boxes, f"processes/{process['id']}"))


LISTEN = """
import socket, time
made = []
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1'), (socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')):
    s = socket.socket(family)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((address, 0)); s.listen(); made.append(s); print(s.getsockname()[1], flush=True)
a = socket.socket(socket.AF_UNIX); a.bind('\\0xt-04-abstract'); a.listen()
p = socket.socket(socket.AF_UNIX); p.bind('/tmp/xt-04'); p.listen()
print('ready', flush=True)
time.sleep(100)
"""


def test_XT_03_XT_04_what_one_listens_on_nobody_else_can_connect_to(alice, bob, boxes):
    process = alice.start_process(boxes, "python3", "-c", LISTEN)
    assert wait_until(lambda: "ready" in alice.output(boxes, process["id"]), 10)
    ports = [int(word) for word in alice.output(boxes, process["id"]).split() if word.isdigit()]
    assert len(ports) == 4
    told = python(bob, boxes, f"""
import socket
for port in {ports}:
    for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
        s = socket.socket(family); s.settimeout(2)
        try: s.connect((address, port)); print('connected', port)
        except OSError as e: print(e.strerror)
for name in ('\\0xt-04-abstract', '/tmp/xt-04'):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(name); print('connected', name)
    except OSError as e: print(e.strerror)
""")
    assert "connected" not in told and set(told.splitlines()) <= {"Connection refused", "No such file or directory", "Network is unreachable", "Cannot assign requested address", "Permission denied", "Operation not permitted"}
    for port in ports:  # and from the host
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), 1)
    alice.delete(at(boxes, f"processes/{process['id']}"))


def test_XT_05_ipc_names_are_each_ones_own(alice, bob, boxes):
    make = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.shmget(0x1234, 4096, 0o1000 | 0o666) >= 0, libc.semget(0x1234, 1, 0o1000 | 0o666) >= 0, libc.msgget(0x1234, 0o1000 | 0o666) >= 0)
open('/dev/shm/xt05', 'w').write('alice')
"""
    look = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.shmget(0x1234, 0, 0), libc.semget(0x1234, 0, 0), libc.msgget(0x1234, 0), os.path.exists('/dev/shm/xt05'))
"""
    python(alice, boxes, make)
    assert python(bob, boxes, look).strip() == "-1 -1 -1 False"


def identical(one, two, name_one, name_two):
    """Whether two answers differ in nothing but the name that was asked for."""
    def plain(answer, name):
        headers = sorted((key.lower(), value) for key, value in answer.headers.items() if key.lower() not in ("date", "x-request-id"))
        body = re.sub(rb'"requestId":"[^"]*"', b"", answer.body).replace(name.encode(), b"NAME")
        return answer.status, headers, body
    return plain(one, name_one) == plain(two, name_two)


@pytest.mark.parametrize("route", [route for route in ROUTES if "{id}" in route["pattern"] and not (route["method"] == "PUT" and route["pattern"].endswith("{id}"))], ids=lambda route: f"{route['method']}-{route['pattern']}")
def test_XT_08_anothers_id_is_answered_byte_for_byte_as_an_unknown_one(world, alice, bob, route):
    server = world[0]
    theirs, unknown = "alices-own-box", "nobodys-a-box!"
    if alice.get(at(theirs)).status == 404:
        alice.create(theirs, ttlSeconds=600)
        alice.start_process(theirs, "sleep", "600", pty=True)
        alice.put(at(theirs, "files?path=x"), b"secret")
    assert len(theirs) == len(unknown)
    body = {"exec": {"cmd": ["true"]}, "processes": {"cmd": ["true"]}, "signal": {"signal": 9}, "resize": {"rows": 5, "cols": 5}, "mkdir": {"path": "evil"}, "rename": {"from": "x", "to": "y"},
            "{relpath}": {"command": "true"}, "run": {"server_name": "s", "server_params": {"command": "true"}, "tool_name": "t", "tool_args": {}}, "approve": {"server_name": "s", "tool_name": "t", "tool_args": {}}}.get(route["pattern"].rpartition("/")[2])
    query = "?path=x" if "/files" in route["pattern"] else ""
    for headers in ({}, {"Accept": "text/event-stream"}, {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}):
        answers = []
        for name in (theirs, unknown):
            path = route["pattern"].replace("{id}", name).replace("{pid}", "p1") + query
            lines = [f"{key}: {value}" for key, value in {**bob.headers, **headers}.items()]
            data = json.dumps(body).encode() if body else b""
            raw = head(server, route["method"], path, *lines, *([f"Content-Length: {len(data)}"] if route["method"] in ("PUT", "POST") else []), *([] if "Upgrade" in headers else ["Connection: close"])) + (data if route["method"] in ("PUT", "POST") else b"")
            said = conversation(server, raw, timeout=5, half_close=True)
            if route["method"] == "HEAD":
                said = re.sub(rb"(?i)content-length: \d+", b"Content-Length: 0", said)
            answers.append(parse_answer(said))
        assert answers[0].status == 404 and identical(*answers, theirs, unknown), answers
    assert alice.get(at(theirs)).status == 200 and alice.get(at(theirs, "files?path=x")).body == b"secret"
    assert [one["state"] for one in alice.get(at(theirs, "processes")).json["processes"]] == ["running"]


def test_XT_08_a_name_that_is_taken_by_another_is_free(alice, bob):
    name = new_id()
    alice.create(name, labels={"of": "alice"})
    made = bob.post("/v1/sandboxes", {"id": name, "labels": {"of": "bob"}})
    assert made.status == 201 and made.json["labels"] == {"of": "bob"}
    assert bob.delete(at(name)).status == 204
    assert alice.get(at(name)).json["labels"] == {"of": "alice"}
    alice.delete(at(name))


def test_XT_08_pod_names_and_inner_ids_open_nothing(world, alice, bob, boxes):
    pod = alice.get(at(boxes)).json["podName"]
    inner = [path.name for path in (world[0].state_dir / "front" / "run").iterdir()]
    for guess in [pod, *inner]:
        for tenant in (alice, bob):
            assert tenant.get(at(guess)).status == 404
    listed = json.dumps(bob.get("/v1/sandboxes?limit=1000").json)
    assert pod not in listed and not any(name in listed for name in inner)


def test_XT_08_events_of_one_are_not_heard_by_the_other(alice, bob):
    with bob.sse("/v1/events?from=1") as stream:
        assert stream.comment()
        name = "secret-" + secrets.token_hex(4)
        alice.create(name)
        alice.delete(at(name))
        mine = bob.create()
        seen = stream.until(lambda event: event.get("sandbox") == mine)
        bob.delete(at(mine))
    assert name not in json.dumps(seen)
    assert name not in bob.get("/v1/events").body.decode()
    assert name in alice.get("/v1/events?from=1").body.decode()


def test_XT_08_idempotency_keys_are_each_ones_own(alice, bob):
    key = {"Idempotency-Key": new_id()}
    one, two = alice.post("/v1/sandboxes", {"labels": {"a": "1"}}, headers=key), bob.post("/v1/sandboxes", {"labels": {"b": "2"}}, headers=key)
    assert (one.status, two.status) == (201, 201) and one.json["id"] != two.json["id"] and one.json["podName"] != two.json["podName"]
    alice.delete(at(one.json["id"]))
    bob.delete(at(two.json["id"]))


def test_XT_09_names_the_server_chooses_cannot_be_guessed(world, alice):
    ids, pods, requests = [], [], []
    for _ in range(2000 if SOAK else 60):
        answer = alice.post("/v1/sandboxes", {})
        ids.append(answer.json["id"])
        pods.append(answer.json["podName"])
        requests.append(answer.headers["X-Request-Id"])
        alice.delete(at(ids[-1]))
    for made in (ids, pods, requests):
        assert len(set(made)) == len(made) and sorted(made) != made
        # Every place after the prefix takes many values: nothing counts up, nothing is a clock.
        body = [name.partition("-")[2] or name.partition("_")[2] for name in made]
        assert min(len({name[place] for name in body}) for place in range(len(body[0]))) >= 8
    assert len(requests[0]) >= 4 + 26  # of 32 letters: 130 bits
    keys = [make_key(world[0], "carol")["key"] for _ in range(8)]
    assert len(set(keys)) == 8 and min(len(key) - 5 for key in keys) >= 26
    for path in (world[0].state_dir / "front" / "run").iterdir():
        assert len(path.name) >= 24


POISON = """
import os, sys, builtins, ctypes
mark = sys.argv[1]
for d in ('/workspace', '/tmp', '/dev/shm', '/home/cove'):
    open(f'{d}/{mark}', 'w').write(mark)
os.makedirs('/home/cove/.local/lib/python3.11/site-packages', exist_ok=True)
open('/home/cove/.local/lib/python3.11/site-packages/usercustomize.py', 'w').write(f'print({mark!r})')
for f in ('.bashrc', '.profile', '.bash_profile', '.pythonrc'):
    open(f'/home/cove/{f}', 'w').write(f'echo {mark}')
libc = ctypes.CDLL(None)
print(libc.shmget(0x4321, 4096, 0o1000 | 0o666) >= 0)
os.umask(0o777); os.chdir('/tmp'); os.environ['MARK'] = mark
if os.fork() == 0:
    os.setsid()
    import time
    time.sleep(1000)
"""


def test_XT_10_nothing_of_a_deleted_sandbox_is_met_by_later_ones(alice, bob):
    mark = "trace" + secrets.token_hex(8)
    name = new_id()
    alice.create(name, env={"MARK": mark}, labels={"mark": mark})
    alice.exec(name, "python3", "-c", POISON, mark)
    alice.start_process(name, "sh", "-c", f"echo {mark}; sleep 1000")
    alice.delete(at(name))
    for turn in range(100 if SOAK else 12):
        tenant = (alice, bob)[turn % 2]
        assert tenant.put(at(name), {}).json["labels"] == {}
        told = tenant.sh(name, f"bash -lc 'env; umask; pwd'; python3 -c 1; ls -laR /workspace /tmp /dev/shm /home; cat /proc/sysvipc/shm 2>/dev/null; ls /proc; cat /proc/[0-9]*/cmdline | tr '\\0' ' '; grep -rl {mark} /home /tmp /workspace /dev/shm; true")
        assert mark not in told["stdout"].replace(f"grep -rl {mark}", "").replace(f"{mark} /home", "") or told["stdout"].count(mark) <= 2, told["stdout"]
        assert "17185" not in told["stdout"] and tenant.get(at(name, "processes")).json["processes"] == []
        assert tenant.get(at(name, "processes/p1/events")).status == 404
        tenant.delete(at(name))


def test_XT_12_the_same_names_at_the_same_time_are_never_mixed(alice, bob, boxes):
    def work(tenant, word):
        for turn in range(40 if SOAK else 12):
            content = f"{word}-{turn}-" * 2000
            assert tenant.upload(boxes, tar_gz({"artifact": content, "d/same": content}), dest="/workspace/up").status == 200
            assert tenant.put(at(boxes, "files?path=/tmp/same"), content.encode()).status == 200
            got = members_of(tenant.download(boxes, "/workspace/up").body)
            assert got["artifact"].decode() == content and got["d/same"].decode() == content
            assert tenant.get(at(boxes, "files?path=/tmp/same")).body.decode() == content
            assert tenant.exec(boxes, "sh", "-c", f"echo {word}; cat /tmp/same | head -c 5", env={"W": word})["stdout"].startswith(f"{word}\n{word}"[:8])
            process = tenant.start_process(boxes, "echo", f"{word}-{turn}")
            tenant.ended(boxes, process["id"])
            assert tenant.output(boxes, process["id"]) == f"{word}-{turn}\n"
            tenant.delete(at(boxes, f"processes/{process['id']}"))

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, alice, "aaaaa"), pool.submit(work, bob, "bbbbb")]:
            done.result()


def test_XT_15_how_much_others_do_cannot_be_counted_by_the_numbers_of_ones_events(alice, bob):
    def last(tenant):
        name = tenant.create()
        tenant.delete(at(name))
        events = tenant.get("/v1/events?from=1").json["events"]
        return [event["seq"] for event in events][-2:]

    before = last(bob)
    for _ in range(5):
        alice.delete(at(alice.create()))
    after = last(bob)
    # A residual that is written down, as long as it is one.
    model = (ROOT / "docs" / "threat-model.md").read_text()
    assert after[0] - before[1] == 1 or "the numbers of lifecycle events" in model, f"{after[0] - before[1] - 1} events of somebody else's between two of bob's"


def test_XT_15_a_sandboxs_own_numbers_start_anew(alice, bob):
    told = []
    for tenant in (alice, bob):
        name = tenant.create()
        process = tenant.start_process(name, "true")
        told.append((process["id"], tenant.out(name, "stat -c %i / /workspace /tmp; cat /proc/sys/kernel/pid_max >/dev/null; echo $$")))
        tenant.delete(at(name))
    assert told[0][0] == told[1][0] == "p1" and abs(int(told[0][1].split()[-1]) - int(told[1][1].split()[-1])) < 3


def test_XT_15_one_tenants_crowd_does_not_shut_the_door_for_another():
    server, tenants = server_with_tenants("alice", "bob", flags=("--exec-max-concurrent", "4", "--exec-max-queued", "16"))
    try:
        alice, bob = tenants["alice"], tenants["bob"]
        crowd, quiet = alice.create(pidsLimit=200), bob.create()
        body = json.dumps({"cmd": ["sleep", "20"]}).encode()
        standing = []
        for _ in range(40):
            connection = socket.create_connection(("127.0.0.1", server.port), 5)
            connection.sendall(head(server, "POST", at(crowd, "exec"), f"X-API-Key: {alice.key}", f"Content-Length: {len(body)}") + body)
            standing.append(connection)
        time.sleep(0.5)
        began = time.monotonic()
        answer = bob.post(at(quiet, "exec"), {"cmd": ["true"]}, timeout=40)
        took = time.monotonic() - began
        for connection in standing:
            connection.close()
        assert answer.status == 200 and took < fair(5), (answer, took)
    finally:
        server.close()
