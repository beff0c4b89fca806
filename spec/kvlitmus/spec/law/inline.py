"""One expression in the place of a call: most facts and predicates are no more than that, and a call costs more.

A function is replaced by what it returns only where that is plainly the same: its body is one expression, or one after
each of a few conditions, without a scope of its own, and the text that is found is the text that runs.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple, NewType, cast

from kvlitmus.spec.law.facts import UNKNOWN

SCOPED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
"""What names things of its own, which could be names of facts."""

BRACKETS = 4
"""In no definition more lines follow the last one that does something."""

LONGEST = 160
"""No function with more bytes of code than this is one short expression."""


class Expression(NamedTuple):
    """What a function returns, in terms of what it is given and of these ``names``, which nothing given has."""

    text: str
    names: dict[str, object]


@functools.cache
def expression(function: Callable[..., Any], given: tuple[str, ...] = ()) -> Expression | None:
    """The expression that a function returns; ``None`` where it is not so simple.  ``given``: the names of its arguments."""
    code = getattr(function, "__code__", None)
    if code is None or len(code.co_code) > LONGEST or code.co_freevars or code.co_flags & inspect.CO_VARARGS:
        return None
    node = definition(code)
    value = None if node is None else returned(node.body)
    if value is None or any(isinstance(one, SCOPED) for one in ast.walk(value)):
        return None
    names: dict[str, object] = {}
    value = Renamed(function, given, names).visit(WithoutTypes(function).visit(value))
    return Expression(ast.unparse(value), names)


def returned(body: list[ast.stmt]) -> ast.expr | None:
    """What these statements return, as one expression; ``None`` where they do anything else."""
    match body:
        case [ast.Return(value=value)]:
            return value
        case [ast.Expr(value=ast.Constant()), *rest]:  # what the function means
            return returned(rest)
        case [ast.If(test=test, body=[ast.Return(value=ast.expr() as one)], orelse=[]), *rest]:
            other = returned(rest)
            return None if other is None else ast.IfExp(test, one, other)
    return None


def parsed(code: CodeType) -> ast.stmt | None:
    """The statement that begins where a function does; ``None`` where there is none.

    It ends with the last line that does something, or a few brackets later: to look for that end costs less than to read
    all tokens up to it.
    """
    lines = linecache.getlines(code.co_filename)
    first, last = code.co_firstlineno - 1, max(line or 0 for _, _, line in code.co_lines())
    for end in range(last, min(last + BRACKETS, len(lines)) + 1):
        try:
            (node,) = ast.parse(textwrap.dedent("".join(lines[first:end]))).body
        except (SyntaxError, ValueError):
            continue
        return node
    return None


def definition(code: CodeType) -> ast.FunctionDef | None:
    """The definition of a function, as it stands in its module; ``None`` where that isn't what runs."""
    node = parsed(code)
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return None
    node.decorator_list = []
    flags = code.co_flags & __future__.annotations.compiler_flag
    made = compile(ast.Module([node], []), "<text>", "exec", flags=flags, dont_inherit=True)
    own = next(one for one in made.co_consts if isinstance(one, CodeType) and one.co_name == code.co_name)
    same = (own.co_code, own.co_names, own.co_consts) == (code.co_code, code.co_names, code.co_consts)
    return node if same else None


class WithoutTypes(ast.NodeTransformer):
    """Leaves out calls that are for a type checker alone: they return what they are given."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.names = function.__globals__

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, without it where it is of a ``NewType`` or a ``cast``."""
        self.generic_visit(node)
        called = self.names.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if isinstance(called, NewType) or called is cast:
            return node.args[-1]
        return node


class Renamed(ast.NodeTransformer):
    """Puts the arguments in place of parameters; gives what a function has of its module a name of that module's, and notes it."""

    def __init__(self, function: Callable[..., Any], given: tuple[str, ...], names: dict[str, object]) -> None:
        code = function.__code__
        own = code.co_varnames[: code.co_argcount]
        self.own = dict(zip(own, given or own, strict=True))
        self.globals = function.__globals__
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name, as it is where it is of the language, or the one value for what is unknown."""
        if node.id in self.own:
            return ast.Name(self.own[node.id], node.ctx)
        if node.id not in self.globals or self.globals[node.id] is UNKNOWN:
            return node
        name = f"{self.globals['__name__']}.{node.id}".replace(".", "_")
        self.names[name] = self.globals[node.id]
        return ast.Name(name, node.ctx)
