"""Upload and download: sections 2.5 and 2.6 of the NoxRunner contract."""
import gzip
import io
import os
import tarfile
import time

import pytest
from conftest import wait_until
from server import at, member, members_of, tar_gz, tar_of


def tree(server, sandbox, where="/workspace"):
    """{path: content} of every file below."""
    found = server.exec(sandbox, "python3", "-c", f"import json, os\nprint(json.dumps({{os.path.relpath(os.path.join(d, f), {where!r}): open(os.path.join(d, f), 'rb').read().decode('latin-1') for d, _, fs in os.walk({where!r}) for f in fs if os.path.isfile(os.path.join(d, f))}}))")
    import json
    return json.loads(found["stdout"])


def nothing_written(server, sandbox):
    return server.out(sandbox, "find /workspace /tmp -mindepth 1") == ""


# --- upload

def test_what_the_client_makes_is_unpacked_byte_for_byte(server, sandbox):
    files = {"a.txt": "text ü", "bin": bytes(range(256)) * 100, "sub/dir/deep.txt": "deep", "./dotted.txt": "dot", "/absolute.txt": "abs", "/workspace/nested": "n", "empty": b"", "with space": "s", "grüße/漢字.txt": "names", "x" * 180 + "/" + "y" * 200: "long", "-rf": "dash", "a..b": "dots", "...": "three", ".hidden": "h"}
    archive = tar_gz(files)
    assert archive[:2] == b"\x1f\x8b"
    answer = server.raw_request("POST", at(sandbox, "files/upload?dest=%2Fworkspace"), archive, ["Content-Type: application/x-tar"])
    assert (answer.status, answer.reason) == (200, "OK")
    want = {name.removeprefix("./").lstrip("/"): content.encode() if isinstance(content, str) else content for name, content in files.items()}
    assert {name: content.encode("latin-1") for name, content in tree(server, sandbox).items()} == want


def test_an_archive_without_members_is_200(server, sandbox):
    assert server.upload(sandbox, tar_gz({})).status == 200
    assert nothing_written(server, sandbox)


@pytest.mark.parametrize("dest, where", [(None, "/workspace"), ("/workspace", "/workspace"), ("/workspace/new/deep", "/workspace/new/deep"), ("relative/dir", "/workspace/relative/dir"), ("/tmp/there", "/tmp/there"), ("/workspace/in put", "/workspace/in put"), ("/workspace/a+b&c=d", "/workspace/a+b&c=d")])
def test_the_destination_is_made(server, sandbox, dest, where):
    assert server.upload(sandbox, tar_gz({"sub/file": "x"}), dest).status == 200
    assert server.exec(sandbox, "cat", where + "/sub/file")["stdout"] == "x"


@pytest.mark.parametrize("dest, status", [("/usr/bin", 403), ("/etc/x", 403), ("/proc/x", 403), ("", 400), ("/workspace/file", 400), ("/workspace/a\0b", 400)])
def test_a_destination_that_cannot_be_is_refused(server, sandbox, dest, status):
    server.out(sandbox, "echo data >file")
    answer = server.upload(sandbox, tar_gz({"x": "y"}), dest)
    assert 400 <= answer.status < 500, answer
    assert server.exec(sandbox, "cat", "file")["stdout"] == "data\n"


def test_existing_files_are_replaced_and_nothing_else_is_removed(server, sandbox):
    server.out(sandbox, "echo old >a; echo stays >b; mkdir d; echo in >d/x; chmod 600 a")
    assert server.upload(sandbox, tar_gz({"a": "new", "d/y": "y"})).status == 200
    assert tree(server, sandbox) == {"a": "new", "b": "stays\n", "d/x": "in\n", "d/y": "y"}


def test_times_of_1970_become_now_and_files_belong_to_the_sandbox(server, sandbox):
    server.upload(sandbox, tar_gz({"a": "x"}))
    mtime, owner, me, mode = server.out(sandbox, "stat -c '%Y %u' a; id -u; stat -c %a a").split()
    assert abs(int(mtime) - time.time()) < 60 and owner == me and mode == "644"


def test_modes_are_kept_without_the_dangerous_bits(server, sandbox):
    archive = tar_of((member("tool", mode=0o755), b"#!/bin/sh\necho ran\n"), (member("suid", mode=0o6755), b"x"), (member("sticky", mode=0o1666), b"x"), (member("private", mode=0o600, uid=12345, gid=54321, uname="root", mtime=1_000_000_000), b"x"), member("dir", tarfile.DIRTYPE, mode=0o700))
    assert server.upload(sandbox, archive).status == 200
    assert server.out(sandbox, "stat -c '%n %a' tool suid sticky private dir") == "tool 755\nsuid 755\nsticky 666\nprivate 600\ndir 700\n"
    assert server.exec(sandbox, "./tool")["stdout"] == "ran\n"
    assert server.out(sandbox, "stat -c '%Y' private; test -O private && echo mine") == "1000000000\nmine\n"


ACCEPTED = {
    "plain tar": lambda: tar_gz({"f": "x"}, mode="w"),
    "ustar": lambda: tar_gz({"f": "x"}, format=tarfile.USTAR_FORMAT),
    "ustar with prefix": lambda: tar_gz({"p" * 90 + "/" + "q" * 90: "x"}, format=tarfile.USTAR_FORMAT),
    "gnu long names": lambda: tar_gz({"p" * 150 + "/" + "q" * 150: "x"}, format=tarfile.GNU_FORMAT),
    "gnu long link": lambda: tar_of((member("t" * 120), b"x"), member("l", tarfile.SYMTYPE, linkname="t" * 120), format=tarfile.GNU_FORMAT),
    "global header": lambda: global_header(),
    "directory members": lambda: tar_of(member(".", tarfile.DIRTYPE, mode=0o755), member("./d", tarfile.DIRTYPE, mode=0o755), (member("./d/f"), b"x")),
    "symlink inside": lambda: tar_of((member("d/f"), b"x"), member("d/l", tarfile.SYMTYPE, linkname="f"), member("m", tarfile.SYMTYPE, linkname="d/../d/f")),
    "hard link inside": lambda: tar_of((member("f"), b"x"), member("h", tarfile.LNKTYPE, linkname="f")),
    "two gzip members": lambda: gzip.compress(tar_gz({"f": "x"}, mode="w")[:700]) + gzip.compress(tar_gz({"f": "x"}, mode="w")[700:]),
    "a file twice": lambda: tar_of((member("f"), b"first"), (member("f"), b"x")),
    "stored gzip": lambda: gzip.compress(tar_gz({"f": "x"}, mode="w"), 0),
}


def global_header():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": "of everything"}) as archive:
        info = tarfile.TarInfo("f")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ACCEPTED)
def test_what_other_clients_make_is_accepted(server, sandbox, kind):
    answer = server.upload(sandbox, ACCEPTED[kind]())
    assert answer.status == 200, answer
    assert set(tree(server, sandbox).values()) == {"x"}


def test_links_inside_are_links(server, sandbox):
    server.upload(sandbox, ACCEPTED["symlink inside"]())
    assert server.out(sandbox, "readlink d/l; cat m") == "f\nx"


REFUSED = {
    "..": lambda: member("../evil"), "inner ..": lambda: member("a/../../evil"), "harmless ..": lambda: member("a/../evil"), "absolute ..": lambda: member("/../evil"), "empty name": lambda: member(""),
    "absolute symlink": lambda: member("l", tarfile.SYMTYPE, linkname="/etc/passwd"), "climbing symlink": lambda: member("d/l", tarfile.SYMTYPE, linkname="../../x"), "absolute hard link": lambda: member("h", tarfile.LNKTYPE, linkname="/etc/passwd"),
    "climbing hard link": lambda: member("h", tarfile.LNKTYPE, linkname="../x"), "fifo": lambda: member("p", tarfile.FIFOTYPE), "character device": lambda: member("c", tarfile.CHRTYPE, devmajor=1, devminor=3), "block device": lambda: member("b", tarfile.BLKTYPE, devmajor=8, devminor=0),
    "hard link to nothing": lambda: member("h", tarfile.LNKTYPE, linkname="nothing"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("place", ["first", "last"])
def test_an_unsafe_member_refuses_the_whole_archive_by_name_and_nothing_is_written(server, sandbox, kind, place):
    bad = REFUSED[kind]()
    good = [(member(f"good{number}"), b"x" * 5000) for number in range(3)]
    answer = server.upload(sandbox, tar_of(*([bad, *good] if place == "first" else [*good, bad])))
    assert (answer.status, answer.code) == (400, "invalid"), answer
    if bad.name.strip("/"):
        assert bad.name.split("/")[-1] in answer.json["error"], answer
    assert nothing_written(server, sandbox)


def test_nothing_is_written_through_a_symlink(server, sandbox):
    # Within one archive, and through one that was there before.
    through = tar_of(member("l", tarfile.SYMTYPE, linkname="d"), member("d", tarfile.DIRTYPE, mode=0o755), (member("l/file"), b"x"))
    server.out(sandbox, "mkdir d /tmp/target; ln -s /tmp/target out; ln -s /tmp/target/file leaf; ln -s /usr/bin sys")
    for archive in (tar_gz({"out/file": "x"}), tar_gz({"sys/evil": "x"}), tar_gz({"out/sub/file": "x"})):
        answer = server.upload(sandbox, archive)
        assert answer.status == 400, answer
    assert server.upload(sandbox, through).status in (200, 400)
    server.upload(sandbox, tar_gz({"leaf": "x"}))
    assert server.out(sandbox, "find /tmp/target -mindepth 1") == ""


def test_an_archive_cut_off_anywhere_is_400_and_nothing_is_written(server, sandbox):
    archive = tar_gz({"first": os.urandom(20_000), "sub/second": "text" * 5000, "third": os.urandom(30_000)})
    cuts = sorted({1, 2, 5, 9, 10, 11, len(archive) - 1, len(archive) - 4, len(archive) - 8, *(len(archive) * part // 22 for part in range(1, 22))})
    assert len(cuts) >= 30
    for cut in cuts:
        answer = server.upload(sandbox, archive[:cut])
        assert answer.status == 400, (cut, answer)
        assert nothing_written(server, sandbox), cut


def test_a_plain_tar_cut_off_in_a_file_is_400_and_nothing_is_written(server, sandbox):
    archive = tar_gz({"first": bytes(3000), "second": bytes(5000)}, mode="w")
    for cut in (100, 511, 513, 2000, 3600, 4200, 6000, 9000):
        assert server.upload(sandbox, archive[:cut]).status == 400, cut
        assert nothing_written(server, sandbox), cut


@pytest.mark.parametrize("name, data", [("nothing", b""), ("text", b"this is no archive, whatever its name says" * 30), ("zeros are no gzip", b"\x1f\x8b" + bytes(50)), ("json", b'{"a": 1}'), ("zip", b"PK\x03\x04" + bytes(600)), ("a gzip of text", gzip.compress(b"hello" * 300)), ("random", bytes((number * 7919) % 256 for number in range(5000)))])
def test_what_is_no_archive_is_400(server, sandbox, name, data):
    answer = server.upload(sandbox, data)
    assert answer.status == 400, answer
    assert nothing_written(server, sandbox)


def flipped(archive, place):
    return archive[:place] + bytes([archive[place] ^ 0xFF]) + archive[place + 1:]


def test_an_archive_with_a_flipped_byte_is_whole_or_refused(server, sandbox):
    archive = tar_gz({"f": os.urandom(4000)}, mode="w")
    packed = gzip.compress(archive)
    for place in range(12, len(packed) - 1, len(packed) // 12):
        answer = server.upload(sandbox, flipped(packed, place))
        assert answer.status == 400, place
        assert nothing_written(server, sandbox), place
    assert server.upload(sandbox, flipped(archive, 20)).status == 400  # the checksum of the header


def test_a_bomb_stops_at_the_cap(server, sandbox):
    bomb = gzip.compress(tar_gz({"zeros": bytes(200 << 20)}, mode="w"), 9)
    assert len(bomb) < 1 << 20
    answer = server.upload(sandbox, bomb)
    assert answer.status in (400, 413), answer
    assert nothing_written(server, sandbox)
    assert server.out(sandbox, "echo alive") == "alive\n"


def test_more_than_the_disk_holds_is_413_and_nothing_is_written(server):
    name = server.create(ephemeralStorageLimit="2Mi")
    answer = server.upload(name, tar_gz({"a": os.urandom(1 << 20), "b": os.urandom(2 << 20)}))
    assert answer.status == 413, answer
    assert nothing_written(server, name)
    assert server.upload(name, tar_gz({"a": os.urandom(1 << 20)})).status == 200
    server.delete(at(name))


def test_the_caps_of_the_configuration_hold(fresh_server):
    running = fresh_server("--upload-max-body", "1M", "--upload-max-unpacked", "90M", "--upload-max-members", "20", "--upload-max-depth", "5", "--upload-max-ratio", "100")
    running.create("x")
    refused = {
        "body": os.urandom(1_100_000),
        "unpacked": tar_gz({str(number): bytes(20_000_000) + os.urandom(160_000) for number in range(5)}),
        "members": tar_gz({str(number): "x" for number in range(21)}),
        "depth": tar_gz({"a/b/c/d/e/f/g": "x"}),
        "ratio": tar_gz({"z": bytes(80 << 20)}),
    }
    for what, archive in refused.items():
        answer = running.upload("x", archive)
        assert answer.status in (400, 413), (what, answer)
        assert answer.json["error"]
    assert nothing_written(running, "x")
    assert running.upload("x", tar_gz({"a/b/c/d": "x", **{str(number): "x" for number in range(10)}})).status == 200


def test_a_chunked_upload_is_taken_too(server, sandbox):
    archive = tar_gz({"f": os.urandom(100_000)})
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (archive[at_byte:at_byte + 7777] for at_byte in range(0, len(archive), 7777)))
    data = server.raw(f"POST {at(sandbox, 'files/upload')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n")
    assert data.startswith(b"HTTP/1.1 200 OK")
    assert server.out(sandbox, "wc -c <f") == "100000\n"


def test_an_upload_that_stops_in_the_middle_leaves_nothing(server, sandbox):
    import socket
    archive = tar_gz({"torn": os.urandom(50_000)})
    for size in (0, 40, 20_000, 50_000):
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            connection.sendall(f"POST {at(sandbox, 'files/upload')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(archive)}\r\n\r\n".encode() + archive[:size])
            time.sleep(0.05)
        assert wait_until(lambda: nothing_written(server, sandbox), 3), size


def test_uploads_at_once_do_not_mix(server, sandbox):
    import threading
    statuses = []
    threads = [threading.Thread(target=lambda number=number: statuses.append(server.upload(sandbox, tar_gz({f"d{number}/f{part}": f"{number}-{part}" for part in range(20)})).status)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert statuses == [200] * 8
    assert tree(server, sandbox) == {f"d{number}/f{part}": f"{number}-{part}" for number in range(8) for part in range(20)}


def test_upload_to_an_unknown_session_is_404(server):
    assert server.upload("no-such", tar_gz({"a": "b"})).status == 404


# --- download

def test_a_download_is_gzip_under_the_name_of_tar(server, sandbox):
    server.out(sandbox, "echo 1 >file1.txt; mkdir subdir; echo 3 >subdir/file3.txt")
    answer = server.raw_request("GET", at(sandbox, "files/download?src=%2Fworkspace"))
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-tar" and answer.headers["Content-Encoding"] is None
    found = members_of(answer.body)
    assert found["file1.txt"] == b"1\n" and found["subdir/file3.txt"] == b"3\n" and found["subdir"].isdir()


def test_names_are_relative_to_src(server, sandbox):
    server.out(sandbox, "mkdir -p a/b/c; echo x >a/b/c/f; echo y >/tmp/t")
    assert set(members_of(server.download(sandbox, "/workspace/a/b").body)) == {"c", "c/f"}
    assert set(members_of(server.download(sandbox, "a").body)) == {"b", "b/c", "b/c/f"}
    assert "t" in members_of(server.download(sandbox, "/tmp").body)
    for name in members_of(server.download(sandbox, "/workspace").body):
        assert not name.startswith("/") and ".." not in name.split("/")


def test_an_empty_directory_is_a_valid_archive_and_empty_directories_survive(server, sandbox):
    answer = server.download(sandbox)
    assert answer.status == 200 and len(answer.body) > 10
    assert [name for name, found in members_of(answer.body).items() if isinstance(found, bytes)] == []
    server.out(sandbox, "mkdir -p empty/inner")
    assert {"empty", "empty/inner"} <= set(members_of(server.download(sandbox).body))


def test_owners_are_nobody_in_particular_and_modes_and_times_are_real(server, sandbox):
    server.out(sandbox, "echo x >f; chmod 750 f; touch -d @1234567890 f; echo y >s; chmod 6755 s; chmod 000 s; chmod 444 s")
    found = {info.name: info for info in tarfile.open(fileobj=io.BytesIO(server.download(sandbox).body))}
    assert {(info.uid, info.gid, info.uname, info.gname) for info in found.values()} == {(0, 0, "", "")}
    assert (found["f"].mode, found["f"].mtime) == (0o750, 1234567890)
    assert found["s"].mode == 0o444


def test_special_members_are_left_out_and_inner_links_kept(server, sandbox):
    server.out(sandbox, "echo x >f; mkdir d; ln -s f inner; ln -s ../f d/up; ln -s /etc/passwd absolute; ln -s ../../etc/passwd climbs; ln -s ../.. d/out; mkfifo pipe; ln f hard; ln -s nothing dangling; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; ln -s . self")
    answer = server.download(sandbox)
    found = members_of(answer.body)
    assert set(found) == {"f", "d", "inner", "d/up", "hard", "dangling", "self"}
    assert found["inner"].issym() and found["inner"].linkname == "f" and found["d/up"].linkname == "../f"
    assert found["f"] == found["hard"] == b"x\n"  # not a link to one another


def test_the_standard_data_filter_takes_all_of_it(server, sandbox, tmp_path):
    server.out(sandbox, "echo x >f; ln -s f l; ln -s /etc/passwd a; mkfifo p; mkdir -p d/e; ln -s ../f d/u; ln f h; chmod 4755 f")
    with tarfile.open(fileobj=io.BytesIO(server.download(sandbox).body)) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(tmp_path, filter="data")
        else:
            archive.extractall(tmp_path)
    assert (tmp_path / "h").read_text() == "x\n" and (tmp_path / "d" / "u").read_text() == "x\n"


def test_a_file_as_src_is_one_member_under_its_own_name(server, sandbox):
    server.out(sandbox, "mkdir d; echo content >'d/one file.txt'; chmod 640 d/*")
    found = members_of(server.download(sandbox, "/workspace/d/one file.txt").body)
    assert found == {"one file.txt": b"content\n"}


@pytest.mark.parametrize("src", ["/workspace/missing", "/no/such", "missing"])
def test_a_missing_src_is_404_and_said(server, sandbox, src):
    answer = server.download(sandbox, src)
    assert (answer.status, answer.code) == (404, "not_found")
    assert "path not found" in answer.json["error"], answer


def test_a_src_outside_the_sandbox_cannot_be(server, sandbox):
    marker = os.urandom(8).hex()
    with open(f"/tmp/cove-test-{marker}", "w") as file:
        file.write(marker)
    try:
        for src in (f"/tmp/cove-test-{marker}", f"/workspace/../tmp/cove-test-{marker}", f"/proc/1/root/tmp/cove-test-{marker}", f"/../../tmp/cove-test-{marker}"):
            answer = server.download(sandbox, src)
            assert answer.status in (400, 403, 404), (src, answer)
    finally:
        os.unlink(f"/tmp/cove-test-{marker}")


def test_odd_names_come_back_as_they_are(server, sandbox):
    names = ["a..b", "...", "-rf", "with space", "grüße", "new\nline", "x" * 200, "back\\slash", "quote'\""]
    server.exec(sandbox, "python3", "-c", f"for name in {names!r}: open(name, 'w').write(name)")
    assert members_of(server.download(sandbox).body) == {name: name.encode() for name in names}


def test_a_name_that_is_not_utf_8_does_not_break_the_download(server, sandbox):
    server.out(sandbox, "echo x >good; printf x >\"$(printf 'bad\\377')\"")
    assert members_of(server.download(sandbox).body)["good"] == b"x\n"


def test_what_goes_up_comes_down_the_same(server, sandbox):
    files = {f"d{number % 7}/f{number}": os.urandom(1 + number * 97) for number in range(150)}
    files["big"] = os.urandom(12 << 20)
    assert server.upload(sandbox, tar_gz(files)).status == 200
    found = members_of(server.download(sandbox).body)
    assert {name: content for name, content in found.items() if isinstance(content, bytes)} == files


def test_a_sparse_file_and_one_that_grows_do_not_break_the_archive(server, sandbox):
    server.out(sandbox, "truncate -s 20M sparse")
    server.start_process(sandbox, "sh", "-c", "while :; do head -c 3000 /dev/urandom >>grows; done", timeoutSeconds=10)
    for _ in range(3):
        answer = server.download(sandbox)
        assert answer.status == 200 and len(members_of(answer.body)["sparse"]) == 20 << 20


def test_a_file_nobody_may_read_does_not_pass_for_a_whole_archive(server, sandbox):
    server.out(sandbox, "echo x >good; echo y >secret; chmod 000 secret")
    import http.client
    try:
        answer = server.download(sandbox)
    except (http.client.IncompleteRead, ConnectionError):
        return
    assert answer.status != 200 or "secret" in members_of(answer.body) or set(members_of(answer.body)) == {"good"}


def test_download_of_an_unknown_session_is_404(server):
    assert server.download("no-such").status == 404
