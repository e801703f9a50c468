"""Children, daemons, zombies, threads: everything a program starts works, and ends with the run."""
import pytest
from conftest import cove, new_marker, processes_with, python, run_json, started, wait_until

DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(256):
            try: os.close(fd)
            except OSError: pass
        os.execv('/usr/bin/python3', ['python3', '-c', 'import signal, time\\nfor n in range(1, 32):\\n    try: signal.signal(n, signal.SIG_IGN)\\n    except OSError: pass\\nopen("/workspace/up", "w").close()\\nwhile True: time.sleep(600)', sys.argv[1]])
    os._exit(0)
os.wait()
while not os.path.exists('/workspace/up'): time.sleep(0.01)
print('daemon runs', flush=True)
"""


def test_a_daemon_in_a_session_of_its_own_is_gone_with_the_run(workdir):
    marker = new_marker()
    (workdir / "daemon.py").write_text(DAEMON + "input()\n")
    with started("run", workdir / "daemon.py", marker) as process:
        assert process.stdout.readline() == b"daemon runs\n"
        assert len(processes_with(marker)) >= 2  # cove itself, and what it started: the host sees the daemon while it lives
        process.stdin.close()
        process.wait(30)
    assert processes_with(marker) == []


def test_a_run_does_not_wait_for_a_daemon(workdir):
    (workdir / "daemon.py").write_text(DAEMON)
    run = run_json(workdir / "daemon.py", "word")
    assert (run.status, run.reason, run.out) == (0, "exited", "daemon runs\n")


def test_orphans_are_reaped_by_pid_one():
    run = python("import os, time\n"
                 "if os.fork() == 0:\n"
                 "    for _ in range(30):\n"
                 "        if os.fork() == 0: os._exit(0)\n"
                 "    os._exit(0)\n"
                 "os.wait()\n"
                 "def others(): return [p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]\n"
                 "deadline = time.monotonic() + 10\n"
                 "while others() and time.monotonic() < deadline: time.sleep(0.01)\n"
                 "print(len(others()))")
    assert run.out == "0\n"


def test_zombies_nobody_waits_for_count_against_the_pids_limit_and_are_gone_afterwards():
    run = python("import os\n"
                 "made = 0\n"
                 "try:\n"
                 "    for _ in range(5000):\n"
                 "        if os.fork() == 0: os._exit(0)\n"
                 "        made += 1\n"
                 "except OSError: pass\n"
                 "print(made)\nraise SystemExit(1)", "--pids", "40")
    assert (run.status, run.reason) == (1, "pids")
    assert 20 < int(run.out) < 40


def test_thousands_of_short_processes_in_turn_are_no_problem():
    run = run_json("--", "sh", "-c", "i=0; while [ $i -lt 2000 ]; do /bin/true; i=$((i+1)); done; echo $i")
    assert (run.status, run.reason, run.out) == (0, "exited", "2000\n")


def test_a_storm_of_forks_and_exits_ends_with_the_run():
    marker = new_marker()
    run = run_json("--timeout", "1s", "--", "python3", "-c",
                   "import os\n"
                   "for _ in range(20):\n"
                   "    if os.fork() == 0: break\n"
                   "while True:\n"
                   "    try: pid = os.fork()\n"
                   "    except OSError: continue\n"
                   "    if pid: os._exit(0)\n", marker)
    assert run.reason in ("exited", "pids", "timeout")  # the first process is one of the storm and may end by any of these
    assert processes_with(marker) == []


def test_stopped_processes_are_gone_with_the_run():
    marker = new_marker()
    run = run_json("--", "sh", "-c", f"for i in 1 2 3; do sh -c 'kill -STOP $$; : {marker}' & done; sleep 0.2; echo stopped")
    assert run.out == "stopped\n"
    assert processes_with(marker) == []


@pytest.mark.parametrize("code, output", [
    ("from concurrent.futures import ThreadPoolExecutor as E\nprint(sum(E(8).map(lambda n: n * n, range(100))))", "328350\n"),
    ("import subprocess\nprint(subprocess.run(['tr', 'a-z', 'A-Z'], input='abc', text=True, capture_output=True).stdout)", "ABC\n"),
    ("import multiprocessing as m\nif __name__ == '__main__':\n    with m.Pool(4) as p: print(p.map(abs, [-1, -2, -3]))", "[1, 2, 3]\n"),
    ("import multiprocessing as m\nif __name__ == '__main__':\n    with m.get_context('spawn').Pool(2) as p: print(p.map(abs, [-1, -2]))", "[1, 2]\n"),
    ("import multiprocessing as m\nq = m.Queue(); l = m.Lock(); v = m.Value('i', 5)\nm.Process(target=q.put, args=(v.value,)).start()\nprint(q.get())", "5\n"),
    ("from multiprocessing import shared_memory as s\nb = s.SharedMemory(create=True, size=10)\nb.buf[0] = 7\nother = s.SharedMemory(b.name)\nprint(other.buf[0])\nother.close(); b.close(); b.unlink()", "7\n"),
    ("import sqlite3\nc = sqlite3.connect('a.db')\nc.execute('pragma journal_mode=wal')\nc.execute('create table t(a)')\nc.execute('insert into t values (42)')\nc.commit()\nprint(sqlite3.connect('a.db').execute('select a from t').fetchone()[0])", "42\n"),
    ("import ssl, hashlib\nssl.create_default_context()\nprint(hashlib.sha256(b'').hexdigest()[:8])", "e3b0c442\n"),
    ("import asyncio\n"
     "async def serve(r, w):\n    w.write((await r.readline()).upper()); await w.drain(); w.close()\n"
     "async def main():\n"
     "    s = await asyncio.start_server(serve, '127.0.0.1', 0)\n"
     "    r, w = await asyncio.open_connection('localhost', s.sockets[0].getsockname()[1])\n"
     "    w.write(b'hello\\n')\n    print((await r.readline()).decode(), end='')\n"
     "asyncio.run(main())", "HELLO\n"),
    ("import asyncio\nasync def main():\n    p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n    print((await p.communicate())[0].decode(), end='')\nasyncio.run(main())", "hi\n"),
    ("import socket\na, b = socket.socketpair()\na.send(b'x')\ns = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen()\nc = socket.socket(socket.AF_UNIX); c.connect('/tmp/s')\nprint(b.recv(1))", "b'x'\n"),
    ("import tempfile, os, pwd, socket\nprint(tempfile.gettempdir(), pwd.getpwuid(os.getuid()).pw_name, os.path.expanduser('~'), socket.gethostname())", "/tmp cove /home/cove cove\n"),
    ("import mmap, ctypes, decimal, zlib, lzma, bz2, json, uuid, secrets\nm = mmap.mmap(-1, 4096); m[0] = 65\nprint(chr(m[0]))", "A\n"),
    ("import signal, os\ngot = []\nsignal.signal(signal.SIGALRM, lambda *a: got.append(1))\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.pause()\nprint(got)", "[1]\n"),
    ("import os, pty\nprint('no terminals here') if not os.path.exists('/dev/pts/ptmx') else print('pts')", "no terminals here\n"),
], ids=["threads", "subprocess", "multiprocessing fork", "multiprocessing spawn", "multiprocessing queue", "shared memory", "sqlite", "ssl", "asyncio on localhost",
        "asyncio subprocess", "unix sockets", "who and where", "assorted modules", "timers", "no terminal without --tty"])
def test_ordinary_python_works(code, output):
    run = python(code, "--cpus", "2")
    assert (run.status, run.out, run.err) == (0, output, "")


def test_there_is_no_network_beyond_localhost():
    run = python("import socket\ntry: socket.create_connection(('1.1.1.1', 53), 2)\nexcept OSError as error: print(error.errno)")
    assert run.out in ("101\n", "13\n")  # ENETUNREACH, or Landlock's EACCES before it


def test_the_environment_is_the_sandboxs_own():
    run = cove("run", "--", "env", env={"SECRET_OF_THE_HOST": "x"})
    names = {line.split("=")[0] for line in run.out.splitlines()}
    assert names == {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "SHELL", "PYTHONUNBUFFERED", "SANDBOX_CPUS", "SANDBOX_MEMORY_BYTES", "SANDBOX_PIDS", "OMP_NUM_THREADS",
                     "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PYTHON_CPU_COUNT", "NODE_OPTIONS"}


def test_only_the_three_standard_descriptors_are_open():
    run = python("import os\nprint(sorted(int(f) for f in os.listdir('/proc/self/fd')))")
    assert run.out == "[0, 1, 2, 3]\n"  # 3 is the listing itself


def test_the_program_leads_its_own_session_under_pid_one():
    run = python("import os\nprint(os.getsid(0) == os.getpid(), os.getppid())")
    assert run.out == "True 1\n"


def test_no_core_file_is_ever_written():
    run = run_json("--", "sh", "-c", "ulimit -c unlimited 2>/dev/null; python3 -c 'import os; os.abort()'; ls -A /workspace /tmp")
    assert "core" not in run.out


def test_a_deep_tree_of_processes_is_gone_with_the_run():
    marker = new_marker()
    run = run_json("--timeout", "2s", "--", "python3", "-c", "import os, time\nfor _ in range(40):\n    if os.fork(): break\ntime.sleep(600)", marker)
    assert run.reason == "timeout"
    assert wait_until(lambda: processes_with(marker) == [])
