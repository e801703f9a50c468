"""The tools as a whole, and create_session, list_sessions, close_session, interrupt, list_languages."""
import concurrent.futures

import jsonschema
import pytest
from conftest import wait_until
from hostile import make_key
from mcp_tools import Client
from server import Server, at, new_id

# Every tool, and answers for old and new clients at once; test_mcp_models.py has what a client of today gets.
SERVER_FLAGS = ("--mcp-profile=superset", "--mcp-all-tools=true")

ORDER = ["execute_code", "validate_code", "reset_session", "write_file", "read_file", "list_files", "delete_file", "run_command", "process_output", "stop_process",
         "install_packages", "allow_network", "register_mcp_server", "create_session", "list_sessions", "close_session", "interrupt", "list_languages"]
READS = {"validate_code", "read_file", "list_files", "process_output", "list_sessions", "list_languages"}
DESTROYS = {"reset_session", "delete_file", "close_session", "run_command", "stop_process"}


@pytest.fixture(scope="module")
def client(server):
    made = Client(server)
    yield made
    made.close()


def test_d37_every_tool_says_what_it_is(client):
    tools = client.request("tools/list")["tools"]
    assert [tool["name"] for tool in tools] == ORDER and tools == client.request("tools/list")["tools"]
    for tool in tools:
        name = tool["name"]
        assert tool["title"] and 40 < len(tool["description"]) < 1200, name
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            assert schema["type"] == "object", name
            jsonschema.Draft202012Validator.check_schema(schema)
        assert set(tool["inputSchema"].get("required", [])) <= set(tool["inputSchema"].get("properties", {})), name
        hints = tool["annotations"]
        assert (hints["readOnlyHint"], hints["destructiveHint"]) == (name in READS, name in DESTROYS), name
        assert hints["openWorldHint"] == (name in ("install_packages", "allow_network", "register_mcp_server")), name
        assert isinstance(hints["idempotentHint"], bool), name


def test_d41_d42_no_arguments_and_others(client):
    for tool in ("list_sessions", "list_languages", "create_session", "list_files"):
        assert client.request("tools/call", name=tool)["isError"] is False, tool
        assert client.call(tool, colour="red")["isError"] is False, tool


def test_d46_every_tool_answers_in_the_form_it_promised(client):
    """The client holds each answer against the tool's schema; here every tool has its turn."""
    name = new_id()
    process = client.facts("run_command", command="sleep 300", background=True, session_id=name)["process_id"]
    calls = {"create_session": {"session_id": new_id()}, "execute_code": {"language": "python", "code": "1"}, "validate_code": {"language": "python", "code": "1"},
             "write_file": {"path": "a", "content": "b"}, "read_file": {"path": "a"}, "list_files": {}, "run_command": {"command": "true"}, "process_output": {"process_id": process},
             "stop_process": {"process_id": process}, "interrupt": {}, "delete_file": {"path": "a"}, "list_sessions": {}, "list_languages": {}, "reset_session": {"language": "lua"}}
    for tool, arguments in calls.items():
        named = {"session_id": name} if "session_id" in client.tools[tool]["inputSchema"].get("properties", {}) and tool != "reset_session" else {}
        client.facts(tool, **{**named, **arguments})
    client.facts("close_session", session_id=name)
    assert set(client.tools) == {*calls, "close_session", "install_packages", "allow_network", "register_mcp_server"}  # the answers of the last three have tests of their own


def test_a_session_is_made_found_listed_and_ended(client, server):
    made = client.facts("create_session")
    name = made["session_id"]
    assert made["created"] and made["expires_at"]
    assert client.facts("create_session", session_id=name)["created"] is False
    assert server.get(at(name)).status == 200
    listed = {one["session_id"]: one for one in client.facts("list_sessions")["sessions"]}
    assert (listed[name]["state"], listed[name]["busy"], listed[name]["background_processes"]) == ("running", False, 0)
    client.facts("execute_code", language="python", code="x = 5", session_id=name)
    assert client.facts("execute_code", language="python", code="x", session_id=name)["stdout"] == "5\n"
    assert client.facts("close_session", session_id=name)["closed"] is True
    assert server.get(at(name)).status == 404
    assert "Unknown session" in client.refusal("close_session", session_id=name)
    assert name not in [one["session_id"] for one in client.facts("list_sessions")["sessions"]]


def test_sessions_without_a_name_are_ended_by_a_reset(client):
    client.facts("write_file", path="x", content="", language="ruby")
    assert client.facts("reset_session", language="ruby")["ended"] == 0, "there is no interpreter of it"
    assert client.facts("reset_session")["ended"] == 1
    assert client.facts("list_files", language="ruby")["entries"] == []


@pytest.mark.parametrize("tool, arguments, words", [
    ("create_session", {"session_id": ""}, "session_id is empty"),
    ("create_session", {"session_id": "a\nb"}, "control character"),
    ("create_session", {"session_id": 5}, "session_id must be a string"),
    ("close_session", {}, "Missing required parameter: session_id"),
    ("close_session", {"session_id": ""}, "session_id is empty"),
    ("interrupt", {"session_id": "no-such"}, "Unknown session: no-such"),
    ("interrupt", {"language": "cobol"}, "Unsupported language: cobol"),
])
def test_d40_what_is_wrong_is_named(client, tool, arguments, words):
    assert words in client.refusal(tool, **arguments)


def test_interrupting_code_keeps_its_state(client):
    session = new_id()
    client.facts("execute_code", language="python", code="x = 7", session_id=session)
    assert client.facts("interrupt", session_id=session)["interrupted"] == 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(client.facts, "execute_code", language="python", code="import time\nwhile True: time.sleep(0.1)", session_id=session)
        # One that comes before the first line runs finds nothing to interrupt.
        assert wait_until(lambda: client.facts("interrupt", session_id=session) and running.done(), patience=20)
        assert running.result()["exit_code"] != 0
    assert client.facts("execute_code", language="python", code="x", session_id=session)["stdout"] == "7\n"


def test_interrupting_the_session_that_has_no_name(client):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(client.facts, "execute_code", language="bash", code="sleep 60")
        assert wait_until(lambda: not (said := client.call("interrupt", language="bash"))["isError"] and said["structuredContent"]["interrupted"], patience=20)
        assert running.result(30)["exit_code"] != 0


def test_languages(client):
    languages = {one["name"]: one for one in client.facts("list_languages")["languages"]}
    assert sorted(languages) == client.tools["execute_code"]["inputSchema"]["properties"]["language"]["enum"] and len(languages) == 16
    assert languages["python"] == {"name": "python", "installed": True, "keeps_state": True, "extension": ".py", "mime_type": "text/x-python"}
    for name, one in languages.items():
        if not one["installed"]:
            assert client.call("execute_code", language=name, code="")["isError"], name


def test_tenants_do_not_see_each_other():
    server = Server(*SERVER_FLAGS)
    keys = [make_key(server, tenant)["key"] for tenant in ("first", "second")]
    with server:
        first, second = (Client(server, key=key) for key in keys)
        name = new_id()
        first.facts("write_file", path="secret", content="mine", session_id=name)
        process = first.facts("run_command", command="sleep 300", background=True, session_id=name)["process_id"]
        assert second.facts("list_sessions")["sessions"] == []
        for tool, arguments in {"read_file": {"path": "secret"}, "list_files": {}, "delete_file": {"path": "secret"}, "process_output": {"process_id": process},
                                "stop_process": {"process_id": process}, "interrupt": {}, "close_session": {}}.items():
            assert "Unknown session" in second.refusal(tool, session_id=name, **arguments), tool
        # The same name is another session.
        second.facts("write_file", path="other", content="yours", session_id=name)
        assert [one["path"] for one in first.facts("list_files", session_id=name)["entries"]] == ["secret"]
        second.facts("close_session", session_id=name)
        assert first.facts("read_file", path="secret", session_id=name)["content"] == "mine"
