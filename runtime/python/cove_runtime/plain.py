"""Values of tables, charts and variables as JSON, without running anything that the user wrote."""
import datetime
import decimal
import math
import sys

from .own import builtins as __builtins__  # noqa: F401

_KNOWN = frozenset((str, int, bool, type(None)))


def plain(value, longest=1000):
    """Numbers as numbers, times in ISO form, null for what is missing; anything unknown by the name of its class."""
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is str:
        return value if len(value) <= longest else value[:longest] + "…"
    if kind is int:
        return value if -2**63 <= value < 2**64 else float(value) if value.bit_length() < 1000 else None
    if kind in _KNOWN:
        return value
    if kind in (datetime.datetime, datetime.date, datetime.time):
        return value.isoformat()
    if kind in (datetime.timedelta, decimal.Decimal, complex, bytes):
        return str(value)[:longest]
    return _of_library(value, kind, longest)


def _of_library(value, kind, longest):
    library = kind.__module__ if isinstance(kind.__module__, str) else ""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is not None and library == "numpy" and issubclass(kind, numpy.generic):
        if issubclass(kind, (numpy.datetime64, numpy.timedelta64)):
            return None if numpy.isnat(value) else str(value)
        return plain(value.item(), longest) if not issubclass(kind, (numpy.void, numpy.longdouble)) else str(value)[:longest]
    if pandas is not None and library.startswith("pandas."):
        if value is pandas.NaT or value is pandas.NA:
            return None
        if issubclass(kind, pandas.Timestamp):
            return value.isoformat()
        if issubclass(kind, (pandas.Timedelta, pandas.Period, pandas.Interval)):
            return str(value)
    return f"<{library}.{kind.__qualname__}>"
