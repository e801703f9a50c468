#!/usr/bin/env python3
"""How long a process of runtime/python takes: `/usr/bin/python3 bench/runtime_bench.py`. Of the runtime alone: no jail, no server."""
import pathlib
import statistics
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tests" / part) for part in ("", "support")]
import lifeline  # noqa: E402
import runtimes  # noqa: E402

ROUNDS = 40


def measured(name, work, rounds=ROUNDS):
    times = sorted(work() for _ in range(rounds))
    print(f"{name:48} min {times[0] * 1e3:7.2f}   median {statistics.median(times) * 1e3:7.2f}   p90 {times[int(rounds * 0.9)] * 1e3:7.2f} ms")


def kernel(start, directory, pause=0.0):
    """From the fork, or with a pause from the first message, to the reply to the first cell."""
    began = time.perf_counter()
    process = start()
    if pause:
        time.sleep(pause)
        began = time.perf_counter()
    runtimes.begin_kernel(process, directory)
    assert process.execute("1+1").result == "2"
    took = time.perf_counter() - began
    process.end()
    return took


def program(start, directory, pause=0.0):
    """From the first message to the end of the process."""
    process = start()
    time.sleep(pause)
    began = time.perf_counter()
    assert runtimes.begin_program(process, directory, "print(1)", interactive=True) == 0
    took = time.perf_counter() - began
    process.end()
    return took


def cells(start, directory):
    process = start()
    runtimes.begin_kernel(process, directory)
    for code, count in (("x = 1", 2000), ("x", 2000), ("print(1)", 2000), ("1/0", 200)):
        process.execute(code)
        before = float(process.execute("import time; time.process_time()").result)
        began = time.perf_counter()
        for _ in range(count):
            process.execute(code)
        wall = (time.perf_counter() - began) / count
        used = (float(process.execute("import time; time.process_time()").result) - before) / count
        print(f"cell {code:43} wall {wall * 1e6:5.0f} us, of the kernel's CPU {used * 1e6:5.0f} us")
    process.end()


def main():
    with tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        warm = runtimes.Warm()
        measured("kernel, fork to the first reply", lambda: kernel(warm.start, directory))
        measured("kernel already born, first message to first reply", lambda: kernel(warm.start, directory, 0.03))
        measured("program already born, first message to exit", lambda: program(warm.start, directory, 0.03))
        cells(warm.start, directory)
        warm.close()
        measured("kernel, cold", lambda: kernel(runtimes.cold, directory), 8)
        measured("program, cold", lambda: program(runtimes.cold, directory), 8)


if __name__ == "__main__":
    lifeline.guard()
    main()
