"""Everything that leaves a kernel, text and messages, in the order in which it was said."""
import _thread
import codecs
import collections
import io
import os
import sys
import time

from .channel import encode, quoted
from .own import builtins as __builtins__  # noqa: F401

BUFFER = 32 * 1024  # characters kept back at most
PIECE = 16 * 1024  # characters in one stream message: at most 64 KiB of UTF-8
LINES = 64  # that may go one by one in a burst; who prints more is sent in pieces, every PERIOD
RATE = 500  # lines a second that always go one by one
PERIOD = 0.01
QUIET = 5  # periods without a word after which lines go one by one again

_getpid, _write, _exit, _get_ident, _modules = os.getpid, os.write, os._exit, _thread.get_ident, sys.modules
_start, _lock, _now = _thread.start_new_thread, _thread.allocate_lock, time.monotonic
_flush, _configure = io.TextIOWrapper.flush, io.TextIOWrapper.reconfigure


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
        self.stdout, self.stderr = Lines(self, interrupts), Stream(self, "stderr")
        self._channel, self._interrupts = _Nowhere, interrupts
        self._texts = collections.deque()
        self._size = 0
        self._behind = collections.deque()
        self._lock = _lock()
        self._owner = None
        self._credit, self._seen = LINES, 0
        self._carrier = None  # the lock that ends the thread which sends what a burst leaves
        self._said = 0  # texts, ever
        self._older = {}  # threads of earlier requests: their number to them and their request
        os.register_at_fork(before=self._forking, after_in_child=self._forked)

    def open(self, channel):
        """Until here everything goes nowhere."""
        self._channel, self.pid = channel, _getpid()

    def write(self, name, text):
        parent = self.parent
        if self._older:
            parent = self._parent_here(parent)
        self._texts.append((name, text, parent))
        self._size += len(text)
        self._said += 1
        if self._size >= BUFFER or (("\n" in text or "\r" in text) and not self._in_a_burst()):
            self.flush()

    def flush(self):
        self.pull()
        if self._texts:
            self._out(None)

    def pull(self):
        """What was written to stdout comes before whatever is said next."""
        _flush(self.stdout)

    def send(self, kind, content):
        """Whatever of the content is not JSON makes this fail: see bundle.clean()."""
        parent = self.parent
        message = '{"type":%s,"parent":%s,"content":%s}' % (quoted(kind), "null" if parent is None else int(parent), encode(content))
        self.pull()
        self._out(message)

    # threads and the requests they were started in

    def remember_threads(self):
        """At the end of a request: whatever they say from now on is said in it, and not in the next."""
        alive = getattr(_modules.get("threading"), "_active", None)
        if not isinstance(alive, dict) or (len(alive) < 2 and not self._older):
            return
        parent, main = self.parent, self._interrupts.main
        self._older = {number: self._older.get(number) if self._is_older(number, thread) else (thread, parent)
                       for number, thread in alive.copy().items() if number != main}
        # A line that two threads write at the same time would be one thread's; what each of them writes is not.
        _configure(self.stdout, write_through=bool(self._older))

    def _is_older(self, number, thread):
        known = self._older.get(number)
        return known is not None and known[0] is thread

    def _parent_here(self, parent):
        number = _get_ident()
        known = self._older.get(number)
        if known is None or getattr(_modules.get("threading"), "_active", {}).get(number) is not known[0]:
            return parent
        return known[1]

    # bursts

    def _in_a_burst(self):
        """Whether lines come faster than they are worth a message each. Somebody else sends them then."""
        if self._carrier is not None:
            return True
        now = _now()
        self._credit, self._seen = min(LINES, self._credit + (now - self._seen) * RATE), now
        if self._credit >= 1 or _getpid() != self.pid:
            self._credit -= 1
            return False
        try:
            ended = _lock()
            ended.acquire()
            self._carrier = ended, _lock()
            self._carrier[1].acquire()
            _start(self._carry, self._carrier)
        except BaseException:  # there may be no room for a thread
            self._carrier = None
            return False
        if not self._older:
            _configure(self.stdout, line_buffering=False)
        return True

    def _carry(self, ended, stop):
        said, quiet = self._said, 0
        try:
            while quiet < QUIET and not stop.acquire(True, PERIOD) and _getpid() == self.pid:
                self.flush()
                quiet = quiet + 1 if said == self._said else 0
                said = self._said
        finally:
            self._carrier = None
            try:
                _configure(self.stdout, line_buffering=True)
            finally:
                ended.release()

    def rest(self):
        """Between requests there is one thread, unless the user's code has made others."""
        carrier = self._carrier
        if carrier is not None and _get_ident() == self._interrupts.main:
            carrier[1].release()
            carrier[0].acquire()
        self._credit = LINES

    def _forking(self):
        if self.pid is not None and _getpid() == self.pid and self._owner != _get_ident():
            self.flush()

    def _forked(self):
        """In a process that the user's code forked: from now on text goes to the descriptors, messages nowhere."""
        if self.pid is not None:
            self._texts.clear()
            self._behind.clear()
            self._lock = _lock()
            self._owner = self._carrier = None
            self._older = {}
            _configure(self.stdout, line_buffering=True)
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
        for name, text, parent in self._merged():
            head = '{"type":"stream","parent":%s,"content":{"name":"%s","text":' % ("null" if parent is None else int(parent), name)
            for at in range(0, len(text), PIECE):
                self._channel.send(head + quoted(text[at:at + PIECE]) + "}}")

    def _merged(self):
        texts, merged = self._texts, []
        while texts:
            name, text, parent = texts.popleft()
            if merged and merged[-1][0] == name and merged[-1][2] == parent:
                merged[-1][1].append(text)
            else:
                merged.append((name, [text], parent))
        self._size = 0
        return [(name, parts[0] if len(parts) == 1 else "".join(parts), parent) for name, parts, parent in merged]

    def _to_descriptors(self):
        for name, text, _ in self._merged():
            data = memoryview(text.encode("utf-8", "backslashreplace"))
            while data:
                data = data[_write(1 if name == "stdout" else 2, data):]


class _Sink(io.RawIOBase):
    """Where Lines puts what it has collected: a line, or in a burst about 8 KiB."""

    def __init__(self, outlet, interrupts):
        self._outlet, self._interrupts = outlet, interrupts
        interrupts.shield(_Sink.write.__code__)

    def write(self, data):
        self._interrupts.hold()
        try:
            self._outlet.write("stdout", data.decode("utf-8", "surrogatepass"))
        finally:
            self._interrupts.release()
        return len(data)

    def flush(self):
        """Of one line: the outlet decides when it goes."""

    def writable(self):
        return True

    def fileno(self):
        return 1

    def close(self):
        pass


class Lines(io.TextIOWrapper):
    """sys.stdout of a kernel: by the line, like a terminal; in a burst by the piece, at the speed of a program's."""
    mode, encoding, errors, line_buffering, write_through = "w", "utf-8", "strict", True, False
    name = "<stdout>"

    def __init__(self, outlet, interrupts):
        super().__init__(_Sink(outlet, interrupts), "utf-8", "surrogatepass", "", line_buffering=True)
        self._outlet, self._bytes = outlet, _Bytes(self)

    buffer = property(lambda self: self._bytes)

    def flush(self):
        self._outlet.flush()

    def reconfigure(self, **options):
        pass

    def detach(self):
        raise io.UnsupportedOperation("detach")

    def close(self):
        """A cell that closes its output keeps it."""
        self.flush()


class Stream(io.TextIOBase):
    """sys.stderr of a kernel: by the line, like a terminal."""
    encoding, errors, mode, line_buffering, write_through = "utf-8", "strict", "w", True, False

    def __init__(self, outlet, name):
        self._outlet, self._name = outlet, name
        self.buffer = _Bytes(self)

    name = property(lambda self: f"<{self._name}>")

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._outlet.pull()
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
