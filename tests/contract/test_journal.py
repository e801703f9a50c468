"""The journal: every act through every door, who did it and how it ended; and doing it again."""
import hashlib
import json
import pathlib

import pytest
import workspace
from conftest import wait_until
from hostile import make_key
from mcp_client import Legacy
from server import at, new_id, tar_gz


@pytest.fixture
def box(server):
    name = server.create(memoryLimit="256Mi")
    yield name
    server.delete(at(name))


def acts(server, name, **query):
    text = "&".join(f"{key}={value}" for key, value in query.items())
    answer = server.get(at(name, f"activity?{text}"))
    assert answer.status == 200, answer
    return answer.json["activity"]


def last(server, name, **query):
    return acts(server, name, **query)[-1]


def test_a_command_says_who_what_and_how_it_ended(server, box):
    server.post(at(box, "exec"), {"cmd": ["sh", "-c", "echo out; echo err >&2; exit 3"]}, headers={"User-Agent": "tester/1.0"})
    act = last(server, box)
    assert act["kind"] == "command" and act["door"] == "sandboxes" and act["client"] == "tester/1.0" and act["keyId"] == ""
    assert act["summary"] == "sh -c 'echo out; echo err >&2; exit 3'" and act["detail"]["command"][0] == "sh"
    assert act["outcome"] == "exit 3" and act["ok"] is False and act["durationMs"] >= 0 and act["ref"].startswith("process ")
    assert act["result"]["exitCode"] == 3 and act["result"]["stdout"]["bytes"] == act["result"]["stderr"]["bytes"] == 4


def test_lifecycle_is_in_it(server):
    name = server.create()
    server.post(at(name, "pause"))
    server.post(at(name, "resume"))
    server.request("PATCH", at(name), {"pidsLimit": 99})
    server.delete(at(name))
    assert [act["summary"] for act in acts(server, name, kind="lifecycle")] == ["created", "paused", "resumed", "updated", "deleted"], "also after its end"
    assert acts(server, name)[0]["door"] == acts(server, name)[-1]["door"] == "sandboxes"


def test_cells_of_a_kernel_and_what_is_done_to_it(server, box):
    kernel = server.post(at(box, "kernels"), {}).json["id"]
    server.post(at(box, f"kernels/{kernel}/execute"), {"code": "print('a')\n6*7"})
    server.post(at(box, f"kernels/{kernel}/execute"), {"code": "1/0"})
    server.post(at(box, f"kernels/{kernel}/restart"))
    server.delete(at(box, f"kernels/{kernel}"))
    cells = acts(server, box, kind="cell")
    assert [cell["summary"] for cell in cells] == ["print('a')", "1/0"] and cells[0]["detail"]["code"] == "print('a')\n6*7"
    assert [cell["outcome"] for cell in cells] == ["ok", "error"] and cells[1]["result"]["ename"] == "ZeroDivisionError"
    assert cells[0]["result"]["result"]["bytes"] == 2
    assert [act["detail"]["verb"] for act in acts(server, box, kind="kernel")] == ["start", "restart", "end"]


def test_changes_of_files(server, box):
    server.put(at(box, "files?path=a.txt"), b"hello")
    server.post(at(box, "files/mkdir"), {"path": "d"})
    server.post(at(box, "files/rename"), {"from": "a.txt", "to": "d/b.txt"})
    server.upload(box, tar_gz({"x/y.txt": b"y"}))
    server.delete(at(box, "files?path=d/b.txt"))
    server.get(at(box, "files?path=x/y.txt"))
    found = acts(server, box, kind="file")
    assert [act["detail"]["verb"] for act in found] == ["write", "mkdir", "rename", "upload", "remove"], "and nothing that only reads"
    assert all(act["ok"] for act in found), found
    assert server.put(at(box, "files?path=/proc/version"), b"x").status >= 400
    assert last(server, box, kind="file")["ok"] is False


def test_who_changed_the_network_is_in_it(server, box):
    assert server.put(at(box, "network"), {"mode": "allow", "allow": ["example.com:443"]}).status == 200
    act = last(server, box, kind="network")
    assert (act["summary"], act["door"], act["outcome"]) == ("network allow", "sandboxes", "ok")


TOOLS = (pathlib.Path(__file__).parents[1] / "support/tool_server.py").read_bytes()


def with_tools(server, box):
    server.put(at(box, "files?path=server.py"), TOOLS)
    answer = server.post(at(box, "tools"), {"name": "srv", "command": "python3", "args": ["server.py"], "place": "inside", "policy": {"deny": ["slow"]}}, timeout=60)
    assert answer.status == 201, answer


def test_calls_of_tools(server, box):
    with_tools(server, box)
    kernel = server.post(at(box, "kernels"), {}).json["id"]
    server.post(at(box, f"kernels/{kernel}/execute"), {"code": "from mcptools.srv import functions as f\nf.tool_1('secret words')\nf.fail()"}, timeout=60)
    server.post(at(box, "tools/srv/call"), {"tool": "slow", "arguments": {}})
    ok, failed, denied = acts(server, box, kind="tool")
    assert (ok["summary"], ok["door"], ok["outcome"], ok["ok"], ok["keyId"]) == ("srv.tool-1", "tools", "ok", True, "")
    assert ok["detail"] == {"server": "srv", "tool": "tool-1", "kernel": kernel, "argumentsSha256": hashlib.sha256(b'{"s":"secret words"}').hexdigest()}
    assert (failed["summary"], failed["outcome"], failed["ok"]) == ("srv.fail", "tool error", False)
    assert (denied["door"], denied["outcome"], "denies" in denied["result"]["message"]) == ("sandboxes", "rejected", True)
    assert "secret words" not in json.dumps([ok, failed, denied])


def test_calls_of_tools_do_not_push_other_acts_out(server, box):
    with_tools(server, box)
    kernel = server.post(at(box, "kernels"), {}).json["id"]
    code = "from cove import tools\nfor n in range(300):\n    try: tools.call('none', 'none', {})\n    except tools.ToolRunnerError: pass"
    server.post(at(box, f"kernels/{kernel}/execute"), {"code": code}, timeout=60)
    assert 100 <= len(acts(server, box, kind="tool", limit=1000)) <= 240  # a minute may end meanwhile


def test_every_door_writes_into_it(server):
    name = workspace.session(server)
    workspace.execute(server, name, "echo", "hi")
    client = Legacy(server)
    client.call("execute_code", {"language": "bash", "code": "echo x", "session_id": name})
    client.close()
    server.post("/files/hello.txt", b"hello", headers={"X-Cove-Sandbox": name, "Content-Type": "text/plain"})
    server.post("/api/kernels", {"name": "python"}, headers={"X-Cove-Sandbox": name})
    server.exec(name, "true")
    found = acts(server, name)
    assert {"workspace", "mcp", "resources", "jupyter", "sandboxes"} == {act["door"] for act in found}, found
    program = [act for act in found if act["door"] == "mcp"][-1]
    assert (program["kind"], program["summary"], program["outcome"], program["client"]) == ("program", "echo x", "exit 0", "test 1")
    server.delete(at(name))
    server.post("/v1/execute", {"code": "print(1)"})
    run = server.get(f"/v1/activity?from={found[-1]['seq']}").json["activity"][-1]
    assert (run["door"], run["kind"], run["summary"], run["outcome"]) == ("execute", "program", "print(1)", "exit 0")


def test_a_background_process_ends_later(server, box):
    server.start_process(box, "sh", "-c", "sleep 0.5; exit 4")
    assert last(server, box)["outcome"] is None and last(server, box)["durationMs"] is None
    assert wait_until(lambda: last(server, box)["outcome"] == "exit 4", 5)
    assert last(server, box)["detail"]["background"] is True


def test_pages_kinds_and_bad_questions(server, box):
    for n in range(5):
        server.exec(box, "true", str(n))
    first = server.get(at(box, "activity?limit=2")).json
    assert len(first["activity"]) == 2 and first["next"] == first["activity"][-1]["seq"] + 1
    rest = server.get(at(box, f"activity?from={first['next']}")).json["activity"]
    assert [act["summary"] for act in rest] == [f"true {n}" for n in range(1, 5)]
    for question, word in (("kind=nonsense", "kind"), ("limit=0", "limit"), ("limit=1001", "limit"), ("from=x", "from"), ("format=xml", "format")):
        answer = server.get(at(box, f"activity?{question}"))
        assert answer.status == 400 and word in answer.json["error"], (question, answer)
    assert server.get(at(new_id(), "activity")).status == 404


def test_it_is_exported_as_json_lines(server, box):
    server.exec(box, "true")
    answer = server.get(at(box, "activity?format=jsonl"))
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["kind"] for line in answer.body.decode().splitlines()] == ["lifecycle", "command"]


def test_it_is_followed_live(server, box):
    with server.sse(at(box, "activity")) as stream:
        assert stream.comment()
        server.exec(box, "echo", "now")
        event = stream.next()
        assert event["event"] == "act" and event["data"]["summary"] == "echo now"
        if event["data"]["outcome"] is None:
            event = stream.next()
            assert event["event"] == "ended"
        assert event["data"]["outcome"] == "exit 0"
        server.start_process(box, "sleep", "0.3")
        assert stream.next()["data"]["outcome"] is None
        ended = stream.next()
        assert ended["event"] == "ended" and ended["data"]["outcome"] == "exit 0"


def test_the_whole_tenant_at_once(server, box):
    server.exec(box, "true")
    everything = server.get("/v1/activity?limit=1000").json
    while everything["activity"] and everything["activity"][-1]["sandbox"] != box:
        everything = server.get(f"/v1/activity?limit=1000&from={everything['next']}").json
    assert everything["activity"][-1]["sandbox"] == box


def test_it_outlives_a_server_that_was_killed(fresh_server):
    server = fresh_server()
    name = server.create()
    server.exec(name, "echo", "before")
    server.start_process(name, "sh", "-c", "sleep 1.5; exit 7")
    kernel = server.post(at(name, "kernels"), {}).json["id"]
    server.post(at(name, f"kernels/{kernel}/execute"), {"code": "x = 1"})
    server.restart()
    found = acts(server, name)
    assert {"echo before", "x = 1"} <= {act["summary"] for act in found if act["outcome"]}
    assert wait_until(lambda: [act for act in acts(server, name) if act["outcome"] == "exit 7"], 10), "what went on ends under the next server"
    server.exec(name, "echo", "after")
    numbers = [act["seq"] for act in acts(server, name)]
    assert numbers == sorted(set(numbers)), "numbers go on"


def test_what_a_killed_server_was_doing_is_lost_with_it(fresh_server):
    server = fresh_server()
    name = server.create()
    with server.sse(at(name, "exec"), method="POST", body={"cmd": ["sh", "-c", "echo on; sleep 30"]}) as stream:
        stream.next()
        assert wait_until(lambda: len(acts(server, name)) == 2)
        server.restart()
    assert wait_until(lambda: last(server, name)["outcome"] == "lost with the server", 10), acts(server, name)


def test_each_tenant_has_its_own(fresh_server):
    server = fresh_server()
    a, b = (make_key(server, tenant)["key"] for tenant in ("a", "b"))
    head = {"Authorization": f"Bearer {a}"}
    server.put(at("box"), {}, headers=head)
    server.post(at("box", "exec"), {"cmd": ["true"]}, headers=head)
    mine = server.get(at("box", "activity"), headers=head).json["activity"]
    assert mine[-1]["keyId"].startswith("key_")
    other = {"Authorization": f"Bearer {b}"}
    assert server.get(at("box", "activity"), headers=other).status == 404, "as one that never was"
    assert server.get("/v1/activity", headers=other).json["activity"] == []
    assert server.post(at("box", "replay"), {}, headers=other).status == 404


def test_it_is_bounded_and_says_what_is_gone(fresh_server):
    server = fresh_server(env={"COVE_JOURNAL_TENANT_COUNT": "5"})
    name = server.create()
    for n in range(10):
        server.exec(name, "true", str(n))
    page = server.get(at(name, "activity")).json
    assert [act["summary"] for act in page["activity"]] == [f"true {n}" for n in range(5, 10)]
    assert page["gap"]["from"] == 1 and page["gap"]["to"] == page["firstSeq"] - 1
    assert server.post(at(name, "replay"), {}).status == 404, "its beginning is gone"


def test_it_can_be_switched_off(fresh_server):
    server = fresh_server(env={"COVE_JOURNAL_ENABLED": "false"})
    name = server.create()
    server.exec(name, "true")
    assert server.get("/v1/activity").json["activity"] == []


def replayed(server, box, **fields):
    answer = server.post(at(box, "replay"), fields)
    assert answer.status == 200, answer
    lines = [json.loads(line) for line in answer.body.decode().splitlines()]
    assert "begin" in lines[0] and "end" in lines[-1]
    return lines[0]["begin"], [line["step"] for line in lines[1:-1]], lines[-1]["end"]


def test_a_replay_does_everything_again_in_a_fresh_sandbox(server, box):
    server.put(at(box, "files?path=in.txt"), b"1 2 3")
    server.exec(box, "sh", "-c", "cat - in.txt > out.txt; wc -w < out.txt", stdin="0 ", env={"A": "b"}, workdir="/workspace")
    kernel = server.post(at(box, "kernels"), {}).json["id"]
    server.post(at(box, f"kernels/{kernel}/execute"), {"code": "x = open('out.txt').read(); x"})
    server.post(at(box, f"kernels/{kernel}/execute"), {"code": "len(x)"})
    server.start_process(box, "sh", "-c", "sleep 0.2; echo late")
    assert wait_until(lambda: last(server, box)["outcome"], 5)
    begin, steps, end = replayed(server, box, name=new_id("replay-"))
    assert begin["acts"] == len(steps) == 5 and all(step["state"] == "same" for step in steps), steps
    assert (end["same"], end["different"], end["skipped"]) == (5, 0, 0)
    assert server.out(end["sandbox"], "cat out.txt") == "0 1 2 3"
    assert server.get(at(end["sandbox"])).json["limits"]["memoryBytes"] == 256 << 20
    server.delete(at(end["sandbox"]))


def test_a_replay_says_where_results_differ(server, box):
    server.exec(box, "sh", "-c", "date +%N")
    server.exec(box, "sh", "-c", "test ! -e /tmp/seen; code=$?; touch /tmp/seen; exit $code")
    server.exec(box, "sh", "-c", "exit $(( $(cat /workspace/n 2>/dev/null || echo 0) ))")
    _, steps, end = replayed(server, box)
    assert [step["state"] for step in steps] == ["differs", "same", "same"]
    assert any("stdout" in difference for difference in steps[0]["differences"])
    server.delete(at(end["sandbox"]))


def test_a_replay_interrupts_what_was_interrupted(server, box):
    kernel = server.post(at(box, "kernels"), {}).json["id"]
    with server.sse(at(box, f"kernels/{kernel}/execute"), method="POST", body={"code": "n = 1\nprint('on', flush=True)\nwhile True: pass"}) as stream:
        stream.until(lambda data: data["type"] == "stdout")
        server.post(at(box, f"kernels/{kernel}/interrupt"))
        stream.until(lambda data: data["type"] == "end")
    server.post(at(box, f"kernels/{kernel}/execute"), {"code": "n"})
    _, steps, end = replayed(server, box)
    assert [step["state"] for step in steps] == ["same", "same"], steps
    server.delete(at(end["sandbox"]))


def test_a_replay_stops_where_it_is_told(server, box):
    for n in range(3):
        server.exec(box, "sh", "-c", f"echo {n} >> log")
    until = acts(server, box, kind="command")[1]["seq"]
    _, steps, end = replayed(server, box, until=until)
    assert len(steps) == 2 and server.out(end["sandbox"], "cat log") == "0\n1\n"
    server.delete(at(end["sandbox"]))
    answer = server.post(at(box, "replay"), {"until": 10**9})
    assert answer.status == 400 and "until" in answer.json["error"]


def test_a_replay_of_a_sandbox_that_has_ended(server):
    name = server.create()
    server.put(at(name, "files?path=a"), b"a")
    server.delete(at(name))
    _, steps, end = replayed(server, name)
    assert [step["kind"] for step in steps] == ["file"] and server.out(end["sandbox"], "cat a") == "a"
    server.delete(at(end["sandbox"]))


def test_a_replay_names_what_it_cannot_do_again(fresh_server):
    server = fresh_server(env={"COVE_JOURNAL_ACT_SIZE": "1024"})
    name = server.create()
    server.put(at(name, "files?path=big"), b"x" * 5000)
    server.start_process(name, "cat", stdin="open")
    _, steps, end = replayed(server, name)
    assert [step["state"] for step in steps] == ["skipped", "skipped"], steps
    assert "journal.act_size" in steps[0]["why"] and "goes on" in steps[1]["why"]
    assert end["skipped"] == 2


def test_secrets_of_an_act_do_not_lie_open(fresh_server):
    server = fresh_server()
    name = server.create()
    server.exec(name, "true", env={"TOKEN": "hunter2-of-the-journal"}, stdin="hunter3-of-the-journal")
    text = server.get(at(name, "activity")).body.decode()
    assert "hunter" not in text, "variables and input are not shown"
    stored = b"".join(path.read_bytes() for path in (server.state_dir / "front").glob("cove.db*"))
    assert b"hunter2" not in stored and b"hunter3" not in stored


def test_hostile_text_stays_text(server, box):
    server.post(at(box, "exec"), {"cmd": ["echo", "\x1b[31m\nred\u202e"]}, headers={"User-Agent": "a" + "x" * 300})
    act = last(server, box)
    assert "\n" not in act["summary"] and "\x1b" not in act["summary"] and "\x1b" not in act["client"] and len(act["client"].encode()) <= 120
