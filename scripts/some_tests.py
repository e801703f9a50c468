"""Builds what some tests need, and runs them: those whose name or file has one of the words, and those at the paths that are given."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ["COVE_BUILD_DIR"])
sys.path.insert(0, str(ROOT / "tests" / "support"))
import source_tree  # noqa: E402


def matches(text):
    return any(word.lower() in text.lower() for word in sys.argv[1:])


def unit_tests():
    """{program: [Suite.Name, …]} of C++ tests that match."""
    found = {}
    for path in source_tree.files("_test.cpp"):
        names = [f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE)]
        chosen = names if matches(path.relative_to(ROOT).as_posix()) else [name for name in names if matches(name)]
        if chosen:
            found.setdefault(program_of(path), []).extend(chosen)
    return found


def program_of(path):
    """The test program whose list names this file."""
    place = path.parent
    while not (place / "CMakeLists.txt").exists():
        place = place.parent
    text = re.sub(r"#.*", "", (place / "CMakeLists.txt").read_text())
    for kind, name, rest in re.findall(r"(cove_room|add_executable)\(([\w-]+)([^)]*)\)", text):
        if path.relative_to(place).as_posix() in rest.split():
            return f"{name}_test" if kind == "cove_room" else name
    sys.exit(f"test: no program is made of {path.relative_to(ROOT)}")


def python_tests():
    """What to give pytest: files that match as a whole, paths, and tests of other files."""
    whole, single = [word for word in sys.argv[1:] if (ROOT / word.split("::")[0]).exists()], []
    for path in source_tree.files(".py", below=ROOT / "tests"):
        name = path.relative_to(ROOT).as_posix()
        if not path.name.startswith("test_") or any(name == word or name.startswith(word.rstrip("/") + "/") for word in whole):
            continue
        if matches(name):
            whole.append(name)
        else:
            single += [f"{name}::{test}" for test in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE) if matches(test)]
    return [word for word in whole if word.startswith("tests/") and "_test.cpp" not in word] + single


def run(*command):
    return subprocess.run(command, cwd=ROOT).returncode


units, scripts = unit_tests(), python_tests()
if not units and not scripts:
    sys.exit(f"test: no test has {' or '.join(sys.argv[1:])} in its name or file")
targets = sorted(units)
if any(not name.startswith("tests/house") for name in scripts):
    targets.append("cove")
if any("testlocks" in (ROOT / name.split("::")[0]).read_text() for name in scripts if name.split("::")[0].endswith(".py")):
    targets.append("cove-testlocks")
if any("client_program" in (ROOT / name.split("::")[0]).read_text() for name in scripts if name.split("::")[0].endswith(".py")):
    targets.append("cove-mcp-client")
status = run("scripts/build", "release", *targets) if targets else 0
if status == 0 and any("mcp" in name or name.rstrip("/") in ("tests", "tests/contract") for name in scripts):
    status = run("scripts/clients")
if status == 0 and units:
    wanted = "|".join(re.escape(name) for names in units.values() for name in names)
    status = run("ctest", "--test-dir", str(BUILD), "--output-on-failure", "-R", rf"(^|/)({wanted})(/\d+)?$")
if status == 0 and scripts:
    status = run("/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *scripts)
sys.exit(status)
