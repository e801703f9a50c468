"""What a key allows: over it the answer is 429, with a time to come back, and costs nobody else anything."""
import threading
import time

import pytest
from conftest import wait_until
from hostile import Tenant, make_key
from server import Server, at


@pytest.fixture
def keyed():
    """keyed(*quotas) gives the tenant of a key with these, and one without any, on a server of their own."""
    servers = []

    def start(*quotas):
        server = Server("--drain", "1s")
        servers.append(server)
        bound, free = make_key(server, "bound", *quotas), make_key(server, "free")
        server.start()
        return Tenant(server, bound["key"]), Tenant(server, free["key"])

    yield start
    for server in servers:
        server.close()


def refused(answer):
    assert (answer.status, answer.code) == (429, "quota"), answer
    assert int(answer.headers["Retry-After"]) >= 1
    return True


def test_as_many_sandboxes_as_the_key_allows(keyed):
    bound, free = keyed("--max-sandboxes", "2")
    assert [bound.put(at(name), {}).status for name in "ab"] == [200, 200]
    assert refused(bound.put(at("c"), {})) and refused(bound.post("/v1/sandboxes", {}))
    assert bound.put(at("a"), {}).status == 200, "one that is there is no new one"
    assert [free.put(at(name), {}).status for name in "abc"] == [200, 200, 200]
    assert bound.delete(at("a")).status == 204 and bound.put(at("c"), {}).status == 200


def test_as_much_memory_together_as_the_key_allows(keyed):
    bound, _ = keyed("--max-memory", "600M")
    assert bound.put(at("a"), {"memoryLimit": "512Mi"}).status == 200
    assert refused(bound.put(at("b"), {"memoryLimit": "128Mi"}))
    assert bound.put(at("b"), {"memoryLimit": "64Mi"}).status == 200


def test_as_many_executions_a_minute_as_the_key_allows(keyed):
    bound, free = keyed("--executions-per-minute", "3")
    for tenant in (bound, free):
        assert tenant.put(at("s"), {}).status == 200
    run = lambda tenant: tenant.post(at("s", "exec"), {"cmd": ["true"]})
    assert [run(bound).status for _ in range(3)] == [200, 200, 200]
    assert refused(run(bound))
    assert [run(free).status for _ in range(6)] == [200] * 6


def test_who_waits_as_long_as_they_are_told_is_let_in(keyed):
    bound, _ = keyed("--executions-per-minute", "20")
    assert bound.put(at("s"), {}).status == 200
    ways = {"exec": lambda: bound.post(at("s", "exec"), {"cmd": ["true"]}), "execute": lambda: bound.post("/v1/execute", {"code": "1", "timeout_ms": 20000}),
            "handler": lambda: bound.post("/workspace/se/v2/execute_code", {"language": "python", "handler_code": "def handler(event):\n    return 1", "event": {}})}
    ways["execution"] = lambda: bound.post(at("s", "executions"), {"code": "1"})
    while (answer := ways["exec"]()).status == 200:
        pass
    for name, ask in ways.items():
        answer = ask()
        assert answer.status in (429, 503) and "a minute" in answer.body.decode(), (name, answer)
        wait = int(answer.headers["Retry-After"])
        assert 2 <= wait <= 3, (name, answer.headers["Retry-After"])
        time.sleep(wait)
        assert ask().status in (200, 201), name


def test_an_execution_over_the_limit_a_minute_is_refused_at_once_and_counted_once(keyed):
    bound, _ = keyed("--executions-per-minute", "3")
    assert bound.put(at("s"), {}).status == 200
    started = [bound.post(at("s", "executions"), {"code": "print(1)"}) for _ in range(3)]
    assert [answer.status for answer in started] == [201] * 3
    assert refused(bound.post(at("s", "executions"), {"code": "print(1)"})) and refused(bound.post(at("s", "exec"), {"cmd": ["true"]}))
    for answer in started:
        assert bound.get(at("s", f"executions/{answer.json['id']}?wait=30")).json["status"] == "completed"
    assert len(bound.get(at("s", "executions")).json["executions"]) == 3, "one that was refused is in no list"


def test_no_more_at_once_than_the_key_allows_the_rest_waits(keyed):
    bound, free = keyed("--concurrent-executions", "1")
    for tenant in (bound, free):
        assert tenant.put(at("s"), {}).status == 200
    ends = []

    def run():
        assert bound.post(at("s", "exec"), {"cmd": ["sh", "-c", "mkdir one || echo two at once; sleep 0.3; rmdir one"]}).json["stdout"] == ""
        ends.append(time.monotonic())

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert free.post(at("s", "exec"), {"cmd": ["true"]}).status == 200
    for thread in threads:
        thread.join()
    assert len(ends) == 3 and wait_until(lambda: bound.delete(at("s")).status in (204, 404), 5)
