"""`make soak`, Python's part: a thousand kernels, some of them active (R-10), then runs and cells of every kind (R-11). docs/attacks.md lists the cases."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import signal
import sys
import threading
import time

from python_bench import warmed
from server_bench import Client, Server, Unexpected, daemon, daemon_kib, lifeline, p, spawn, times
from soak_report import Soak

PATIENCE = 30  # seconds until something that was asked for must have happened
FLOOD = "import sys\nfor _ in range(4): _ = sys.stdout.write('x' * 1_000_000)"
SLEEP = "import time\ntime.sleep(60)"
HOARD = "x = b'x' * (600 << 20)"


class Wrong(Exception):
    """Not what it should have been; its text is counted."""


def check(good, title, said):
    if not good:
        raise Wrong(f"{title}: {json.dumps(said)[:300]}")


class Session:
    """A kernel in a sandbox of its own, and what is known of its state."""

    def __init__(self, client, name, **limits):
        self.client, self.place = client, f"/v1/sandboxes/{name}"
        client.ask("PUT", self.place, {"ttlSeconds": 7200, **limits})
        made = json.loads(client.ask("POST", self.place + "/kernels", {}))
        self.path = f"{self.place}/kernels/{made['id']}"
        self.counted = 0

    def execute(self, code, client=None, **fields):
        return json.loads((client or self.client).ask("POST", self.path + "/execute", {"code": code, **fields}))

    def restart(self):
        self.client.ask("POST", self.path + "/restart", {})
        self.counted = 0

    def delete(self, client=None):
        (client or self.client).ask("DELETE", self.place)


# --- every kind, and every reason right

def program(title, code, status, timeout_ms=30_000, timed_out=False, wanted=lambda result: True):
    def work(client, _):
        result = json.loads(client.ask("POST", "/v1/execute", {"code": code, "timeout_ms": timeout_ms}))
        check((result["exit_code"], result["timed_out"]) == (status, timed_out) and wanted(result), f"run, {title}", result)
    work.__name__ = f"run, {title}"
    return work


def program_files(client, session):
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="in"\r\n\r\n' + session.place.encode() + b"\r\n--b--\r\n"
    given = json.loads(client.ask("POST", "/v1/files", body, kind="multipart/form-data; boundary=b"))["file_id"]
    made = json.loads(client.ask("POST", "/v1/execute", {"code": "open('out', 'w').write(open('in').read() * 2)", "timeout_ms": 30_000, "files": [{"path": "in", "file_id": given}]}))
    check(made["exit_code"] == 0 and [file["path"] for file in made["files"]] == ["out"], "run, files", made)
    for file in (made["files"][0]["file_id"], given):
        back = client.ask("GET", f"/v1/files/{file}").decode()
        check(back.replace(session.place, "") == "" and back != "", "run, files", back)
        client.ask("DELETE", f"/v1/files/{file}")


def cell(title, code, status, reason, wanted=lambda result: True, again=False, **fields):
    """`again`: it takes the kernel with it, which is then started anew."""
    def work(_, session):
        result = session.execute(code, **fields)
        if again:
            session.restart()
        check((result["status"], result["reason"]) == (status, reason) and wanted(result), f"cell, {title}", result)
    work.__name__ = f"cell, {title}"
    return work


def cell_ok(_, session):
    """The state is what the cells before have made it, whatever happened in between."""
    result = session.execute("n = globals().get('n', 0) + 1\nprint(n)")
    session.counted += 1
    check(result["status"] == "ok" and result["stdout"] == f"{session.counted}\n", "cell, ok", result)


def cell_interrupt(client, session):
    begun = json.loads(client.ask("POST", session.path + "/execute?detach=true", {"code": "print('on')\n" + SLEEP}, want=(202,)))
    at, deadline = f"{session.path}/executions/{begun['executionId']}", time.monotonic() + PATIENCE
    look = lambda: json.loads(client.ask("GET", at))
    while (said := look())["lastSeq"] < 3 and time.monotonic() < deadline:  # queued, started, and its first word
        time.sleep(0.005)
    client.ask("POST", session.path + "/interrupt", {})
    while (said := look())["state"] != "ended" and time.monotonic() < deadline:
        time.sleep(0.005)
    check(said["state"] == "ended" and said["status"] == "error" and said["error"]["name"] == "KeyboardInterrupt", "cell, interrupt", said)


def cell_files(client, session):
    session.execute("import os\nos.makedirs('d', exist_ok=True)\n_ = open('d/f', 'w').write('y' * 100_000)")
    back = client.ask("GET", session.place + "/files?path=d/f")
    client.ask("DELETE", session.place + "/files?path=d&recursive=true")
    check(back == b"y" * 100_000, "cell, files", len(back))


run_ok = program("ok", "import numpy\nprint(numpy.arange(4).sum())", 0, wanted=lambda result: result["stdout"] == "6\n")
KINDS = [
    run_ok,
    program("error", "1 / 0", 1, wanted=lambda result: result["stderr"].endswith("ZeroDivisionError: division by zero\n")),
    cell_ok,
    program("exit", "raise SystemExit(3)", 3),
    cell("error", "1 / 0", "error", "exited", lambda result: result["error"]["name"] == "ZeroDivisionError"),
    run_ok,
    program("timeout", SLEEP, None, timeout_ms=200, timed_out=True),
    cell_ok,
    cell("timeout", SLEEP, "error", "timeout", timeoutSeconds=0.2),
    cell_ok,
    program("out of memory", HOARD, 137),
    run_ok,
    cell("out of memory", HOARD, "error", "oom", again=True),
    cell_ok,
    program("flood", FLOOD, 0, wanted=lambda result: 900_000 < len(result["stdout"]) < 1_100_000),
    cell("flood", FLOOD, "ok", "exited", lambda result: result["truncated"]["stdoutBytes"] > 2_000_000 and len(result["stdout"]) < 1_100_000),
    cell_interrupt,
    cell_ok,
    program("signal", "import os\nos.kill(os.getpid(), 11)", 139),
    run_ok,
    program_files,
    cell_files,
    cell("death", "import os\nos._exit(3)", "error", "kernel_died", again=True),
    cell_ok,
]


class Watch:
    """The server's memory and the time of good runs while a soak goes on."""

    def __init__(self, pid, count, kernels):
        self.pid, self.count, self.kernels = pid, count, kernels
        self.memory, self.took = [], []  # (execution, KiB), (execution, ms)
        self.control = []  # (execution, ms) of a process that has nothing to do with us: how busy the machine is
        self.groups = dying_groups()

    def look(self, done):
        if done % max(1, self.count // 100) == 0:
            self.memory.append((done, daemon_kib(self.pid)))

    def tenths(self, points):
        """Sorted times of the first tenth and of the last."""
        tenth = self.count // 10
        return [sorted(ms for done, ms in points if begin <= done < begin + tenth) or [1.0] for begin in (0, self.count - tenth)]

    def verdict(self, long):
        """What is wrong. The figures of R-11 need a long run; a short one may not grow by much."""
        warm, end = [kib for done, kib in self.memory if done >= self.count // 5][0], self.memory[-1][1]
        half = [(done, kib) for done, kib in self.memory if done >= self.count // 2]
        rise = slope(half)
        first, last = self.tenths(self.took)
        busier = max(1.0, p(self.tenths(self.control)[1], .5) / p(self.tenths(self.control)[0], .5))
        groups = dying_groups() - self.groups
        print(f"executions: memory {warm} KiB after a fifth, {end} KiB at the end ({end / warm - 1:+.1%}), slope of the last half {rise:.3f} KiB an execution, "
              f"good runs in the first tenth p50 {p(first, .5):.1f} p99 {p(first, .99):.1f} ms, in the last {p(last, .5):.1f} and {p(last, .99):.1f} ms, "
              f"a process of the host's {busier:.2f} times as slow by then, {groups:+d} control groups in the kernel")
        # A short run ends before every kernel holds what it may of its last executions: 4 MiB.
        if end > warm * 1.05 + (0 if long else 8192 + 4096 * self.kernels):
            yield f"memory grew from {warm} to {end} KiB"
        if long and rise > 1:
            yield f"memory grows by {rise:.2f} KiB an execution"
        # A busy neighbour moves the p99 alone, or slows down everything; what we are doing wrong does neither.
        if long and all(p(last, share) > p(first, share) * 1.1 * busier for share in (.5, .99)):
            yield f"good runs became slower: p50 {p(first, .5):.1f} to {p(last, .5):.1f} ms, p99 {p(first, .99):.1f} to {p(last, .99):.1f} ms"
        if groups > 1000:
            yield f"{groups} control groups that are gone are still held by the kernel"


def slope(points):
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def dying_groups():
    """Removed and not yet freed, where the kernel says so (v2); else all there are, which includes them."""
    modern = pathlib.Path("/sys/fs/cgroup/cgroup.stat")
    if modern.exists():
        return int(modern.read_text().split("nr_dying_descendants")[1].split()[0])
    for line in pathlib.Path("/proc/cgroups").read_text().splitlines():
        if line.startswith("memory\t"):
            return int(line.split()[2])
    return 0


def executions(soak, port, pid, count, at_once, long=True):
    """R-11. Each worker has a kernel of its own, so that an interrupt meets the cell it is meant for."""
    local, sessions, watch = threading.local(), [], Watch(pid, count, at_once)

    def work(number):
        try:
            if not hasattr(local, "client"):
                local.client = Client(port)
                local.session = Session(local.client, f"soak{threading.get_ident()}", memoryLimit="256Mi", ephemeralStorageLimit="64Mi")
                local.turn = len(sessions) * 5
                sessions.append(local.session)
            local.turn += 1
            kind = KINDS[local.turn % len(KINDS)]
            begun = time.perf_counter()
            kind(local.client, local.session)
            if kind is run_ok:
                watch.took.append((number, (time.perf_counter() - begun) * 1000))
                watch.control.append((number, times(1, lambda _: spawn(["/bin/true"]))[0]))
        except Wrong as wrong:
            return str(wrong)
        except (Unexpected, OSError, ValueError) as error:
            local.__dict__.clear()  # a connection in the middle of something
            return repr(error)

    def aside(done):
        watch.look(done)
        return f", {daemon_kib(pid)} KiB"

    soak.run("executions", count, work, at_once, aside=aside)
    closing = Client(port)
    for session in sessions:
        session.delete(closing)
    for problem in watch.verdict(long):
        soak.wrong[problem] += 1


# --- a thousand at once

def quantiles(sample):
    return f"p50 {p(sample, .5):.1f} p99 {p(sample, .99):.1f} ms"


def together(soak, port, pid, count, at_once, long=True, active_share=.05, seconds=20.0):
    """R-10. `long`: the figures hold; a short one looks only at what does not depend on the machine's other work."""
    soak.count += count
    local = threading.local()

    def client():
        if not hasattr(local, "client"):
            local.client = Client(port)
        return local.client

    def create(number):
        begun = time.perf_counter()
        session = Session(client(), f"many{number}", memoryLimit="256Mi", ephemeralStorageLimit="64Mi")
        took = (time.perf_counter() - begun) * 1000
        result = session.execute("import numpy\nn = 0", client())
        check(result["status"] == "ok", "first cell", result)
        return took, session

    descriptors = lambda: sum(len(os.listdir(f"/proc/{one}/fd")) for one in daemon(pid))
    before = descriptors()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        made = []
        for future in [pool.submit(create, number) for number in range(count)]:
            try:
                made.append(future.result())
            except (Wrong, Unexpected, OSError, ValueError) as error:
                soak.wrong[f"create: {error!r}"] += 1
    created, sessions = sorted(took for took, _ in made), [session for _, session in made]
    print(f"together: {len(sessions)} of {count} created, {quantiles(created)}", flush=True)
    active = sessions[:max(1, int(len(sessions) * active_share))]
    idle, ran, failures = sessions[len(active):], collections.Counter(), []
    over = threading.Event()

    def busy(session):
        own = Client(port)
        try:
            while not over.wait(0.2):
                ran[session.place] += 1
                result = session.execute("n += 1\nsum(range(10_000))\nprint(n)", own)
                check(result["stdout"] == f"{ran[session.place]}\n", "active", result)
        except (Wrong, Unexpected, OSError, ValueError) as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=busy, args=[session]) for session in active]
    for thread in threads:
        thread.start()
    took, deadline, own, at = [], time.monotonic() + seconds, Client(port), 0
    while time.monotonic() < deadline:
        begun = time.perf_counter()
        result = idle[at * 7919 % len(idle)].execute("print('here')", own)
        took.append((time.perf_counter() - begun) * 1000)
        at += 1
        if result["stdout"] != "here\n":
            failures.append(f"idle: {result}")
        time.sleep(0.005)
    memory, open_files = daemon_kib(pid), (descriptors() - before - len(active) - 1) / max(1, len(sessions))
    over.set()
    for thread in threads:
        thread.join()
    took.sort()
    print(f"together: {sum(ran.values())} cells in {len(active)} active ones, {len(took)} in idle ones {quantiles(took)}; "
          f"server {memory / 1024:.0f} MiB, {open_files:.1f} descriptors each", flush=True)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda session: session.delete(client()), sessions))
    deleted = time.monotonic() - begun
    print(f"together: all deleted in {deleted:.1f} s", flush=True)
    for failure in failures:
        soak.wrong[failure] += 1
    bounds = [("MiB of the server", memory / 1024, 200)]
    if long:
        bounds += [("descriptors of a session", open_files, 10), ("ms p99 of a cell in an idle session", p(took, .99), 50), ("ms p99 of a create", p(created, .99), 250), ("seconds to delete all", deleted, 30)]
    for what, is_, may in bounds:
        if is_ > may:
            soak.wrong[f"{is_:.1f} {what}, at most {may} are allowed"] += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cove", default="build/cove")
    parser.add_argument("--count", type=int, default=10_000, help="executions")
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20, help="for which kernels are active")
    parser.add_argument("--at-most", type=int, default=5400, help="seconds, then it is given up")
    options = parser.parse_args()
    signal.alarm(options.at_most)
    sys.setswitchinterval(0.0005)  # many threads here must not be what is measured
    soak = Soak()
    server = Server(options.cove)
    try:
        warmed(server)
        if options.kernels:
            together(soak, server.port, server.process.pid, options.kernels, 4, seconds=options.seconds)
        if options.count:
            executions(soak, server.port, server.process.pid, options.count, options.at_once, long=options.count >= 10_000)
    finally:
        server.stop()
    return soak.report()


if __name__ == "__main__":
    lifeline.guard()
    sys.exit(main())
