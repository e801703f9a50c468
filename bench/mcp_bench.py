"""execute_code over MCP beside a bubblewrap, or a docker container where an engine runs, for each call: one run, ratios. Writes docs/mcp-bench.md with --write."""
import argparse
import itertools
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from peers import BWRAP_PYTHON, PYTHON, why_missing
from python_bench import PAUSE, per_second, table, warmed
from server_bench import Client, Server, alternately, lifeline, p, spawn

PRINT = "print(1)"
ENVELOPE = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
numbers = itertools.count(1)


def call(code=PRINT, **more):
    return {"jsonrpc": "2.0", "id": next(numbers), "method": "tools/call", "params": {"name": "execute_code", "arguments": {"language": "python", "code": code}, **more}}


def checked(message):
    assert message["result"]["structuredContent"]["stdout"] == "1\n", message
    return message


class Legacy(Client):
    """One session, whose interpreter stays."""

    def __init__(self, port):
        super().__init__(port)
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}}
        self.session = None
        self.post(body)
        self.run()

    def post(self, body):
        data = json.dumps(body).encode()
        extra = f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
        self.socket.sendall(f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n{extra}{self.more}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        status = int(self.file.readline().split()[1])
        length = 0
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
            if name.lower() == "mcp-session-id":
                self.session = value.strip()
        answer = self.file.read(length)
        assert status == 200, (status, answer[:300])
        return json.loads(answer)

    more = ""

    def run(self):
        return checked(self.post(call()))


class Modern(Legacy):
    """Every call stands alone, and has a sandbox of its own."""
    more = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: execute_code\r\n"

    def __init__(self, port):
        Client.__init__(self, port)
        self.session = None

    def run(self):
        return checked(self.post(call(_meta=ENVELOPE)))


class Pipes:
    """`cove mcp` as a client starts it."""

    def __init__(self, cove, port):
        self.process = subprocess.Popen([cove, "mcp", "--url", f"http://127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}})
        self.run()

    def ask(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def run(self):
        return checked(self.ask(call()))

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


def docker_python():
    """An image with the host's own Python; None without an engine."""
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True).returncode != 0:
        return None
    needed = [word[1:] for line in subprocess.run(["ldd", PYTHON], capture_output=True, text=True).stdout.splitlines() for word in line.split() if word.startswith("/")]
    with tempfile.TemporaryFile() as packed:
        subprocess.run(["tar", "-chf", "-", "--exclude=dist-packages", "-C", "/", PYTHON[1:], "usr/lib/python3.11", *needed], stdout=packed, check=True)
        packed.seek(0)
        made = subprocess.run(["docker", "import", "-", "cove-bench-python"], stdin=packed, capture_output=True)
    return "cove-bench-python" if made.returncode == 0 else None


def peers():
    """Name to what runs print(1) once."""
    found = {}
    missing = why_missing("bubblewrap")
    if not missing:
        found["bwrap + python3"] = lambda _=None: spawn([*BWRAP_PYTHON, PRINT])
    if image := docker_python():
        found["docker run + python3"] = lambda _=None: spawn(["docker", "run", "--rm", "--network", "none", image, PYTHON, "-c", PRINT])
    return found


def lines_of(options):
    compared = peers()
    rows = []
    server = Server(options.cove)
    try:
        warmed(server)
        clients = {"a call in a session, over HTTP": lambda: Legacy(server.port), "a call that stands alone, over HTTP": lambda: Modern(server.port),
                   "a call in a session, over pipes": lambda: Pipes(options.cove, server.port)}
        for title, make in clients.items():
            client = make()
            ours, *theirs = alternately(options.count, lambda _: client.run(), *compared.values(), pause=PAUSE)
            for peer, sample in zip(compared, theirs):
                rows.append([title, f"{p(ours, .5):.2f} ms", f"{p(ours, .99):.2f} ms", peer, f"{p(sample, .5):.2f} ms", f"{p(sample, .99):.2f} ms", f"{p(ours, .5) / p(sample, .5):.3f}", f"{p(ours, .99) / p(sample, .99):.3f}"])
        client.stop()
        many = []
        for title, make in {"calls a second in sessions": Legacy, "calls a second that stand alone": Modern}.items():
            for width in options.widths:
                ours = per_second(width, options.seconds, lambda: make(server.port), lambda client: client.run())
                for peer, work in compared.items():
                    theirs = per_second(width, options.seconds, lambda: None, work)
                    many.append([title, width, f"{ours:.0f}", peer, f"{theirs:.0f}", f"{ours / theirs:.1f}"])
    finally:
        server.stop()
    return [*table(["execute_code print(1)", "Cove p50", "p99", "Peer", "p50", "p99", "ratio of p50", "of p99"], rows), "",
            *table(["Work", "at once", "Cove", "Peer", "its", "times as many"], many)]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--cove", default="build/cove")
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--quick", action="store_true", help="fewer of everything")
    options.add_argument("--write", action="store_true", help="also write docs/mcp-bench.md")
    options = options.parse_args()
    options.widths, options.seconds = [1, 8], 3.0
    if options.quick:
        options.count, options.seconds = 20, 1.0
    signal.alarm(600)  # whatever hangs
    lines = lines_of(options)
    print("\n".join(lines))
    if options.write:
        head = ["# MCP beside a sandbox for each call", "", "Written by `make bench` (bench/mcp_bench.py --write). Times of one run on one machine, Cove and its peers in turns: compare within a line. Docker has a line where an engine runs.", ""]
        (pathlib.Path(__file__).parent.parent / "docs" / "mcp-bench.md").write_text("\n".join([*head, *lines]) + "\n")


if __name__ == "__main__":
    lifeline.guard()
    sys.exit(main())
