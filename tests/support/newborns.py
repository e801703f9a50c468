"""Interpreters that are born from a server's zygote, and the zygote itself as the host sees it."""
import contextlib
import json
import os
import pathlib
import tempfile

from conftest import ROOT, HostState, wait_until
from hostile import Tenant, make_key
from interpreter import ask, keep
from arena import compiled
from server import Server, at

PROBES = ROOT / "tests" / "probes"
WARM = 30  # seconds in which a zygote loads its modules on a busy machine
# With COVE_TEST_LIGHT=1 the tests of zygotes are of light ones, which give birth to the programs that need no other.
LIGHT = os.environ.get("COVE_TEST_LIGHT") == "1"
ONE_WEIGHT = f"--python-light={'true' if LIGHT else 'false'}"


def zygotes(server, light=LIGHT):
    """Host pids of the living zygotes, the one that warms up among them, oldest first. Light ones, or those with everything."""
    keeper, found = server.keeper(), []
    for pid, (_, parent) in HostState.all_processes().items():
        with contextlib.suppress(OSError):
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if parent == keeper and server.alive(pid) and b"/cove/python/zygote.py" in command and (b"--light" in command) == light:
                found.append(pid)
    return sorted(found, key=started)


def started(pid):
    """In ticks since the host's boot; 0 of one that is gone."""
    with contextlib.suppress(OSError):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 0


def serves(pid):
    """Whether it has loaded its modules and waits for births: it blocks every signal from then on."""
    with contextlib.suppress(OSError):
        blocked = next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigBlk:"))
        return int(blocked.split()[1], 16) & 0xFFFF == 0xFEFF  # all but SIGKILL
    return False


def warm(server, other_than=()):
    """The zygote that serves, when there is one; not one of those."""
    def look():
        if LIGHT and not zygotes(server):
            Program(server, BORN)  # the first that wants one has it started
        before = [pid for pid in zygotes(server) if serves(pid) and pid not in other_than]
        # Its first word may not have been heard yet.
        return before[-1:] if before and Program(server, BORN).out == "True\n" and serves(before[-1]) else []

    found = wait_until(look, WARM)
    assert found, server.log[-2000:]
    return found[0]


# Whether it was born: nothing but the zygote has this command line.
BORN = "print(b'zygote.py' in open('/proc/self/cmdline', 'rb').read())"


class Program:
    """A program run to its end in a sandbox of its own, and the facts it told."""

    def __init__(self, server, code, files=(), **fields):
        fields.setdefault("timeout_ms", 30000)
        fields["files"] = [{"path": path, "file_id": keep(server, content, path)} for path, content in files]
        self.answer = ask(server, code, **fields)
        assert self.answer.status == 200, self.answer
        self.result = self.answer.json
        self.facts = {}
        for line in self.out.splitlines():
            if line.startswith('{"fact":'):
                fact = json.loads(line)
                self.facts[fact.pop("fact")] = fact

    @property
    def out(self):
        return self.result["stdout"]

    @property
    def err(self):
        return self.result["stderr"]

    @property
    def status(self):
        return self.result["exit_code"]

    def __getitem__(self, name):
        assert name in self.facts, f"the program did not tell '{name}': {self.result}"
        return self.facts[name]

    def value(self, name):
        fact = self[name]
        assert fact.get("errno") is None, f"{name}: {fact}"
        return fact["value"]

    def errno(self, name):
        return self[name]["errno"]


def probe(server, name, *arguments, **fields):
    """Runs tests/probes/NAME.py as a program."""
    code = f"import sys\nsys.argv[1:] = {[str(word) for word in arguments]!r}\n" + (PROBES / f"{name}.py").read_text()
    return Program(server, code, [("probelib.py", (PROBES / "probelib.py").read_text())], **fields)


def named(word):
    """Host pids of processes of this name (comm, at most 15 bytes)."""
    return [pid for pid, (name, _) in HostState.all_processes().items() if name == word[:15]]


def status_of(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def groups_of(pid):
    """{controllers: path} of the control groups of a process."""
    return {line.split(":", 2)[1]: line.split(":", 2)[2] for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()}


def kill(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@contextlib.contextmanager
def served_by_one_zygote(*tenants, flags=()):
    """{tenant: Tenant} of a server whose interpreters are all born from one zygote, when they are asked for and not before."""
    server = Server("--drain", "1s", "--pool-size=0", "--python-zygotes=everyone", "--python-zygote-births", "1000000", ONE_WEIGHT, *flags, warm=True)
    try:
        keys = {tenant: make_key(server, tenant) for tenant in tenants}
        server.start()
        found = {tenant: Tenant(server, keys[tenant]["key"]) for tenant in tenants}
        warm(next(iter(found.values())))
        yield found
    finally:
        server.close()


class Racer:
    """tests/probes/birth_race.c at work in a sandbox."""

    def __init__(self, server, sandbox, how, seconds):
        self.server, self.sandbox = server, sandbox
        with tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
            program = compiled((PROBES / "birth_race.c").read_text(), directory, "-static").read_bytes()
        assert server.put(at(sandbox, "files?path=race&mode=0755"), program).status == 200
        self.process = server.start_process(sandbox, "/workspace/race", how, str(int(seconds * 1000)))["id"]
        assert wait_until(lambda: "ready" in server.output(sandbox, self.process), 10)

    def told(self):
        """{what: {errno: how often}}, when its time is over."""
        self.server.ended(self.sandbox, self.process, 30)
        found = {}
        for line in self.server.output(self.sandbox, self.process).splitlines()[1:]:
            what, errno, many = line.rsplit(" ", 2)
            found.setdefault(what, {})[int(errno)] = int(many)
        return found
