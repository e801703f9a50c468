"""`cove serve` beside bubblewrap, tar and (when an engine runs) docker: one run, ratios. Writes docs/server-bench.md and .svg with --write."""
import argparse
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tests" / part) for part in ("", "support")]
import lifeline  # noqa: E402

BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
         "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]


PAUSE = 0.05  # for the pool to fill up again, and for the peer alike


class Unexpected(Exception):
    """Another status than those that were wanted: its third argument."""


class Client:
    """A kept-alive connection; as little Python as can be."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 120)  # a hang is a failure, never a stuck bench
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", 1 << 20)

    def ask(self, method, path, body=b"", want=(200, 201, 204), kind="application/octet-stream"):
        if isinstance(body, dict):
            body, kind = json.dumps(body).encode(), "application/json"
        self.socket.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        status = int(self.file.readline().split()[1])
        length, chunked = 0, False
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            chunked = chunked or name.lower() == b"transfer-encoding"
        if chunked:
            parts = []
            while size := int(self.file.readline(), 16):
                parts.append(self.file.read(size))
                self.file.readline()
            self.file.readline()
            answer = b"".join(parts)
        else:
            answer = self.file.read(length)
        if status not in want:
            raise Unexpected(method, path, status, answer[:300])
        return answer


def times(count, work, pause=0):
    out = []
    for i in range(count):
        time.sleep(pause)
        start = time.perf_counter()
        work(i)
        out.append((time.perf_counter() - start) * 1000)
    return sorted(out)


def p(sample, share):
    return sample[min(len(sample) - 1, int(len(sample) * share))]


def spawn(argv):
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)])
    assert os.waitpid(pid, 0)[1] == 0, argv


def alternately(count, *works, pause=0, rounds=5):
    """So that a busy moment of the machine hits all alike."""
    samples = [[] for _ in works]
    for _ in range(rounds):
        for sample, work in zip(samples, works):
            sample.extend(times(max(1, count // rounds), work, pause))
    return [sorted(sample) for sample in samples]


def daemon(pid):
    """The processes a server consists of: it, its keeper and its front."""
    return [pid, *map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def daemon_kib(pid):
    total = 0
    for one in daemon(pid):
        for line in pathlib.Path(f"/proc/{one}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total


class Server:
    def __init__(self, cove, *flags):
        self.state = tempfile.mkdtemp(prefix="cove-bench-")
        self.process = subprocess.Popen([cove, "serve", "--listen", "127.0.0.1:0", "--state-dir", self.state, "--log-access=false", "--max-sandboxes", "2000",
                                         "--sandbox-max-memory", "8G", "--sandbox-max-disk", "4G", *flags], stderr=subprocess.PIPE)
        self.port = 0
        for line in self.process.stderr:
            if b"serving on" in line:
                self.port = int(line.split(b"http://127.0.0.1:")[1].split()[0])
                break
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def front_kib(self):
        return daemon_kib(self.process.pid)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        shutil.rmtree(self.state, ignore_errors=True)


def docker_image():
    """An image to compare with, made of the host's own files; None without an engine."""
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True).returncode != 0:
        return None
    # The smallest image that runs /bin/true: the program and what it is linked with.
    needed = [word for line in subprocess.run(["ldd", "/bin/true"], capture_output=True, text=True).stdout.splitlines() for word in line.split() if word.startswith("/")]
    packed = subprocess.run(["tar", "-chf", "-", "-C", "/", "bin/true", *(path[1:] for path in needed)], stdout=subprocess.PIPE, check=True).stdout
    made = subprocess.run(["docker", "import", "-", "cove-bench"], input=packed, capture_output=True)
    return "cove-bench" if made.returncode == 0 else None


def life(server, rows, count):
    client = Client(server.port)

    def cove_cycle(_):
        client.ask("PUT", "/v1/sandboxes/cycle", {})
        client.ask("POST", "/v1/sandboxes/cycle/exec", {"cmd": ["/bin/true"]})
        client.ask("DELETE", "/v1/sandboxes/cycle")

    peers = [lambda _: spawn(BWRAP + ["/bin/true"])]
    image = docker_image()
    if image:
        peers.append(lambda _: spawn(["docker", "run", "--rm", image, "/bin/true"]))
    cycle, bwrap, *docker = alternately(count, cove_cycle, *peers)
    rows.append(("create + exec /bin/true + delete, over HTTP", cycle, "bwrap --unshare-all /bin/true", bwrap))
    pooled, bwrap = alternately(count, cove_cycle, peers[0], pause=PAUSE)
    rows.append(("the same with time for the pool to fill up", pooled, "bwrap --unshare-all /bin/true", bwrap))
    if docker:
        rows.append(("create + exec /bin/true + delete, over HTTP", cycle, "docker run --rm", docker[0]))
    client.ask("PUT", "/v1/sandboxes/live", {})
    live, bwrap = alternately(count, lambda _: client.ask("POST", "/v1/sandboxes/live/exec", {"cmd": ["/bin/true"]}), lambda _: spawn(BWRAP + ["/bin/true"]))
    rows.append(("exec /bin/true in a live sandbox", live, "bwrap --unshare-all /bin/true", bwrap))
    python, bwrap = alternately(count // 2, lambda _: client.ask("POST", "/v1/sandboxes/live/exec", {"cmd": ["python3", "-c", "print(1)"]}),
                                lambda _: spawn(BWRAP + ["python3", "-c", "print(1)"]))
    rows.append(("exec python3 print(1) in a live sandbox", python, "bwrap + python3 print(1)", bwrap))


def transfers(server, rows):
    """100 MB that compresses about as source text does, one file, both ways; beside tar piped on the same disk."""
    client = Client(server.port)
    client.ask("PUT", "/v1/sandboxes/big", {"memoryLimit": "2Gi", "ephemeralStorageLimit": "1Gi", "cpuLimit": str(os.cpu_count())})
    with tempfile.TemporaryDirectory(prefix="cove-bench-") as directory:
        block = os.urandom(24 << 10).hex().encode()  # two to one
        (pathlib.Path(directory) / "big").write_bytes((block + b"\n") * (100 * 1000 * 1000 // (len(block) + 1)))
        packed = subprocess.run(["tar", "-C", directory, "-I", "gzip -1", "-cf", "-", "big"], capture_output=True, check=True).stdout

        def tar_in(_):
            subprocess.run(["tar", "-C", directory, "-xzf", "-"], input=packed, check=True)

        def tar_out(_):
            subprocess.run(["tar", "-C", directory, "-I", "gzip -1", "-cf", "-", "big"], stdout=subprocess.PIPE, check=True)

        up, tar_up = alternately(5, lambda _: client.ask("POST", "/v1/sandboxes/big/files/upload", packed), tar_in)
        down, tar_down = alternately(5, lambda _: client.ask("GET", "/v1/sandboxes/big/files/download"), tar_out)
        rows.append(("upload 100 MB as tar.gz", up, "tar -xz from a pipe", tar_up))
        rows.append(("download 100 MB as tar.gz", down, "tar -c | gzip -1 into a pipe", tar_down))


def many(server, most):
    client = Client(server.port)
    before, table, made = server.front_kib(), [], 0
    for count in [n for n in (1, 10, 100, 1000) if n <= most]:
        start = time.perf_counter()
        first = made
        while made < count:
            client.ask("PUT", f"/v1/sandboxes/m{made}", {"memoryLimit": "64Mi", "ephemeralStorageLimit": "16Mi"})
            made += 1
        create = (time.perf_counter() - start) * 1000 / max(1, made - first)
        sample = times(300, lambda i: client.ask("POST", f"/v1/sandboxes/m{i * 7919 % count}/exec", {"cmd": ["/bin/true"]}))
        inside = statistics.mean(json.loads(client.ask("GET", f"/v1/sandboxes/m{i * 7919 % count}"))["usage"]["memoryBytes"] for i in range(min(count, 20)))
        table.append((count, create, p(sample, .5), p(sample, .99), inside / 1024, (server.front_kib() - before) / count))
    for i in range(made):
        client.ask("DELETE", f"/v1/sandboxes/m{i}")
    return table


def plot(table, things="live sandboxes", work="exec /bin/true"):
    """p50 and p99 (the third and fourth of a row) over the number of things (the first), as SVG."""
    width, height, left, bottom = 560, 300, 60, 40
    top = max(row[3] for row in table) * 1.15
    xs = [left + (width - left - 20) * i / max(1, len(table) - 1) for i in range(len(table))]
    y = lambda value: height - bottom - (height - bottom - 20) * value / top
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for step in range(5):
        value = top * step / 4
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.1f}</text>')
    for x, row in zip(xs, table):
        parts.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{row[0]}</text>')
    for column, colour, name in ((2, "#1f6feb", "p50"), (3, "#d1242f", "p99")):
        points = " ".join(f"{x:.1f},{y(row[column]):.1f}" for x, row in zip(xs, table))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{width - 24}" y="{y(table[-1][column]) - 6:.1f}" text-anchor="end" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">{things}</text>')
    parts.append(f'<text x="14" y="{height / 2}" transform="rotate(-90 14 {height / 2})" text-anchor="middle">{work}, ms</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--cove", default="build/cove")
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--most", type=int, default=1000, help="live sandboxes")
    options.add_argument("--write", action="store_true", help="also write docs/server-bench.md and docs/server-bench.svg")
    options = options.parse_args()
    server, rows = Server(options.cove), []
    try:
        life(server, rows, options.count)
        transfers(server, rows)
        table = many(server, options.most)
    finally:
        server.stop()
    lines = ["| Work | Cove p50 | p99 | Peer | p50 | p99 | ratio of p50 |", "|---|---|---|---|---|---|---|"]
    for name, ours, peer, theirs in rows:
        lines.append(f"| {name} | {p(ours, .5):.2f} ms | {p(ours, .99):.2f} ms | {peer} | {p(theirs, .5):.2f} ms | {p(theirs, .99):.2f} ms | {p(ours, .5) / p(theirs, .5):.2f} |")
    lines += ["", "| Live sandboxes | create, mean | exec p50 | exec p99 | memory inside, each | memory of the server, each |", "|---|---|---|---|---|---|"]
    for count, create, half, most, inside, outside in table:
        lines.append(f"| {count} | {create:.2f} ms | {half:.2f} ms | {most:.2f} ms | {inside:.0f} KiB | {outside:.0f} KiB |")
    print("\n".join(lines))
    if options.write:
        docs = pathlib.Path(__file__).parent.parent / "docs"
        (docs / "server-bench.svg").write_text(plot(table))
        head = "# The server beside its peers\n\nWritten by `make bench` (bench/server_bench.py --write). Times of one run on one machine: compare within the table.\n\n"
        (docs / "server-bench.md").write_text(head + "\n".join(lines) + "\n\n![exec over live sandboxes](server-bench.svg)\n")


if __name__ == "__main__":
    lifeline.guard()
    sys.exit(main())
