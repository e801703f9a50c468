"""cove up ipybox and cove down: a sandbox in the place of an ipybox container, its two ports, and binds that are copies."""
import asyncio
import os
import socket

import pytest
from conftest import wait_until
from ipybox_client import ExecutionClient
from resource_client import ResourceClient
from server import at, new_id


@pytest.fixture
def home(workdir):
    (workdir / "home").mkdir()
    return {"HOME": str(workdir / "home"), "XDG_STATE_HOME": ""}


@pytest.fixture
def up(cli, server, home):
    """up(…): `cove up ipybox --json …`; what it started is ended afterwards."""
    names = []

    def start(*words):
        run = cli("up", "ipybox", "--json", *words, env=home)
        assert run.status == 0, run.err
        told = run.result
        names.append(told["id"])
        return told
    yield start
    for name in names:
        server.delete(at(name))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_it_has_the_shape_of_a_container(up, server, cli, home):
    name = new_id()
    told = up("--name", name, "--env", "GREETING=hello", "--memory", "256M")
    assert told["id"] == name and told["workdir"] == "/app" and told["executorPort"] != told["resourcePort"]
    assert server.get(at(name)).json["limits"]["memoryBytes"] == 256 << 20
    for port in (told["executorPort"], told["resourcePort"]):
        ResourceClient(port, host="127.0.0.1").connect()
    client = ResourceClient(told["resourcePort"], host="127.0.0.1")
    client.send("POST", "/files/helpers/greet.py", b"import os\nword = os.environ['GREETING']\n")
    # Commands, programs and kernels start in /app, and find modules there from everywhere.
    assert server.exec(name, "bash", "-c", "pwd; cat helpers/greet.py | head -1")["stdout"] == "/app\nimport os\n"
    assert server.exec(name, "bash", "-c", "cd /tmp && python3 -c 'import helpers.greet as g; print(g.word, g.__file__)'")["stdout"] == "hello /app/helpers/greet.py\n"
    kernel = server.post(at(name, "kernels"), {}).json["id"]
    said = server.post(at(name, f"kernels/{kernel}/execute"), {"code": "import os; os.chdir('/app'); from helpers.greet import word\nprint(word, os.getcwd(), open('helpers/greet.py').readline())"}).json
    assert "hello /app import os" in said["stdout"], said
    assert client.get_module_sources(["helpers.greet"])["helpers.greet"].startswith("import os")
    assert cli("down", name, env=home).out == name + "\n"
    assert server.get(at(name)).status == 404
    assert wait_until(lambda: server.get("/v1/listeners").json == {"listeners": []})


def test_a_kernel_starts_in_app(up, server):
    name = up()["id"]
    kernel = server.post(at(name, "kernels"), {}).json["id"]
    assert server.post(at(name, f"kernels/{kernel}/execute"), {"code": "import os; print(os.getcwd())"}).json["stdout"] == "/app\n"


def test_it_says_how_to_connect(cli, server, home, workdir):
    name = new_id()
    (workdir / "data").mkdir()
    executor, resources = free_port(), free_port()
    run = cli("up", "ipybox", "--name", name, "--executor-port", str(executor), "--resource-port", str(resources), "--bind", f"{workdir}/data:in", env=home)
    assert run.status == 0, run.err
    assert run.out.splitlines() == [f"{name} works in /app", f"executor  ExecutionClient(port={executor})", f"resources ResourceClient(port={resources})",
                                    f"{workdir}/data was copied to /app/in; cove down copies changed files back", f"To end it: cove down {name}"]
    assert cli("down", name, env=home).out.splitlines() == [f"0 changed files copied back to {workdir}/data", name]


def test_binds_are_copied_in_and_what_changed_comes_back(up, server, cli, home, workdir):
    host = workdir / "host"
    (host / "sub").mkdir(parents=True)
    (host / "same").write_text("same")
    (host / "sub" / "changed").write_text("before")
    (host / "deleted").write_text("kept here")
    os.utime(host / "same", (1_000_000_000, 1_000_000_000))
    name = up("--bind", f"{host}:data/in", "--bind", f"{workdir}/missing/made:")["id"]
    assert (workdir / "missing" / "made").is_dir(), "a missing directory is created"
    server.exec(name, "bash", "-c", "cd data/in && echo -n after >sub/changed && mkdir -p new && echo -n new >new/file && rm deleted && ln -s same link; echo -n top >/app/top")
    down = cli("down", "--json", name, env=home)
    assert down.status == 0, down.err
    counts = {bind["host"]: bind["files"] for bind in down.result["copiedBack"]}
    assert counts[str(host)] == 2
    assert {str(path.relative_to(host)): path.read_text() for path in host.rglob("*") if path.is_file()} == {"same": "same", "sub/changed": "after", "deleted": "kept here", "new/file": "new"}
    assert (host / "same").stat().st_mtime == 1_000_000_000, "what is the same is not written"
    assert (workdir / "missing" / "made" / "top").read_text() == "top"
    assert server.get(at(name)).status == 404
    assert not list((workdir / "home" / ".local" / "state" / "cove" / "up").iterdir())


def test_what_is_remembered_of_another_sandbox_of_that_name_is_not_used(up, server, cli, home, workdir):
    name = new_id()
    up("--name", name, "--bind", f"{workdir}/host:data")
    server.delete(at(name))
    server.create(name, workdir="/app")
    server.exec(name, "bash", "-c", "mkdir -p /app/data; echo other >/app/data/file")
    assert cli("down", name, env=home).out == name + "\n"
    assert not list((workdir / "host").iterdir())


@pytest.mark.parametrize("words, reason", [
    (["docker"], "there is no kind 'docker': it must be ipybox"),
    (["ipybox", "--bind", "nocolon"], "--bind: 'nocolon' is not HOST:PATH"),
    (["ipybox", "--bind", "/tmp:/etc"], "must be relative to /app"),
    (["ipybox", "--bind", "/tmp:../etc"], "must be relative to /app"),
    (["ipybox", "--env", "nothing"], "--env"),
    (["ipybox", "--ttl", "soon"], "--ttl"),
    (["ipybox", "--memory", "much"], "--memory"),
])
def test_mistakes_are_told_and_nothing_is_started(cli, server, home, words, reason):
    before = server.get("/v1/sandboxes").json
    run = cli("up", *words, env=home)
    assert run.status == 1 and reason in run.err, run.err
    assert server.get("/v1/sandboxes").json == before


def test_a_port_that_is_taken_leaves_nothing_behind(cli, server, home):
    name = new_id()
    run = cli("up", "ipybox", "--name", name, "--resource-port", str(server.port), env=home)
    assert run.status == 1 and "--resource-port" in run.err and "in use" in run.err
    assert server.get(at(name)).status == 404
    assert wait_until(lambda: server.get("/v1/listeners").json == {"listeners": []})
    taken = server.create()
    run = cli("up", "ipybox", "--name", taken, env=home)
    assert run.status == 1 and "already exists" in run.err and server.get(at(taken)).status == 200
    assert cli("down", "nobody", env=home).status == 1
    server.delete(at(taken))


def test_the_executor_is_there_for_the_ipybox_client(up, server):
    told = up("--env", "GREETING=hello")
    files = ResourceClient(told["resourcePort"], host="127.0.0.1")
    files.send("POST", "/files/tools/word.py", b"word = 'from a module'\n")

    async def work():
        async with ExecutionClient(told["executorPort"]) as one, ExecutionClient(told["executorPort"]) as two:
            assert (await one.execute("import os; print(os.getcwd(), os.environ['GREETING'])"))[0] == "/app hello"
            assert (await one.execute("from tools.word import word; word"))[0] == "'from a module'"
            await one.execute("x = 1; open('made.txt', 'w').write('by a kernel')")
            assert (await two.execute("'x' in dir(), open('made.txt').read()"))[0] == "(False, 'by a kernel')"
    asyncio.run(work())
    assert files.send("GET", "/files/made.txt")[1] == b"by a kernel"
    assert {one["sandbox"] for one in server.get(f"/v1/sandboxes/{told['id']}/jupyter/api/kernels").json} <= {told["id"]}
