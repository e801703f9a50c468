"""The conformance fixtures are in a program of their own, which `cove serve --mcp-fixtures` becomes."""
import pathlib
import shutil

import pytest
from conftest import COVE, cove
from server import Server

FIXTURES = pathlib.Path(COVE).with_name("cove-mcp-fixtures")
NAMES = [b"test_simple_text", b"test_elicitation", b"test_simple_prompt", b"test://static-text"]


@pytest.mark.parametrize("name", NAMES, ids=bytes.decode)
def test_the_shipped_program_has_no_fixture(name):
    assert name not in pathlib.Path(COVE).read_bytes()
    assert name in FIXTURES.read_bytes()


def test_a_server_with_fixtures_is_the_other_program():
    with Server("--mcp-fixtures=true") as server:
        assert pathlib.Path(f"/proc/{server.popen.pid}/exe").resolve() == FIXTURES.resolve()


def test_a_server_without_fixtures_is_not():
    with Server("--mcp-fixtures=false") as server:
        assert pathlib.Path(f"/proc/{server.popen.pid}/exe").resolve() == pathlib.Path(COVE).resolve()


def test_where_the_program_is_missing_the_switch_says_how_to_build_it(tmp_path):
    alone = tmp_path / "cove"
    shutil.copy2(COVE, alone)
    run = cove("serve", "--listen", "127.0.0.1:0", "--state-dir", tmp_path / "state", "--mcp-fixtures=true", binary=str(alone))
    assert run.status == 1
    assert f"{tmp_path}/cove-mcp-fixtures is missing (scripts/build release cove-mcp-fixtures builds it)" in run.err
