"""cove exec, ps, logs: a command in a sandbox behaves as if it ran here."""
import signal
import time

from conftest import PATIENCE, started, wait_until
from server import at


def test_streams_and_status_are_the_commands_own(cli, sandbox):
    run = cli("exec", sandbox, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (run.status, run.out, run.err) == (7, "out\n", "err\n")


def test_options_after_the_command_are_the_commands(cli, sandbox):
    assert cli("exec", sandbox, "echo", "--json", "-i", "--", "x").out == "--json -i -- x\n"
    assert cli("exec", sandbox, "--", "echo", "--json").out == "--json\n"
    assert cli("exec", "--workdir", "/tmp", "-e", "A=b c", sandbox, "sh", "-c", 'echo "$PWD $A"').out == "/tmp b c\n"


def test_bytes_arrive_as_they_are(cli, sandbox):
    run = cli("exec", sandbox, "printf", r"\377\000\n\303\274")
    assert run.stdout == b"\xff\x00\n\xc3\xbc"


def test_large_output_arrives_whole(cli, sandbox):
    run = cli("exec", sandbox, "python3", "-c", "import sys\nfor i in range(300000): print(i)")
    assert run.stdout == b"".join(b"%d\n" % i for i in range(300000))


def test_output_is_shown_while_the_command_runs(server, sandbox):
    with started("exec", sandbox, "sh", "-c", "echo now; sleep 60", env={"COVE_URL": f"http://127.0.0.1:{server.port}"}) as process:
        began = time.monotonic()
        assert process.stdout.readline() == b"now\n"
        assert time.monotonic() - began < 30


def test_what_the_kernel_did_is_told_beside_the_commands_own_status(server, cli):
    name = server.create(memoryLimit="96Mi")
    run = cli("exec", name, "bash", "-c", "python3 -c 'x = bytearray(400 << 20)'; echo still here; exit 3")
    assert (run.status, run.out) == (3, "still here\n")
    assert "cove: a process was killed: memory limit 96M reached" in run.err and "exited with status 3" in run.err
    run = cli("exec", name, "sh", "-c", "kill -SEGV $$")
    assert (run.status, run.err) == (139, "cove: the program was ended by SIGSEGV (Segmentation fault)\n")
    assert cli("exec", name, "sh", "-c", "kill -TERM $$").err == ""
    server.delete(at(name))


def test_a_process_that_was_left_to_itself_keeps_its_sandbox_and_an_expired_one_is_told_as_such(server, cli):
    name = server.create(ttlSeconds=1)
    assert cli("exec", "-d", name, "sleep", "4").status == 0
    time.sleep(2.5)
    assert server.get(at(name)).status == 200, "somebody wants it done"
    assert wait_until(lambda: server.get(at(name)).status == 404, 30)
    run = cli("exec", name, "true")
    assert run.status == 125 and f"sandbox not found: {name}: it expired, 1s after it was last used" in run.err
    other = cli("exec", "never-was", "true")
    assert "sandbox not found: never-was\n" in other.err


def test_exit_statuses_of_a_shell(cli, sandbox):
    run = cli("exec", sandbox, "no-such-program")
    assert run.status == 127 and "Command not found: no-such-program" in run.err
    assert cli("exec", sandbox, "/etc/passwd").status == 126
    assert cli("exec", sandbox, "sh", "-c", "kill -9 $$").status == 137
    run = cli("exec", "--timeout", "1s", sandbox, "sleep", "60")
    assert run.status == 124 and "timed out" in run.err
    run = cli("exec", "no-such-sandbox", "true")
    assert run.status == 125 and "no-such-sandbox" in run.err
    assert cli("exec", sandbox).status == 125


def test_input_is_passed_on_only_when_asked_for(cli, sandbox):
    assert cli("exec", sandbox, "cat", stdin=b"not this").out == ""
    assert cli("exec", "-i", sandbox, "tr", "a-z", "A-Z", stdin=b"hello\n").out == "HELLO\n"
    data = bytes(range(256)) * 8192  # 2 MiB, more than any window
    assert cli("exec", "-i", sandbox, "cat", stdin=data).stdout == data


def test_input_that_nobody_reads_is_no_error(cli, sandbox):
    run = cli("exec", "-i", sandbox, "true", stdin=b"x" * 1_000_000)
    assert (run.status, run.err) == (0, "")
    assert cli("exec", "-i", sandbox, "no-such-program").status == 127


def test_input_as_it_is_typed(server, sandbox):
    with started("exec", "-i", sandbox, "cat", env={"COVE_URL": f"http://127.0.0.1:{server.port}"}) as process:
        for word in (b"one\n", b"two\n"):
            process.stdin.write(word)
            process.stdin.flush()
            assert process.stdout.readline() == word
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def running(server, sandbox):
    return [one for one in server.get(f"/v1/sandboxes/{sandbox}/processes").json["processes"] if one["state"] == "running"]


def test_ctrl_c_cancels(server, sandbox):
    for options in ((), ("-i",)):
        with started("exec", *options, sandbox, "sh", "-c", "echo ready; sleep 300", env={"COVE_URL": f"http://127.0.0.1:{server.port}"}) as process:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
        assert wait_until(lambda: not running(server, sandbox)), "it runs on"
        assert server.out(sandbox, "pgrep -c sleep || true").strip() == "0"


def test_json_is_the_servers_answer(cli, sandbox):
    run = cli("exec", "--json", "-i", sandbox, "sh", "-c", "cat; exit 3", stdin=b"in")
    assert run.status == 3
    assert (run.result["stdout"], run.result["exitCode"], run.result["reason"]) == ("in", 3, "exited")


def test_detached_processes_are_listed_and_followed(cli, sandbox):
    run = cli("exec", "--detach", sandbox, "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done; echo oops >&2; exit 4")
    assert run.status == 0
    pid = run.out.strip()
    followed = cli("logs", "-f", sandbox, pid)
    assert (followed.status, followed.out, followed.err) == (0, "1\n2\n3\n", "oops\n")
    assert cli("logs", sandbox, pid).out == "1\n2\n3\n"
    lines = cli("ps", sandbox).out.splitlines()
    assert lines[0].split() == ["ID", "STATE", "TIME", "EXIT", "TTY", "COMMAND"]
    row = next(line.split() for line in lines if line.startswith(pid + " "))
    assert row[1] == "exited" and row[3] == "4" and row[5] == "sh"
    assert pid in [one["id"] for one in cli("ps", "--json", sandbox).result["processes"]]
    assert cli("logs", sandbox, "p999").status == 1


def test_logs_from_an_event_on(cli, sandbox):
    pid = cli("exec", "-d", sandbox, "sh", "-c", "echo a; sleep 0.3; echo b").out.strip()
    cli("logs", "-f", sandbox, pid)
    events = cli("logs", "--json=true", sandbox, pid).stdout.splitlines()  # one object on a line
    assert b'"type":"started"' in events[0] and b'"type":"end"' in events[-1]
    assert cli("logs", "--from", "3", sandbox, pid).out == "b\n"
