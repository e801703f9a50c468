"""Everything that leaves a kernel, text and messages, in the order in which it was said."""
import _thread
import codecs
import collections
import io
import os

from .channel import encode, quoted
from .own import builtins as __builtins__  # noqa: F401

BUFFER = 32 * 1024  # characters kept back at most
PIECE = 16 * 1024  # characters in one stream message: at most 64 KiB of UTF-8

_getpid, _write, _exit, _get_ident = os.getpid, os.write, os._exit, _thread.get_ident


class _Nowhere:
    """The channel of a kernel that has none yet."""

    @staticmethod
    def send(text):
        pass


class Outlet:
    """Safe from any thread, from signal handlers and from finalisers that run in the middle of a send."""

    def __init__(self, interrupts):
        self.parent = None  # the request that is being answered
        self.pid = None
        self._channel, self._interrupts = _Nowhere, interrupts
        self._texts = collections.deque()
        self._size = 0
        self._behind = collections.deque()
        self._lock = _thread.allocate_lock()
        self._owner = None
        os.register_at_fork(after_in_child=self._forked)

    def open(self, channel):
        """Until here everything goes nowhere."""
        self._channel, self.pid = channel, _getpid()

    def write(self, name, text):
        self._texts.append((name, text))
        self._size += len(text)
        if "\n" in text or self._size >= BUFFER:
            self.flush()

    def flush(self):
        if self._texts:
            self._out(None)

    def send(self, kind, content):
        """Whatever of the content is not JSON makes this fail: see bundle.clean()."""
        parent = self.parent
        self._out('{"type":%s,"parent":%s,"content":%s}' % (quoted(kind), "null" if parent is None else int(parent), encode(content)))

    def _forked(self):
        """In a process that the user's code forked: from now on text goes to the descriptors, messages nowhere."""
        if self.pid is not None:
            self._texts.clear()
            self._behind.clear()
            self._lock = _thread.allocate_lock()
            self._owner = None
            self._channel.drop()

    def _out(self, message):
        if self.pid is not None and _getpid() != self.pid:
            self._to_descriptors()
            return
        me = _get_ident()
        if self._owner == me:  # inside our own send: after it
            if message is not None:
                self._behind.append(message)
            return
        self._interrupts.hold()
        try:
            with self._lock:
                self._owner = me
                try:
                    self._send_texts()
                    if message is not None:
                        self._channel.send(message)
                    while self._behind:
                        self._send_texts()
                        self._channel.send(self._behind.popleft())
                    if self._texts:  # written meanwhile by a handler on this very thread
                        self._send_texts()
                finally:
                    self._owner = None
        except (BrokenPipeError, ConnectionResetError):
            _exit(0)  # without a host there is nothing to live for
        except OSError:
            _exit(1)  # the user's code has closed or replaced the channel
        finally:
            self._interrupts.release()

    def _send_texts(self):
        for name, text in self._merged():
            head = '{"type":"stream","parent":%s,"content":{"name":"%s","text":' % ("null" if self.parent is None else int(self.parent), name)
            for at in range(0, len(text), PIECE):
                self._channel.send(head + quoted(text[at:at + PIECE]) + "}}")

    def _merged(self):
        texts, merged = self._texts, []
        while texts:
            name, text = texts.popleft()
            if merged and merged[-1][0] == name:
                merged[-1][1].append(text)
            else:
                merged.append((name, [text]))
        self._size = 0
        return [(name, parts[0] if len(parts) == 1 else "".join(parts)) for name, parts in merged]

    def _to_descriptors(self):
        for name, text in self._merged():
            data = memoryview(text.encode("utf-8", "backslashreplace"))
            while data:
                data = data[_write(1 if name == "stdout" else 2, data):]


class Stream(io.TextIOBase):
    """sys.stdout and sys.stderr of a kernel: by the line, like a terminal."""
    encoding, errors, mode, line_buffering, write_through = "utf-8", "strict", "w", True, False

    def __init__(self, outlet, name):
        self._outlet, self._name = outlet, name
        self.buffer = _Bytes(self)

    name = property(lambda self: f"<{self._name}>")

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._outlet.write(self._name, text)
        return len(text)

    def flush(self):
        self._outlet.flush()

    def fileno(self):
        """The pipe beneath, for subprocesses that are handed this stream."""
        return 1 if self._name == "stdout" else 2

    def writable(self):
        return True

    def isatty(self):
        return False

    def reconfigure(self, **options):
        pass

    def close(self):
        """A cell that closes its output keeps it."""
        self.flush()


class _Bytes(io.BufferedIOBase):
    """Stream.buffer: bytes as UTF-8."""

    def __init__(self, stream):
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data):
        data = bytes(data)
        self._stream.write(self._decoder.decode(data))
        return len(data)

    def flush(self):
        self._stream.flush()

    def fileno(self):
        return self._stream.fileno()

    def writable(self):
        return True

    def close(self):
        self.flush()
