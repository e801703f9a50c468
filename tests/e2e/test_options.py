"""The command line: spellings that are understood, and refusals that name the option and the way out."""
import os
import subprocess

import pytest
from conftest import COVE, PATIENCE, cove, run_json

SIZES = [("67108864", 67108864), ("64M", 64 << 20), ("64m", 64 << 20), ("64Mi", 64 << 20), ("64MiB", 64 << 20), ("64MB", 64 << 20), ("65536K", 64 << 20), ("1G", 1 << 30), ("1Gi", 1 << 30), ("0.5G", 512 << 20), ("1.5Gi", 1536 << 20)]
DURATIONS = [("500ms", 500), ("2s", 2000), ("2", 2000), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), ("1h30m", 5_400_000), ("1m500ms", 60_500)]


@pytest.mark.parametrize("text, size", SIZES)
def test_a_size_is_understood(text, size):
    assert run_json("--memory", text, "--", "true").result["limits"]["memory_bytes"] == size


@pytest.mark.parametrize("text, milliseconds", DURATIONS)
def test_a_duration_is_understood(text, milliseconds):
    assert run_json("--timeout", text, "--", "true").result["limits"]["timeout_ms"] == milliseconds


@pytest.mark.parametrize("text, cpus", [("1", 1), ("0.5", 0.5), ("2", 2), ("0.25", 0.25), ("1.5", 1.5)])
def test_a_number_of_cores_is_understood(text, cpus):
    assert run_json("--cpus", text, "--", "true").result["limits"]["cpus"] == cpus


def test_the_defaults_are_the_documented_ones():
    limits = run_json("--", "true").result["limits"]
    assert limits == {"timeout_ms": 30_000, "memory_bytes": 1 << 30, "cpus": 1, "pids": 256, "disk_bytes": 512 << 20, "inodes": limits["inodes"], "output_bytes": 1 << 20}


@pytest.mark.parametrize("memory, disk", [("64M", 32 << 20), ("4G", 2 << 30)])
def test_the_disk_limit_follows_the_memory_limit(memory, disk):
    assert run_json("--memory", memory, "--", "true").result["limits"]["disk_bytes"] == disk


def test_an_option_may_be_written_with_an_equals_sign():
    assert run_json("--memory=64M", "--timeout=2s", "--", "true").result["limits"]["memory_bytes"] == 64 << 20


REFUSED = [
    ("--memory", "lots"), ("--memory", ""), ("--memory", "-1"), ("--memory", "1X"), ("--memory", "1K"), ("--memory", "1e9"), ("--memory", "64 M"), ("--memory", "999999999999G"), ("--memory", "0x10000000"),
    ("--timeout", "soon"), ("--timeout", ""), ("--timeout", "0"), ("--timeout", "-5s"), ("--timeout", "5y"), ("--timeout", "nan"), ("--timeout", "1000d"),
    ("--cpus", "many"), ("--cpus", "0"), ("--cpus", "-1"), ("--cpus", "nan"), ("--cpus", "inf"), ("--cpus", "99999"), ("--cpus", "1,5"),
    ("--pids", "0"), ("--pids", "1"), ("--pids", "-3"), ("--pids", "few"), ("--pids", "1.5"), ("--pids", "99999999999"),
    ("--disk", "none"), ("--disk", "0"), ("--disk", "-1M"),
    ("--output-limit", "huge"), ("--output-limit", "-1"),
    ("--env", "NOVALUE"), ("--env", "=x"), ("--env", "1A=x"), ("--env", "A B=x"), ("--env", "A-B=x"), ("--env", "Ä=x"),
    ("--workdir", "relative"), ("--workdir", ""),
    ("--net", "full"), ("--net", "host"), ("--net", ""), ("--template", "ubuntu"),
    ("--out", "x"),
]


@pytest.mark.parametrize("option, value", REFUSED)
def test_a_value_that_cannot_be_is_refused_naming_the_option(option, value):
    run = cove("run", f"{option}={value}", "--", "echo", "ran")
    assert (run.status, run.stdout) == (125, b"")
    assert option in run.err


def test_a_disk_limit_above_memory_is_refused_with_advice():
    run = cove("run", "--memory", "128M", "--disk", "128M", "--", "true")
    assert run.status == 125
    assert "--disk" in run.err and "raise --memory" in run.err


def test_a_network_other_than_none_is_refused_naming_what_there_is():
    run = cove("run", "--net", "full", "--", "true")
    assert run.status == 125
    assert "--net" in run.err and "none" in run.err


@pytest.mark.parametrize("arguments", [
    ["run", "--no-such-option", "--", "true"], ["run", "--memry", "64M", "-c", "print(1)"], ["run", "--memry=64M", "--", "echo", "ran"],
], ids=" ".join)
def test_an_option_that_does_not_exist_is_refused_as_such(arguments):
    run = cove(*arguments)
    assert (run.status, run.stdout) == (125, b"")
    assert arguments[1].split("=")[0] in run.err and "no such file" not in run.err


@pytest.mark.parametrize("arguments", [["run"], ["run", "--"], ["run", "--json"], ["no-such-subcommand"]], ids=" ".join)
def test_nothing_to_run_is_refused_with_a_hint(arguments):
    run = cove(*arguments)
    assert run.status == 125
    assert "--help" in run.err or "-c" in run.err


@pytest.mark.parametrize("arguments", [["-c", "print(1)", "--lang", "nonesuch"], ["--lang", "nonesuch", "-"]], ids=["-c", "-"])
def test_an_unknown_language_is_refused_with_those_there_are(arguments):
    run = cove("run", *arguments, stdin=b"x")
    assert run.status == 125
    for name in ["nonesuch", "bash", "clojure", "fish", "groovy", "java", "javascript", "kotlin", "lua", "perl", "php", "python", "ruby", "scala", "sh", "typescript", "zsh"]:
        assert name in run.err


def test_a_language_makes_no_sense_with_a_command():
    assert cove("run", "--lang", "python", "--", "true").status == 125


def test_help_and_version_are_no_errors():
    assert cove("--version").stdout.startswith(b"cove ")
    shown = cove("run", "--help")
    assert shown.status == 0
    for option in ["--lang", "--timeout", "--memory", "--cpus", "--pids", "--disk", "--output-limit", "--env", "--file", "--out", "--workdir", "--stdin", "--net", "--template", "--json", "--quiet", "--tty", "--allow-degraded"]:
        assert option in shown.out


ECHO = "import sys\nprint(sys.argv[1:])\n"


@pytest.mark.parametrize("arguments, seen", [
    (["-c", ECHO, "a", "b c", ""], ["a", "b c", ""]),
    (["-c", ECHO, "--", "--json", "-q"], ["--json", "-q"]),
    (["-c", ECHO], []),
    (["-c", ECHO, "--lang", "python", "x"], ["x"]),
    (["FILE", "a", "--json", "-c", "x"], ["a", "--json", "-c", "x"]),
    (["FILE", "a", "--", "b"], ["a", "--", "b"]),
    (["--env", "A=1", "FILE", "a"], ["a"]),
    (["--env", "A=1", "--env", "B=2", "FILE", "a"], ["a"]),
    (["--file", "FILE", "FILE", "a"], ["a"]),
    (["--out", "FILE:/dev/null", "FILE", "a"], ["a"]),
    (["--timeout", "5s", "--quiet", "FILE", "a"], ["a"]),
    (["--stdin", "none", "FILE", "a"], ["a"]),
    (["--", "python3", "FILE", "--", "a", "--json"], ["--", "a", "--json"]),
])
def test_arguments_reach_the_program_as_they_are(workdir, arguments, seen):
    (workdir / "echo.py").write_text(ECHO)
    words = [str(word).replace("FILE:/dev/null", f"echo.py:{workdir}/out").replace("FILE", str(workdir / "echo.py")) for word in arguments]
    if words[0] == "--":
        words = ["--file", str(workdir / "echo.py"), *[word.replace(str(workdir) + "/", "") for word in words]]
    run = cove("run", *words)
    assert (run.status, run.out, run.err) == (0, f"{seen}\n", "")


def test_a_program_from_standard_input_gets_arguments_and_an_empty_input():
    run = cove("run", "-", "x", "--json", stdin=b"import sys\nprint(sys.argv[1:], sys.stdin.read())\n")
    assert (run.status, run.out) == (0, "['x', '--json'] \n")


def test_a_program_from_standard_input_in_another_language():
    assert cove("run", "--lang", "bash", "-", "x", stdin=b"echo $BASH_VERSION $1 | grep -c x\n").out == "1\n"


def test_a_program_of_two_megabytes_runs(workdir):
    (workdir / "long.py").write_text("#" * 2_000_000 + "\nprint('end')\n")
    assert cove("run", workdir / "long.py").out == "end\n"


def test_an_argument_of_100_kb_arrives_whole():
    run = cove("run", "--", "echo", "x" * 100_000)
    assert (run.status, len(run.stdout)) == (0, 100_001)


def test_the_smallest_limits_still_run_a_program():
    assert cove("run", "--memory", "8M", "--disk", "256K", "--pids", "2", "--cpus", "0.01", "--", "true").status == 0


def test_a_working_directory_of_the_caller_that_is_gone_does_no_harm(workdir):
    (workdir / "gone").mkdir()
    done = subprocess.run(["sh", "-c", 'rmdir ../gone; exec "$0" run -- pwd', COVE], cwd=workdir / "gone", capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, b"/workspace\n")


@pytest.mark.parametrize("mask", ["000", "027", "077", "777"])
def test_the_callers_umask_changes_nothing_inside(mask):
    done = subprocess.run(["sh", "-c", f'umask {mask}; exec "$0" run -- sh -c "umask; echo x >f; stat -c %a f /workspace"', COVE], capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, b"0022\n644\n755\n")


def test_a_state_directory_first_used_under_a_strict_umask_works_ever_after(workdir):
    state = {"COVE_STATE_DIR": str(workdir / "state")}
    subprocess.run(["sh", "-c", 'umask 077; exec "$0" run -- true', COVE], env={**os.environ, **state}, capture_output=True, timeout=PATIENCE)
    run = cove("run", "--", "echo", "works", env=state)
    assert (run.status, run.out, run.err) == (0, "works\n", "")


@pytest.mark.parametrize("variable, value", [("A", "1"), ("A", ""), ("A", "with spaces and = signs"), ("A", "ünï\n2 lines"), ("_under1", "x")])
def test_an_environment_variable_is_passed_exactly(variable, value):
    run = cove("run", "--env", f"{variable}={value}", "-c", f"import os\nprint(os.environ[{variable!r}], end='')")
    assert (run.status, run.out) == (0, value)


def test_a_variable_given_twice_has_the_last_value_once():
    run = cove("run", "--env", "A=1", "--env", "A=2", "--env", "HOME=/tmp", "--", "env")
    lines = run.out.splitlines()
    assert [line for line in lines if line.startswith(("A=", "HOME="))] == ["A=2", "HOME=/tmp"]


def test_the_path_of_the_environment_finds_the_command(workdir):
    (workdir / "mytool").write_text("#!/bin/sh\necho mine\n")
    (workdir / "mytool").chmod(0o755)
    assert cove("run", "--file", f"{workdir}/mytool:/tmp/bin/mytool", "--env", "PATH=/tmp/bin:/usr/bin:/bin", "--", "mytool").out == "mine\n"


@pytest.mark.parametrize("directory", ["/tmp", "/home/cove", "/usr/bin", "/"])
def test_a_command_starts_in_the_working_directory(directory):
    assert cove("run", "--workdir", directory, "--", "pwd").out == directory + "\n"


def test_a_program_starts_in_a_working_directory_made_for_it():
    assert cove("run", "--workdir", "/tmp/new/one", "-c", "import os\nprint(os.getcwd())").out == "/tmp/new/one\n"


def test_a_working_directory_that_cannot_be_is_refused_by_name():
    run = cove("run", "--workdir", "/usr/bin/env", "--", "pwd")
    assert run.status == 125
    assert "--workdir /usr/bin/env" in run.err


@pytest.mark.parametrize("name, content, output", [
    ("a.py", "print('py')", "py\n"),
    ("a.sh", "echo sh", "sh\n"),
    ("a.js", "console.log('js')", "js\n"),
    ("a.mjs", "import fs from 'fs'; console.log(typeof fs)", "object\n"),
    ("a.pl", "print qq(pl\\n)", "pl\n"),
    ("two.dots.py", "print('dots')", "dots\n"),
    ("name with space.py", "print('space')", "space\n"),
    ("ünï.py", "print('ünï')", "ünï\n"),
    ("script", "#!/usr/bin/env python3\nprint('shebang')", "shebang\n"),
    ("script.unknown", "#!/bin/sh\necho shebang $#", "shebang 0\n"),
])
def test_a_files_name_or_first_line_tells_its_language(workdir, name, content, output):
    (workdir / name).write_text(content)
    run = cove("run", workdir / name)
    assert (run.status, run.out, run.err) == (0, output, "")


def test_lang_overrides_the_name(workdir):
    (workdir / "a.py").write_text("echo shell")
    assert cove("run", "--lang", "bash", workdir / "a.py").out == "shell\n"


def test_a_file_of_unknown_language_is_refused_with_those_there_are(workdir):
    (workdir / "a.unknown").write_text("x")
    run = cove("run", workdir / "a.unknown")
    assert run.status == 125
    assert "a.unknown" in run.err and "--lang" in run.err and "python" in run.err


def test_a_file_that_is_not_there_is_refused_with_the_way_to_run_a_command():
    run = cove("run", "echo", "hi")
    assert run.status == 125
    assert "echo" in run.err and "--" in run.err


def test_a_directory_is_no_program(workdir):
    run = cove("run", workdir)
    assert run.status == 125
    assert str(workdir) in run.err


def test_the_file_is_found_from_the_callers_directory(workdir):
    (workdir / "a.py").write_text("import os\nprint(os.getcwd(), os.listdir())")
    assert cove("run", "a.py", cwd=workdir).out == "/workspace ['a.py']\n"
