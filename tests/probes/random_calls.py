"""SC-30: system calls with random numbers and random arguments, in children that may die, for some seconds."""
import ctypes
import os
import random
import sys
import time

from probelib import BAD, fact, libc

seconds, seed = float(sys.argv[1]), int(sys.argv[2])
dice = random.Random(seed)
# Left out: what would only end or stop the child (exit, pause, sigsuspend, sigreturn), multiply it (fork, vfork, clone), or signal the parent.
SKIP = {60, 231, 34, 130, 15, 58, 57, 56, 62, 200, 234, 129, 297, 424}
buffer = ctypes.create_string_buffer(os.urandom(4096), 4096)
INTERESTING = [0, 1, 2, 3, -1, -100, 4096, BAD, ctypes.addressof(buffer), (1 << 63) - 1, -(1 << 63), 0x10000000, 0x7FFFFFFF, 1000]


def child(budget):
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):  # a random write must not land among the facts
        os.dup2(null, fd)
    for _ in range(budget):
        number = dice.choice([dice.randrange(0, 470), dice.randrange(0, 470), dice.randrange(0, 470), dice.getrandbits(32)])
        if number in SKIP:
            continue
        arguments = [dice.choice([dice.choice(INTERESTING), dice.getrandbits(64) - (1 << 63)]) for _ in range(6)]
        libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    os._exit(0)


end = time.monotonic() + seconds
children = crashed = 0
while time.monotonic() < end:
    dice.seed(seed + children)
    pid = os.fork()
    if pid == 0:
        try:
            child(400)
        finally:
            os._exit(1)
    patience = time.monotonic() + 0.5
    while (answer := os.waitpid(pid, os.WNOHANG))[0] == 0:
        time.sleep(0.001)
        if time.monotonic() > patience:  # it sleeps somewhere
            os.kill(pid, 9)
    ended = answer[1]
    children += 1
    crashed += os.WIFSIGNALED(ended)
fact("random", children=children, crashed=crashed)
