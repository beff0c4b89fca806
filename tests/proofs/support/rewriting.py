"""The source of modules, rewritten so that it runs on sets and maps of unknown size as on Python's own.

Only what Python itself decides at once is rewritten, and everywhere alike: a comprehension, ``in``, ``not``, ``and``,
``or``, a conditional expression, ``{**one, **other}``, and ``while``.  With Python's own sets and numbers each of them
does what it did (``test_any_size_z3.py`` plays the rewritten source under the judge).  A comprehension over an unknown
set is worked out once, for any of its elements.  A ``while`` that ends when something unknown is so is refused, and so
is a ``for`` over an unknown set.

The builtin functions that are asked for sizes or make collections get stand-ins that know unknown ones, and some
functions get a **contract** in their place (:class:`Modules`).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from types import CodeType, SimpleNamespace
from typing import Any

import z3

from tests.proofs.support.source import Slip, slipped
from tests.proofs.support.unknown import (
    Item,
    Items,
    Shown,
    Unbounded,
    Unknown,
    UnknownMap,
    UnknownSet,
    Values,
    World,
    either,
    put,
    whether,
    whole,
)

MOST_TURNS = 4
"""A loop of a known number of turns, in which something unknown is asked, may have so many."""

LAZY = {"In", "NotIn"}
KINDS = {ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict", ast.GeneratorExp: "generator"}


def call(name: str, *arguments: ast.expr) -> ast.Call:
    """A call of one of the functions of :class:`Kit`."""
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def function(body: ast.expr, *names: str) -> ast.Lambda:
    """Something to be worked out later, perhaps for an element."""
    return ast.Lambda(ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, []), body)


class Rewriter(ast.NodeTransformer):
    """Rewrites a source.

    ``turns``: the functions whose ``while`` is gone through once at most; they return what they did, and with it the
    values of their variables then.  What holds of any such turn holds of any number of them.
    """

    def __init__(self, turns: frozenset[str] = frozenset()) -> None:
        self.turns = turns
        self.once = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        """A function."""
        outer, self.once = self.once, node.name in self.turns
        self.generic_visit(node)
        self.once = outer
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """What it returns."""
        self.generic_visit(node)
        if self.once:
            node.value = ast.Tuple([node.value or ast.Constant(None), call("locals")], ast.Load())
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """``in``, which Python makes a truth value of at once."""
        self.generic_visit(node)
        if len(node.ops) > 1 or type(node.ops[0]).__name__ not in LAZY:
            return node
        found = call("is_in_", node.left, node.comparators[0])
        return found if isinstance(node.ops[0], ast.In) else call("not_", found)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """``and`` and ``or``."""
        self.generic_visit(node)
        return call("and_" if isinstance(node.op, ast.And) else "or_", *[function(one) for one in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """``not``."""
        self.generic_visit(node)
        return call("not_", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """A conditional expression."""
        self.generic_visit(node)
        return call("if_", node.test, function(node.body), function(node.orelse))

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        """``{**one, key: value}``."""
        self.generic_visit(node)
        if None not in node.keys:
            return node
        parts = zip(node.keys, node.values, strict=True)
        return call("joined_", *[value if key is None else ast.Dict([key], [value]) for key, value in parts])

    def visit_While(self, node: ast.While) -> ast.stmt:
        """``while``: as often as its condition is known to hold."""
        self.generic_visit(node)
        if self.once:
            return ast.If(node.test, node.body, node.orelse)
        turns = call("turns_", function(node.test))
        return ast.For(ast.Name("_", ast.Store()), turns, node.body, node.orelse)

    def of_one_for(self, node: Any) -> ast.expr:
        """A comprehension of one ``for``; those of several go through what has a known size."""
        self.generic_visit(node)
        if len(node.generators) > 1:
            return node  # type: ignore[no-any-return]
        (part,) = node.generators
        names = [part.target.id] if isinstance(part.target, ast.Name) else [one.id for one in part.target.elts]
        value = ast.Tuple([node.key, node.value], ast.Load()) if isinstance(node, ast.DictComp) else node.elt
        tests = part.ifs if len(part.ifs) < 2 else [call("and_", *[function(one) for one in part.ifs])]
        kept = function(tests[0], *names) if tests else ast.Constant(None)
        return call("all_of_", ast.Constant(KINDS[type(node)]), function(value, *names), part.iter, kept)

    def visit(self, node: ast.AST) -> Any:
        """All kinds of comprehensions alike."""
        return self.of_one_for(node) if type(node) in KINDS else super().visit(node)


class Made:
    """Stands in for ``dict``, ``set``, ``frozenset`` or ``tuple``: of an unknown collection an unknown one is made.

    Of a tuple of unknown size there is only an account for messages.
    """

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __call__(self, *of: Any, **named: Any) -> Any:
        if of and isinstance(of[0], UnknownSet):
            return Shown(of[0]) if self.kind is tuple else of[0]
        if of and isinstance(of[0], UnknownMap):
            return of[0].copy() if self.kind is dict else of[0].keys()
        return self.kind(*of, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kind, name)

    def __getitem__(self, parts: Any) -> Any:
        return self.kind[parts]  # type: ignore[index]

    def __instancecheck__(self, one: object) -> bool:
        return isinstance(one, self.kind)


class Kit:
    """What rewritten source calls; ``run``: whose numbers are unknown just now."""

    def __init__(self) -> None:
        self.run: World = World([])
        self.about: Any = None
        """What contracts know of its elements."""

    def names(self) -> dict[str, Any]:
        """What takes the place of builtins."""
        own = ("is_in_", "not_", "and_", "or_", "if_", "joined_", "turns_", "all_of_")
        builtin = ("len", "sorted", "range", "sum", "min", "any")
        return {
            **{name: getattr(self, name) for name in own},
            **{name: getattr(self, f"{name}_") for name in builtin},
            **{kind.__name__: Made(kind) for kind in (dict, set, frozenset, tuple)},
        }

    def asked(self) -> bool:
        """Whether code is among what it does to any element."""
        return bool(self.run.anything)

    def is_in_(self, one: Any, some: Any) -> Any:
        """``one in some``."""
        if not self.asked():
            return one in some
        if isinstance(some, UnknownSet | UnknownMap):
            return some.has(whole(one))
        return z3.Or(*[whole(one) == whole(other) for other in some])

    def not_(self, one: Any) -> Any:
        """``not one``."""
        return z3.Not(whether(one)) if self.asked() else not one

    def and_(self, *parts: Callable[[], Any]) -> Any:
        """``one and other``."""
        if self.asked():
            return self.until(parts, False)
        found: Any = True
        for part in parts:
            found = part()
            if not found:
                return False if isinstance(found, Unknown | Item) else found
        return found

    def until(self, parts: Iterable[Callable[[], Any]], settles: bool) -> Any:
        """Parts of an ``or`` or an ``and``, for any element; behind one that ``settles`` it the rest is not asked."""
        found: list[Any] = []
        for part in parts:
            found.append(z3.simplify(whether(part())))
            if z3.is_true(found[-1]) if settles else z3.is_false(found[-1]):
                break
        return z3.Or(*found) if settles else z3.And(*found)

    def or_(self, *parts: Callable[[], Any]) -> Any:
        """``one or other``."""
        if self.asked():
            return self.until(parts, True)
        found: Any = False
        for part in parts:
            found = part()
            if found:
                break
        return found

    def if_(self, test: Any, one: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """``one if test else other``."""
        if self.asked():
            return either(whether(test), one(), other())
        return one() if test else other()

    def joined_(self, *parts: Any) -> Any:
        """``{**one, **other}``."""
        made: Any = {}
        for part in parts:
            if isinstance(made, UnknownMap):
                made = made.with_all(part)
            elif isinstance(part, UnknownMap):
                made = UnknownMap(part.run, part.has, part.at) if not made else self.before(made, part)
            else:
                made = {**made, **part}
        return made

    def before(self, few: Mapping[Any, Any], many: UnknownMap) -> UnknownMap:
        """What a few keys are mapped to where an unknown map doesn't map them."""
        made = many.copy()
        for key, value in few.items():
            made[key] = value
        return made.with_all(many)

    def turns_(self, test: Callable[[], Any]) -> Iterator[None]:
        """The turns of a ``while``; raises :class:`Unbounded` where their number depends on something unknown."""
        turns = 0
        while True:
            known = len(self.run.conditions)
            goes_on = bool(test())
            if len(self.run.conditions) > known:
                raise Unbounded("a while that ends when something unknown is so")
            if not goes_on:
                return
            yield
            turns = turns + 1 if len(self.run.conditions) > known else 0
            if turns > MOST_TURNS:
                raise Unbounded(f"a while that goes on after {MOST_TURNS} turns, with something decided in each")

    def all_of_(self, kind: str, value: Callable[..., Any], some: Any, kept: Callable[..., Any] | None) -> Any:
        """A comprehension."""
        if isinstance(some, Unknown):
            return self.of_any(kind, value, some, kept)

        def parts(one: Any) -> tuple[Any, ...]:
            return tuple(one) if value.__code__.co_argcount > 1 else (one,)

        found = (value(*parts(one)) for one in some if kept is None or kept(*parts(one)))
        makes: dict[str, Callable[[Iterable[Any]], Any]] = {"list": list, "set": set, "dict": dict}
        return makes[kind](found) if kind in makes else found

    def of_any(self, kind: str, value: Callable[..., Any], some: Any, kept: Callable[..., Any] | None) -> Any:
        """A comprehension over what is of unknown size, worked out for any element."""
        run = self.run
        source = some.of if isinstance(some, Items) else some
        at = run.fresh("each")
        parts = some.each(at) if isinstance(some, Items) else (Item(at, run),)
        run.anything += 1
        run.among.append((at, source.has(at)))
        try:
            keeps = z3.And(source.has(at), whether(kept(*parts)) if kept is not None else True)
            made = value(*parts)
        finally:
            run.anything -= 1
            run.among.pop()
        has = put_into(keeps, at)
        if kind == "dict":
            key, held = made
            if not z3.eq(whole(key), at):
                raise Unbounded("keys that are not those of the map of unknown size that is gone through")
            kept_as_it_is = isinstance(some, Items) and held is parts[-1]
            return UnknownMap(run, has, some.of.at if kept_as_it_is else lambda one: put(held, [(at, one)]))
        if isinstance(made, Item) and z3.eq(made.formula, at):
            return UnknownSet(run, has)
        if isinstance(made, z3.BoolRef):
            return Values(run, has, put_into(made, at))
        return Values(run, has, lambda one: put(made, [(at, one)]))

    def len_(self, some: Any) -> Any:
        """``len``."""
        return some.size() if isinstance(some, UnknownSet | UnknownMap) else builtins.len(some)

    def sorted_(self, some: Any, **how: Any) -> Any:
        """``sorted``: of an unknown set for messages alone."""
        return Shown(some) if isinstance(some, UnknownSet | UnknownMap) else builtins.sorted(some, **how)

    def range_(self, *limits: Any) -> Any:
        """``range`` between limits of which only the distance is known."""
        if not any(isinstance(one, Item) for one in limits):
            return builtins.range(*limits)
        first, last = limits if len(limits) == 2 else (0, *limits)
        many = z3.simplify(whole(last) - whole(first))
        if not z3.is_int_value(many):
            raise Unbounded("a range of unknown length")
        return [first + at for at in builtins.range(many.as_long())]

    def sum_(self, some: Any, *start: Any) -> Any:
        """``sum``."""
        return some.total() if isinstance(some, Values) else builtins.sum(some, *start)

    def min_(self, *some: Any, **how: Any) -> Any:
        """``min``: of an unknown set any of its elements, for one of these it is."""
        if len(some) == 1 and isinstance(some[0], UnknownSet):
            return any_of(some[0])
        return builtins.min(*some, **how)

    def any_(self, some: Any) -> Any:
        """``any``."""
        return some.exists() if isinstance(some, Values) else builtins.any(some)


def put_into(formula: Any, at: Any) -> Callable[[Any], Any]:
    """A formula about one element as one about any."""
    return lambda one: z3.substitute(formula, (at, one))


def any_of(some: UnknownSet) -> Any:
    """Any element of a set, which must have one."""
    if isinstance(some, Values):
        return some.one()
    at = some.run.fresh("one")
    some.run.law(some.has(at))
    return Item(at, some.run)


@cache
def rewritten(name: str, slip: Slip | None, turns: frozenset[str]) -> CodeType:
    """The code of a module, rewritten."""
    tree = Rewriter(turns).visit(ast.parse(slipped(name, slip)))
    return compile(ast.fix_missing_locations(tree), f"{name} for any size", "exec", dont_inherit=True)


Contract = Callable[[Any, Kit], Any]
"""What takes the place of a function: made of the function itself and the kit."""


class Modules:
    """Some modules, rewritten, that import each other; whatever else they import is as it is.

    ``contracts``: by module and name what takes the place of a function, for all who call it.  ``turns``: the functions
    of which one turn is looked at.
    """

    def __init__(
        self,
        names: Iterable[str],
        contracts: Mapping[tuple[str, str], Contract],
        slip: Slip | None = None,
        turns: Collection[tuple[str, str]] = (),
    ) -> None:
        self.turns = turns
        self.wanted, self.contracts, self.slip = frozenset(names), contracts, slip
        self.kit = Kit()
        self.loaded: dict[str, SimpleNamespace] = {}

    def __getitem__(self, name: str) -> SimpleNamespace:
        """A module, rewritten."""
        if name not in self.loaded:
            own = {**vars(builtins), **self.kit.names(), "__import__": self.imported}
            space: dict[str, Any] = {"__name__": name, "__builtins__": own}
            slip = self.slip if self.slip is not None and self.slip.module == name else None
            turns = frozenset([function for module, function in self.turns if module == name])
            exec(rewritten(name, slip, turns), space)
            for (module, function), contract in self.contracts.items():
                if module == name:
                    space[function] = contract(space[function], self.kit)
            self.loaded[name] = SimpleNamespace(**space)
        return self.loaded[name]

    def imported(self, name: str, *details: Any) -> Any:
        """What an import finds."""
        found = builtins.__import__(name, *details)
        wanted = details[2] if len(details) > 2 else ()
        if name in self.wanted:
            return self[name]
        if any(f"{name}.{one}" in self.wanted for one in wanted or ()):
            here = {one: f"{name}.{one}" for one in wanted}
            return SimpleNamespace(
                **{one: self[full] if full in self.wanted else getattr(found, one) for one, full in here.items()}
            )
        return found
