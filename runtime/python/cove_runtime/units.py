"""Source cut into what is run: its statements, and its last expression apart from them because its value is shown."""
import __future__
import ast

from .own import builtins as __builtins__  # noqa: F401

FUTURES = 0
for _feature in __future__.all_feature_names:
    FUTURES |= getattr(__future__, _feature).compiler_flag


def compiled(tree, filename, flags=0, echo=True):
    """(code objects, exception): what can be run, in order, and then what the compiler had to say, or None.

    Statements are compiled together. Where that fails, one by one: those before the bad one still run.
    """
    body = tree.body
    last = body[-1:] if echo and body and isinstance(body[-1], ast.Expr) else []
    first = body[:-1] if last else body
    try:
        codes = []
        if first:
            codes.append(compile(ast.Module(first, []), filename, "exec", flags, True))
            flags |= codes[0].co_flags & FUTURES
        if last:
            codes.append(compile(ast.Interactive(last), filename, "single", flags, True))
        return codes, None
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        pass
    codes = []
    for statement in body:
        try:
            if last and statement is last[0]:
                codes.append(compile(ast.Interactive([statement]), filename, "single", flags, True))
            else:
                codes.append(compile(ast.Module([statement], []), filename, "exec", flags, True))
        except Exception as error:
            return codes, error.with_traceback(None)
        flags |= codes[-1].co_flags & FUTURES
    return codes, None
