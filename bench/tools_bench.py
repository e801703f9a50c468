#!/usr/bin/env python3
"""Calls of tools from code in sandboxes: 1 000 from 8 kernels at once, and what one call costs beside the same call made by a client that
holds the server's pipes itself. --cove BINARY."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]
import tool_server  # noqa: E402
from kernels import Kernel  # noqa: E402
from server import Server, at  # noqa: E402

KERNELS, CALLS, ALONE = 8, 1000, 400
PROGRAM = pathlib.Path(tool_server.__file__)
CELL = """
import time
from mcptools.srv import functions as f
f.tool_2(1)
times = []
for n in range({calls}):
    began = time.perf_counter()
    f.tool_2(n)
    times.append(time.perf_counter() - began)
print(times)
"""


def direct(calls):
    """Seconds of each call over the server's own pipes."""
    with subprocess.Popen([sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        def ask(number, method, params):
            print(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())["result"]
        ask(0, "initialize", {})
        times = []
        for number in range(1, calls + 1):
            began = time.perf_counter()
            ask(number, "tools/call", {"name": "tool-2", "arguments": {"a": number}})
            times.append(time.perf_counter() - began)
        server.stdin.close()
    return times


def run(kernel, calls):
    return json.loads(kernel.out(CELL.format(calls=calls)))


def microseconds(times):
    return round(statistics.median(times) * 1e6)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cove", default=str(ROOT / "build" / "cove"))
    options = arguments.parse_args()
    with Server("--tools-rate", "100000", binary=options.cove, warm=True) as server:
        server.put(at("bench"), {"cpuLimit": "2"})
        server.request("POST", at("bench", "resources/files/server.py"), PROGRAM.read_bytes())
        made = server.post(at("bench", "tools"), {"name": "srv", "command": "python3", "args": ["server.py"], "place": "inside"}, timeout=60)
        assert made.status == 201, made
        kernels = [Kernel(server, "bench") for _ in range(KERNELS)]
        before, alone, after = direct(ALONE), run(kernels[0], ALONE), direct(ALONE)
        base, ours = microseconds(before + after), microseconds(alone)
        print(f"one call: direct {base} us, from a kernel {ours} us; p50 overhead {ours - base} us ({ours / base:.2f} of direct)")
        found, began = [], time.perf_counter()
        threads = [threading.Thread(target=lambda kernel=kernel: found.extend(run(kernel, CALLS // KERNELS))) for kernel in kernels]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        assert len(found) == CALLS
        print(f"{CALLS} calls from {KERNELS} kernels: {took:.2f} s, {CALLS / took:.0f} a second; p50 {microseconds(found)} us")


if __name__ == "__main__":
    main()
