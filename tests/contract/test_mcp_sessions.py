"""Sessions of MCP: what stays between calls, for whom, and for how long (contract A9, cases 50 to 55)."""
import concurrent.futures
import threading
import time

import pytest
from conftest import wait_until
from hostile import make_key
from mcp_client import Legacy, Modern
from server import Server, at, new_id

# Every tool, and answers for old and new clients at once; test_mcp_models.py has what a client of today gets.
SERVER_FLAGS = ("--mcp-profile=superset", "--mcp-all-tools=true")


@pytest.fixture
def client(server):
    made = Legacy(server)
    yield made
    made.close()


def run(client, code, language="python", **arguments):
    result = client.call("execute_code", {"language": language, "code": code, **arguments})
    assert result["isError"] is False, result
    return result["structuredContent"]


def reset(client, **arguments):
    result = client.call("reset_session", arguments)
    assert result["isError"] is False, result
    return result["content"][0]["text"]


def gone(server, name, headers=None):
    return wait_until(lambda: server.get(at(name), headers=headers).status == 404)


# --- what stays

def test_d50_a_function_stays_until_it_is_reset(client):
    run(client, "def f():\n    return 41\nimport math\nopen('file', 'w').write('x')")
    assert run(client, "f() + 1, math.pi > 3, open('file').read()")["stdout"] == "(42, True, 'x')\n"
    assert reset(client, language="python") == "Python session reset."
    after = run(client, "f()")
    assert after["exit_code"] == 1 and "NameError" in after["stderr"] and after["error"]["type"] == "NameError" and "note" not in after
    assert run(client, "open('file').read()")["stdout"] == "'x'\n", "files are the whole connection's"
    reset(client)
    assert run(client, "import os; os.listdir()")["stdout"] == "[]\n"


def test_d50_javascript_keeps_everything_too(client):
    run(client, "let a = 1; const b = 2; var c = 3; function f() { return a + b + c } class K { m() { return 4 } }", "javascript")
    assert run(client, "a += 10; f() + new K().m()", "javascript")["stdout"] == "20\n"
    assert run(client, "const a = 'again'; a", "javascript")["stdout"] == "'again'\n"
    failed = run(client, "function deep() { throw new TypeError('no') }\ndeep()", "javascript")
    assert failed["exit_code"] == 1 and failed["error"] == {"type": "TypeError", "message": "no"} and "at deep (/workspace/main.js:1" in failed["stderr"]
    assert run(client, "await Promise.resolve(f())", "javascript")["stdout"] == "'again23'\n", "state is as it was"
    assert run(client, "setTimeout(() => console.log('later'), 30); console.log('now')", "javascript")["stdout"] == "now\nlater\n"
    ended = run(client, "console.log('last'); process.exit(7)", "javascript")
    assert (ended["exit_code"], ended["stdout"]) == (7, "last\n") and "a new interpreter" in ended["note"]
    anew = run(client, "typeof f", "javascript")
    assert anew["stdout"] == "'undefined'\n" and "status 7" in anew["note"]


def test_javascript_imports_and_texts_that_say_so_stay(client):
    code = "const o = {import: x => x}; // import (\nconst os = await import('os'); [typeof os.cpus, 'import (x)', `import(y)`, o.import(3)].join()"
    assert run(client, code, "javascript")["stdout"] == "'function,import (x),import(y),3'\n"


def test_d51_languages_do_not_see_each_other(server):
    """For the oldest clients, as the reference had it; the others share a workspace (test_mcp_models.py)."""
    client = Legacy(server, "2024-11-05")

    def run(code, language="python"):
        result = client.call("execute_code", {"language": language, "code": code})
        return "".join(block["text"] + "\n" for block in result["content"] if block.get("annotations", {}).get("streamed"))

    run("x = 'python'")
    run("var x = 'javascript'; require('fs').writeFileSync('mine', '')", "javascript")
    assert run("x") == "'python'\n"
    assert run("import os; os.listdir()") == "[]\n", "each has a workspace of its own"
    assert reset(client, language="python") == "Python session reset."
    assert run("x", "javascript") == "'javascript'\n"
    assert "NameError" in run("x")
    assert reset(client, language="javascript") == "Javascript session reset."
    assert "ReferenceError" in run("x", "javascript")
    assert reset(client) == "All sessions reset."


def test_a_call_may_begin_anew(client):
    run(client, "x = 1; open('f', 'w').close()")
    assert run(client, "import os; print('x' in globals(), os.listdir())", reset_session=True)["stdout"] == "False []\n"


def test_a_named_session_is_shared_by_languages_connections_and_doors(server, client):
    name = new_id("work")
    run(client, "x = 1; open('shared.txt', 'w').write('hi')", session_id=name)
    assert run(client, "cat shared.txt", "bash", session_id=name)["stdout"] == "hi"
    assert run(client, "require('fs').readFileSync('shared.txt', 'utf8')", "javascript", session_id=name)["stdout"] == "'hi'\n"
    client.close()
    other, modern = Legacy(server), Modern(server)
    assert run(other, "x + 1", session_id=name)["stdout"] == "2\n"
    assert run(modern, "x + 2", session_id=name)["stdout"] == "3\n"
    assert server.get(at(name)).json["labels"] == {"door": "mcp"}
    assert server.out(name, "cat shared.txt") == "hi"
    assert {one["language"] for one in server.get(at(name, "kernels")).json["kernels"]} == {"python", "javascript"}
    run(modern, "var y = 1", "javascript", session_id=name)
    assert reset(modern, session_id=name, language="python") == "Python session reset."
    assert "NameError" in run(modern, "x", session_id=name)["stderr"]
    assert run(modern, "y", "javascript", session_id=name)["stdout"] == "1\n", "that of another language goes on"
    assert run(modern, "cat shared.txt", "bash", session_id=name)["stdout"] == "hi"
    assert reset(modern, session_id=name) == f"Session {name} reset."
    assert server.get(at(name)).status == 404
    other.close()


def test_a_sandbox_of_another_door_is_a_session_and_keeps_its_own_time(server, client):
    name = server.create(ttlSeconds=7200, memoryLimit="300Mi")
    server.out(name, "echo made elsewhere > /workspace/f")
    assert run(client, "open('f').read()", session_id=name)["stdout"] == "'made elsewhere\\n'\n"
    assert server.get(at(name)).json["ttlSeconds"] == 7200
    server.delete(at(name))


def test_a_call_that_stands_alone_has_a_session_of_its_own(server):
    modern = Modern(server)
    first, second = run(modern, "x = 1"), run(modern, "'x' in globals()")
    assert first["session_id"] != second["session_id"] and second["stdout"] == "False\n"
    assert server.get(at(first["session_id"])).json["ttlSeconds"] == 600, "it goes soon"
    assert run(modern, "x", session_id=first["session_id"])["stdout"] == "1\n", "and can be come back to"
    assert server.get(at(first["session_id"])).json["ttlSeconds"] == 3600


def test_a_default_session_ends_with_its_connection(server):
    client = Legacy(server)
    name = run(client, "1")["session_id"]
    assert server.get(at(name)).status == 200
    client.close()
    assert gone(server, name)


# --- one after the other

def test_calls_of_a_session_run_in_order_and_others_overtake(server):
    name, clients = new_id(), [Legacy(server) for _ in range(4)]
    run(clients[0], "seen = []", session_id=name)
    done = []

    def one(number):
        run(clients[number], f"import time; seen.append(({number}, 'begin')); time.sleep(0.3); seen.append(({number}, 'end'))", session_id=name)
        done.append(number)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for number, thread in enumerate(threads):
        thread.start()
        time.sleep(0.05)
    run(clients[3], "1")
    done.append("other")
    for thread in threads:
        thread.join(30)
    assert done.index("other") < 2, "it did not wait for those"
    assert run(clients[3], "seen", session_id=name)["stdout"] == str([(n, what) for n in range(3) for what in ("begin", "end")]) + "\n"
    for client in clients:
        client.close()


# --- whose they are

@pytest.fixture
def keyed():
    """A server with the keys of two tenants."""
    server = Server("--drain", "1s", *SERVER_FLAGS)
    keys = [make_key(server, tenant)["key"] for tenant in ("one", "two")]
    server.start()
    yield [Legacy(server, key=key) for key in keys]
    server.close()


def test_d54_two_principals_do_not_meet(keyed):
    one, two = keyed
    run(one, "secret = 42; open('f', 'w').write('mine')", session_id="same")
    assert run(two, "import os; print('secret' in globals(), os.listdir())", session_id="same")["stdout"] == "False []\n"
    assert reset(two, session_id="same") == "Session same reset."
    again = run(one, "secret", session_id="same")
    assert again["stdout"] == "42\n" and "note" not in again
    execution = again["execution_id"]
    read = [client.ask("resources/read", uri=f"execution://{execution}/stdout")[0][-1] for client in (one, two)]
    assert "42" in str(read[0]["result"]) and "error" in read[1]


# --- how long

def test_d55_a_session_that_was_not_used_expires_and_that_is_said_once(fresh_server):
    server = fresh_server("--mcp-session-idle=4s", "--mcp-unnamed-idle=4s")
    client, modern = Legacy(server), Modern(server)
    names = {"work": client, "": client}
    ids = {name: run(which, "x = 1", session_id=name)["session_id"] for name, which in names.items()}
    alone = run(modern, "x = 1")["session_id"]
    for name in [*ids.values(), alone]:
        assert gone(server, name)
    for name, which in [*names.items(), (alone, modern)]:
        result = which.call("execute_code", {"language": "python", "code": "'x' in globals()", "session_id": name})
        structured, words = result["structuredContent"], next(one["text"] for one in result["content"] if one.get("annotations", {}).get("final"))
        assert structured["stdout"] == "False\n" and f"Session {ids.get(name, alone)} expired" in structured["note"] and "a new one was started" in words
        assert "note" not in run(which, "1", session_id=name), "said once, and used again long before it is over"


def test_d55_the_session_that_was_not_used_for_longest_makes_way(fresh_server):
    server = fresh_server("--mcp-sessions=3")
    client = Legacy(server)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        busy = pool.submit(run, client, "sleep 3; echo done", "bash", session_id="busy")
        assert wait_until(lambda: server.get(at("busy")).status == 200)
        for name in ("a", "b"):
            run(client, ":", "bash", session_id=name)
        run(client, ":", "bash", session_id="a")
        run(client, ":", "bash", session_id="c")
        assert {one["id"] for one in server.get("/v1/sandboxes").json["sandboxes"] if one["state"] != "deleting"} == {"busy", "a", "c"}
        assert wait_until(lambda: server.get(at("b")).status == 404)
        assert "was evicted" in run(client, ":", "bash", session_id="b")["note"]
        assert busy.result(30)["stdout"] == "done\n", "never one that runs"


def test_where_all_are_in_use_a_call_is_told_so(fresh_server):
    server = fresh_server("--mcp-sessions=1")
    client = Legacy(server)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        busy = pool.submit(run, client, "sleep 2", "bash", session_id="busy")
        assert wait_until(lambda: server.get(at("busy")).status == 200)
        refused = client.call("execute_code", {"language": "bash", "code": ":", "session_id": "other"})
        assert refused["isError"] and "all of them are in use" in refused["content"][0]["text"]
        busy.result(30)
    assert run(client, "echo 1", "bash", session_id="other")["stdout"] == "1\n"


def test_a_flood_of_calls_that_stand_alone_does_not_pile_up(fresh_server):
    server = fresh_server("--mcp-sessions=4", "--max-sandboxes=20")
    modern = Modern(server)
    for number in range(12):
        assert run(modern, f"echo {number}", "bash")["stdout"] == f"{number}\n"
    assert len(server.get("/v1/sandboxes").json["sandboxes"]) <= 4


def test_named_sessions_survive_a_server(fresh_server):
    server = fresh_server("--on-exit", "keep")
    client = Legacy(server)
    run(client, "x = 1", session_id="kept")
    run(client, "var y = 2", "javascript", session_id="kept")
    server.restart()
    again = Legacy(server)
    assert run(again, "x", session_id="kept")["stdout"] == "1\n"
    assert run(again, "y", "javascript", session_id="kept")["stdout"] == "2\n"


# --- what happens to them meanwhile

def test_a_session_that_is_closed_while_a_call_waits_for_it_is_not_made_again_by_a_look(server, client):
    name = new_id()
    run(client, "x = 1", session_id=name)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        others = [Legacy(server) for _ in range(3)]
        busy = pool.submit(client.call, "execute_code", {"language": "python", "code": "import time; time.sleep(20)", "session_id": name})
        assert wait_until(lambda: any(kernel["state"] == "busy" for kernel in server.get(at(name, "kernels")).json["kernels"]))
        looks = [pool.submit(other.call, "list_files", {"session_id": name}) for other in others[:2]]
        time.sleep(0.5)
        others[2].call("close_session", {"session_id": name})
        for look in looks:
            said = look.result()
            assert said["isError"] and "Unknown session" in said["content"][0]["text"], said
        busy.result()
    assert server.get(at(name)).status == 404
    for other in others:
        other.close()


def test_a_reset_says_what_it_has_ended(server, client):
    name = new_id()
    assert reset(client, session_id=name) == f"There was no session {name}."
    run(client, "x = 1", session_id=name)
    assert reset(client, session_id=name) == f"Session {name} reset."


@pytest.mark.parametrize("tool, arguments", [("execute_code", {"language": "python", "code": "1"}), ("run_command", {"command": "ls"}), ("run_command", {"command": "ls", "background": True})])
@pytest.mark.parametrize("timeout", [-1, 0, -0.5, "-1"])
def test_a_time_limit_of_nothing_or_less_is_refused(client, tool, arguments, timeout):
    said = client.call(tool, {**arguments, "timeout": timeout})
    assert said["isError"] and said["content"][0]["text"] == "Invalid argument: timeout must be greater than 0", said


def test_javascript_that_only_quotes_a_module_is_none(client):
    run(client, "var kept = 7", "javascript")
    code = "const text = `\nexport default 1\nimport x from 'y'\n`; /*\nexport const a = 1\n*/\nkept + text.length"
    assert run(client, code, "javascript")["stdout"] == f"{7 + len(chr(10) + 'export default 1' + chr(10) + 'import x from ' + repr('y') + chr(10))}\n", "it runs in the interpreter, which has kept"
