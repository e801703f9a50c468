"""Which sessions are forked from one interpreter: those of one tenant, unless the operator said everyone's."""
import pytest

from conftest import leaving_nothing, wait_until
from hostile import make_key
from newborns import ONE_WEIGHT, zygotes
from server import Server

MAX_GROUPS = 8  # src/keeper/zygote_groups.cpp


def seeds(server, key, count=2):
    """hash() of a word in so many runs: equal where they were forked from one interpreter."""
    def one():
        answer = server.post("/v1/execute", {"code": "hash('a word')", "timeout_ms": 20000}, headers={"Authorization": f"Bearer {key}"})
        assert answer.status == 200, answer
        return answer.json["stdout"]
    return [one() for _ in range(count)]


def settled(server, key):
    """The seed of a tenant whose interpreter is warm: before that every run starts one of its own."""
    last = []

    def equal():
        last[:] = seeds(server, key)
        return last[0] == last[1]
    assert wait_until(equal, 40), last
    return last[0]


@pytest.mark.parametrize("sharing", ["tenant", "everyone"])
def test_ZY_01_what_tenants_share(sharing):
    server = Server("--drain", "1s", ONE_WEIGHT, f"--python-zygotes={sharing}", warm=True)
    with leaving_nothing():
        keys = {tenant: make_key(server, tenant)["key"] for tenant in ("one", "two")}
        try:
            server.start()
            one, two = settled(server, keys["one"]), settled(server, keys["two"])
            assert (one == two) == (sharing == "everyone")
            # And it stays so.
            assert seeds(server, keys["one"]) == [one, one]
        finally:
            server.close()


def test_more_tenants_than_there_are_lines_start_cold_and_no_worse():
    server = Server("--drain", "1s", ONE_WEIGHT, warm=True)
    with leaving_nothing():
        keys = [make_key(server, f"t{number}")["key"] for number in range(10)]
        try:
            server.start()
            for key in keys:
                assert seeds(server, key, 1)[0].strip().lstrip("-").isdigit()
            # The common line, and seven of the ten.
            assert wait_until(lambda: len(zygotes(server)) == MAX_GROUPS, 20), zygotes(server)
            assert seeds(server, keys[-1])[0] != seeds(server, keys[-1])[0], "the last one has an interpreter of its own for every run"
            assert settled(server, keys[0])
            assert len(zygotes(server)) == MAX_GROUPS
        finally:
            server.close()
