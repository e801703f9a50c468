"""A client that calls tools, and holds every answer against what the tool says of itself."""
import jsonschema
from mcp_client import Legacy, Modern


class Calls:
    """Of a client of any revision."""

    def learn(self):
        self.tools = {tool["name"]: tool for tool in self.request("tools/list")["tools"]}

    def call(self, tool, **arguments):
        """The result. What is no error is of the form that the tool promised."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        assert result["content"] and isinstance(result["isError"], bool), result
        if not result["isError"] or "structuredContent" in result:
            # Nothing is told that the schema does not speak of.
            strict = {**self.tools[tool]["outputSchema"], "additionalProperties": False}
            jsonschema.Draft202012Validator(strict).validate(result["structuredContent"])
        return result

    def whole(self, tool, **arguments):
        """The answer as it came."""
        body, more = self.message("tools/call", next(self.numbers), {"name": tool, "arguments": arguments})
        return self.server.post("/mcp", body, headers={**self.base, **more, "Accept": "application/json"})

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


class Client(Calls, Legacy):
    def __init__(self, server, **options):
        super().__init__(server, **options)
        self.learn()


class Alone(Calls, Modern):
    """Each of its requests stands alone."""

    def __init__(self, server, **options):
        super().__init__(server, **options)
        self.learn()


def text_of(result):
    return result["content"][0]["text"]
