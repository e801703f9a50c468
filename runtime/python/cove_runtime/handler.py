"""A function that is called once: `handler(event)`, or `handler(event, context)`. What came of it is one message; its output is the process's own."""
import inspect
import json
import sys
import traceback
import types
import uuid

from .channel import LARGEST, decode, started
from .own import builtins as __builtins__  # noqa: F401
from .program import execute, flush, settled, without_us

_PATH = "/workspace/handler.py"  # what tracebacks call it; there is no such file
LOAD_ERROR, HANDLER_ERROR, TOO_LARGE, SYSTEM_ERROR = 1, 2, 3, 6


class Context:
    """What such handlers are told about their call. Nothing follows from it."""

    def __init__(self, given):
        self.function_name = "unknown-function"
        self.function_version = "$LATEST"
        self.request_id = str(uuid.uuid4())
        self.log_group_name = "/lambda-sandbox/logs"
        self.log_stream_name = str(uuid.uuid4())
        self.remaining_time_in_millis = 3000
        self.memory_limit_in_mb = 256
        self.invoked_function_arn = None
        for name, value in given.items():
            if name not in self.__dict__:
                raise TypeError(f"context has no '{name}'")
            setattr(self, name, value)

    def get_remaining_time_in_millis(self):
        return self.remaining_time_in_millis


def run(begin, channel, leave):
    """Never returns: the process ends with the call, by leave(0); what it left running ends with it."""
    module = settled(begin, "handler", _PATH, [_PATH])
    channel.send(started())
    status, result = _called(begin, module)
    flush(sys.stdout)
    flush(sys.stderr)
    try:
        channel.send('{"type":"result","exit_code":%d,"result":%s}' % (status, result))
    except OSError:  # closed by the code, whose word this is
        pass
    leave(0)


def _called(begin, module):
    """(exit code, JSON text of the result)"""
    code = (begin.get("code") or "").removeprefix("\ufeff")
    try:
        compile(code, _PATH, "exec", dont_inherit=True)
        context = Context(decode(begin.get("context") or "{}"))
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        return _refused(error)
    try:
        execute(code, _PATH, module, False)
    except BaseException as error:
        _shown(error)
        return LOAD_ERROR if isinstance(error, ValueError) else HANDLER_ERROR, "null"
    function = module.__dict__.get("handler")
    if not callable(function):
        return _refused("the code defines no handler(event)")
    try:
        event = decode(begin.get("event") or "{}")
        value = function(event, context) if _wants_context(function) else function(event)
        result = json.dumps(value, ensure_ascii=False)
        if len(result) >= LARGEST:
            print("System error: the handler ended without a result of at most 4 MiB", file=sys.stderr)
            return TOO_LARGE, "null"
        return 0, result
    except BaseException as error:
        _shown(error)
        return HANDLER_ERROR, "null"


def _shown(error):
    """Its traceback, with the lines of a file that is none."""
    error.__traceback__ = without_us(error.__traceback__)
    traceback.print_exception(error)


def _refused(why):
    print(f"System error: {why}", file=sys.stderr)
    return SYSTEM_ERROR, "null"


def _wants_context(function):
    """Whether it has a second parameter that only the context can be meant for."""
    if type(function) is types.FunctionType and not function.__dict__:  # as most are; a signature takes a millisecond in a new child
        code, defaults = function.__code__, function.__defaults__ or ()
        return code.co_argcount > 1 and (code.co_argcount - len(defaults) > 1 or code.co_varnames[1] == "context")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == "context")
