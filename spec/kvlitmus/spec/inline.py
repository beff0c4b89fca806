"""One expression in the place of a call: most facts and predicates are no more than that, and a call costs more.

A function is replaced by what it returns only where that is plainly the same: its body is one expression of its own
parameters, without a scope of its own, and the text that is found is the text that runs.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any, NewType

from kvlitmus.spec.facts import UNKNOWN

SCOPED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
"""What names things of its own, which could be names of facts."""

LONGEST = 160
"""No function with more bytes of code than this is one short expression."""


@functools.cache
def expression(function: Callable[..., Any]) -> str | None:
    """The expression that a function returns, in terms of its parameters; ``None`` where it is not so simple."""
    code = getattr(function, "__code__", None)
    if code is None or len(code.co_code) > LONGEST or code.co_freevars:
        return None
    node = definition(code)
    if node is None or not isinstance(node.body[-1], ast.Return) or node.body[-1].value is None:
        return None
    value, known = node.body[-1].value, set(code.co_varnames[: code.co_argcount])
    if any(isinstance(one, SCOPED) for one in ast.walk(value)):
        return None
    value = WithoutTypes(function).visit(value)
    named = {one.id for one in ast.walk(value) if isinstance(one, ast.Name)} - known
    plain = all(is_plain(function, name) for name in named)
    return ast.unparse(value) if plain else None


def definition(code: CodeType) -> ast.FunctionDef | None:
    """The definition of a function of one statement, as it stands in its module; ``None`` where that isn't what runs."""
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(code))).body
    except (OSError, SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return None
    if len(node.body) > 1 + (ast.get_docstring(node) is not None):
        return None
    node.decorator_list = []
    flags = code.co_flags & __future__.annotations.compiler_flag
    made = compile(ast.Module([node], []), "<text>", "exec", flags=flags, dont_inherit=True)
    own = next(one for one in made.co_consts if isinstance(one, CodeType) and one.co_name == code.co_name)
    same = (own.co_code, own.co_names, own.co_consts) == (code.co_code, code.co_names, code.co_consts)
    return node if same else None


class WithoutTypes(ast.NodeTransformer):
    """Leaves out calls of types that are new to a type checker alone: they return what they are given."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.names = function.__globals__

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, without it where it is of a ``NewType``."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and isinstance(self.names.get(node.func.id), NewType):
            return node.args[0]
        return node


def is_plain(function: Callable[..., Any], name: str) -> bool:
    """Whether a name in a function is of the language, or the one value for what is unknown."""
    if name in function.__globals__:
        return name == "UNKNOWN" and function.__globals__[name] is UNKNOWN
    return hasattr(builtins, name)
