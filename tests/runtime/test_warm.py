"""The warm parent, and what its children and the cold ones keep apart."""
import json
import os
import subprocess
import time

import pytest
import runtimes
from conftest import BUILD

PARENT = """
import json, os, signal, sys, tempfile
sys.path.insert(0, sys.argv[1])
before = dict(os.environ), signal.getsignal(signal.SIGINT), sys.stdout, sys.modules["__main__"], os.getcwd(), os.umask(0o22)
fds = os.listdir("/proc/self/fd")
from cove_runtime import main
main.prepare(["numpy", "no_such_module", "pandas", "matplotlib.pyplot"])
after = dict(os.environ), signal.getsignal(signal.SIGINT), sys.stdout, sys.modules["__main__"], os.getcwd(), os.umask(0o22)
print(json.dumps({"same": before == after, "threads": len(os.listdir("/proc/self/task")), "fds": len(os.listdir("/proc/self/fd")) - len(fds),
    "left": os.listdir(os.environ["TMPDIR"]), "loaded": "pandas" in sys.modules, "unused": [m for m in ("jedi", "prompt_toolkit") if m in sys.modules]}))
"""


def test_a_prepared_parent_has_one_thread_no_new_descriptor_and_left_no_file(tmp_path):
    done = subprocess.run([runtimes.PYTHON, "-I", "-B", "-c", PARENT, str(runtimes.RUNTIME)], capture_output=True, text=True, timeout=60,
                          env={"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}, cwd=tmp_path)
    assert json.loads(done.stdout) == {"same": True, "threads": 1, "fds": 0, "left": [], "loaded": True, "unused": []}, done.stderr
    assert done.stderr == "cove: no_such_module is not preloaded: No module named 'no_such_module'\n"


def test_children_of_one_parent_use_everything_that_is_loaded_without_a_deadlock(warm, tmp_path):
    code = """
import asyncio, concurrent.futures, hashlib, sqlite3, ssl, subprocess, threading, numpy as np, pandas as pd
a = np.random.rand(200, 200); (a @ a).sum(); np.linalg.svd(a[:50])
with concurrent.futures.ThreadPoolExecutor(4) as pool: list(pool.map(lambda x: (a @ a).sum(), range(8)))
ssl.create_default_context(); sqlite3.connect(':memory:').execute('select 1')
asyncio.run(asyncio.sleep(0)); subprocess.run(['true'], check=True)
pd.DataFrame(a).groupby(0).sum()
print('done')
"""
    processes = [warm.start() for _ in range(6)]
    for process in processes:
        process.close_stdin()
        process.send({"op": "begin", "mode": "program", "env": runtimes.ENV, "cwd": str(tmp_path), "code": code, "path": f"{tmp_path}/{process.pid}.py"})
    for process in processes:
        assert process.status() == 0 and process.stdout == "done\n", process.stderr
        process.end()


PLANTED = ["json", "ast", "linecache", "inspect", "random", "site", "IPython", "traitlets", "_json", "units", "cove_runtime", "encodings", "traceback", "signal", "sitecustomize", "usercustomize"]


@pytest.mark.parametrize("mode", ["kernel", "program"])
def test_modules_planted_in_the_workspace_are_the_users_alone(start, workdir, mode):
    for name in PLANTED:
        (workdir / f"{name}.py").write_text("import os\nos.write(2, b'planted ' + __name__.encode())\nos._exit(66)\n")
    environment = {"HOME": str(workdir), "PYTHONPATH": str(workdir), "PYTHONSTARTUP": str(workdir / "json.py")}
    process = start()
    if mode == "kernel":
        runtimes.begin_kernel(process, workdir, environment)
        assert process.execute("print('alive')\n1 + 1").result == "2"
        assert process.execute("1/0").error == "ZeroDivisionError"
    else:
        assert runtimes.begin_program(process, workdir, "print('alive')\n1/0", env=environment, interactive=True) == 1
        assert process.stdout == "alive\n" and process.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "planted" not in process.stderr


def test_the_warm_parents_environment_is_not_its_childrens(warm, workdir):
    process = warm.start()
    assert runtimes.begin_program(process, workdir, "import os\nprint(open('/proc/self/environ').read().count('='), 'MPLCONFIGDIR' in os.environ)") == 0
    assert process.stdout == "0 False\n"
    process.end()


def test_a_kernel_forked_from_a_kernel_is_not_confused_by_it(warm, tmp_path):
    """A child of the zygote that is itself forked by its cells keeps its own line, and so does the next child."""
    first, second = warm.start(), warm.start()
    for process in (first, second):
        runtimes.begin_kernel(process, tmp_path)
    first.execute("import os\nif os.fork() == 0: os._exit(0)\n_ = os.wait()")
    assert [process.execute("import os; os.getpid()").result for process in (first, second)] == [str(first.pid), str(second.pid)]
    for process in (first, second):
        process.end()


def test_records_and_messages_are_cut_as_agreed(warm, tmp_path):
    """The driver checks every record; here the borders themselves."""
    process = warm.start()
    runtimes.begin_kernel(process, tmp_path)
    for size in (65535 - 60, 65535, 65536, 2 * 65535, 300_000):
        assert len(process.execute(f"'x' * {size}").result) == size + 2
        assert process.execute("y = '" + "é" * size + f"'\nlen(y) == {size}").result == "True"
    assert os.listdir(f"/proc/{process.pid}/task") == [str(process.pid)]
    process.end()


LEAVES = """
import ctypes, os, sys
leave = ctypes.PyDLL(sys.argv[1]).cove_zygote_leave
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, as init is one
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    os.write(writing, b"last words")
    leave(7)
os.close(writing)
first, status = os.waitpid(child, 0)
text = os.read(reading, 100), os.read(reading, 100)
second, end = os.waitpid(-1, 0)
print(first == child, os.waitstatus_to_exitcode(status), *text, second != child, os.waitstatus_to_exitcode(end) in (0, -9))
"""


def test_a_process_that_leaves_is_ended_before_its_memory_is_taken_apart_and_nothing_of_it_stays():
    """Another process shares the memory for that moment: it is not the one whose status counts, holds no pipe open, and ends by itself."""
    library = BUILD / "src/zygote/zygote.so"
    done = subprocess.run([runtimes.PYTHON, "-I", "-c", LEAVES, library], capture_output=True, text=True, timeout=30)
    assert done.stdout.split() == ["True", "7", "b'last", "words'", "b''", "True", "True"], done.stderr


def test_a_child_that_waited_long_runs_a_program_as_new(warm, workdir):
    """It has run pandas by itself meanwhile: nothing of that is seen."""
    process = warm.start()
    process.send({"op": "begin", "mode": "expect", "use": "program", "env": {"GIVEN": "early"}, "cwd": "/"})
    time.sleep(0.5)
    code = "print(sorted(name for name in dir() if not name.startswith('__')))\nimport pandas as pd\nprint(pd.Series([1, 2]).sum(), pd.options.display.max_rows)"
    assert runtimes.begin_program(process, workdir, code) == 0, process.stderr
    assert process.stdout == "[]\n3 60\n"
    process.end()


THREADS = """
import os, sys
sys.path.insert(0, sys.argv[1])
from cove_runtime import birth
told = []
birth._blas = told.append
for value in ("4", "1", "", "0", "-2", "many", "99999"):
    birth.settle({"env": {"OPENBLAS_NUM_THREADS": value}, "cwd": "/"})
birth.settle({"env": {"OMP_NUM_THREADS": "3"}, "cwd": "/"})
birth._blas = None
birth.settle({"env": {"OMP_NUM_THREADS": "3"}, "cwd": "/"})
print(told)
"""


def test_a_child_gives_openblas_the_threads_of_its_sandbox():
    """The parent has loaded it with one."""
    done = subprocess.run([runtimes.PYTHON, "-I", "-B", "-c", THREADS, str(runtimes.RUNTIME)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[4, 3]\n", done.stderr


def faults(process):
    """Pages that a process was given so far, without those read from a disk."""
    with open(f"/proc/{process.pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[7])


def test_a_first_cell_copies_few_of_the_pages_that_a_kernel_shares_with_its_parent(warm, workdir):
    """To look at every module, for one of the user's own, takes a reference to each: 1700 pages, 8 ms."""
    process = warm.start()
    process.send({"op": "begin", "mode": "expect", "use": "kernel", "env": runtimes.ENV, "cwd": str(workdir)})
    time.sleep(0.5)
    before = faults(process)
    runtimes.begin_kernel(process, workdir)
    assert process.execute("print(1)", watch=True).text() == "1\n"
    assert faults(process) - before < 600
    process.end()


def test_a_child_that_waited_to_be_a_kernel_runs_a_program_as_new(warm, workdir):
    process = warm.start()
    process.send({"op": "begin", "mode": "expect", "use": "kernel", "env": runtimes.ENV, "cwd": str(workdir)})
    time.sleep(0.5)
    code = """
import builtins, os, signal, sys
print(sorted(name for name in dir() if not name.startswith('__')), sys.modules['__main__'].__name__, __file__.endswith('.py'))
print(sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__, sys.displayhook is sys.__displayhook__)
print([name for name in ('get_ipython', 'display', '__IPYTHON__') if hasattr(builtins, name)], input.__module__)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, 'MPLCONFIGDIR' in os.environ, os.getcwd())
"""
    assert runtimes.begin_program(process, workdir, code) == 0, process.stderr
    assert process.stdout == f"['builtins', 'os', 'signal', 'sys'] __main__ True\nTrue True True\n[] builtins\nTrue False {workdir}\n"
    process.end()


@pytest.mark.parametrize("use, mode", [("program", "program"), ("kernel", "program"), ("kernel", "kernel")])
def test_one_that_was_told_its_environment_early_has_the_one_it_is_told_last(warm, workdir, use, mode):
    code = "import os, time\nprint(os.environ.get('GIVEN'), os.environ.get('LATE'), os.getcwd(), time.tzname[0])"
    for late in ({"GIVEN": "early", "TZ": "UTC"}, {"LATE": "yes", "TZ": "XYZ-3"}):
        process = warm.start()
        process.send({"op": "begin", "mode": "expect", "use": use, "env": {**runtimes.ENV, "GIVEN": "early", "TZ": "UTC"}, "cwd": "/"})
        time.sleep(0.2)
        if mode == "kernel":
            runtimes.begin_kernel(process, workdir, late)
            said = process.execute(code).text()
        else:
            assert runtimes.begin_program(process, workdir, code, env=late) == 0, process.stderr
            said = process.stdout
        assert said == f"{late.get('GIVEN')} {late.get('LATE')} {workdir} {late['TZ'][:3]}\n"
        process.end()


def test_one_that_waited_for_a_program_is_no_kernel_and_says_so(warm, workdir):
    process = warm.start()
    process.send({"op": "begin", "mode": "expect", "use": "program", "env": runtimes.ENV, "cwd": "/"})
    process.send({"op": "begin", "mode": "kernel", "env": runtimes.ENV, "cwd": str(workdir)})
    assert process.receive()["type"] == "failed"
    process.end()
