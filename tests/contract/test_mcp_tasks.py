"""Asking the client, and calls that go on as tasks, in both forms."""
import pytest
from conftest import new_marker, processes_with, wait_until
from mcp_client import TASKS, Fault, Legacy, Modern, outcome
from server import Server

FORM = {"elicitation": {}}
KNOWS = {"extensions": {TASKS: {}}, "elicitation": {}}


@pytest.fixture(scope="module")
def server():
    with Server("--mcp-fixtures=true") as running:
        yield running


@pytest.fixture()
def legacy(server):
    return Legacy(server, capabilities={"sampling": {}, "elicitation": {}, "roots": {}})


@pytest.fixture()
def modern(server):
    return Modern(server, KNOWS)


def fault(client, method, **params):
    with pytest.raises(Fault) as caught:
        client.request(method, **params)
    return caught.value


# --- asking


def asked(client, name, answer, arguments=None):
    """What a legacy client was asked by a tool, and the text that came of its answer."""
    stream, number = client.open("tools/call", name=name, arguments=arguments or {})
    question = stream.next()
    client.reply(question["id"], **answer)
    result = outcome([stream.next()], number)
    stream.close()
    return question, result["content"][0]["text"]


def test_d69_legacy_sampling(legacy):
    question, text = asked(legacy, "test_sampling", {"role": "assistant", "content": {"type": "text", "text": "Four"}, "model": "m"}, {"prompt": "2+2?"})
    assert question["method"] == "sampling/createMessage" and question["params"]["maxTokens"] == 100
    assert question["params"]["messages"] == [{"role": "user", "content": {"type": "text", "text": "2+2?"}}] and text == "LLM response: Four"


def test_d69_legacy_forms(legacy):
    question, text = asked(legacy, "test_elicitation", {"action": "accept", "content": {"username": "ada", "email": "a@b"}}, {"message": "Who?"})
    assert question["method"] == "elicitation/create" and question["params"]["message"] == "Who?" and '"username":"ada"' in text
    question, _ = asked(legacy, "test_elicitation_sep1034_defaults", {"action": "accept", "content": {}})
    defaults = {name: field["default"] for name, field in question["params"]["requestedSchema"]["properties"].items()}
    assert defaults == {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True}
    question, text = asked(legacy, "test_elicitation_sep1330_enums", {"action": "decline"})
    assert list(question["params"]["requestedSchema"]["properties"]) == ["untitledSingle", "titledSingle", "legacyEnum", "untitledMulti", "titledMulti"]
    assert "decline" in text


def test_d70_who_cannot_be_asked_is_not(server):
    client = Legacy(server)
    assert fault(client, "tools/call", name="test_sampling", arguments={"prompt": "x"}).code == -32600
    assert client.call("test_input_required_result_capabilities")["content"][0]["text"] == "There is nothing that this client can be asked"


YES = {"action": "accept", "content": {"name": "Ada", "ok": True, "color": "red"}}


def again(client, name, first, answers, method="tools/call", **more):
    return client.request(method, name=name, **({"arguments": {}} if method == "tools/call" else {}), inputResponses=answers, requestState=first["requestState"], **more)


def test_d71_rounds(server):
    client = Modern(server, {"elicitation": {}, "sampling": {}, "roots": {}})
    one = client.call("test_input_required_result_elicitation", {})
    assert one["resultType"] == "input_required" and list(one["inputRequests"]) == ["user_name"]
    assert again(client, "test_input_required_result_elicitation", one, {"user_name": YES, "extra": {}})["content"][0]["text"] == "Hello, Ada!"
    assert again(client, "test_input_required_result_elicitation", one, {"wrong": YES})["resultType"] == "input_required"
    several = client.call("test_input_required_result_multiple_inputs", {})
    assert set(several["inputRequests"]) == {"user_name", "greeting", "client_roots"}
    partly = again(client, "test_input_required_result_multiple_inputs", several, {"user_name": YES, "client_roots": {"roots": []}})
    assert set(partly["inputRequests"]) == {"greeting"}
    model = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}
    assert again(client, "test_input_required_result_multiple_inputs", partly, {"greeting": model})["content"][0]["text"].startswith("Hi Hello, Ada!")
    first = client.call("test_input_required_result_multi_round", {})
    second = again(client, "test_input_required_result_multi_round", first, {"step1": YES})
    assert set(second["inputRequests"]) == {"step2"} and second["requestState"] != first["requestState"]
    assert again(client, "test_input_required_result_multi_round", second, {"step2": YES})["content"][0]["text"] == "Ada likes red"
    prompt = client.request("prompts/get", name="test_input_required_result_prompt")
    assert set(prompt["inputRequests"]) == {"user_context"}
    assert again(client, "test_input_required_result_prompt", prompt, {"user_context": YES}, "prompts/get")["messages"]


def test_d71_state_is_good_for_its_call_alone(server):
    client = Modern(server, FORM)
    first = client.call("test_input_required_result_elicitation", {})
    state = first["requestState"]
    for name, arguments, given in [("test_input_required_result_elicitation", {}, state + "x"), ("test_input_required_result_elicitation", {}, ""), ("test_input_required_result_elicitation", {}, "a.b"),
                                   ("test_input_required_result_elicitation", {"x": 1}, state), ("test_input_required_result_request_state", {}, state)]:
        assert fault(client, "tools/call", name=name, arguments=arguments, inputResponses={"user_name": YES}, requestState=given).code == -32602
    for answers in (5, {"user_name": 5}, []):
        assert fault(client, "tools/call", name="test_input_required_result_elicitation", arguments={}, inputResponses=answers).code == -32602


def test_d72_lists_never_ask(server):
    client = Modern(server, {"elicitation": {}, "sampling": {}, "roots": {}})
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        assert client.request(method)["resultType"] == "complete"


# --- tasks of 2025-11-25


def test_d73_a_task_from_beginning_to_end(server, legacy):
    made = legacy.call("slow_compute", {"seconds": 0.5}, task={"ttl": 60000})["task"]
    assert made["status"] == "working" and made["ttl"] == 60000 and isinstance(made["pollInterval"], int) and len(made["taskId"]) >= 32
    assert made["createdAt"].startswith("20") and made["lastUpdatedAt"] >= made["createdAt"]
    assert legacy.request("tasks/get", taskId=made["taskId"])["taskId"] == made["taskId"]
    result = legacy.request("tasks/result", taskId=made["taskId"])
    assert result["content"][0]["text"].startswith("Computed") and result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": made["taskId"]}
    assert legacy.request("tasks/get", taskId=made["taskId"])["status"] == "completed"
    assert made["taskId"] in [task["taskId"] for task in legacy.request("tasks/list")["tasks"]]
    assert made["taskId"] not in [task["taskId"] for task in Legacy(server).request("tasks/list")["tasks"]]
    assert fault(legacy, "tasks/cancel", taskId=made["taskId"]).code == -32602
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert fault(legacy, method, taskId="task-none").code == -32602
    failed = legacy.call("failing_job", {}, task={})["task"]
    assert legacy.request("tasks/result", taskId=failed["taskId"])["isError"] is True
    assert legacy.request("tasks/get", taskId=failed["taskId"])["status"] == "failed"
    broken = legacy.call("protocol_error_job", {}, task={})["task"]
    assert fault(legacy, "tasks/result", taskId=broken["taskId"]).code == -32603


def test_d73_cancelling_a_task_ends_its_run(legacy):
    marker = new_marker()
    made = legacy.call("execute_code", {"language": "bash", "code": f"exec -a {marker} sleep 300", "timeout": 300}, task={})["task"]
    assert wait_until(lambda: processes_with(marker))
    assert legacy.request("tasks/cancel", taskId=made["taskId"])["status"] == "cancelled"
    assert wait_until(lambda: not processes_with(marker))
    assert legacy.request("tasks/get", taskId=made["taskId"])["status"] == "cancelled"
    assert fault(legacy, "tasks/cancel", taskId=made["taskId"]).code == -32602


def test_a_legacy_task_asks_whoever_waits_for_it(legacy):
    made = legacy.call("confirm_delete", {"filename": "a.txt"}, task={})["task"]
    assert wait_until(lambda: legacy.request("tasks/get", taskId=made["taskId"])["status"] == "input_required")
    stream, number = legacy.open("tasks/result", taskId=made["taskId"])
    question = stream.next()
    assert question["params"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": made["taskId"]}
    legacy.reply(question["id"], action="accept", content={"confirm": True})
    assert outcome([stream.next()], number)["content"][0]["text"] == "Deleted a.txt"
    stream.close()


def test_d74_tools_and_tasks_that_do_not_go_together(legacy):
    assert fault(legacy, "tools/call", name="greet", arguments={"name": "x"}, task={}).code == -32601
    assert fault(legacy, "tools/call", name="failing_job", arguments={}).code == -32601
    assert fault(legacy, "tools/call", name="slow_compute", arguments={}, task=5).code == -32602
    assert fault(legacy, "tools/call", name="slow_compute", arguments={}, task={"ttl": "long"}).code == -32602
    assert legacy.call("slow_compute", {"seconds": 10}, task={"ttl": 10**12})["task"]["ttl"] == 24 * 3600 * 1000


# --- tasks of 2026-07-28


def ended(client, made):
    found = {}
    assert wait_until(lambda: found.update(client.request("tasks/get", taskId=made["taskId"])) or found["status"] in ("completed", "failed", "cancelled"))
    return found


def test_d75_and_d78_a_modern_task(modern):
    made = modern.call("slow_compute", {"seconds": 0.5})
    assert made["resultType"] == "task" and made["status"] == "working" and "task" not in made
    assert type(made["ttlMs"]) is int and type(made["pollIntervalMs"]) is int and not {"ttl", "pollInterval", "requestState", "result"} & set(made)
    assert modern.request("tasks/get", taskId=made["taskId"])["resultType"] == "complete"
    done = ended(modern, made)
    assert done["status"] == "completed" and done["result"]["content"][0]["text"].startswith("Computed") and "requestState" not in done
    failed = ended(modern, modern.call("failing_job", {}))
    assert failed["status"] == "completed" and failed["result"]["isError"] is True
    broken = ended(modern, modern.call("protocol_error_job", {}))
    assert broken["status"] == "failed" and broken["error"]["code"] == -32603 and "result" not in broken


def test_d75_what_may_take_long_becomes_a_task_unless_it_is_quick(modern):
    quick = modern.call("execute_code", {"language": "bash", "code": "echo 1", "timeout": 60})
    assert quick["resultType"] == "complete" and quick["structuredContent"]["stdout"] == "1\n"
    slow = modern.call("execute_code", {"language": "bash", "code": "sleep 1.5; echo 2", "timeout": 60})
    assert slow["resultType"] == "task"
    assert ended(modern, slow)["result"]["structuredContent"]["stdout"] == "2\n"
    short = modern.call("execute_code", {"language": "bash", "code": "sleep 1.5; echo 3", "timeout": 10})
    assert short["resultType"] == "complete" and short["structuredContent"]["stdout"] == "3\n"


def test_d76_updates_and_what_is_gone(modern):
    made = modern.call("multi_input", {})
    assert wait_until(lambda: modern.request("tasks/get", taskId=made["taskId"])["status"] == "input_required")
    first, second = modern.request("tasks/get", taskId=made["taskId"])["inputRequests"]
    ack = modern.request("tasks/update", taskId=made["taskId"], inputResponses={first: {"action": "accept", "content": {}}, "unknown": {}})
    assert set(ack) == {"resultType", "_meta"} and ack["resultType"] == "complete"
    assert list(modern.request("tasks/get", taskId=made["taskId"])["inputRequests"]) == [second]
    modern.request("tasks/update", taskId=made["taskId"], inputResponses={second: {"action": "decline"}})
    assert ended(modern, made)["result"]["content"][0]["text"] == "2 answers"
    sleeping = modern.call("slow_compute", {"seconds": 60})
    for _ in range(2):
        assert set(modern.request("tasks/cancel", taskId=sleeping["taskId"])) == {"resultType", "_meta"}
    assert ended(modern, sleeping)["status"] == "cancelled"
    for method in ("tasks/list", "tasks/result"):
        assert fault(modern, method, taskId=made["taskId"]).code == -32601
    for method in ("tasks/get", "tasks/cancel"):
        assert fault(modern, method, taskId="task-none").code == -32602
    assert fault(modern, "tasks/update", taskId=sleeping["taskId"], inputResponses=5).code == -32602


def test_d77_without_the_extension(server, modern):
    plain = Modern(server)
    assert plain.call("slow_compute", {"seconds": 0})["resultType"] == "complete"
    needed = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    made = modern.call("slow_compute", {"seconds": 60})
    for caught in (fault(plain, "tasks/get", taskId=made["taskId"]), fault(plain, "tools/call", name="failing_job", arguments={}), fault(plain, "subscriptions/listen", notifications={"taskIds": [made["taskId"]]})):
        assert (caught.code, caught.data) == (-32021, needed)
    modern.request("tasks/cancel", taskId=made["taskId"])


def test_d79_a_wrong_name_of_a_task(modern):
    made = modern.call("slow_compute", {"seconds": 1.5})
    messages, _, status = modern.ask("tasks/get", headers={"Mcp-Name": "other"}, taskId=made["taskId"])
    assert (status, messages[0]["error"]["code"]) == (400, -32020)


def test_who_listens_hears_of_tasks(modern):
    made = modern.call("slow_compute", {"seconds": 1.5})
    with modern.listening(taskIds=[made["taskId"], "task-none"]) as heard:
        assert heard.get(timeout=10)["params"]["notifications"] == {"taskIds": [made["taskId"]]}
        told = heard.get(timeout=10)
        assert told["method"] == "notifications/tasks" and told["params"]["taskId"] == made["taskId"]
        assert told["params"]["status"] == "completed" and told["params"]["result"]["content"]


def test_there_are_so_many_tasks_of_one_tenant(server):
    with Server("--mcp-fixtures=true") as alone:
        client = Legacy(alone)
        for _ in range(100):
            client.call("slow_compute", {"seconds": 60}, task={"ttl": 60000})
        caught = fault(client, "tools/call", name="slow_compute", arguments={}, task={})
        assert "100 tasks" in caught.message
        first = client.request("tasks/list")["tasks"]
        client.request("tasks/cancel", taskId=first[0]["taskId"])


def test_a_task_that_has_lived_is_gone(server):
    client = Legacy(server)
    made = client.call("slow_compute", {"seconds": 0}, task={"ttl": 1})["task"]
    assert made["ttl"] == 1000

    def gone():
        try:
            client.request("tasks/get", taskId=made["taskId"])
        except Fault:
            return True
        return False
    assert wait_until(gone)
