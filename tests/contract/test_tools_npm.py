"""MCP servers that no one here wrote: npm's official examples, called from a kernel over each transport, the sandbox's network none."""
import json
import os
import subprocess

import pytest
from client_program import NODE, installed, listening_node_server
from kernels import Kernel
from server import Server, at

BANNER = "import { createRequire } from 'module'; const require = createRequire(import.meta.url);"


@pytest.fixture(scope="module")
def server():
    with Server("--tools-allow-loopback", "--sandbox-memory", "1G") as running:
        yield running


@pytest.fixture(scope="module")
def box(server):
    server.put(at("npm"), {"network": "none"})
    yield "npm"


@pytest.fixture(scope="module")
def kernel(server, box):
    return Kernel(server, box)


@pytest.fixture(scope="module")
def bundled(server, box, tmp_path_factory):
    """bundled(package): the path of one of the servers, as a single file in the sandbox."""
    def bundle(package):
        place = tmp_path_factory.mktemp("bundles") / f"{package}.mjs"
        source = installed() / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"
        subprocess.run(["/usr/bin/esbuild", source, "--bundle", "--platform=node", "--format=esm", f"--banner:js={BANNER}", f"--outfile={place}", "--log-level=error"], check=True)
        assert server.request("POST", at(box, f"resources/files/{place.name}"), place.read_bytes()).status == 200
        return place.name
    assert NODE and os.path.exists("/usr/bin/esbuild")
    return bundle


def generate(server, box, name, params):
    answer = server.request("PUT", at(box, f"resources/mcp/mcpgen/{name}"), json.dumps(params).encode(), {"Content-Type": "application/json"})
    assert answer.status == 200, answer
    return answer.json


@pytest.mark.parametrize("transport,kind,path", [("streamableHttp", "streamable_http", "mcp"), ("sse", "sse", "sse")])
def test_everything_over_http(server, box, kernel, transport, kind, path):
    with listening_node_server("server-everything", transport) as port:
        names = generate(server, box, f"every_{kind}", {"type": kind, "url": f"http://127.0.0.1:{port}/{path}"})
        assert {"echo", "get_sum"} <= set(names), names
        assert "hello" in kernel.out(f"from mcpgen.every_{kind}.echo import echo, Params\nprint(echo(Params(message='hello')))")
        assert "5" in kernel.out(f"from mcpgen.every_{kind} import functions as f\nprint(f.get_sum(2, 3))")
        assert kernel.out("import types, typing\nprint([type(b).__name__ for b in f.get_tiny_image()])").count("Blob") == 1
        found = kernel.out("import asyncio, mcpgen.every_%s.functions.aio as aio\nprint(len(await asyncio.gather(*[aio.echo(str(n)) for n in range(40)])))" % kind)
        assert found == "40\n"


def test_everything_over_pipes_inside(server, box, kernel, bundled):
    names = generate(server, box, "every_pipes", {"command": "node", "args": [bundled("server-everything"), "stdio"]})
    assert "echo" in names
    assert "hello" in kernel.out("from mcpgen.every_pipes.echo import echo, Params\nprint(echo(Params(message='hello')))")
    assert kernel.out("from mcpgen.every_pipes import get_structured_content as g\nprint(type(g.run(g.Params(location='New York'))).__name__)") == "Result\n"


def test_the_filesystem_server_works_on_the_files_of_its_sandbox(server, box, kernel, bundled):
    generate(server, box, "files", {"command": "node", "args": [bundled("server-filesystem"), "/workspace"]})
    assert kernel.out("from mcpgen.files import functions as f\nf.write_file('/workspace/note.txt', 'from a tool')\nprint(open('/workspace/note.txt').read())") == "from a tool\n"
    assert "from a tool" in kernel.out("print(f.read_text_file('/workspace/note.txt'))")
    assert kernel.run("f.read_text_file('/etc/passwd')")["error"]["name"] == "ToolError"


def test_the_memory_server_remembers_between_calls(server, box, kernel, bundled):
    generate(server, box, "memory", {"command": "node", "args": [bundled("server-memory")], "env": {"MEMORY_FILE_PATH": "/workspace/memory.json"}})
    kernel.out("from mcpgen.memory import functions as m\nm.create_entities([{'name': 'Linz', 'entityType': 'city', 'observations': ['on the Danube']}])")
    assert "Danube" in kernel.out("print(m.search_nodes('Linz'))")
