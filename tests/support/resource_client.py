"""What ipybox's ResourceClient does, written by hand: a host, which may carry NAME:SECRET@ in front, and a port."""
import base64
import http.client
import io
import json
import pathlib
import tarfile
import urllib.parse


class ResponseError(Exception):
    def __init__(self, status, body):
        super().__init__(status, body)
        self.status = status
        self.body = body


class ResourceClient:
    def __init__(self, port, host="localhost"):
        userinfo, _, self.host = host.rpartition("@")
        self.port = port
        self.headers = {"Authorization": "Basic " + base64.b64encode(userinfo.encode("latin-1")).decode()} if userinfo else {}

    def send(self, method, path, body=None, content_type=None):
        headers = {**self.headers, **({"Content-Type": content_type} if content_type else {})}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ResponseError(response.status, content)
        return response, content

    def json(self, method, path, **more):
        response, content = self.send(method, path, **more)
        assert response.headers["Content-Type"] == "application/json", "the HTTP library of the real client parses nothing else"
        return json.loads(content)

    def connect(self):
        self.json("GET", "/status/")

    def upload_file(self, relpath, local_path):
        local_path = pathlib.Path(local_path)
        if not local_path.exists():
            raise FileNotFoundError(local_path)
        self.json("POST", f"/files/{urllib.parse.quote(relpath)}", body=local_path.read_bytes(), content_type="application/octet-stream")

    def download_file(self, relpath, local_path):
        _, content = self.send("GET", f"/files/{urllib.parse.quote(relpath)}")
        local_path = pathlib.Path(local_path)
        local_path.parent.mkdir(parents=True, exist_ok=True)
        local_path.write_bytes(content)

    def delete_file(self, relpath):
        self.send("DELETE", f"/files/{urllib.parse.quote(relpath)}")

    def upload_directory(self, relpath, local_path):
        local_path = pathlib.Path(local_path)
        if not local_path.is_dir():
            raise FileNotFoundError(local_path)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in local_path.rglob("*"):
                if path.is_file():
                    tar.add(path, arcname=str(path.relative_to(local_path)))
        self.json("POST", f"/directories/{urllib.parse.quote(relpath)}", body=packed.getvalue(), content_type="application/x-gzip")

    def download_directory(self, relpath, local_path):
        _, content = self.send("GET", f"/directories/{urllib.parse.quote(relpath)}")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
            tar.extractall(local_path)  # what the tests put there themselves

    def get_module_sources(self, names):
        return self.json("GET", "/modules?" + urllib.parse.urlencode([("q", name) for name in names]))

    def generate_mcp_sources(self, relpath, server_name, server_params):
        return self.json("PUT", f"/mcp/{relpath}/{server_name}", body=json.dumps(server_params), content_type="application/json")

    def get_mcp_sources(self, relpath, server_name):
        return self.json("GET", f"/mcp/{relpath}?" + urllib.parse.urlencode({"server_name": server_name}))


class ToolServer:
    """What the tool server of ipybox's later versions is asked, and its approval channel."""

    def __init__(self, port, host="127.0.0.1"):
        self.client, self.address = ResourceClient(port, host), f"ws://{host}:{port}/approval"

    def _post(self, path, **body):
        return self.client.json("POST", path, body=json.dumps(body), content_type="application/json")

    def run(self, server_name, server_params, tool_name, tool_args):
        return self._post("/run", server_name=server_name, server_params=server_params, tool_name=tool_name, tool_args=tool_args)

    def approve(self, server_name, tool_name, tool_args):
        return self._post("/approve", server_name=server_name, tool_name=tool_name, tool_args=tool_args)

    def reset(self):
        return self.client.json("PUT", "/reset")
