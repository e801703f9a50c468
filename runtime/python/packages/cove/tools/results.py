"""Results of tools as Python values."""
import base64
import binascii

from .errors import ToolError


class Blob(bytes):
    """An image, a sound or a file. `mime` says what it is, `uri` where it is from."""
    mime, uri = "application/octet-stream", None


class ResourceLink:
    """A resource that the server can be asked for."""

    def __init__(self, server, block):
        self._server, self.block = server, block
        self.uri, self.name, self.mime = block.get("uri"), block.get("name"), block.get("mimeType")

    def read(self):
        """Its text, or its bytes; a list when it has several parts."""
        from . import read
        parts = [_part(part) for part in read(self._server, self.uri)]
        return parts[0] if len(parts) == 1 else parts

    def __repr__(self):
        return f"ResourceLink({self.uri!r})"


def result_of(server, answer):
    """As tools.call() gives it."""
    content = _checked(answer)
    if answer.get("structured") is not None:
        return answer["structured"]
    if len(content) == 1 and content[0].get("type") == "text":
        return content[0].get("text", "")
    return [_block(server, block) for block in content]


def text_of(answer):
    """The texts, a line each; None when there is nothing but other things."""
    texts = _texts(_checked(answer))
    return "\n".join(texts) if texts else None


def _checked(answer):
    content = [block for block in answer.get("content") or [] if isinstance(block, dict)]
    if answer.get("is_error"):
        raise ToolError("\n".join(_texts(content)) or "the tool failed and says nothing of why", content)
    return content


def _texts(content):
    return [str(block.get("text", "")) for block in content if block.get("type") == "text"]


def _block(server, block):
    kind = block.get("type")
    if kind == "text":
        return block.get("text", "")
    if kind in ("image", "audio"):
        return _blob(block.get("data"), block.get("mimeType"))
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _part(block["resource"])
    return ResourceLink(server, block) if kind == "resource_link" else block


def _part(resource):
    return _blob(resource["blob"], resource.get("mimeType"), resource.get("uri")) if "blob" in resource else resource.get("text", "")


def _blob(text, mime, uri=None):
    try:
        blob = Blob(base64.b64decode(text or "", validate=True))
    except (binascii.Error, ValueError, TypeError):
        blob = Blob(str(text).encode())
    blob.mime, blob.uri = mime or Blob.mime, uri
    return blob
