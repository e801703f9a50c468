"""Something to do when a module is imported, and not before: an import that nobody asked for costs every kernel."""
import importlib._bootstrap
import importlib.abc
import sys

from .own import builtins as __builtins__  # noqa: F401


class Arrivals(importlib.abc.MetaPathFinder):
    def __init__(self):
        self._waiting = {}
        self._absent = {}

    def when(self, name, then, otherwise=None):
        """Calls then(module) once it has been imported. `otherwise` is a loader for when there is no such module."""
        if name in sys.modules:
            then(sys.modules[name])
            return
        self._waiting[name] = then
        self._absent[name] = otherwise
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        then = self._waiting.pop(name, None)
        if then is None:
            return None
        spec = importlib._bootstrap._find_spec(name, path, target)
        if spec is None and self._absent[name] is not None:
            return importlib._bootstrap.ModuleSpec(name, self._absent[name])
        if spec is None or spec.loader is None:
            self._waiting[name] = then  # it may be installed later
            return spec
        spec.loader = _Then(spec.loader, then)
        return spec


class _Then(importlib.abc.Loader):
    def __init__(self, loader, then):
        self._loader, self._then = loader, then

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module)
