"""What calls keep of a hierarchy of any size: any number of pages on the device, on the host and on both.

As in :mod:`tests.proofs.prefix.any_size`, whose device this is.  On the host there are free pages, and copies; and the
pages in the hands of work under way, of which it is only known that they are neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import z3

from kvlitmus.spec.prefix.own_work import Works
from kvlitmus.spec.prefix.state import State, Tier
from kvlitmus.spec.prefix.work import Tiers
from tests.proofs.prefix.any_size import (
    CONTRACTS,
    EFFECTS,
    MARKS,
    NO_PAGE,
    REFERENCE,
    REWRITTEN,
    After,
    Cache,
    Claims,
    locked_stays,
)
from tests.proofs.support.rewriting import Contract, Kit
from tests.proofs.support.terms import Comparison, Formula
from tests.proofs.support.unknown import Item, UnknownMap, UnknownSet, World, is_in, mapped, whole

TIER = REFERENCE + "tier"
MODULES = (*REWRITTEN, *[REFERENCE + one for one in ("hierarchy", "tier", "backup", "load", "put", "fetch", "life")])


class Hierarchy(Cache):
    """A sound hierarchy of unknown size."""

    def __init__(self, run: World, size: int = 1, **profile: Any) -> None:
        self.backed = run.predicate("backed")
        self.below = {name: run.function(f"below_{name}") for name in NO_PAGE._fields if name not in MARKS}
        self.host_usable, self.host_free = run.predicate("host_usable"), run.predicate("host_free")
        self.marks = {name: run.predicate(name) for name in ("below_first", "settled", "stored")}
        self.hands = run.predicate("hands")
        self.rooms = 0
        super().__init__(run, size, **profile)

    def assume(self) -> None:
        """It is sound."""
        run = self.run
        host = Tier(run.map_of(self.backed, self.page_below), self.state.device.clock)
        works = Works(*[run.some_of(one) for one in (self.host_free, self.marks["settled"], self.marks["stored"])])
        self.state = self.state._replace(tiers=Tiers(), host=host, works=works)
        super().assume()

    def page_below(self, at: Formula) -> Any:
        """What is known of a page on the host."""
        fields: dict[str, Any] = {name: Item(made(at), self.run) for name, made in self.below.items()}
        return NO_PAGE._replace(**fields, first=Comparison(self.marks["below_first"](at), self.run))  # type: ignore[arg-type]

    def sound(self, state: State) -> list[tuple[str, Formula]]:
        """Both tiers, and what is between them."""
        return [*super().sound(state), *self.between(state), *self.on_the_host(state)]

    def between(self, state: State) -> list[tuple[str, Formula]]:
        """Which pages are on which tier."""
        run, copies, forest = self.run, state.host.pages, self.forest

        def backed(at: Formula) -> Formula:
            above = forest.above(at)
            parent = whole(mapped(copies, at, NO_PAGE).parent)
            there = z3.And(z3.Not(forest.root(at)), parent == above, z3.Or(forest.root(above), is_in(copies, above)))
            return z3.Implies(is_in(copies, at), there)

        return [("the parent of a page on the host is there too, or is a root", run.every(backed))]

    def on_the_host(self, state: State) -> list[tuple[str, Formula]]:
        """Each page of the host has one home."""
        run, copies, free = self.run, state.host.pages, free_of(state)

        def place(at: Formula) -> Formula:
            return whole(mapped(copies, at, NO_PAGE).page)

        def at_home(at: Formula) -> Formula:
            usable = z3.And(self.host_usable(place(at)), z3.Not(self.hands(place(at))))
            return z3.Implies(is_in(copies, at), z3.And(usable, z3.Not(is_in(free, place(at)))))

        def distinct(one: Formula, other: Formula) -> Formula:
            return z3.Implies(
                z3.And(is_in(copies, one), is_in(copies, other), one != other), place(one) != place(other)
            )

        def spare(page: Formula) -> Formula:
            return z3.Implies(is_in(free, page), z3.And(self.host_usable(page), z3.Not(self.hands(page))))

        return [
            ("a host copy is in a usable page, which is neither free nor in other hands", run.every(at_home)),
            ("two host copies are in two pages", run.every(distinct, 2)),
            ("a free page of the host is usable, and in nobody's hands", run.every(spare)),
        ]

    def any_room(self, state: State) -> State:
        """What a hierarchy may be after room was made on the device: of it is known what each turn of that keeps.

        See ``evict`` in :mod:`tests.proofs.prefix.work_calls`, which makes one turn.
        """
        run = self.run
        self.rooms += 1
        left, free = (run.predicate(f"{what}{self.rooms}") for what in ("left", "free"))
        first, used = run.predicate(f"cut{self.rooms}"), run.function(f"used{self.rooms}")
        backed, pages = run.predicate(f"kept{self.rooms}"), cast("UnknownMap", state.device.pages)
        copies = cast("UnknownMap", state.host.pages)

        def kept(at: Formula) -> Any:
            used_then: Any = Item(used(at), run)
            return copies.at(at)._replace(touched=used_then, first=Comparison(first(at), run))

        tree: Any = UnknownMap(run, run.held(left), pages.at)
        there: Any = UnknownMap(run, run.held(backed), kept)
        spare: Any = UnknownSet(run, run.held(free))
        assert state.works is not None
        after = state._replace(
            device=state.device._replace(pages=tree),
            host=state.host._replace(pages=there),
            works=state.works._replace(free=spare),
        )
        for _, condition in [*self.sound(after), *makes_room(After(self, state, after, None, None, ()))]:
            run.law(condition)
        return after


def makes_room(step: After) -> Claims:
    """What is locked or pinned stays, and nothing moves or comes but from the device to the host."""
    run, old, new = step.cache.run, step.before, step.after

    def same(at: Formula) -> Formula:
        was, now = mapped(old.device.pages, at, NO_PAGE), mapped(new.device.pages, at, NO_PAGE)
        alike = [whole(getattr(was, name)) == whole(getattr(now, name)) for name in ("page", "parent", "locks")]
        return z3.Implies(is_in(new.device.pages, at), z3.And(is_in(old.device.pages, at), *alike))

    def copied(at: Formula) -> Formula:
        was, now = mapped(old.host.pages, at, NO_PAGE), mapped(new.host.pages, at, NO_PAGE)
        alike = [whole(getattr(was, name)) == whole(getattr(now, name)) for name in ("page", "parent", "locks")]
        return z3.Implies(is_in(new.host.pages, at), z3.And(is_in(old.host.pages, at), *alike))

    return [
        *locked_stays(step),
        *pinned_stays(step),
        ("nothing comes to the device, and nothing there is moved", run.every(same)),
        ("no host copy comes, and none is moved", run.every(copied)),
        ("what is free on the host stays free", run.every(lambda at: within(free_of(old), free_of(new), at))),
    ]


def free_of(state: State) -> Any:
    """The free pages of the host."""
    assert state.works is not None
    return state.works.free


def within(one: Any, other: Any, at: Formula) -> Formula:
    """Whether it is in the other if it is in the one."""
    return z3.Implies(is_in(one, at), is_in(other, at))


def pinned_stays(step: After) -> Claims:
    """What is pinned keeps its host copy, where it is; and so does what leaves the device (TIER-11, TIER-13)."""
    run = step.cache.run
    old, new = step.before.host.pages, step.after.host.pages

    def stays(at: Formula) -> Formula:
        was, now = mapped(old, at, NO_PAGE), mapped(new, at, NO_PAGE)
        kept = z3.And(is_in(new, at), whole(was.page) == whole(now.page))
        return z3.Implies(z3.And(is_in(old, at), whole(was.locks) > 0), kept)

    def demoted(at: Formula) -> Formula:
        left = z3.And(is_in(step.before.device.pages, at), z3.Not(is_in(step.after.device.pages, at)))
        return z3.Implies(z3.And(left, is_in(old, at)), is_in(new, at))

    return [
        ("what is pinned keeps its host copy, where it is", run.every(stays)),
        ("a backed page that leaves the device stays on the host", run.every(demoted)),
    ]


def node_contract(original: Callable[..., Any], kit: Kit) -> Callable[..., Any]:
    """``effects.node_of``, for those who take one page of it: the leaf comes first."""

    def node_of(tree: Any, leaf: Any) -> Any:
        return (leaf,) if isinstance(tree.pages, UnknownMap) else original(tree, leaf)

    return node_of


def room_contract(original: Callable[..., Any], kit: Kit) -> Callable[..., Any]:
    """``tier.evict`` where it isn't known how much is wanted: any number of turns, each of which lets one page go."""

    def makes(state: Any, setting: Any, wanted: Any, choice: Any) -> Any:
        if not isinstance(free_of(state), UnknownSet) or (wanted == 1 and isinstance(wanted, int)):
            return original(state, setting, wanted, choice)
        return kit.about.any_room(state), ()

    return makes


TIER_CONTRACTS: dict[tuple[str, str], Contract] = {
    **CONTRACTS,
    (EFFECTS, "node_of"): node_contract,
    (TIER, "evict"): room_contract,
}
