"""Parts of IPython's shell that would use files, or let an interrupt be lost, replaced by ones that do not."""
from fnmatch import fnmatch

from . import lean  # noqa: F401, I001 — before anything else of IPython's
from IPython.core.events import EventManager
from IPython.core.profiledir import ProfileDir
from traitlets import observe

from .own import builtins as __builtins__  # noqa: F401


class Profile(ProfileDir):
    """A profile that is not a directory."""

    @observe("location")
    def _location_changed(self, change):
        pass


class Memory(dict):
    """A database in memory, where IPython would use files."""

    def __init__(self, root=None):
        super().__init__()

    def keys(self, pattern=None):
        return [key for key in super().keys() if pattern is None or fnmatch(key, pattern)]


class Hooks(EventManager):
    """Callbacks around cells. An interrupt in one ends the cell; IPython would report it and run the cell."""

    def trigger(self, event, *args, **kwargs):
        for function in self.callbacks[event][:]:
            try:
                function(*args, **kwargs)
            except Exception:
                print(f"Error in callback {function} (for {event}):")
                if self.shell.show_failure():
                    raise KeyboardInterrupt from None  # it was meant for the cell, which must not run on
