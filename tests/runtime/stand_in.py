"""Stands in for the zygote: prepares once, then forks a process of the runtime for every four descriptors it is given."""
import os
import socket
import sys

runtime, line, *modules = sys.argv[1:]
sys.path.insert(0, runtime)
from cove_runtime import main  # noqa: E402

sys.path.remove(runtime)
main.prepare(modules)
line = socket.socket(fileno=int(line))
line.send(b"ready")
while True:
    message, given, _, _ = socket.recv_fds(line, 100, 4)
    if not message:
        break
    if message.startswith(b"wait"):
        _, status = os.waitpid(int(message.split()[1]), 0)
        line.send(b"%d" % os.waitstatus_to_exitcode(status))
        continue
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for at, descriptor in enumerate(given):
            os.dup2(descriptor, at)
        os.closerange(4, 1000)
        line.detach()
        main.live(3)
        os._exit(99)
    for descriptor in given:
        os.close(descriptor)
    line.send(b"%d" % pid)
