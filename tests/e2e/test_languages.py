"""Every language of languages/languages.toml: what is installed works, what is not is named."""
import shutil
import tomllib

import pytest
from conftest import ROOT, cove, run_json

LANGUAGES = tomllib.loads((ROOT / "languages" / "languages.toml").read_text())
# These work on a fresh machine after `make setup`; the others when their package is there.
ALWAYS = {"bash", "sh", "javascript", "lua", "perl", "php", "python", "ruby", "typescript"}

HELLO = {  # prints "hello ARG1 ARG2"
    "bash": 'echo "hello $1 $2"',
    "clojure": '(println "hello" (first *command-line-args*) (second *command-line-args*))',
    "fish": 'echo "hello $argv[1] $argv[2]"',
    "groovy": 'println "hello ${args[0]} ${args[1]}"',
    "java": 'public class Hello { public static void main(String[] a) { System.out.println("hello " + a[0] + " " + a[1]); } }',
    "javascript": 'console.log("hello", process.argv[2], process.argv[3])',
    "kotlin": 'println("hello ${args[0]} ${args[1]}")',
    "lua": 'print("hello " .. arg[1] .. " " .. arg[2])',
    "perl": 'print "hello $ARGV[0] $ARGV[1]\\n";',
    "php": '<?php echo "hello $argv[1] $argv[2]\\n";',
    "python": 'import sys; print("hello", sys.argv[1], sys.argv[2])',
    "ruby": 'puts "hello #{ARGV[0]} #{ARGV[1]}"',
    "scala": '@main def run(a: String, b: String) = println(s"hello $a $b")',
    "sh": 'echo "hello $1 $2"',
    "typescript": 'const words: string[] = process.argv.slice(2); console.log("hello", words[0] as string, words[1]!);',
    "zsh": 'echo "hello $1 $2"',
}
WRONG = {  # no parser takes these
    "bash": "if then (", "clojure": "(println (", "fish": "if true; echo (", "groovy": "def x = (", "java": "public class Hello { void", "javascript": "let = = (",
    "kotlin": "val x = (", "lua": "if then (", "perl": "if ( {{{", "php": "<?php if (((", "python": "def (:", "ruby": "def (((", "scala": "val = (", "sh": "if then (",
    "typescript": "let x: number = = 1;", "zsh": "if then (",
}


def installed(name):
    needs = {"typescript": ["esbuild", "node"], "java": ["java", "javac"], "php": ["php"]}.get(name, [LANGUAGES[name]["command"][0]])
    return all(shutil.which(need, path="/usr/local/bin:/usr/bin:/bin") for need in needs)


def needs(name):
    if not installed(name):
        if name in ALWAYS:
            pytest.fail(f"{name} must be there after make setup")
        pytest.skip(f"package {LANGUAGES[name]['package']} is not installed")
    # A JVM reserves more than the default allows it to use, and starts slowly on one core.
    return ["--memory", "2G", "--cpus", "2", "--pids", "256", "--timeout", "50s"] if name in ("java", "clojure", "groovy", "kotlin", "scala") else []


def test_the_table_has_the_sixteen_languages():
    assert set(LANGUAGES) == set(HELLO) == set(WRONG)
    assert len(LANGUAGES) == 16


@pytest.mark.parametrize("name", sorted(LANGUAGES))
def test_it_runs_code_and_reads_its_arguments(name):
    options = needs(name)
    run = run_json(*options, "--lang", name, "-c", HELLO[name], "--", "brave", "new world")
    assert (run.status, run.out, run.err) == (0, "hello brave new world\n", "")


@pytest.mark.parametrize("name", sorted(LANGUAGES))
def test_it_runs_a_file_by_each_of_its_extensions(name, workdir):
    options = needs(name)
    for extension in LANGUAGES[name]["extensions"]:
        if (name, extension) in [("javascript", ".mjs"), ("sh", ".sh")]:
            continue  # .sh is bash's by name
        file = workdir / f"Hello{extension}"
        file.write_text(HELLO[name])
        run = run_json(*options, file, "brave", "new world")
        assert (run.status, run.out) == (0, "hello brave new world\n"), extension


@pytest.mark.parametrize("name", sorted(LANGUAGES))
def test_a_syntax_error_is_told_on_stderr_with_a_failing_status(name):
    options = needs(name)
    run = run_json(*options, "--lang", name, "-c", WRONG[name])
    assert run.status not in (0, 125, 126) and run.reason == "exited"
    assert run.err or run.out  # php tells it on stdout


READERS = {"bash": "cat", "sh": "cat", "python": "print(input())", "javascript": "process.stdin.pipe(process.stdout)", "typescript": "process.stdin.pipe(process.stdout)",
           "lua": "print(io.read())", "perl": "print <STDIN>", "php": "<?php echo fgets(STDIN);", "ruby": "puts gets"}


@pytest.mark.parametrize("name", sorted(READERS))
def test_it_reads_standard_input_although_it_was_given_as_code(name):
    needs(name)
    assert run_json("--lang", name, "-c", READERS[name], stdin=b"typed\n").out == "typed\n"


@pytest.mark.parametrize("name", sorted(set(LANGUAGES) - ALWAYS))
def test_a_missing_runtime_is_127_and_names_the_package(name):
    if installed(name):
        pytest.skip(f"{name} is installed")
    run = cove("run", "--lang", name, "-c", "x")
    assert run.status == 127
    assert name in run.err and LANGUAGES[name]["package"] in run.err


def test_a_runtime_that_cannot_be_found_names_the_package_even_where_all_are_installed():
    run = cove("run", "--env", "PATH=/nowhere", "--lang", "ruby", "-c", "x")
    assert run.status == 127
    assert "package ruby" in run.err


@pytest.mark.parametrize("name", sorted(name for name in LANGUAGES if LANGUAGES[name].get("check")))
def test_the_checker_of_the_table_tells_good_from_bad_without_running(name, workdir):
    options = needs(name)
    extension = LANGUAGES[name]["extensions"][0]
    for text, good in [(HELLO[name], True), (WRONG[name], False)]:
        file = workdir / f"Hello{extension}"
        file.write_text(text)
        command = [word.replace("{file}", f"/workspace/Hello{extension}") for word in LANGUAGES[name]["check"]]
        run = run_json(*options, "--file", file, "--", *command)
        assert (run.status == 0) == good, run.err
        assert "hello" not in run.out


def test_typescript_reports_a_parse_error_with_file_line_and_column(workdir):
    (workdir / "bad.ts").write_text("const fine: number = 1;\nconsole.log(fine);\nlet x: string = = 3;\n")
    run = cove("run", workdir / "bad.ts")
    assert run.status == 1
    assert "bad.ts:3:16" in run.err
    assert run.stdout == b""  # nothing of it ran


def test_typescript_follows_imports_of_other_files(workdir):
    (workdir / "main.ts").write_text('import { double, type Pair } from "./lib/util";\nimport data from "./data.json";\nconst p: Pair = [1, data.n];\nconsole.log(double(p[1]));\n')
    (workdir / "lib").mkdir()
    (workdir / "lib" / "util.ts").write_text("export type Pair = [number, number];\nexport const double = (n: number): number => 2 * n;\n")
    (workdir / "data.json").write_text('{"n": 21}')
    run = cove("run", "--file", workdir / "lib", "--file", workdir / "data.json", workdir / "main.ts")
    assert (run.status, run.out, run.err) == (0, "42\n", "")


def test_typescript_has_a_clear_error_for_an_import_that_is_not_there(workdir):
    (workdir / "main.ts").write_text('import { x } from "./missing";\nconsole.log(x);\n')
    run = cove("run", workdir / "main.ts")
    assert run.status == 1
    assert "./missing" in run.err and "main.ts:1" in run.err


@pytest.mark.parametrize("code, output", [
    ("const n: number = await Promise.resolve(42);\nconsole.log(n);", "42\n"),
    ("interface A { x: number }\nenum E { One = 1, Two }\nclass B implements A { constructor(public x: number) {} }\nconst f = <T,>(v: T): T => v;\nconsole.log(f(new B(E.Two)).x);", "2\n"),
    ("import { readFileSync } from 'node:fs';\nimport * as path from 'path';\nconsole.log(path.basename('/a/b'), typeof readFileSync);", "b function\n"),
    ("const os = require('os');\nconsole.log(typeof os.cpus);", "function\n"),
    ("console.log(__filename, __dirname);", "/workspace/main.ts /workspace\n"),
    ("const a: { b?: { c: number } } = {};\nconsole.log(a.b?.c ?? 'none');", "none\n"),
    ("let x = 5 satisfies number;\nconsole.log(x);", "5\n"),
    ("process.exit(0);", ""),
], ids=["top-level await", "types, enums, generics", "node modules", "require", "where it is", "optional chaining", "satisfies", "exit"])
def test_typescript_runs(code, output):
    run = run_json("--lang", "typescript", "-c", code)
    assert (run.status, run.out, run.err) == (0, output, "")


def test_a_typescript_error_at_run_time_names_the_line_of_the_source():
    run = run_json("--lang", "typescript", "-c", "type A = number;\n\nfunction boom(): never {\n  throw new Error('bang');\n}\nboom();")
    assert run.status == 1
    assert "bang" in run.err and "main.ts:4" in run.err


def test_a_typescript_exit_code_is_passed_on():
    assert run_json("--lang", "typescript", "-c", "process.exitCode = 9 as number;").status == 9


def test_java_runs_a_program_with_a_public_class_of_any_name():
    options = needs("java")
    run = run_json(*options, "--lang", "java", "-c", "import java.util.stream.*;\npublic class Whatever { public static void main(String[] a) { System.out.println(IntStream.range(0, 10).sum()); System.exit(7); } }")
    assert (run.status, run.out) == (7, "45\n")


def test_java_runs_under_the_default_limits():
    needs("java")
    run = run_json("--lang", "java", "-c", HELLO["java"], "--", "a", "b")
    assert (run.status, run.out) == (0, "hello a b\n")


def test_javascript_has_modules_promises_and_workers():
    run = run_json("--lang", "javascript", "-c", "const { Worker } = require('worker_threads');\nnew Worker('require(\"worker_threads\").parentPort.postMessage(42)', { eval: true }).on('message', m => console.log(m));")
    assert (run.status, run.out) == (0, "42\n")


def test_php_without_its_mark_is_code():
    assert run_json("--lang", "php", "-c", 'echo "hello ", 6*7, " $argv[1]\\n";', "--", "there").out == "hello 42 there\n"
    assert run_json("--lang", "php", "-c", "text <?php echo 1; ?> more").out == "text 1 more"
