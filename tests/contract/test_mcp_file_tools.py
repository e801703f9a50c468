"""write_file, read_file, list_files, delete_file: files of a session, and nothing beside them."""
import base64
import struct
import zlib

import pytest
from mcp_tools import Alone, Client, text_of
from server import new_id

# Every tool, and answers for old and new clients at once; test_mcp_models.py has what a client of today gets.
SERVER_FLAGS = ("--mcp-profile=superset", "--mcp-all-tools=true")


@pytest.fixture(scope="module")
def client(server):
    made = Client(server)
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(client):
    """One for the tests that need no other."""
    name = new_id()
    client.facts("create_session", session_id=name)
    return name


def shell(client, session, command):
    facts = client.facts("run_command", command=command, session_id=session)
    assert facts["exit_code"] == 0, facts
    return facts["stdout"]


def names(facts):
    return [entry["path"] for entry in facts["entries"]]


def test_what_is_written_is_read_listed_and_deleted(client):
    session = new_id()
    result = client.call("write_file", path="a/b/Überblick 1.txt", content="one\ntwo\n", session_id=session)
    assert result["structuredContent"] == {"session_id": session, "path": "a/b/Überblick 1.txt", "size": 8, "uri": f"workspace://{session}/a/b/%C3%9Cberblick%201.txt"}
    link = result["content"][1]
    assert (link["type"], link["uri"], link["mimeType"], link["size"]) == ("resource_link", result["structuredContent"]["uri"], "text/plain", 8)
    assert client.request("resources/read", uri=link["uri"])["contents"][0]["text"] == "one\ntwo\n"

    result = client.call("read_file", path="/workspace/a/b/Überblick 1.txt", session_id=session)
    assert text_of(result) == "one\ntwo\n"
    facts = result["structuredContent"]
    assert (facts["content"], facts["encoding"], facts["size"], facts["truncated"], facts["offset"]) == ("one\ntwo\n", "utf-8", 8, False, 0)

    assert client.facts("write_file", path="a/b/Überblick 1.txt", content="three", append=True, session_id=session)["size"] == 13
    assert names(client.facts("list_files", session_id=session)) == ["a"]
    listed = client.facts("list_files", session_id=session, recursive=True)
    assert [(entry["path"], entry["type"]) for entry in listed["entries"]] == [("a", "directory"), ("a/b", "directory"), ("a/b/Überblick 1.txt", "file")]
    assert listed["entries"][2]["size"] == 13 and listed["truncated"] is False
    assert names(client.facts("list_files", path="a/b/", session_id=session)) == ["a/b/Überblick 1.txt"]

    assert "has something in it" in client.refusal("delete_file", path="a", session_id=session)
    assert client.facts("delete_file", path="a", recursive=True, session_id=session)["deleted"] is True
    assert names(client.facts("list_files", session_id=session)) == []
    assert "list_files lists" in client.refusal("delete_file", path="a", session_id=session)


def test_files_are_where_code_runs(client):
    client.facts("write_file", path="numbers.csv", content="1\n2\n")
    assert client.facts("execute_code", language="python", code="print(sum(map(int, open('numbers.csv'))))")["stdout"] == "3\n"
    client.facts("write_file", path="x.sh", content="echo hello", language="bash")
    assert client.facts("execute_code", language="bash", code="bash x.sh")["stdout"] == "hello\n"
    assert {"numbers.csv", "x.sh"} <= set(names(client.facts("list_files"))), "one workspace for all languages"


def test_bytes_that_are_no_text(client, session):
    data = bytes(range(256))
    client.facts("write_file", path="data.bin", content=base64.b64encode(data).decode(), encoding="base64", session_id=session)
    facts = client.facts("read_file", path="data.bin", session_id=session)
    assert (facts["encoding"], base64.b64decode(facts["content"])) == ("base64", data)
    facts = client.facts("read_file", path="data.bin", offset=200, limit=10, session_id=session)
    assert base64.b64decode(facts["content"]) == data[200:210] and facts["next_offset"] == 210


def png(size):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"tEXt", b"x" * size) + chunk(b"IEND", b"")


def test_images_are_images(client, session):
    image = png(100_000)
    client.facts("write_file", path="plot.png", content=base64.b64encode(image).decode(), encoding="base64", session_id=session)
    result = client.call("read_file", path="plot.png", session_id=session)
    assert (result["structuredContent"]["encoding"], result["structuredContent"]["mime_type"]) == ("image", "image/png")
    block = result["content"][1]
    assert (block["type"], block["mimeType"], base64.b64decode(block["data"])) == ("image", "image/png", image)
    client.facts("write_file", path="large.png", content=base64.b64encode(png(1 << 20)).decode(), encoding="base64", session_id=session)
    result = client.call("read_file", path="large.png", session_id=session)
    assert result["content"][1]["type"] == "resource_link" and result["structuredContent"]["truncated"] is True


def test_parts_of_a_file(client, session):
    text = "".join(f"line {number} ä\n" for number in range(1, 20_001))
    client.facts("write_file", path="long.txt", content=text, session_id=session)
    result = client.call("read_file", path="long.txt", session_id=session)
    facts = result["structuredContent"]
    assert facts["truncated"] and len(facts["content"].encode()) in (65535, 65536) and str(facts["next_offset"]) in result["content"][1]["text"]
    whole, at = "", 0
    while at is not None:
        facts = client.facts("read_file", path="long.txt", offset=at, limit=99_999, session_id=session)
        whole, at = whole + facts["content"], facts.get("next_offset")
    assert whole == text
    facts = client.facts("read_file", path="long.txt", first_line=19_999, last_line=30_000, session_id=session)
    assert (facts["content"], facts["first_line"], facts["last_line"]) == ("line 19999 ä\nline 20000 ä\n", 19_999, 20_000)
    assert client.facts("read_file", path="long.txt", last_line=1, session_id=session)["content"] == "line 1 ä\n"
    assert "after the end" in client.refusal("read_file", path="long.txt", first_line=20_001, session_id=session)
    assert "after the end" in client.refusal("read_file", path="long.txt", offset=len(text.encode()) + 1, session_id=session)
    client.facts("write_file", path="empty", content="", session_id=session)
    assert client.facts("read_file", path="empty", session_id=session)["content"] == ""


def test_an_answer_stays_small_enough(client, session):
    """Each of these bytes takes six in JSON."""
    shell(client, session, "head -c 600000 /dev/zero | tr '\\0' '\\1' > ones")
    answer = client.whole("read_file", path="ones", limit=524288, session_id=session)
    assert len(answer.body) < 8 << 20 and answer.json["result"]["structuredContent"]["next_offset"] == 524288


@pytest.mark.parametrize("tool, arguments, words", [
    ("write_file", {}, "Missing required parameter: path"),
    ("write_file", {"path": "x"}, "Missing required parameter: content"),
    ("write_file", {"path": "x", "content": 5}, "content must be a string"),
    ("write_file", {"path": "x", "content": "%", "encoding": "base64"}, "content is not base64"),
    ("write_file", {"path": "x", "content": "", "encoding": "latin"}, "encoding must be"),
    ("write_file", {"path": "x", "content": "", "append": 1}, "append must be true or false"),
    ("write_file", {"path": "", "content": ""}, "path is empty"),
    ("write_file", {"path": "x", "content": "", "language": "cobol"}, "Unsupported language: cobol"),
    ("read_file", {}, "Missing required parameter: path"),
    ("read_file", {"path": "x", "limit": 0}, "limit must be a whole number from 1"),
    ("read_file", {"path": "x", "limit": 10 ** 9}, "limit must be a whole number from 1"),
    ("read_file", {"path": "x", "offset": -1}, "offset must be a whole number"),
    ("read_file", {"path": "x", "offset": 1.5}, "offset must be a whole number"),
    ("read_file", {"path": "x", "offset": 1, "first_line": 1}, "offset cannot be combined"),
    ("read_file", {"path": "x", "first_line": 3, "last_line": 2}, "last_line is before first_line"),
    ("read_file", {"path": "no/such"}, "list_files lists"),
    ("list_files", {"path": "no"}, "list_files lists"),
    ("list_files", {"path": 3}, "path must be a string"),
    ("delete_file", {"path": "."}, "itself is not removed"),
    ("delete_file", {"path": "/workspace"}, "path is empty"),
])
def test_what_is_wrong_is_named(client, session, tool, arguments, words):
    assert words in client.refusal(tool, session_id=session, **arguments)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../etc/passwd", "x\0y", "..", "a/.."])
@pytest.mark.parametrize("tool", ["write_file", "read_file", "list_files", "delete_file"])
def test_d53_paths_that_lead_elsewhere(client, session, tool, path):
    assert "path" in client.refusal(tool, session_id=session, path=path, **({"content": "x"} if tool == "write_file" else {}))


def test_links_that_lead_out_are_not_followed(client):
    session = new_id()
    shell(client, session, "ln -s /etc/passwd passwd; ln -s /proc/self/environ environ; ln -s /etc etc; ln -s / root; ln -s /workspace/in in; echo inside > real; ln -s real good; ln -s self self")
    for path in ("passwd", "environ", "etc/passwd", "root/etc/passwd", "root/proc/self/status", "self"):
        text = client.refusal("read_file", path=path, session_id=session)
        assert "root:" not in text, text
    for path in ("etc", "root", "root/tmp"):
        client.refusal("list_files", path=path, session_id=session)
    for path in ("etc/x", "root/tmp/x"):
        client.refusal("write_file", path=path, content="x", session_id=session)
    assert client.facts("read_file", path="good", session_id=session)["content"] == "inside\n"
    listed = {entry["path"]: entry for entry in client.facts("list_files", recursive=True, session_id=session)["entries"]}
    assert (listed["passwd"]["type"], listed["passwd"]["target"]) == ("symlink", "/etc/passwd") and "etc/passwd" not in listed
    # A link that is written or deleted is meant itself.
    client.facts("write_file", path="passwd", content="mine", session_id=session)
    client.facts("delete_file", path="root", recursive=True, session_id=session)
    assert shell(client, session, "cat passwd; head -c 4 /etc/passwd; ls /tmp") == "mineroot"


def test_what_is_no_file_is_not_waited_for(client):
    session = new_id()
    shell(client, session, "mkfifo fifo; mkdir dir; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"")
    for path in ("fifo", "sock", "dir"):
        assert f"/workspace/{path}" in client.refusal("read_file", path=path, session_id=session)
    assert "is a directory" in client.refusal("write_file", path="dir", content="", session_id=session)
    client.refusal("write_file", path="fifo", content="x", append=True, session_id=session)
    assert {entry["path"]: entry["type"] for entry in client.facts("list_files", session_id=session)["entries"]} == {"dir": "directory", "fifo": "other", "sock": "other"}


@pytest.mark.parametrize("name", ["-rf", "--help", "a\nb", "it's \"quoted\"", "$(id)", " ", "*", "\u202etxt", "x" * 200])
def test_odd_names(client, session, name):
    client.facts("write_file", path=f"odd/{name}", content=name, session_id=session)
    assert client.facts("read_file", path=f"odd/{name}", session_id=session)["content"] == name
    assert names(client.facts("list_files", path="odd", session_id=session)) == [f"odd/{name}"]
    client.facts("delete_file", path=f"odd/{name}", session_id=session)


def test_names_that_are_no_text_are_shown_somehow(client):
    session = new_id()
    shell(client, session, "printf x > $'\\xff\\xfe'")
    result = client.call("list_files", session_id=session)
    assert names(result["structuredContent"]) == ["\ufffd\ufffd"] and result["structuredContent"]["entries"][0]["not_utf8"] is True
    assert "its name is not UTF-8" in result["content"][0]["text"]


def test_long_lists_are_cut(client):
    session = new_id()
    shell(client, session, "mkdir many deep; cd many; seq 1 3000 | xargs touch; cd ../deep; p=$(python3 -c \"print('/'.join(['d' * 200] * 18))\"); mkdir -p $p; cd $p; seq 1 900 | xargs touch")
    facts = client.facts("list_files", path="many", session_id=session)
    assert facts["truncated"] is True and len(facts["entries"]) == 1000 and facts["left_out"] == 2000
    answer = client.whole("list_files", recursive=True, path="deep", session_id=session)
    facts = answer.json["result"]["structuredContent"]
    assert len(answer.body) < 8 << 20 and facts["truncated"] is True and 18 < len(facts["entries"]) < 900


def test_a_full_disk_is_told(client):
    session = new_id()
    shell(client, session, "head -c 2000000000 /dev/zero > big 2>/dev/null; true")
    assert "Delete files" in client.refusal("write_file", path="more", content="x" * 100_000, session_id=session)


def test_sessions_that_are_not_there(client):
    for tool, arguments in {"read_file": {"path": "x"}, "list_files": {}, "delete_file": {"path": "x"}}.items():
        assert "Unknown session" in client.refusal(tool, session_id="no-such-session", **arguments)
    assert "no-such-session" not in [one["session_id"] for one in client.facts("list_sessions")["sessions"]]


def test_a_request_that_stands_alone_is_told_its_session(server):
    client = Alone(server)
    session = client.facts("write_file", path="x", content="here")["session_id"]
    assert client.facts("read_file", path="x", session_id=session)["content"] == "here"
    client.facts("close_session", session_id=session)
