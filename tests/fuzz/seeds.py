"""seeds.py DIRECTORY: writes what each fuzzer begins with, one folder a fuzzer: well-formed inputs, so that mutations get past the first check."""
import gzip
import io
import json
import pathlib
import struct
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def archives():
    """A byte that says whether checksums are put right, then tar, plain and packed."""
    for name, kind in (("a/b.txt", tarfile.REGTYPE), ("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("dir/", tarfile.DIRTYPE), ("x" * 200, tarfile.REGTYPE)):
        for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            stream = io.BytesIO()
            with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, "a/b.txt" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
                member.size = 5 if kind == tarfile.REGTYPE else 0
                try:
                    archive.addfile(member, io.BytesIO(b"hello"))
                except ValueError:
                    continue  # this form has no room for the name
            yield b"\1" + stream.getvalue()
            yield b"\0" + gzip.compress(stream.getvalue(), mtime=0)


def messages():
    """A byte that says how the rest is cut, then lines of an MCP client."""
    def call(method, params):
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    yield b"\7" + call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}})
    yield b"\3" + call("tools/call", {"name": "execute_code", "arguments": {"code": "print(1)", "language": "python"}, "_meta": {"progressToken": 1}})
    yield b"\1[" + call("ping", {}).strip() + b"," + call("tools/list", {"cursor": "x"}).strip() + b"]\n"
    yield b"\5" + b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n{"jsonrpc":"2.0","id":"a","result":{}}\n'
    yield b"\2eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJpIiwiYXVkIjoiYSIsInN1YiI6InMiLCJleHAiOjl9.AAAA"


def requests():
    yield b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield b"POST /v1/execute?a=%20b&c HTTP/1.1\r\nHost: [::1]:8000\r\nContent-Length: 5\r\nContent-Type: application/json\r\n\r\nhello"
    yield b"PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n5;a=b\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"
    yield b"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"


def forms():
    """A line that is read as a header, then a form with the boundary it names."""
    yield b'form-data; name="f"; filename="a.txt"; boundary=b\n--b\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b--\r\n'
    yield b"form-data; name=f; filename*=UTF-8''%e2%82%ac.txt; boundary=\"x y\"\n--x y\r\nContent-Disposition: form-data; name=f\r\n\r\n1\r\n--x y\r\n\r\n\r\n--x y--"


def bodies():
    """A byte that chooses the Content-Type, then a body."""
    yield b"\0" + json.dumps({"code": "print(1)", "timeout": 5, "files": ["a", "b"]}).encode()
    yield b"\0" + b'{"code": 1, "timeout": 1e400, "files": {"a": [NaN, -Infinity, "\\ud800", 12345678901234567890123]}}'
    yield b"\0" + b'{"timeout": "12", "timeout": 12.0, "code": null, "files": [1, {"a": true}]'
    yield b"\3" + b"code=print(1)&timeout=5"


def frames():
    """Frames as they pass between the front and init: size, type, reserved, process, payload."""
    for kind, payload in ((3, b""), (7, b""), (4, b"\0" * 16), (14, struct.pack("<Q", 1000)), (35, b"\1" + b"\0" * 24 + b"hello"), (38, b"\0" * 64)):
        yield struct.pack("<IHHI", len(payload), kind, 0, 1) + payload


SEEDS = {
    "archive_fuzz": archives,
    "config_fuzz": lambda: [(ROOT / "packaging/cove.toml.sample").read_bytes(), b'[sandbox]\nmemory = "1Gi"\npids = 64\n'],
    "fastapi_fuzz": bodies,
    "mcp_fuzz": messages,
    "multipart_fuzz": forms,
    "path_fuzz": lambda: [b"out/plot.png", b"/workspace/../a/./b", b"a//b/", b"..", b"\xff/\xc3\xa9"],
    "request_fuzz": requests,
    "wire_fuzz": frames,
}

for fuzzer, seeds in SEEDS.items():
    folder = pathlib.Path(sys.argv[1], fuzzer)
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (folder / f"{number:02}").write_bytes(seed)
