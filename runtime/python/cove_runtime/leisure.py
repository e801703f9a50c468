"""What a child of a warm parent does while nobody asks for it: goes the usual ways once, so that the pages they write to are its own already."""
import sys

_PATIENCE = 5  # ms: where everybody is in a hurry somebody has asked by then; any other waits, and has the time
_QUIET = 100  # ms: one that is not asked for within these is of a pool that nobody is in a hurry for

_PANDAS = (
    "import numpy, pandas",
    "frame = pandas.DataFrame({'a': numpy.arange(3.0), 'b': ['x', 'y', 'z']})",
    "described = frame.describe()",
    "str(described)",
)


def stretch(usual, asked):
    """asked(ms): whether somebody asks within so many milliseconds. Whoever does waits for one step at the most: usual() is the first."""
    if asked(_PATIENCE):
        return
    usual()
    _describe(asked)


def _describe(asked):
    if "pandas" not in sys.modules or asked(_QUIET):
        return
    names = {}
    for step in _PANDAS:
        if asked(0):
            return
        exec(step, names)
