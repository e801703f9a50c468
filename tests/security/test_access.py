"""AU: who may do what, and what a browser can be made to do. The routes come from the server's own table."""
import base64
import contextlib
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import threading
import time
import urllib.parse

import pytest

from conftest import COVE, ROOT, fair, leaving_nothing, meanwhile, wait_until
from hostile import Tenant, alive, conversation, front, head, make_key, metric, refused, revoke_key, server_with_tenants, statuses
from server import Server, at, new_id, parse_answer

ROUTES = json.loads(subprocess.run([COVE, "routes", "--json"], capture_output=True, timeout=20).stdout or "[]")
OPEN = {("GET", "/healthz"), ("GET", "/version"), ("GET", "/health"), ("GET", "/ready"), ("OPTIONS", "/mcp"), ("GET", "/.well-known/oauth-protected-resource"), ("GET", "/.well-known/oauth-protected-resource/mcp")}
STATUS = {"/mcp": 204, "/.well-known/oauth-protected-resource": 404, "/.well-known/oauth-protected-resource/mcp": 404}  # of open routes; of the others 200
THEIRS = ("/v1/execute", "/v1/files", "/v1/sessions", "/workspace/se", "/status", "/files", "/directories", "/modules", "/mcp/{relpath}", "/reset", "/run", "/approve", "/approval", "/v1/sandboxes/{id}/resources")  # paths whose errors are {"detail": …}
JUPYTERS = ("/api", "/kernelspecs", "/v1/sandboxes/{id}/jupyter")  # paths whose errors are {"message", "reason"}
MUTATING = ("PUT", "POST", "DELETE")
BODIES = {"PUT": b"{}", "POST": b"{}"}


def label(route):
    return f"{route['method']}-{route['pattern']}"


@pytest.fixture(scope="module")
def keyed():
    """A server with keys of two tenants, and (server, tenants)."""
    with leaving_nothing():
        server, tenants = server_with_tenants("alpha", "beta")
        try:
            yield server, tenants
        finally:
            server.close()


@pytest.fixture(scope="module")
def mine(keyed):
    """A sandbox of alpha's with a process in it."""
    alpha = keyed[1]["alpha"]
    name = alpha.create("alpha-box", ttlSeconds=600)
    alpha.start_process(name, "sleep", "600", pty=True)
    return name


def filled(pattern, name="alpha-box"):
    return pattern.replace("{id}", name).replace("{pid}", "p1")


def ask(server, route, *lines, name="alpha-box", host=None, query=""):
    body = BODIES.get(route["method"])
    length = [f"Content-Length: {len(body)}"] if body is not None else []
    raw = head(server, route["method"], filled(route["pattern"], name) + query, *lines, *length, "Connection: close", host=host) + (body or b"")
    said = conversation(server, raw)
    # An answer to HEAD announces a body and has none.
    return parse_answer(re.sub(rb"(?i)content-length: \d+", b"Content-Length: 0", said) if route["method"] == "HEAD" else said)


def without_id(answer):
    return {key: value for key, value in answer.json.items() if key != "requestId"} if answer.body else None


def test_AU_01_the_table_is_the_documentation():
    described = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    told = {(method.upper(), path) for path, methods in described.items() for method in methods if method in ("get", "put", "post", "delete", "head", "patch", "options")}
    table = {(route["method"], route["pattern"]) for route in ROUTES}
    assert len(table) > 30 and table == told


@pytest.mark.parametrize("route", ROUTES, ids=label)
def test_AU_01_without_a_key_every_route_is_401_with_the_same_body(keyed, mine, route):
    server = keyed[0]
    answer = ask(server, route)
    if (route["method"], route["pattern"]) in OPEN:
        assert answer.status == STATUS.get(route["pattern"], 200)
        return
    assert answer.status == 401 and answer.headers["WWW-Authenticate"] == "Bearer", answer
    if route["method"] != "HEAD":
        words = "a valid key is needed"
        pattern = route["pattern"]
        assert without_id(answer) == ({"detail": words} if pattern.startswith(THEIRS) else {"message": words, "reason": "Unauthorized"} if pattern.startswith(JUPYTERS) else {"error": words, "code": "unauthorized"})


def test_AU_01_nor_does_anybody_learn_which_routes_and_methods_there_are(keyed):
    server = keyed[0]
    answers = [server.get("/nope"), server.request("PATCH", "/v1/sandboxes"), server.get("/v1/sandboxes/alpha-box"), server.get("/v1/sandboxes/nobody"), server.request("OPTIONS", "/v1/sandboxes")]
    assert {answer.status for answer in answers} == {401} and len({json.dumps(without_id(answer)) for answer in answers}) == 1


@pytest.mark.parametrize("target,lines", [
    ("/v1/sandboxes/alpha-box/processes/p1/terminal", ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]),
    ("/v1/events", ["Accept: text/event-stream"]), ("/v1/sandboxes/alpha-box/processes/p1/events", ["Accept: text/event-stream"]), ("/v1/sandboxes/alpha-box/files/watch?path=/workspace", ["Accept: text/event-stream"]),
    ("/metrics", []), ("/openapi.json", []), ("/docs", []), ("/admin", []), ("/debug/pprof", []), ("/", []),
], ids=["websocket", "events", "process-events", "watch", "metrics", "openapi", "docs", "admin", "debug", "root"])
def test_AU_02_every_surface_is_401_before_anything_else(keyed, mine, target, lines):
    said = conversation(keyed[0], head(keyed[0], "GET", target, *lines), half_close=True)
    assert statuses(said) == [401], said[:200]


def credentials(key):
    basic = lambda text: "Authorization: Basic " + base64.b64encode(text.encode()).decode()
    return {
        "empty-bearer": ["Authorization: Bearer "], "bearer-without-blank": [f"Authorization: Bearer{key}"], "prefix": [f"Authorization: Bearer {key[:-1]}"], "suffix": [f"Authorization: Bearer {key}x"],
        "upper-case": [f"Authorization: Bearer {key.upper()}"], "scheme-case": [f"Authorization: bEARER {key}"], "scheme": [f"Authorization: Token {key}"], "empty-token": ["Authorization: token "], "token-wrong": [f"Authorization: token {key}x"], "digest": [f"Authorization: Digest {key}"], "no-scheme": [f"Authorization: {key}"],
        "quoted": [f'Authorization: Bearer "{key}"'], "two-headers": [f"Authorization: Bearer {key}", "Authorization: Bearer x"], "twice-the-same": [f"Authorization: Bearer {key}"] * 2, "two-keys": [f"Authorization: Bearer {key}, Bearer {key}"],
        "right-and-wrong": [f"Authorization: Bearer {key}", "X-API-Key: cove_wrong"], "wrong-and-right": ["Authorization: Bearer cove_wrong", f"X-API-Key: {key}"], "cookie": [f"Cookie: key={key}; Authorization=Bearer {key}"],
        "subprotocol": [f"Sec-WebSocket-Protocol: {key}"], "empty-api-key": ["X-API-Key:"], "wildcard": ["X-API-Key: %"], "sql": ["X-API-Key: ' OR '1'='1"], "basic-empty": [basic(":")], "basic-wrong": [basic("alpha:wrong")],
        "basic-no-colon": ["Authorization: Basic " + base64.b64encode(b"nocolon").decode()], "basic-no-base64": ["Authorization: Basic !!!"], "basic-two-keys": [basic(f"{key}:cove_wrong")], "hash": ["X-API-Key: " + "0" * 64],
        "proxy": [f"Proxy-Authorization: Bearer {key}"], "forwarded": [f"X-Forwarded-Authorization: Bearer {key}"], "long": ["X-API-Key: cove_" + "a" * 20_000],
    }


KINDS = list(credentials("cove_x"))


@pytest.mark.parametrize("kind", KINDS)
def test_AU_03_what_is_not_the_key_is_401(keyed, mine, kind):
    server, tenants = keyed
    time.sleep(0.02)  # below the rate at which wrong keys are throttled
    raw = head(server, "GET", "/v1/sandboxes", *credentials(tenants["alpha"].key)[kind], "Connection: close")
    assert statuses(conversation(server, raw)) in ([401], [429]), kind


def test_AU_03_a_megabyte_of_key_is_431_and_costs_nothing(keyed):
    assert statuses(conversation(keyed[0], head(keyed[0], "GET", "/v1/sandboxes", "X-API-Key: " + "a" * 1_000_000), timeout=5)) in ([431], [])


@pytest.mark.parametrize("prefix", ["/cove_wrong", "/cove_", "/COVE_x", "//", "/%63ove_x"])
def test_AU_03_a_prefix_that_is_no_key_is_401(keyed, prefix):
    answer = keyed[0].raw_request("GET", prefix + "/v1/sandboxes")
    assert answer.status in (401, 429), answer


def test_AU_03_each_place_of_a_key_works_and_none_of_them_is_logged(keyed):
    server, tenants = keyed
    key = tenants["alpha"].key
    for lines, prefix in (([f"Authorization: Bearer {key}"], ""), ([f"X-API-Key: {key}"], ""), (["Authorization: Basic " + base64.b64encode(f"{key}:".encode()).decode()], ""),
                          (["Authorization: Basic " + base64.b64encode(f"x:{key}".encode()).decode()], ""), ([f"Authorization: token {key}"], ""), ([], "/" + key)):
        raw = head(server, "GET", prefix + "/v1/sandboxes", *lines, f"User-Agent: {key}", "Connection: close")
        assert statuses(conversation(server, raw)) == [200]
    server.get(f"/v1/sandboxes?x={key}")
    assert key not in server.log and key[5:] not in server.log
    for path in server.state_dir.rglob("*"):
        if path.is_file():
            assert key.encode() not in path.read_bytes(), path


@pytest.mark.alone
def test_AU_04_how_long_a_wrong_key_takes_tells_nothing_about_the_right_one(keyed):
    server, tenants = keyed
    right = tenants["alpha"].key
    guesses = {n: right[:n] + "".join("A" if c != "A" else "B" for c in right[n:]) for n in (5, 12, 20, len(right) - 1)}
    samples = {n: [] for n in guesses}
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(25_000 if os.environ.get("COVE_SOAK") == "1" else 500):
            for n, guess in guesses.items():
                raw = head(server, "GET", "/v1/sandboxes", f"X-API-Key: {guess}")
                began = time.perf_counter_ns()
                connection.sendall(raw)
                said = connection.recv(65536)
                samples[n].append(time.perf_counter_ns() - began)
                assert statuses(said)[0] in (401, 429)
    medians = {n: statistics.median(taken) for n, taken in samples.items()}
    spread = (max(medians.values()) - min(medians.values())) / min(medians.values())
    assert spread < 0.15, medians


def refusals(server):
    """Requests that were answered 401 or 429, as the metrics count them."""
    lines = server.get("/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("cove_http_requests_total") and ('status="401"' in line or 'status="429"' in line))


def test_AU_05_a_storm_of_wrong_keys_is_throttled_and_counted_and_the_right_key_works(keyed):
    server, tenants = keyed
    before = refusals(tenants["beta"])
    waits, seen = [], []

    def valid():
        began = time.monotonic()
        assert tenants["beta"].get("/v1/sandboxes").status == 200
        waits.append(time.monotonic() - began)

    with meanwhile(valid), socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        for n in range(1000):
            connection.sendall(head(server, "GET", "/v1/sandboxes", f"X-API-Key: cove_{n:040}"))
            seen += statuses(connection.recv(65536))
    assert set(seen) <= {401, 429} and seen.count(429) > 700, (seen.count(401), seen.count(429))
    assert max(waits) < fair(0.5)
    assert refusals(tenants["beta"]) >= before + 1000
    assert 0 < server.log.count("status=429") < 1000, "the log is not theirs to fill"
    text = tenants["beta"].get("/metrics").body.decode()
    assert 'status="429"' in text


FOREIGN_HOSTS = ["evil.test", "127.0.0.1.evil.test", "localhost.evil.test", "127.0.0.1.", "localhost.", "127.1", "0x7f000001", "2130706433", "127.0.0.1:1", "localhost:65536"[:15], "[::ffff:127.0.0.1]:1", "0.0.0.0", "metadata.google.internal"]


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_AU_06_a_host_that_is_not_ours_is_403_also_with_the_key(keyed, mine, host):
    server, tenants = keyed
    said = conversation(server, head(server, "GET", "/v1/sandboxes", f"X-API-Key: {tenants['alpha'].key}", "Connection: close", host=host))
    assert statuses(said) in ([403], [400]), said[:200]


@pytest.mark.parametrize("route", ROUTES, ids=label)
def test_AU_06_every_route_refuses_a_foreign_host_and_a_foreign_origin(keyed, mine, route):
    server, tenants = keyed
    key = f"X-API-Key: {tenants['alpha'].key}"
    assert ask(server, route, key, host="evil.test").status == 403
    for origin in ("http://evil.test", "null", "http://127.0.0.1.evil.test", "file://", f"http://127.0.0.1:{server.port + 1}"):
        assert ask(server, route, key, f"Origin: {origin}").status == 403, origin
    assert ask(server, route, key, "Sec-Fetch-Site: cross-site").status == 403
    assert tenants["alpha"].get(at(mine)).status == 200, "it changed something"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_AU_07_a_form_of_another_site_changes_nothing(server, content_type):
    # Without keys, as a developer runs it: the browser on the same machine is the attacker's hand.
    name = new_id()
    before = metric(server, "cove_sandboxes_created_total")
    for lines in (["Origin: http://evil.test"], ["Origin: null"], ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], ["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]):
        body = json.dumps({"id": name, "=": ""}).encode()
        raw = head(server, "POST", "/v1/sandboxes", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *lines, "Connection: close") + body
        assert statuses(conversation(server, raw)) in ([403], [415]), lines
    assert metric(server, "cove_sandboxes_created_total") == before


@pytest.mark.parametrize("lines", [["Origin: http://evil.test", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: authorization"],
                                   ["Origin: http://evil.test", "Access-Control-Request-Method: POST", "Access-Control-Request-Private-Network: true"], ["Access-Control-Request-Method: PUT"]])
def test_AU_08_a_preflight_allows_nothing(server, keyed, lines):
    for where in (server, keyed[0]):
        for method in ("OPTIONS", "GET"):
            answer = parse_answer(conversation(where, head(where, method, "/v1/sandboxes", *lines, "Connection: close")))
            assert not [name for name in answer.headers if name.lower().startswith("access-control-")], answer.headers
            assert method == "GET" or answer.status in (401, 403, 405)


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "https://127.0.0.1.evil.test", "http://localhost.evil.test:80"])
def test_AU_09_a_websocket_of_another_site_is_403(server, keyed, mine, origin):
    name = server.create()
    process = server.start_process(name, "cat", pty=True)
    with server.websocket(at(name, f"processes/{process['id']}/terminal"), headers={"Origin": origin, "Cookie": "session=x"}) as socket_:
        assert socket_.status == 403
    with keyed[1]["alpha"].websocket(at(mine, "processes/p1/terminal"), headers={"Origin": origin}) as socket_:
        assert socket_.status == 403
    with server.websocket(at(name, f"processes/{process['id']}/terminal"), headers={"Origin": f"http://127.0.0.1:{server.port}"}) as socket_:
        assert socket_.status == 101
    server.delete(at(name))


def serve(*flags, state_dir):
    return subprocess.run([COVE, "serve", "--state-dir", str(state_dir), *flags], capture_output=True, timeout=20)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_AU_10_an_open_address_without_keys_refuses_to_start(workdir, address):
    done = serve("--listen", address, state_dir=workdir / "state")
    assert done.returncode != 0 and b"keys" in done.stderr, done


def test_AU_10_nor_after_the_last_key_was_revoked(workdir):
    server = Server()
    try:
        key = make_key(server, "t")
        revoke_key(server, key["id"])
        done = serve("--listen", "0.0.0.0:0", state_dir=server.state_dir)
        assert done.returncode != 0 and b"keys" in done.stderr, done
    finally:
        server.close()


def test_AU_10_the_keys_are_readable_by_nobody_else(keyed):
    for path in [keyed[0].state_dir / "front", *(keyed[0].state_dir / "front").iterdir()]:
        assert path.stat().st_mode & 0o077 == 0, path
    # Keys are made by us, and long: there is no way to choose one of four characters.
    assert len(keyed[1]["alpha"].key) >= 40


def test_AU_11_another_uid_reaches_neither_the_front_nor_an_init(keyed, mine):
    run = keyed[0].state_dir / "front" / "run"
    sockets = list(run.iterdir())
    assert sockets
    attempt = f"import socket,sys\ns=socket.socket(socket.AF_UNIX)\ntry:\n  s.connect({str(sockets[0])!r}); print('in')\nexcept OSError as e: print(e.strerror)"
    said = subprocess.run(["/usr/bin/python3", "-c", attempt], capture_output=True, text=True, user=65534, group=65534, extra_groups=[], timeout=10).stdout.strip()
    assert said == "Permission denied"
    # And the front is not to be looked into.
    look = subprocess.run(["/usr/bin/python3", "-c", f"print(open('/proc/{front(keyed[0])}/environ').read())"], capture_output=True, text=True, user=65534, group=65534, extra_groups=[], timeout=10)
    assert look.returncode != 0 and "Permission" in look.stderr


def test_AU_12_a_revoked_key_is_401_at_once(keyed):
    server = keyed[0]
    made = make_key(server, "gamma")
    gamma = Tenant(server, made["key"])
    assert gamma.get("/v1/sandboxes").status == 200
    revoke_key(server, made["id"])
    assert gamma.get("/v1/sandboxes").status == 401


@pytest.mark.parametrize("what", ["events", "process-events", "terminal", "watch"])
def test_AU_12_a_stream_of_a_revoked_key_ends(keyed, what):
    server = keyed[0]
    made = make_key(server, "delta-" + what)
    delta = Tenant(server, made["key"])
    name = delta.create()
    process = delta.start_process(name, "sh", "-c", "while sleep 0.2; do date; done", pty=True)
    path = {"events": "/v1/events", "process-events": at(name, f"processes/{process['id']}/events"), "watch": at(name, "files/watch?path=/workspace")}.get(what)
    ended = threading.Event()

    def follow():
        with contextlib.suppress(OSError, http.client.HTTPException):  # an end is an end
            if what == "terminal":
                with delta.websocket(at(name, f"processes/{process['id']}/terminal"), timeout=20) as opened:
                    while opened.read() is not None:
                        pass
            else:
                with delta.sse(path, timeout=20) as stream:
                    while stream.line() is not None:
                        pass
        ended.set()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    time.sleep(0.4)
    assert not ended.is_set()
    revoke_key(server, made["id"])
    cut = ended.wait(5)
    again = Tenant(server, make_key(server, "delta-" + what)["key"])
    again.delete(at(name))
    assert cut, "who had the key still hears everything"


def test_AU_12_a_tenant_has_no_more_rights_by_naming_another(keyed, mine):
    beta = keyed[1]["beta"]
    for headers in ({"X-Tenant": "alpha"}, {"X-Cove-Tenant": "alpha"}, {"Tenant": "alpha"}):
        assert beta.get(at(mine), headers=headers).status == 404
    assert beta.get("/v1/sandboxes?tenant=alpha").json["sandboxes"] == []


@pytest.mark.parametrize("cursor", ["YWxwaGE", "YWxwaGEAYWxwaGEtYm94", base64.urlsafe_b64encode(b"alpha\0alpha-box").decode(), base64.urlsafe_b64encode(b"\0").decode().rstrip("="), base64.urlsafe_b64encode(b"\xff" * 300).decode().rstrip("="), "A" * 5000, "AA==", "..", "%2e"])
def test_AU_14_a_forged_cursor_shows_nothing_of_others(keyed, mine, cursor):
    beta = keyed[1]["beta"]
    answer = beta.get("/v1/sandboxes?cursor=" + cursor)
    assert answer.status in (200, 400), answer
    assert "alpha" not in answer.body.decode()


@pytest.mark.parametrize("header", ["X-Forwarded-For: 10.0.0.1", "X-Forwarded-Host: evil.test", "X-Forwarded-Proto: https", "Forwarded: for=10.0.0.1;host=evil.test", "X-Real-IP: 10.0.0.1", "REMOTE_ADDR: 10.0.0.1",
                                    "X-Original-URL: /metrics", "X-Rewrite-URL: /metrics", "X-HTTP-Method-Override: DELETE", "X-Forwarded-User: root", "X-Remote-User: root"])
def test_AU_15_headers_of_proxies_decide_nothing(keyed, mine, header):
    server, tenants = keyed
    assert statuses(conversation(server, head(server, "GET", at(mine), header, "Connection: close"))) == [401]
    raw = head(server, "GET", at(mine), f"X-API-Key: {tenants['alpha'].key}", header, "Connection: close")
    answer = parse_answer(conversation(server, raw))
    assert answer.status == 200 and answer.json["id"] == mine
    line = [line for line in server.log.splitlines() if answer.headers["X-Request-Id"] in line][-1]
    assert "peer=127.0.0.1:" in line


def test_AU_15_wrong_keys_are_counted_by_the_peer_and_not_by_what_it_says(keyed):
    server = keyed[0]
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        seen = []
        for n in range(300):
            connection.sendall(head(server, "GET", "/v1/sandboxes", f"X-API-Key: cove_{n:040}", f"X-Forwarded-For: 10.0.0.{n % 250}"))
            seen += statuses(connection.recv(65536))
    assert 429 in seen


@pytest.mark.parametrize("route", ROUTES, ids=label)
def test_AU_16_no_answer_may_be_framed_or_sniffed(keyed, route):
    answer = ask(keyed[0], route)
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"] and answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("lines", [["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"], ["Upgrade: TLS/1.2", "Connection: Upgrade"], ["Upgrade: foo/2", "Connection: upgrade"], ["Upgrade: websocket", "Connection: Upgrade"]])
def test_AU_17_nothing_else_is_upgraded_to(server, lines):
    for target in ("/healthz", "/v1/sandboxes", "/v1/events"):
        said = conversation(server, head(server, "GET", target, *lines) + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", timeout=3, half_close=True)
        assert 101 not in statuses(said) and statuses(said)[0] in (200, 426), said[:200]
