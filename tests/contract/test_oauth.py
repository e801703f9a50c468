"""Tokens of an authorization server, which open the server beside its keys. Signed here with openssl, as such a server does."""
import base64
import contextlib
import http.client
import json
import subprocess
import time

import pytest
from conftest import cove
from server import Server, at

ISSUER, RESOURCE = "https://Auth.example/tenant", "https://cove.example/mcp"
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}


def encoded(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=").decode()


class Signer:
    """An authorization server's key."""

    def __init__(self, directory):
        self.key = directory / "key.pem"
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        modulus = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True, capture_output=True, text=True).stdout
        self.jwk = {"kty": "RSA", "kid": "k1", "n": encoded(bytes.fromhex(modulus.strip().partition("=")[2])), "e": "AQAB"}

    def token(self, header=None, **claims):
        claims = {"iss": ISSUER, "sub": "anna", "aud": RESOURCE, "exp": int(time.time()) + 300, "scope": "run files", **claims}
        text = f"{encoded({'alg': 'RS256', 'kid': 'k1', **(header or {})})}.{encoded(claims)}"
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=text.encode(), check=True, capture_output=True).stdout
        return f"{text}.{encoded(signature)}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("oauth")


@pytest.fixture(scope="module")
def signer(place):
    return Signer(place)


@pytest.fixture(scope="module")
def server(place, signer):
    keys = place / "jwks.json"
    keys.write_text(json.dumps({"keys": [signer.jwk]}))
    keys.chmod(0o600)  # the front, which is nobody, cannot read it: the supervisor hands it on
    with Server(f"--oauth-authorization-servers={ISSUER}", f"--oauth-resource={RESOURCE}", "--oauth-scopes=run", f"--oauth-keys-file={keys}") as running:
        yield running


def initialize(server, token=None):
    return server.post("/mcp", INITIALIZE, headers={**HEADERS, **({"Authorization": f"Bearer {token}"} if token else {})})


def test_d88_no_token_is_told_where_to_get_one(server):
    answer = initialize(server)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer resource_metadata="https://cove.example/.well-known/oauth-protected-resource/mcp", scope="run"'


def test_the_resource_describes_itself(server):
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        answer = server.get(path)
        assert answer.status == 200
        assert answer.json == {"resource": RESOURCE, "authorization_servers": [ISSUER], "scopes_supported": ["run"], "bearer_methods_supported": ["header"], "resource_name": "Cove"}


def test_a_token_opens(server, signer):
    assert initialize(server, signer.token()).status == 200
    assert server.get("/v1/sandboxes", headers={"Authorization": f"Bearer {signer.token()}"}).status == 200


def test_d88_a_token_that_is_not_enough(server, signer):
    answer = initialize(server, signer.token(scope="files"))
    assert answer.status == 403
    assert answer.headers["WWW-Authenticate"].startswith('Bearer error="insufficient_scope", ') and 'scope="run"' in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize("claims", [{"exp": 1}, {"aud": "https://other.example"}, {"iss": "https://evil.example"}, {"sub": ""}, {"nbf": 2**40}], ids=str)
def test_d88_tokens_that_are_not_ours(server, signer, claims):
    assert initialize(server, signer.token(**claims)).status == 401


def test_d88_tokens_that_are_forged(server, signer, tmp_path):
    stranger = Signer(tmp_path)
    head, claims, signature = signer.token().split(".")
    for token in (stranger.token(), f"{head}.{claims}.", f"{encoded({'alg': 'none'})}.{claims}.", f"{head}.{encoded({'sub': 'root'})}.{signature}", "a.b.c", "x"):
        assert initialize(server, token).status == 401, token


def test_each_subject_is_a_tenant_of_its_own_and_a_new_token_is_the_same_one(server, signer):
    anna, again, ben = ({"Authorization": f"Bearer {token}"} for token in (signer.token(), signer.token(jti="2"), signer.token(sub="ben")))
    session = {**HEADERS, "Mcp-Session-Id": server.post("/mcp", INITIALIZE, headers={**HEADERS, **anna}).headers["Mcp-Session-Id"]}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert server.post("/mcp", ping, headers={**session, **again}).status == 200
    assert server.post("/mcp", ping, headers={**session, **ben}).status == 404
    assert server.put("/v1/sandboxes/same-name", {}, headers=anna).status == 200
    assert server.get("/v1/sandboxes/same-name", headers=again).status == 200
    assert server.get("/v1/sandboxes/same-name", headers=ben).status == 404


def test_a_stream_ends_with_the_token_that_opened_it(server, signer):
    # Clocks may differ by a minute.
    lasts, ends = signer.token(sub="berta"), signer.token(exp=int(time.time()) - 56)
    with server.sse("/v1/events", headers={"Authorization": f"Bearer {lasts}"}) as longer, server.sse("/v1/events", headers={"Authorization": f"Bearer {ends}"}) as shorter:
        assert longer.status == shorter.status == 200
        with contextlib.suppress(OSError, http.client.HTTPException):
            assert shorter.next() is None, "nothing happens here but its end"
        made = server.put(at("after"), {}, headers={"Authorization": f"Bearer {lasts}"})
        assert made.status == 200 and longer.next()["event"] == "created", "the other goes on"


@pytest.mark.parametrize("what", ["terminal", "lines", "mcp stream"])
def test_what_a_token_opened_ends_with_it(server, signer, what):
    name, lasts = f"box-{what.replace(' ', '-')}", {"Authorization": f"Bearer {signer.token()}"}
    assert server.put(at(name), {}, headers=lasts).status == 200
    process = server.post(at(name, "processes"), {"cmd": ["sleep", "60"], "pty": {}}, headers=lasts).json
    ends = {"Authorization": f"Bearer {signer.token(exp=int(time.time()) - 54)}"}  # clocks may differ by a minute
    began = time.monotonic()
    with contextlib.suppress(OSError, http.client.HTTPException):  # an end is an end
        if what == "mcp stream":
            session = server.post("/mcp", INITIALIZE, headers={**HEADERS, **ends}).headers["Mcp-Session-Id"]
            with server.sse("/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25", **ends}, timeout=30) as stream:
                assert stream.status == 200
                while stream.line() is not None:
                    pass
        else:
            path = at(name, f"processes/{process['id']}/terminal") if what == "terminal" else "/mcp/line"
            with server.websocket(path, timeout=30, headers=ends) as opened:
                while opened.read() is not None:
                    pass
    assert 1 < time.monotonic() - began < 25, "neither refused nor left open"


def test_nobody_operates_by_a_token(server, signer):
    answer = server.post("/v1/templates", {"name": "mine", "packages": ["hello"]}, headers={"Authorization": f"Bearer {signer.token()}"})
    assert answer.status == 403


def test_half_a_configuration_is_refused(tmp_path):
    run = cove("serve", "--listen", "127.0.0.1:0", "--state-dir", tmp_path, "--oauth-resource", RESOURCE)
    assert run.status == 2 and "oauth.keys_file" in run.err and "oauth.authorization_servers" in run.err


def test_keys_that_cannot_be_used_stop_the_start(tmp_path):
    keys = tmp_path / "jwks.json"
    keys.write_text('{"keys": []}')
    run = cove("serve", "--listen", "127.0.0.1:0", "--state-dir", tmp_path / "state", "--oauth-resource", RESOURCE, "--oauth-authorization-servers", ISSUER, "--oauth-keys-file", keys)
    assert run.status == 1 and "oauth.keys_file" in run.err
