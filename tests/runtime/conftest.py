"""What the tests of the Python runtime share: one warm parent, and kernels of it."""
import lifeline
import pytest
import runtimes


@pytest.fixture(scope="session")
def warm():
    parent = runtimes.Warm()
    yield parent
    parent.close()


@pytest.fixture(params=["warm", "cold"])
def start(request):
    """start() makes a new process of the runtime."""
    return request.getfixturevalue("warm").start if request.param == "warm" else runtimes.cold


@pytest.fixture(autouse=True)
def no_process_goes_on(warm):
    """Those that a test has made are gone after it, with what they have left in the background. What tests share was there before: the warm parent is asked for here, so that it is."""
    before, programs = list(runtimes.Process.living), lifeline.started()
    yield
    for process in [process for process in runtimes.Process.living if process not in before]:
        process.end()
    while left := lifeline.started() - programs:  # those of one that is ended come after it
        lifeline.end(left, patience=0)
