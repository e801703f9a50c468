"""A process of the runtime that was not forked from a warm one: `python3 -I -B cold.py`, the channel on descriptor 3."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
from cove_runtime.main import live  # noqa: E402

sys.path.remove(here)  # the user's imports never look here
live(3)
