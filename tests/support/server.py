"""A `cove serve` to talk to: started, killed and restarted by tests, and spoken to in plain HTTP, server-sent events and WebSockets."""
import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import tempfile
import time
import urllib.parse
import uuid

from conftest import COVE, HostState, wait_until

READY = 30  # seconds a server may take before a test gives up; what it should take is for the tests to say
ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)")


def new_id(prefix="t"):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def sanitizer_report(text):
    """Of a sanitized build: what it found. The process that it found it in has ended, and another has taken its place."""
    found = re.search(r"(ERROR: (Address|Leak)Sanitizer|runtime error: ).*", text, re.DOTALL)
    return found[0][:6000] if found else None


class Answer:
    """A whole answer to one request."""

    def __init__(self, status, reason, headers, body):
        self.status = status
        self.reason = reason
        self.headers = headers  # of http.client: names in any case, get_all
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["code"]

    def __repr__(self):
        return f"<{self.status} {self.reason} {self.body[:300]!r}>"


class Server:
    living = []  # those that were not closed yet

    def __init__(self, *flags, env=None, listen=None, user=None, binary=COVE, warm=False, before=None):
        """`warm`: with zygotes and a pool, as is the default; without, a start costs little and only what is asked for is made."""
        self.flags = [*([] if warm else ["--python-warm=false", "--pool-size=0"]), *(str(flag) for flag in flags)]
        self.env = env or {}
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-server-"))
        self.directory.chmod(0o755)
        self.state_dir = self.directory / "state"
        self.log_path = self.directory / "log"
        self.popen = None
        self.port = None
        self.listen = listen
        self.user = user  # a number, instead of the caller's
        self.binary = binary
        self.before = before  # called in the new process before it becomes the server
        if user is not None:
            os.chown(self.directory, user, user)
        self.started_in = None  # seconds until /healthz was OK
        Server.living.append(self)

    # --- its life

    def start(self, *more, wait=True):
        listen = self.listen or f"127.0.0.1:{self.port or 0}"
        arguments = [self.binary, "serve", "--listen", listen, "--state-dir", self.state_dir, *self.flags, *more]
        self.log_path.touch()
        before = self.log_path.stat().st_size
        began = time.monotonic()
        with open(self.log_path, "ab") as log:
            self.popen = subprocess.Popen([str(word) for word in arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.env}, user=self.user, preexec_fn=self.before)
        if not wait:
            return self
        deadline = began + READY
        while time.monotonic() < deadline:
            if self.popen.poll() is not None:
                raise RuntimeError(f"cove serve ended with {self.popen.returncode}:\n{self.log[-4000:]}")
            if found := ADDRESS.search(self.log_path.read_bytes()[before:]):
                self.port = int(found[1])
                with contextlib.suppress(OSError):
                    if self.request("GET", "/healthz", timeout=5).status == 200:
                        self.started_in = time.monotonic() - began
                        return self
            time.sleep(0.01)
        raise RuntimeError(f"cove serve did not become ready in {READY} s:\n{self.log[-4000:]}")

    @property
    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def pid(self):
        return self.popen.pid

    def child(self, name):
        """The process of this name below the supervisor."""
        for pid in pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                return int(pid)
        raise LookupError(f"no {name} below {self.pid}")

    def kill9(self):
        self.popen.kill()
        self.popen.wait(10)

    def restart(self, *more):
        """As after a crash: at once, on the same port and the same state."""
        if self.popen.poll() is None:
            self.kill9()
        return self.start(*more)

    def terminate(self):
        self.popen.send_signal(signal.SIGTERM)

    def stop(self, patience=40):
        """Its exit status after SIGTERM."""
        if self.popen.poll() is None:
            self.terminate()
        try:
            return self.popen.wait(patience)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait(10)
            raise

    def close(self):
        """Ends whatever still runs, with everything in it, and removes the directory."""
        if self not in Server.living:
            return
        Server.living.remove(self)
        failure = None
        try:
            if self.popen is not None and self.popen.poll() is None:
                try:
                    self.stop(15)
                except subprocess.TimeoutExpired as late:
                    failure = late
            # Sandboxes may have outlived it: one more life to end them.
            if self.popen is not None and (self.popen.returncode != 0 or "keep" in self.popen.args):
                self.flags = [flag for flag in self.flags if flag not in ("--on-exit", "keep")]
                self.start("--on-exit", "destroy")
                self.stop()
        finally:
            # Shown by pytest when the test failed.
            print("".join(line for line in self.log.splitlines(True) if " id=req_" not in line)[-6000:])
            report = sanitizer_report(self.log)
            shutil.rmtree(self.directory, ignore_errors=True)
        if failure:
            raise failure
        assert not report, report

    def discard(self):
        """Of one that could not start: it has made nothing that another start would have to end."""
        Server.living.remove(self)
        if self.popen is not None and self.popen.poll() is None:
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    # --- its processes, as the host sees them

    def children(self):
        return [pid for pid, (_, parent) in HostState.all_processes().items() if parent == self.pid]

    def keeper(self):
        """Pid of the living cove-keeper below the server."""
        processes = HostState.all_processes()
        below = {self.pid}
        while more := {pid for pid, (_, parent) in processes.items() if parent in below} - below:
            below |= more
        found = [pid for pid in below if processes[pid][0] == "cove-keeper" and self.alive(pid)]
        return found[0] if found else None

    @staticmethod
    def alive(pid):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    # --- HTTP

    def request(self, method, path, body=None, headers=None, timeout=60):
        """One request on a connection of its own. A dict as body is sent as JSON, ASCII only, as the reference client sends it."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        headers.setdefault("Connection", "close")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, response.reason, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body if body is not None else b"", **options)

    def put(self, path, body=None, **options):
        return self.request("PUT", path, body if body is not None else b"", **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def raw(self, data, timeout=60, half_close=False):
        """Sends these bytes and returns all that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            received = bytearray()
            while piece := connection.recv(1 << 16):
                received += piece
        return bytes(received)

    def raw_request(self, method, target, body=None, headers=(), timeout=60):
        """The head exactly as Python's urllib writes it; `target` goes on the wire untouched."""
        lines = [f"{method} {target} HTTP/1.1", "Accept-Encoding: identity"]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"Host: 127.0.0.1:{self.port}", "User-Agent: Python-urllib/3.11", *headers, "Connection: close"]
        return parse_answer(self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""), timeout))

    def sse(self, path, method="GET", body=None, headers=None, timeout=30):
        return EventStream(self, method, path, body, headers or {}, timeout)

    def websocket(self, path, timeout=30, headers=None):
        return WebSocket(self.port, path, timeout, headers or {})

    # --- the everyday requests

    def create(self, name=None, **fields):
        name = name or new_id()
        answer = self.put(at(name), fields)
        assert answer.status == 200, answer
        return name

    def exec(self, name, *command, **fields):
        """The result of a command that the server agreed to run."""
        answer = self.post(at(name, "exec"), {"cmd": list(command), **fields}, timeout=90)
        assert answer.status == 200, answer
        return answer.json

    def sh(self, name, script, **fields):
        return self.exec(name, "sh", "-c", script, **fields)

    def out(self, name, script, **fields):
        """stdout of a shell script that must succeed."""
        result = self.sh(name, script, **fields)
        assert result["exitCode"] == 0, result
        return result["stdout"]

    def upload(self, name, archive, dest=None, **options):
        query = "" if dest is None else "?" + urllib.parse.urlencode({"dest": dest})
        return self.post(at(name, "files/upload") + query, archive, headers={"Content-Type": "application/x-tar"}, **options)

    def download(self, name, src=None):
        query = "" if src is None else "?" + urllib.parse.urlencode({"src": src})
        return self.get(at(name, "files/download") + query)

    def start_process(self, name, *command, **fields):
        answer = self.post(at(name, "processes"), {"cmd": list(command), **fields})
        assert answer.status == 201, answer
        return answer.json

    def process(self, name, pid):
        answer = self.get(at(name, f"processes/{pid}"))
        assert answer.status == 200, answer
        return answer.json

    def ended(self, name, pid, patience=20):
        """The process when it has ended."""
        assert wait_until(lambda: self.process(name, pid)["state"] == "exited", patience), self.process(name, pid)
        return self.process(name, pid)

    def events(self, name, pid, first=1, limit=10000):
        answer = self.get(at(name, f"processes/{pid}/events?from={first}&limit={limit}"))
        assert answer.status == 200, answer
        return answer.json["events"]

    def output(self, name, pid, kind="stdout", first=1):
        """What a process wrote, put together from its events."""
        return joined(self.events(name, pid, first), kind)


def at(name, rest=""):
    """The path of a sandbox, the id escaped."""
    return "/v1/sandboxes/" + urllib.parse.quote(name, safe="") + ("/" + rest if rest else "")


def joined(events, kind="stdout"):
    """The bytes of these events of one stream, as text."""
    pieces = [base64.b64decode(event["base64"]) if "base64" in event else event["data"].encode() for event in events if event["type"] == kind]
    return b"".join(pieces).decode(errors="replace")


def parse_answer(data):
    """An answer from the bytes of a connection."""
    assert data.startswith(b"HTTP/1.1 "), data[:200]
    head, _, _ = data.partition(b"\r\n\r\n")

    class Bytes:
        def makefile(self, *_):
            return io.BytesIO(data)

    response = http.client.HTTPResponse(Bytes())
    response.begin()
    answer = Answer(response.status, response.reason, response.headers, response.read())
    answer.head = head.decode("latin-1")
    return answer


class EventStream:
    """Server-sent events, one at a time. `with` closes the connection."""

    def __init__(self, server, method, path, body, headers, timeout):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
        headers = {"Accept": "text/event-stream", **headers}
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        self.connection.request(method, path, body=body, headers=headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.headers = self.response.headers
        self.comments = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.sock and self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        self.response.close()

    def line(self):
        """One line without its end; None at the end of the stream."""
        line = self.response.readline()
        return line.decode().rstrip("\n") if line else None

    def next(self):
        """{"id", "event", "data"} of the next event, data parsed; None at the end."""
        event = self.next_as_sent()
        return event and {"id": event["id"] and int(event["id"]), "event": event["event"], "data": json.loads(event["data"])}

    def next_as_sent(self):
        """The same as texts."""
        fields, data = {}, []
        while (line := self.line()) is not None:
            if line == "":
                if data:
                    return {"id": fields.get("id"), "event": fields.get("event"), "data": "\n".join(data)}
                fields, data = {}, []
            elif line.startswith(":"):
                self.comments += 1
            else:
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "data":
                    data.append(value)
                else:
                    fields[name] = value
        return None

    def comment(self):
        """Waits for the comment a stream begins with."""
        while (line := self.line()) is not None:
            if line.startswith(":"):
                self.response.readline()
                return True
        return False

    def __iter__(self):
        while (event := self.next()) is not None:
            yield event

    def until(self, wanted):
        """All events up to the first for which wanted(data) is true."""
        seen = []
        for event in self:
            seen.append(event)
            if wanted(event["data"]):
                return seen
        raise AssertionError(f"the stream ended before it came: {seen}")


class WebSocket:
    """The client's side of RFC 6455, by hand."""

    MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

    def __init__(self, port, path, timeout, headers):
        key = base64.b64encode(os.urandom(16)).decode()
        self.timeout = timeout
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self.rest = b""
        head = b""
        while b"\r\n\r\n" not in head:
            piece = self.socket.recv(4096)
            if not piece:
                break
            head += piece
        head, _, self.rest = head.partition(b"\r\n\r\n")
        self.status = int(head.split()[1])
        self.head = head.decode("latin-1")
        self.close_code = None
        if self.status == 101:
            want = base64.b64encode(hashlib.sha1((key + self.MAGIC).encode()).digest()).decode()
            assert f"sec-websocket-accept: {want}".lower() in self.head.lower(), self.head

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _take(self, count):
        while len(self.rest) < count:
            piece = self.socket.recv(1 << 16)
            if not piece:
                raise ConnectionError("the server closed the connection")
            self.rest += piece
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def send_frame(self, opcode, payload, final=True):
        head = bytes([(0x80 if final else 0) | opcode])
        if len(payload) < 126:
            head += bytes([0x80 | len(payload)])
        elif len(payload) < 1 << 16:
            head += bytes([0x80 | 126]) + struct.pack(">H", len(payload))
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", len(payload))
        mask = os.urandom(4)
        self.socket.sendall(head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)))

    def send(self, message):
        """bytes as a binary message, anything else as JSON in a text message."""
        if isinstance(message, bytes):
            self.send_frame(self.BINARY, message)
        else:
            self.send_frame(self.TEXT, json.dumps(message).encode())

    def read_frame(self):
        first, second = self._take(2)
        assert not second & 0x80, "a server does not mask"
        length = second & 0x7F
        if length == 126:
            length = struct.unpack(">H", self._take(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self._take(8))[0]
        return bool(first & 0x80), first & 0x0F, self._take(length)

    def read(self):
        """The next message: bytes, or the object of a text message; None when the server closed."""
        whole, kind, until = b"", None, time.monotonic() + (self.timeout or 0)
        while True:
            final, opcode, payload = self.read_frame()
            if opcode == self.PING:
                assert self.timeout is None or time.monotonic() < until, "nothing but pings"
                self.send_frame(self.PONG, payload)
                continue
            if opcode == self.PONG:
                continue
            if opcode == self.CLOSE:
                self.close_code = struct.unpack(">H", payload[:2])[0] if payload else 1005
                with contextlib.suppress(OSError):
                    self.send_frame(self.CLOSE, payload[:2])
                return None
            kind = kind or opcode
            whole += payload
            if final:
                return json.loads(whole) if kind == self.TEXT else whole

    def read_until(self, wanted):
        """Bytes until `wanted` has been seen among them. Text messages are kept in .notices."""
        self.notices = getattr(self, "notices", [])
        seen = b""
        while wanted not in seen:
            message = self.read()
            assert message is not None, f"closed with {self.close_code} after {seen!r}"
            if isinstance(message, bytes):
                seen += message
            else:
                self.notices.append(message)
        return seen

    def close(self, code=1000):
        self.send_frame(self.CLOSE, struct.pack(">H", code))


# --- archives

def tar_gz(files, mode="w:gz", format=tarfile.PAX_FORMAT):
    """What the reference client makes of {name: str or bytes}: gzip, pax, files alone, mode 0644, times 0."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=format) as archive:
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def tar_of(*members, mode="w:gz", format=tarfile.PAX_FORMAT):
    """An archive of TarInfos, or of (TarInfo, bytes)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode, format=format) as archive:
        for member in members:
            info, content = member if isinstance(member, tuple) else (member, b"")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def member(name, kind=tarfile.REGTYPE, **attributes):
    info = tarfile.TarInfo(name)
    info.type = kind
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


def members_of(archive):
    """{name: TarInfo or bytes of a file} of a gzip-compressed archive, which must be gzip."""
    assert archive[:2] == b"\x1f\x8b", archive[:20]
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as opened:
        return {info.name: opened.extractfile(info).read() if info.isreg() else info for info in opened.getmembers()}
