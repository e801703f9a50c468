"""Python in `cove serve` beside bubblewrap and jupyter-server: one run, ratios, goals. Writes docs/python-bench.md and .svg with --write."""
import argparse
import contextlib
import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time

from peers import BWRAP_PYTHON, PYTHON, ForkLoops, HandlerPool, Jupyter, JupyterKernel, why_missing
from server_bench import Client, Server, Unexpected, alternately, lifeline, p, plot, spawn, times

PRINT = "print(1)"
NUMPY = "import numpy\nprint(numpy.arange(10).sum())"
DESCRIBE = "import numpy, pandas\nprint(pandas.DataFrame({'a': numpy.arange(10.0)}).describe())"
LOADED = "import numpy, pandas"
PAUSE = 0.05  # for the pool to fill up again, and for the peer alike
NO_KERNELS = "this build has no kernels"
GIB = 1 << 20  # in KiB


@dataclasses.dataclass
class Row:
    """Times in ms, sorted, or runs per second, or MiB. `problem` instead of figures when there are none."""
    work: str
    peer: str
    goal: float | None  # none: it is set for another form of the same work
    ours: list = ()
    theirs: list = ()
    unit: str = "ms"
    most: bool = True  # the goal is the most the ratio may be, not the least
    problem: str = ""

    def cells(self):
        goal = f"{'≤' if self.most else '≥'} {self.goal:g}" if self.goal else "–"
        if self.problem:
            return [self.work, self.problem, "", self.peer, "", "", "", "", goal, "–"]
        ratio = p(self.ours, .5) / p(self.theirs, .5)
        best = (self.ours[0] / self.theirs[0]) if self.most else (self.ours[-1] / self.theirs[-1])
        met = "–" if not self.goal else "yes" if (ratio <= self.goal if self.most else ratio >= self.goal) else "**no**"
        show = lambda sample: [f"{p(sample, .5):.2f} {self.unit}", f"{sample[0] if self.most else sample[-1]:.2f}"]
        return [self.work, *show(self.ours), self.peer, *show(self.theirs), f"{ratio:.3f}", f"{best:.3f}", goal, met]


HEAD = ["Work", "Cove p50", "best", "Peer", "p50", "best", "ratio of p50", "ratio of best", "goal", "met"]


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)]


# --- memory, as the host sees it

def below(pid):
    """Every process below this one, and itself."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{one}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def memory(pid):
    """(PSS, private) in KiB; nothing of one that is gone."""
    pss = private = 0
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "Pss":
                pss = int(value.split()[0])
            if name in ("Private_Clean", "Private_Dirty"):
                private += int(value.split()[0])
    return pss, private


def interpreters(server):
    """Pids of the kernels: the Pythons that have an init for a parent, while no pool keeps others."""
    found = []
    for pid in below(server.process.pid):
        with contextlib.suppress(OSError):
            name, _, rest = pathlib.Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            parent = pathlib.Path(f"/proc/{rest.split()[1]}/comm").read_text().strip()
            if name.startswith("python") and parent in ("init", "cove-init"):
                found.append(pid)
    return found


def available_kib():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1])
    return 0


# --- Cove

def run(client, code, out=None):
    result = json.loads(client.ask("POST", "/v1/execute", {"code": code, "timeout_ms": 30000}))
    assert result["exit_code"] == 0 and (out is None or result["stdout"] == out), result
    return result


def warmed(server, patience=60):
    """Returns when programs are forked from an interpreter that has numpy, and the pool is full."""
    client, deadline, good = Client(server.port), time.monotonic() + patience, 0
    while good < 3:
        if time.monotonic() > deadline:
            raise RuntimeError("the interpreter did not become warm")
        warm = run(client, "import sys; print('numpy' in sys.modules)")["stdout"] == "True\n"
        good = good + 1 if warm else 0
        time.sleep(0.05)
    time.sleep(0.5)
    return server


def has_kernels(server):
    client = Client(server.port)
    client.ask("PUT", "/v1/sandboxes/probe", {})
    try:
        client.ask("POST", "/v1/sandboxes/probe/kernels", {})
        return True
    except Unexpected:
        return False
    finally:
        client.ask("DELETE", "/v1/sandboxes/probe")


class Kernel:
    def __init__(self, client, name, **limits):
        self.client, self.name = client, name
        client.ask("PUT", f"/v1/sandboxes/{name}", limits)
        made = json.loads(client.ask("POST", f"/v1/sandboxes/{name}/kernels", {}))
        self.path = f"/v1/sandboxes/{name}/kernels/{made['id']}/execute"

    def execute(self, code, client=None):
        result = json.loads((client or self.client).ask("POST", self.path, {"code": code}))
        assert result["status"] == "ok", result
        return result

    def delete(self, client=None):
        (client or self.client).ask("DELETE", f"/v1/sandboxes/{self.name}")


# --- what is measured

def fresh(options, rows):
    """Programs in sandboxes of their own."""
    with contextlib.ExitStack() as stack:
        warm = Server(options.cove)
        stack.callback(warm.stop)
        cold = Server(options.cove, "--pool-size=0")
        stack.callback(cold.stop)
        ready, empty = Client(warmed(warm).port), Client(warmed(cold).port)
        ours, none, theirs = alternately(options.count, lambda _: run(ready, PRINT, "1\n"), lambda _: run(empty, PRINT, "1\n"),
                                         lambda _: spawn([*BWRAP_PYTHON, PRINT]), pause=PAUSE, rounds=options.rounds)
        rows.append(Row("fresh print(1), pool warm", "bwrap + python3", .08, ours, theirs))
        rows.append(Row("fresh print(1), pool empty", "bwrap + python3", .6, none, theirs))
        ours, none, theirs = alternately(options.count // 2, lambda _: run(ready, DESCRIBE), lambda _: run(empty, DESCRIBE),
                                         lambda _: spawn([*BWRAP_PYTHON, DESCRIBE]), pause=PAUSE, rounds=options.rounds)
        rows.append(Row("fresh numpy + pandas describe, pool warm", "bwrap + python3", .02, ours, theirs))
        rows.append(Row("the same, pool empty", "bwrap + python3", None, none, theirs))
        cold.stop()
        stack.pop_all()
        stack.callback(warm.stop)
        for clients, code, name in [*((n, NUMPY, "numpy") for n in options.clients), (8, DESCRIBE, "numpy + pandas describe")]:
            works = [lambda made, code=code: run(made, code), lambda _, code=code: spawn([*BWRAP_PYTHON, code])]
            makers = [lambda: Client(warm.port), lambda: None]
            rates = [[], []]
            for _ in range(options.slices):
                for rate, make, work in zip(rates, makers, works):
                    rate.append(per_second(clients, options.seconds, make, work))
            rows.append(Row(f"fresh runs a second, {name}, {clients} clients", "bwrap + python3", None, *map(sorted, rates), unit="/s", most=False))
        # What no sandbox could be faster than: the same interpreter with the same modules forks, and the child ends at once.
        loops = ForkLoops()
        stack.callback(loops.stop)
        rates = [[], []]
        for _ in range(options.slices):
            rates[0].append(per_second(8, options.seconds, lambda: Client(warm.port), lambda made: run(made, NUMPY)))
            rates[1].append(loops.per_second(options.seconds))
        rows.append(Row("fresh runs a second, numpy, 8 clients", "fork and exit of the same interpreter", .5, *map(sorted, rates), unit="/s", most=False))


HANDLER = "def handler(event):\n    return {'n': event['n'] + 1}"
NUMPY_HANDLER = "import numpy\ndef handler(event):\n    return {'n': int(numpy.arange(event['n'] + 2).max())}"


def handlers(options, rows):
    """Handlers that are called once, in sandboxes of their own, both sides with as many standing ready."""
    size = 4
    server, pool = Server(options.cove, f"--workspace-handler-pool={size}"), HandlerPool(size)
    try:
        warmed(server)

        def call(client, code):
            said = json.loads(client.ask("POST", "/workspace/se/v2/execute_code", {"handler_code": code, "event": {"n": 1}}))
            assert said["result"] == {"n": 2}, said

        def theirs(code):
            assert pool.call(code, {"n": 1}) == {"n": 2}

        client = Client(server.port)
        for name, code in (("", HANDLER), (" with numpy", NUMPY_HANDLER)):
            mine, peer = alternately(options.count, lambda _, code=code: call(client, code), lambda _, code=code: theirs(code), pause=PAUSE, rounds=options.rounds)
            rows.append(Row(f"handler{name}, pool warm", "bwrap + python3, pooled", 1, mine, peer))
            rates = [[], []]
            for _ in range(options.slices):
                rates[0].append(per_second(8, options.seconds, lambda: Client(server.port), lambda made, code=code: call(made, code)))
                rates[1].append(per_second(8, options.seconds, lambda: None, lambda _, code=code: theirs(code)))
            rows.append(Row(f"handlers{name} a second, 8 clients", "bwrap + python3, pooled", 1, *map(sorted, rates), unit="/s", most=False))
    finally:
        pool.stop()
        server.stop()


def per_second(clients, seconds, make, work):
    """Runs per second of so many threads, each doing one after the other."""
    done, failed = [0] * clients, []
    made = [make() for _ in range(clients)]
    begun = time.perf_counter()

    def loop(number):
        try:
            while time.perf_counter() - begun < seconds:
                work(made[number])
                done[number] += 1
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=loop, args=[number]) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return sum(done) / (time.perf_counter() - begun)


def ipykernel_memory():
    """[PSS] of one with numpy and pandas, in MiB. Measured while no Cove runs, whose interpreters map the same libraries."""
    jupyter = Jupyter()
    try:
        JupyterKernel(jupyter).execute(LOADED)
        time.sleep(0.5)
        return [memory(pid)[0] / 1024 for pid in jupyter.kernels()]
    finally:
        jupyter.stop()


def live(options, rows, levels):
    missing = why_missing(*Jupyter.PACKAGES)
    cell = "cell x += 1 in a live kernel"
    heavy = [] if missing else ipykernel_memory()
    server = Server(options.cove, *options.kernel_flags)
    try:
        warmed(server)
        kernels = has_kernels(server)
        problem = "" if kernels else NO_KERNELS
        if missing or problem:
            rows.append(Row(cell, "jupyter-server + ipykernel", .08, problem=problem or f"peer {missing}"))
        else:
            rows.append(live_cell(options, server, cell, lambda: Kernel(Client(server.port), "live")))
            rows.append(live_cell(options, server, "the same over Jupyter's WebSocket", lambda: JupyterKernel(server)))
            rows.append(socket_lines(options, server))
        if kernels:
            rows.append(printed(options, server))
        if not kernels:
            rows.append(Row("PSS of an idle kernel", "ipykernel", .1, problem=problem))
            return
        levels += many(options, server)
        for level in levels:
            work = f"PSS of an idle kernel with numpy and pandas, one of {level.count}"
            rows.append(Row(work, "ipykernel", .1, level.each_pss, heavy, unit="MiB", problem=f"peer {missing}" if missing else ""))
    finally:
        server.stop()


PRINTED = 1_000_000
LINES = f"for i in range({PRINTED}): print(i)"


def printed(options, server):
    """As many lines from a cell as from a plain program whose output somebody reads."""
    ours = Kernel(Client(server.port), "printed")
    plain = lambda _: subprocess.run([PYTHON, "-I", "-c", LINES], stdout=subprocess.PIPE, check=True)
    mine, theirs = alternately(options.slices * 2, lambda _: ours.execute(LINES), plain, rounds=options.slices * 2)
    ours.delete()
    return Row(f"a cell that prints {PRINTED:,} lines".replace(",", " "), "python3, its output read from a pipe", 2, mine, theirs)


def socket_lines(options, server):
    """The lines of printed() over Jupyter's WebSocket, all of them."""
    ours = JupyterKernel(server)
    plain = lambda _: subprocess.run([PYTHON, "-I", "-c", LINES], stdout=subprocess.PIPE, check=True)
    mine, theirs = alternately(options.slices * 2, lambda _: ours.execute(LINES), plain, rounds=options.slices * 2)
    ours.delete()
    return Row("the printed lines over Jupyter's WebSocket, none left out", "python3, its output read from a pipe", 2, mine, theirs)


def live_cell(options, server, title, kernel):
    jupyter = Jupyter()
    try:
        theirs, ours = JupyterKernel(jupyter), kernel()
        for kernel in (theirs, ours):
            kernel.execute("x = 0")
        mine, peer = alternately(options.count * 2, lambda _: ours.execute("x += 1"), lambda _: theirs.execute("x += 1"), rounds=options.rounds)
        ours.delete()
        return Row(title, "jupyter-server + ipykernel", .08, mine, peer)
    finally:
        jupyter.stop()


@dataclasses.dataclass
class Level:
    count: int
    create: list
    first: list
    later: list
    server_kib: int
    total_pss_kib: int
    each_pss: list
    private_kib: float
    taken_kib: int


def many(options, server):
    """So many idle kernels: each in a sandbox of its own, each has run one cell."""
    client, kernels, levels = Client(server.port), [], []
    before = available_kib()
    for count in [n for n in (10, 100, 1000) if n <= options.most]:
        first_new = len(kernels)

        def create(_):
            kernels.append(Kernel(client, f"k{len(kernels)}"))

        created = times(count - first_new, create)
        first = times(count - first_new, lambda i: kernels[first_new + i].execute(LOADED))
        later = times(options.cells, lambda i: kernels[i * 7919 % count].execute("x = 1"))
        pids = interpreters(server)
        each = sorted(memory(pid) for pid in pids)
        total = sum(memory(pid)[0] for pid in below(server.process.pid))
        levels.append(Level(count, created, first, later, server.front_kib(), total, [pss / 1024 for pss, _ in each],
                            sum(private for _, private in each) / max(1, len(each)), before - available_kib()))
    started = time.perf_counter()
    for kernel in kernels:
        kernel.delete()
    print(f"{len(kernels)} deleted in {time.perf_counter() - started:.1f} s", flush=True)
    return levels


def level_lines(levels):
    head = ["Idle kernels", "create p50", "p99", "first cell p50", "p99", "later cell p50", "p99", "private, each", "PSS of all", "RSS of the server", "less MemAvailable"]
    rows = [[level.count, *(f"{p(sample, share):.2f} ms" for sample in (level.create, level.first, level.later) for share in (.5, .99)),
             f"{level.private_kib / 1024:.2f} MiB", f"{level.total_pss_kib / 1024:.0f} MiB", f"{level.server_kib / 1024:.0f} MiB", f"{level.taken_kib / 1024:.0f} MiB"] for level in levels]
    lines = table(head, rows)
    most, least = levels[-1], levels[0]
    lines += ["", f"Goal: 1 000 held in 6 GiB: {most.count} take {most.total_pss_kib / GIB:.2f} GiB (PSS of everything below the server), "
              f"{most.taken_kib / GIB:.2f} GiB less are available on the host."]
    if len(levels) > 1:
        lines.append(f"Goal: p99 flat: with {most.count} it is {p(most.later, .99) / p(least.later, .99):.2f} times that with {least.count}.")
    return lines


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--cove", default="build/cove")
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--most", type=int, default=1000, help="idle kernels")
    options.add_argument("--quick", action="store_true", help="about a minute: fewer of everything")
    options.add_argument("--only", choices=["fresh", "handlers", "live"], help="a part of it")
    options.add_argument("--write", action="store_true", help="also write docs/python-bench.md and docs/python-bench.svg")
    options = options.parse_args()
    options.clients, options.rounds, options.slices, options.seconds, options.cells = [1, 4, 8, 32], 10, 3, 3.0, 500
    options.kernel_flags = ["--pool-size=0"]
    if options.quick:
        options.clients, options.rounds, options.slices, options.seconds, options.cells = [1, 8], 5, 1, 1.5, 200
        options.count, options.most = min(options.count, 20), min(options.most, 100)
    signal.alarm(1200)  # whatever hangs
    rows, levels = [], []
    missing = why_missing("bubblewrap", "python3-numpy", "python3-pandas")
    for part, title, measure in (("fresh", "fresh runs", fresh), ("handlers", "handlers", handlers)):
        if options.only not in (None, part):
            continue
        if missing:
            rows.append(Row(title, "bwrap + python3", .15, problem=f"peer {missing}"))
        else:
            measure(options, rows)
    if options.only in (None, "live"):
        live(options, rows, levels)
    lines = table(HEAD, [row.cells() for row in rows])
    if levels:
        lines += ["", *level_lines(levels)]
    print("\n".join(lines))
    if options.write:
        write(lines, levels)


def write(lines, levels):
    docs = pathlib.Path(__file__).parent.parent / "docs"
    head = ["# Python beside its peers", "", "Written by `make bench` (bench/python_bench.py --write). Times of one run on one machine, Cove and its peers in turns: compare within a line.",
            "Everything of Cove's goes over HTTP on a kept connection; bubblewrap is started directly, its output thrown away. \"best\" is the least time, or the most runs.", ""]
    tail = []
    if levels:
        (docs / "python-bench.svg").write_text(plot([(level.count, 0, p(level.later, .5), p(level.later, .99)) for level in levels], "idle kernels", "a cell in one of them"))
        tail = ["", "![a cell over idle kernels](python-bench.svg)"]
    (docs / "python-bench.md").write_text("\n".join([*head, *lines, *tail]) + "\n")


if __name__ == "__main__":
    lifeline.guard()
    sys.exit(main())
