"""Mutants of the order in which components are evicted, by policy, and legal variations of what counts as a use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import (
    COMPONENT_CONFIGS,
    COMPONENT_HOST_CONFIGS,
    COMPONENT_POLICY_CONFIGS,
    REQUEST_CONFIGS,
    REQUEST_POLICY_CONFIGS,
)
from kvlitmus.conformance.specimen.components.host import ComponentCopier, ComponentCopy
from kvlitmus.conformance.specimen.components.prefetch import ComponentFetcher
from kvlitmus.conformance.specimen.components.requests import ComponentRequestTable, RequestState
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentTree
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.legal.components.order import EVERY_POLICY, MATCHES
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.shapes import Component
from kvlitmus.spec.words.units import Key

CAPPED = replace(PROFILE, match_cap="len-1")
PAGED = COMPONENT_CONFIGS[:3]
STATED = tuple([config for config in COMPONENT_CONFIGS if "state" in config.components][:2])
HOSTS = COMPONENT_HOST_CONFIGS[:1]
TWO_KEYS = "two keys are computed before one of them is evicted, which takes some calls each"


def under(*policies: str) -> tuple[Config, ...]:
    """The configurations of these policies."""
    return tuple(config for config in COMPONENT_POLICY_CONFIGS if config.policy in policies)


def turned(worth: tuple[int, ...]) -> tuple[int, ...]:
    """What is worth most goes first."""
    return tuple([-one for one in worth])


# On the device


@mutant("component-order-is-turned-round", kills=("COMP-63",), configs=PAGED, long_because=TWO_KEYS)
class OrderIsTurnedRound(ComponentTree):
    """What was used last goes first, though entries go by the policy, as the profile declares."""

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        return turned(super().worth(node))


@mutant("component-ties-by-address", kills=("EVICT-07",), configs=PAGED)
class TiesByAddress(ComponentTree):
    """Two ranks evict different entries of a window: of equals one takes the first of a prefix, the other the last.

    Recipe: order equals by object address; here every second tree of a process orders them the other way round.
    """

    made = 0

    def __init__(self, config: Config, profile: Profile, pools: ComponentPools) -> None:
        super().__init__(config, profile, pools)
        TiesByAddress.made += 1
        self.sign = 1 if TiesByAddress.made % 2 else -1

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        """By the policy, and then by chance."""
        *worth, end = super().worth(node)
        return (*worth, self.sign * end)


@mutant("component-hit-is-no-use", kills=("COMP-63",), configs=PAGED, long_because=TWO_KEYS)
class HitIsNoUse(ComponentTree):
    """A hit is no use of what it names: what everybody asks for goes first, since it came first."""

    def match(self, key: Key) -> ComponentNode | None:
        used = {node: node.used for node in self.nodes()}
        best = super().match(key)
        for node, before in used.items():
            node.used = before
        return best


@mutant("component-hit-uses-its-end-alone", kills=("COMP-63",), configs=PAGED, long_because=TWO_KEYS)
class HitUsesItsEndAlone(ComponentTree):
    """A hit uses the entries at its end alone: of the window that it needs the rest counts as long unused."""

    def match(self, key: Key) -> ComponentNode | None:
        used = {node: node.used for node in self.nodes()}
        best = super().match(key)
        for node, before in used.items():
            if node is not best:
                node.used = before
        return best


@mutant("component-new-entries-are-old", kills=("COMP-63",), configs=PAGED, long_because=TWO_KEYS)
class NewEntriesAreOld(ComponentTree):
    """What an insert brings has no time of its last use, and goes before anything that was ever hit."""

    def fill(self, node: ComponentNode, name: str, place: int, left: list[int]) -> None:
        before = node.used
        super().fill(node, name, place, left)
        node.used = before


@mutant("component-windows-go-by-place", kills=("COMP-63",), configs=PAGED[1:2], long_because=TWO_KEYS)
class WindowsGoByPlace(ComponentTree):
    """KV goes in its order; of the other components what has the least place goes first."""

    def evictable(self, component: Component) -> list[ComponentNode]:
        found = super().evictable(component)
        name = component.name
        return found if name == self.base.name else sorted(found, key=lambda node: node.places[name])[:1]


@mutant("component-states-go-by-their-age", kills=("COMP-63",), configs=STATED, long_because=TWO_KEYS)
class StatesGoByTheirAge(ComponentTree):
    """States go by their age, and only the KV by its last use: the state that all go on from is the first to go."""

    def evictable(self, component: Component) -> list[ComponentNode]:
        found = super().evictable(component)
        return sorted(found, key=lambda node: node.born)[:1] if component.name == "state" else found


@mutant(
    "component-policy-is-always-lru",
    kills=("COMP-63",),
    configs=under("mru", "fifo", "filo", "lfu"),
    long_because=TWO_KEYS,
)
class PolicyIsAlwaysLru(ComponentTree):
    """Components are evicted by their last use, whatever policy is asked for."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.policy = "lru"


@mutant("component-inserts-do-not-count", kills=("COMP-63",), configs=under("lfu"), long_because=TWO_KEYS)
class InsertsDoNotCount(ComponentTree):
    """An insert of what is there counts for nothing, so what is used often goes like what was used once."""

    def count(self, node: ComponentNode) -> None:
        super().count(node)
        node.hits = min(node.hits, 1)


@mutant("component-hits-do-not-count", kills=("COMP-63",), profile=MATCHES, configs=under("lfu"), long_because=TWO_KEYS)
class HitsDoNotCount(ComponentTree):
    """Hits count, as the profile declares, and are never counted."""

    def match(self, key: Key) -> ComponentNode | None:
        hits = {node: node.hits for node in self.nodes()}
        best = super().match(key)
        for node, before in hits.items():
            node.hits = before
        return best


@mutant("component-probation-has-no-end", kills=("COMP-63",), configs=under("slru"), long_because=TWO_KEYS)
class ProbationHasNoEnd(ComponentTree):
    """With segments nothing is ever protected: what was used twice goes like what was used once."""

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        return (0, *super().worth(node)[1:])


@mutant("component-age-begins-with-a-hit", kills=("COMP-63",), configs=under("fifo"), long_because=TWO_KEYS)
class AgeBeginsWithAHit(ComponentTree):
    """A hit makes an entry young again, which it is not by its coming."""

    def match(self, key: Key) -> ComponentNode | None:
        best = super().match(key)
        at = best
        while at is not None and at.above is not None:
            at.born = self.clock
            at = at.above
        return best


class RoomTurnedRound(ComponentTree):
    """An eviction takes what was used last, if it is for a prefetch or a load back."""

    for_another = False

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        found = super().worth(node)
        return turned(found) if self.for_another else found


@mutant(
    "component-prefetch-evicts-the-latest",
    kills=("COMP-63",),
    beside=(RoomTurnedRound,),
    configs=PAGED,
    long_because=TWO_KEYS,
)
class PrefetchEvictsTheLatest(ComponentFetcher):
    """An eviction is in order when it is asked for, and turned round when it makes room for a prefetch."""

    def make_room(self, length: int) -> dict[str, int]:
        assert isinstance(self.tree, RoomTurnedRound)
        self.tree.for_another = True
        freed = super().make_room(length)
        self.tree.for_another = False
        return freed


@mutant(
    "component-load-evicts-the-latest",
    kills=("COMP-63",),
    beside=(RoomTurnedRound,),
    configs=HOSTS,
    long_because=TWO_KEYS,
)
class LoadEvictsTheLatest(ComponentCopier):
    """An eviction is in order when it is asked for, and turned round when it makes room for a load back."""

    def make_room(self, wants: Mapping[str, int], *, load: bool) -> dict[str, int]:
        assert isinstance(self.tree, RoomTurnedRound)
        self.tree.for_another = load
        freed = super().make_room(wants, load=load)
        self.tree.for_another = False
        return freed


@mutant(
    "request-evicts-the-latest",
    kills=("COMP-63",),
    profile=CAPPED,
    configs=REQUEST_CONFIGS[:2],
    long_because=TWO_KEYS,
)
class RequestEvictsTheLatest(ComponentTree):
    """A request gets the places of what was used last."""

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        return turned(super().worth(node))


# On the host


@mutant("component-host-order-is-turned-round", kills=("COMP-63",), configs=HOSTS, long_because=TWO_KEYS)
class HostOrderIsTurnedRound(ComponentCopier):
    """On the host what was used last goes first, though entries go by the policy."""

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        return turned(super().worth(node))


@mutant("component-backup-evicts-the-latest", kills=("COMP-63",), configs=HOSTS, long_because=TWO_KEYS)
class BackupEvictsTheLatest(ComponentCopier):
    """An eviction from the host is in order when it is asked for, and turned round when it makes room for a backup."""

    for_a_backup = False

    def make_room(self, wants: Mapping[str, int], *, load: bool) -> dict[str, int]:
        self.for_a_backup = not load
        freed = super().make_room(wants, load=load)
        self.for_a_backup = False
        return freed

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        found = super().worth(node)
        return turned(found) if self.for_a_backup else found


# Legal variations


@null_mutant("null-component-hit-uses-its-path", configs=EVERY_POLICY)
class HitUsesItsPath(ComponentTree):
    """A hit uses all on its path, also what its window has left behind; what is a use beside what it names, is open."""

    def match(self, key: Key) -> ComponentNode | None:
        best = super().match(key)
        at = best
        while at is not None and at.above is not None:
            at.used = self.clock
            at = at.above
        return best


@null_mutant("null-component-insert-uses-its-path", configs=EVERY_POLICY)
class InsertUsesItsPath(ComponentTree):
    """An insert uses all on its path, and not only what it fills."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        left = super().insert(key, entries)
        for node in self.walk(key):
            node.used = self.clock
        return left


@null_mutant("null-component-receipts-use", configs=EVERY_POLICY)
class ReceiptsUse(ComponentTree):
    """To protect entries is to use them, and to let them go as well, as where blocks go to the end of a queue then."""

    def keep(self, cover: dict[str, list[ComponentNode]]) -> dict[str, list[ComponentNode]]:
        self.clock += 1
        for nodes in cover.values():
            for node in nodes:
                node.used = self.clock
        return super().keep(cover)

    def unlock(self, cover: Mapping[str, Sequence[ComponentNode]]) -> None:
        self.clock += 1
        for nodes in cover.values():
            for node in nodes:
                node.used = self.clock
        super().unlock(cover)


@null_mutant("null-component-hits-count", profile=MATCHES, configs=EVERY_POLICY)
class HitsCount(ComponentTree):
    """What counts for LFU and segments is how often an entry was hit, as the profile declares."""


@null_mutant("null-component-nothing-counts", profile=replace(PROFILE, hit_counts="none"), configs=EVERY_POLICY)
class NothingCounts(ComponentTree):
    """Nothing counts, as the profile declares: with LFU all entries are equal, and go by their last use."""


@null_mutant("null-component-ties-by-place", configs=EVERY_POLICY)
class TiesByPlace(ComponentTree):
    """Of what is worth the same, what ends first goes first."""

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        *found, end = super().worth(node)
        return (*found, -end)


@null_mutant(
    "null-component-evicts-alone-by-policy", profile=replace(PROFILE, component_cascade="none"), configs=EVERY_POLICY
)
class EvictsAloneByPolicy(ComponentTree):
    """Components are evicted each alone, as the profile declares, and each in the order of the policy."""


@null_mutant(
    "null-component-leaves-by-policy", profile=replace(PROFILE, component_cascade="leaf"), configs=EVERY_POLICY
)
class LeavesByPolicy(ComponentTree):
    """At the end of a path the whole leaf goes, as the profile declares; which one, says the policy."""


@null_mutant("null-component-host-keeps-old-times", configs=COMPONENT_HOST_CONFIGS)
class HostKeepsOldTimes(ComponentCopier):
    """A copy is no use: what it brings keeps the time at which its prefix was used last."""

    def land(self, copy: ComponentCopy, node: ComponentNode, name: str, place: int) -> bool:
        before = node.used
        landed = super().land(copy, node, name, place)
        node.used = before
        return landed


@null_mutant("null-request-end-is-a-use", profile=CAPPED, configs=REQUEST_CONFIGS[:3] + REQUEST_POLICY_CONFIGS)
class RequestEndIsAUse(ComponentRequestTable):
    """The end of a request is a use of what it held, as where its blocks go to the end of the queue then."""

    def finish(self, request: RequestState) -> None:
        self.tree.clock += 1
        for node in request.locked.values():
            node.used = self.tree.clock
        super().finish(request)
