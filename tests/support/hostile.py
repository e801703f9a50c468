"""What the attacks on a server share: its front seen from the host, tenants with keys, and bytes no client library would send."""
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import time

import pytest

from conftest import COVE, HostState, wait_until
from server import Server, at, parse_answer

SOAK = os.environ.get("COVE_SOAK") == "1"
# Errors a server may answer with when it is asked for too much; anything else of 500 and up is a failure.
PATIENT = {429, 503}


def front(server):
    """Pid of the process that parses every hostile byte."""
    found = [pid for pid, (name, parent) in HostState.all_processes().items() if parent == server.pid and name == "cove-front"]
    return found[0] if found else None


def below(server):
    processes = HostState.all_processes()
    found = {server.pid}
    while more := {pid for pid, (_, parent) in processes.items() if parent in found} - found:
        found |= more
    return {pid: processes[pid][0] for pid in found if pid in processes}


def inits(server):
    """Host pids of the living inits: one for every sandbox there really is."""
    return {pid for pid, name in below(server).items() if name in ("cove-init", "init") and server.alive(pid) and first_of_its_namespace(pid)}


def first_of_its_namespace(pid):
    """Init itself, and not one of those it forked to watch over a command."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return line.split()[-1] == "1" and len(line.split()) > 2
    return False


def memory_kib(pid, field="VmRSS"):
    if os.environ.get("COVE_TEST_SANITIZED"):
        pytest.skip("a sanitized process keeps what was freed: its memory says nothing")
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise AssertionError(f"{pid} has no {field}")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def bounded_memory(server, mib):
    """The front may grow by so much within, at its peak, and no more."""
    pid = front(server)
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak counts from here
    before = memory_kib(pid)
    yield
    assert front(server) == pid, "the front died"
    grown = memory_kib(pid, "VmHWM") - before
    assert grown <= mib << 10, f"the front grew by {grown} KiB"


def metric(server, name, headers=None):
    for line in server.get("/metrics", headers=headers).body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    return 0.0


def idle(server, patience=1.0, headers=None):
    """Whether every place for an execution comes free within a second."""
    return wait_until(lambda: metric(server, "cove_executions_running", headers) == 0, patience)


class Tenant(Server):
    """The same server, as somebody with a key sees it."""

    def __init__(self, server, key):
        self.__dict__.update(server.__dict__)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.key = key

    def request(self, method, path, body=None, headers=None, timeout=60):
        return super().request(method, path, body, {**self.headers, **(headers or {})}, timeout)

    def sse(self, path, method="GET", body=None, headers=None, timeout=30):
        return super().sse(path, method, body, {**self.headers, **(headers or {})}, timeout)

    def websocket(self, path, timeout=30, headers=None):
        return super().websocket(path, timeout, {**self.headers, **(headers or {})})


def make_key(server, tenant, *options):
    """{"id", "key", …} of a new key."""
    done = subprocess.run([COVE, "key", "create", "--tenant", tenant, "--json", "--state-dir", str(server.state_dir), *options],
                          capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def revoke_key(server, key_id):
    subprocess.run([COVE, "key", "revoke", key_id, "--state-dir", str(server.state_dir)], check=True, capture_output=True, timeout=20)


def server_with_tenants(*names, flags=()):
    """A started server that asks for keys, and {name: Tenant}. The caller closes the server."""
    server = Server("--drain", "1s", *flags)
    keys = {name: make_key(server, name) for name in names}
    server.start()
    tenants = {name: Tenant(server, keys[name]["key"]) for name in names}
    for name in names:
        tenants[name].key_id = keys[name]["id"]
    return server, tenants


def head(server, method, target, *lines, host=None):
    """A request's head as bytes, by hand."""
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{server.port}'}", *lines]).encode() + b"\r\n\r\n"


def conversation(server, data, timeout=10, half_close=False):
    """All that comes back for these bytes until the server closes, or falls silent; a reset is an end too."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", server.port), timeout) as connection:
        with contextlib.suppress(ConnectionError, socket.timeout):
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError, socket.timeout):
            while piece := connection.recv(1 << 16):
                received += piece
    return bytes(received)


def statuses(data):
    """The statuses of all answers in these bytes."""
    return [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3}) ", data)]


def refused(server, data, *allowed, **options):
    """One answer with one of these statuses, and then the connection is closed."""
    said = conversation(server, data, **options)
    assert statuses(said) in [[status] for status in allowed], said[:400]
    answer = parse_answer(said)
    assert answer.json["code"] and answer.json["requestId"], answer
    return answer


def alive(server):
    began = time.monotonic()
    assert server.get("/healthz", timeout=5).status == 200
    return time.monotonic() - began


__all__ = ["PATIENT", "SOAK", "Tenant", "alive", "at", "bounded_memory", "conversation", "cpu_seconds", "descriptors", "front", "head", "idle", "make_key",
           "memory_kib", "metric", "refused", "revoke_key", "server_with_tenants", "statuses"]
