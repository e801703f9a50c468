"""MCP over HTTP as a client speaks it: sessions of the older revisions, and requests of the newest that stand alone."""
import contextlib
import itertools
import json
import queue
import threading

BOTH = "application/json, text/event-stream"
MODERN = "2026-07-28"
LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
NEWEST_LEGACY = LEGACY[-1]
TASKS = "io.modelcontextprotocol/tasks"
KEY = "io.modelcontextprotocol/"


class Fault(Exception):
    """An answer that is an error of the protocol's."""

    def __init__(self, error, status=200):
        super().__init__(json.dumps(error))
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data")
        self.status = status


def messages_in(answer):
    """Those of a whole answer, in whichever form it came."""
    if not answer.body:
        return []
    if answer.headers["Content-Type"].startswith("application/json"):
        return [answer.json]
    lines = answer.body.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line[6:].strip()]


def outcome(messages, number, status=200):
    """The result among messages, or its error as an exception."""
    mine = [m for m in messages if m.get("id") == number and "method" not in m]
    assert len(mine) == 1, messages
    if "error" in mine[0]:
        raise Fault(mine[0]["error"], status)
    return mine[0]["result"]


class Streamed:
    """An answer that comes as events, read as it comes. `next` waits for the next message; `close` leaves."""

    def __init__(self, server, headers, body=None):
        self.stream = server.sse("/mcp", "GET" if body is None else "POST", body, headers, timeout=60)

    def next(self):
        while (event := self.stream.next_as_sent()) is not None:
            if event["data"].strip():
                return json.loads(event["data"])
        return None

    def close(self):
        self.stream.close()


class Client:
    """What both eras have in common."""

    def __init__(self, server, key=None):
        self.server = server
        self.numbers = itertools.count(1)
        self.base = {"Content-Type": "application/json", "Accept": BOTH, **({"Authorization": f"Bearer {key}"} if key else {})}

    def ask(self, method, number=None, headers=None, **params):
        """All messages that came with the answer, the answer last; and the HTTP status."""
        number = next(self.numbers) if number is None else number
        body, more = self.message(method, number, params)
        answer = self.server.post("/mcp", body, headers={**self.base, **more, **(headers or {})})
        return messages_in(answer), number, answer.status

    def request(self, method, **params):
        messages, number, status = self.ask(method, **params)
        return outcome(messages, number, status)

    def call(self, name, arguments=None, **params):
        return self.request("tools/call", name=name, **({} if arguments is None else {"arguments": arguments}), **params)

    def open(self, method, **params):
        """The answer as a stream, and the number of the request."""
        number = next(self.numbers)
        body, more = self.message(method, number, params)
        return Streamed(self.server, {**self.base, **more, "Accept": "text/event-stream"}, body), number


class Legacy(Client):
    def __init__(self, server, version=NEWEST_LEGACY, capabilities=None, key=None):
        super().__init__(server, key)
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": {"name": "test", "version": "1"}}
        answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, headers=self.base)
        self.hello = messages_in(answer)[-1]["result"]
        self.version = self.hello["protocolVersion"]
        self.base["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        self.base["MCP-Protocol-Version"] = self.version
        self.notify("notifications/initialized")

    def message(self, method, number, params):
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, {}

    def notify(self, method, **params):
        answer = self.server.post("/mcp", {"jsonrpc": "2.0", "method": method, "params": params}, headers=self.base)
        assert answer.status == 202, answer

    def reply(self, number, **result):
        answer = self.server.post("/mcp", {"jsonrpc": "2.0", "id": number, "result": result}, headers=self.base)
        assert answer.status == 202, answer

    def close(self):
        self.server.delete("/mcp", headers=self.base)

    @contextlib.contextmanager
    def listening(self):
        """What the server says by itself, as a queue."""
        stream = Streamed(self.server, {**self.base, "Accept": "text/event-stream"})
        yield from followed(stream)


class Modern(Client):
    def __init__(self, server, capabilities=None, key=None, level=None):
        super().__init__(server, key)
        self.capabilities = capabilities or {}
        self.level = level

    def message(self, method, number, params):
        params = dict(params)
        meta = {KEY + "protocolVersion": MODERN, KEY + "clientCapabilities": self.capabilities, KEY + "clientInfo": {"name": "test", "version": "1"}}
        if self.level:
            meta[KEY + "logLevel"] = self.level
        params["_meta"] = {**meta, **params.get("_meta", {})}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        name = params.get({"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(method, "taskId" if method.startswith("tasks/") else ""))
        if name is not None:
            headers["Mcp-Name"] = name
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, headers

    @contextlib.contextmanager
    def listening(self, **wishes):
        """The messages of a subscription, as a queue; the first is there already."""
        stream, self.listen_number = self.open("subscriptions/listen", notifications=wishes)
        yield from followed(stream)


def followed(stream):
    heard = queue.Queue()

    def follow():
        with contextlib.suppress(OSError, ValueError, AttributeError):  # what http.client says when it is closed meanwhile
            while (message := stream.next()) is not None:
                heard.put(message)
        heard.put(None)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        stream.close()
        thread.join(10)


def everything(client, method, name, **params):
    """A list through all its pages."""
    found, pages = [], 0
    while True:
        result = client.request(method, **params)
        found += result[name]
        pages += 1
        assert pages < 1000
        if "nextCursor" not in result:
            return found, pages
        params["cursor"] = result["nextCursor"]
