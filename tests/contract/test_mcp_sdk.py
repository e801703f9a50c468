"""The official TypeScript clients, both generations, on every transport they have."""
import json
import os

import pytest
from conftest import COVE
from node_clients import node
from mcp_stdio import own_state
from server import Server

CLIENTS = [("v1", "stdio"), ("v1", "http"), ("v1", "sse"), ("v2-legacy", "stdio"), ("v2-legacy", "http"), ("v2-legacy", "sse"), ("v2-modern", "stdio"), ("v2-modern", "http")]


@pytest.fixture(scope="module")
def seen():
    """What each client saw, by its name and transport."""
    with Server("--mcp-sse=true") as server, own_state() as state:
        targets = {"http": [f"http://127.0.0.1:{server.port}/mcp"], "sse": [f"http://127.0.0.1:{server.port}/sse"], "stdio": [COVE, "mcp", "--state-dir", state]}
        env = {**os.environ, "COVE_PYTHON_WARM": "false", "COVE_POOL_SIZE": "0"}
        runs = {}
        for client, transport in CLIENTS:
            runs[client, transport] = node("session.mjs", client, transport, *targets[transport], env=env)
        yield runs


@pytest.fixture(params=CLIENTS, ids="-".join)
def told(request, seen):
    run = seen[request.param]
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def test_it_connects_and_lists_tools(told):
    assert told["server"]["name"] == "cove"
    assert told["tools"][0] == "execute_code" and "reset_session" in told["tools"]


def test_state_is_kept_between_calls(told):
    assert told["first"]["exit_code"] == 0 and told["second"]["stdout"] == "42\n"


def test_failures_of_a_program_are_results(told):
    assert told["failed"]["exit_code"] == 1 and "ZeroDivisionError" in told["failed"]["stderr"]
    assert told["exit"]["exit_code"] == 3


def test_mistakes_of_a_model_are_results_it_can_act_on(told):
    assert told["mistake"]["isError"] and "Unsupported language: cobol" in told["mistake"]["content"][0]["text"]


def test_mistakes_of_a_client_are_errors(told):
    assert told["unknown"]["code"] == -32602 and "no_such_tool" in told["unknown"]["message"]


def test_d59_progress_comes_while_it_runs(told):
    steps = [step["progress"] for step in told["progress"]]
    assert len(steps) >= 2 and steps == sorted(set(steps))
    assert any("line" in step.get("message", "") for step in told["progress"])


def test_a_cancelled_call_ends_and_the_session_lives(told):
    assert told["cancelled"] == "cancelled" and told["after"]["stdout"] == "'alive'\n"
