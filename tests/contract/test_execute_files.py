"""Files: put into a run (section 5), taken out of it (section 6), and kept (section 7)."""
import hashlib
import json
import os
import re
import socket
import time
import urllib.parse

import pytest
from conftest import wait_until
from interpreter import ask, fetch, form, form_type, keep, new_session, outputs, run, send_file, unknown_id
from server import Server

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
STAT = "import os, json\nprint(json.dumps({p: [oct(os.stat(p).st_mode & 0o777), os.stat(p).st_mtime, os.path.isfile(p)] for p in PATHS}))"


def staged(*pairs):
    return [{"path": path, "file_id": file_id} for path, file_id in pairs]


# --- staging

def test_files_are_put_below_the_workspace(server):
    a, b = keep(server, "aaa"), keep(server, b"\0\xff")
    code = "PATHS = ['a.txt', 'd', 'd/e/b.bin', '/workspace/d/e']\n" + STAT + "\nprint(open('a.txt').read(), open('d/e/b.bin', 'rb').read())"
    result = run(server, code, files=staged(("a.txt", a), ("d/e/b.bin", b)))
    facts, content = result["stdout"].splitlines()
    assert json.loads(facts) == {"a.txt": ["0o644", 0, True], "d": ["0o755", json.loads(facts)["d"][1], False], "d/e/b.bin": ["0o644", 0, True], "/workspace/d/e": ["0o755", json.loads(facts)["/workspace/d/e"][1], False]}
    assert content == "aaa b'\\x00\\xff'" and result["files"] == []


@pytest.mark.parametrize("path, want", [
    ("/etc/x", "File paths must be relative."), ("../x", "File paths must not contain '..'."), ("a/../b", "File paths must not contain '..'."), ("..", "File paths must not contain '..'."), ("", "File path must not be empty."),
    (".", "File path must not be empty."), ("./", "File path must not be empty."), ("__main__.py", "File path '__main__.py' is reserved for the execution entrypoint."), ("./__main__.py", "File path '__main__.py' is reserved for the execution entrypoint."),
])
@pytest.mark.parametrize("where", ["/v1/execute", "/v1/execute/stream"])
def test_paths_that_are_refused(server, path, want, where):
    answer = ask(server, "open('ran', 'w')", where, files=staged((path, keep(server, "x"))))
    assert (answer.status, answer.json) == (422, {"detail": want})


@pytest.mark.parametrize("path, there", [("a//b", "a/b"), ("dir/", "dir"), ("./x/./y", "x/y"), ("a\\b", "a\\b"), ("~", "~"), ("...", "..."), ("with space", "with space"), ("ünï/漢😀", "ünï/漢😀"), ("sub/__main__.py", "sub/__main__.py"), ("-x", "-x"), (".env", ".env"), ("n" * 255, "n" * 255)])
def test_paths_that_are_taken(server, path, there):
    result = run(server, f"print(open({there!r}).read())", files=staged((path, keep(server, "here"))))
    assert (result["stdout"], result["files"]) == ("here\n", []), "and unchanged it is no output"


@pytest.mark.parametrize("paths", [["n" * 256], ["d/" * 3000 + "x"], ["a", "a/b"], ["a/b", "a"], ["a\0b"]])
def test_paths_that_cannot_be_are_422(server, paths):
    answer = ask(server, "1", files=staged(*[(path, keep(server, "x")) for path in paths]))
    assert answer.status == 422 and isinstance(answer.json["detail"], str), answer


def test_of_two_with_one_path_the_later_counts(server):
    result = run(server, "print(open('f').read())", files=staged(("f", keep(server, "first")), ("./f", keep(server, "second"))))
    assert result["stdout"] == "second\n" and result["files"] == []


def test_staging_uses_nothing_up(server):
    one = keep(server, "x")
    for _ in range(2):
        assert run(server, "print(open('a').read() + open('b').read())", files=staged(("a", one), ("b", one)))["stdout"] == "xx\n"
    assert fetch(server, one) == b"x"


def test_staged_modules_can_be_imported(server):
    assert run(server, "import helper\nfrom pkg.inner import y\nprint(helper.x, y)", files=staged(("helper.py", keep(server, "x = 5")), ("pkg/__init__.py", keep(server, "")), ("pkg/inner.py", keep(server, "y = 6"))))["stdout"] == "5 6\n"


def test_many_files_and_large_ones(server):
    one = keep(server, "1")
    large = os.urandom(20_000_000)
    files = staged(*[(f"d/{n}", one) for n in range(500)], ("large", keep(server, large)))
    result = run(server, "import os, hashlib\nprint(len(os.listdir('d')), hashlib.sha256(open('large', 'rb').read()).hexdigest())", files=files)
    assert result["stdout"] == f"500 {hashlib.sha256(large).hexdigest()}\n" and result["files"] == []


def test_files_that_do_not_fit_are_refused(fresh_server):
    server = fresh_server("--execute-memory", "32M")
    answer = ask(server, "1", files=staged(("large", keep(server, bytes(40_000_000)))))
    assert answer.status == 413 and isinstance(answer.json["detail"], str)
    assert run(server, "1")["stdout"] == "1\n"


# --- outputs

def test_new_and_changed_files_come_back(server):
    same, edited, gone = keep(server, "same"), keep(server, "before"), keep(server, "gone")
    code = """
import os
open('edited', 'a').write(' and after')
os.unlink('gone')
os.makedirs('out/deep'); os.makedirs('empty')
open('out/deep/r.txt', 'w').write('result')
open('zero', 'w'); open('.env', 'w').write('e'); open('..x', 'w').write('d')
open('same', 'w').write('same'); os.utime('same')
os.symlink('same', 'link'); os.symlink('/etc/passwd', 'outside'); os.mkfifo('fifo')
os.makedirs('sub'); open('sub/__main__.py', 'w').write('not')
import socket; socket.socket(socket.AF_UNIX).bind('socket')
open('hard', 'w').write('h'); os.link('hard', 'hard2')
open('private', 'w').write('p'); os.chmod('private', 0o600)
open('locked', 'w').write('l'); os.chmod('locked', 0)
open('ünï 漢', 'w').write('u')
"""
    result = run(server, code, files=staged(("same", same), ("edited", edited), ("gone", gone)))
    assert result["exit_code"] == 0, result
    assert outputs(server, result) == {"edited": b"before and after", "out/deep/r.txt": b"result", "zero": b"", ".env": b"e", "..x": b"d", "hard": b"h", "hard2": b"h", "private": b"p", "locked": b"l", "ünï 漢": b"u"}
    assert all(list(entry) == ["path", "kind", "file_id"] and entry["kind"] == "file" and UUID.fullmatch(entry["file_id"]) for entry in result["files"])
    ids = {entry["path"]: entry["file_id"] for entry in result["files"]}
    assert ids["edited"] != edited and fetch(server, edited) == b"before"
    names = {entry["file_id"]: entry["filename"] for entry in server.get("/v1/files").json["files"]}
    assert names[ids["out/deep/r.txt"]] == "out/deep/r.txt"


def test_a_failed_run_has_outputs_too(server):
    result = run(server, "open('f', 'w').write('x')\n1/0")
    assert result["exit_code"] == 1 and outputs(server, result) == {"f": b"x"}


def test_outputs_can_be_inputs(server):
    first = run(server, "open('data.csv', 'w').write('1,2')")
    assert run(server, "print(open('d').read())", files=staged(("d", first["files"][0]["file_id"])))["stdout"] == "1,2\n"


def test_a_name_that_is_no_text_is_shown_all_the_same(server):
    result = run(server, "open(b'a\\xffb', 'w').write('x')")
    assert outputs(server, result) == {"a\ufffdb": b"x"}


def test_large_and_many_outputs(server):
    result = run(server, "import os\nopen('large', 'wb').write(b'x' * 50_000_000)\nfor n in range(1000): open(f'f{n}', 'w').write(str(n))", last_line_interactive=False)
    assert len(result["files"]) == 1001
    large = next(entry for entry in result["files"] if entry["path"] == "large")
    assert hashlib.md5(fetch(server, large["file_id"])).hexdigest() == hashlib.md5(b"x" * 50_000_000).hexdigest()


def test_more_than_there_is_room_for_is_left_out_and_the_rest_is_not(fresh_server):
    server = fresh_server("--execute-memory", "32M")
    code = "import os\nfor name in ('h1', 'h2'):\n  open(name, 'w'); os.truncate(name, 20 << 20)\nopen('z', 'w').write('z')"
    result = run(server, code, last_line_interactive=False)
    assert {path: len(content) for path, content in outputs(server, result).items()} == {"h1": 20 << 20, "z": 1}, "holes are nothing, and have a size"


def test_a_program_that_leaves_its_process_limit_full_has_outputs(server):
    code = "import os, time\nopen('f', 'w').write('x')\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(600)\nexcept OSError: pass"
    result = run(server, code, last_line_interactive=False)
    assert outputs(server, result) == {"f": b"x"}


def test_a_program_that_keeps_writing_in_the_background_does_no_harm(server):
    code = "import subprocess\nopen('f', 'w').write('x')\nsubprocess.Popen(['bash', '-c', 'while true; do echo x >> grows; done'])\nimport time; time.sleep(0.2)"
    result = run(server, code, last_line_interactive=False)
    assert result["exit_code"] == 0 and {"f", "grows"} == set(outputs(server, result))


# --- the store

def test_upload_download_list_delete(server):
    before = time.time()
    answer = send_file(server, "one,two\n", "q.csv")
    assert answer.status == 201 and list(answer.json) == ["file_id", "filename", "size_bytes"]
    kept = answer.json
    assert UUID.fullmatch(kept["file_id"]) and (kept["filename"], kept["size_bytes"]) == ("q.csv", 8)
    [entry] = [entry for entry in server.get("/v1/files").json["files"] if entry["file_id"] == kept["file_id"]]
    assert list(entry) == ["file_id", "filename", "size_bytes", "upload_time"] and isinstance(entry["upload_time"], float) and before - 1 <= entry["upload_time"] <= time.time() + 1
    got = server.get("/v1/files/" + kept["file_id"])
    assert (got.status, got.body, got.headers["Content-Type"], got.headers["Content-Length"]) == (200, b"one,two\n", "application/octet-stream", "8")
    assert got.headers["Content-Disposition"] == 'attachment; filename="q.csv"'
    gone = server.delete("/v1/files/" + kept["file_id"])
    assert (gone.status, gone.body) == (204, b"")
    for verb in ("GET", "DELETE"):
        answer = server.request(verb, "/v1/files/" + kept["file_id"])
        assert (answer.status, answer.json) == (404, {"detail": f"File with ID '{kept['file_id']}' not found"})
    assert kept["file_id"] not in server.get("/v1/files").body.decode()


@pytest.mark.parametrize("bad", ["x", "..", "%2e%2e%2fcove.db", "..%2F..%2Fetc%2Fpasswd", "cove.db", "%00", "a%0Ab", "é"])
def test_ids_that_are_none(server, bad):
    answer = server.get("/v1/files/" + urllib.parse.quote(bad, safe="%"))
    assert answer.status in (404, 400) and isinstance(answer.json["detail"], str)


NAMES = [
    ("a b.txt", "a b.txt", 'attachment; filename="a b.txt"'), ("../../etc/passwd", "../../etc/passwd", 'attachment; filename="../../etc/passwd"'), ("a%22b", "a%22b", 'attachment; filename="a%22b"'),
    ("grüße 漢.txt", "grüße 漢.txt", "attachment; filename=\"gr__e _.txt\"; filename*=UTF-8''gr%C3%BC%C3%9Fe%20%E6%BC%A2.txt"), ("", "unnamed", 'attachment; filename="unnamed"'), ("a;b=c", "a;b=c", 'attachment; filename="a;b=c"'),
    ('q\\"uote', 'q"uote', "attachment; filename=\"quote\"; filename*=UTF-8''q%22uote"), ("n" * 3000, "n" * 3000, None),
]


@pytest.mark.parametrize("sent, kept, disposition", NAMES)
def test_names_are_kept_as_they_are(server, sent, kept, disposition):
    answer = send_file(server, "x", sent)
    assert answer.status == 201 and answer.json["filename"] == kept
    got = server.get("/v1/files/" + answer.json["file_id"])
    assert got.status == 200 and (disposition is None or got.headers["Content-Disposition"] == disposition)


def test_forms_of_other_clients(server):
    for disposition, name in [('name="file"; filename*=UTF-8\'\'gr%C3%BC%C3%9Fe.txt', "grüße.txt"), ("name=file; filename=plain", "plain"), (b'name="file"; filename="h\xe9"', "hé"), ('filename="x"; name="file"', "x")]:
        answer = server.post("/v1/files", form((disposition, b"x")), headers=form_type())
        assert answer.status == 201 and answer.json["filename"] == name, answer
    body = form(('name="purpose"', b"assistants"), ('name="file"; filename="a"', b"first"), ('name="other"; filename="b"', b"y" * 100_000), ('name="file"; filename="c"', b"last"))
    answer = server.post("/v1/files", body, headers=form_type())
    assert (answer.json["filename"], fetch(server, answer.json["file_id"])) == ("c", b"last"), "of several the last; others are ignored"
    tricky = b"\r\n--boundary-\r\n--boundary-2\r\n\r--boundary-1"
    assert fetch(server, keep(server, tricky)) == tricky
    assert fetch(server, keep(server, b"")) == b""


def chunked(server, pieces, path="/v1/files", headers=()):
    """A body of unknown length, piece by piece; what comes back, or what came before the connection broke."""
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Transfer-Encoding: chunked", "Connection: close", *headers]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        for piece in pieces:
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
        received = b""
        while more := connection.recv(1 << 16):
            received += more
    return received


def test_a_chunked_upload(server):
    body = form(('name="file"; filename="a"', b"chunky" * 1000))
    pieces = [body[at:at + 7] for at in range(0, len(body), 7)]
    answer = chunked(server, pieces, headers=["Content-Type: multipart/form-data; boundary=boundary-1"])
    assert answer.startswith(b"HTTP/1.1 201 ") and b'"size_bytes":6000' in answer


def test_a_file_over_the_limit_gets_its_whole_answer(server):
    answer = send_file(server, bytes(101 << 20))
    assert (answer.status, answer.json) == (413, {"detail": "File size exceeds maximum of 100 MB"})
    head = form(('name="file"; filename="a"', b""))[:-len(b"\r\n--boundary-1--\r\n")]
    received = chunked(server, [head] + [bytes(1 << 20)] * 101 + [b"\r\n--boundary-1--\r\n"], headers=["Content-Type: multipart/form-data; boundary=boundary-1"])
    assert received.startswith(b"HTTP/1.1 413 ") and received.endswith(b'{"detail":"File size exceeds maximum of 100 MB"}')


def memory_of(server):
    """Resident bytes of the front."""
    from conftest import HostState
    [front] = [pid for pid, (name, parent) in HostState.all_processes().items() if parent == server.pid and name == "cove-front"]
    for line in open(f"/proc/{front}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no such process")


def test_at_the_limit_a_file_is_kept_in_constant_memory(fresh_server):
    server = fresh_server("--files-max-size", "64M")
    keep(server, "warm")
    before = memory_of(server)
    file_id = keep(server, b"x" * (64 << 20))
    assert len(fetch(server, file_id)) == 64 << 20
    assert memory_of(server) - before < 16 << 20
    assert send_file(server, b"x" * ((64 << 20) + 1)).json == {"detail": "File size exceeds maximum of 64 MB"}
    assert os.listdir(server.state_dir / "front" / "files") and len(os.listdir(server.state_dir / "front" / "files")) == 2, "nothing is left of what was refused"


def test_a_client_that_leaves_in_the_middle_leaves_nothing(fresh_server):
    server = fresh_server()
    place = server.state_dir / "front" / "files"
    head = f"POST /v1/files HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 1000000\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(head.encode() + b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf of it')
        assert wait_until(lambda: os.listdir(place), 10)
    assert wait_until(lambda: not os.listdir(place), 10)
    assert server.get("/v1/files").json == {"files": []}


def test_many_files_are_listed_whole(fresh_server):
    server = fresh_server()
    result = run(server, "for n in range(1200): open(f'f{n}', 'w')", last_line_interactive=False)
    listed = server.get("/v1/files").json["files"]
    assert {entry["file_id"] for entry in listed} == {entry["file_id"] for entry in result["files"]} and len(listed) == 1200


# --- over time

def test_files_expire_but_not_under_a_run(fresh_server):
    server = fresh_server("--files-ttl", "1s")
    place = server.state_dir / "front" / "files"
    idle = keep(server, "idle")
    assert wait_until(lambda: server.get("/v1/files/" + idle).status == 404, 10) and server.get("/v1/files").json == {"files": []}
    assert wait_until(lambda: not os.listdir(place), 10)
    used = keep(server, "used")
    import threading
    thread = threading.Thread(target=lambda: run(server, "import time; time.sleep(4)", files=staged(("f", used))))
    thread.start()
    assert wait_until(lambda: server.get("/v1/files/" + used).status == 404, 10)
    time.sleep(1)
    assert os.listdir(place) == [used], "its content stays while it is used"
    thread.join()
    assert wait_until(lambda: not os.listdir(place), 10)


def test_files_survive_a_restart_and_what_is_half_does_not(fresh_server):
    server = fresh_server()
    kept = keep(server, "kept", "n.txt")
    place = server.state_dir / "front" / "files"
    (place / unknown_id()).write_text("nobody's")
    (place / ".draft-123").write_text("half")
    server.restart()
    assert fetch(server, kept) == b"kept" and [entry["filename"] for entry in server.get("/v1/files").json["files"]] == ["n.txt"]
    assert os.listdir(place) == [kept]


def test_a_directory_of_ones_own(tmp_path, fresh_server):
    place = tmp_path / "a" / "files"
    server = fresh_server(env={"FILE_STORAGE_DIR": str(place)})
    kept = keep(server, "x")
    assert os.listdir(place) == [kept] and (place.stat().st_mode & 0o777) == 0o700
    server.restart()
    assert fetch(server, kept) == b"x"
    assert run(server, "print(open('f').read())", files=staged(("f", kept)))["stdout"] == "x\n"
    # Two servers do not share one, and one that belongs to something else is left alone.
    for flags in (["--files-directory", place], ["--files-directory", "/tmp"]):
        other = Server(*flags)
        try:
            with pytest.raises(RuntimeError, match="files.directory"):
                other.start()
        finally:
            other.popen = None
            other.close()
    assert (os.stat("/tmp").st_mode & 0o1777) == 0o1777


@pytest.mark.skipif(os.geteuid() != 0, reason="changing to another user needs root")
def test_without_root_everything_works_too(tmp_path_factory):
    import shutil
    import subprocess
    import tempfile
    from conftest import COVE
    nobody = 65534
    with tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        os.chmod(directory, 0o755)
        os.chown(directory, nobody, nobody)
        shutil.copy(COVE, directory + "/cove")
        server = Server()
        arguments = [directory + "/cove", "serve", "--listen", "127.0.0.1:0", "--allow-degraded", "--state-dir", directory + "/state"]
        with open(server.log_path, "wb") as log:
            process = subprocess.Popen(arguments, stdout=log, stderr=log, user=nobody, group=nobody, extra_groups=[], cwd=directory, env={"HOME": directory, "PATH": os.environ["PATH"]})
        try:
            assert wait_until(lambda: "serving on" in server.log or process.poll() is not None, 30)
            found = re.search(r"http://127\.0\.0\.1:(\d+)", server.log)
            if not found:
                pytest.skip("this host lets no ordinary user serve: " + server.log[-300:])
            server.port = int(found[1])
            result = run(server, "open('o', 'w').write(open('i').read() * 2)", files=staged(("i", keep(server, "ab"))))
            assert outputs(server, result) == {"o": b"abab"}
            assert sorted(os.listdir(directory + "/state/front/files")) == sorted(entry["file_id"] for entry in server.get("/v1/files").json["files"])
        finally:
            process.terminate()
            process.wait(20)
            server.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_said_to_be_full(tmp_path, fresh_server):
    import subprocess
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0755", "tmpfs", str(place)], check=True)
    try:
        server = fresh_server(env={"FILE_STORAGE_DIR": str(place)})
        answer = send_file(server, bytes(3 << 20))
        assert answer.status == 507 and isinstance(answer.json["detail"], str)
        assert wait_until(lambda: os.listdir(place) == [], 5), "and nothing is left of it"
        answer = ask(server, "open('f', 'wb').write(bytes(3 << 20))", timeout_ms=20000)
        assert answer.status == 507
        assert ask(server, "open('a', 'w').write('fits')\nopen('f', 'wb').write(bytes(3 << 20))", timeout_ms=20000).status == 507
        assert os.listdir(place) == [] and server.get("/v1/files").json == {"files": []}, "of outputs that do not all fit none is kept"
        [(name, data)] = __import__("interpreter").stream(server, "open('f', 'wb').write(bytes(3 << 20))\nNone", last_line_interactive=False)
        assert name == "error" and data["message"]
        assert fetch(server, keep(server, "small")) == b"small"
        server.close()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
