"""What the tests of the Python runtime share: one warm parent, and kernels of it."""
import pytest
import runtimes


@pytest.fixture(scope="session")
def warm():
    parent = runtimes.Warm()
    yield parent
    parent.close()


@pytest.fixture(params=["warm", "cold"])
def start(request):
    """start() makes a new process of the runtime; it is gone after the test."""
    made = []

    def begin():
        made.append(request.getfixturevalue("warm").start() if request.param == "warm" else runtimes.cold())
        return made[-1]

    yield begin
    for process in made:
        process.end()
