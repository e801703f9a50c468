"""The transport rules of the NoxRunner contract (section 1), byte by byte as its client sends them."""
import json
import re
import socket
import threading
import time

import pytest
from conftest import wait_until
from noxclient import NoxClient, NoxHTTPError
from server import at, new_id, parse_answer, tar_gz

JSON = ("Content-Type: application/json",)
ROUTES = [
    ("PUT", "", b'{"ttlSeconds": 300}'),
    ("POST", "/touch", b""),
    ("POST", "/exec", b'{"cmd": ["echo", "hi"], "workdir": "/workspace", "timeoutSeconds": 30}'),
    ("POST", "/files/upload?dest=%2Fworkspace", tar_gz({"a": "b"})),
    ("GET", "/files/download?src=%2Fworkspace", None),
    ("DELETE", "", None),
]


def test_the_seven_endpoints_answer_with_the_statuses_the_client_needs(server):
    name = new_id()
    statuses = [server.raw_request("GET", "/healthz").status]
    statuses += [server.raw_request(method, f"/v1/sandboxes/{name}{rest}", body).status for method, rest, body in ROUTES]
    assert statuses == [200, 200, 200, 200, 200, 200, 204]


def test_the_minimal_exchange_of_the_contract(server):
    def ask(method, rest, body=None):
        answer = server.raw_request(method, "/v1/sandboxes/demo" + rest, json.dumps(body).encode() if isinstance(body, dict) else body, JSON)
        return answer.status, answer.json if answer.headers.get_content_type() == "application/json" and answer.body else answer.body

    status, made = ask("PUT", "", {"ttlSeconds": 600})
    assert status == 200 and re.fullmatch(r"sbx-[0-9a-f]{10}", made["podName"]) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["expiresAt"])
    status, ready = ask("POST", "/exec", {"cmd": ["echo", "ready"], "workdir": "/workspace", "timeoutSeconds": 5})
    assert (status, ready["exitCode"], ready["stdout"], ready["stderr"]) == (200, 0, "ready\n", "")
    assert ask("POST", "/files/upload?dest=%2Fworkspace", tar_gz({"a.txt": "hello"}))[0] == 200
    status, missing = ask("POST", "/exec", {"cmd": ["no-such-tool"], "workdir": "/workspace", "timeoutSeconds": 30})
    assert (status, missing["exitCode"], missing["stdout"], missing["stderr"]) == (200, 127, "", "Command not found: no-such-tool\n")
    status, refused = ask("POST", "/exec", {"cmd": [], "workdir": "/workspace", "timeoutSeconds": 30})
    assert (status, refused["error"]) == (400, "cmd must be a non-empty array of strings")
    status, archive = ask("GET", "/files/download?src=%2Fworkspace")
    assert status == 200 and archive[:2] == b"\x1f\x8b"
    assert ask("POST", "/touch", b"")[0] == 200
    assert ask("DELETE", "") == (204, b"")
    status, gone = ask("POST", "/exec", {"cmd": ["true"], "workdir": "/workspace", "timeoutSeconds": 30})
    assert (status, gone["error"]) == (404, "sandbox not found: demo")


# --- health

def test_healthz_is_the_two_bytes_ok_as_plain_text(server):
    answer = server.raw_request("GET", "/healthz")
    assert (answer.status, answer.reason, answer.body.rstrip(b"\n")) == (200, "OK", b"OK")
    assert answer.headers.get_content_type() == "text/plain"


# --- JSON both ways

@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-www-form-urlencoded", None])
def test_no_content_type_is_demanded(server, sandbox, content_type):
    headers = [f"Content-Type: {content_type}"] if content_type else []
    answer = server.raw_request("POST", at(sandbox, "exec"), b'{"cmd": ["echo", "x"]}', headers)
    assert answer.status == 200 and answer.json["stdout"] == "x\n"


def test_an_upload_with_any_content_type_is_an_archive(server, sandbox):
    for content_type in ("application/gzip", "application/json", "application/x-tar"):
        assert server.raw_request("POST", at(sandbox, "files/upload"), tar_gz({"a": "b"}), [f"Content-Type: {content_type}"]).status == 200


def test_ascii_escapes_of_the_client_arrive_as_what_they_mean(server, sandbox):
    word = "grüße 漢字 😀 \x7f"
    body = json.dumps({"cmd": ["echo", "-n", word]})
    assert body.isascii()
    answer = server.raw_request("POST", at(sandbox, "exec"), body.encode(), JSON)
    assert answer.json["stdout"] == word
    answer.body.decode("utf-8")


def test_a_half_of_a_surrogate_pair_is_refused_or_replaced_but_never_sent_back_raw(server, sandbox):
    answer = server.raw_request("POST", at(sandbox, "exec"), b'{"cmd": ["echo", "\\ud800"]}', JSON)
    assert answer.status in (200, 400)
    answer.body.decode("utf-8")


def test_unknown_fields_are_ignored(server):
    name = new_id()
    assert server.put(at(name), {"ttlSeconds": 60, "colour": "red", "nested": {"deep": [1, None, {}]}}).status == 200
    assert server.exec(name, "true", priority=3, **{"a b": [], "": {}})["exitCode"] == 0
    server.delete(at(name))


@pytest.mark.parametrize("body", [b"{", b"nonsense", b'{"cmd": ["a"]} trailing', b"[1]", b'"text"', b"null", b"\xff\xfe", b'{"cmd": ["a"],}', b"{'cmd': ['a']}", b"NaN"])
def test_a_body_that_is_no_json_object_is_400_with_a_sentence(server, sandbox, body):
    for method, path in [("POST", at(sandbox, "exec")), ("PUT", at(sandbox)), ("POST", "/v1/sandboxes")]:
        answer = server.raw_request(method, path, body, JSON)
        assert answer.status == 400 and answer.code == "invalid" and answer.json["error"], (method, path, answer)


def test_a_deeply_nested_body_is_400(server, sandbox):
    assert server.raw_request("POST", at(sandbox, "exec"), b"[" * 100_000, JSON).status == 400
    assert server.raw_request("PUT", at(sandbox), b'{"a":' * 50_000 + b"1" + b"}" * 50_000, JSON).status in (200, 400)
    assert server.get("/healthz").status == 200


# --- errors

ERRORS = [
    ("POST", "/v1/sandboxes/no-such/exec", b'{"cmd": ["true"]}', 404, "Not Found", "not_found"),
    ("POST", "/v1/sandboxes/no-such/touch", b"", 404, "Not Found", "not_found"),
    ("DELETE", "/v1/sandboxes/no-such", None, 404, "Not Found", "not_found"),
    ("GET", "/v1/sandboxes/no-such", None, 404, "Not Found", "not_found"),
    ("GET", "/v1/sandboxes/no-such/files/download?src=%2Fworkspace", None, 404, "Not Found", "not_found"),
    ("POST", "/v1/sandboxes/no-such/files/upload?dest=%2Fworkspace", tar_gz({"a": "b"}), 404, "Not Found", "not_found"),
    ("GET", "/no/such/route", None, 404, "Not Found", "not_found"),
    ("GET", "/nothing", None, 404, "Not Found", "not_found"),
    ("PUT", "/v1/sandboxes/x", b'{"ttlSeconds": 0}', 400, "Bad Request", "invalid"),
    ("POST", "/v1/sandboxes/x", b"", 405, "Method Not Allowed", "method_not_allowed"),
    ("POST", "/healthz", b"", 405, "Method Not Allowed", "method_not_allowed"),
]


@pytest.mark.parametrize("method, target, body, status, reason, code", ERRORS, ids=lambda value: str(value)[:40])
def test_every_error_has_its_reason_phrase_and_the_json_form(server, method, target, body, status, reason, code):
    answer = server.raw_request(method, target, body)
    assert (answer.status, answer.reason) == (status, reason)
    assert answer.headers.get_content_type() == "application/json"
    assert set(answer.json) >= {"error", "code", "requestId"} and answer.code == code
    assert answer.json["error"] and answer.json["requestId"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize("method, path, allowed", [
    ("POST", "/v1/sandboxes/x", {"GET", "PUT", "PATCH", "DELETE"}),
    ("DELETE", "/v1/sandboxes", {"GET", "POST"}),
    ("GET", "/v1/sandboxes/x/exec", {"POST"}),
    ("GET", "/v1/sandboxes/x/touch", {"POST"}),
    ("PUT", "/v1/sandboxes/x/files/upload", {"POST"}),
    ("POST", "/v1/sandboxes/x/files/download", {"GET"}),
    ("DELETE", "/healthz", {"GET"}),
    ("POST", "/v1/sandboxes/x", {"GET", "PUT", "DELETE"}),
])
def test_a_method_that_a_path_does_not_have_is_405_with_allow(server, method, path, allowed):
    answer = server.raw_request(method, path, b"")
    assert answer.status == 405
    assert allowed <= {word.strip() for word in answer.headers["Allow"].split(",")}
    assert method not in answer.headers["Allow"].replace(" ", "").split(",")


@pytest.mark.parametrize("path", ["/healthz/", "/v1/sandboxes/", "//v1/sandboxes/x", "/v1//sandboxes/x", "/v1/sandboxes/x/", "/v1/sandboxes/x/exec/", "/v1", "/v1/", "/v1/sandboxes/../healthz"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_nothing_is_ever_redirected(server, method, path):
    answer = server.raw_request(method, path, b"")
    assert answer.status in (400, 404, 405), answer
    assert answer.headers["Location"] is None


# --- connections

def test_the_connection_is_closed_when_the_client_asks_and_kept_when_not(server):
    answer = server.raw_request("GET", "/healthz")
    assert answer.headers["Connection"].lower() == "close"
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    twice = f"GET /healthz HTTP/1.1\r\n{host}\r\nGET /healthz HTTP/1.1\r\n{host}Connection: close\r\n\r\n"
    assert server.raw(twice.encode()).count(b"HTTP/1.1 200 OK") == 2


def test_http_1_0_is_answered_without_chunks(server, sandbox):
    body = json.dumps({"cmd": ["sh", "-c", "sleep 1.3; echo late"]})
    data = server.raw(f"POST {at(sandbox, 'exec')} HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    head, _, rest = data.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower() and json.loads(rest)["stdout"] == "late\n"


def test_a_slow_request_in_small_pieces_is_served(server, sandbox):
    body = b'{"cmd": ["echo", "x"]}'
    data = f"POST {at(sandbox, 'exec')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        for at_byte in range(0, len(data), 7):
            connection.sendall(data[at_byte:at_byte + 7])
            time.sleep(0.002)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert parse_answer(received).json["stdout"] == "x\n"


def test_many_connections_one_after_another(server):
    for _ in range(100):
        assert server.raw_request("GET", "/healthz").status == 200


def test_a_base_url_with_a_prefix_that_is_no_key_is_not_found(server):
    assert server.raw_request("GET", "/some/prefix/healthz").status == 404


# --- refused bodies are read

@pytest.mark.parametrize("path, status", [
    ("/v1/sandboxes/no-such/files/upload?dest=%2Fworkspace", 404),
    ("/no/such/route", 404),
    ("/v1/sandboxes/bad%00id/files/upload", 400),
    ("/healthz", 405),
])
def test_a_refused_body_of_20_mb_is_read_so_that_the_client_hears_the_status(server, path, status):
    client = NoxClient(f"http://127.0.0.1:{server.port}")
    with pytest.raises(NoxHTTPError) as raised:
        client._ask("POST", path, bytes(20_000_000), "application/x-tar")
    assert raised.value.status_code == status


def test_a_refused_20_mb_body_of_a_known_session_that_is_no_archive_is_400(server, sandbox):
    client = NoxClient(f"http://127.0.0.1:{server.port}")
    with pytest.raises(NoxHTTPError) as raised:
        client._ask("POST", at(sandbox, "files/upload"), b"x" * 20_000_000, "application/x-tar")
    assert raised.value.status_code == 400


def test_a_300_mb_body_over_the_limit_is_413_to_a_client_that_sends_it_all_first(server, sandbox):
    client = NoxClient(f"http://127.0.0.1:{server.port}", timeout=60)
    with pytest.raises(NoxHTTPError) as raised:
        client._ask("POST", at(sandbox, "files/upload"), bytes(300 << 20), "application/x-tar")
    assert raised.value.status_code == 413 and "too_large" in raised.value.response_body


def test_a_json_body_over_the_limit_is_413(server, sandbox):
    answer = server.post(at(sandbox, "exec"), b'{"cmd": ["true"], "x": "' + b"y" * (17 << 20) + b'"}')
    assert (answer.status, answer.code) == (413, "too_large")


def test_a_client_that_waits_for_100_continue_gets_it_or_the_refusal(server, sandbox):
    body = b'{"cmd": ["echo", "x"]}'
    for path, want in [(at(sandbox, "exec"), b"HTTP/1.1 100 Continue"), (at("no-such", "files/upload"), b"HTTP/1.1 ")]:
        with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            first = connection.recv(65536)
            assert first.startswith(want)
            if b"100 Continue" in first:
                connection.sendall(body)
                first = connection.recv(65536)
            assert first.startswith(b"HTTP/1.1 200" if path.endswith("exec") else b"HTTP/1.1 404")


# --- query values

def test_a_query_value_is_form_decoded(server, sandbox):
    for dest, seen in [("%2Fworkspace%2Fin+put", "in put"), ("%2Fworkspace%2Fplus%2Bplus", "plus+plus"), ("/workspace/pl%61in", "plain"), ("%2Fworkspace%2Fgr%C3%BC%C3%9Fe", "grüße"), ("%2Fworkspace%2Fa%26b%3Dc", "a&b=c"), ("%2Fworkspace%2Fa%20b%2525", "a b%25")]:
        assert server.raw_request("POST", at(sandbox, f"files/upload?dest={dest}"), tar_gz({"x": seen})).status == 200
        assert server.exec(sandbox, "cat", f"/workspace/{seen}/x")["stdout"] == seen


# --- the id in the path

def test_what_the_client_makes_of_odd_ids_on_the_wire(server):
    """It inserts them unescaped: `a?b` and `a#b` are session a; a slash makes two segments; `..` and nothing go as they are."""
    client = NoxClient(f"http://127.0.0.1:{server.port}")
    name = new_id()
    pod = client.create_sandbox(name)["podName"]
    assert client.create_sandbox(name + "?b")["podName"] == pod
    assert client.create_sandbox(name + "#b")["podName"] == pod
    for odd, statuses in [("a/b", {404}), ("", {400, 404}), ("..", {400}), (".", {400})]:
        with pytest.raises(NoxHTTPError) as raised:
            client.create_sandbox(odd)
        assert raised.value.status_code in statuses, odd
        assert json.loads(raised.value.response_body)["error"]
    for unsendable in ("a b", "a\nb", "ü"):
        with pytest.raises(Exception):
            client.create_sandbox(unsendable)
    client.delete_sandbox(name)


@pytest.mark.parametrize("segment, id", [
    ("plain", "plain"), ("a%2Fb", "a/b"), ("a%20b", "a b"), ("a+b", "a+b"), ("a%2Bb", "a+b"), ("a%252Fb", "a%2Fb"), ("%C3%BC", "ü"), ("%F0%9F%98%80", "😀"),
    ("%2E%2E%2E", "..."), ("a%3Fb", "a?b"), ("a%23b", "a#b"), ("a;b", "a;b"), ("a:b@c", "a:b@c"), ("~user", "~user"), ("x" * 255, "x" * 255), ("..%2F..%2Fetc", "../../etc"), ("a%25", "a%"), ("%61", "a"), ("-rf", "-rf"), ("a'b%22c", "a'b\"c"),
])
def test_an_id_is_one_segment_decoded_once(server, segment, id):
    made = server.raw_request("PUT", f"/v1/sandboxes/{segment}", b'{"ttlSeconds": 60}')
    assert made.status == 200 and made.json["id"] == id
    assert re.fullmatch(r"sbx-[0-9a-f]{10}", made.json["podName"])
    assert server.raw_request("POST", f"/v1/sandboxes/{segment}/exec", b'{"cmd": ["echo", "here"]}').json["stdout"] == "here\n"
    assert server.get(at(id)).json["podName"] == made.json["podName"]
    assert server.raw_request("DELETE", f"/v1/sandboxes/{segment}").status == 204


@pytest.mark.parametrize("segment", ["", ".", "..", "%2E", "%2e%2e", "a%00b", "%0a", "a%1fb", "%7f", "%ff", "%c3", "%ed%a0%80", "%c0%af", "a%zz", "a%2", "%", "x" * 256, "%C3%BC" * 128], ids=lambda segment: segment[:12] or "empty")
@pytest.mark.parametrize("method, rest, body", [("PUT", "", b'{"ttlSeconds": 60}'), ("POST", "/exec", b'{"cmd": ["true"]}'), ("POST", "/touch", b""), ("DELETE", "", None)], ids=["put", "exec", "touch", "delete"])
def test_an_id_that_cannot_be_is_400(server, segment, method, rest, body):
    answer = server.raw_request(method, f"/v1/sandboxes/{segment}{rest}", body)
    assert answer.status == 400, answer
    assert answer.json["error"]


def test_ids_that_look_alike_are_different_sandboxes(server):
    names = ["Case", "case", "caf\u00e9", "cafe\u0301", "a", "a ", "a%20"]
    pods = {server.put(at(name), {"ttlSeconds": 60}).json["podName"] for name in names}
    assert len(pods) == len(names)
    for name in names:
        assert server.delete(at(name)).status == 204


def test_an_id_never_becomes_a_name_on_the_host(server):
    name = "../../" + new_id("escape")
    server.create(name)
    word = name.rsplit("/", 1)[1]
    assert not list(server.state_dir.rglob(f"*{word}*"))
    assert word not in open("/proc/mounts").read()
    assert server.exec(name, "hostname")["stdout"].strip() != word
    server.delete(at(name))


# --- the answers of the traps marked [C]

def test_an_answer_to_the_client_is_neither_compressed_nor_dated_in_the_body(server, sandbox):
    for method, rest, body in ROUTES[1:5]:
        answer = server.raw_request(method, at(sandbox) + rest, body, ["Accept: */*"])
        assert answer.headers["Content-Encoding"] is None, rest


def test_concurrent_requests_of_every_kind_on_one_session(server, sandbox):
    failures = []

    def work(number):
        for method, rest, body in ROUTES[:5]:
            answer = server.raw_request(method, at(sandbox) + rest, body)
            if answer.status != 200:
                failures.append((number, method, rest, answer))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_a_client_that_goes_away_in_the_middle_of_anything_harms_nobody(server, sandbox):
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    beginnings = [
        b"", b"G", b"GET /healthz HTTP/1.1\r\n", f"POST {at(sandbox, 'exec')} HTTP/1.1\r\n{host}Content-Length: 100\r\n\r\n".encode() + b'{"cmd"',
        f"POST {at(sandbox, 'files/upload')} HTTP/1.1\r\n{host}Content-Length: 100000\r\n\r\n".encode() + tar_gz({"torn": bytes(5000)})[:40],
        f"GET {at(sandbox, 'files/download')} HTTP/1.1\r\n{host}\r\n".encode(),
    ]
    for beginning in beginnings:
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            connection.sendall(beginning)
    assert wait_until(lambda: server.out(sandbox, "ls -A") == "")
    assert server.get("/healthz").status == 200
