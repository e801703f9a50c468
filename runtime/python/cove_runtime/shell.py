"""IPython's shell, driven without a terminal: leaner on the way to the user's code, silent about itself."""
import ast
import asyncio
import builtins
import getpass
import inspect
import linecache
import os
import re
import sys
import types

from . import lean  # noqa: F401, I001 — before anything else of IPython's
import IPython.core.interactiveshell as ipython
from IPython.core import page, payloadpage
from IPython.core.autocall import IPyAutocall, ZMQExitAutocall
from IPython.core.error import InputRejected, StdinNotImplementedError
from IPython.core.events import available_events
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell
from IPython.core.macro import Macro
from IPython.utils.text import LSString, SList

from . import commands, failures
from .bundle import Formatter, Hook, Publisher
from .figures import Figures, Settings
from .history import History
from .own import builtins as __builtins__  # noqa: F401
from .stand_ins import Hooks, Memory, Profile
from .units import FUTURES, compiled

_AWAITED = inspect.CO_COROUTINE
_AWAIT = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)
# Syntax that only IPython knows: an escape at the start of a line, an assigned magic or command, a question mark at the end of a line, a
# pasted prompt. IPython finds it by tokenizing, which is slow; a cell without any of it needs no transformation.
_SPECIAL = re.compile(r"^[ \t]*[%!?/,;]|=\s*[%!]|\?[ \t]*\r?$|^\s*(?:>>>|\.\.\.|In \[|\[(?:nav|ins)\])", re.MULTILINE).search
_FIRST_WORD = re.compile(r"\s*(\w+)").match
_BAD_SOURCE = (SyntaxError, OverflowError, ValueError, TypeError, MemoryError, RecursionError)


class Shell(InteractiveShell):
    displayhook_class = Hook
    display_pub_class = Publisher
    # Plain attributes where IPython has traits: nobody observes them, and every cell sets them.
    execution_count = 1
    last_execution_succeeded = True
    last_execution_result = None
    exit_now = keepkernel_on_exit = False
    allow_stdin = False
    home_dir = "/"
    kernel = interrupts = ask = None  # the kernel's, with its way to ask the client for input

    def __init__(self):
        original, ipython.PickleShareDB = ipython.PickleShareDB, Memory
        try:
            super().__init__(ipython_dir="/nonexistent", profile_dir=Profile(location="/nonexistent/profile_default"), user_module=_main_module())
        finally:
            ipython.PickleShareDB = original
        type(self)._instance = InteractiveShell._instance = self
        self.set_hook("show_in_pager", page.as_hook(payloadpage.page), 99)
        self.Completer.use_jedi = False  # it imports, reads and caches files; our objects are live
        self.register_magics(commands.Scripts(self, self.magics_manager.registry["ScriptMagics"]), commands.Packages(self))
        self.figures = Figures(self)
        self.register_magics(Settings(self, self.magics_manager.registry["ConfigMagics"]))
        self.failure = None
        self._getpass = getpass.getpass
        self._depth = 0
        self._loop = None
        manager = self.input_transformer_manager
        self._usual_input = [list(manager.cleanup_transforms), list(manager.line_transforms), list(manager.token_transformers)]
        self.builtin_trap.__enter__()  # get_ipython and display are there for good
        self.InteractiveTB.tb_offset = 0
        self._colour = None
        self.colour(False)

    # what InteractiveShell.__init__ asks for

    def init_events(self):
        self.events = Hooks(self, available_events)
        self.events.register("pre_execute", self._clear_warning_registry)

    def init_history(self):
        self.history_manager = History(self, parent=self)
        self.configurables.append(self.history_manager)

    def init_display_formatter(self):
        self.display_formatter = Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_virtualenv(self):
        pass

    def init_sys_modules(self):
        pass  # appear() does

    def _exiter_default(self):
        return ZMQExitAutocall(self)

    # one child's own

    def appear(self):
        """In a new process: sets everything that depends on the process and its user."""
        sys.displayhook = self.displayhook
        self.starting_dir = os.getcwd()
        self.home_dir = os.environ.get("HOME") or "/"
        self.history_manager.dir_hist[:] = [self.starting_dir]
        builtins.display, builtins.__IPYTHON__ = ipython.display, True
        builtins.input, getpass.getpass = self.raw_input, self.getpass
        sys.modules["__main__"] = self.user_module

    @property
    def ipython_dir(self):
        """The user's directory for IPython; never created by the runtime."""
        return os.path.join(self.home_dir, ".ipython")

    @ipython_dir.setter
    def ipython_dir(self, value):
        pass

    def forget(self):
        """Resets the shell: code that was run to warm it up leaves no trace."""
        self.reset(new_session=True)
        self.execution_count = 1
        self.history_manager.last = ("", "")
        self.history_manager.output_hist_reprs.clear()
        self.displayhook._ = self.displayhook.__ = self.displayhook.___ = ""
        for name in [name for name in self.user_ns if re.fullmatch(r"_i+|_i?\d+|_exit_code", name)]:
            del self.user_ns[name]
        self.user_ns.update(_="", __="", ___="")
        self.compile.reset_compiler_flags()
        self.compile._filename_map.clear()
        linecache.clearcache()
        linecache._ipython_cache.clear()
        self.failure = self.last_execution_result = None
        for name in ("last_type", "last_value", "last_traceback"):
            if hasattr(sys, name):
                delattr(sys, name)

    def forget_last(self):
        """Removes traces of the last cell, which kept no history and had no value."""
        name, _ = self.compile._filename_map.popitem()
        linecache.cache.pop(name, None)
        linecache._ipython_cache.pop(name, None)
        self.last_execution_result = None

    def vanish(self):
        """In a process that runs a program: nothing shows that IPython was loaded."""
        self.builtin_trap.deactivate()
        for name in ("display", "__IPYTHON__"):
            builtins.__dict__.pop(name, None)
        builtins.input, getpass.getpass = self.raw_input_original, self._getpass
        for name in ("ps1", "ps2", "ps3"):
            if hasattr(sys, name):
                delattr(sys, name)
        linecache.checkcache = linecache._checkcache_ori
        InteractiveShell._instance = Shell._instance = None

    # running a cell

    def transform_cell(self, raw_cell):
        cell = raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
        if cell[0] in " \t\n\r" or _SPECIAL(cell) or not self._nothing_is_special(cell):
            return super().transform_cell(raw_cell)
        return cell

    def _nothing_is_special(self, cell):
        manager = self.input_transformer_manager
        if self.input_transformers_post or [manager.cleanup_transforms, manager.line_transforms, manager.token_transformers] != self._usual_input:
            return False
        if cell.find("\n") != len(cell) - 1:
            return True
        # One line: it may be a magic without its %, or `exit`.
        word = _FIRST_WORD(cell)
        if word is None:
            return True
        word = word.group(1)
        value = self.user_ns.get(word)
        return not (self.autocall or word in self.magics_manager.magics["line"] or isinstance(value, (IPyAutocall, Macro)))

    def run_cell(self, raw_cell, store_history=False, silent=False, shell_futures=True, cell_id=None):
        """Everything called from here may be the user's code (hooks, transformers, reprs) and can be interrupted."""
        store_history = store_history and not silent
        result = ExecutionResult(ExecutionInfo(raw_cell, store_history, silent, shell_futures, cell_id))
        interrupts, was = self.interrupts, self.interrupts.allowed
        self._depth += 1
        try:
            interrupts.begin()
            if raw_cell and not raw_cell.isspace():
                self._run(raw_cell, result)
            interrupts.allowed = was
        except BaseException as error:
            interrupts.allowed = was
            self._failed(result, error)
        self._depth -= 1
        self.last_execution_succeeded = result.error_before_exec is None and result.error_in_exec is None
        self.last_execution_result = result
        if store_history and raw_cell and not raw_cell.isspace():
            self.execution_count += 1
        self._after(result)
        return result

    def _run(self, raw_cell, result):
        info, bad = result.info, None
        if info.store_history:
            result.execution_count = self.execution_count
        try:
            cell = self.transform_cell(raw_cell)
        except Exception as error:
            cell, bad = raw_cell, error
        self.events.trigger("pre_execute")
        if not info.silent:
            self.events.trigger("pre_run_cell", info)
        if info.store_history:
            self.history_manager.store_inputs(self.execution_count, cell, raw_cell)
        if self.logger.log_active and not info.silent:
            self.logger.log(cell, raw_cell)
        if bad is not None:
            self._failed(result, bad, "error_before_exec")
            return
        compiler = self.compile if info.shell_futures else self.compiler_class()
        name = compiler.cache(cell, self.execution_count, raw_code=raw_cell)
        try:
            tree = compile(cell, name, "exec", compiler.flags & FUTURES | ast.PyCF_ONLY_AST, True)
            if self.ast_transformers:
                tree = self.transform_ast(tree)
        except (InputRejected, *_BAD_SOURCE) as error:
            self._failed(result, error.with_traceback(None), "error_before_exec")
            return
        flags = compiler.flags & FUTURES | (_AWAIT if self.autoawait else 0)
        codes, bad = compiled(tree, name, flags, "none" if info.silent else self.ast_node_interactivity)
        for code in codes:
            compiler.flags |= code.co_flags & FUTURES
        if self._execute(codes, result) and bad is not None:
            self._failed(result, bad, "error_before_exec")

    def _execute(self, codes, result):
        """Runs the code objects; returns whether all of them finished."""
        hook, outer_result, outer_hook = self.displayhook, self.displayhook.exec_result, sys.excepthook
        hook.exec_result, sys.excepthook = result, self.excepthook
        if self._depth == 1:
            sys.displayhook = hook
        try:
            if any(code.co_flags & _AWAITED for code in codes):
                self._awaited(codes)
            else:
                for code in codes:
                    exec(code, self.user_module.__dict__, self.user_ns)
            return True
        except BaseException as error:
            self._failed(result, error.with_traceback(failures.theirs(error.__traceback__, codes)))
            return False
        finally:
            hook.exec_result, sys.excepthook = outer_result, outer_hook

    def _failed(self, result, error, when="error_in_exec"):
        setattr(result, when, error)
        if self.custom_exceptions and isinstance(error, self.custom_exceptions):
            self.CustomTB(type(error), error, error.__traceback__)
        else:
            self.showtraceback((type(error), error, error.__traceback__), exception_only=isinstance(error, SystemExit),
                               running_compiled_code=when == "error_in_exec")

    def _after(self, result):
        interrupts, was = self.interrupts, self.interrupts.allowed
        try:
            interrupts.allowed = True
            self.events.trigger("post_execute")
            if not result.info.silent:
                self.events.trigger("post_run_cell", result)
            if self._depth == 0:
                self.figures.flush()
            interrupts.allowed = was
        except BaseException as error:
            interrupts.allowed = was
            self.showtraceback((type(error), error, error.__traceback__))

    def _awaited(self, codes):
        async def cell():
            for code in codes:
                value = eval(code, self.user_module.__dict__, self.user_ns)
                if code.co_flags & _AWAITED:
                    await value

        if self.loop_runner is not ipython._asyncio_runner:  # %autoawait trio
            self.loop_runner(cell())
            return
        loop = self.event_loop()
        task = loop.create_task(cell())
        try:
            loop.run_until_complete(task)
        except KeyboardInterrupt as interrupt:
            if task.done():
                raise
            # The task was waiting; the traceback of its cancellation shows where.
            task.cancel()
            try:
                loop.run_until_complete(task)
            except asyncio.CancelledError as cancelled:
                raise interrupt.with_traceback(cancelled.__traceback__) from None
            raise

    def event_loop(self):
        """One loop for all cells, created when the first one awaits."""
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def pending(self):
        """The loop, if tasks are left in it, which run while the kernel is idle."""
        loop = self._loop
        if loop is None or loop.is_closed() or not asyncio.all_tasks(loop):
            return None
        return loop

    # errors

    def colour(self, wanted):
        if wanted != self._colour:
            self._colour = wanted
            self.colors = scheme = "Neutral" if wanted else "NoColor"
            self.InteractiveTB.set_colors(scheme)
            self.SyntaxTB.set_colors(scheme)

    def showtraceback(self, exc_tuple=None, filename=None, tb_offset=None, exception_only=False, running_compiled_code=False):
        self.show_failure(exc_tuple, exception_only, running_compiled_code)

    def show_failure(self, exc_tuple=None, exception_only=False, running_compiled_code=False):
        """Shows an error. Returns whether an interrupt arrived while the traceback was formatted, which it only cut short."""
        try:
            kind, error, trace = self._get_exc_info(exc_tuple)
        except ValueError:
            print("No traceback available to show.", file=sys.stderr)
            return False
        interrupts, was = self.interrupts, self.interrupts.allowed
        interrupted = False
        try:
            interrupts.allowed = True
            lines = failures.lines(self, kind, error, failures.theirs(trace), exception_only, running_compiled_code)
            interrupts.allowed = was
        except BaseException as trouble:
            interrupts.allowed = was
            interrupted = isinstance(trouble, KeyboardInterrupt)
            lines = failures.last_words(kind, error)
        self._showtraceback(kind, error, lines)
        return interrupted

    def _showtraceback(self, etype, evalue, stb):
        self.failure = failures.content(etype, evalue, stb)
        self.displayhook.outlet.send("error", self.failure)

    def showsyntaxerror(self, filename=None, running_compiled_code=False):
        self.showtraceback(running_compiled_code=running_compiled_code)

    # what the user's code may ask of the client

    def raw_input(self, prompt=""):
        return self._asked(str(prompt), False)

    def getpass(self, prompt="Password: ", stream=None):
        return self._asked(str(prompt), True)

    def _asked(self, prompt, password):
        if not self.allow_stdin:
            raise StdinNotImplementedError("input was asked for, but this client does not answer input requests")
        return self.ask(prompt, password)

    def ask_exit(self):
        self.exit_now = not self.keepkernel_on_exit
        self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": self.keepkernel_on_exit})

    def set_next_input(self, s, replace=False):
        self.payload_manager.write_payload({"source": "set_next_input", "text": s, "replace": replace})

    def system(self, cmd):
        self.user_ns["_exit_code"] = commands.system(self.var_expand(cmd, depth=1))

    system_piped = system_raw = system

    def getoutput(self, cmd, split=True, depth=0):
        text = commands.output(self.var_expand(cmd, depth=depth + 1))
        return SList(text.splitlines()) if split else LSString(text)

    def enable_gui(self, gui=None):
        pass

    def enable_matplotlib(self, gui=None):
        """Figures are shown in the client, whatever backend is asked for."""
        import matplotlib.pyplot  # noqa: F401
        return "inline", "agg"


def _main_module():
    return types.ModuleType("__main__", "The user's namespace.")
