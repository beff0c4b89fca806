"""Sets and maps of unknown size, which code can be run on as on Python's own, and the runs that have them.

What is in such a set is a formula over any element; elements are whole numbers: names, pages, requests, receipts.  All
that can be asked of one is asked of all its elements at once: what is in it, whether another contains it, what becomes
of each of its elements (:mod:`tests.proofs.support.rewriting`).  Whoever goes through its elements one by one gets
:class:`Unbounded`: nothing is unrolled.

A :class:`World` is a run with such sets.  With a ``size`` it has the elements ``0 .. size - 1`` and no others, so that
z3 decides everything and a counterexample can be played with Python's sets and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import z3

from tests.proofs.support.search import Run, Why, said
from tests.proofs.support.terms import Comparison, Formula, Term

HAS_QUANTIFIERS = z3.Probe("has-quantifiers")


class Unbounded(Exception):
    """Code goes through what is of unknown size: that needs a contract, and is never unrolled."""


class Item(Term):
    """An element or a number that is not known, and that sets and maps of Python can hold."""

    def __hash__(self) -> int:  # type: ignore[override]
        """All alike, so that Python asks whether two are equal."""
        return 0

    def made(self, formula: Formula) -> Item:
        """Another one of the same run."""
        return Item(formula, self.paths)

    def __eq__(self, other: object) -> Any:
        return super().__eq__(other) if isinstance(other, int | Term) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return super().__ne__(other) if isinstance(other, int | Term) else NotImplemented

    def __repr__(self) -> str:
        return str(self.formula)


def quantified(condition: Formula) -> bool:
    """Whether a condition is about all elements at once."""
    goal = z3.Goal()
    goal.add(condition)
    return bool(HAS_QUANTIFIERS(goal))


class World(Run):
    """A run with sets and maps of unknown size; with a ``size``, all of so many elements."""

    def __init__(self, given: list[bool], numbers: dict[str, Any] | None = None, *, size: int | None = None) -> None:
        super().__init__(given, numbers)
        self.size, self.plays = size, size is not None
        self.laws: list[Formula] = []
        """What holds of all elements: assumed, and decided only where something is claimed."""
        self.decided: dict[int, tuple[Formula, bool]] = {}
        """What was decided, by the number of the formula, which it keeps as long as it is held."""
        self.anything = 0
        """How deep code is among what it does to any element: what it asks there stays open."""
        self.among: list[tuple[Formula, Formula]] = []
        """These elements, and that they are in the sets that are gone through."""
        self.made_so_far = 0
        self.returned = False
        """Whether the call came to its end."""

    # what is unknown

    def relation(self, name: str, kind: Any, arguments: int = 1) -> Callable[..., Formula]:
        """A function of elements of which nothing is known."""
        if self.numbers is not None:
            return lambda *at: self.value(self.numbers[f"{name}{tuple(map(number, at))}"], kind)  # type: ignore[index]
        function = z3.Function(name, *[z3.IntSort()] * arguments, kind)
        for at in self.points(arguments) if self.size is not None else ():
            value = function(*at)
            self.names[f"{name}{tuple(map(number, at))}"] = z3.If(value, 1, 0) if kind == z3.BoolSort() else value
        return function  # type: ignore[no-any-return]

    def value(self, found: int, kind: Any) -> Formula:
        """A number of a counterexample as a formula."""
        return z3.BoolVal(bool(found)) if kind == z3.BoolSort() else z3.IntVal(found)

    def points(self, arguments: int) -> list[tuple[Formula, ...]]:
        """All elements, or all tuples of so many."""
        found: list[tuple[Formula, ...]] = [()]
        for _ in range(arguments):
            found = [(*one, z3.IntVal(at)) for one in found for at in range(self.size or 0)]
        return found

    def predicate(self, name: str, arguments: int = 1) -> Callable[..., Formula]:
        """Which elements are so, or which tuples of them."""
        return self.relation(name, z3.BoolSort(), arguments)

    def function(self, name: str) -> Callable[..., Formula]:
        """A number for each element."""
        return self.relation(name, z3.IntSort())

    def element(self, name: str) -> Any:
        """One element that is not known."""
        if self.numbers is not None:
            return self.number(name)
        made = Item(self.number(name).formula, self)
        if self.size is not None:
            self.assume(z3.And(made.formula >= 0, made.formula < self.size))
        return made

    def elements(self, *names: str) -> tuple[Any, ...]:
        """Some of them."""
        return tuple([self.element(name) for name in names])

    def fresh(self, what: str) -> Formula:
        """A number of which nothing is known, with a name of its own."""
        self.made_so_far += 1
        return z3.Int(f"{what}#{self.made_so_far}")

    def some_of(self, has: Callable[[Formula], Formula]) -> Any:
        """A set of these elements."""
        if self.numbers is None:
            return UnknownSet(self, self.held(has))
        return frozenset([at for at in range(self.size or 0) if holds(has(z3.IntVal(at)))])

    def map_of(self, has: Callable[[Formula], Formula], at: Callable[[Formula], Any]) -> Any:
        """A map of these elements, each to what ``at`` says."""
        if self.numbers is None:
            return UnknownMap(self, self.held(has), at)
        return {one: concrete(at(z3.IntVal(one))) for one in self.some_of(has)}

    def held(self, has: Callable[[Formula], Formula]) -> Callable[[Formula], Formula]:
        """Within the elements that there are."""
        size = self.size
        return has if size is None else lambda at: z3.And(at >= 0, at < size, has(at))

    # what is said of all elements

    def every(self, holds: Callable[..., Formula], arguments: int = 1) -> Formula:
        """Whether it is so of all elements, or tuples of them."""
        if self.size is not None:
            return z3.And(*[holds(*at) for at in self.points(arguments)])
        bound = [self.fresh("any") for _ in range(arguments)]
        return z3.ForAll(bound, holds(*bound))

    def some(self, holds: Callable[..., Formula], arguments: int = 1) -> Formula:
        """Whether it is so of some element."""
        return z3.Not(self.every(lambda *at: z3.Not(holds(*at)), arguments))

    def law(self, condition: Formula) -> None:
        """This is so of all elements."""
        if self.size is None:
            self.laws.append(condition)
        else:
            self.assume(condition)

    def many(self, has: Callable[[Formula], Formula], each: Callable[[Formula], Formula] | None = None) -> Any:
        """How many elements are so, or the sum of what they are worth.

        Of a set of unknown size it is only known whether it has any.
        """
        one = z3.IntVal(1)
        if self.size is not None:
            counted = [z3.If(has(at), one if each is None else each(at), 0) for (at,) in self.points(1)]
            return Item(z3.Sum(counted), self)
        made = self.fresh("many")
        self.solver.add(made >= 0)
        if each is None:
            self.law((made > 0) == self.some(has))
        return Item(made, self)

    # how it goes on

    def example(self) -> dict[str, Any]:
        """The numbers that were found last; none where there may be any number of elements."""
        return super().example() if self.plays else {}

    def decide(self, condition: Formula) -> bool:
        """How this comes out; where it is about all elements, both ways are gone without asking whether they can be."""
        if self.anything:
            raise Unbounded(f"this is decided for each element of an unknown set: {condition}")
        key = condition.get_id()
        if key not in self.decided:
            self.decided[key] = condition, self.decide_anew(condition)
        taken: bool = self.decided[key][1]
        return taken

    def decide_anew(self, condition: Formula) -> bool:
        """The same, where it was not asked before."""
        if self.size is not None or not quantified(condition):
            return super().decide(condition)
        at = len(self.conditions)
        if at == len(self.decisions):
            self.others.append([*self.decisions, False])
            self.decisions.append(True)
        taken = self.decisions[at]
        self.conditions.append(condition if taken else z3.Not(condition))
        self.laws.append(self.conditions[-1])
        return taken

    def owe(self, condition: object, why: Why) -> None:
        """This must be so here; how comparisons came out is known wherever it is asked."""
        if self.numbers is None:
            self.owed.append((whether(condition), why))
        else:
            super().owe(condition, why)

    def owe_each(self, condition: Formula, why: Why) -> None:
        """This must be so of each element of what is gone through just now."""
        elements = [at for at, _ in self.among]
        whole_claim = z3.Implies(z3.And(*[there for _, there in self.among]), condition)

        def of(*others: Formula) -> Formula:
            return z3.substitute(whole_claim, *zip(elements, others, strict=True))

        self.owe(self.every(of, len(elements)), why)

    def met(self) -> bool:
        """With sets of any size this is left to a search with a size: there z3 always knows."""
        return self.size is None or super().met()

    def broken(self, debts: list[tuple[Formula, Why]]) -> str | None:
        """Each is asked by itself: what holds of all elements is easier to show so."""
        asked = [(one, why) for one, why in debts if not z3.is_true(z3.simplify(one))]
        return next((said(why) for one, why in asked if self.possible(*self.laws, z3.Not(one))), None)


def number(at: Formula) -> int:
    """An element that is known."""
    found: int = at if isinstance(at, int) else z3.simplify(at).as_long()
    return found


def holds(condition: Formula) -> bool:
    """Whether something that is known is so."""
    return bool(z3.is_true(z3.simplify(condition)))


def concrete(value: Any) -> Any:
    """What is known, as Python has it."""
    if isinstance(value, tuple):
        made = [concrete(one) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if isinstance(value, Comparison):
        return holds(value.condition)
    return number(value.formula) if isinstance(value, Term) else value


def whole(value: object) -> Formula:
    """An element as a formula."""
    if isinstance(value, Term):
        return value.formula
    if isinstance(value, int):
        return z3.IntVal(value)
    if isinstance(value, z3.ArithRef):
        return value
    raise Unbounded(f"{value!r} is no element")


def whether(value: object) -> Formula:
    """What ``bool`` would say, left open."""
    if isinstance(value, z3.BoolRef):
        return value
    if isinstance(value, Comparison):
        return value.condition
    if isinstance(value, Term):
        return value.formula != 0
    if isinstance(value, UnknownSet | UnknownMap):
        return value.inhabited()
    return z3.BoolVal(bool(value))


class Either:
    """The one where a condition holds, else the other, where these have no common form: their fields may have."""

    def __init__(self, condition: Formula, one: Any, other: Any) -> None:
        self.condition, self.one, self.other = condition, one, other

    def __getattr__(self, name: str) -> Any:
        return either(self.condition, getattr(self.one, name), getattr(self.other, name))


def either(condition: Formula, one: Any, other: Any) -> Any:
    """The one where a condition holds, else the other: field by field."""
    condition = z3.simplify(condition)
    if one is other or z3.is_true(condition):
        return one
    if z3.is_false(condition):
        return other
    if isinstance(one, tuple) and type(one) is type(other) and len(one) == len(other):
        made = [either(condition, left, right) for left, right in zip(one, other, strict=True)]
        return type(one)(*made) if hasattr(one, "_fields") else tuple(made)
    paths = next((part.paths for part in (one, other) if isinstance(part, Term | Comparison)), None)
    if paths is None and type(one) is type(other) and one == other:
        return one
    if isinstance(one, bool | Comparison) and isinstance(other, bool | Comparison) and paths is not None:
        return Comparison(z3.If(condition, whether(one), whether(other)), paths)
    if isinstance(one, int | Term) and isinstance(other, int | Term):
        return Item(z3.If(condition, whole(one), whole(other)), paths)  # type: ignore[arg-type]
    return Either(condition, one, other)


def put(value: Any, change: list[tuple[Formula, Formula]]) -> Any:
    """What something is with other elements in the place of those that it was made of."""
    if isinstance(value, Either):
        return either(z3.substitute(value.condition, *change), put(value.one, change), put(value.other, change))
    if isinstance(value, tuple):
        made = [put(one, change) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if isinstance(value, Comparison):
        return Comparison(z3.substitute(value.condition, *change), value.paths)
    if isinstance(value, Item):
        return Item(z3.substitute(value.formula, *change), value.paths)
    return value


class UnknownSet:
    """A set of unknown size.  ``among``: the elements that it can have, where these are few."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, run: World, has: Callable[[Formula], Formula], among: list[Formula] | None = None) -> None:
        self.run, self.has, self.among = run, has, among
        self.anything: Formula | None = None

    def like(self, has: Callable[[Formula], Formula], among: list[Formula] | None = None) -> UnknownSet:
        """Another one of the same run."""
        return UnknownSet(self.run, has, among)

    def of(self, other: Any) -> UnknownSet:
        """Something that has elements, as such a set."""
        if isinstance(other, UnknownSet):
            return other
        if isinstance(other, UnknownMap):
            return other.keys()
        few = [whole(one) for one in other]
        return self.like(lambda at: z3.Or(*[at == one for one in few]), few)

    def inhabited(self) -> Formula:
        """Whether anything is in it: one formula, so that it is decided once."""
        if self.anything is None:
            self.anything = self.some()
        return self.anything

    def some(self) -> Formula:
        """The same."""
        if self.among is not None:
            return z3.Or(*[self.has(one) for one in self.among])
        return self.run.some(self.has)

    def inside(self, other: Any) -> Formula:
        """Whether all of it is in another one."""
        more = self.of(other)
        if self.among is not None:
            return z3.And(*[z3.Implies(self.has(one), more.has(one)) for one in self.among])
        return self.run.every(lambda at: z3.Implies(self.has(at), more.has(at)))

    def __or__(self, other: Any) -> UnknownSet:
        more = self.of(other)
        among = None if self.among is None or more.among is None else [*self.among, *more.among]
        return self.like(lambda at: z3.Or(self.has(at), more.has(at)), among)

    __ror__ = __or__

    def union(self, *others: Any) -> UnknownSet:
        """With all elements of others."""
        found = self
        for other in others:
            found = found | other
        return found

    def __and__(self, other: Any) -> UnknownSet:
        more = self.of(other)
        among = self.among if self.among is not None else more.among
        return self.like(lambda at: z3.And(self.has(at), more.has(at)), among)

    __rand__ = __and__

    def __sub__(self, other: Any) -> UnknownSet:
        less = self.of(other)
        return self.like(lambda at: z3.And(self.has(at), z3.Not(less.has(at))), self.among)

    def __rsub__(self, other: Any) -> UnknownSet:
        return self.of(other) - self

    def difference(self, *others: Any) -> UnknownSet:
        """Without the elements of others."""
        found = self
        for other in others:
            found = found - other
        return found

    def isdisjoint(self, other: Any) -> bool:
        """Whether it has nothing in common with another one."""
        return not (self & other)

    def __contains__(self, one: object) -> bool:
        return self.run.decide(self.has(whole(one)))

    def __bool__(self) -> bool:
        return self.run.decide(self.inhabited())

    def __le__(self, other: Any) -> bool:
        return self.run.decide(self.inside(other))

    def __ge__(self, other: Any) -> bool:
        return self.run.decide(self.of(other).inside(self))

    def size(self) -> Any:
        """How many elements it has."""
        return self.run.many(self.has)

    def __iter__(self) -> Iterator[NoReturn]:
        raise Unbounded("a loop over a set of unknown size")

    def __repr__(self) -> str:
        return "(a set of unknown size)"


class Values(UnknownSet):
    """What becomes of each element of a set.

    It is a set to those who look for a value; to those who count there is one for each element.
    """

    def __init__(self, run: World, keeps: Callable[[Formula], Formula], value: Callable[[Formula], Any]) -> None:
        def has(at: Formula) -> Formula:
            return run.some(lambda one: z3.And(keeps(one), whole(value(one)) == at))

        super().__init__(run, has)
        self.keeps, self.value = keeps, value

    def size(self) -> Any:
        """One for each element."""
        return self.run.many(self.keeps)

    def some(self) -> Formula:
        """Whether there is any."""
        return self.run.some(self.keeps)

    def total(self) -> Any:
        """Their sum."""
        return self.run.many(self.keeps, lambda at: whole(self.value(at)))

    def one(self) -> Any:
        """Any of them: whichever is least is one of these."""
        at = self.run.fresh("one")
        self.run.law(self.keeps(at))
        return self.value(at)

    def exists(self) -> Comparison:
        """Whether one of them is so."""
        return Comparison(self.run.some(lambda at: z3.And(self.keeps(at), whether(self.value(at)))), self.run)


class UnknownMap:
    """A map of unknown size; ``at`` says what each of its keys is mapped to."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, run: World, has: Callable[[Formula], Formula], at: Callable[[Formula], Any]) -> None:
        self.run, self.has, self.at = run, has, at
        self.anything: tuple[Any, Formula] | None = None

    def inhabited(self) -> Formula:
        """Whether anything is in it: one formula as long as it is not changed."""
        if self.anything is None or self.anything[0] is not self.has:
            self.anything = self.has, self.run.some(self.has)
        return self.anything[1]

    def __contains__(self, key: object) -> bool:
        return self.run.decide(self.has(whole(key)))

    def __bool__(self) -> bool:
        return self.run.decide(self.inhabited())

    def __getitem__(self, key: object) -> Any:
        if self.run.anything:
            self.run.owe_each(self.has(whole(key)), "a key that each element has to be, and isn't")
            return self.at(whole(key))
        if key in self:
            return self.at(whole(key))
        raise KeyError(key)

    def get(self, key: object, other: Any = None) -> Any:
        """What a key is mapped to, or something else."""
        return self.at(whole(key)) if key in self else other

    def __setitem__(self, key: object, value: Any) -> None:
        key, has, at = whole(key), self.has, self.at
        self.has = lambda one: z3.Or(one == key, has(one))
        self.at = lambda one: either(one == key, value, at(one))

    def pop(self, key: object, *other: Any) -> Any:
        """What a key is mapped to, taken out."""
        found = self.get(key, *other) if other else self[key]
        key, has = whole(key), self.has
        self.has = lambda one: z3.And(one != key, has(one))
        return found

    def copy(self) -> UnknownMap:
        """The same, to be changed."""
        return UnknownMap(self.run, self.has, self.at)

    def with_all(self, other: Any) -> UnknownMap:
        """With what another one maps, which wins."""
        if not isinstance(other, UnknownMap):
            made = self.copy()
            made.update(other.items())
            return made
        has, at = self.has, self.at
        return UnknownMap(
            self.run,
            lambda one: z3.Or(has(one), other.has(one)),
            lambda one: either(other.has(one), other.at(one), at(one)),
        )

    __or__ = with_all

    def update(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Map some more."""
        for key, value in pairs:
            self[key] = value

    def keys(self) -> UnknownSet:
        """What is mapped."""
        return UnknownSet(self.run, self.has)

    def items(self) -> Items:
        """Keys with what they are mapped to."""
        return Items(self, lambda at: (Item(at, self.run), self.at(at)))

    def values(self) -> Items:
        """What keys are mapped to."""
        return Items(self, lambda at: (self.at(at),))

    def size(self) -> Any:
        """How many keys it has."""
        return self.run.many(self.has)

    def __iter__(self) -> Iterator[NoReturn]:
        raise Unbounded("a loop over a map of unknown size")

    def __repr__(self) -> str:
        return "(a map of unknown size)"


class Items:
    """The items of a map of unknown size: what code is handed for each key."""

    def __init__(self, of: UnknownMap, each: Callable[[Formula], tuple[Any, ...]]) -> None:
        self.of, self.each = of, each

    def __iter__(self) -> Iterator[NoReturn]:
        raise Unbounded("a loop over the items of a map of unknown size")


Unknown = UnknownSet | UnknownMap | Items


class Shown:
    """Elements in order, for a message: whether there are any can be asked, and nothing else."""

    def __init__(self, some: UnknownSet | UnknownMap) -> None:
        self.some = some

    def __bool__(self) -> bool:
        return bool(self.some)

    def __repr__(self) -> str:
        return "[...]"


# What a map or a set of either kind says of any element


def is_in(some: Any, at: Formula) -> Formula:
    """Whether an element is in it."""
    if isinstance(some, UnknownSet | UnknownMap):
        return some.has(at)
    return z3.Or(*[at == whole(one) for one in some])


def mapped(pages: Any, at: Formula, otherwise: Any) -> Any:
    """What a key is mapped to; ``otherwise`` (a value of that kind) where nothing maps it."""
    if isinstance(pages, UnknownMap):
        return pages.at(at)
    found = otherwise
    for key, value in pages.items():
        found = either(at == whole(key), value, found)
    return found
