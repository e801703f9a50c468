"""What a cell's processes wrote goes before its reply: the host reads the pipes and the channel side by side."""
import fcntl
import termios
import time

from .own import builtins as __builtins__  # noqa: F401

_ioctl, _sleep, _FIONREAD = fcntl.ioctl, time.sleep, termios.FIONREAD
_PATIENCE = 200  # milliseconds that a reply waits at most for what a process goes on writing


def drain():
    for _ in range(_PATIENCE):
        try:
            if not any(_ioctl(1, _FIONREAD, b"\0\0\0\0")) and not any(_ioctl(2, _FIONREAD, b"\0\0\0\0")):
                return
        except OSError:  # a cell has closed them
            return
        _sleep(0.001)
