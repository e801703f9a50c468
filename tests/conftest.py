"""What every test of the built binary shares. COVE names the binary; the default is build/cove."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import uuid

import lifeline
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
COVE = os.environ.get("COVE", str(ROOT / "build" / "cove"))
BUILD = pathlib.Path(os.environ.get("COVE_BUILD_DIR", ROOT / "build"))
# A run that hangs is a failure, not a stuck suite. Not a measure of speed: far above anything a run may take.
PATIENCE = 60


class Recorded(subprocess.Popen):
    """Remembers the pids of all programs that tests start: control groups are named after them."""
    pids = set()

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.pids.add(self.pid)


subprocess.Popen = Recorded


# What may reach cove and its clients of the environment that tests are started in: cove itself is told much by variables, HOST and LOG_LEVEL among them.
PASSED_ON = re.compile(r"COVE|COVE_(BUILD_DIR|SOAK|REQUIRE_KERNEL|TEST_\w+)|CI|HOME|LANG|LC_\w+|LOGNAME|PATH|SHELL|TERM|TMPDIR|TZ|USER|PYTEST_\w+|\w+_OPTIONS|\w+_(proxy|PROXY)|SSL_CERT_\w+|NODE_EXTRA_CA_CERTS")


def pytest_configure():
    """Before anything is started."""
    for name in [name for name in os.environ if not PASSED_ON.fullmatch(name)]:
        del os.environ[name]
    os.umask(0o022)
    lifeline.guard()
    # What `cove run` builds once and keeps, it keeps apart from other coves on this machine.
    os.environ["COVE_STATE_DIR"] = str(lifeline.directory / "cove-test-state")


def pytest_runtest_logreport(report):
    """scripts/test wants to know what failed by the name it can be started with."""
    if report.failed and (path := os.environ.get("COVE_TEST_FAILED")):
        with open(path, "a") as file:
            print(report.nodeid, file=file)


class Run:
    """What came of one `cove run`."""

    def __init__(self, completed, as_json):
        self.status = completed.returncode
        self.stdout = completed.stdout
        self.stderr = completed.stderr
        self.result = json.loads(completed.stdout) if as_json and completed.stdout.startswith(b"{") else None

    @property
    def out(self):
        return self.result["stdout"] if self.result else self.stdout.decode(errors="replace")

    @property
    def err(self):
        return self.result["stderr"] if self.result and "stderr" in self.result else self.stderr.decode(errors="replace")

    @property
    def reason(self):
        return self.result["reason"]


def cove(*arguments, stdin=b"", binary=None, env=None, user=None, cwd=None):
    """`cove ARGUMENTS…` with plain streams. As another user it has a state directory of that user's."""
    own_state = {"COVE_STATE_DIR": ""} if user is not None else {}
    completed = subprocess.run(
        [binary or COVE, *map(str, arguments)], input=stdin, capture_output=True, timeout=PATIENCE,
        env={**os.environ, **own_state, **(env or {})}, user=user, group=user, extra_groups=[] if user is not None else None, cwd=cwd)
    return Run(completed, "--json" in arguments)


def run_json(*arguments, **options):
    """`cove run --json ARGUMENTS…`; the parsed object is in .result."""
    return cove("run", "--json", *arguments, **options)


def python(code, *arguments, **options):
    """Runs Python code in a fresh sandbox."""
    return run_json(*arguments, "-c", code, **options)


def end(process):
    """Asks first: a cove that is killed outright leaves its empty control groups for the next one to sweep."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.terminate()
        process.wait(5)
    process.kill()


@contextlib.contextmanager
def started(*arguments, **options):
    """`cove ARGUMENTS…` as a running process with pipes; ended if the test did not see it out."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([COVE, *map(str, arguments)], **{**streams, **options}) as process:
        try:
            yield process
        finally:
            end(process)


def fair(bound):
    """A bound on a time, as it can be asked of this machine now: as it is while the cores suffice for all that runs, in proportion longer where
    others want them too. What would go wrong must take more than six times as long, or be told in another way."""
    programs_a_core = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return bound * min(max(programs_a_core, 1.0), 6.0) * (3 if os.environ.get("COVE_TEST_SANITIZED") else 1)


def wait_until(happened, patience=10):
    """Looks again and again until happened() is true; what it last said."""
    deadline = time.monotonic() + fair(patience)
    while not (said := happened()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return said


@contextlib.contextmanager
def meanwhile(work):
    """Calls work() again and again beside the block, and no more after it. What work() raises is raised then."""
    over = threading.Event()

    def repeat():
        while not over.is_set():
            work()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        repeated = pool.submit(repeat)
        try:
            yield
        finally:
            over.set()
        repeated.result()


def new_marker():
    """A word to put into a command line, by which the host can find that process and no other."""
    return "marker-" + uuid.uuid4().hex


def processes_with(word):
    """Pids on the host with this word in their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


class HostState:
    """What this run could leave behind on the host. Other coves may come and go on the machine: what is theirs is left out, and nothing else."""

    def __init__(self):
        self.things = self.processes() | self.namespaces() | self.mounts() | self.cgroups() | self.directories()

    @staticmethod
    def all_processes():
        """Pid to (name, parent)."""
        return lifeline.processes()

    @staticmethod
    def ours():
        """This process and all that it has started, whoever is their parent by now."""
        return sorted({os.getpid()} | lifeline.descendants(lifeline.guardian or os.getpid()))

    @staticmethod
    def group_of(pid):
        """Where a process stands in the hierarchy that limits memory; "" when it cannot be seen."""
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
                number, controllers, path = line.split(":", 2)
                if "memory" in controllers.split(",") or (number == "0" and not os.path.isdir("/sys/fs/cgroup/memory")):
                    return path.rstrip("/")
        return ""

    @classmethod
    def processes(cls):
        found = set()
        for pid in cls.ours():
            with contextlib.suppress(OSError):
                entry = pathlib.Path("/proc") / str(pid)
                names = {(entry / "comm").read_text().strip(), os.path.basename((entry / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace"))}
                if names & {"cove", "cove-init", "cove-keeper", "cove-front", "cove-builder"}:
                    found.add(f"process {pid} {sorted(names)}")
        return found

    @classmethod
    def namespaces(cls):
        found = set()
        for pid in cls.ours():
            for kind in ("net", "mnt", "user", "pid"):
                with contextlib.suppress(OSError):
                    found.add("namespace " + os.readlink(f"/proc/{pid}/ns/{kind}"))
        return found

    @staticmethod
    def mounts():
        lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        return {f"mount {line}" for line in lines if "cove" in line and (str(lifeline.directory) in line or "/cove-test-run-" not in line)}

    @classmethod
    def cgroups(cls):
        """Named after the pid of a `cove run`, or after the range of ids of a server. One whose maker was killed is there until the next run sweeps it."""
        living, ours = lifeline.processes(), set(cls.ours())
        found = set()
        for parent, name in lifeline.groups():
            number = name.rpartition("-")[2]
            if name.startswith("cove-keep-"):
                foreign = not lifeline.server_group_is_ours(name)
            elif number.isdigit():
                foreign = int(number) in living and int(number) not in ours
            else:
                foreign = False
            if not foreign:
                found.add(f"cgroup {parent}/{name}")
        # A suite may run in a control group of its own. One name in every hierarchy; that of memory tells whose it is.
        group = cls.group_of("self")
        foreign = {thing.rpartition("/")[2] for thing in found if "/memory/" in thing and f"{group}/" not in thing}
        return {thing for thing in found if thing.rpartition("/")[2] not in foreign}

    @staticmethod
    def directories():
        # cove-test-… are made and removed by tests and benches, cove-configure-… by builds.
        state = pathlib.Path(os.environ.get("COVE_STATE_DIR", "/var/lib/cove"))
        places = [(pathlib.Path("/tmp"), "cove"), (pathlib.Path(tempfile.gettempdir()), "cove"), (pathlib.Path("/dev/shm"), "cove"), (state / "roots", ".building-")]
        return {f"directory {entry}" for place, prefix in places if place.is_dir() for entry in place.iterdir()
                if entry.name.startswith(prefix) and not entry.name.startswith(("cove-test-", "cove-configure-"))}


SETTLE = 5  # seconds for the kernel to take the last namespaces apart


def of_earlier(thing, before):
    """Whether it is a process below one that was there before: a server that goes on may fill its pool meanwhile."""
    known, processes = {int(other.split()[1]) for other in before if other.startswith("process ")}, HostState.all_processes()
    pid = int(thing.split()[1]) if thing.startswith("process ") else None
    while pid in processes and pid not in known:
        pid = processes[pid][1]
    return pid in known


def of_unknown_maker(thing):
    """Whether it is the control group of a cove that has ended and was not started by this run itself."""
    number = thing.rpartition("-")[2]
    return thing.startswith("cgroup ") and number.isdigit() and int(number) not in Recorded.pids


def left_behind(before):
    """What is there now and was not before, and stays: passing things of others are none of ours."""
    leftovers = {thing for thing in HostState().things - before if not of_earlier(thing, before)}
    if any(map(of_unknown_maker, leftovers)):
        cove("run", "--", "true")  # sweeps what somebody's `kill -9` of a cove has left, and nothing that is in use
    deadline = time.monotonic() + SETTLE
    while leftovers and time.monotonic() < deadline:
        time.sleep(0.1)
        leftovers &= HostState().things
    return leftovers


@pytest.fixture(scope="session", autouse=True)
def host_before():
    return HostState().things


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    item.failed = getattr(item, "failed", False) or report.failed


@pytest.fixture(autouse=True)
def nothing_goes_on(request):
    """What a test has started ends with it. What was there before it, of fixtures that others share, stays."""
    from server import Server
    before, servers = lifeline.started(), set(Server.living)
    yield
    for server in set(Server.living) - servers:
        server.close()
    kept = {server.pid for server in Server.living if server.popen}
    left = lifeline.end(lifeline.started() - before - kept)
    assert request.node.failed or not left, f"the test has ended and left running: {left}"


def pytest_collection_modifyitems(items):
    # What is left behind can only be seen when everything else has run.
    items.sort(key=lambda item: item.path.name == "test_zz_leaks.py")


@pytest.fixture
def workdir():
    with tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        yield pathlib.Path(directory)


@contextlib.contextmanager
def leaving_nothing():
    """Nothing that was made within may be there afterwards."""
    before = HostState().things
    yield
    # Namespaces come and go with what else runs on the host; test_zz_leaks.py looks at them once.
    assert {thing for thing in left_behind(before) if thing.split()[0] in ("process", "mount", "cgroup")} == set()


@pytest.fixture(scope="module")
def server(request):
    """A server that the tests of a module share, with the module's SERVER_FLAGS. When it has stopped nothing of it may be left."""
    from server import Server
    with leaving_nothing(), Server("--drain", "2s", *getattr(request.module, "SERVER_FLAGS", ()), warm=True) as running:
        yield running


@pytest.fixture
def fresh_server():
    """fresh_server(*flags) starts a server for this test alone; it and all its sandboxes are gone afterwards."""
    from server import Server
    with leaving_nothing(), contextlib.ExitStack() as stack:
        def start(*flags, **options):
            made = Server(*flags, **options)
            stack.callback(made.close)
            return made.start()
        yield start


@pytest.fixture
def sandbox(server):
    """A new sandbox of the shared server."""
    name = server.create(ttlSeconds=300)
    yield name
    server.delete("/v1/sandboxes/" + name)


@pytest.fixture
def cli(server):
    """cli("exec", …) is `cove exec …` told where the shared server is."""
    def run(*arguments, env=None, **options):
        return cove(*arguments, env={"COVE_URL": f"http://127.0.0.1:{server.port}", **(env or {})}, **options)
    return run
