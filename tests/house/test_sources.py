"""What every C++ file keeps to: its length and its format."""
import concurrent.futures
import shutil
import subprocess

import pytest
import source_tree
from source_tree import ROOT, name_of

MAX_LINES = 400
REASON = "// Long because"


def too_long():
    """Names of files over the limit that give no reason on their first line."""
    found = set()
    for path in source_tree.files(".cpp", ".hpp"):
        lines = path.read_text().splitlines()
        if not source_tree.is_test(path) and len(lines) > MAX_LINES and not lines[0].startswith(REASON):
            found.add(name_of(path))
    return found


def test_no_file_is_long_without_a_reason_on_its_first_line():
    assert sorted(too_long()) == [], f"over {MAX_LINES} lines: split it, or begin it with \"{REASON} …\""


def test_every_source_is_formatted():
    formatter = shutil.which("clang-format-19")
    if formatter is None:
        pytest.fail("clang-format-19 is missing: make setup installs it")
    paths = [name_of(path) for path in source_tree.files(".cpp", ".hpp")]
    parts = [paths[first::16] for first in range(16)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = list(pool.map(lambda part: subprocess.run([formatter, "--dry-run", "--Werror", *part], cwd=ROOT, capture_output=True, text=True), parts))
    told = [line for run in runs for line in run.stderr.splitlines() if "error:" in line]
    assert all(run.returncode == 0 for run in runs) and told == [], "make format puts this right:\n" + "\n".join(told[:40])
