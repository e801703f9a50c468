"""An MCP server for tests, of the old revisions, with nothing but the standard library. As a program: lines on its pipes, the tools of the
JSON text in its first argument, if there is one. serve_http() is the same over HTTP, on loopback."""
import http.server
import json
import sys
import threading
import time

TOOLS = [
    {"name": "tool-1", "description": "This is tool 1.", "inputSchema": {"type": "object", "properties": {"s": {"type": "string", "description": "The text"}}, "required": ["s"]}},
    {"name": "tool-2", "description": "Adds.", "annotations": {"readOnlyHint": True},
     "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "my-b": {"type": "integer"}}, "required": ["a"]},
     "outputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}},
    {"name": "slow", "inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}}}},
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "environment", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
    {"name": "image", "inputSchema": {"type": "object"}},
    {"name": "large", "inputSchema": {"type": "object", "properties": {"bytes": {"type": "integer"}}}},
    {"name": "end", "inputSchema": {"type": "object"}},
]


def call(name, arguments, headers=None):
    import os
    if name == "tool-2":
        total = arguments["a"] + arguments.get("my-b", 0)
        return {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"sum": total}}
    if name == "fail":
        return {"content": [{"type": "text", "text": "it broke"}], "isError": True}
    if name == "image":
        return {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
    if name == "end":
        os._exit(3)
    if name == "slow":
        time.sleep(arguments.get("seconds", 0))
    text = {
        "slow": "slept", "large": "x" * arguments.get("bytes", 0),
        "environment": os.environ.get(arguments.get("name", ""), "") or (headers or {}).get(arguments.get("name", ""), ""),
    }.get(name, json.dumps(arguments, sort_keys=True))
    return {"content": [{"type": "text", "text": text}]}


def answer(message, tools, headers=None):
    """None for what wants no answer."""
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        return None
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "tests", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": tools}
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments") or {}, headers)
    elif method == "resources/read":
        result = {"contents": [{"uri": params["uri"], "text": "from the server"}]}
    elif method == "ping":
        result = {}
    else:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": f"no {method}"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Http(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, tools=None):
        self.tools, self.calls = tools or TOOLS, 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.calls += message.get("method") == "tools/call"
                given = answer(message, server.tools, dict(self.headers.items()))
                body = json.dumps(given).encode() if given else b""
                self.send_response(200 if given else 202)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.send_response(405)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_DELETE = do_GET

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"
        threading.Thread(target=self.serve_forever, daemon=True).start()


if __name__ == "__main__":
    served = json.loads(sys.argv[1]) if len(sys.argv) > 1 else TOOLS
    lock = threading.Lock()

    def serve(message):
        given = answer(message, served)
        if given:
            with lock:
                print(json.dumps(given), flush=True)

    for line in sys.stdin:
        threading.Thread(target=serve, args=(json.loads(line),)).start()
