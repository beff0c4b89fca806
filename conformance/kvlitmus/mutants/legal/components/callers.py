"""Null mutants that look at their caller: a cache of components may rely on what the port says of whoever calls it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS, COMPONENT_HOST_CONFIGS, COMPONENT_STORAGE_CONFIGS
from kvlitmus.conformance.specimen.components.host import ComponentCopier
from kvlitmus.conformance.specimen.components.prefetch import ComponentFetch, ComponentFetcher, Places
from kvlitmus.conformance.specimen.components.requests import ComponentRequestTable, RequestState
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentTree
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.legal.components.prefetch import KnowsItsLeast
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.words.units import Key

SMALL = tuple(
    Config(page_size=4, pages=pages, components=name)
    for pages, name in (
        (1, "kv+swa+state"),
        (2, "kv+index"),
        (4, "groups"),
        (6, "kv+swa"),
        (4, "kv+state"),
        (8, "kv+state"),
    )
)
"""Pools in which prefetches are cut short or refused, and requests make room."""


class CarefulPools(ComponentPools):
    """Refuses to count below nothing."""

    def alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """As ever; raises ``ValueError`` for fewer than no places."""
        if any(many < 0 for many in wants.values()):
            raise ValueError(f"fewer than no places: {dict(wants)}")
        return super().alloc(wants)


class CarefulFetcher(ComponentFetcher):
    """Names a component only where something is read of it, and takes back only what it has read."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        """As ever; a component of which nothing is read isn't named."""
        returned = super().found(fetch, stored)
        fetch.reads = defaultdict(dict, {name: some for name, some in fetch.reads.items() if some})
        return returned

    def commit(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> tuple[int, Places]:
        """As ever; raises ``ValueError`` where more came than was read."""
        if any(end not in fetch.reads.get(name, {}) for name, ends in came.items() for end in ends):
            raise ValueError(f"{dict(came)} came, and {fetch.reads} was read")
        return super().commit(fetch, came)


@null_mutant(
    "null-component-insert-goes-on-from-a-hit",
    beside=(CarefulPools, CarefulFetcher),
    configs=(*COMPONENT_CONFIGS, *SMALL),
)
class InsertGoesOnFromAHit(ComponentTree):
    """An insert begins where the last hit ended, which is still cached, and brings all KV behind it: relied on here."""

    hit: tuple[Key, int] = (Key(None, ()), 0)

    def match(self, key: Key) -> ComponentNode | None:
        found = super().match(key)
        self.hit = (key, found.end if found else 0)
        return found

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        last, length = self.hit
        if last.namespace != key.namespace or last.units[:length] != key.units[:length]:
            length = 0
        base = self.components[0].name
        there = {node.end for node in self.walk(key) if base in node.places and node.end <= length}
        for end in range(self.size, len(key.units) + 1, self.size):
            if any(entries.values()) and end not in there and end not in entries.get(base, {}):
                raise ValueError(f"no KV up to {end}: the last hit was {length}, of which {sorted(there)} is left")
        return super().insert(key, entries)


@null_mutant("null-component-prefetch-foresees-its-refusal", configs=(*COMPONENT_CONFIGS, *SMALL))
class PrefetchForeseesItsRefusal(KnowsItsLeast):
    """Nothing is evicted for a prefetch that would be refused all the same, for want of whatever component."""

    def make_room(self, length: int) -> dict[str, int]:
        pool_of, loose = self.pools.pool_of, dict.fromkeys(self.wants(length), 0)
        for node in self.tree.nodes():
            for name in node.places:
                loose[name] += not node.locks.get(name)
        now = {pool: len(places) for pool, places in self.pools.free.items()}
        then = dict(now)
        for name, many in self.wants(length).items():
            then[pool_of[name]] += min(many, loose[name])
        return super().make_room(length) if self.granted(length, now) or self.granted(length, then) else {}

    def granted(self, length: int, room: Mapping[str, int]) -> bool:
        """Whether a prefetch of this length, or one that is cut short, is granted where there is so much room."""
        while length and self.base.pool in self.beyond(length, room):
            length -= self.tree.step
        return length >= self.least and not self.beyond(length, room)

    def beyond(self, length: int, room: Mapping[str, int]) -> set[str]:
        """The pools in which a prefetch of this length has no room."""
        asked = dict.fromkeys(room, 0)
        for name, many in self.wants(length).items():
            asked[self.pools.pool_of[name]] += many
        return {pool for pool, many in asked.items() if many > room[pool]}


@null_mutant(
    "null-component-request-has-something-to-compute",
    profile=replace(PROFILE, misuse="undefined", match_cap="full"),
    configs=tuple(
        [Config(page_size=size, pages=24, components=name) for size in (4, 1) for name in ("groups", "blocks+swa")]
    ),
)
class RequestHasSomethingToCompute(ComponentRequestTable):
    """A hit may be the whole key, for which nobody begins a request: a chunk has a unit at least."""

    def start(self, key: Key, chunk: int) -> tuple[RequestState, int] | None:
        if chunk <= 0:
            raise ValueError(f"a chunk of {chunk} units")
        return super().start(key, chunk)


@null_mutant(
    "null-component-host-leaves-one-to-compute",
    profile=replace(PROFILE, match_cap="len-1"),
    configs=(*COMPONENT_HOST_CONFIGS[:3], *COMPONENT_STORAGE_CONFIGS[:2]),
)
class HostLeavesOneToCompute(ComponentCopier):
    """A hit leaves one unit to compute, behind host memory and storage too, as the profile declares."""
