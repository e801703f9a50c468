"""Source cut into what is run: its statements, and apart from them what is shown, which is usually its last expression."""
import __future__
import ast

from .own import builtins as __builtins__  # noqa: F401

FUTURES = 0
for _feature in __future__.all_feature_names:
    FUTURES |= getattr(__future__, _feature).compiler_flag

_REFUSED = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError)


def compiled(tree, filename, flags=0, echo="last_expr"):
    """(code objects, exception): what can be run, in order, and then what the compiler had to say, or None.

    `echo` is IPython's ast_node_interactivity. Statements are compiled together. Where that fails, one by one: those before the bad
    one still run.
    """
    body, first_shown = _shown(tree.body, echo)
    quiet, loud = body[:first_shown], body[first_shown:]
    try:
        codes = []
        if quiet:
            codes.append(compile(ast.Module(quiet, []), filename, "exec", flags, True))
            flags |= codes[0].co_flags & FUTURES
        codes.extend(compile(ast.Interactive([statement]), filename, "single", flags, True) for statement in loud)
        return codes, None
    except _REFUSED:
        pass
    codes = []
    for at, statement in enumerate(body):
        part, mode = (ast.Interactive([statement]), "single") if at >= first_shown else (ast.Module([statement], []), "exec")
        try:
            codes.append(compile(part, filename, mode, flags, True))
        except _REFUSED as error:
            return codes, error.with_traceback(None)
        flags |= codes[-1].co_flags & FUTURES
    return codes, None


def _shown(body, echo):
    """The statements, and from which of them on their values are shown."""
    last = body[-1] if body else None
    if echo == "last_expr_or_assign" and isinstance(last, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        target = last.targets[0] if isinstance(last, ast.Assign) else last.target
        if isinstance(target, ast.Name):
            last = ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.Name(target.id, ast.Load())), last))
            body = [*body, last]
    if echo == "all":
        return body, 0
    if echo == "last" or (echo != "none" and isinstance(last, ast.Expr)):
        return body, max(len(body) - 1, 0)
    return body, len(body)
