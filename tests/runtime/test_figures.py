"""Pictures, and tables and charts as data beside them."""
import base64
import json

import pytest
import runtimes

CHART = "application/vnd.cove.chart+json"
TABLE = "application/vnd.cove.table+json"


@pytest.fixture(scope="module")
def kernel(warm, tmp_path_factory):
    process = warm.start()
    runtimes.begin_kernel(process, tmp_path_factory.mktemp("figures"))
    # Small pictures: what is in them is not what is tested.
    process.execute("import matplotlib, numpy as np, pandas as pd, datetime\nimport matplotlib.pyplot as plt\nmatplotlib.rcParams['figure.figsize'] = (1, 1)")
    yield process
    process.end()


def chart(kernel, code):
    """The one chart of a cell."""
    shown = kernel.execute(code).shown
    assert len(shown) == 1
    return shown[0][CHART]


def series(kernel, code):
    return chart(kernel, code)["axes"][0]["series"]


def test_a_figure_is_shown_at_the_end_of_its_cell_and_closed(kernel):
    events = kernel.execute("plt.plot([1, 2]);")
    assert events.kinds == ["execute_input", "display_data", "execute_reply"]
    assert base64.b64decode(events.shown[0]["image/png"]).startswith(b"\x89PNG") and events.shown[0]["text/plain"].startswith("<Figure")
    assert kernel.execute("plt.get_fignums()").result == "[]"
    assert kernel.execute("1").shown == []


def test_show_shows_at_once(kernel):
    events = kernel.execute("plt.plot([1]); print('a'); plt.show(); print('b')")
    assert events.kinds == ["execute_input", "stream", "display_data", "stream", "execute_reply"]
    assert events.text("stderr") == ""


def test_figures_are_shown_in_order(kernel):
    events = kernel.execute("for i in range(3):\n    plt.figure(); plt.plot([i]); plt.title(str(i))")
    assert [data[CHART]["axes"][0]["title"] for data in events.shown] == ["0", "1", "2"]


@pytest.mark.parametrize("code", ["fig, ax = plt.subplots()\nfig", "fig, ax = plt.subplots(); ax.plot([1]);\ndisplay(fig)", "fig = plt.figure(); fig.add_subplot(); fig.show()"])
def test_a_figure_is_not_shown_twice(kernel, code):
    events = kernel.execute(code)
    assert len(events.shown) + len(events.of("execute_result")) == 1 and events.text("stderr") == ""


def test_a_figure_made_without_pyplot(kernel):
    data = kernel.execute("from matplotlib.figure import Figure\nf = Figure(figsize=(1, 1)); f.subplots().plot([1, 2]); f").of("execute_result")[0]["data"]
    assert "image/png" in data and data[CHART]["axes"][0]["series"][0]["y"] == [1, 2]


def test_a_figure_is_shown_after_an_error_too(kernel):
    events = kernel.execute("plt.plot([1])\n1/0")
    assert events.error == "ZeroDivisionError" and len(events.shown) == 1


def test_an_interrupt_while_drawing(kernel):
    events = kernel.execute("class Bad(matplotlib.lines.Line2D):\n    def draw(self, r): raise KeyboardInterrupt\nplt.gca().add_line(Bad([0], [0]));")
    assert events.error == "KeyboardInterrupt"
    assert kernel.execute("plt.get_fignums()").result == "[]"


@pytest.mark.parametrize("line", ["%matplotlib inline", "%matplotlib", "%matplotlib notebook", "%pylab inline --no-import-all", "matplotlib.use('Agg')"])
def test_what_people_write_first_is_accepted(kernel, line):
    events = kernel.execute(line + "\nplt.plot([1]);")
    assert (len(events.shown), events.error, events.text("stderr")) == (1, None, "")


def test_the_format_can_be_chosen(kernel):
    kernel.execute("%config InlineBackend.figure_format = 'svg'")
    assert "image/svg+xml" in kernel.execute("plt.plot([1]);").shown[0]
    kernel.execute("%config InlineBackend.figure_format = 'png'")
    assert set(kernel.execute("plt.plot([1]);").shown[0]) == {"text/plain", "image/png", CHART}


def test_a_cold_kernel_needs_no_set_up_either(workdir):
    process = runtimes.cold()
    runtimes.begin_kernel(process, workdir, {"MPLCONFIGDIR": str(workdir)})
    events = process.execute("%config InlineBackend.figure_format = 'svg'\nimport matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1))\nplt.plot([1]);")
    assert "image/svg+xml" in events.shown[0] and events.text("stderr") == ""
    process.end()


CHARTS = {
    "a line": ("plt.plot([1, 2, 3], [4, 5, np.nan], label='l');", {"kind": "line", "label": "l", "x": [1, 2, 3], "y": [4, 5, None]}),
    "a line over names": ("plt.plot(['a', 'b'], [1, 2]);", {"kind": "line", "label": "", "x": ["a", "b"], "y": [1, 2]}),
    "a line over dates": ("plt.plot([datetime.date(2024, 1, 2), datetime.date(2024, 1, 3)], [1, 2]);", {"kind": "line", "label": "", "x": ["2024-01-02", "2024-01-03"], "y": [1, 2]}),
    "points": ("plt.scatter([1, 2], [3.5, 4], label='p');", {"kind": "scatter", "label": "p", "x": [1.0, 2.0], "y": [3.5, 4.0]}),
    "points over dates": ("plt.scatter(pd.to_datetime(['2024-01-02']), [1]);", {"kind": "scatter", "label": "", "x": ["2024-01-02T00:00:00"], "y": [1.0]}),
    "bars": ("plt.bar(['a', 'b'], [3, 4], label='n');", {"kind": "bar", "label": "n", "x": ["a", "b"], "y": [3, 4]}),
    "bars over numbers": ("plt.bar([10, 20], [3, 4]);", {"kind": "bar", "label": "", "x": [10.0, 20.0], "y": [3, 4]}),
    "bars lying down": ("plt.barh(['a', 'b'], [3, 4]);", {"kind": "bar", "label": "", "x": [3, 4], "y": ["a", "b"], "horizontal": True}),
    "a histogram": ("plt.hist([1, 1, 2, 4], bins=[0, 2, 4, 6]);", {"kind": "hist", "label": "", "x": [0.0, 2.0, 4.0, 6.0], "y": [2.0, 1.0, 1.0]}),
    "a pie": ("plt.pie([1, 3], labels=['a', 'b']);", {"kind": "pie", "label": "", "x": ["a", "b"], "y": [0.25, 0.75]}),
    "an image": ("plt.imshow([[1, 2], [3, 4]]);", {"kind": "image", "label": "", "shape": [2, 2], "extent": [-0.5, 1.5, 1.5, -0.5], "values": [[1, 2], [3, 4]]}),
    "a plot by pandas": ("pd.Series([1, 2], index=['u', 'v'], name='s').plot.bar();", {"kind": "bar", "label": "s", "x": [0.0, 1.0], "y": [1, 2]}),
}


@pytest.mark.parametrize("code, want", CHARTS.values(), ids=CHARTS)
def test_a_chart_as_data(kernel, code, want):
    assert series(kernel, code) == [want]


def test_what_is_written_around_a_chart(kernel):
    made = chart(kernel, "fig, axes = plt.subplots(1, 2)\naxes[0].plot([1], [2], label='one'); axes[0].set(title='T', xlabel='X', ylabel='Y', yscale='log'); axes[0].legend();")
    first = made["axes"][0]
    assert (first["title"], first["xlabel"], first["ylabel"], first["xscale"], first["yscale"], first["legend"]) == ("T", "X", "Y", "linear", "log", ["one"])
    assert len(made["axes"]) == 2 and made["truncated"] is False and made["axes"][1]["series"] == []


def test_a_long_series_is_thinned_out_and_says_so(kernel):
    made = chart(kernel, "plt.plot(np.arange(100_000));")
    points = made["axes"][0]["series"][0]["y"]
    assert made["truncated"] is True and 100 <= len(points) <= 1000 and points[0] == 0 and points[-1] > 99_000
    assert len(json.dumps(made)) <= 65536


def test_many_long_series_stay_within_the_budget(kernel):
    shown = kernel.execute("for k in range(40): plt.plot(np.random.rand(5000));").shown[0]
    assert "image/png" in shown and len(json.dumps(shown.get(CHART, {}))) <= 65536


def test_a_chart_that_cannot_be_read_costs_only_itself(kernel):
    events = kernel.execute("l, = plt.plot([1])\nl.get_xdata = lambda orig=True: 1/0\nNone")
    assert (set(events.shown[0]), events.error) == ({"text/plain", "image/png"}, None)


def test_a_figure_without_axes_has_no_picture(kernel):
    assert set(kernel.execute("plt.figure();").shown[0]) >= {"text/plain"}


def test_a_long_table_is_cut_and_says_so(kernel):
    table = kernel.execute("pd.DataFrame({'a': range(1000), 'b': 1.5})").of("execute_result")[0]["data"][TABLE]
    assert (len(table["rows"]), table["total_rows"], table["total_columns"], table["truncated"]) == (100, 1000, 2, True)


@pytest.mark.parametrize("code", [
    "pd.DataFrame(np.random.rand(200, 300))", "pd.DataFrame({'a': ['x' * 5000] * 200})", "pd.DataFrame({'a': ['中' * 900] * 50})",
    "pd.DataFrame(np.random.rand(2, 20_000))", "pd.DataFrame({str(i): ['é' * 300] for i in range(3000)})",
])
def test_a_table_stays_within_its_budget_or_is_left_out(kernel, code):
    data = kernel.execute(code).of("execute_result")[0]["data"]
    assert "text/plain" in data
    if TABLE in data:
        assert len(json.dumps(data[TABLE], ensure_ascii=False, separators=(",", ":")).encode()) <= 65536 and data[TABLE]["truncated"]


def test_values_of_every_kind(kernel):
    table = kernel.execute("""
import decimal
pd.DataFrame({'v': [1, 2.5, 'x', None, True, float('inf'), 2**70, datetime.datetime(2024, 1, 2, 3), datetime.date(2024, 1, 2), decimal.Decimal('1.10'),
    pd.Timestamp('2024-01-02'), pd.NaT, pd.NA, np.float32(0.5), np.int8(3), np.datetime64('2024-01-02'), [1], b'x', 1j, pd.Period('2024-01'), pd.Timedelta('1h')]})
""").of("execute_result")[0]["data"][TABLE]
    values = [row[0] for row in table["rows"]]
    assert values == [1, 2.5, "x", None, True, None, float(2**70), "2024-01-02T03:00:00", "2024-01-02", "1.10", "2024-01-02T00:00:00", None, None,
                      0.5, 3, "2024-01-02", "<builtins.list>", "b'x'", "1j", "2024-01", "0 days 01:00:00"]


def test_a_table_never_changes_or_fails_the_cell(kernel):
    events = kernel.execute("class Odd(pd.Series):\n    def to_frame(self): raise SystemError('no')\nOdd([1])")
    assert (set(events.of("execute_result")[0]["data"]), events.error) == ({"text/plain"}, None)
