"""Packages from an index into the user's own. The sandbox has no network: pip asks a server of ours on its loopback, which asks the host over
the channel, one request after the other. What may be fetched is decided there."""
import base64
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distributions

from .birth import user_packages
from .channel import encode


def run(begin, channel, leave):
    """Never returns."""
    host = _Host(channel)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _serving(host))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    channel.send('{"type":"started"}')
    target = user_packages()
    os.makedirs(target, exist_ok=True)
    fresh = tempfile.mkdtemp(dir=os.path.dirname(target))
    status = subprocess.run([
        sys.executable or "/usr/bin/python3", "-m", "pip", "--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir",
        "install", "--quiet", "--no-warn-script-location", "--progress-bar", "off", "--retries", "0", "--only-binary", ":all:", "--target",
        fresh, "--index-url", f"http://127.0.0.1:{server.server_address[1]}/index/", "--", *begin["packages"]]).returncode
    server.shutdown()
    if status == 0:
        _replace(target, fresh)
    shutil.rmtree(fresh, ignore_errors=True)
    found = [{"name": one.metadata["Name"], "version": one.version, "location": target} for one in distributions(path=[target])]
    host.tell({"type": "done", "exit_code": status, "installed": found})
    leave(0)


def _replace(target, fresh):
    """What was installed takes the place of what had the same names. An install that failed changes nothing."""
    names = {_normal(one.metadata["Name"]) for one in distributions(path=[fresh])}
    for old in distributions(path=[target]):
        if _normal(old.metadata["Name"]) not in names:
            continue
        for path in [*(old.files or ()), old._path.name]:
            place = os.path.normpath(os.path.join(target, str(path)))
            if not place.startswith(target + os.sep):
                continue
            if os.path.isdir(place):
                shutil.rmtree(place, ignore_errors=True)
            elif os.path.lexists(place):
                os.unlink(place)
    shutil.copytree(fresh, target, symlinks=True, dirs_exist_ok=True)


def _normal(name):
    return re.sub("[-_.]+", "-", name).lower()


class _Host:
    """One request at a time over the channel."""

    def __init__(self, channel):
        self.channel, self.turn = channel, threading.Lock()

    def tell(self, message):
        with self.turn:
            self.channel.send(encode(message))

    def get(self, path):
        """Yields (status, type, size or None) and then pieces of the body."""
        with self.turn:
            self.channel.send(encode({"type": "get", "path": path}))
            head = self.channel.receive()
            over = head.get("over")
            try:
                yield head["status"], head.get("content_type") or "text/plain", head.get("size")
                while not over:
                    self.channel.send('{"type":"more"}')
                    piece = self.channel.receive()
                    over = piece.get("over")
                    if piece.get("failed"):
                        raise ConnectionError
                    yield base64.b64decode(piece.get("data") or "")
            finally:
                if not over:
                    self.channel.send('{"type":"stop"}')
                    self.channel.receive()


def _serving(host):
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self):
            pieces = host.get(self.path)
            try:
                status, kind, size = next(pieces)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if size is not None:
                    self.send_header("Content-Length", str(size))
                self.end_headers()
                for piece in pieces:
                    self.wfile.write(piece)
            finally:
                pieces.close()
                self.close_connection = True

        def log_message(self, *_):
            pass

    return Handler
