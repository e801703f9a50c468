"""What one peer or tenant can make the server hold, and what becomes of the others meanwhile (docs/limits.md)."""
import contextlib
import json
import os
import pathlib
import resource
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

from conftest import COVE, wait_until
from hostile import Tenant, bounded_memory, front, make_key, memory_kib, metric, server_with_tenants
from server import Server, at, new_id, parse_answer

MIB = 1 << 20


@pytest.fixture(scope="module")
def small():
    """A server that has little memory for requests, and two tenants."""
    server, tenants = server_with_tenants("alice", "bob", flags=("--http-memory", "96M", "--http-tenant-memory", "48M"))
    try:
        yield server, tenants
    finally:
        server.close()


def slow_body(server, key, size, path=None):
    """A connection that has sent all of a body but its last bytes."""
    connection = socket.create_connection(("127.0.0.1", server.port), 30)
    head = f"POST {path or at('nowhere', 'exec')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    with contextlib.suppress(OSError):
        connection.sendall(head.encode() + b"[" * (size - 10))
    return connection


def answer_of(connection):
    connection.settimeout(20)
    received = b""
    with contextlib.suppress(OSError):
        while b"\r\n\r\n" not in received:
            piece = connection.recv(65536)
            if not piece:
                break
            received += piece
    return received


def test_bodies_that_wait_are_bounded_for_a_tenant_and_given_back(small):
    server, tenants = small
    alice, bob = tenants["alice"], tenants["bob"]
    name = alice.create()
    path = at(name, "exec")
    with bounded_memory(server, 160):
        slow = [slow_body(server, alice.key, 15 * MIB, path) for _ in range(12)]
        try:
            # Three fit into the share of a tenant; the others are told so at once, with the time to wait.
            assert wait_until(lambda: metric(server, "cove_http_held_refused_total", bob.headers) >= 9, 20)
            refused = [answer_of(connection) for connection in slow[3:]]
            answers = [parse_answer(data) for data in refused if data]
            assert answers and {answer.status for answer in answers} == {429}, answers
            assert {answer.headers["Retry-After"] for answer in answers} == {"1"}
            assert "48" in answers[0].json["error"] or "memory" in answers[0].json["error"]
            # Another tenant has a share of its own.
            assert bob.exec(bob.create(), "echo", "still here")["stdout"] == "still here\n"
            big = bob.exec(bob.create(), "wc", "-c", stdin="x" * (8 * MIB))
            assert big["stdout"].strip() == str(8 * MIB)
        finally:
            for connection in slow:
                connection.close()
    assert wait_until(lambda: metric(server, "cove_http_held_bytes", bob.headers) == 0)
    assert alice.exec(name, "wc", "-c", stdin="x" * (8 * MIB))["stdout"].strip() == str(8 * MIB)


def test_input_that_waits_for_a_program_counts_as_long_as_it_does(small):
    server, tenants = small
    alice = tenants["alice"]
    name = alice.create()
    results = []

    def run():
        results.append(alice.post(at(name, "exec"), {"cmd": ["sleep", "4"], "stdin": "x" * (14 * MIB)}).status)

    with bounded_memory(server, 250):
        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(set(results)) == [200, 429] and results.count(200) >= 1, results


def test_executions_that_wait_keep_what_they_hold_counted(small):
    server, tenants = small
    alice = tenants["alice"]
    name = alice.create()
    statuses = [alice.post(at(name, "executions"), {"language": "bash", "code": "sleep 3", "stdin": "x" * (14 * MIB)}).status for _ in range(6)]
    assert statuses[:3] == [201] * 3 and 429 in statuses[3:], statuses
    assert wait_until(lambda: metric(server, "cove_http_held_bytes", alice.headers) == 0, 30)


def test_a_body_for_a_sandbox_that_is_not_there_is_not_read(small):
    server, tenants = small
    with slow_body(server, tenants["alice"].key, 15 * MIB, at("nowhere", "exec")) as connection:
        assert parse_answer_of(connection).status == 404


def parse_answer_of(connection):
    data = answer_of(connection)
    status = int(data.split()[1])
    length = int([line for line in data.split(b"\r\n") if line.lower().startswith(b"content-length:")][0].split(b":")[1])
    body = data.partition(b"\r\n\r\n")[2]
    while len(body) < length:
        body += connection.recv(65536)
    return parse_answer(data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + body)


def deaf_request(server, key, path, body):
    """A connection that has asked and does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect(("127.0.0.1", server.port))
    text = json.dumps(body).encode()
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
    return connection


def test_answers_that_nobody_reads_are_bounded_for_a_tenant_and_given_back():
    flags = ("--http-memory", "96M", "--http-tenant-memory", "48M", "--exec-output-limit", "8M")
    server, tenants = server_with_tenants("alice", "bob", flags=flags)
    alice, bob = tenants["alice"], tenants["bob"]
    try:
        name = alice.create()
        # Later than a second: the head of the answer is out, and the rest follows in one piece.
        deaf = [deaf_request(server, alice.key, at(name, "exec"), {"cmd": ["sh", "-c", "sleep 2; yes | head -c 8000000"]}) for _ in range(10)]
        try:
            assert wait_until(lambda: metric(server, "cove_http_held_refused_total", bob.headers) >= 1, 40), "more is unsent than may be"
            assert 8 * MIB < metric(server, "cove_http_held_bytes", bob.headers) <= 48 * MIB
            whole = bob.post(at(bob.create(), "exec"), {"cmd": ["sh", "-c", "sleep 2; yes | head -c 8000000"]}, timeout=60)
            assert whole.status == 200 and len(whole.json["stdout"]) == 8_000_000, "another tenant has a share of its own"
        finally:
            for connection in deaf:
                connection.close()
        assert wait_until(lambda: metric(server, "cove_http_held_bytes", bob.headers) == 0, 40)
    finally:
        server.close()


# --- connections

def idle_connection(port):
    """One that has asked once, without a key, and stays."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    received = b""
    while b"OK" not in received:
        received += connection.recv(4096)
    return connection


def test_idle_connections_of_one_peer_keep_nobody_out():
    flags = ("--http-max-connections", "200", "--http-max-connections-per-peer", "150")
    server, tenants = server_with_tenants("alice", flags=flags)
    try:
        alice = tenants["alice"]
        with contextlib.ExitStack() as stack, bounded_memory(server, 8):
            for _ in range(149):
                stack.enter_context(idle_connection(server.port))
            before = memory_kib(front(server))
            for _ in range(150):
                stack.enter_context(idle_connection(server.port))
            # Everybody who came was served, at the price of the oldest idle one, and it is said.
            assert alice.exec(alice.create(), "echo", "in")["stdout"] == "in\n"
            assert wait_until(lambda: metric(server, "cove_http_connections", alice.headers) <= 152), "those that were closed are gone a moment later"
            assert metric(server, "cove_http_connections_evicted_total", alice.headers) >= 149
            assert memory_kib(front(server)) - before < 4096
        assert server.log.count("connections full") == 1, "once a minute is enough"
    finally:
        server.close()


def test_a_connection_that_has_asked_for_nothing_holds_no_buffer():
    with Server("--http-max-connections-per-peer", "0") as server, contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(idle_connection(server.port))
        before = memory_kib(front(server))
        for _ in range(400):
            stack.enter_context(idle_connection(server.port))
        assert memory_kib(front(server)) - before < 400 * 24, "24 KiB each, with what Asio and the coroutine need"


# --- a log that nobody reads

def test_a_log_that_nobody_reads_stops_nobody():
    server = Server()
    reading, writing = os.pipe()
    try:
        arguments = [COVE, "serve", "--listen", "127.0.0.1:0", "--state-dir", str(server.state_dir), "--python-warm=false", "--pool-size=0"]
        server.log_path.touch()
        server.popen = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing)
        os.close(writing)
        writing = None
        text = b""
        while b"serving on" not in text:
            text += os.read(reading, 4096)
        server.port = int(text.partition(b"http://127.0.0.1:")[2].split()[0])
        # From here on nobody reads. A pipe takes 64 KiB, each line some 1200 bytes.
        for _ in range(300):
            assert server.get("/" + "a" * 1000).status == 404
        assert server.get("/healthz").status == 200
        assert server.exec(server.create(), "echo", "served")["stdout"] == "served\n"
        assert metric(server, "cove_log_lines_lost_total") > 100
        os.set_blocking(reading, False)
        with contextlib.suppress(BlockingIOError):
            while os.read(reading, 65536):
                pass
        assert server.get("/healthz").status == 200
        os.set_blocking(reading, True)
        text = b""
        while b"log lines lost=" not in text:
            text += os.read(reading, 65536)
    finally:
        if writing is not None:
            os.close(writing)
        server.popen.terminate()
        server.popen.wait(20)
        os.close(reading)
        server.close()


def test_requests_that_are_refused_do_not_fill_the_log():
    server, _ = server_with_tenants("alice")
    try:
        for _ in range(400):
            assert server.get("/v1/sandboxes").status == 401
        lines = server.log.count("status=401")
        assert lines < 300, lines
        assert 'tenant=default' not in server.log
    finally:
        server.close()


# --- metrics for this machine

def address_of_this_machine():
    """An address of this machine that is not loopback: what a peer elsewhere would connect to."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.77", 9))  # sends nothing
        return probe.getsockname()[0]


def test_metrics_for_this_machine_are_not_for_everybody():
    server = Server("--http-metrics", "loopback", listen="0.0.0.0:0")
    try:
        make_key(server, "alice")
        server.log_path.touch()
        server.popen = subprocess.Popen([COVE, "serve", "--listen", "0.0.0.0:0", "--state-dir", str(server.state_dir), *server.flags], stdin=subprocess.DEVNULL,
                                        stdout=open(server.log_path, "ab"), stderr=subprocess.STDOUT)
        assert wait_until(lambda: "serving on" in server.log, 30), server.log
        server.port = int(server.log.partition("http://0.0.0.0:")[2].split()[0])
        assert server.get("/metrics").status == 200
        assert server.get("/metrics", headers={"X-Forwarded-For": "203.0.113.9"}).status == 401
        assert server.get("/metrics", headers={"Via": "1.1 proxy"}).status == 401
        assert server.get("/v1/sandboxes").status == 401
        try:
            elsewhere = address_of_this_machine()
        except OSError:
            pytest.skip("this machine has no address but loopback")
        with socket.create_connection((elsewhere, server.port), 10) as connection:
            connection.sendall(f"GET /metrics HTTP/1.1\r\nHost: {elsewhere}:{server.port}\r\nConnection: close\r\n\r\n".encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 401")
    finally:
        server.close()


# --- keys in the log

def test_a_key_is_in_the_log_in_no_spelling():
    server, tenants = server_with_tenants("alice")
    try:
        key = tenants["alice"].key
        secret = key[5:]
        spelled = ["/%63ove_" + secret + "/v1/sandboxes", "/v1/sandboxes?key=cove%5F" + secret, "/COVE_" + secret + "/v1", "/v1?a=%2563ove_" + secret]
        for target in spelled:
            server.raw_request("GET", target)
        answer = server.raw_request("GET", "/v1/sandboxes", headers=[f"X-Request-Id: {key[:60]}", f"User-Agent: x{key.upper()}"])
        assert secret[:40] not in answer.headers["X-Request-Id"]
        assert wait_until(lambda: "status=401" in server.log)
        time.sleep(0.2)
        for line in server.log.splitlines():
            assert secret not in line and secret.upper() not in line and secret[:40] not in line, line
    finally:
        server.close()


# --- processes in the background

def test_processes_in_the_background_count_as_executions():
    server = Server()
    try:
        alice = Tenant(server, make_key(server, "alice", "--executions-per-minute", "5", "--concurrent-executions", "2")["key"])
        server.start()
        alice = Tenant(server, alice.key)
        name = alice.create()
        started = [alice.post(at(name, "processes"), {"cmd": ["sleep", "30"]}) for _ in range(4)]
        assert [answer.status for answer in started] == [201, 201, 429, 429], started
        assert "running executions" in started[2].json["error"]
        # They take the places of the tenant's own executions too.
        answer = alice.post(at(name, "exec"), {"cmd": ["true"]}, timeout=40)
        assert answer.status == 503, answer
        for process in alice.get(at(name, "processes")).json["processes"]:
            alice.delete(at(name, f"processes/{process['id']}"))
        statuses = []
        for _ in range(6):
            statuses.append(alice.post(at(name, "processes"), {"cmd": ["true"]}))
            assert wait_until(lambda: all(one["state"] == "exited" for one in alice.get(at(name, "processes")).json["processes"]))
        refused = [answer for answer in statuses if answer.status == 429]
        assert refused and "a minute" in refused[-1].json["error"]
        # The time to wait is true: a token comes every twelve seconds.
        assert 1 <= int(refused[-1].headers["Retry-After"]) <= 12
    finally:
        server.close()


def test_a_program_that_holds_the_database_stops_nobody_who_needs_no_write(fresh_server):
    """SQLite has one writer: whoever holds it makes the server's writes fail after half a second, then at once for two."""
    server = fresh_server()
    server.create("there")
    database = next(pathlib.Path(server.state_dir).rglob("cove.db"))
    holder = sqlite3.connect(database, isolation_level=None)
    job = at("there", "executions/" + server.post(at("there", "executions"), {"code": "import time; time.sleep(2); print(41 + 1)"}).json["id"])
    assert wait_until(lambda: server.get(job).json["status"] == "running")
    holder.execute("BEGIN IMMEDIATE")
    try:
        waits, refused, until = [], 0, time.monotonic() + 6
        while time.monotonic() < until:
            refused += server.put(at(new_id()), {}).status == 503
            since = time.monotonic()
            assert server.get("/healthz").status == 200
            waits.append(time.monotonic() - since)
        assert refused >= 5
        assert max(waits) < 2, max(waits)
        began = time.monotonic()
        answers = [server.put(at(new_id()), {}) for _ in range(5)]
        assert all(answer.status == 503 and "another program holds it" in answer.json["error"] for answer in answers), answers
        assert time.monotonic() - began < 4, "not one patience each"
        ended = server.get(job).json
        assert (ended["status"], ended["stdout"]) == ("completed", "42\n"), "what ended meanwhile can be asked for"
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert wait_until(lambda: server.put(at(new_id()), {}).status == 200)
    assert server.out("there", "echo alive") == "alive\n"
    time.sleep(1.5)  # an end that could not be stored is stored later
    server.kill9()
    server.start()
    assert (server.get(job).json["status"], server.get(job).json["stdout"]) == ("completed", "42\n")
