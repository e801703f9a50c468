"""Listeners for one sandbox: `--listen ADDRESS=sandbox:NAME`, `listeners` of the file, and /v1/listeners."""
import base64
import contextlib
import http.client
import re
import socket
import subprocess

import pytest
from conftest import COVE, wait_until
from hostile import make_key, server_with_tenants
from server import Answer, Server, at, new_id


def ask(port, path, headers=None, method="GET", host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.reason, response.headers, response.read())
    finally:
        connection.close()


def basic(pair):
    return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


@pytest.fixture
def box(server):
    name = server.create()
    yield name
    server.delete(at(name))


def opened(server, name, listen="127.0.0.1:0", **options):
    answer = server.post("/v1/listeners", {"listen": listen, "sandbox": name}, **options)
    assert answer.status == 201, answer
    return answer.json


# --- /v1/listeners

def test_a_listener_serves_its_sandbox_and_nothing_else(server, box):
    listener = opened(server, box)
    port = listener["port"]
    assert listener["listen"] == f"127.0.0.1:{port}" and port > 0 and listener["sandbox"] == box and listener["openedAt"]
    other = server.create()
    server.post("/files/here", b"1", headers={"X-Cove-Sandbox": box})
    assert ask(port, "/files/here").body == b"1"
    assert ask(port, "/api/kernels").json == [] and ask(port, "/api/kernels", headers={"X-Cove-Sandbox": other}).status == 404
    assert ask(port, "/status/").json == {"status": "ok"}
    assert ask(port, "/healthz").body == b"OK"
    for path in ("/", "/v1/sandboxes", at(box), at(box, "resources/status/"), at(box, "jupyter/api/kernels"), at(other, "jupyter/api/kernels"), "/v1/listeners", "/version", "/metrics", "/openapi.json", "/health", "/v1/execute", "/workspace/se/healthy", "/nothing"):
        for method in ("GET", "POST"):
            assert ask(port, path, method=method).status == 404, path
    assert server.get("/v1/listeners").json["listeners"] == [listener]
    assert server.delete(f"/v1/listeners/{port}").status == 204
    assert server.get("/v1/listeners").json == {"listeners": []}
    assert wait_until(lambda: not listening(port))


def test_another_sandbox_is_unknown_there(server, box):
    other = server.create()
    port = opened(server, box)["port"]
    unknown = server.get("/status/", headers={"X-Cove-Sandbox": "nobody"})
    for name in (other, "nobody"):
        for headers in ({"X-Cove-Sandbox": name}, basic(f"{name}:")):
            answer = ask(port, "/status/", headers)
            assert (answer.status, answer.body.decode()) == (404, unknown.body.decode().replace("nobody", name))
    for headers in ({"X-Cove-Sandbox": box}, basic(f"{box}:anything"), basic(":anything")):
        assert ask(port, "/status/", headers).status == 200
    server.delete(f"/v1/listeners/{port}")
    server.delete(at(other))


def test_a_listener_goes_with_its_sandbox(server):
    name = server.create()
    port = opened(server, name)["port"]
    with socket.create_connection(("127.0.0.1", port), 30) as kept:
        kept.sendall(b"GET /status/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert kept.recv(65536).startswith(b"HTTP/1.1 200")
        assert server.delete(at(name)).status == 204
        kept.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert kept.recv(65536) == b"", "its connections go too"
    assert wait_until(lambda: not listening(port)) and server.get("/v1/listeners").json == {"listeners": []}
    # One of the same name is another.
    assert server.put(at(name), {}).status == 200
    assert not listening(port)
    server.delete(at(name))


def test_opening_and_closing_again_and_again_leaves_nothing(server, box):
    for _ in range(100):
        assert server.delete(f"/v1/listeners/{opened(server, box)['port']}").status == 204
    assert b"\ncove_listeners 0" in server.get("/metrics").body


@pytest.mark.parametrize("body, status, words", [
    ({}, 400, "sandbox is missing"),
    ({"sandbox": ""}, 400, "sandbox is missing"),
    ({"sandbox": 5}, 400, "sandbox"),
    ({"sandbox": "nobody"}, 404, "sandbox not found: nobody"),
    ({"sandbox": "nobody", "listen": "nonsense"}, 400, "listen: 'nonsense' is not an address"),
    ({"sandbox": "nobody", "listen": "127.0.0.1:70000"}, 400, "listen"),
    ({"sandbox": "nobody", "listen": 8888}, 400, "listen"),
    ({"sandbox": "nobody", "listen": "0.0.0.0:0"}, 403, "reachable from other machines"),
])
def test_bad_requests_say_what_is_wrong(server, body, status, words):
    answer = server.post("/v1/listeners", body)
    assert answer.status == status and words in answer.json["error"], answer


def test_a_port_that_is_taken_is_told(server, box):
    answer = server.post("/v1/listeners", {"listen": f"127.0.0.1:{server.port}", "sandbox": box})
    assert answer.status == 409 and f"127.0.0.1:{server.port}" in answer.json["error"]


@pytest.mark.parametrize("port, status", [("1", 404), ("0", 400), ("x", 400), ("70000", 400)])
def test_closing_what_is_not_open(server, port, status):
    assert server.delete(f"/v1/listeners/{port}").status == status
    assert server.delete(f"/v1/listeners/{server.port}").status == 404, "the server's own"


def test_ipv6_loopback(server, box):
    try:
        port = opened(server, box, "[::1]:0")["port"]
    except AssertionError:
        pytest.skip("this machine has no IPv6")
    assert ask(port, "/status/", host="::1").status == 200
    server.delete(f"/v1/listeners/{port}")


def test_their_number_is_bounded(server, box):
    ports = [opened(server, box)["port"] for _ in range(64)]
    answer = server.post("/v1/listeners", {"sandbox": box})
    assert answer.status == 429 and "64 listeners" in answer.json["error"]
    for port in ports:
        server.delete(f"/v1/listeners/{port}")
    server.delete(f"/v1/listeners/{opened(server, box)['port']}")


def test_every_tenant_has_its_own(fresh_server):
    server, tenants = server_with_tenants("red", "blue")
    with contextlib.closing(server):
        red, blue = tenants["red"], tenants["blue"]
        for tenant in (red, blue):
            assert tenant.request("PUT", at("box"), {}).status == 200
        listener = red.request("POST", "/v1/listeners", {"sandbox": "box"}).json
        port = listener["port"]
        key = lambda tenant: {"X-API-Key": tenant.key}
        assert ask(port, "/status/").status == 401
        assert ask(port, "/v1/sandboxes").status == 401
        assert ask(port, "/status/", key(red)).status == 200
        assert ask(port, "/status/", basic(f"box:{red.key}")).status == 200
        foreign = ask(port, "/status/", key(blue))
        assert (foreign.status, foreign.json) == (404, {"detail": "sandbox not found: box"}), "though blue has one of that name"
        assert blue.request("GET", "/v1/listeners").json == {"listeners": []}
        assert blue.request("DELETE", f"/v1/listeners/{port}").status == 404
        assert blue.request("POST", "/v1/listeners", {"sandbox": "nobody"}).status == 404
        assert ask(port, "/status/", key(red)).status == 200
        # What a tenant could take from others on this machine is an operator's to give.
        for listen in ("127.0.0.1:45454", "0.0.0.0:0"):
            refused = red.request("POST", "/v1/listeners", {"sandbox": "box", "listen": listen})
            assert refused.status == 403 and "operator" in refused.json["error"]
        operator = make_key(server, "red", "--operator")["key"]
        everywhere = server.post("/v1/listeners", {"sandbox": "box", "listen": "0.0.0.0:0"}, headers={"X-API-Key": operator})
        assert everywhere.status == 201 and ask(everywhere.json["port"], "/status/", key(red)).status == 200


# --- of the configuration

def bound_port(server, name):
    found = re.search(rf"serving one sandbox on http://127\.0\.0\.1:(\d+) sandbox={name}", server.log)
    return int(found[1])


def test_listeners_of_the_command_line_and_the_file(tmp_path):
    name, other = new_id(), new_id()
    file = tmp_path / "cove.toml"
    file.write_text(f'listeners = ["127.0.0.1:0=sandbox:{other}"]\n')
    for flags in (["--listen", f"127.0.0.1:0=sandbox:{name}", "--listen", f"127.0.0.1:0=sandbox:{other}"], ["--config", file, "--listeners", f"127.0.0.1:0=sandbox:{name},127.0.0.1:0=sandbox:{other}"]):
        with Server(*flags) as server:
            port = bound_port(server, name)
            assert bound_port(server, other) not in (port, server.port)
            absent = ask(port, "/status/")
            assert (absent.status, absent.json) == (404, {"detail": f"sandbox not found: {name}"})
            server.create(name)
            assert ask(port, "/status/").json == {"status": "ok"}
            assert ask(port, "/v1/sandboxes").status == 404
            assert server.get("/v1/listeners").json == {"listeners": []}
            assert server.delete(f"/v1/listeners/{port}").status == 404
    with Server("--config", file) as server:
        assert bound_port(server, other)


@pytest.mark.parametrize("text, words", [
    ("127.0.0.1:0=sandbox:", "127.0.0.1:8888=sandbox:NAME"),
    ("nonsense=sandbox:demo", "127.0.0.1:8888=sandbox:NAME"),
    ("127.0.0.1:0=box:demo", "is not an address"),
])
def test_a_wrong_listener_is_refused_at_the_start(text, words, tmp_path):
    done = subprocess.run([COVE, "serve", "--listen", text, "--state-dir", tmp_path / "state"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_without_keys_no_other_machine_is_let_in(tmp_path):
    done = subprocess.run([COVE, "serve", "--listen", "127.0.0.1:0", "--listen", "0.0.0.0:0=sandbox:demo", "--state-dir", tmp_path / "state", "--pool-size=0"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "0.0.0.0:0 is reachable from other machines" in done.stderr, done.stderr


def test_a_listener_of_the_configuration_is_there_again_after_a_crash_of_the_front():
    import os
    import signal
    from hostile import front
    name = new_id()
    with Server("--listen", f"127.0.0.1:0=sandbox:{name}") as server:
        server.create(name)
        port = bound_port(server, name)
        opened_port = opened(server, name)["port"]
        os.kill(front(server), signal.SIGKILL)

        def back():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return ask(port, "/status/").status == 200
        assert wait_until(back, 30), "on the same port"
        assert not listening(opened_port) and server.get("/v1/listeners").json == {"listeners": []}
