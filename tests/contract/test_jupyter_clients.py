"""Clients that others wrote, unchanged: JupyterLab's, nbclient, jupyter-server and jupyter-notebook behind a gateway URL, and what ipybox does."""
import asyncio
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import uuid

import pytest
from conftest import ROOT, wait_until
from ipybox_client import ExecutionClient, ExecutionError
from jupyter_socket import JupyterSocket
from node_clients import node
from server import Answer, WebSocket

PYTHON = "/usr/bin/python3"


@pytest.mark.parametrize("base", ["/", "/v1/sandboxes/lab/jupyter/"], ids=["server", "sandbox"])
def test_JupyterLabs_client_does_everything_a_notebook_does(server, base):
    if base != "/":
        server.create("lab")
    done = node("notebook.mjs", f"http://127.0.0.1:{server.port}{base}")
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen.pop("plot")[0][-2:] == ["image/png", "text/plain"]
    assert seen == {
        "specs": ["python3", ["bash", "javascript", "python3"]], "info": "python", "subprotocol": "v1.kernel.websocket.jupyter.org", "print": "42\n", "state": ["ok", ["5"]],
        "error": "ZeroDivisionError", "input": ["'typed'"], "megabytes": 5_000_001, "lines": [500_001, True], "complete": True, "inspect": True, "isComplete": "incomplete",
        "history": True, "comms": [], "commToClient": [{"hello": 1}, {"more": 2}, [1, 2]], "commToKernel": {"got": {"n": 1}, "sizes": [3]}, "interrupted": "KeyboardInterrupt",
        "afterInterrupt": ["5"], "afterRestart": ["False"], "died": "DeadKernelError", "afterDeath": ["2"], "running": True, "left": 0}


def test_nbclient_runs_a_notebook_behind_a_gateway_url(server):
    before = len(server.get("/api/kernels").json)
    done = subprocess.run([PYTHON, ROOT / "tests" / "clients" / "gateway_notebook.py", f"http://127.0.0.1:{server.port}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    printed, assigned, shown, plot, many, failed = json.loads(done.stdout.splitlines()[-1])
    assert printed[0]["text"] == "42\n" and assigned == [] and shown[0]["data"]["text/plain"] == "6"
    assert plot[0]["data"]["image/png"].startswith("iVBOR")
    assert "".join(output["text"] for output in many) == "".join(f"{i}\n" for i in range(20000))
    assert failed[0]["ename"] == "ZeroDivisionError"
    assert wait_until(lambda: len(server.get("/api/kernels").json) == before)


@contextlib.contextmanager
def notebook_server(program, gateway):
    """One of Debian's notebook servers, whose kernels are behind that URL."""
    of = {"jupyter-server": "ServerApp", "jupyter-notebook": "NotebookApp"}[program]
    directory = {"jupyter-server": "root_dir", "jupyter-notebook": "notebook_dir"}[program]
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="cove-test-jupyter-") as home:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        with open(os.path.join(home, "log"), "wb") as log:
            process = subprocess.Popen(
                [PYTHON, f"/usr/bin/{program}", "--allow-root", "--no-browser", f"--{of}.port={port}", f"--{of}.port_retries=0", f"--{of}.token=", f"--{of}.password=",
                 f"--{of}.disable_check_xsrf=True", f"--gateway-url={gateway}", f"--{of}.{directory}={home}"],
                stdout=log, stderr=log, env={**os.environ, "HOME": home})
        try:
            other = Elsewhere(port)

            def answers():
                assert process.poll() is None, pathlib.Path(home, "log").read_text()[-3000:]
                with contextlib.suppress(OSError):
                    return other.request("GET", "/api").status == 200
            assert wait_until(answers, 90), pathlib.Path(home, "log").read_text()[-3000:]
            yield other
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Elsewhere:
    """Another server on this machine, for REST and for JupyterSocket."""

    def __init__(self, port):
        self.port = port

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        with contextlib.closing(connection):
            return Answer(answer.status, answer.reason, answer.headers, answer.read())

    def websocket(self, path, timeout, headers):
        return WebSocket(self.port, path, timeout, headers)


def connected(other, kernel):
    """A socket at the kernel through the other server. What comes before its own connection is made may be lost in it, so its pages ask for this first, again and again."""
    line = JupyterSocket(other, kernel, session_id=uuid.uuid4().hex)
    line.socket.socket.settimeout(3)
    for _ in range(20):
        line.send("kernel_info_request", {})
        with contextlib.suppress(TimeoutError):
            while line.next()["msg_type"] != "kernel_info_reply":
                pass
            break
    else:
        pytest.fail("the kernel behind the other server does not answer")
    line.socket.socket.settimeout(60)
    return line


@pytest.mark.parametrize("program", ["jupyter-server", "jupyter-notebook"])
def test_a_notebook_server_has_its_kernels_here(server, program):
    cells = ["import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]); plt.show()", "name = input('who? ')\nprint('hello', name)", "for i in range(20_000): print(i)", "1/0"]
    with notebook_server(program, f"http://127.0.0.1:{server.port}") as other:
        assert set(other.request("GET", "/api/kernelspecs").json["kernelspecs"]) == {"python3", "javascript", "bash"}
        document = {"cells": [{"cell_type": "code", "metadata": {}, "source": code, "outputs": [], "execution_count": None} for code in cells],
                    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}, "nbformat": 4, "nbformat_minor": 4}
        assert other.request("PUT", "/api/contents/demo.ipynb", {"type": "notebook", "content": document}).status == 201
        session = other.request("POST", "/api/sessions", {"path": "demo.ipynb", "type": "notebook", "name": "", "kernel": {"name": "python3"}})
        assert session.status == 201, session
        kernel = session.json["kernel"]["id"]
        assert kernel in [one["id"] for one in server.get("/api/kernels").json]
        sources = [cell["source"] for cell in other.request("GET", "/api/contents/demo.ipynb").json["content"]["cells"]]

        with connected(other, kernel) as line:
            plot, greeting, many, failed = (line.execute(code, answer=lambda asked: "you" if asked["prompt"] == "who? " else None, stop_on_error=False) for code in sources)
            assert plot.of("display_data")[0]["data"]["image/png"].startswith("iVBOR")
            assert greeting.text() == "hello you\n"
            # These servers promise no order between channels, and pass on everything they got before.
            assert many.text() == "".join(f"{i}\n" for i in range(20_000))
            assert failed.of("error")[0]["ename"] == "ZeroDivisionError"

            request = line.send("execute_request", {"code": "kept = 7\nwhile True: pass", "allow_stdin": False})
            while line.next()["msg_type"] != "execute_input":
                pass
            assert other.request("POST", f"/api/kernels/{kernel}/interrupt", {}).status == 204
            assert line.until_idle(request).of("error")[0]["ename"] == "KeyboardInterrupt"
            assert line.execute("kept").result == ["7"]
            restarted = other.request("POST", f"/api/kernels/{kernel}/restart", {})
            assert restarted.status == 200 and restarted.json["id"] == kernel, restarted
        with connected(other, kernel) as line:
            again = line.execute("'kept' in dir()")
            assert again.result == ["False"] and again.of("execute_input")[0]["execution_count"] == 1
        assert other.request("GET", f"/api/kernels/{kernel}").json["name"] == "python3"
        assert other.request("DELETE", f"/api/sessions/{session.json['id']}").status == 204
        assert kernel not in [one["id"] for one in server.get("/api/kernels").json]


def of_ipybox(server, work):
    async def run():
        async with ExecutionClient(server.port) as client:
            return await work(client)
    return asyncio.run(run())


def test_the_ipybox_client_gets_text_images_and_errors(server):
    async def work(client):
        assert await client.execute("print('Hello'); print('World')") == ("Hello\nWorld", [])
        assert (await client.execute("x = 1"))[0] is None
        assert (await client.execute("x"))[0] == "1"
        text, images = await client.execute("from PIL import Image\nImage.new('RGB', (60, 40)).show()\nImage.new('RGB', (30, 20))")
        assert [image.size for image in images] == [(60, 40), (30, 20)]
        with pytest.raises(ExecutionError, match="ZeroDivisionError: division by zero") as failed:
            await client.execute("1/0")
        assert "ZeroDivisionError" in failed.value.trace
        with pytest.raises(ExecutionError, match="SyntaxError"):
            await client.execute("if")
        return True
    assert of_ipybox(server, work)


def test_the_ipybox_client_gets_all_of_long_output_and_sends_long_code(server):
    async def work(client):
        assert (await client.execute("print('a' * 500_000)"))[0] == "a" * 500_000
        lines = (await client.execute("for i in range(500_000): print(i)"))[0]
        assert lines.split("\n") == [str(i) for i in range(500_000)]
        slow = await client.execute("import asyncio\nfor i in range(20):\n    print(i, end=' ')\n    await asyncio.sleep(0.01)")
        assert slow[0] == " ".join(map(str, range(20)))
        code = "\n".join(f"v{i} = {i}" for i in range(10_000)) + "\nprint(v9999)"
        assert (await client.execute(code))[0] == "9999"
        return True
    assert of_ipybox(server, work)


def test_the_ipybox_client_goes_on_after_a_timeout_and_learns_of_a_death_at_once(server):
    async def work(client):
        with pytest.raises(asyncio.TimeoutError):
            await client.execute("i = 7\nwhile True: a = 5", timeout=1)
        assert (await client.execute("i, a"))[0] == "(7, 5)"
        with pytest.raises(ExecutionError, match="DeadKernelError"):
            await client.execute("import os; os._exit(1)", timeout=30)
        return True
    assert of_ipybox(server, work)
