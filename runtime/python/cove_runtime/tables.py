"""Tables as data: application/vnd.cove.table+json beside the text and the HTML of a pandas object."""
import sys
import time

from .channel import encode
from .own import builtins as __builtins__  # noqa: F401
from .plain import plain

KIND = "application/vnd.cove.table+json"
ROWS = 100
BUDGET_BYTES = 64 * 1024
BUDGET_SECONDS = 0.05


def add(value, data):
    """Never at the price of the run: whatever goes wrong, the table is left out."""
    pandas = sys.modules.get("pandas")
    frame, series = getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None)
    if not isinstance(frame, type) or not isinstance(series, type) or not issubclass(type(value), (frame, series)):
        return
    try:
        made = table(value.to_frame() if issubclass(type(value), series) else value, time.monotonic() + BUDGET_SECONDS)
        if made is not None:
            data[KIND] = made
    except Exception:
        pass


def table(frame, deadline):
    """None when it cannot be had in time."""
    total_rows, total_columns = frame.shape
    shown = frame.iloc[:ROWS]
    names, dtypes = list(frame.columns[:1000]), list(frame.dtypes.iloc[:1000])
    index = [_label(label) for label in shown.index]
    columns, size = [], 2 * len(encode(index)) + 200
    for at, (name, dtype) in enumerate(zip(names, dtypes)):
        values = [plain(value) for value in shown.iloc[:, at].tolist()]
        head = {"name": _label(name), "dtype": str(dtype)}
        size += len(encode(head)) + len(encode(values))
        if time.monotonic() > deadline:
            return None
        if columns and size > BUDGET_BYTES * 16:
            break
        columns.append((head, values))
    rows = [[label, *row] for label, row in zip(index, zip(*(values for _, values in columns)))] if columns else [[label] for label in index]
    while True:
        made = {
            "columns": [head for head, _ in columns],
            "index": {"name": _label(frame.index.name) if frame.index.name is not None else None, "dtype": str(frame.index.dtype)},
            "rows": [row[1:1 + len(columns)] for row in rows],
            "index_values": [row[0] for row in rows],
            "total_rows": int(total_rows), "total_columns": int(total_columns),
            "truncated": len(rows) < total_rows or len(columns) < total_columns,
        }
        if len(encode(made).encode("utf-8", "replace")) <= BUDGET_BYTES:
            return made
        if time.monotonic() > deadline or (len(rows) <= 1 and len(columns) <= 1):
            return None
        if len(rows) > 1:
            rows = rows[:len(rows) // 2]
        else:
            columns = columns[:len(columns) // 2]


def _label(label):
    return " / ".join(str(plain(part)) for part in label) if type(label) is tuple else plain(label)
