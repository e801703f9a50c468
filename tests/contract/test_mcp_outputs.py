"""Output that is too long for an answer is read by its link: whole up to a bound, and beyond it with what is missing in numbers."""
import base64
import hashlib
import re
from pathlib import Path

import pytest
from hostile import front, memory_kib
from mcp_client import Fault, Legacy
from server import Server

MIB = 1 << 20
LINES = 50 * MIB // 16  # lines of 16 bytes
EXPECTED = hashlib.sha256(b"".join(b"%015d\n" % n for n in range(LINES))).hexdigest()
WAYS = {
    "kernel of python": ("execute_code", {"language": "python", "code": f"import sys\nfor n in range({LINES}): sys.stdout.write(f'{{n:015d}}\\n')\nNone", "timeout": 300}),
    "kernel of javascript": ("execute_code", {"language": "javascript", "code": f"let text = ''; for (let n = 0; n < {LINES}; n++) {{ text += String(n).padStart(15, '0') + '\\n'; if (text.length > 65536) {{ process.stdout.write(text); text = '' }} }} process.stdout.write(text); undefined", "timeout": 300}),
    "program": ("execute_code", {"language": "bash", "code": f"seq -f %015.0f 0 {LINES - 1}", "timeout": 300}),
    "command": ("run_command", {"command": f"seq -f %015.0f 0 {LINES - 1}", "timeout": 300}),
}


def read_parts(client, uri):
    """The bytes of each part, and the _meta of the last."""
    while uri:
        content = client.request("resources/read", uri=uri)["contents"][0]
        meta = content.get("_meta", {})
        yield content["text"].encode() if "text" in content else base64.b64decode(content["blob"]), meta
        uri = meta.get("cove/part", {}).get("next")


def can_read(client, uri):
    try:
        return bool(client.request("resources/read", uri=uri)["contents"])
    except Fault:
        return False


def spooled(server):
    return sorted(Path(server.state_dir).rglob(".spool-*"))


def peak_kib(server):
    return memory_kib(front(server), "VmHWM")


@pytest.fixture(scope="module")
def today(server):
    return Legacy(server)


@pytest.mark.parametrize("way", WAYS)
def test_fifty_mebibytes_are_read_whole_by_their_link(fresh_server, way):
    server = fresh_server()
    client = Legacy(server)
    tool, arguments = WAYS[way]
    client.call(tool, {**arguments, **({"code": "1"} if tool == "execute_code" else {"command": "true"})})
    before = peak_kib(server)
    facts = client.call(tool, arguments)["structuredContent"]
    assert facts["truncated"] == {"stdout": True, "stderr": False} and facts["exit_code"] == 0, facts
    uri = f"execution://{facts['execution_id']}/stdout"
    shown = re.fullmatch(r"(.*\n)\[(\d+) bytes left out; (\S+) has all of it\]\n(.*)", facts["stdout"], re.DOTALL)
    assert shown and shown[3] == uri and len(shown[1]) + int(shown[2]) + len(shown[4]) == 50 * MIB
    written = peak_kib(server)
    digest, parts = hashlib.sha256(), 0
    for part, meta in read_parts(client, uri):
        digest.update(part)
        parts += 1
        assert meta["cove/part"]["size"] == 50 * MIB and "cove/left-out" not in meta
    assert digest.hexdigest() == EXPECTED and parts == 13
    assert written - before < 24 << 10, f"the front grew by {written - before} KiB while 50 MiB were written"
    assert peak_kib(server) - before < 80 << 10, "and while they were read, 4 MiB at a time"


@pytest.mark.parametrize("way", ["kernel of python", "program", "command"])
def test_of_more_than_the_bound_both_ends_are_kept_and_the_rest_is_counted(bounded, way):
    client = Legacy(bounded)
    tool, arguments = WAYS[way]
    facts = client.call(tool, arguments)["structuredContent"]
    left_out = int(re.search(r"has all but (\d+) bytes of it\]", facts["stdout"])[1])
    parts = list(read_parts(client, f"execution://{facts['execution_id']}/stdout"))
    kept = b"".join(part for part, _ in parts)
    line = b"\n[... %d bytes left out ...]\n" % left_out
    assert len(kept) <= 2 * MIB and line in kept and len(kept) - len(line) + left_out == 50 * MIB
    assert kept.startswith(b"%015d\n" % 0) and kept.endswith(b"%015d\n" % (LINES - 1))
    assert parts[-1][1]["cove/left-out"] == {"bytes": left_out, "written": 50 * MIB, "reason": "more was written than is kept of one stream (mcp.output_size)"}


def test_a_tenants_oldest_outputs_make_room_and_one_that_is_too_large_says_why(bounded):
    client = Legacy(bounded)
    ids = [client.call("run_command", {"command": f"yes {n} | head -c 1500000"})["structuredContent"]["execution_id"] for n in range(4)]
    there = [can_read(client, f"execution://{one}/stdout") for one in ids]
    assert there == [False, False, True, True], "3M for a tenant"
    assert 2 * MIB < sum(file.stat().st_size for file in spooled(bounded)) <= 3 * MIB
    facts = client.call("run_command", {"command": "yes | head -c 2000000; yes no | head -c 2000000 >&2"})["structuredContent"]
    whole = sum(len(part) for stream in ("stdout", "stderr") for part, _ in read_parts(client, f"execution://{facts['execution_id']}/{stream}"))
    assert whole <= 3 * MIB
    reasons = {meta["cove/left-out"]["reason"] for stream in ("stdout", "stderr") for _, meta in read_parts(client, f"execution://{facts['execution_id']}/{stream}") if "cove/left-out" in meta}
    assert any("mcp.tenant_outputs_size" in reason for reason in reasons), reasons


def test_bytes_that_are_no_text_are_read_exactly(today):
    facts = today.call("run_command", {"command": "for i in $(seq 6000); do printf '\\xff\\x00\\xc3\\xa9\\n'; done; head -c 9000000 /dev/zero | tr '\\0' '\\377'"})["structuredContent"]
    got = b"".join(part for part, _ in read_parts(today, f"execution://{facts['execution_id']}/stdout"))
    assert got == b"\xff\x00\xc3\xa9\n" * 6000 + b"\xff" * 9_000_000


def test_a_line_without_an_end_fills_no_memory(fresh_server):
    server = fresh_server()
    client = Legacy(server, "2024-11-05")
    client.call("execute_code", {"language": "bash", "code": "true"})
    before = peak_kib(server)
    client.call("execute_code", {"language": "bash", "code": "head -c 52428800 /dev/zero | tr '\\0' x", "timeout": 120})
    assert peak_kib(server) - before < 40 << 10


def test_nothing_is_left_on_disk_by_a_server_that_was_killed(fresh_server):
    server = fresh_server()
    Legacy(server).call("run_command", {"command": "seq 1 500000"})
    assert len(spooled(server)) == 1
    server.kill9()
    assert len(spooled(server)) == 1
    server.start()
    assert spooled(server) == []


@pytest.fixture(scope="module")
def bounded():
    with Server("--mcp-output-size=2M", "--mcp-tenant-outputs-size=3M") as running:
        yield running
