"""Modules of the user's own: one whose file was written anew is imported anew by the next import."""
import os
import sys

from .own import builtins as __builtins__  # noqa: F401

_stat, _modules = os.stat, sys.modules


class Reloads:
    def __init__(self):
        self._known = {}  # name: file and its age
        self._count = 0

    def remember(self, root):
        """After a cell: what it has imported from below `root`."""
        if len(_modules) == self._count:
            return
        self._count = len(_modules)
        for name, module in list(_modules.items()):
            if name in self._known:
                continue
            file = getattr(module, "__file__", None)
            if type(file) is str and file.startswith(root) and name != "__main__":
                self._known[name] = (file, _age(file))

    def forget_changed(self):
        """Before a cell."""
        for name, (file, age) in list(self._known.items()):
            if name not in _modules:
                del self._known[name]
            elif _age(file) != age:
                del self._known[name], _modules[name]


def _age(file):
    try:
        found = _stat(file)
        return found.st_mtime_ns, found.st_size, found.st_ino
    except OSError:
        return None
