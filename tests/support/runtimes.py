"""Drives processes of runtime/python as init would: pipes on 0, 1, 2 and the channel on 3, warm or cold."""
import contextlib
import fcntl
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import time

import lifeline

HERE = pathlib.Path(__file__).resolve().parents[1]
RUNTIME = HERE.parent / "runtime" / "python"
PYTHON = "/usr/bin/python3"
# A home that no machine has: what somebody installed below theirs is none of a test's.
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
# A hang is a failure, never a stuck suite; far above what anything here takes on a busy machine.
PATIENCE = 20


# Whatever the tests were started with is none of a runtime's.
for number in os.listdir("/proc/self/fd"):
    if int(number) > 2:
        with contextlib.suppress(OSError):
            os.set_inheritable(int(number), False)


class Dead(Exception):
    """The channel was closed by the other side."""


def high(descriptor):
    """The same descriptor, out of the way of 0 to 3."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return copy


class Ends:
    """Both sides of what a process is born with: `theirs` for 0, 1, 2, 3, and ours."""

    def __init__(self):
        read0, write0 = map(high, os.pipe())
        read1, write1 = map(high, os.pipe())
        read2, write2 = map(high, os.pipe())
        ours, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = socket.socket(fileno=high(ours.detach()))
        self.theirs = [read0, write1, write2, high(child.detach())]
        self.ours = [write0, read1, read2]

    def born(self):
        for descriptor in self.theirs:
            os.close(descriptor)


class Process:
    """One process of the runtime. status() is os.waitstatus_to_exitcode's number."""
    living = []  # those that end() was not called for

    def __init__(self, ends, pid, wait):
        Process.living.append(self)
        self.pid, self._wait, self._status = pid, wait, None
        self._pidfd = os.pidfd_open(pid)
        self.channel = ends.channel
        self.stdin, *self._pipes = ends.ours
        self._output = {descriptor: bytearray() for descriptor in self._pipes}
        self._open = set(self._pipes)
        self._pieces = []
        self.messages = []
        self._ids = 0

    # the channel

    def send(self, message):
        data = json.dumps(message).encode()
        step = 65535
        starts = range(0, max(len(data), 1), step)
        for at in starts:
            flags = (1 if at == 0 else 0) | (2 if at == starts[-1] else 0)
            self.channel.send(bytes([flags]) + data[at:at + step])

    def receive(self, patience=PATIENCE):
        """The next message; what comes on the pipes meanwhile is kept."""
        deadline = time.monotonic() + patience
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no message within {patience} s; so far {self.messages[-5:]}; stderr {self.stderr[-2000:]}")
            ready, _, _ = select.select([self.channel, *self._open], [], [], left)
            self._drain(ready)
            if self.channel in ready:
                try:
                    record = self.channel.recv(1 << 17)
                except ConnectionResetError:
                    record = b""
                if not record:
                    raise Dead
                assert len(record) <= 65536 and bool(record[0] & 1) == (not self._pieces)
                self._pieces.append(record[1:])
                if record[0] & 2:
                    message = json.loads(b"".join(self._pieces).decode())
                    self._pieces = []
                    self.messages.append(message)
                    return message

    def _drain(self, ready):
        for descriptor in set(ready) & self._open:
            data = os.read(descriptor, 1 << 16)
            self._output[descriptor] += data
            if not data:
                self._open.discard(descriptor)

    # requests of a kernel

    def ask(self, op, **content):
        self._ids += 1
        self.send({"op": op, "id": self._ids, "content": content})
        return self._ids

    def replies(self, asked, patience=PATIENCE):
        """The messages of one request up to its reply; among them only what threads of earlier ones say."""
        found = []
        while True:
            message = self.receive(patience)
            if message.get("parent") != asked:
                assert message.get("parent") is None or (message["parent"] < asked and message["type"] == "stream"), message
                continue
            found.append(message)
            if message["type"].endswith("_reply") or message["type"] in ("done", "pong"):
                return found

    def call(self, op, **content):
        """The content of the reply."""
        return self.replies(self.ask(op, **content))[-1]["content"]

    def execute(self, code, patience=PATIENCE, **content):
        return Events(self.replies(self.ask("execute", code=code, **content), patience))

    # the process

    @property
    def stdout(self):
        return self._output[self._pipes[0]].decode(errors="replace")

    @property
    def stderr(self):
        return self._output[self._pipes[1]].decode(errors="replace")

    def close_stdin(self):
        if self.stdin is not None:
            os.close(self.stdin)
            self.stdin = None

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def pump(self, until, patience=PATIENCE):
        """Reads the pipes until until() is true."""
        deadline = time.monotonic() + patience
        while not until():
            if time.monotonic() > deadline:
                raise TimeoutError(f"stdout {self.stdout[-500:]} stderr {self.stderr[-500:]}")
            self._drain(select.select([self._pidfd, *self._open], [], [], 0.05)[0])

    def status(self, patience=PATIENCE):
        """Waits for the end."""
        if self._status is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            self.pump(lambda: poll.poll(0), patience)
            self._status = self._wait()
            # What was written before the end is in the pipes; a grandchild may hold them open for ever.
            while self._open and (ready := select.select(list(self._open), [], [], 0)[0]):
                self._drain(ready)
        return self._status

    def end(self):
        if self not in Process.living:
            return
        Process.living.remove(self)
        with contextlib.suppress(OSError):
            self.channel.close()
        self.close_stdin()
        if self._status is None:
            below = lifeline.descendants(self.pid)
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if not poll.poll(500):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                self.status(5)
            for pid in below & set(lifeline.processes()):  # its programs have sessions of their own
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for descriptor in (*self._pipes, self._pidfd):
            os.close(descriptor)


class Events(list):
    """What one execute caused, the reply last."""

    @property
    def reply(self):
        return self[-1]["content"]

    def of(self, kind):
        return [message["content"] for message in self if message["type"] == kind]

    def text(self, name="stdout"):
        return "".join(content["text"] for content in self.of("stream") if content["name"] == name)

    @property
    def result(self):
        """The text of the execute_result; None without one."""
        results = self.of("execute_result")
        return results[0]["data"].get("text/plain") if results else None

    @property
    def shown(self):
        """The bundles that were displayed."""
        return [content["data"] for content in self.of("display_data")]

    @property
    def error(self):
        errors = self.of("error")
        return errors[0]["ename"] if errors else None

    @property
    def kinds(self):
        return [message["type"] for message in self]


def cold():
    """Started by exec."""
    ends = Ends()
    actions = [(os.POSIX_SPAWN_DUP2, descriptor, at) for at, descriptor in enumerate(ends.theirs)]
    pid = os.posix_spawn(PYTHON, [PYTHON, "-I", "-B", str(RUNTIME / "cold.py")], {}, file_actions=actions, setsid=True)
    ends.born()
    return Process(ends, pid, lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


class Warm:
    """A parent with everything loaded, whose children become processes of the runtime."""

    def __init__(self, modules=("numpy", "pandas", "matplotlib.pyplot")):
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(60)
        self._process = subprocess.Popen(
            [PYTHON, "-I", "-B", str(HERE / "runtime" / "stand_in.py"), str(RUNTIME), str(theirs.fileno()), *modules],
            pass_fds=[theirs.fileno()], env={}, stdin=subprocess.DEVNULL)
        theirs.close()
        assert self._line.recv(100) == b"ready"

    def start(self):
        ends = Ends()
        socket.send_fds(self._line, [b"fork"], ends.theirs)
        pid = int(self._line.recv(100))
        process = Process(ends, pid, lambda: self._status_of(pid))
        ends.born()
        return process

    def _status_of(self, pid):
        self._line.send(b"wait %d" % pid)
        return int(self._line.recv(100))

    def close(self):
        self._line.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)


def begin_kernel(process, cwd, env=None, **more):
    process.send({"op": "begin", "mode": "kernel", "env": {**ENV, **(env or {})}, "cwd": str(cwd), **more})
    ready = process.receive()
    assert ready["type"] == "ready", ready
    return ready


def begin_program(process, cwd, code, stdin=b"", env=None, **more):
    """Runs to the end; the status."""
    path = os.path.join(str(cwd), "__main__.py")
    if stdin:
        os.write(process.stdin, stdin)
    process.close_stdin()
    process.send({"op": "begin", "mode": "program", "env": {**ENV, **(env or {})}, "cwd": str(cwd), "code": code, "path": path, **more})
    assert process.receive()["type"] == "started"
    return process.status()
