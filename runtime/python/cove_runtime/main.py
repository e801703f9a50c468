"""Where a process of the runtime begins: prepare() once in a warm parent, live() in every child."""
import os

from . import birth
from .channel import Channel, encode

_kernel = None  # in a warm parent and its children, unless it is light
_warm = False


def live(channel_fd=3, leave=os._exit):
    """Reads the first message and becomes what it says. Never returns: leave(status) ends the process."""
    os.set_inheritable(channel_fd, False)
    channel = Channel(channel_fd)
    birth.reseed()
    try:
        begin, use = channel.receive(), None
        if begin.get("mode") == "expect":
            use = begin.get("use")
            if _warm:
                _get_ready(begin, channel)
            begin = channel.receive()
    except (EOFError, OSError):
        os._exit(0)
    try:
        birth.settle(begin)
    except OSError as error:
        channel.send(encode({"type": "failed", "message": f"cannot enter {begin.get('cwd')}: {error.strerror}"}))
        os._exit(1)
    # What we need is imported before the user's directories are on the path: a json.py there is the user's alone.
    if begin.get("mode") == "kernel" and begin.get("language") == "bash":
        from . import bash
        if _kernel is not None and use != "program":
            _kernel.vanish()
        bash.run(channel)
    elif begin.get("mode") == "kernel":
        if use == "program":
            channel.send(encode({"type": "failed", "message": "this interpreter waited for a program, and has no IPython any more"}))
            os._exit(1)
        kernel = _kernel or _new_kernel()
        birth.search_path("")
        kernel.start(begin, channel)
        kernel.serve()
    elif begin.get("mode") == "handler":
        from . import handler
        if _kernel is not None and use != "program":
            _kernel.vanish()
        birth.search_path(os.getcwd())
        handler.run(begin, channel, leave)
    elif begin.get("mode") == "install":
        from . import install
        if _kernel is not None and use != "program":
            _kernel.vanish()
        install.run(begin, channel, leave)
    else:
        from . import program
        if begin.get("outputs"):
            from . import outputs  # noqa: F401
        if _kernel is not None and use != "program":
            _kernel.vanish()
        birth.search_path(os.path.dirname(begin.get("path") or "") or os.getcwd())
        program.run(begin, channel, leave)


def _get_ready(expected, channel):
    """In a child of a warm parent that was told what it will be, and in which environment, and waits for the rest."""
    from . import leisure, program
    birth.settle(expected)
    if expected.get("use") == "kernel" and _kernel is not None:
        leisure.stretch(_kernel.stretch, channel.waits)
    else:
        if _kernel is not None:
            _kernel.vanish()
        leisure.stretch(program.stretch, channel.waits)


def _new_kernel():
    from .kernel import Kernel
    from .shell import Shell
    return Kernel(Shell())


def prepare(modules):
    """In a warm parent: everything that all children would otherwise do again. Leaves no thread, file or descriptor."""
    global _kernel
    from . import warm
    warm.load(modules, "handler kernel leisure program shell units")
    _kernel = _new_kernel()
    warm.rehearse(_kernel)
    _last_preparations(warm)


def prepare_light(modules):
    """The same in a parent of programs alone: without IPython, and with few modules."""
    from . import warm
    warm.load(modules, "handler leisure program units", arenas=16)
    warm.rehearse_programs()
    _last_preparations(warm)


def _last_preparations(warm):
    global _warm
    birth.remember_generators()
    birth.remember_blas()
    warm.settle()
    _warm = True
