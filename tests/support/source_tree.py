"""The source tree as data: rooms, the files in each, what they include and what they link. Needs neither git nor a build."""
import functools
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
BUILT = re.compile(r"build(-\w+)?|\.git|node_modules|__pycache__|\.\w*cache|\.venv")  # folders that hold nothing of ours


def files(*endings, below=ROOT):
    """Every file of ours with one of these endings, sorted."""
    found = []
    for folder, folders, names in os.walk(below):
        folders[:] = [name for name in folders if not BUILT.fullmatch(name)]
        found += [pathlib.Path(folder, name) for name in names if name.endswith(endings)]
    return sorted(found)


def name_of(path):
    """As a message should name it: from the root of the checkout."""
    return path.relative_to(ROOT).as_posix()


def is_test(path):
    return path.name.endswith("_test.cpp") or "tests" in path.relative_to(ROOT).parts


class Room:
    """One cove_room(…) call: a library and the files it is made of."""

    def __init__(self, name, folder, sources, headers, links, private_links):
        self.name, self.folder = name, folder
        self.sources = [folder / source for source in sources]
        self.headers = [folder / header for header in headers]
        self.public, self.private = rooms_among(links), rooms_among(private_links)

    @property
    def links(self):
        return self.public | self.private

    def __repr__(self):
        return self.name


def rooms_among(words):
    return {word.removeprefix("cove::") for word in words if word.startswith("cove::")}


KEYWORDS = ("SOURCES", "HEADERS", "LINKS", "PRIVATE_LINKS", "APART", "TESTS")


def parse(cmake):
    """The rooms of one CMakeLists.txt. Variables that it sets itself are replaced; others are of other people's libraries."""
    text = re.sub(r"#.*", "", cmake.read_text())
    variables = {name: value.split() for name, value in re.findall(r"^\s*set\((\w+)\s+([^)]*)\)", text, re.MULTILINE)}
    for call in re.findall(r"^\s*cove_room\(([^)]*)\)", text, re.MULTILINE):
        name, *words = call.split()
        lists, current = {keyword: [] for keyword in KEYWORDS}, None
        for word in words:
            if word in lists:
                current = word
            elif word.startswith("${"):
                lists[current] += variables.get(word[2:-1], [])
            else:
                lists[current].append(word)
        yield Room(name, cmake.parent, lists["SOURCES"], lists["HEADERS"], lists["LINKS"], lists["PRIVATE_LINKS"])


@functools.cache
def rooms():
    """{name: Room}"""
    found = [room for cmake in files("CMakeLists.txt", below=SRC) for room in parse(cmake)]
    named = {room.name: room for room in found}
    for room in found:  # what is no room (cove::fmt, cove::warnings) is somebody else's library
        room.public &= named.keys()
        room.private &= named.keys()
    return named


@functools.cache
def owner():
    """{"sandbox/outcome.hpp": the name of the room whose header it is}"""
    return {header.relative_to(SRC).as_posix(): room.name for room in rooms().values() for header in room.headers}


@functools.cache
def folders():
    """Every folder below src with a CMakeLists.txt, as "doors/mcp": those of rooms, and those of programs."""
    return {cmake.parent.relative_to(SRC).as_posix(): cmake.parent for cmake in files("CMakeLists.txt", below=SRC)}


def folder_of(room_name):
    return rooms()[room_name].folder.relative_to(SRC).as_posix()


def included_paths(path):
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)


def included_rooms(paths):
    """{room: one file that includes a header of it}"""
    found = {}
    for path in paths:
        for include in included_paths(path):
            if include in owner():
                found.setdefault(owner()[include], path)
    return found


def publicly_reached(names):
    """These rooms and all whose headers come with theirs."""
    reached, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += rooms()[name].public
    return reached
