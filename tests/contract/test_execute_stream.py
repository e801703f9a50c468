"""POST /v1/execute/stream (section 8)."""
import http.client
import json
import socket
import time

import pytest
from conftest import new_marker, processes_with, wait_until
from interpreter import JSON, ask, events_of, fetch, joined, keep, stream, unknown_id

PATH = "/v1/execute/stream"


def test_head_and_frames_to_the_byte(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", PATH, json.dumps({"code": "import os\nos.write(1, b'hi\\n')\nNone", "timeout_ms": 20000}).encode(), JSON)
    response = connection.getresponse()
    assert response.status == 200
    wanted = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no", "Transfer-Encoding": "chunked"}
    assert {name: response.headers[name] for name in wanted} == wanted and response.headers.get_all("Connection") == ["keep-alive"]
    body = response.read().decode()
    head, tail = 'event: output\ndata: {"stream":"stdout","data":"hi\\n"}\n\nevent: result\ndata: {"exit_code":0,"timed_out":false,"duration_ms":', ',"files":[]}\n\n'
    assert body.startswith(head) and body.endswith(tail) and body[len(head):-len(tail)].isdigit()
    # The connection goes on.
    connection.request("GET", "/health")
    assert connection.getresponse().read() == b'{"status":"ok"}'
    connection.close()


def test_output_is_joined_from_its_pieces(server):
    events = stream(server, "import sys\nfor n in range(100): print(n)\nprint('err', file=sys.stderr)\nsys.exit(3)")
    assert joined(events, "stdout") == "".join(f"{n}\n" for n in range(100)) and joined(events, "stderr") == "err\n"
    assert [name for name, _ in events].count("result") == 1 and events[-1][0] == "result" and events[-1][1]["exit_code"] == 3
    assert list(events[-1][1]) == ["exit_code", "timed_out", "duration_ms", "files"]
    assert all(list(data) == ["stream", "data"] and data["data"] for name, data in events[:-1])


def test_output_comes_as_it_is_made(server):
    with server.sse(PATH, "POST", {"code": "import time\nprint('first')\ntime.sleep(30)", "timeout_ms": 40000}, JSON) as events:
        began = time.monotonic()
        assert events.next()["data"]["data"].startswith("first")
        assert time.monotonic() - began < 20, "not only at the end"


def test_the_last_expression_is_shown(server):
    assert joined(stream(server, "2 + 2"), "stdout") == "4\n"


def test_no_output_means_a_result_alone(server):
    [(name, data)] = stream(server, "x = 1")
    assert (name, data["exit_code"], data["files"]) == ("result", 0, [])


def test_no_piece_ends_within_a_character(server):
    code = "import os, time\nfor byte in 'é漢😀'.encode() + b'\\xff' + '😀'.encode()[:3]:\n  os.write(1, bytes([byte])); time.sleep(0.02)"
    events = stream(server, code, last_line_interactive=False)
    assert joined(events, "stdout") == "é漢😀\ufffd\ufffd"
    assert all("\ufffd" not in data["data"] or data["data"].strip("\ufffd") == "" for name, data in events if name == "output")


def test_time_out(server):
    events = stream(server, "import time\nprint('x')\nopen('f', 'w').write('y')\ntime.sleep(60)", timeout_ms=500)
    assert joined(events, "stdout") == "x\n"
    result = events[-1][1]
    assert (result["timed_out"], result["exit_code"]) == (True, None) and [entry["path"] for entry in result["files"]] == ["f"]


def test_files_both_ways(server):
    events = stream(server, "open('in', 'a').write('+')\nopen('new', 'w').write('n')\nNone", files=[{"path": "in", "file_id": keep(server, "i")}])
    assert {entry["path"]: fetch(server, entry["file_id"]) for entry in events[-1][1]["files"]} == {"in": b"i+", "new": b"n"}


def test_output_past_the_limit_is_dropped_without_a_word(server):
    events = stream(server, "import sys\nfor _ in range(300): sys.stdout.write('x' * 10000)\nprint('end', file=sys.stderr)")
    assert joined(events, "stdout") == "x" * 1_000_000 and joined(events, "stderr") == "end\n" and events[-1][1]["exit_code"] == 0


def test_a_syntax_error_is_a_result(server):
    events = stream(server, "x = = 1")
    assert [name for name, _ in events].count("result") == 1 and events[-1][1]["exit_code"] == 1 and "SyntaxError" in joined(events, "stderr")


def test_stdin(server):
    assert joined(stream(server, "print(input())", stdin="given\n"), "stdout") == "given\n"


@pytest.mark.parametrize("fields, status", [({"timeout_ms": 60001}, 422), ({"timeout_ms": 0}, 422), ({"files": [{"path": "x", "file_id": unknown_id()}]}, 404)])
def test_what_is_wrong_before_is_an_ordinary_answer(server, fields, status):
    answer = ask(server, "1", PATH, **fields)
    assert answer.status == status and answer.headers["Content-Type"] == "application/json" and "detail" in answer.json


def test_an_illegal_path_is_an_ordinary_answer(server):
    answer = ask(server, "1", PATH, files=[{"path": "../x", "file_id": keep(server, "x")}])
    assert (answer.status, answer.json) == (422, {"detail": "File paths must not contain '..'."})


def test_a_client_that_leaves_ends_its_program(server):
    marker = new_marker()
    code = f"import subprocess\nprint('up')\nsubprocess.run(['bash', '-c', 'sleep 600; : {marker}'])"
    with server.sse(PATH, "POST", {"code": code, "timeout_ms": 60000}, JSON) as events:
        assert events.next()["data"]["data"].startswith("up") and wait_until(lambda: processes_with(marker), 10)
    assert wait_until(lambda: not processes_with(marker), 10)


def test_a_client_that_reads_slowly_gets_everything(server):
    body = json.dumps({"code": "import sys\nfor n in range(9000): sys.stdout.write(f'{n:099}\\n')", "timeout_ms": 60000, "last_line_interactive": False}).encode()
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"POST {PATH} HTTP/1.0\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(1)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    events = events_of(received.partition(b"\r\n\r\n")[2])
    assert joined(events, "stdout") == "".join(f"{n:099}\n" for n in range(9000)) and events[-1][0] == "result"
