"""A control group of the test's own, with bounds: whatever goes wrong inside, the machine goes on."""
import contextlib
import os
import pathlib
import time
import uuid

import pytest


def hierarchies():
    """The directories of the hierarchies that limit memory, processes and processor: the same one three times on v2."""
    v1 = {name: pathlib.Path("/sys/fs/cgroup", name) for name in ("memory", "pids", "cpu")}
    if all(path.is_dir() for path in v1.values()):
        return v1
    unified = pathlib.Path("/sys/fs/cgroup")
    if not (unified / "cgroup.controllers").exists():
        return None
    return {name: unified for name in v1}


class BoundedGroup:
    """`with BoundedGroup() as group:`; `group.join` goes into preexec_fn of what is to run in it."""

    def __init__(self, memory_bytes=4 << 30, pids=2000, cpus=1.5):
        self.tops = hierarchies()
        if self.tops is None or os.geteuid() != 0:
            pytest.skip("needs root and control groups that limit memory, processes and processor")
        self.name = "bounded-" + uuid.uuid4().hex[:12]
        self.limits = {"memory_bytes": memory_bytes, "pids": pids, "cpus": cpus}
        self.paths = {name: top / self.name for name, top in self.tops.items()}

    @property
    def v2(self):
        return self.tops["memory"] == self.tops["cpu"]

    def __enter__(self):
        for path in set(self.paths.values()):
            path.mkdir()
        period = 100_000
        quota = int(self.limits["cpus"] * period)
        if self.v2:
            path = self.paths["memory"]
            (path / "memory.max").write_text(str(self.limits["memory_bytes"]))
            (path / "pids.max").write_text(str(self.limits["pids"]))
            (path / "cpu.max").write_text(f"{quota} {period}")
        else:
            (self.paths["memory"] / "memory.limit_in_bytes").write_text(str(self.limits["memory_bytes"]))
            (self.paths["pids"] / "pids.max").write_text(str(self.limits["pids"]))
            (self.paths["cpu"] / "cpu.cfs_quota_us").write_text(str(quota))
        return self

    def join(self):
        for path in set(self.paths.values()):
            (path / "cgroup.procs").write_text("0")

    def everybody(self):
        """Every process in it and in the groups below."""
        pids = set()
        for procs in self.paths["memory"].rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                pids |= {int(line) for line in procs.read_text().split()}
        return pids

    def __exit__(self, *_):
        deadline = time.monotonic() + 20
        while (left := self.everybody()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            time.sleep(0.02)
        for path in set(self.paths.values()):
            for directory in sorted((each for each in path.rglob("*") if each.is_dir()), key=lambda each: -len(each.parts)):
                with contextlib.suppress(OSError):
                    directory.rmdir()
            while path.is_dir() and time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    path.rmdir()
                time.sleep(0.02)
            assert not path.exists(), f"{path} still has {self.everybody()}"
