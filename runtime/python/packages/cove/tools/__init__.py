"""Tools of MCP servers, called from inside a sandbox. The server that started the sandbox holds connections and credentials.

    from cove import tools
    tools.servers()                                       # what may be called
    tools.call("weather", "get-forecast", {"city": "Linz"})
    await tools.acall("weather", "get-forecast", {"city": "Linz"})
"""
from . import line
from .errors import ApprovalRejectedError, ApprovalTimeoutError, ToolError, ToolProtocolError, ToolRunnerError
from .results import Blob, ResourceLink, result_of, text_of

__all__ = ["ApprovalRejectedError", "ApprovalTimeoutError", "Blob", "Client", "ResourceLink", "ToolError", "ToolProtocolError",
           "ToolRunnerError", "acall", "call", "servers"]

_clients = []


def call(server, tool, arguments=None, *, timeout=None):
    """structuredContent, else the text when there is but one, else the list of blocks. `timeout` in seconds."""
    return result_of(server, line.ask(_request(server, tool, arguments, timeout)))


async def acall(server, tool, arguments=None, *, timeout=None):
    return result_of(server, await line.aask(_request(server, tool, arguments, timeout)))


def servers():
    """{server: [tool, …]} of what may be called here."""
    return line.ask({"list": True})["servers"]


def read(server, uri):
    """The contents of a resource, as the server gives them."""
    return line.ask({"server": server, "resource": uri})["contents"]


def _request(server, tool, arguments, timeout):
    if not isinstance(arguments or {}, dict):
        raise TypeError(f"arguments must be a dict, not {type(arguments).__name__}")
    request = {"server": server, "tool": tool, "arguments": arguments or {}}
    if timeout is not None:
        request["timeout"] = timeout
    return request


class Client:
    """What a generated package has of its server."""

    def __init__(self, name, params=None):
        self.name, self.params = name, params
        _clients[:] = [client for client in _clients if client.name != name] + [self]

    @staticmethod
    def arguments(params):
        """The arguments on the wire: original names, without what is None and may be left out."""
        if isinstance(params, dict):
            return {name: value for name, value in params.items() if value is not None}
        wire = params.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
        for name, field in type(params).model_fields.items():
            if field.is_required() and getattr(params, name) is None:
                wire[field.alias or name] = None
        return wire

    def run(self, tool, params, result=None):
        """The structured result as `result`, else the texts, a line each."""
        return _typed(line.ask(_request(self.name, tool, self.arguments(params), None)), result)

    async def arun(self, tool, params, result=None):
        return _typed(await line.aask(_request(self.name, tool, self.arguments(params), None)), result)

    def call(self, tool, required, optional, result=None):
        answer = call(self.name, tool, _given(required, optional))
        return result.model_validate(answer) if result is not None and isinstance(answer, dict) else answer

    async def acall(self, tool, required, optional, result=None):
        answer = await acall(self.name, tool, _given(required, optional))
        return result.model_validate(answer) if result is not None and isinstance(answer, dict) else answer


def _given(required, optional):
    return {**{name: _plain(value) for name, value in required.items()},
            **{name: _plain(value) for name, value in optional.items() if value is not None}}


def _plain(value):
    """What a caller passes as an argument, as JSON has it."""
    if hasattr(value, "model_dump"):
        return Client.arguments(value)
    if isinstance(value, (list, tuple, set)):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {str(name): _plain(element) for name, element in value.items()}
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if value is None or isinstance(value, (str, int, float, bool)):
        return getattr(value, "value", value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _typed(answer, result):
    structured = answer.get("structured")
    if structured is None:
        return text_of(answer)
    return structured if result is None else result.model_validate(structured)


def _client_of(params):
    """The generated package that these parameters are of."""
    for same in (lambda client: client.params is params, lambda client: client.params == params):
        found = [client for client in _clients if same(client)]
        if found:
            return found[-1]
    raise ToolRunnerError("no server with these parameters was registered: servers are registered from outside of the sandbox")


def run_text(tool, arguments, params):
    return text_of(line.ask(_request(_client_of(params).name, tool, arguments, None)))


async def arun_text(tool, arguments, params):
    return text_of(await line.aask(_request(_client_of(params).name, tool, arguments, None)))
