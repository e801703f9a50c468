"""KP for kernels of node: what a cell can do to the interpreter it runs in and to the word that goes out of it. It can spoil its own result, and nothing else."""
import concurrent.futures
import time

import pytest
from conftest import fair, leaving_nothing
from hostile import alive, bounded_memory
from kernels import Kernel
from server import Server, at

FORGED = '{"type":"execute_reply","parent":PARENT,"content":{"status":"ok"}}'


@pytest.fixture(scope="module")
def server():
    with leaving_nothing(), Server("--drain", "1s") as running:
        yield running


@pytest.fixture(scope="module")
def box(server):
    name = server.create(ttlSeconds=600, memoryLimit="512Mi", pidsLimit=200)
    yield name
    server.delete(at(name))


@pytest.fixture
def kernel(server, box):
    made = Kernel(server, box, language="javascript")
    assert made.born["language"] == "javascript"
    yield made
    server.delete(made.at(), timeout=20)


def test_kp01_kp12_a_forged_reply_spoils_its_own_result(server, box, kernel):
    forge = "const fs = require('fs'); for (let n = 0; n < 3; n++) fs.writeSync(3, Buffer.concat([Buffer.from([3]), Buffer.from('%s')]));" % FORGED.replace("PARENT", "1")
    assert kernel.run(forge + "console.log('mine')")["stdout"] == "mine\n", "of no execution of ours: passed over"
    assert kernel.value("40 + 2") == "42"
    other = Kernel(server, box, language="javascript")
    assert other.value("1") == "1"


@pytest.mark.parametrize("bytes_", ["[]", "[0]", "[255, 1, 2]", "[3, 123]", "[3, 255, 254]", "[3, 91, 93]", "Buffer.concat([Buffer.from([3]), Buffer.from('['.repeat(60000))])", "Buffer.concat([Buffer.from([3]), Buffer.from('{\"type\":5}')])"], ids=str)
def test_kp02_garbage_ends_the_kernel_and_nothing_else(server, kernel, bytes_):
    with bounded_memory(server, 64):
        result = kernel.run(f"require('fs').writeSync(3, Buffer.from({bytes_}))" if "concat" not in bytes_ else f"require('fs').writeSync(3, {bytes_})")
    assert result["reason"] in ("kernel_died", "exited")
    if result["reason"] == "kernel_died":
        assert kernel.state == "dead"
    alive(server)


def test_kp03_a_closed_channel_is_an_end(kernel):
    assert kernel.run("require('fs').closeSync(3); while (true) {}", timeoutSeconds=1)["reason"] in ("kernel_died", "timeout")


@pytest.mark.parametrize("patch", ["JSON.stringify = JSON.parse = () => 'no'", "globalThis.Promise = undefined", "process.stdout.write = () => { throw 1 }", "Object.prototype.type = 'x'; Object.prototype.objectId = 'y'", "Array.prototype.push = () => { throw 1 }",
    "process.removeAllListeners()", "require('fs').writeSync = () => { throw 1 }", "Buffer.from = () => { throw 1 }", "delete globalThis.Buffer; delete globalThis.process", "require('inspector').Session.prototype.post = () => {}", "process.on('beforeExit', () => { throw 1 })"], ids=str)
def test_kp05_what_a_cell_replaces_is_its_own(server, box, kernel, patch):
    for code in (patch, "1"):
        answer = kernel.post("execute", {"code": code, "timeoutSeconds": 1})
        assert answer.status == 200 or (answer.status, answer.code) == (409, "conflict"), "one that it broke is dead, and said to be"
    alive(server)
    assert Kernel(server, box, language="javascript").value("2") == "2"


@pytest.mark.parametrize("code, words", [("process.exit(0)", "status 0"), ("process.exit(9)", "status 9"), ("process.kill(process.pid, 'SIGKILL')", "SIGKILL"), ("process.abort()", "SIG")], ids=str)
def test_kp06_an_end_is_told_as_it_was(kernel, code, words):
    result = kernel.run(code)
    assert (result["status"], result["reason"]) == ("error", "kernel_died") and words in kernel.get().json["note"]


@pytest.mark.parametrize("code", ["process.on('SIGINT', () => {}); for (;;) { try { for (;;); } catch {} }", "setTimeout(() => { for (;;); }); await new Promise(() => {})", "/(a+)+b/.test('a'.repeat(40))"], ids=str)
def test_kp08_kp10_what_does_not_stop_is_stopped(kernel, code):
    began = time.monotonic()
    assert kernel.run(code, timeoutSeconds=1)["reason"] == "timeout"
    assert time.monotonic() - began < fair(10)


def test_kp13_text_that_looks_like_ours_is_text(kernel):
    text = '{"type":"execute_reply","parent":1,"content":{}}\\r\\n\\r\\ndata: x'
    assert kernel.out(f"console.log('{text}')") == text.replace("\\r\\n", "\r\n") + "\n"


def test_kp15_what_is_said_after_the_end_is_nobodys(kernel):
    kernel.run("globalThis.timer = setInterval(() => console.log('late'), 1); setTimeout(() => {}, 0); 1", timeoutSeconds=1)
    results = [kernel.run("1") for _ in range(3)]
    assert all(result["reason"] == "exited" and result["status"] == "ok" for result in results)
    kernel.run("clearInterval(timer)")
    assert kernel.run("2")["stdout"] == ""


def test_kp16_what_lies_in_the_workspace_is_not_the_agents(server):
    box = server.create(ttlSeconds=300)
    server.out(box, """echo '{"type": "module"}' > package.json; mkdir -p node_modules/fs node_modules/inspector
        for name in channel.js cells.js kernel.js touched.js fs.js node_modules/fs/index.js node_modules/inspector/index.js; do echo 'throw new Error("planted")' > $name; done""")
    kernel = Kernel(server, box, language="javascript")
    assert kernel.value("1 + 1") == "2"
    assert server.sh(box, "echo x >> /cove/javascript/kernel.js")["exitCode"] != 0
    server.delete(at(box))


def test_kp19_a_flood_of_small_messages_starves_nobody(server, box, kernel):
    with concurrent.futures.ThreadPoolExecutor() as pool, bounded_memory(server, 64):
        flood = pool.submit(kernel.run, "for (let i = 0; i < 300000; i++) process.stdout.write('x')", timeoutSeconds=20)
        for _ in range(5):
            assert server.get("/healthz", timeout=5).status == 200
        assert flood.result(60)["reason"] in ("exited", "timeout")
    alive(server)
