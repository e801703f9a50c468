"""execute_code over MCP: what it answers, in every part (contract part A and the cases of part D)."""
import base64
import concurrent.futures
import json
import time

import jsonschema
import pytest
from conftest import fair, new_marker, processes_with, wait_until
from mcp_client import Legacy, Modern
from server import Server, new_id

# Every tool, and answers for old and new clients at once; test_mcp_models.py has what a client of today gets.
SERVER_FLAGS = ("--mcp-profile=superset", "--mcp-all-tools=true")

PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = """
import os, struct, zlib
from IPython.display import Image, display

def png(side):
    rows = b"".join(b"\\0" + os.urandom(side * 3) for _ in range(side))
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
"""


@pytest.fixture(scope="module")
def client(server):
    return Legacy(server)


def run(client, code, language="python", **arguments):
    result = client.call("execute_code", {"language": language, "code": code, **arguments})
    if not result["isError"]:
        assert {"exit_code", "stdout", "stderr", "duration_ms", "timed_out", "session_id"} <= set(result["structuredContent"])
    return result


def ran(client, code, language="python", **arguments):
    """The structured content of a run that the server did its part of."""
    result = run(client, code, language, **arguments)
    assert result["isError"] is False, result
    return result["structuredContent"]


def lines(result, role=None):
    return [block["text"] for block in result["content"] if block.get("annotations", {}).get("streamed") and role in (None, block["annotations"]["role"])]


def block(result, **annotations):
    """The first block that has these annotations."""
    return next(one for one in result["content"] if annotations.items() <= one.get("annotations", {}).items())


def refused(client, **arguments):
    result = client.call("execute_code", arguments)
    assert result["isError"] is True and result["content"][0]["annotations"] == {"role": "error"}, result
    return result["content"][0]["text"]


# --- its form

def test_d1_the_answer_serves_both_generations(client):
    code = "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('three')"
    result = run(client, code, filename="hello")
    blocks = result["content"]
    assert blocks[0] == {"type": "text", "text": code, "mimeType": "text/x-python", "annotations": {"mime_type": "text/x-python"}}
    assert lines(result, "stdout") == ["one", "three"] and lines(result, "stderr") == ["two"]
    assert blocks[1]["annotations"] == {"role": "stdout", "streamed": True} and blocks[1]["_meta"] == {"cove/stream": "stdout", "cove/seq": 0}
    words, summary = blocks[-2:]
    assert words["annotations"] == {"final": True} and summary["annotations"] == {"role": "result", "final": True} and summary["mimeType"] == "application/json"
    first, second, *rest = words["text"].split("\n")
    assert first == "Exit code: 0" and second.startswith("Execution time: ") and second.endswith("s") and rest == ["File: hello.py", "Session: " + result["structuredContent"]["session_id"]]
    assert '"exit_code": 0' in summary["text"] and summary["text"].startswith('{\n  "')
    parsed = json.loads(summary["text"])
    assert (parsed["exit_code"], parsed["outputLines"], parsed["errorLines"]) == (0, 2, 1) and parsed["timestamp"].endswith("Z")
    structured = result["structuredContent"]
    assert structured["stdout"] == "one\nthree\n" and structured["stderr"] == "two\n" and structured["filename"] == "hello.py" and structured["language"] == "python"
    assert structured["files"] == [] and structured["truncated"] == {"stdout": False, "stderr": False} and structured["signal"] is None


def test_every_field_is_in_the_output_schema(client):
    tool = next(one for one in client.request("tools/list")["tools"] if one["name"] == "execute_code")
    assert set(tool["outputSchema"]["required"]) == {"exit_code", "stdout", "stderr", "duration_ms", "timed_out", "session_id"}
    validator = jsonschema.Draft202012Validator({**tool["outputSchema"], "additionalProperties": False})
    assert tool["annotations"] == {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False, "supportsStreaming": True}
    for code, language, more in [("1/0", "python", {}), ("open('a','w')", "python", {"filename": "x"}), (IMAGE + "display(Image(png(9)))", "python", {}), ("kill -9 $$", "bash", {}), ("printf '\\xff'", "bash", {})]:
        structured = ran(client, code, language, **more)
        validator.validate(structured)


@pytest.fixture(scope="module")
def profiles(server):  # which is to be ended after them, as it looks for what is left
    with Server("--mcp-profile=streaming", "--mcp-server-name=code-sandbox-mcp") as streaming, Server("--mcp-profile=batch") as batch:
        yield Legacy(streaming), Legacy(batch)


def test_a_profile_answers_as_one_generation_does(profiles):
    streaming, batch = profiles
    assert streaming.hello["serverInfo"]["name"] == "code-sandbox-mcp"
    script = "echo ' one'; echo two >&2; exit 3"
    first, *between, last = run(streaming, script, "bash")["content"]
    assert first == {"type": "text", "text": script, "mimeType": "application/x-sh"}
    assert sorted(between, key=lambda one: one["text"]) == [
        {"type": "text", "text": " one", "annotations": {"role": "stdout", "streamed": True}}, {"type": "text", "text": "two", "annotations": {"role": "stderr", "streamed": True}}]
    assert set(json.loads(last["text"])) == {"exit_code", "outputLines", "errorLines", "timestamp"} and last["annotations"] == {"role": "result", "final": True}
    assert json.loads(run(streaming, "kill -9 $$", "bash")["content"][-1]["text"])["exit_code"] is None
    code, out, err, words = run(batch, script, "bash", filename="x")["content"]
    assert code == {"type": "text", "text": script, "annotations": {"mime_type": "application/x-sh"}}
    assert (out, err) == ({"type": "text", "text": "one", "annotations": {"role": "stdout"}}, {"type": "text", "text": "two", "annotations": {"role": "stderr"}})
    assert words["annotations"] == {"final": True} and words["text"].startswith("Exit code: 3\nExecution time: ") and words["text"].endswith("s\nFile: x.sh")


def test_d20_an_old_client_is_told_of_files_in_words(server):
    old = Legacy(server, "2024-11-05")
    result = old.call("execute_code", {"language": "bash", "code": "echo 1 > made.csv"})
    assert "structuredContent" not in result and {one["type"] for one in result["content"]} == {"text"}
    assert any("workspace://" in one["text"] and "made.csv" in one["text"] for one in result["content"])


# --- arguments

@pytest.mark.parametrize("arguments, words", [
    ({"language": "python"}, "Missing required parameter: code"), ({"code": "1"}, "Missing required parameter: language"),
    ({"language": "cobol", "code": "1"}, "Unsupported language: cobol"), ({"language": "python", "code": 5}, "code must be a string"), ({"language": 5, "code": ""}, "language"),
    ({"language": "python", "code": "1", "filename": "../x"}, "filename"), ({"language": "python", "code": "1", "filename": "/etc/x"}, "filename"), ({"language": "python", "code": "1", "filename": "a/../../x"}, "filename"),
    ({"language": "python", "code": "1", "save": "yes"}, "save"), ({"language": "python", "code": "1", "timeout": "soon"}, "timeout"), ({"language": "python", "code": "1", "args": [1]}, "args"),
    ({"language": "python", "code": "1", "env": {"A=B": "1"}}, "env"), ({"language": "python", "code": "1", "session_id": 5}, "session_id"), ({"language": "python", "code": "1", "session_id": "a\nb"}, "session_id"),
    ({"language": "python", "code": "1", "files": [{"content": ""}]}, "files[0].path"), ({"language": "python", "code": "1", "files": [{"path": "../x", "content": ""}]}, "files[0].path"),
    ({"language": "python", "code": "1", "files": [{"path": "x", "content": "%%", "encoding": "base64"}]}, "files[0].content"), ({"language": "python", "code": "1", "files": [{"path": "x", "content": ""}] * 101}, "files")], ids=lambda value: value if isinstance(value, str) else "")
def test_d40_d53_a_wrong_argument_is_named(client, arguments, words):
    assert words in refused(client, **arguments)


def test_d42_others_are_ignored_and_no_code_is_code(client):
    structured = ran(client, "", colour="blue", session=None)
    assert (structured["exit_code"], structured["stdout"]) == (0, "")


def test_what_is_given_to_a_program(client):
    structured = ran(client, "import os, sys; print(sys.argv[1:], os.environ['A'], sys.stdin.read())", args=["x", "y z"], env={"A": "b"}, stdin="in")
    assert structured["stdout"] == "['x', 'y z'] b in\n"
    assert ran(client, 'read line; echo "$1 $line $A"', "bash", args=["one"], env={"A": "b"}, stdin="two\n")["stdout"] == "one two b\n"


# --- how it ends

@pytest.mark.parametrize("language, code, status, signal", [("bash", "exit 3", 3, None), ("bash", "kill -9 $$", 137, "SIGKILL"), ("bash", "kill -TERM $$", 143, "SIGTERM"), ("bash", "if", 2, None), ("python", "import sys; sys.exit(3)", 3, None), ("python", "import sys; sys.exit('bad')", 1, None), ("python", "def", 1, None), ("python", "import os, signal; os.kill(os.getpid(), 9)", 137, "SIGKILL"),
    ("javascript", "process.exit(3)", 3, None), ("javascript", "process.exitCode = 4", 4, None), ("javascript", "let = =", 1, None), ("ruby", "exit 3", 3, None)], ids=str)
def test_d43_an_end_is_no_error(client, language, code, status, signal):
    structured = ran(client, code, language, session_id=new_id())
    assert (structured["exit_code"], structured["signal"], structured["timed_out"]) == (status, signal, False), structured


@pytest.mark.parametrize("language, code, kept", [("bash", "echo before; exec -a {marker} sleep 60", None), ("python", "import time, sys; x = 5; print('before'); time.sleep(60)", "x"),
    ("python", "import subprocess\nprint('before', flush=True)\nsubprocess.run(['bash', '-c', 'exec -a {marker} sleep 60'])", None), ("javascript", "var x = 5; console.log('before'); while (true) {{}}", "x"),
    ("javascript", "var x = 5; console.log('before'); await new Promise((done) => setTimeout(done, 60000))", "x")], ids=str)
def test_d44_its_time_is_over(client, language, code, kept):
    marker, session = new_marker(), new_id()
    ran(client, "1" if language != "bash" else ":", language, session_id=session)
    began = time.monotonic()
    result = run(client, code.format(marker=marker), language, timeout=1, session_id=session)
    structured = result["structuredContent"]
    assert time.monotonic() - began < fair(10) and result["isError"] is False
    assert (structured["exit_code"], structured["timed_out"], structured["stdout"]) == (-1, True, "before\n")
    assert block(result, timeout=True)["text"] == "Execution timeout exceeded" and "Exit code: -1" in block(result, final=True)["text"]
    assert wait_until(lambda: not processes_with(marker))
    if kept:
        assert "variables are kept" in structured["note"]
        assert ran(client, kept, language, session_id=session)["stdout"] == "5\n"


@pytest.mark.parametrize("language, code", [("python", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"), ("javascript", "setTimeout(() => { while (true) {} })")], ids=str)
def test_an_interpreter_that_does_not_stop_is_killed_and_that_is_said(client, language, code):
    session = new_id()
    ran(client, "var x = 1" if language == "javascript" else "x = 1", language, session_id=session)
    structured = ran(client, code, language, timeout=0.5, session_id=session)
    assert structured["timed_out"] and "killed" in structured["note"]
    after = ran(client, "typeof x" if language == "javascript" else "'x' in globals()", language, session_id=session)
    assert after["stdout"] in ("'undefined'\n", "False\n") and "a new interpreter" in after["note"]
    assert "note" not in ran(client, "1", language, session_id=session), "said once"


def test_a_timeout_is_clamped(fresh_server):
    server = fresh_server("--exec-timeout=1s", "--exec-max-timeout=1s", env={"EXECUTION_TIMEOUT": "1"})
    client = Legacy(server)
    assert ran(client, "sleep 30", "bash")["timed_out"]
    assert ran(client, "sleep 30", "bash", timeout=1000)["timed_out"]


def test_d45_input_is_over_children_hold_nothing_and_both_streams_are_whole(client):
    assert "EOFError" in ran(client, "input('name? ')")["stderr"]
    assert ran(client, "read x; echo $?", "bash")["stdout"] == "1\n"
    assert ran(client, "await new Promise((done) => process.stdin.on('end', done).resume()); 'end'", "javascript")["stdout"] == "'end'\n"
    began = time.monotonic()
    assert ran(client, "sleep 30 & echo now", "bash")["stdout"] == "now\n" and time.monotonic() - began < fair(10)
    structured = ran(client, "head -c 200000 /dev/zero | tr '\\0' e >&2; head -c 200000 /dev/zero | tr '\\0' o", "bash")
    assert (len(structured["stdout"]), len(structured["stderr"])) == (200000, 200000)


@pytest.mark.parametrize("language, missing", [("clojure", "clojure"), ("scala", "scala")])
def test_a_missing_runtime_is_named_with_what_to_install(client, language, missing):
    result = run(client, "1", language)
    if not result["isError"]:
        pytest.skip(f"{language} is installed")
    code, *_, words, summary = result["content"]
    error = block(result, role="error")
    assert code["text"] == "1" and "Execution error: " in error["text"] and missing in error["text"] and "exception" in error["annotations"]
    assert json.loads(summary["text"])["exit_code"] == -1 and "Exit code: -1" in words["text"]


# --- what it wrote

def test_d11_of_much_output_an_answer_holds_a_part_and_says_where_the_rest_is(server, client):
    for code, language in [("yes 0123456789 | head -c 52428800", "bash"), ("head -c 52428800 /dev/zero", "bash"), ("print('é' * 3_000_000)", "python")]:
        messages, _, _ = client.ask("tools/call", name="execute_code", arguments={"language": language, "code": code})
        result = messages[-1]["result"]
        assert len(json.dumps(messages[-1], ensure_ascii=False).encode()) < 8 << 20 and len(json.dumps(messages[-1])) < 16 << 20
        assert result["structuredContent"]["truncated"]["stdout"] and json.loads(block(result, role="result")["text"])["truncated"]
        assert block(result, truncated=True)
        link = next(one for one in result["content"] if one["type"] == "resource_link")
        assert link["uri"] == f"execution://{result['structuredContent']['execution_id']}/stdout"
        read = client.request("resources/read", uri=link["uri"])["contents"][0]
        assert len(read.get("text", read.get("blob", ""))) > 100_000
        assert len(lines(result)) <= 3000


def test_many_lines_are_put_together(client):
    result = run(client, "seq 1 5000", "bash")
    assert result["structuredContent"]["stdout"] == "".join(f"{n}\n" for n in range(1, 5001)) and not result["structuredContent"]["truncated"]["stdout"]
    blocks = lines(result)
    assert blocks[:2000] == [str(n) for n in range(1, 2001)] and len(blocks) == 2001
    assert blocks[2000].split("\n") == [str(n) for n in range(2001, 5001)]
    assert json.loads(block(result, role="result")["text"])["outputLines"] == 5000


@pytest.mark.parametrize("language, code", [("bash", "printf '\\xff\\xfe\\x00'"), ("python", "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\x00'); None"), ("javascript", "process.stdout.write(Buffer.from([255, 254, 0]))")])
def test_d12_bytes_that_are_no_text_break_nothing(client, language, code):
    result = run(client, code, language)
    assert lines(result) == ["��\0"] and result["structuredContent"]["stdout"] == "��\0"


def test_lines_are_what_ends_with_a_newline(client):
    result = run(client, r"printf 'a\r\n10%%\r20%%\r\n\033[31mred\033[0m\n\tunfinished'", "bash")
    assert lines(result) == ["a", "10%\r20%", "\x1b[31mred\x1b[0m", "\tunfinished"]


def test_the_value_of_the_last_expression_is_shown(client):
    assert ran(client, "x = [1]\nx + [2]")["stdout"] == "[1, 2]\n"
    assert ran(client, "const y = {a: 1}; y", "javascript")["stdout"] == "{ a: 1 }\n"
    assert ran(client, "for (let i = 0; i < 3; i++) { i }", "javascript")["stdout"] == ""


def test_d47_images(client):
    result = run(client, IMAGE + "display(Image(png(20)))")
    images = [one for one in result["content"] if one["type"] == "image"]
    assert len(images) == 1 and images[0]["mimeType"] == "image/png" and base64.b64decode(images[0]["data"], validate=True).startswith(PNG)
    assert result["structuredContent"]["images"] == 1
    result = run(client, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()")
    assert [one["mimeType"] for one in result["content"] if one["type"] == "image"] == ["image/png"]


def test_a_large_image_becomes_a_file(client):
    result = run(client, IMAGE + "display(Image(png(800)))")
    assert not [one for one in result["content"] if one["type"] == "image"] and "images" not in result["structuredContent"]
    (file,) = result["structuredContent"]["files"]
    assert file["mimeType"] == "image/png" and file["change"] == "created" and file["size"] > 1 << 20
    assert ran(client, f"print(open({file['name']!r}, 'rb').read(4))")["stdout"] == "b'\\x89PNG'\n"


# --- files

@pytest.mark.parametrize("language, code", [("python", "import os\nos.makedirs('out', exist_ok=True)\nopen('out/é 1.csv', 'w').write('1')\nopen('given', 'a').write('2')\nopen('.hidden', 'w').write('')\nNone"),
    ("javascript", "const fs = require('fs'); fs.mkdirSync('out', {recursive: true}); fs.writeFileSync('out/é 1.csv', '1'); fs.appendFileSync('given', '2'); fs.writeFileSync('.hidden', '')"),
    ("bash", "mkdir -p out; printf 1 > 'out/é 1.csv'; printf 2 >> given; touch .hidden __pycache__")], ids=["python", "javascript", "bash"])
def test_files_that_a_run_wrote_are_linked(client, language, code):
    session = new_id()
    assert ran(client, "", language, session_id=session, files=[{"path": "given", "content": "1"}])["files"] == [], "what was given is not its doing"
    time.sleep(0.05)
    result = run(client, code, language, session_id=session)
    uris = {f"workspace://{session}/out/%C3%A9%201.csv": ("created", "text/csv", 1), f"workspace://{session}/given": ("modified", "application/octet-stream", 2)}
    assert {one["uri"]: (one["change"], one["mimeType"], one["size"]) for one in result["structuredContent"]["files"]} == uris
    links = [one for one in result["content"] if one["type"] == "resource_link"]
    assert {one["uri"] for one in links} == set(uris) and {one["name"] for one in links} == {"out/é 1.csv", "given"}
    assert ran(client, "", language, session_id=session)["files"] == [], "told once"


def test_of_many_files_some_are_told(client):
    structured = ran(client, "for i in $(seq 150); do : > f$i; done", "bash")
    assert len(structured["files"]) == 100 and structured["more_files"] is True


def test_files_come_first_and_may_be_bytes(client):
    files = [{"path": "data/in.txt", "content": "text"}, {"name": "raw.bin", "content": base64.b64encode(bytes(range(256))).decode(), "encoding": "base64"}]
    assert ran(client, "cat data/in.txt; wc -c < raw.bin", "bash", files=files)["stdout"] == "text256\n"


def test_code_that_is_not_saved_leaves_nothing(client):
    session = new_id()
    for language in ("bash", "python", "javascript", "ruby", "typescript"):
        ran(client, "1" if language != "bash" else ":", language, session_id=session, filename="prog")
    ran(client, "1", session_id=session, stdin="x")
    assert ran(client, "import os; os.listdir()", session_id=session)["stdout"] == "[]\n"
    assert ran(client, ":", "bash", session_id=session, filename="keep", save=True)["files"] == []
    assert "Saved: /workspace/keep2.sh" in block(run(client, "echo other", "bash", session_id=session, filename="keep2", save=True), final=True)["text"]
    ran(client, "echo not this", "bash", session_id=session, filename="keep")
    assert ran(client, "cat keep.sh; ls", "bash", session_id=session)["stdout"] == ":keep.sh\nkeep2.sh\n", "what is kept is not replaced by what is not"


@pytest.mark.parametrize("language, files, main, want", [
    ("python", {"models.py": "class Product: name = 'p'", "pkg/__init__.py": "", "pkg/util.py": "VALUE = 3"}, "import models\nfrom pkg import util\nprint(models.Product.name, util.VALUE)", "p 3\n"),
    ("javascript", {"utils.js": "module.exports = {v: 3}", "lib/more.js": "exports.w = require('../utils').v + 1"}, "const u = require('./utils'); console.log(u.v, require('./lib/more').w)", "3 4\n"),
    ("javascript", {"m.mjs": "export const v = 3"}, "import { v } from './m.mjs';\nconsole.log(v)", "3\n"),
    ("typescript", {"m.ts": "export const v: number = 3"}, "import { v } from './m';\nconsole.log(v)", "3\n"),
    ("bash", {"lib/x.sh": "f() { echo from lib; }"}, 'SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"; source "$SCRIPT_DIR/lib/x.sh"; f', "from lib\n"),
    ("sh", {"lib/x.sh": "f() { echo from lib; }"}, '. "$(dirname "$0")/lib/x.sh"; f', "from lib\n"),
    ("ruby", {"lib/x.rb": "X = 3"}, "require_relative 'lib/x'\nputs X", "3\n"),
    ("java", {"models/Product.java": "package models; public class Product { public String name() { return \"p\"; } }"}, "import models.Product;\npublic class Main { public static void main(String[] a) { System.out.println(new Product().name()); } }", "p\n")],
    ids=["python", "javascript", "module", "typescript", "bash", "sh", "ruby", "java"])
def test_d52_code_finds_what_was_saved_beside_it(client, language, files, main, want):
    session = new_id()
    for name, text in files.items():
        result = client.call("validate_code", {"language": language, "code": text, "filename": name, "session_id": session, "save": True})
        assert result["isError"] is False, result
    result = run(client, main, language, session_id=session, filename="main", save=True)
    if result["isError"] and "Command not found" in str(result):
        pytest.skip(f"{language} is not installed")
    assert result["structuredContent"]["stdout"] == want, result["structuredContent"]
    assert ran(client, main, language, session_id=session, filename="main")["stdout"] == want, "not saved"


@pytest.mark.parametrize("language, module, code", [("python", "models.py", "import models; print(models.X)"), ("javascript", "models.js", "console.log(require('./models').X)")])
def test_a_file_that_is_saved_anew_is_loaded_anew(client, language, module, code):
    session = new_id()
    for number in (1, 2, 3):
        text = f"X = {number}" if language == "python" else f"exports.X = {number}"
        assert ran(client, code, language, session_id=session, files=[{"path": module, "content": text}])["stdout"] == f"{number}\n"


# --- all at once

def test_200_calls_at_concurrency_8(server):
    clients = [Legacy(server) for _ in range(4)] + [Modern(server) for _ in range(4)]

    def one(number):
        which = clients[number % 8]
        structured = ran(which, f"print({number})", session_id=f"load-{number % 8}" if isinstance(which, Modern) else "")
        return structured["stdout"] == f"{number}\n" and structured["exit_code"] == 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(200)))
    for which in clients[:4]:
        which.close()


def test_b02_a_program_knows_the_trace_of_its_call(client):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    call = {"name": "execute_code", "arguments": {"language": "bash", "code": "echo $TRACEPARENT:$TRACESTATE:$BAGGAGE"}}
    told = client.request("tools/call", **call, _meta={"traceparent": parent, "tracestate": "a=1", "baggage": "bad\nvalue"})
    assert told["structuredContent"]["stdout"] == f"{parent}:a=1:\n"
