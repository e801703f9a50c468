"""The clients from npm, as scripts/clients installs them: official MCP clients and conformance suites, JupyterLab's own client."""
import functools
import pathlib
import platform
import subprocess

from conftest import ROOT

PLACE = ROOT / "build" / "clients"
MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
NODE = PLACE / "node_modules" / f"node-linux-{MACHINE}" / "bin" / "node"  # newer than Debian's: the suites want it
SCRIPTS = ROOT / "tests" / "clients"


@functools.cache
def installed():
    done = subprocess.run([ROOT / "scripts" / "clients"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return PLACE


def node(script, *arguments, timeout=180, **options):
    """Runs a script of tests/clients among the installed packages."""
    place = installed()
    copy = place / pathlib.Path(script).name  # modules are looked for from where the script is
    source = SCRIPTS / script
    if not copy.exists() or copy.read_bytes() != source.read_bytes():
        copy.write_bytes(source.read_bytes())
    return subprocess.run([NODE, copy, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options)
