"""The one line to the host: JSON messages in records of at most 64 KiB, one write and one read each."""
import _json  # the C half of json, without the regular expressions that json itself would import first
import os
import select
import time

from .own import builtins as __builtins__  # noqa: F401

RECORD = 65536
LARGEST = 4 << 20  # of what a program or a handler tells at its end; more is thrown away
FIRST, LAST = 1, 2
_BOTH = bytes([FIRST | LAST])

# Taken now: a cell may replace them in their modules.
_write, _read, _fstat, _close = os.write, os.read, os.fstat, os.close
quoted = _json.encode_basestring


class _Reading:
    strict, object_hook, object_pairs_hook = False, None, None
    parse_float, parse_int, parse_constant = float, int, float


def _refuse(value):
    raise TypeError(f"not JSON: {type(value).__name__}")


_scan = _json.make_scanner(_Reading)
# Without markers: what contains itself ends in RecursionError, and a failure leaves no state behind.
_pieces = _json.make_encoder(None, _refuse, quoted, None, ":", ",", False, False, False)


def encode(value):
    """The JSON text of a value. ValueError, TypeError or RecursionError when it has none."""
    return "".join(_pieces(value, 0))


def decode(text):
    return _scan(text, 0)[0]


def started():
    """The last word before the user's code: what was used until then is not its doing."""
    return '{"type":"started","cpu_ms":%d}' % (time.process_time() * 1000)


def whole(text):
    """The text with its lone surrogates, which UTF-8 cannot carry, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Channel:
    def __init__(self, descriptor):
        self.descriptor = descriptor
        self._identity = self._look()

    def _look(self):
        try:
            found = _fstat(self.descriptor)
            return found.st_dev, found.st_ino
        except OSError:
            return None

    def send(self, text):
        """Sends one message, given as JSON text. Blocks while the host reads slowly. OSError: the host is gone."""
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = whole(text).encode()
        if len(data) < RECORD:
            _write(self.descriptor, _BOTH + data)
            return
        view = memoryview(data)
        for at in range(0, len(data), RECORD - 1):
            flags = (FIRST if at == 0 else 0) | (LAST if at + RECORD - 1 >= len(data) else 0)
            _write(self.descriptor, bytes([flags]) + view[at:at + RECORD - 1])

    def waits(self, patience):
        """Whether a message, or the end, is there or comes within so many milliseconds."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(patience))

    def receive(self):
        """The next message. EOFError when the host has closed."""
        pieces = []
        while True:
            record = _read(self.descriptor, RECORD)
            if not record:
                raise EOFError
            if record[0] & FIRST:
                pieces.clear()  # a host that died in the middle of one
            pieces.append(record[1:])
            if record[0] & LAST:
                return decode(b"".join(pieces).decode())

    def close(self):
        _close(self.descriptor)

    def drop(self):
        """In a child of the user's: lets go, unless the number means something else by now."""
        if self._identity is not None and self._look() == self._identity:
            _close(self.descriptor)
