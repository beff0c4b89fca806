"""One-operator changes to a function, for whoever asks whether anything would notice them.

:func:`changes` yields copies of a function that differ from it in one place: a comparison, a connective, a dropped
clause, a sign, a constant off by one, a condition that is always or never true.  What a change does is said by its text
before and after.  Annotations and assertions stay as they are: they are there for whoever reads, and decide
nothing.
"""

from __future__ import annotations
import __future__

import ast
import copy
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
NAMES = {"min": "max", "max": "min", "all": "any", "any": "all"}
METHODS = {"union": "intersection", "intersection": "union", "difference": "intersection", "issubset": "issuperset"}


class Change(NamedTuple):
    """One change: of which function, at which line of its file, the text before and after, and the changed function."""

    module: str
    function: str
    line: int
    before: str
    after: str
    made: Callable[..., Any]

    @property
    def id(self) -> str:
        """What it is known by: it stays the same when lines move."""
        return f"{self.module}.{self.function}: {self.before} → {self.after}"


def variants(node: ast.AST) -> Iterator[ast.expr]:
    """What may stand in the place of an expression."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            if type(operator) in COMPARISONS:
                changed = copy.deepcopy(node)
                changed.ops[at] = COMPARISONS[type(operator)]()
                yield changed
    elif isinstance(node, ast.BoolOp):
        changed_op = copy.deepcopy(node)
        changed_op.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield changed_op
        for at in range(len(node.values)):
            left = [copy.deepcopy(one) for number, one in enumerate(node.values) if number != at]
            yield left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield copy.deepcopy(node.operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield ast.BinOp(copy.deepcopy(node.left), OPERATORS[type(node.op)](), copy.deepcopy(node.right))
        if isinstance(node.op, ast.BitOr | ast.Sub | ast.BitAnd):
            yield copy.deepcopy(node.left)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield copy.deepcopy(node.body)
        yield copy.deepcopy(node.orelse)
    elif isinstance(node, ast.Call):
        yield from calls(node)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        yield from comprehensions(node)


def calls(node: ast.Call) -> Iterator[ast.expr]:
    """The same call of the opposite function."""
    changed = copy.deepcopy(node)
    if isinstance(changed.func, ast.Name) and changed.func.id in NAMES:
        changed.func.id = NAMES[changed.func.id]
        yield changed
    elif isinstance(changed.func, ast.Attribute) and changed.func.attr in METHODS:
        changed.func.attr = METHODS[changed.func.attr]
        yield changed
    elif isinstance(changed.func, ast.Attribute) and changed.func.attr == "isdisjoint":
        yield ast.UnaryOp(ast.Not(), changed)


def comprehensions(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[ast.expr]:
    """The same without one of its conditions."""
    for at, loop in enumerate(node.generators):
        for number in range(len(loop.ifs)):
            changed = copy.deepcopy(node)
            del changed.generators[at].ifs[number]
            yield changed


def statements(node: ast.AST) -> Iterator[tuple[str, str, ast.AST]]:
    """What may stand in the place of a statement: text before, after, and the changed statement."""
    if isinstance(node, ast.If | ast.While) and isinstance(node, ast.If):
        for value in (True, False):
            changed = copy.deepcopy(node)
            changed.test = ast.Constant(value)
            yield f"if {ast.unparse(node.test)}", f"if {value}", changed


class Place(ast.NodeTransformer):
    """Puts one node in the place of the one that is visited as the nth."""

    def __init__(self, at: int, other: ast.AST) -> None:
        self.at, self.other, self.count = at, other, -1

    def visit(self, node: ast.AST) -> Any:
        """Count the nodes in the order in which :func:`nodes` lists them."""
        self.count += 1
        return self.other if self.count == self.at else self.generic_visit(node)


def nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes, parents first, in the order of a transformer."""
    found: list[ast.AST] = []

    class Lister(ast.NodeVisitor):
        def visit(self, node: ast.AST) -> None:
            found.append(node)
            self.generic_visit(node)

    Lister().visit(tree)
    return found


def decides_nothing(node: ast.AST) -> Iterator[ast.AST]:
    """What a part says for its reader alone: what is asserted, and of which type a variable is."""
    if isinstance(node, ast.Assert):
        yield from ast.walk(node)
    elif isinstance(node, ast.AnnAssign):
        yield from ast.walk(node.annotation)
    elif isinstance(node, ast.keyword) and node.arg == "strict":
        yield node.value  # zip() asserts that what it is given is equally long


def changes(function: Callable[..., Any]) -> Iterator[Change]:
    """Every one-operator change to a function; it sees its module's globals, as the function itself does."""
    lines, start = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    plain = tree.body[0]
    assert isinstance(plain, ast.FunctionDef)
    plain.decorator_list = []
    if ast.get_docstring(plain) is not None:
        plain.body = plain.body[1:]
    for part in nodes(plain):
        if isinstance(part, ast.arg):
            part.annotation = None
        if isinstance(part, ast.FunctionDef):
            part.returns = None
    idle = {id(one) for part in nodes(plain) for one in decides_nothing(part)}
    for at, node in enumerate(nodes(tree)):
        if id(node) in idle:
            continue
        found: list[tuple[str, str, ast.AST]]
        if isinstance(node, ast.expr):
            found = [(ast.unparse(node), ast.unparse(other), other) for other in variants(node)]
        else:
            found = list(statements(node))
        for before, after, other in found:
            changed = Place(at, other).visit(copy.deepcopy(tree))
            made = compiled(ast.fix_missing_locations(changed), function)
            if made is not None:
                line = start + getattr(node, "lineno", 1) - 1
                yield Change(function.__module__, function.__name__, line, before, after, made)


def compiled(tree: ast.Module, like: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function that a changed tree defines; ``None`` where it can't be compiled."""
    own: dict[str, Any] = {}
    try:
        code = compile(tree, "<changed>", "exec", flags=__future__.annotations.compiler_flag)
        exec(code, vars(sys.modules[like.__module__]), own)
    except (SyntaxError, TypeError, ValueError, NameError):
        return None
    made: Callable[..., Any] = own[like.__name__]
    return made
