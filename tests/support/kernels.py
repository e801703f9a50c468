"""A kernel of a sandbox, as tests speak to one."""
import threading

from conftest import fair, wait_until
from server import at

# What every result has.
RESULT = {"executionId", "status", "reason", "executionCount", "stdout", "stderr", "outputs", "error", "userExpressions", "durationMs", "truncated"}


class Kernel:
    """One kernel of a sandbox, spoken to."""

    def __init__(self, server, sandbox, **fields):
        self.server, self.sandbox = server, sandbox
        answer = server.post(at(sandbox, "kernels"), fields or None, timeout=60)
        assert answer.status == 201, answer
        self.born = answer.json
        self.id, self.birth = self.born["id"], self.born["birth"]

    def at(self, rest=""):
        return at(self.sandbox, f"kernels/{self.id}" + (f"/{rest}" if rest else ""))

    def get(self, rest=""):
        return self.server.get(self.at(rest), timeout=20)

    def post(self, rest, body=None, **options):
        return self.server.post(self.at(rest), body, **{"timeout": 30, **options})

    @property
    def state(self):
        return self.get().json["state"]

    def run(self, code, patience=60, **fields):
        answer = self.post("execute", {"code": code, **fields}, timeout=patience)
        assert answer.status == 200, answer
        assert RESULT <= set(answer.json), answer
        return answer.json

    def out(self, code, **fields):
        """stdout of a cell that must succeed."""
        result = self.run(code, **fields)
        assert result["status"] == "ok", result
        return result["stdout"]

    def value(self, code):
        """The text of the value of a cell."""
        result = self.run(code)
        assert result["status"] == "ok", result
        return result["outputs"][-1]["data"]["text/plain"]

    def background(self, code, **fields):
        """Starts a cell in a thread; call what it returns for the result."""
        results = []
        thread = threading.Thread(target=lambda: results.append(self.run(code, **fields)))
        thread.start()

        def result(patience=10):
            thread.join(fair(patience))
            assert results, "it has not ended"
            return results[0]
        return result

    def detach(self, code, **fields):
        answer = self.post("execute?detach=true", {"code": code, **fields})
        assert answer.status == 202 and set(answer.json) == {"executionId"}, answer
        return answer.json["executionId"]

    def ended(self, execution, patience=10):
        assert wait_until(lambda: self.get(f"executions/{execution}").json["state"] == "ended", patience), self.get(f"executions/{execution}")
        return self.get(f"executions/{execution}").json

    def stream(self, code, query="", **fields):
        return self.server.sse(self.at(f"execute{query}"), "POST", {"code": code, **fields})

    def busy(self):
        assert wait_until(lambda: self.state == "busy", 5)
