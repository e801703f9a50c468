"""Many runs at once: each right, each on its own."""
import contextlib
import os
import pathlib
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import COVE, cove, new_marker, processes_with, python, started


def test_twenty_runs_at_once_are_all_right():
    with ThreadPoolExecutor(20) as pool:
        runs = list(pool.map(lambda n: python(f"import os\nopen('mine', 'w').write('{n}')\nprint({n} * {n}, open('mine').read(), len(os.listdir('/workspace')))\nraise SystemExit({n})"), range(20)))
    assert [(run.status, run.out) for run in runs] == [(n, f"{n * n} {n} 2\n") for n in range(20)]


def test_sandboxes_at_the_same_time_have_different_users_on_the_host():
    if os.geteuid() != 0:
        pytest.skip("an ordinary user has one id to give")
    marker = new_marker()
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(started("run", "--", "sh", "-c", "echo up; read end", marker)) for _ in range(4)]
        assert [run.stdout.readline() for run in runs] == [b"up\n"] * 4
        shells = [pid for pid in processes_with(marker) if pathlib.Path(f"/proc/{pid}/comm").read_text() == "sh\n"]
        users = {pathlib.Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0] for pid in shells}
        assert len(shells) == len(users) == 4 and "0" not in users


def test_a_neighbour_that_hits_every_limit_harms_nobody():
    # With eight processes the first bomb stays within the memory, however fast it forks.
    bombs = ["import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
             "b = []\nwhile True: b.append(bytearray(1 << 20))",
             "import os\nf = os.open('f', os.O_CREAT | os.O_WRONLY)\nwhile True:\n    try: os.write(f, bytes(1 << 20))\n    except OSError: os.lseek(f, 0, 0)",
             "while True: print('x' * 10000)"]
    with ThreadPoolExecutor(12) as pool:
        bad = [pool.submit(python, code, "--timeout", "2s", "--memory", "64M", "--pids", "8", "--cpus", "0.3", "--quiet") for code in bombs]
        good = [pool.submit(python, f"print({n})", "--timeout", "50s") for n in range(8)]
        assert [run.result().out for run in good] == [f"{n}\n" for n in range(8)]
        assert [run.result().reason for run in bad] == ["timeout", "oom", "timeout", "timeout"]


def test_different_builds_of_cove_share_a_state_directory(workdir):
    """Each has a root of its own there, and sweeps those of others that nobody holds at that moment."""
    builds = [shutil.copy(COVE, workdir / f"cove{number}") for number in range(3)]
    state = {"COVE_STATE_DIR": str(workdir / "state")}
    with ThreadPoolExecutor(6) as pool:
        runs = list(pool.map(lambda number: cove("run", "--", "echo", "works", binary=builds[number % 3], env=state), range(60)))
    assert {(run.status, run.out, run.err) for run in runs} == {(0, "works\n", "")}
