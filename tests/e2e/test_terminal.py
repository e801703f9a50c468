"""--tty: the program has a terminal of its own, and the caller's is given back as it was."""
import fcntl
import os
import signal
import termios
import time

import pytest
from conftest import cove, new_marker, processes_with
from terminal import terminal as terminal_with


def terminal(*arguments, **options):
    return terminal_with("run", "--tty", *arguments, **options)


def test_all_three_streams_are_a_terminal():
    with terminal("-c", "import os\nprint([os.isatty(n) for n in range(3)])") as term:
        term.read_until(b"[True, True, True]\r\n")
        assert term.wait() == 0


def test_without_tty_none_is_a_terminal_although_the_callers_are():
    run = cove("run", "-c", "import os\nprint([os.isatty(n) for n in range(3)])")
    assert run.out == "[False, False, False]\n"


def test_the_window_size_is_the_callers():
    with terminal("--", "stty", "size", rows=37, columns=111) as term:
        term.read_until(b"37 111\r\n")
        assert term.wait() == 0


def test_a_changed_window_size_reaches_the_program():
    # Blocked and waited for: a handler of Python's would not run if the signal came just before a read that then blocks.
    with terminal("-c", "import os, signal\n"
                        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\nprint('up', flush=True)\n"
                        "signal.sigwait([signal.SIGWINCH])\nprint('now %d %d' % os.get_terminal_size(0), flush=True)\ninput()") as term:
        term.read_until(b"up")
        term.resize(50, 132)
        term.read_until(b"now 132 50")
        term.type(b"\r")
        assert term.wait() == 0


def test_ctrl_c_reaches_the_program_as_sigint():
    with terminal("-c", "import time\ntry:\n"
                        "    print('up', flush=True)\n"
                        "    time.sleep(600)\n"
                        "except KeyboardInterrupt: print('interrupted')\nraise SystemExit(5)") as term:
        term.read_until(b"up")
        term.type(b"\x03")
        term.read_until(b"interrupted")
        assert term.wait() == 5


def test_ctrl_d_is_an_end_of_file():
    with terminal("--", "cat") as term:
        term.type(b"line\r")
        term.read_until(b"line\r\nline\r\n")
        term.type(b"\x04")
        assert term.wait() == 0


def test_ctrl_backslash_and_ctrl_z_are_the_programs_too():
    with terminal("-c", "import signal\n"
                        "keys = [signal.SIGQUIT, signal.SIGTSTP]\nsignal.pthread_sigmask(signal.SIG_BLOCK, keys)\nprint('up', flush=True)\n"
                        "for _ in keys: print({signal.SIGQUIT: 'quit', signal.SIGTSTP: 'stop'}[signal.sigwait(keys)], flush=True)\ninput()") as term:
        term.read_until(b"up")
        term.type(b"\x1c")
        term.read_until(b"quit")
        term.type(b"\x1a")
        term.read_until(b"stop")
        term.type(b"\r")
        assert term.wait() == 0


def test_a_shell_has_job_control():
    with terminal("--", "bash", "--norc", "-i") as term:
        term.type(b"sleep 600 &\rjobs; echo the-'end'\r")
        term.read_until(b"the-end")
        assert b"job control" not in term.seen and b"Running" in term.seen
        term.type(b"exit 6\r")
        assert term.wait() == 6


@pytest.mark.parametrize("arguments", [["--", "true"], ["--", "stty", "raw", "-echo"], ["--timeout", "200ms", "--", "sleep", "600"], ["--", "no-such-command"]],
                         ids=["success", "a program that spoils its own", "timeout", "not found"])
def test_the_callers_terminal_is_as_it_was(arguments):
    with terminal(*arguments) as term:
        term.wait()
        assert termios.tcgetattr(term.slave) == term.before


def test_the_callers_terminal_is_as_it_was_after_a_signal():
    marker = new_marker()
    with terminal("--", "sh", "-c", "echo up; exec sleep 600", marker) as term:
        term.read_until(b"up")
        term.process.send_signal(signal.SIGTERM)
        assert term.wait() == 143
        assert termios.tcgetattr(term.slave) == term.before
    assert processes_with(marker) == []


def test_an_environment_with_a_terminal_names_its_type():
    with terminal("--", "sh", "-c", "echo TERM=$TERM.") as term:
        term.read_until(f"TERM={os.environ.get('TERM', 'xterm')}.".encode())


def test_a_terminal_without_one_of_the_callers_works_on_pipes():
    run = cove("run", "--tty", "-c", "import os\nprint(os.isatty(0), input())", stdin=b"typed\n")
    assert run.status == 0
    assert "True typed" in run.out


def test_a_terminal_and_json_are_refused_together():
    run = cove("run", "--tty", "--json", "--", "true")
    assert run.status == 125
    assert "--tty" in run.err


def test_the_program_cannot_push_keys_into_the_callers_terminal():
    with terminal("-c", "import fcntl, termios\ntry: fcntl.ioctl(0, termios.TIOCSTI, b'x')\nexcept OSError as error: print('refused', error.errno)") as term:
        term.read_until(b"refused 1")
