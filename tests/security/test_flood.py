"""Programs that only write: nobody else is slower for it, their deadline holds, and what they are told is true."""
import contextlib
import json
import pathlib
import subprocess
import threading
import time

import pytest

from bounded import BoundedGroup
from server import Server, at

pytestmark = pytest.mark.alone  # it measures the machine

WRITERS = 8  # of one command
COMMANDS = 6  # two in each of three sandboxes
SECONDS = 3
FLOOD = f"for i in $(seq {WRITERS}); do yes & done; wait"


class Outsider:
    """A plain process' view of the machine: how late it wakes up from short sleeps, at worst."""

    NAP = 0.02

    def __init__(self):
        self.latest = 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sleep_and_wake)

    def sleep_and_wake(self):
        while not self.over.is_set():
            began = time.monotonic()
            time.sleep(self.NAP)
            self.latest = max(self.latest, time.monotonic() - began - self.NAP)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def same_pipes_without_cove(group):
    """As many writers into as many pipes, read by cat and ended by timeout(1): how late an outsider wakes, and how late they end."""
    pipes = " ".join("{ yes | cat >/dev/null; } &" for _ in range(WRITERS))
    began = time.monotonic()
    with Outsider() as outsider:
        running = [subprocess.Popen(["timeout", "-s", "KILL", str(SECONDS), "sh", "-c", f"{pipes} wait"], preexec_fn=group.join) for _ in range(COMMANDS)]
        for process in running:
            process.wait()
    lateness = time.monotonic() - began - SECONDS
    for pid in group.everybody():  # what timeout(1) did not reach
        with contextlib.suppress(ProcessLookupError):
            subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)
    return outsider.latest, lateness


def kernel_memory_of(group):
    """Bytes of kernel memory of the sandbox that has most."""
    most = 0
    for leaf in group.paths["memory"].rglob("s-*"):
        with contextlib.suppress(OSError):
            if group.v2:
                facts = dict(line.split() for line in (leaf / "memory.stat").read_text().splitlines())
                most = max(most, int(facts["kernel"]))
            else:
                most = max(most, int((leaf / "memory.kmem.usage_in_bytes").read_text()))
    return most


@pytest.mark.parametrize("cpus", [1, 2])
def test_a_flood_of_output_slows_neither_the_host_nor_its_own_deadline(cpus):
    with BoundedGroup() as group:
        plain_wake, plain_end = same_pipes_without_cove(group)
    with BoundedGroup() as group, Server(before=group.join) as server:
        names = [server.create(cpuLimit=cpus) for _ in range(COMMANDS // 2)]
        results, health, kernel_memory = [], [], []

        def flood(name):
            began = time.monotonic()
            result = server.exec(name, "sh", "-c", FLOOD, timeoutSeconds=SECONDS)
            results.append((result, time.monotonic() - began))

        with Outsider() as outsider:
            floods = [threading.Thread(target=flood, args=(name,)) for name in names * 2]
            for thread in floods:
                thread.start()
            while any(thread.is_alive() for thread in floods):
                began = time.monotonic()
                assert server.get("/healthz").status == 200
                health.append(time.monotonic() - began)
                kernel_memory.append(kernel_memory_of(group))
                time.sleep(0.1)
            for thread in floods:
                thread.join()
    # Nobody ran out of memory, and what ended them was the clock.
    assert [result["reason"] for result, _ in results] == ["timeout"] * COMMANDS, results
    assert [result["exitCode"] for result, _ in results] == [124] * COMMANDS
    # No worse than the same pipes read by somebody else: what is measured is a busy machine, so a bound with room.
    assert outsider.latest <= max(3 * plain_wake, 0.3), (outsider.latest, plain_wake)
    latest_end = max(took for _, took in results) - SECONDS
    assert latest_end <= max(3 * plain_end, 1.5), (latest_end, plain_end)
    assert max(health) <= max(3 * plain_wake, 1.0), (max(health), plain_wake)
    # Flat: a socket left behind by every turn would be hundreds of MiB by now.
    assert max(kernel_memory) <= 24 << 20, kernel_memory


def test_output_past_its_limit_is_thrown_away_at_a_bounded_rate_and_still_counted_to_the_byte():
    """256 MiB a second: a flood waits for its pipe instead of taking the processor."""
    with BoundedGroup() as group, Server("--exec-output-limit", "65536", before=group.join) as server:
        name = server.create()
        began = time.monotonic()
        size = 512 << 20
        result = server.exec(name, "sh", "-c", f"head -c {size} /dev/zero", timeoutSeconds=60)
        took = time.monotonic() - began
        assert result["exitCode"] == 0 and result["reason"] == "exited"
        assert result["stdoutTruncated"] is True, result.keys()
        assert took >= 0.9 * size / (256 << 20)


def test_a_kill_for_memory_that_the_sandbox_did_not_cause_is_not_told_as_its_own():
    """The host's shortage: here a group above the sandbox has less memory than the sandbox may use."""
    with BoundedGroup(memory_bytes=400 << 20) as group, Server(before=group.join) as server:
        name = server.create(memoryLimit="1Gi")
        result = server.exec(name, "python3", "-c", "x = bytearray(600 << 20)", timeoutSeconds=60)
        assert result["exitCode"] == 137, result
        assert result["reason"] == "signalled", result
        inside = server.create(memoryLimit="100Mi")
        result = server.exec(inside, "python3", "-c", "x = bytearray(200 << 20)", timeoutSeconds=60)
        assert (result["exitCode"], result["reason"]) == (137, "oom"), result
