"""Attacks on the Jupyter door: other tenants' kernels, pages of other sites, messages that are none or too many, code inside that lies to clients."""
import contextlib
import time
import uuid

import pytest
from conftest import wait_until
from hostile import bounded_memory, front, memory_kib, revoke_key, server_with_tenants
from jupyter_socket import JupyterSocket
from server import Server, at

NOBODY = "00000000-0000-0000-0000-000000000000"
ROUTES = [("GET", ""), ("DELETE", ""), ("POST", "/interrupt"), ("POST", "/restart"), ("GET", "/channels")]


@pytest.fixture(scope="module")
def tenants():
    server, named = server_with_tenants("alpha", "beta")
    yield server, named
    server.close()


@pytest.fixture(scope="module")
def kernel(server):
    return server.post("/api/kernels", {}).json["id"]


@pytest.mark.parametrize("method, path", ROUTES)
def test_XT_08_a_kernel_of_another_tenant_is_an_unknown_one(tenants, method, path):
    _, named = tenants
    theirs = named["alpha"].post("/api/kernels", {}).json
    answers = [named["beta"].request(method, f"/api/kernels/{id}{path}") for id in (theirs["id"], NOBODY)]
    assert [answer.status for answer in answers] == [404, 404]
    assert answers[0].body.replace(theirs["id"].encode(), NOBODY.encode()) == answers[1].body
    with named["beta"].websocket(f"/api/kernels/{theirs['id']}/channels") as socket:
        assert socket.status == 404
    assert named["beta"].get("/api/kernels").json == []
    for scope in ({"X-Cove-Sandbox": theirs["sandbox"]},):
        assert named["beta"].get("/api/kernels", headers=scope).status == 404
    assert named["beta"].get(f"/v1/sandboxes/{theirs['sandbox']}/jupyter/api/kernels").status == 404
    assert named["alpha"].get(f"/api/kernels/{theirs['id']}").status == 200, "it changed something"
    named["alpha"].delete(f"/api/kernels/{theirs['id']}")


def test_XT_08_a_session_of_another_tenant_is_an_unknown_one(tenants):
    _, named = tenants
    theirs = named["alpha"].post("/api/sessions", {"path": "secret.ipynb", "type": "notebook"}).json
    for method in ("GET", "PATCH", "DELETE"):
        mine, nobody = (named["beta"].request(method, f"/api/sessions/{id}", {}) for id in (theirs["id"], NOBODY))
        assert mine.status == nobody.status == 404
        assert mine.body.replace(theirs["id"].encode(), NOBODY.encode()) == nobody.body
    assert named["beta"].get("/api/sessions").json == []
    stolen = named["beta"].post("/api/sessions", {"path": "x.ipynb", "type": "notebook", "kernel": {"id": theirs["kernel"]["id"]}})
    assert stolen.status == 404
    named["alpha"].delete(f"/api/sessions/{theirs['id']}")


def test_AU_02_channels_want_the_key_before_the_upgrade(tenants):
    server, named = tenants
    theirs = named["alpha"].post("/api/kernels", {}).json["id"]
    for headers in ({}, {"Authorization": "token wrong"}, {"Cookie": f"token={named['alpha'].key}"}, {"Sec-WebSocket-Protocol": f"v1.token.websocket.jupyter.org.{named['alpha'].key}"}):
        with server.websocket(f"/api/kernels/{theirs}/channels", headers=headers) as socket:
            assert socket.status == 401, headers
    named["alpha"].delete(f"/api/kernels/{theirs}")


@pytest.mark.parametrize("host", ["evil.test", "127.0.0.1.evil.test", "127.0.0.1.", "127.0.0.1:1"])
def test_AU_06_a_host_or_an_origin_that_is_not_ours_is_403_at_every_door_for_notebooks(server, kernel, host):
    for path in ("/api", "/api/kernels", f"/api/kernels/{kernel}", "/api/sessions", "/api/kernelspecs", "/status/", "/files/x"):
        assert server.get(path, headers={"Host": host}).status == 403
        for origin in (f"http://{host}", "null"):
            assert server.get(path, headers={"Origin": origin}).status == 403
    with server.websocket(f"/api/kernels/{kernel}/channels", headers={"Origin": f"http://{host}"}) as socket:
        assert socket.status == 403


@pytest.mark.parametrize("origin", ["https://evil.test", "null", "*", "http://lab.example", "https://lab.example.evil.test", "https://lab.example:444", "https://lab.example, https://evil.test"])
def test_AU_08_a_list_of_origins_lets_in_no_others(origin):
    with Server("--http-allowed-origins", "https://lab.example") as server:
        for method in ("OPTIONS", "GET", "POST"):
            for path in ("/api/kernels", "/files/x", "/v1/sandboxes", "/mcp"):
                answer = server.request(method, path, headers={"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization", "Access-Control-Request-Private-Network": "true"})
                assert answer.status == 403 and not [name for name in answer.headers if name.lower().startswith("access-control-")], (method, path, answer.headers)
        allowed = server.request("OPTIONS", "/api/kernels", headers={"Origin": "https://lab.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a\tb, x:y, authorization"})
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://lab.example" and allowed.headers["Access-Control-Allow-Headers"] == "authorization"
        assert "Access-Control-Allow-Credentials" not in allowed.headers


def test_AU_08_a_preflight_needs_no_key_and_opens_nothing():
    server, named = server_with_tenants("alpha", "beta", flags=("--http-allowed-origins", "https://lab.example"))
    try:
        page = {"Origin": "https://lab.example"}
        answers = [server.request("OPTIONS", path, headers={**page, "Access-Control-Request-Method": "POST"}) for path in ("/api/kernels", "/nothing")]
        assert [answer.status for answer in answers] == [204, 204]
        assert answers[0].headers["Access-Control-Allow-Methods"] == answers[1].headers["Access-Control-Allow-Methods"]  # which paths there are is told to nobody
        assert server.request("OPTIONS", "/api/kernels", headers=page).status == 401
        assert server.post("/api/kernels", {}, headers=page).status == 401
        assert named["alpha"].get("/api/kernels", headers=page).status == 200
    finally:
        server.close()


def test_a_message_counts_against_its_tenants_memory_while_it_comes():
    with Server("--http-tenant-memory", "16M") as server:
        kernel = server.post("/api/kernels", {}).json["id"]
        head = b"\x81\xff" + (15 << 20).to_bytes(8, "big") + bytes(4)
        with JupyterSocket(server, kernel) as first, JupyterSocket(server, kernel) as second, JupyterSocket(server, kernel) as other:
            first.socket.socket.sendall(head + b" " * (12 << 20))  # the rest never comes
            with contextlib.suppress(OSError):
                second.socket.socket.sendall(head + b" " * (12 << 20))
            with contextlib.suppress(ConnectionError):
                assert second.next() is None
            assert second.socket.close_code in (1013, None)
            assert other.execute("1").result == ["1"]
        with JupyterSocket(server, kernel) as line:  # what the two held is given back
            assert line.execute("#" + " " * (3 << 20) + "\n2").result == ["2"]


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://127.0.0.1.evil.test"])
def test_AU_09_channels_of_another_site_are_403(server, kernel, origin):
    with server.websocket(f"/api/kernels/{kernel}/channels", headers={"Origin": origin}) as socket:
        assert socket.status == 403
    with server.websocket(f"/api/kernels/{kernel}/channels", headers={"Origin": f"http://127.0.0.1:{server.port}"}) as socket:
        assert socket.status == 101


def test_a_revoked_key_ends_its_connection():
    server, named = server_with_tenants("alpha", "beta")
    try:
        kernel = named["alpha"].post("/api/kernels", {}).json["id"]
        with JupyterSocket(named["alpha"], kernel) as line:
            assert line.execute("1").result == ["1"]
            revoke_key(server, named["alpha"].key_id)
            with pytest.raises(ConnectionError):
                while line.next() is not None:
                    pass
                raise ConnectionError
    finally:
        server.close()


def test_AP_17_a_frame_that_is_none_ends_this_connection_alone(server, kernel):
    frames = [b"\x82\x05hello", b"\xc2\x80\0\0\0\0", b"\x83\x80\0\0\0\0", b"\x09\x80\0\0\0\0", b"\x89\xfe\x00\x7e" + bytes(4) + b"x" * 126, b"\x82\xff" + b"\x7f" + b"\xff" * 7 + bytes(4)]
    with JupyterSocket(server, kernel) as good:
        for raw in frames:
            with bounded_memory(server, 8), JupyterSocket(server, kernel) as bad:
                bad.socket.socket.sendall(raw)
                with contextlib.suppress(ConnectionError):
                    while bad.next() is not None:
                        pass
                assert bad.socket.close_code in (1002, 1007, 1009, None), raw
        assert good.execute("1").result == ["1"]


def test_a_message_over_the_limit_closes_the_connection(server, kernel):
    with JupyterSocket(server, kernel) as line:
        with contextlib.suppress(OSError):
            line.socket.socket.sendall(b"\x81\xff" + (17 << 20).to_bytes(8, "big") + bytes(4) + b"{" * (1 << 16))
        with contextlib.suppress(ConnectionError):
            assert line.next() is None
        assert line.socket.close_code == 1009


def test_requests_that_pile_up_are_refused_and_take_little_memory(server, kernel):
    with bounded_memory(server, 48), JupyterSocket(server, kernel, timeout=120) as line:
        first = line.send("execute_request", {"code": "import time; time.sleep(4)"})
        code = "#" * 100_000
        requests = [line.send("execute_request", {"code": code}) for _ in range(600)]
        line.until_idle(first)
        replies = []
        for frame in line.seen:
            if frame["msg_type"] == "execute_reply":
                replies.append(frame["content"])
        while len(replies) < len(requests):
            frame = line.next()
            if frame["msg_type"] == "execute_reply" and frame["parent_header"]["msg_id"] in requests:
                replies.append(frame["content"])
        assert {reply.get("ename") for reply in replies} == {None, "QueueFull"}
        assert line.execute("1").result == ["1"]


def test_a_flood_for_nobody_is_bounded_and_told(server):
    kernel = server.post("/api/kernels", {}).json["id"]
    session = uuid.uuid4().hex
    pid = front(server)
    before = memory_kib(pid)
    line = JupyterSocket(server, kernel, session_id=session)
    request = line.send("execute_request", {"code": "import time; time.sleep(1)\nfor i in range(30): print('x' * 1_000_000)"})
    while line.next()["msg_type"] != "execute_input":
        pass
    line.socket.socket.close()
    assert wait_until(lambda: server.get(f"/api/kernels/{kernel}").json["execution_state"] == "busy")
    assert wait_until(lambda: server.get(f"/api/kernels/{kernel}").json["execution_state"] == "idle", 60)
    assert memory_kib(pid) - before < 32 << 10
    with JupyterSocket(server, kernel, session_id=session) as again:
        told = again.until_idle(request)
        assert told.reply["status"] == "ok" and len(told.text()) < 9 << 20
        again.ask("kernel_info_request")
        assert any("discarded while no client was connected" in frame["content"].get("text", "") for frame in again.seen)
    server.delete(f"/api/kernels/{kernel}")


HOSTILE = """
import os, json
def say(kind, content, parent):
    text = json.dumps({"type": kind, "parent": parent, "content": content}).encode()
    os.write(3, bytes([3]) + text)
parent = get_ipython().kernel.outlet.parent
"""


@pytest.mark.parametrize("kind, content", [
    ("display_data", {"data": 5}), ("execute_result", {"data": {"text/plain": "x"}, "metadata": 7}), ("error", {"ename": 1, "traceback": "no"}), ("comm_open", {"comm_id": 1, "target_name": [], "data": 3}),
    ("comm_msg", {"buffers": "x"}), ("clear_output", {"wait": "yes"}), ("status", {"execution_state": "sleeping"}), ("input_request", {"prompt": 5, "password": 6}), ("stream", {"name": "stdout", "text": 5})])
def test_KP_what_a_kernel_says_is_well_formed_when_clients_get_it(server, kind, content):
    kernel = server.post("/api/kernels", {}).json["id"]
    with JupyterSocket(server, kernel) as line:
        line.execute(HOSTILE)
        told = line.execute(f"parent = get_ipython().kernel.outlet.parent\nsay({kind!r}, {content!r}, parent)", answer=lambda asked: "")
        for frame in told.frames:
            said = frame["content"]
            if frame["msg_type"] in ("display_data", "execute_result"):
                assert isinstance(said["data"], dict) and isinstance(said["metadata"], dict) and "text/plain" in said["data"]
            if frame["msg_type"] == "error":
                assert isinstance(said["ename"], str) and isinstance(said["evalue"], str) and isinstance(said["traceback"], list)
            if frame["msg_type"].startswith("comm_"):
                assert isinstance(said["comm_id"], str) and isinstance(said["data"], dict)
            if frame["msg_type"] == "status":
                assert said["execution_state"] in ("busy", "idle")
            if frame["msg_type"] == "clear_output":
                assert isinstance(said["wait"], bool)
    assert server.get("/healthz").status == 200
    server.delete(f"/api/kernels/{kernel}")


def test_a_kernel_cannot_answer_for_another_request_or_end_it_early(server):
    kernel = server.post("/api/kernels", {}).json["id"]
    with JupyterSocket(server, kernel) as line:
        line.execute(HOSTILE)
        told = line.execute("say('execute_reply', {'status': 'ok', 'execution_count': 1}, 12345)\nprint('went on')")
        assert told.text() == "went on\n" and told.reply["status"] == "ok"
    server.delete(f"/api/kernels/{kernel}")


def test_a_neighbour_answers_while_a_client_reads_nothing(server):
    kernels = [server.post("/api/kernels", {}).json["id"] for _ in range(2)]
    with JupyterSocket(server, kernels[0]) as stuck, JupyterSocket(server, kernels[1]) as other:
        stuck.send("execute_request", {"code": "while True: print('x' * 10_000)"})
        pid = front(server)
        time.sleep(1)
        before = memory_kib(pid)
        for i in range(20):
            assert other.execute(f"{i}").result == [str(i)]
            time.sleep(0.1)
        assert memory_kib(pid) - before < 16 << 10
        server.post(f"/api/kernels/{kernels[0]}/interrupt")
    for kernel in kernels:
        server.delete(f"/api/kernels/{kernel}")


def test_a_kernel_in_a_sandbox_goes_with_it(server):
    name = server.create()
    kernel = server.post(at(name, "jupyter/api/kernels"), {}).json["id"]
    with JupyterSocket(server, kernel) as line:
        line.execute("1")
        server.delete(at(name))
        with contextlib.suppress(ConnectionError):
            while line.next() is not None:
                pass
    assert server.get(f"/api/kernels/{kernel}").status == 404


def test_an_id_that_another_tenant_has_too_leads_to_ones_own_kernel_alone(tenants):
    _, named = tenants
    wanted = str(uuid.uuid4())
    for tenant in named.values():
        assert tenant.post("/api/kernels", {"kernel_id": wanted}).json["id"] == wanted
    with JupyterSocket(named["alpha"], wanted) as mine:
        assert mine.execute("x = 'alpha'").reply["status"] == "ok"
        assert named["beta"].get(f"/api/kernels/{wanted}").json["connections"] == 0
        with JupyterSocket(named["beta"], wanted) as theirs:
            assert theirs.execute("'x' in dir()").result == ["False"]
        assert named["beta"].delete(f"/api/kernels/{wanted}").status == 204
        assert mine.execute("x").result == ["'alpha'"]
    named["alpha"].delete(f"/api/kernels/{wanted}")


def test_a_header_that_would_be_sent_back_again_and_again_has_a_bound(server, kernel):
    with JupyterSocket(server, kernel) as line:
        line.send("kernel_info_request", {}, header={"x": "y" * 100_000})
        assert line.next() is None and line.socket.close_code == 1007


def test_the_reply_goes_to_the_connection_that_took_the_place_of_another(server):
    kernel, session = server.post("/api/kernels", {}).json["id"], uuid.uuid4().hex
    with JupyterSocket(server, kernel, session_id=session) as older:
        request = older.send("execute_request", {"code": "import time; time.sleep(1); 'late'"})
        while older.next()["msg_type"] != "execute_input":
            pass
        with JupyterSocket(server, kernel, session_id=session) as newer:  # nobody reads the older one any more
            told = newer.until_idle(request)
            assert told.result == ["'late'"] and told.reply["status"] == "ok"
    server.delete(f"/api/kernels/{kernel}")


def test_a_kernel_that_dies_again_and_again_is_given_up_and_can_be_restarted(server):
    kernel = server.post("/api/kernels", {}).json["id"]
    with JupyterSocket(server, kernel) as line:
        for _ in range(6):
            request = line.send("execute_request", {"code": "import os; os._exit(1)"})
            assert line.until_idle(request).reply["ename"] == "DeadKernelError"
            state = None
            while state not in ("idle", "dead"):
                frame = line.next()
                if frame["msg_type"] == "status" and frame["parent_header"] == {}:
                    state = frame["content"]["execution_state"]
        assert state == "dead" and line.next() is None
    assert server.get(f"/api/kernels/{kernel}").json["execution_state"] == "dead"
    assert server.post(f"/api/kernels/{kernel}/restart").status == 200
    with JupyterSocket(server, kernel) as line:
        assert line.execute("1 + 1").result == ["2"]
    server.delete(f"/api/kernels/{kernel}")
