"""What is shown: MIME bundles that are JSON and nothing else, and messages made of them."""
import base64
import math
import re

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter

from . import charts, tables
from .channel import encode
from .own import builtins as __builtins__  # noqa: F401

_b64encode = base64.b64encode
_MIME = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}(?:; ?[\w.=+-]{1,127})?").fullmatch
_REFUSED = (TypeError, ValueError, RecursionError, OverflowError)


def clean(data):
    """Of a bundle what can be sent: text, base64 of bytes, JSON."""
    sound = {}
    for kind, value in data.items():
        if not isinstance(kind, str) or not _MIME(kind) or value is None:
            continue
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = _b64encode(bytes(value)).decode("ascii")
        elif not isinstance(value, str):
            value = json_value(value, missing=_NOTHING)
            if value is _NOTHING:
                continue
        sound[kind] = value
    return sound


_NOTHING = object()
DEPTH = 64  # of JSON: parsers set themselves limits


def json_value(value, missing=None):
    """The value when it is JSON, with null for what is no number; `missing` when it is not."""
    try:
        value = _sound(value, DEPTH)
        encode(value)
        return value
    except _REFUSED:
        return missing


def _sound(value, depth):
    if depth == 0:
        raise ValueError("too deep")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _sound(held, depth - 1) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sound(held, depth - 1) for held in value]
    return value


class Publisher(DisplayPublisher):
    """display()."""
    outlet = None

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        self._validate_data(data, metadata)
        self.outlet.send("update_display_data" if update else "display_data", {
            "data": clean(data), "metadata": json_value(metadata or {}, {}), "transient": json_value(transient or {}, {})})

    def clear_output(self, wait=False):
        self.outlet.send("clear_output", {"wait": bool(wait)})


class Hook(DisplayHook):
    """The value of a cell."""
    outlet = None
    exec_result = None  # plain, where IPython has a trait: every cell sets it twice

    def quiet(self):
        history = self.shell.history_manager.input_hist_parsed
        return bool(history) and ";" in history[-1] and super().quiet()

    def __call__(self, result=None):
        if result is None:
            return
        self.check_for_underscore()
        if self.quiet():
            return
        data, metadata = self.shell.display_formatter.format(result)
        self.update_user_ns(result)
        self.fill_exec_result(result)
        if data:
            self.outlet.send("execute_result", {
                "execution_count": self.shell.execution_count, "data": clean(data), "metadata": json_value(metadata, {})})
            self.log_output(data)


_SIMPLE = frozenset((int, float, bool, str, bytes, complex))


class Formatter(DisplayFormatter):
    """IPython's, with data beside the pictures: tables and charts."""
    shown = None  # called with everything that was shown

    def __init__(self, **options):
        super().__init__(**options)
        self._usual = dict(self.formatters["text/plain"].type_printers)
        self._rich = [formatter for kind, formatter in self.formatters.items() if kind != "text/plain"]

    def format(self, obj, include=None, exclude=None):
        kind = type(obj)
        if kind in _SIMPLE and not include and not exclude and self._is_plain(kind):
            try:
                return {"text/plain": repr(obj)}, {}
            except ValueError:  # an int with too many digits
                pass
        data, metadata = super().format(obj, include, exclude)
        if data:
            if include is None and exclude is None:
                tables.add(obj, data)
                charts.add(obj, data)
            if self.shown is not None:
                self.shown(obj)
        return data, metadata

    def _is_plain(self, kind):
        """Nobody has said how such values are to be shown."""
        plain = self.formatters["text/plain"]
        if plain.type_printers.get(kind) is not self._usual.get(kind) or (kind is float and plain.float_format != "%r"):
            return False
        return not any(kind in formatter.type_printers for formatter in self._rich)
