"""Every header of a room compiles alone: it includes what it needs of ours. The precompiled header stands in for others' headers, so that this takes
a minute; `make headers` does without it."""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess

import pytest
import source_tree
from conftest import BUILD
from source_tree import SRC


def flags():
    """{room: what its sources are compiled with}"""
    commands = BUILD / "compile_commands.json"
    if not commands.exists():
        pytest.fail(f"{BUILD} is not configured: scripts/build release")
    found = {}
    for entry in json.loads(commands.read_text()):
        library = re.search(r"CMakeFiles/cove_(\w+)\.dir/", entry["command"])
        if library and library[1] in source_tree.rooms() and entry["file"].endswith((".cpp", ".cxx")):  # .cxx: several sources of the room
            words = shlex.split(entry["command"])
            found[library[1]] = (entry["directory"], words[:words.index("-o")])
    return found


def complaints(header, room_flags):
    directory, words = room_flags
    unit = f'#include "{header.relative_to(SRC).as_posix()}"\n#include "{header.relative_to(SRC).as_posix()}"\n'  # twice: it must bear that too
    run = subprocess.run([*words, "-fsyntax-only", "-Wno-unused-command-line-argument", "-x", "c++", "-"], cwd=directory, input=unit, capture_output=True, text=True)
    return run.stderr if run.returncode != 0 else ""


def test_every_header_compiles_alone():
    known = flags()
    headers = [(header, known[room.name]) for room in source_tree.rooms().values() for header in room.headers]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [said for said in pool.map(lambda pair: complaints(*pair), headers) if said]
    assert wrong == [], "\n".join(wrong)[:4000]
