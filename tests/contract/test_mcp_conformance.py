"""The protocol's own conformance suites, both versions, against a server that has what they look for (mcp.fixtures). Each suite runs once; each
scenario is a test."""
import concurrent.futures
import json
import pathlib
import re
import subprocess

import pytest
from node_clients import NODE, installed
from server import Server

OLD = ["server-initialize", "logging-set-level", "ping", "completion-complete", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio",
       "tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-with-logging", "tools-call-error", "tools-call-with-progress", "tools-call-sampling",
       "tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults", "server-sse-polling", "server-sse-multiple-streams", "elicitation-sep1330-enums",
       "resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read", "resources-subscribe", "resources-unsubscribe", "prompts-list",
       "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image", "dns-rebinding-protection"]
BOTH = ["completion-complete", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
        "tools-call-error", "tools-call-with-progress", "json-schema-2020-12", "server-sse-multiple-streams", "resources-list", "resources-read-text",
        "resources-read-binary", "resources-templates-read", "prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
        "prompts-get-with-image", "dns-rebinding-protection"]
LEGACY = ["server-initialize", "server-session-lifecycle", "logging-set-level", "ping", "tools-call-with-logging", "tools-call-sampling", "tools-call-elicitation",
          "elicitation-sep1034-defaults", "server-sse-polling", "elicitation-sep1330-enums", "resources-subscribe", "resources-unsubscribe", *BOTH]
MODERN = ["server-stateless", "sep-2164-resource-not-found", "caching", "http-header-validation", "http-custom-header-server-validation",
          "input-required-result-basic-elicitation", "input-required-result-basic-sampling", "input-required-result-basic-list-roots",
          "input-required-result-request-state", "input-required-result-multiple-input-requests", "input-required-result-multi-round",
          "input-required-result-missing-input-response", "input-required-result-non-tool-request", "input-required-result-result-type",
          "input-required-result-unsupported-methods", "input-required-result-tampered-state", "input-required-result-capability-check",
          "input-required-result-ignore-extra-params", "input-required-result-validate-input", *BOTH]
TASKS = ["tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal", "tasks-mrtr-input", "tasks-request-headers",
         "tasks-dispatch-and-envelope", "tasks-status-notifications", "tasks-required-task-error", "tasks-mrtr-composition"]
SUITES = {"0.1": OLD, "2025-11-25": LEGACY, "2026-07-28": MODERN, "tasks": TASKS}
CASES = [(suite, scenario) for suite, scenarios in SUITES.items() for scenario in scenarios]


def package(name):
    return installed() / "node_modules" / name / "dist" / "index.js"


def run(program, *arguments, timeout=300):
    return subprocess.run([NODE, program, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


def verdicts(directory):
    """The checks of each scenario, as the suite wrote them down."""
    found = {}
    for path in pathlib.Path(directory).rglob("checks.json"):
        name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", path.parent.name)
        found.setdefault(name, []).extend(json.loads(path.read_text()))
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """The checks of every scenario, by suite."""
    old, new = package("@modelcontextprotocol/conformance"), package("conformance-next")
    with Server("--mcp-fixtures=true") as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        places = {suite: tmp_path_factory.mktemp(suite) for suite in SUITES}

        def tasks():
            for scenario in TASKS:
                done = run(new, "server", "--url", url, "--scenario", scenario, "-o", places["tasks"])
            return done
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(tasks)  # it does little else
            said = {"0.1": run(old, "server", "--url", url, "--suite", "all", "-o", places["0.1"])}
            for version in ("2025-11-25", "2026-07-28"):
                said[version] = run(new, "server", "--url", url, "--suite", "all", "--spec-version", version, "-o", places[version])
            said["tasks"] = waiting.result()
    return {suite: (verdicts(place), said[suite].stdout[-3000:] + said[suite].stderr[-3000:]) for suite, place in places.items()}


@pytest.mark.parametrize(("suite", "scenario"), CASES, ids=lambda value: value)
def test_scenario(seen, suite, scenario):
    checks, said = seen[suite]
    assert scenario in checks, said
    wrong = [check for check in checks[scenario] if check["status"] in ("FAILURE", "WARNING")]
    assert not wrong, json.dumps(wrong, indent=1)[:4000]
    good = [check for check in checks[scenario] if check["status"] in ("SUCCESS", "INFO", "SKIPPED")]
    assert good, checks[scenario]


def test_no_scenario_is_left_out():
    """All that the suites have for servers, but for the extension of skills."""
    def listed(program):
        text = run(program, "list").stdout.partition("Server scenarios")[2].partition("Client scenarios")[0]
        return {name: versions.split(",") for name, versions in re.findall(r"- (\S+) \[([^\]]*)\]", text)}
    assert set(listed(package("@modelcontextprotocol/conformance"))) == set(OLD)
    new = listed(package("conformance-next"))
    assert {name for name, versions in new.items() if "2025-11-25" in versions} == set(LEGACY)
    assert {name for name, versions in new.items() if "2026-07-28" in versions} == set(MODERN)
    assert {name for name, versions in new.items() if "extension" in versions and "skills" not in name} == set(TASKS)
