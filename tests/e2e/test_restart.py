"""What survives: the server killed, drained, reloaded, and its parts killed one by one (R-01, R-15, R-16, R-18 of docs/attacks.md)."""
import contextlib
import http.client
import os
import random
import signal
import sqlite3
import threading
import time

import pytest
from conftest import fair, new_marker, processes_with, wait_until
from server import Server, at, joined, new_id, tar_gz

PROMPT = 2.0  # seconds until a server that was killed serves again
COUNT = "import time\nn = 0\nwhile True:\n  print(n, flush=True); n += 1; time.sleep(0.01)"


def named(server, comm):
    """The living child of the server with this name."""
    from conftest import HostState
    found = [pid for pid, (name, parent) in HostState.all_processes().items() if parent == server.pid and name == comm and Server.alive(pid)]
    return found[0] if found else None


def database(server):
    return sqlite3.connect(server.state_dir / "front" / "cove.db", timeout=10)


def init_of(server, name):
    with contextlib.closing(database(server)) as opened:
        [[pid]] = opened.execute("SELECT init_pid FROM sandboxes WHERE name = ?", [name])
    return pid


def in_background(work):
    """Starts work() in a thread; call what it returns for the result."""
    results = []

    def run():
        try:
            results.append(work())
        except (OSError, http.client.HTTPException) as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result(patience=15):
        thread.join(fair(patience))
        assert results, "it has not ended"
        return results[0]

    return result


def numbers(text):
    """The whole lines of a counter."""
    return [int(line) for line in text.split("\n")[:-1]]


# --- kill -9

def test_after_kill_9_everything_is_there_and_goes_on(fresh_server):
    server = fresh_server()
    name = server.create(ttlSeconds=300, env={"A": "1"}, labels={"team": "a"}, metadata={"k": [1]}, memoryLimit="256Mi")
    server.out(name, "echo kept >file; mkdir d; echo deep >d/f; chmod 640 file")
    counter = server.start_process(name, "python3", "-c", COUNT)["id"]
    reader = server.start_process(name, "cat", stdin="open")["id"]
    ended = server.start_process(name, "sh", "-c", "echo bye; exit 9")["id"]
    server.ended(name, ended)
    shell = server.start_process(name, "bash", "--norc", "-i", pty={"rows": 30, "cols": 90}, env={"PS1": "READY> "})["id"]
    with server.websocket(at(name, f"processes/{shell}/terminal")) as terminal:
        terminal.read_until(b"READY> ")
        terminal.send(b"VARIABLE=intact\r")
        terminal.read_until(b"READY> ")
    assert server.post(at(name, f"processes/{reader}/stdin"), b"before\n").status == 204
    assert wait_until(lambda: len(numbers(server.output(name, counter))) > 20)
    before = server.get(at(name)).json
    seen = server.events(name, counter)

    server.kill9()
    time.sleep(0.5)
    server.restart()
    assert server.started_in < fair(PROMPT)

    after = server.get(at(name)).json
    for field in ("id", "podName", "state", "createdAt", "ttlSeconds", "template", "limits", "env", "labels", "metadata", "processes", "notes"):
        assert after[field] == before[field], field
    assert server.out(name, "cat file d/f; stat -c %a file; echo $A") == "kept\ndeep\n640\n1\n"
    # What was produced while nobody listened comes from its number, once.
    more = server.events(name, counter, seen[-1]["seq"] + 1)
    assert more and more[0]["seq"] == seen[-1]["seq"] + 1
    whole = numbers(joined(seen + more))
    assert whole == list(range(len(whole)))
    assert numbers(server.output(name, counter))[:len(whole)] == whole
    assert wait_until(lambda: len(numbers(server.output(name, counter))) > len(whole) + 20)
    assert server.process(name, counter)["state"] == "running"
    # Input, ends, terminals.
    assert server.post(at(name, f"processes/{reader}/stdin?eof=true"), b"after\n").status == 204
    assert server.ended(name, reader)["exitCode"] == 0 and server.output(name, reader) == "before\nafter\n"
    done = server.process(name, ended)
    assert (done["state"], done["exitCode"], done["reason"]) == ("exited", 9, "exited") and server.output(name, ended) == "bye\n"
    with server.websocket(at(name, f"processes/{shell}/terminal")) as terminal:
        terminal.send(b"echo $VARIABLE; stty size\r")
        assert b"30 90" in terminal.read_until(b"30 90\r\n")
    assert server.start_process(name, "true")["id"] not in (counter, reader, ended, shell)
    assert server.delete(at(name, f"processes/{counter}")).status == 204
    assert server.delete(at(name)).status == 204


def test_a_stream_that_broke_off_resumes_over_a_crash_without_loss_or_repeat(fresh_server):
    server = fresh_server()
    name = server.create()
    process = server.start_process(name, "python3", "-c", COUNT)["id"]
    seen, last = [], 0
    for _ in range(3):
        with contextlib.suppress(OSError, http.client.HTTPException), server.sse(at(name, f"processes/{process}/events"), headers={"Last-Event-ID": str(last)} if last else {}) as stream:
            killer = threading.Timer(0.4, server.kill9)
            killer.start()
            for event in stream:
                seen.append(event["data"])
                last = event["id"]
        killer.join()
        server.restart()
    server.post(at(name, f"processes/{process}/signal"), {"signal": "SIGTERM"})
    with server.sse(at(name, f"processes/{process}/events?from={last + 1}")) as stream:
        seen += [event["data"] for event in stream]
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    lines = numbers(joined(seen))
    assert lines == list(range(len(lines))) and len(lines) > 60
    assert seen[-1]["type"] == "end" and seen[-1]["signal"] == "SIGTERM"


def test_what_ended_while_the_server_was_away_is_told_afterwards(fresh_server):
    server = fresh_server()
    name = server.create(memoryLimit="64Mi")
    quiet = server.start_process(name, "sh", "-c", "sleep 0.7; echo done; exit 4")["id"]
    timed = server.start_process(name, "sleep", "600", timeoutSeconds=1)["id"]
    late = server.start_process(name, "sleep", "600", timeoutSeconds=3)["id"]
    server.kill9()
    time.sleep(1.5)
    server.restart()
    ended = server.ended(name, quiet, 2)
    assert (ended["exitCode"], ended["reason"], server.output(name, quiet)) == (4, "exited", "done\n")
    # Its time was over while nobody looked: ended at once, and for that reason.
    assert server.ended(name, timed, 2)["reason"] == "timeout"
    assert server.process(name, late)["state"] == "running"
    assert server.ended(name, late, 5)["reason"] == "timeout"


def test_what_is_written_down_is_known_before_init_has_spoken(fresh_server):
    server = fresh_server()
    name = server.create()
    counter = server.start_process(name, "python3", "-c", COUNT)["id"]
    ended = server.start_process(name, "sh", "-c", "echo bye; exit 9")["id"]
    forgotten = server.start_process(name, "sh", "-c", "echo bye; exit 8")["id"]
    before = {process: server.ended(name, process) for process in (ended, forgotten)}
    init = init_of(server, name)
    server.kill9()
    os.kill(init, signal.SIGSTOP)
    try:
        server.restart()
        assert server.process(name, counter)["state"] == "running"
        done = server.process(name, ended)
        assert all(done[field] == before[ended][field] for field in ("state", "exitCode", "reason", "startedAt", "durationMs")), done
        assert server.delete(at(name, f"processes/{forgotten}")).status == 204
        assert server.post(at(name, f"processes/{ended}/signal"), {"signal": "SIGTERM"}).status == 409
    finally:
        os.kill(init, signal.SIGCONT)
    assert wait_until(lambda: server.output(name, ended) == "bye\n", 5)
    assert server.events(name, ended)[-1]["type"] == "end" and server.process(name, ended)["exitCode"] == 9
    lines = numbers(server.output(name, counter))
    assert lines == list(range(len(lines))) and server.process(name, counter)["state"] == "running"
    assert server.get(at(name, f"processes/{forgotten}")).status == 404
    assert [one["id"] for one in server.get(at(name, "processes")).json["processes"]] == [counter, ended]


def test_a_paused_sandbox_stays_paused_over_a_crash(fresh_server):
    server = fresh_server()
    name = server.create()
    server.start_process(name, "sh", "-c", "while :; do date +%s.%N >>ticks; sleep 0.02; done")
    time.sleep(0.3)
    assert server.post(at(name, "pause")).status == 200
    used = server.get(at(name)).json["usage"]["cpuMs"]
    server.kill9()
    server.restart()
    assert server.get(at(name)).json["state"] == "paused"
    assert server.post(at(name, "exec"), {"cmd": ["true"]}).status == 409
    time.sleep(0.7)
    assert server.get(at(name)).json["usage"]["cpuMs"] == used
    assert server.post(at(name, "resume")).json["state"] == "running"
    time.sleep(0.3)
    ticks = [float(line) for line in server.out(name, "cat ticks").split()]
    gaps = sorted(later - sooner for sooner, later in zip(ticks, ticks[1:]))
    assert gaps[-1] > 0.7 and gaps[-2] < 0.5


def test_time_goes_on_while_the_server_is_away(fresh_server):
    server = fresh_server()
    marker = new_marker()
    gone, stays = server.create(ttlSeconds=1), server.create(ttlSeconds=300)
    works = server.create(ttlSeconds=1)
    server.start_process(works, "sleep", "600")
    server.sh(gone, f"sh -c 'while :; do sleep 1; done; : {marker}' >/dev/null 2>&1 &")
    before = server.get(at(stays)).json["expiresAt"]
    server.kill9()
    assert processes_with(marker)
    time.sleep(1.5)
    server.restart()
    assert server.get(at(gone)).status == 404
    assert server.get(at(works)).status == 200, "its process still runs"
    assert wait_until(lambda: not processes_with(marker), 2)
    after = server.get(at(stays)).json["expiresAt"]
    assert abs(int(after[-3:-1]) - int(before[-3:-1])) in (0, 1, 59)
    assert server.put(at(gone), {}).status == 200 and server.out(gone, "ls -A") == ""


def test_an_exec_whose_client_was_cut_off_by_a_crash_is_ended(fresh_server):
    server = fresh_server()
    name, marker = server.create(), new_marker()
    result = in_background(lambda: server.sh(name, f"while :; do sleep 0.1; done; : {marker}", timeoutSeconds=600))
    assert wait_until(lambda: processes_with(marker))
    server.kill9()
    assert isinstance(result(), (OSError, http.client.HTTPException))
    server.restart()
    assert wait_until(lambda: not processes_with(marker), 3)
    assert server.get(at(name, "processes")).json["processes"] == [] and server.out(name, "echo alive") == "alive\n"


def test_an_upload_that_was_cut_off_by_a_crash_leaves_nothing(fresh_server):
    import socket
    server = fresh_server()
    name = server.create()
    archive = tar_gz({"torn": os.urandom(100_000)})
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(f"POST {at(name, 'files/upload')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(archive)}\r\n\r\n".encode() + archive[:50_000])
        time.sleep(0.2)
        server.kill9()
    server.restart()
    assert wait_until(lambda: server.out(name, "ls -A") == "", 8)


def test_a_server_told_to_stop_as_soon_as_it_is_there_still_ends_its_sandboxes(fresh_server):
    server = fresh_server("--on-exit", "destroy")
    name, marker = server.create(), new_marker()
    server.start_process(name, "sh", "-c", f"while :; do sleep 0.1; done; : {marker}")
    assert wait_until(lambda: processes_with(marker))
    server.kill9()
    # A database that takes a while to look through: the front hears nothing in that time.
    with contextlib.closing(database(server)) as opened, opened:
        opened.executemany("INSERT INTO events (at_unix_ms, tenant, type, sandbox, pod_name, data_json) VALUES (1, 'x', 'x', 'x', 'x', ?)", (["x" * 500] for _ in range(200_000)))
    server.start(wait=False)
    assert wait_until(lambda: named(server, "cove-front"), 10)
    assert server.stop() == 0
    assert processes_with(marker) == []


def test_events_and_idempotency_keys_outlive_the_server(fresh_server):
    server = fresh_server()
    first = server.post("/v1/sandboxes", {"ttlSeconds": 60}, headers={"Idempotency-Key": "key"})
    told = server.get("/v1/events").json
    server.kill9()
    server.restart()
    again = server.post("/v1/sandboxes", {"ttlSeconds": 60}, headers={"Idempotency-Key": "key"})
    assert again.json == first.json
    server.delete(at(first.json["id"]))
    later = server.get("/v1/events").json["events"]
    assert later[:len(told["events"])] == told["events"]
    assert [event["type"] for event in later] == ["created", "deleted"]


def test_the_front_alone_is_killed_and_started_again(fresh_server):
    server = fresh_server()
    name = server.create()
    process = server.start_process(name, "python3", "-c", COUNT)["id"]
    for _ in range(3):
        front = named(server, "cove-front")
        began = time.monotonic()
        os.kill(front, signal.SIGKILL)

        def healthy():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return server.get("/healthz", timeout=2).status == 200

        assert wait_until(lambda: named(server, "cove-front") not in (None, front) and healthy(), 5)
        assert time.monotonic() - began < fair(PROMPT)
        assert server.out(name, "echo alive") == "alive\n"
    lines = numbers(server.output(name, process))
    assert lines == list(range(len(lines))) and server.popen.poll() is None


def test_twenty_crashes_at_random_moments_lose_nothing_and_leave_nothing(fresh_server):
    """R-01: several sandboxes busy, one paused, others being made and deleted."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    server = fresh_server()
    busy = {server.create(ttlSeconds=600): None for _ in range(4)}
    for name in busy:
        server.out(name, f"echo {name} >mine")
        busy[name] = server.start_process(name, "python3", "-c", COUNT)["id"]
    paused = server.create(ttlSeconds=600)
    server.out(paused, "echo paused >mine")
    server.post(at(paused, "pause"))
    pods = {box["id"]: box["podName"] for box in server.get("/v1/sandboxes").json["sandboxes"]}
    comings = [f"coming-{number}" for number in range(4)]
    stop = threading.Event()
    odd = []

    def churn(name):
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                for answer, fine in ((server.put(at(name), {"ttlSeconds": 60}), {200, 503}), (server.post(at(name, "exec"), {"cmd": ["true"]}), {200, 404, 503}), (server.delete(at(name)), {204, 404, 503})):
                    if answer.status not in fine:
                        odd.append(answer)
            time.sleep(0.01)

    threads = [threading.Thread(target=churn, args=(name,)) for name in comings]
    for thread in threads:
        thread.start()
    slowest = 0
    try:
        for cycle in range(20):
            time.sleep(chance.random() * 0.4)
            server.restart()
            slowest = max(slowest, server.started_in)
            found = {box["id"]: box for box in server.get("/v1/sandboxes?limit=1000").json["sandboxes"]}
            assert {name: found[name]["podName"] for name in pods} == pods, cycle
            assert found[paused]["state"] == "paused", cycle
            name = chance.choice(list(busy))
            assert server.out(name, "cat mine") == name + "\n", cycle
            assert server.process(name, busy[name])["state"] == "running", cycle
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert slowest < fair(PROMPT)
    assert odd == []
    for name, process in busy.items():
        lines = numbers(server.output(name, process))
        assert lines == list(range(len(lines))) and len(lines) > 200, name
    assert server.post(at(paused, "resume")).status == 200 and server.out(paused, "cat mine") == "paused\n"
    for name in (*pods, *comings):
        server.delete(at(name))
    assert server.get("/v1/sandboxes").json["sandboxes"] == []
    with contextlib.closing(database(server)) as opened:
        assert opened.execute("SELECT count(*) FROM sandboxes").fetchall() == [(0,)]
    assert list((server.state_dir / "front" / "run").iterdir()) == []


# --- parts of it

def test_a_killed_keeper_is_replaced_and_the_sandboxes_are_still_there(fresh_server):
    server = fresh_server()
    name, paused = server.create(memoryLimit="64Mi"), server.create()
    process = server.start_process(name, "python3", "-c", COUNT)["id"]
    server.post(at(paused, "pause"))
    for _ in range(3):
        keeper = server.keeper()
        assert keeper
        running = in_background(lambda: server.sh(name, "sleep 0.5; echo finished"))
        time.sleep(0.1)
        os.kill(keeper, signal.SIGKILL)
        # What needs no keeper does not notice.
        assert running().get("stdout") == "finished\n"
        began = time.monotonic()
        assert server.put(at(new_id()), {"ttlSeconds": 30}).status == 200
        assert time.monotonic() - began < fair(3)
        assert server.keeper() not in (None, keeper)
        assert server.get("/healthz").status == 200
        assert server.get(at(name)).json["usage"]["memoryBytes"] > 0
    assert server.get(at(paused)).json["state"] == "paused"
    assert server.post(at(paused, "resume")).status == 200 and server.out(paused, "echo up") == "up\n"
    lines = numbers(server.output(name, process))
    assert lines == list(range(len(lines)))
    # It still enforces, counts and removes.
    assert server.exec(name, "python3", "-c", "x = bytearray(200 << 20)")["reason"] == "oom"
    assert server.delete(at(name)).status == 204


def test_a_create_and_a_delete_that_a_dying_keeper_interrupts_are_typed_and_leave_nothing(fresh_server):
    server = fresh_server()
    for turn in range(5):
        names = [new_id() for _ in range(6)]
        doomed = [server.create() for _ in range(3)]
        results = [in_background(lambda name=name: server.put(at(name), {"ttlSeconds": 60})) for name in names]
        results += [in_background(lambda name=name: server.delete(at(name))) for name in doomed]
        time.sleep(0.002 * turn)
        os.kill(server.keeper(), signal.SIGKILL)
        statuses = [result().status for result in results]
        assert set(statuses[:6]) <= {200, 503} and set(statuses[6:]) <= {204, 503}, statuses
        assert wait_until(lambda: server.keeper() is not None)
        for name in names + doomed:
            assert server.delete(at(name)).status in (204, 404)
    assert server.get("/v1/sandboxes").json["sandboxes"] == []


def test_a_sandbox_whose_init_is_killed_ends_alone_and_typed(fresh_server):
    server = fresh_server()
    victim, other = server.create("victim"), server.create("other")
    process = server.start_process(other, "python3", "-c", COUNT)["id"]
    server.start_process(victim, "sleep", "600")
    running = in_background(lambda: server.post(at(victim, "exec"), {"cmd": ["sleep", "60"], "timeoutSeconds": 60}))
    time.sleep(0.3)
    first = server.get(at(victim)).json["podName"]
    os.kill(init_of(server, victim), signal.SIGKILL)
    killed = time.monotonic()
    result = running()
    assert time.monotonic() - killed < fair(1)
    assert result.status == 200 and (result.json["exitCode"], result.json["reason"]) == (137, "sandbox_gone")
    assert wait_until(lambda: server.get(at(victim)).status == 404, 1)
    assert server.post(at(victim, "exec"), {"cmd": ["true"]}).status == 404
    events = [(event["type"], event.get("why")) for event in server.get("/v1/events").json["events"] if event["sandbox"] == victim]
    assert events == [("created", None), ("died", None), ("deleted", "died")]
    again = server.put(at(victim), {})
    assert again.status == 200 and again.json["podName"] != first and server.out(victim, "ls -A") == ""
    lines = numbers(server.output(other, process))
    assert lines == list(range(len(lines))) and server.process(other, process)["state"] == "running"


def test_a_sandbox_whose_init_died_while_the_server_was_away_is_found_lost(fresh_server):
    server = fresh_server()
    victim, other = server.create("victim"), server.create("other")
    pid = init_of(server, victim)
    server.kill9()
    os.kill(pid, signal.SIGKILL)
    server.restart()
    assert server.get(at(victim)).status == 404 and server.out(other, "echo alive") == "alive\n"
    types = [event["type"] for event in server.get("/v1/events").json["events"] if event["sandbox"] == victim]
    assert types[0] == "created" and "lost" in types


def test_state_of_another_boot_is_swept(fresh_server):
    """R-18: a thousand stale records, and real leftovers that claim to be from another boot."""
    server = fresh_server()
    marker = new_marker()
    names = [server.create() for _ in range(3)]
    for name in names:
        server.start_process(name, "sh", "-c", f"while :; do sleep 1; done; : {marker}")
    server.kill9()
    with contextlib.closing(database(server)) as opened, opened:
        opened.execute("UPDATE sandboxes SET boot_id = '00000000-0000-0000-0000-000000000000'")
        columns = [row[1] for row in opened.execute("PRAGMA table_info(sandboxes)")]
        row = dict(zip(columns, opened.execute("SELECT * FROM sandboxes LIMIT 1").fetchone()))
        for number in range(1000):
            stale = {**row, "id": f"{number:026x}"[-len(row["id"]):].rjust(len(row["id"]), "a"), "name": f"stale-{number}", "pod_name": f"sbx-{number:010x}", "init_pid": 1, "cgroup": f"/cove-none/{number}"}
            opened.execute(f"INSERT INTO sandboxes ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})", [stale[column] for column in columns])
    server.restart()
    assert server.started_in < fair(PROMPT)
    assert server.get("/v1/sandboxes?limit=1000").json["sandboxes"] == []
    assert wait_until(lambda: not processes_with(marker), 10)
    for name in (*names, "stale-7"):
        assert server.get(at(name)).status == 404
        assert server.put(at(name), {}).status == 200 and server.out(name, "ls -A") == ""


# --- stopping

def test_sigterm_drains(fresh_server):
    """R-15: not ready at once, new work is told to come later, what runs may finish, exit status 0."""
    server = fresh_server("--drain", "30s")
    name = server.create()
    server.start_process(name, "sleep", "600")  # what runs in the background does not hold the server
    running = [in_background(lambda seconds=seconds: server.sh(name, f"sleep {seconds}; echo {seconds}")) for seconds in (1, 1.5, 2, 2.5)]
    assert wait_until(lambda: len(server.get(at(name, "processes")).json["processes"]) == 5, 5)
    server.terminate()
    began = time.monotonic()
    assert wait_until(lambda: server.get("/healthz").status == 503, 2)
    assert time.monotonic() - began < fair(0.2)
    for method, path, body in [("PUT", at("new"), {}), ("POST", "/v1/sandboxes", {}), ("POST", at(name, "exec"), {"cmd": ["true"]}), ("POST", at(name, "processes"), {"cmd": ["true"]}), ("GET", at(name, "files/download"), None)]:
        answer = server.request(method, path, body)
        assert (answer.status, answer.code) == (503, "unavailable"), (path, answer)
        assert int(answer.headers["Retry-After"]) >= 1
    assert [result()["stdout"] for result in running] == ["1\n", "1.5\n", "2\n", "2.5\n"]
    assert server.popen.wait(10) == 0
    assert time.monotonic() - began < fair(5)


def test_what_outlasts_the_drain_is_ended_and_told_so(fresh_server):
    server = fresh_server("--drain", "500ms")
    name = server.create()
    running = in_background(lambda: server.sh(name, "echo begun; sleep 60", timeoutSeconds=60))
    assert wait_until(lambda: len(server.get(at(name, "processes")).json["processes"]) == 1, 5)
    time.sleep(0.3)
    server.terminate()
    began = time.monotonic()
    result = running()
    assert (result["reason"], result["exitCode"], result["stdout"]) == ("shutdown", 137, "begun\n") and "shutting down" in result["stderr"]
    assert server.popen.wait(10) == 0 and 0.4 < time.monotonic() - began < fair(3)


def test_a_second_sigterm_ends_it_fast(fresh_server):
    server = fresh_server("--drain", "60s")
    name = server.create()
    running = in_background(lambda: server.sh(name, "sleep 60", timeoutSeconds=60))
    time.sleep(0.3)
    server.terminate()
    time.sleep(0.5)
    assert server.popen.poll() is None
    began = time.monotonic()
    server.terminate()
    assert server.popen.wait(10) == 0
    assert time.monotonic() - began < fair(2)
    result = running()
    assert isinstance(result, Exception) or result["reason"] == "shutdown"


def test_an_idle_server_stops_at_once_and_open_streams_do_not_hold_it(fresh_server):
    server = fresh_server("--drain", "30s")
    name = server.create()
    process = server.start_process(name, "sleep", "600")["id"]
    with server.sse("/v1/events") as events, server.sse(at(name, f"processes/{process}/events")) as output, server.sse(at(name, "files/watch?path=/workspace")) as watch, server.websocket(at(name, f"processes/{process}/terminal")):
        events.comment()
        output.next()
        watch.comment()
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < fair(5)


def test_on_exit_destroy_leaves_nothing_for_the_next_start(fresh_server):
    server = fresh_server("--on-exit", "destroy")
    name, marker = server.create(), new_marker()
    server.start_process(name, "sh", "-c", f"while :; do sleep 1; done; : {marker}")
    assert server.stop() == 0
    assert processes_with(marker) == []
    server.start()
    assert server.get("/v1/sandboxes").json["sandboxes"] == [] and server.get(at(name)).status == 404


def test_on_exit_keep_hands_everything_to_the_next_start(fresh_server):
    server = fresh_server("--on-exit", "keep")
    name = server.create()
    pod = server.get(at(name)).json["podName"]
    process = server.start_process(name, "python3", "-c", COUNT)["id"]
    server.out(name, "echo kept >file")
    for _ in range(2):
        assert server.stop() == 0
        time.sleep(0.3)
        server.start()
        assert server.get(at(name)).json["podName"] == pod
        assert server.out(name, "cat file") == "kept\n"
        lines = numbers(server.output(name, process))
        assert lines == list(range(len(lines))) and server.process(name, process)["state"] == "running"
    assert len(lines) > 60


def test_sigint_is_like_sigterm(fresh_server):
    server = fresh_server()
    server.popen.send_signal(signal.SIGINT)
    assert server.popen.wait(10) == 0


# --- reload

def test_a_valid_reload_changes_what_can_change_and_an_invalid_one_nothing(fresh_server, workdir):
    """R-16."""
    workdir.chmod(0o755)
    config = workdir / "cove.toml"
    config.write_text('[sandbox]\nttl = "100s"\n[exec]\ntimeout = "20s"\n')
    server = fresh_server("--config", config)
    old = server.create("old")
    process = server.start_process(old, "python3", "-c", COUNT)["id"]
    running = in_background(lambda: server.sh(old, "sleep 2; echo finished"))
    assert server.get(at(old)).json["ttlSeconds"] == 100

    def reload(text, said):
        config.write_text(text)
        before = len(server.log)
        server.popen.send_signal(signal.SIGHUP)
        assert wait_until(lambda: said in server.log[before:], 5), server.log[before:]
        return server.log[before:]

    reload('[sandbox]\nttl = "200s"\n', "reloaded")
    assert server.put(at("second"), {}).json["ttlSeconds"] == 200
    for broken in ('[sandbox]\nttl = "never"\n', '[sandbox]\nttl = "300s', "[sandbox]\nno_such_key = 1\n", '[sandbox]\nttl = "300s"\nmemory = "1"\n'):
        said = reload(broken, "reload refused")
        assert "cove.toml" in said
        assert server.put(at("third"), {}).json["ttlSeconds"] == 200
        server.delete(at("third"))
    config.unlink()
    server.popen.send_signal(signal.SIGHUP)
    assert wait_until(lambda: server.log.count("reload refused") == 5, 5)
    said = reload('listen = "127.0.0.1:1"\n[sandbox]\nttl = "150s"\n', "reloaded")
    assert server.put(at("fourth"), {}).json["ttlSeconds"] == 150
    # Living sandboxes did not notice.
    assert running()["stdout"] == "finished\n"
    lines = numbers(server.output(old, process))
    assert lines == list(range(len(lines))) and server.get(at(old)).json["ttlSeconds"] == 100


def test_a_configuration_that_only_its_owner_can_read_is_reloaded_too(fresh_server, workdir):
    config = workdir / "cove.toml"
    config.write_text('[sandbox]\nttl = "100s"\n')
    config.chmod(0o600)
    server = fresh_server("--config", config)
    config.write_text('[sandbox]\nttl = "200s"\n')
    server.popen.send_signal(signal.SIGHUP)
    assert wait_until(lambda: "reload" in server.log, 5)
    assert server.put(at("x"), {}).json["ttlSeconds"] == 200


def test_restarts_are_prompt_with_many_sandboxes(fresh_server):
    server = fresh_server()
    names = [server.create() for _ in range(40)]
    for name in names:
        server.out(name, f"echo {name} >mine")
    server.restart()
    assert server.started_in < fair(PROMPT)
    for name in names:
        assert server.out(name, "cat mine") == name + "\n"


@pytest.mark.parametrize("how", ["garbage", "empty"])
def test_a_broken_database_does_not_keep_the_server_from_starting(fresh_server, how):
    server = fresh_server()
    marker = new_marker()
    name = server.create()
    server.start_process(name, "sh", "-c", f"while :; do sleep 1; done; : {marker}")
    server.kill9()
    for path in (server.state_dir / "front").glob("cove.db*"):
        if path.name == "cove.db" and how == "garbage":
            path.write_bytes(os.urandom(20_000))
        elif path.name == "cove.db":
            path.write_bytes(b"")
        else:
            path.unlink()
    server.restart()
    # What nobody knows any more is nobody's: it is ended.
    assert wait_until(lambda: not processes_with(marker), 5)
    assert "cove.db" in server.log or how == "empty"
