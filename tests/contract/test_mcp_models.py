"""MCP as a model sees it: few tools, short answers, one workspace for a connection. Clients of 2025-03-26 and later get this; scripts
written for the reference servers, which negotiate 2024-11-05 or nothing, get the answers that those had."""
import json

import pytest
from mcp_client import LEGACY, Legacy, Modern
from server import new_id

LISTED = ["execute_code", "reset_session", "write_file", "read_file", "list_files", "run_command", "process_output", "stop_process", "install_packages", "allow_network"]


@pytest.fixture(params=[*LEGACY[1:], "2026-07-28"])
def client(server, request):
    return Modern(server) if request.param == "2026-07-28" else Legacy(server, request.param)


@pytest.fixture(scope="module")
def today(server):
    return Legacy(server)


def run(client, code, language="python", **arguments):
    return client.call("execute_code", {"language": language, "code": code, **arguments})


def texts(result, role):
    return [block["text"] for block in result["content"] if block.get("annotations", {}).get("role") == role]


def test_ten_tools_in_about_2500_tokens(client):
    tools = client.request("tools/list")["tools"]
    assert [tool["name"] for tool in tools] == LISTED
    assert len(json.dumps(tools)) < 2500 * 4.2, "a token is about four characters"


def test_the_tools_that_are_not_listed_can_be_called(today):
    assert not today.call("list_languages")["isError"]
    name = new_id()
    assert not today.call("create_session", {"session_id": name})["isError"]
    assert today.call("validate_code", {"language": "python", "code": "1 +"})["structuredContent"]["valid"] is False
    assert not today.call("close_session", {"session_id": name})["isError"]


def test_no_code_comes_back_and_each_stream_is_one_block(client):
    result = run(client, "import sys\nfor i in range(3): print('out', i)\nprint('bad', file=sys.stderr)\n6*7")
    assert texts(result, "stdout") == ["out 0\nout 1\nout 2\n42"] and texts(result, "stderr") == ["bad"]
    assert len(result["content"]) == 3 and result["content"][-1]["text"].startswith("Exit code: 0")
    assert "import sys" not in json.dumps(result)


def test_small_answers_are_small(today):
    assert len(json.dumps(run(today, "6*7"))) < 600
    assert len(json.dumps(run(today, "1/0"))) < 1200


@pytest.mark.parametrize("tool, arguments", [
    ("execute_code", {"language": "python", "code": "for i in range(200000): print(i)"}),
    ("execute_code", {"language": "bash", "code": "seq 0 199999"}),
    ("run_command", {"command": "seq 0 199999"}),
])
def test_a_long_answer_is_its_beginning_its_end_and_a_link_to_all_of_it(today, tool, arguments):
    result = today.call(tool, arguments)
    facts = result["structuredContent"]
    assert len(json.dumps(result)) < 70_000 and len(facts["stdout"]) < 25_500 and facts["truncated"]["stdout"] is True
    assert facts["stdout"].startswith("0\n1\n2\n") and facts["stdout"].rstrip().endswith("199998\n199999")
    uri = f"execution://{facts['execution_id']}/stdout"
    assert uri in facts["stdout"], "the text itself says where the rest is"
    kept = today.request("resources/read", uri=uri)["contents"][0]["text"]
    assert kept == "".join(f"{n}\n" for n in range(200_000))


def test_the_size_of_an_answer_is_a_setting(fresh_server):
    result = run(Legacy(fresh_server("--mcp-answer-text=2K")), "print('x' * 100_000)")
    assert len(json.dumps(result)) < 8000


def test_all_languages_of_a_connection_share_a_workspace(today):
    today.call("reset_session")
    run(today, "open('out.csv', 'w').write('1,2\\n')")
    assert run(today, "cat out.csv", "bash")["structuredContent"]["stdout"] == "1,2\n"
    assert run(today, "require('fs').readFileSync('out.csv', 'utf8')", "javascript")["structuredContent"]["stdout"] == "'1,2\\n'\n"
    shown = today.call("run_command", {"command": "ls -A"})["structuredContent"]["stdout"]
    assert shown == "out.csv\n", "nothing of ours lies there"
    other = Legacy(today.server)
    assert other.call("list_files")["structuredContent"]["entries"] == [], "another connection has another"


@pytest.mark.parametrize("alias, language", [("py", "python"), ("Python", "python"), ("python3", "python"), ("js", "javascript"), ("node", "javascript"), ("ts", "typescript"), ("shell", "bash")])
def test_languages_have_aliases(today, alias, language):
    code = {"python": "print('here')", "bash": "echo here"}.get(language, "console.log('here')")
    result = run(today, code, alias)
    assert (result["structuredContent"]["stdout"], result["structuredContent"]["language"]) == ("here\n", language)


def test_only_installed_languages_are_offered(today):
    tool = next(tool for tool in today.request("tools/list")["tools"] if tool["name"] == "execute_code")
    offered = tool["inputSchema"]["properties"]["language"]["enum"]
    installed = [one["name"] for one in today.call("list_languages")["structuredContent"]["languages"] if one["installed"]]
    assert offered == installed and "python" in offered


def test_numbers_may_be_texts(today):
    assert run(today, "1", timeout="5")["structuredContent"]["exit_code"] == 0
    assert "timeout" in run(today, "1", timeout="soon")["content"][0]["text"]


def test_a_timeout_names_the_parameter(today):
    result = run(today, "import time; time.sleep(60)", timeout=1)
    assert result["structuredContent"]["timed_out"] and "the timeout argument allows more" in result["content"][-1]["text"]
    result = today.call("run_command", {"command": "sleep 60", "timeout": 1})
    assert result["structuredContent"]["timed_out"] and "the timeout argument allows more" in result["content"][-1]["text"]


def test_help_that_an_interpreter_would_page_is_output(today):
    stdout = run(today, "len?")["structuredContent"]["stdout"]
    assert "number of items in a container" in stdout, stdout


def test_memory_of_a_session_can_be_chosen(today):
    name = new_id()
    today.call("create_session", {"session_id": name, "memory": "2Gi"})
    assert today.server.get(f"/v1/sandboxes/{name}").json["limits"]["memoryBytes"] == 2 << 30
    today.call("close_session", {"session_id": name})


def test_a_reference_script_gets_what_it_knows(server):
    """A call without a handshake, and a client of 2024-11-05."""
    old = Legacy(server, "2024-11-05")
    assert len(old.request("tools/list")["tools"]) == 18
    code = "print('one')\nprint('two')"
    for result in (run(old, code),):
        assert result["content"][0]["text"] == code and result["content"][0]["mimeType"] == "text/x-python"
        assert [block["text"] for block in result["content"] if block.get("annotations", {}).get("streamed")] == ["one", "two"]
        assert '"exit_code": 0' in result["content"][-1]["text"]
