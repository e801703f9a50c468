"""What a new process is told about itself: environment, directory, time zone, and random sources of its own."""
import importlib
import os
import site
import sys
import time

from .own import builtins as __builtins__  # noqa: F401

WORKSPACE = "/workspace"
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "packages")  # what user code may import of ours


_settled = None  # the environment and the directory of the last settle()


def settle(begin):
    """Applies the first message. Whatever was inherited from a warm parent is replaced. One that was told before what it will be told has done it already."""
    global _settled
    wanted = begin.get("env") or {}, begin.get("cwd") or WORKSPACE
    enter(wanted[1])
    if wanted == _settled:
        return
    _settled = wanted
    os.environ.clear()
    os.environ.update(wanted[0])
    time.tzset()
    _set_locale()
    _set_threads()
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].ORIGINAL_DIR = os.getcwd()
    _forget_directories()


def enter(directory, workspace=WORKSPACE):
    """Goes there; what is missing below the workspace is made."""
    try:
        os.chdir(directory)
    except FileNotFoundError:
        if not os.path.normpath(directory).startswith(workspace + "/"):
            raise
        os.makedirs(directory, exist_ok=True)
        os.chdir(directory)


def search_path(first):
    """sys.path as `python3 FILE` has it in this environment: the runtime itself is isolated, the user's code is not."""
    sys.path[:0] = [first, *(part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part)]
    if os.path.isdir(user_packages()):
        site.addsitedir(user_packages())
    if PACKAGES not in sys.path:
        sys.path.append(PACKAGES)


def late_packages(isdir=os.path.isdir, add=site.addsitedir, invalidate_caches=importlib.invalidate_caches):
    """Whether the user's packages are on the path: put there as soon as there are any, also those installed while a kernel lives."""
    try:
        packages = user_packages()
        if packages in sys.path or not isdir(packages):
            return packages in sys.path
        add(packages)
        invalidate_caches()
    except BaseException:  # a cell has replaced what is needed for it, or a package says so in its .pth file: nothing to try again
        return True
    return True


def user_packages():
    """Where `pip install --user` puts things."""
    base = os.environ.get("PYTHONUSERBASE") or os.path.join(os.environ.get("HOME") or "/", ".local")
    return os.path.join(base, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")


_blas = None  # of a warm parent: how OpenBLAS is told its number of threads


def remember_blas():
    """Once, in a warm parent, where OpenBLAS is loaded with one thread (warm.py)."""
    global _blas
    try:
        import ctypes
        _blas = ctypes.CDLL("libopenblas.so.0", os.RTLD_NOLOAD | os.RTLD_NOW).openblas_set_num_threads
    except (ImportError, OSError, AttributeError):
        _blas = None


def _set_threads():
    """As many as a process that loads it now would have."""
    wanted = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    if _blas is not None and wanted.isascii() and wanted.isdigit() and 1 < int(wanted) < 1024:
        _blas(int(wanted))


def _set_locale():
    import _locale
    try:
        _locale.setlocale(_locale.LC_CTYPE, "")
    except _locale.Error:
        pass


_generators = []


def remember_generators():
    """Once, in a warm parent: every generator its modules have made, so that no two children draw the same numbers."""
    import gc
    import random
    numpy_random = sys.modules.get("numpy.random")
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, random.Random) and not issubclass(kind, random.SystemRandom):
            _generators.append(thing.seed)
        elif numpy_random and issubclass(kind, numpy_random.RandomState):
            _generators.append(_fresh_state(thing) or thing.seed)
        elif numpy_random and issubclass(kind, numpy_random.Generator):
            _generators.append(lambda made=thing.bit_generator: setattr(made, "state", type(made)().state))


def _fresh_state(generator):
    """Writes the state of a Mersenne twister where it lies. Its seed() would touch a hundred pages in every child."""
    import ctypes

    import numpy
    if generator.get_state()[0] != "MT19937":
        return None
    address, size = generator._bit_generator.ctypes.state_address, 624 * 4
    known, position = generator.get_state()[1].tobytes(), (624).to_bytes(4, sys.byteorder)
    if ctypes.string_at(address, size) != known or generator.get_state()[3]:
        return None

    def fresh(move=ctypes.memmove, urandom=os.urandom):
        move(address, urandom(size) + position, size + 4)

    fresh()
    if generator.get_state()[1].tobytes() == known or numpy.any(generator.get_state()[2] != 624):
        return None
    return fresh


def reseed():
    """Depends on nothing that the first message says, so it is done before it comes."""
    loaded = sys.modules.get
    for seed in _generators:
        seed()
    if not _generators and loaded("random"):
        loaded("random").seed()
    if loaded("torch"):
        loaded("torch").seed()
    if loaded("tempfile"):
        # Draws new names when the pid changes; in another pid namespace it may be the same.
        loaded("tempfile")._name_sequence = loaded("tempfile").tempdir = None
    if loaded("uuid"):
        loaded("uuid")._node = loaded("uuid")._last_timestamp = None
    if loaded("multiprocessing.process"):
        loaded("multiprocessing.process").current_process().authkey = os.urandom(32)


def _forget_directories():
    """matplotlib remembers the warm parent's directories in closures."""
    for name in ("get_configdir", "get_cachedir"):
        function = getattr(sys.modules.get("matplotlib"), name, None)
        code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
        for variable, cell in zip(getattr(code, "co_freevars", ()), cells or ()):
            if variable == "called":
                cell.cell_contents = False
