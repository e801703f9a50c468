"""Background processes and terminals: `…/processes…` of docs/api.md."""
import base64
import hashlib
import json
import os
import re
import threading
import time

import pytest
from conftest import fair, new_marker, processes_with, wait_until
from server import at, joined

FIELDS = {"id", "cmd", "state", "pty", "startedAt", "durationMs", "exitCode", "signal", "reason", "firstSeq", "lastSeq"}
END_FIELDS = {"exitCode", "signal", "reason", "durationMs", "cpuMs", "stdoutBytes", "stderrBytes"}


def test_a_process_is_started_seen_and_ends(server, sandbox):
    answer = server.post(at(sandbox, "processes"), {"cmd": ["sh", "-c", "echo out; echo err >&2; sleep 0.3; exit 3"], "env": {"A": "1"}, "workdir": "/tmp"})
    assert answer.status == 201 and set(answer.json) >= FIELDS
    process = answer.json
    assert (process["id"], process["state"], process["pty"], process["exitCode"]) == ("p1", "running", False, None)
    assert process["cmd"] == ["sh", "-c", "echo out; echo err >&2; sleep 0.3; exit 3"]
    assert [one["id"] for one in server.get(at(sandbox, "processes")).json["processes"]] == ["p1"]
    ended = server.ended(sandbox, "p1")
    assert (ended["state"], ended["exitCode"], ended["reason"], ended["signal"]) == ("exited", 3, "exited", None)
    assert ended["firstSeq"] == 1 and 250 < ended["durationMs"] < fair(3000)
    events = server.events(sandbox, "p1")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1)) and events[0] == {"seq": 1, "type": "started", "processId": "p1"}
    assert (joined(events), joined(events, "stderr")) == ("out\n", "err\n")
    assert set(events[-1]) == END_FIELDS | {"seq", "type"} and events[-1]["type"] == "end" and events[-1]["seq"] == ended["lastSeq"]


def test_a_process_outlives_the_request_and_execs_in_between(server, sandbox):
    marker = new_marker()
    process = server.start_process(sandbox, "sh", "-c", f"while :; do sleep 0.1; done; : {marker}")
    for _ in range(3):
        assert server.out(sandbox, "echo x") == "x\n"
    assert processes_with(marker) and server.process(sandbox, process["id"])["state"] == "running"


@pytest.mark.parametrize("body", [{}, {"cmd": []}, {"cmd": "x"}, {"cmd": ["x"], "pty": 3}, {"cmd": ["x"], "pty": {"rows": 0}}, {"cmd": ["x"], "pty": {"cols": 5000}}, {"cmd": ["x"], "pty": {"rows": 1.5}}, {"cmd": ["x"], "stdin": "maybe"}, {"cmd": ["x"], "timeoutSeconds": 0}, {"cmd": ["x"], "timeoutSeconds": -1}, {"cmd": ["x"], "timeoutSeconds": "1"}, {"cmd": ["x"], "env": []}, {"cmd": ["x"], "workdir": "/no/such"}, {"cmd": ["no-such-tool"]}, {"cmd": ["/etc/passwd"]}], ids=lambda body: json.dumps(body)[:40])
def test_a_process_that_cannot_be_is_400_and_not_there(server, sandbox, body):
    answer = server.post(at(sandbox, "processes"), body)
    assert (answer.status, answer.code) == (400, "invalid"), answer
    assert server.get(at(sandbox, "processes")).json["processes"] == []


@pytest.mark.parametrize("pid", ["p0", "p99", "p", "1", "px", "p1x", "p-1", "p99999999999999999999", "%2e%2e"])
def test_a_process_that_is_not_there_is_404(server, sandbox, pid):
    for method, rest, body in [("GET", "", None), ("DELETE", "", None), ("GET", "/events", None), ("POST", "/stdin", b"x"), ("POST", "/signal", {"signal": 9}), ("POST", "/resize", {"rows": 1, "cols": 1}), ("GET", "/terminal", None)]:
        assert server.request(method, at(sandbox, f"processes/{pid}{rest}"), body).status == 404, rest


def test_the_helper_of_the_files_is_no_process_of_the_sandbox(server, sandbox):
    server.get(at(sandbox, "files/list"))
    assert server.get(at(sandbox, "processes")).json["processes"] == []
    assert server.get(at(sandbox, "processes/p1")).status == 404


def test_a_timeout_ends_the_whole_tree(server, sandbox):
    marker = new_marker()
    process = server.start_process(sandbox, "sh", "-c", f"setsid sh -c 'sleep 600; : {marker}' & sleep 600", timeoutSeconds=0.5)
    ended = server.ended(sandbox, process["id"], 5)
    assert (ended["reason"], ended["exitCode"]) == ("timeout", 124)
    assert wait_until(lambda: not processes_with(marker), 2)


def test_64_processes_are_enough_for_one_sandbox(server):
    name = server.create(pidsLimit=200)
    statuses = [server.post(at(name, "processes"), {"cmd": ["sleep", "60"]}).status for _ in range(65)]
    assert statuses == [201] * 64 + [429]
    server.delete(at(name))


def test_ended_processes_are_forgotten_at_last_and_the_newest_are_kept(server, sandbox):
    for _ in range(70):
        last = server.start_process(sandbox, "true")["id"]
    server.ended(sandbox, last)
    kept = [one["id"] for one in server.get(at(sandbox, "processes")).json["processes"]]
    assert len(kept) <= 66 and last in kept


# --- events

def test_events_are_paged_from_any_number(server, sandbox):
    process = server.start_process(sandbox, "python3", "-c", "import time\nfor n in range(30): print(n, flush=True); time.sleep(0.005)")["id"]
    server.ended(sandbox, process)
    whole = server.events(sandbox, process)
    first = 1
    paged = []
    while True:
        page = server.get(at(sandbox, f"processes/{process}/events?from={first}&limit=4")).json
        if not page["events"]:
            break
        assert len(page["events"]) <= 4 and page["next"] == page["events"][-1]["seq"] + 1
        paged += page["events"]
        first = page["next"]
    assert paged == whole
    assert server.get(at(sandbox, f"processes/{process}/events?from=100000")).json == {"events": [], "next": 100000}
    assert server.events(sandbox, process, 0) == whole
    for bad in ("from=x", "limit=0", "limit=10001", "from=-1"):
        assert server.get(at(sandbox, f"processes/{process}/events?{bad}")).status == 400


def test_following_from_a_number_while_it_runs_loses_and_repeats_nothing(server, sandbox):
    process = server.start_process(sandbox, "python3", "-c", "import time\nfor n in range(100): print(n, flush=True); time.sleep(0.02)")["id"]
    seen, last = [], 0
    for turn in range(5):
        headers = {"Last-Event-ID": str(last)} if last else {}
        with server.sse(at(sandbox, f"processes/{process}/events?from=1"), headers=headers) as stream:
            for _ in range(12):
                event = stream.next()
                seen.append(event["data"])
                last = event["id"]
    with server.sse(at(sandbox, f"processes/{process}/events?from={last + 1}")) as stream:
        seen += [event["data"] for event in stream]
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    assert joined(seen) == "".join(f"{number}\n" for number in range(100)) and seen[-1]["type"] == "end"


def test_two_readers_see_the_same(server, sandbox):
    process = server.start_process(sandbox, "sh", "-c", "seq 1 50000; sleep 0.3; seq 1 50000 >&2")["id"]
    results = {}

    def follow(who):
        with server.sse(at(sandbox, f"processes/{process}/events")) as stream:
            results[who] = [event["data"] for event in stream]

    threads = [threading.Thread(target=follow, args=(who,)) for who in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    want = "".join(f"{number}\n" for number in range(1, 50001))
    for events in results.values():
        assert (joined(events), joined(events, "stderr")) == (want, want)
    assert results[0] == results[1]


def test_what_is_no_longer_kept_is_one_gap_and_the_rest_is_whole(server, sandbox):
    process = server.start_process(sandbox, "sh", "-c", "seq 1 3000000")["id"]
    ended = server.ended(sandbox, process, 30)
    assert ended["firstSeq"] > 1
    events = server.events(sandbox, process)
    assert events[0] == {"type": "gap", "from": 1, "to": ended["firstSeq"] - 1}
    with server.sse(at(sandbox, f"processes/{process}/events?from=1")) as stream:
        streamed = [event["data"] for event in stream]
    assert streamed[0] == events[0] and [event["seq"] for event in streamed[1:]] == list(range(ended["firstSeq"], ended["lastSeq"] + 1))
    tail = joined(streamed).split("\n")[1:-1]
    assert tail == [str(number) for number in range(int(tail[0]), 3000001)]


def test_the_bytes_of_output_are_exact_whatever_they_are(server, sandbox):
    process = server.start_process(sandbox, "python3", "-c", "import sys, random\nrandom.seed(7)\nsys.stdout.buffer.write(random.randbytes(200_000))")["id"]
    server.ended(sandbox, process)
    import random
    random.seed(7)
    data = b"".join(base64.b64decode(event["base64"]) if "base64" in event else event["data"].encode() for event in server.events(sandbox, process) if event["type"] == "stdout")
    assert data == random.randbytes(200_000)


# --- input, signals, the end

def test_standard_input_is_written_in_pieces_and_closed(server, sandbox):
    process = server.start_process(sandbox, "sha256sum", stdin="open")["id"]
    data = os.urandom(3_000_000)
    for start in range(0, len(data), 1_000_000):
        assert server.post(at(sandbox, f"processes/{process}/stdin"), data[start:start + 1_000_000]).status == 204
    assert server.post(at(sandbox, f"processes/{process}/stdin?eof=true"), b"").status == 204
    assert server.ended(sandbox, process)["exitCode"] == 0
    assert server.output(sandbox, process).split()[0] == hashlib.sha256(data).hexdigest()


def test_stdin_is_answered_when_the_process_has_taken_it(server, sandbox):
    process = server.start_process(sandbox, "sh", "-c", "sleep 1; cat >/dev/null", stdin="open")["id"]
    began = time.monotonic()
    assert server.post(at(sandbox, f"processes/{process}/stdin"), bytes(2_000_000)).status == 204
    assert time.monotonic() - began > 0.5


def test_a_conversation(server, sandbox):
    process = server.start_process(sandbox, "python3", "-u", "-c", "import sys\nfor line in sys.stdin: sys.stdout.write(f'heard {line.strip()}\\n')", stdin="open")["id"]
    with server.sse(at(sandbox, f"processes/{process}/events")) as stream:
        assert stream.next()["data"]["type"] == "started"
        for word in ("one", "two", "three"):
            server.post(at(sandbox, f"processes/{process}/stdin"), f"{word}\n".encode())
            assert stream.next()["data"]["data"] == f"heard {word}\n"
        server.post(at(sandbox, f"processes/{process}/stdin?eof=true"), b"last\n")
        rest = [event["data"] for event in stream]
    assert joined(rest) == "heard last\n" and rest[-1]["exitCode"] == 0


def test_input_that_nobody_takes_is_a_conflict(server, sandbox):
    closed = server.start_process(sandbox, "sleep", "60")["id"]
    assert server.post(at(sandbox, f"processes/{closed}/stdin"), b"x").status == 409
    gone = server.start_process(sandbox, "true", stdin="open")["id"]
    server.ended(sandbox, gone)
    assert server.post(at(sandbox, f"processes/{gone}/stdin"), b"x").status == 409
    done = server.start_process(sandbox, "sleep", "60", stdin="open")["id"]
    assert server.post(at(sandbox, f"processes/{done}/stdin?eof=true"), b"").status == 204
    assert server.post(at(sandbox, f"processes/{done}/stdin"), b"x").status == 409


@pytest.mark.parametrize("given, want", [("SIGTERM", "SIGTERM"), ("TERM", "SIGTERM"), (15, "SIGTERM"), (9, "SIGKILL"), ("SIGUSR1", "SIGUSR1"), ("SIGINT", "SIGINT")])
def test_a_signal_reaches_the_process(server, sandbox, given, want):
    process = server.start_process(sandbox, "sleep", "600")["id"]
    assert server.post(at(sandbox, f"processes/{process}/signal"), {"signal": given}).status == 204
    ended = server.ended(sandbox, process, 5)
    assert (ended["reason"], ended["signal"]) == ("signalled", want) and ended["exitCode"] > 128
    assert server.post(at(sandbox, f"processes/{process}/signal"), {"signal": given}).status == 409


@pytest.mark.parametrize("given", ["SIGNOPE", "", 0, 65, -9, 1.5, None, True, [], "9"])
def test_a_signal_that_is_none_is_400(server, sandbox, given):
    process = server.start_process(sandbox, "sleep", "600")["id"]
    assert server.post(at(sandbox, f"processes/{process}/signal"), {"signal": given}).status == 400
    assert server.process(sandbox, process)["state"] == "running"


def test_a_caught_signal_is_the_processes_own_business(server, sandbox):
    process = server.start_process(sandbox, "python3", "-u", "-c", "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: (print('caught'), sys.exit(7)))\nprint('ready')\nsignal.pause()")["id"]
    assert wait_until(lambda: "ready" in server.output(sandbox, process))
    server.post(at(sandbox, f"processes/{process}/signal"), {"signal": "SIGUSR1"})
    assert server.ended(sandbox, process)["exitCode"] == 7
    assert "caught" in server.output(sandbox, process)


def test_delete_kills_the_tree_and_forgets(server, sandbox):
    marker = new_marker()
    process = server.start_process(sandbox, "sh", "-c", f"trap '' TERM; (setsid sh -c 'sleep 600; : {marker}' &); sleep 600; : {marker}")["id"]
    assert wait_until(lambda: len(processes_with(marker)) >= 2)
    assert server.delete(at(sandbox, f"processes/{process}")).status == 204
    assert wait_until(lambda: not processes_with(marker), 3)
    assert server.get(at(sandbox, f"processes/{process}")).status == 404
    assert server.get(at(sandbox, "processes")).json["processes"] == []
    ended = server.start_process(sandbox, "true")["id"]
    server.ended(sandbox, ended)
    assert server.delete(at(sandbox, f"processes/{ended}")).status == 204


def test_a_follower_hears_the_end_when_the_process_or_the_sandbox_is_deleted(server):
    name = server.create()
    for way in ("process", "sandbox"):
        process = server.start_process(name, "sleep", "600")["id"]
        with server.sse(at(name, f"processes/{process}/events")) as stream:
            stream.next()
            server.delete(at(name, f"processes/{process}") if way == "process" else at(name))
            end = list(stream)[-1]["data"]
        assert end["type"] == "end" and end["reason"] == ("cancelled" if way == "process" else "sandbox_gone"), end


# --- terminals

def test_a_process_on_a_terminal_knows_its_size_and_its_kind(server, sandbox):
    process = server.start_process(sandbox, "sh", "-c", "test -t 0 && test -t 1 && stty size; echo $TERM; tput cols 2>/dev/null; true", pty={"rows": 31, "cols": 97})
    assert process["pty"] is True
    server.ended(sandbox, process["id"])
    assert server.output(sandbox, process["id"]).startswith("31 97\r\nxterm-256color\r\n")
    plain = server.start_process(sandbox, "stty", "size", pty=True)["id"]
    server.ended(sandbox, plain)
    assert server.output(sandbox, plain) == "24 80\r\n"


def test_resize_reaches_a_terminal_and_only_a_terminal(server, sandbox):
    process = server.start_process(sandbox, "python3", "-u", "-c", "import os, signal, time\nsignal.signal(signal.SIGWINCH, lambda *_: print('now', *os.get_terminal_size()))\nprint('ready')\nwhile True: time.sleep(1)", pty=True)["id"]
    assert wait_until(lambda: "ready" in server.output(sandbox, process))
    assert server.post(at(sandbox, f"processes/{process}/resize"), {"rows": 40, "cols": 132}).status == 204
    assert wait_until(lambda: "now 132 40" in server.output(sandbox, process))
    for bad in ({"rows": 0, "cols": 1}, {"rows": "x"}, {"rows": 5000, "cols": 80}):
        assert server.post(at(sandbox, f"processes/{process}/resize"), bad).status == 400
    plain = server.start_process(sandbox, "sleep", "60")["id"]
    assert server.post(at(sandbox, f"processes/{plain}/resize"), {"rows": 40, "cols": 132}).status == 409


@pytest.fixture
def shell(server, sandbox):
    """A bash on a terminal, and its path."""
    process = server.start_process(sandbox, "bash", "--norc", "--noprofile", "-i", pty={"rows": 24, "cols": 80}, env={"PS1": "READY> "})["id"]
    return at(sandbox, f"processes/{process}/terminal"), process


def test_a_terminal_echoes_and_runs_commands(server, sandbox, shell):
    with server.websocket(shell[0]) as terminal:
        assert terminal.status == 101
        terminal.read_until(b"READY> ")
        terminal.send(b"echo sum is $((40+2))\r")
        seen = terminal.read_until(b"sum is 42\r\n")
        assert b"echo sum is $((40+2))" in seen  # the terminal's own echo


def test_a_terminal_is_resized_over_its_socket(server, sandbox, shell):
    with server.websocket(shell[0]) as terminal:
        terminal.read_until(b"READY> ")
        terminal.send({"type": "resize", "rows": 50, "cols": 111})
        terminal.send(b"stty size\r")
        terminal.read_until(b"50 111\r\n")


def test_ctrl_c_interrupts_what_runs_in_a_terminal(server, sandbox, shell):
    with server.websocket(shell[0]) as terminal:
        terminal.read_until(b"READY> ")
        terminal.send(b"sleep 600; echo not-reached-$((1+1))\r")
        time.sleep(0.3)
        terminal.send(b"\x03")
        seen = terminal.read_until(b"READY> ")
        assert b"not-reached-2" not in seen
        terminal.send(b"echo alive-$((1+1))\r")
        terminal.read_until(b"alive-2")


def test_a_terminal_tells_the_end_and_closes_with_1000(server, sandbox, shell):
    with server.websocket(shell[0]) as terminal:
        terminal.read_until(b"READY> ")
        terminal.send(b"exit 5\r")
        messages = []
        while (message := terminal.read()) is not None:
            messages.append(message)
        end = messages[-1]
        assert end["type"] == "end" and (end["exitCode"], end["reason"]) == (5, "exited")
        assert terminal.close_code == 1000
    assert server.ended(sandbox, shell[1])["exitCode"] == 5


def test_eof_and_signal_over_the_socket(server, sandbox):
    for message, want in [({"type": "eof"}, (0, None)), ({"type": "signal", "signal": "SIGKILL"}, (137, "SIGKILL"))]:
        process = server.start_process(sandbox, "cat", pty=True)["id"]
        with server.websocket(at(sandbox, f"processes/{process}/terminal")) as terminal:
            terminal.send(b"x\r")
            terminal.read_until(b"x\r\nx\r\n")
            terminal.send(message)
            while isinstance(last := terminal.read(), bytes):
                pass
        assert (last["type"], last["exitCode"], last["signal"]) == ("end", *want)


def test_the_process_outlives_its_socket_and_another_one_takes_up_where_it_was(server, sandbox, shell):
    with server.websocket(shell[0]) as terminal:
        terminal.read_until(b"READY> ")
        terminal.send(b"X=kept; (sleep 1; echo later-$((1+1))) &\r")
        terminal.read_until(b"READY> ")
    time.sleep(1.3)
    assert server.process(sandbox, shell[1])["state"] == "running"
    last = server.process(sandbox, shell[1])["lastSeq"]
    with server.websocket(shell[0]) as terminal:
        terminal.read_until(b"later-2")  # from the beginning: everything again
    with server.websocket(shell[0] + f"?from={last + 1}") as terminal:
        terminal.send(b"echo $X\r")
        seen = terminal.read_until(b"kept\r\n")
        assert b"later-2" not in seen


def test_two_sockets_share_one_terminal(server, sandbox, shell):
    with server.websocket(shell[0]) as one, server.websocket(shell[0]) as other:
        one.read_until(b"READY> ")
        other.read_until(b"READY> ")
        one.send(b"echo from-$((1+0))\r")
        other.read_until(b"from-1\r\n")
        other.send(b"echo from-$((1+1))\r")
        one.read_until(b"from-2\r\n")


def test_a_pipe_process_has_a_socket_as_well(server, sandbox):
    process = server.start_process(sandbox, "cat", stdin="open")["id"]
    with server.websocket(at(sandbox, f"processes/{process}/terminal")) as terminal:
        data = os.urandom(300_000)
        terminal.send(data)
        seen = b""
        while len(seen) < len(data):
            message = terminal.read()
            assert isinstance(message, bytes), (message, terminal.close_code, len(seen))
            seen += message
        assert seen == data
        terminal.send({"type": "eof"})
        while isinstance(last := terminal.read(), bytes):
            pass
        assert last["exitCode"] == 0


def test_a_terminal_that_is_deleted_ends_its_socket(server, sandbox, shell):
    with server.websocket(shell[0]) as terminal:
        terminal.read_until(b"READY> ")
        assert server.delete(at(sandbox, f"processes/{shell[1]}")).status == 204
        last = None
        while (message := terminal.read()) is not None:
            last = message
        assert last["type"] == "end" and last["reason"] == "cancelled"


def test_what_is_no_handshake_is_refused(server, sandbox, shell):
    assert server.get(shell[0]).status == 426
    with server.websocket(at("no-such", "processes/p1/terminal")) as terminal:
        assert terminal.status == 404
    with server.websocket(shell[0], headers={"Origin": "https://evil.example"}) as terminal:
        assert terminal.status == 403


@pytest.mark.parametrize("message", [{"type": "dance"}, {}, {"type": "resize", "rows": 0, "cols": 0}, {"type": "signal", "signal": "NOPE"}])
def test_a_message_that_makes_no_sense_closes_the_socket_and_not_the_process(server, sandbox, shell, message):
    with server.websocket(shell[0]) as terminal:
        terminal.read_until(b"READY> ")
        terminal.send(message)
        while terminal.read() is not None:
            pass
        assert terminal.close_code == 1008
    assert server.process(sandbox, shell[1])["state"] == "running"


def test_a_flood_in_a_terminal_can_be_interrupted(server, sandbox, shell):
    with server.websocket(shell[0]) as terminal:
        terminal.read_until(b"READY> ")
        terminal.send(b"yes flood\r")
        seen = 0
        while seen < 200_000:
            seen += len(terminal.read())
        terminal.send(b"\x03")
        terminal.read_until(b"READY> ")
        terminal.send(b"echo calm-$((1+1))\r")
        terminal.read_until(b"calm-2")


def test_a_person_at_a_terminal_keeps_the_sandbox_alive(server):
    name = server.create(ttlSeconds=1)
    process = server.start_process(name, "bash", "--norc", "-i", pty=True, env={"PS1": "READY> "})["id"]
    with server.websocket(at(name, f"processes/{process}/terminal")) as terminal:
        terminal.read_until(b"READY> ")
        time.sleep(2.5)
        terminal.send(b"echo still-$((1+1))\r")
        terminal.read_until(b"still-2")
    assert wait_until(lambda: server.get(at(name)).status == 404, 4)


def test_started_at_is_a_time(server, sandbox):
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", server.start_process(sandbox, "true")["startedAt"])
