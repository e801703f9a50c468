"""The MCP client against servers that others wrote, over every transport, and against odd ones of both eras (contracts/mcp.md, C and cases 90 to 97)."""
import concurrent.futures
import json
import os
import pathlib
import time

import pytest
from client_program import Client, NotConnected, listening_node_server, node_server, odd_server, reach_of

EVERYTHING = {"echo", "get-sum", "get-structured-content", "trigger-long-running-operation"}


# --- npm's example servers --------------------------------------------------------------------------------------------

def use_everything(client):
    tools = client.tools()
    assert set(tools) >= EVERYTHING
    assert client.text("echo", {"message": "hé\n"}) == "Echo: hé\n"
    assert "5" in client.text("get-sum", {"a": 2, "b": 3})
    structured = client.call("get-structured-content", {"location": "New York"})
    assert structured["structured"]["temperature"] and structured["isError"] is False
    wrong = client.call("get-sum", {"a": "two", "b": 3})
    assert wrong["error"]["code"] == "invalid" and "arguments.a must be a number" in wrong["error"]["message"]
    number = client.order("call", name="trigger-long-running-operation", arguments={"duration": 1, "steps": 3}, progress=True)
    assert "completed" in json.dumps(client.answer(number)["content"])
    assert len([one for one in client.said if one.get("id") == number]) >= 2
    resources = client.ask("request", method="resources/list")
    assert resources["result"]["resources"]
    numbers = [client.order("call", name="echo", arguments={"message": str(i)}) for i in range(50)]
    assert [client.answer(number)["content"][0]["text"] for number in numbers] == [f"Echo: {i}" for i in range(50)]


def test_everything_over_stdio():
    with Client(node_server("server-everything")) as client:
        use_everything(client)


@pytest.mark.parametrize(("transport", "path", "kind"), [("streamableHttp", "/mcp", "http"), ("streamableHttp", "/mcp", None), ("sse", "/sse", "sse"), ("sse", "/sse", None)])
def test_everything_over_http(transport, path, kind):
    with listening_node_server("server-everything", transport) as port:
        config = {"url": f"http://127.0.0.1:{port}{path}", **({"type": kind} if kind else {})}
        with Client(config, reach=reach_of(port)) as client:
            use_everything(client)


def test_filesystem(workdir):
    (workdir / "a.txt").write_text("hello")
    with Client(node_server("server-filesystem", workdir)) as client:
        assert client.text("read_text_file", {"path": str(workdir / "a.txt")}) == "hello"
        client.text("write_file", {"path": str(workdir / "b.txt"), "content": "x" * 100_000})
        assert (workdir / "b.txt").stat().st_size == 100_000
        outside = client.call("read_text_file", {"path": "/etc/passwd"})
        assert outside["isError"] is True


def test_memory(workdir):
    config = node_server("server-memory")
    config["env"] = {"MEMORY_FILE_PATH": str(workdir / "memory.json")}
    with Client(config) as client:
        client.text("create_entities", {"entities": [{"name": "a", "entityType": "t", "observations": ["o"]}]})
        graph = client.call("read_graph")
        assert graph["structured"]["entities"][0]["name"] == "a"


def test_a_server_of_http_events_alone_is_found_without_a_type():
    """Case 91: neither the type nor the path says what it is."""
    with listening_node_server("server-everything", "sse") as port:
        # The server of the older transport answers a POST to its stream with 404.
        with Client({"url": f"http://127.0.0.1:{port}/sse?x=/mcp", "type": "sse"}, reach=reach_of(port)) as client:
            assert client.text("echo", {"message": "x"}) == "Echo: x"


# --- eras (case 90) ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("kind", "revision", "within"), [("plain", "2025-11-25", 2), ("strange", "2025-11-25", 2), ("silent", "2025-11-25", 8), ("exits", "2025-11-25", 4), ("modern", "2026-07-28", 2)])
def test_every_kind_of_stdio_server_connects(kind, revision, within):
    since = time.monotonic()
    with Client(odd_server(kind)) as client:
        assert time.monotonic() - since < within * 3
        assert client.hello["revision"] == revision
        assert json.loads(client.text("echo", {"a": 1})) == {"a": 1}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2024-10-07"])
def test_every_older_revision_connects(version):
    with Client(odd_server("old", version)) as client:
        assert client.hello["revision"] == {"2024-10-07": "2024-11-05"}.get(version, version)
        assert client.text("echo") == "{}"


def refused(config, **options):
    with pytest.raises(NotConnected) as raised:
        Client(config, **options)
    return raised.value.error


def test_what_cannot_be_connected_says_why():
    unknown = refused(odd_server("unknown_version"))
    assert unknown["code"] == "unsupported" and "1999-01-01" in unknown["message"]
    assert "not today" in refused(odd_server("refuses"))["message"]
    assert "exit status 2" in refused({"command": "sh", "args": ["-c", "echo why >&2; exit 2"]})["message"]
    assert "why" in refused({"command": "sh", "args": ["-c", "echo why >&2; exit 2"]})["message"]
    missing = refused({"command": "/no/such/program"})
    assert missing["code"] == "unavailable" and "No such file" in missing["message"]
    late = refused({**odd_server("never"), "connect_timeout": 3})
    assert late["code"] == "unavailable" and late["errno"] == 110
    assert refused({"url": "http://127.0.0.1:1/mcp"})["code"] == "denied"
    assert refused({"url": "http://127.0.0.1:1/mcp"}, reach=["127.0.0.1:1"])["code"] == "unavailable"


@pytest.mark.parametrize(("config", "named"), [
    ({}, "command"), ({"command": "x", "url": "http://e.example"}, "command"), ({"command": ""}, "command"), ({"command": 5}, "command"),
    ({"command": "x", "args": ["a", 1]}, "args[1]"), ({"command": "x", "env": {"A": 1}}, "env.A"), ({"url": "ftp://e.example"}, "url"), ({"url": "http://e.example", "type": "x"}, "type"),
    ({"url": "http://e.example", "headers": {"A b": "x"}}, "headers.A b"), ({"url": "http://e.example", "headers": {"A": "x\r\nB: y"}}, "headers.A"),
    ({"url": "http://e.example", "headers": {"Mcp-Session-Id": "x"}}, "headers.Mcp-Session-Id"), ({"command": "x", "timeout": 0}, "timeout"), ({"command": "x", "timeout": "1"}, "timeout"),
    ({"command": "${COVE_TEST_NOT_SET}"}, "COVE_TEST_NOT_SET"), ({"url": "http://e.example", "auth": {"client_id": "a"}}, "auth"), ({"command": "x", "allow_tools": "all"}, "allow_tools"),
])
def test_a_configuration_that_is_wrong_is_told_by_its_field(config, named):
    error = refused(config)
    assert error["code"] == "invalid" and named in error["message"], error


# --- how programs run -------------------------------------------------------------------------------------------------

def test_a_program_gets_the_few_variables_and_its_own_and_no_shell(workdir):
    config = odd_server("environment", "$(id)", "`id`;exit", "a b\n")
    config.update(env={"TOKEN": "${COVE_TEST_SECRET}", "LITERAL": "${ not a name }$HOME"}, cwd=str(workdir))
    with Client(config, env={"COVE_TEST_SECRET": "s3cret", "COVE_TEST_OTHER": "x"}) as client:
        seen = json.loads(client.text("show"))
    assert seen["argv"][1:] == ["environment", "$(id)", "`id`;exit", "a b\n"]
    assert seen["env"]["TOKEN"] == "s3cret" and seen["env"]["LITERAL"] == "${ not a name }$HOME"
    assert set(seen["env"]) <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TOKEN", "LITERAL", "LC_CTYPE"}
    assert seen["cwd"] == str(workdir)


def test_a_stubborn_program_is_ended_with_its_children():
    with Client(odd_server("stubborn")) as client:
        pids = json.loads(client.text("pids"))
        since = time.monotonic()
        client.close()
        assert 3.5 < time.monotonic() - since < 15
    until = time.monotonic() + 5
    while any(pathlib.Path(f"/proc/{pid}").exists() and pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_program_that_died_is_started_again_by_the_next_call():
    with Client(odd_server("dies")) as client:
        error = client.call("exit")["error"]
        assert error["code"] == "unavailable" and error["errno"] == 0
        assert "exit status 7" in error["message"] and "the last ?[31mwords" in error["message"]
        assert client.text("echo", {"a": 2}) == '{"a": 2}'
        assert "SIGSEGV" in client.call("crash")["error"]["message"]
        assert client.text("echo") == "{}"
        assert client.info()["counters"]["restarts"] == 2


def test_calls_under_way_fail_when_the_program_dies_and_others_go_on():
    with Client(odd_server("dies")) as client:
        waiting = [client.order("call", name="crash") for _ in range(5)]
        assert all(client.answer(number)["error"]["code"] == "unavailable" for number in waiting)
        assert client.text("echo") == "{}"


def test_output_that_is_no_message_is_passed_over():
    with Client(odd_server("noisy")) as client:
        assert client.text("echo") == "ok"
        assert any("starting up" in line for line in client.logged())


def test_batches_of_an_older_server_are_read():
    with Client(odd_server("batches")) as client:
        assert client.text("echo") == "in a batch"


# --- calls ------------------------------------------------------------------------------------------------------------

def test_arguments_are_checked_before_they_are_sent():
    with Client(odd_server("arguments")) as client:
        assert json.loads(client.text("echo", {"n": 1, "remote": ["anything"]})) == {"n": 1, "remote": ["anything"]}
        for arguments, place in (({}, 'arguments must have "n"'), ({"n": "1"}, "arguments.n must be an integer"), ({"n": 1, "x": 1}, 'arguments must not have a member "x"')):
            error = client.call("echo", arguments)["error"]
            assert error["code"] == "invalid" and place in error["message"]
        assert client.call("nothing")["error"]["code"] == "not_found"


def test_results_are_checked_against_what_the_tool_promised():
    with Client(odd_server("structured")) as client:
        assert client.call("good")["structured"] == {"n": 1}
        bad = client.call("bad")["error"]
        assert bad["code"] == "conflict" and "structuredContent.n must be an integer" in bad["message"]
        assert "no structuredContent" in client.call("none")["error"]["message"]
        failed = client.call("failed")
        assert failed["isError"] is True and failed["content"][0]["text"] == "it failed"
        assert client.call("no blocks")["error"]["code"] == "conflict"
        assert client.call("fault")["fault"] == {"code": -32042, "message": "look", "data": {"a": [1]}}
        assert client.call("no object")["error"]["code"] == "conflict"


def test_a_call_that_gets_no_answer_ends_and_the_server_is_told():
    with Client({**odd_server("hangs"), "timeout": 1}) as client:
        since = time.monotonic()
        error = client.call("hang")["error"]
        assert error["code"] == "unavailable" and error["errno"] == 110 and 0.9 < time.monotonic() - since < 5
        assert client.call("hang", timeout_ms=200)["error"]["errno"] == 110
        left = client.call("hang", timeout_ms=60_000, abandon_ms=300)["error"]
        assert left["code"] == "unavailable" and left["errno"] == 125
        assert len(json.loads(client.text("cancelled"))) == 3


def test_progress_keeps_a_call_alive_and_the_hard_limit_ends_it():
    with Client(odd_server("hangs")) as client:
        since = time.monotonic()
        error = client.call("progress", timeout_ms=800, most_ms=2500, progress=True)["error"]
        assert error["errno"] == 110 and 2.4 < time.monotonic() - since < 6
        assert len([one for one in client.said if "progress" in one]) > 5
        since = time.monotonic()
        assert client.call("stalled progress", timeout_ms=800, most_ms=20_000, progress=True)["error"]["errno"] == 110
        assert time.monotonic() - since < 5


def test_a_late_answer_is_dropped():
    with Client(odd_server("hangs")) as client:
        assert client.call("late", timeout_ms=200)["error"]["errno"] == 110
        time.sleep(0.7)
        assert len(json.loads(client.text("cancelled"))) == 1
        assert client.info()["counters"]["late_answers"] == 1


def test_many_pages_are_one_list():
    """Case 95."""
    with Client(odd_server("pages")) as client:
        assert list(client.tools()) == [f"tool {i}" for i in range(300)]
        assert client.text("tool 299") == "{}"


def test_a_list_that_changes_is_asked_for_again():
    with Client(odd_server("changes")) as client:
        assert set(client.tools()) == {"first", "change"}
        client.text("change")
        client.wait_for(lambda one: {"changed": "tools"} in one.said)
        assert set(client.tools()) == {"second", "change"}
        assert client.call("first")["error"]["code"] == "not_found"


def test_lists_of_allowed_and_denied_tools_hold():
    with Client({**odd_server("pages"), "allow_tools": ["tool 1*"], "deny_tools": ["tool 11", "*9"]}) as client:
        tools = client.tools()
        assert "tool 1" in tools and "tool 123" in tools and not {"tool 2", "tool 11", "tool 19"} & set(tools)
        assert client.call("tool 2")["error"]["code"] == "not_found"
        assert client.call("tool 11")["error"]["code"] == "not_found"


def test_a_server_that_asks_is_refused_what_is_not_offered():
    with Client(odd_server("asks")) as client:
        assert json.loads(client.text("ping")) == {"result": {}}
        assert json.loads(client.text("elicitation/create")) == {"result": {"action": "decline"}}
        for method in ("roots/list", "sampling/createMessage", "made/up"):
            assert json.loads(client.text(method))["error"]["code"] == -32601


def test_rounds_and_tasks_of_the_newest_revision():
    with Client(odd_server("modern")) as client:
        responses, state = json.loads(client.text("asks"))
        assert responses == {"q": {"action": "decline"}} and state == "s\"1"
        assert client.text("job") == "done"
        assert "10 times" in client.call("forever")["error"]["message"]
        assert "surprise" in client.call("odd type")["error"]["message"]


def test_a_task_that_nobody_waits_for_is_cancelled():
    with Client(odd_server("modern", "never")) as client:
        assert client.call("job", most_ms=600)["error"]["errno"] == 110
        assert client.text("echo") == "{}"


def test_a_tool_that_runs_as_a_task_alone_is_called_as_one():
    with Client(odd_server("task")) as client:
        assert client.text("job") == "of t9"


def test_no_reference_of_a_schema_is_fetched(workdir):
    """Case 94."""
    from client_program import HttpServer
    with HttpServer(lambda request: request.answer(200, {"type": "string"})) as canary, Client(odd_server("arguments", canary.url), reach=canary.reach) as client:
        assert client.text("echo", {"n": 1, "remote": 5})
        assert canary.requests == []


def test_many_clients_at_once():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        def use(number):
            with Client(odd_server("plain")) as client:
                return client.text("echo", {"n": number})
        assert list(pool.map(use, range(8))) == [json.dumps({"n": i}) for i in range(8)]


def test_our_own_server_as_peer():
    """`cove mcp`, the modern era over pipes."""
    from conftest import COVE
    from mcp_stdio import own_state
    with own_state() as directory:
        with Client({"command": COVE, "args": ["mcp", "--state-dir", directory], "env": {"PATH": os.environ["PATH"]}, "connect_timeout": 60}) as client:
            assert client.hello["revision"] == "2026-07-28"
            assert "execute_code" in client.tools()
            result = client.call("execute_code", {"language": "python", "code": "print(6*7)"})
            assert result["structured"]["stdout"] == "42\n"
