"""The protocol's own conformance suites, both versions, for clients: each scenario starts a server and looks at what our client (tests/support/client_program.py) does with it."""
import concurrent.futures
import json
import re
import subprocess

import pytest
from client_program import PROGRAM
from node_clients import NODE, installed

# What is not run, and why.
LEFT_OUT = {
    "auth/dpop": "tokens bound to a key (DPoP) are not offered",
    "auth/dpop-nonce": "tokens bound to a key (DPoP) are not offered",
    "auth/cross-app-access-complete-flow": "needs an identity provider that has signed somebody in",
    "auth/enterprise-managed-authorization": "needs an identity provider that has signed somebody in",
    "auth/wif-jwt-bearer": "needs a platform that gives workloads an identity",
    **{f"sep-2640-client-{name}": "skills are files for a model; nothing here reads them" for name in ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")},
}
# The older suite's server calls itself another issuer than the one it is found at, which the newer suite wants to be refused.
OLD_AND_WRONG = {"auth/2025-03-26-oauth-metadata-backcompat"}
PLAIN = ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", "request-metadata", "sep-2322-client-request-state", "http-standard-headers",
         "http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation"]
# With a consent page that consents at once in the place of a person; the last two without any.
AUTH = ["metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "scope-from-www-authenticate", "scope-from-scopes-supported", "scope-omitted-when-undefined",
        "scope-step-up", "scope-retry-limit", "token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration", "2025-03-26-oauth-metadata-backcompat",
        "2025-03-26-oauth-endpoint-fallback", "resource-mismatch", "offline-access-scope", "offline-access-not-supported", "authorization-server-migration", "iss-supported", "iss-not-advertised",
        "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected", "iss-normalized", "metadata-issuer-mismatch", "client-credentials-jwt", "client-credentials-basic"]
WANTED = PLAIN + ["auth/" + name for name in AUTH]
# Scenarios whose server must be refused: the program is meant to fail.
REFUSED = {"auth/scope-retry-limit", "auth/resource-mismatch", "auth/iss-supported-missing", "auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized", "auth/metadata-issuer-mismatch"}
PACKAGES = {"0.1": "@modelcontextprotocol/conformance", "0.2": "conformance-next"}


def suite(version):
    return installed() / "node_modules" / PACKAGES[version] / "dist" / "index.js"


def listed(version):
    """The scenarios for clients, each with the revisions it is for."""
    text = subprocess.run([NODE, suite(version), "list"], capture_output=True, text=True, timeout=60).stdout
    part = text.partition("Client scenarios")[2].partition("Authorization server scenarios")[0]
    return {name: (revisions or "").split(",") for name, revisions in re.findall(r"- (\S+)(?: \[([^\]]*)\])?", part)}


def cases():
    """Every scenario in every revision it is for."""
    out = []
    for name, revisions in listed("0.2").items():
        if name not in LEFT_OUT:
            out += [("0.2", name, revision) for revision in revisions]
    return out + [("0.1", name, None) for name in listed("0.1") if name not in LEFT_OUT and name not in OLD_AND_WRONG]


def run(place, version, scenario, revision):
    words = [NODE, suite(version), "client", "--command", str(PROGRAM), "--scenario", scenario, "-o", str(place)]
    if revision and re.match(r"\d", revision):
        words += ["--spec-version", revision]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    found = list(place.rglob("checks.json"))
    return done, json.loads(found[0].read_text()) if found else []


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    wanted = cases()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = {case: pool.submit(run, tmp_path_factory.mktemp("scenario"), *case) for case in wanted}
        return {case: one.result() for case, one in runs.items()}


@pytest.mark.parametrize("scenario", WANTED)
def test_scenario(seen, scenario):
    runs = {case: one for case, one in seen.items() if case[1] == scenario}
    assert runs
    for case, (done, checks) in runs.items():
        wrong = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
        assert not wrong, f"{case}: {json.dumps(wrong, indent=1)[:4000]}"
        assert any(check["status"] == "SUCCESS" for check in checks), f"{case}: {done.stdout[-2000:]}"
        assert done.returncode == 0 or scenario in REFUSED, f"{case}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def test_no_scenario_is_left_out_without_a_reason():
    new, old = set(listed("0.2")), set(listed("0.1"))
    assert new | old == set(WANTED) | set(LEFT_OUT)
    assert set(WANTED) <= new
