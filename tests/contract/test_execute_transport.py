"""The code interpreter's transport rules (section 1), and its health (section 2)."""
import json

import pytest
from conftest import wait_until
from interpreter import JSON, ask, form, form_type, run
from server import Server

ROUTES = [("/health", "GET"), ("/ready", "GET"), ("/v1/execute", "POST"), ("/v1/execute/stream", "POST"), ("/v1/files", "GET, POST"), ("/v1/files/x", "DELETE, GET"),
          ("/v1/sessions", "POST"), ("/v1/sessions/x", "DELETE"), ("/v1/sessions/x/bash", "POST")]


@pytest.mark.parametrize("path, allow", ROUTES)
def test_a_wrong_verb_is_405_with_allow(server, path, allow):
    for verb in ("PUT", "PATCH", "HEAD", "OPTIONS"):
        answer = server.request(verb, path)
        assert (answer.status, answer.headers["Allow"]) == (405, allow), verb
        if verb != "HEAD":
            assert answer.body == b'{"detail":"Method Not Allowed"}' and answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("path", ["/health", "/v1/execute", "/v1/execute/stream", "/v1/files", "/v1/files/some-id", "/v1/sessions", "/v1/sessions/x/bash"])
def test_a_slash_too_many_is_redirected(server, path):
    for verb in ("GET", "POST", "DELETE"):
        answer = server.request(verb, path + "/?a=b%20c", b"" if verb == "POST" else None)
        assert (answer.status, answer.headers["Location"], answer.body) == (307, path + "?a=b%20c", b""), verb


@pytest.mark.parametrize("path", ["/v1/execute/nothing", "/v1/files/a/b", "/v1/sessions/a/python", "/health/x", "/v1/sessions/a/bash/b"])
def test_an_unknown_path_is_404_in_their_words(server, path):
    answer = server.get(path)
    assert (answer.status, answer.body) == (404, b'{"detail":"Not Found"}')


@pytest.mark.parametrize("path", ["/v1", "/v1/filesystem", "/v1/sandboxes/a/b"])
def test_other_paths_keep_our_own_words(server, path):
    answer = server.get(path)
    assert answer.status == 404 and answer.json["code"] == "not_found"


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json", None])
def test_json_by_these_content_types(server, content_type):
    headers = [f"Content-Type: {content_type}"] if content_type else []
    answer = server.raw_request("POST", "/v1/execute", b'{"code": "1", "timeout_ms": 20000}', headers)
    assert answer.status == 200 and answer.json["stdout"] == "1\n"


def test_bodies_are_compact_and_not_escaped(server):
    answer = ask(server, "print('grüße 漢字 😀')", timeout_ms=20000)
    assert '"stdout":"grüße 漢字 😀\\n","stderr":"","exit_code":0,"timed_out":false,"duration_ms":' in answer.body.decode()
    assert list(answer.json) == ["stdout", "stderr", "exit_code", "timed_out", "duration_ms", "files"]
    assert answer.headers["Content-Type"] == "application/json"


def test_no_cors_headers(server):
    assert not [name for name in server.get("/health").headers if name.lower().startswith("access-control")]


def test_a_body_that_is_too_large_is_413_in_their_words(fresh_server):
    server = fresh_server("--http-max-body", "10K")
    answer = ask(server, "#" * 20000)
    assert answer.status == 413 and set(answer.json) == {"detail"}
    assert run(server, "1")["stdout"] == "1\n"


def test_who_has_no_key_hears_it_in_their_words():
    from hostile import server_with_tenants
    server, tenants = server_with_tenants("a")
    a = tenants["a"]
    try:
        for path in ("/v1/files", "/v1/execute", "/v1/sessions/x", "/v1/files/"):
            answer = server.get(path)
            assert answer.status == 401 and set(answer.json) == {"detail"} and answer.headers["WWW-Authenticate"] == "Bearer", path
        assert server.get("/health").json == {"status": "ok"} and server.get("/ready").status == 200
        assert a.get("/v1/files").json == {"files": []}
        moved = server.get(f"/{a.key}/v1/files/")
        assert (moved.status, moved.headers["Location"]) == (307, f"/{a.key}/v1/files")
    finally:
        server.close()


# --- health

def test_health_is_the_first_levels_body_to_the_byte(server):
    answer = server.get("/health")
    assert (answer.status, answer.body) == (200, b'{"status":"ok"}')


HEALTH = {
    "off": {"status": "ok"}, "0.3.3": {"status": "ok", "message": None}, "0.4.4": {"status": "ok", "message": None, "version": "0.4.4"},
    "0.4.8": {"status": "ok", "message": None, "version": "0.4.8", "executor_backend": "docker", "network_isolation": "docker_network:none"},
}


@pytest.mark.parametrize("version", HEALTH)
def test_what_health_and_ready_say_is_a_setting(fresh_server, version):
    server = fresh_server("--execute-reported-version", version)
    for path in ("/health", "/ready"):
        answer = server.get(path)
        assert (answer.status, answer.json) == (200, HEALTH[version])
        assert list(answer.json) == list(HEALTH[version])


def test_ready_says_when_nothing_could_be_run(fresh_server):
    import os
    import signal
    server = fresh_server("--execute-reported-version", "0.4.4", "--execute-check-timeout", "200ms")
    keeper = server.keeper()
    os.kill(keeper, signal.SIGSTOP)
    try:
        answer = server.get("/ready")
        assert answer.status == 503 and answer.json["status"] == "error" and answer.json["message"], answer
        assert server.get("/health").status == 200
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert wait_until(lambda: server.get("/ready").status == 200, 20)
