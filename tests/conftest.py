"""What every test of the built binary shares. COVE names the binary; the default is build/cove."""
import json
import os
import pathlib
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
COVE = os.environ.get("COVE", str(ROOT / "build" / "cove"))
BUILD = pathlib.Path(os.environ.get("COVE_BUILD_DIR", ROOT / "build"))
# A run that hangs is a failure, not a stuck suite. Not a measure of speed: far above anything a run may take.
PATIENCE = 60


class Run:
    """What came of one `cove run`."""

    def __init__(self, completed, as_json):
        self.status = completed.returncode
        self.stdout = completed.stdout
        self.stderr = completed.stderr
        self.result = json.loads(completed.stdout) if as_json and completed.stdout.strip() else None

    @property
    def out(self):
        return self.result["stdout"] if self.result else self.stdout.decode(errors="replace")

    @property
    def err(self):
        return self.result["stderr"] if self.result else self.stderr.decode(errors="replace")

    @property
    def reason(self):
        return self.result["reason"]


def cove(*arguments, stdin=b"", binary=None, env=None, user=None, cwd=None):
    """`cove ARGUMENTS…` with plain streams."""
    completed = subprocess.run(
        [binary or COVE, *map(str, arguments)], input=stdin, capture_output=True, timeout=PATIENCE,
        env={**os.environ, **(env or {})}, user=user, group=user, extra_groups=[] if user is not None else None, cwd=cwd)
    return Run(completed, "--json" in arguments)


def run_json(*arguments, **options):
    """`cove run --json ARGUMENTS…`; the parsed object is in .result."""
    return cove("run", "--json", *arguments, **options)


def python(code, *arguments, **options):
    """Runs Python code in a fresh sandbox."""
    return run_json(*arguments, "-c", code, **options)


@pytest.fixture
def workdir():
    with tempfile.TemporaryDirectory(prefix="cove-test-") as directory:
        yield pathlib.Path(directory)
