"""What a warm parent does ahead of its children: imports, and a rehearsal, so that no child is the first to do anything."""
import gc
import os
import shutil
import sys
import tempfile

# One thread each: a thread of the parent's would not live in its children, but its locks would.
_SINGLE = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

CELLS = [
    "x = 1",
    "1 + 1",
    "print('x')",
    "'x'\n[1]",
    "import asyncio\nawait asyncio.sleep(0)",
    "1 / 0",
    "def f(:",
    "%who",
    "x = !true",
]
PANDAS = "import pandas\npandas.DataFrame({'a': [1.5], 'b': ['x']})"
MATPLOTLIB = "import matplotlib.pyplot as plt\nplt.plot([1, 2], label='x')\nplt.title('x')\nplt.legend()\nplt.show()"


def load(modules):
    """Those that are missing are left out: a template without pandas is none the worse."""
    scratch = tempfile.mkdtemp(prefix="cove-warm-")
    for name in _SINGLE:
        os.environ[name] = "1"
    os.environ["MPLCONFIGDIR"] = scratch
    try:
        for name in modules:
            try:
                __import__(name)
            except ImportError:
                pass
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].switch_backend("agg")
    finally:
        for name in (*_SINGLE, "MPLCONFIGDIR"):
            del os.environ[name]
        shutil.rmtree(scratch, ignore_errors=True)
    from . import kernel, program, units, variables  # noqa: F401


class _Nowhere:
    """The channel of a rehearsal."""

    def send(self, text):
        pass


def rehearse(shell):
    """Runs a cell of every kind, then makes them never have been."""
    from .interrupts import Interrupts
    from .streams import Outlet, Stream
    interrupts = Interrupts()
    outlet = Outlet(_Nowhere(), interrupts)
    before = sys.stdout, sys.stderr, sys.displayhook, sys.modules["__main__"]
    shell.wake(outlet, interrupts)
    sys.stdout, sys.stderr = Stream(outlet, "stdout"), Stream(outlet, "stderr")
    cells = list(CELLS)
    if "pandas" in sys.modules:
        cells.append(PANDAS)
    if "matplotlib.pyplot" in sys.modules:
        shell.figures._take_over(sys.modules["matplotlib.pyplot"])
        cells.append(MATPLOTLIB)
    for cell in cells:
        shell.run_cell(cell, store_history=True)
    shell.complete("", "pri", 3)
    shell.colour(True)
    shell.run_cell("1 / 0")
    shell.colour(False)
    if shell._loop is not None:
        shell._loop.close()
        shell._loop = None
        sys.modules["asyncio"].set_event_loop(None)
    shell.forget()
    sys.stdout, sys.stderr, sys.displayhook, sys.modules["__main__"] = before


def settle():
    font_manager = sys.modules.get("matplotlib.font_manager")
    if font_manager is not None:
        font_manager._get_font.cache_clear()  # they hold descriptors, which no child keeps
    gc.collect()
    gc.freeze()
