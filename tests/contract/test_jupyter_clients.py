"""Clients that others wrote, unchanged: JupyterLab's, nbclient and jupyter-server behind a gateway URL, and what ipybox does."""
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile

import pytest
from conftest import ROOT, wait_until
from ipybox_client import ExecutionClient, ExecutionError
from jupyter_socket import JupyterSocket
from node_clients import node

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
def jupyter_server(gateway):
    """Debian's jupyter-server, whose kernels are behind that URL; the port it listens on."""
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="cove-test-jupyter-") as home:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        process = subprocess.Popen(
            [PYTHON, "/usr/bin/jupyter-server", "--allow-root", "--no-browser", f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--ServerApp.token=", "--ServerApp.password=",
             "--ServerApp.disable_check_xsrf=True", f"--gateway-url={gateway}", f"--ServerApp.root_dir={home}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": home})
        try:
            def answers():
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    return True
            assert wait_until(answers, 60)
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


class At:
    """Another server on this machine, for JupyterSocket."""

    def __init__(self, server, port):
        self.server, self.port = server, port

    def websocket(self, path, timeout, headers):
        from server import WebSocket
        return WebSocket(self.port, path, timeout, headers)


def test_a_notebook_server_has_its_kernels_here(server):
    with jupyter_server(f"http://127.0.0.1:{server.port}") as port:
        mine, other = server.port, At(server, port)
        try:
            server.port = port
            assert set(server.get("/api/kernelspecs").json["kernelspecs"]) == {"python3", "javascript", "bash"}
            made = server.post("/api/kernels", {"name": "python3"})
            assert made.status == 201, made
            kernel = made.json["id"]
        finally:
            server.port = mine
        assert kernel in [one["id"] for one in server.get("/api/kernels").json]
        with JupyterSocket(other, kernel) as line:
            # What comes before its own connection is made may be lost in that server, so clients ask for this first, again and again.
            line.socket.socket.settimeout(3)
            for _ in range(20):
                line.send("kernel_info_request", {})
                with contextlib.suppress(TimeoutError):
                    while line.next()["msg_type"] != "kernel_info_reply":
                        pass
                    break
            line.socket.socket.settimeout(60)
            request = line.send("execute_request", {"code": "x = 6; print(x * 7)", "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False})
            text = ""
            while True:
                frame = line.next()
                if frame["parent_header"].get("msg_id") != request:
                    continue
                text += frame["content"].get("text", "") if frame["msg_type"] == "stream" else ""
                if frame["msg_type"] == "execute_reply":
                    break
            assert text == "42\n"
        with JupyterSocket(server, kernel) as direct:
            assert direct.execute("x").result == ["6"]
        server.delete(f"/api/kernels/{kernel}")


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
