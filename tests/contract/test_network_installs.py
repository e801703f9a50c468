"""pip and npm inside a sandbox, through an allowed name, from an index and a registry on this machine; and what they say when that name is not allowed."""
import hashlib
import io
import json
import shutil
import tarfile
import time

import pytest
from names import NameServer
from receiver import Stand, index_page, wheel
from server import Server

HELLO = wheel("cove-hello", "1.0", "VALUE = 'from the index'\n")


def package(name, version, code):
    """The bytes of a package of npm."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in (("package/package.json", json.dumps({"name": name, "version": version, "main": "index.js"})), ("package/index.js", code)):
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


TARBALL = package("left-hello", "1.0.0", "module.exports = 'from the registry'\n")


def answer(request):
    name = request.path.rstrip("/").rpartition("/")[2]
    if request.path.startswith("/simple/") and name == "cove-hello":
        request.reply(200, index_page(HELLO), Content_Type="text/html")
    elif request.path.startswith("/files/") and name == HELLO[0]:
        request.reply(200, HELLO[1])
    elif request.path == "/left-hello":
        port = request.server.server_address[1]
        dist = {"tarball": f"http://index.test:{port}/left-hello.tgz", "shasum": hashlib.sha1(TARBALL).hexdigest()}
        request.reply(200, json.dumps({"name": "left-hello", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "left-hello", "version": "1.0.0", "dist": dist}}}).encode(), Content_Type="application/json")
    elif request.path == "/left-hello.tgz":
        request.reply(200, TARBALL)
    else:
        request.reply(404)


@pytest.fixture(scope="module")
def index():
    with Stand(answer) as stand:
        yield stand


@pytest.fixture(scope="module")
def served():
    with NameServer(index_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names, Server("--resolver", names.address) as server:
        yield server


@pytest.fixture(scope="module")
def port(index):
    return index.server_address[1]


@pytest.fixture(scope="module")
def box(served, port):
    return served.create(network={"allow": [f"index.test:{port}", f"127.0.0.1:{port}"]}, memoryLimit="1Gi")


def sh(server, box, script):
    return server.exec(box, "sh", "-c", script, timeoutSeconds=120)


def test_pip_installs_from_an_allowed_index(served, box, port):
    done = sh(served, box, f"pip install -q --index-url http://index.test:{port}/simple --trusted-host index.test cove-hello && python3 -c 'import cove_hello; print(cove_hello.VALUE)'")
    assert done["stdout"].strip() == "from the index", done
    assert "policy" not in done["stderr"], done


def test_pip_through_the_proxy_too(served, box, port):
    done = sh(served, box, f"pip download -q -d /tmp/got --no-deps --proxy http://127.0.0.1:3128 --index-url http://index.test:{port}/simple --trusted-host index.test cove-hello && ls /tmp/got")
    assert done["stdout"].strip() == HELLO[0], done


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_npm_installs_from_an_allowed_registry(served, box, port):
    done = sh(served, box, f"mkdir -p /workspace/n && cd /workspace/n && npm install --no-audit --no-fund --registry http://index.test:{port}/ left-hello && node -e 'console.log(require(\"left-hello\"))'")
    assert done["stdout"].strip().endswith("from the registry"), done
    assert "policy" not in done["stderr"], done


@pytest.mark.parametrize("command", ["pip install --index-url http://other.test:{}/simple cove-nothing", "pip install some-package",
                                     pytest.param("npm install --registry http://other.test:{}/ left-hello", marks=pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")),
                                     pytest.param("npm install left-hello", marks=pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm"))])
def test_who_is_refused_says_so_at_once(served, box, port, command):
    begun = time.monotonic()
    done = sh(served, box, "cd /tmp && " + command.format(port))
    assert time.monotonic() - begun < 20, done
    assert done["exitCode"] != 0 and "network policy of this sandbox: mode allow" in done["stderr"] and "cove network" in done["stderr"], done


def test_without_a_network_packages_come_as_ever(served):
    done = sh(served, served.create(), "pip install some-package")
    assert done["exitCode"] != 0 and "this sandbox has no network" in done["stderr"], done
