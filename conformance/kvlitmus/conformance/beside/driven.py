"""The reference beside a cache of components, ranks, a sparse host pool or a page store: it gets the same calls.

It takes the places that the cache took, as far as they are its to take.  What else is a cache's to choose it chooses by
itself, and is elsewhere then: from there on nothing is said of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from kvlitmus.conformance.adapters.reference.component_requests import ReferenceRequests
from kvlitmus.conformance.adapters.reference.components import ReferenceComponents, ReferenceComponentTarget
from kvlitmus.conformance.adapters.reference.ranks import RankedReference
from kvlitmus.conformance.adapters.reference.sparse import ReferenceSparse
from kvlitmus.conformance.adapters.reference.store import Box, ReferenceStore
from kvlitmus.conformance.beside.places import COPIED, FREE, GIVES, HOST, Places
from kvlitmus.conformance.checker.rendezvous import together
from kvlitmus.conformance.tape.calls import CALLS, FILLED, OTHER, TURNS, look_of
from kvlitmus.conformance.tape.driver import Driver
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import Header, Step
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.conformance.viewer.plain import fields, items
from kvlitmus.reference.sparse import empty_pool
from kvlitmus.spec.interface.ranks import Ask
from kvlitmus.spec.interface.sparse import SparseShape
from kvlitmus.spec.ranks.calls import RETURNED

BUFFER = 64
"""So many bytes has a page of a store for each token."""


BEGUN = "component_begun"
"""The look that tells of backups that a cache has begun by itself."""

BACK_UP = "component_back_up"
"""The call that begins one."""


class Driven(NamedTuple):
    """What the reference answered to a step, and what it shows after it."""

    answer: Json
    looks: dict[str, Json]


class NotDriven(Exception):
    """A step that the reference can't be asked for."""


def driven(
    header: Header, steps: Sequence[Step], seen: Mapping[int, Mapping[str, Json]]
) -> Iterator[tuple[int, Driven]]:
    """The reference step by step.  ``seen``: what the cache showed last at each of them."""
    reference = Reference(header, seen.get(0, {}))
    decided: dict[int, Json] = {}
    for at, step in enumerate(steps):
        try:
            if step.call == TURNS and step.number not in decided:
                decided |= dict(together_asked(reference.adapter, asked_together(steps, at)))
            answer = decided[step.number] if step.call == TURNS else reference.answer(step) if step.call else None
        except (NotDriven, NotImplementedError):
            return
        if BEGUN in step.looks:
            reference.began(items(seen[step.number][BEGUN]))
        yield step.number, Driven(answer, reference.looks(seen[step.number]))


class Reference(Driver):
    """The reference of a family behind its ports, with the numbers that a cache uses."""

    def __init__(self, header: Header, fresh: Mapping[str, Json]) -> None:
        config, profile = header.config, header.profile
        self.config = config
        self.places = Places(config) if config.components else None
        self.sparse: ReferenceSparse | None = None
        if config.components and "component_requests" in header.ports:
            super().__init__(ReferenceRequests(config, profile))
        elif config.components:
            super().__init__(ReferenceComponentTarget(profile).make(config))
        elif config.pool == "ranks":
            super().__init__(RankedReference())
        elif config.pool == "sparse":
            self.sparse = sparse_like(header, fresh)
            super().__init__(self.sparse)
        else:
            super().__init__(ReferenceStore(Box(replaces=profile.store_put == "last")))

    def answer(self, step: Step) -> Json:
        """Make the call of a step; returns the answer, or what it raised, with the cache's numbers."""
        name = step.call
        if not callable(getattr(self.adapter, name, None)) or name == OTHER:
            raise NotDriven
        if step.raised is not None and step.raised.startswith("NotImplementedError"):
            return {"raised": step.raised}
        try:
            args = step.args if self.places is None else self.places.arguments(name, step.args)
            given, named = self.arguments(step, args, step.kwargs)
        except FormError:
            raise NotDriven from None
        if name in FILLED:
            size = BUFFER * self.config.page_size
            given[FILLED[name]] = [bytearray(size) for _ in cast("Sequence[str]", given[0])]
        found, raised = self.make(step, given, named)
        if raised is not None:
            return {"raised": raised}
        if self.places is None:
            return found
        if name in GIVES:
            self.places.handed_out(name, found, step.answer, self.free(GIVES[name][1]))
        copied = GIVES[self.giver(step.args[0])][1] if name == COPIED else ""
        return self.places.answer(name, found, copied)

    def began(self, theirs: Sequence[Json]) -> None:
        """The cache has begun backups by itself: the reference knows its own of the same prefixes by them."""
        assert self.places is not None
        mine = {prefix_of(one._asdict()): one for one in self.adapter.component_begun()}
        for told in map(fields, theirs):
            one = mine.get(prefix_of(told))
            if one is None:
                continue
            if told.get("copy") is not None:
                self.known_as(told["copy"], one.copy, BACK_UP)
            own: dict[str, Json] = {name: [*map(list, sorted(some.items()))] for name, some in one.places.items()}
            self.places.handed_out(BACK_UP, [None, own], [None, told.get("places")], self.free(HOST))

    def called(self, step: Step, make: Callable[[], object]) -> tuple[Any, Exception | None]:
        """Make the call of a step, in a sparse pool with the pages that the cache took where these are free."""
        if self.sparse is None:
            return self.attempt(make)
        before = self.sparse.pool
        answer, error = self.attempt(make)
        renamed = pages_as(step.answer, answer, self.config.page_size)
        if renamed:
            taken = {page for row in before.rows.values() for page in row.pages}.union(before.left_pages)
            if taken.isdisjoint(renamed.values()) and taken.isdisjoint(renamed):
                self.rename(renamed)
                answer = [
                    renamed.get(slot // self.config.page_size, slot // self.config.page_size) * self.config.page_size
                    + slot % self.config.page_size
                    for slot in cast("Sequence[int]", answer)
                ]
        return answer, error

    def rename(self, pages: Mapping[int, int]) -> None:
        """The sparse pool with other numbers for pages that were free until now."""
        assert self.sparse is not None
        pool = self.sparse.pool

        def of(row: Any) -> Any:
            return row._replace(pages=tuple([pages.get(page, page) for page in row.pages]))

        self.sparse.pool = pool._replace(
            rows={number: of(row) for number, row in pool.rows.items()},
            copies={number: of(one) for number, one in pool.copies.items()},
            transfers={number: of(one) for number, one in pool.transfers.items()},
        )

    def free(self, tier: str) -> Mapping[str, Sequence[int]]:
        """The free places of a tier."""
        look = next(look for look, of in FREE.items() if of == tier)
        found: Mapping[str, Sequence[int]] = getattr(self.adapter, look)()
        return found

    def looks(self, seen: Mapping[str, Json]) -> dict[str, Json]:
        """What the reference shows, where the cache shows something too; not what is told once.

        Nor how many entries are protected while work is under way: whether that counts is the cache's own affair.
        """
        untold = {"component_events", BEGUN}
        if isinstance(self.adapter, ReferenceComponents) and (self.adapter.cache.copies or self.adapter.cache.fetches):
            untold.add("component_sizes")
        found: dict[str, Json] = {}
        for key in seen:
            method, args = look_of(key)
            if method in untold or not callable(getattr(self.adapter, method, None)):
                continue
            told, raised = self.look(method, args)
            if raised is None:  # of a rank before there are any nothing can be seen
                found[key] = told if self.places is None else self.places.look(method, told)
        return found


def sparse_like(header: Header, fresh: Mapping[str, Json]) -> ReferenceSparse:
    """A sparse host pool of the shape that a cache showed."""
    made = ReferenceSparse(header.config, header.profile.sparse_count, header.profile.sparse_ratio)
    shape = CALLS["sparse_shape"].answer.read(fresh.get("sparse_shape"), Operands())
    room, device = fresh.get("sparse_buffer"), fresh.get("sparse_device_available")
    made.pool = empty_pool(
        header.config.page_size,
        header.config.pages,
        shape.width if isinstance(shape, SparseShape) else made.pool.width,
        room if type(room) is int else 0,
        ratio=header.profile.sparse_ratio,
        device=device if type(device) is int else 0,
    )
    return made


def prefix_of(begun: Mapping[str, object]) -> str:
    """The prefix that a backup is for."""
    return json.dumps([begun.get("namespace"), begun.get("units")])


def pages_as(theirs: Json, mine: object, size: int) -> dict[int, int]:
    """The reference's new pages, each with the cache's number, of two answers that are slots."""
    if type(theirs) is not list or not isinstance(mine, list | tuple) or len(theirs) != len(mine):
        return {}
    found = {
        one // size: other // size
        for one, other in zip(mine, theirs, strict=True)
        if type(one) is int and type(other) is int and one // size != other // size
    }
    if len(set(found.values())) < len(found):
        return {}
    lost = sorted(found.keys() - found.values())
    return found | dict(zip(sorted(set(found.values()) - found.keys()), lost, strict=True))


def together_asked(ranks: RankedReference, steps: Sequence[Step]) -> Iterator[tuple[int, Json]]:
    """What each rank decides that is asked by one of these steps, all of them together."""
    asked = [CALLS[TURNS].given(step.args, step.kwargs, Operands())[0] for step in steps]
    calls = {cast("int", rank): ranks.ranks_ask(cast("int", rank), cast("Ask", ask)) for rank, ask in asked}
    world = next(iter(ranks.ranks.values())).world
    trees = [world.tree(at) for at in range(len(world.trees))]
    gone = [rank for tree in trees if not calls.keys().isdisjoint(tree) for rank in tree if rank not in calls]
    traces, _ = together(calls, gone)
    decided = {one.rank: one for one in traces}
    for step, (rank, _) in zip(steps, asked, strict=True):
        one = decided[cast("int", rank)]
        decisions = CALLS[TURNS].turns[2].write(list(one.decisions), Operands())
        yield step.number, {"turns": [], "returned": decisions} if one.ended == RETURNED else {"raised": one.why}


def asked_together(steps: Sequence[Step], at: int) -> list[Step]:
    """The steps from this place on by which several ranks are asked the same."""
    found: list[Step] = []
    for step in steps[at:]:
        ranks = [one.args[0] for one in found]
        if step.call != TURNS or step.args[0] in ranks or (found and step.args[1:] != found[0].args[1:]):
            break
        found.append(step)
    return found
