"""Interpreters that stand ready for tenants with keys: each for one tenant alone, and as many as the bound for all of them allows."""
import re
import time

import pytest

from conftest import leaving_nothing, wait_until
from hostile import make_key
from server import Server

BOUND = 4


def pooled(server, kind="execute"):
    """What the metrics say of the shelves of tenants: {what: number}."""
    text = server.get("/metrics", headers={"Authorization": f"Bearer {server.operator}"}).body.decode()
    return {what: float(value) for what, value in re.findall(rf'^cove_pool_tenant_(\w+)\{{kind="{kind}"\}} (\S+)$', text, re.M)}


def seed(server, key):
    """hash() of a word: equal in all that were forked from one interpreter."""
    answer = server.post("/v1/execute", {"code": "print(hash('a word'))", "timeout_ms": 20000}, headers={"Authorization": f"Bearer {key}"})
    assert answer.status == 200, answer
    return answer.json["stdout"]


def ready(server, key):
    """Until an interpreter waits for this tenant."""
    def asked():
        before = pooled(server)["hits_total"]
        seed(server, key)
        return pooled(server)["hits_total"] > before
    assert wait_until(asked, 60), pooled(server)


@pytest.fixture
def world():
    server = Server("--drain", "1s", "--pool-size=2", f"--pool-tenant-interpreters={BOUND}", "--pool-tenant-idle=6s", warm=True)
    with leaving_nothing():
        keys = [make_key(server, f"t{number}")["key"] for number in range(5)]
        server.operator = make_key(server, "ops", "--operator")["key"]
        try:
            server.start()
            yield server, keys
        finally:
            server.close()


def test_ZY_01_tenants_take_interpreters_of_their_own_from_the_pool(world):
    server, keys = world
    for key in keys[:2]:
        ready(server, key)
    seeds = [set(), set()]
    before = pooled(server)
    for _ in range(6):
        for seen, key in zip(seeds, keys[:2]):
            assert wait_until(lambda: pooled(server)["ready"] > 0, 20)
            seen.add(seed(server, key))
    after = pooled(server)
    assert after["hits_total"] - before["hits_total"] >= 6, (before, after)
    # Each has the one zygote of its own, or two when it was replaced meanwhile.
    assert seeds[0].isdisjoint(seeds[1]) and len(seeds[0]) <= 2 and len(seeds[1]) <= 2, seeds
    common = {server.post("/v1/execute", {"code": "print(hash('a word'))"}, headers={"Authorization": f"Bearer {keys[4]}"}).json["stdout"] for _ in range(2)}
    assert common.isdisjoint(seeds[0] | seeds[1])


def test_the_bound_holds_with_many_tenants_and_the_last_to_ask_have_theirs(world):
    server, keys = world
    for _ in range(2):
        for key in keys:
            ready(server, key)
            assert sum(pooled(server, kind)["ready"] for kind in ("sandbox", "session", "execute", "execute_full", "handler")) <= BOUND
    assert wait_until(lambda: pooled(server)["ready"] == BOUND, 20), pooled(server)
    before = pooled(server)["hits_total"]
    seed(server, keys[-1])
    assert pooled(server)["hits_total"] == before + 1


def test_what_a_tenant_does_not_ask_for_is_given_back(world):
    server, keys = world
    ready(server, keys[0])
    assert wait_until(lambda: pooled(server)["ready"] > 0, 10)
    time.sleep(6)
    assert wait_until(lambda: pooled(server)["ready"] == 0, 10), pooled(server)
    ready(server, keys[0])
