"""The resource server of ipybox (docs/api/resources.md), row by row, and as its client uses it."""
import base64
import io
import json
import pathlib
import tarfile
import urllib.parse

import pytest
from resource_client import ResourceClient, ResponseError
from server import at, new_id

ESCAPES = {"detail": "Invalid path: escapes root directory"}
ALL_BYTES = bytes(range(256)) * 5


@pytest.fixture(scope="module", params=["/workspace", "/app"])
def box(server, request):
    name = new_id()
    assert server.put(at(name), {"workdir": request.param}).status == 200
    yield name
    server.delete(at(name))


@pytest.fixture
def call(server, box):
    """call(method, path, …): a request to the box, named by the header."""
    return lambda method, path, body=None, headers=None: server.request(method, path, body, {"X-Cove-Sandbox": box, **(headers or {})})


def root_of(server, box):
    return server.get(at(box)).json["workdir"]


def shell(server, box, script):
    done = server.exec(box, "bash", "-ec", script)
    assert done["exitCode"] == 0, done
    return done["stdout"]


def packed(*members, mode="w:gz"):
    """A tar of (name, content), content None for a directory, or TarInfo as it is."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            tar.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


# --- which sandbox

def test_a_sandbox_is_named_in_three_ways_on_one_port(server, box):
    basic = {"Authorization": "Basic " + base64.b64encode(f"{box}:".encode()).decode()}
    for answer in (server.get("/status/", headers={"X-Cove-Sandbox": box}), server.get("/status", headers=basic), server.get(at(box, "resources/status/"))):
        assert (answer.status, answer.json, answer.headers["Content-Type"]) == (200, {"status": "ok"}, "application/json")


def test_without_a_name_the_answer_says_how_to_give_one(server):
    for method, path in (("GET", "/status/"), ("GET", "/files/a"), ("POST", "/files/a"), ("DELETE", "/files/a"), ("GET", "/directories/a"), ("POST", "/directories/a"), ("GET", "/modules?q=json")):
        answer = server.request(method, path)
        assert answer.status == 400 and "X-Cove-Sandbox" in answer.json["detail"] and "/v1/listeners" in answer.json["detail"], (path, answer)


def test_an_unknown_sandbox_is_not_found(server):
    for path in ("/status/", "/files/a", "/directories/a", "/modules?q=json"):
        for target, headers in ((path, {"X-Cove-Sandbox": "nobody"}), (at("nobody", "resources") + path, {})):
            answer = server.get(target, headers=headers)
            assert (answer.status, answer.json) == (404, {"detail": "sandbox not found: nobody"})


def test_unknown_methods_and_paths_are_told_in_this_apis_words(call, server, box):
    for method, path in (("PUT", "/files/a"), ("HEAD", "/files/a"), ("DELETE", "/directories/a"), ("POST", "/modules"), ("PUT", "/status/")):
        answer = call(method, path)
        assert answer.status == 405, path
        if method != "HEAD":
            assert answer.json == {"detail": "Method Not Allowed"}
    assert server.get(at(box, "resources/nothing")).json == {"detail": "Not Found"}


# --- files

@pytest.mark.parametrize("content", [b"", b"text\n", ALL_BYTES], ids=["empty", "text", "all bytes"])
def test_a_file_is_uploaded_downloaded_and_deleted(call, content):
    answer = call("POST", "/files/nested/dir/a.bin", content, {"Content-Type": "whatever/this-is"})
    assert (answer.status, answer.json) == (200, {"message": "File uploaded to nested/dir/a.bin"})
    back = call("GET", "/files/nested/dir/a.bin")
    assert (back.status, back.body, back.headers["Content-Type"]) == (200, content, "application/octet-stream")
    gone = call("DELETE", "/files/nested/dir/a.bin")
    assert (gone.status, gone.body) == (204, b"")
    for method in ("GET", "DELETE"):
        assert (call(method, "/files/nested/dir/a.bin").status, call(method, "/files/nested/dir/a.bin").json) == (404, {"detail": "File not found"})


def test_an_existing_file_is_overwritten(call):
    for content in (b"longer content", b"short"):
        assert call("POST", "/files/again.txt", content).status == 200
        assert call("GET", "/files/again.txt").body == content


def test_paths_are_relative_to_the_working_directory(server, box, call):
    root = root_of(server, box)
    assert call("POST", "/files/here.txt", b"1").status == 200
    assert shell(server, box, f"cat {root}/here.txt; cat here.txt; pwd").split("\n") == [f"11{root}", ""]


@pytest.mark.parametrize("name, media_type", [("a.txt", "text/plain; charset=utf-8"), ("a.csv", "text/csv; charset=utf-8"), ("a.png", "image/png"), ("a.json", "application/json"), ("a.nobody-knows", "application/octet-stream")])
def test_the_type_is_guessed_from_the_name(call, name, media_type):
    assert call("POST", f"/files/{name}", b"x").status == 200
    answer = call("GET", f"/files/{name}")
    assert answer.headers["Content-Type"] == media_type
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=") and name in answer.headers["Content-Disposition"]


@pytest.mark.parametrize("name", ["grüße €.txt", 'quo"te.txt', "semi;colon.txt", "日本.csv"])
def test_any_name_can_be_downloaded(call, name):
    target = f"/files/d/{urllib.parse.quote(name)}"
    assert call("POST", target, b"x").json == {"message": f"File uploaded to d/{name}"}
    answer = call("GET", target)
    assert answer.status == 200
    assert "filename*=UTF-8''" + urllib.parse.quote(name, safe="") in answer.headers["Content-Disposition"] or name in answer.headers["Content-Disposition"]


ESCAPING = ["../x", "a/../../x", "%2e%2e/x", "%2e%2e%2fx", "..%2fx", "/etc/passwd", "%2fetc%2fpasswd", "a/%2e%2e/%2e%2e/x", "..", "../workspace-2/x", "../../../../etc/passwd"]


@pytest.mark.parametrize("path", ESCAPING)
def test_a_path_that_leads_out_is_refused(server, box, call, path):
    for method, place in (("GET", "files"), ("POST", "files"), ("DELETE", "files"), ("GET", "directories"), ("POST", "directories")):
        body = packed(("a", b"1")) if place == "directories" else b"1"
        answer = call(method, f"/{place}/{path}", body if method == "POST" else None)
        assert (answer.status, answer.json) == (400, ESCAPES), (method, place)
        answer = server.request(method, at(box, f"resources/{place}/{path}"), body if method == "POST" else None)
        assert (answer.status, answer.json) == (400, ESCAPES), (method, place)


def test_links_that_lead_out_are_refused_and_others_followed(server, box, call):
    shell(server, box, "mkdir -p /tmp/out links; echo secret >/tmp/out/f; ln -sfn /tmp/out links/dir; ln -sf /tmp/out/f links/file; echo own >links/real; ln -sf real links/inner; ln -sf loop links/loop")
    for path in ("links/dir/f", "links/file"):
        for method in ("GET", "DELETE", "POST"):
            answer = call(method, f"/files/{path}", b"overwritten" if method == "POST" else None)
            assert (answer.status, answer.json) == (400, ESCAPES), (method, path)
    for method in ("GET", "POST"):
        answer = call(method, "/directories/links/dir", packed(("f", b"overwritten")) if method == "POST" else None)
        assert (answer.status, answer.json) == (400, ESCAPES)
    assert shell(server, box, "cat /tmp/out/f; ls -A /tmp/out") == "secret\nf\n"
    assert call("GET", "/files/links/inner").body == b"own\n"
    assert call("GET", "/files/links/loop").status == 404


def test_what_is_no_file_is_no_file(server, box, call):
    shell(server, box, "mkdir -p odd/dir; rm -f odd/fifo odd/socket; mkfifo odd/fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"odd/socket\")'")
    for path in ("odd/dir", "odd/fifo", "odd/socket", "odd/fifo/below", "", "odd/nothing"):
        for method in ("GET", "DELETE"):
            answer = call(method, f"/files/{path}")
            assert (answer.status, answer.json) == (404, {"detail": "File not found"}), (method, path)
    for path in ("odd/dir", "", "odd/fifo/below"):
        assert call("POST", f"/files/{path}", b"x").status == 400, path
    assert shell(server, box, "ls odd").split() == ["dir", "fifo", "socket"]


def test_an_upload_over_the_limit_is_refused(fresh_server):
    server = fresh_server("--upload-max-body", "1M")
    name = server.create()
    # The second is sent in chunks, without a length.
    for headers, body in (({}, b"x" * (1 << 20) + b"y"), ({}, iter([b"x" * (1 << 20), b"y"]))):
        answer = server.request("POST", "/files/large", body, {"X-Cove-Sandbox": name, **headers})
        assert answer.status == 413 and "upload.max_body" in answer.json["detail"]
    assert server.get("/files/large", headers={"X-Cove-Sandbox": name}).status == 404


def test_a_full_disk_is_told(fresh_server):
    server = fresh_server()
    name = server.create(ephemeralStorageLimit="1Mi")
    answer = server.post("/files/large", b"x" * (8 << 20), headers={"X-Cove-Sandbox": name})
    assert answer.status in (413, 507) and "detail" in answer.json, answer


# --- directories

def test_a_directory_goes_in_and_comes_out(server, box, call):
    answer = call("POST", "/directories/tree/sub", packed(("a.txt", b"one"), ("deep/b.bin", ALL_BYTES), (".hidden", b"h"), link("to-a", "a.txt")), {"Content-Type": "application/x-gzip"})
    assert (answer.status, answer.json) == (200, {"message": "Directory uploaded to tree/sub"})
    shell(server, box, "mkdir -p tree/sub/empty; ln -sfn deep tree/sub/to-deep; ln -sf /etc/passwd tree/sub/out; mkfifo -m 600 tree/sub/fifo || true")
    back = call("GET", "/directories/tree/sub")
    assert (back.status, back.headers["Content-Type"]) == (200, "application/x-gzip")
    assert "sub.tar.gz" in back.headers["Content-Disposition"]
    with tarfile.open(fileobj=io.BytesIO(back.body), mode="r:gz") as tar:
        found = {member.name: member for member in tar.getmembers()}
        assert set(found) == {"a.txt", "deep/b.bin", ".hidden", "to-a"}, "files and links to files, and nothing else"
        assert tar.extractfile("deep/b.bin").read() == ALL_BYTES and found["to-a"].issym()


def test_an_upload_is_merged_over_what_is_there(call):
    call("POST", "/files/merged/old", b"old")
    call("POST", "/files/merged/both", b"old")
    assert call("POST", "/directories/merged", packed(("both", b"new"), ("fresh", b"new"))).status == 200
    assert [call("GET", f"/files/merged/{name}").body for name in ("old", "both", "fresh")] == [b"old", b"new", b"new"]


def test_the_working_directory_itself_can_be_named(call):
    assert call("POST", "/directories/", packed(("top.txt", b"1"))).status == 200
    for path in ("", "."):
        with tarfile.open(fileobj=io.BytesIO(call("GET", f"/directories/{path}").body)) as tar:
            assert "top.txt" in tar.getnames()


@pytest.mark.parametrize("members, named", [
    ([("../x", b"1")], "../x"),
    ([("a/../../x", b"1")], "a/../../x"),
    ([("/etc/x", b"1")], "/etc/x"),
    ([link("out", "/tmp")], "out"),
    ([link("out", "../..")], "out"),
    ([link("d", "sub"), ("d/below", b"1")], "d/below"),
    ([link("out", "/tmp"), ("out/x", b"1")], "out"),
    ([link("h", "/etc/passwd", tarfile.LNKTYPE)], "h"),
    ([link("h", "nobody", tarfile.LNKTYPE)], "h"),
    ([link("fifo", "", tarfile.FIFOTYPE)], "fifo"),
    ([link("null", "", tarfile.CHRTYPE)], "null"),
])
def test_a_member_that_leads_out_is_refused_and_nothing_is_unpacked(server, box, call, members, named):
    answer = call("POST", "/directories/refused", packed(("first", b"1"), *members))
    assert (answer.status, answer.json) == (400, {"detail": f"Invalid tar member: {named}"})
    assert call("GET", "/directories/refused").status == 404, "all or nothing"


@pytest.mark.parametrize("body", [b"", b"no archive", packed(("a", b"x" * 5000))[:-30]], ids=["empty", "text", "cut short"])
def test_a_bad_archive_is_told(call, body):
    answer = call("POST", "/directories/bad", body)
    assert answer.status == 400 and isinstance(answer.json["detail"], str)
    assert call("GET", "/directories/bad").status == 404


def test_what_is_no_directory_is_not_found(call):
    call("POST", "/files/plain.txt", b"x")
    for path in ("plain.txt", "nothing", "plain.txt/below"):
        answer = call("GET", f"/directories/{path}")
        assert (answer.status, answer.json) == (404, {"detail": "Directory not found"}), path


# --- modules

def test_sources_are_those_of_the_files(server, box, call):
    assert call("POST", "/files/own_package/__init__.py", b"raise SystemExit('never run')\n").status == 200
    source = "# grüße\nprint('never run')\nraise RuntimeError('never run')\n"
    assert call("POST", "/files/own_package/inner.py", source.encode()).status == 200
    assert call("POST", "/files/latin.py", "# -*- coding: latin-1 -*-\nx = 'é'".encode("latin-1")).status == 200
    answer = call("GET", "/modules?q=own_package.inner&q=own_package&q=json&q=latin&q=os")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
    library = pathlib.PurePosixPath(shell(server, box, "python3 -c 'import json; print(json.__file__)'").strip())
    assert answer.json == {
        "own_package.inner": source,
        "own_package": "raise SystemExit('never run')\n",
        "json": shell(server, box, f"cat {library}"),
        "latin": "# -*- coding: latin-1 -*-\nx = 'é'",
        "os": shell(server, box, f"cat {library.parent.parent}/os.py"),
    }


def test_the_key_is_the_modules_own_name(server, box, call):
    answer = call("GET", "/modules?q=os.path")
    assert list(answer.json) == ["posixpath"] and answer.json["posixpath"].startswith('"""Common operations on Posix pathnames.')


def test_a_c_extension_has_no_source(server, box, call):
    name = shell(server, box, "python3 -c 'import _ctypes; print(_ctypes.__name__)'").strip()
    assert call("GET", f"/modules?q={name}").json == {"_ctypes": ""}


@pytest.mark.parametrize("query, missing", [
    ("q=nosuch", "nosuch"), ("q=json&q=nosuch", "nosuch"), ("q=json.nosuch", "json.nosuch"), ("q=nosuch.inner", "nosuch.inner"), ("q=sys", "sys"),
    ("q=", ""), ("q=.json", ".json"), ("q=json.", "json."), ("q=a%2Fb", "a/b"), ("q=--help", "--help"), ("q=../x", "../x"), ("q=os.getcwd", "os.getcwd"),
])
def test_one_bad_name_fails_the_whole_call(call, query, missing):
    answer = call("GET", f"/modules?{query}")
    assert (answer.status, answer.json) == (404, {"detail": f"Module {missing} not found"})


def test_a_call_without_a_name_is_unprocessable(call):
    answer = call("GET", "/modules")
    assert answer.status == 422 and answer.json["detail"][0]["loc"] == ["query", "q"]


def test_what_modules_do_is_done_inside_and_changes_no_answer(call):
    """Through a parent that is no package, the parent is imported: its output and its end are its own."""
    call("POST", "/files/loud.py", b"import sys\nprint('noise')\nsys.stderr.write('noise')\nsys.exit(3)\n")
    assert call("GET", "/modules?q=loud").json["loud"].startswith("import sys")
    answer = call("GET", "/modules?q=loud.inner")
    assert (answer.status, answer.json) == (404, {"detail": "Module loud.inner not found"})
    call("POST", "/files/json.py", b"raise RuntimeError('in the way')\n")
    assert call("GET", "/modules?q=json").json == {"json": "raise RuntimeError('in the way')\n"}
    assert call("DELETE", "/files/json.py").status == 204


# --- the client

@pytest.fixture(params=["user", "listener"])
def client(server, box, request):
    if request.param == "user":
        yield ResourceClient(server.port, host=f"{box}:secret@127.0.0.1")
        return
    opened = server.post("/v1/listeners", {"listen": "127.0.0.1:0", "sandbox": box})
    assert opened.status == 201, opened
    yield ResourceClient(opened.json["port"], host="127.0.0.1")
    assert server.delete(f"/v1/listeners/{opened.json['port']}").status == 204


def test_the_client_does_all_it_can(client, tmp_path):
    client.connect()
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "text.txt").write_text("text")
    (tmp_path / "in" / "sub" / "bytes").write_bytes(ALL_BYTES)
    client.upload_file("up/one.bin", tmp_path / "in" / "sub" / "bytes")
    client.download_file("up/one.bin", tmp_path / "back" / "one.bin")
    assert (tmp_path / "back" / "one.bin").read_bytes() == ALL_BYTES
    client.delete_file("up/one.bin")
    with pytest.raises(ResponseError) as failed:
        client.download_file("up/one.bin", tmp_path / "never")
    assert failed.value.status == 404
    client.upload_directory("updir", tmp_path / "in")
    client.download_directory("updir", tmp_path / "out")
    assert {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == {"text.txt": b"text", "sub/bytes": ALL_BYTES}
    with pytest.raises(FileNotFoundError):
        client.upload_file("x", tmp_path / "missing")
    assert client.get_module_sources(["textwrap"])["textwrap"].startswith('"""Text wrapping')
    with pytest.raises(ResponseError) as failed:
        client.get_module_sources(["textwrap", "nosuch"])
    assert failed.value.status == 404 and json.loads(failed.value.body) == {"detail": "Module nosuch not found"}


def test_sources_of_more_than_eight_megabytes_are_refused(call):
    assert call("POST", "/files/huge.py", b"#" * (9 << 20)).status == 200
    answer = call("GET", "/modules?q=huge")
    assert answer.status == 413 and "8388608 bytes" in answer.json["detail"]
