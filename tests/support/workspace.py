"""What the tests of the workspace API share."""
import urllib.parse

from interpreter import form, form_type
from server import new_id

SE = "/workspace/se"


def result(answer):
    """X of an answer that went well: once for each of the two faces, and once more as it is."""
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json
    assert body["result"] == body["full_result"] == {name: value for name, value in body.items() if name not in ("result", "full_result")}, body
    return body["result"]


def mistake(answer, message, detail=None, status=500):
    """An answer to a mistake of the caller's."""
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json"), answer
    said = answer.json["detail"]
    assert list(said) == ["type", "message", "detail"] and (said["type"], said["message"]) == ("SandboxError", message), answer
    if detail is not None:
        assert said["detail"] == detail, answer
    return said["detail"]


def quoted(path):
    return urllib.parse.quote(path)


def session(server, **body):
    name = new_id("ws")
    assert result(server.post(f"{SE}/session/{name}", body)) == {"session_id": name}
    return name


def execute(server, name, command, *args, **more):
    return result(server.post(f"{SE}/execute/{name}", {"command": command, "args": list(args), **more}, timeout=90))


def script(server, name, code, **fields):
    return result(server.post(f"{SE}/execute_code/{name}", {"code": code, **fields}, timeout=90))


def create(server, name, filename, content, **fields):
    return server.post(f"{SE}/create/{name}", {"content": content, "filename": filename, **fields})


def upload(server, name, content, filename="a.bin", query=""):
    body = form((f'name="file"; filename="{filename}"', content))
    return server.post(f"{SE}/upload/{name}{query}", body, headers=form_type())


def download(server, name, path):
    return server.get(f"{SE}/download/{name}/{quoted(path)}")


def listed(server, name, path="", query=""):
    return result(server.get(f"{SE}/files/{name}/{quoted(path)}{query}"))["files"]


def names(files):
    return [one["filename"] for one in files]


def read(server, name, path, **query):
    return result(server.get(f"{SE}/readfile/{name}/{quoted(path)}?{urllib.parse.urlencode(query)}"))


def call(server, code, event=None, **fields):
    body = {"handler_code": code, **({"event": event} if event is not None else {}), **fields}
    return server.post(f"{SE}/v2/execute_code", body, timeout=90)


def handled(server, code, event=None, **fields):
    answer = call(server, code, event, **fields)
    assert answer.status == 200, answer
    assert list(answer.json) == ["stdout", "stderr", "result", "exit_code", "metrics"]
    return answer.json
