"""Whether anything below a directory was written since a time: a quick look that may say yes for nothing, and says yes where there is much to look at.
Whoever wants to know what it was looks again."""
import os
import time

from .own import builtins as __builtins__  # noqa: F401

_scandir, _lstat, _now = os.scandir, os.lstat, time.time_ns
_MOST = 400
_GRAIN = 10_000_000  # that a file's time may lie before ours: the kernel counts in ticks
_PASSED_OVER = {"__pycache__", "node_modules"}


def touched(root, since):
    """`since` is of now()."""
    since -= _GRAIN
    left = _MOST
    directories = [root]
    try:
        while directories:
            directory = directories.pop()
            if _lstat(directory).st_ctime_ns >= since:
                return True
            with _scandir(directory) as entries:
                for entry in entries:
                    if entry.name[0] == "." or entry.name in _PASSED_OVER:
                        continue
                    left -= 1
                    if left < 0:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.path)
                    elif entry.stat(follow_symlinks=False).st_ctime_ns >= since:
                        return True
    except OSError:
        return True
    return False


now = _now
