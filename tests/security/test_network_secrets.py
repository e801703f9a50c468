"""Secrets at the edge: a header that is added outside of a sandbox to requests for one host never comes inside, and goes to nobody else (docs/attacks.md, NW-23)."""
import base64
import http.server
import json
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

import pytest
from conftest import wait_until
from names import NameServer
from server import Server

SECRET = "s3cr3t-Token/with+signs=="
VALUE = f"Bearer {SECRET}"


class Echo(http.server.ThreadingHTTPServer):
    """Tells everything that it was sent, in many forms."""

    daemon_threads = True

    def __init__(self, context=None):
        self.seen = []
        echo = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                echo.seen.append((self.command, self.path, dict(self.headers.items())))
                value = self.headers.get("authorization", "")
                if self.path.startswith("/to?"):
                    self.send_response(302)
                    self.send_header("location", self.path[4:])
                    self.send_header("x-echo", value)
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                if self.path == "/forms":  # as many programs write it: PHP, Go, HTML, encodeURI, quote(), form data, all headers in base64, escapes in lower case
                    token = value.partition(" ")[2]
                    codes = "".join(f"\\u{ord(c):04x}" for c in token)
                    echoed = [json.dumps(value).replace("/", "\\/"), json.dumps(value).replace("+", "\\u002b").replace("=", "\\u003D"), codes, token.replace("+", "&#43;").replace("=", "&#x3D;"), urllib.parse.quote(token), urllib.parse.quote(token, safe="+="),
                              urllib.parse.quote(token, safe="").lower().replace("-t", "-T"), *(base64.b64encode(b"." * n + value.encode() + b".").decode() for n in range(3)), base64.urlsafe_b64encode(b"x" + token.encode() + b"yz").decode(), token.encode().hex(), value.encode().hex().upper()]
                    body = "\n".join(echoed).encode()
                    self.send_response(200)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                forms = {"head": str(self.headers), "plain": value, "base64": base64.b64encode(value.encode()).decode(), "quoted": urllib.parse.quote(value, safe=""), "token": value.partition(" ")[2]}
                body = json.dumps(forms).encode()
                self.send_response(500 if self.path == "/error" else 206 if self.path == "/part-anyway" else 200, value if self.path == "/reason" else None)
                self.send_header("x-echo", value)
                if self.path == "/chunks":  # one byte in each
                    self.send_header("transfer-encoding", "chunked")
                    self.end_headers()
                    for n in range(len(body)):
                        self.wfile.write(b"1\r\n" + body[n:n + 1] + b"\r\n")
                    self.wfile.write(b"0\r\n\r\n")
                    return
                if self.path == "/close":
                    self.send_header("connection", "close")
                    self.end_headers()
                    self.wfile.write(body)
                    self.close_connection = True
                    return
                asked = self.headers.get("range") or self.headers.get("request-range")
                if self.path == "/part" and asked:
                    begin, end = map(int, asked.removeprefix("bytes=").split("-"))
                    body = body[begin:end + 1]
                if self.path == "/packed" and "gzip" in self.headers.get("accept-encoding", ""):
                    import gzip
                    body = gzip.compress(body)
                    self.send_header("content-encoding", "gzip")
                if self.path == "/packed-anyway":
                    import gzip
                    body = gzip.compress(body)
                    self.send_header("content-encoding", "gzip")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_TRACE = do_POST = do_OPTIONS = do_GET

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def value(self):
        """The header of the last request."""
        return {name.lower(): value for name, value in self.seen[-1][2].items()}.get("authorization")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate authority of its own for upstream servers: the server's outbound.ca_file."""
    where = tmp_path_factory.mktemp("ca")
    where.chmod(0o755)
    for parent in list(where.parents)[:3]:
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    run = lambda *words: subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority", "-keyout", where / "ca.key", "-out", where / "ca.pem")
    (where / "names").write_text("subjectAltName=DNS:api.test,DNS:other.test\n")
    run("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=api.test", "-keyout", where / "server.key", "-out", where / "server.csr")
    run("x509", "-req", "-in", where / "server.csr", "-CA", where / "ca.pem", "-CAkey", where / "ca.key", "-CAcreateserial", "-days", "2", "-extfile", where / "names", "-out", where / "server.pem")
    return where


@pytest.fixture(scope="module")
def plain():
    echo = Echo()
    yield echo
    echo.shutdown()


@pytest.fixture(scope="module")
def secure(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    echo = Echo(context)
    yield echo
    echo.shutdown()


@pytest.fixture(scope="module")
def served(authority):
    with NameServer(api_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names, Server("--resolver", names.address, f"--outbound-ca-file={authority / 'ca.pem'}") as server:
        yield server


@pytest.fixture(scope="module")
def policy(plain, secure):
    return {"allow": ["api.test", "other.test", "127.0.0.1"], "headers": [{"host": "api.test", "header": "Authorization", "value": VALUE}]}


@pytest.fixture(scope="module")
def box(served, policy):
    return served.create(network=policy)


def curl(server, box, *words):
    return server.exec(box, "curl", "-sS", "-m", "20", *words, timeoutSeconds=40)


def hides(text):
    return not any(form in text for form in (SECRET, base64.b64encode(VALUE.encode()).decode(), base64.b64encode(SECRET.encode()).decode(), urllib.parse.quote(SECRET, safe="")))


WAYS = ["", "-p -x http://127.0.0.1:3128", "-x http://127.0.0.1:3128", "-x socks5h://127.0.0.1:3128"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_header_is_added_outside(served, box, plain, secure, scheme, way):
    echo = secure if scheme == "https" else plain
    done = curl(served, box, *way.split(), "-H", "Authorization: of-the-program", f"{scheme}://api.test:{echo.port}/x")
    assert done["exitCode"] == 0 and echo.value() == VALUE and "of-the-program" not in str(echo.seen[-1]), done
    assert hides(done["stdout"] + done["stderr"]), done


@pytest.mark.parametrize("path", ["/", "/chunks", "/close", "/error", "/reason", "/packed", "/part"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_NW_23_what_a_server_repeats_does_not_come_back(served, box, plain, secure, scheme, path):
    echo = secure if scheme == "https" else plain
    done = curl(served, box, "-i", "--raw", *(["-H", "Range: bytes=10-20", "-H", "Request-Range: bytes=10-20"] if path == "/part" else []), "-H", "Accept-Encoding: gzip", f"{scheme}://api.test:{echo.port}{path}")
    assert echo.value() == VALUE and done["exitCode"] == 0, done
    assert hides(done["stdout"] + done["stderr"]) and "****" in done["stdout"].replace("1\r\n", "").replace("\r\n", ""), done
    joined = "".join(line for line in done["stdout"].split("\r\n") if line != "1")
    assert hides(joined), "nor in pieces"


def test_NW_23_trace_and_compressed_answers_are_refused(served, box, plain):
    seen = len(plain.seen)
    assert "405" in curl(served, box, "-i", "-X", "TRACE", f"http://api.test:{plain.port}/")["stdout"]
    assert len(plain.seen) == seen
    done = curl(served, box, "-i", f"http://api.test:{plain.port}/packed-anyway")
    assert "502 Bad Gateway" in done["stdout"] and hides(done["stdout"])


def test_NW_23_an_answer_in_parts_is_refused(served, box, plain):
    done = curl(served, box, "-i", f"http://api.test:{plain.port}/part-anyway")
    assert "502 Bad Gateway" in done["stdout"] and "in parts" in done["stdout"] and hides(done["stdout"]), done


def test_NW_23_forms_that_programs_write_are_hidden_too(served, box, plain):
    done = curl(served, box, f"http://api.test:{plain.port}/forms")
    lines = done["stdout"].split("\n")
    assert len(lines) == 13 and all("******" in line for line in lines), done
    middle = base64.b64encode(VALUE.encode())[8:32].decode()
    assert not any(part in done["stdout"] for part in ("s3cr3t", "with", "signs", middle, SECRET.encode().hex()[8:24])), done


@pytest.mark.parametrize("way", ["", "-p -x http://127.0.0.1:3128", "-x http://127.0.0.1:3128"])
def test_NW_23_port_443_gets_it_within_tls_alone(served, way):
    try:
        listener = socket.create_server(("127.0.0.1", 443))
    except OSError:
        pytest.skip("port 443 of this machine is taken, or needs root")
    with listener:
        heard = []

        def hear():
            while True:
                try:
                    line, _ = listener.accept()
                    heard.append(line.recv(1000))
                    line.close()
                except ConnectionResetError:
                    heard.append(b"")
                except OSError:
                    return
        threading.Thread(target=hear, daemon=True).start()
        box = served.create(network={"allow": ["api.test:443", "127.0.0.1:443"], "headers": [{"host": "api.test", "ports": "443", "header": "authorization", "value": VALUE}]})
        done = curl(served, box, "-i", *way.split(), "http://api.test:443/")
        listener.shutdown(socket.SHUT_RDWR)
        assert not any(heard), "nothing of it passed in clear"
        assert wait_until(lambda: any("port 443 without TLS" in str(one.get("rule")) for one in served.get(f"/v1/sandboxes/{box}/network/log?limit=1000").json["records"])), done


def test_NW_23_a_value_that_is_left_out_does_not_move_to_other_ports(served, plain):
    rule = {"host": "api.test", "ports": "443", "header": "authorization"}
    box = served.create(network={"allow": ["api.test", "127.0.0.1"], "headers": [{**rule, "value": VALUE}]})
    path = f"/v1/sandboxes/{box}/network"
    assert served.put(path, {"allow": ["api.test", "127.0.0.1"], "headers": [rule]}).status == 200
    for ports in ({"ports": str(plain.port)}, {"ports": None}, {"ports": f"443,{plain.port}"}):
        refused = served.put(path, {"allow": ["api.test", "127.0.0.1"], "headers": [{**rule, **ports}]})
        assert refused.status == 400 and "network.headers[0].value" in str(refused.json), refused
    curl(served, box, f"http://api.test:{plain.port}/")
    assert plain.value() is None


def test_NW_23_a_program_cannot_hold_up_a_policy_by_its_files(served, plain):
    box = served.create(network={"allow": ["api.test", "127.0.0.1"]})
    served.exec(box, "sh", "-c", "mkdir -p ~/.cove && cd ~/.cove && mkfifo ca-certificates.crt authority.pem")
    path, headers = f"/v1/sandboxes/{box}/network", [{"host": "api.test", "header": "authorization", "value": VALUE}]
    began = time.monotonic()
    served.put(path, {"allow": ["api.test", "127.0.0.1"], "headers": headers})
    assert served.put(path, {"mode": "none"}).status == 200 and time.monotonic() - began < 10
    served.exec(box, "sh", "-c", "rm -rf ~/.cove && touch ~/.cove")
    refused = served.put(path, {"mode": "public", "headers": headers})
    assert refused.status >= 400 and ".cove" in str(refused.json), refused
    assert served.get(path).json["mode"] == "none", "what held before goes on"


@pytest.mark.parametrize("way", WAYS)
def test_NW_23_nobody_else_gets_it(served, box, plain, secure, way):
    for echo, scheme in ((plain, "http"), (secure, "https")):
        curl(served, box, *way.split(), "-k", f"{scheme}://other.test:{echo.port}/")
        assert echo.value() is None
        done = curl(served, box, *way.split(), "-k", "-L", "-i", f"{scheme}://api.test:{echo.port}/to?{scheme}://other.test:{echo.port}/")
        assert echo.seen[-1][1] == "/" and echo.value() is None and hides(done["stdout"]), done


def test_NW_23_another_host_at_the_same_address_does_not_get_it(served, box, plain, secure):
    for echo, scheme in ((plain, "http"), (secure, "https")):
        seen = len(echo.seen)
        done = curl(served, box, "-i", "-H", f"Host: other.test:{echo.port}", f"{scheme}://api.test:{echo.port}/")
        assert " 421 " in done["stdout"] and len(echo.seen) == seen, done
    seen = len(secure.seen)
    done = curl(served, box, "-k", "--connect-to", f"other.test:{secure.port}:api.test:{secure.port}", f"https://other.test:{secure.port}/")
    assert done["exitCode"] != 0 and len(secure.seen) == seen, done
    refused = served.get(f"/v1/sandboxes/{box}/network/log?limit=1000").json["records"]
    assert any("sni" in str(one.get("rule")) for one in refused)


def test_NW_23_a_server_that_does_not_prove_who_it_is_does_not_get_it(policy, secure):
    with NameServer(api_test=["127.0.0.1"]) as names, Server("--resolver", names.address) as server:
        box, seen = server.create(network=policy), len(secure.seen)
        done = curl(server, box, "-k", f"https://api.test:{secure.port}/")
        assert done["exitCode"] != 0 and len(secure.seen) == seen, done


def test_NW_23_the_value_is_nowhere_to_be_read(served, box, policy):
    for path in ("", "/network", "/network/log?limit=1000"):
        assert hides(served.get(f"/v1/sandboxes/{box}{path}").body.decode())
    assert served.get(f"/v1/sandboxes/{box}/network").json["headers"] == [{"host": "api.test", "header": "authorization"}]
    assert hides(served.get("/v1/events").body.decode()) and hides(served.log)
    inside = served.exec(box, "sh", "-c", f"env; cat /proc/self/environ; grep -rl {SECRET.replace('+', '.')} /tmp /home /workspace /run /dev/shm /etc 2>/dev/null; curl -s http://127.0.0.1:3128/", timeoutSeconds=120)
    assert hides(inside["stdout"]), inside
    for file in served.state_dir.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file


def test_a_value_that_is_left_out_stays(served, plain, policy):
    box = served.create(network=policy)
    path = f"/v1/sandboxes/{box}/network"
    changed = {**policy, "allow": [*policy["allow"], "more.test"], "headers": [{"host": "api.test", "header": "authorization"}]}
    assert served.put(path, changed).status == 200
    curl(served, box, f"http://api.test:{plain.port}/")
    assert plain.value() == VALUE
    assert served.put(path, {**policy, "headers": []}).status == 200
    curl(served, box, f"http://api.test:{plain.port}/")
    assert plain.value() is None
    refused = served.put(path, {**policy, "headers": [{"host": "api.test", "header": "authorization"}]})
    assert refused.status == 400 and "network.headers[0].value" in str(refused.json), refused


PROGRAMS = {
    "python": ["python3", "-c", "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).status)"],
    "requests": ["python3", "-c", "import sys, requests; print(requests.get(sys.argv[1]).status_code)"],
    "node": ["node", "-e", "fetch(process.argv[1]).then(answer => console.log(answer.status), error => console.log(error))"],
    "curl": ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_trust_the_authority_of_their_sandbox(served, box, secure, program):
    words = PROGRAMS[program]
    if program == "requests" and served.exec(box, "python3", "-c", "import requests")["exitCode"] != 0:
        pytest.skip("python3-requests is not installed")
    if program == "node" and served.exec(box, "sh", "-c", "command -v node && node -e 'fetch'")["exitCode"] != 0:
        pytest.skip("needs node 18")
    done = served.exec(box, *words, f"https://api.test:{secure.port}/p", timeoutSeconds=60)
    assert done["stdout"].strip() == "200" and secure.value() == VALUE, done


def test_only_sandboxes_with_such_rules_trust_another_authority(served, box, secure):
    other = served.create(network={"allow": ["api.test", "127.0.0.1"]})
    assert served.exec(other, "sh", "-c", "echo $SSL_CERT_FILE; ls -a ~/.cove 2>&1")["stdout"].startswith("\n")
    names = served.exec(box, "openssl", "x509", "-in", "/home/cove/.cove/authority.pem", "-noout", "-ext", "nameConstraints,basicConstraints")
    if names["exitCode"] == 0:
        assert "DNS:api.test" in names["stdout"] and "pathlen:0" in names["stdout"], names


def test_it_outlives_the_server_and_its_egress_process(policy, plain, secure, authority):
    import os, signal
    with NameServer(api_test=["127.0.0.1"]) as names, Server("--resolver", names.address, f"--outbound-ca-file={authority / 'ca.pem'}") as server:
        box = server.create(network=policy)
        server.restart()
        assert curl(server, box, f"https://api.test:{secure.port}/")["exitCode"] == 0 and secure.value() == VALUE
        os.kill(server.child("cove-egress"), signal.SIGKILL)
        assert wait_until(lambda: curl(server, box, f"https://api.test:{secure.port}/")["exitCode"] == 0, 15)
