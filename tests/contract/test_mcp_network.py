"""Network through MCP: a session asks, the client's user decides; what was refused is said, and how to get it allowed."""
import pytest
from mcp_tools import Alone, Client
from names import NameServer
from server import Server, new_id
from web import Web


@pytest.fixture(scope="module")
def web():
    with Web() as web:
        yield web


@pytest.fixture(scope="module")
def names():
    with NameServer(ok_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names:
        yield names


@pytest.fixture(scope="module")
def server(names):
    with Server("--resolver", names.address, "--mcp-all-tools=true") as running:
        yield running


class Asking(Client):
    """Can be asked, and answers with what it was told to."""

    def __init__(self, server):
        super().__init__(server, capabilities={"elicitation": {}})
        self.questions = []

    def allow(self, answer, **arguments):
        stream, number = self.open("tools/call", name="allow_network", arguments=arguments)
        while (message := stream.next()) is not None:
            if message.get("method") == "elicitation/create":
                self.questions.append(message["params"])
                self.reply(message["id"], **answer)
            elif message.get("id") == number:
                return message["result"]
        raise AssertionError("no answer")


FETCH = "import urllib.request; print(urllib.request.urlopen('http://{}:{}/', timeout=10).read().decode())"
YES = {"action": "accept", "content": {"allow": True}}


def fetch(client, session, web, name="ok.test"):
    return client.call("execute_code", language="python", code=FETCH.format(name, web.port), session_id=session)


def text(result):
    return "\n".join(block.get("text", "") for block in result["content"])


def test_the_user_decides(server, web):
    client, session = Asking(server), new_id()
    wanted = [f"ok.test:{web.port}", "127.0.0.1"]
    for answer in ({"action": "decline"}, {"action": "cancel"}, {"action": "accept", "content": {"allow": False}}):
        refused = client.allow(answer, hosts=wanted, session_id=session)
        assert refused["isError"] and "did not allow" in text(refused)
    assert "hello" not in text(fetch(client, session, web))
    allowed = client.allow(YES, hosts=wanted, session_id=session)
    assert allowed["isError"] is False and allowed["structuredContent"]["allowed"] == wanted, allowed
    assert all(word in client.questions[-1]["message"] for word in wanted)
    assert "hello" in text(fetch(client, session, web))
    asked = len(client.questions)
    assert client.allow({"action": "decline"}, hosts=wanted, session_id=session)["isError"] is False
    assert len(client.questions) == asked, "what is allowed is not asked for again"
    assert "hello" not in text(fetch(client, session, web, "other.test"))
    assert server.get(f"/v1/sandboxes/{session}/network").json["allow"] == wanted
    client.close()


def test_who_stands_alone_is_asked_and_comes_again(server, web):
    client = Alone(server, capabilities={"elicitation": {}})
    arguments = {"hosts": [f"ok.test:{web.port}", "127.0.0.1"], "session_id": new_id()}
    asked = client.request("tools/call", name="allow_network", arguments=arguments)
    assert asked["resultType"] == "input_required", asked
    done = client.request("tools/call", name="allow_network", arguments=arguments, requestState=asked["requestState"], inputResponses={"allow": YES})
    assert done["isError"] is False, done
    assert "hello" in text(client.request("tools/call", name="execute_code", arguments={"language": "python", "code": FETCH.format("ok.test", web.port), "session_id": arguments["session_id"]}))


def test_where_nobody_can_be_asked_the_operators_setting_holds(server, web, names):
    client, session = Client(server), new_id()
    said = client.refusal("allow_network", hosts=["ok.test"], session_id=session)
    assert "cannot ask its user" in said and "cove network" in said and "network.allow" in said
    with Server("--resolver", names.address, "--mcp-all-tools=true", "--mcp-grant-network=true") as granting:
        client = Client(granting)
        assert client.facts("allow_network", hosts=[f"ok.test:{web.port}", "127.0.0.1"], session_id=session)["session_id"] == session
        assert "hello" in text(fetch(client, session, web))
    with Server("--resolver", names.address, "--mcp-all-tools=true", "--network-mode=allow", f"--network-allow=ok.test:{web.port},127.0.0.1") as opened:
        client = Client(opened)
        assert client.facts("allow_network", hosts=[f"ok.test:{web.port}"], session_id=session)
        assert "hello" in text(fetch(client, session, web))


@pytest.mark.parametrize("tool, arguments", [
    ("execute_code", {"language": "python", "code": "import urllib.request; urllib.request.urlopen('http://other.test/')"}),
    ("execute_code", {"language": "python", "code": "try:\n    __import__('urllib.request').request.urlopen('http://other.test/')\nexcept Exception as error:\n    print(error)"}),
    ("execute_code", {"language": "bash", "code": "curl -sS http://other.test/"}),
    ("run_command", {"command": "curl -sS http://other.test/"}),
])
def test_what_was_refused_is_said_and_how_to_get_it(server, tool, arguments):
    client, session = Asking(server), new_id()
    said = text(client.call(tool, **arguments, session_id=session))
    assert "no network in this session" in said and "allow_network" in said, said
    client.allow(YES, hosts=["ok.test"], session_id=session)
    for _ in range(2):
        said = text(client.call(tool, **arguments, session_id=session))
        assert "refused connections to other.test" in said and "allow_network" in said, said
    said = text(client.call("execute_code", language="python", code="6 * 7", session_id=session))
    assert "allow_network" not in said
    client.close()


@pytest.mark.parametrize("arguments, words", [
    ({}, "Missing required parameter: hosts"),
    ({"hosts": "ok.test"}, "hosts must be a list of strings"),
    ({"hosts": ["*"]}, "every name"),
    ({"hosts": ["http://ok.test/"]}, "is a URL"),
    ({"hosts": ["x.test"] * 51}, "more than 50"),
])
def test_what_is_wrong_is_named(server, arguments, words):
    assert words in Client(server).refusal("allow_network", session_id=new_id(), **arguments)
