"""What the tests of the code interpreter's API share: forms, files, runs, streams."""
import json
import uuid

JSON = {"Content-Type": "application/json"}


def form(*parts, boundary="boundary-1"):
    """The body of a form. A part is (headers after "form-data; ", bytes)."""
    body = b""
    for disposition, content in parts:
        disposition = disposition if isinstance(disposition, bytes) else disposition.encode()
        body += b"--" + boundary.encode() + b"\r\nContent-Disposition: form-data; " + disposition + b"\r\n\r\n" + content + b"\r\n"
    return body + b"--" + boundary.encode() + b"--\r\n"


def form_type(boundary="boundary-1"):
    return {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def send_file(server, content, name="a.txt", **options):
    content = content.encode() if isinstance(content, str) else content
    return server.post("/v1/files", form((f'name="file"; filename="{name}"', content)), headers=form_type(), **options)


def keep(server, content, name="a.txt"):
    """The id of a new file."""
    answer = send_file(server, content, name)
    assert answer.status == 201, answer
    return answer.json["file_id"]


def fetch(server, file_id):
    answer = server.get(f"/v1/files/{file_id}")
    assert answer.status == 200, answer
    return answer.body


def ask(server, code="", path="/v1/execute", **fields):
    return server.post(path, {"code": code, **fields}, timeout=90)


def run(server, code, **fields):
    """The result of a run that the server agreed to."""
    fields.setdefault("timeout_ms", 30000)
    answer = ask(server, code, **fields)
    assert answer.status == 200, answer
    return answer.json


def outputs(server, result):
    """{path: bytes} of the files of a result."""
    return {entry["path"]: fetch(server, entry["file_id"]) for entry in result["files"]}


def stream(server, code, **fields):
    """[(event, data)] of a stream, which must be framed to the byte."""
    fields.setdefault("timeout_ms", 30000)
    answer = ask(server, code, "/v1/execute/stream", **fields)
    assert answer.status == 200, answer
    return events_of(answer.body)


def events_of(body):
    events = []
    assert body.endswith(b"\n\n"), body[-100:]
    for frame in body[:-2].split(b"\n\n"):
        name, data = frame.split(b"\n")
        assert name.startswith(b"event: ") and data.startswith(b"data: "), frame
        events.append((name[7:].decode(), json.loads(data[6:])))
    return events


def joined(events, stream):
    return "".join(data["data"] for name, data in events if name == "output" and data["stream"] == stream)


def bash(server, session, cmd, **fields):
    answer = server.post(f"/v1/sessions/{session}/bash", {"cmd": cmd, **fields}, timeout=90)
    assert answer.status == 200, answer
    return answer.json


def new_session(server, **fields):
    answer = server.post("/v1/sessions", fields)
    assert answer.status == 201, answer
    return answer.json["session_id"]


def unknown_id():
    return str(uuid.uuid4())
