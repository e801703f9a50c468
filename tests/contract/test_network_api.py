"""The way out of a sandbox: policies at creation and while it lives, names, ports, private addresses, the log."""
import http.server
import os
import signal
import socket
import threading
import time

import pytest
from conftest import wait_until
from hostile import make_key
from names import NameServer
from server import Server, new_id

CONNECT = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as line:
        line.sendall(b"GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
        data = b""
        while piece := line.recv(65536): data += piece
        print(data.decode().splitlines()[-1] if data else "nothing")
except OSError as error:
    print(error)
"""


class Web(http.server.ThreadingHTTPServer):
    """Answers "hello" and remembers the heads of requests."""

    daemon_threads = True

    def __init__(self):
        self.seen = []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                web.seen.append(dict(self.headers.items()))
                body = b"hello"
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def web():
    web = Web()
    yield web
    web.shutdown()


@pytest.fixture(scope="module")
def names():
    with NameServer(ok_test=["127.0.0.1"], sub_ok_test=["127.0.0.1"], other_test=["127.0.0.1"], private_test=["10.0.0.1"]) as names:
        yield names


@pytest.fixture(scope="module")
def served(names):
    with Server("--resolver", names.address) as server:
        yield server


def fetch(server, box, name, port):
    return server.exec(box, "python3", "-c", CONNECT, name, str(port))["stdout"].strip()


def records(server, box, **wanted):
    found = server.get(f"/v1/sandboxes/{box}/network/log?limit=1000").json["records"]
    return [one for one in found if all(one.get(key) == value for key, value in wanted.items())]


def test_without_a_policy_there_is_no_way_out(served, web, names):
    box = served.create()
    assert served.get(f"/v1/sandboxes/{box}/network").json["mode"] == "none"
    assert "Name or service not known" in fetch(served, box, "ok.test", web.port)
    assert "Network is unreachable" in fetch(served, box, "198.18.0.1", web.port)
    assert "ok.test" not in names.asked


def test_what_is_listed_is_reached_and_nothing_else(served, web, names):
    box = served.create(network={"mode": "allow", "allow": [f"ok.test:{web.port}", "127.0.0.1"]})
    assert fetch(served, box, "ok.test", web.port) == "hello"
    assert fetch(served, box, "OK.Test.", web.port) == "hello"
    asked = len(names.asked)
    for name, port in [("other.test", web.port), ("sub.ok.test", web.port), ("ok.test.other.test", web.port), ("ok.test", web.port + 1), ("203.0.113.5", 443)]:
        assert "Network is unreachable" in fetch(served, box, name, port), (name, port)
    assert len(names.asked) == asked, "a name that is denied is not asked for"
    assert records(served, box, name="other.test", verdict="denied") and records(served, box, name="ok.test", verdict="allowed")


def test_a_private_address_must_be_listed_itself(served, web):
    box = served.create(network={"mode": "allow", "allow": ["ok.test", "private.test"]})
    assert fetch(served, box, "ok.test", web.port) != "hello"
    assert "hello" not in fetch(served, box, "private.test", 80)
    assert records(served, box, name="ok.test", verdict="denied")


def test_a_policy_changes_while_the_sandbox_lives(served, web):
    box = served.create()
    path = f"/v1/sandboxes/{box}/network"
    allowed = served.put(path, {"mode": "allow", "allow": ["ok.test", "127.0.0.0/8"]})
    assert allowed.status == 200 and allowed.json["allow"] == ["ok.test", "127.0.0.0/8"], allowed
    assert fetch(served, box, "ok.test", web.port) == "hello"
    refused = served.put(path, {"mode": "allow", "allow": ["*"]})
    assert refused.status == 400 and "network.allow[0]" in str(refused.json), refused
    assert fetch(served, box, "ok.test", web.port) == "hello", "the policy before holds"
    assert served.put(path, {"mode": "allow", "allow": ["*.ok.test", "127.0.0.0/8"]}).status == 200
    assert "unreachable" in fetch(served, box, "ok.test", web.port)
    assert fetch(served, box, "sub.ok.test", web.port) == "hello"
    assert served.put(path, {"mode": "none"}).json["mode"] == "none"
    assert "Name or service not known" in fetch(served, box, "sub.ok.test", web.port)


def test_public_denies_private_addresses_and_what_is_denied(served, web):
    box = served.create(network={"mode": "public", "deny": ["other.test"]})
    for name in ("ok.test", "other.test", "private.test", "169.254.169.254", "10.0.0.1"):
        assert "hello" not in fetch(served, box, name, web.port)
    assert "Network is unreachable" in fetch(served, box, "169.254.169.254", 80)
    assert "Network is unreachable" in fetch(served, box, "other.test", web.port)


def test_the_host_itself_is_not_reached(served):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        box = served.create(network="public")
        port = listener.getsockname()[1]
        for name in ("127.0.0.1", "localhost", "::1"):
            assert "refused" in fetch(served, box, name, port)
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_a_network_outlives_the_server(names, web):
    with Server("--resolver", names.address) as server:
        box = server.create(network={"mode": "allow", "allow": ["ok.test", "127.0.0.1"]})
        assert fetch(server, box, "ok.test", web.port) == "hello"
        server.restart()
        assert server.get(f"/v1/sandboxes/{box}/network").json["allow"] == ["ok.test", "127.0.0.1"]
        assert fetch(server, box, "ok.test", web.port) == "hello"


def test_NW_25_an_egress_process_that_dies_is_replaced_and_nothing_is_open_meanwhile(names, web):
    with Server("--resolver", names.address) as server:
        box = server.create(network={"mode": "allow", "allow": ["ok.test", "127.0.0.1"]})
        assert fetch(server, box, "ok.test", web.port) == "hello"
        os.kill(server.child("cove-egress"), signal.SIGKILL)
        assert wait_until(lambda: fetch(server, box, "ok.test", web.port) == "hello", 15)


def test_NW_25_policies_that_race_with_deletes_leave_nothing_open(names):
    with Server("--resolver", names.address) as server:
        egress = server.child("cove-egress")
        sockets = lambda: sum(os.readlink(f"/proc/{egress}/fd/{one}").startswith("socket:") for one in os.listdir(f"/proc/{egress}/fd"))
        before = sockets()

        def change(box, statuses):
            for policy in ({"mode": "public"}, {"mode": "none"}, {"allow": ["ok.test"], "existing": "check"}, {"mode": "public"}):
                statuses.append(server.put(f"/v1/sandboxes/{box}/network", policy).status)
        statuses = []
        for round_ in range(12):
            box = server.create()
            changing = [threading.Thread(target=change, args=(box, statuses)) for _ in range(3)]
            for one in changing:
                one.start()
            time.sleep(round_ * 0.004)
            assert server.delete(f"/v1/sandboxes/{box}").status in (200, 204)
            for one in changing:
                one.join()
        assert 200 in statuses and set(statuses) - {200}, statuses
        assert wait_until(lambda: sockets() == before), (sockets(), before)
        assert "cove_networks 0" in server.get("/metrics").body.decode() and server.child("cove-egress") == egress


def test_tenants_may_not_list_private_addresses(names):
    with Server("--resolver", names.address) as server:
        key = make_key(server, "one")["key"]
        answer = server.put(f"/v1/sandboxes/{new_id()}", {"network": {"mode": "allow", "allow": ["10.0.0.0/8"]}}, headers={"Authorization": f"Bearer {key}"})
        assert answer.status == 403 and "10.0.0.0/8" in str(answer.json), answer


@pytest.mark.parametrize("policy, field", [
    ({"mode": "some"}, "network.mode"),
    ({"mode": "allow", "allow": ["exa mple.com"]}, "network.allow[0]"),
    ({"mode": "allow", "allow": "example.com"}, "network.allow"),
    ({"mode": "allow", "allow": ["example.com:0-99999"]}, "network.allow[0]"),
    ({"mode": "allow", "allow": ["*"]}, "network.allow[0]"),
    ({"mode": "allow", "caps": {"connections": -1}}, "network.caps"),
    (["example.com"], "network"),
])
def test_NW_24_bad_policies_are_refused_by_field(served, policy, field):
    answer = served.put(f"/v1/sandboxes/{new_id()}", {"network": policy})
    assert answer.status == 400 and field in str(answer.json), answer


def test_the_log_names_the_sandbox_and_counts_bytes(served, web):
    box = served.create(network={"allow": ["ok.test", "127.0.0.1"]})
    assert fetch(served, box, "ok.test", web.port) == "hello"
    assert wait_until(lambda: records(served, box, event="closed"))
    (closed,) = records(served, box, event="closed")
    assert (closed["sandbox"], closed["name"], closed["address"], closed["port"]) == (box, "ok.test", "127.0.0.1", web.port)
    assert closed["verdict"] == "allowed" and closed["rule"] and closed["bytes_out"] > 20 and closed["bytes_in"] > 50, closed


def test_the_log_can_be_followed(served, web):
    box = served.create(network={"allow": ["ok.test", "127.0.0.1"]})
    with served.sse(f"/v1/sandboxes/{box}/network/log", headers={"Accept": "text/event-stream"}) as stream:
        assert fetch(served, box, "ok.test", web.port) == "hello"
        fetch(served, box, "other.test", web.port)
        seen = []
        while not any(one["name"] == "other.test" for one in seen):
            event = stream.next()
            seen.append(event["data"] if isinstance(event, dict) else event)
        assert [one["name"] for one in seen if one["event"] == "closed"] == ["ok.test"], seen
        assert [one["number"] for one in seen] == sorted(one["number"] for one in seen)


def test_metrics_count_decisions_and_bytes(served, web):
    def figure(name):
        line = [line for line in served.get("/metrics").body.decode().splitlines() if line.startswith(name + " ")]
        return float(line[0].split()[1])
    before = {name: figure(f"cove_network_{name}_total") for name in ("allowed", "denied", "bytes_in", "bytes_out")}
    box = served.create(network={"allow": ["ok.test", "127.0.0.1"]})
    fetch(served, box, "ok.test", web.port)
    fetch(served, box, "other.test", web.port)
    assert wait_until(lambda: all(figure(f"cove_network_{name}_total") > value for name, value in before.items()))
    assert figure("cove_networks") >= 1


def test_learning_proposes_what_was_used(served, web):
    box = served.create(network={"allow": ["127.0.0.1"], "learn": True})
    assert fetch(served, box, "ok.test", web.port) == "hello"
    assert served.get(f"/v1/sandboxes/{box}/network").json["proposed"] == [f"ok.test:{web.port}"]


def test_a_server_of_the_workspace_api_that_allows_network(web):
    code = "import socket\ndef handler(event):\n    try:\n        return socket.gethostbyname('ok.test')\n    except OSError as error:\n        return str(error)"
    for value, wanted in (("true", "198.18."), ("false", "Name or service not known")):
        with NameServer(ok_test=["192.0.2.1"]) as names, Server("--resolver", names.address, env={"SANDBOX_ALLOW_NETWORK": value}) as server:
            said = server.post("/workspace/se/v2/execute_code", {"handler_code": code, "event": {}})
            assert wanted in str(said.json), (value, said)


def test_kernels_of_jupyter_clients_ask_by_a_variable(served):
    def policy(**env):
        made = served.post("/api/kernels", {"name": "python3", "env": env})
        assert made.status == 201, made
        boxes = [one["id"] for one in served.get("/v1/sandboxes").json["sandboxes"] if one["id"].startswith("jupyter-")]
        found = [served.get(f"/v1/sandboxes/{one}/network").json for one in boxes]
        served.delete(f"/api/kernels/{made.json['id']}")
        return found[-1]
    assert policy()["mode"] == "none"
    assert policy(KERNEL_NETWORK="public")["mode"] == "public"
    assert policy(KERNEL_NETWORK="ok.test:443,*.ok.test")["allow"] == ["ok.test:443", "*.ok.test"]
    refused = served.post("/api/kernels", {"name": "python3", "env": {"KERNEL_NETWORK": "http://x"}})
    assert refused.status == 400 and "KERNEL_NETWORK" in str(refused.json), refused
