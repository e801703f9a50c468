"""A kernel: requests in, one after another; messages out, the reply last."""
import base64
import binascii
import collections
import io
import os
import platform
import sys

from . import lean  # noqa: F401, I001 — before anything else of IPython's
from IPython.utils.tokenutil import token_at_cursor

from . import comms, tools, variables
from .arrivals import Arrivals
from .birth import late_packages
from .bundle import clean, json_value
from .channel import encode
from .drain import drain
from .interrupts import Interrupts
from .own import builtins as __builtins__  # noqa: F401
from .reloads import Reloads
from .streams import Outlet
from .tools import PATIENCE
from .touched import now, touched

_getpid, _exit, _decode64 = os.getpid, os._exit, base64.b64decode

LANGUAGE = {
    "name": "python", "version": platform.python_version(), "mimetype": "text/x-python", "file_extension": ".py",
    "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]}, "pygments_lexer": "ipython3", "nbconvert_exporter": "python",
}


class Kernel:
    def __init__(self, shell):
        self.shell = shell
        self.interrupts = Interrupts()
        self.outlet = Outlet(self.interrupts)
        self.stdout, self.stderr = self.outlet.stdout, self.outlet.stderr
        self.comm_manager = comms.manager
        self.comm_manager.outlet = self.outlet
        self.channel = None
        self.tools = tools.current = tools.Tools(self)
        self._arrivals = Arrivals()
        self._waiting = collections.deque()  # requests that came while a cell asked for input
        self._unanswered = None
        self._colour = False
        self._packages = True
        self._reloads = Reloads()
        self._banner = shell.banner
        shell.kernel, shell.ask, shell.interrupts = self, self._ask, self.interrupts
        shell.displayhook.outlet = shell.display_pub.outlet = self.outlet
        self._answers = {
            "execute": ("execute_reply", self._execute),
            "complete": ("complete_reply", self._complete),
            "inspect": ("inspect_reply", self._inspect),
            "is_complete": ("is_complete_reply", self._is_complete),
            "history": ("history_reply", self._history),
            "variables": ("variables_reply", self._variables),
            "comm_info": ("comm_info_reply", lambda content: {"status": "ok", "comms": self.comm_manager.info(content)}),
            "comm_open": ("done", lambda content: self._comm(self.comm_manager.opened, content)),
            "comm_msg": ("done", lambda content: self._comm(self.comm_manager.said, content)),
            "comm_close": ("done", lambda content: self._comm(self.comm_manager.closed, content)),
            "ping": ("pong", lambda content: {}),
        }

    def start(self, begin, channel):
        """In the process that is to be this kernel."""
        self.channel = channel
        self.outlet.open(channel)
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)), "utf-8")
        sys.__stdout__, sys.__stderr__ = _plain_streams()
        sys.argv = [""]
        self.appear()
        self.interrupts.install()
        comms.watch(self._arrivals)
        self.shell.figures.watch(self._arrivals)
        self._colour = bool(begin.get("colour"))
        self._packages = late_packages()
        self._reloads.begin()
        channel.send(encode({
            "type": "ready", "language": LANGUAGE, "banner": self._banner, "python": LANGUAGE["version"], "pid": _getpid()}))
        if begin.get("startup"):
            self.shell.run_cell(begin["startup"], silent=True)
            self.outlet.flush()

    def appear(self):
        sys.stdout, sys.stderr = self.stdout, self.stderr
        self.shell.appear()

    def vanish(self):
        """In a process that runs a program: nothing shows that a kernel was ready in it."""
        self.shell.vanish()

    def stretch(self):
        """In a new child, while it waits: goes the way of the first cell, so that the pages it writes to are there. What comes then may be a program:
        nothing of this is left."""
        before = sys.stdout, sys.stderr, sys.displayhook, sys.modules["__main__"]
        _plain_streams()
        self.appear()
        self._reloads.begin()
        reply = self._execute({"code": "print('', end='')\nNone", "store_history": False, "watch": True})
        self.interrupts.rest()
        self.shell.forget_last()
        self.outlet.send("execute_result", {"data": clean(self.shell.display_formatter.format(1)[0]), "metadata": json_value({})})
        self.outlet.send("execute_reply", reply)
        sys.stdout, sys.stderr, sys.displayhook, sys.modules["__main__"] = before

    def serve(self):
        while True:
            try:
                request = self._waiting.popleft() if self._waiting else self._next()
                if request.get("op") != "input_reply":  # one that nobody waits for any more
                    self._answer(request)
            except BaseException as error:  # a second interrupt while the first was dealt with, or a cell that broke what we stand on
                self.interrupts.rest()
                if self._unanswered is None:
                    _exit(1)
                self._reply(self._unanswered, _failed(error))

    def _next(self):
        try:
            loop = self.shell.pending()
        except BaseException:  # what a cell has made of asyncio
            loop = None
        try:
            while not self._waiting:
                if loop is not None:
                    self._wait_in(loop)
                message = self.tools.receive(None if loop is None else 0)
                if message is not None:
                    return message
            return self._waiting.popleft()
        except (EOFError, OSError):
            _exit(0)

    def _wait_in(self, loop):
        """Until something comes, with the tasks that the user's cells have left going on."""
        came = loop.create_future()
        self.tools.kernel_reads = True
        loop.add_reader(self.channel.descriptor, lambda: came.done() or came.set_result(None))
        while not came.done() and not self._waiting:
            try:
                self.interrupts.allowed = True
                loop.run_until_complete(came)
            except BaseException:
                continue
            finally:
                self.interrupts.allowed = False
        loop.remove_reader(self.channel.descriptor)
        self.tools.kernel_reads = False

    def _answer(self, request):
        op = request.get("op")
        kind, handler = self._answers.get(op, ("done", None))
        self.outlet.flush()  # what a thread has said between cells is not the next one's
        self.outlet.parent, self._unanswered = request.get("id"), kind
        try:
            content = handler(request.get("content") or {}) if handler else _failed(LookupError(f"no such request: {op}"))
        except BaseException as error:
            content = _failed(error)
        self.interrupts.rest()
        if _getpid() != self.outlet.pid:
            _leave(content)
        self._reply(kind, content)
        if self.shell.exit_now:
            _exit(0)

    def _reply(self, kind, content):
        self.interrupts.install()
        if kind in ("execute_reply", "done"):  # of a cell, of a comm's handler
            drain()
        self.outlet.rest()
        self.outlet.send(kind, content)
        self.outlet.remember_threads()
        self.outlet.parent = self._unanswered = None

    def put_back(self, message):
        """Somebody who waited for something else has read it."""
        self._waiting.append(message)

    # the requests

    def _execute(self, content):
        shell = self.shell
        code, silent = content.get("code") or "", bool(content.get("silent"))
        count = shell.execution_count
        self.interrupts.expect()
        # The server interrupts a cell only once it is announced, a silent one too: an interrupt that came sooner would be lost.
        self.outlet.send("execute_input", {} if silent else {"code": code, "execution_count": count})
        colour = content.get("colour")
        shell.colour(self._colour if colour is None else bool(colour))
        shell.allow_stdin = bool(content.get("allow_stdin"))
        shell.keepkernel_on_exit = bool(content.get("stay"))
        shell.failure = None
        self._mend_streams()
        self._packages = self._packages or late_packages()
        if content.get("file"):
            shell.user_ns["__file__"] = content["file"]
        if content.get("watch"):
            self._reloads.forget_changed()
        began = now()
        result = shell.run_cell(code, bool(content.get("store_history", not silent)), silent)
        error = result.error_before_exec or result.error_in_exec
        reply = {"status": "ok", "execution_count": count, "user_expressions": {}, "payload": []}
        if error is not None:
            reply.update(shell.failure or _failed(error), status="error")
        elif content.get("user_expressions"):
            reply["user_expressions"] = self._expressions(content["user_expressions"])
        if content.get("watch"):
            self._reloads.remember("/workspace/")
            reply["touched"] = touched("/workspace", began)
        if shell.payload_manager._payload:
            reply["payload"] = json_value(shell.payload_manager.read_payload(), [])
            shell.payload_manager.clear_payload()
        return reply

    def _mend_streams(self):
        """A cell may have put anything there. None and what is closed would only make the next one fail."""
        for name, stream in (("stdout", self.stdout), ("stderr", self.stderr)):
            current = getattr(sys, name, None)
            if current is stream:
                continue
            try:
                self.interrupts.allowed = True
                usable = current is not None and not getattr(current, "closed", False)
            except BaseException:
                usable = False
            self.interrupts.allowed = False
            if not usable:
                setattr(sys, name, stream)

    def _expressions(self, expressions):
        self.interrupts.allowed = True
        answers = self.shell.user_expressions(expressions)
        self.interrupts.allowed = False
        for answer in answers.values():
            if answer.get("status") == "ok":
                answer["data"], answer["metadata"] = clean(answer["data"]), json_value(answer["metadata"], {})
        return answers

    def _complete(self, content):
        code = content.get("code") or ""
        cursor = content.get("cursor_pos")
        cursor = len(code) if cursor is None else min(max(cursor, 0), len(code))
        start = code.rfind("\n", 0, cursor) + 1
        end = code.find("\n", cursor)
        self.interrupts.allowed = True
        text, matches = self.shell.complete("", code[start:end if end >= 0 else len(code)], cursor - start)
        return {"status": "ok", "matches": [str(match) for match in matches], "metadata": {},
                "cursor_start": cursor - len(text), "cursor_end": cursor}

    def _inspect(self, content):
        code = content.get("code") or ""
        cursor = content.get("cursor_pos")
        name = token_at_cursor(code, len(code) if cursor is None else cursor)
        reply = {"status": "ok", "found": False, "data": {}, "metadata": {}}
        self.interrupts.allowed = True
        try:
            data = self.shell.object_inspect_mime(name, detail_level=content.get("detail_level") or 0)
        except KeyError:
            return reply
        return {**reply, "found": True, "data": clean(data)}

    def _is_complete(self, content):
        status, indent = self.shell.check_complete(content.get("code") or "")
        return {"status": status, **({"indent": indent} if status == "incomplete" else {})}

    def _history(self, content):
        manager, kind = self.shell.history_manager, content.get("hist_access_type") or "tail"
        raw, output = content.get("raw", True), content.get("output", False)
        if kind == "range":
            lines = manager.get_range(content.get("session") or 0, content.get("start") or 1, content.get("stop"), raw, output)
        elif kind == "search":
            lines = manager.search(content.get("pattern") or "*", raw, True, output, content.get("n"), content.get("unique", False))
        else:
            lines = manager.get_tail(content.get("n") or 10, raw, output, include_latest=True)
        return {"status": "ok", "history": list(lines)}

    def _variables(self, content):
        self.interrupts.allowed = True
        return {"status": "ok", "variables": variables.listed(self.shell, content.get("max", 500), content.get("preview_bytes", 200))}

    def _comm(self, handle, content):
        buffers = _buffers(content.pop("buffers", None))
        self.interrupts.allowed = True
        try:
            handle({"content": content, "buffers": buffers})
        except BaseException as error:
            self.interrupts.allowed = False
            self.shell.showtraceback((type(error), error, error.__traceback__))
        return {}

    # input()

    def _ask(self, prompt, password):
        self.outlet.send("input_request", {"prompt": prompt, "password": password})
        parent = self.outlet.parent
        while True:
            self.channel.waits(PATIENCE)  # an interrupt ends this wait, and never a read that has begun
            self.interrupts.hold()
            try:
                message = self._read_elsewhere() or self.tools.receive(0)
                if message is None:
                    continue
                if message.get("op") != "input_reply":
                    self._waiting.append(message)
                    continue
            except (EOFError, OSError):
                _exit(0)
            finally:
                self.interrupts.release()
            content = message.get("content") or {}
            if message.get("parent", parent) == parent:
                if content.get("error"):
                    raise EOFError
                return str(content.get("value", ""))

    def _read_elsewhere(self):
        """The answer, if a thread that waits for a tool has read it."""
        for message in self._waiting:
            if message.get("op") == "input_reply":
                self._waiting.remove(message)
                return message
        return None


def _buffers(texts):
    """What a client sent beside a message, from base64."""
    try:
        return [memoryview(_decode64(text)) for text in texts or []]
    except (binascii.Error, TypeError, ValueError):
        return []


def _plain_streams():
    """What sys.__stdout__ and sys.__stderr__ are."""
    return [io.TextIOWrapper(io.BufferedWriter(io.FileIO(at, "w", closefd=False)), "utf-8", "backslashreplace", write_through=True) for at in (1, 2)]


def _failed(error):
    try:
        text = str(error)
    except BaseException:
        text = ""
    return {"status": "error", "ename": type(error).__name__, "evalue": text, "traceback": []}


def _leave(content):
    """A child that the user's code forked has come to the end of the cell: there is no other end for it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    if content.get("status") == "error":
        try:
            os.write(2, ("\n".join(content.get("traceback") or [content["ename"]]) + "\n").encode("utf-8", "replace"))
        except OSError:
            pass
    _exit(content.get("status") == "error")
