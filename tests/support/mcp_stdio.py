"""`cove mcp` as clients start it: a program that is spoken to in lines."""
import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading

import lifeline
from conftest import COVE, cove

PATIENCE = 60


class Stdio:
    """One `cove mcp` that runs."""

    def __init__(self, *flags, env=None):
        self.popen = subprocess.Popen([COVE, "mcp", *map(str, flags)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.lines = queue.Queue()
        self.next_id = 1
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.popen.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data):
        self.popen.stdin.write(data)
        self.popen.stdin.flush()

    def read(self, patience=PATIENCE):
        """The next message; None at the end."""
        line = self.lines.get(timeout=patience)
        return None if line is None else json.loads(line)

    def ask(self, method, params=None, **more):
        """Sends a request and returns the answer to it, and what came before it."""
        number, self.next_id = self.next_id, self.next_id + 1
        self.send({"jsonrpc": "2.0", "id": number, "method": method, **({} if params is None else {"params": params}), **more})
        before = []
        while (message := self.read()) is not None:
            if message.get("id") == number and "method" not in message:
                return message, before
            before.append(message)
        raise AssertionError(f"it ended before it answered: {self.popen.stderr.read()!r}")

    def call(self, tool, meta=None, **arguments):
        params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
        return self.ask("tools/call", params)[0]["result"]

    def initialize(self, version="2025-11-25", capabilities=None):
        answer, _ = self.ask("initialize", {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def close(self):
        """Its exit status after the end of its input."""
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.close()
        return self.popen.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if self.popen.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self.popen.stdin.close()
            self.popen.terminate()
            self.popen.wait(10)
        self.popen.stdout.close()
        self.popen.stderr.close()


def piped(data, *flags, env=None):
    """`printf DATA | cove mcp`: what it said, as messages, and the finished program."""
    run = cove("mcp", *flags, stdin=data if isinstance(data, bytes) else data.encode(), env=env)
    return [json.loads(line) for line in run.stdout.splitlines()], run


@contextlib.contextmanager
def own_state():
    """A state directory whose background server is ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="cove-test-mcp-") as directory:
        os.chmod(directory, 0o755)
        lifeline.shared.add(directory)  # the server that the first `cove mcp` starts serves the next ones
        try:
            yield directory
        finally:
            cove("mcp", "stop", "--state-dir", directory)
            lifeline.shared.discard(directory)
