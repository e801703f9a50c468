"""A kernel of bash: its cells run one after another in the same shell, which keeps its directory, variables and functions."""
import os
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
_TELL = f"builtin printf '%d\\n' \"$?\" >&{_STATUS}\n"


class Shell:
    """One bash. A cell that says `exit` ends it; the next cell gets another."""

    def __init__(self):
        told, status = os.pipe()
        self._status = os.fdopen(told, "rb")

        def settle():  # between fork and exec: the descriptors by their numbers
            os.dup2(status, _STATUS)
            os.dup2(2, _ERRORS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

        self.process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, preexec_fn=settle, close_fds=False, start_new_session=True,
                                        env={**os.environ, "PS1": "", "PS2": "", "SHELL": "/bin/bash"})
        os.close(status)
        self._put(_SETTINGS)

    def _put(self, lines):
        try:
            self.process.stdin.write(lines.encode("utf-8", "surrogateescape"))
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: nothing more comes of its status

    def run(self, code):
        """The status of the last command, or that of the shell if this has ended it; and whether it has."""
        self._put(f"eval {shlex.quote(code)} </dev/null {_STATUS}>&-\n{_TELL}")
        told = self._status.readline()
        if told:
            return int(told), False
        status = self.process.wait()
        self._status.close()
        return status if status >= 0 else 128 - status, True


class Kernel:
    def __init__(self, channel):
        self._channel, self._shell, self._parent, self._count = channel, None, None, 0
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number, frame):
        if self._shell is not None:
            try:
                os.killpg(self._shell.process.pid, signal.SIGINT)
            except ProcessLookupError:
                pass

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
        if self._shell is None:
            self._shell = Shell()
        self._send("execute_input", {} if silent else {"execution_count": self._count})  # from here on it may be interrupted
        status, over = self._shell.run(code)
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
