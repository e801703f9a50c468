"""The way of a call to the host: the channel of the kernel that this process is, else the socket of the sandbox."""
import asyncio
import json
import os
import socket
import sys

from .errors import ToolRunnerError, raise_error

SOCKET = "/tmp/.cove-tools.sock"
LARGEST = 64 << 20


def ask(request):
    """What the host answers: content, structured and is_error of a call. Its refusals are exceptions."""
    _check(request)
    kernel = _kernel()
    return _answer(kernel.call(request) if kernel is not None else _over_socket(request))


async def aask(request):
    _check(request)
    kernel = _kernel()
    if kernel is not None:
        return _answer(await kernel.acall(request))
    reader, writer = await asyncio.open_unix_connection(sock=await _connected())
    try:
        writer.write(_line(request))
        pieces = []
        while not (pieces and pieces[-1].endswith(b"\n")):
            piece = await reader.read(1 << 16)
            if not piece:
                break
            pieces.append(piece)
        return _answer(_parsed(b"".join(pieces)))
    finally:
        writer.close()


def _kernel():
    runtime = sys.modules.get("cove_runtime.tools")
    tools = getattr(runtime, "current", None)
    return tools if tools is not None and tools.here() else None


def _check(request):
    try:
        json.dumps(request)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the arguments are no JSON: {error}") from None


def _line(request):
    return json.dumps(request).encode() + b"\n"


def _connect():
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(SOCKET)
    except OSError as error:
        line.close()
        raise ToolRunnerError(f"no tools are registered for this sandbox, or none can be called now ({os.strerror(error.errno)})") from None
    return line


async def _connected():
    line = _connect()
    line.setblocking(False)
    return line


def _over_socket(request):
    with _connect() as line, line.makefile("rb") as answers:
        line.sendall(_line(request))
        return _parsed(answers.readline(LARGEST))


def _parsed(data):
    if not data.endswith(b"\n"):
        raise ToolRunnerError("the connection to the host broke", retryable=True)
    return json.loads(data)


def _answer(reply):
    if reply.get("error") is not None:
        raise_error(reply["error"])
    return reply.get("result") or {}
