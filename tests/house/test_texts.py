"""What the documents say of the tree: links, lists of files, names of tests."""
import functools
import re

import pytest
import source_tree
from source_tree import ROOT, SRC, name_of

DOCUMENTS = [path for path in source_tree.files(".md") if not path.name.startswith(".")]
FOLDERS = sorted(source_tree.folders())
FILE_NAME = re.compile(r"[\w/-]+\.(?:cpp|hpp)")


def code_in(text):
    """What stands between backticks."""
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files(document):
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    relative = [link.split("#")[0] for link in links if not re.match(r"\w+:|#", link)]
    assert [link for link in relative if not (document.parent / link).exists()] == []


def nouns(folder):
    """Stems of its headers, and of sources without one."""
    place = source_tree.folders()[folder]
    inner = {other for other in source_tree.folders().values() if place in other.parents}
    files = [path for path in source_tree.files(".cpp", ".hpp", below=place) if not inner & set(path.parents)]
    return {path.stem for path in files if not source_tree.is_test(path) and not path.name.startswith("test_")} - {"main"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_readme_of_a_room_names_every_header_and_source(folder):
    said = {word for code in code_in((source_tree.folders()[folder] / "README.md").read_text()) for word in re.findall(r"\w+", code)}
    assert sorted(nouns(folder) - said) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_readme_of_a_room_names_no_file_that_is_not_there(folder):
    place = source_tree.folders()[folder]
    named = {name for code in code_in((place / "README.md").read_text()) for name in FILE_NAME.findall(code)}
    assert sorted(name for name in named if not any((base / name).exists() for base in (place, SRC, ROOT))) == []


# --- tests that documents name as proof

PROOFS = [ROOT / "docs" / name for name in ("attacks.md", "limits.md", "promises.md")]


@functools.cache
def functions():
    """Every Python test function, and every C++ test as Suite.Name."""
    found = set()
    for path in source_tree.files(".py", below=ROOT / "tests"):
        found.update(re.findall(r"def (test_\w+)", path.read_text()))
    for path in source_tree.files("_test.cpp"):
        found.update(f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE))
    return found


def exists(proof):
    """Whether what a document names as proof is there: a path, perhaps with *, or a test, perhaps cut short by …"""
    if "/" in proof:
        return any(ROOT.glob(proof.split("::")[0]))
    if proof.endswith("…"):
        return any(name.startswith(proof[:-1]) for name in functions())
    return proof in functions()


@pytest.mark.parametrize("document", PROOFS, ids=name_of)
def test_tests_that_a_document_names_exist(document):
    text = document.read_text()
    proofs = [code for code in code_in(text) if re.match(r"(tests|src|scripts)/|test_\w|[A-Z]\w+\.[A-Z]\w+$", code)]
    assert proofs, "this document names no test"
    assert sorted({proof for proof in proofs if not exists(proof)}) == []


# --- the corpus of docs/attacks.md

NO_TEST = "no test of its own"
ATTACK_ID = re.compile(r"(?<![A-Za-z])((?:FS|PR|NS|SC|SG|RX|XT|NW|AP|AR|KP|ZY|SE|AU|MC|BK|R)_\d\d)(?=_)")


def corpus():
    """{id: the test column of its row}"""
    return dict(re.findall(r"^\| ([A-Z]+-\d\d) \|[^|\n]*\| ([^|\n]*) \|$", (ROOT / "docs" / "attacks.md").read_text(), re.MULTILINE))


@functools.cache
def named_tests():
    """{id: files with a test that has the id in its name}"""
    found = {}
    for path in source_tree.files(".py", below=ROOT / "tests"):
        for name in re.findall(r"def (test_\w+)", path.read_text()):
            for attack in ATTACK_ID.findall(name.replace("test_", "", 1)):
                found.setdefault(attack.replace("_", "-"), set()).add(name_of(path))
    return found


def test_every_attack_id_of_a_test_is_in_the_corpus():
    assert sorted(named_tests().keys() - corpus().keys()) == []


def test_the_corpus_names_the_files_that_test_an_attack():
    wrong = {attack: sorted(files) for attack, files in named_tests().items() if set(code_in(corpus()[attack])) != files}
    assert wrong == {}


def test_an_attack_without_a_test_is_said_to_have_none():
    wrong = [attack for attack, column in corpus().items() if attack not in named_tests() and column != NO_TEST
             and not all(exists(proof) and attack in (ROOT / proof).read_text() or proof == "scripts/fuzz" for proof in code_in(column))]
    assert wrong == [] and all(code_in(column) or column == NO_TEST for column in corpus().values())
