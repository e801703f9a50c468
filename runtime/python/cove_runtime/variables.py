"""What the user has defined, described without running anything that the user wrote."""
import sys

from .own import builtins as __builtins__  # noqa: F401

_name_of = type.__dict__["__name__"].__get__
_module_of = type.__dict__["__module__"].__get__
_SCALARS = frozenset((int, float, bool, complex, str, bytes, bytearray, type(None), range))
_CONTAINERS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}"}
_SIZED = frozenset((str, bytes, bytearray, *_CONTAINERS))
_FUNCTIONS = frozenset(("function", "builtin_function_or_method", "module", "type"))


def listed(shell, most=500, preview_bytes=200):
    hidden, missing = shell.user_ns_hidden, object()
    found = []
    for name, value in list(shell.user_ns.items()):
        if type(name) is not str or name.startswith("_") or hidden.get(name, missing) is value:
            continue
        if len(found) == most:
            break
        found.append(_described(name, value, preview_bytes))
    return found


def _described(name, value, limit):
    kind = type(value)
    shape, size, preview = _library(value, kind, limit)
    if preview is None:
        preview = _preview(value, limit)
    if shape is None and kind in _SIZED:
        shape = [len(value)]
    if size is None and (kind in _SCALARS or kind in _CONTAINERS):
        size = sys.getsizeof(value)
    return {"name": name, "type": _name_of(kind), "module": _module(kind), "shape": shape, "size_bytes": size, "preview": _cut(preview, limit)}


def _module(kind):
    try:
        module = _module_of(kind)
    except AttributeError:
        module = None
    return module if type(module) is str else ""


def _cut(text, limit):
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[:max(limit - 3, 0)].decode("utf-8", "ignore") + "…"


def _preview(value, limit, depth=0):
    kind = type(value)
    if kind is int and value.bit_length() > 4096:
        return f"<int of {value.bit_length()} bits>"
    if kind in (str, bytes, bytearray):
        return repr(value[:limit])
    if kind in _SCALARS:
        return repr(value)
    if kind in _CONTAINERS:
        return _inside(value, kind, limit, depth)
    if kind.__class__ is type and _name_of(kind) in _FUNCTIONS and _module(kind) == "builtins":
        name = getattr(value, "__name__", "?") if kind is not type else _name_of(value)
        return f"<{_name_of(kind)} {name}>"
    return f"<{_module(kind)}.{_name_of(kind)} object>"


def _inside(value, kind, limit, depth):
    opening, closing = _CONTAINERS[kind]
    if depth == 3:
        return opening + "…" + closing
    parts, length = [], 0
    for item in value:
        if length > limit:
            parts.append("…")
            break
        part = _preview(item, limit, depth + 1)
        if kind is dict:
            part += ": " + _preview(value[item], limit, depth + 1) if type(item) in _SCALARS else ""
        parts.append(part)
        length += len(part) + 2
    if kind is tuple and len(parts) == 1:
        parts.append("")
    return opening + ", ".join(parts).rstrip(" " if kind is tuple else "") + closing


def _library(value, kind, limit):
    """(shape, bytes, preview) of what numpy and pandas define themselves; subclasses are the user's."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    try:
        if numpy is not None and kind is numpy.ndarray:
            safe = value.dtype.kind in "biufcSUmM"
            text = " ".join(numpy.array2string(value.ravel()[:20], threshold=20, max_line_width=10**6).split()) if safe else "object"
            return list(value.shape), int(value.nbytes), f"{value.dtype} {text}" + ("…" if value.size > 20 else "")
        if numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy" and kind.__name__ not in ("void", "object_"):
            return None, int(value.nbytes), repr(value.item())
        if pandas is not None and kind is pandas.DataFrame:
            names = ", ".join(str(name) if type(name) in _SCALARS else "…" for name in list(value.columns[:20]))
            return list(value.shape), int(value.memory_usage(deep=False).sum()), f"{value.shape[0]} rows × {value.shape[1]} columns: {names}"
        if pandas is not None and kind is pandas.Series:
            head = ", ".join(repr(item) if type(item) in _SCALARS else "…" for item in value.iloc[:10].tolist())
            return list(value.shape), int(value.memory_usage(deep=False)), f"{value.dtype} {head}"
    except Exception:
        pass
    return None, None, None
