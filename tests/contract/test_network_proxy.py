"""The proxy on a sandbox's loopback: CONNECT, http:// addresses and SOCKS 5, with the same decisions as without it; what curl, git, pip and npm say when they are refused."""
import http.server
import json
import threading

import pytest
from names import NameServer
from server import Server

PROXY = "http://127.0.0.1:3128"


class Site(http.server.ThreadingHTTPServer):
    """Answers with what it was sent; /to?URL redirects."""

    daemon_threads = True

    def __init__(self):
        self.seen = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, body=b""):
                site.seen.append((self.command, self.path, dict(self.headers.items()), body))
                if self.path.startswith("/to?"):
                    self.send_response(302)
                    self.send_header("location", self.path[4:])
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                text = json.dumps({"method": self.command, "path": self.path, "headers": dict(self.headers.items()), "body": body.decode()}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(text)

            do_GET = do_HEAD = do_DELETE = answer

            def do_POST(self):
                if self.headers.get("transfer-encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers.get("content-length", 0)))
                self.answer(body)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def site():
    site = Site()
    yield site
    site.shutdown()


@pytest.fixture(scope="module")
def names():
    with NameServer(ok_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names:
        yield names


@pytest.fixture(scope="module")
def served(names):
    with Server("--resolver", names.address) as server:
        yield server


@pytest.fixture(scope="module")
def box(served, site):
    return served.create(network={"allow": [f"ok.test:{site.port}", "127.0.0.1"]})


def sh(server, box, script, **fields):
    return server.exec(box, "sh", "-c", script, timeoutSeconds=60, **fields)


def records(server, box, **wanted):
    found = server.get(f"/v1/sandboxes/{box}/network/log?limit=1000").json["records"]
    return [one for one in found if all(one.get(key) == value for key, value in wanted.items())]


def test_where_it_listens_is_told(served, box):
    assert served.get(f"/v1/sandboxes/{box}/network").json["proxy"] == PROXY
    assert served.get(f"/v1/sandboxes/{served.create()}/network").json["proxy"] is None


@pytest.mark.parametrize("way", [f"-x {PROXY}", f"-p -x {PROXY}", "-x socks5h://127.0.0.1:3128", "-x socks5://127.0.0.1:3128"])
def test_what_is_allowed_passes(served, box, site, way):
    done = sh(served, box, f"curl -sS -m 10 {way} http://ok.test:{site.port}/a?b=c")
    assert done["exitCode"] == 0 and json.loads(done["stdout"])["path"] == "/a?b=c", done


@pytest.mark.parametrize("way, status", [(f"-p -x {PROXY}", 56), ("-x socks5h://127.0.0.1:3128", 97)])
def test_what_is_not_allowed_does_not(served, box, site, way, status):
    before = len(site.seen)
    for target in (f"other.test:{site.port}", f"ok.test:{site.port + 1}", "127.0.0.1:1", f"localhost:{site.port}", "203.0.113.5:80", "[::1]:80", "169.254.169.254:80"):
        done = sh(served, box, f"curl -sS -m 10 {way} http://{target}/")
        assert done["exitCode"] == status, (target, done)
        assert "network policy" in done["stderr"], done
    assert len(site.seen) == before
    assert records(served, box, kind="proxy", name="other.test", verdict="denied")


def test_a_refused_request_is_told_why(served, box, site):
    done = sh(served, box, f"curl -sS -m 10 -x {PROXY} -w '%{{http_code}}' http://other.test:{site.port}/")
    assert done["stdout"].endswith("403") and f"does not allow other.test:{site.port}" in done["stdout"] and "cove network" in done["stdout"], done


def test_requests_arrive_whole_and_without_what_was_for_the_proxy(served, box, site):
    for body in ("-d hello", "-H 'Transfer-Encoding: chunked' -d hello"):
        done = sh(served, box, f"curl -sS -m 10 -x {PROXY} -H 'Proxy-Authorization: Basic eDp5' -H 'Connection: X-Own' -H 'X-Own: 1' -H 'X-Kept: 2' {body} http://ok.test:{site.port}/p")
        said = json.loads(done["stdout"])
        names = {name.lower(): value for name, value in said["headers"].items()}
        assert said["body"] == "hello" and names["x-kept"] == "2" and names["host"] == f"ok.test:{site.port}", said
        assert not {"proxy-authorization", "proxy-connection", "x-own"} & set(names), names


def test_a_head_and_a_large_answer_pass(served, box, site):
    assert "200 OK" in sh(served, box, f"curl -sS -m 10 -I -x {PROXY} http://ok.test:{site.port}/")["stdout"]
    done = sh(served, box, f"head -c 3000000 /dev/zero | tr '\\0' a | curl -sS -m 30 -x {PROXY} --data-binary @- http://ok.test:{site.port}/ | wc -c")
    assert int(done["stdout"]) > 3_000_000, done


def test_python_and_its_environment(served, box, site):
    code = f"import urllib.request; print(urllib.request.urlopen('http://ok.test:{site.port}/x').status)"
    done = served.exec(box, "env", f"http_proxy={PROXY}", "python3", "-c", code)
    assert done["stdout"].strip() == "200", done
    code = f"import urllib.request; urllib.request.urlopen('https://other.test/')"
    done = served.exec(box, "env", f"https_proxy={PROXY}", "python3", "-c", code)
    assert "Network is unreachable (network policy)" in done["stderr"], done


def test_the_proxy_tells_the_policy(served, box, site):
    done = sh(served, box, f"curl -sS {PROXY}/")
    assert f"mode allow; allow ok.test:{site.port} 127.0.0.1" in done["stdout"], done


def test_it_goes_with_the_network(served, site):
    box = served.create(network={"allow": [f"ok.test:{site.port}", "127.0.0.1"]})
    assert sh(served, box, f"curl -sS -x {PROXY} http://ok.test:{site.port}/")["exitCode"] == 0
    served.put(f"/v1/sandboxes/{box}/network", {"mode": "none"})
    assert sh(served, box, f"curl -sS -x {PROXY} http://ok.test:{site.port}/")["exitCode"] == 7
    served.put(f"/v1/sandboxes/{box}/network", {"allow": [f"ok.test:{site.port}", "127.0.0.1"]})
    assert sh(served, box, f"curl -sS -x {PROXY} http://ok.test:{site.port}/")["exitCode"] == 0


# Programs that are refused say by whom.


@pytest.mark.parametrize("command", ["curl -sS http://other.test/", "curl -sS https://203.0.113.9/", "git ls-remote https://other.test/x.git", "wget -q -O - http://other.test/"])
@pytest.mark.parametrize("mode", ["none", "allow"])
def test_a_refused_program_names_the_policy_at_once(served, box, mode, command):
    where = box if mode == "allow" else served.create()
    done = sh(served, where, f"time -p {command}" if False else command)
    assert done["exitCode"] != 0 and f"mode {mode}" in done["stderr"] and "cove network" in done["stderr"], done
    assert done["durationMs"] < 5000, done


def test_programs_that_need_no_network_are_left_alone(served, box):
    done = sh(served, box, "git init -q /tmp/r && git -C /tmp/r status --short && git -C /tmp/r log; echo $?")
    assert done["stdout"].strip() == "128" and "policy" not in done["stderr"], done
    assert sh(served, box, "echo hello | curl -sS file:///etc/hostname")["stdout"] == "cove\n"
    assert sh(served, box, "curl --version | head -1")["stdout"].startswith("curl ")
