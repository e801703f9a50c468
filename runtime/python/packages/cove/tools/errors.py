"""Why a call of a tool failed."""


class ToolRunnerError(Exception):
    """The call could not be made, or came to no answer. `retryable`: trying again may help."""

    def __init__(self, message, retryable=False):
        super().__init__(message)
        self.retryable = retryable


class ToolError(ToolRunnerError):
    """The tool itself says that it failed. `content`: its blocks."""

    def __init__(self, message, content=()):
        super().__init__(message)
        self.content = list(content)


class ToolProtocolError(ToolRunnerError):
    """The server answered with an error of JSON-RPC."""

    def __init__(self, message, code, data=None):
        super().__init__(message)
        self.code, self.data = code, data


class ApprovalRejectedError(ToolRunnerError):
    """Whoever was asked, or the policy, said no."""


class ApprovalTimeoutError(ToolRunnerError):
    """Nobody answered in time."""


def raise_error(error):
    """What the host reports instead of a result."""
    message, kind = str(error.get("message") or "the call failed"), error.get("type")
    if kind == "rejected":
        raise ApprovalRejectedError(message)
    if kind == "timeout":
        raise ApprovalTimeoutError(message)
    if kind == "protocol":
        raise ToolProtocolError(message, error.get("code"), error.get("data"))
    raise ToolRunnerError(message, retryable=bool(error.get("retryable")))
