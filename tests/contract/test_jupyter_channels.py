"""Jupyter's WebSocket: order and completeness of what comes of a request, the three framings, input, comms, reconnecting, death."""
import json
import threading
import time
import uuid

import pytest
from conftest import wait_until
from jupyter_socket import V1, JupyterSocket

ORDER = ["status", "execute_input", "stream", "execute_reply", "status"]


@pytest.fixture(scope="module")
def kernel(server):
    return server.post("/api/kernels", {"name": "python"}).json["id"]


@pytest.fixture(params=["legacy", "v1"])
def line(request, server, kernel):
    with JupyterSocket(server, kernel, request.param) as opened:
        yield opened


def test_outputs_come_before_the_reply_and_idle_is_last(line):
    told = line.execute("print(6*7)")
    assert told.types == ORDER and told.text() == "42\n"
    assert [frame["content"]["execution_state"] for frame in told.frames if frame["msg_type"] == "status"] == ["busy", "idle"]
    assert [frame["channel"] for frame in told.frames] == ["iopub", "iopub", "iopub", "shell", "iopub"]
    assert told.reply["status"] == "ok" and told.reply["payload"] == [] and told.reply["user_expressions"] == {}


def test_headers_are_what_JupyterLab_checks(line):
    told = line.execute("1")
    for frame in told.frames:
        header = frame["header"]
        assert all(isinstance(header[name], str) and header[name] for name in ("msg_id", "msg_type", "username", "session", "version", "date"))
        assert frame["parent_header"]["msg_id"] and frame["parent_header"]["username"] == "t"
    assert len({frame["header"]["session"] for frame in told.frames}) == 1
    assert len({frame["header"]["msg_id"] for frame in told.frames}) == len(told.frames)


def test_the_subprotocol_is_selected_when_it_is_offered(server, kernel):
    with JupyterSocket(server, kernel, "v1") as line:
        assert f"sec-websocket-protocol: {V1}" in line.socket.head.lower()
    with JupyterSocket(server, kernel) as line:
        assert "sec-websocket-protocol" not in line.socket.head.lower()


def test_what_the_ipybox_client_sends_is_taken(server, kernel):
    code = "\n            import sys\n            sys.path.append('/app')\n            print('ready')\n        "
    with server.websocket(f"/api/kernels/{kernel}/channels") as socket:
        socket.send({"header": {"username": "", "version": "5.0", "session": "", "msg_id": "a1", "msg_type": "execute_request"}, "parent_header": {}, "channel": "shell",
                     "content": {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}, "metadata": {}, "buffers": {}})
        seen = []
        while not seen or seen[-1]["msg_type"] != "execute_reply":
            seen.append(socket.read())
    assert "".join(f["content"]["text"] for f in seen if f["msg_type"] == "stream") == "ready\n"
    assert seen[-1]["content"]["status"] == "ok" and all(f["parent_header"] == {"username": "", "version": "5.0", "session": "", "msg_id": "a1", "msg_type": "execute_request"} for f in seen)


def test_errors_are_published_and_replied(line):
    told = line.execute("1/0")
    (error,) = told.of("error")
    assert error["ename"] == "ZeroDivisionError" == told.reply["ename"] and told.reply["status"] == "error"
    assert isinstance(told.reply["traceback"], list) and told.reply["traceback"]
    assert line.execute("def").reply["ename"] == "SyntaxError"
    assert line.execute("import sys; sys.exit(3)").reply["evalue"] == "3"
    assert line.execute("y = 5\nexit").reply["status"] == "ok"
    assert line.execute("y").result == ["5"]  # the kernel runs on


def test_what_was_sent_after_an_error_is_aborted(line):
    first = line.send("execute_request", {"code": "import time; time.sleep(0.3); 1/0"})
    second = line.send("execute_request", {"code": "never = 1"})
    third = line.send("execute_request", {"code": "2"})
    assert line.until_idle(first).reply["status"] == "error"
    assert [line.until_idle(request).reply["status"] for request in (second, third)] == ["aborted", "aborted"]
    assert line.execute("'never' in dir()").result == ["False"]
    first = line.send("execute_request", {"code": "1/0", "stop_on_error": False})
    second = line.send("execute_request", {"code": "3"})
    line.until_idle(first)
    assert line.until_idle(second).result == ["3"]


def test_silent_and_unstored_executions(line):
    count = line.execute("0").reply["execution_count"]
    silent = line.execute("1 + 1", silent=True, store_history=False)
    assert "execute_input" not in silent.types and silent.result == []
    assert line.execute("5", store_history=False).reply["status"] == "ok"
    assert line.execute("6").reply["execution_count"] == count + 1


def test_pictures_have_a_text_beside_them(line):
    told = line.execute("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    (picture,) = told.of("display_data")
    assert picture["data"]["image/png"].startswith("iVBOR") and "text/plain" in picture["data"] and picture["metadata"] is not None
    told = line.execute("from IPython.display import display; display({'image/svg+xml': '<svg/>'}, raw=True)")
    assert told.of("display_data")[0]["data"]["text/plain"] == ""


def test_displays_are_updated_and_cleared(line):
    told = line.execute("from IPython.display import display, clear_output\nh = display(1, display_id='d')\nh.update(2)\nclear_output(wait=True)")
    assert told.of("display_data")[0]["transient"]["display_id"] == "d" == told.of("update_display_data")[0]["transient"]["display_id"]
    assert told.of("clear_output") == [{"wait": True}]


def test_kernel_info_is_answered_at_once_while_a_cell_runs(line):
    running = line.send("execute_request", {"code": "import time; time.sleep(1); 'done'"})
    began = time.monotonic()
    info = line.ask("kernel_info_request")
    assert info.reply["status"] == "ok" and info.reply["language_info"]["name"] == "python" and info.reply["language_info"]["file_extension"] == ".py"
    assert info.reply["protocol_version"] and info.reply["banner"] and isinstance(info.reply["help_links"], list)
    told = line.until_idle(running)
    assert told.result == ["'done'"] and time.monotonic() - began >= 0.5
    # The true state came after it.
    states = [frame["content"]["execution_state"] for frame in line.seen + told.frames if frame["msg_type"] == "status" and frame["parent_header"].get("msg_id") == running]
    assert "busy" in states


@pytest.mark.parametrize("kind, content, check", [
    ("complete_request", {"code": "x = prin", "cursor_pos": 8}, lambda r: "print" in r["matches"] and (r["cursor_start"], r["cursor_end"]) == (4, 8)),
    ("inspect_request", {"code": "len", "cursor_pos": 3, "detail_level": 0}, lambda r: r["found"] and "text/plain" in r["data"]),
    ("is_complete_request", {"code": "if True:"}, lambda r: r["status"] == "incomplete" and "indent" in r),
    ("is_complete_request", {"code": "1"}, lambda r: r["status"] == "complete"),
    ("history_request", {"hist_access_type": "tail", "n": 3, "raw": True, "output": False}, lambda r: isinstance(r["history"], list)),
    ("comm_info_request", {}, lambda r: r["comms"] == {}),
    ("no_such_request", {}, lambda r: r["status"] == "error"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_questions_are_answered(line, kind, content, check):
    told = line.ask(kind, content)
    assert check(told.reply), told.reply
    assert told.types[0] == "status" and told.types[-1] == "status" and told.frames[-2]["channel"] == "shell"


def test_input_is_asked_of_the_client_that_runs_the_cell(server, kernel, line):
    with JupyterSocket(server, kernel) as other:
        told = line.execute("name = input('who? '); import getpass; secret = getpass.getpass('word? '); print(name, secret)", answer=lambda asked: {"who? ": "me", "word? ": "x"}[asked["prompt"]])
        assert [frame["channel"] for frame in told.frames if frame["msg_type"] == "input_request"] == ["stdin", "stdin"]
        assert [content["password"] for content in told.of("input_request")] == [False, True] and told.text() == "me x\n"
        other.ask("kernel_info_request")
        assert "input_request" not in [frame["msg_type"] for frame in other.seen] and "stream" in [frame["msg_type"] for frame in other.seen]
    assert line.execute("input()", allow_stdin=False).reply["ename"] == "StdinNotImplementedError"


def test_another_client_cannot_answer_for_it(server, kernel, line):
    request = line.send("execute_request", {"code": "input('mine? ')", "allow_stdin": True})
    while line.next()["msg_type"] != "input_request":
        pass
    with JupyterSocket(server, kernel) as other:
        other.send("input_reply", {"value": "stolen"}, channel="stdin")
        other.ask("kernel_info_request")
    line.send("input_reply", {"value": "mine"}, channel="stdin")
    assert line.until_idle(request).result == ["'mine'"]


def test_comms_go_both_ways_with_their_buffers(line):
    line.execute("""
got = []
def opened(comm, message):
    got.append((message["content"]["data"], [bytes(b) for b in message["buffers"]]))
    def said(message):
        comm.send({"echo": message["content"]["data"]}, buffers=[b"\\x00" + bytes(b) for b in message["buffers"]])
    comm.on_msg(said)
    comm.send({"welcome": True})
get_ipython().kernel.comm_manager.register_target("echo", opened)
""")
    comm = uuid.uuid4().hex
    told = line.ask("comm_open", {"comm_id": comm, "target_name": "echo", "data": {"a": 1}}, buffers=[b"\xff\x00"])
    assert told.types == ["status", "comm_msg", "status"] and told.of("comm_msg")[0]["data"] == {"welcome": True}
    told = line.ask("comm_msg", {"comm_id": comm, "data": {"b": 2}}, buffers=[b"one", b""])
    (frame,) = [frame for frame in told.frames if frame["msg_type"] == "comm_msg"]
    assert frame["content"]["comm_id"] == comm and frame["content"]["data"] == {"echo": {"b": 2}} and list(frame["buffers"]) == [b"\0one", b"\0"]
    assert line.execute("got").result == ["[({'a': 1}, [b'\\xff\\x00'])]"]
    assert comm in line.ask("comm_info_request", {"target_name": "echo"}).reply["comms"]
    line.ask("comm_close", {"comm_id": comm, "data": {}})
    assert comm not in line.ask("comm_info_request").reply["comms"]


def test_control_is_served_while_a_cell_runs(line):
    request = line.send("execute_request", {"code": "while True: pass"})
    while line.next()["msg_type"] != "execute_input":
        pass
    assert line.ask("interrupt_request", channel="control").reply["status"] == "ok"
    assert line.until_idle(request).reply["ename"] == "KeyboardInterrupt"
    assert line.ask("debug_request", channel="control").reply["status"] == "error"


def test_five_hundred_thousand_lines_are_complete_and_in_order(line):
    told = line.execute("for i in range(500_000): print(i)")
    assert told.text() == "".join(f"{i}\n" for i in range(500_000))
    assert told.types[-2:] == ["execute_reply", "status"]


def test_one_line_of_five_megabytes_is_complete(line):
    told = line.execute("print('ü' * 2_500_000)")
    assert told.text() == "ü" * 2_500_000 + "\n"
    assert all(len(json.dumps(content)) < 10 << 20 for content in told.of("stream"))


def test_commands_write_live_and_in_order(line):
    told = line.execute("!echo one; echo two\nx = !echo three\nprint(x)")
    assert told.text() == "one\ntwo\n['three']\n"
    assert line.execute("%%bash\necho four; exit 3").reply["ename"] == "CalledProcessError"


def test_pings_are_answered_while_output_floods(server, kernel):
    with JupyterSocket(server, kernel) as line:
        request = line.send("execute_request", {"code": "import time\nend = time.time() + 2\nwhile time.time() < end: print('x' * 1000)"})
        line.socket.send_frame(line.socket.PING, b"are you there")
        frames = 0
        while True:
            _, opcode, payload = line.socket.read_frame()
            if opcode == line.socket.PONG:
                break
            frames += 1
        assert payload == b"are you there" and frames < 2000
        line.until_idle(request)


def test_a_client_that_does_not_read_slows_the_kernel_and_loses_nothing(server, kernel):
    with JupyterSocket(server, kernel) as line:
        request = line.send("execute_request", {"code": "for i in range(20000): print(str(i) * 200)"})
        time.sleep(3)
        assert server.get(f"/api/kernels/{kernel}").json["execution_state"] == "busy"
        told = line.until_idle(request)
    assert told.text() == "".join(str(i) * 200 + "\n" for i in range(20000))


def test_two_clients_see_the_same_output_and_only_one_the_reply(server, kernel, line):
    with JupyterSocket(server, kernel, "v1") as other:
        other.ask("kernel_info_request")
        line.execute("print('to all')")
        other.ask("kernel_info_request")
        types = [frame["msg_type"] for frame in other.seen]
        assert "stream" in types and "execute_reply" not in types


def test_what_was_missed_is_sent_to_the_same_session_and_to_no_other(server, kernel):
    session = uuid.uuid4().hex
    line = JupyterSocket(server, kernel, session_id=session)
    request = line.send("execute_request", {"code": "import time; time.sleep(1); print('missed')"})
    while line.next()["msg_type"] != "execute_input":
        pass
    line.socket.socket.close()
    assert wait_until(lambda: server.get(f"/api/kernels/{kernel}").json["connections"] == 0)
    assert wait_until(lambda: server.get(f"/api/kernels/{kernel}").json["execution_state"] == "idle")
    with JupyterSocket(server, kernel, session_id=session) as again:
        told = again.until_idle(request)
        assert told.text() == "missed\n" and told.reply["status"] == "ok"
        request = again.send("execute_request", {"code": "import time; time.sleep(1); print('not for others')"})
        while again.next()["msg_type"] != "execute_input":
            pass
    assert wait_until(lambda: server.get(f"/api/kernels/{kernel}").json["execution_state"] == "idle")
    with JupyterSocket(server, kernel, session_id=uuid.uuid4().hex) as other:
        other.ask("kernel_info_request")
        assert other.seen == []


def test_a_second_connection_of_a_session_closes_the_first(server, kernel):
    session = uuid.uuid4().hex
    with JupyterSocket(server, kernel, session_id=session) as older, JupyterSocket(server, kernel, session_id=session) as newer:
        assert older.next() is None and older.socket.close_code == 1000
        assert newer.execute("1").result == ["1"]


def test_the_death_of_a_kernel_is_answered_at_once_and_it_starts_again(server):
    kernel = server.post("/api/kernels", {}).json["id"]
    with JupyterSocket(server, kernel) as line:
        first = line.execute("x = 1")
        told = line.execute("import os; os._exit(9)")
        assert told.reply["status"] == "error" and told.reply["ename"] == "DeadKernelError" and "9" in told.reply["evalue"] and told.reply["traceback"]
        assert told.of("error")[0]["ename"] == "DeadKernelError"
        states = []
        while states[-2:] != ["restarting", "idle"]:
            frame = line.next()
            if frame["msg_type"] == "status" and frame["parent_header"] == {}:
                states.append(frame["content"]["execution_state"])
        again = line.execute("'x' in dir()")
        assert again.result == ["False"] and again.frames[0]["header"]["session"] != first.frames[0]["header"]["session"]
    server.delete(f"/api/kernels/{kernel}")


def test_deleting_a_kernel_tells_its_clients(server):
    kernel = server.post("/api/kernels", {}).json["id"]
    with JupyterSocket(server, kernel) as line:
        line.execute("1")
        server.delete(f"/api/kernels/{kernel}")
        frame = line.next()
        assert frame["content"] == {"execution_state": "dead"} and line.next() is None and line.socket.close_code == 1000


def test_a_shutdown_request_ends_or_restarts_the_kernel(server):
    kernel = server.post("/api/kernels", {}).json["id"]
    with JupyterSocket(server, kernel) as line:
        line.execute("x = 1")
        assert line.ask("shutdown_request", {"restart": True}, channel="control").reply == {"status": "ok", "restart": True}
        assert wait_until(lambda: line.execute("'x' in dir()").result == ["False"])
        line.ask("shutdown_request", {"restart": False}, channel="control")
        assert wait_until(lambda: server.get(f"/api/kernels/{kernel}").status == 404)


@pytest.mark.parametrize("name, code, text", [("javascript", "let a = 42; console.log(a)", "42\n"), ("bash", "a=42; echo $a", "42\n")])
def test_other_languages_keep_their_state(server, name, code, text):
    kernel = server.post("/api/kernels", {"name": name}).json["id"]
    with JupyterSocket(server, kernel) as line:
        assert line.ask("kernel_info_request").reply["language_info"]["name"] == name
        told = line.execute(code)
        assert told.types[:2] == ["status", "execute_input"] and told.text() == text, told.frames
        more = {"javascript": "a + 1", "bash": "echo $((a + 1)); cd /tmp"}[name]
        again = line.execute(more)
        assert again.result == ["43"] or again.text() == "43\n"
        assert line.ask("complete_request", {"code": "a", "cursor_pos": 1}).reply["matches"] == []
    server.delete(f"/api/kernels/{kernel}")


def test_a_shell_tells_of_failures_can_be_interrupted_and_begins_anew_after_exit(server):
    kernel = server.post("/api/kernels", {"name": "bash"}).json["id"]
    with JupyterSocket(server, kernel) as line:
        told = line.execute("echo before; false")
        assert told.text() == "before\n" and told.reply["status"] == "error" and told.reply["evalue"] == "1"
        assert line.execute("cd /tmp; f() { echo from $PWD; }").reply["status"] == "ok"
        request = line.send("execute_request", {"code": "while true; do sleep 1; done"})
        while line.next()["msg_type"] != "execute_input":
            pass
        time.sleep(0.3)
        server.post(f"/api/kernels/{kernel}/interrupt")
        assert line.until_idle(request).reply["evalue"] == "130"
        assert line.execute("f").text() == "from /tmp\n"
        assert line.execute("echo 'unfinished").reply["status"] == "error"
        assert line.execute("exit 3").reply["evalue"] == "3"
        assert line.execute("echo $PWD").text() == "/workspace\n"
        assert line.ask("is_complete_request", {"code": "if true; then"}).reply["status"] == "incomplete"
    server.delete(f"/api/kernels/{kernel}")


def test_many_requests_that_wait_are_all_answered_in_order(line):
    requests = [line.send("execute_request", {"code": f"print({i})"}) for i in range(200)]
    assert [line.until_idle(request).text() for request in requests] == [f"{i}\n" for i in range(200)]


def test_requests_of_two_clients_wait_for_each_other(server, kernel):
    with JupyterSocket(server, kernel) as one, JupyterSocket(server, kernel) as two:
        one.execute("log = []")
        first = one.send("execute_request", {"code": "import time; time.sleep(0.5); log.append('one')"})
        time.sleep(0.1)
        assert two.execute("log.append('two'); log").result == ["['one', 'two']"]
        one.until_idle(first)


def test_malformed_messages_end_that_connection_alone(server, kernel):
    with JupyterSocket(server, kernel) as good:
        for data in (b"\0\0\0\1\0\0\0\0", "nonsense", ["a list"], b""):
            with JupyterSocket(server, kernel) as bad:
                bad.socket.send(data)
                assert bad.next() is None and bad.socket.close_code == 1007
        assert good.execute("1").result == ["1"]


def test_many_kernels_at_once(server):
    ids = [server.post("/api/kernels", {}).json["id"] for _ in range(4)]
    results = {}

    def work(kernel):
        with JupyterSocket(server, kernel) as line:
            for i in range(20):
                line.execute(f"x = {i}")
            results[kernel] = line.execute("x").result

    threads = [threading.Thread(target=work, args=(kernel,)) for kernel in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {kernel: ["19"] for kernel in ids}
    for kernel in ids:
        server.delete(f"/api/kernels/{kernel}")


SLOW_COMM = """
def opened(comm, message):
    import subprocess, time
    print('begun', flush=True)
    subprocess.run(['echo', 'from a command'])
    time.sleep(message["content"]["data"]["seconds"])
    print('over')
get_ipython().kernel.comm_manager.register_target("slow", opened)
"""


def test_the_handler_of_a_comm_is_heard_while_it_runs_and_can_be_interrupted(server, line):
    line.execute(SLOW_COMM)
    request = line.send("comm_open", {"comm_id": uuid.uuid4().hex, "target_name": "slow", "data": {"seconds": 600}})
    while True:
        frame = line.next()
        if frame["msg_type"] == "stream" and frame["parent_header"]["msg_id"] == request:
            break
    assert frame["content"]["text"].startswith("begun")
    assert line.ask("interrupt_request", channel="control").reply["status"] == "ok"
    told = line.until_idle(request)
    assert told.of("error")[0]["ename"] == "KeyboardInterrupt" and "over" not in told.text()
    assert line.execute("1").result == ["1"]


def test_the_handler_of_a_comm_has_no_time_limit_of_its_own(server, kernel):
    with JupyterSocket(server, kernel) as line:
        line.execute(SLOW_COMM)
        told = line.ask("comm_open", {"comm_id": uuid.uuid4().hex, "target_name": "slow", "data": {"seconds": 32}})
        assert told.text().endswith("over\n") and "from a command\n" in told.text() and told.of("error") == []


@pytest.fixture(scope="module")
def shell(server):
    return server.post("/api/kernels", {"name": "bash"}).json["id"]


@pytest.mark.parametrize("pause", [0, 0.002, 0.01, 0.05])
def test_a_bash_that_is_interrupted_at_any_moment_answers_and_goes_on(server, shell, pause):
    """Also while it reads the line of a cell, or has just ended it."""
    with JupyterSocket(server, shell) as line:
        line.execute("kept=7")
        for number in range(15):
            request = line.send("execute_request", {"code": "sleep 0.01"})
            for _ in range(3):
                time.sleep(pause)
                line.send("interrupt_request", {}, channel="control")
            assert line.until_idle(request).reply["status"] in ("ok", "error")
            told = line.execute(f"echo {number} $kept")
            if told.reply["status"] == "error":  # the interrupt was this one's
                told = line.execute(f"echo {number} $kept")
            assert told.text() == f"{number} 7\n" and "not found" not in told.text("stderr")


@pytest.mark.parametrize("code, status, out", [
    ("if", 2, ""), ("echo a; false", 1, "a\n"), ("echo ${nothing?is not there}; echo never", 1, ""), ("x() { return 5; }; x", 5, ""), ("(exit 3)", 3, ""), ("echo \"it's\" ok", 0, "it's ok\n"), ("readonly r=1; r=2", 1, "")])
def test_what_a_cell_of_bash_came_to(server, shell, code, status, out):
    with JupyterSocket(server, shell) as line:
        told = line.execute(code)
        assert told.text() == out
        assert told.reply["status"] == ("error" if status else "ok") and (not status or told.reply["evalue"] == str(status)), told.reply
        assert line.execute("echo on").text() == "on\n"
