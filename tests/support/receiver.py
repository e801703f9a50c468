"""HTTP servers that stand in for others': one that is told things, and a package index."""
import contextlib
import hashlib
import http.server
import io
import threading
import zipfile


class Stand(http.server.ThreadingHTTPServer):
    """`answer(request)` is called for each request with a handler that has .path, .headers and .body; what came is in .came."""
    daemon_threads = True

    def __init__(self, answer):
        self.came, self.answer, self.changed = [], answer, threading.Condition()
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def place(self):
        return f"127.0.0.1:{self.server_address[1]}"

    def url(self, path="/"):
        return f"http://{self.place}{path}"

    def wait_for(self, count, patience=20):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.came) >= count, patience), self.came
        return self.came

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    def handle_any(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.changed:
            self.server.came.append(self)
            self.server.changed.notify_all()
        with contextlib.suppress(ConnectionError):
            self.server.answer(self)
        self.close_connection = True

    do_GET = do_POST = handle_any

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def wheel(name, version, code, requires=()):
    """(file name, bytes) of a wheel with one module of the package's name."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {f"{module}.py": code, f"{info}/METADATA": metadata, f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{module}-{version}-py3-none-any.whl", packed.getvalue()


def index_page(*wheels, prefix="/files/"):
    links = "".join(f'<a href="{prefix}{file}#sha256={hashlib.sha256(data).hexdigest()}">{file}</a><br>' for file, data in wheels)
    return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
