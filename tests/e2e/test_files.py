"""Files copied in with --file and out with --out, and what a program can do to its own tree."""
import os
import pathlib
import subprocess

import pytest
from conftest import COVE, PATIENCE, cove, python, run_json, started

BINARY = bytes(range(256)) * 5000


def leftovers(directory):
    """Names the copying itself may have left beside a result."""
    return [name for name in os.listdir(directory) if ".cove-" in name]


def test_a_file_is_copied_into_the_working_directory_byte_for_byte(workdir):
    (workdir / "data.bin").write_bytes(BINARY)
    run = cove("run", "--file", workdir / "data.bin", "--output-limit", "10M", "--", "cat", "/workspace/data.bin")
    assert run.stdout == BINARY


@pytest.mark.parametrize("target, inside", [("other.txt", "/workspace/other.txt"), ("sub/dir/a.txt", "/workspace/sub/dir/a.txt"), ("/tmp/x/a.txt", "/tmp/x/a.txt"), ("./a/../b.txt", "/workspace/b.txt")])
def test_a_file_is_copied_to_the_path_after_the_colon(workdir, target, inside):
    (workdir / "a.txt").write_text("content")
    run = run_json("--file", f"{workdir}/a.txt:{target}", "--", "cat", inside)
    assert (run.status, run.out) == (0, "content")


def test_a_host_name_with_a_colon_in_it_is_a_host_name(workdir):
    (workdir / "a:b").write_text("content")
    run = run_json("--file", workdir / "a:b", "--", "cat", "a:b")
    assert (run.status, run.out) == (0, "content")


def test_a_directory_is_copied_with_everything_in_it(workdir):
    tree = workdir / "tree"
    (tree / "sub" / "deeper").mkdir(parents=True)
    (tree / "one").write_text("1")
    (tree / "sub" / "two").write_text("2")
    (tree / "sub" / "deeper" / "three").write_text("3")
    (tree / "sub" / "a name with spaces ü").write_text("4")
    (tree / "empty").mkdir()
    run = run_json("--file", tree, "--", "sh", "-c", "cd tree && find . -mindepth 1 | LC_ALL=C sort && cat one sub/two sub/deeper/three sub/a*")
    assert run.out.splitlines() == ["./empty", "./one", "./sub", "./sub/a name with spaces ü", "./sub/deeper", "./sub/deeper/three", "./sub/two", "1234"]


def test_the_execute_bit_is_kept_and_set_id_bits_are_not(workdir):
    for name, mode in [("plain", 0o600), ("tool", 0o700), ("setuid", 0o6755)]:
        (workdir / name).write_text("#!/bin/sh\necho ran\n")
        (workdir / name).chmod(mode)
    run = run_json("--file", workdir / "plain", "--file", workdir / "tool", "--file", workdir / "setuid", "--", "stat", "-c", "%n %a", "plain", "tool", "setuid")
    assert run.out == "plain 644\ntool 755\nsetuid 755\n"


def test_what_was_copied_in_belongs_to_the_program_and_can_be_changed_without_changing_the_host(workdir):
    (workdir / "a").write_text("host")
    run = run_json("--file", workdir / "a", "--", "sh", "-c", "echo changed >a && cat a && rm a")
    assert (run.status, run.out) == (0, "changed\n")
    assert (workdir / "a").read_text() == "host"


@pytest.mark.parametrize("arguments, words", [
    (["--file", "/no/such/file"], ["--file", "/no/such/file"]),
    (["--file", "/no/such/file:there"], ["--file", "/no/such/file"]),
    (["--file", ":there"], ["--file"]),
    (["--out", "no-colon"], ["--out", "no-colon"]),
    (["--out", ":host"], ["--out"]),
    (["--out", "inside:"], ["--out"]),
])
def test_a_copy_that_makes_no_sense_is_refused_by_name(arguments, words):
    run = cove("run", *arguments, "--", "echo", "ran")
    assert (run.status, run.stdout) == (125, b"")
    assert all(word in run.err for word in words)


@pytest.mark.parametrize("target", ["/usr/bin/evil", "/etc/evil", "/proc/evil", "/evil"])
def test_a_file_cannot_be_copied_over_the_system(workdir, target):
    (workdir / "a").write_text("x")
    run = cove("run", "--file", f"{workdir}/a:{target}", "--", "echo", "ran")
    assert (run.status, run.stdout) == (125, b"")
    assert target in run.err


def test_files_that_together_are_larger_than_the_disk_limit_are_refused_by_name(workdir):
    for name in ("one", "two", "three"):
        (workdir / name).write_bytes(bytes(1 << 20))
    run = cove("run", "--disk", "2M", "--file", f"{workdir}:all", "--", "echo", "ran")
    assert (run.status, run.stdout) == (125, b"")
    assert "/workspace/all/" in run.err and "No space left" in run.err


def test_one_file_larger_than_the_disk_limit_is_refused_by_name(workdir):
    with open(workdir / "big", "wb") as file:
        file.truncate(3 << 20)
    run = cove("run", "--disk", "2M", "--file", workdir / "big", "--", "echo", "ran")
    assert (run.status, run.stdout) == (125, b"")
    assert "big" in run.err


def test_a_link_in_a_directory_that_points_back_at_it_does_not_multiply(workdir):
    tree = workdir / "tree"
    tree.mkdir()
    (tree / "file").write_text("x")
    (tree / "loop").symlink_to(".")
    run = run_json("--file", tree, "--", "sh", "-c", "find tree -name file | wc -l")
    assert (run.status, run.out) == (0, "1\n")


def test_a_fifo_on_the_host_is_refused_instead_of_waited_for(workdir):
    os.mkfifo(workdir / "pipe")
    with started("run", "--file", workdir / "pipe", "--", "true") as process:
        assert process.wait(10) == 125
        assert b"pipe" in process.stderr.read()


def test_a_result_is_copied_out_byte_for_byte(workdir):
    (workdir / "in").write_bytes(BINARY)
    run = run_json("--file", workdir / "in", "--out", f"copy:{workdir}/result", "--", "cp", "in", "copy")
    assert run.status == 0
    assert (workdir / "result").read_bytes() == BINARY
    assert run.result["out"] == [{"path": "/workspace/copy", "host": f"{workdir}/result", "bytes": len(BINARY)}]
    assert leftovers(workdir) == []


def test_several_results_from_several_places(workdir):
    run = cove("run", "--out", f"a:{workdir}/a", "--out", f"/tmp/b:{workdir}/b", "--out", f"sub/c:{workdir}/c", "--",
               "sh", "-c", "echo 1 >a; echo 2 >/tmp/b; mkdir sub; : >sub/c")
    assert run.status == 0
    assert [(workdir / name).read_text() for name in "abc"] == ["1\n", "2\n", ""]


def test_a_result_as_large_as_the_disk_allows_is_whole(workdir):
    run = run_json("--memory", "256M", "--disk", "128M", "--out", f"big:{workdir}/big", "--", "sh", "-c", "head -c 100M /dev/zero >big")
    assert run.result["out"][0]["bytes"] == 100 << 20
    assert (workdir / "big").stat().st_size == 100 << 20


def test_a_result_is_copied_out_although_the_program_failed(workdir):
    run = cove("run", "--out", f"log:{workdir}/log", "--", "sh", "-c", "echo why >log; exit 9")
    assert run.status == 9
    assert (workdir / "log").read_text() == "why\n"


@pytest.mark.parametrize("reason, arguments, program", [
    ("timeout", ["--timeout", "500ms"], "echo why >log; sleep 600"),
    ("oom", ["--memory", "64M"], "echo why >log; exec python3 -c 'b = bytearray(400 << 20)'"),
], ids=["timeout", "oom"])
def test_a_result_is_copied_out_although_a_limit_ended_the_run(workdir, reason, arguments, program):
    run = run_json(*arguments, "--out", f"log:{workdir}/log", "--", "sh", "-c", program)
    assert run.reason == reason
    assert (workdir / "log").read_text() == "why\n"


BAD_RESULTS = [
    ("pipe", "mkfifo pipe", "is not a regular file"),
    ("/dev/zero", ":", "is not a regular file"),
    ("file/below", ": >file", "Not a directory"),
    ("secret", "echo x >secret; chmod 0 secret", "Permission denied"),
    ("loop", "ln -s loop loop", "Too many levels of symbolic links"),
]


@pytest.mark.parametrize("path, program, why", BAD_RESULTS, ids=[row[0] for row in BAD_RESULTS])
def test_a_result_that_cannot_be_copied_is_told_and_leaves_the_old_one_alone(workdir, path, program, why):
    (workdir / "result").write_text("old")
    run = run_json("--out", f"{path}:{workdir}/result", "--", "sh", "-c", program)
    assert run.status == 125
    assert run.result["exit_code"] == 0 and run.reason == "exited"
    assert why in run.result["out"][0]["error"]
    assert f"cove: --out /{path.lstrip('/') if path.startswith('/') else 'workspace/' + path}: " in run.stderr.decode()
    assert (workdir / "result").read_text() == "old"
    assert leftovers(workdir) == []


@pytest.mark.parametrize("path, program", [("missing", ":"), ("dangling", "ln -s nowhere dangling")])
def test_a_result_that_the_program_did_not_make_has_a_line_and_a_status_of_its_own(workdir, path, program):
    (workdir / "result").write_text("old")
    run = run_json("--out", f"{path}:{workdir}/result", "--", "sh", "-c", program)
    assert (run.status, run.result["exit_code"], run.reason) == (123, 0, "exited")
    assert run.stderr.decode() == f"cove: --out /workspace/{path}: path not found: /workspace/{path}: the program did not make it\n"
    assert run.result["out"][0]["error"].endswith("the program did not make it")
    assert (workdir / "result").read_text() == "old" and leftovers(workdir) == []


def test_a_directory_is_copied_out_as_one_is_copied_in(workdir):
    run = run_json("--out", f"dir:{workdir}/dir", "--", "sh", "-c", "mkdir -p dir/sub dir/empty; echo a >dir/a; echo b >dir/sub/b; chmod 755 dir/a; ln -s a dir/link")
    assert (run.status, run.stderr) == (0, b"") and run.result["out"][0]["bytes"] == 4
    assert (workdir / "dir" / "a").read_text() == "a\n" and (workdir / "dir" / "sub" / "b").read_text() == "b\n"
    assert (workdir / "dir" / "empty").is_dir() and (workdir / "dir" / "link").readlink() == pathlib.Path("a")
    assert (workdir / "dir" / "a").stat().st_mode & 0o111
    assert leftovers(workdir) == []


def test_a_directory_does_not_replace_one_that_has_something_in_it(workdir):
    (workdir / "there").mkdir()
    (workdir / "there" / "mine").write_text("mine")
    run = cove("run", "--out", f"dir:{workdir}/there", "--", "sh", "-c", "mkdir dir; echo a >dir/a")
    assert run.status == 125 and "Directory not empty" in run.err
    assert [entry.name for entry in (workdir / "there").iterdir()] == ["mine"] and leftovers(workdir) == []


def test_a_directory_that_cannot_be_made_for_a_file_is_named_as_the_cause(workdir):
    (workdir / "in").write_text("x")
    run = cove("run", "--file", f"{workdir}/in:/opt/none/in.csv", "--", "true")
    assert run.status == 125 and "directory '/opt/none': Permission denied" in run.err and "--disk" not in run.err


def test_a_program_that_failed_keeps_its_status_although_a_result_is_missing_too(workdir):
    run = cove("run", "--out", f"missing:{workdir}/x", "--", "sh", "-c", "exit 3")
    assert run.status == 3
    assert "--out" in run.err and not (workdir / "x").exists()


def test_a_link_inside_leads_nowhere_on_the_host(workdir):
    (workdir / "host-secret").write_text("secret")
    run = cove("run", "--out", f"link:{workdir}/result", "--", "ln", "-s", workdir / "host-secret", "link")
    assert run.status == 123
    assert not (workdir / "result").exists()


def test_a_link_inside_to_a_file_inside_is_followed(workdir):
    run = cove("run", "--out", f"link:{workdir}/result", "--", "sh", "-c", "echo here >real; ln -s real link")
    assert run.status == 0
    assert (workdir / "result").read_text() == "here\n" and not (workdir / "result").is_symlink()


def test_a_result_cannot_be_copied_to_a_directory_that_is_not_there(workdir):
    run = cove("run", "--out", f"a:{workdir}/no/such/a", "--", "touch", "a")
    assert run.status == 125
    assert "--out" in run.err and "no/such" in run.err


def test_a_result_cannot_replace_a_directory(workdir):
    (workdir / "there").mkdir()
    run = cove("run", "--out", f"a:{workdir}/there", "--", "touch", "a")
    assert run.status == 125
    assert (workdir / "there").is_dir() and leftovers(workdir) == []


def test_a_result_has_the_callers_umask_and_no_execute_bit(workdir):
    done = subprocess.run(["sh", "-c", 'umask 027; "$0" "$@"', COVE, "run", "--out", f"a:{workdir}/a", "--", "sh", "-c", ": >a; chmod 777 a"], timeout=PATIENCE)
    assert done.returncode == 0
    assert (workdir / "a").stat().st_mode & 0o7777 == 0o640


def test_a_directory_tree_of_depth_10_000_is_made_and_gone_with_the_run():
    run = python("import os\nfor depth in range(10_000):\n    os.mkdir('d'); os.chdir('d')\nopen('bottom', 'w').close()\nprint(depth + 1)")
    assert (run.status, run.out) == (0, "10000\n")


def test_a_program_may_delete_its_workspace_while_it_runs():
    run = run_json("--", "sh", "-c", "echo a >a; mkdir -p d/e; rm -rf /workspace/* /workspace/.[!.]*; rmdir /workspace 2>/dev/null; ls -A /workspace | wc -l; echo done")
    assert (run.status, run.reason) == (0, "exited")
    assert run.out.endswith("done\n") and run.out.startswith("0\n")


def test_a_result_whose_file_was_replaced_while_it_ran_is_the_last_one(workdir):
    run = cove("run", "--out", f"a:{workdir}/a", "-c", "import os\nfor n in range(200):\n    open('tmp', 'w').write(str(n)); os.rename('tmp', 'a')")
    assert run.status == 0
    assert (workdir / "a").read_text() == "199"


def test_two_runs_share_no_files():
    assert cove("run", "--", "sh", "-c", "echo x >/workspace/mark; echo x >/tmp/mark; echo x >/dev/shm/mark; echo x >~/mark").status == 0
    run = cove("run", "--", "sh", "-c", "ls -A /workspace /tmp /dev/shm ~ | grep mark; true")
    assert run.stdout == b""


@pytest.mark.parametrize("place", ["/usr/x", "/etc/x", "/var/x", "/bin/x", "/cove/x", "/x", "/dev/x", "/root/x", "/opt/x"])
def test_nothing_of_the_system_can_be_written(place):
    run = run_json("--", "sh", "-c", f": >{place}")
    assert run.status != 0
    assert "Permission denied" in run.err or "Read-only file system" in run.err
