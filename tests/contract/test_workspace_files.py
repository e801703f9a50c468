"""The workspace API: paths and files (contract sandbox-runtime, sections 4 and 5)."""
import base64
import email.utils
import urllib.parse

import pytest
from interpreter import form, form_type
from workspace import SE, create, download, execute, listed, mistake, names, quoted, read, result, session, upload


@pytest.fixture(scope="module")
def name(server):
    made = session(server)
    yield made
    server.delete(f"{SE}/session/{made}")


# --- paths

@pytest.mark.parametrize("given, real", [("/p1/b.txt", "p1/b.txt"), ("./p2.txt", "p2.txt"), ("p3//x/./y.txt", "p3/x/y.txt"), ("with blank/数据.txt", "with blank/数据.txt"), ("...dots../.hidden", "...dots../.hidden")])
def test_a_path_means_the_same_everywhere(server, name, given, real):
    assert result(create(server, name, given, given)) == {"filename": given, "size": len(given.encode())}
    assert execute(server, name, "cat", real)["stdout"] == given
    assert download(server, name, given).body.decode() == given
    assert read(server, name, given)["size"] == len(given.encode())
    parent = real.rpartition("/")[0]
    assert real in names(listed(server, name, parent))


@pytest.mark.parametrize("path, why", [("../x", "child path cannot start with '.' or '..'"), ("/../x", "child path cannot start with '.' or '..'"), ("a/../../x", "child path cannot contain '..'"), ("a/..", "child path cannot contain '..'")])
def test_a_path_that_leads_up_is_refused(server, name, path, why):
    mistake(create(server, name, path, ""), "Invalid file path", why)
    mistake(upload(server, name, b"", path), "Invalid file path", why)
    mistake(upload(server, name, b"", "ok.txt", "?filename=" + urllib.parse.quote(path)), "Invalid file path", why)
    encoded = path.replace("..", "%2e%2e")
    assert server.get(f"{SE}/download/{name}/{encoded}").json == {"detail": f"Invalid file path: {why}"} and server.get(f"{SE}/download/{name}/{encoded}").status == 400
    mistake(server.get(f"{SE}/readfile/{name}/{encoded}"), "Invalid file path", why)
    mistake(server.get(f"{SE}/files/{name}/{encoded}"), "Invalid path", why)
    mistake(server.get(f"{SE}/files/preview/{name}/{encoded}?sid=1"), "Invalid file path", why)
    mistake(server.post(f"{SE}/execute_code/{name}", {"code": "1", "filename": path}), "Invalid file path", why)


def test_a_link_that_leads_out_is_refused_and_one_that_stays_is_followed(server, name):
    execute(server, name, "mkdir -p links/real; echo in > links/real/f.txt; ln -s real links/dir; ln -s /workspace/links/real/f.txt links/file.txt; ln -s /etc links/etc; ln -s /etc/passwd links/passwd.txt")
    assert download(server, name, "links/dir/f.txt").body == download(server, name, "links/file.txt").body == b"in\n"
    assert result(create(server, name, "links/dir/g.txt", "g"))["size"] == 1 and download(server, name, "links/real/g.txt").body == b"g"
    why = "child path would escape parent directory"
    for path in ("links/etc/passwd", "links/passwd.txt"):
        assert download(server, name, path).status == 400 and download(server, name, path).json == {"detail": f"Invalid file path: {why}"}
        mistake(server.get(f"{SE}/readfile/{name}/{path}"), "Invalid file path", why)
    mistake(server.get(f"{SE}/files/preview/{name}/links/passwd.txt?sid=1"), "Invalid file path", why)
    mistake(server.get(f"{SE}/files/{name}/links/etc"), "Invalid path", why)
    for answer in (create(server, name, "links/etc/new", "x"), upload(server, name, b"x", "links/etc/new"), create(server, name, "links/etc/deeper/new", "x")):
        mistake(answer, "Invalid file path", why)
    assert execute(server, name, "ls /etc/new /etc/deeper")["stdout"] == ""


# --- create

def test_create_writes_utf8_overwrites_and_makes_parents(server, name):
    assert result(create(server, name, "c/d/e.txt", "héllo 世界")) == {"filename": "c/d/e.txt", "size": 13}
    assert download(server, name, "c/d/e.txt").body.decode() == "héllo 世界"
    assert result(create(server, name, "c/d/e.txt", ""))["size"] == 0 and download(server, name, "c/d/e.txt").body == b""


@pytest.mark.parametrize("mode, bits", [(None, "644"), (0, "644"), (0o755, "755"), (0o600, "600"), ("493", "755"), (0o4755, "755")])
def test_the_mode_of_a_file(server, name, mode, bits):
    result(create(server, name, "mode.sh", "x", mode=mode))
    assert execute(server, name, "stat -c %a mode.sh")["stdout"] == bits


@pytest.mark.parametrize("filename, message", [("", "Invalid file path"), ("/", "Invalid file path"), ("adir", "Failed to create file"), ("x" * 300, "Failed to create file")])
def test_names_no_file_can_have(server, name, filename, message):
    execute(server, name, "mkdir -p adir")
    assert mistake(create(server, name, filename, "x"), message)


# --- upload and download

def test_what_is_uploaded_comes_down_the_same(server, name):
    content = bytes(range(256)) * 3000
    assert result(upload(server, name, content, "up/data.bin")) == {"filename": "up/data.bin", "size": len(content)}
    answer = download(server, name, "up/data.bin")
    assert (answer.status, answer.body == content, answer.headers["Content-Type"], answer.headers["Content-Length"]) == (200, True, "application/octet-stream", str(len(content)))
    assert answer.headers["Content-Disposition"] == 'attachment; filename="data.bin"' and answer.headers["ETag"].startswith('"')
    assert email.utils.parsedate_to_datetime(answer.headers["Last-Modified"])
    again = download(server, name, "up/data.bin")
    assert again.headers["ETag"] == answer.headers["ETag"]
    upload(server, name, content, "up/data.bin")
    assert download(server, name, "up/data.bin").headers["ETag"] != answer.headers["ETag"]


@pytest.mark.parametrize("sent, used", [("n%2F%E6%96%B0%20up.txt", "n/新 up.txt"), ("100%.txt", "100%.txt"), ("%FF.txt", "%FF.txt"), ("plain.txt", "plain.txt"), ("a%00b.txt", "a%00b.txt")])
def test_a_part_name_is_percent_decoded_when_that_is_text(server, name, sent, used):
    assert result(upload(server, name, b"x", sent)) == {"filename": used, "size": 1}
    assert download(server, name, used).body == b"x"


def test_the_query_names_the_file_and_a_field_does_not(server, name):
    assert result(upload(server, name, b"1", "a.txt", "?filename=q%2Fnamed%25.txt"))["filename"] == "q/named%.txt"
    body = form(('name="filename"', b"other.txt"), ('name="file"; filename="b.txt"', b"2"))
    assert result(server.post(f"{SE}/upload/{name}", body, headers=form_type()))["filename"] == "b.txt"


def test_forms_that_are_none(server, name):
    for body, headers in ((b"", {}), (b"{}", {"Content-Type": "application/json"}), (form(('name="other"; filename="x"', b"")), form_type())):
        answer = server.post(f"{SE}/upload/{name}", body, headers=headers)
        assert (answer.status, answer.json["detail"][0]["loc"], answer.json["detail"][0]["type"]) == (422, ["body", "file"], "missing"), answer
    answer = server.post(f"{SE}/upload/{name}", form(('name="file"', b"text")), headers=form_type())
    assert answer.status == 422 and "UploadFile" in answer.json["detail"][0]["msg"]
    answer = upload(server, name, b"x", "")
    assert (answer.status, answer.json) == (400, {"detail": "No filename provided"})
    cut = form(('name="file"; filename="cut.txt"', b"half"))[:-20]
    assert server.post(f"{SE}/upload/{name}", cut, headers=form_type()).status == 400
    assert download(server, name, "cut.txt").status == 404, "nothing comes of half a form"


def test_a_name_beyond_ascii_in_a_download(server, name):
    result(create(server, name, "报告 1.txt", "x"))
    assert "filename*=UTF-8''" + quoted("报告 1.txt") in download(server, name, "报告 1.txt").headers["Content-Disposition"]


def test_what_cannot_be_downloaded(server, name):
    execute(server, name, "mkdir -p nofile; mkfifo -m 600 fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
    for path, status, words in (("none.txt", 404, "File not found"), ("nofile", 400, "Not a file"), ("fifo", 400, "Not a file"), ("sock", 400, "Not a file"), ("", 400, "Not a file")):
        answer = download(server, name, path)
        assert (answer.status, answer.json) == (status, {"detail": words}), path


# --- lists

def test_lists(server):
    name = session(server)
    execute(server, name, "mkdir -p a/b empty; echo 1 > top.csv; echo 22 > a/one.txt; echo 333 > a/b/two.tar.gz; echo x > Makefile; echo x > stdout.log; echo x > a/stderr.log; ln -s top.csv link; mkfifo pipe")
    assert listed(server, name) == [{"filename": "Makefile", "name": "Makefile", "size": 2, "type": "unknown"}, {"filename": "top.csv", "name": "top.csv", "size": 2, "type": "csv"}]
    assert names(listed(server, name, query="?recursive=true")) == ["Makefile", "a/b/two.tar.gz", "a/one.txt", "top.csv"]
    assert names(listed(server, name, "a")) == names(listed(server, name, "/a/")) == ["a/one.txt"], "from the root of the session"
    assert names(listed(server, name, "a", "?recursive=1")) == ["a/b/two.tar.gz", "a/one.txt"] and listed(server, name, "a/b")[0]["type"] == "gz"
    assert listed(server, name, "empty") == []
    assert result(server.get(f"{SE}/files/{name}"))["files"] == listed(server, name), "with and without the slash"
    assert "not found" in mistake(server.get(f"{SE}/files/{name}/nowhere"), "Failed to list files")
    assert listed(server, name, "nowhere", "?recursive=true") == []
    assert mistake(server.get(f"{SE}/files/{name}/top.csv"), "Failed to list files")
    server.delete(f"{SE}/session/{name}")


# --- readfile

def test_readfile_by_pieces(server, name):
    text = "".join(f"{n},{n * n}\n" for n in range(2000))
    result(create(server, name, "r/data.csv", text))
    pieces, offset = [], 0
    while True:
        piece = read(server, name, "r/data.csv", offset=offset, buffer_size=4096)
        assert piece["offset"] == offset + len(piece["content"]) and piece["size"] == len(text) and piece["is_binary"] is False
        pieces.append(piece["content"])
        offset = piece["offset"]
        if piece["is_eof"]:
            break
    assert "".join(pieces) == text and len(pieces) == -(-len(text) // 4096)
    assert read(server, name, "r/data.csv") == read(server, name, "r/data.csv", offset=0, buffer_size=4096)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_no_piece_ends_within_a_character(server, name, size):
    text = "aé漢字😀\n"
    result(create(server, name, "r/chars.txt", text))
    pieces, offset = [], 0
    while offset < len(text.encode()):
        piece = read(server, name, "r/chars.txt", offset=offset, buffer_size=size)
        pieces.append(piece["content"])
        assert piece["offset"] > offset
        offset = piece["offset"]
    assert "".join(pieces) == text


def test_text_that_is_not_utf8_is_gbk(server, name):
    result(upload(server, name, "你好，世界\n".encode("gbk"), "r/gbk.txt"))
    assert read(server, name, "r/gbk.txt")["content"] == "你好，世界\n"
    first = read(server, name, "r/gbk.txt", buffer_size=3)
    assert (first["content"], first["offset"]) == ("你", 2)
    result(upload(server, name, b"a\xff\xff\xffz", "r/neither.txt"))
    assert read(server, name, "r/neither.txt")["content"] == "a���z"


@pytest.mark.parametrize("filename, binary", [("t.txt", False), ("T.PY", False), ("t.toml", False), ("t.log", False), ("t.dat", True), ("noextension", True), (".txt", True)])
def test_text_or_base64_by_extension_alone(server, name, filename, binary):
    result(upload(server, name, b"plain", "r/" + filename))
    said = read(server, name, "r/" + filename)
    assert said == {"content": base64.b64encode(b"plain").decode() if binary else "plain", "is_binary": binary, "offset": 5, "size": 5, "is_eof": True}


def test_readfile_at_and_past_the_end(server, name):
    result(create(server, name, "r/short.txt", "abc"))
    assert read(server, name, "r/short.txt", offset=3) == {"content": "", "offset": 3, "size": 3, "is_eof": True}, "and no is_binary"
    assert read(server, name, "r/short.txt", offset=99) == {"content": "", "offset": 99, "size": 3, "is_eof": True}
    result(create(server, name, "r/empty.txt", ""))
    assert read(server, name, "r/empty.txt") == {"content": "", "offset": 0, "size": 0, "is_eof": True}


def test_readfile_mistakes(server, name):
    execute(server, name, "mkdir -p r; echo x > r/f.txt")
    mistake(server.get(f"{SE}/readfile/{name}/r/none.txt"), "File not found", None)
    assert server.get(f"{SE}/readfile/{name}/r/none.txt").json["detail"]["detail"] is None
    mistake(server.get(f"{SE}/readfile/{name}/r"), "Not a file")
    mistake(server.get(f"{SE}/readfile/{name}/r/f.txt?offset=-1"), "Failed to read file", "Error: Invalid offset")
    mistake(server.get(f"{SE}/readfile/{name}/r/f.txt?buffer_size=-1"), "Failed to read file", "Error: Invalid buffer_size")


def test_a_huge_buffer_is_given_in_pieces(server):
    name = session(server)
    execute(server, name, "truncate -s 20M big.bin")
    said = read(server, name, "big.bin", buffer_size=10**12)
    assert (said["offset"], said["size"], said["is_eof"]) == (512 << 10, 20 << 20, False)
    server.delete(f"{SE}/session/{name}")


# --- preview

@pytest.mark.parametrize("filename, kind", [("p.html", "text/html; charset=utf-8"), ("p.PNG", "image/png"), ("p.svg", "image/svg+xml"), ("p.json", "application/json")])
def test_preview(server, name, filename, kind):
    result(upload(server, name, b"<script>1</script>", "pre/" + filename))
    answer = server.get(f"{SE}/files/preview/{name}/pre/{filename}?sid=anything")
    assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, kind, b"<script>1</script>")
    assert answer.headers["Content-Security-Policy"] == "sandbox" and answer.headers["X-Content-Type-Options"] == "nosniff", "it is no page of ours"


def test_preview_mistakes(server, name):
    execute(server, name, "mkdir -p pre/dir.html; echo x > pre/x.exe")
    mistake(server.get(f"{SE}/files/preview/{name}/pre/x.exe?sid=1"), "File type not supported")
    mistake(server.get(f"{SE}/files/preview/{name}/pre/none.html?sid=1"), "File not found")
    mistake(server.get(f"{SE}/files/preview/{name}/pre/dir.html?sid=1"), "Not a file")


def test_without_sid_it_is_a_session_called_preview(server):
    result(create(server, "preview", "d/f.txt", "x"))
    assert names(listed(server, "preview", "d")) == ["d/f.txt"]
    server.delete(f"{SE}/session/preview")
