"""Where a process of the runtime begins: prepare() once in a warm parent, live() in every child."""
import os

from . import birth
from .channel import Channel

_shell = None


def live(channel_fd=3):
    """Reads the first message and becomes what it says. Never returns."""
    os.set_inheritable(channel_fd, False)
    channel = Channel(channel_fd)
    try:
        begin = channel.receive()
    except (EOFError, OSError):
        os._exit(0)
    birth.settle(begin)
    if begin.get("mode") == "kernel":
        birth.search_path("")
        shell = _shell if _shell is not None else _new_shell()
        from . import kernel
        kernel.run(begin, channel, shell)
    else:
        birth.search_path(os.path.dirname(begin.get("path") or "") or os.getcwd())
        if _shell is not None:
            _shell.vanish()
        from . import program
        program.run(begin, channel)


def _new_shell():
    from .shell import Shell
    return Shell()


def prepare(modules):
    """In a warm parent: everything that all children would otherwise do again. Leaves no thread, file or descriptor."""
    global _shell
    from . import warm
    warm.load(modules)
    _shell = _new_shell()
    warm.rehearse(_shell)
    birth.remember_generators()
    warm.settle()


