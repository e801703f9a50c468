"""The workspace API: its envelope and its errors, sessions (contract sandbox-runtime, sections 1 to 3)."""
import threading
import time
import uuid

import pytest
from conftest import wait_until
from hostile import Tenant, make_key
from interpreter import bash, new_session
from server import Server, at, new_id
from workspace import SE, create, download, execute, listed, mistake, names, result, script, session


@pytest.fixture
def name(server):
    made = session(server)
    yield made
    server.delete(f"{SE}/session/{made}")


# --- errors of the HTTP side

@pytest.mark.parametrize("method, path, status, words", [
    ("GET", "/nothing", 404, "Not Found"), ("GET", "", 404, "Not Found"), ("POST", "/healthy", 405, "Method Not Allowed"), ("GET", "/session/x", 405, "Method Not Allowed"),
    ("HEAD", "/healthy", 405, None), ("PUT", "/files/x/y", 405, "Method Not Allowed")])
def test_what_is_not_there(server, method, path, status, words):
    answer = server.request(method, SE + path, b"")
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json")
    assert words is None or answer.json == {"detail": words}


def test_a_slash_too_many_is_sent_on(server):
    answer = server.get(f"{SE}/healthy/")
    assert (answer.status, answer.headers["Location"]) == (307, f"{SE}/healthy")


@pytest.mark.parametrize("path, body, loc, kind", [
    ("/session/x", b"", ["body"], "missing"), ("/session/x", b"null", ["body"], "missing"), ("/session/x", b"[]", ["body"], "model_attributes_type"), ("/session/x", b"{", ["body", 1], "json_invalid"),
    ("/session/x", b'{"size": 5}', ["body", "size"], "string_type"), ("/cleanup-all", b"", ["body"], "missing"), ("/cleanup-all", b'{"force": "perhaps"}', ["body", "force"], "bool_parsing"),
    ("/create/x", b'{"content": "a"}', ["body", "filename"], "missing"), ("/create/x", b'{"content": 1, "filename": "f"}', ["body", "content"], "string_type"),
    ("/create/x", b'{"content": "", "filename": "f", "mode": "rw"}', ["body", "mode"], "int_parsing"), ("/execute/x", b"{}", ["body", "command"], "missing"),
    ("/execute/x", b'{"command": "a", "args": "b"}', ["body", "args"], "list_type"), ("/execute/x", b'{"command": "a", "args": [1]}', ["body", "args", 0], "string_type"),
    ("/execute_code/x", b"{}", ["body", "code"], "missing"), ("/execute_code/x", b'{"code": "1", "output_params": [null]}', ["body", "output_params", 0], "string_type"),
    ("/v2/execute_code", b"{}", ["body", "handler_code"], "missing"), ("/v2/execute_code", b'{"handler_code": "", "event": null}', ["body", "event"], "dict_type"),
    ("/v2/execute_code", b'{"handler_code": "", "context": []}', ["body", "context"], "dict_type"),
    ("/download_from_efast/x", b"{}", ["body", "file_params"], "missing"), ("/download_from_efast/x", b'{"file_params": [1]}', ["body", "file_params", 0], "dict_type"),
    ("/download_from_efast/x", b'{"file_params": [], "timeout": "soon"}', ["body", "timeout"], "int_parsing")])
def test_a_body_of_another_shape(server, path, body, loc, kind):
    answer = server.post(SE + path, body, headers={"Content-Type": "application/json"})
    assert (answer.status, answer.headers["Content-Type"]) == (422, "application/json"), answer
    first = answer.json["detail"][0]
    assert (first["loc"], first["type"]) == (loc, kind) and first["msg"], answer
    assert result(server.get(f"{SE}/status/x"))["exists"] is False, "what is wrong makes no session"


@pytest.mark.parametrize("path, loc, kind", [("/readfile/x/f?offset=a", ["query", "offset"], "int_parsing"), ("/readfile/x/f?buffer_size=1.5", ["query", "buffer_size"], "int_parsing"), ("/files/x/?recursive=2", ["query", "recursive"], "bool_parsing")])
def test_a_query_of_another_shape(server, path, loc, kind):
    answer = server.get(SE + path)
    assert (answer.status, answer.json["detail"][0]["loc"], answer.json["detail"][0]["type"]) == (422, loc, kind)


def test_non_ascii_is_not_escaped(server, name):
    answer = server.post(f"{SE}/execute/{name}", {"command": "echo 汉字"})
    assert "汉字".encode() in answer.body


# --- sessions

def test_health(server):
    assert result(server.get(f"{SE}/healthy")) == {"status": "success"}


def test_create_status_delete(server):
    name = new_id("ws")
    assert result(server.get(f"{SE}/status/{name}")) == {"id": name, "exists": False, "created_at": None, "mount_point": None, "is_mounted": False, "files": []}
    before = time.time()
    assert result(server.post(f"{SE}/session/{name}", {"size": "50M"})) == {"session_id": name}
    status = result(server.get(f"{SE}/status/{name}"))
    assert {**status, "created_at": 0} == {"id": name, "exists": True, "created_at": 0, "mount_point": "/workspace", "is_mounted": True, "files": []}
    assert isinstance(status["created_at"], float) and before - 1 < status["created_at"] < time.time() + 1
    mistake(server.post(f"{SE}/session/{name}", {}), "Failed to create session", "Error: Session already exists")
    assert result(server.delete(f"{SE}/session/{name}")) == {"status": "success"}
    assert result(server.get(f"{SE}/status/{name}"))["exists"] is False
    assert result(server.delete(f"{SE}/session/{name}")) == {"status": "success"}, "also of one that never was"


def test_status_lists_the_regular_files_of_the_top_level(server, name):
    execute(server, name, "echo 12345 > a.csv; mkdir d; echo x > d/inner; echo y > stdout.log; ln -s a.csv link; mkfifo pipe; touch -d @1700000000.25 a.csv")
    files = result(server.get(f"{SE}/status/{name}"))["files"]
    assert {one["filename"]: (one["size"], one["type"]) for one in files} == {"a.csv": (6, "csv"), "stdout.log": (2, "log")}
    assert files[0]["modified_at"] == 1700000000.25 and list(files[0]) == ["filename", "size", "type", "modified_at"]


@pytest.mark.parametrize("size, blocks", [("65536k", 65536), ("64M", 65536), ("67108864", 65536), (None, 100 * 1024), ("1%", None), ("1g", 1024 * 1024)])
def test_a_session_is_as_large_as_asked(server, size, blocks):
    name = session(server, **({"size": size} if size else {}))
    said = int(execute(server, name, "df -k --output=size /workspace | tail -1")["stdout"])
    assert said == blocks if blocks else 1024 < said < 100 * 1024, said
    server.delete(f"{SE}/session/{name}")


@pytest.mark.parametrize("size", ["", "big", "-5M", "50MB", "999G"])
def test_a_size_that_cannot_be(server, size):
    name = new_id("ws")
    detail = mistake(server.post(f"{SE}/session/{name}", {"size": size}), "Failed to create session")
    assert detail.startswith("Error: Failed to mount tmpfs\nDetail: size ")
    assert result(server.post(f"{SE}/session/{name}", {"size": "1M"})) == {"session_id": name}, "nothing of it stayed"
    server.delete(f"{SE}/session/{name}")


def test_a_full_session_goes_on(server):
    name = session(server, size="2M")
    full = execute(server, name, "head -c 1500000 /dev/zero > big; cat big > more")
    assert full["returncode"] == 1 and "No space left" in full["stderr"]
    assert execute(server, name, "echo still here")["stdout"] == "still here"
    assert script(server, name, "print(6*7)")["stdout"] == "42", "a script needs no room for itself"
    assert script(server, name, "echo $0 $1", script_type="shell", filename="s", args=["x"])["stdout"] == "s.sh x"
    assert "No space left" in mistake(create(server, name, "more.txt", "x" * 100000), "Failed to create file")
    assert execute(server, name, "rm big more")["returncode"] == 0
    assert result(create(server, name, "more.txt", "x"))["size"] == 1
    server.delete(f"{SE}/session/{name}")


@pytest.mark.parametrize("use", ["execute", "execute_code", "create", "upload", "download", "files", "readfile", "preview"])
def test_a_session_that_is_missing_is_made(server, use):
    name = new_id("ws")
    if use == "execute":
        execute(server, name, "true")
    elif use == "execute_code":
        script(server, name, "1")
    elif use == "create":
        result(create(server, name, "f", ""))
    elif use == "upload":
        from workspace import upload
        result(upload(server, name, b"x"))
    elif use == "download":
        assert download(server, name, "f").json == {"detail": "File not found"}
    elif use == "files":
        assert listed(server, name) == []
    elif use == "readfile":
        mistake(server.get(f"{SE}/readfile/{name}/f.txt"), "File not found")
    else:
        mistake(server.get(f"{SE}/files/preview/{name}/f.txt?sid=1"), "File not found")
    assert result(server.get(f"{SE}/status/{name}"))["exists"] is True
    server.delete(f"{SE}/session/{name}")


def test_two_that_make_the_same_session_at_once_share_it(server):
    name = new_id("ws")
    answers = []
    threads = [threading.Thread(target=lambda n=n: answers.append(execute(server, name, f"echo {n} > f{n}"))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6 and len(listed(server, name)) == 6
    server.delete(f"{SE}/session/{name}")


def test_the_session_is_a_sandbox_of_the_other_doors(server, name):
    result(create(server, name, "f.txt", "from here"))
    assert server.out(name, "cat f.txt; echo there > g.txt") == "from here"
    assert server.get(at(name)).json["limits"]["diskBytes"] == 100 << 20
    assert names(listed(server, name)) == ["f.txt", "g.txt"]
    assert name in [one["id"] for one in server.get("/v1/sandboxes?limit=1000").json["sandboxes"]]
    other = server.create()
    assert execute(server, other, "pwd")["stdout"] == "/workspace", "and one of theirs is a session"
    assert other not in result(server.get(f"{SE}/workspaces"))["workspaces"]
    assert server.delete(at(other)).status == 204 and server.delete(at(name)).status == 204
    assert result(server.get(f"{SE}/status/{name}"))["exists"] is False


def test_sessions_of_the_code_interpreter_are_sessions_here_and_the_other_way(server):
    theirs = new_session(server)
    assert execute(server, theirs, "echo here > f; pwd")["stdout"] == "/workspace" and bash(server, theirs, "cat f")["stdout"] == "here\n"
    assert server.delete(f"/v1/sessions/{theirs}").status == 204 and result(server.get(f"{SE}/status/{theirs}"))["exists"] is False
    ours = "code-session-" + uuid.uuid4().hex
    result(server.post(f"{SE}/session/{ours}", {}))
    assert bash(server, ours, "echo ours")["stdout"] == "ours\n"
    server.delete(f"{SE}/session/{ours}")


@pytest.mark.parametrize("name", ["a b", "项目-1", "x" * 255, "a%b", "..."])
def test_names_that_a_session_may_have(server, name):
    from workspace import quoted
    path = quoted(name)
    assert result(server.post(f"{SE}/session/{path}", {})) == {"session_id": name}
    assert name in result(server.get(f"{SE}/workspaces"))["workspaces"]
    assert result(server.delete(f"{SE}/session/{path}")) == {"status": "success"}


@pytest.mark.parametrize("method, path", [("POST", "/session/"), ("DELETE", "/session/"), ("GET", "/status/"), ("POST", "/execute/"), ("GET", "/files/"), ("POST", "/create/")])
def test_names_that_it_may_not(server, method, path):
    bodies = {"/session/": {}, "/execute/": {"command": "true"}, "/create/": {"content": "", "filename": "f"}}
    answer = server.request(method, SE + path + "x" * 256, bodies.get(path))
    assert mistake(answer, "Invalid session id") == "Error: the sandbox id is longer than 255 bytes"


def test_the_list(server, name):
    all_of_them = result(server.get(f"{SE}/workspaces"))["workspaces"]
    assert all_of_them[name] == {"mount_point": "/workspace", "created_at": result(server.get(f"{SE}/status/{name}"))["created_at"]}


def test_deleting_ends_what_runs(server, name):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(execute(server, name, "echo begun; sleep 600")))
    thread.start()
    assert wait_until(lambda: any(one["state"] == "running" for one in server.get(at(name, "processes")).json["processes"]), 10)
    assert result(server.delete(f"{SE}/session/{name}")) == {"status": "success"}
    thread.join(20)
    assert answers[0]["returncode"] == 137 and answers[0]["reason"] == "sandbox_gone"


# --- on servers of their own

def test_clean_up(fresh_server):
    server = fresh_server()
    idle, busy, other = session(server), session(server), server.create()
    server.start_process(busy, "sleep", "600")
    assert result(server.post(f"{SE}/cleanup-all", {})) == {"total": 2, "success": 1, "failed": [], "skipped": [f"{busy}: 会话正在运行"]}
    assert list(result(server.get(f"{SE}/workspaces"))["workspaces"]) == [busy]
    assert result(server.post(f"{SE}/cleanup-all", {"force": True})) == {"total": 1, "success": 1, "failed": [], "skipped": []}
    assert result(server.post(f"{SE}/cleanup-all", {"force": None})) == {"total": 0, "success": 0, "failed": [], "skipped": []}
    assert result(server.get(f"{SE}/workspaces")) == {"workspaces": {}}
    assert server.get(at(other)).status == 200, "what other doors made is theirs"
    assert server.get(at(idle)).status == 404


def test_a_session_ends_when_its_time_is_over_whatever_is_done_in_it(fresh_server):
    server = fresh_server(env={"WORKSPACE_EXPIRATION_TIME": "3"})
    name = session(server)
    ends = server.get(at(name)).json["expiresAt"]
    execute(server, name, "echo used")
    assert server.get(at(name)).json["expiresAt"] == ends, "use does not renew it"
    assert wait_until(lambda: result(server.get(f"{SE}/status/{name}"))["exists"] is False, 15)


def test_tenants_have_sessions_of_their_own(fresh_server):
    server = Server("--drain", "1s")
    with_keys = [make_key(server, tenant) for tenant in ("red", "blue")]
    with server:
        red, blue = (Tenant(server, key["key"]) for key in with_keys)
        assert server.get(f"{SE}/healthy").status == 401 and server.get(f"{SE}/healthy").json["detail"]
        assert result(red.post(f"{SE}/session/same", {})) == {"session_id": "same"}
        result(create(red, "same", "secret.txt", "red's"))
        assert result(blue.get(f"{SE}/status/same"))["exists"] is False
        assert result(blue.get(f"{SE}/workspaces")) == {"workspaces": {}}
        assert listed(blue, "same") == [], "a session of its own, made for it"
        assert result(blue.post(f"{SE}/cleanup-all", {"force": True}))["success"] == 1
        assert result(blue.delete(f"{SE}/session/same")) == {"status": "success"}
        assert names(listed(red, "same")) == ["secret.txt"], "nobody else's clean-up touches it"
        assert server.get(f"/{with_keys[0]['key']}{SE}/healthy").status == 200, "the SDK sends no header: the key goes into the address"


def test_sessions_survive_the_server(fresh_server):
    server = fresh_server("--on-exit", "keep")
    name = session(server)
    result(create(server, name, "f.txt", "kept"))
    created = result(server.get(f"{SE}/status/{name}"))["created_at"]
    server.restart()
    assert list(result(server.get(f"{SE}/workspaces"))["workspaces"]) == [name]
    assert result(server.get(f"{SE}/status/{name}"))["created_at"] == created and download(server, name, "f.txt").body == b"kept"


def test_statuses_that_fit_when_asked_for(fresh_server):
    server = fresh_server("--workspace-statuses", "fitting")
    name = session(server)
    mistake(server.post(f"{SE}/session/{name}", {}), "Failed to create session", "Error: Session already exists", status=400)
    mistake(server.get(f"{SE}/readfile/{name}/none.txt"), "File not found", status=404)
    mistake(create(server, name, "../x", ""), "Invalid file path", "child path cannot start with '.' or '..'", status=400)
