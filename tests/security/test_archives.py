"""AR: archives that want out, or in where nothing belongs. All through POST files/upload and GET files/download of a real server.

What the unpacking program does by itself is tested in src/files; here it is the whole way: over HTTP, in a sandbox, with its disk and its hostile neighbours."""
import gzip
import io
import json
import random
import struct
import tarfile
import threading
import time

import pytest

from conftest import fair, wait_until
from hostile import SOAK, bounded_memory
from server import at, member, members_of, new_id, tar_gz, tar_of

LINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.fixture
def box(server):
    name = server.create(ttlSeconds=300, memoryLimit="1Gi")
    yield name
    server.delete(at(name))


def listing(server, name, where="/workspace"):
    """{path: (type, size, mode, target)} of everything below."""
    answer = server.get(at(name, f"files/list?path={where}&depth=1000"))
    assert answer.status == 200, answer
    return {entry["path"]: (entry["type"], entry.get("size"), entry["mode"], entry.get("target")) for entry in answer.json["entries"]}


def refused_whole(server, name, archive, *words, status=400):
    """The archive is refused with these words, and nothing of it is there, inside or outside the workspace."""
    server.out(name, "echo kept > /workspace/kept; echo kept > /tmp/kept")
    before = server.out(name, "find / -xdev -newer /workspace/kept -not -path '/proc/*' 2>/dev/null | sort; find /workspace /tmp /home | sort")
    answer = server.upload(name, archive)
    assert answer.status == status, answer
    assert all(word in answer.json["error"] for word in words), answer
    after = server.out(name, "find / -xdev -newer /workspace/kept -not -path '/proc/*' 2>/dev/null | sort; find /workspace /tmp /home | sort")
    assert [line for line in after.splitlines() if line not in before.splitlines()] == []
    assert server.out(name, "cat /workspace/kept /tmp/kept") == "kept\nkept\n"


@pytest.mark.parametrize("path", ["../../x", "/../x", "a/../../x", "..", "../", "a/..", "./../x", "a/b/../../../x", "....//../x"])
def test_AR_01_a_member_that_climbs_is_refused_by_name(server, box, path):
    refused_whole(server, box, tar_of((member(path), b"evil")), "'..'")


@pytest.mark.parametrize("path,lands", [("/x", "x"), ("//tmp/x", "tmp/x"), ("C:\\x", "C:\\x"), ("a\\..\\..\\x", "a\\..\\..\\x"), ("./x", "x"), ("a/./x", "a/x"), ("a//x", "a/x")])
def test_AR_01_an_absolute_or_foreign_name_is_a_name_below_the_workspace_or_refused(server, box, path, lands):
    answer = server.upload(box, tar_of((member(path), b"mine")))
    if answer.status == 200:
        assert f"/workspace/{lands}" in listing(server, box)
    else:
        assert answer.status == 400
    assert server.sh(box, "ls /x /tmp/x 2>/dev/null")["stdout"] == ""


@pytest.mark.parametrize("kind,members", [
    ("file-through-link", [member("l", LINK, linkname="/tmp"), (member("l/x"), b"evil")]), ("file-through-inner-link", [member("d", tarfile.DIRTYPE), member("l", LINK, linkname="d"), (member("l/x"), b"evil")]),
    ("absolute-link", [member("l", LINK, linkname="/etc/passwd")]), ("climbing-link", [member("l", LINK, linkname="../../etc/passwd")]), ("link-to-self", [member("l", LINK, linkname="l"), (member("l/x"), b"x")]),
    ("loop", [member("a", LINK, linkname="b"), member("b", LINK, linkname="a"), (member("a/x"), b"x")]), ("empty-target", [member("l", LINK, linkname="")]), ("link-then-directory", [member("l", LINK, linkname="/tmp"), member("l/d", tarfile.DIRTYPE)]),
    ("link-to-proc", [member("l", LINK, linkname="/proc/1/root")]), ("dot-dot-in-the-middle", [member("a", tarfile.DIRTYPE), member("a/l", LINK, linkname="x/../../../etc")]),
], ids=lambda value: value if isinstance(value, str) else "")
def test_AR_02_nothing_is_written_through_a_link_and_no_link_leads_out(server, box, kind, members):
    refused_whole(server, box, tar_of(*members))


def test_AR_02_a_link_that_was_there_is_not_followed(server, box):
    server.out(box, "ln -s /tmp out; ln -s /tmp/target file; echo mine > /tmp/target")
    assert server.upload(box, tar_gz({"out/x": "evil"})).status == 400
    assert server.upload(box, tar_gz({"file": "new"})).status == 200  # replaced, not written through
    assert server.out(box, "cat /tmp/target; ls /tmp; cat file") == "mine\ntarget\nnew"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc/passwd", "nothing", "l", "kept", "../kept"])
def test_AR_03_a_hard_link_is_only_to_a_file_of_the_same_archive(server, box, target):
    members = [member("l", LINK, linkname="kept"), member("h", HARD, linkname=target)]
    refused_whole(server, box, tar_of(*members))


def test_AR_03_a_hard_link_to_a_symlink_of_the_archive_is_refused(server, box):
    refused_whole(server, box, tar_of(member("l", LINK, linkname="x"), member("h", HARD, linkname="l"), (member("h"), b"evil")))


@pytest.mark.parametrize("depth", [2, 5])
def test_AR_04_a_chain_of_links_does_not_leave_step_by_step(server, box, depth):
    members, inner = [member("d", tarfile.DIRTYPE)], "d"
    for step in range(depth):
        members.append(member(f"s{step}", LINK, linkname=inner + "/.." if step else "d/.."))
        inner = f"s{step}"
    members.append(member("out", LINK, linkname=inner + "/../../../etc"))
    refused_whole(server, box, tar_of(*members))


def test_AR_04_a_link_behind_a_link_that_comes_later_is_seen(server, box):
    # "a" becomes a link after "l" was judged by its name alone.
    refused_whole(server, box, tar_of(member("x", tarfile.DIRTYPE), member("x/y", tarfile.DIRTYPE), member("l", LINK, linkname="a/../secret"), member("a", LINK, linkname="x/y")))


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"V", b"M", b"s"], ids=["char", "block", "fifo", "volume", "multi-volume", "socket-ish"])
def test_AR_05_what_is_no_file_is_not_made(server, box, kind):
    archive = tar_of(member("special", kind, devmajor=1, devminor=3), (member("fine"), b"x"))
    answer = server.upload(box, archive)
    assert answer.status in (200, 400), answer
    kinds = {path: entry[0] for path, entry in listing(server, box).items()}
    assert "other" not in kinds.values() and kinds.get("/workspace/special", "file") == "file"


def test_AR_05_a_contiguous_file_is_refused_by_name(server, box):
    refused_whole(server, box, tar_of((member("c", tarfile.CONTTYPE), b"abc")), "'c'", "type")


def test_AR_06_dangerous_bits_owners_attributes_and_times_are_stripped(server, box):
    pax = {"SCHILY.xattr.security.capability": "x" * 20, "SCHILY.xattr.user.evil": "1", "SCHILY.acl.access": "user:root:rwx", "SCHILY.fflags": "immutable", "LIBARCHIVE.xattr.security.capability": "eA=="}
    members = [(member("s", mode=0o6777, uid=0, gid=0, uname="root", mtime=2**40, pax_headers=pax), b"#!/bin/sh\nid -u\n"), member("d", tarfile.DIRTYPE, mode=0o7777, mtime=-5)]
    answer = server.upload(box, tar_of(*members))
    assert answer.status == 200, answer
    told = server.out(box, "stat -c '%a %u' s d; id -u; find . -newermt '2 days'; getfattr -d -m - s 2>/dev/null; ./s")
    lines = told.split()
    mine = lines[4]
    assert lines[:4] == ["777", mine, "777", mine] and lines[5:] == [mine], told


@pytest.mark.parametrize("kind", ["zeros", "nested", "many-files"])
def test_AR_07_a_bomb_stops_at_its_cap_and_leaves_nothing(server, box, kind):
    if kind == "zeros":
        plain = tar_of((member("z"), b"\0" * (200 << 20)), mode="w")
        archive = gzip.compress(plain, 9)
    elif kind == "nested":
        archive = gzip.compress(gzip.compress(tar_of((member("z"), b"\0" * (100 << 20)), mode="w"), 9), 9)
    else:
        archive = gzip.compress(tar_of(*[(member(f"f{n}"), b"\0" * (1 << 20)) for n in range(300)], mode="w"), 9)
    began = time.monotonic()
    with bounded_memory(server, 16):
        answer = server.upload(box, archive)
    assert answer.status in (400, 413) or (kind != "zeros" and answer.status == 200), answer
    assert time.monotonic() - began < fair(20)
    if answer.status != 200:
        assert [path for path in listing(server, box) if not path.endswith("kept")] == []
        assert server.out(box, "du -sk /workspace | cut -f1").strip() in ("0", "4")


@pytest.mark.parametrize("other", ["xz", "bz2", "zst", "zip", "7z", "rar", "cpio", "iso", "ar"])
def test_AR_07_AR_13_other_formats_are_not_unpacked_at_all(server, box, other):
    import bz2
    import lzma
    import zipfile
    plain = tar_of((member("x"), b"hi"), mode="w")
    if other == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as made:
            made.writestr("../../x", "hi")
        data = buffer.getvalue()
    else:
        data = {"xz": lzma.compress(plain), "bz2": bz2.compress(plain), "zst": b"\x28\xb5\x2f\xfd" + plain, "7z": b"7z\xbc\xaf\x27\x1c" + plain, "rar": b"Rar!\x1a\x07\x00" + plain, "cpio": b"070701" + b"0" * 104 + b"TRAILER!!!\0" * 40,
                "iso": b"\0" * 32768 + b"\x01CD001" + b"\0" * 4000, "ar": b"!<arch>\n" + plain}[other]
    assert server.upload(box, data).status == 400
    assert listing(server, box) == {}


def header(name=b"x", size=b"00000000005\0", typeflag=b"0", mode=b"0000644\0", checksum=None, magic=b"ustar\x0000", link=b"", mtime=b"00000000000\0"):
    """One block of a tar, every field as given."""
    block = bytearray(512)
    block[0:len(name)] = name
    block[100:108] = mode.ljust(8, b"\0")[:8]
    block[108:116], block[116:124] = b"0000000\0", b"0000000\0"
    block[124:136] = size.ljust(12, b"\0")[:12]
    block[136:148] = mtime.ljust(12, b"\0")[:12]
    block[156:157] = typeflag
    block[157:157 + len(link)] = link
    block[257:265] = magic
    block[148:156] = b" " * 8
    block[148:156] = checksum if checksum is not None else b"%06o\0 " % sum(block)
    return bytes(block)


END = b"\0" * 1024


@pytest.mark.parametrize("kind", ["gnu-sparse", "pax-size", "base-256"])
def test_AR_08_a_member_that_claims_exbibytes_is_refused(server, box, kind):
    if kind == "pax-size":
        records = b"".join(b"%d %s\n" % (len(r) + len(str(len(r) + 3)) + 2, r) for r in (b"size=9223372036854775807",))
        record = b"28 size=9223372036854775807\n"
        data = header(b"pax", b"%011o\0" % len(record), b"x") + record.ljust(512, b"\0") + header(b"big") + b"hello".ljust(512, b"\0") + END
    elif kind == "base-256":
        data = header(b"big", b"\x80\0\0\0" + struct.pack(">Q", 1 << 62)) + b"hello".ljust(512, b"\0") + END
    else:
        block = bytearray(header(b"sparse", b"00000001000\0", b"S", magic=b"ustar  \0"))
        block[386:410] = b"00000000000\0" + b"00000001000\0"
        block[483:495] = b"\x80\0\0\0" + struct.pack(">Q", 1 << 62)
        block[148:156] = b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        data = bytes(block) + b"x" * 512 + END
    began = time.monotonic()
    answer = server.upload(box, gzip.compress(data))
    assert answer.status in (400, 413) and time.monotonic() - began < fair(5), answer
    assert listing(server, box) == {}


def test_AR_09_members_are_counted(server, box):
    block = header(b"d", b"00000000000\0", b"5")
    blocks = b"".join(header(b"f%d" % n, b"00000000000\0") for n in range(100_001))
    began = time.monotonic()
    answer = server.upload(box, gzip.compress(blocks + END, 1))
    # By the cap on members, or by the sandbox's own on files: whichever comes first.
    assert answer.status == 413 and ("members" in answer.json["error"] or "space" in answer.json["error"]), answer
    assert time.monotonic() - began < fair(20) and listing(server, box) == {}
    # The same name again and again counts too.
    answer = server.upload(box, gzip.compress(block * 100_001 + END, 1))
    assert answer.status == 413, answer
    assert listing(server, box) == {}


@pytest.mark.parametrize("path,status", [("n" * 255, 200), ("n" * 256, 400), ("d/" * 63 + "f", 200), ("d/" * 5000 + "f", 400), ("n" * 200 + "/" + "m" * 5000, 400), (("n" * 250 + "/") * 17, 400)], ids=["255", "256", "64-levels", "5000-levels", "5000-bytes", "over-4096"])
def test_AR_10_long_and_deep_names_end_in_a_clean_error(server, box, path, status):
    answer = server.upload(box, tar_of((member(path.rstrip("/")), b"x")))
    assert answer.status == status and len(answer.body) < 2000, answer
    if status != 200:
        assert listing(server, box) == {}


def test_AR_11_one_name_four_times_is_the_last_of_them_and_never_followed(server, box):
    members = [(member("x"), b"one"), member("x", tarfile.DIRTYPE), member("x", LINK, linkname="y"), (member("x"), b"last")]
    assert server.upload(box, tar_of(*members)).status == 200
    assert server.out(box, "cat x; stat -c %F x; ls") == "lastregular file\nx\n"
    members = [member("d", tarfile.DIRTYPE), (member("d/f"), b"x"), member("d", LINK, linkname="elsewhere"), (member("d/g"), b"evil")]
    assert server.upload(box, tar_of(*members)).status == 400
    assert server.out(box, "ls") == "x\n"


def corpus(seed, count):
    """Archives spoilt in every way: cut, flipped, glued, random."""
    dice = random.Random(seed)
    good = tar_gz({f"dir/f{n}": "content" * n for n in range(20)})
    plain = gzip.decompress(good)
    for n in range(count):
        how = n % 6
        if how == 0:
            yield good[:dice.randrange(len(good))]
        elif how == 1:
            spoilt = bytearray(plain)
            for _ in range(dice.randrange(1, 20)):
                spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
            yield gzip.compress(bytes(spoilt), 1)
        elif how == 2:
            spoilt = bytearray(good)
            spoilt[dice.randrange(len(spoilt))] ^= 1 << dice.randrange(8)
            yield bytes(spoilt)
        elif how == 3:
            yield dice.randbytes(dice.randrange(0, 4000))
        elif how == 4:
            yield b"\x1f\x8b\x08" + dice.randbytes(dice.randrange(10, 2000))
        else:
            yield good + dice.randbytes(dice.randrange(1, 600))


def test_AR_14_spoilt_archives_are_400_or_whole(server, box):
    for data in corpus(14, 10_000 if SOAK else 150):
        answer = server.upload(box, data, dest="/workspace/in")
        assert answer.status in (200, 400, 413), (answer, data[:50])
        found = listing(server, box)
        if answer.status == 200:
            # All that was counted is there, and nothing half-made.
            assert answer.json["files"] == len([one for one in found.values() if one[0] != "directory"]), answer
        assert not [path for path in found if ".cove-upload" in path]
        server.delete(at(box, "files?path=in&recursive=true"))
    assert server.exec(box, "echo", "hi")["stdout"] == "hi\n"


@pytest.mark.parametrize("kind,block", [
    ("negative-size", header(size=b"\xff" * 12)), ("negative-octal", header(size=b"-0000000005\0")), ("bad-octal", header(size=b"0000000009x\0")), ("bad-checksum", header(checksum=b"000000\0 ")), ("beyond-the-stream", header(size=b"77777777777\0")),
    ("base-256-beyond", header(size=b"\x80" + b"\0" * 6 + b"\xff" * 5)), ("size-of-a-directory", header(b"d/", b"77777777777\0", b"5")), ("pax-without-end", header(b"p", b"00000000012\0", b"x") + b"9999999 path=x\n".ljust(512, b"\0")),
    ("pax-negative", header(b"p", b"00000000012\0", b"x") + b"-5 path=x\n".ljust(512, b"\0")), ("pax-huge", header(b"p", b"77777777777\0", b"x")), ("gnu-long-name-huge", header(b"././@LongLink", b"77777777777\0", b"L")),
    ("gnu-long-name-empty", header(b"././@LongLink", b"00000000000\0", b"L") + header(b"")),
], ids=lambda value: value if isinstance(value, str) else "")
def test_AR_15_numbers_that_lie_are_400_and_end(server, box, kind, block):
    began = time.monotonic()
    with bounded_memory(server, 8):
        answer = server.upload(box, gzip.compress(block + b"hello".ljust(512, b"\0") + END))
    assert answer.status in (400, 413) and time.monotonic() - began < fair(5), answer
    assert listing(server, box) == {}


@pytest.mark.parametrize("name,lands", [(b"a\nb", "a\nb"), (b"\xff\xfe", None), (b".", None), (b"..", None), (b"", None), (b"f/", None), (b"-rf", "-rf"), (b"$(id)", "$(id)"), (b"\x1b[31m", "\x1b[31m"), (b" ", " "), (b"*", "*")])
def test_AR_16_odd_names_are_literal_or_refused(server, box, name, lands):
    answer = server.upload(box, gzip.compress(header(name) + b"hello".ljust(512, b"\0") + END))
    assert answer.status in (200, 400), answer
    if answer.status == 200 and lands is not None:
        assert server.get(at(box, "files/list")).json["entries"][0]["name"] == lands
    assert server.exec(box, "ls", "/")["exitCode"] == 0
    if answer.status == 400:
        assert listing(server, box) == {}


def test_AR_16_a_nul_in_a_pax_name_is_refused(server, box):
    record = b"16 path=ab\0cdef\n"
    data = header(b"p", b"%011o\0" % len(record), b"x") + record.ljust(512, b"\0") + header(b"x") + b"hello".ljust(512, b"\0") + END
    answer = server.upload(box, gzip.compress(data))
    assert answer.status in (200, 400), answer
    assert set(listing(server, box)) <= {"/workspace/x", "/workspace/ab"}


def test_AR_17_an_export_stores_links_as_links_and_leaves_out_what_is_no_file(server, box):
    server.out(box, "ln -s /etc/passwd abs; ln -s ../../etc up; mkfifo pipe; mkdir d; echo x > d/f; ln -s d/f inner; python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.bind('sock')\"; truncate -s 1T sparse || true; ls")
    server.out(box, "rm -f sparse; truncate -s 100M sparse")
    began = time.monotonic()
    with bounded_memory(server, 16):
        answer = server.download(box)
    assert answer.status == 200 and time.monotonic() - began < fair(20)
    found = members_of(answer.body)
    assert "pipe" not in found and "sock" not in found
    assert all(not isinstance(found[name], bytes) for name in ("abs", "up") if name in found), "a link was followed"
    assert found["d/f"] == b"x\n" and len(found["sparse"]) == 100 << 20


def test_AR_17_a_sparse_terabyte_is_bounded_in_time_and_bytes(server):
    name = server.create(ephemeralStorageLimit="64Mi")
    made = server.sh(name, "truncate -s 1T sparse && ls -l sparse")
    if made["exitCode"] != 0:
        server.delete(at(name))
        return  # the sandbox's own limit on a file's size: nothing to export
    began, received, limit = time.monotonic(), 0, fair(15)
    connection_gone = False
    try:
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request("GET", at(name, "files/download"))
        response = connection.getresponse()
        while piece := response.read(1 << 16):
            received += len(piece)
            if time.monotonic() - began > limit or received > 2 << 30:
                break
        connection.close()
    except (OSError, http.client.IncompleteRead):
        connection_gone = True
    took = time.monotonic() - began
    server.delete(at(name))
    assert took < limit and received < 1 << 30, f"{received} bytes in {took:.1f} s and no end"


def test_AR_17_a_directory_nobody_may_read_does_not_hang_or_pass_for_whole(server, box):
    server.out(box, "mkdir shut; echo x > shut/f; chmod 0 shut; echo y > open")
    try:
        answer = server.download(box)
        assert answer.status != 200 or "shut/f" not in members_of(answer.body)
    except OSError:
        pass  # visibly cut off


SWAPPER = """
import os, time
until = time.time() + {seconds}
os.makedirs('/workspace/t/d', exist_ok=True)
os.makedirs('/tmp/outside', exist_ok=True)
while time.time() < until:
    try:
        os.rename('/workspace/t/d', '/workspace/t/was')
        os.symlink('/tmp/outside', '/workspace/t/d')
        os.unlink('/workspace/t/d')
        os.rename('/workspace/t/was', '/workspace/t/d')
    except OSError:
        os.system('rm -rf /workspace/t/d /workspace/t/was; mkdir -p /workspace/t/d')
print('done')
"""


def test_AR_18_running_code_that_swaps_directories_gets_nothing_written_outside(server, box):
    seconds = 60 if SOAK else 4
    assert server.put(at(box, "files?path=swap.py"), SWAPPER.format(seconds=seconds).encode()).status == 200
    process = server.start_process(box, "python3", "swap.py")
    archive = tar_gz({f"d/f{n}": "evil" for n in range(20)})
    rounds, statuses = 0, set()
    until = time.monotonic() + seconds - 0.5
    while time.monotonic() < until:
        statuses.add(server.upload(box, archive, dest="/workspace/t").status)
        statuses.add(server.put(at(box, "files?path=/workspace/t/d/single"), b"evil").status)
        statuses.add(server.download(box, "/workspace/t").status)
        rounds += 60
    server.ended(box, process["id"])
    # What a client writes by a path the sandbox turned into a link is the sandbox's own business; an archive never goes through one.
    assert server.out(box, "ls /tmp/outside | grep -v single; true") == "", f"after {rounds} rounds"
    assert statuses <= {200, 400, 404, 409, 403, 500} and 500 not in statuses, statuses


@pytest.mark.parametrize("dest", ["/", "/proc", "/proc/self", "/dev", "/cove/bin", "/usr/bin", "/etc", "/sys", "/proc/1/root/tmp", "/proc/self/cwd"])
def test_AR_19_an_archive_aimed_elsewhere_changes_nothing_there(server, box, dest):
    before = server.sh(box, f"ls -la {dest} | grep -v cove-upload | wc -l; ls /cove/bin; md5sum /cove/bin/* /etc/passwd")["stdout"]
    answer = server.upload(box, tar_gz({"evil": "x", "files": "x", "passwd": "x"}), dest=dest)
    # A place the sandbox's own user may write to, as /tmp, is as good as the workspace.
    assert answer.status in (400, 403, 404, 200), answer
    if answer.status == 200:
        assert dest in ("/", "/dev", "/proc/self/cwd", "/proc/1/root/tmp") and server.sh(box, f"test -w {dest}")["exitCode"] == 0, answer
        return
    after = server.sh(box, f"ls -la {dest} | grep -v cove-upload | wc -l; ls /cove/bin; md5sum /cove/bin/* /etc/passwd")["stdout"]
    assert before.splitlines()[1:] == after.splitlines()[1:]
    assert server.exec(box, "echo", "hi")["stdout"] == "hi\n" and server.get(at(box, "files/stat?path=/workspace")).status == 200


def test_AR_21_names_that_differ_in_case_or_form_are_different_files(server, box):
    files = {"A": "1", "a": "2", "caf\u00e9": "3", "cafe\u0301": "4", "\u212b": "5", "\u00c5": "6", "file.": "7", "file": "8"}
    assert server.upload(box, tar_gz(files)).json["files"] == len(files)
    assert {name: content.decode() for name, content in members_of(server.download(box).body).items() if isinstance(content, bytes)} == files


# --- a sandbox that fights the helper

def test_AR_18_a_sandbox_that_kills_the_helper_gets_a_typed_error_and_no_torn_files(server, box):
    server.start_process(box, "sh", "-c", "while true; do for p in /proc/[0-9]*; do case \"$(tr '\\0' ' ' < $p/cmdline 2>/dev/null)\" in */cove/bin/files*) kill -9 ${p#/proc/};; esac; done; done")
    time.sleep(0.3)
    seen = set()
    for _ in range(10):
        began = time.monotonic()
        answer = server.upload(box, tar_gz({f"f{n}": "x" * 1000 for n in range(200)}), dest="/workspace/up", timeout=20)
        seen.add(answer.status)
        assert time.monotonic() - began < fair(10)
    assert seen <= {200, 409}, seen


def test_AR_18_a_sandbox_that_stops_the_helper_does_not_hold_the_client_for_ever(server, box):
    server.start_process(box, "sh", "-c", "while true; do for p in /proc/[0-9]*; do case \"$(tr '\\0' ' ' < $p/cmdline 2>/dev/null)\" in */cove/bin/files*) kill -STOP ${p#/proc/};; esac; done; done")
    time.sleep(0.3)
    try:
        for _ in range(5):
            server.get(at(box, "files/list?path=/usr&depth=100"), timeout=35)
    except TimeoutError:
        pytest.fail("a request was not answered within 35 s")


def test_AR_18_a_full_disk_is_said_and_leaves_no_part_of_the_archive(server):
    name = server.create(ephemeralStorageLimit="8Mi")
    server.sh(name, "head -c 6000000 /dev/zero > /workspace/full")
    answer = server.upload(name, tar_gz({f"f{n}": "x" * 100_000 for n in range(60)}), dest="/workspace/up")
    found = listing(server, name)
    server.delete(at(name))
    assert answer.status in (413, 507), answer
    assert set(found) == {"/workspace/full"}
