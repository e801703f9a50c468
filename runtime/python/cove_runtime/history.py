"""What was typed, kept in memory: no database, no thread, no file."""
from fnmatch import fnmatchcase

from IPython.core.history import HistoryManager

from .own import builtins as __builtins__  # noqa: F401


class History(HistoryManager):
    def __init__(self, shell, **options):
        super().__init__(shell=shell, enabled=False, hist_file=":memory:", **options)

    def store_inputs(self, line_num, source, source_raw=None):
        source_raw = (source if source_raw is None else source_raw).rstrip("\n")
        if self._exit_re.match(source_raw.strip()):
            return
        self.input_hist_parsed.append(source.rstrip("\n"))
        self.input_hist_raw.append(source_raw)
        namespace, hidden = self.shell.user_ns, self.shell.user_ns_hidden
        namespace["_iii"], namespace["_ii"], namespace["_i"] = self.last[1], self.last[0], self.input_hist_raw[-2]
        self.last = (namespace["_i"], namespace["_ii"])
        name = "_i%d" % line_num
        namespace[name] = hidden[name] = source_raw
        hidden.update(_i=namespace["_i"], _ii=namespace["_ii"], _iii=namespace["_iii"])

    last = ("", "")

    def store_output(self, line_num):
        pass

    def writeout_cache(self, conn=None):
        pass

    def end_session(self):
        pass

    def new_session(self, conn=None):
        self.session_number = 1

    def get_tail(self, n=10, raw=True, output=False, include_latest=False):
        lines = list(self._get_range_session(1, None, raw, output))
        if not include_latest:
            lines = lines[:-1]
        return lines[-n:] if n else []

    def search(self, pattern="*", raw=True, search_raw=True, output=False, n=None, unique=False):
        searched = self.input_hist_raw if search_raw else self.input_hist_parsed
        found = {}
        for session, line, said in self._get_range_session(1, None, raw, output):
            if fnmatchcase(searched[line], pattern):
                key = searched[line] if unique else line
                found.pop(key, None)
                found[key] = (session, line, said)
        lines = list(found.values())
        return lines[-n:] if n else lines

    def get_range(self, session=0, start=1, stop=None, raw=True, output=False):
        return self._get_range_session(start, stop, raw, output) if session in (0, 1) else iter(())
