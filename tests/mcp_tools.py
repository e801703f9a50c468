"""A client of the MCP tools: calls them in a session of its own, and checks every answer against what the tool says of itself."""
import itertools

import jsonschema

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Client:
    """One connection in the revision of 2025-11-25."""

    def __init__(self, server, headers=None, capabilities=None):
        self.server, self.ids = server, itertools.count(1)
        self.headers = {**HEADERS, **(headers or {})}
        hello = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = self.post("initialize", hello)
        self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        self.tools = {tool["name"]: tool for tool in self.request("tools/list")["tools"]}

    def post(self, method, params, timeout=60):
        return self.server.post("/mcp", {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}, headers=self.headers, timeout=timeout)

    def request(self, method, params=None, timeout=60):
        answer = self.post(method, params or {}, timeout).json
        assert "result" in answer, answer
        return answer["result"]

    def call(self, tool, **arguments):
        """The result. What is no error is of the form that the tool promised."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        assert result["content"] and isinstance(result["isError"], bool), result
        if not result["isError"] or "structuredContent" in result:
            schema = self.tools[tool]["outputSchema"]
            jsonschema.Draft202012Validator.check_schema(schema)
            # Nothing is told that the schema does not speak of.
            strict = {**schema, "additionalProperties": False}
            jsonschema.Draft202012Validator(strict).validate(result["structuredContent"])
        return result

    def facts(self, tool, **arguments):
        """The structured content of a call that is to succeed."""
        result = self.call(tool, **arguments)
        assert not result["isError"], result
        return result["structuredContent"]

    def refusal(self, tool, **arguments):
        """The sentence of a call that is to fail."""
        result = self.call(tool, **arguments)
        assert result["isError"], result
        return result["content"][0]["text"]

    def close(self):
        self.server.delete("/mcp", headers=self.headers)


def text_of(result):
    return result["content"][0]["text"]
