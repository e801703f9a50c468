"""The way out of a sandbox beside a direct connection over loopback: throughput of one stream each way, and what 10 000 connections leave behind in the egress process."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import sys
import threading
import time

BENCH = pathlib.Path(__file__).parent
STREAM = 2 << 30  # bytes
ROUNDS = 5
CHURN = 10_000

CLIENT = """
import socket, sys, time
host, port, way, size = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
buffer = bytearray(1 << 20)
with socket.create_connection((host, port), 30) as line:
    line.settimeout(60)
    line.sendall(way.encode())
    begun, done = time.perf_counter(), 0
    if way == "d":
        while n := line.recv_into(buffer): done += n
    else:
        while done < size: done += line.send(buffer)
        line.shutdown(socket.SHUT_WR)
        line.recv(1)
print(done / (time.perf_counter() - begun))
"""
MANY = """
import socket, sys, threading
host, port, count = socket.gethostbyname(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
good = []
def some(n):
    for _ in range(n):
        with socket.create_connection((host, port), 30) as line:
            line.sendall(b"c")
            assert line.recv(10) == b"hello"
            good.append(1)
threads = [threading.Thread(target=some, args=(count // 8,)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(good))
"""


def serve(listener):
    """'d': bytes down; 'u': bytes up; 'c': one word."""
    def one(line):
        with line:
            way, buffer = line.recv(1), bytearray(1 << 20)
            if way == b"d":
                for _ in range(STREAM >> 20):
                    line.sendall(buffer)
            elif way == b"u":
                while line.recv_into(buffer):
                    pass
                line.sendall(b"k")
            else:
                line.sendall(b"hello")

    def loop():
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(line,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()


def held(pid):
    """Descriptors, and resident MiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return len(os.listdir(f"/proc/{pid}/fd")), resident / 1024


def settled(pid, want, patience=10):
    until = time.monotonic() + patience
    while held(pid)[0] > want and time.monotonic() < until:
        time.sleep(0.1)
    return held(pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cove", default="build/cove")
    options = parser.parse_args()
    os.environ["COVE"] = str(pathlib.Path(options.cove).resolve())
    sys.path[:0] = [str(BENCH.parent / "tests" / "support"), str(BENCH.parent / "tests")]
    import subprocess
    from names import NameServer
    from server import Server
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    port = listener.getsockname()[1]
    serve(listener)
    with NameServer(bench_test=["127.0.0.1"]) as names, Server("--resolver", names.address) as server:
        box = server.create(network={"allow": [f"bench.test:{port}", f"127.0.0.1:{port}"], "caps": {"connections": 0, "connectionsPerSecond": 0}}, memoryLimit="1Gi")

        def inside(code, *words):
            done = server.exec(box, "python3", "-c", code, "bench.test", str(port), *words, timeoutSeconds=600)
            assert done["exitCode"] == 0, done
            return done["stdout"].strip()

        def direct(*words):
            return subprocess.run([sys.executable, "-c", CLIENT, "127.0.0.1", str(port), *words], check=True, capture_output=True, text=True).stdout.strip()
        for way, name in (("d", "down"), ("u", "up")):
            figures = {"relay": [], "direct": []}
            for _ in range(ROUNDS):  # alternately, so that both have the same neighbours
                figures["direct"].append(float(direct(way, str(STREAM))))
                figures["relay"].append(float(inside(CLIENT, way, str(STREAM))))
            relay, plain = statistics.median(figures["relay"]), statistics.median(figures["direct"])
            print(f"one stream {name}: relay {relay / 2**30:.2f} GiB/s, direct {plain / 2**30:.2f} GiB/s, ratio {relay / plain:.2f}")
        pid = server.child("cove-egress")
        inside(MANY, str(CHURN // 10))
        before = held(pid)
        begun = time.perf_counter()
        assert int(inside(MANY, str(CHURN))) == CHURN
        taken = time.perf_counter() - begun
        after = settled(pid, before[0])
        print(f"{CHURN} connections: {CHURN / taken:.0f} a second; descriptors {before[0]} before, {after[0]} after; resident {before[1]:.1f} MiB before, {after[1]:.1f} MiB after")
        counted = server.get(f"/v1/sandboxes/{box}/network").json["connections"]
        print(json.dumps(counted))
    return 0 if after[0] <= before[0] + 2 else 1


if __name__ == "__main__":
    sys.exit(main())
