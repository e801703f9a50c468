"""A terminal with a command of cove's on it, driven as a person would."""
import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from conftest import COVE, PATIENCE, end, wait_until


class Terminal:
    def __init__(self, *command, rows=40, columns=100, env=None):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([COVE, *map(str, command)], stdin=self.slave, stdout=self.slave, stderr=self.slave, preexec_fn=take_terminal, env={**os.environ, **(env or {})})

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, word):
        """All that was shown, once the word is in it."""
        deadline = time.monotonic() + PATIENCE
        while word not in self.seen and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.2)[0]:
                self.seen += os.read(self.master, 65536)
        assert word in self.seen, self.seen
        return self.seen

    def until(self, word):
        """The same, and the next look begins behind the word."""
        self.read_until(word)
        before, _, self.seen = self.seen.partition(word)
        return before + word

    def type(self, text):
        os.write(self.master, text)

    def wait(self):
        # What is still to be shown must be taken off the terminal, or its writer waits.
        assert wait_until(lambda: self.drain() or self.process.poll() is not None, PATIENCE)
        self.drain()
        return self.process.returncode

    def drain(self):
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536)


@contextlib.contextmanager
def terminal(*command, **options):
    opened = Terminal(*command, **options)
    try:
        yield opened
    finally:
        end(opened.process)
        opened.process.wait()
        os.close(opened.master)
        os.close(opened.slave)
