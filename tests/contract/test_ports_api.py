"""GET /v1/sandboxes/{id}/ports/{port} and cove forward: a connection to a server inside, although the sandbox has no network."""
import contextlib
import os
import re
import signal
import socket
import subprocess

import pytest
from conftest import COVE, wait_until
from hostile import make_key
from server import Server, new_id

ECHO = """
import socket, sys, threading
family = socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET
listener = socket.create_server(("::1" if sys.argv[1] == "6" else "127.0.0.1", 7777), family=family)
def serve(one):
    while data := one.recv(65536): one.sendall(data)
    one.sendall(b"bye"); one.close()
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
"""


def start_echo(server, sandbox, family="4"):
    process = server.post(f"/v1/sandboxes/{sandbox}/processes", {"cmd": ["python3", "-c", ECHO, family]}).json
    events = f"/v1/sandboxes/{sandbox}/processes/{process['id']}/events"
    assert wait_until(lambda: "ready" in str(server.get(events).json))


@pytest.fixture(scope="module")
def box(server):
    name = new_id()
    assert server.put(f"/v1/sandboxes/{name}", {}).status == 200
    start_echo(server, name)
    return name


def commands(server, box):
    return server.post(f"/v1/sandboxes/{box}/exec", {"cmd": ["bash", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]}).json["stdout"]


def test_bytes_go_both_ways_and_the_end_is_told(server, box):
    data = os.urandom(3_000_000)
    with server.websocket(f"/v1/sandboxes/{box}/ports/7777") as line:
        back, sent = b"", 0
        while len(back) < len(data):
            if sent < len(data):
                line.send(data[sent:sent + 60_000])
                sent += 60_000
            back += line.read()
        assert back == data
        line.send({"type": "eof"})
        assert line.read() == b"bye"
        end = line.read()
        assert (end["type"], end["exitCode"]) == ("end", 0) and line.read() is None and line.close_code == 1000
    assert wait_until(lambda: "/cove/bin/connect" not in commands(server, box)), "nothing is left of it"


def test_a_server_on_ipv6_is_found_too(server):
    name = new_id()
    server.put(f"/v1/sandboxes/{name}", {})
    start_echo(server, name, "6")
    with server.websocket(f"/v1/sandboxes/{name}/ports/7777") as line:
        line.send(b"six")
        assert line.read() == b"six"
    server.delete(f"/v1/sandboxes/{name}")


def test_where_nothing_listens_the_end_says_so(server, box):
    with server.websocket(f"/v1/sandboxes/{box}/ports/1") as line:
        assert line.read()["exitCode"] == 1


def test_a_client_that_leaves_ends_the_connection_inside(server, box):
    with server.websocket(f"/v1/sandboxes/{box}/ports/7777") as line:
        line.send(b"x")
        assert line.read() == b"x" and "/cove/bin/connect 7777" in commands(server, box)
    assert wait_until(lambda: "/cove/bin/connect" not in commands(server, box))
    assert [one["cmd"][0] for one in server.get(f"/v1/sandboxes/{box}/processes").json["processes"]] == ["python3"]


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "80x", "%20"])
def test_what_is_no_port_is_refused(server, box, port):
    answer = server.get(f"/v1/sandboxes/{box}/ports/{port}")
    assert answer.status == 400 and "port must be a number between 1 and 65535" in answer.json["error"]


def test_another_tenants_port_does_not_exist():
    server = Server()
    mine, other = (make_key(server, tenant)["key"] for tenant in ("one", "two"))
    with server:
        name = new_id()
        server.put(f"/v1/sandboxes/{name}", {}, headers={"Authorization": f"Bearer {mine}"})
        with server.websocket(f"/v1/sandboxes/{name}/ports/7777", headers={"Authorization": f"Bearer {other}"}) as line:
            assert line.status == 404
        with server.websocket(f"/v1/sandboxes/{name}/ports/7777") as line:
            assert line.status == 401


@contextlib.contextmanager
def forwarding(server, *arguments):
    process = subprocess.Popen([COVE, "forward", *arguments], stderr=subprocess.PIPE, text=True, env={**os.environ, "COVE_URL": f"http://127.0.0.1:{server.port}"})
    line = process.stderr.readline()
    found = re.fullmatch(r"cove: forwarding 127\.0\.0\.1:(\d+) to port (\d+) of (.+); Ctrl-C ends it\n", line)
    assert found, line
    try:
        yield int(found[1]), process
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        process.stderr.close()


def test_forward_leads_connections_of_this_machine_into_the_sandbox(server, box):
    data = os.urandom(2_000_000)
    with forwarding(server, box, "0:7777") as (port, _):
        lines = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(3)]
        for number, line in enumerate(lines):
            line.sendall(b"%d" % number)
        assert [line.recv(10) for line in lines] == [b"0", b"1", b"2"]
        back, sent = b"", 0
        while len(back) < len(data):
            if sent < len(data):
                lines[0].sendall(data[sent:sent + 50_000])
                sent += 50_000
            back += lines[0].recv(1 << 16)
        assert back == data
        lines[0].shutdown(socket.SHUT_WR)
        assert lines[0].recv(10) == b"bye" and lines[0].recv(10) == b""
        for line in lines:
            line.close()
    assert wait_until(lambda: "/cove/bin/connect" not in commands(server, box))


def test_forward_says_when_nothing_listens_there(server, box):
    with forwarding(server, box, "0:9") as (port, process):
        with socket.create_connection(("127.0.0.1", port), 30) as line:
            assert line.recv(10) == b""
        assert process.stderr.readline() == f"cove: nothing listens on port 9 in {box}\n"


@pytest.mark.parametrize("arguments, words", [
    (["no-such", "80"], "no-such"), (["BOX", "0"], '"0" is not a port'), (["BOX", "a:80"], '"a" is not a port'), (["BOX", "80", "--address", "here"], "--address"),
])
def test_forward_names_what_is_wrong(cli, box, arguments, words):
    failed = cli("forward", *[box if word == "BOX" else word for word in arguments])
    assert failed.status == 1 and words in failed.err
