"""Modules of the user's own: one whose file was written anew is imported anew by the next import."""
import os
import sys

from .own import builtins as __builtins__  # noqa: F401

_stat, _modules = os.stat, sys.modules


class Reloads:
    def __init__(self):
        self._known = {}  # name: file and its age
        self._count = 0
        self._last = None  # the newest module that is not the user's

    def begin(self):
        """Before the first cell: what is loaded by now is not the user's."""
        self._count, self._last = len(_modules), next(reversed(_modules))

    def remember(self, root):
        """After a cell: what it has imported from below `root`. Newest first, and only as far as the modules that were there before: a child of a
        warm parent that looks at all twelve hundred counts a reference to each, and so gets a copy of every page that one lies in."""
        if len(_modules) == self._count:
            return
        self._count = len(_modules)
        try:
            for name in reversed(_modules):
                if name == self._last:
                    break
                file = getattr(_modules.get(name), "__file__", None)
                if name not in self._known and type(file) is str and file.startswith(root) and name != "__main__":
                    self._known[name] = (file, _age(file))
        except RuntimeError:  # a thread has imported something meanwhile: after the next cell
            self._count = -1

    def forget_changed(self):
        """Before a cell."""
        for name, (file, age) in list(self._known.items()):
            if name not in _modules:
                del self._known[name]
            elif _age(file) != age:
                del self._known[name], _modules[name]
                self._count = -1  # it comes again, perhaps


def _age(file):
    try:
        found = _stat(file)
        return found.st_mtime_ns, found.st_size, found.st_ino
    except OSError:
        return None
