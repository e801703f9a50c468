"""validate_code: what each language's own reader says, what is said where there is none, and files that are saved on the way."""
import shlex

import pytest
from conftest import COVE
from mcp_tools import Client, text_of
from server import Server, new_id

# Every tool, and answers for old and new clients at once; test_mcp_models.py has what a client of today gets.
SERVER_FLAGS = ("--mcp-profile=superset", "--mcp-all-tools=true")

# language: a good program, a bad one, the line its fault is in for a reader of the language, and for one that looks at structure alone
PROGRAMS = {
    "bash": ("if true; then\n  echo 1\nfi\n", "echo 1\nif true; then\n  echo )\nfi\n", 3, 3),
    "clojure": ("(defn f [x] (inc x))\n", "(println 1)\n(println 2]\n", None, 2),
    "fish": ("if true\n  echo 1\nend\n", "echo 1\nif true\n  echo 2\n", 2, 2),
    "groovy": ("println \"${1 + 1}\"\n", "def f() {\n  println(1\n}\n", None, 3),
    "java": ("import no.such.Thing;\npublic class Any {\n  Thing f() { return null; }\n}\n", "public class A {\n  int f() { return (1; }\n}\n", 2, 2),
    "javascript": ("const f = async () => 1;\nawait f();\nexport default f;\n", "let a = 1;\nfunction f( {\nlet b = ];\n", 3, 3),
    "kotlin": ("println(\"${listOf(1)}\")\n", "fun f() {\n  println(1))\n}\n", None, 2),
    "lua": ("for i = 1, 2 do print(i) end\n", "print(1)\nif x then print(2 end\n", 2, 2),
    "perl": ("my $x = 1;\nprint \"$x\\n\" if $x;\n", "my $x = 1;\nif ($x { print 1; }\n", 2, 2),
    "php": ("<?php\nfunction f() { return [1]; }\n", "<?php\n$x = 1;\nf(1];\n", 3, 3),
    "python": ("import no_such_thing\nasync def f():\n    return 1\nawait f()\n", "x = 1\nif x\n    print(x)\n", 2, 2),
    "ruby": ("def f\n  1 if true\nend\n", "x = 1\ndef f(]\nend\n", 2, 2),
    "scala": ("@main def f() = println(s\"${1}\")\n", "object A {\n  val x = (1\n}\n", None, 3),
    "sh": ("for i in 1 2; do echo $i; done\n", "echo 1\necho )\n", 2, 2),
    "typescript": ("interface A { x: number }\nconst a: A = { x: 1 };\nexport { a };\n", "const a: number = 1;\nconst b: = (2];\n", 2, 2),
    "zsh": ("if true; then\n  echo 1\nfi\n", "echo 1\necho )\n", 2, 2),
}
LABELS = {"php": "PHP", "javascript": "JavaScript", "typescript": "TypeScript"}
UNREAD = {language for language, row in PROGRAMS.items() if row[2] is None}


@pytest.fixture(scope="module")
def client(server):
    made = Client(server)
    yield made
    made.close()


def test_every_language_of_the_tool_is_here(client):
    assert sorted(PROGRAMS) == client.tools["validate_code"]["inputSchema"]["properties"]["language"]["enum"]


@pytest.mark.parametrize("language", PROGRAMS)
def test_d56_good_and_bad_programs(client, language):
    good, bad, line, basic_line = PROGRAMS[language]
    basic = {"checked": "basic"} if language in UNREAD else {}
    result = client.call("validate_code", language=language, code=good)
    assert result["isError"] is False, result
    assert text_of(result).startswith("Syntax validation successful") and result["content"][0]["annotations"] == {"status": "valid", **basic}
    assert result["content"][1]["text"] == good and "mime_type" in result["content"][1]["annotations"]
    assert ("no checker for" in text_of(result)) == bool(basic)

    result = client.call("validate_code", language=language, code=bad)
    line = line or basic_line
    assert result["isError"] is True and len(result["content"]) == 1, result
    notes = result["content"][0]["annotations"]
    assert (notes["status"], notes["line"], notes.get("checked")) == ("invalid", line, basic.get("checked")), result
    text, details = text_of(result).splitlines()[:2]
    assert text.startswith(f"{LABELS.get(language, language.capitalize())} syntax error on line {line}: "), text
    assert details == "Details: " + bad.splitlines()[line - 1].strip()
    assert result["structuredContent"]["line"] == line and result["structuredContent"]["valid"] is False


def test_columns_are_told_where_they_are_known(client):
    rows = {"python": ("x = (\n", 5), "javascript": ("let b = ];\n", 9), "typescript": ("let b = ];\n", 9), "java": ("class A { int x = ; }\n", 19)}
    for language, (code, column) in rows.items():
        assert client.call("validate_code", language=language, code=code)["structuredContent"]["column"] == column, language


@pytest.mark.parametrize("language, code", [
    ("python", "open('/workspace/ran', 'w')\n"), ("javascript", "require('fs').writeFileSync('/workspace/ran', '')\n"),
    ("bash", "echo > /workspace/ran\n"), ("ruby", "BEGIN { File.write('/workspace/ran', '') }\n"),
    ("perl", "BEGIN { open(my $f, '>', '/workspace/ran') }\n"), ("php", "<?php touch('/workspace/ran');\n"),
])
def test_d57_nothing_is_executed(client, language, code):
    """Perl alone runs some of it while it reads (BEGIN, use): in a sandbox that is nobody's."""
    session = new_id()
    assert client.facts("validate_code", language=language, code=code, session_id=session, save=True, filename="x")["saved"]
    listed = client.call("execute_code", language="bash", code="ls /workspace; ls /tmp", session_id=session)
    assert "ran" not in listed["structuredContent"]["stdout"].split()


def test_d58_hash_in_javascript(client):
    result = client.call("validate_code", language="javascript", code="# x\nlet a = 1;\n")
    assert result["isError"] and "//" in text_of(result) and "not comment syntax" in text_of(result)
    assert result["content"][0]["annotations"]["line"] == 1
    assert client.facts("validate_code", language="javascript", code="#!/usr/bin/env node\nlet a = 1;\n")["valid"]


def test_d52_files_that_were_saved_are_found(client):
    session = new_id()
    for name, code in {"models": "class Product:\n    price = 3\n", "lib/tools.py": "def twice(x):\n    return 2 * x\n", "lib/__init__.py": ""}.items():
        result = client.call("validate_code", language="python", code=code, filename=name, save=True, session_id=session)
        path = name if name.endswith(".py") else name + ".py"
        assert text_of(result) == f"Syntax validation successful for {path} (saved to /workspace/{path})"
        assert result["structuredContent"]["session_id"] == session
        assert result["content"][2]["uri"] == f"workspace://{session}/{path}"
    ran = client.facts("execute_code", language="python", code="import models\nfrom lib.tools import twice\nprint(twice(models.Product.price))", session_id=session)
    assert (ran["exit_code"], ran["stdout"]) == (0, "6\n"), ran


def test_what_is_not_valid_is_not_saved(client):
    session = new_id()
    client.call("validate_code", language="bash", code="true\n", filename="good", save=True, session_id=session)
    text = client.refusal("validate_code", language="bash", code="if\n", filename="bad", save=True, session_id=session)
    assert text.endswith("The file was not saved.")
    assert client.facts("execute_code", language="bash", code="ls", session_id=session)["stdout"].split()[:1] == ["good.sh"]


def test_without_a_session_it_is_saved_where_the_language_runs(client):
    client.facts("validate_code", language="bash", code="echo hello\n", filename="hello.sh", save=True)
    assert client.facts("execute_code", language="bash", code="bash hello.sh")["stdout"] == "hello\n"


@pytest.mark.parametrize("arguments, words", [
    ({}, "Missing required parameter: language"),
    ({"language": "python"}, "Missing required parameter: code"),
    ({"code": "x"}, "Missing required parameter: language"),
    ({"language": "cobol", "code": "x"}, "Unsupported language: cobol"),
    ({"language": "python", "code": 5}, "code must be a string"),
    ({"language": "python", "code": "x", "save": "yes"}, "save must be true or false"),
    ({"language": "python", "code": "x" * (1 << 20) + "x"}, "code is larger than"),
])
def test_d40_what_is_wrong_is_named(client, arguments, words):
    assert words in client.refusal("validate_code", **arguments)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a/", "\0", "x" * 5000])
def test_d53_names_that_lead_elsewhere(client, name):
    assert "filename" in client.refusal("validate_code", language="python", code="1", filename=name, save=True, session_id=new_id())


def test_d42_what_is_not_known_is_ignored(client):
    assert client.facts("validate_code", language="python", code="", colour="red", timeout=1)["valid"]


def test_code_of_every_kind(client):
    assert client.call("validate_code", language="python", code="x = '\0'\n")["isError"]
    assert client.facts("validate_code", language="python", code="# \N{GRINNING FACE} \u2028\r\nx = 'ä'\r\n")["valid"]
    deep = client.call("validate_code", language="python", code="(" * 100_000)
    assert deep["isError"] and deep["structuredContent"]["valid"] is False


@pytest.fixture(scope="module")
def bare_client(tmp_path_factory):
    """Of a server whose sandboxes have nothing that reads a language. Last in this file: it ends before the other one does."""
    directory = tmp_path_factory.mktemp("bare")
    script = directory / "cove"
    # A namespace of its own, whose /usr has them not.
    script.write_text(f"""#!/bin/sh
exec unshare --mount --propagation private /bin/sh -ec '
mount -t tmpfs tmpfs {directory}
mkdir {directory}/upper {directory}/work
mount -t overlay overlay -o lowerdir=/usr,upperdir={directory}/upper,workdir={directory}/work /usr
cd /usr/bin
rm -f python3* node* esbuild* ruby* bash* rbash zsh* fish* perl* php* luac* javac* dash sh
exec "$0" "$@"' {shlex.quote(COVE)} "$@"
""")
    script.chmod(0o755)
    with Server(*SERVER_FLAGS, binary=script) as running:
        made = Client(running)
        yield made
        made.close()


@pytest.mark.parametrize("language", PROGRAMS)
def test_d56_without_the_checker(bare_client, language):
    good, bad, _, line = PROGRAMS[language]
    result = bare_client.call("validate_code", language=language, code=good)
    assert result["isError"] is False and result["structuredContent"]["checked"] == "basic", result
    assert "Only brackets, strings, comments and block keywords were checked" in text_of(result)
    result = bare_client.call("validate_code", language=language, code=bad)
    assert result["isError"] is True, result
    assert (result["structuredContent"]["line"], result["content"][0]["annotations"]["checked"]) == (line, "basic"), result
