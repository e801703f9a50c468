"""What Cove is compared with. Installed by the benches when it is missing, never by scripts/setup: nobody needs it to build, run or test."""
import contextlib
import json
import os
import pathlib
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from server_bench import BWRAP, Client

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tests" / part) for part in ("", "support")]
from server import WebSocket  # noqa: E402

PYTHON = "/usr/bin/python3"
# numpy's BLAS is found through the alternatives.
BWRAP_PYTHON = [*BWRAP, "--ro-bind", "/etc/alternatives", "/etc/alternatives", PYTHON, "-c"]
INSTALL_TIME = 300


def installed(package):
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", package], capture_output=True, text=True)
    return said.stdout == "install ok installed"


def why_missing(*packages):
    """None when all are there, or could be installed; else a sentence for the table."""
    missing = [package for package in packages if not installed(package)]
    if not missing:
        return None
    become_root = [] if os.geteuid() == 0 else ["sudo", "-n"] if shutil.which("sudo") else None
    if become_root is None:
        return f"not installed, and neither root nor sudo to do it: {' '.join(missing)}"
    print(f"installing {' '.join(missing)}", flush=True)
    try:
        done = subprocess.run([*become_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends", *missing],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_TIME)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"could not be installed: {error}"
    return None if done.returncode == 0 else f"could not be installed: {' '.join(missing)}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ForkLoops:
    """A loop for each core: an interpreter with the modules of a zygote forks, and the child ends at once. What it loads, and how, is the runtime's own (runtime/python)."""

    RUNTIME = pathlib.Path(__file__).resolve().parent.parent / "runtime" / "python"
    LOOP = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from cove_runtime import main
main.prepare("IPython numpy pandas matplotlib.pyplot openpyxl PIL.Image".split())
print("ready", flush=True)
for line in sys.stdin:
    until, done = time.perf_counter() + float(line), 0
    while time.perf_counter() < until:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        done += 1
    print(done, flush=True)
"""

    def __init__(self):
        self.loops = [subprocess.Popen([PYTHON, "-I", "-B", "-c", self.LOOP, self.RUNTIME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in os.sched_getaffinity(0)]
        for loop in self.loops:
            assert loop.stdout.readline() == "ready\n"

    def per_second(self, seconds):
        for loop in self.loops:
            loop.stdin.write(f"{seconds}\n")
            loop.stdin.flush()
        return sum(int(loop.stdout.readline()) for loop in self.loops) / seconds

    def stop(self):
        for loop in self.loops:
            loop.stdin.close()
            loop.wait(10)


class HandlerPool:
    """Handlers in bubblewrap: some Pythons started before they are asked for, each called once and replaced, so that no call finds anything of another's."""

    WORKER = ("import json, sys\nasked = json.loads(sys.stdin.readline())\nnames = {}\nexec(compile(asked['code'], 'handler.py', 'exec'), names)\n"
              "print(json.dumps(names['handler'](asked['event'])))")

    def __init__(self, size):
        self.ready, self.wanted = queue.Queue(), queue.Queue()
        for _ in range(size):
            self.wanted.put(True)
        # One thread for all: a worker goes with the thread that started it (--die-with-parent).
        threading.Thread(target=self.keep_filled, daemon=True).start()

    def keep_filled(self):
        while self.wanted.get():
            self.ready.put(subprocess.Popen([*BWRAP_PYTHON, self.WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))

    def call(self, code, event):
        worker = self.ready.get()
        self.wanted.put(True)
        said, _ = worker.communicate(json.dumps({"code": code, "event": event}) + "\n")
        return json.loads(said)

    def stop(self):
        self.wanted.put(False)
        while True:
            try:
                worker = self.ready.get(timeout=1)
            except queue.Empty:
                return
            worker.kill()
            worker.communicate()


class Jupyter:
    """A jupyter-server of its own: no configuration but the defaults, its files in a directory that goes with it."""

    PACKAGES = ("jupyter-server", "python3-ipykernel", "python3-numpy", "python3-pandas")

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="cove-bench-jupyter-")
        self.port = free_port()
        environment = {"HOME": self.home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "JUPYTER_NO_CONFIG": "1"}
        self.process = subprocess.Popen(
            [PYTHON, "/usr/bin/jupyter-server", "--allow-root", "--no-browser", f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0", "--ServerApp.token=",
             "--ServerApp.password=", "--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={self.home}"],
            env=environment, cwd=self.home, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                Client(self.port).ask("GET", "/api")
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("jupyter-server did not start")
            time.sleep(0.1)

    def kernels(self):
        """Pids of its kernels."""
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        shutil.rmtree(self.home, ignore_errors=True)


class QuickSocket:
    """Acknowledges at once what it gets: jupyter-server writes a message in several small pieces, and would wait 40 ms for
    a client that does not. That is no work of its, so it is not counted against it."""

    def __init__(self, inner):
        self.inner = inner
        inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def recv(self, most):
        self.inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return self.inner.recv(most)

    def sendall(self, data):
        self.inner.sendall(data)


class JupyterKernel:
    """One kernel, over one WebSocket that is kept."""

    def __init__(self, jupyter):
        self.port = jupyter.port
        self.id = json.loads(Client(jupyter.port).ask("POST", "/api/kernels", {"name": "python3"}))["id"]
        self.session = uuid.uuid4().hex
        self.line = WebSocket(jupyter.port, f"/api/kernels/{self.id}/channels?session_id={self.session}", 60, {})
        assert self.line.status == 101, self.line.head
        self.line.socket = QuickSocket(self.line.socket)

    def delete(self):
        Client(self.port).ask("DELETE", f"/api/kernels/{self.id}")

    def execute(self, code):
        """Until the reply is there and the kernel says that it is idle: as much as an answer of Cove's tells."""
        number = uuid.uuid4().hex
        self.line.send({"channel": "shell", "parent_header": {}, "metadata": {}, "buffers": [],
                        "header": {"msg_id": number, "session": self.session, "username": "", "msg_type": "execute_request", "version": "5.3", "date": "2026-01-01T00:00:00Z"},
                        "content": {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}})
        replied = idle = False
        while not (replied and idle):
            message = self.line.read()
            assert message is not None, "jupyter-server closed the connection"
            if message["parent_header"].get("msg_id") != number:
                continue
            if message["msg_type"] == "execute_reply":
                assert message["content"]["status"] == "ok", message["content"]
                replied = True
            idle = idle or (message["msg_type"] == "status" and message["content"]["execution_state"] == "idle")
