"""Words that are no commands, and the help."""
import re

import pytest
from conftest import cove


@pytest.mark.parametrize("words, meant", [
    (["list"], "cove ls"), (["creat"], "cove create"), (["exce", "x"], "cove exec"), (["kernel", "list", "w"], "cove kernel ls"), (["template", "ls"], "cove template list"),
    (["key", "ls"], "cove key list"), (["delete", "x"], "cove rm"), (["executions", "show"], "cove executions get"),
], ids=" ".join)
def test_a_word_that_is_no_command_is_answered_with_the_one_that_is_meant(words, meant):
    run = cove(*words)
    assert run.status in (2, 125) and run.out == ""
    assert re.match(rf"cove: there is no command 'cove .*'; did you mean {meant}\? \(see cove.* --help\)\n", run.err), run.err


def test_a_word_that_is_like_nothing_is_told_as_such():
    run = cove("xyzzyplugh")
    assert run.status == 125 and run.err == "cove: there is no command 'cove xyzzyplugh' (see cove --help)\n"


def test_cove_alone_and_a_group_alone_print_their_help():
    assert cove().status == 0 and cove().out == cove("--help").out and cove().err == ""
    assert cove("kernel").status == 0 and cove("kernel").out == cove("kernel", "--help").out


def test_help_and_version_are_commands_too():
    assert cove("help").out == cove("--help").out
    assert cove("help", "kernel", "exec").out == cove("kernel", "exec", "--help").out
    assert cove("help", "noxrc").out == cove("noxrc", "--help").out != ""
    assert cove("version").out == cove("--version").out != ""


def test_the_help_has_groups_with_every_command_in_one():
    text = cove("--help").out
    titles = re.findall(r"^([A-Z].*):$", text, re.M)
    assert titles.index("Run") < titles.index("Sandboxes") < titles.index("Servers and keys") < titles.index("Compatibility") and "More" not in titles
    first = re.search(r"^Run:\n((?:  .*\n)+)", text, re.M)[1]
    assert [line.split()[0] for line in first.splitlines() if re.match(r"  [a-z]", line)] == ["run", "create", "exec", "shell", "cp", "rm"]
