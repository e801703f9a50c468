"""The rule of rooms: what a room includes is what it links, and what the table of docs/ARCHITECTURE.md says of it."""
import re

import pytest
import source_tree
from source_tree import SRC, name_of, rooms

EVERY_ROOM = sorted(rooms())
EVERY_FOLDER = sorted(source_tree.folders())


@pytest.fixture(params=EVERY_ROOM)
def room(request):
    return rooms()[request.param]


@pytest.fixture(params=EVERY_FOLDER)
def folder(request):
    return request.param


def table():
    """{"doors/mcp": the rooms that its row names}; what is no room is somebody else's library. Programs may say `everything`."""
    text = (source_tree.ROOT / "docs" / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `([\w/]+)` \|[^|\n]*\|([^|\n]*)\|$", text, re.MULTILINE)
    return {name: {word.strip() for word in touched.split(",")} for name, touched in rows}


def test_every_folder_below_src_with_sources_has_a_cmake_list():
    with_sources = {path.parent for path in source_tree.files(".cpp", ".hpp", below=SRC)}
    listed = set(source_tree.folders().values())
    assert [name_of(place) for place in sorted(with_sources) if not listed & {place, *place.parents}] == []


def test_every_source_and_header_is_named_in_its_cmake_list(folder):
    place = source_tree.folders()[folder]
    words = set(re.findall(r"[\w./-]+", (place / "CMakeLists.txt").read_text()))
    files = source_tree.files(".cpp", ".hpp", below=place)
    inner = [other for other in source_tree.folders().values() if place in other.parents]
    files = [path for path in files if not set(inner) & set(path.parents)]
    if folder not in {source_tree.folder_of(name) for name in rooms()}:
        files = [path for path in files if path.suffix == ".cpp"]  # a program lists no headers
    unbuilt = [path for path in files if path.relative_to(place).as_posix() not in words and not used_elsewhere(path) and not of_tests(path)]
    assert [name_of(path) for path in unbuilt] == []


def used_elsewhere(path):
    """Whether a list outside of its folder compiles it."""
    return any(path.relative_to(source_tree.ROOT).as_posix() in cmake.read_text() for cmake in (source_tree.ROOT / "cmake").glob("*.cmake"))


def of_tests(header):
    """Whether only tests include it."""
    name = header.relative_to(SRC).as_posix()
    users = [path for path in source_tree.files(".cpp", ".hpp") if name in source_tree.included_paths(path)]
    return bool(users) and all(map(source_tree.is_test, users))


def test_a_room_links_the_rooms_it_includes(room):
    included = source_tree.included_rooms(room.sources + room.headers)
    reached = source_tree.publicly_reached(room.links) | {room.name}
    assert {other: name_of(path) for other, path in included.items() if other not in reached} == {}, "included, and neither linked nor linked by a linked room"


def test_the_headers_of_a_room_include_only_what_it_links_publicly(room):
    included = source_tree.included_rooms(room.headers)
    reached = source_tree.publicly_reached(room.public) | {room.name}
    assert {other: name_of(path) for other, path in included.items() if other not in reached} == {}, "included by a header, but a private link"


def test_a_room_includes_the_rooms_it_links(room):
    included = source_tree.included_rooms(room.sources + room.headers)
    assert sorted(room.links - included.keys()) == [], "linked, and never included"


def test_includes_name_files_from_the_top_of_src(folder):
    place = source_tree.folders()[folder]
    wrong = [f"{name_of(path)}: {include}" for path in source_tree.files(".cpp", ".hpp", below=place) for include in source_tree.included_paths(path)
             if include.endswith(".hpp") and not (SRC / include).exists()]
    assert wrong == []


def test_rooms_depend_on_each_other_in_one_direction():
    waiting = {room.name: set(room.links) for room in rooms().values()}
    while free := {name for name, links in waiting.items() if not links & waiting.keys()}:
        for name in free:
            del waiting[name]
    assert waiting == {}, "these rooms depend on each other in a circle"


def test_the_architecture_page_has_a_row_for_every_folder_and_no_other():
    assert sorted(table()) == EVERY_FOLDER


def test_the_row_of_a_folder_names_what_it_links(folder):
    named = table()[folder]
    own = [room for room in rooms().values() if source_tree.folder_of(room.name) == folder]
    if own:
        linked = {source_tree.folder_of(other) for room in own for other in room.links}
    elif "everything" in named:
        return
    else:  # a program: it compiles what it needs
        linked = {source_tree.folder_of(other) for other in source_tree.included_rooms(source_tree.files(".cpp", ".hpp", below=source_tree.folders()[folder]))}
    every = {source_tree.folder_of(name) for name in rooms()}
    assert sorted(named & every) == sorted(linked - {folder})
