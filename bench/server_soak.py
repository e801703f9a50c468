"""`make soak`, the server's part: mixed executions in living sandboxes, then create and delete; every reason right, nothing left, memory flat."""
import argparse
import json
import socket
import sys
import threading
import time

from server_bench import Client, Server, lifeline
from soak_report import Soak

local = threading.local()

KINDS = [
    ("ok", ["sh", "-c", "echo one; echo two >&2"], 30, "exited", 0),
    ("error", ["sh", "-c", "exit 3"], 30, "exited", 3),
    ("segv", ["sh", "-c", "kill -SEGV $$"], 30, "signalled", 139),
    ("timeout", ["sh", "-c", "(setsid sleep 60 &) ; sleep 60"], 0.2, "timeout", 124),
    ("oom", ["python3", "-c", "x = b'x' * (300 << 20)"], 30, "oom", 137),
    ("flood", ["head", "-c", "4000000", "/dev/zero"], 30, "exited", 0),
    ("missing", ["no-such-program"], 30, "not_started", 127),
    ("files", ["sh", "-c", "mkdir -p a/b && seq 500 > a/b/n && tail -1 a/b/n && rm -r a"], 30, "exited", 0),
]


def client(port):
    if not hasattr(local, "client"):
        local.client = Client(port)
    return local.client


def execution(port, number, sandboxes):
    sandbox = f"soak{number % sandboxes}"
    turn = number // sandboxes % (len(KINDS) + 2)
    if turn == len(KINDS):  # a file there and back
        data = f"{number}".encode() * 1000
        client(port).ask("PUT", f"/v1/sandboxes/{sandbox}/files?path=f{number}", data)
        back = client(port).ask("GET", f"/v1/sandboxes/{sandbox}/files?path=f{number}")
        client(port).ask("DELETE", f"/v1/sandboxes/{sandbox}/files?path=f{number}")
        return None if back == data else f"file: {len(back)} of {len(data)} bytes came back"
    if turn == len(KINDS) + 1:  # a client that leaves
        with socket.create_connection(("127.0.0.1", port)) as gone:
            body = json.dumps({"cmd": ["sleep", "30"]}).encode()
            gone.sendall(f"POST /v1/sandboxes/{sandbox}/exec HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.02)
        return None
    name, command, timeout, reason, status = KINDS[turn]
    result = json.loads(client(port).ask("POST", f"/v1/sandboxes/{sandbox}/exec", {"cmd": command, "timeoutSeconds": timeout}))
    # A neighbour's out-of-memory kill in the same sandbox is told of as well: the sandbox's memory is one.
    good = (result["reason"], result["exitCode"]) == (reason, status) or result["reason"] == "oom"
    return None if good else f"{name}: {result['reason']} {result['exitCode']} instead of {reason} {status}"


def life(port, number):
    name = f"life{number}"
    client(port).ask("PUT", f"/v1/sandboxes/{name}", {"memoryLimit": "64Mi", "ephemeralStorageLimit": "16Mi"})
    result = json.loads(client(port).ask("POST", f"/v1/sandboxes/{name}/exec", {"cmd": ["echo", "here"]})) if number % 4 == 0 else {"stdout": "here\n"}
    client(port).ask("DELETE", f"/v1/sandboxes/{name}")
    return None if result["stdout"] == "here\n" else f"life: {result}"


def phase(soak, server, title, count, work, at_once):
    """The server's memory after a fifth and at the end must be about the same."""
    early = 0

    def memory(done):
        nonlocal early
        if done == max(1, count // 5):
            early = server.front_kib()
        return f", {server.front_kib()} KiB" if done % 1000 == 0 else ""

    soak.run(title, count, work, at_once, every=1000, aside=memory)
    late = server.front_kib()
    print(f"{title}: {early} KiB after a fifth, {late} KiB at the end")
    if late > early * 1.05 + 4096:
        soak.wrong[f"{title}: memory grew from {early} to {late} KiB"] += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cove", default="build/cove")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--sandboxes", type=int, default=16)
    options = parser.parse_args()
    soak = Soak()
    server = Server(options.cove)
    try:
        for i in range(options.sandboxes):
            Client(server.port).ask("PUT", f"/v1/sandboxes/soak{i}", {"memoryLimit": "128Mi", "ephemeralStorageLimit": "32Mi"})
        phase(soak, server, "executions", options.count, lambda n: execution(server.port, n, options.sandboxes), options.at_once)
        phase(soak, server, "lives", options.count, lambda n: life(server.port, n), options.at_once)
    finally:
        server.stop()
    return soak.report()


if __name__ == "__main__":
    lifeline.guard()
    sys.exit(main())
