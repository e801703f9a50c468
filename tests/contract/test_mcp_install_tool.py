"""install_packages: from a stand-in index on this machine, with the client's leave where it can be asked."""
import concurrent.futures
import threading

import pytest
from conftest import wait_until
from mcp_tools import Alone, Client
from receiver import Stand, index_page, wheel
from server import Server, new_id

HELLO = wheel("cove-hello", "1.0", "VALUE = 'one'\n")
HELLO2 = wheel("cove-hello", "2.0", "VALUE = 'two'\n")
SLOW = wheel("cove-slow", "1.0", "VALUE = 'slow'\n")


class Index:
    def __init__(self):
        self.go, self.asked = threading.Event(), threading.Event()
        self.stand = Stand(self.answer)

    def answer(self, request):
        pages = {"cove-hello": index_page(HELLO, HELLO2), "cove-slow": index_page(SLOW)}
        files = dict([HELLO, HELLO2, SLOW])
        name = request.path.rstrip("/").rpartition("/")[2]
        if request.path.startswith("/simple/") and name in pages:
            request.reply(200, pages[name], Content_Type="text/html")
        elif request.path.startswith("/files/") and name in files:
            if name == SLOW[0]:
                self.asked.set()
                self.go.wait(30)
            request.reply(200, files[name])
        else:
            request.reply(404)


@pytest.fixture(scope="module")
def index():
    made = Index()
    with made.stand:
        yield made
        made.go.set()


@pytest.fixture(scope="module")
def server(index):
    with Server(f"--dependencies-index={index.stand.url('/simple')}", "--drain", "2s", "--mcp-all-tools=true") as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    made = Client(server)
    yield made
    made.close()


def value(client, session, package="cove_hello"):
    return client.facts("execute_code", language="python", code=f"import {package}; print({package}.VALUE)", session_id=session)["stdout"]


def test_packages_are_installed_and_can_be_imported(client):
    session = new_id()
    client.facts("execute_code", language="python", code="x = 1", session_id=session)
    facts = client.facts("install_packages", packages=["cove-hello==1.0"], session_id=session)
    assert facts["installed"] == [{"name": "cove-hello", "version": "1.0"}]
    assert value(client, session) == "one\n"
    assert client.facts("execute_code", language="python", code="x", session_id=session)["stdout"] == "1\n"


def test_the_session_without_a_name_is_that_of_python(client):
    assert client.facts("install_packages", packages=["cove-hello>=1,<3"])["installed"] == [{"name": "cove-hello", "version": "2.0"}]
    assert client.facts("execute_code", language="python", code="import cove_hello; print(cove_hello.VALUE)")["stdout"] == "two\n"


@pytest.mark.parametrize("arguments, words", [
    ({}, "Missing required parameter: packages"),
    ({"packages": "cove-hello"}, "packages must be a list of strings"),
    ({"packages": [5]}, "packages must be a list of strings"),
    ({"packages": ["--index-url=http://x"]}, "is not a package name"),
    ({"packages": ["../x"]}, "is not a package name"),
    ({"packages": ["cove-hello; import os"]}, "is not a package name"),
    ({"packages": ["cove-hello==" + "1" * 500]}, "version"),
    ({"packages": ["x"] * 51}, "more than 50"),
    ({"packages": ["x"], "timeout": -1}, "timeout must be greater than 0"),
    ({"packages": ["x"], "index_url": "ftp://x"}, "index_url"),
    ({"packages": ["x"], "index_url": "http://127.0.0.1:1/"}, "index_url: 127.0.0.1:1 is not a public address"),
])
def test_what_is_wrong_is_named(client, arguments, words):
    assert words in client.refusal("install_packages", session_id=new_id(), **arguments)


def test_what_is_not_there_is_told(client):
    text = client.refusal("install_packages", packages=["cove-missing"], session_id=new_id())
    assert text.startswith("The packages were not installed: ") and "cove-missing" in text


def test_without_an_index_there_is_nothing_to_install():
    with Server("--mcp-all-tools=true") as server:
        assert "no package index" in Client(server).refusal("install_packages", packages=["x"])


class Asking(Client):
    """Can be asked, and answers with what it was told to."""

    def __init__(self, server):
        super().__init__(server, capabilities={"elicitation": {}})
        self.questions = []

    def install(self, answer, **arguments):
        stream, number = self.open("tools/call", name="install_packages", arguments=arguments)
        while (message := stream.next()) is not None:
            if message.get("method") == "elicitation/create":
                self.questions.append(message["params"])
                self.reply(message["id"], **answer)
            elif message.get("id") == number:
                return message["result"]
        raise AssertionError("no answer")


@pytest.mark.parametrize("answer, installed", [
    ({"action": "accept", "content": {"install": True}}, True),
    ({"action": "accept", "content": {"install": False}}, False),
    ({"action": "decline"}, False),
    ({"action": "cancel"}, False),
])
def test_who_can_be_asked_is_asked(server, answer, installed):
    client = Asking(server)
    session = new_id()
    result = client.install(answer, packages=["cove-hello"], session_id=session)
    assert result["isError"] is not installed
    assert len(client.questions) == 1 and "cove-hello" in client.questions[0]["message"]
    if installed:
        assert value(client, session) == "two\n"
    else:
        assert "did not agree" in result["content"][0]["text"]
    client.close()


def test_who_stands_alone_is_asked_and_comes_again(server):
    client = Alone(server, capabilities={"elicitation": {}})
    arguments = {"packages": ["cove-hello"], "session_id": new_id()}
    asked = client.request("tools/call", name="install_packages", arguments=arguments)
    assert asked["resultType"] == "input_required" and asked["inputRequests"]["install"]["method"] == "elicitation/create"
    assert "Unknown session" in client.refusal("list_files", session_id=arguments["session_id"]), "nothing was done before"
    again = {"name": "install_packages", "arguments": arguments, "requestState": asked["requestState"]}
    refused = client.request("tools/call", **again, inputResponses={"install": {"action": "decline"}})
    assert refused["isError"] and "did not agree" in refused["content"][0]["text"]
    done = client.request("tools/call", **again, inputResponses={"install": {"action": "accept", "content": {"install": True}}})
    assert done["isError"] is False and done["structuredContent"]["installed"] == [{"name": "cove-hello", "version": "2.0"}]


def test_an_operator_may_say_that_nobody_is_asked(index):
    with Server(f"--dependencies-index={index.stand.url('/simple')}", "--mcp-ask-before-install=false", "--mcp-all-tools=true") as server:
        client = Asking(server)
        assert client.install({"action": "decline"}, packages=["cove-hello"])["isError"] is False and client.questions == []


def test_a_session_that_ends_meanwhile(client, index):
    session = new_id()
    client.facts("create_session", session_id=session)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(client.call, "install_packages", packages=["cove-slow"], session_id=session)
        assert index.asked.wait(30)
        client.facts("close_session", session_id=session)
        assert running.result(30)["isError"] is True
    index.go.set()
    assert wait_until(lambda: client.facts("install_packages", packages=["cove-slow"], session_id=session)["installed"])
