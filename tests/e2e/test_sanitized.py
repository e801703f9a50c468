"""Of a sanitized build (make asan): that what a sanitizer finds is seen, although the server starts again what died of it."""
import os
import signal

import pytest
from conftest import wait_until
from hostile import front
from server import Server, sanitizer_report

pytestmark = pytest.mark.skipif(not os.environ.get("COVE_TEST_SANITIZED"), reason="for sanitized builds: make asan")


def test_a_report_of_the_front_fails_the_test_that_ends_the_server():
    server = Server()
    server.start()
    os.kill(front(server), signal.SIGSEGV)  # the sanitizer reports it like a wild access
    assert wait_until(lambda: sanitizer_report(server.log))
    with pytest.raises(AssertionError, match="AddressSanitizer"):
        server.close()
