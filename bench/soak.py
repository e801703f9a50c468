"""`make soak`: thousands of one-shot sandboxes of every kind, some at once, then nothing may be left. Bounded in count."""
import argparse
import json
import subprocess
import sys

from soak_report import Soak, lifeline

KINDS = [
    ("ok", ["-c", "print(1)"], "exited", 0),
    ("error", ["-c", "raise SystemExit(3)"], "exited", 3),
    ("segv", ["--", "sh", "-c", "kill -SEGV $$"], "signalled", 139),
    ("timeout", ["--timeout", "200ms", "--", "sleep", "60"], "timeout", 124),
    ("oom", ["--memory", "32M", "-c", "x = b'x' * (200 << 20)"], "oom", 137),
    ("flood", ["--output-limit", "64K", "--", "head", "-c", "5000000", "/dev/zero"], "exited", 0),
    ("daemons", ["--", "sh", "-c", "for i in 1 2 3 4; do setsid sleep 600 & done; exit 0"], "exited", 0),
    ("forks", ["--pids", "16", "--", "sh", "-c", "for i in $(seq 40); do sleep 600 & done; exit 7"], "pids", None),
    ("files", ["--", "sh", "-c", "mkdir -p a/b/c && seq 1000 > a/b/c/n && cat a/b/c/n | tail -1"], "exited", 0),
]


def one(cove, number):
    name, arguments, reason, status = KINDS[number % len(KINDS)]
    done = subprocess.run([cove, "run", "--json", "--quiet", *arguments], capture_output=True, timeout=120)
    result = json.loads(done.stdout)
    good = result["reason"] == reason and (status is None or done.returncode == status)
    return None if good else f"{name}: {result['reason']} {done.returncode} instead of {reason} {status}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cove", default="build/cove")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=4)
    options = parser.parse_args()
    soak = Soak()
    soak.run("runs", options.count, lambda number: one(options.cove, number), options.at_once)
    return soak.report()


if __name__ == "__main__":
    lifeline.guard()
    sys.exit(main())
