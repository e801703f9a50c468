"""The protocol of MCP: what both eras answer to, whatever is called."""
import concurrent.futures
import json
import time

import pytest
from conftest import new_marker, processes_with, wait_until
from mcp_client import BOTH, KEY, LEGACY, MODERN, Fault, Legacy, Modern, everything, messages_in
from server import Server


@pytest.fixture(scope="module")
def server():
    with Server("--mcp-fixtures=true") as running:
        yield running


@pytest.fixture()
def legacy(server):
    return Legacy(server)


@pytest.fixture()
def modern(server):
    return Modern(server)


def fault(client, method, **params):
    with pytest.raises(Fault) as caught:
        client.request(method, **params)
    return caught.value


# --- base


def test_d5_an_unknown_method(legacy):
    messages, number, _ = legacy.ask("nope", number=9)
    assert messages[0]["id"] == 9 and messages[0]["error"] == {"code": -32601, "message": "Method not found: nope"}


def test_d6_notifications_are_never_answered(server, legacy):
    for body in ({"jsonrpc": "2.0", "method": "notifications/what"}, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [1]}):
        answer = server.post("/mcp", body, headers=legacy.base)
        assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("number", ["text", 0, -7, 2**53 - 1])
def test_d7_ids_come_back_as_they_are(legacy, modern, number):
    for client in (legacy, modern):
        messages, _, _ = client.ask("tools/list", number=number)
        assert messages[-1]["id"] == number and type(messages[-1]["id"]) is type(number)


def test_d8_quick_ones_overtake_slow_ones(server):
    client = Legacy(server, capabilities={"elicitation": {}})
    calls = [client.open("tools/call", name="test_elicitation", arguments={"message": str(n)}) for n in range(2)]
    questions = [stream.next() for stream, _ in calls]  # both have begun, and neither is answered
    assert client.request("ping") == {}
    for (stream, number), question in reversed(list(zip(calls, questions))):
        client.reply(question["id"], action="decline")
        assert stream.next()["id"] == number
        stream.close()


def test_d9_batches(server):
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": 2, "method": "nope"}]
    old = Legacy(server, "2025-03-26")
    answer = server.post("/mcp", json.dumps(batch).encode(), headers=old.base)
    assert {message["id"]: message.get("error", {}).get("code") for message in messages_in(answer)[0]} == {1: None, 2: -32601}
    new = Legacy(server, "2025-06-18")
    assert messages_in(server.post("/mcp", json.dumps(batch).encode(), headers=new.base))[0]["error"]["code"] == -32600


# --- legacy lifecycle


@pytest.mark.parametrize("version", LEGACY)
def test_d14_each_version_is_echoed(server, version):
    assert Legacy(server, version).hello["protocolVersion"] == version


@pytest.mark.parametrize(("asked", "answered"), [("1999-01-01", "2025-11-25"), (MODERN, "2025-11-25"), ("2024-10-07", "2024-11-05")])
def test_d15_other_versions(server, asked, answered):
    assert Legacy(server, asked).version == answered


def test_d15_no_version(server):
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    answer = server.post("/mcp", body, headers={"Content-Type": "application/json", "Accept": BOTH})
    assert answer.json["result"]["protocolVersion"] == "2024-11-05"


def test_d16_initialized_is_silent(legacy):
    legacy.notify("notifications/initialized")
    legacy.notify("initialized")


def test_d17_ping(legacy):
    assert legacy.request("ping") == {}


def test_d18_a_second_initialize(server, legacy):
    assert fault(legacy, "initialize", protocolVersion="2025-11-25").code == -32600


# Each capability, and a method of it with parameters it takes.
OFFERED = {"tools": ("tools/list", {}), "prompts": ("prompts/list", {}), "resources": ("resources/list", {}), "logging": ("logging/setLevel", {"level": "error"}),
           "completions": ("completion/complete", {"ref": {"type": "ref/prompt", "name": "run_snippet"}, "argument": {"name": "language", "value": ""}}),
           "tasks": ("tasks/list", {})}


@pytest.mark.parametrize("version", LEGACY)
def test_d19_capabilities_are_what_is_honoured(server, version):
    client = Legacy(server, version)
    said = client.hello["capabilities"]
    assert set(said) <= set(OFFERED) and {"tools", "prompts", "resources", "logging"} <= set(said)
    assert ("tasks" in said) == (version == "2025-11-25") and ("completions" in said) == (version >= "2025-03-26")
    for name in said:
        method, params = OFFERED[name]
        client.request(method, **params)
    if "tasks" not in said:
        assert fault(client, "tasks/list").code == -32601
    for method in ("server/discover", "subscriptions/listen"):
        assert fault(client, method).code in (-32601, -32602)
    assert "sandbox" in client.hello["instructions"]


# --- modern


def test_d21_discover(modern):
    messages, number, status = modern.ask("server/discover")
    result = messages[-1]["result"]
    assert status == 200 and result["supportedVersions"] == [MODERN] and result["resultType"] == "complete"
    assert {"tools", "prompts", "resources", "completions", "logging", "extensions"} == set(result["capabilities"])
    assert result["capabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert isinstance(result["ttlMs"], int) and result["cacheScope"] in ("public", "private")
    assert result["_meta"][KEY + "serverInfo"]["name"] == "cove" and result["instructions"]


@pytest.mark.parametrize("meta", [None, {KEY + "clientCapabilities": {}}, {KEY + "protocolVersion": MODERN}])
def test_d22_an_envelope_that_lacks_something(server, modern, meta):
    params = {} if meta is None else {"_meta": meta}
    answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 77, "method": "tools/list", "params": params}, headers={**modern.base, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"})
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, -32602, 77)
    assert "protocolVersion" in answer.json["error"]["message"]


def test_d23_who_the_client_is_need_not_be_said(server, modern):
    meta = {KEY + "protocolVersion": MODERN, KEY + "clientCapabilities": {}}
    answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}, headers={**modern.base, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"})
    assert answer.status == 200 and answer.json["result"]["tools"]


def test_d24_a_version_that_is_not_served(modern):
    messages, number, status = modern.ask("server/discover", headers={"MCP-Protocol-Version": "v999.0.0"}, _meta={KEY + "protocolVersion": "v999.0.0"})
    error = messages[0]["error"]
    assert (status, error["code"], error["data"]) == (400, -32022, {"supported": [MODERN], "requested": "v999.0.0"})


def test_d25_header_and_body_say_different_versions(modern):
    messages, _, status = modern.ask("server/discover", _meta={KEY + "protocolVersion": "v999.0.0"})
    assert (status, messages[0]["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "x/y"])
def test_d26_methods_that_are_gone(modern, method):
    messages, number, status = modern.ask(method)
    assert (status, messages[0]["error"]["code"], messages[0]["id"]) == (404, -32601, number)


def test_d27_every_result_says_what_it_is(modern):
    for method, params in [("tools/list", {}), ("prompts/list", {}), ("resources/list", {}), ("tools/call", {"name": "test_error_handling"}), ("tools/call", {"name": "test_simple_text"}),
                           ("resources/read", {"uri": "test://static-text"}), ("prompts/get", {"name": "test_simple_prompt"})]:
        result = modern.request(method, **params)
        assert result["resultType"] == "complete" and result["_meta"][KEY + "serverInfo"]["version"], method


def test_d28_a_capability_that_was_not_declared(modern):
    caught = fault(modern, "tools/call", name="test_missing_capability")
    assert (caught.status, caught.code, caught.data) == (400, -32021, {"requiredCapabilities": {"sampling": {}}})


def test_d29_no_log_lines_unless_asked_for(server, modern):
    messages, _, _ = modern.ask("tools/call", name="test_tool_with_logging")
    assert len(messages) == 1
    messages, _, _ = Modern(server, level="info").ask("tools/call", name="test_tool_with_logging")
    assert [m["params"]["data"] for m in messages[:-1]] == ["Tool execution started", "Tool processing data", "Tool execution completed"]


@pytest.mark.parametrize("headers", [{"Mcp-Method": ""}, {"Mcp-Method": "tools/list"}, {"Mcp-Method": "TOOLS/CALL"}, {"Mcp-Name": ""}, {"Mcp-Name": "other"}, {"Mcp-Name": "=?base64?!!?="}])
def test_d30_headers_that_do_not_say_what_the_body_says(modern, headers):
    messages, number, status = modern.ask("tools/call", headers=headers, name="test_simple_text")
    assert (status, messages[0]["error"]["code"], messages[0]["id"]) == (400, -32020, number)


def test_d31_header_names_in_any_case(server, modern):
    body, headers = modern.message("tools/call", 1, {"name": "test_simple_text"})
    for change in (str.lower, str.upper):
        written = {change(name): f"  {value} " for name, value in headers.items()}
        assert server.post("/mcp", body, headers={**modern.base, **written}).status == 200


def test_d32_encoded_names(modern):
    messages, _, status = modern.ask("tools/call", headers={"Mcp-Name": "=?base64?dGVzdF9zaW1wbGVfdGV4dA==?="}, name="test_simple_text")
    assert status == 200 and messages[0]["result"]["isError"] is False


def test_d33_who_listens_hears_of_tools(modern):
    with modern.listening(toolsListChanged=True) as heard:
        acknowledged = heard.get(timeout=10)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
        modern.call("test_trigger_tool_change")
        changed = heard.get(timeout=10)
        assert changed["method"] == "notifications/tools/list_changed"
        for message in (acknowledged, changed):
            assert message["params"]["_meta"][KEY + "subscriptionId"] == modern.listen_number


def test_d34_and_of_nothing_else(modern):
    with modern.listening(promptsListChanged=True) as heard:
        assert heard.get(timeout=10)["params"]["notifications"] == {"promptsListChanged": True}
        modern.call("test_trigger_tool_change")
        modern.call("test_trigger_prompt_change")
        assert heard.get(timeout=10)["method"] == "notifications/prompts/list_changed"


@pytest.mark.parametrize("wishes", [None, 5, {"toolsListChanged": 1}, {"resourceSubscriptions": "x"}, {"taskIds": [1]}])
def test_wishes_that_are_none(modern, wishes):
    assert fault(modern, "subscriptions/listen", **({} if wishes is None else {"notifications": wishes})).code == -32602


def test_legacy_clients_hear_of_lists_on_their_stream(legacy):
    with legacy.listening() as heard:
        legacy.call("test_trigger_tool_change")
        assert heard.get(timeout=10)["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize(("method", "params"), [("server/discover", {}), ("tools/list", {}), ("prompts/list", {}), ("resources/list", {}), ("resources/templates/list", {}), ("resources/read", {"uri": "test://static-text"})])
def test_d35_caching_hints(modern, method, params):
    result = modern.request(method, **params)
    assert type(result["ttlMs"]) is int and result["ttlMs"] >= 0 and result["cacheScope"] in ("public", "private")


def test_d36_a_call_that_needs_input_asks_in_its_answer(server):
    client = Modern(server, {"elicitation": {}})
    messages, _, _ = client.ask("tools/call", name="test_streaming_elicitation", _meta={"progressToken": 1})
    assert all("id" not in message for message in messages[:-1]) and messages[-1]["result"]["resultType"] == "input_required"


# --- tools, as lists


def test_d37_tools(legacy):
    tools = legacy.request("tools/list")["tools"]
    assert tools == legacy.request("tools/list")["tools"]
    for tool in tools:
        assert tool["name"] and tool["description"] and tool["inputSchema"]["type"] == "object"


def test_d38_pages(server):
    with Server("--mcp-fixtures=true", "--mcp-page-size=2") as small:
        assert len(Legacy(small).request("tools/list")["tools"]) == 2
        for client in (Legacy(small), Modern(small)):
            for method, name, least in (("tools/list", "tools", 10), ("prompts/list", "prompts", 5), ("resources/list", "resources", 3), ("resources/templates/list", "resourceTemplates", 3)):
                found, pages = everything(client, method, name)
                keys = [json.dumps(entry.get("uri") or entry.get("uriTemplate") or entry["name"]) for entry in found]
                assert len(keys) == len(set(keys)) >= least and pages >= len(found) / 2, method
                for cursor in ("", "x", "MTIz", "YXQ6OTk5OQ", 5):
                    assert fault(client, method, cursor=cursor).code == -32602, (method, cursor)


def test_d39_an_unknown_tool(legacy, modern):
    for client in (legacy, modern):
        caught = fault(client, "tools/call", name="X")
        assert (caught.code, caught.message) == (-32602, "Unknown tool: X")
    assert fault(legacy, "tools/call").code == -32602
    assert fault(legacy, "tools/call", name="test_simple_text", arguments=[1]).code == -32602


def test_d41_and_d42_no_arguments_and_more_than_are_known(legacy):
    assert legacy.call("test_simple_text")["content"][0]["type"] == "text"
    assert legacy.call("test_simple_text", {"other": 1, "more": [2]})["isError"] is False


def test_d48_schemas_are_kept_as_they_are(legacy, modern):
    for client in (legacy, modern):
        schema = next(tool for tool in client.request("tools/list")["tools"] if tool["name"] == "json_schema_2020_12_tool")["inputSchema"]
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema" and schema["$defs"]["address"]["$anchor"] == "addressDef"
        assert {"allOf", "if", "then", "else"} <= set(schema) and schema["additionalProperties"] is False


def test_what_a_revision_lacks_is_not_sent(server):
    oldest, middle, newest = (Legacy(server, version) for version in ("2024-11-05", "2025-03-26", "2025-11-25"))
    tools = {client.version: {tool["name"]: tool for tool in client.request("tools/list")["tools"]} for client in (oldest, middle, newest)}
    assert not {"title", "outputSchema", "annotations", "execution"} & set(tools["2024-11-05"]["execute_code"])
    assert "annotations" in tools["2025-03-26"]["execute_code"] and "outputSchema" not in tools["2025-03-26"]["execute_code"]
    assert tools["2025-11-25"]["execute_code"]["execution"] == {"taskSupport": "optional"}
    assert oldest.call("test_audio_content")["content"][0]["type"] == "resource"
    assert middle.call("test_audio_content")["content"][0]["type"] == "audio"


# --- utilities


@pytest.mark.parametrize("token", ["a", 7])
def test_d59_and_d60_progress(legacy, modern, token):
    for client in (legacy, modern):
        messages, _, _ = client.ask("tools/call", name="test_tool_with_progress", _meta={"progressToken": token})
        assert [m["params"] for m in messages[:-1]] == [{"progressToken": token, "progress": done, "total": 100} for done in (0, 50, 100)]
        assert len(client.ask("tools/call", name="test_tool_with_progress")[0]) == 1


def test_d61_log_lines(server):
    client = Legacy(server)
    assert len(client.ask("tools/call", name="test_tool_with_logging")[0]) == 1
    assert fault(client, "logging/setLevel", level="loud").code == -32602
    assert client.request("logging/setLevel", level="debug") == {}
    messages, number, _ = client.ask("tools/call", name="execute_code", arguments={"language": "bash", "code": "echo said; echo wrong >&2"})
    told = {m["params"]["logger"]: m["params"]["data"] for m in messages[:-1]}
    assert told == {"execute_code.stdout": {"text": "said\n", "requestId": number}, "execute_code.stderr": {"text": "wrong\n", "requestId": number}}
    client.request("logging/setLevel", level="error")
    assert len(client.ask("tools/call", name="test_tool_with_logging")[0]) == 1


def test_d62_and_d63_cancelling(legacy):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        call = pool.submit(legacy.ask, "tools/call", 50, name="slow_compute", arguments={"seconds": 60})
        legacy.notify("notifications/cancelled", requestId=999, reason="nothing of it is known")
        while not call.done():
            legacy.notify("notifications/cancelled", requestId=50)
            time.sleep(0.05)
        messages, _, status = call.result()
        assert messages == []
    assert legacy.call("test_simple_text")["isError"] is False


def test_d64_who_leaves_cancels_in_2026_alone(server, legacy, modern):
    marker = new_marker()
    arguments = {"language": "bash", "code": f"echo begun; exec -a {marker} sleep 300", "timeout": 300}
    stream, _ = modern.open("tools/call", name="execute_code", arguments=arguments)
    assert wait_until(lambda: processes_with(marker))
    stream.close()
    assert wait_until(lambda: not processes_with(marker))
    code = f"exec -a {marker} sleep 300 & while [ ! -e go ]; do sleep 0.05; done; echo went; kill $!"
    stream, number = legacy.open("tools/call", name="execute_code", arguments={**arguments, "code": code, "session_id": "d64"}, _meta={"progressToken": 1})
    assert wait_until(lambda: processes_with(marker))
    primed = stream.stream.next_as_sent()
    stream.close()
    assert not wait_until(lambda: not processes_with(marker), 1), "it ended with the connection"
    assert server.put("/v1/sandboxes/d64/files?path=/workspace/go", b"").status < 300
    resumed = server.sse("/mcp", "GET", None, {**legacy.base, "Accept": "text/event-stream", "Last-Event-ID": primed["id"]}, timeout=60)
    while True:
        message = json.loads(resumed.next_as_sent()["data"] or "{}")
        if message.get("id") == number:
            break
    assert message["result"]["structuredContent"]["stdout"] == "went\n"
    resumed.close()


def test_files_that_runs_make_change_the_list_of_resources(legacy):
    with legacy.listening() as heard:
        legacy.call("write_file", {"path": "new.txt", "content": "x", "session_id": "made"})
        assert heard.get(timeout=10)["method"] == "notifications/resources/list_changed"
