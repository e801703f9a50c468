"""Stdio servers that do what real ones do not, or no longer: `odd_mcp_server.py KIND [ARGUMENT…]`."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

KIND, ARGUMENTS = sys.argv[1], sys.argv[2:]
out = sys.stdout.buffer
lock = threading.Lock()


def write(data):
    with lock:
        out.write(data)
        out.flush()


def send(message):
    write(json.dumps(message).encode() + b"\n")


def result(number, value):
    send({"jsonrpc": "2.0", "id": number, "result": value})


def fault(number, code, message="no"):
    send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})


def tool(name, schema=None, **more):
    return {"name": name, "description": name, "inputSchema": schema or {"type": "object"}, **more}


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def greeting(version="2025-11-25"):
    return {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "odd", "version": "1"}}


def lines():
    for line in sys.stdin.buffer:
        if line.strip():
            yield json.loads(line)


def legacy(on_call, tools=(), version="2025-11-25", discover="fault", on_list=None):
    """A server of an older revision. `discover`: what it does when it is asked what it has never heard of."""
    changes = list(tools)
    for message in lines():
        method, number = message.get("method"), message.get("id")
        if method == "server/discover":
            if discover == "exit":
                sys.exit(1)
            elif discover == "fault":
                fault(number, -32601)
            elif discover == "strange":
                fault(number, -32600, "who are you")
        elif method == "initialize":
            result(number, greeting(version))
        elif method == "tools/list":
            on_list(number, message["params"]) if on_list else result(number, {"tools": changes})
        elif method == "tools/call":
            threading.Thread(target=on_call, args=(number, message["params"]), daemon=True).start()
        elif method == "ping":
            result(number, {})
        elif method == "notifications/cancelled":
            cancelled.append(message["params"]["requestId"])
        elif method is None:
            answers[number] = message


cancelled = []
answers = {}


def echo(number, params):
    result(number, text(json.dumps(params["arguments"])))


def plain():
    legacy(echo, [tool("echo")])


def silent():
    legacy(echo, [tool("echo")], discover="silence")


def strange():
    legacy(echo, [tool("echo")], discover="strange")


def exits():
    legacy(echo, [tool("echo")], discover="exit")


def old():
    legacy(echo, [tool("echo")], version=ARGUMENTS[0])


def modern():
    """Of the newest revision alone."""
    key = "io.modelcontextprotocol/"
    for message in lines():
        method, number, params = message.get("method"), message.get("id"), message.get("params", {})
        meta = params.get("_meta", {})
        if number is None:
            continue
        if meta.get(key + "protocolVersion") != "2026-07-28" or key + "clientCapabilities" not in meta:
            send({"jsonrpc": "2.0", "id": number, "error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}})
        elif method == "server/discover":
            result(number, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
                            "_meta": {key + "serverInfo": {"name": "odd", "version": "2"}}})
        elif method == "tools/list":
            result(number, {"resultType": "complete", "ttlMs": 100000, "cacheScope": "private", "tools": [tool("echo"), tool("asks"), tool("job"), tool("forever"), tool("odd type")]})
        elif method == "tools/call" and params["name"] == "asks":
            if "inputResponses" in params:
                result(number, {"resultType": "complete", **text(json.dumps([params["inputResponses"], params.get("requestState")]))})
            else:
                result(number, {"resultType": "input_required", "requestState": "s\"1", "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "?"}}}})
        elif method == "tools/call" and params["name"] == "forever":
            result(number, {"resultType": "input_required", "requestState": "again"})
        elif method == "tools/call" and params["name"] == "odd type":
            result(number, {"resultType": "surprise"})
        elif method == "tools/call" and params["name"] == "job":
            jobs["t1"] = 0
            result(number, {"resultType": "task", "taskId": "t1", "status": "working", "ttlMs": None, "pollIntervalMs": 50, "createdAt": "x", "lastUpdatedAt": "x"})
        elif method == "tasks/get":
            jobs["t1"] += 1
            done = {"status": "completed", "result": text("done")} if jobs["t1"] > 3 and "never" not in ARGUMENTS else {"status": "working"}
            result(number, {"resultType": "complete", "taskId": "t1", "pollIntervalMs": 50, "ttlMs": None, **done})
        elif method == "tasks/cancel":
            print("cancelled", params["taskId"], file=sys.stderr, flush=True)
            result(number, {"resultType": "complete"})
        elif method == "tools/call":
            result(number, {"resultType": "complete", **text(json.dumps(params["arguments"]))})
        else:
            fault(number, -32601)


jobs = {}


def noisy():
    """Writes what is no message between those that are."""
    write(b"starting up...\n\n{\"half\": \n[1,2\n\xff\xfe\n")

    def call(number, params):
        write(b"debug: called\r\n")
        write(json.dumps({"jsonrpc": "2.0", "id": number, "result": text("ok")}).encode() + b"\r\n")
    legacy(call, [tool("echo")])


def dies():
    def call(number, params):
        if params["name"] == "echo":
            return echo(number, params)
        print("the last \x1b[31mwords", file=sys.stderr, flush=True)
        os._exit(7) if params["name"] == "exit" else os.kill(os.getpid(), signal.SIGSEGV)
    legacy(call, [tool("echo"), tool("exit"), tool("crash")])


def crashes_at_once():
    def call(number, params):
        os._exit(1)
    legacy(call, [tool("exit")])


def wrong_ids():
    def call(number, params):
        for other in (number + 1000, "text", -1, None, 1.5, [number], {"a": 1}):
            send({"jsonrpc": "2.0", "id": other, "result": text("not yours")})
        result(number, text("yours"))
        result(number, text("twice"))
        result(1, text("reused"))
    legacy(call, [tool("echo")])


def floods():
    def call(number, params):
        for i in range(20_000):
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": i}})
        result(number, text("done"))
    legacy(call, [tool("echo")])


def long_line():
    def call(number, params):
        write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number)
        for _ in range(int(ARGUMENTS[0])):
            write(b"x" * (1 << 20))
        write(b'"}]}}\n')
    legacy(call, [tool("echo")])


def deep():
    def call(number, params):
        write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":%s}}\n' % (number, b'{"a":' * 100_000 + b"1" + b"}" * 100_000))
    legacy(call, [tool("echo")])


def many_parts():
    def call(number, params):
        write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[%s]}}\n' % (number, b"[]," * 3_000_000 + b"{}"))
    legacy(call, [tool("echo")])


def hangs():
    def call(number, params):
        if params["name"] == "progress":
            token = params["_meta"]["progressToken"]
            for i in range(1000):
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": i, "message": f"step {i}"}})
                time.sleep(0.1)
        elif params["name"] == "stalled progress":
            token = params["_meta"]["progressToken"]
            while True:
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
                time.sleep(0.1)
        elif params["name"] == "cancelled":
            result(number, text(json.dumps(cancelled)))
        elif params["name"] == "late":
            time.sleep(0.5)
            result(number, text("late"))
    legacy(call, [tool(name) for name in ("hang", "progress", "stalled progress", "cancelled", "late")])


def no_reading():
    """Stops reading its input."""
    legacy_until_call = iter(lines())
    for message in legacy_until_call:
        method, number = message.get("method"), message.get("id")
        if method == "server/discover":
            fault(number, -32601)
        elif method == "initialize":
            result(number, greeting())
        elif method == "tools/list":
            result(number, {"tools": [tool("echo")]})
            time.sleep(1000)


def pages():
    """300 tools over 4 pages."""
    names = [f"tool {i}" for i in range(300)]

    def listed(number, params):
        begin = int(params.get("cursor", "0"))
        more = {"nextCursor": str(begin + 75)} if begin + 75 < len(names) else {}
        result(number, {"tools": [tool(name) for name in names[begin:begin + 75]], **more})
    legacy(echo, on_list=listed)


def endless_pages():
    def listed(number, params):
        cursor = params.get("cursor", "")
        result(number, {"tools": [], "nextCursor": cursor + "x" if KIND_OF_END == "endless" else "same"})
    KIND_OF_END = ARGUMENTS[0]
    legacy(echo, on_list=listed)


def huge_list():
    def listed(number, params):
        if ARGUMENTS[0] == "bytes":
            result(number, {"tools": [tool("echo", description="x" * (1 << 20))] * 20})
        elif ARGUMENTS[0] == "tools":
            result(number, {"tools": [{"name": f"t{i}"} for i in range(100_000)]})
        else:
            schema = {"type": "object", "properties": {"a": {"$ref": "#"}}, "allOf": [{"$ref": "#"}]}
            result(number, {"tools": [tool("circle", schema), tool("echo")]})
    legacy(echo, on_list=listed)


def asks():
    """Asks its client, as the older revisions may, and says what it was told."""
    def call(number, params):
        send({"jsonrpc": "2.0", "id": "q1", "method": params["name"], "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}, "messages": [], "maxTokens": 1}})
        until = time.monotonic() + 10
        while "q1" not in answers and time.monotonic() < until:
            time.sleep(0.01)
        answer = answers.pop("q1", {})
        result(number, text(json.dumps({name: answer[name] for name in ("result", "error") if name in answer})))
    legacy(call, [tool(name) for name in ("ping", "roots/list", "sampling/createMessage", "elicitation/create", "made/up")])


def structured():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def call(number, params):
        kind = params["name"]
        if kind == "good":
            result(number, text("1", structuredContent={"n": 1}))
        elif kind == "bad":
            result(number, text("1", structuredContent={"n": "1"}))
        elif kind == "none":
            result(number, text("1"))
        elif kind == "failed":
            result(number, text("it failed", isError=True))
        elif kind == "no blocks":
            result(number, {"content": "text"})
        elif kind == "fault":
            send({"jsonrpc": "2.0", "id": number, "error": {"code": -32042, "message": "look", "data": {"a": [1]}}})
        else:
            send({"jsonrpc": "2.0", "id": number, "result": [1]})
    legacy(call, [tool(name, outputSchema=schema) for name in ("good", "bad", "none", "failed", "no blocks", "fault", "no object")])


def arguments():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "remote": {"$ref": ARGUMENTS[0] if ARGUMENTS else "http://192.0.2.1/x"}}, "required": ["n"], "additionalProperties": False}
    legacy(echo, [tool("echo", schema)])


def changes():
    """Its list changes when it is told to."""
    names = ["first", "change"]

    def call(number, params):
        names[:] = ["second", "change"]
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        result(number, text("changed"))
    legacy(call, on_list=lambda number, params: result(number, {"tools": [tool(name) for name in names]}))


def task():
    """A tool of 2025-11-25 that is called as a task alone."""
    for message in lines():
        method, number = message.get("method"), message.get("id")
        if method == "server/discover":
            fault(number, -32601)
        elif method == "initialize":
            result(number, greeting())
        elif method == "tools/list":
            result(number, {"tools": [tool("job", execution={"taskSupport": "required"})]})
        elif method == "tools/call":
            assert "task" in message["params"]
            result(number, {"task": {"taskId": "t9", "status": "working", "ttl": None}})
        elif method == "tasks/result":
            time.sleep(0.3)
            result(number, text("of " + message["params"]["taskId"]))


def errors():
    """Writes a great deal to standard error, and ends."""
    def call(number, params):
        for _ in range(int(ARGUMENTS[0])):
            sys.stderr.write("\x1b[2J\x07" * 10_000)
        sys.stderr.write("END \x1b[31m of it \u009b2J\n")
        sys.stderr.flush()
        os._exit(2)
    legacy(call, [tool("echo")])


def stubborn():
    """Ends neither at the end of its input nor at a signal, and has a child."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "1000"])
    legacy(lambda number, params: result(number, text(json.dumps([os.getpid(), child.pid]))), [tool("pids")])
    while True:
        time.sleep(1)


def environment():
    legacy(lambda number, params: result(number, text(json.dumps({"env": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd()}))), [tool("show")])


def batches():
    def call(number, params):
        send([{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}, {"jsonrpc": "2.0", "id": number, "result": text("in a batch")}])
    legacy(call, [tool("echo")], version="2025-03-26")


def unknown_version():
    legacy(echo, [tool("echo")], version="1999-01-01")


def refuses():
    for message in lines():
        if message.get("id") is not None:
            fault(message["id"], -32603, "not today")


def never():
    time.sleep(1000)


globals()[KIND]()
