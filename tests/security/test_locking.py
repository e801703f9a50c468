"""A server that runs without keys, from the moment the first one is made."""
import contextlib
import http.client
import time

import pytest

from conftest import cove, wait_until
from hostile import Tenant, make_key, revoke_key
from mcp_client import Legacy
from server import Server, at


@pytest.fixture
def server():
    with Server("--mcp-sse") as server:
        yield server


def lock(server):
    """Makes the first key; {"id", "key"}."""
    made = cove("key", "create", "--tenant", "alice", "--json", "--state-dir", server.state_dir)
    assert made.status == 0, made.stderr
    return made.result


def closed(server):
    """Every door asks for a key, and so does what is no door."""
    asked = [("GET", "/v1/sandboxes"), ("PUT", "/v1/sandboxes/x"), ("POST", "/v1/execute"), ("GET", "/v1/sessions"), ("POST", "/mcp"), ("GET", "/sse"),
             ("POST", "/workspace/se/session/x"), ("GET", "/v1/events"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/nothing")]
    return {request: server.request(*request, body=b"{}" if request[0] != "GET" else None).status for request in asked}


def test_the_first_key_locks_every_door_of_a_running_server(server):
    server.create("before")
    assert server.get("/v1/sandboxes").status == 200
    made = lock(server)
    assert set(closed(server).values()) == {401}, closed(server)
    assert server.get("/healthz").status == 200
    assert server.get("/v1/sandboxes", headers={"Authorization": "Bearer wrong"}).status == 401
    assert server.post(at("before", "exec"), {"cmd": ["id"]}).status == 401
    assert Tenant(server, made["key"]).get("/v1/sandboxes").status == 200
    assert "first key was created" in server.log


def test_the_last_key_revoked_does_not_open_it_again_and_neither_does_a_restart(server):
    made = lock(server)
    assert server.get("/v1/sandboxes").status == 401
    revoke_key(server, made["id"])
    assert server.get("/v1/sandboxes").status == 401
    server.stop()
    server.start()
    assert server.get("/v1/sandboxes").status == 401


def test_keys_that_vanish_from_the_database_do_not_open_it_again(server):
    """The database is the front's: that there was a key is also known where a front that was taken over cannot write."""
    lock(server)
    assert server.get("/v1/sandboxes").status == 401
    server.stop()
    for path in (server.state_dir / "front").glob("cove.db*"):
        path.unlink()
    server.start()
    assert server.get("/v1/sandboxes").status == 401


def test_streams_that_were_opened_without_a_key_end(server):
    name = server.create()
    process = server.start_process(name, "sleep", "60")
    terminal = server.start_process(name, "sh", pty=True)
    with server.sse("/v1/events") as lifecycle, server.sse(at(name, f"processes/{process['id']}/events"), timeout=20) as output, \
            server.websocket(at(name, f"processes/{terminal['id']}/terminal"), timeout=20) as socket, server.websocket("/mcp/line", timeout=20) as line:
        assert lifecycle.status == output.status == 200 and socket.status == line.status == 101
        lock(server)
        began = time.monotonic()
        for each in (socket.read, line.read, lifecycle.next, output.next):
            with contextlib.suppress(OSError, http.client.HTTPException):
                while each() is not None:
                    pass
        assert 0.05 < time.monotonic() - began < 10


def test_a_session_that_was_begun_without_a_key_is_nobodys(server):
    client = Legacy(server)
    assert client.request("tools/list")["tools"]
    made = lock(server)
    answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}, headers=client.base)
    assert answer.status == 401
    answer = Tenant(server, made["key"]).post("/mcp", {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}, headers=client.base)
    assert answer.status == 404


def test_a_key_that_is_revoked_ends_what_it_opened(server):
    made = lock(server)
    tenant = Tenant(server, made["key"])
    name = tenant.create()
    with tenant.sse("/v1/events") as stream:
        assert stream.status == 200
        other = make_key(server, "bob")["key"]
        revoke_key(server, made["id"])
        with contextlib.suppress(OSError, http.client.HTTPException):
            while stream.next() is not None:
                pass
        assert Tenant(server, other).get("/v1/sandboxes").status == 200
    assert wait_until(lambda: tenant.get(at(name)).status == 401)
