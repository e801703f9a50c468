"""Jupyter's REST API as its clients know it: kernel specifications, kernels, sessions, tokens, scopes."""
import base64
import concurrent.futures
import re
import uuid

import pytest
from conftest import wait_until
from hostile import make_key
from jupyter_socket import JupyterSocket
from server import Server, new_id

UUID = re.compile(r"^\w{8}-\w{4}-\w{4}-\w{4}-\w{12}$")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def kernel(server):
    made = server.post("/api/kernels", {"name": "python"})
    assert made.status == 201, made
    yield made.json["id"]
    server.delete(f"/api/kernels/{made.json['id']}")


def sandbox_of(server, kernel):
    return server.get(f"/api/kernels/{kernel}").json["sandbox"]


def test_the_version_is_told(server):
    assert isinstance(server.get("/api").json["version"], str)


def test_kernel_specifications_have_every_field_that_JupyterLab_wants(server):
    specs = server.get("/api/kernelspecs").json
    assert specs["default"] == "python3" and {"python3", "javascript", "bash"} <= set(specs["kernelspecs"])
    for name, spec in specs["kernelspecs"].items():
        assert spec["name"] == name and spec["resources"] == {}
        assert isinstance(spec["spec"]["argv"], list) and spec["spec"]["display_name"] and spec["spec"]["language"]
    assert server.get("/api/kernelspecs/python").json["name"] == "python3"
    missing = server.get("/api/kernelspecs/cobol")
    assert missing.status == 404 and "cobol" in missing.json["message"] and missing.json["reason"] == "Not Found"
    assert server.get("/kernelspecs/python3/logo-64x64.png").status == 404


def test_a_bare_cache_buster_in_the_query_is_ignored(server):
    assert server.get("/api/kernelspecs?1794765743248").status == 200


def test_a_kernel_is_made_found_and_deleted(server):
    made = server.post("/api/kernels", {"name": "python"})
    assert made.status == 201 and made.headers["Content-Type"] == "application/json"
    model = made.json
    assert UUID.match(model["id"]) and model["name"] == "python3" and TIME.match(model["last_activity"])
    assert model["execution_state"] == "idle" and model["connections"] == 0
    assert made.headers["Location"] == f"/api/kernels/{model['id']}"
    assert server.get(made.headers["Location"]).json == model
    assert model["id"] in [one["id"] for one in server.get("/api/kernels").json]
    assert server.get(f"/v1/sandboxes/{model['sandbox']}").status == 200  # the other doors see it
    gone = server.delete(made.headers["Location"])
    assert gone.status == 204 and gone.body == b""
    again = server.delete(made.headers["Location"])
    assert again.status == 404 and again.json["reason"] == "Not Found"
    assert server.get(f"/v1/sandboxes/{model['sandbox']}").status == 404  # it was made for the kernel


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b'{"name": ""}', b'{"name": null}'])
def test_the_body_may_be_missing(server, body):
    made = server.post("/api/kernels", body)
    assert made.status == 201 and made.json["name"] == "python3", made
    server.delete(f"/api/kernels/{made.json['id']}")


@pytest.mark.parametrize("body, status, word", [
    (b"{", 400, "JSON"), (b"[]", 400, "object"), (b'{"name": 1}', 400, "name"), (b'{"name": "cobol"}', 404, "cobol"), (b'{"env": []}', 400, "env"),
    (b'{"env": {"KERNEL_X": 1}}', 400, "KERNEL_X"), (b'{"kernel_id": "x"}', 400, "kernel_id")])
def test_a_bad_request_names_what_is_wrong(server, body, status, word):
    answer = server.post("/api/kernels", body)
    assert answer.status == status and word in answer.json["message"], answer


@pytest.mark.parametrize("method, path", [
    ("GET", ""), ("DELETE", ""), ("POST", "/interrupt"), ("POST", "/restart"), ("GET", "/channels")])
def test_an_unknown_kernel_is_404_in_JSON(server, method, path):
    answer = server.request(method, f"/api/kernels/{NOBODY}{path}")
    assert answer.status == 404 and NOBODY in answer.json["message"], answer


def test_an_unknown_path_is_404_in_JSON(server):
    answer = server.get("/api/nothing")
    assert answer.status == 404 and answer.json["reason"] == "Not Found"


def test_channels_without_an_upgrade_are_400(server, kernel):
    assert server.get(f"/api/kernels/{kernel}/channels").status == 400


def test_a_client_may_choose_the_id(server):
    wanted = str(uuid.uuid4())
    assert server.post("/api/kernels", {"kernel_id": wanted}).json["id"] == wanted
    assert server.post("/api/kernels", {"kernel_id": wanted}).status == 409
    assert server.delete(f"/api/kernels/{wanted}").status == 204


def test_variables_of_the_kernel_are_set_and_others_passed_over(server):
    made = server.post("/api/kernels", {"env": {"KERNEL_USERNAME": "me", "SECRET": "x", "PATH": "/nowhere"}}).json["id"]
    with JupyterSocket(server, made) as line:
        told = line.execute("import os; [os.environ.get(n) for n in ('KERNEL_USERNAME', 'SECRET', 'KERNEL_GATEWAY')], '/nowhere' in os.environ['PATH']")
    assert told.result == ["(['me', None, '1'], False)"]
    server.delete(f"/api/kernels/{made}")


def test_a_restart_forgets_variables_and_keeps_files_and_environment(server, kernel):
    with JupyterSocket(server, kernel) as line:
        line.execute("x = 1; open('kept', 'w').write('here')")
        restarted = server.post(f"/api/kernels/{kernel}/restart", {})
        assert restarted.status == 200 and restarted.json["id"] == kernel, restarted
    with JupyterSocket(server, kernel) as line:
        told = line.execute("'x' in dir(), open('kept').read(), __import__('os').environ['KERNEL_GATEWAY']")
    assert told.result == ["(False, 'here', '1')"] and told.reply["execution_count"] == 1


def test_an_interrupt_ends_a_loop_and_a_sleep_and_leaves_the_state(server, kernel):
    with JupyterSocket(server, kernel) as line:
        for code in ("a = 5; print('on', flush=True)\nwhile True: pass", "import time; b = 6; print('on', flush=True); time.sleep(60)"):
            request = line.send("execute_request", {"code": code})
            while line.next()["msg_type"] != "stream":
                pass
            assert server.get(f"/api/kernels/{kernel}").json["execution_state"] == "busy"
            assert server.post(f"/api/kernels/{kernel}/interrupt", {"kernel_id": kernel}).status == 204
            assert line.until_idle(request).reply["ename"] == "KeyboardInterrupt"
        assert line.execute("a, b").result == ["(5, 6)"]


@pytest.mark.parametrize("language", ["python3", "javascript"])
@pytest.mark.parametrize("silent", [False, True])
def test_an_interrupt_that_comes_at_once_is_not_lost(server, language, silent):
    kernel = server.post("/api/kernels", {"name": language}).json["id"]
    code = "while True: pass" if language == "python3" else "while (true) {}"
    with JupyterSocket(server, kernel) as line:
        for _ in range(20):
            request = line.send("execute_request", {"code": code, "silent": silent})
            assert wait_until(lambda: server.get(f"/api/kernels/{kernel}").json["execution_state"] == "busy")
            assert server.post(f"/api/kernels/{kernel}/interrupt", {}).status == 204
            assert line.until_idle(request).reply["ename"] in ("KeyboardInterrupt", "Interrupted")
    assert server.delete(f"/api/kernels/{kernel}").status == 204


def test_sessions_come_and_go_with_their_kernels(server):
    made = server.post("/api/sessions", {"path": "demo.ipynb", "type": "notebook", "name": "demo", "kernel": {"name": "python3"}})
    assert made.status == 201, made
    session = made.json
    assert session["path"] == "demo.ipynb" and session["type"] == "notebook" and session["name"] == "demo"
    assert session["notebook"] == {"path": "demo.ipynb", "name": "demo"} and session["kernel"]["name"] == "python3"
    again = server.post("/api/sessions", {"path": "demo.ipynb", "type": "notebook", "kernel": {"name": "bash"}})
    assert again.status == 201 and again.json["id"] == session["id"]
    assert [one["id"] for one in server.get("/api/sessions").json] == [session["id"]]
    moved = server.request("PATCH", f"/api/sessions/{session['id']}", {"path": "new.ipynb"})
    assert moved.status == 200 and moved.json["path"] == "new.ipynb" and moved.json["kernel"]["id"] == session["kernel"]["id"]
    other = server.request("PATCH", f"/api/sessions/{session['id']}", {"kernel": {"name": "bash"}})
    assert other.status == 200 and other.json["kernel"]["name"] == "bash"
    assert server.get(f"/api/kernels/{session['kernel']['id']}").status == 404
    assert server.get(f"/api/sessions/{session['id']}").json["kernel"]["id"] == other.json["kernel"]["id"]
    assert server.delete(f"/api/sessions/{session['id']}").status == 204
    assert server.get(f"/api/kernels/{other.json['kernel']['id']}").status == 404
    assert server.get(f"/api/sessions/{session['id']}").status == 404


def test_a_session_whose_kernel_is_gone_is_410(server):
    session = server.post("/api/sessions", {"path": "gone.ipynb", "type": "notebook", "kernel": {"name": "python3"}}).json
    server.delete(f"/api/kernels/{session['kernel']['id']}")
    assert server.delete(f"/api/sessions/{session['id']}").status == 410


@pytest.mark.parametrize("body, status, word", [
    ({"type": "notebook"}, 400, "path"), ({"path": "x"}, 400, "type"), ({"path": "x", "type": "notebook", "kernel": {"name": "cobol"}}, 501, "cobol")])
def test_a_bad_session_names_what_is_wrong(server, body, status, word):
    answer = server.post("/api/sessions", body)
    assert answer.status == status and word in answer.json["message"], answer
    assert status != 501 or answer.json["short_message"]


def test_the_status_counts_kernels_and_connections(server, kernel):
    with JupyterSocket(server, kernel) as line:
        line.ask("kernel_info_request")
        status = server.get("/api/status").json
    assert status["kernels"] >= 1 and status["connections"] >= 1 and TIME.match(status["started"]) and TIME.match(status["last_activity"])


def test_a_kernel_is_opened_inside_a_sandbox_that_is_there(server, sandbox):
    server.sh(sandbox, "echo hello > greeting")
    by_user = {"Authorization": "Basic " + base64.b64encode(f"{sandbox}:".encode()).decode()}
    by_header = {"X-Cove-Sandbox": sandbox}
    base = f"/v1/sandboxes/{sandbox}/jupyter"
    ids = [server.post("/api/kernels", {}, headers=by_user).json["id"], server.post("/api/kernels", {}, headers=by_header).json["id"], server.post(f"{base}/api/kernels", {}).json["id"]]
    assert len(set(ids)) == 3
    for kernel in ids:
        assert sandbox_of(server, kernel) == sandbox
    with JupyterSocket(server, ids[0], headers=by_user) as one, JupyterSocket(server, ids[1]) as two, JupyterSocket(server, ids[2], base=base) as three:
        for line in (one, two, three):
            assert line.execute("open('greeting').read()").result == ["'hello\\n'"]
    assert sorted(one["id"] for one in server.get("/api/kernels", headers=by_header).json) == sorted(ids)
    assert server.delete(f"{base}/api/kernels/{ids[0]}").status == 204
    assert server.get(f"/v1/sandboxes/{sandbox}").status == 200  # it was not made for the kernel
    others = server.create()
    assert server.get(f"/api/kernels/{ids[1]}", headers={"X-Cove-Sandbox": others}).status == 404
    assert server.get("/api/kernels", headers={"X-Cove-Sandbox": new_id("nobody")}).status == 404


def test_kernels_of_other_doors_are_listed_and_can_be_used(server, sandbox):
    made = server.post(f"/v1/sandboxes/{sandbox}/kernels", {}).json
    server.post(f"/v1/sandboxes/{sandbox}/kernels/{made['id']}/execute", {"code": "shared = 41"})
    (seen,) = server.get(f"/v1/sandboxes/{sandbox}/jupyter/api/kernels").json
    with JupyterSocket(server, seen["id"]) as line:
        assert line.execute("shared + 1").result == ["42"]


def test_no_more_kernels_than_the_setting_says(fresh_server):
    server = fresh_server("--jupyter-max-kernels", "1")
    first = server.post("/api/kernels", {}).json["id"]
    refused = server.post("/api/kernels", {})
    assert refused.status == 403 and "Resource Limit" in refused.json["message"], refused
    server.delete(f"/api/kernels/{first}")
    assert server.post("/api/kernels", {}).status == 201


def test_idle_kernels_are_ended_when_the_setting_says_so_and_connected_ones_are_not(fresh_server):
    server = fresh_server("--jupyter-cull-idle", "2s")
    idle, used = (server.post("/api/kernels", {}).json["id"] for _ in range(2))
    with JupyterSocket(server, used) as line:
        assert wait_until(lambda: server.get(f"/api/kernels/{idle}").status == 404, 40)
        assert line.execute("1").result == ["1"]


def test_kernels_sessions_and_their_ids_outlive_the_server(fresh_server):
    server = fresh_server()
    session = server.post("/api/sessions", {"path": "kept.ipynb", "type": "notebook", "kernel": {"name": "python3"}}).json
    kernel = session["kernel"]["id"]
    with JupyterSocket(server, kernel) as line:
        line.execute("kept = 7")
    server.restart()
    assert server.get("/api/sessions").json[0]["kernel"]["id"] == kernel
    with JupyterSocket(server, kernel) as line:
        assert line.execute("kept").result == ["7"]


def test_a_key_in_every_form_that_clients_send(fresh_server):
    server = fresh_server()
    key = make_key(server, "one")["key"]
    assert wait_until(lambda: server.get("/api/kernels").status == 401)
    basic = base64.b64encode(f"name:{key}".encode()).decode()
    for headers in ({"Authorization": f"token {key}"}, {"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
        assert server.get("/api/kernels", headers=headers).status == 200, headers
    assert server.get("/api/kernels", headers={"Authorization": f"Basic {basic}"}).status == 404  # a sandbox that is not there
    assert server.get(f"/api/kernels?token={key}").status == 200
    assert server.get(f"/v1/sandboxes?token={key}").status == 401  # only where clients need it
    for headers in ({"Authorization": "token "}, {"Authorization": "token cove_wrong"}, {}):
        assert server.get("/api/kernels", headers=headers).status == 401, headers
    kernel = server.post("/api/kernels", {}, headers={"Authorization": f"token {key}"}).json["id"]
    with JupyterSocket(server, kernel, query=f"?token={key}") as line:
        assert line.execute("6*7").result == ["42"]
    assert key not in server.log


def test_an_empty_token_is_none_where_no_key_is_needed(server):
    assert server.get("/api/kernels", headers={"Authorization": "token "}).status == 200


def at_once(count, work):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(work) for _ in range(count)]]


def test_sessions_made_at_once_for_one_document_are_one(server):
    before = len(server.get("/api/kernels").json)
    answers = at_once(8, lambda: server.post("/api/sessions", {"path": "once.ipynb", "type": "notebook", "kernel": {"name": "python3"}}))
    assert {answer.status for answer in answers} == {201} and len({answer.json["id"] for answer in answers}) == 1
    assert len({answer.json["kernel"]["id"] for answer in answers}) == 1 and len(server.get("/api/kernels").json) == before + 1
    session = answers[0].json["id"]
    changed = at_once(4, lambda: server.request("PATCH", f"/api/sessions/{session}", {"kernel": {"name": "python3"}}))
    assert {answer.status for answer in changed} == {200} and len(server.get("/api/kernels").json) == before + 1
    assert server.delete(f"/api/sessions/{session}").status == 204
    assert len(server.get("/api/kernels").json) == before


def test_of_kernels_made_at_once_with_one_id_there_is_one(server):
    wanted = str(uuid.uuid4())
    answers = at_once(8, lambda: server.post("/api/kernels", {"kernel_id": wanted}))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 7
    assert [one["id"] for one in server.get("/api/kernels").json].count(wanted) == 1
    assert server.delete(f"/api/kernels/{wanted}").status == 204


def test_kernels_made_at_once_are_no_more_than_the_setting_says(fresh_server):
    server = fresh_server("--jupyter-max-kernels", "2")
    assert sorted(answer.status for answer in at_once(6, lambda: server.post("/api/kernels", {}))) == [201, 201, 403, 403, 403, 403]


PAGE = "https://lab.example"


@pytest.fixture(scope="module")
def visited():
    """A server that lets the pages of one other site in."""
    with Server("--http-allowed-origins", PAGE) as running:
        yield running


@pytest.mark.parametrize("path", ["/api/kernels", "/api/sessions/x", "/files/x", "/v1/sandboxes", "/v1/execute", "/workspace/se/v2/execute_code", "/mcp", "/nothing"])
def test_browsers_are_told_that_pages_of_a_listed_origin_may_call(visited, path):
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type,x-cove-sandbox"}
    answer = visited.request("OPTIONS", path, headers=asked)
    assert answer.status == 204 and answer.body == b"" and answer.headers["Access-Control-Allow-Origin"] == PAGE and "Origin" in answer.headers["Vary"]
    assert set(answer.headers["Access-Control-Allow-Headers"].split(", ")) == {"authorization", "content-type", "x-cove-sandbox"}
    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= set(answer.headers["Access-Control-Allow-Methods"].split(", "))
    got = visited.get(path, headers={"Origin": PAGE})
    assert got.headers["Access-Control-Allow-Origin"] == PAGE and "Access-Control-Allow-Credentials" not in got.headers  # also of errors


def test_a_page_of_a_listed_origin_reads_what_it_needs(visited):
    made = visited.post("/api/kernels", {}, headers={"Origin": PAGE})
    assert made.status == 201 and "Location" in made.headers["Access-Control-Expose-Headers"].split(", ")
    with JupyterSocket(visited, made.json["id"], headers={"Origin": PAGE}) as line:
        assert line.execute("6*7").result == ["42"]
    assert visited.delete(f"/api/kernels/{made.json['id']}", headers={"Origin": PAGE}).headers["Access-Control-Allow-Origin"] == PAGE
    for headers in ({}, {"Origin": f"http://127.0.0.1:{visited.port}"}):
        assert not [name for name in visited.get("/api/kernels", headers=headers).headers if name.lower().startswith("access-control-")]
