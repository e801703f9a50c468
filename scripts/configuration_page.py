#!/usr/bin/env python3
"""Writes docs/configuration.md from the table of keys in src/config. --check: exit 1 if the page is not up to date."""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "configuration.md"
TEXT = r'"(?:[^"\\]|\\.)*"'
KEY = re.compile(
    rf"\{{({TEXT}),\s*(\w+),\s*({TEXT}),\s*(live|restart),\s*\[\]\(Config& \w+\) -> auto& \{{ return [\w.]+; \}},?"
    rf"\s*((?:{TEXT}\s*)*)(?:,\s*([^{{}}]*?))?(?:,\s*\{{((?:\s*{TEXT},?)+)\}})?\s*\}}")
ALIAS = re.compile(rf"\{{({TEXT}),\s*(\"\w+\.\w+\"),\s*({TEXT})\}}")

TYPES = {
    "text": "text", "address": "address", "boolean": "boolean", "choice": "choice", "count": "number",
    "cores": "cores", "size": "size", "duration": "duration", "list": "list", "map": "table",
}

HEAD = """# Configuration

<!-- Written by scripts/configuration_page.py from src/config; do not edit. -->

Every setting of `cove serve`. A key can be set in four places; the first one that has it wins:

1. a flag: `--sandbox-memory 1G`;
2. a variable: `COVE_SANDBOX_MEMORY=1G`;
3. a variable of the servers whose APIs Cove speaks, listed [below](#other-servers-variables);
4. the file given by `--config FILE`, in TOML: `memory = "1G"` in the section `[sandbox]`.

Unknown keys and values out of range are errors: the server does not start, and a reload is refused.
`systemctl reload cove`, or SIGHUP to the supervisor, reads the file again. Keys marked *restart*
take effect when the server is started again, all others at once.
[packaging/cove.toml.sample](../packaging/cove.toml.sample) has every key with its default.

| Type | Written as |
|---|---|
| text | `"…"` |
| address | `127.0.0.1:8000`, `[::1]:8000` |
| boolean | `true`, `false` |
| choice | one of the words listed |
| number | a whole number |
| cores | `0.5`, `2` |
| size | `512M`, `1Gi`, or a number of bytes |
| duration | `500ms`, `30s`, `2m`, `1h`, `7d`, or a number of seconds |
| list | `["a", "b"]` in the file, `a,b` elsewhere |
| table | a section in the file, `a=b,c=d` elsewhere |
"""


def texts(source):
    """The strings in C++ source, one after the other as one."""
    return "".join(part[1:-1].replace('\\"', '"').replace("\\\\", "\\") for part in re.findall(TEXT, source))


def sources():
    found = sorted(path for path in (ROOT / "src" / "config").glob("*.cpp") if "keys" in path.stem and not path.stem.endswith("_test"))
    return "\n".join(path.read_text() for path in found)


def keys():
    """(name, type, default, reload, help, choices) of every key that has a help text."""
    for name, kind, fallback, reload, said, _, choices in KEY.findall(sources()):
        if texts(said):
            yield texts(name), TYPES[kind], texts(fallback), reload, texts(said), re.findall(r'"([^"]*)"', choices)


def row(name, kind, fallback, reload, said, choices):
    if choices:
        kind = " ".join(f"`{choice}`" for choice in choices)
    marks = " *(restart)*" if reload == "restart" else ""
    default = f"`{fallback}`" if fallback else ""
    return f"| `{name}` | {kind} | {default} | {said.replace('|', '/')}.{marks} |"


def page():
    out = [HEAD]
    section = None
    for key in keys():
        part = key[0].split(".")[0] if "." in key[0] or key[1] == "table" else ""
        if part != section:
            section = part
            out.append(f"\n## {f'[{part}]' if part else 'Top level'}\n\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n")
        out.append(row(*key) + "\n")
    out.append("\n## Other servers' variables\n\n" + textwrap.fill(
        "Variables that the original servers of these APIs read. An empty one counts as not set. A unit is added to a bare number.", 100)
        + "\n\n| Variable | Key | Unit |\n|---|---|---|\n")
    out.extend(f"| `{texts(variable)}` | `{texts(key)}` | {texts(unit)} |\n" for variable, key, unit in ALIAS.findall(sources()))
    return "".join(out)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())
