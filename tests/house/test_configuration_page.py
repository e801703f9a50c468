"""docs/configuration.md says what src/config does: every key with its type, default and meaning."""
import re
import subprocess
import sys

from source_tree import ROOT

SCRIPT = ROOT / "scripts" / "configuration_page.py"
PAGE = ROOT / "docs" / "configuration.md"


def keys_of(text, pattern):
    return set(re.findall(pattern, text, re.MULTILINE))


def test_the_page_is_what_the_script_writes():
    assert subprocess.run([sys.executable, SCRIPT, "--check"]).returncode == 0, "scripts/configuration_page.py writes it anew"


def test_the_page_has_every_key_of_the_sample_file():
    section, expected = "", set()
    for line in (ROOT / "packaging" / "cove.toml.sample").read_text().splitlines():
        if heading := re.match(r"\[(\w+)\]", line):
            section = heading[1] + "."
        elif key := re.match(r"#?(\w+) = ", line):
            expected.add(section + key[1])
    assert sorted(expected - keys_of(PAGE.read_text(), r"^\| `([\w.]+)` \|")) == []
