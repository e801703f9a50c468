"""What the attack tests share: probes sent into a sandbox, canaries planted on the host, neighbours that live side by side.

Every probe's output is searched for the canaries' content: wherever it turns up, something has leaked."""
import atexit
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading

import lifeline
from conftest import BUILD, COVE, PATIENCE, ROOT, Run, cove

PROBES = ROOT / "tests" / "probes"
TESTLOCKS = BUILD / "tests" / "cove-testlocks"
SECRET = "canary-" + secrets.token_hex(16)
# The environment of every cove process of these tests: a sandbox must not see it.
os.environ["COVE_CANARY"] = SECRET


class Canaries:
    """Things on the host that no sandbox may read, change or reach."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="canary-"))
        self.directory.chmod(0o755)
        self.root_only = self._plant(self.directory / "root-only", 0o600)
        self.world = self._plant(self.directory / "world", 0o644)
        self.state = self.directory / "state"
        self.state.mkdir()
        self.in_state = self._plant(self.state / "kept", 0o644)
        self.abstract = "canary-socket-" + secrets.token_hex(8)
        self.path_socket = self.directory / "socket"
        self.connections = []
        self.listeners = [self._listen(socket.AF_INET, ("127.0.0.1", 0)), self._listen(socket.AF_UNIX, "\0" + self.abstract),
                          self._listen(socket.AF_UNIX, str(self.path_socket))]
        self.path_socket.chmod(0o777)
        self.port = self.listeners[0].getsockname()[1]
        self.process_name = "canary-process-" + secrets.token_hex(6)
        lifeline.shared.add(self.process_name)
        self.process = subprocess.Popen([self.process_name, "3600"], executable="/usr/bin/sleep")
        self.before = self.fingerprint()

    @staticmethod
    def _plant(path, mode):
        path.write_text(SECRET)
        path.chmod(mode)
        return path

    def _listen(self, family, address):
        listener = socket.socket(family)
        listener.bind(address)
        listener.listen()

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    self.connections.append(address)
                    peer.close()

        threading.Thread(target=accept, daemon=True).start()
        return listener

    def fingerprint(self):
        """Owner, mode, content and times of every planted file."""
        found = {}
        for path in (self.root_only, self.world, self.in_state):
            st = path.lstat()
            found[path.name] = (st.st_uid, st.st_gid, st.st_mode, st.st_nlink, st.st_mtime_ns, st.st_ctime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        return found

    def untouched(self):
        """Nothing was changed, nobody called, the process lives."""
        return self.fingerprint() == self.before and self.connections == [] and self.process.poll() is None

    def as_argument(self):
        return json.dumps({"files": [str(self.root_only), str(self.world), str(self.in_state)], "state": str(self.state), "abstract": self.abstract,
                           "path_socket": str(self.path_socket), "port": self.port, "process": self.process_name})

    def clear(self):
        self.process.kill()
        self.process.wait()
        for listener in self.listeners:
            listener.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@functools.cache
def canaries():
    planted = Canaries()
    atexit.register(planted.clear)
    return planted


class Report:
    """The facts a probe told, and how its run ended."""

    def __init__(self, run):
        self.run = run
        self.facts = facts_in(run.out)

    def __getitem__(self, name):
        assert name in self.facts, f"the probe did not tell '{name}': {self.run.result}"
        return self.facts[name]

    def value(self, name):
        fact = self[name]
        assert fact.get("errno") is None, f"{name}: {fact}"
        return fact["value"]

    def errors(self, *names):
        """{name: errno, or None where it worked}"""
        return {name: self[name]["errno"] for name in names}

    def under(self, prefix):
        """All facts whose names begin so, without the prefix: {rest: errno or None}"""
        found = {name[len(prefix):]: fact["errno"] for name, fact in self.facts.items() if name.startswith(prefix)}
        assert found, f"no fact begins with {prefix}: {self.run.result}"
        return found


def facts_in(text):
    found = {}
    for line in text.splitlines():
        if line.startswith('{"fact":'):
            fact = json.loads(line)
            found[fact.pop("fact")] = fact
    return found


def no_secret_in(run):
    assert SECRET.encode() not in run.stdout and SECRET.encode() not in run.stderr, "a canary's content came out of a sandbox"
    return run


def run(*arguments, **options):
    """`cove run --json ARGUMENTS…`, searched for canaries."""
    return no_secret_in(cove("run", "--json", *arguments, **options))


def attack(probe, *arguments, options=(), **keywords):
    """Runs tests/probes/PROBE.py in a fresh sandbox."""
    done = cove("run", *options, "--file", PROBES / "probelib.py", "--json", PROBES / f"{probe}.py", *arguments, **keywords)
    assert done.result is not None, done.stderr
    return Report(no_secret_in(done))


@functools.cache
def seen(probe, *arguments, options=()):
    """As attack(), once for all tests that look at the same probe."""
    report = attack(probe, *arguments, options=options)
    assert report.run.result["exit_code"] == 0, report.run.err
    return report


def code(source, *options, **keywords):
    """Runs Python source in a fresh sandbox; print lines of fact() are in .facts."""
    done = cove("run", *options, "--file", PROBES / "probelib.py", "--json", "-c", source, **keywords)
    assert done.result is not None, done.stderr
    return Report(no_secret_in(done))


class Neighbour:
    """A sandbox that lives as long as the test wants: a probe that answers each line of stdin with facts and then a line 'done'."""

    def __init__(self, probe, *arguments, options=(), binary=None, env=None):
        self.process = subprocess.Popen(
            [binary or COVE, "run", "--timeout", "40s", *map(str, options), "--file", str(PROBES / "probelib.py"), "--quiet", str(PROBES / f"{probe}.py"), *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
        self.facts = {}
        self._watchdog = threading.Timer(PATIENCE, self.process.kill)
        self._watchdog.start()
        self._listen()

    def _listen(self):
        told = {}
        while True:
            line = self.process.stdout.readline().decode(errors="replace")
            assert line, f"the neighbour ended: {self.process.stderr.read().decode(errors='replace')}"
            assert SECRET not in line
            if line == "done\n":
                break
            told.update(facts_in(line))
        self.facts.update(told)
        return told

    def ask(self, *words):
        """Sends one command; the facts it told."""
        self.process.stdin.write((json.dumps(list(words)) + "\n").encode())
        self.process.stdin.flush()
        return self._listen()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self._watchdog.cancel()
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process.stderr.close()


def compiled(source, directory, *flags):
    """A static C program, built on the host to be sent in with --file."""
    text = pathlib.Path(directory) / "probe.c"
    program = pathlib.Path(directory) / "probe"
    text.write_text(source)
    subprocess.run(["cc", "-O1", "-w", "-o", str(program), str(text), *flags], check=True, capture_output=True, timeout=PATIENCE)
    return program


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


__all__ = ["BUILD", "COVE", "Neighbour", "PROBES", "Report", "Run", "SECRET", "TESTLOCKS", "attack", "canaries", "code", "compiled", "cove", "digest",
           "facts_in", "run", "seen"]
