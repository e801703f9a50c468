"""cove executions and cove install."""
import json

import pytest
from conftest import cove, wait_until
from receiver import Stand, index_page, wheel
from server import Server, at

WHEEL = wheel("cove-hello", "1.0", "VALUE = 'one'\n")


@pytest.fixture(scope="module")
def index():
    pages = {"/simple/cove-hello/": index_page(WHEEL), f"/files/{WHEEL[0]}": WHEEL[1]}
    with Stand(lambda request: request.reply(200 if request.path in pages else 404, pages.get(request.path, b""))) as stand:
        yield stand


@pytest.fixture(scope="module")
def server(index):
    with Server(f"--dependencies-index={index.url('/simple')}", "--drain", "2s") as running:
        yield running


def test_an_execution_from_its_beginning_to_its_end(cli, sandbox, workdir):
    program = workdir / "program.py"
    program.write_text("import sys, os\nprint('out', sys.argv[1:], os.environ['A'])\nprint('err', file=sys.stderr)\nsys.exit(3)")
    made = cli("executions", "submit", sandbox, program, "--arg", "a b", "--env", "A=1", "--timeout", "20s")
    eid = made.out.strip()
    assert made.status == 0 and eid.startswith("x")
    got = cli("executions", "get", sandbox, eid, "--wait")
    assert (got.status, got.out) == (0, "out ['a b'] 1\n") and got.err.startswith("err\n") and "failed, exit code 3" in got.err
    handler = cli("executions", "submit", sandbox, "--event", '{"n": 1}', stdin=b"def handler(event): return event['n'] + 1").out.strip()
    assert json.loads(cli("executions", "get", "--json", "--wait", sandbox, handler).stdout)["returnValue"] == 2
    assert cli("executions", "get", sandbox, handler).out == "2\n"
    sleeper = cli("executions", "submit", sandbox, "--lang", "sh", "-c", "sleep 60").out.strip()
    assert cli("executions", "cancel", sandbox, sleeper).status == 0
    table = cli("executions", "ls", sandbox).out
    assert [line.split()[:2] for line in table.splitlines()[1:]] == [[sleeper, "cancelled"], [handler, "completed"], [eid, "failed"]]
    assert [one["id"] for one in json.loads(cli("executions", "ls", "--json", "--status", "failed", sandbox).stdout)["executions"]] == [eid]
    assert cli("executions", "get", sandbox, "xnone").status == 1 and cli("executions", "submit", sandbox, "--event", "{", "-c", "1").status == 1
    assert cli("executions", "submit", sandbox, "-c", "1", "--secret", "x").status == 1 and b"cove executions submit" in cli("executions", "submit", "--help").stdout


def test_install(cli, server):
    sandbox = server.create(memoryLimit="1Gi", pidsLimit=128)
    done = cli("install", sandbox, "cove-hello==1.0")
    assert (done.status, done.out) == (0, "cove-hello 1.0\n"), done.err
    assert server.out(sandbox, "python3 -c 'import cove_hello; print(cove_hello.VALUE)'") == "one\n"
    failed = cli("install", "--json", sandbox, "cove-none")
    assert failed.status == 1 and failed.result["status"] == "failed" and "404" in failed.result["error"]
    assert cli("install", sandbox, "cove-none").err.rstrip().endswith("the index answered 404 for cove-none")
    assert cli("install", sandbox, "../x").status == 1


def test_without_an_index_install_names_its_flag_and_the_setting():
    with Server("--drain", "2s") as server:
        done = cove("install", server.create(), "six", env={"COVE_URL": f"http://127.0.0.1:{server.port}"})
        assert done.status == 1 and "--index must be given" in done.err and "dependencies.index" in done.err and "indexUrl" not in done.err


def test_the_public_index_is_the_one_that_pip_names():
    with Server("--dependencies-index=public", "--drain", "2s") as server:
        # Nothing is fetched: the install is refused for its name.
        assert server.post(at(server.create(), "dependencies"), {"packages": ["../x"]}).status == 400
    # Rewritten when it is read, so that a wrong one is refused at the start.
    refused = cove("serve", "--listen", "127.0.0.1:0", "--dependencies-index=privat")
    assert refused.status != 0 and 'neither "public" nor an http or https URL' in refused.err


def test_output_so_far_and_output_as_it_comes(cli, sandbox):
    eid = cli("executions", "submit", sandbox, "--lang", "sh", "-c", "echo first; sleep 3; echo last").out.strip()
    assert wait_until(lambda: cli("executions", "get", sandbox, eid).out.startswith("first\n"))
    assert "running" in cli("executions", "get", sandbox, eid).err or "completed" in cli("executions", "get", sandbox, eid).err
    followed = cli("executions", "get", "-f", sandbox, eid)
    assert followed.out == "first\nlast\n" and "completed, exit code 0" in followed.err
