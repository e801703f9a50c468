"""A program run to completion, as `python3 FILE` would run it, down to its exit status."""
import ast
import atexit
import builtins
import io
import linecache
import os
import resource
import signal
import sys
import types
from importlib.machinery import SourceFileLoader

from .birth import settle
from .channel import LARGEST, decode, encode, started
from .own import builtins as __builtins__  # noqa: F401
from .units import compiled

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def run(begin, channel, leave):
    """Never returns: the process ends with the program, by leave(status)."""
    path = begin.get("path") or os.path.join(os.getcwd(), "__main__.py")
    code, outputs = (begin.get("code") or "").removeprefix("\ufeff"), begin.get("outputs")
    if outputs:
        from .outputs import told  # now: the program may clear sys.modules
    if begin.get("write", True):
        _write(path, code)
    module = settled(begin, "__main__", path, begin.get("argv") or [path])
    channel.send(started())
    if not outputs:
        channel.close()

    def work():
        execute(code, path, module, bool(begin.get("interactive")))
        if outputs:
            text = told(outputs, module.__dict__)
            if len(text) < LARGEST:  # or what it printed would have to make room for it
                channel.send('{"type":"outputs","outputs":%s}' % text)

    leave(_last_things(_ended(work)))


def settled(begin, name, path, argv):
    """Everything before the user's first line: the module it will run in."""
    _streams()
    _backend()
    _limit(begin.get("cpu_seconds"))
    return _module(name, path, argv)


_STREAMS = ("stdin", "__stdin__", "stdout", "__stdout__", "stderr", "__stderr__")


def stretch(code="print(1)\n1"):
    """In a new child that waits: goes the way of a program, so that the pages it writes to are there when one comes."""
    before = [getattr(sys, name) for name in _STREAMS]
    path = "/workspace/__main__.py"
    begin = decode(encode({"env": dict(os.environ), "cwd": os.getcwd(), "code": code, "path": path}))
    settle(begin)
    keep_streams()
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __loader__=SourceFileLoader("__main__", path), __builtins__=builtins)
    sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    execute(begin["code"], path, module, True)
    linecache.cache.pop(path, None)
    builtins.__dict__.pop("_", None)
    for name, stream in zip(_STREAMS, before):
        setattr(sys, name, stream)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def _write(path, code):
    """A full disk does not keep the program from running: it is compiled from what we were sent."""
    text = code.encode("utf-8", "surrogatepass")
    try:
        try:
            file = os.open(path, _NEW, 0o644)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = os.open(path, _NEW, 0o644)
        try:
            while text:
                text = text[os.write(file, text):]
            if os.fstat(file).st_mode & 0o7777 != 0o644:
                os.fchmod(file, 0o644)
        finally:
            os.close(file)
    except OSError:
        pass


_kept = None  # the settings of streams that were made while it waited, and those


def keep_streams():
    """In a child that waits: for the program that comes."""
    global _kept
    _streams()
    _kept = _settings(), (sys.stdin, sys.stdout, sys.stderr)


def _settings():
    return os.environ.get("PYTHONIOENCODING", ""), bool(os.environ.get("PYTHONUNBUFFERED"))


def _streams():
    """As CPython makes them, from the environment that came with the first message."""
    global _kept
    kept, _kept = _kept, None
    settings = _settings()
    if kept is not None and kept[0] == settings:
        sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = kept[1]
        return
    wanted, _, errors = settings[0].partition(":")
    unbuffered = settings[1]
    encoding = wanted or "utf-8"

    def stream(descriptor, mode, errors, line_buffering=False):
        if mode == "r":
            return io.TextIOWrapper(io.BufferedReader(io.FileIO(descriptor, "r", closefd=False)), encoding, errors)
        raw = io.FileIO(descriptor, "w", closefd=False)
        return io.TextIOWrapper(raw if unbuffered else io.BufferedWriter(raw), encoding, errors, "\n", line_buffering, unbuffered)

    sys.stdin = sys.__stdin__ = stream(0, "r", errors or "strict")
    sys.stdout = sys.__stdout__ = stream(1, "w", errors or "strict")
    sys.stderr = sys.__stderr__ = stream(2, "w", "backslashreplace", True)
    for made, name in ((sys.stdin, "<stdin>"), (sys.stdout, "<stdout>"), (sys.stderr, "<stderr>")):
        raw = made.buffer if isinstance(made.buffer, io.RawIOBase) else made.buffer.raw
        raw.name = name
        made.mode = "r" if made is sys.stdin else "w"


def _backend():
    """matplotlib reads this when it is imported; in a warm child it was imported long ago."""
    if "matplotlib" in sys.modules and os.environ.get("MPLBACKEND"):
        sys.modules["matplotlib"].rcParams["backend"] = os.environ["MPLBACKEND"]


def _limit(cpu_seconds):
    if cpu_seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))


def _module(name, path, argv):
    module = types.ModuleType(name)
    module.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader(name, path),
                           __builtins__=builtins, __annotations__={})
    sys.modules[name] = module
    sys.argv = list(argv)
    sys.orig_argv = [sys.executable, *argv]
    sys.displayhook, sys.excepthook = sys.__displayhook__, sys.__excepthook__
    return module


def execute(code, path, module, interactive):
    namespace = module.__dict__
    # The file may be gone or changed when a traceback or inspect wants its lines.
    linecache.cache[path] = (len(code), None, code.splitlines(keepends=True), path)
    try:
        if not interactive:
            codes, error = [compile(code, path, "exec", dont_inherit=True)], None
        else:
            codes, error = compiled(compile(code, path, "exec", ast.PyCF_ONLY_AST, True), path)
    except ValueError as refused:  # a NUL, which `python3 FILE` calls a syntax error
        raise SyntaxError(str(refused), (path, 1, 0, None)) from None
    for unit in codes:
        exec(unit, namespace)
    if error is not None:
        raise error


def _ended(work):
    """The exit status that work leaves, its traceback printed."""
    try:
        work()
        return 0
    except BaseException as error:
        raised = error
    # Outside of the handler: what a hook raises has no context.
    return _asked(raised) if isinstance(raised, SystemExit) else uncaught(raised)


def _asked(leaving):
    code = leaving.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    flush(sys.stdout)
    try:
        print(code, file=sys.stderr)
    except Exception:
        pass
    return 1


class _Interrupted(int):
    """The status of a program that died of Ctrl-C: it is told by a signal, when everything is flushed."""


def uncaught(error):
    kind, trace = type(error), without_us(error.__traceback__)
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    flush(sys.stdout)
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        _say("sys.excepthook is missing\n")
        sys.__excepthook__(kind, error, trace)
    else:
        try:
            hook(kind, error, trace)
        except SystemExit as leaving:
            return _asked(leaving)
        except BaseException as second:
            second.__traceback__ = without_us(second.__traceback__)
            _say("Error in sys.excepthook:\n")
            sys.__excepthook__(type(second), second, second.__traceback__)
            _say("\nOriginal exception was:\n")
            sys.__excepthook__(kind, error, trace)
    return _Interrupted(130) if isinstance(error, KeyboardInterrupt) else 1


def without_us(trace):
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    return trace


def _say(text):
    try:
        sys.stderr.write(text)
    except Exception:
        pass


def flush(stream):
    try:
        stream.flush()
        return True
    except Exception:
        return False


def _last_things(status):
    """What CPython does at the end, without taking the interpreter apart. The status that remains."""
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()
        except BaseException as error:
            sys.unraisablehook(_Unraisable(error, threading))
    atexit._run_exitfuncs()
    out = sys.stdout
    if out is not None and not getattr(out, "closed", False):
        try:
            out.flush()
        except BaseException as error:
            sys.unraisablehook(_Unraisable(error, out))
            status = 120
    if sys.stderr is not None and not flush(sys.stderr):
        status = 120
    if isinstance(status, _Interrupted):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return status


class _Unraisable:
    """What sys.unraisablehook wants to be given."""
    err_msg = None

    def __init__(self, error, thing):
        self.exc_type, self.exc_value, self.exc_traceback, self.object = type(error), error, without_us(error.__traceback__), thing
