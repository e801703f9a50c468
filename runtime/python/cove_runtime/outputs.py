"""Variables that a program is asked for at its end."""
import json

from .channel import quoted
from .own import builtins as __builtins__  # noqa: F401


def told(names, namespace):
    """Those that are there, as one JSON object. What JSON cannot carry is told by its str()."""
    return "{" + ",".join(f"{quoted(name)}:{_json_of(namespace[name])}" for name in dict.fromkeys(names) if name in namespace) + "}"


def _json_of(value):
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return quoted(str(value))
