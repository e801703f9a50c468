"""What went wrong in a cell, told as IPython tells it and without a frame of ours."""
import os
import traceback

from IPython.core.error import UsageError

from .own import builtins as __builtins__  # noqa: F401

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_name_of = type.__dict__["__name__"].__get__
_MOST = 1 << 18  # characters of each


def theirs(trace, codes=()):
    """The traceback from the first frame of these code objects on; no frame of ours anywhere in it."""
    start = trace
    while start is not None and start.tb_frame.f_code not in codes:
        start = start.tb_next
    frames, at = [], start if start is not None else trace
    while at is not None:
        if not at.tb_frame.f_code.co_filename.startswith(_HERE):
            frames.append(at)
        at = at.tb_next
    for frame, following in zip(frames, [*frames[1:], None]):
        frame.tb_next = following
    return frames[0] if frames else None


def content(kind, error, lines):
    """That of an `error` message. However long it is, it fits into one."""
    told, room = [], _MOST
    for line in lines or ():
        told.append(str(line)[:room])
        room -= len(told[-1])
    return {"ename": _name_of(kind)[:_MOST], "evalue": _text(error)[:_MOST], "traceback": told}


def lines(shell, kind, error, trace, only, compiled):
    """A traceback, or as much of it as there is to say. `only`: the exception alone. `compiled`: it came from running code."""
    if issubclass(kind, SyntaxError):
        return shell.SyntaxTB.structured_traceback(kind, error, traceback.extract_tb(trace) if compiled else [])
    if issubclass(kind, UsageError):
        return [f"UsageError: {error}"]
    if only:
        return shell.InteractiveTB.get_exception_only(kind, error)
    if hasattr(error, "_render_traceback_"):
        return error._render_traceback_()
    return shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset=0)


def last_words(kind, error):
    """When telling it failed too."""
    return [f"{_name_of(kind)}: {_text(error)}"]


def _text(error):
    try:
        return str(error)
    except BaseException:
        return "<this exception has no message: its __str__ failed>"
