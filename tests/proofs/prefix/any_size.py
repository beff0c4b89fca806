"""What calls keep of a cache of any size: a tree, a pool, receipts and requests of which there may be any number.

The reference and the spec are run from their own source (:mod:`tests.proofs.support.rewriting`) on a state of which
nothing is known but that it is sound, and after the call it is shown to be sound again.  So what is sound stays so, by
induction over any number of calls.  What a state is, here:

* names have a place in a forest: ``above`` each is the name of the prefix that is one page shorter, and at last a
  ``root``; ``covers`` says which names are on the path from a root to a name;
* pages, names, receipts and requests are any whole numbers;
* each receipt and each request protects one path.  ``total`` is how many of them cover a name: a sum over any number of
  them, of which is used what is so of every sum: it is no less than each of its parts, and where one part comes or
  goes, it changes by that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import z3

from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.page import Page
from kvlitmus.spec.prefix.state import RequestState, State, Tier
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key
from tests.proofs.support.rewriting import Contract, Kit, Modules
from tests.proofs.support.terms import Comparison, Formula
from tests.proofs.support.unknown import Item, UnknownMap, UnknownSet, World, is_in, mapped, whole

SPEC, REFERENCE = "kvlitmus.spec.", "kvlitmus.reference.prefix."
UNITS, EFFECTS = SPEC + "words.units", SPEC + "prefix.effects"
PARTIAL, ADVANCE = SPEC + "prefix.partial", SPEC + "prefix.advance"
ORDER = SPEC + "prefix.rules.order"
CHOOSE, PERFORM = REFERENCE + "choose", REFERENCE + "perform"
OF_REFERENCE = ("pool", "choose", "chosen", "rows", "perform")
REWRITTEN = (UNITS, EFFECTS, PARTIAL, ADVANCE, *[REFERENCE + one for one in OF_REFERENCE])

RID = 0
"""The request that is called for, among any others."""

RECEIPT = 0
"""The receipt that is taken or given back, among any others."""

NOBODY = -9
"""Stands for no element, where a formula wants one."""


class Forest:
    """The names, and which is above which."""

    def __init__(self, run: World) -> None:
        self.run = run
        self.root, self.above = run.predicate("root"), run.function("above")
        self.depth = run.function("depth")
        self.known = run.predicate("covers", 2)
        if run.size is not None and run.numbers is None:
            run.law(run.every(lambda at: z3.Or(self.root(at), self.depth(at) == self.depth(self.above(at)) + 1)))
            run.law(run.every(lambda at: z3.And(self.depth(at) >= 0, self.above(at) >= 0, self.above(at) < run.size)))
            run.law(run.every(lambda at, end: self.known(at, end) == self.climbed(at, end, run.size or 0), 2))
        run.law(run.every(lambda at: z3.Implies(z3.Not(self.root(at)), self.known(at, at))))
        run.law(run.every(lambda at, end: z3.Implies(self.root(end), z3.Not(self.known(at, end))), 2))

    def climbed(self, at: Formula, end: Formula, steps: int) -> Formula:
        """Whether a name is on the path to another one, which is no longer than so many steps."""
        if not steps:
            return z3.BoolVal(False)
        return z3.And(z3.Not(self.root(end)), z3.Or(at == end, self.climbed(at, self.above(end), steps - 1)))

    def covers(self, at: Formula, end: Formula) -> Formula:
        """One if a name is on the path to another one, else nought."""
        return z3.If(self.known(at, end), 1, 0)


MARKS = ("first", "undated", "unsure")
"""What a page is, or is not; the last two a cache knows of itself."""

NO_PAGE = Page(NOBODY, NOBODY, 0, 0, 0, 0, 0, False)  # type: ignore[arg-type]
NO_REQUEST = RequestState(None, (), 0, 0, NOBODY)  # type: ignore[arg-type]


class Cache:
    """A sound state of unknown size, and what is said of it and of a state after it."""

    def __init__(self, run: World, size: int = 1, **profile: Any) -> None:
        self.run, self.forest = run, Forest(run)
        self.usable, self.cached, self.owned = run.predicate("usable"), run.predicate("cached"), run.predicate("owned")
        self.numbers = {name: run.function(name) for name in Page._fields if name not in MARKS}
        self.first = run.predicate("first")
        self.count, self.given, self.ends = run.function("count"), run.predicate("given"), run.function("ends")
        self.runs, self.locked = run.predicate("runs"), run.function("locked")
        self.total = run.function("total")
        self.setting = Setting(
            Config(page_size=size), Profile(**profile), SNAPSHOT, frozenset({"pool", "tree", "inspect"})
        )
        object.__setattr__(self.setting, "usable", run.some_of(self.usable))
        tree = Tier(run.map_of(self.cached, self.page), run.number("clock"))
        owners = run.map_of(self.owned, lambda at: Item(self.count(at), run))
        receipts = run.map_of(self.given, lambda at: Item(self.ends(at), run))
        requests = run.map_of(self.runs, self.other)
        self.state = State(tree, owners, requests, receipts, run.map_of(lambda at: z3.BoolVal(False), self.page))
        self.assume()

    def page(self, at: Formula) -> Page:
        """What is known of a cached page."""
        fields = {name: Item(made(at), self.run) for name, made in self.numbers.items()}
        return Page(**fields, first=Comparison(self.first(at), self.run))  # type: ignore[arg-type]

    def other(self, at: Formula) -> RequestState:
        """Any request but the one that is called for: what is asked of it is the path that it protects."""
        locked: Any = Item(self.locked(at), self.run)
        return NO_REQUEST._replace(locked=locked)

    def assume(self) -> None:
        """It is sound."""
        run = self.run
        for _, condition in self.sound(self.state):
            run.law(condition)
        run.law(run.every(lambda at: self.locks(self.state, at) == self.total(at)))
        run.law(run.every(lambda at: self.total(at) >= 0))
        run.law(self.paths(self.state))
        covers = self.forest.covers
        run.law(run.every(lambda at, one: z3.Implies(self.given(one), self.total(at) >= covers(at, self.ends(one))), 2))
        run.law(
            run.every(lambda at, one: z3.Implies(self.runs(one), self.total(at) >= covers(at, self.locked(one))), 2)
        )

    # what is sound

    def sound(self, state: State) -> list[tuple[str, Formula]]:
        """What is claimed of each state, in words."""
        return [*self.homes(state), *self.closed(state)]

    def homes(self, state: State) -> list[tuple[str, Formula]]:
        """Each page has one home."""
        run, pages, owners = self.run, state.device.pages, state.owners

        def place(at: Formula) -> Formula:
            return whole(mapped(pages, at, NO_PAGE).page)

        def apart(one: Formula, other: Formula) -> Formula:
            return z3.Implies(z3.And(is_in(pages, one), is_in(pages, other), one != other), place(one) != place(other))

        def at_home(at: Formula) -> Formula:
            return z3.Implies(is_in(pages, at), z3.And(self.usable(place(at)), z3.Not(is_in(owners, place(at)))))

        def held_once(page: Formula) -> Formula:
            return z3.Implies(is_in(owners, page), z3.And(self.usable(page), whole(mapped(owners, page, 0)) == 1))

        return [
            ("a cached page is usable, and nobody's", run.every(at_home)),
            ("two cached pages are in two places", run.every(apart, 2)),
            ("an owned page is usable, and owned once", run.every(held_once)),
        ]

    def closed(self, state: State) -> list[tuple[str, Formula]]:
        """What is cached is reachable."""
        root, above, pages = self.forest.root, self.forest.above, state.device.pages

        def reachable(at: Formula) -> Formula:
            parent = whole(mapped(pages, at, NO_PAGE).parent)
            there = z3.Or(root(above(at)), is_in(pages, above(at)))
            return z3.Implies(is_in(pages, at), z3.And(z3.Not(root(at)), parent == above(at), there))

        return [("the parent of what is cached is cached, or a root", self.run.every(reachable))]

    def paths(self, state: State) -> Formula:
        """What is on the path to a cached page is cached: it follows where parents are; see ``RESTS_ON``."""
        pages, covers = state.device.pages, self.forest.known
        return self.run.every(
            lambda at, end: z3.Implies(z3.And(is_in(pages, end), covers(at, end)), is_in(pages, at)), 2
        )

    def locks(self, state: State, at: Formula) -> Formula:
        """How often a page is locked; nought where it isn't cached."""
        pages = state.device.pages
        return z3.If(is_in(pages, at), whole(mapped(pages, at, NO_PAGE).locks), 0)

    # a step

    def path(self, pages: int) -> calls.Path:
        """The key of a call: any names of so many pages, each above the next, behind a root."""
        run, size, forest = self.run, self.setting.size, self.forest
        names = run.elements(*[f"name{at}" for at in range(pages)])
        root = run.element("top")
        tokens = tuple(
            [one for name in names for one in (*run.elements(*[f"part{at}" for at in range(size - 1)]), name)]
        )
        run.law(forest.root(whole(root)))
        for above, name in zip((root, *names), names, strict=False):
            self.names_a_page(whole(name), whole(above))
        if pages > 1:
            run.law(z3.Distinct(*map(whole, names)))
        return calls.Path(Key(None, tuple(range(len(tokens)))), root, tokens, names, tokens)

    def names_a_page(self, name: Formula, above: Formula) -> None:
        """One name is that of a page behind another one."""
        run, forest = self.run, self.forest
        run.law(z3.And(z3.Not(forest.root(name)), forest.above(name) == above))
        run.law(run.every(lambda at: forest.known(at, name) == z3.Or(at == name, forest.known(at, above))))

    def running(self, pages: int, cached: int, computed: int | None = None, **spare: int) -> tuple[State, RequestState]:
        """The state with request :data:`RID` running: of its pages so many are the tree's, and the rest its own."""
        run, size, path = self.run, self.setting.size, self.path(pages + spare.get("further", 0))
        row = self.slots(*[f"row{at}" for at in range(pages)])
        before = path._replace(
            names=path.names[: pages * size], pages=path.pages[:pages], tokens=path.tokens[: pages * size]
        )
        one = RequestState(before, row, cached * size, len(row) if computed is None else computed, before.end(cached))
        requests = self.state.requests.copy()  # type: ignore[attr-defined]
        requests[RID] = one
        state = self.state._replace(requests=requests)
        run.law(z3.Not(self.runs(z3.IntVal(RID))))
        run.law(run.every(lambda at: self.total(at) >= self.forest.covers(at, whole(one.locked))))
        for _, condition in self.holds_its_row(state, one):
            run.law(condition)
        return state, one

    def holds_its_row(self, state: State, one: RequestState) -> list[tuple[str, Formula]]:
        """What a running request has: pages of the tree, then pages of its own."""
        size = self.setting.size
        shared = one.path.pages[: one.cached // size]
        places = [whole(slot // size) for slot in one.row[::size]]
        pages = state.device.pages
        there = [
            z3.And(is_in(pages, whole(name)), whole(mapped(pages, whole(name), NO_PAGE).page) == place)
            for name, place in zip(shared, places, strict=False)
        ]
        own = places[len(shared) :]
        apart = [one != other for at, one in enumerate(own) for other in own[:at]]
        return [
            ("the pages that a request shares are cached in the slots of its row", z3.And(*there)),
            ("the pages that a request doesn't share are its own", z3.And(*[is_in(state.owners, at) for at in own])),
            ("a request has no page twice", z3.And(*apart)),
            ("a request protects what it shares", whole(one.locked) == whole(one.path.end(len(shared)))),
        ]

    def slots(self, *pages: str) -> tuple[Any, ...]:
        """All slots of any pages."""
        size = self.setting.size
        return tuple([page * size + at for page in self.run.elements(*pages) for at in range(size)])


class After(NamedTuple):
    """A step: the cache before it, the state before and after; which receipt and which request it is about, and which
    owned pages it may give back.
    """

    cache: Cache
    before: State
    after: State
    receipt: Any
    request: Any
    given: tuple[Any, ...]


Claims = list[tuple[str, Formula]]


def still_sound(step: After) -> Claims:
    """The state is sound."""
    return step.cache.sound(step.after)


def locked_stays(step: After) -> Claims:
    """What is locked stays cached, where it is (EVICT-03, LOCK-01)."""
    cache = step.cache

    def stays(at: Formula) -> Formula:
        old, new = (mapped(state.device.pages, at, NO_PAGE) for state in (step.before, step.after))
        locked = cache.locks(step.before, at) > 0
        return z3.Implies(locked, z3.And(is_in(step.after.device.pages, at), whole(old.page) == whole(new.page)))

    return [("what is locked stays cached, where it is", cache.run.every(stays))]


def balanced(step: After) -> Claims:
    """A page's locks change with the receipts and requests that cover it, and so every protected path stays cached."""
    cache, run = step.cache, step.cache.run
    covers, locks = cache.forest.covers, cache.locks

    def ends(state: State) -> list[tuple[Any, Any, Callable[[Formula], Formula]]]:
        return [
            (state.receipts, step.receipt, lambda at: whole(mapped(state.receipts, at, NOBODY))),
            (state.requests, step.request, lambda at: whole(mapped(state.requests, at, NO_REQUEST).locked)),
        ]

    def gained(at: Formula) -> Formula:
        more = z3.IntVal(0)
        for state, sign in ((step.after, 1), (step.before, -1)):
            for some, one, end in ends(state):
                if one is not None:
                    more = more + sign * z3.If(is_in(some, whole(one)), covers(at, end(whole(one))), 0)
        return more

    claims: Claims = []
    sums = [cache.paths(step.after)]
    there: list[Formula] = []
    for (old, one, was), (new, _, now) in zip(ends(step.before), ends(step.after), strict=True):

        def same(
            at: Formula, old: Any = old, new: Any = new, was: Any = was, now: Any = now, one: Any = one
        ) -> Formula:
            other = z3.BoolVal(True) if one is None else at != whole(one)
            alike = z3.And(is_in(old, at) == is_in(new, at), z3.Implies(is_in(old, at), was(at) == now(at)))
            return z3.Implies(other, alike)

        def no_more(at: Formula, one: Formula, new: Any = new, now: Any = now) -> Formula:
            return z3.Implies(is_in(new, one), cache.total(at) + gained(at) >= covers(at, now(one)))

        def kept(one: Formula, new: Any = new, now: Any = now) -> Formula:
            end = now(one)
            return z3.Implies(is_in(new, one), z3.Or(cache.forest.root(end), is_in(step.after.device.pages, end)))

        claims.append(("no other receipt and no other request is touched", run.every(same)))
        sums.append(run.every(no_more, 2))
        there.append(run.every(kept))
    moved = run.every(lambda at: locks(step.after, at) - locks(step.before, at) == gained(at))
    claims.append(("locks change with the receipts and requests that cover a page", moved))
    claims += [("what is protected is cached", z3.Implies(z3.And(*sums), one)) for one in there]
    return claims


def others_keep(step: After) -> Claims:
    """Whatever is owned, but for what the call gives back, is owned as before; so is what a running request has."""
    run, given = step.cache.run, [whole(page) for page in step.given]

    def owned(page: Formula) -> Formula:
        mine = z3.Or(*[page == one for one in given])
        return z3.Implies(z3.And(is_in(step.before.owners, page), z3.Not(mine)), is_in(step.after.owners, page))

    claims = [("what others own they own", run.every(owned))]
    found = mapped(step.after.requests, z3.IntVal(RID), NO_REQUEST)
    if step.request is not None and isinstance(found, RequestState) and found.path is not None:
        goes_on = is_in(step.after.requests, z3.IntVal(RID))
        claims += [(why, z3.Implies(goes_on, one)) for why, one in step.cache.holds_its_row(step.after, found)]
    return claims


INVARIANTS = {"sound": still_sound, "locked": locked_stays, "balance": balanced, "others": others_keep}


# Contracts: what takes the place of functions that go through what is of unknown size


def lock_contract(original: Callable[..., Tier], kit: Kit) -> Callable[..., Tier]:
    """``effects.lock``: the pages that cover a name are locked once more, or once less; see ``RESTS_ON``."""

    def lock(tree: Tier, name: Any, by: int = 1) -> Tier:
        pages: Any = tree.pages
        if not isinstance(pages, UnknownMap):
            return original(tree, name, by)
        run, forest, end = kit.run, forest_of(kit), whole(name)
        run.owe(z3.Or(forest.root(end), pages.has(end)), "a path is locked that isn't cached")

        def locked(at: Formula) -> Page:
            page: Page = pages.at(at)
            more: Any = Item(whole(by) * forest.covers(at, end), run)
            return page._replace(locks=page.locks + more)

        made: Any = UnknownMap(run, pages.has, locked)
        return Tier(made, tree.clock)

    return lock


def path_contract(original: Callable[..., Any], kit: Kit) -> Callable[..., Any]:
    """``effects.path``: the pages that cover a name, in an order that nobody asks for."""

    def path(tree: Tier, name: Any) -> Any:
        pages: Any = tree.pages
        if not isinstance(pages, UnknownMap):
            return original(tree, name)
        return UnknownSet(kit.run, lambda at: forest_of(kit).known(at, whole(name)))

    return path


def refuses_less(original: Callable[..., Any], kit: Kit) -> Callable[..., Any]:
    """Of a function that only refuses choices: it refuses none, so that more of them are looked at."""
    return lambda *_, **__: ()


CONTRACTS: dict[tuple[str, str], Contract] = {
    (EFFECTS, "lock"): lock_contract,
    (EFFECTS, "path"): path_contract,
    (EFFECTS, "nodes"): refuses_less,
    (CHOOSE, "passed_over_by"): refuses_less,
    (PERFORM, "needless_victims"): refuses_less,
}


def forest_of(kit: Kit) -> Forest:
    """The names of the cache that is run on just now."""
    found = kit.about.forest
    assert isinstance(found, Forest)
    return found


class Situation(NamedTuple):
    """A call on a sound cache: the state that it is made in, and the choice of victims and pages that is given."""

    state: State
    call: Any
    choice: Mapping[str, Any] = MappingProxyType({})
    receipt: Any = None
    request: Any = None
    given: tuple[Any, ...] = ()


class Case(NamedTuple):
    """One call with everything about it, in words; ``profile``: the choices that the cache declares."""

    name: str
    make: Callable[[Cache], Situation]
    size: int = 1
    profile: Mapping[str, Any] = MappingProxyType({})
    keeps: tuple[str, ...] = tuple(INVARIANTS)
    kind: type[Cache] = Cache


def played(modules: Modules, run: World, case: Case) -> After | None:
    """The step of a case; ``None`` where the call is refused with an error, and nothing changes."""
    modules.kit.run = run
    cache = case.kind(run, case.size, **case.profile)
    modules.kit.about = cache
    now = case.make(cache)
    try:
        choice = modules[CHOOSE].Choice(**now.choice)
        after = modules[PERFORM].perform(now.state, cache.setting, now.call, choice).after
    except ValueError:
        return None
    run.returned = True
    return After(cache, now.state, after, now.receipt, now.request, now.given)
