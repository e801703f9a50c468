"""Commands of the user's: `!cmd`, `x = !cmd`, `%%bash`. On pipes, and read here: no terminal, no thread, no second loop."""
import codecs
import errno
import importlib
import os
import select
import signal
import site
import subprocess
import sys

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.utils.process import arg_split

from .birth import user_packages
from .own import builtins as __builtins__  # noqa: F401

GRACE = 0.5  # seconds between SIGINT and SIGKILL


def run(command, take, given=b"", shell=True):
    """Runs it to its end and gives its output to take(name, text) as it comes; the exit status. Both streams are named
    "stdout" for a shell command, as on a terminal, so that their order is kept."""
    process = subprocess.Popen(
        command, shell=shell, executable=_sh() if shell else None, stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if shell else subprocess.PIPE, start_new_session=True)
    try:
        _pump(process, take, given)
        return process.wait()
    except BaseException:
        _stop(process)
        raise
    finally:
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass


def _sh():
    return os.environ.get("SHELL") or "/bin/sh"


def _pump(process, take, given):
    names = {process.stdout.fileno(): "stdout"}
    if process.stderr is not None:
        names[process.stderr.fileno()] = "stderr"
    decoders = {descriptor: codecs.getincrementaldecoder("utf-8")("replace") for descriptor in names}
    poll = select.poll()
    for descriptor in names:
        poll.register(descriptor, select.POLLIN)
    writing = None
    if given:
        writing = process.stdin.fileno()
        os.set_blocking(writing, False)
        poll.register(writing, select.POLLOUT)
    while names:
        # A daemon that it left behind may hold the pipe for ever: the command has ended when its process has.
        ready = poll.poll(20 if process.poll() is None else 0)
        if not ready and process.returncode is not None:
            break
        for descriptor, _ in ready:
            if descriptor == writing:
                try:
                    given = given[os.write(writing, given):]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    given = b""
                if not given:
                    poll.unregister(writing)
                    writing = None
                    process.stdin.close()
                continue
            data = os.read(descriptor, 65536)
            text = decoders[descriptor].decode(data, not data)
            if text:
                take(names[descriptor], text)
            if not data:
                poll.unregister(descriptor)
                del names[descriptor]


def _stop(process):
    """The whole group, with a moment to clean up."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.poll()


def to_streams(name, text):
    stream = sys.stdout if name == "stdout" else sys.stderr
    stream.write(text)
    stream.flush()


def background(command):
    """`!cmd &`: on the kernel's own pipes, not waited for."""
    subprocess.Popen(command, shell=True, executable=_sh(), stdin=subprocess.DEVNULL, start_new_session=True)


def system(command):
    """The status as IPython tells it: negative for a signal."""
    if command.rstrip().endswith("&"):
        background(command)
        return 0
    try:
        status = run(command, to_streams)
    except KeyboardInterrupt:
        sys.stderr.write("^C\n")
        raise
    return -(status - 128) if status > 128 else status


def output(command):
    parts = []
    run(command, lambda name, text: parts.append(text))
    return "".join(parts)


@magics_class
class Scripts(Magics):
    """%%script and the magics named after a language."""

    def __init__(self, shell, original):
        super().__init__(shell)
        self._parser = original.shebang.parser
        self._background = []
        for name in original.script_magics:
            self.magics["cell"][name] = self._named(name)
        self.magics["cell"]["script"] = self.script
        self.magics["line"]["killbgscripts"] = self.killbgscripts

    def _named(self, name):
        def script(line, cell):
            return self.script(f"{name} {line}" if line else name, cell)
        script.__doc__ = f"%%{name}: run the cell with {name} in a subprocess."
        return script

    @cell_magic
    def script(self, line, cell):
        """%%script PROGRAM: run the cell with a program in a subprocess."""
        args, command = self._parser.parse_known_args(arg_split(line, posix=True))
        given = cell.encode("utf-8", "replace")
        given += b"" if given.endswith(b"\n") else b"\n"
        kept = {"stdout": args.out, "stderr": args.err}
        texts = {"stdout": [], "stderr": []}

        def take(name, text):
            if kept[name]:
                texts[name].append(text)
            else:
                to_streams(name, text)

        try:
            if args.bg:
                return self._in_background(command, given, args)
            status = run(command, take, given, shell=False)
        except OSError as error:
            if error.errno == errno.ENOENT:
                print(f"Couldn't find program: {command[0]!r}")
                return None
            raise
        for name, variable in kept.items():
            if variable:
                self.shell.user_ns[variable] = "".join(texts[name])
        if args.raise_error and status != 0:
            raise subprocess.CalledProcessError(status, cell)

    def _in_background(self, command, given, args):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE if args.out else None,
                                   stderr=subprocess.PIPE if args.err else None, start_new_session=True)
        self._background.append(process)
        try:
            process.stdin.write(given)
            process.stdin.close()
        except BrokenPipeError:
            pass
        for variable, value in ((args.out, process.stdout), (args.err, process.stderr), (args.proc, process)):
            if variable:
                self.shell.user_ns[variable] = value

    @line_magic
    def killbgscripts(self, line=""):
        """Ends what %%script --bg has started."""
        for process in self._background:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._background.clear()
        print("All background processes were killed.")


@magics_class
class Packages(Magics):
    @line_magic
    def pip(self, line):
        """%pip install …: into the user's own packages, where this kernel finds them at once."""
        # Debian's mark of "managed by apt" is meant for people's machines; this one is thrown away.
        settings = "PIP_BREAK_SYSTEM_PACKAGES=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1"
        python, stand_in = sys.executable or "python3", "/cove/stand-ins/pip"
        command = f"SANDBOX_PIP_PYTHON={python} {stand_in}" if os.path.exists(stand_in) else f"{python} -m pip"
        self.shell.user_ns["_exit_code"] = system(f"{settings} {command} {line}")
        if os.path.isdir(user_packages()):
            site.addsitedir(user_packages())
        importlib.invalidate_caches()
