"""Null mutants that make a choice of the profile which no other one makes, each value at least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

from kvlitmus.conformance.ports import Begun, Hit, Stored
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.fetch import Prefetcher
from kvlitmus.conformance.specimen.prefix.load import Loader
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import POLICIES, Node, RadixTree, Unit
from kvlitmus.conformance.specimen.prefix.works import ENDED, Fetch
from kvlitmus.conformance.specimen.stores import PageShelf
from kvlitmus.mutants.hosted import HOSTED, NOT_BACK, THROUGH, TIMED
from kvlitmus.mutants.legal.prefix.flat import BOTH, EVERYWHERE
from kvlitmus.mutants.prefix.backup import APART, STREAMS, AcksInAnyOrder, BacksUpAtTheTick
from kvlitmus.mutants.prefix.event import BY_NAME, TellsHitsAgain
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.interface.tiers import Event, TierView
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.words.limits import PARTS
from kvlitmus.spec.words.units import Key


def coarsely(policy: str, uses: int) -> Callable[[Node], tuple[int, ...]]:
    """A policy by a clock that ticks once in so many uses; among equals what came last into the tree goes first."""

    def worth(node: Node) -> tuple[int, ...]:
        seen = replace(node, created=node.created // uses, serial=-node.serial)
        seen.touched = node.touched // uses
        return POLICIES[policy](seen)

    return worth


TICKED = tuple(config for config in EVERYWHERE if config.policy in ("lru", "mru", "lfu"))


@null_mutant("no-page-is-reserved", profile=replace(PROFILE, reserved=0), configs=BOTH)
class NoPageIsReserved(PagedPool):
    """Page 0 is a page like any other, as the profile declares."""


@null_mutant("sizes-are-rounded-up", profile=replace(PROFILE, align="round_up"), configs=BOTH[1:])
class SizesAreRoundedUp(PagedPool):
    """Who asks for part of a page gets all of it, as the profile declares."""

    def alloc(self, n: int) -> list[int] | None:
        return super().alloc(-(-n // self.page_size) * self.page_size)


@null_mutant("unlocks-are-uses", profile=replace(PROFILE, unlock_touches=True), configs=TICKED)
class UnlocksAreUses(RadixTree):
    """Giving a lock back is a use of the path, as in caches that order by release."""

    def unlock(self, node: Node) -> None:
        super().unlock(node)
        self.clock += 1
        at: Node | None = node
        while at is not None:
            at.touched = self.clock
            at = at.parent


@null_mutant("clock-runs-on", profile=replace(PROFILE, clock="wall"), configs=TICKED)
class ClockRunsOn(RadixTree):
    """Recency comes from a clock of which nobody knows how far it goes between two uses, as the profile declares."""

    def match(self, namespace: str | None, units: tuple[Unit, ...]) -> tuple[list[int], Node]:
        self.clock += 1 + len(units) % 7
        return super().match(namespace, units)


COARSE = replace(PROFILE, tick_uses=3)


@null_mutant("clock-is-coarse", profile=COARSE, configs=EVERYWHERE)
class ClockIsCoarse(RadixTree):
    """Three uses share a tick, as the profile declares; of those the page that came last into the tree goes first."""

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        super().__init__(page_size, policy, release)
        self.worth = coarsely(policy, 3)


@null_mutant("clock-of-the-tiers-is-coarse", profile=COARSE, configs=HOSTED)
class ClockOfTheTiersIsCoarse(TierTree):
    """Three uses share a tick in a hierarchy, on both of its tiers, as the profile declares."""

    def __init__(self, page_size: int, policy: str, *rest: Any, **named: Any) -> None:
        super().__init__(page_size, policy, *rest, **named)
        self.worth = coarsely(policy, 3)


LAGGING = replace(PROFILE, event_delay=2)


class Outbox:
    """What a cache has to tell, call by call, until it is sent."""

    def __init__(self) -> None:
        self.sent = 0
        self.waiting: list[list[Event]] = []

    def send(self, told: Sequence[Event]) -> list[Event]:
        """The events of a call come in; those of the oldest calls go out, now and then of none, then of several."""
        self.waiting.append(list(told))
        self.sent += 1
        out: list[Event] = []
        while len(self.waiting) > self.sent % 3:
            out += self.waiting.pop(0)
        return out


@null_mutant("events-lag", profile=LAGGING, configs=BOTH)
class EventsLag(Specimen):
    """Events are told up to two calls late, those of one call together, as the profile declares."""

    @cached_property
    def outbox(self) -> Outbox:
        """What was not told yet."""
        return Outbox()

    def events(self) -> Sequence[Event]:
        return self.outbox.send(super().events())


@null_mutant("events-of-the-tiers-lag", profile=LAGGING, configs=HOSTED)
class EventsOfTheTiersLag(TieredSpecimen):
    """Events of both tiers are told up to two calls late, those of one call together, as the profile declares."""

    @cached_property
    def outbox(self) -> Outbox:
        """What was not told yet."""
        return Outbox()

    def events(self) -> Sequence[Event]:
        return self.outbox.send(super().events())


@null_mutant("hits-are-told-again", profile=BY_NAME, configs=BOTH)
class HitsAreToldAgain(TellsHitsAgain):
    """What a match has found is told once more, to listeners who keep a set of names, as the profile declares."""


@null_mutant("host-copies-are-told-on-both-tiers", profile=BY_NAME, configs=HOSTED)
class HostCopiesAreToldOnBothTiers(TierTree):
    """What gets a copy on the host is told for the device once more, to listeners who keep a set of names."""

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        super().tell_stored(tier, node, start)
        if tier == "host" and node.pages:
            super().tell_stored("device", node, start)


class LoadsAsTheyLand(Loader):
    """Loads are acknowledged as they land."""

    def acks(self) -> None:
        for work in [work for work in self.queue if work.landed]:
            self.queue.remove(work)
            self.end(work)


@null_mutant("copies-are-acknowledged-as-they-end", profile=STREAMS, beside=(LoadsAsTheyLand,), configs=HOSTED)
class CopiesAreAcknowledgedAsTheyEnd(AcksInAnyOrder):
    """Backups and loads go through streams of their own, and are acknowledged as they end, as the profile declares."""


@null_mutant("copies-protect-apart", profile=APART, configs=HOSTED)
class CopiesProtectApart(TieredSpecimen):
    """Copies under way mark what they protect; nodes and counters show the other locks, as the profile declares."""

    @contextmanager
    def others(self) -> Iterator[None]:
        """The locks without those of copies."""
        ends = [work.nodes[-1] for work in self.works.works.values() if work.kind in COPIES]
        for end in ends:
            self.tree.unlock(end)
        yield
        for end in ends:
            self.tree.lock(end)

    def sizes(self) -> Sizes:
        with self.others():
            return super().sizes()

    def tiers(self) -> TierView:
        with self.others():
            return super().tiers()


@null_mutant("misuse-is-undefined", profile=replace(PROFILE, misuse="undefined"))
class MisuseIsUndefined(PagedPool):
    """What is freed is believed; callers who break the contract break the cache, and nothing else was promised."""

    def give_back(self, pages: Sequence[int]) -> None:
        for page in pages:
            self.is_free[page] = True
        if self.group is None:
            self.free_list += pages
        else:
            self.group += pages


class TakesSomeKeys(Specimen):
    """A cache that raises for a key that it doesn't take."""

    def taken(self, key: Key) -> Key:
        """The key as this cache sees it."""
        return key

    def match(self, key: Key) -> Hit:
        return super().match(self.taken(key))

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        return super().insert(self.taken(key), slots, protected=protected, priority=priority, chunked=chunked)

    def begin(self, rid: int, key: Key) -> Begun | None:
        return super().begin(rid, self.taken(key))


@null_mutant("no-empty-prompts", profile=replace(PROFILE, least_key=3), configs=BOTH[:3])
class NoEmptyPrompts(TakesSomeKeys):
    """A prompt has three tokens at least, as the profile declares; shorter ones raise."""

    def taken(self, key: Key) -> Key:
        if len(key.tokens) < 3:
            raise ValueError("a prompt has three tokens at least")
        return key


VOCABULARY = 3


@null_mutant("tokens-are-checked", profile=replace(PROFILE, vocabulary=VOCABULARY), configs=BOTH[:3])
class TokensAreChecked(TakesSomeKeys):
    """Tokens beyond the vocabulary raise, as the profile declares."""

    def taken(self, key: Key) -> Key:
        if not all(0 <= token < VOCABULARY for token in key.tokens):
            raise ValueError("there is no such token")
        return key

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        self.taken(Key(None, tuple(tokens)))
        return super().grow(rid, tokens)


@null_mutant("one-tenant", profile=replace(PROFILE, namespaces="none"), configs=BOTH[:3])
class OneTenant(TakesSomeKeys):
    """There are no namespaces, as the profile declares: all keys are of one."""

    def taken(self, key: Key) -> Key:
        return key._replace(namespace=None)


@null_mutant("namespaces-of-two-parts", profile=replace(PROFILE, namespaces="parts"), configs=BOTH[:3])
class NamespacesOfTwoParts(TakesSomeKeys):
    """A namespace is an adapter and a salt, as the profile declares; one that has no two parts raises."""

    def taken(self, key: Key) -> Key:
        if key.namespace is not None and len(key.namespace.split(PARTS)) != 2:
            raise ValueError("expected an adapter and a salt")
        return key


@null_mutant("aborts-of-the-tiers-are-kept", profile=replace(PROFILE, aborted="kept"), configs=HOSTED)
class AbortsOfTheTiersAreKept(TieredSpecimen):
    """An aborted request is inserted as if it had finished, with backups and all, as the profile declares."""

    publish_upto = end_upto = None  # type: ignore[assignment]

    def end(self, rid: int, *, keep: bool) -> None:
        super().end(rid, keep=True)


@null_mutant("requests-leave-two-pages", profile=replace(PROFILE, admission="own"), configs=(*BOTH, *HOSTED))
class RequestsLeaveTwoPages(RequestTable):
    """A request leaves its first two pages, and what is on the device already, as the profile declares."""

    def cacheable(self, request: SpecimenRequest) -> int:
        whole, size = super().cacheable(request), self.pool.page_size
        there = len(self.tree.resident(request.key.namespace, request.key.units[:whole])) * size
        return min(whole, max(request.cached, there, 2 * size))


@null_mutant("storage-for-good", profile=replace(PROFILE, attach="at_start"), configs=THROUGH)
class StorageForGood(TieredSpecimen):
    """Storage is attached at the start and stays, as the profile declares; to detach it raises."""

    def detach(self) -> bool:
        raise RuntimeError("storage stays attached")


@null_mutant("second-prefetch-raises", profile=replace(PROFILE, second_prefetch="undefined"), configs=THROUGH)
class SecondPrefetchRaises(Prefetcher):
    """Nobody may ask for a second prefetch of a request that waits for one already, as the profile declares."""

    def start(self, rid: int, key: Key, storage_on: bool) -> tuple[bool, int, int, int]:
        if rid in self.ongoing:
            raise ValueError(f"request {rid} waits for a prefetch already")
        return super().start(rid, key, storage_on)


SHORT = replace(PROFILE, timeout=(0.0, 85.0, 0.0))
"""Twelve units may take a second."""


@null_mutant("waits-for-what-was-requested", profile=replace(SHORT, timeout_basis="requested"), configs=TIMED)
class WaitsForWhatWasRequested(Prefetcher):
    """The time limit grows with what was requested, whatever storage has of it, as the profile declares."""


@null_mutant("waits-for-what-was-found", profile=SHORT, configs=TIMED)
class WaitsForWhatWasFound(Prefetcher):
    """The time limit grows with what storage has."""


@null_mutant("commits-at-the-tick", profile=replace(PROFILE, commit="tick"), configs=HOSTED)
class CommitsAtTheTick(Prefetcher):
    """What a fetch has read counts from the next tick on, which commits it if it has ended, as the profile declares."""

    def drop_revoked(self) -> None:
        super().drop_revoked()
        for fetch in list(self.ongoing.values()):
            self.counted[fetch.rid] = fetch.done
            if fetch.stage == ENDED:
                self.commit(fetch)

    @cached_property
    def counted(self) -> dict[int, int]:
        """How many units of the fetch of each request count."""
        return {}

    def commit(self, fetch: Fetch) -> None:
        read, fetch.done = fetch.done, min(fetch.done, self.counted.pop(fetch.rid, 0))
        if fetch.stage == ENDED:
            kept = fetch.done // self.size
            self.host.let_go(fetch.pages[kept:])
            fetch.pages = fetch.pages[:kept]
        super().commit(fetch)
        fetch.done = read


@null_mutant(
    "backups-and-commits-at-the-tick",
    beside=(BacksUpAtTheTick,),
    profile=replace(PROFILE, commit="tick", backup_moment="tick"),
    configs=NOT_BACK,
)
class BackupsAndCommitsAtTheTick(CommitsAtTheTick):
    """One tick begins backups, makes room for them, and commits what was read: what went may come again with it."""


@null_mutant("null-store-keeps-either", profile=replace(PROFILE, store_put="either"))
class KeepsEither(PageShelf):
    """Of two values put under one key either is kept, by what the key is, as the profile declares."""

    def keeps(self, key: str) -> bool:
        return key[-1:] not in "02468ace" and super().keeps(key)
