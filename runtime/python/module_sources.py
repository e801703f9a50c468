"""The sources of modules, as JSON: `python3 -I -B module_sources.py NAME…`. Modules are found as the sandbox's programs find
them. None is imported, unless its name leads through a module that is no package (`os.path`) or through a finder that needs
its parent."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
from cove_runtime import birth  # noqa: E402

sys.path.remove(here)  # the user's imports never look here
import importlib  # noqa: E402
import importlib.machinery  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import tokenize  # noqa: E402


def find(name):
    """The spec of a module, without running any code of it or of its parents; None when that does not find it."""
    path = None
    spec = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        if count > 1 and path is None:
            return None  # the parent is no package
        part = ".".join(parts[:count])
        spec = None
        for finder in sys.meta_path:
            # The frozen modules have files too, which are what is looked for.
            if finder is importlib.machinery.FrozenImporter or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(part, path)
            if spec is not None:
                break
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def text_of(path):
    """The text of a source file as it is; nothing for what is no text."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        return data.decode(encoding)
    except (OSError, SyntaxError, UnicodeDecodeError, LookupError):
        return ""


def source_at(origin, loader, name):
    if origin.endswith(".py") and os.path.isfile(origin):
        return text_of(origin)
    if isinstance(loader, (importlib.machinery.ExtensionFileLoader, importlib.machinery.SourcelessFileLoader)):
        return ""
    try:
        return loader.get_source(name) or ""  # in an archive
    except Exception:  # noqa: BLE001: a loader of the user's may do anything
        return ""


def source_of(name):
    """The module's own name and its source; None when there is no such module, or one without a file."""
    spec = find(name) if all(name.split(".")) else None
    if spec is not None:
        return (spec.name, source_at(spec.origin, spec.loader, name)) if spec.has_location and spec.origin else None
    try:
        module = importlib.import_module(name)
    except BaseException:  # noqa: B036: also SystemExit, and whatever else its code raises
        return None
    origin = getattr(module, "__file__", None)
    if not isinstance(origin, str) or not isinstance(module.__name__, str):
        return None
    return module.__name__, source_at(origin, getattr(module, "__loader__", None), module.__name__)


def main(names):
    answer = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what imports print is no part of the answer
    birth.search_path(os.getcwd())
    sources = {}
    for name in names:
        found = source_of(name)
        if found is None:
            json.dump({"missing": name}, answer)
            break
        sources[found[0]] = found[1]
    else:
        json.dump({"sources": sources}, answer)
    answer.close()
    os._exit(0)  # threads of what was imported end here


if __name__ == "__main__":
    main(sys.argv[1:])
