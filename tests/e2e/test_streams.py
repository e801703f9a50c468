"""Standard input, output and error: live, exact, bounded, and never what a run waits for."""
import base64
import hashlib
import os
import re
import subprocess

import pytest
from conftest import COVE, PATIENCE, cove, new_marker, processes_with, python, run_json, started, wait_until

EVERY_BYTE = bytes(range(256)) * 4
PRINT_EVERY_BYTE = "import sys\nsys.{}.buffer.write(bytes(range(256)) * 4)"
BIG = 50_000_000


def test_streams_are_live_in_both_directions():
    with started("run", "-c", "print('ready', flush=True)\nprint('got', input(), flush=True)\nprint('and', input())") as process:
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"got one\n"
        process.stdin.write(b"two\n")
        process.stdin.close()
        assert process.stdout.read() == b"and two\n"
        assert process.wait(PATIENCE) == 0


def test_stdout_and_stderr_stay_apart():
    run = cove("run", "--", "sh", "-c", "echo out; echo err >&2")
    assert (run.stdout, run.stderr) == (b"out\n", b"err\n")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_binary_output_is_exact_when_streamed(stream):
    run = cove("run", "-c", PRINT_EVERY_BYTE.format(stream))
    assert getattr(run, stream) == EVERY_BYTE


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_binary_output_in_json_is_readable_text_beside_the_exact_bytes(stream):
    run = python(PRINT_EVERY_BYTE.format(stream))
    assert base64.b64decode(run.result[stream + "_base64"]) == EVERY_BYTE
    assert "\ufffd" in run.result[stream] and "ABCDEF" in run.result[stream]


@pytest.mark.parametrize("text", ["plain\n", "žluťoučký kůň 🐎\n", "nul \0 in it\n", "\x1b[31mred\x1b[0m\n", "\u2028\u2029\ufeff\n", '"quoted" \\ back\n', ""],
                         ids=["ascii", "unicode", "nul", "ansi", "separators", "quotes", "nothing"])
def test_valid_text_goes_into_json_unchanged_and_alone(text):
    run = python("import os, sys\nos.write(1, bytes.fromhex(sys.stdin.read()))", stdin=text.encode().hex().encode())
    assert run.out == text
    assert "stdout_base64" not in run.result


@pytest.mark.parametrize("text", [b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\xff\xfe"],
                         ids=["lone surrogate", "overlong", "above unicode", "cut short", "never valid"])
def test_what_is_not_utf8_is_replaced_and_recoverable(text):
    run = python(f"import os\nos.write(1, bytes.fromhex('{text.hex()}') + b'|')")
    assert base64.b64decode(run.result["stdout_base64"]) == text + b"|"
    assert run.out.startswith("\ufffd") and run.out.endswith("|")


def test_a_character_cut_by_the_output_limit_is_recoverable():
    run = python("print('ééé', end='')", "--output-limit", "5")
    assert run.out == "éé\ufffd"
    assert base64.b64decode(run.result["stdout_base64"]) == "ééé".encode()[:5]
    assert run.result["truncated"]["stdout"] == 1


HUNDRED_MB_LINE = "head -c 100000000 /dev/zero | tr '\\0' x"


def test_a_line_of_100_mb_is_whole_under_a_large_output_limit():
    run = cove("run", "--output-limit", "200M", "--", "sh", "-c", HUNDRED_MB_LINE)
    assert (run.status, len(run.stdout), run.stderr) == (0, 100_000_000, b"")
    assert run.stdout.count(b"x") == 100_000_000


def test_a_line_of_100_mb_is_whole_in_json_under_a_large_output_limit():
    run = run_json("--output-limit", "200M", "--memory", "128M", "--", "sh", "-c", HUNDRED_MB_LINE)
    assert (run.status, len(run.out), run.result["truncated"]["stdout"]) == (0, 100_000_000, 0)


def test_a_line_of_100_mb_is_cut_and_counted_exactly_under_the_default_limit():
    run = run_json("--", "sh", "-c", HUNDRED_MB_LINE)
    assert (run.status, run.reason, len(run.out)) == (0, "exited", 1 << 20)
    assert re.fullmatch(r"x+\n\[\.\.\. \d+ bytes left out \.\.\.\]\nx{65000,}", run.out), "beginning and end"
    assert run.result["truncated"] == {"stdout": 100_000_000 - (1 << 20), "stderr": 0}


def test_a_flood_on_both_streams_is_counted_exactly_on_each():
    run = python("import os\nfor _ in range(300):\n    os.write(1, b'o' * 40000); os.write(2, b'e' * 30000)", "--output-limit", "100K")
    assert (run.status, len(run.out), len(run.err)) == (0, 102400, 102400) and set(run.out) - set("o\n[. 0123456789bytes left out]") == set()
    assert run.result["truncated"] == {"stdout": 300 * 40000 - 102400, "stderr": 300 * 30000 - 102400}


def test_a_flood_on_one_stream_does_not_hold_up_the_other():
    with started("run", "--output-limit", "1G", "--", "sh", "-c", "yes & echo heard >&2; wait") as process:
        assert process.stderr.readline() == b"heard\n"  # nobody has read stdout yet


# Starts cove from a small process, because a child's peak begins with its parent's, and prints that peak and what came out.
MEASURE = """
import os, subprocess, sys
cove = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
count = 0
while chunk := os.read(cove.stdout.fileno(), 4096):
    count += len(chunk)
_, status, usage = os.wait4(cove.pid, 0)
print(os.waitstatus_to_exitcode(status), count, usage.ru_maxrss)
"""


def measured(*arguments):
    done = subprocess.run(["/usr/bin/python3", "-c", MEASURE, COVE, "run", *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    return map(int, done.stdout.split())


def test_a_slow_reader_holds_the_program_back_instead_of_filling_memory():
    status, count, peak_kib = measured("--output-limit", "1G", "--", "head", "-c", "200M", "/dev/zero")
    assert (status, count) == (0, 200 << 20)
    assert peak_kib < 64 << 10


def test_output_past_its_limit_fills_no_memory():
    status, count, peak_kib = measured("--quiet", "--", "head", "-c", "500M", "/dev/zero")
    assert (status, count) == (0, 1 << 20)
    assert peak_kib < 64 << 10


def test_input_poured_at_a_program_that_never_reads_is_held_back_instead_of_filling_memory():
    status, count, peak_kib = measured("--quiet", "--stdin", "/dev/zero", "--timeout", "1s", "--", "sleep", "600")
    assert (status, count) == (124, 0)
    assert peak_kib < 64 << 10


def test_a_reader_that_goes_away_ends_the_run_as_a_broken_pipe_does():
    marker = new_marker()
    with started("run", "--", "yes", marker) as process:
        assert process.stdout.readline() == marker.encode() + b"\n"
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + 13
    assert processes_with(marker) == []


def test_a_reader_that_never_reads_does_not_hold_up_the_timeout():
    with started("run", "--quiet", "--timeout", "1s", "--output-limit", "1G", "--", "yes") as process:
        assert process.wait(PATIENCE) == 124


def test_a_program_that_ended_in_time_is_not_called_late_because_its_reader_is():
    with started("run", "--timeout", "1s", "--", "head", "-c", "150000", "/dev/zero") as process:
        wait_until(lambda: process.poll() is not None, patience=2)  # well past the time limit: nobody reads
        count = 0
        while chunk := os.read(process.stdout.fileno(), 65536):
            count += len(chunk)
        assert (process.wait(PATIENCE), count) == (0, 150_000)


def test_20_mb_that_are_not_text_are_recoverable_from_json():
    run = python("import os\nfor _ in range(4000): os.write(1, bytes.fromhex('fffe00eda080') * 900)", "--output-limit", "30M")
    assert base64.b64decode(run.result["stdout_base64"]) == bytes.fromhex("fffe00eda080") * 3_600_000


def test_what_a_program_never_reads_is_no_error():
    run = run_json("--", "echo", "ok", stdin=b"x" * BIG)
    assert (run.status, run.out) == (0, "ok\n")


def test_a_program_that_closes_its_input_runs_on():
    run = run_json("--", "sh", "-c", "exec 0<&-; sleep 0.1; echo ok", stdin=b"x" * BIG)
    assert (run.status, run.out) == (0, "ok\n")


def test_50_mb_of_input_arrive_whole():
    run = run_json("--", "wc", "-c", stdin=b"x" * BIG)
    assert (run.status, run.out.strip()) == (0, str(BIG))


def test_50_mb_go_through_cat_unchanged():
    data = os.urandom(1 << 20) * 50
    run = cove("run", "--output-limit", "100M", "--", "cat", stdin=data)
    assert hashlib.sha256(run.stdout).digest() == hashlib.sha256(data).digest()


def test_a_line_of_input_can_be_shared_out_among_processes():
    run = run_json("--", "sh", "-c", "read a; read b; echo $b $a", stdin=b"1\n2\n")
    assert run.out == "2 1\n"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_descriptors_the_caller_closed_do_no_harm(closed, workdir):
    result = workdir / "result"
    close = " ".join({0: "0<&-", 1: "1>&-", 2: "2>&-"}[number] for number in closed)
    done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {close}', COVE, "run", "--out", f"result:{result}", "--", "sh", "-c", "cat >result; exit 7"],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 7
    assert result.read_bytes() == b""


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("arguments, status", [
    (["--", "no-such-command"], 127), (["--memory", "lots", "--", "true"], 125), (["--timeout", "100ms", "--", "sleep", "600"], 124),
], ids=["trouble", "refusal", "limit"])
def test_a_stderr_that_cannot_be_written_changes_no_status(where, arguments, status):
    done = subprocess.run(["sh", "-c", f'"$0" run "$@" {where}', COVE, *arguments], capture_output=True, timeout=PATIENCE)
    assert done.returncode == status


def test_a_json_object_that_cannot_be_written_is_told_by_the_status():
    done = subprocess.run(["sh", "-c", '"$0" run --json -- true >/dev/full', COVE], capture_output=True, timeout=PATIENCE)
    assert done.returncode == 125


def test_a_closed_stdin_is_an_end_of_file():
    done = subprocess.run(["sh", "-c", '"$0" run -- cat 0<&-', COVE], capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, b"")


def test_stdin_none_is_an_end_of_file_although_there_is_input():
    run = run_json("--stdin", "none", "--", "cat", stdin=b"not for you")
    assert (run.status, run.out) == (0, "")


def test_stdin_from_a_file(workdir):
    (workdir / "input").write_bytes(EVERY_BYTE)
    run = cove("run", "--stdin", workdir / "input", "--", "cat", stdin=b"not this")
    assert (run.status, run.stdout) == (0, EVERY_BYTE)


def test_a_missing_stdin_file_is_refused_by_name():
    run = cove("run", "--stdin", "/no/such/input", "--", "cat")
    assert run.status == 125
    assert "--stdin" in run.err and "/no/such/input" in run.err


def test_the_result_comes_although_a_child_keeps_the_pipes_open():
    marker = new_marker()
    run = run_json("--", "sh", "-c", f"sh -c 'sleep 600; : {marker}' & echo done; exit 3")
    assert (run.status, run.reason, run.out) == (3, "exited", "done\n")
    assert processes_with(marker) == []


@pytest.mark.parametrize("limit", ["1K", "1G"])
def test_the_result_comes_although_a_child_keeps_writing(limit):
    run = cove("run", "--output-limit", limit, "--timeout", "40s", "--quiet", "--", "sh", "-c", "yes & echo done >&2; exit 3")
    assert (run.status, run.err) == (3, "done\n")


def test_the_result_comes_to_a_slow_reader_although_a_child_keeps_writing():
    with started("run", "--output-limit", "1G", "--timeout", "40s", "--quiet", "--", "sh", "-c", "yes & echo done >&2; exit 3") as process:
        assert process.stderr.readline() == b"done\n"
        while os.read(process.stdout.fileno(), 4096):
            pass
        assert process.wait(PATIENCE) == 3


def test_everything_written_before_the_end_is_delivered():
    run = run_json("--output-limit", "10M", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' a; printf end; printf end >&2")
    assert len(run.out) == 3_000_003 and run.out.endswith("end") and run.err == "end"


def test_output_of_a_child_that_ends_right_after_its_parent_is_delivered():
    run = run_json("--", "sh", "-c", "(exec 2>&-; while [ -d /proc/$$ ]; do :; done; echo last) & echo first")
    assert run.out == "first\nlast\n"
