"""What a warm parent does ahead of its children: imports, and a rehearsal, so that no child is the first to do anything."""
import atexit
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
]
COMMAND = "x = !true"
PANDAS = "import pandas\npandas.DataFrame({'a': [1.5], 'b': ['x']})"
DESCRIBE = "import numpy, pandas\nprint(pandas.DataFrame({'a': numpy.arange(3.0), 'b': ['x', 'y', 'z']}).describe())"
MATPLOTLIB = "import matplotlib.pyplot as plt\nplt.plot([1, 2], label='x')\nplt.title('x')\nplt.legend()\nplt.show()"


_ROUNDS = 10  # until CPython has specialized what they run: a child that does it writes to the code, and so to pages that were shared

_register = atexit.register


def _register_others(function, *args, **kwargs):
    """IPython cleans up at exit what a kernel never has, and a program would pay for it."""
    if not sys._getframe(1).f_globals.get("__name__", "").startswith("IPython."):
        _register(function, *args, **kwargs)
    return function


_ARENA, _ARENAS = 1 << 20, 64  # of a parent with everything
_SMALL = 512  # the largest object that lives in one
_pegs = []


def _claim_memory(arenas):
    """Has the interpreter map its arenas side by side, before libraries are mapped between them: only what is as long as a
    huge page can become one (_gather_memory). A peg in each keeps it until it is needed, or settle() lets it go."""
    each = _ARENA // _SMALL
    taken = [None] * (arenas * each)
    for at in range(len(taken)):
        taken[at] = bytes(_SMALL - bytes().__sizeof__())
    _pegs.extend(taken[::each])


def load(modules, parts, arenas=_ARENAS):
    """Parts of the runtime, and modules. Those that are missing are left out: a template without pandas is none the worse."""
    _claim_memory(arenas)
    atexit.register = _register_others
    settings = dict.fromkeys(_SINGLE, "1")
    try:
        # matplotlib wants a directory when it is imported; what it puts there is in memory from then on.
        settings["MPLCONFIGDIR"] = scratch = tempfile.mkdtemp(prefix="cove-warm-")
    except OSError:
        scratch = None
    os.environ.update(settings)
    try:
        for part in parts.split():
            __import__(f"{__package__}.{part}")
        for name in modules:
            try:
                __import__(name)
            except Exception as error:
                print(f"cove: {name} is not preloaded: {error}", file=sys.stderr)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].switch_backend("agg")
    finally:
        for name in settings:
            os.environ.pop(name, None)
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def rehearse(kernel):
    """Runs a cell of every kind, then makes them never have been."""
    shell = kernel.shell
    before = sys.stdout, sys.stderr, sys.displayhook, sys.modules["__main__"]
    kernel.appear()
    cells = list(CELLS)
    if "pandas" in sys.modules:
        cells += [PANDAS, DESCRIBE]
    for cell in cells * _ROUNDS:
        shell.run_cell(cell, store_history=True)
    cells = [COMMAND]
    if "matplotlib.pyplot" in sys.modules:
        shell.figures.add_options()
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


PROGRAMS = ["print(1)", "x = 1\nx"]
NUMPY = "import numpy\nprint(numpy.arange(10).sum())"


def rehearse_programs():
    """The same in a parent of programs."""
    from . import birth, program
    for code in (PROGRAMS + [NUMPY] if "numpy" in sys.modules else PROGRAMS) * _ROUNDS:
        program.stretch(code)
    birth._settled = program._kept = None  # the streams of a child are others


def settle():
    """The last thing before the first fork."""
    atexit.register = _register
    font_manager = sys.modules.get("matplotlib.font_manager")
    if font_manager is not None:
        font_manager._get_font.cache_clear()  # they hold descriptors, which no child keeps
    _pegs.clear()
    gc.collect()
    _gather_memory()
    gc.freeze()


_HUGE = 2 << 20
_MADV_COLLAPSE = 25


def _gather_memory():
    """Gives back what is free and puts the rest into huge pages where the kernel will (6.1 on): a fork goes through every
    page table entry of its parent, and the end of the child does again. A child's writes still copy 4 KiB at a time."""
    try:
        import ctypes
        libc = ctypes.CDLL(None)
        libc.malloc_trim(0)
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        with open("/proc/self/maps") as maps:
            lines = [line.split() for line in maps]
    except (ImportError, OSError, AttributeError):
        return
    for area, rights, _, _, _, *name in lines:
        if rights == "rw-p" and (not name or name == ["[heap]"]):
            start, end = (int(edge, 16) for edge in area.split("-"))
            for at in range(-(-start // _HUGE) * _HUGE, end - _HUGE + 1, _HUGE):
                libc.madvise(at, _HUGE, _MADV_COLLAPSE)
