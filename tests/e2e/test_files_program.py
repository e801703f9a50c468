"""/cove/bin/files: the file API's work, done in the sandbox under all its locks."""
import io
import json
import tarfile

import pytest
from conftest import cove


def archive(members, mode="w:gz"):
    """A tar of (name, content) and of ready TarInfos."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member[0])
            content = b"" if isinstance(member, tarfile.TarInfo) else member[1]
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def link(name, target):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def shell(script, stdin=b""):
    return cove("run", "--output-limit", "10M", "--", "bash", "-c", script, stdin=stdin)


def error(run):
    return json.loads(run.stderr.decode().splitlines()[-1])


def test_an_archive_goes_in_and_comes_out_again():
    members = [("a.txt", b"a"), ("sub/é.txt", b"e" * 300_000), ("sub/" + "n" * 150, b"n"), link("sub/l", "../a.txt")]
    run = shell("/cove/bin/files upload 'in put' >/tmp/said && /cove/bin/files download 'in put'", stdin=archive(members))
    assert run.status == 0, run.stderr
    with tarfile.open(fileobj=io.BytesIO(run.stdout), mode="r:gz") as tar:
        assert tar.getnames() == ["a.txt", "sub", "sub/l", "sub/" + "n" * 150, "sub/é.txt"]
        assert tar.extractfile("sub/é.txt").read() == b"e" * 300_000
        assert all((m.uid, m.gid, m.uname, m.gname) == (0, 0, "", "") for m in tar.getmembers())


@pytest.mark.parametrize("bad", [("../x", b""), ("", b""), link("l", "/etc/passwd"), link("l", "../x")], ids=["climbing", "nameless", "absolute", "out"])
def test_a_bad_member_refuses_the_archive_and_leaves_nothing(bad):
    run = shell("/cove/bin/files upload /workspace/new; echo $?; ls -A /workspace", stdin=archive([("good", b"x"), bad]))
    assert run.stdout == b"1\n"
    assert error(run)["code"] == "invalid"


def test_a_full_disk_is_told_and_nothing_is_left():
    run = cove("run", "--disk", "16M", "--", "bash", "-c", "/cove/bin/files upload .; ls -A", stdin=archive([("a", b"a"), ("big", b"\0" * (32 << 20))]))
    assert run.stdout == b""
    assert error(run)["code"] == "disk_full"


def test_what_is_written_can_be_read_listed_moved_and_removed():
    run = shell("F=/cove/bin/files; printf one | $F write d/f 0640 && printf two | $F write d/f 0640 append && $F read d/f 2 3 && echo && "
                "$F rename d/f d/g && $F list . 9 100 && $F remove d recursive && $F list . 9 100")
    assert run.status == 0, run.stderr
    lines = run.stdout.decode().splitlines()
    assert json.loads(lines[1])["size"] == 6
    assert lines[3] == "etw"
    assert [entry["path"] for entry in json.loads(lines[5])["entries"]] == ["/workspace/d", "/workspace/d/g"]
    assert json.loads(lines[6]) == {"entries": [], "truncated": False}


@pytest.mark.parametrize("command, code", [
    ("download /nowhere", "not_found"), ("read /proc/self/status", "invalid"), ("read /etc", "invalid"), ("upload / </dev/null", "denied"),
    ("remove /workspace recursive", "invalid"), ("remove / recursive", "invalid"), ("write /usr/x 0644 </dev/null", "denied"), ("stat ''", "invalid"),
])
def test_a_refusal_has_a_code(command, code):
    run = shell(f"/cove/bin/files {command}")
    assert (run.status, run.stdout) == (1, b"")
    assert error(run)["code"] == code


def test_a_watch_tells_of_changes():
    run = shell("mkdir w; sleep 1 | /cove/bin/files watch w recursive >events & until grep -q ready events 2>/dev/null; do sleep 0.01; done; "
                "mkdir -p w/x/y; echo 1 >w/x/y/f; wait; cat events")
    events = [json.loads(line) for line in run.stdout.splitlines()]
    assert events[0] == {"type": "ready"}
    assert {"type": "created", "path": "/workspace/w/x/y/f"} in events
