"""SIGINT: KeyboardInterrupt where the user's code runs, nothing anywhere else."""
import _signal  # without the enumerations around it
import _thread
import dis
import sys

from .own import builtins as __builtins__  # noqa: F401

_get_ident = _thread.get_ident
_getsignal, _set, _SIGINT = _signal.getsignal, _signal.signal, _signal.SIGINT


class Interrupts:
    def __init__(self):
        self.allowed = False  # the user's code may be running
        self._expected = False  # it is about to run
        self._early = False  # an interrupt came meanwhile
        self._held = 0
        self._waiting = False
        self.main = _get_ident()
        self._shielded = {Interrupts.hold.__code__: sys.maxsize}
        self._handler = self._arrived

    def install(self):
        """Also after every cell: one may have set a handler of its own."""
        if _getsignal(_SIGINT) is not self._handler:
            _set(_SIGINT, self._handler)

    def expect(self):
        """A cell has been announced: an interrupt that comes before its first line strikes there and is not lost."""
        self._expected, self._early = True, False

    def begin(self):
        """The cell's first line is next."""
        self.allowed, self._expected = True, False
        if self._early:
            self._early = False
            raise KeyboardInterrupt

    def rest(self):
        """Nothing of the user's runs."""
        self.allowed = self._expected = self._early = False

    def _arrived(self, number, frame):
        if not self.allowed:
            self._early = self._expected
            return
        if self._held or frame.f_lasti <= self._shielded.get(frame.f_code, -1):
            self._waiting = True
            return
        raise KeyboardInterrupt

    def shield(self, code):
        """A function that begins with hold(): an interrupt between its call and that waits too. One that comes behind release() does not:
        nobody would remember it."""
        self._shielded[code] = next(step.offset for step in dis.get_instructions(code) if step.opname.startswith("CALL"))

    def hold(self):
        """From here to release() nothing is torn apart: a message half sent would spoil all that follow."""
        if _get_ident() == self.main:
            self._held += 1

    def release(self):
        if _get_ident() == self.main:
            self._held -= 1
            if self._waiting and not self._held:
                self._waiting = False
                if self.allowed:
                    raise KeyboardInterrupt
