"""A kernel of bash: its cells run one after another in the same shell, which keeps its directory, variables and functions."""
import os
import select
import shlex
import signal
import subprocess
import sys

from .channel import encode, quoted
from .drain import drain

_STATUS, _ERRORS = 9, 8  # descriptors of the shell: where it tells how a cell ended, and the kernel's stderr until it has begun
# An interactive shell goes back to its next line when it is interrupted; without editing, history or a prompt it shows nothing of its own.
_COMMAND = ["/bin/bash", "--noprofile", "--norc", "--noediting", "-i"]
_SETTINGS = f"set +o history +o histexpand +m; unset HISTFILE PROMPT_COMMAND; exec 2>&{_ERRORS} {_ERRORS}>&-\n"
_MARGIN = 0.2  # seconds after an interrupt; then the shell is asked again how the cell ended, at growing intervals


class Shell:
    """One bash. A cell that says `exit` ends it; the next cell gets another."""

    def __init__(self):
        told, status = os.pipe()
        self._status, self._text = told, b""
        self._number, self._begun = 0, False
        self._interrupted = self._signalled = False  # of this cell; since the shell was last known to read lines
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK)

        def settle():  # between fork and exec: the descriptors by their numbers
            os.dup2(status, _STATUS)
            os.dup2(2, _ERRORS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

        self.process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, bufsize=0, preexec_fn=settle, close_fds=False, start_new_session=True,
                                        env={**os.environ, "PS1": "", "PS2": "", "SHELL": "/bin/bash"})
        os.close(status)
        self._put(_SETTINGS)

    def interrupt(self):
        """In a signal handler. A shell that reads a line would throw that line away, so it is interrupted only between the beginning and the end of a cell."""
        self._interrupted = True
        if self._begun:
            self._signal()

    def _signal(self):
        self._signalled = True
        try:
            os.killpg(self.process.pid, signal.SIGINT)
            os.write(self._wake, b".")
        except OSError:
            pass  # it has ended, or will be woken anyway

    def _put(self, lines):
        data = memoryview(lines.encode("utf-8", "surrogateescape"))
        try:
            while data:
                data = data[self.process.stdin.write(data):]
        except BrokenPipeError:
            pass  # it has ended: nothing more comes of its status

    def _tell(self, word, value):
        return f"builtin printf '{word} {self._number} %d\\n' {value} >&{_STATUS}"

    def _next(self, seconds):
        """What the shell tells next, as words; None when it has told nothing for so long, or was interrupted; no words at its end."""
        if b"\n" not in self._text:
            ready = select.select([self._status, self._woken], [], [], seconds)[0]
            if self._woken in ready:
                os.read(self._woken, 4096)
            if self._status not in ready:
                return None
            part = os.read(self._status, 4096)
            if not part:
                return []
            self._text += part
            if b"\n" not in self._text:
                return None
        line, _, self._text = self._text.partition(b"\n")
        return line.split()

    def _wait(self, word, again):
        """The value that is told with this word of this cell; None at the end of the shell. `again` is said when an interrupt may have kept the shell from telling."""
        seconds = None
        while True:
            told = self._next(seconds)
            if told == []:
                return None
            if told is None:
                if self._signalled and again is not None:
                    self._put(f"\n{again}\n")
                    seconds = _MARGIN if seconds is None else seconds * 2
            elif told[:2] == [word.encode(), str(self._number).encode()]:
                return int(told[2])

    def run(self, code):
        """The status of the last command, or that of the shell if this has ended it; and whether it has."""
        if self._signalled:
            self._settle()
        self._number += 1
        tell = self._tell("ended", '"$?"')
        # Told once more on a line of its own: an error such as ${x?} takes the rest of its line with it.
        self._put(f"{self._tell('begun', 0)}; eval {shlex.quote(code)} </dev/null {_STATUS}>&-; {tell}\n{tell}\n")
        status = self._wait("begun", None)
        if status is not None:
            self._begun = True
            if self._interrupted:  # before it had begun
                self._signal()
            status = self._wait("ended", tell)
            self._begun = self._interrupted = False
        if status is not None:
            return status, False
        status = self.process.wait()
        for descriptor in (self._status, self._woken, self._wake):
            os.close(descriptor)
        return status if status >= 0 else 128 - status, True

    def _settle(self):
        """After an interrupt that may have come too late for its cell: until the shell is known to read lines again."""
        self._number += 1
        tell = self._tell("settled", 0)
        self._put(f"\n{tell}\n")
        self._wait("settled", tell)
        self._signalled = False


class Kernel:
    def __init__(self, channel):
        self._channel, self._shell, self._parent, self._count = channel, None, None, 0
        self._announced = self._early = False  # a cell is about to run, or runs; it was interrupted
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number, frame):
        if self._announced:
            self._early = True
            if self._shell is not None:
                self._shell.interrupt()

    def _send(self, kind, content):
        parent = "null" if self._parent is None else str(int(self._parent))
        self._channel.send('{"type":%s,"parent":%s,"content":%s}' % (quoted(kind), parent, encode(content)))

    def serve(self):
        version = subprocess.run(["/bin/bash", "-c", "printf %s \"${BASH_VERSION%%[!0-9.]*}\""], capture_output=True, text=True).stdout
        self._channel.send(encode({"type": "ready", "language": {"name": "bash", "version": version}, "pid": os.getpid()}))
        answers = {"execute": ("execute_reply", self._execute), "is_complete": ("is_complete_reply", self._is_complete), "ping": ("pong", lambda content: {})}
        while True:
            try:
                request = self._channel.receive()
            except (EOFError, OSError):
                os._exit(0)
            op = request.get("op")
            if op == "input_reply":
                continue  # a shell asks nobody
            kind, answer = answers.get(op, ("done", lambda content: {"status": "error", "ename": "LookupError", "evalue": f"no such request: {op}"}))
            self._parent = request.get("id")
            content = answer(request.get("content") or {})
            if kind == "execute_reply":
                drain()
            self._send(kind, content)
            self._parent = None

    def _execute(self, content):
        code, silent = content.get("code") or "", bool(content.get("silent"))
        if not silent and content.get("store_history", True):
            self._count += 1
        self._early, self._announced = False, True
        self._send("execute_input", {} if silent else {"execution_count": self._count})  # from here on it may be interrupted
        if self._shell is None:
            shell = Shell()
            self._shell = shell
            if self._early:
                shell.interrupt()
        status, over = self._shell.run(code)
        self._announced = False
        if over:
            self._shell = None
        reply = {"status": "ok", "execution_count": self._count, "user_expressions": {}, "payload": []}
        if status != 0:
            what = f"the shell ended with status {status}" if over else f"exit status {status}"
            error = {"ename": "ExitStatus", "evalue": str(status), "traceback": [what]}
            if not silent:
                self._send("error", error)
            reply.update(error, status="error")
        return reply

    def _is_complete(self, content):
        checked = subprocess.run(["/bin/bash", "-n"], input=content.get("code") or "", capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        if checked.returncode == 0 and "here-document" not in checked.stderr:
            return {"status": "complete"}
        unfinished = any(word in checked.stderr for word in ("unexpected end of file", "unexpected EOF", "here-document"))
        return {"status": "incomplete", "indent": ""} if unfinished else {"status": "invalid"}


def run(channel):
    """Never returns."""
    try:
        Kernel(channel).serve()
    except BaseException as error:
        print(f"the kernel of bash failed: {error}", file=sys.__stderr__)
        os._exit(1)
