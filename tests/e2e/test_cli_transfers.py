"""cove cp, upload, download: files and trees both ways, whole or not at all, never outside of where they were sent."""
import io
import os
import pty
import signal
import subprocess
import tarfile

import pytest
from conftest import COVE, PATIENCE, started, wait_until


@pytest.fixture
def tree(workdir):
    root = workdir / "tree"
    (root / "sub" / "empty").mkdir(parents=True)
    (root / "a.txt").write_text("one\n")
    (root / "sub" / "ü.bin").write_bytes(bytes(range(256)))
    (root / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")
    return root


def test_a_file_there_and_back(cli, server, sandbox, workdir):
    data = os.urandom(3_000_000)
    (workdir / "data").write_bytes(data)
    (workdir / "data").chmod(0o750)
    assert cli("cp", workdir / "data", f"{sandbox}:").status == 0
    assert server.out(sandbox, "stat -c %a data") == "750\n"
    assert cli("cp", f"{sandbox}:data", workdir / "back").status == 0
    assert (workdir / "back").read_bytes() == data
    assert (workdir / "back").stat().st_mode & 0o777 == 0o750
    assert cli("cp", workdir / "data", f"{sandbox}:deep/er/name").status == 0
    assert server.out(sandbox, "stat -c %s deep/er/name") == "3000000\n"
    (workdir / "into").mkdir()
    cli("cp", f"{sandbox}:/workspace/deep/er/name", workdir / "into")
    assert (workdir / "into" / "name").read_bytes() == data


def test_an_empty_file(cli, server, sandbox, workdir):
    (workdir / "nothing").touch()
    assert cli("cp", workdir / "nothing", f"{sandbox}:").status == 0
    assert server.out(sandbox, "stat -c %s nothing") == "0\n"
    assert cli("cp", f"{sandbox}:nothing", workdir / "back").status == 0
    assert (workdir / "back").read_bytes() == b""


def test_standard_streams(cli, server, sandbox):
    assert cli("cp", "-", f"{sandbox}:typed", stdin=b"typed in\n").status == 0
    assert server.out(sandbox, "cat typed") == "typed in\n"
    assert cli("cp", f"{sandbox}:typed", "-").stdout == b"typed in\n"


def test_a_tree_there_and_back(cli, server, sandbox, tree, workdir):
    assert cli("cp", tree, f"{sandbox}:project").status == 0
    assert server.out(sandbox, "cd project && find . | sort && ./run.sh && cat link") == ".\n./a.txt\n./link\n./run.sh\n./sub\n./sub/empty\n./sub/ü.bin\nran\none\n"
    assert cli("cp", tree, f"{sandbox}:project").status == 0
    assert server.out(sandbox, "ls -d project/tree/sub") == "project/tree/sub\n", "into a directory that is there"
    assert cli("cp", f"{sandbox}:project", workdir / "new").status == 0
    assert (workdir / "new" / "sub" / "ü.bin").read_bytes() == bytes(range(256))
    assert os.readlink(workdir / "new" / "link") == "a.txt"
    assert (workdir / "new" / "sub" / "empty").is_dir()
    assert cli("cp", f"{tree}/.", f"{sandbox}:flat").status == 0
    assert server.out(sandbox, "ls flat").split() == ["a.txt", "link", "run.sh", "sub"]


def test_upload_and_download(cli, server, sandbox, tree, workdir):
    (workdir / "single").write_text("x")
    assert cli("upload", sandbox, tree, workdir / "single", "--dest", "up/here").status == 0
    assert server.out(sandbox, "ls up/here").split() == ["single", "tree"]
    assert cli("download", sandbox, "--src", "up/here", "--extract", workdir / "got").status == 0
    assert (workdir / "got" / "tree" / "a.txt").read_text() == "one\n"
    run = cli("download", sandbox, "--src", "up/here", "-o", "-")
    assert "tree/a.txt" in tarfile.open(fileobj=io.BytesIO(run.stdout)).getnames()
    assert cli("download", sandbox, cwd=workdir).status == 0
    assert (workdir / f"{sandbox}.tar.gz").stat().st_size > 0
    assert cli("download", sandbox, "-o", "x", "--extract", "y", cwd=workdir).status == 125


def test_what_is_not_there(cli, sandbox, workdir):
    for arguments in (("cp", workdir / "nope", f"{sandbox}:"), ("cp", f"{sandbox}:nope", workdir), ("cp", "nobody:x", workdir), ("upload", sandbox, workdir / "nope"), ("download", sandbox, "--src", "nope", "--extract", workdir / "made"), ("cp", "a", "b"), ("cp", "a:b", "c:d")):
        run = cli(*arguments)
        assert run.status == 1 and run.err.startswith("cove: "), arguments
    assert os.listdir(workdir) == [], "a refusal leaves nothing behind"


def test_links_that_lead_out_stay_behind(cli, server, sandbox, workdir):
    server.out(sandbox, "mkdir d && cd d && ln -s /etc/passwd abs && ln -s ../../../etc up && mkfifo pipe && echo x > fine")
    assert cli("cp", f"{sandbox}:d", workdir / "d").status == 0
    assert os.listdir(workdir / "d") == ["fine"]


def test_nothing_is_written_through_a_link_that_is_there_already(cli, server, sandbox, workdir):
    server.out(sandbox, "mkdir -p d/sub && echo evil > d/sub/file")
    (workdir / "outside").mkdir()
    (workdir / "d").mkdir()
    (workdir / "d" / "sub").symlink_to(workdir / "outside")
    run = cli("download", sandbox, "--src", "d", "--extract", workdir / "d")
    assert os.listdir(workdir / "outside") == []
    assert run.status == 1


def test_a_broken_off_download_leaves_no_half_of_a_file(server, sandbox, workdir):
    server.out(sandbox, "head -c 100000000 /dev/urandom > noise")
    url = {"COVE_URL": f"http://127.0.0.1:{server.port}"}
    with started("cp", f"{sandbox}:noise", workdir / "noise", env=url) as process:
        assert wait_until(lambda: any(".cove-" in name for name in os.listdir(workdir)))
        process.send_signal(signal.SIGINT)
        status = process.wait(PATIENCE)
    assert (status, os.listdir(workdir)) in ((130, []), (0, ["noise"])), "interrupted, or it was quicker than we"


def test_a_reader_that_leaves_ends_the_transfer(server, sandbox):
    server.out(sandbox, "head -c 20000000 /dev/zero > zeros")
    with started("cp", f"{sandbox}:zeros", "-", env={"COVE_URL": f"http://127.0.0.1:{server.port}"}) as process:
        assert process.stdout.read(10) == bytes(10)
        process.stdout.close()
        assert process.wait(PATIENCE) != 0


def test_json_says_what_was_done(cli, sandbox, tree, workdir):
    assert cli("cp", "--json", tree / "a.txt", f"{sandbox}:").result["size"] == 4
    assert cli("upload", "--json", sandbox, tree).result["files"] >= 3
    assert cli("cp", "--json", f"{sandbox}:a.txt", workdir / "b").result["bytes"] == 4


def test_a_bar_for_people_and_none_for_programs(server, sandbox, workdir):
    with open(workdir / "big", "wb") as file:
        file.truncate(100_000_000)
    environment = {**os.environ, "COVE_URL": f"http://127.0.0.1:{server.port}"}
    for options, wanted in (((), True), (("--quiet",), False)):
        master, slave = pty.openpty()
        done = subprocess.run([COVE, "cp", *options, workdir / "big", f"{sandbox}:big"], stderr=slave, env=environment, timeout=PATIENCE)
        os.close(slave)
        shown = b""
        with open(master, "rb", buffering=0) as reader:
            try:
                while piece := reader.read(65536):
                    shown += piece
            except OSError:
                pass
        assert done.returncode == 0, shown
        assert (b"% " in shown and b"[=" in shown) is wanted, shown
        assert not wanted or shown.endswith(b"\r\x1b[K"), "wiped at the end"
