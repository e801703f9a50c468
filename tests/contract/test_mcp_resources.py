"""What MCP clients read, are offered and complete: files of sessions, prompts, arguments."""
import base64
import queue

import pytest
from hostile import make_key
from mcp_client import Fault, Legacy, Modern, everything
from server import Server, new_id


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def clients(server):
    return [Legacy(server), Modern(server)]


@pytest.fixture(scope="module")
def session(clients):
    """With a text, bytes that are none, a directory, and ways out."""
    name = new_id("res")
    code = ("mkdir -p sub .hidden; echo hello > a.txt; printf '\\377\\376\\000' > b.bin; echo in > sub/c.txt; echo no > .hidden/x;"
            "ln -s /etc/passwd link; ln -s /etc way; mkfifo pipe; head -c 5000000 /dev/zero > large; echo 'ä ö' > 'n ä.txt'")
    run(clients[0], name, f"import os; os.system({code!r})", "python")
    return name


def run(client, session, code, language="bash"):
    result = client.call("execute_code", {"language": language, "code": code, "session_id": session})
    assert result["isError"] is False, result
    return result


def fault(client, method, **params):
    with pytest.raises(Fault) as caught:
        client.request(method, **params)
    return caught.value


def test_d67_list(clients, session):
    for client in clients:
        mine = {entry["uri"]: entry for entry in everything(client, "resources/list", "resources")[0] if entry["uri"].startswith(f"workspace://{session}/")}
        assert set(mine) == {f"workspace://{session}/{path}" for path in ("a.txt", "b.bin", "sub/c.txt", "large", "n%20%C3%A4.txt")}
        entry = mine[f"workspace://{session}/a.txt"]
        assert (entry["name"], entry["size"], entry["mimeType"]) == ("a.txt", 6, "text/plain")


def test_d67_read(clients, session):
    for client in clients:
        read = lambda path: client.request("resources/read", uri=f"workspace://{session}/{path}")["contents"]  # noqa: E731
        assert read("a.txt") == [{"uri": f"workspace://{session}/a.txt", "mimeType": "text/plain", "text": "hello\n"}]
        assert base64.b64decode(read("b.bin")[0]["blob"]) == b"\xff\xfe\0"
        assert read("n%20%C3%A4.txt")[0]["text"] == "ä ö\n"
        for path in ("sub", "sub/"):
            assert read(path) == [{"uri": f"workspace://{session}/{path}", "mimeType": "inode/directory", "text": f"workspace://{session}/sub/c.txt\n"}]


@pytest.mark.parametrize("path", ["none", "../a.txt", "..", "sub/../../etc/passwd", "%2e%2e/a.txt", "%2Fetc/passwd", "link", "way/passwd", "pipe", "a%00b", "%zz"])
def test_d67_what_is_not_there_and_what_leads_out(clients, session, path):
    uri = f"workspace://{session}/{path}"
    for client, code in zip(clients, (-32002, -32602)):
        caught = fault(client, "resources/read", uri=uri)
        assert (caught.code, caught.data) == (code, {"uri": uri}), path


def test_d67_what_is_too_large_says_so(clients, session):
    caught = fault(clients[0], "resources/read", uri=f"workspace://{session}/large")
    assert caught.code == -32602 and "read_file" in caught.message


@pytest.mark.parametrize("uri", ["workspace://nobody-has-this/a", "workspace://", "workspace:///a", "file:///etc/passwd", "execution://x/stdout", "x"])
def test_d67_addresses_of_nothing(clients, uri):
    for client, code in zip(clients, (-32002, -32602)):
        assert fault(client, "resources/read", uri=uri).code == code
    assert fault(clients[0], "resources/subscribe", uri=uri).code == -32002


def test_d67_templates(clients):
    for client in clients:
        templates = [entry["uriTemplate"] for entry in client.request("resources/templates/list")["resourceTemplates"]]
        assert templates == ["workspace://{session_id}/{+path}", "execution://{id}/stdout", "execution://{id}/stderr"]


def test_d67_output_that_did_not_fit(clients, session):
    for client in clients:
        result = run(client, session, "seq 1 400000")
        links = [block["uri"] for block in result["content"] if block["type"] == "resource_link" and block["uri"].startswith("execution://")]
        assert links, [block["type"] for block in result["content"]]
        assert client.request("resources/read", uri=links[0])["contents"][0]["text"].startswith("1\n2\n3\n")


def next_of(heard, method):
    while True:
        message = heard.get(timeout=10)
        if message["method"] == method:
            return message["params"]


def written_until_heard(client, session, heard):
    """The watch begins a moment after it was asked for: what is written then is heard of."""
    for _ in range(50):
        run(client, session, "echo 2 >> a.txt")
        try:
            while (message := heard.get(timeout=0.3))["method"] != "notifications/resources/updated":
                pass
            return message["params"]
        except queue.Empty:
            continue
    pytest.fail("nothing was heard")


def test_d68_updates_for_a_legacy_client(server, clients):
    name = new_id("sub")
    client = Legacy(server)
    run(client, name, "echo 1 > a.txt")
    uri = f"workspace://{name}/a.txt"
    with client.listening() as heard:
        assert client.request("resources/subscribe", uri=uri) == {}
        assert written_until_heard(client, name, heard) == {"uri": uri}
        run(client, name, "echo 3 > other.txt")
        next_of(heard, "notifications/resources/list_changed")
        assert client.request("resources/unsubscribe", uri=uri) == {}
        while not heard.empty():
            heard.get()
        run(client, name, "echo 4 >> a.txt")
        run(client, name, "touch new.txt")
        with pytest.raises(queue.Empty):
            while heard.get(timeout=0.5)["method"] != "notifications/resources/updated":
                pass


def test_d68_updates_for_a_modern_client(server):
    name = new_id("sub")
    client = Modern(server)
    run(client, name, "echo 1 > a.txt")
    uri = f"workspace://{name}/a.txt"
    with client.listening(resourceSubscriptions=[uri, "workspace://nobody/x"]) as heard:
        assert heard.get(timeout=10)["params"]["notifications"] == {"resourceSubscriptions": [uri]}
        told = written_until_heard(client, name, heard)
        assert told["uri"] == uri and told["_meta"]["io.modelcontextprotocol/subscriptionId"] == client.listen_number


def test_d66_prompts(clients):
    for client in clients:
        prompts = {prompt["name"]: prompt for prompt in client.request("prompts/list")["prompts"]}
        assert list(prompts) == ["run_snippet", "fix_error", "analyze_data"]
        assert all(prompt["description"] and prompt["arguments"] for prompt in prompts.values())
        got = client.request("prompts/get", name="run_snippet", arguments={"language": "python", "code": "print('``` x')"})
        assert got["messages"][0]["role"] == "user" and "````python\nprint('``` x')\n````" in got["messages"][0]["content"]["text"]
        assert "ZeroDivisionError" in client.request("prompts/get", name="fix_error", arguments={"language": "python", "code": "1/0", "error": "ZeroDivisionError"})["messages"][0]["content"]["text"]
        assert "data.csv" in client.request("prompts/get", name="analyze_data", arguments={"path": "data.csv", "session_id": "s"})["messages"][0]["content"]["text"]
        for params, word in [({"name": "run_snippet", "arguments": {"language": "python"}}, "code"), ({"name": "run_snippet"}, "language"), ({"name": "none"}, "none"),
                             ({"name": "run_snippet", "arguments": {"language": 5, "code": ""}}, "language"), ({"name": "run_snippet", "arguments": []}, "arguments")]:
            caught = fault(client, "prompts/get", **params)
            assert caught.code == -32602 and word in caught.message


def complete(client, ref, name, value, **others):
    params = {"ref": ref, "argument": {"name": name, "value": value}, **({"context": {"arguments": others}} if others else {})}
    return client.request("completion/complete", **params)["completion"]


PROMPT = {"type": "ref/prompt", "name": "run_snippet"}
FILE = {"type": "ref/resource", "uri": "workspace://{session_id}/{+path}"}


def test_d65_completion(clients, session):
    for client in clients:
        found = complete(client, PROMPT, "language", "py")
        assert found["values"][0] == "python" and found["total"] == len(found["values"]) <= 100 and found["hasMore"] is False
        assert "javascript" in complete(client, PROMPT, "language", "jvs")["values"]  # its letters, in order
        assert complete(client, PROMPT, "code", "x")["values"] == []
        assert complete(client, FILE, "session_id", session[:8])["values"] == [session]
        assert complete(client, FILE, "path", "sub", session_id=session)["values"] == ["sub/c.txt"]
        assert complete(client, FILE, "path", "", session_id="nobody")["values"] == []
        for ref, name in [({"type": "ref/prompt", "name": "none"}, "language"), ({"type": "ref/resource", "uri": "x://{y}"}, "y"), ({"type": "ref/other"}, "x"), (PROMPT, "none"), (FILE, "none")]:
            assert fault(client, "completion/complete", ref=ref, argument={"name": name, "value": ""}).code == -32602
        assert fault(client, "completion/complete", ref=PROMPT).code == -32602


def test_tenants_see_their_own_files_alone():
    server = Server()
    keys = [make_key(server, tenant)["key"] for tenant in ("one", "two")]
    with server:
        one, two = (Legacy(server, key=key) for key in keys)
        run(one, "shared-name", "echo secret > a.txt")
        assert fault(two, "resources/read", uri="workspace://shared-name/a.txt").code == -32002
        assert fault(two, "resources/subscribe", uri="workspace://shared-name/a.txt").code == -32002
        assert two.request("resources/list")["resources"] == []
        assert complete(two, FILE, "session_id", "")["values"] == []
        assert one.request("resources/read", uri="workspace://shared-name/a.txt")["contents"][0]["text"] == "secret\n"


def test_an_output_of_fifty_megabytes_is_read_whole_in_parts(fresh_server):
    server = fresh_server("--exec-output-limit", "64M", "--mcp-tenant-outputs-size", "256M", "--mcp-max-outputs-size", "1G")
    client = Legacy(server)
    for arguments in ({"language": "bash", "code": "yes 'grün 0123456789' | head -c 52428800"}, {"language": "python", "code": "print('grün 0123456789\\n' * 3000000, end='')"}):
        result = client.call("execute_code", {**arguments, "timeout": 120})
        uri, whole, parts = f"execution://{result['structuredContent']['execution_id']}/stdout", "", 0
        while uri:
            content = client.request("resources/read", uri=uri)["contents"][0]
            assert len(content["text"].encode()) <= 4 << 20
            whole, parts, place = whole + content["text"], parts + 1, content["_meta"]["cove/part"]
            uri = place.get("next")
        assert len(whole.encode()) == place["size"] >= 50_000_000 and parts >= 12
        assert whole.rstrip("\n").split("\n")[:-1] == ["grün 0123456789"] * (whole.rstrip("\n").count("\n"))
    for wrong in ("?offset=-1", "?offset=x", "?offset=99999999999", "?from=1"):
        with pytest.raises(Fault):
            client.request("resources/read", uri=f"execution://{result['structuredContent']['execution_id']}/stdout{wrong}")
