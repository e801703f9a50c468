"""matplotlib without set-up: plt.show() shows at once, what is open at the end of a cell is shown then."""
import os
import sys

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.pylabtools import print_figure

from .own import builtins as __builtins__  # noqa: F401


class Figures:
    def __init__(self, shell):
        self._shell = shell
        self._seen = []
        self._options = None
        png = shell.display_formatter.formatters["image/png"]
        png.for_type_by_name("matplotlib.figure", "Figure", lambda figure: print_figure(figure, "png", base64=True, bbox_inches="tight"))
        shell.display_formatter.shown = self.saw

    def watch(self, arrivals):
        arrivals.when("matplotlib", self._choose_backend)
        arrivals.when("matplotlib.pyplot", self._take_over)

    def _choose_backend(self, matplotlib):
        wanted = os.environ.get("MPLBACKEND", "")
        wanted = "agg" if not wanted or "inline" in wanted else wanted
        if dict.get(matplotlib.rcParams, "backend") != wanted:
            matplotlib.rcParams["backend"] = wanted

    def _take_over(self, pyplot):
        def show(*args, **kwargs):
            """Display every open figure in order and close it."""
            self._out(lambda figure: True)

        pyplot.show = show  # a function: pyplot writes attributes to it
        bases = sys.modules.get("matplotlib.backend_bases")
        if bases is not None:
            bases.FigureManagerBase.show = lambda manager: self._display(manager.canvas.figure)
        self.add_options()

    def add_options(self):
        """%config InlineBackend…, when the package is there. It imports all of matplotlib, so not before."""
        if self._options is not None:
            return
        try:
            from matplotlib_inline.config import InlineBackend
        except ImportError:
            return
        self._options = InlineBackend.instance(parent=self._shell)
        self._options.shell = self._shell
        self._shell.configurables.append(self._options)

    def saw(self, thing):
        if type(thing).__module__ == "matplotlib.figure":
            self._seen.append(thing)

    def flush(self):
        """At the end of a cell. What the cell itself has displayed is not shown twice."""
        if self.open_managers():
            self._out(lambda figure: not any(figure is seen for seen in self._seen))
        self._seen.clear()

    @staticmethod
    def open_managers():
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        return helpers.Gcf.get_all_fig_managers() if helpers is not None else []

    def _out(self, wanted):
        try:
            for manager in self.open_managers():
                if wanted(manager.canvas.figure):
                    self._display(manager.canvas.figure)
        finally:
            if self._options is None or self._options.close_figures:
                sys.modules["matplotlib._pylab_helpers"].Gcf.destroy_all()

    def _display(self, figure):
        data, metadata = self._shell.display_formatter.format(figure)
        self._shell.display_pub.publish(data, metadata)


@magics_class
class Settings(Magics):
    """%config, which must know of InlineBackend before matplotlib is imported."""

    def __init__(self, shell, original):
        super().__init__(shell)
        self._original = original

    @line_magic("config")
    def set(self, line):
        """%config Class.setting = value"""
        if "InlineBackend" in line:
            self.shell.enable_matplotlib()
        return self._original.magics["line"]["config"](line)
