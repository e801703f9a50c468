"""Attacks on the way out of a sandbox through its proxy, its names and its TLS (docs/attacks.md, NW). Servers and name servers are on loopback; nothing leaves this machine."""
import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading

import pytest
from conftest import wait_until
from hostile import make_key
from names import NameServer
from server import Server
from web import Web

PROXY = ("127.0.0.1", 3128)


@pytest.fixture(scope="module")
def names():
    with NameServer(ok_test=["127.0.0.1"], other_test=["127.0.0.1"], inside_test=["127.0.0.1"]) as names:
        yield names


@pytest.fixture(scope="module")
def served(names):
    with Server("--resolver", names.address) as server:
        yield server


class Redirecting(Web):
    """/to?URL redirects there."""

    def __init__(self):
        super().__init__()
        handler = self.RequestHandlerClass
        plain = handler.do_GET

        def do_GET(request):
            if not request.path.startswith("/to?"):
                return plain(request)
            request.server.paths.append(request.path)
            request.send_response(302)
            request.send_header("location", request.path[4:])
            request.send_header("content-length", "0")
            request.end_headers()
        handler.do_GET = do_GET


@pytest.fixture(scope="module")
def web():
    with Redirecting() as web:
        yield web


@pytest.fixture(scope="module")
def box(served, web):
    return served.create(network={"allow": [f"ok.test:{web.port}", f"127.0.0.1:{web.port}"]})


TALK = """
import socket, sys, json
pieces = json.loads(sys.argv[1])
with socket.create_connection(("127.0.0.1", 3128), 20) as line:
    answer = b""
    try:
        for piece, times in [one if isinstance(one, list) else [one, 1] for one in pieces]: line.sendall(piece.encode("latin-1") * times)
        while data := line.recv(65536): answer += data
    except OSError as error:
        answer += f"[{error.errno}]".encode()
print(json.dumps(answer.decode("latin-1")))
"""


def talk(server, box, *pieces):
    """What the proxy answers to these bytes."""
    result = server.exec(box, "python3", "-c", TALK, json.dumps(pieces), timeoutSeconds=60)
    assert result["exitCode"] == 0, result
    return json.loads(result["stdout"])


def records(server, box, **wanted):
    found = server.get(f"/v1/sandboxes/{box}/network/log?limit=1000").json["records"]
    return [one for one in found if all(one.get(key) == value for key, value in wanted.items())]


def test_NW_05_unix_sockets_of_the_host_are_absent(served, box, tmp_path):
    with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_UNIX) as abstract:
        path = str(tmp_path / "host.sock")
        by_path.bind(path)
        by_path.listen()
        name = f"cove-test-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen()
        paths = [path, "/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify", "/run/udev/control"]
        
        result = served.exec(box, "python3", "-c", """
import json, os, socket, sys
answers = {}
for path in json.loads(sys.argv[1]):
    with socket.socket(socket.AF_UNIX) as line:
        try: line.connect(path if path.startswith("/") else chr(0) + path); answers[path] = "connected"
        except OSError as error: answers[path] = error.errno
answers["agent"] = os.environ.get("SSH_AUTH_SOCK", "")
print(json.dumps(answers))""", json.dumps([*paths, name]))
        answers = json.loads(result["stdout"])
        assert answers.pop("agent") == ""
        assert set(answers.values()) <= {1, 2, 13, 111}, answers  # EPERM, ENOENT, EACCES, ECONNREFUSED
        for listener in (by_path, abstract):
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()


@pytest.mark.parametrize("way", ["", "-x http://127.0.0.1:3128", "-x socks5h://127.0.0.1:3128"])
def test_NW_12_a_redirect_is_judged_anew(served, box, web, way):
    for target in (f"http://inside.test:{web.port}/secret", "http://169.254.169.254/latest", f"http://127.0.0.1:{web.port}/secret", "http://10.0.0.1/", f"http://ok.test:{web.port + 1}/"):
        seen = len(web.paths)
        result = served.exec(box, "curl", "-sS", "-L", "-m", "10", *way.split(), "-w", "%{http_code}", f"http://ok.test:{web.port}/to?{target}", timeoutSeconds=30)
        assert "hello" not in result["stdout"] and (result["exitCode"] != 0 or result["stdout"].endswith("403")), (target, result)
        assert web.paths[seen:] == [f"/to?{target}"], target


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ok.test", "-addext", "subjectAltName=DNS:ok.test,DNS:other.test", "-keyout", directory / "key", "-out", directory / "cert"], check=True, capture_output=True)
    return directory


@pytest.fixture(scope="module")
def tls(certificate):
    """A server whose connections are counted; it speaks TLS, or echoes nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    listener = socket.create_server(("127.0.0.1", 0))
    shaken = []

    def serve():
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(line, server_side=True) as secure:
                    shaken.append(1)
                    secure.sendall(b"secure")
            except (OSError, ssl.SSLError):
                pass
    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1], shaken
    listener.close()


SHAKE = """
import socket, ssl, sys
way, host, port, meant = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
if way == "direct":
    line = socket.create_connection((host, port), 10)
else:
    line = socket.create_connection(("127.0.0.1", 3128), 10)
    line.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
    assert b" 200 " in line.recv(1000)
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
try:
    print(context.wrap_socket(line, server_hostname=meant or None).recv(10).decode())
except OSError as error:
    print("ended", error)
"""


@pytest.mark.parametrize("way", ["direct", "proxy"])
def test_NW_13_another_name_inside_tls_is_refused(served, tls, way):
    port, shaken = tls
    box = served.create(network={"allow": [f"ok.test:{port}", f"127.0.0.1:{port}"]})

    def shake(meant):
        return served.exec(box, "python3", "-c", SHAKE, way, "ok.test", str(port), meant, timeoutSeconds=30)["stdout"].strip()
    assert shake("ok.test") == "secure" and shake("OK.TEST") == "secure"
    before = len(shaken)
    for meant in ("other.test", "ok.test.other.test", "internal"):
        assert shake(meant).startswith("ended"), meant
    assert len(shaken) == before
    assert wait_until(lambda: [one for one in records(served, box, verdict="denied") if "sni: other.test is not ok.test" in one["rule"]])
    served.put(f"/v1/sandboxes/{box}/network", {"allow": [f"ok.test:{port}", f"127.0.0.1:{port}"], "checkSni": False})
    assert shake("other.test") == "secure"


def test_NW_13_port_443_must_speak_tls(served, names):
    try:
        listener = socket.create_server(("127.0.0.1", 443))
    except OSError:
        pytest.skip("port 443 of this machine is taken, or needs root")
    with listener:
        box = served.create(network={"allow": ["ok.test:443", "127.0.0.1:443"]})
        came = []

        def hear():
            with listener.accept()[0] as line:
                try:
                    came.append(line.recv(100))
                except ConnectionResetError:
                    came.append(b"")
        threading.Thread(target=hear, daemon=True).start()
        answer = talk(served, box, "CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n", "GET / HTTP/1.1\r\nHost: internal\r\n\r\n")
        assert " 200 " in answer and "[104]" in answer, answer
        assert wait_until(lambda: came) and came == [b""], "nothing of it passed"
        assert records(served, box, rule="sni: port 443 without TLS")


def test_NW_14_only_ports_of_the_policy(served, box, web):
    for port in (22, 25, 53, 6379, web.port + 1):
        answer = talk(served, box, f"CONNECT ok.test:{port} HTTP/1.1\r\nHost: ok.test:{port}\r\n\r\n")
        assert answer.startswith("HTTP/1.1 403 ") and f"ok.test:{port}" in answer, answer
    for authority in ("ok.test:0", "ok.test:65536", "ok.test:", "ok.test", "ok.test:-1", "ok.test:80x", "ok.test:080", ":80", "ok.test:80:80", "user@ok.test:80", ""):
        answer = talk(served, box, f"CONNECT {authority} HTTP/1.1\r\nHost: ok.test\r\n\r\n")
        assert answer.startswith("HTTP/1.1 400 "), (authority, answer)
    assert records(served, box, kind="proxy", name="ok.test", port=6379, verdict="denied")


BODY = "hello"
SMUGGLED = [
    "POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5, 5\r\n\r\nhello",
    "POST {url} HTTP/1.1\r\nHost: {host}\r\nContent-Length: +5\r\n\r\nhello",
    "POST {url} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n",
    "POST {url} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    "POST {url} HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: {host}\r\nX: 1\r\n folded\r\n\r\n",
    "GET {url} HTTP/1.1\nHost: {host}\n\n",
    "GET {url} HTTP/1.1\r\nHost: {host}\r\nX: 1\nY: 2\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: {host}\r\nX : 1\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: {host}\r\n: 1\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: internal\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: {host}\r\nHost: internal\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: ok.test:1\r\n\r\n",
    "GET http://user@{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET http://{host}#internal HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET http://{host}\\@internal/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET ftp://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET {url} HTTP/2.0\r\nHost: {host}\r\n\r\n",
    "GET {url}\r\n\r\n",
]


@pytest.mark.parametrize("request_text", SMUGGLED)
def test_NW_15_what_two_parsers_could_read_differently_is_refused(served, box, web, request_text):
    host = f"ok.test:{web.port}"
    before = len(web.paths)
    answer = talk(served, box, request_text.format(url=f"http://{host}/", host=host))
    assert answer.startswith(("HTTP/1.1 400 ", "HTTP/1.1 505 ")), answer
    assert len(web.paths) == before


def test_NW_15_nothing_follows_a_request(served, box, web):
    host = f"ok.test:{web.port}"
    before = len(web.paths)
    first = f"GET http://{host}/one HTTP/1.1\r\nHost: {host}\r\n\r\n"
    answer = talk(served, box, first + f"GET /two HTTP/1.1\r\nHost: internal\r\n\r\nGET http://{host}/three HTTP/1.1\r\nHost: {host}\r\n\r\n")
    assert answer.count("HTTP/1.1 200 ") == 1 and "Connection: close" in answer, answer
    assert web.paths[before:] == ["/one"]
    answer = talk(served, box, f"POST http://{host}/one HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n", "5;ext\r\nhello\r\n0\r\n\r\n")
    assert "200" not in answer.partition("\r\n")[0], answer
    assert records(served, box, rule="http: the body is malformed")


def test_NW_16_the_proxy_asks_for_no_name_that_is_denied(served, box, names):
    before = len(names.asked)
    for n in range(20):
        assert " 403 " in talk(served, box, f"CONNECT data-{n}.evil.test:443 HTTP/1.1\r\n\r\n")
        assert " 403 " in talk(served, box, f"GET http://data-{n}.evil.test/ HTTP/1.1\r\n\r\n")
        socks = b"\x05\x01\x00" + b"\x05\x01\x00\x03" + bytes([len(f"data-{n}.evil.test")]) + f"data-{n}.evil.test".encode() + b"\x01\xbb"
        assert talk(served, box, socks.decode("latin-1")).encode("latin-1")[:4] == b"\x05\x00\x05\x02"
    assert names.asked[before:] == []


def test_NW_19_nobody_outside_reaches_a_listener_inside(served, web):
    box, neighbour = served.create(network="public"), served.create(network="public")
    process = served.start_process(box, "python3", "-c", "import socket\nl = socket.create_server(('0.0.0.0', 5099))\nprint('listening', flush=True)\nwhile True: l.accept()[0].close()")
    assert wait_until(lambda: "listening" in served.output(box, process["id"]))
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", 5099), 2)
    addresses = [line.split()[3].split("/")[0] for line in subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True).stdout.splitlines()]
    for address in addresses:
        with pytest.raises(OSError):
            socket.create_connection((address, 5099), 2)
    for address in ("127.0.0.1", *addresses):
        result = served.exec(neighbour, "python3", "-c", f"import socket; socket.create_connection(({address!r}, 5099), 3)")
        assert result["exitCode"] != 0, (address, result)
    with Server() as keyed:
        make_key(keyed, "one")
        assert keyed.get(f"/v1/sandboxes/{box}/ports/5099").status == 401


@pytest.mark.parametrize("pieces, status", [
    (["GET http://ok.test/", ["a", 100_000], " HTTP/1.1\r\n\r\n"], ("414", "431", "400")),
    (["GET http://ok.test/ HTTP/1.1\r\nX: ", ["a", 1_000_000], "\r\n\r\n"], ("431",)),
    (["GET http://ok.test/ HTTP/1.1\r\n", ["X: 1\r\n", 10_000], "\r\n"], ("431",)),
    (["\r\n\r\n"], ("400",)),
    (["\x16\x03\x01\x00\x05hello"], ("400",)),
    (["CONNECT\r\n\r\n"], ("400",)),
    (["GET / HTTP/1.1\r\n\x00: 1\r\n\r\n"], ("400",)),
])
def test_NW_22_malformed_requests_are_answered_and_bounded(served, box, pieces, status):
    answer = talk(served, box, *pieces)
    assert answer.partition(" ")[2][:3] in status or answer in ("[104]", "[32]"), answer[:200]


@pytest.mark.parametrize("bytes_", [b"\x05", b"\x05\x00", b"\x05\x01\x02", b"\x05\x01\x00\x04\x01\x00\x01\x00\x00\x00\x00\x00\x50", b"\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50",
                                    b"\x05\x01\x00\x05\x03\x00\x01\x01\x02\x03\x04\x00\x50", b"\x05\x01\x00\x05\x01\x00\x09", b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50", b"\x05\x01\x00\x05\x01\x00\x03\xff" + b"a" * 255 + b"\x00\x50"])
def test_NW_22_malformed_socks_requests_reach_nothing(served, box, web, bytes_):
    before = len(web.paths)
    script = TALK.replace("        while data", "        line.shutdown(1)\n        while data")
    result = served.exec(box, "python3", "-c", script, json.dumps([bytes_.decode("latin-1")]), timeoutSeconds=60)
    answer = json.loads(result["stdout"]).encode("latin-1")
    assert answer[2:4] != b"\x05\x00" and len(web.paths) == before, answer


def test_NW_22_what_is_no_name_leaves_the_log_and_the_policy_readable(served, web):
    box = served.create(network={"allow": [f"ok.test:{web.port}", f"127.0.0.1:{web.port}"]})
    for host in ("\xff\xfe\x80", "\x1b[2J", 'quo"te\n', "x" * 250):
        answer = talk(served, box, "\x05\x01\x00\x05\x01\x00\x03" + chr(len(host)) + host + "\x00\x50")
        assert answer.startswith("\x05\x00\x05\x02"), answer
    assert served.get(f"/v1/sandboxes/{box}/network").json["mode"] == "allow"
    assert wait_until(lambda: len(records(served, box, rule="malformed host")) == 4), "none is left out"
    assert [one["name"] for one in records(served, box, rule="malformed host")] == ["???", "?[2J", 'quo"te?', "x" * 80 + "…"]


def test_NW_22_who_never_ends_a_request_is_ended_and_holds_up_nobody(served, web):
    box = served.create(network={"allow": [f"ok.test:{web.port}", f"127.0.0.1:{web.port}"]})
    pid = served.child("cove-egress")
    resident = lambda: int(next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])
    before = resident()
    slow = served.start_process(box, "python3", "-c", """
import socket, time
lines = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(200)]
for line in lines: line.sendall(b"GET http://ok.test/ HTTP/1.1\\r\\nX: " + b"a" * 30000)
print("begun", flush=True)
begun = time.monotonic()
for line in lines:
    line.settimeout(40)
    try: line.recv(1)
    except ConnectionResetError: pass
print("ended", time.monotonic() - begun < 35, flush=True)
""")
    assert wait_until(lambda: "begun" in served.output(box, slow["id"]))
    assert resident() - before < 64 << 10, "in KiB"
    result = served.exec(box, "curl", "-sS", "-m", "10", "-x", "http://127.0.0.1:3128", f"http://ok.test:{web.port}/")
    assert result["stdout"] == "hello", result
    assert wait_until(lambda: "ended True" in served.output(box, slow["id"]), 60)


def test_NW_26_an_allowed_host_as_a_mailbox_is_bounded_and_recorded(served, web):
    box = served.create(network={"allow": [f"ok.test:{web.port}", f"127.0.0.1:{web.port}"], "caps": {"bytes": 50_000}})
    result = served.exec(box, "sh", "-c", f"curl -sS http://ok.test:{web.port}/letter; head -c 1000000 /dev/zero | curl -sS -m 10 --data-binary @- -X GET http://ok.test:{web.port}/parcel", timeoutSeconds=30)
    assert result["stdout"].startswith("hello"), result
    assert wait_until(lambda: len(records(served, box, event="closed")) >= 2)
    closed = records(served, box, event="closed")
    assert sum(one["bytes_out"] for one in closed) <= 50_000 + 300_000, "the piece that goes past the bound is the last"
    assert closed[-1]["error"] == "caps.bytes" and all(one["name"] == "ok.test" for one in closed), closed
