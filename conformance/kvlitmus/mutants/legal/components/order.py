"""Null mutants in which each entry has times and counts of its own, on each tier, instead of those of its prefix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS, COMPONENT_HOST_CONFIGS, COMPONENT_POLICY_CONFIGS
from kvlitmus.conformance.specimen.components.host import ComponentCopier, ComponentCopy
from kvlitmus.conformance.specimen.components.tree import ORDERS, ComponentEvictor, ComponentNode, ComponentTree
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.legal.components.tree import REPLACING, ReplacingTree
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.words.shapes import Component
from kvlitmus.spec.words.units import Key

MATCHES = replace(PROFILE, hit_counts="match")
EVERY_POLICY = COMPONENT_CONFIGS[:3] + COMPONENT_POLICY_CONFIGS
REFILLED = tuple([config for config in EVERY_POLICY if config.components.startswith("kv+swa")])

Own = dict[tuple[ComponentNode, str], "Times"]
"""Of each entry of a tier its own times."""


@dataclass
class Times:
    """When an entry was used last and when it came, and how often it was used."""

    used: int
    born: int
    hits: int = 0


def ordered(policy: str, times: Times) -> tuple[int, ...]:
    """What the policy compares, of an entry."""
    return ORDERS[policy](ComponentNode((), None, 0, used=times.used, born=times.born, hits=times.hits))


class OwnOrder(ComponentEvictor):
    """On one tier each entry has its own times, and goes by them."""

    looked = ""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.own: Own = {}

    def evictable(self, component: Component) -> list[ComponentNode]:
        self.looked = component.name
        return super().evictable(component)

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        return (*ordered(self.policy, self.own[node, self.looked]), -node.end)


class OwnTimes(OwnOrder, ComponentTree):
    """Each entry has its own times: a hit is a use of what it names, and of nothing beside it."""

    def put(self, node: ComponentNode, name: str, place: int) -> None:
        super().put(node, name, place)
        self.own[node, name] = Times(self.clock, self.clock, int(self.profile.hit_counts == "insert"))

    def fill(self, node: ComponentNode, name: str, place: int, left: list[int]) -> None:
        if name in node.places:
            self.own[node, name].hits += self.profile.hit_counts == "insert"
        super().fill(node, name, place, left)

    def match(self, key: Key) -> ComponentNode | None:
        best = super().match(key)
        if best is not None:
            for times in [self.own[node, one.name] for one in self.components for node in self.needed(one, best)]:
                times.used = self.clock
                times.hits += self.profile.hit_counts == "match"
        return best


@null_mutant("null-component-entries-have-own-times", configs=EVERY_POLICY)
class EntriesHaveOwnTimes(OwnTimes):
    """Of one prefix KV, window and state each have the time of their own last use."""


@null_mutant("null-component-entries-have-own-counts", profile=MATCHES, configs=EVERY_POLICY)
class EntriesHaveOwnCounts(OwnTimes):
    """The same where hits count, as the profile declares."""


@null_mutant("null-component-refill-is-new", profile=REPLACING, configs=REFILLED)
class RefillIsNew(OwnTimes, ReplacingTree):
    """KV that takes the place of what was cached is new, and has the time and count of its own coming."""


class OwnCopier(OwnOrder, ComponentCopier):
    """On the host each entry has its own times, too."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.began: dict[ComponentCopy, Mapping[tuple[ComponentNode, str], Times]] = {}

    def on_device(self) -> Own:
        """Those of the device."""
        assert isinstance(self.tree, OwnTimes)
        return self.tree.own

    def put(self, node: ComponentNode, name: str, place: int) -> None:
        super().put(node, name, place)
        self.own[node, name] = Times(self.tree.clock, self.tree.clock)

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[Any, dict[str, int]]:
        self.tree.clock += 1
        copy, freed = super().begin(node, load=load)
        if copy is not None:
            source = self.own if load else self.on_device()
            self.began[copy] = {(at, name): replace(source[at, name]) for name, at, _ in copy.buffers}
        return copy, freed


@null_mutant("null-component-copies-are-new", beside=(OwnTimes,), profile=MATCHES, configs=COMPONENT_HOST_CONFIGS)
class CopiesAreNew(OwnCopier):
    """What a copy brings is new where it comes to: as if it had been used just now, and never before."""


@null_mutant("null-component-copies-take-their-times-along", beside=(OwnTimes,), configs=COMPONENT_HOST_CONFIGS)
class CopiesTakeTheirTimesAlong(OwnCopier):
    """What a copy brings has the times of what it was read from, as they were when the copy began."""

    def land(self, copy: ComponentCopy, node: ComponentNode, name: str, place: int) -> bool:
        landed = super().land(copy, node, name, place)
        if landed:
            own = self.on_device() if copy.load else self.own
            own[node, name] = replace(self.began[copy][node, name])
        return landed


@null_mutant(
    "null-component-copies-take-their-counts-along",
    beside=(OwnTimes,),
    profile=MATCHES,
    configs=COMPONENT_HOST_CONFIGS,
)
class CopiesTakeTheirCountsAlong(CopiesTakeTheirTimesAlong):
    """The same where hits count, as the profile declares."""
