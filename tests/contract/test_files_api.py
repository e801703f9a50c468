"""Single files: `…/files…` of docs/api.md."""
import email.utils
import json
import os
import threading
import time
import urllib.parse

import pytest
from conftest import meanwhile, wait_until
from server import at

DATA = bytes(range(256)) * 40  # 10240 bytes


def where(sandbox, path, rest="files", **query):
    return at(sandbox, rest) + "?" + urllib.parse.urlencode({"path": path, **query})


def write(server, sandbox, path, content, **query):
    return server.put(where(sandbox, path, **query), content)


def read(server, sandbox, path, **headers):
    return server.get(where(sandbox, path), headers={name.replace("_", "-"): value for name, value in headers.items()})


# --- write, read, append

@pytest.mark.parametrize("content", [b"", b"x", DATA, b"\0\xff\r\n", "grüße".encode()], ids=["empty", "one byte", "all bytes", "odd bytes", "text"])
def test_what_is_written_is_read_back(server, sandbox, content):
    answer = write(server, sandbox, "sub/dir/file", content)
    assert answer.status == 200
    entry = answer.json
    assert (entry["path"], entry["name"], entry["type"], entry["size"], entry["mode"]) == ("/workspace/sub/dir/file", "file", "file", len(content), "0644")
    back = read(server, sandbox, "/workspace/sub/dir/file")
    assert (back.status, back.body, back.headers["Content-Length"]) == (200, content, str(len(content)))
    assert back.headers["Content-Type"] == "application/octet-stream" and back.headers["ETag"] and back.headers["Accept-Ranges"] == "bytes"
    assert abs(email.utils.parsedate_to_datetime(back.headers["Last-Modified"]).timestamp() - time.time()) < 60


@pytest.mark.parametrize("name", ["with space", "grüße 漢字", "-rf", "--help", "a+b&c=d%20", "quote'\"", "back\\slash", "new\nline", "...", ".hidden", "x" * 255])
def test_odd_names_are_names(server, sandbox, name):
    assert write(server, sandbox, name, b"content").status == 200
    assert read(server, sandbox, name).body == b"content"
    assert server.get(where(sandbox, name, "files/stat")).json["name"] == name
    assert server.exec(sandbox, "python3", "-c", "import os, json; print(json.dumps(os.listdir('.')))")["stdout"].strip() == json.dumps([name])


def test_a_large_file_goes_both_ways(server, sandbox):
    data = os.urandom(40 << 20)
    assert write(server, sandbox, "big", data).json["size"] == len(data)
    assert read(server, sandbox, "big").body == data


@pytest.mark.parametrize("mode", ["0600", "755", "0400", "0777"])
def test_a_mode_is_taken(server, sandbox, mode):
    assert write(server, sandbox, "f", b"x", mode=mode).json["mode"] == mode.zfill(4)


@pytest.mark.parametrize("mode", ["9", "rwx", "", "07777", "0x1ff", "-644"])
def test_a_mode_that_is_none_is_400(server, sandbox, mode):
    assert write(server, sandbox, "f", b"x", mode=mode).status == 400


def test_set_id_bits_are_not_given(server, sandbox):
    assert write(server, sandbox, "f", b"x", mode="4755").status in (200, 400)
    assert not int(server.out(sandbox, "stat -c %a f 2>/dev/null || echo 0").strip(), 8) & 0o7000


def test_writing_replaces_whole_files_and_a_reader_never_sees_half(server, sandbox):
    write(server, sandbox, "f", b"a" * 1_000_000)
    seen = set()
    with meanwhile(lambda: seen.add(server.out(sandbox, "head -c 1 f; wc -c <f"))):
        for number in range(6):
            assert write(server, sandbox, "f", (b"b" if number % 2 else b"a") * 1_000_000).status == 200
    assert seen <= {"a1000000\n", "b1000000\n"}


def test_a_write_that_breaks_off_leaves_the_old_content(server, sandbox):
    import socket
    write(server, sandbox, "f", b"old")
    for size in (0, 10, 60_000):
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            connection.sendall(f"PUT {where(sandbox, 'f')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 100000\r\n\r\n".encode() + b"n" * size)
            time.sleep(0.05)
        assert wait_until(lambda: server.out(sandbox, "ls -A; cat f") == "f\nold", 4), size


def test_append_adds_to_the_end_and_makes_the_file(server, sandbox):
    assert write(server, sandbox, "log", b"one\n", append="true").json["size"] == 4
    assert write(server, sandbox, "log", b"two\n", append="true").json["size"] == 8
    assert read(server, sandbox, "log").body == b"one\ntwo\n"
    assert write(server, sandbox, "log", b"x", append="maybe").status == 400


@pytest.mark.parametrize("path, status", [("/etc/passwd", 403), ("/usr/bin/x", 403), ("/proc/self/mem", (400, 403, 404)), ("/workspace", (400, 409)), ("", 400), ("a\0b", 400), ("x" * 300, 400), ("f/below", (400, 404, 409))])
def test_a_place_that_cannot_be_written_is_refused(server, sandbox, path, status):
    write(server, sandbox, "f", b"x")
    answer = write(server, sandbox, path, b"evil")
    assert answer.status in (status if isinstance(status, tuple) else (status,)), answer
    assert answer.json["error"]


def test_more_than_the_disk_holds_is_413_and_leaves_the_old_content(server):
    name = server.create(ephemeralStorageLimit="2Mi")
    write(server, name, "f", b"old")
    answer = write(server, name, "f", bytes(4 << 20))
    assert (answer.status, answer.code) == (413, "too_large")
    assert server.out(name, "ls -A; cat f") == "f\nold"
    server.delete(at(name))


@pytest.mark.parametrize("path, status", [("missing", 404), ("/no/such/file", 404), ("dir", 400), ("f/below", (400, 404)), ("", 400)])
def test_what_cannot_be_read_is_refused(server, sandbox, path, status):
    server.out(sandbox, "mkdir dir; echo x >f")
    answer = read(server, sandbox, path)
    assert answer.status in (status if isinstance(status, tuple) else (status,)), answer


def test_a_file_without_permission_is_403(server, sandbox):
    server.out(sandbox, "echo x >f; chmod 000 f")
    answer = read(server, sandbox, "f")
    assert (answer.status, answer.code) == (403, "denied")
    assert server.get(where(sandbox, "f", "files/stat")).json["mode"] == "0000"


def test_files_of_the_system_can_be_read_and_a_fifo_does_not_hang(server, sandbox):
    assert b"root" in read(server, sandbox, "/etc/passwd").body
    server.out(sandbox, "mkfifo p")
    assert server.get(where(sandbox, "p"), timeout=10).status in (400, 403, 409)


@pytest.mark.parametrize("path", ["sock", "/dev/tty", "p", "/dev/zero", "/dev/ptmx"])
def test_what_is_no_regular_file_is_a_clear_400_however_it_is_downloaded(server, sandbox, path):
    server.out(sandbox, "mkfifo p; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
    for answer in (read(server, sandbox, path), server.get(at(sandbox, f"files/download?src={path}"))):
        assert (answer.status, answer.code) == (400, "invalid") and "regular file" in answer.json["error"], answer


# --- ranges and conditions

@pytest.mark.parametrize("header, first, last", [
    ("bytes=0-0", 0, 0), ("bytes=0-9", 0, 9), ("bytes=10-19", 10, 19), ("bytes=10239-10239", 10239, 10239), ("bytes=10000-", 10000, 10239), ("bytes=0-", 0, 10239), ("bytes=-1", 10239, 10239), ("bytes=-500", 9740, 10239), ("bytes=-99999", 0, 10239),
    ("bytes=5000-99999", 5000, 10239), ("bytes=0-18446744073709551615", 0, 10239), ("bytes=1-9223372036854775807", 1, 10239),
])
def test_a_range_is_206_and_exact(server, sandbox, header, first, last):
    write(server, sandbox, "f", DATA)
    answer = read(server, sandbox, "f", Range=header)
    assert (answer.status, answer.reason) == (206, "Partial Content")
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/10240" and answer.headers["Content-Length"] == str(last - first + 1)
    assert answer.body == DATA[first:last + 1]


@pytest.mark.parametrize("header", ["bytes=10240-", "bytes=10240-10250", "bytes=99999-", "bytes=-0", "bytes=18446744073709551615-"])
def test_a_range_outside_is_416_with_the_size(server, sandbox, header):
    write(server, sandbox, "f", DATA)
    answer = read(server, sandbox, "f", Range=header)
    assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */10240")


def test_any_range_of_an_empty_file_is_416_and_the_whole_is_200(server, sandbox):
    write(server, sandbox, "f", b"")
    assert read(server, sandbox, "f", Range="bytes=0-").status == 416
    assert read(server, sandbox, "f").status == 200


@pytest.mark.parametrize("header", ["bytes=0-1,5-6", "items=0-5", "bytes=", "bytes=a-b", "bytes=5-2", "bytes", "bytes=--5", "bytes=99999999999999999999-"])
def test_what_is_no_single_range_is_as_if_it_were_not_there(server, sandbox, header):
    write(server, sandbox, "f", DATA)
    answer = read(server, sandbox, "f", Range=header)
    assert answer.status in (200, 416) and (answer.status == 416 or answer.body == DATA), answer


def test_if_none_match_is_304_until_the_file_changes(server, sandbox):
    write(server, sandbox, "f", DATA)
    etag = read(server, sandbox, "f").headers["ETag"]
    for known in (etag, "*", f'"other", {etag}', f"W/{etag}"):
        answer = read(server, sandbox, "f", If_None_Match=known)
        assert (answer.status, answer.body) == (304, b""), known
        assert answer.headers["ETag"] == etag
    assert read(server, sandbox, "f", If_None_Match='"other"').status == 200
    write(server, sandbox, "f", DATA + b"!")
    changed = read(server, sandbox, "f", If_None_Match=etag)
    assert changed.status == 200 and changed.headers["ETag"] != etag


def test_if_range_gives_the_range_of_the_same_file_and_all_of_another(server, sandbox):
    write(server, sandbox, "f", DATA)
    etag = read(server, sandbox, "f").headers["ETag"]
    assert read(server, sandbox, "f", Range="bytes=5-9", If_Range=etag).status == 206
    other = read(server, sandbox, "f", Range="bytes=5-9", If_Range='"other"')
    assert (other.status, other.body) == (200, DATA)


def test_head_tells_size_and_etag_without_the_body(server, sandbox):
    write(server, sandbox, "f", DATA)
    whole = read(server, sandbox, "f")
    head = server.request("HEAD", where(sandbox, "f"))
    assert (head.status, head.body, head.headers["Content-Length"], head.headers["ETag"]) == (200, b"", "10240", whole.headers["ETag"])
    assert server.request("HEAD", where(sandbox, "missing")).status == 404


# --- stat and list

def test_stat_tells_what_a_path_is(server, sandbox):
    server.out(sandbox, "echo hello >f; chmod 751 f; touch -d @1234567890 f; mkdir d; ln -s f l; ln -s /nowhere dangling; mkfifo p")

    def stat(path):
        return server.get(where(sandbox, path, "files/stat")).json

    entry = stat("f")
    assert (entry["path"], entry["name"], entry["type"], entry["size"], entry["mode"]) == ("/workspace/f", "f", "file", 6, "0751")
    assert str(entry["mtime"]).startswith(("2009-02-13T23:31:30", "1234567890"))
    assert (stat("d")["type"], stat("p")["type"], stat("l")["type"], stat("l")["target"], stat("dangling")["target"]) == ("directory", "other", "symlink", "f", "/nowhere")
    assert stat("/")["type"] == "directory" and stat("/etc/hostname")["type"] in ("file", "symlink")
    assert server.get(where(sandbox, "missing", "files/stat")).status == 404
    assert server.get(at(sandbox, "files/stat")).status == 400


def test_a_list_is_sorted_and_as_deep_as_asked(server, sandbox):
    server.out(sandbox, "mkdir -p a/b/c z; echo 1 >a/f; echo 2 >a/b/g; echo 3 >a/b/c/h; echo 4 >b; ln -s a l")

    def paths(**query):
        answer = server.get(at(sandbox, "files/list") + "?" + urllib.parse.urlencode(query))
        assert answer.status == 200 and answer.json["truncated"] is False, answer
        return [entry["path"].removeprefix("/workspace/") for entry in answer.json["entries"]]

    assert paths() == ["a", "b", "l", "z"]
    assert paths(path="/workspace", depth=1) == ["a", "b", "l", "z"]
    assert sorted(paths(depth=2)) == ["a", "a/b", "a/f", "b", "l", "z"] == sorted(paths(path=".", depth=2))
    everything = paths(depth=100)
    assert everything == sorted(everything) and set(everything) == {"a", "a/b", "a/b/c", "a/b/c/h", "a/b/g", "a/f", "b", "l", "z"}
    assert paths(path="a/b") == ["a/b/c", "a/b/g"]
    assert paths(path="z") == []


@pytest.mark.parametrize("query, status", [("depth=0", 400), ("depth=x", 400), ("depth=1001", 400), ("path=missing", 404)])
def test_a_list_that_cannot_be_is_refused(server, sandbox, query, status):
    assert server.get(at(sandbox, f"files/list?{query}")).status == status


def test_a_long_list_is_cut_at_ten_thousand_and_says_so(server, sandbox):
    server.exec(sandbox, "python3", "-c", "import os\nfor n in range(10050): open(f'f{n:05}', 'w').close()")
    listed = server.get(at(sandbox, "files/list")).json
    assert len(listed["entries"]) == 10000 and listed["truncated"] is True and listed["leftOut"] == 50


def test_a_list_of_more_than_sixteen_megabytes_of_names_is_cut_and_says_how_many_are_missing(server):
    sandbox = server.create(memoryLimit="1Gi")
    server.exec(sandbox, "python3", "-c", "import os\nfor _ in range(12):\n    os.mkdir('d' * 250); os.chdir('d' * 250)\nfor n in range(5000): open(f'{n:05}' + 'f' * 200, 'w').close()")
    answer = server.get(at(sandbox, "files/list?depth=1000"), timeout=60)
    assert answer.status == 200, answer
    listed = answer.json
    assert listed["truncated"] is True and len(listed["entries"]) + listed["leftOut"] == 5012 and 3000 < len(listed["entries"]) < 5012
    assert len(answer.body) < 16 << 20
    server.delete(at(sandbox))


def test_a_name_that_is_not_utf8_says_so(server, sandbox):
    server.out(sandbox, "mkdir names; touch names/good \"$(printf 'names/\\377')\"")
    entries = server.get(at(sandbox, "files/list?path=names")).json["entries"]
    assert {entry["name"]: entry.get("notUtf8") for entry in entries} == {"good": None, "\ufffd": True}


def test_a_loop_of_links_does_not_go_round(server, sandbox):
    server.out(sandbox, "mkdir d; ln -s .. d/up; ln -s loop loop")
    assert len(server.get(at(sandbox, "files/list?depth=1000")).json["entries"]) == 3


# --- rename, mkdir, remove

def test_rename_moves_and_does_not_overwrite_unless_told(server, sandbox):
    server.out(sandbox, "echo a >a; echo b >b; mkdir d")
    moved = server.post(at(sandbox, "files/rename"), {"from": "a", "to": "/workspace/c"})
    assert (moved.status, moved.json["path"]) == (200, "/workspace/c")
    refused = server.post(at(sandbox, "files/rename"), {"from": "c", "to": "b"})
    assert (refused.status, refused.code) == (409, "exists")
    assert server.out(sandbox, "cat b c") == "b\na\n"
    assert server.post(at(sandbox, "files/rename"), {"from": "c", "to": "b", "overwrite": True}).status == 200
    assert server.out(sandbox, "cat b; ls") == "a\nb\nd\n"
    assert server.post(at(sandbox, "files/rename"), {"from": "d", "to": "e"}).json["type"] == "directory"
    assert server.post(at(sandbox, "files/rename"), {"from": "b", "to": "/tmp/b"}).status == 200


@pytest.mark.parametrize("body, status", [({"from": "missing", "to": "x"}, 404), ({"from": "f"}, 400), ({"to": "f"}, 400), ({"from": "f", "to": ""}, 400), ({"from": 1, "to": "x"}, 400), ({"from": "f", "to": "x", "overwrite": "yes"}, 400), ({"from": "f", "to": "/usr/bin/f"}, (400, 403)), ({"from": "d", "to": "d/inside"}, (400, 409))], ids=lambda value: json.dumps(value)[:40])
def test_a_rename_that_cannot_be_is_refused(server, sandbox, body, status):
    server.out(sandbox, "echo x >f; mkdir d")
    answer = server.post(at(sandbox, "files/rename"), body)
    assert answer.status in (status if isinstance(status, tuple) else (status,)), answer
    assert server.out(sandbox, "ls") == "d\nf\n"


def test_mkdir_makes_parents_and_is_content_with_what_is_there(server, sandbox):
    made = server.post(at(sandbox, "files/mkdir"), {"path": "a/b/c"})
    assert (made.status, made.json["path"], made.json["type"]) == (200, "/workspace/a/b/c", "directory")
    assert server.post(at(sandbox, "files/mkdir"), {"path": "a/b"}).status == 200
    server.out(sandbox, "echo x >f")
    assert server.post(at(sandbox, "files/mkdir"), {"path": "f"}).status in (400, 409)
    assert server.post(at(sandbox, "files/mkdir"), {"path": "/usr/x"}).status == 403
    assert server.post(at(sandbox, "files/mkdir"), {}).status == 400


def test_remove_takes_a_file_an_empty_directory_and_with_recursive_everything(server, sandbox):
    server.out(sandbox, "echo x >f; mkdir -p e d/x/y; echo x >d/x/y/f; ln -s /workspace/d/x l; mkdir kept; ln -s ../kept d/k; echo x >kept/f")
    assert server.delete(where(sandbox, "f")).status == 204
    assert server.delete(where(sandbox, "e")).status == 204
    assert server.delete(where(sandbox, "d")).status in (400, 409)
    assert server.delete(where(sandbox, "l")).status == 204
    assert server.delete(where(sandbox, "d", recursive="true")).status == 204
    assert server.out(sandbox, "ls; ls kept") == "kept\nf\n"
    assert server.delete(where(sandbox, "d")).status == 404
    assert server.delete(where(sandbox, "/usr/bin/env")).status == 403
    assert server.delete(at(sandbox, "files")).status == 400


# --- watch

def watched(server, sandbox, script, until, **query):
    with server.sse(where(sandbox, "/workspace", "files/watch", **query)) as stream:
        assert stream.status == 200 and stream.comment()
        server.out(sandbox, script)
        return [(event["data"]["type"], event["data"]["path"]) for event in stream.until(until)]


def test_a_watch_tells_what_is_created_modified_moved_and_deleted(server, sandbox):
    seen = watched(server, sandbox, "echo 1 >f; echo 2 >>f; mv f g; rm g; touch end", lambda data: data["path"].endswith("end"))
    assert ("created", "/workspace/f") in seen and ("modified", "/workspace/f") in seen and ("deleted", "/workspace/g") in seen
    assert any(kind == "moved" for kind, _ in seen)
    assert {kind for kind, _ in seen} <= {"created", "modified", "deleted", "moved"}


def test_a_recursive_watch_sees_new_directories_and_a_plain_one_does_not(server, sandbox):
    script = "mkdir -p new/deep; sleep 0.2; echo x >new/deep/f; sleep 0.2; touch end"
    seen = watched(server, sandbox, script, lambda data: data["path"].endswith("/end"), recursive="true")
    assert any(path == "/workspace/new/deep/f" for _, path in seen)
    server.out(sandbox, "rm -rf new end; mkdir sub")
    seen = watched(server, sandbox, "echo x >sub/f; sleep 0.1; touch end", lambda data: data["path"].endswith("/end"))
    assert not any(path == "/workspace/sub/f" for _, path in seen)


def test_a_watch_on_nothing_is_404_and_one_whose_client_leaves_ends(server, sandbox):
    with server.sse(where(sandbox, "missing", "files/watch")) as stream:
        assert stream.status == 404
    for _ in range(3):
        with server.sse(where(sandbox, "/workspace", "files/watch")) as stream:
            stream.comment()
    assert wait_until(lambda: server.get(at(sandbox)).json["usage"]["pids"] <= 2, 8)


def test_many_file_requests_at_once(server, sandbox):
    failures = []

    def work(number):
        for turn in range(8):
            content = f"{number}-{turn}".encode() * 100
            if write(server, sandbox, f"d{number}/f{turn}", content).status != 200 or read(server, sandbox, f"d{number}/f{turn}").body != content:
                failures.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_an_empty_path_lists_the_workspace_as_none_does(server, sandbox):
    server.out(sandbox, "touch here")
    both = [server.get(at(sandbox, f"files/list?{query}depth=1")).json for query in ("path=&", "")]
    assert both[0] == both[1] and any(entry["path"].endswith("here") for entry in both[0]["entries"])
