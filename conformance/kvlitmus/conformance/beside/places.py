"""Places of components by two numbers: that of the cache, and that of the reference beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import cast

from kvlitmus.conformance.tape import operands
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.layouts import layout_of

DEVICE, HOST = "device", "host"
"""The tiers; prefetches come to the device."""

GIVES: Mapping[str, tuple[int | None, str]] = {
    "component_alloc": (None, DEVICE),
    "component_start": (2, DEVICE),
    "component_grow": (1, DEVICE),
    "component_load": (2, DEVICE),
    "component_prefetch": (1, DEVICE),
    "component_back_up": (1, HOST),
}
"""Calls that hand out places: where in the answer they stand, and of which tier they are."""

TELLS: Mapping[str, tuple[tuple[int | None, str], ...]] = {
    **{call: (one,) for call, one in GIVES.items()},
    "component_match": ((1, DEVICE),),
    "component_insert": ((None, DEVICE),),
    "component_prefetch_found": ((1, DEVICE), (2, DEVICE)),
    "component_prefetch_settled": ((None, DEVICE),),
    "component_prefetch_abort": ((None, DEVICE),),
    "component_prefetch_commit": ((1, DEVICE),),
    "component_detach": ((None, DEVICE),),
}
"""Calls that tell of places."""

COPIED = "component_copied"
"""The call that gives back the places that a copy was to fill, on either tier."""

TAKES = {"component_free": 0, "component_insert": 1}
"""Calls that are given places of the device, and as which argument."""

FREE = {"component_free_places": DEVICE, "component_free_host": HOST}
ENTRIES = {"component_entries": DEVICE, "component_host_entries": HOST}
"""Looks at places."""

MOST_PLACES = 1 << 20
"""No pool has more."""

Of = Callable[[str, int], int]
"""From the number of a place of a component to its other number."""


class Places:
    """Which number of the cache stands for which of the reference, pool by pool; unless it was seen, the same."""

    def __init__(self, config: Config) -> None:
        layout = layout_of(config.components, config.page_size, config.pages, config.host_pages)
        self.pool_of = {one.name: one.pool for one in layout.components}
        self._theirs: dict[tuple[str, str], dict[int, int]] = {}
        self._mine: dict[tuple[str, str], dict[int, int]] = {}

    def learn(self, tier: str, pool: str, mine: int, theirs: int) -> None:
        """The cache's ``theirs`` is the reference's ``mine``; what it stood for takes the number that this had."""
        there, here = self._theirs.setdefault((tier, pool), {}), self._mine.setdefault((tier, pool), {})
        other, was = here.get(theirs, theirs), there.get(mine, mine)
        there[other], here[was] = was, other
        there[mine], here[theirs] = theirs, mine

    def theirs(self, tier: str) -> Of:
        """The cache's number."""
        return lambda pool, place: self._theirs.get((tier, pool), {}).get(place, place)

    def mine(self, tier: str) -> Of:
        """The reference's."""
        return lambda pool, place: self._mine.get((tier, pool), {}).get(place, place)

    def mapped(self, told: Json, of: Of) -> Json:
        """Places by component, each by its other number; they may stand behind the ends of their entries."""
        if type(told) is not dict:
            return told
        found: dict[str, Json] = {}
        for name, some in told.items():
            pool = self.pool_of.get(name, name)
            listed = some if type(some) is list else []
            found[name] = [
                of(pool, one)
                if type(one) is int
                else [one[0], of(pool, one[1])]
                if type(one) is list and len(one) == 2 and type(one[1]) is int
                else one
                for one in listed
            ]
        return found

    def answer(self, call: str, told: Json, copied: str) -> Json:
        """An answer of the reference's with the cache's numbers; ``copied``: to which tier, if a copy has ended."""
        for at, tier in TELLS.get(call, ((None, copied),) if call == COPIED else ()):
            if at is None:
                told = self.mapped(told, self.theirs(tier))
            elif type(told) is list and at < len(told):
                told = [*told[:at], self.mapped(told[at], self.theirs(tier)), *told[at + 1 :]]
        return told

    def arguments(self, call: str, args: list[Json]) -> list[Json]:
        """The cache's arguments with the reference's numbers."""
        at = TAKES.get(call, len(args))
        return [self.mapped(one, self.mine(DEVICE)) if index == at else one for index, one in enumerate(args)]

    def look(self, method: str, told: Json) -> Json:
        """A look at the reference with the cache's numbers."""
        if method in FREE and type(told) is dict:
            of = self.theirs(FREE[method])
            return {pool: [*sorted(of(pool, one) for one in cast("list[int]", some))] for pool, some in told.items()}
        if method in ENTRIES and type(told) is list:
            of = self.theirs(ENTRIES[method])
            rows = cast("list[list[Json]]", told)
            return [[*row[:3], of(self.pool_of[cast("str", row[0])], cast("int", row[3]))] for row in rows]
        return told

    def handed_out(self, call: str, mine: Json, theirs: Json, free: Mapping[str, Collection[int]]) -> None:
        """Both have answered a call that hands out places.  ``free``: what is free of the reference's now."""
        where, tier = GIVES[call]
        one, other = (operands.at(told, where, written=True) for told in (mine, theirs))
        if not isinstance(one, dict) or not isinstance(other, dict):
            return
        given = {name: places(some) for name, some in one.items()}
        for name, some in given.items():
            pool = self.pool_of.get(name, name)
            own = {place for of, those in given.items() if self.pool_of.get(of, of) == pool for place in those}
            beyond = range(max([*own, *free.get(pool, ())], default=-1) + 1, MOST_PLACES)  # its numbers begin elsewhere
            for place, as_theirs in zip(some, places(other.get(name)), strict=False):
                number = self._mine.get((tier, pool), {}).get(as_theirs, as_theirs)
                if number in own or number in free.get(pool, ()) or number in beyond:
                    self.learn(tier, pool, place, as_theirs)


def places(told: Json) -> list[int]:
    """The places in a list, or behind the ends of their entries."""
    listed = told if type(told) is list else []
    found = [one[-1] if type(one) is list and one else one for one in listed]
    return [one for one in found if type(one) is int]
