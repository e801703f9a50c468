"""R-10 and R-11 in short: some kernels at once, and runs and cells of every kind. `make soak` does the same in thousands."""
import os
import pathlib
import sys

import pytest

from conftest import leaving_nothing
from server import Server

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))
import python_soak  # noqa: E402
from python_bench import warmed  # noqa: E402
from soak_report import Soak  # noqa: E402

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="limits of memory need root")


@pytest.fixture(scope="module")
def warm_server():
    """When it has stopped nothing of it may be left."""
    with leaving_nothing(), Server("--drain", "1s", "--log-access=false", warm=True) as running:
        warmed(running)
        yield running


def test_R_10_many_kernels_at_once_are_all_there_and_answer(warm_server):
    soak = Soak()
    python_soak.together(soak, warm_server.port, warm_server.pid, 60, 4, long=False, seconds=3)
    assert not soak.wrong


def test_R_11_runs_and_cells_of_every_kind_end_as_they_should(warm_server):
    soak = Soak()
    python_soak.executions(soak, warm_server.port, warm_server.pid, 150, 4, long=False)
    assert not soak.wrong
