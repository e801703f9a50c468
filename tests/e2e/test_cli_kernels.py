"""cove kernel: code in an interpreter that keeps its state."""
import json

import pytest
from conftest import started, wait_until
from server import at
from terminal import terminal


def test_a_kernel_from_its_beginning_to_its_end(cli, sandbox):
    made = cli("kernel", "create", sandbox, "--env", "A=1")
    assert made.status == 0 and made.stdout == b"k1\n"
    assert cli("kernel", "exec", sandbox, "k1", "-c", "import os; x = int(os.environ['A']); print('hi'); x + 1").stdout == b"hi\n2\n"
    failed = cli("kernel", "exec", sandbox, "k1", "-c", "1/0")
    assert failed.status == 1 and b"ZeroDivisionError" in failed.stderr and failed.stdout == b""
    assert cli("kernel", "exec", sandbox, "k1", stdin=b"print(x)").stdout == b"1\n"
    assert cli("kernel", "exec", sandbox, "k1", "--timeout", "300ms", "-c", "while True: pass").status == 124
    told = cli("kernel", "exec", "--json", sandbox, "k1", "-c", "6*7")
    assert told.status == 0 and told.result["outputs"][0]["data"]["text/plain"] == "42"
    assert b"k1" in cli("kernel", "ls", sandbox).stdout and json.loads(cli("kernel", "ls", "--json", sandbox).stdout)["kernels"][0]["id"] == "k1"
    assert b"x" in cli("kernel", "vars", sandbox, "k1").stdout
    assert cli("kernel", "interrupt", sandbox, "k1").status == 0
    assert cli("kernel", "restart", sandbox, "k1").status == 0
    assert cli("kernel", "exec", sandbox, "k1", "-c", "x").status == 1
    assert cli("kernel", "exec", sandbox, "k1", "-c", "import os; os._exit(3)").status == 125
    assert cli("kernel", "rm", sandbox, "k1").status == 0 and cli("kernel", "rm", sandbox, "k1").status == 1
    assert cli("kernel", "exec", sandbox, "k9", "-c", "1").status == 125


def test_output_that_was_cut_is_told_of(cli, sandbox):
    cli("kernel", "create", sandbox)
    run = cli("kernel", "exec", sandbox, "k1", "-c", "print('x' * 1999999)")
    assert (run.status, len(run.stdout)) == (0, 1 << 20)
    assert run.err == f"cove: output truncated: {2_000_000 - (1 << 20)} bytes of stdout and 0 of stderr past the limit were dropped\n"


def test_what_is_shown_and_files_as_code(cli, sandbox, workdir):
    cli("kernel", "create", sandbox)
    cell = workdir / "cell.py"
    cell.write_text("import sys\nprint('é')\ndisplay('shown')\nprint('err', file=sys.stderr)\n'value'")
    run = cli("kernel", "exec", sandbox, "k1", cell)
    assert (run.status, run.out, run.err) == (0, "é\n'shown'\n'value'\n", "err\n")
    assert cli("kernel", "exec", sandbox, "k1", "-c", "1", cell).status == 125
    assert cli("kernel", "exec", sandbox, "k1", workdir / "none").status == 125
    assert b"cove kernel exec" in cli("kernel", "exec", "--help").stdout
    assert cli("kernel").status == 0 and b"exec" in cli("kernel").stdout


def test_ctrl_c_interrupts_the_code_and_keeps_the_kernel(server, cli, sandbox):
    cli("kernel", "create", sandbox)
    cli("kernel", "exec", sandbox, "k1", "-c", "x = 7")
    with started("kernel", "exec", "--url", f"http://127.0.0.1:{server.port}", sandbox, "k1", "-c", "print('go', flush=True)\nwhile True: pass") as process:
        assert process.stdout.readline() == b"go\n"
        process.send_signal(2)
        assert process.wait(10) == 130
    assert wait_until(lambda: server.get(at(sandbox, "kernels/k1")).json["state"] == "idle", 5)
    assert cli("kernel", "exec", sandbox, "k1", "-c", "x").out == "7\n"


PLOT = "import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); plt.show()"


def test_pictures_are_saved_and_nothing_is_overwritten(cli, sandbox, workdir):
    cli("kernel", "create", sandbox)
    for number in (1, 2):
        run = cli("kernel", "exec", sandbox, "k1", "--save", workdir / "plots", "-c", PLOT)
        assert run.status == 0 and f"saved {workdir}/plots/figure-{number}.png" in run.err, run.err
        assert (workdir / "plots" / f"figure-{number}.png").read_bytes().startswith(b"\x89PNG")


def test_help_that_python_would_page_is_printed(cli, sandbox):
    cli("kernel", "create", sandbox)
    assert "number of items in a container" in cli("kernel", "exec", sandbox, "k1", "-c", "?len").out


@pytest.mark.parametrize("option", ["--language", "--lang"])
def test_a_kernel_of_another_language(cli, sandbox, option):
    assert cli("kernel", "create", sandbox, option, "javascript").out == "k1\n"
    assert cli("kernel", "exec", sandbox, "k1", "-c", "[1, 2].map(x => x * 2).join()").out == "'2,4'\n"
    assert cli("kernel", "create", sandbox, "--language", "cobol").status == 1


def test_input_is_answered_on_a_terminal(server, cli, sandbox):
    cli("kernel", "create", sandbox)
    with terminal("kernel", "exec", "--url", f"http://127.0.0.1:{server.port}", sandbox, "k1", "-c", "print('hello', input('who? '))") as screen:
        screen.until(b"who? ")
        screen.type(b"ada\n")
        screen.until(b"hello ada")
        assert screen.wait() == 0


def test_attach_is_a_prompt_on_a_kernel(server, cli, sandbox):
    url = f"http://127.0.0.1:{server.port}"
    with terminal("kernel", "attach", "--url", url, sandbox) as screen:
        screen.until(b">>> ")
        screen.type(b"x = 6*7\n")
        screen.until(b">>> ")
        screen.type(b"for i in range(2):\n")
        screen.until(b"... ")
        screen.type(b"    print('n', i)\n")
        screen.until(b"... ")
        screen.type(b"\n")
        screen.until(b"n 1")
        screen.until(b">>> ")
        screen.type(b"while True: pass\n\n")
        assert wait_until(lambda: server.get(at(sandbox, "kernels/k1")).json["state"] == "busy", 5)
        screen.type(b"\x03")
        screen.until(b"KeyboardInterrupt")
        screen.until(b">>> ")
        screen.type(b"x\n")
        screen.until(b"42")
        screen.until(b">>> ")
        screen.type(b"\x04")
        assert screen.wait() == 0
    assert cli("kernel", "exec", sandbox, "k1", "-c", "x").out == "42\n", "the kernel keeps its state"
    assert cli("kernel", "attach", sandbox, "k1", stdin=b"y = x + 1\nprint(y)\n").out == "43\n"
