"""SC-15: what ordinary programs do, as often as asked: none of it may fail because of the filter."""
import asyncio
import hashlib
import importlib.util
import multiprocessing
import os
import queue
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from probelib import fact

rounds = int(sys.argv[1])


def square(number):
    return number * number


def threads():
    done = queue.Queue()
    workers = [threading.Thread(target=done.put, args=(i,)) for i in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert done.qsize() == 20


def processes():
    assert subprocess.run(["sh", "-c", "echo $((6*7)) | cat"], capture_output=True, text=True, check=True).stdout == "42\n"
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True).stdout == b"1\n"


def pool():
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as workers:
            assert workers.map(square, range(10)) == [n * n for n in range(10)]


def loop():
    async def main():
        async def answer(reader, writer):
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        assert await reader.readline() == b"HELLO\n"
        writer.close()
        process = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
        assert (await process.communicate())[0] == b"hi\n"
        await asyncio.sleep(0.001)
        server.close()
    asyncio.run(main())


def database():
    with tempfile.TemporaryDirectory() as directory, sqlite3.connect(directory + "/d.db") as connection:
        connection.execute("pragma journal_mode=wal")
        connection.execute("create table t(x)")
        connection.executemany("insert into t values (?)", [(i,) for i in range(100)])
        assert connection.execute("select sum(x) from t").fetchone() == (4950,)
        connection.commit()


def secure():
    context = ssl.create_default_context()
    assert context.cert_store_stats() is not None and ssl.RAND_bytes(16) and hashlib.sha256(b"x").hexdigest()


def signals():
    caught = []
    signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    while not caught:
        time.sleep(0.001)


def files():
    with tempfile.TemporaryDirectory() as directory:
        path = directory + "/f"
        with open(path, "wb") as file:
            file.write(os.urandom(4096))
            os.fsync(file.fileno())
        os.rename(path, path + "2")
        os.symlink("f2", directory + "/l")
        os.link(path + "2", directory + "/h")
        os.chmod(path + "2", 0o600)
        os.utime(path + "2")
        assert os.stat(directory + "/l").st_size == 4096 and os.statvfs(directory).f_bsize


def numeric():
    import numpy
    assert numpy.dot(numpy.ones((50, 50)), numpy.ones((50, 50))).sum() == 125000


def compiler():
    with tempfile.TemporaryDirectory() as directory:
        with open(directory + "/a.c", "w") as file:
            file.write('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
        subprocess.run(["cc", "-o", directory + "/a", directory + "/a.c"], check=True, capture_output=True)
        assert subprocess.run([directory + "/a"], capture_output=True, check=True).stdout == b"built\n"


if __name__ == "__main__":
    work = {"threads": threads, "processes": processes, "loop": loop, "database": database, "secure": secure, "signals": signals, "files": files}
    if importlib.util.find_spec("numpy"):
        work["numeric"] = numeric
    for name, function in work.items():
        failures = []
        for _ in range(rounds):
            try:
                function()
            except Exception as error:
                failures.append(repr(error))
        fact(name, rounds=rounds, failures=failures)
    for name, function in {"pool": pool, "compiler": compiler}.items():
        failures = []
        for _ in range(2):
            try:
                function()
            except FileNotFoundError as error:
                if error.filename != "cc":
                    raise
            except Exception as error:
                failures.append(repr(error))
        fact(name, rounds=2, failures=failures)
