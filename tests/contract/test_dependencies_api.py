"""Packages in a sandbox: `…/dependencies` of docs/api.md, from a stand-in index on this machine."""
import threading

import pytest
from conftest import wait_until
from receiver import Stand, index_page, wheel
from server import Server, at, new_id

HELLO = wheel("cove-hello", "1.0", "VALUE = 'one'\n", requires=["cove-base>=1"])
HELLO2 = wheel("cove-hello", "2.0", "VALUE = 'two'\n")
BASE = wheel("cove-base", "1.5", "VALUE = 'base'\n")
SLOW = wheel("cove-slow", "1.0", "VALUE = 'slow'\n")
AWAY = wheel("cove-away", "1.0", "VALUE = 'away'\n")
INSIDE, METADATA = wheel("cove-inside", "1.0", ""), wheel("cove-metadata", "1.0", "")
BAD = wheel("cove-bad", "1.0", "VALUE = 'bad'\n")


class Index:
    """A well-kept index, with some pages that are not."""

    def __init__(self):
        self.go = threading.Event()
        self.files = Stand(lambda request: request.reply(200, AWAY[1]))  # another host, which pages lead to
        self.stand = Stand(self.answer)
        self.other = Stand(lambda request: request.reply(200, b"secret"))  # nobody's business

    def answer(self, request):
        pages = {
            "cove-hello": index_page(HELLO, HELLO2), "cove-base": index_page(BASE), "cove-slow": index_page(SLOW),
            "cove-away": index_page(AWAY, prefix=self.files.url("/deep/")), "cove-inside": index_page(INSIDE, prefix=self.other.url("/")),
            "cove-bad": index_page((BAD[0], b"other bytes")), "cove-metadata": index_page(METADATA, prefix="http://169.254.169.254/latest/"), "cove-odd": b"\xff<a href='x.whl' <a <a href=\"", "cove-sdist": b"<a href='/files/cove_sdist-1.0.tar.gz'>x</a>",
        }
        files = dict([HELLO, HELLO2, BASE, SLOW, BAD])
        name = request.path.rstrip("/").rpartition("/")[2]
        if request.path.startswith("/simple/cove-moved/"):
            request.reply(302, Location=self.other.url("/simple/cove-moved/"))
        elif request.path.startswith("/simple/cove-endless/"):
            self.endless(request)
        elif request.path.startswith("/simple/") and name in pages:
            request.reply(200, pages[name], Content_Type="text/html")
        elif request.path.startswith("/files/") and name in files:
            if name == SLOW[0]:
                self.go.wait(30)
            request.reply(200, files[name])
        else:
            request.reply(404)

    @staticmethod
    def endless(request):
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b"<a href='x.whl'>" * 4096)


@pytest.fixture(scope="module")
def index():
    made = Index()
    with made.stand, made.files, made.other:
        yield made
        made.go.set()


@pytest.fixture(scope="module")
def server(index):
    with Server(f"--dependencies-index={index.stand.url('/simple')}", f"--dependencies-allow={index.files.place}", "--drain", "2s", warm=True) as running:
        yield running


@pytest.fixture
def box(server):
    name = server.create(ttlSeconds=600, memoryLimit="1Gi", pidsLimit=128)
    yield name
    server.delete(at(name))


def settled(server, box, patience=60):
    def over():
        status = server.get(at(box, "dependencies")).json
        return status if status["status"] not in ("pending", "installing") else None
    status = wait_until(over, patience)
    assert status, server.get(at(box, "dependencies")).json
    return status


def install(server, box, *packages, **fields):
    answer = server.post(at(box, "dependencies"), {"packages": list(packages), **fields})
    assert answer.status == 202 and answer.json["status"] in ("pending", "installing"), answer
    return settled(server, box)


def versions(status):
    return {one["name"]: one["version"] for one in status["installed"]}


def value(server, box, module="cove_hello"):
    return server.out(box, f"python3 -c 'import {module}; print({module}.VALUE)'").strip()


def test_packages_and_what_they_need_are_installed_for_every_kind_of_python(server, box):
    assert server.get(at(box, "dependencies")).json == {"status": "none", "requested": [], "installed": []}
    kernel = server.post(at(box, "kernels"), {}).json["id"]
    status = install(server, box, {"name": "Cove.Hello", "version": "1.0"})
    assert status["status"] == "completed" and status["error"] is None and status["startedAt"] <= status["completedAt"], status
    assert versions(status) == {"cove-hello": "1.0", "cove-base": "1.5"} and all("/site-packages" in one["location"] for one in status["installed"])
    assert status["requested"] == [{"name": "Cove.Hello", "version": "1.0"}]
    assert value(server, box) == "one", "a cold program"
    run = server.post(at(box, f"kernels/{kernel}/execute"), {"code": "import cove_hello; cove_hello.VALUE"}).json
    assert run["outputs"][0]["data"]["text/plain"] == "'one'", "a kernel that was there before"
    eid = server.post(at(box, "executions"), {"code": "import cove_base\ndef handler(event): return cove_base.VALUE", "event": {}}).json["id"]
    assert server.get(at(box, f"executions/{eid}?wait=30")).json["returnValue"] == "base"
    # Asked again: merged by name, the newer word counts.
    status = install(server, box, {"name": "cove_hello", "version": ">=2"})
    assert status["requested"] == [{"name": "cove_hello", "version": ">=2"}] and versions(status)["cove-hello"] == "2.0" and value(server, box) == "two"
    assert server.get(at(box)).json["dependencies"]["status"] == "completed"


def test_at_creation_it_is_answered_at_once(server):
    box = new_id()
    made = server.put(at(box), {"dependencies": ["cove-base"], "installTimeoutSeconds": 60, "memoryLimit": "1Gi", "pidsLimit": 128})
    assert made.status == 200 and made.json["state"] == "running"
    assert versions(settled(server, box)) == {"cove-base": "1.5"}
    assert server.put(at(box), {"dependencies": ["cove-hello"]}).status == 200 and versions(settled(server, box)) == {"cove-base": "1.5"}, "one that is there is kept as it is"
    server.delete(at(box))
    assert server.put(at(box), {"dependencies": ["../x"]}).status == 400 and server.get(at(box)).status == 404


def test_one_at_a_time_and_links_to_other_hosts(server, box, index):
    assert server.post(at(box, "dependencies"), {"packages": ["cove-slow"]}).status == 202
    assert wait_until(lambda: any(SLOW[0] in one.path for one in index.stand.came), 30)
    busy = server.post(at(box, "dependencies"), {"packages": ["cove-base"]})
    assert busy.status == 409 and busy.code == "conflict"
    index.go.set()
    assert settled(server, box)["status"] == "completed"
    # A host that the page names, and the operator allows because its address is private.
    assert install(server, box, "cove-away")["status"] == "completed" and value(server, box, "cove_away") == "away"
    assert index.files.came


@pytest.mark.parametrize("name,said", [
    ("cove-inside", "no public address"), ("cove-moved", "no public address"), ("cove-metadata", "no public address"), ("cove-endless", "larger than"), ("cove-none", "answered 404"), ("cove-odd", ""), ("cove-sdist", ""), ("cove-bad", ""),
])
def test_an_index_that_lies(server, box, index, name, said):
    status = install(server, box, name)
    assert status["status"] == "failed" and said in status["error"] and status["output"], status
    assert not index.other.came and versions(status) == {}


def test_an_index_of_the_callers(server, box, index):
    for url in (index.other.url("/simple"), "http://169.254.169.254/", "http://[::1]:80/", "ftp://h/", "http://u:p@h/", "x", "http://127.1/"):
        refused = server.post(at(box, "dependencies"), {"packages": ["cove-base"], "indexUrl": url})
        assert refused.status == 400 and "indexUrl" in refused.json["error"], refused
    inside = install(server, box, "cove-base", indexUrl=f"http://localhost:{index.other.server_address[1]}/simple")
    assert inside["status"] == "failed" and "no public address" in inside["error"] and not index.other.came
    assert install(server, box, "cove-base", indexUrl=index.stand.url("/simple/"))["status"] == "completed"


@pytest.mark.parametrize("packages", [[], "x", None, [1], [{}], [{"name": "x", "version": 1}], ["x==1"], ["--index-url=http://h"], ["-r"], ["./x"], ["/etc/x"], ["https://h/x.whl"], ["x @ file:///x"], ["x[y]"], [{"name": "x", "version": "1 --pre"}], ["a"] * 51])
def test_what_is_no_package_is_refused(server, box, packages):
    answer = server.post(at(box, "dependencies"), {"packages": packages})
    assert answer.status == 400 and ("packages" in answer.json["error"] or "version" in answer.json["error"]), answer


def test_what_a_hostile_program_gets_of_the_way_out(server, box, index):
    """It can ask for what pip can ask for: pages of that index and the wheels they name. It holds up nobody but its own install."""
    index.go.clear()
    before = len(index.stand.came)
    assert server.post(at(box, "dependencies"), {"packages": ["cove-slow"]}).status == 202
    assert wait_until(lambda: any(SLOW[0] in one.path for one in index.stand.came[before:]), 30)
    probe = """
import json, socket, sys
ports = [int(line.split()[1].split(":")[1], 16) for line in open("/proc/self/net/tcp").readlines()[1:] if line.split()[3] == "0A"]
def ask(head):
    with socket.create_connection(("127.0.0.1", ports[0]), 5) as s:
        s.sendall(head)
        return s.recv(100).decode().split(" ")[1]
idle = [socket.create_connection(("127.0.0.1", ports[0]), 5) for _ in range(8)]
open("ready", "w").close()
wanted = ["/", "/index/", "/index/../admin/", "/index/cove-none/", "/index/x%2f..%2fadmin/", "/files/0/../../x", "/files/99/x.whl", "/files/-1/x", "http://" + sys.argv[1] + "/", "//" + sys.argv[1] + "/"]
print(json.dumps({path: ask(f"GET {path} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n".encode()) for path in wanted}), ask(b"CONNECT " + sys.argv[1].encode() + b" HTTP/1.1\\r\\n\\r\\n"))
"""
    process = server.start_process(box, "python3", "-c", probe, index.other.place)
    assert wait_until(lambda: server.sh(box, "test -e ready")["exitCode"] == 0)
    index.go.set()
    ended = server.ended(box, process["id"], 40)
    assert ended["exitCode"] == 0, server.output(box, process["id"], "stderr")
    said = server.output(box, process["id"])
    assert '"/index/cove-none/": "404"' in said and "200" not in said and said.rstrip().endswith("501"), said
    assert settled(server, box)["status"] == "completed"
    assert not index.other.came and {one.path for one in index.stand.came[before:]} <= {"/simple/cove-slow/", f"/files/{SLOW[0]}", "/simple/cove-none/"}
    assert server.out(box, "python3 -c 'print(sum(line.split()[3] == \"0A\" for line in open(\"/proc/self/net/tcp\").readlines()[1:]))'") == "0\n", "the way is closed when the install has ended"


def test_its_time_is_limited_and_a_restart_is_told(index):
    index.go.clear()
    with Server(f"--dependencies-index={index.stand.url('/simple')}", "--on-exit", "keep") as server:
        box = server.create(memoryLimit="1Gi", pidsLimit=128)
        late = install(server, box, "cove-slow", timeoutSeconds=2)
        assert late["status"] == "failed" and "timeout" in late["error"]
        before = len(index.stand.came)
        assert server.post(at(box, "dependencies"), {"packages": ["cove-slow"]}).status == 202
        assert wait_until(lambda: len(index.stand.came) > before, 30)
        server.restart()
        lost = server.get(at(box, "dependencies")).json
        assert lost["status"] == "failed" and "server ended" in lost["error"]
        index.go.set()
        assert install(server, box, "cove-base")["status"] == "completed"
    with Server() as server:
        box = server.create()
        none = server.post(at(box, "dependencies"), {"packages": ["x"]})
        assert none.status == 400 and none.json["error"].startswith("indexUrl must be given") and "dependencies.index" in none.json["error"]
