"""What the server's log says: fields that programs can read, and the life of sandboxes."""
import json
import re
import signal
import threading

import pytest
from conftest import wait_until
from hostile import Tenant, make_key
from server import Server, at


@pytest.fixture
def logged():
    with Server("--drain", "5s", "--log-format", "json") as server:
        yield server


def lines(server):
    return [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]


def found(server, message, **fields):
    return [line for line in lines(server) if line["message"] == message and all(line.get(name) == value for name, value in fields.items())]


def test_a_request_is_logged_with_fields(logged):
    logged.get("/nope", headers={"User-Agent": 'a "quoted" agent=1'})
    assert wait_until(lambda: found(logged, "request", target="/nope"))
    line = found(logged, "request", target="/nope")[0]
    assert line["status"] == 404 and line["method"] == "GET" and isinstance(line["ms"], (int, float)) and line["agent"] == 'a "quoted" agent=1' and line["level"] == "info"


def test_every_field_of_the_first_line_is_one(logged):
    first = lines(logged)[0]
    assert first["message"] == f"serving on http://127.0.0.1:{logged.port}" and first["keys"] == "not required" and first["sandboxes"] == 0


def test_numbers_are_as_people_write_them(logged):
    logged.get("/nope")
    assert wait_until(lambda: '"ms":' in logged.log)
    assert not [line for line in logged.log.splitlines() if re.search(r'"ms":[-0-9.]*[eE]', line)]


def test_the_life_of_a_sandbox_is_logged(logged):
    logged.create("123", ttlSeconds=1)
    assert wait_until(lambda: found(logged, "sandbox expired", sandbox="123"), 20)
    assert found(logged, "sandbox created", sandbox="123", tenant="default")
    assert wait_until(lambda: found(logged, "sandbox deleted", sandbox="123", why="expired"))
    logged.create("my box=1", memoryLimit="64Mi", ephemeralStorageLimit="16Mi")
    assert found(logged, "sandbox created", sandbox="my box=1")
    logged.sh("my box=1", "python3 -c 'x = bytearray(200_000_000)'")
    assert wait_until(lambda: found(logged, "out of memory: the kernel killed a process", sandbox="my box=1", memory="64M"))
    kernel = logged.post(at("my box=1", "kernels"), {}).json["id"]
    logged.post(at("my box=1", f"kernels/{kernel}/execute"), {"code": "import os; os._exit(3)"})
    assert wait_until(lambda: found(logged, "kernel died", kernel=kernel, sandbox="my box=1"))
    assert "status 3" in found(logged, "kernel died", kernel=kernel)[0]["reason"]
    logged.delete(at("my box=1"))
    assert wait_until(lambda: found(logged, "sandbox deleted", sandbox="my box=1", why="deleted"))


def test_a_server_that_waits_for_work_says_so_and_how_to_end_it():
    with Server("--drain", "20s") as server:
        server.create("busy")
        running = threading.Thread(target=lambda: server.post(at("busy", "exec"), {"cmd": ["sleep", "30"]}))
        running.start()
        assert wait_until(lambda: server.get(at("busy")).json["processes"] == 1)
        server.popen.send_signal(signal.SIGINT)
        assert wait_until(lambda: "waiting for 1 execution, up to 20s; Ctrl-C again ends it now" in server.log), server.log
        server.popen.send_signal(signal.SIGINT)
        server.popen.wait(15)
        running.join(15)


def test_retry_after_is_true_for_executions_a_minute():
    server = Server("--drain", "1s")
    key = make_key(server, "bound", "--executions-per-minute", "20")
    with server:
        tenant = Tenant(server, key["key"])
        assert tenant.put(at("s"), {}).status == 200
        answers = [tenant.post(at("s", "exec"), {"cmd": ["true"]}) for _ in range(25)]
        refused = [answer for answer in answers if answer.status == 429]
        assert refused and all(1 <= int(answer.headers["Retry-After"]) <= 3 for answer in refused)
        pause = int(refused[-1].headers["Retry-After"])
        threading.Event().wait(pause)
        assert tenant.post(at("s", "exec"), {"cmd": ["true"]}).status == 200
