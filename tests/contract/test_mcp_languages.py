"""Every language that execute_code speaks: a program that says hello, or what has to be installed (case 49)."""
import shutil

import pytest
from mcp_client import Legacy

# Every tool, and answers for old and new clients at once; test_mcp_models.py has what a client of today gets.
SERVER_FLAGS = ("--mcp-profile=superset", "--mcp-all-tools=true")

HELLO = {
    "bash": "echo hello",
    "clojure": '(println "hello")',
    "fish": "echo hello",
    "groovy": 'println "hello"',
    "java": 'public class Hello { public static void main(String[] args) { System.out.println("hello"); } }',
    "javascript": "console.log('hello')",
    "kotlin": 'println("hello")',
    "lua": "print('hello')",
    "perl": 'print "hello\\n";',
    "php": "<?php echo 'hello', PHP_EOL;",
    "python": "print('hello')",
    "ruby": "puts 'hello'",
    "scala": '@main def hello() = println("hello")',
    "sh": "echo hello",
    "typescript": "const word: string = 'hello'; console.log(word)",
    "zsh": "echo hello",
}
MIME = {"python": "text/x-python", "javascript": "application/javascript", "typescript": "application/typescript", "ruby": "text/x-ruby", "java": "text/x-java", "php": "application/x-httpd-php", "lua": "text/x-lua", "perl": "text/x-perl",
        "clojure": "text/x-clojure", "kotlin": "text/x-kotlin", "groovy": "text/x-groovy", "scala": "text/x-scala", **dict.fromkeys(("bash", "fish", "sh", "zsh"), "application/x-sh")}
NEEDS = {"javascript": ["node"], "typescript": ["node", "esbuild"], "java": ["java", "javac"], "lua": ["lua5.4"], "python": ["python3"]}


@pytest.fixture(scope="module")
def client(server):
    return Legacy(server)


def test_all_sixteen_are_offered_in_order(client):
    tool = next(one for one in client.request("tools/list")["tools"] if one["name"] == "execute_code")
    assert tool["inputSchema"]["properties"]["language"]["enum"] == sorted(HELLO)


@pytest.mark.parametrize("language", sorted(HELLO))
def test_d49_hello(client, language):
    result = client.call("execute_code", {"language": language, "code": HELLO[language], "timeout": 60})
    assert result["content"][0]["mimeType"] == MIME[language]
    if all(shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") for program in NEEDS.get(language, [language])):
        structured = result["structuredContent"]
        assert (result["isError"], structured["exit_code"], structured["stdout"], structured["stderr"]) == (False, 0, "hello\n", ""), structured
    else:
        assert result["isError"] and result["structuredContent"]["exit_code"] == -1
        assert f"Command not found: {NEEDS.get(language, [language])[0]}" in result["structuredContent"]["error"]["message"] and "needs the package" in result["structuredContent"]["error"]["message"]


@pytest.mark.parametrize("language, code", [("bash", "exit 3"), ("fish", "exit 3"), ("lua", "os.exit(3)"), ("perl", "exit 3;"), ("php", "<?php exit(3);"), ("ruby", "exit 3"), ("sh", "exit 3"), ("typescript", "process.exit(3)"), ("zsh", "exit 3"), ("java", 'class A { public static void main(String[] a) { System.exit(3); } }')], ids=str)
def test_its_status_is_told(client, language, code):
    result = client.call("execute_code", {"language": language, "code": code})
    if result["isError"]:
        assert "Command not found" in result["structuredContent"]["error"]["message"]
        pytest.skip(f"{language} is not installed")
    assert result["structuredContent"]["exit_code"] == 3
