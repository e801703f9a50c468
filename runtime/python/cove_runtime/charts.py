"""Charts as data: application/vnd.cove.chart+json beside the picture of a matplotlib figure."""
import sys
import time

from .channel import encode
from .own import builtins as __builtins__  # noqa: F401
from .plain import plain

KIND = "application/vnd.cove.chart+json"
POINTS = 1000  # of one series; longer ones are thinned out evenly
CELLS = 2500  # of one image
BUDGET_BYTES = 64 * 1024
BUDGET_SECONDS = 0.05


def add(value, data):
    """Never at the price of the run: whatever goes wrong, the chart is left out."""
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    if not isinstance(figure, type) or not issubclass(type(value), figure):
        return
    try:
        for points in (POINTS, POINTS // 10, POINTS // 50):
            made = _Reader(points, time.monotonic() + BUDGET_SECONDS).figure(value)
            if len(encode(made).encode("utf-8", "replace")) <= BUDGET_BYTES:
                data[KIND] = made
                return
    except Exception:
        pass


class _Late(Exception):
    pass


class _Reader:
    def __init__(self, points, deadline):
        self.points, self.deadline = points, deadline
        self.truncated = False

    def figure(self, figure):
        axes = [self.axes(one) for one in figure.axes]
        return {"axes": axes, "truncated": self.truncated}

    def axes(self, axes):
        legend = axes.get_legend()
        bars = [patch for container in axes.containers for patch in getattr(container, "patches", ())]
        in_bars = {id(patch) for patch in bars}
        series = []
        for container in axes.containers:
            if getattr(container, "patches", None):
                series.append(self.bars(axes, container))
        for line in axes.lines:
            series.append(self.line(axes, line))
        for collection in axes.collections:
            if type(collection).__name__ == "PathCollection":
                series.append(self.scatter(axes, collection))
            elif type(collection).__name__ == "PolyCollection":
                series.append({"kind": "area", "label": _label(collection)})
        for image in axes.images:
            series.append(self.image(image))
        wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
        if wedges:
            series.append(self.pie(wedges))
        steps = [patch for patch in axes.patches if type(patch).__name__ == "Polygon" and id(patch) not in in_bars]
        for step in steps:
            series.append(self.outline(axes, step))
        return {
            "title": axes.get_title(), "xlabel": axes.get_xlabel(), "ylabel": axes.get_ylabel(),
            "xscale": axes.get_xscale(), "yscale": axes.get_yscale(),
            "legend": [text.get_text() for text in legend.get_texts()] if legend else [],
            "series": series,
        }

    def line(self, axes, line):
        return {"kind": "line", "label": _label(line),
                "x": self.values(axes.xaxis, line.get_xdata(orig=True)), "y": self.values(axes.yaxis, line.get_ydata(orig=True))}

    def scatter(self, axes, collection):
        offsets = collection.get_offsets()
        return {"kind": "scatter", "label": _label(collection),
                "x": self.values(axes.xaxis, offsets[:, 0]), "y": self.values(axes.yaxis, offsets[:, 1])}

    def bars(self, axes, container):
        patches = [patch for patch in container.patches if hasattr(patch, "get_width")]
        flat = getattr(container, "orientation", None) == "horizontal"
        starts = [patch.get_y() if flat else patch.get_x() for patch in patches]
        widths = [patch.get_height() if flat else patch.get_width() for patch in patches]
        lengths = [patch.get_width() if flat else patch.get_height() for patch in patches]
        along = axes.yaxis if flat else axes.xaxis
        touching = len(patches) > 1 and all(
            abs(start + width - following) <= 1e-9 * max(abs(width), abs(following), 1e-300)
            for start, width, following in zip(starts, widths, starts[1:]))
        if touching:  # bars of a histogram share their edges
            where = self.values(along, [*starts, starts[-1] + widths[-1]])
        else:
            where = self.values(along, [start + width / 2 for start, width in zip(starts, widths)])
        much = self.values(None, lengths)
        return {"kind": "hist" if touching else "bar", "label": _label(container),
                "x": much if flat else where, "y": where if flat else much, **({"horizontal": True} if flat else {})}

    def outline(self, axes, polygon):
        points = polygon.get_xy()
        return {"kind": "hist", "label": _label(polygon), "outline": True,
                "x": self.values(axes.xaxis, points[:, 0]), "y": self.values(axes.yaxis, points[:, 1])}

    def pie(self, wedges):
        return {"kind": "pie", "label": "", "x": [_label(wedge) for wedge in wedges],
                "y": [plain(round((float(wedge.theta2) - float(wedge.theta1)) / 360, 9)) for wedge in wedges]}

    def image(self, image):
        array = image.get_array()
        made = {"kind": "image", "label": _label(image), "shape": [int(size) for size in array.shape],
                "extent": [plain(float(edge)) for edge in image.get_extent()]}
        if array.ndim == 2 and array.size <= CELLS:
            made["values"] = [[plain(value) for value in row] for row in array.tolist()]
        else:
            self.truncated = True
        return made

    def values(self, axis, values):
        if time.monotonic() > self.deadline:
            raise _Late
        count = len(values)
        if count > self.points:
            self.truncated = True
            values = values[::-(-count // self.points)]
        converter = getattr(axis, "converter", None)
        mapping = getattr(getattr(axis, "units", None), "_mapping", None)
        names = {at: name for name, at in mapping.items()} if mapping else None
        dates = "Date" in type(converter).__name__ or "Date" in type(getattr(converter, "_get_converter", lambda: None)()).__name__
        values = values.tolist() if type(values).__module__ == "numpy" and values.dtype.kind in "iufb" else list(values)
        if names:
            return [names.get(round(value), plain(value)) if isinstance(value, (int, float)) else plain(value) for value in values]
        if dates:
            from matplotlib.dates import num2date
            return [num2date(value).replace(tzinfo=None).isoformat() if isinstance(value, (int, float)) else plain(value) for value in values]
        return [plain(value) for value in values]


def _label(artist):
    label = artist.get_label()
    return "" if not isinstance(label, str) or label.startswith("_") else label
