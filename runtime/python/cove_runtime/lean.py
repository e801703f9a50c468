"""Imports IPython without its terminal and without jedi: half the modules, half the memory, none of them used here.

Memory counts twice: every page of a warm parent is gone through when it forks and again when the child ends."""
import atexit
import io
import sys
import types


def _embed(*args, **kwargs):
    from IPython.terminal.embed import embed
    return embed(*args, **kwargs)


if "IPython" not in sys.modules:
    _stand_in = types.ModuleType("IPython.terminal.embed")
    _stand_in.embed = _embed
    _missing = {"IPython.terminal.embed": _stand_in, "jedi": None}
    _missing = {name: module for name, module in _missing.items() if name not in sys.modules}
    sys.modules.update(_missing)
    try:
        import IPython.core.completer
        import IPython.core.interactiveshell  # noqa: F401
    finally:
        for _name in _missing:
            del sys.modules[_name]


class _Null(io.TextIOBase):
    def write(self, text):
        return len(text)


# It opens /dev/null for the life of the process. In a child of a warm parent that number may be another file.
_streams = sys.modules.get("IPython.utils.io")
if isinstance(getattr(_streams, "devnull", None), io.TextIOWrapper):
    atexit.unregister(_streams.devnull.close)
    _streams.devnull.close()
    _streams.devnull = _Null()
