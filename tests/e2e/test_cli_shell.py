"""cove shell: a real terminal, driven as a person would."""
import contextlib
import os
import signal
import termios
import time

import pytest
from terminal import terminal


@contextlib.contextmanager
def shell(server, *arguments, program=("shell",)):
    with terminal(*program, *arguments, env={"COVE_URL": f"http://127.0.0.1:{server.port}", "TERM": "vt100"}) as opened:
        yield opened
        if opened.process.returncode is not None:
            assert termios.tcgetattr(opened.slave) == opened.before, "the terminal is as it was"


def test_a_shell_with_a_terminal_and_the_callers_size(server, sandbox):
    with shell(server, sandbox) as term:
        term.type(b"tty; stty size; echo $TERM; pwd\n")
        term.until(b"/dev/pts/")
        term.until(b"40 100")
        term.until(b"vt100")
        term.until(b"/workspace")
        term.type(b"exit 3\n")
        assert term.wait() == 3
    assert server.get(f"/v1/sandboxes/{sandbox}/processes").json["processes"] == [], "nothing is left of it"


def test_the_prompt_says_where_one_is(server, sandbox):
    with shell(server, sandbox) as term:
        term.until(f"cove@{sandbox}:/workspace$ ".encode())
        term.type(b"cd /tmp\n")
        term.until(f"cove@{sandbox}:/tmp$ ".encode())
        term.type(b"exit 0\n")
        assert term.wait() == 0


def test_the_window_may_change(server, sandbox):
    with shell(server, sandbox, "sh") as term:
        term.type(b"stty size\n")
        term.until(b"40 100")
        term.resize(33, 77)
        os.kill(term.process.pid, signal.SIGWINCH)
        term.type(b"trap 'stty size' WINCH; sleep 0.3; stty size\n")
        term.until(b"33 77")
        term.type(b"exit\n")
        assert term.wait() == 0


def test_ctrl_c_goes_to_the_program(server, sandbox):
    with shell(server, sandbox) as term:
        term.type(b"echo begun; sleep 300\n")
        term.until(b"begun\r\n")
        time.sleep(0.3)
        term.type(b"\x03")
        term.type(b"echo interrupted=$?\n")
        term.until(b"interrupted=130")
        term.type(b"\x04")  # end of file at the prompt
        assert term.wait() == 0


def test_another_program_and_another_directory(server, sandbox):
    with shell(server, "--workdir", "/tmp", sandbox, "python3", "-c", "import os; print(os.getcwd(), os.isatty(0)); raise SystemExit(5)") as term:
        term.until(b"/tmp True")
        assert term.wait() == 5


def test_exec_with_a_terminal(server, sandbox):
    with shell(server, sandbox, "sh", "-c", "test -t 1 && read line && echo got $line", program=("exec", "-t")) as term:
        term.type(b"typed\n")
        term.until(b"got typed")
        assert term.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_go_it_takes_the_program_along(server, sandbox, number):
    with shell(server, sandbox, "sh", "-c", "echo ready; sleep 300") as term:
        term.until(b"ready")
        term.process.send_signal(number)
        assert term.wait() == 128 + number
    assert server.get(f"/v1/sandboxes/{sandbox}/processes").json["processes"] == []


def test_a_sandbox_that_ends_under_it(server, cli):
    name = server.create()
    with shell(server, name, "sh", "-c", "echo ready; sleep 300") as term:
        term.until(b"ready")
        cli("rm", name)
        assert term.wait() == 137
        assert b"cove: the sandbox ended" in term.seen


def test_much_output_and_a_long_paste(server, sandbox):
    with shell(server, sandbox, "cat") as term:
        line = b"x" * 200 + b"\n"
        for _ in range(50):
            term.type(line)
        for _ in range(50):
            term.until(b"x" * 200 + b"\r\n")
        term.type(b"\x04")
        assert term.wait() == 0
    with shell(server, sandbox, "seq", "200000") as term:
        term.until(b"\r\n200000\r\n")
        assert term.wait() == 0


def test_no_terminal_no_shell(cli, sandbox):
    run = cli("shell", sandbox)
    assert run.status == 125 and "cove exec -i" in run.err


def test_what_cannot_be_opened(server, sandbox):
    with shell(server, "no-such-sandbox") as term:
        term.until(b"no-such-sandbox")
        assert term.wait() == 125
    with shell(server, sandbox, "no-such-program") as term:
        assert term.wait() == 127


def test_a_server_that_dies_under_it(fresh_server):
    server = fresh_server()
    name = server.create()
    with shell(server, name, "sh", "-c", "echo ready; sleep 300") as term:
        term.until(b"ready")
        server.stop()
        assert term.wait() in (125, 137)
        assert b"cove: " in term.seen, "and says why"
