"""Light zygotes: which programs are born from them, and what these may rely on. With COVE_TEST_LIGHT=1 the tests of zygotes (test_zygote.py, test_zygote_groups.py,
tests/security/test_zygote_attacks.py) are of light ones too."""
import json
import os
import signal

import pytest

from conftest import leaving_nothing, wait_until
from hostile import make_key
from newborns import WARM, Program, kill, serves, zygotes
from server import Server

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the zygote is reached from the host as root")

WHERE = "import sys\nprint(b'--light' in open('/proc/self/cmdline', 'rb').read(), [name for name in ('numpy', 'pandas', 'IPython') if name in sys.modules])\n"


@pytest.fixture(scope="module", params=[0, 2], ids=["born when asked for", "from the pool"])
def server(request):
    with leaving_nothing(), Server("--drain", "1s", f"--pool-size={request.param}", warm=True) as found:
        assert wait_until(lambda: "'pandas'" in Program(found, WHERE + "import pandas").out, WARM)
        lighten(found)
        yield found


def lighten(server):
    """Returns when the light zygote serves: the first program that wants one has it started, and is born from the other."""
    assert wait_until(lambda: Program(server, WHERE).out == "True ['numpy']\n", WARM), Program(server, WHERE).out


def test_a_program_that_imports_little_is_born_from_a_light_zygote(server):
    assert Program(server, WHERE).out == "True ['numpy']\n"
    assert Program(server, WHERE + "import numpy, math\nprint(numpy.arange(4).sum(), math.tau > 6)").out == "True ['numpy']\n6 True\n"


def test_one_that_names_another_module_finds_it_loaded(server):
    told = Program(server, WHERE + "import pandas\nprint(pandas.DataFrame({'a': [1, 2]}).sum().a)").out
    assert told.startswith("False [") and "'pandas'" in told and told.endswith("\n3\n")
    # A module of its own may import anything.
    assert Program(server, WHERE + "import own", files=[("own.py", "x = 1")]).out.startswith("False [")


def test_one_that_hides_what_it_imports_runs_all_the_same(server):
    assert Program(server, WHERE + "exec('imp' 'ort pandas')\nprint(pandas.Series([1, 2]).sum())").out == "True ['numpy']\n3\n"


def test_ZY_02_no_two_light_programs_draw_the_same_numbers(server):
    code = "import json, random, secrets, uuid\nimport numpy\nprint(json.dumps([random.random(), str(uuid.uuid4()), secrets.token_hex(8), numpy.random.rand(), numpy.random.default_rng().random()]))"
    told = [json.loads(Program(server, code).out) for _ in range(8)]
    for drawn in zip(*told):
        assert len(set(drawn)) == len(told)


def test_without_its_zygote_a_program_is_born_from_the_full_one(server):
    assert wait_until(lambda: any(serves(pid) for pid in zygotes(server, light=True)), WARM)
    for pid in zygotes(server, light=True):
        kill(pid, signal.SIGKILL)
    assert [Program(server, "print(6 * 7)").out for _ in range(6)] == ["42\n"] * 6
    lighten(server)


def test_ZY_01_tenants_have_light_zygotes_of_their_own(tmp_path):
    server = Server("--drain", "1s", warm=True)
    with leaving_nothing():
        keys = [make_key(server, tenant)["key"] for tenant in ("one", "two")]
        try:
            server.start()

            def told(key):
                answer = server.post("/v1/execute", {"code": WHERE + "print(hash('a word'))", "timeout_ms": 20000}, headers={"Authorization": f"Bearer {key}"})
                return answer.json["stdout"].splitlines()

            def light(key):
                assert wait_until(lambda: told(key)[0] == "True ['numpy']", WARM)
                return told(key)[1]
            assert light(keys[0]) != light(keys[1])
        finally:
            server.close()


def test_an_operator_may_have_none():
    with leaving_nothing(), Server("--drain", "1s", "--pool-size=0", "--python-light=false", warm=True) as server:
        assert wait_until(lambda: "'pandas'" in Program(server, WHERE).out, WARM)
        assert zygotes(server, light=True) == []
