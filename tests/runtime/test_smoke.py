import runtimes


def test_a_program_runs(start, workdir):
    process = start()
    assert runtimes.begin_program(process, workdir, "print(1)\n2", interactive=True) == 0
    assert (process.stdout, process.stderr) == ("1\n2\n", "")


def test_a_kernel_runs(start, workdir):
    process = start()
    runtimes.begin_kernel(process, workdir)
    assert process.execute("x = 20\nprint('hi')\nx + 1").kinds == ["execute_input", "stream", "execute_result", "execute_reply"]
    assert process.execute("x").result == "20"
