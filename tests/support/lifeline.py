"""Whatever a run starts ends with it: passed or failed, and also when it is killed.

    the process somebody started ── guardian ── the run, which returns from guard() ── servers, sandboxes, …

The guardian inherits every process of the run that loses its parent (PR_SET_CHILD_SUBREAPER), so a process is the run's exactly when the guardian is
above it. When the run has ended, by whatever cause, the guardian asks what is left to end, kills what does not, and removes the run's directory."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback

guardian = None  # its pid
directory = None  # of this run alone; all temporary files lie in it
shared = set()  # words in the command lines of programs that one test starts and others use: whoever adds one sees to their end

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None)
GRACE = 4  # seconds in which nothing has ended any more: a server may have many sandboxes to take down


def guard():
    """Returns in the run, once for all. Before any thread is started, and with nothing left to write in a buffer."""
    global guardian, directory
    if guardian is not None:
        return
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cove-test-run-"))
    directory.chmod(0o755)  # some tests run as another user
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    report_in, report_out = os.pipe()
    front = os.getpid()
    if os.fork() != 0:
        os.close(report_out)
        _wait_for_guardian(report_in, inherited)
    os.close(report_in)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    guardian = os.getpid()
    run = os.fork()
    if run != 0:
        _keep_watch(front, run, report_out)
    os.close(report_out)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != guardian:
        os._exit(1)
    tempfile.tempdir = str(directory)
    _hear_signals()


def _hear_signals():
    """Whoever started us may ignore or block signals, as a shell does for what it runs in the background. What we start must not begin so."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:  # the last two are Python's own doing
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # without effect on us, and the default again in a program that we start


# --- the process that somebody started

_HEARD = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}


def _wait_for_guardian(report, inherited):
    """Passes signals on, then ends as the run has ended."""
    run, ended = None, b""
    while True:
        signals = signal.sigwaitinfo(_HEARD)
        if run is None:
            run, = struct.unpack("i", os.read(report, 4) or struct.pack("i", 0))
        if signals.si_signo != signal.SIGCHLD:
            # What a terminal sends it sends to the whole group, the run included.
            if run and signals.si_code <= 0 and signal.getsignal(signals.si_signo) is not signal.SIG_IGN:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(run, signals.si_signo)
            continue
        if os.waitpid(-1, os.WNOHANG)[0] != 0:
            ended = os.read(report, 4)
            break
    status, = struct.unpack("i", ended) if ended else (1 << 8,)  # nobody told: it was killed
    if os.WIFSIGNALED(status):
        with contextlib.suppress(OSError):  # nobody changes what SIGKILL does
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, inherited - {os.WTERMSIG(status)})
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)


# --- the guardian

def _keep_watch(front, run, report):
    """Never returns."""
    try:
        # A session of its own: what is sent to the run's group, by a terminal or by `kill`, does not strike it.
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        os.write(report, struct.pack("i", run))
        status = _wait_for_run(front, run)
        left = _end_descendants()
        _remove_groups(left)
        _remove_directory()
        if left:
            print("\nleft running, and ended now:", *(f"  {pid}: {line}" for pid, line in left.items()), sep="\n", file=sys.stderr, flush=True)
        os.write(report, struct.pack("i", status))
    except BrokenPipeError:  # nobody waits for us any more
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _wait_for_run(front, run):
    """Its status. It ends also when nobody waits for it."""
    status, abandoned = None, False
    while status is None:
        signal.sigtimedwait({signal.SIGCHLD}, 1)
        for pid, ended in _reaped():
            if pid == run:
                status = ended
        if status is None and os.getppid() != front:
            with contextlib.suppress(ProcessLookupError):
                os.kill(run, signal.SIGKILL if abandoned else signal.SIGTERM)
            abandoned = True
    return status


def _reaped():
    """(pid, status) of every child that has ended."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0] != 0:
            yield found


def _end_descendants():
    """{pid: command line} of what was still there, and is no more."""
    left, asked, before, changed = {}, set(), None, 0.0
    while found := descendants(os.getpid()):
        if found != before:
            before, changed = found, time.monotonic()
        still = time.monotonic() - changed
        if still > 2 * GRACE:
            break  # not even SIGKILL helps: it waits for a device
        for pid in found:
            left.setdefault(pid, _command_line(pid))
        for pid in found if still > GRACE else children(os.getpid()) - asked:
            asked.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if still > GRACE else signal.SIGTERM)
        signal.sigtimedwait({signal.SIGCHLD}, 0.1)
        for _ in _reaped():
            pass
    return left


def _remove_groups(pids):
    """The empty control groups of coves that had to be killed."""
    for parent, name in groups():
        if name in {f"cove-{pid}" for pid in pids} or server_group_is_ours(name):
            for inner, _, _ in os.walk(os.path.join(parent, name), topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(inner)


def _remove_directory():
    for place in reversed(mounts_below(directory)):
        _libc.umount2(os.fsencode(place), 2)  # MNT_DETACH
    if not mounts_below(directory):  # what is mounted there may be somebody's own
        shutil.rmtree(directory, ignore_errors=True)
    for stray in pathlib.Path("/tmp").glob(f"*{directory.name}-*"):  # named after the run where it could not be put into the directory
        shutil.rmtree(stray) if stray.is_dir() else stray.unlink()


# --- what is there

def processes():
    """{pid: (name, parent)} of everything that has not ended."""
    found = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit():
                name, _, rest = pathlib.Path(f"/proc/{entry}/stat").read_text().partition("(")[2].rpartition(")")
                state, parent, *_ = rest.split()
                if state not in "ZX":
                    found[int(entry)] = (name, int(parent))
    return found


def children(pid):
    """Those that have not ended."""
    try:
        found = {int(child) for task in os.listdir(f"/proc/{pid}/task") for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()}
        return {child for child in found if _alive(child)}
    except FileNotFoundError:  # a kernel without that file, or the process or a thread is gone
        return {child for child, (_, parent) in processes().items() if parent == pid}


def _alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def descendants(pid):
    """Without itself."""
    below, found = processes(), set()
    while more := {child for child, (_, parent) in below.items() if parent == pid or parent in found} - found:
        found |= more
    return found


def started():
    """The pids of programs that the run has started itself, or that lost their parent since; not those inside of sandboxes, which end with theirs, nor shared ones."""
    own = os.readlink("/proc/self/ns/pid")
    found = children(os.getpid()) | (children(guardian) - {os.getpid()} if guardian else set())
    return {pid for pid in found if _namespace(pid) == own and not any(word in _command_line(pid) for word in shared)}


def _namespace(pid):
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")
    return None


def end(pids, patience=2):
    """{pid: command line} of those that did not end by themselves in a moment and had to be ended."""
    deadline = time.monotonic() + patience
    while (pids := pids & started()) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = {pid: _command_line(pid) for pid in pids}
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 5
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while (pids := pids & started()) and time.monotonic() < deadline:
            time.sleep(0.02)
    return left


def _command_line(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:1000] or "?"
    return "?"


def mounts_below(place):
    """Where something is mounted, the outer before the inner."""
    points = [line.split()[4].encode().decode("unicode_escape") for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{place}/")]


def groups():
    """(directory, name) of every control group that a cove has made, once in each hierarchy."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.split()[0] in ("cgroup", "cgroup2"):
            for parent, names, _ in os.walk(left.split()[4]):
                for name in [name for name in names if name.startswith("cove-")]:
                    names.remove(name)  # what is in it goes with it
                    yield parent, name


def server_group_is_ours(name):
    """Whether it is the group of a server (cove-keep-rRANGE) whose state lies in the run's directory. The file of a range names that state."""
    if not name.startswith("cove-keep-r"):
        return False
    with contextlib.suppress(OSError):
        return str(directory) in pathlib.Path("/run/cove/uid-ranges", name.removeprefix("cove-keep-r")).read_text()
    return False
