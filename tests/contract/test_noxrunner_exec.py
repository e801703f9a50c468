"""Exec: section 2.4 of the NoxRunner contract."""
import json
import re
import socket
import threading
import time

import pytest
from conftest import fair, new_marker, processes_with, wait_until
from noxclient import NoxClient
from server import at

INVALID_COMMANDS = [b"{}", b'{"cmd": []}', b'{"cmd": null}', b'{"cmd": "echo hi"}', b'{"cmd": {}}', b'{"cmd": 3}', b'{"cmd": [1]}', b'{"cmd": ["echo", 1]}', b'{"cmd": ["echo", null]}', b'{"cmd": [["echo"]]}', b'{"cmd": [""]}', b'{"cmd": ["a\\u0000b"]}', b'{"cmd": ["echo", "a\\u0000b"]}']


def test_the_four_fields_are_always_there(server, sandbox):
    for command in (["true"], ["sh", "-c", "echo partial line; echo boom >&2; exit 3"], ["no-such-tool"]):
        result = server.exec(sandbox, *command, workdir="/workspace", timeoutSeconds=30)
        assert type(result["exitCode"]) is int and type(result["durationMs"]) is int
        assert type(result["stdout"]) is str and type(result["stderr"]) is str
    result = server.sh(sandbox, "echo partial line; echo boom >&2; exit 3")
    assert (result["exitCode"], result["stdout"], result["stderr"], result["reason"]) == (3, "partial line\n", "boom\n", "exited")
    assert 0 <= result["durationMs"] < fair(5000) and "cpuMs" in result


@pytest.mark.parametrize("body", INVALID_COMMANDS)
def test_a_command_that_is_none_is_400(server, sandbox, body):
    answer = server.post(at(sandbox, "exec"), body)
    assert (answer.status, answer.code) == (400, "invalid") and "cmd" in answer.json["error"], answer


@pytest.mark.parametrize("status", [0, 1, 2, 41, 124, 126, 127, 255])
def test_an_exit_status_is_the_programs_own(server, sandbox, status):
    assert server.sh(sandbox, f"exit {status}")["exitCode"] == status


def test_arguments_go_to_the_program_untouched(server, sandbox):
    odd = ["$HOME", "a b", "", "*", "'\"`\\", "--", "-n", "\t\n", "ü漢😀", "$(id)", "x" * 10000]
    result = server.exec(sandbox, "python3", "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *odd)
    assert json.loads(result["stdout"]) == odd


# --- the environment

def test_env_is_added_to_the_base_environment(server, sandbox):
    assert server.out(sandbox, 'echo "$A|$PATH" | grep -q "^1|/.*bin" && echo yes', env={"A": "1"}) == "yes\n"


def test_env_values_survive_byte_for_byte(server, sandbox):
    values = {"A": "it's", "B": ' spaces  and "quotes" ', "C": "$HOME `id` $(id) \\n", "D": "line\nbreak\ttab", "E": "grüße 😀", "F": "", "lower_case": "a=b=c", "X.Y-Z": "odd name"}
    result = server.exec(sandbox, "python3", "-c", "import os, json; print(json.dumps(dict(os.environ)))", env=values)
    seen = json.loads(result["stdout"])
    assert {key: seen.get(key) for key in values} == values


@pytest.mark.parametrize("value, text", [("3", "3"), ("-1", "-1"), ("true", "true"), ("false", "false")])
def test_numbers_and_booleans_of_env_become_text(server, sandbox, value, text):
    answer = server.post(at(sandbox, "exec"), b'{"cmd": ["printenv", "A"], "env": {"A": %s}}' % value.encode())
    assert answer.json["stdout"] == text + "\n"


@pytest.mark.parametrize("env", ['{"": "x"}', '{"A=B": "x"}', '{"A\\u0000": "x"}', '{"A": "x\\u0000y"}', '{"A": null}', '{"A": []}', '{"A": {}}', '"A=1"', "[]", "3"])
def test_an_env_that_cannot_be_is_400(server, sandbox, env):
    answer = server.post(at(sandbox, "exec"), b'{"cmd": ["true"], "env": %s}' % env.encode())
    assert answer.status == 400 and "env" in answer.json["error"], answer


def test_env_wins_over_the_sandboxes_own_which_wins_over_the_base(server):
    name = server.create(env={"A": "sandbox", "B": "sandbox", "LANG": "sandbox"})
    assert server.out(name, 'echo "$A $B $LANG"', env={"A": "exec"}) == "exec sandbox sandbox\n"
    server.delete(at(name))


# --- the working directory

@pytest.mark.parametrize("workdir, want", [(None, "/workspace"), ("", "/workspace"), ("/", "/"), ("/tmp", "/tmp"), ("/usr/bin", "/usr/bin"), ("sub", "/workspace/sub"), ("/workspace/new/deep er", "/workspace/new/deep er"), ("a/../b", "/workspace/b"), (".", "/workspace"), ("/workspace/", "/workspace")])
def test_the_working_directory_is_as_asked_and_made_below_the_workspace(server, sandbox, workdir, want):
    fields = {} if workdir is None else {"workdir": workdir}
    assert server.exec(sandbox, "pwd", **fields)["stdout"] == want + "\n"


@pytest.mark.parametrize("workdir", ["/no/such", "/tmp/missing", "../outside"])
def test_a_missing_working_directory_outside_the_workspace_is_400_and_said(server, sandbox, workdir):
    answer = server.post(at(sandbox, "exec"), {"cmd": ["pwd"], "workdir": workdir})
    assert answer.status == 400 and answer.json["error"].startswith("workdir does not exist: "), answer


@pytest.mark.parametrize("workdir", [3, True, [], {}, "a\0b"])
def test_a_working_directory_that_is_no_path_is_400(server, sandbox, workdir):
    assert server.post(at(sandbox, "exec"), {"cmd": ["pwd"], "workdir": workdir}).status == 400


def test_a_working_directory_that_is_a_file_is_400(server, sandbox):
    server.out(sandbox, "touch file")
    answer = server.post(at(sandbox, "exec"), {"cmd": ["pwd"], "workdir": "/workspace/file"})
    assert answer.status == 400 and "workdir" in answer.json["error"]


def test_a_directory_the_sandbox_removed_below_itself_is_made_again(server, sandbox):
    server.sh(sandbox, "rm -rf /workspace/* /workspace")
    assert server.exec(sandbox, "pwd")["stdout"] == "/workspace\n"


# --- what could not start

def test_a_missing_program_is_127(server, sandbox):
    for name in ("no-such-tool", "/no/such/tool", "./nothing"):
        result = server.exec(sandbox, name, "argument")
        assert (result["exitCode"], result["stdout"], result["stderr"], result["reason"]) == (127, "", f"Command not found: {name}\n", "not_started")


def test_a_program_that_cannot_be_executed_is_126(server, sandbox):
    server.out(sandbox, "echo data >plain; mkdir dir; printf 'garbage' >noexec; chmod +x noexec")
    for name in ("./plain", "/workspace/dir"):
        result = server.exec(sandbox, name)
        assert result["exitCode"] == 126 and name in result["stderr"], (name, result)


def test_an_uploaded_script_runs_by_its_first_line(server, sandbox):
    server.out(sandbox, "printf '#!/usr/bin/env python3\\nprint(6*7)\\n' >s; chmod +x s")
    assert server.exec(sandbox, "./s")["stdout"] == "42\n"


# --- time

@pytest.mark.parametrize("timeout", ["0", "-1", "-0.5", '"30"', "true", "[]", "{}"])
def test_a_timeout_that_is_none_is_400(server, sandbox, timeout):
    answer = server.post(at(sandbox, "exec"), b'{"cmd": ["true"], "timeoutSeconds": %s}' % timeout.encode())
    assert answer.status == 400 and "timeoutSeconds" in answer.json["error"], answer


@pytest.mark.parametrize("timeout", ["1", "0.5", "30", "300", "3600", "86400", "1e9", "1e300", "99999999999999999999999", "null"])
def test_a_timeout_may_be_a_fraction_and_is_clamped_above(server, sandbox, timeout):
    answer = server.post(at(sandbox, "exec"), b'{"cmd": ["echo", "x"], "timeoutSeconds": %s}' % timeout.encode())
    assert answer.status == 200 and answer.json["stdout"] == "x\n"


def test_a_timeout_is_124_keeps_the_output_and_says_so_on_a_line_of_its_own(server, sandbox):
    result = server.sh(sandbox, "echo before; printf 'no newline' >&2; sleep 60", timeoutSeconds=1)
    assert (result["exitCode"], result["stdout"], result["reason"]) == (124, "before\n", "timeout")
    assert result["stderr"] == "no newline\nCommand timed out after 1 seconds\n"
    assert 950 <= result["durationMs"] <= fair(1800)
    fraction = server.exec(sandbox, "sleep", "60", timeoutSeconds=0.3)
    assert fraction["exitCode"] == 124 and "timed out after 0.3 seconds" in fraction["stderr"]


STUBBORN = {
    "child": "sh -c 'sleep 600; : {m}' & wait",
    "setsid": "setsid sh -c 'sleep 600; : {m}' & sleep 600",
    "double fork": "(setsid sh -c 'while :; do sleep 1; done; : {m}' &) ; sleep 600",
    "nohup": "nohup sh -c 'sleep 600; : {m}' >/dev/null 2>&1 & sleep 600",
    "ignores signals": "trap '' TERM INT HUP QUIT; while :; do sleep 1; done; : {m}",
    "stopped": "sh -c 'kill -STOP $$; : {m}' & sleep 600",
    "many": "for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'sleep 600; : {m}' &); done; sleep 600",
    "daemon of python": "python3 -c 'import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    [os.close(fd) for fd in range(3)]\n    time.sleep(600)\n  os._exit(0)\n\"{m}\"\ntime.sleep(600)'",
}


@pytest.mark.parametrize("how", STUBBORN)
def test_the_whole_tree_of_a_timed_out_exec_dies(server, sandbox, how):
    marker = new_marker()
    result = server.sh(sandbox, STUBBORN[how].format(m=marker), timeoutSeconds=0.7)
    assert result["exitCode"] == 124
    assert wait_until(lambda: not processes_with(marker), 2), processes_with(marker)
    assert server.out(sandbox, "echo alive") == "alive\n"


LEFT = {"plainly": "{p} >/dev/null 2>&1 &", "with nohup": "nohup {p} >/dev/null 2>&1 &", "with setsid": "setsid {p} >/dev/null 2>&1 &", "with a double fork": "(setsid {p} >/dev/null 2>&1 &)", "with its streams open": "{p} &"}


@pytest.mark.parametrize("how", LEFT)
def test_what_an_exec_leaves_in_the_background_lives_on(server, sandbox, how):
    marker = new_marker()
    began = time.monotonic()
    result = server.sh(sandbox, LEFT[how].format(p=f"sh -c 'sleep 600; : {marker}'"))
    assert result["exitCode"] == 0 and time.monotonic() - began < fair(5)
    time.sleep(0.3)
    assert server.exec(sandbox, "true")["exitCode"] == 0
    assert processes_with(marker)


def test_a_background_server_serves_the_next_exec(server, sandbox):
    server.sh(sandbox, "echo page >index.html; python3 -m http.server 8099 --bind 127.0.0.1 >/dev/null 2>&1 &")
    assert wait_until(lambda: server.sh(sandbox, "curl -s http://127.0.0.1:8099/index.html")["stdout"] == "page\n")


# --- signals and memory

@pytest.mark.parametrize("name, number", [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("ABRT", 6), ("HUP", 1), ("PIPE", 13), ("USR1", 10)])
def test_killed_by_signal_n_is_128_and_n(server, sandbox, name, number):
    result = server.sh(sandbox, f"kill -{name} $$; sleep 5")
    assert (result["exitCode"], result["reason"], result["signal"]) == (128 + number, "signalled", "SIG" + name)


def test_memory_that_runs_out_is_137_with_a_note(server):
    name = server.create(memoryLimit="64Mi")
    result = server.exec(name, "python3", "-c", "b = []\nwhile True: b.append(bytearray(1 << 20))")
    assert (result["exitCode"], result["reason"]) == (137, "oom") and "memory limit" in result["stderr"]
    assert server.out(name, "echo alive") == "alive\n"
    server.delete(at(name))


HOG = "python3 -c 'b = bytearray(400 << 20)'"


@pytest.mark.parametrize("status, reason", [(0, "exited"), (3, "oom")])
def test_a_command_whose_child_was_killed_for_memory_keeps_its_own_exit_code(server, status, reason):
    name = server.create(memoryLimit="96Mi")
    result = server.sh(name, f"{HOG}; echo still here; exit {status}")
    assert (result["exitCode"], result["reason"], result["stdout"], result.get("signal")) == (status, reason, "still here\n", None)
    assert result["oomKills"] == 1
    assert result["note"].startswith("a process was killed: memory limit 96M reached (peak ")
    assert result["note"].endswith(f"the program went on and exited with status {status}; cove update --memory 192M (API: memoryLimit) gives more")
    after = server.sh(name, "exit 4")
    assert (after["exitCode"], after["reason"]) == (4, "exited") and not {"oomKills", "note"} & set(after), "only who met it is told of it"
    server.delete(at(name))


def test_a_full_disk_and_too_many_files_are_told_apart(server):
    name = server.create(memoryLimit="128Mi", ephemeralStorageLimit="8Mi")
    full = server.sh(name, "dd if=/dev/zero of=big bs=1M count=20")
    assert (full["exitCode"], full["reason"]) == (1, "disk") and "No space left on device" in full["stderr"]
    assert full["note"] == "failed: disk limit 8M reached; delete files, or cove update --disk 16M (API: ephemeralStorageLimit) gives more"
    server.sh(name, "rm big")
    many = server.exec(name, "python3", "-c", "for n in range(100000): open(f'f{n}', 'w').close()")
    assert (many["exitCode"], many["reason"]) == (1, "disk") and many["note"].startswith("failed: file limit "), many
    server.delete(at(name))


# --- output

def test_output_over_the_limit_is_cut_at_a_character_and_flagged_and_the_command_is_not_blocked(server, sandbox):
    result = server.exec(sandbox, "python3", "-c", "import sys\nfor _ in range(800): sys.stdout.write('ü' * 1021 + 'x')\nsys.stderr.write('done')\nopen('finished', 'w')")
    assert result["exitCode"] == 0 and result["stderr"] == "done"
    assert result["stdoutTruncated"] is True and not result.get("stderrTruncated")
    size = len(result["stdout"].encode())
    assert (1 << 20) - 4 < size <= 1 << 20 and "\ufffd" not in result["stdout"]
    assert server.out(sandbox, "ls") == "finished\n"


def test_both_streams_have_their_own_limit(server, sandbox):
    result = server.exec(sandbox, "python3", "-c", "import sys\nsys.stdout.write('o' * 3000000)\nsys.stderr.write('e' * 3000000)")
    assert (len(result["stdout"]), len(result["stderr"])) == (1 << 20, 1 << 20)
    assert result["stdoutTruncated"] and result["stderrTruncated"]


def test_exactly_the_limit_is_not_truncated(server, sandbox):
    result = server.exec(sandbox, "sh", "-c", "head -c 1048576 /dev/zero | tr '\\0' x")
    assert len(result["stdout"]) == 1 << 20 and "stdoutTruncated" not in result


def test_the_output_limit_can_be_set(fresh_server):
    running = fresh_server("--exec-output-limit", "1000")
    running.create("x")
    result = running.sh("x", "head -c 5000 /dev/zero | tr '\\0' x; echo e >&2")
    assert len(result["stdout"]) == 1000 and result["stdoutTruncated"] and result["stderr"] == "e\n"


@pytest.mark.parametrize("printf, want", [
    (r"\377\376x", "\ufffd\ufffdx"), (r"a\0b", "a\0b"), (r"\303", "\ufffd"), (r"\303\050", "\ufffd("), (r"\355\240\200", None), (r"\360\237\230", None), (r"\001\002\033[31m\177", "\x01\x02\x1b[31m\x7f"), (r"\342\200\250", "\u2028"), (r"\042\134/", '"\\/'), (r"\r\n\t\b\f", "\r\n\t\b\f"), (r"\300\257", None),
])
def test_any_bytes_of_output_become_valid_json_and_utf_8(server, sandbox, printf, want):
    answer = server.post(at(sandbox, "exec"), {"cmd": ["bash", "-c", f"printf '{printf}'; printf '{printf}' >&2"]})
    text = answer.body.decode("utf-8")
    assert not re.search("[\x00-\x1f]", text)
    result = json.loads(text)
    assert result["stdout"] == result["stderr"]
    if want is None:
        assert set(result["stdout"]) == {"\ufffd"}
    else:
        assert result["stdout"] == want


def test_nul_is_escaped_on_the_wire(server, sandbox):
    answer = server.post(at(sandbox, "exec"), {"cmd": ["printf", "a\\0b"]})
    assert b'a\\u0000b' in answer.body and b"\0" not in answer.body


def test_all_bytes_at_once_and_random_ones(server, sandbox):
    result = server.exec(sandbox, "python3", "-c", "import os, sys\nsys.stdout.buffer.write(bytes(range(256)) * 10 + os.urandom(100000))")
    assert result["exitCode"] == 0 and result["stdout"].startswith("".join(map(chr, range(128))))


def test_standard_input_is_empty_and_there_is_no_terminal(server, sandbox):
    assert server.exec(sandbox, "cat")["stdout"] == ""
    assert server.sh(sandbox, "test -t 0 || test -t 1 || test -t 2 || echo no terminal")["stdout"] == "no terminal\n"


# --- long commands

def test_a_client_with_a_3_second_timeout_gets_the_result_of_an_8_second_command(server, sandbox):
    client = NoxClient(f"http://127.0.0.1:{server.port}", timeout=3)
    result = client.exec(sandbox, ["sh", "-c", "sleep 8; echo made it"], timeout_seconds=60)
    assert result["stdout"] == "made it\n" and result["exitCode"] == 0
    assert 7900 < result["durationMs"] < fair(9500)


def test_a_quick_answer_has_a_length_and_a_slow_one_begins_after_a_second_with_blanks(server, sandbox):
    quick = server.raw_request("POST", at(sandbox, "exec"), b'{"cmd": ["true"]}')
    assert quick.headers["Content-Length"] and quick.headers["Transfer-Encoding"] is None
    body = json.dumps({"cmd": ["sh", "-c", "sleep 3.3; exit 7"]})
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(f"POST {at(sandbox, 'exec')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        began, times, received = time.monotonic(), [], b""
        while piece := connection.recv(65536):
            times.append(time.monotonic() - began)
            received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK") and b"transfer-encoding: chunked" in head.lower() and b"application/json" in head
    assert 0.8 < times[0] < 1.5
    assert max(later - sooner for sooner, later in zip(times, times[1:])) < 1.5
    assert rest.startswith(b"1\r\n \r\n1\r\n \r\n") and rest.endswith(b"0\r\n\r\n")
    assert b'"exitCode":7' in rest


def test_a_timeout_after_the_answer_began_is_still_in_its_body(server, sandbox):
    result = server.exec(sandbox, "sleep", "60", timeoutSeconds=2)
    assert result["exitCode"] == 124 and "timed out after 2 seconds" in result["stderr"]


def test_a_client_that_goes_away_cancels_its_exec(server, sandbox):
    marker = new_marker()
    body = json.dumps({"cmd": ["sh", "-c", f"sleep 600; : {marker}"], "timeoutSeconds": 600})
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(f"POST {at(sandbox, 'exec')} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        assert wait_until(lambda: processes_with(marker))
    assert wait_until(lambda: not processes_with(marker), 3)


# --- many at once

def test_execs_of_one_and_of_several_sessions_run_at_the_same_time(server):
    names = [server.create() for _ in range(3)]
    results = []

    def work(name, number):
        # None ends before all eight of its sandbox have begun.
        results.append((number, server.sh(name, f"touch begun{number}; until [ $(ls | wc -l) = 8 ]; do sleep 0.05; done; echo {number}", timeoutSeconds=30)["stdout"].strip()))

    threads = [threading.Thread(target=work, args=(names[number % 3], number)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert sorted(results) == [(number, str(number)) for number in range(24)]
    for name in names:
        server.delete(at(name))


def test_of_long_output_the_beginning_and_the_end_are_kept(server, sandbox):
    result = server.exec(sandbox, "bash", "-c", "seq 1 1000000; echo the error is here; seq 1 1000000 >&2; echo here too >&2")
    for stream, last in (("stdout", "1000000\nthe error is here\n"), ("stderr", "1000000\nhere too\n")):
        text = result[stream]
        assert len(text) == 1 << 20 and text.startswith("1\n2\n3\n") and text.endswith(last) and result[f"{stream}Truncated"]
        left_out = int(re.search(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n", text)[1])
        assert left_out == 6888896 + len(last) - 8 - len(re.sub(r"\n\[\.\.\. \d+ bytes left out \.\.\.\]\n", "", text)), "to the byte"
