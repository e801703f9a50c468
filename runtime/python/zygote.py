"""The warm interpreter of a template: loads the modules it was told to, then serves births for good.

Everything after `cove_zygote_serve` is a newborn: inside its sandbox, every lock on, no client's byte seen yet.
"""

import ctypes
import sys


def prepare(runtime):
    """Loads what the template names, else what the server does. A light one is for programs alone, and of no template."""
    if sys.argv[1:2] == ["--light"]:
        return runtime.prepare_light(sys.argv[2:])
    try:
        with open("/etc/cove/preload", encoding="ascii") as names:
            modules = names.read().split()
    except FileNotFoundError:
        modules = sys.argv[1:]
    runtime.prepare(modules)


def main():
    sys.path.insert(0, "/cove/python")
    from cove_runtime import main as runtime

    prepare(runtime)
    native = ctypes.PyDLL("/cove/lib/zygote.so")
    # As os.fork would: the import lock is held over all forks, and the newborn makes its own state good.
    ctypes.pythonapi.PyOS_BeforeFork()
    native.cove_zygote_serve()
    ctypes.pythonapi.PyOS_AfterFork_Child()
    runtime.live(3, native.cove_zygote_leave)


main()
