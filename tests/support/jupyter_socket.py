"""A client of Jupyter's WebSocket that sees every message, in any of the three framings."""
import json
import struct
import time
import uuid

V1 = "v1.kernel.websocket.jupyter.org"


def encode(framing, message):
    """One message as the WebSocket of support/server.py sends it: bytes, or an object that becomes text."""
    if framing == "v1":
        parts = [message["channel"].encode(), *(json.dumps(message[name]).encode() for name in ("header", "parent_header", "metadata", "content")), *message["buffers"]]
        offsets = [8 * (len(parts) + 2)]
        for part in parts:
            offsets.append(offsets[-1] + len(part))
        return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)
    whole = {**message, "buffers": []}
    if not message["buffers"]:
        return whole
    parts = [json.dumps(whole).encode(), *message["buffers"]]
    offsets = [4 * (len(parts) + 1)]
    for part in parts[:-1]:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f">{len(parts) + 1}I", len(parts), *offsets) + b"".join(parts)


def decode(framing, data):
    if framing == "v1":
        assert isinstance(data, bytes), "a message of the v1 framing came as text"
        (count,) = struct.unpack_from("<Q", data)
        offsets = struct.unpack_from(f"<{count}Q", data, 8)
        assert offsets[0] == 8 * (count + 1) and offsets[-1] == len(data)
        parts = [data[a:b] for a, b in zip(offsets, offsets[1:])]
        header, parent, metadata, content = (json.loads(part) for part in parts[1:5])
        return {"channel": parts[0].decode(), "header": header, "parent_header": parent, "metadata": metadata, "content": content, "buffers": parts[5:],
                "msg_type": header["msg_type"], "msg_id": header["msg_id"]}
    if isinstance(data, dict):
        return data
    (count,) = struct.unpack_from(">I", data)
    offsets = [*struct.unpack_from(f">{count}I", data, 4), len(data)]
    parts = [data[a:b] for a, b in zip(offsets, offsets[1:])]
    return {**json.loads(parts[0]), "buffers": parts[1:]}


class Outcome:
    """Everything that came of one request, in order."""

    def __init__(self, frames):
        self.frames = frames
        self.types = [frame["msg_type"] for frame in frames]

    def of(self, kind):
        return [frame["content"] for frame in self.frames if frame["msg_type"] == kind]

    @property
    def reply(self):
        (reply,) = [frame for frame in self.frames if frame["msg_type"].endswith("_reply")]
        return reply["content"]

    def text(self, name="stdout"):
        return "".join(content["text"] for content in self.of("stream") if content["name"] == name)

    @property
    def result(self):
        return [content["data"]["text/plain"] for content in self.of("execute_result")]


class JupyterSocket:
    """A WebSocket at a kernel. `framing`: "legacy" or "v1"."""

    def __init__(self, server, kernel, framing="legacy", session_id=None, base="", headers=None, timeout=60, query=""):
        path = f"{base}/api/kernels/{kernel}/channels" + (f"?session_id={session_id}" if session_id else "") + query
        offered = {"Sec-WebSocket-Protocol": V1} if framing == "v1" else {}
        self.framing, self.session = framing, session_id or uuid.uuid4().hex
        self.socket = server.websocket(path, timeout=timeout, headers={**offered, **(headers or {})})
        self.seen = []  # frames that belong to no request that was waited for

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.socket.close()

    def send(self, kind, content, channel="shell", buffers=(), header=None):
        """The id of the request."""
        message_id = uuid.uuid4().hex
        message = {"channel": channel, "header": {"msg_id": message_id, "msg_type": kind, "session": self.session, "username": "t", "version": "5.3", **(header or {})},
                   "parent_header": {}, "metadata": {}, "content": content, "buffers": list(buffers)}
        self.socket.send(encode(self.framing, message))
        return message_id

    def next(self):
        data = self.socket.read()
        return None if data is None else decode(self.framing, data)

    def until_idle(self, request, answer=None):
        """What comes of a request, up to its `idle`. `answer` gets input requests."""
        frames, until = [], time.monotonic() + 120
        while True:
            assert time.monotonic() < until, f"no idle after {[f['msg_type'] for f in frames]}"
            frame = self.next()
            assert frame is not None, f"closed after {[f['msg_type'] for f in frames]}"
            if frame["parent_header"].get("msg_id") != request:
                self.seen.append(frame)
                continue
            frames.append(frame)
            if frame["msg_type"] == "input_request" and answer is not None:
                self.send("input_reply", {"value": answer(frame["content"])}, channel="stdin")
            if frame["msg_type"] == "status" and frame["content"]["execution_state"] == "idle":
                return Outcome(frames)

    def ask(self, kind, content=None, channel="shell", **more):
        return self.until_idle(self.send(kind, content or {}, channel, **more))

    def execute(self, code, answer=None, **content):
        wanted = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": answer is not None, "stop_on_error": True, **content}
        return self.until_idle(self.send("execute_request", wanted), answer)
