"""The warm interpreter of a template: loads the modules it was told to, then serves births for good.

Everything after `cove_zygote_serve` is a newborn: inside its sandbox, every lock on, no client's byte seen yet.
"""

import ctypes
import sys


def modules():
    """Those that the template names, else those of the server."""
    try:
        with open("/etc/cove/preload", encoding="ascii") as names:
            return names.read().split()
    except FileNotFoundError:
        return sys.argv[1:]


def main():
    sys.path.insert(0, "/cove/python")
    from cove_runtime import main as runtime

    runtime.prepare(modules())
    native = ctypes.PyDLL("/cove/lib/zygote.so")
    # As os.fork would: the import lock is held over all forks, and the newborn makes its own state good.
    ctypes.pythonapi.PyOS_BeforeFork()
    native.cove_zygote_serve()
    ctypes.pythonapi.PyOS_AfterFork_Child()
    runtime.live(3, native.cove_zygote_leave)


main()
