"""The MCP client as a program (tests/programs/mcp_client.cpp), spoken to in lines; and servers for it, real ones and odd ones."""
import contextlib
import http.server
import itertools
import json
import os
import pathlib
import queue
import socket
import subprocess
import sys
import threading
import time

from conftest import BUILD
from node_clients import NODE, installed

PROGRAM = BUILD / "tests" / "cove-mcp-client"
ODD = pathlib.Path(__file__).with_name("odd_mcp_server.py")
PATIENCE = 60


class NotConnected(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.error = error


class Client:
    """One program that is connected to one server. Orders go on at the same time; `ask` waits for one."""

    def __init__(self, config, env=None, reach=()):
        variables = {**os.environ, "COVE_TEST_REACH": ",".join(reach), **(env or {})}
        self.popen = subprocess.Popen([PROGRAM, json.dumps(config)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables)
        self.numbers = itertools.count(1)
        self.answers = {}
        self.said = []  # progress, log, changes
        self.changed = threading.Condition()
        self.hello = None
        self.ended = False
        self.last = None
        threading.Thread(target=self._read, daemon=True).start()
        with self.changed:
            assert self.changed.wait_for(lambda: self.hello or self.ended, PATIENCE)
        if not self.hello or not self.hello["connected"]:
            self.popen.wait(PATIENCE)
            self._shut()
            raise NotConnected(self.hello["error"] if self.hello else {"message": "it ended without a word"})

    def _read(self):
        for line in self.popen.stdout:
            message = json.loads(line)
            with self.changed:
                if "connected" in message:
                    self.hello = message
                elif "closed" in message:
                    self.last = message
                elif message.get("id") is not None and "progress" not in message:
                    self.answers[message["id"]] = message
                else:
                    self.said.append(message)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def order(self, what, **more):
        number = next(self.numbers)
        self.popen.stdin.write(json.dumps({"id": number, "do": what, **more}).encode() + b"\n")
        self.popen.stdin.flush()
        return number

    def answer(self, number, patience=PATIENCE):
        with self.changed:
            assert self.changed.wait_for(lambda: number in self.answers or self.ended, patience), "no answer"
            assert number in self.answers, self.popen.stderr.read()
            return self.answers.pop(number)

    def ask(self, what, **more):
        return self.answer(self.order(what, **more))

    def tools(self):
        answer = self.ask("tools")
        assert "tools" in answer, answer
        return {tool["name"]: tool for tool in answer["tools"]}

    def call(self, tool, arguments=None, **more):
        return self.ask("call", name=tool, arguments=arguments or {}, **more)

    def text(self, tool, arguments=None, **more):
        answer = self.call(tool, arguments, **more)
        assert answer.get("isError") is False, answer
        return "".join(block.get("text", "") for block in answer["content"])

    def info(self):
        return self.ask("info")

    def logged(self):
        return [one["log"] for one in self.said if "log" in one]

    def wait_for(self, condition, patience=PATIENCE):
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), patience), self.said[-5:]

    def memory(self):
        """The most it ever had in memory, in bytes; nothing to go by with sanitizers."""
        if os.environ.get("COVE_TEST_SANITIZED"):
            return 0
        for line in pathlib.Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
        return 0

    def close(self):
        """Its last words."""
        if self.popen.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self.popen.stdin.write(b'{"do":"close"}\n')
                self.popen.stdin.flush()
            self.popen.wait(PATIENCE)
        with self.changed:
            self.changed.wait_for(lambda: self.ended, PATIENCE)
        self._shut()
        assert self.popen.returncode == 0, self.popen.returncode
        return self.last

    def _shut(self):
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:
            self.close()
        else:
            self.popen.kill()
            self.popen.wait()
            self._shut()


def node_server(package, *arguments):
    """The configuration of one of npm's servers, over stdio."""
    return {"command": str(NODE), "args": [str(installed() / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"), *map(str, arguments)]}


def odd_server(kind, *arguments):
    """The configuration of a server that behaves as its kind says (odd_mcp_server.py)."""
    return {"command": sys.executable, "args": [str(ODD), kind, *map(str, arguments)]}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def reach_of(port):
    return [f"127.0.0.1:{port}", f"localhost:{port}"]


@contextlib.contextmanager
def listening_node_server(package, transport):
    """One of npm's servers, over HTTP on a port of loopback."""
    port = free_port()
    config = node_server(package, transport)
    with subprocess.Popen([config["command"], *config["args"]], env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as popen:
        try:
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < until and popen.poll() is None
                    time.sleep(0.05)
            yield port
        finally:
            popen.terminate()
            popen.wait(10)


class HttpServer:
    """Answers with what a function says: `handle(request)`, where request has method, path, headers, body and json, and may
    `answer(status, body, **headers)` or `stream(headers)` and then `event(...)`. Remembers what came."""

    def __init__(self, handle):
        outer = self
        self.requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self):
                size = int(self.headers.get("Content-Length") or 0)
                self.body = self.rfile.read(size)
                self.json = json.loads(self.body) if self.body[:1] in (b"{", b"[") else None
                self.at = time.monotonic()
                outer.requests.append(self)
                self.close_connection = True
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    handle(self)
            do_GET = do_POST = do_DELETE = do_any

            @property
            def method(self):
                return self.command

            def answer(self, status, body=None, **headers):
                data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def result(self, result, **headers):
                self.answer(200, {"jsonrpc": "2.0", "id": self.json["id"], "result": result}, **headers)

            def fault(self, status, code, message="no", data=None):
                self.answer(status, {"jsonrpc": "2.0", "id": self.json.get("id"), "error": {"code": code, "message": message, **({"data": data} if data else {})}})

            def stream(self, **headers):
                self.send_response(200)
                for name, value in {"Content-Type": "text/event-stream", "Connection": "close", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.flush()

            def write(self, data):
                self.wfile.write(data if isinstance(data, bytes) else data.encode())
                self.wfile.flush()

            def event(self, message=None, number=None, retry=None, kind="message"):
                lines = [f"event: {kind}"]
                if number is not None:
                    lines.append(f"id: {number}")
                if retry is not None:
                    lines.append(f"retry: {retry}")
                lines.append("data: " + ("" if message is None else message if isinstance(message, str) else json.dumps(message)))
                self.write("\n".join(lines) + "\n\n")

            def log_message(self, *_):
                pass

        class Threads(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.httpd = Threads(("127.0.0.1", 0), Handler)
        self.port = self.httpd.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.reach = reach_of(self.port)
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()

    def of_method(self, method):
        return [one for one in self.requests if one.json and one.json.get("method") == method]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.httpd.shutdown()
        self.httpd.server_close()


MODERN = "2026-07-28"
LEGACY = "2025-11-25"


def modern(result=None, **more):
    return {"resultType": "complete", "ttlMs": 300000, "cacheScope": "private", **(result or {}), **more}


def discovery(**more):
    return modern(supportedVersions=[MODERN], capabilities={"tools": {}}, _meta={"io.modelcontextprotocol/serverInfo": {"name": "odd", "version": "1"}}, **more)


def greeting(version=LEGACY):
    return {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "odd", "version": "1"}}


def tool(name, schema=None, **more):
    return {"name": name, "description": name, "inputSchema": schema or {"type": "object"}, **more}


def text_result(text, **more):
    return {"content": [{"type": "text", "text": text}], **more}
