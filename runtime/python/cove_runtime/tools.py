"""Calls of tools from a kernel: requests to the host in the middle of a cell, from any thread or task, and their answers."""
import asyncio
import itertools
import os
import threading
import time

from .own import builtins as __builtins__  # noqa: F401

_getpid = os.getpid
PATIENCE = 100  # milliseconds after which a thread looks whether another has read its answer


class Call:
    def __init__(self, number):
        self.number, self.answer, self.arrived = number, None, None  # arrived(): for one that a task awaits


class Tools:
    """Whoever waits for an answer reads the channel, one at a time, and hands on what is for others."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._numbers = itertools.count(1)
        self._calls = {}
        self._change = threading.Condition(threading.Lock())
        self._led = False  # somebody waits at the channel
        self.kernel_reads = False  # the kernel itself does, in the loop of the tasks that are left
        self.reading = threading.Lock()  # held from the first record of a message to its last

    def here(self):
        """Whether this process is the kernel: what it forked has no channel."""
        return self._kernel.channel is not None and _getpid() == self._kernel.outlet.pid

    def call(self, content):
        call = self._begin(content)
        try:
            self._wait(call)
        except BaseException:
            self._give_up(call)
            raise
        finally:
            self._calls.pop(call.number, None)
        return call.answer

    async def acall(self, content):
        loop = asyncio.get_running_loop()
        came = loop.create_future()
        call = self._begin(content, lambda: loop.call_soon_threadsafe(lambda: came.done() or came.set_result(None)))
        try:
            while not came.done():
                # A loop has one reader for a descriptor. Between cells that is the kernel's own, which does the same work.
                if not self.kernel_reads:
                    loop.add_reader(self._kernel.channel.descriptor, self._readable)
                await asyncio.wait([came], timeout=PATIENCE / 1000)
        except BaseException:
            self._give_up(call)
            raise
        finally:
            self._calls.pop(call.number, None)
            if not self.kernel_reads and not any(other.arrived for other in list(self._calls.values())):
                loop.remove_reader(self._kernel.channel.descriptor)
        return call.answer

    def take(self, message):
        """A message that the kernel has read. True: it was for one of these calls."""
        if message.get("op") != "tool_reply":
            return False
        content = message.get("content") or {}
        call = self._calls.get(content.get("call"))
        if call is not None:
            call.answer = content
            if call.arrived is not None:
                call.arrived()
            with self._change:
                self._change.notify_all()
        return True

    def receive(self, patience):
        """The next message that is no answer to a call, or None when none came in so many milliseconds (None: waits)."""
        channel = self._kernel.channel
        if patience is not None and not channel.waits(patience):
            return None
        with self.reading:
            if patience is not None and not channel.waits(0):  # another has it
                return None
            message = channel.receive()
        return None if self.take(message) else message

    def _begin(self, content, arrived=None):
        call = Call(next(self._numbers))
        call.arrived = arrived
        self._calls[call.number] = call
        self._kernel.outlet.send("tool_call", {**content, "call": call.number, "at": int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)})
        return call

    def _give_up(self, call):
        if call.answer is None:
            self._kernel.outlet.send("tool_cancel", {"call": call.number})

    def _readable(self):
        self._read(0)

    def _wait(self, call):
        while call.answer is None:
            with self._change:
                if self._led:
                    self._change.wait(PATIENCE / 1000)
                    continue
                self._led = True
            try:
                if call.answer is None:
                    self._read(PATIENCE)
            finally:
                with self._change:
                    self._led = False
                    self._change.notify_all()

    def _read(self, patience):
        if not self._kernel.channel.waits(patience):  # an interrupt ends this wait, and never a read that has begun
            return
        self._kernel.interrupts.hold()
        try:
            message = self.receive(0)
            if message is not None:
                self._kernel.put_back(message)
        except (EOFError, OSError):
            os._exit(0)
        finally:
            self._kernel.interrupts.release()


current = None  # of the kernel that this process is
