"""Comms: named lines between code in a kernel and a client, as Jupyter has them. Their binary buffers travel as base64."""
import base64
import importlib.abc
import types
import uuid

from .bundle import json_value
from .own import builtins as __builtins__  # noqa: F401

_encode64 = base64.b64encode


class Comm:
    def __init__(self, target_name="comm", data=None, metadata=None, buffers=None, comm_id=None, primary=True, **extra):
        self.comm_id, self.target_name, self.primary = comm_id or uuid.uuid4().hex, target_name, primary
        self._on_msg = self._on_close = None
        self._closed = not primary
        manager.register_comm(self)
        if primary:
            self.open(data, metadata, buffers)
        else:
            self._closed = False

    def open(self, data=None, metadata=None, buffers=None):
        self._closed = False
        self._send("comm_open", data, metadata, buffers, target_name=self.target_name, target_module=None)

    def send(self, data=None, metadata=None, buffers=None):
        self._send("comm_msg", data, metadata, buffers)

    def close(self, data=None, metadata=None, buffers=None, deleting=False):
        if self._closed:
            return
        self._closed = True
        self._send("comm_close", data, metadata, buffers)
        if not deleting:
            manager.unregister_comm(self)

    def _send(self, kind, data, metadata, buffers, **more):
        if buffers:
            more["buffers"] = [_encode64(memoryview(buffer)).decode() for buffer in buffers]
        manager.outlet.send(kind, {"comm_id": self.comm_id, "data": json_value(data or {}, {}), "metadata": json_value(metadata or {}, {}), **more})

    def on_msg(self, callback):
        self._on_msg = callback

    def on_close(self, callback):
        self._on_close = callback

    def handle_msg(self, message):
        if self._on_msg is not None:
            self._on_msg(message)

    def handle_close(self, message):
        if self._on_close is not None:
            self._on_close(message)


class Manager:
    """get_ipython().kernel.comm_manager, and what the comm package is told to use."""

    def __init__(self):
        self.outlet = None
        self.comms, self.targets = {}, {}

    def register_target(self, target_name, function):
        if isinstance(function, str):
            module, _, name = function.rpartition(".")
            function = getattr(__import__(module, fromlist=[name]), name)
        self.targets[target_name] = function

    def unregister_target(self, target_name, function=None):
        return self.targets.pop(target_name)

    def register_comm(self, comm):
        self.comms[comm.comm_id] = comm
        return comm.comm_id

    def unregister_comm(self, comm):
        self.comms.pop(comm.comm_id, None)

    def get_comm(self, comm_id):
        return self.comms.get(comm_id)

    # what a client says

    def info(self, content):
        wanted = content.get("target_name")
        return {comm_id: {"target_name": comm.target_name} for comm_id, comm in self.comms.items() if wanted in (None, comm.target_name)}

    def opened(self, message):
        content = message["content"]
        comm = Comm(content.get("target_name", ""), comm_id=content.get("comm_id"), primary=False)
        function = self.targets.get(comm.target_name)
        if function is None:
            comm.close()
            return
        try:
            function(comm, message)
        except BaseException:
            comm.close()
            raise

    def said(self, message):
        comm = self.comms.get(message["content"].get("comm_id"))
        if comm is not None:
            comm.handle_msg(message)

    def closed(self, message):
        comm = self.comms.pop(message["content"].get("comm_id"), None)
        if comm is not None:
            comm._closed = True
            comm.handle_close(message)


manager = Manager()


def create_comm(*args, **kwargs):
    return Comm(*args, **kwargs)


def take_over(package):
    """The comm package, once imported: its comms are ours."""
    package.create_comm, package.get_comm_manager = create_comm, lambda: manager


class Package(importlib.abc.Loader):
    """The comm package where it is not installed."""

    def create_module(self, spec):
        module = types.ModuleType("comm", "Comms of this kernel.")
        module.BaseComm = module.Comm = Comm
        return module

    def exec_module(self, module):
        take_over(module)


def watch(arrivals):
    arrivals.when("comm", take_over, otherwise=Package())
