"""run_command, process_output, stop_process."""
import concurrent.futures

import pytest
from conftest import new_marker, processes_with, wait_until
from mcp_tools import Client, text_of
from server import at, new_id

# Every tool, and answers for old and new clients at once; test_mcp_models.py has what a client of today gets.
SERVER_FLAGS = ("--mcp-profile=superset", "--mcp-all-tools=true")


@pytest.fixture(scope="module")
def client(server):
    made = Client(server)
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(client):
    name = new_id()
    client.facts("create_session", session_id=name)
    return name


def test_output_and_exit_code(client, session):
    result = client.call("run_command", command="echo out; echo err >&2; exit 3", session_id=session)
    facts = result["structuredContent"]
    assert result["isError"] is False
    assert (facts["stdout"], facts["stderr"], facts["exit_code"], facts["signal"], facts["timed_out"], facts["state"]) == ("out\n", "err\n", 3, None, False, "exited")
    assert text_of(result) == f"out\nerr\nExit code: 3\nSession: {session}"


def test_where_it_runs_and_with_what(client, session):
    facts = client.facts("run_command", command="pwd; echo $GREETING; cat; touch made", env={"GREETING": "hello"}, stdin="fed\n", session_id=session)
    assert facts["stdout"] == "/workspace\nhello\nfed\n"
    assert client.facts("run_command", command="ls; cat", session_id=session)["stdout"].split() == ["made"]
    client.facts("run_command", command="echo 41 > answer")
    assert client.facts("execute_code", language="python", code="print(int(open('answer').read()) + 1)")["stdout"] == "42\n"


def test_signals_and_time(client, session):
    facts = client.facts("run_command", command="kill -9 $$", session_id=session)
    assert (facts["exit_code"], facts["signal"]) == (137, "SIGKILL")
    marker = new_marker()
    facts = client.facts("run_command", command=f"echo before; exec -a {marker} sleep 60", timeout=0.5, session_id=session)
    assert (facts["exit_code"], facts["timed_out"], facts["stdout"]) == (-1, True, "before\n")
    assert wait_until(lambda: not processes_with(marker))


def test_output_without_end_is_cut(client, session):
    answer = client.whole("run_command", command="head -c 3000000 /dev/zero | tr '\\0' '\\1'; echo e >&2", session_id=session)
    facts = answer.json["result"]["structuredContent"]
    assert len(answer.body) < 8 << 20 and facts["truncated"] == {"stdout": True, "stderr": False}
    assert len(facts["stdout"]) < 26_000 and facts["stderr"] == "e\n"
    facts = client.facts("run_command", command="printf '\\xff\\xfe\\x00'", session_id=session)
    assert facts["stdout"] == "\ufffd\ufffd\0"
    marker = new_marker()
    assert client.facts("run_command", command=f"exec -a {marker} yes", timeout=0.5, session_id=session)["timed_out"]
    assert wait_until(lambda: not processes_with(marker))


def test_output_is_told_while_it_comes(client, session):
    stream, number = client.open("tools/call", name="run_command", arguments={"command": "for i in 1 2 3; do echo line $i; sleep 0.3; done", "session_id": session}, _meta={"progressToken": "t"})
    told = []
    while (message := stream.next()) and message.get("id") != number:
        told.append(message["params"])
    assert all(one["progressToken"] == "t" for one in told) and [one["progress"] for one in told] == sorted({one["progress"] for one in told})
    assert "".join(one["message"] for one in told) in "line 1\nline 2\nline 3\n" and len(told) >= 2
    stream.close()


def test_cancelling_ends_the_command(client, session):
    marker = new_marker()
    stream, number = client.open("tools/call", name="run_command", arguments={"command": f"(exec -a {marker} sleep 300) & wait", "session_id": session})
    assert wait_until(lambda: processes_with(marker))
    client.notify("notifications/cancelled", requestId=number)
    assert wait_until(lambda: not processes_with(marker))
    stream.close()
    assert client.facts("run_command", command="echo on", session_id=session)["stdout"] == "on\n"


def test_processes_in_the_background(client, server, session):
    begun = client.facts("run_command", command="echo one; read x; echo two $x; sleep 300", background=True, stdin="fed\n", session_id=session)
    process = begun["process_id"]
    # They are those of the other doors.
    assert process in [one["id"] for one in server.get(at(session, "processes")).json["processes"]]
    out, seen = "", 1
    while "two" not in out:
        facts = client.facts("process_output", process_id=process, **{"from": seen}, wait_seconds=20, session_id=session)
        assert facts["state"] == "running" and facts["next"] > seen
        out, seen = out + facts["stdout"], facts["next"]
    assert out == "one\ntwo fed\n"
    assert client.facts("process_output", process_id=process, **{"from": seen}, session_id=session)["stdout"] == ""
    stopped = client.facts("stop_process", process_id=process, session_id=session)
    assert stopped["state"] == "exited"
    facts = client.facts("process_output", process_id=process, session_id=session)
    assert (facts["stdout"], facts["state"]) == ("one\ntwo fed\n", "exited")
    assert client.facts("stop_process", process_id=process, session_id=session)["state"] == "exited"


def test_output_that_was_not_read_in_time_is_lost_and_said_so(client, session):
    process = client.facts("run_command", command="head -c 8000000 /dev/zero | tr '\\0' x; echo; echo last", background=True, session_id=session)["process_id"]
    assert wait_until(lambda: client.facts("process_output", process_id=process, session_id=session)["state"] == "exited", patience=30)
    answer = client.whole("process_output", process_id=process, session_id=session)
    facts = answer.json["result"]["structuredContent"]
    assert len(answer.body) < 8 << 20 and facts["lost"] is True
    while facts["more"]:
        facts = client.facts("process_output", process_id=process, **{"from": facts["next"]}, session_id=session)
    assert facts["stdout"].endswith("last\n")


def test_a_command_does_not_hold_up_the_next_when_it_is_in_the_background(client, session):
    process = client.facts("run_command", command="sleep 300", background=True, session_id=session)["process_id"]
    assert client.facts("run_command", command="echo at once", session_id=session)["stdout"] == "at once\n"
    client.facts("stop_process", process_id=process, session_id=session)


def test_output_can_be_read_while_something_else_runs(client, session):
    """What asks about a process does not stand in the line of its session."""
    process = client.facts("run_command", command="echo here", background=True, session_id=session)["process_id"]
    marker = new_marker()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        long = pool.submit(client.facts, "run_command", command=f"exec -a {marker} sleep 60", session_id=session)
        assert wait_until(lambda: processes_with(marker))
        assert client.facts("process_output", process_id=process, wait_seconds=5, session_id=session)["stdout"] == "here\n"
        assert client.facts("interrupt", session_id=session)["interrupted"] == 1
        assert long.result(30)["exit_code"] != 0


def test_a_session_that_ends_meanwhile(client):
    session, marker = new_id(), new_marker()
    client.facts("create_session", session_id=session)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        long = pool.submit(client.call, "run_command", command=f"exec -a {marker} sleep 60", session_id=session)
        assert wait_until(lambda: processes_with(marker))
        client.facts("close_session", session_id=session)
        ended = long.result(30)
    assert ended["isError"] or ended["structuredContent"]["exit_code"] != 0
    assert wait_until(lambda: not processes_with(marker))


@pytest.mark.parametrize("tool, arguments, words", [
    ("run_command", {}, "Missing required parameter: command"),
    ("run_command", {"command": ""}, "command is empty"),
    ("run_command", {"command": "a\0b"}, "command contains a NUL"),
    ("run_command", {"command": "#" * (1 << 17)}, "command is larger than"),
    ("run_command", {"command": "ls", "env": {str(number): "x" * 100_000 for number in range(11)}}, "env must be at most"),
    ("run_command", {"command": ["ls"]}, "command must be a string"),
    ("run_command", {"command": "ls", "timeout": 0}, "timeout must be greater than 0"),
    ("run_command", {"command": "ls", "env": {"A": 1}}, "env.A must be a string"),
    ("run_command", {"command": "ls", "background": "yes"}, "background must be true or false"),
    ("process_output", {}, "Missing required parameter: process_id"),
    ("process_output", {"process_id": "p999"}, "Unknown process: p999"),
    ("process_output", {"process_id": "../1"}, "Unknown process"),
    ("process_output", {"process_id": "p1", "from": 0}, "from must be a whole number"),
    ("process_output", {"process_id": "p1", "wait_seconds": 61}, "wait_seconds must be from 0 to 60"),
    ("stop_process", {"process_id": 7}, "process_id must be a string"),
])
def test_what_is_wrong_is_named(client, session, tool, arguments, words):
    assert words in client.refusal(tool, session_id=session, **arguments)


def test_processes_of_ours_are_nobodys(client, session):
    """The file helper and the interpreters of a session are no processes to callers."""
    client.facts("write_file", path="x", content="x", session_id=session)
    client.facts("execute_code", language="python", code="1", session_id=session)
    background = {one["process_id"] for one in [client.facts("run_command", command="true", background=True, session_id=session)]}
    for number in range(1, 40):
        if f"p{number}" not in background:
            result = client.call("process_output", process_id=f"p{number}", session_id=session)
            assert result["isError"] or "files" not in text_of(result)
