"""What the soaks share: work over numbers, some at once, a line now and then, and the sum at the end with whatever was left on the host."""
import collections
import concurrent.futures
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tests" / part) for part in ("", "support")]
import conftest  # noqa: E402  (the leak check is the tests')
import lifeline  # noqa: E402, F401  (for the soaks)


class Soak:
    def __init__(self):
        self.before = conftest.HostState().things
        self.wrong = collections.Counter()
        self.count = 0

    def run(self, title, count, work, at_once, every=500, aside=lambda done: ""):
        """work(number) says what was wrong, or None. What aside(done) says is added to the line."""
        self.count += count
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            for done, problem in enumerate(pool.map(work, range(count)), 1):
                if problem:
                    self.wrong[problem] += 1
                said = aside(done)
                if done % every == 0:
                    print(f"{title}: {done} of {count}, {sum(self.wrong.values())} wrong, {done / (time.monotonic() - start):.0f} a second{said}", flush=True)

    def report(self):
        """The exit status."""
        left = conftest.left_behind(self.before)
        wrong = sum(self.wrong.values())
        for problem, times in self.wrong.most_common():
            print(f"wrong {times} times: {problem}")
        for leak in left:
            print(f"left behind: {leak}")
        print(f"{self.count - wrong} passed, {wrong + len(left)} failed")
        return 1 if wrong or left else 0
