"""The suite's books about prefetches, and about what storage was asked and given.

For each prefetch: what it set out to read, what storage told its query, how much of it has arrived, and
so what a poll may answer and a commit may add.  For storage: under which names each prefix was asked for
and stored, so that one prefix with two names, and one name with two prefixes, are found whoever chose them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.tier_observation import TierObservation
from kvlitmus.spec import policies
from kvlitmus.spec.interface.tiers import FETCH, QUERY
from kvlitmus.spec.names import page_names
from kvlitmus.spec.prefetch_life import ENDED, REVOKED
from kvlitmus.spec.units import Key, Name

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker
    from kvlitmus.conformance.checker.failures import Work
    from kvlitmus.conformance.checker.tier_state import TierState


class Operation:
    """One prefetch that has begun."""

    __slots__ = (
        "anchor",
        "asked",
        "begun",
        "counted",
        "ended",
        "got",
        "hit",
        "names",
        "over",
        "polled",
        "revoked",
        "rid",
        "told",
    )

    def __init__(self, rid: int, names: tuple[Name, ...], asked: int, anchor: Name | None, now: float) -> None:
        self.rid = rid
        self.names = names
        self.asked = asked
        self.anchor = anchor
        self.begun = now
        self.polled: float | None = None
        self.hit: int | None = None
        self.got = 0
        self.counted = 0
        self.told: tuple[str, ...] = ()
        self.ended = False
        self.revoked = False
        self.over = False


class PrefetchState:
    """What the suite knows of prefetches and of names in storage.

    ``running``: the prefetches under way, by request.  ``waiting``: the requests that have asked for one and were not
    told yet that they need not wait; a prefetch may be over before its request is told.
    """

    def __init__(self, checker: Checker, books: TierState) -> None:
        self.checker = checker
        self.books = books
        self.size = checker.config.page_size
        self.running: dict[int, Operation] = {}
        self.waiting: set[int] = set()
        self.of_job: dict[int, Operation] = {}
        self.loaded: dict[int, tuple[int, int]] = {}
        self.fresh_end: set[int] = set()
        self.disorder: list[str] = []
        self.put_trouble: list[str] = []
        self.put_wrong: list[str] = []
        self.put_missing: list[str] = []
        self.put_refused = False
        self.stored: set[Name] = set()
        self.names_of: dict[Name, set[str]] = {}
        self.prefixes_of: dict[str, set[Name]] = {}
        self.many_names: list[str] = []
        self.many_prefixes: list[str] = []
        self.page_units: dict[Name, tuple[Name, ...]] = {}
        self.at_ticks = checker.profile.commit == "tick"

    def anchors(self, *, revoked: bool = False) -> frozenset[Name]:
        """The pages behind which prefetches under way began; with ``revoked`` those that are only just over, too."""
        return frozenset(
            one.anchor for one in self.running.values() if one.anchor is not None and (revoked or not one.revoked)
        )

    # -- prefetches ----------------------------------------------------------------------------

    def submitted(self, rid: int, key: Key, matched: int, asked: int) -> None:
        """A prefetch has begun."""
        paged = page_names(self.checker.names_of(key), self.size)
        at = matched // self.size
        anchor = paged[at - 1] if at and at <= len(paged) else None
        self.waiting.add(rid)
        self.running[rid] = Operation(rid, paged[at : at + asked // self.size], asked, anchor, self.books.clock)

    def gate(self, rid: int, length: int, occupied: int) -> str | None:
        """Why a prefetch must be refused, ``""`` when no gate is shut, ``None`` when that isn't known."""
        config = self.checker.config
        if not self.books.attached:
            return "no storage is attached"
        if rid in self.running:
            return None if self.running[rid].revoked else "one of this request is under way"
        if length < max(1, config.threshold):
            return f"{length} units are below the threshold of {config.threshold}"
        if occupied >= config.rate_limit:
            return f"{occupied} units are occupied, and the limit is {config.rate_limit}"
        return ""

    def occupied(self) -> tuple[int, int]:
        """How many units prefetches occupy, at least and at most."""
        late = self.checker.profile.reserve == "hit"
        least = most = 0
        for one in self.running.values():
            most += one.asked
            if not one.revoked and not (late and one.hit is not None):
                least += one.asked
            elif not one.revoked and one.hit is not None:
                least += min(one.hit, one.asked)
        return least, most

    def stop_allowed(self, rid: int) -> tuple[bool, ...]:
        """What a poll may answer now."""
        one = self.running.get(rid)
        profile, policy = self.checker.profile, self.checker.config.stop
        if one is None:
            return (True,)
        if one.polled is None:
            one.polled = self.books.clock
        stage = REVOKED if one.revoked else ENDED if one.ended else QUERY if one.hit is None else FETCH
        limit = policies.time_limit(profile.timeout, policies.counted_units(profile.timeout_basis, one.asked, one.hit))
        start = policies.time_begins(profile.timeout_from, one.begun, one.polled)
        elapsed = 0.0 if start is None else self.books.clock - start
        answer = policies.may_stop(policy, stage, elapsed, limit)
        if policy != policies.BEST_EFFORT and (one.revoked or (one.ended and rid in self.fresh_end)):
            return (True, False)  # the cache need not know of it before the next tick
        return (answer,)

    def committed(self, one: Operation, facts: dict[str, Any], before: TierObservation, after: TierObservation) -> None:
        """A poll has ended a prefetch: what may be in the tree now, and what must."""
        least = 0 if one.revoked else one.counted if self.at_ticks else one.got
        for work in self.books.work.values():
            if self.of_job.get(work.job.id) is one and work.job.kind == FETCH and work.job.id in after.jobs:
                least = min(least, work.job.done)
        may, must = one.names[: one.got // self.size], one.names[: least // self.size]
        facts["commit_range"] = frozenset(may)
        missing: list[Name] = []
        reachable = one.anchor is None or one.anchor in before.hosted
        for name in must:
            if not reachable:
                break
            if name not in after.in_tree:
                missing.append(name)
            reachable = name in after.hosted or name not in after.cached
        facts["commit_missing"] = missing
        new = len(after.in_tree - before.in_tree) * self.size
        filled = len(after.hosted.keys() - before.hosted.keys()) * self.size
        self.loaded[one.rid] = (new, max(new, filled))
        self.books.blurred.update(one.names)
        if one.anchor is not None:
            self.books.blurred.update(self.path(one.anchor, before))
        self.over(one)

    def path(self, name: Name, seen: TierObservation) -> list[Name]:
        """A page and everything above it."""
        found = []
        while name in seen.parent_names:
            found.append(name)
            name = seen.parent_names[name]
        return found

    def over(self, one: Operation) -> None:
        """The request does not wait for this prefetch any more."""
        one.over = True
        if self.running.get(one.rid) is one:
            del self.running[one.rid]
        self.fresh_end.discard(one.rid)

    def detached(self) -> None:
        """Storage is gone: every prefetch is over, and what one has added may be told to its request or not."""
        for one in list(self.running.values()):
            self.over(one)
        self.loaded = {rid: (0, most) for rid, (_, most) in self.loaded.items()}

    def ending(self) -> list[Operation]:
        """The prefetches that a tick commits: those whose fetch has ended, where a tick does that."""
        found = [one for one in self.running.values() if one.ended] if self.at_ticks else []
        for one in found:
            one.counted = one.got
        return found

    def ticked(self) -> None:
        """Revoked prefetches may be gone by now, ended ones are known to the cache, and so is what was read."""
        self.fresh_end.clear()
        for one in self.running.values():
            one.counted = one.got

    def drop_revoked(self) -> None:
        """Revoked prefetches are gone: everything has settled."""
        for one in [one for one in self.running.values() if one.revoked]:
            self.over(one)

    # -- what storage saw ----------------------------------------------------------------------

    def query_seen(self, work: Work) -> tuple[Operation | None, int]:
        """A query has asked storage; returns its prefetch, and how many units storage told it."""
        one = self.of_job.get(work.job.id)
        asked: list[str] = []
        hit, open_ = 0, True
        for names, answer in self.books.store.asked:
            asked += [name for name in names if name not in asked]
            if open_:
                hit += answer
                open_ = answer == len(names)
        for prefix, name in zip(work.names, asked, strict=False):
            self.note_name(prefix, name)
        if one is not None:
            one.told = tuple(asked[:hit])
        return one, min(hit, len(work.names)) * self.size

    def fetch_seen(self, work: Work) -> Operation | None:
        """A fetch has read from storage."""
        one = self.of_job.get(work.job.id)
        if one is None:
            return None
        for name, whole in self.books.store.got:
            at = one.got // self.size
            if at >= len(one.told) or one.told[at] != name:
                self.disorder.append(f"{name}, where page {at} of what was found was due")
            elif whole:
                one.got += self.size
        return one

    def puts_seen(self, work: Work | None) -> bool:
        """Puts were made; returns whether storage accepted all of them."""
        refused = False
        for name, contents, accepted in self.books.store.puts:
            if refused:
                self.put_trouble.append(f"{name} after a page that was refused")
            refused |= not accepted
            last = Name(contents[-1]) if contents else Name(-1)
            if self.page_units.get(last) != contents:
                self.put_wrong.append(f"{name}: {self.books.told(contents)}")
                continue
            self.note_name(last, name)
            if accepted:
                self.stored.add(last)
        self.put_refused |= refused
        return not refused and work is not None

    def put_ended(self, work: Work) -> None:
        """A put that met no refusal says that it is through."""
        self.put_missing += [f"{self.checker.names.prefix(name)}" for name in work.names if name not in self.stored]

    def note_name(self, prefix: Name, name: str) -> None:
        """Storage was asked for this prefix, or given it, under this name."""
        names = self.names_of.setdefault(prefix, set())
        prefixes = self.prefixes_of.setdefault(name, set())
        if names and name not in names:
            self.many_names.append(f"{self.checker.names.prefix(prefix)}: {name[:12]}… and {min(names)[:12]}…")
        if prefixes and prefix not in prefixes:
            other = self.checker.names.prefix(min(prefixes))
            self.many_prefixes.append(f"{name[:12]}…: {other} and {self.checker.names.prefix(prefix)}")
        names.add(name)
        prefixes.add(prefix)

    # -- facts ---------------------------------------------------------------------------------

    def facts(
        self, facts: dict[str, Any], before: TierObservation, after: TierObservation, fresh: Sequence[Work]
    ) -> None:
        """What the rules of storage and prefetches want to know after any call."""
        for node in after.tier_nodes:
            if node.named.pages and node.named.pages[-1] not in self.page_units:
                self.page_units.update(node.named.of_page)
        for work in fresh:
            if work.job.kind == QUERY and work.job.rid in self.running:
                self.of_job[work.job.id] = self.running[work.job.rid]
            elif work.job.kind == FETCH and work.job.id not in self.of_job:
                one = self.running.get(work.job.rid)
                if one is not None:
                    self.of_job[work.job.id] = one
                    one.revoked = False
        facts["many_names"], facts["many_prefixes"] = self.many_names, self.many_prefixes
        facts["put_wrong"], facts["put_after_failure"] = self.put_wrong, self.put_trouble
        facts["put_missing"] = self.put_missing
        facts["fetch_disorder"] = self.disorder
        if "prefetching" in self.checker.capabilities:
            facts["occupied_now"] = self.checker.count(self.checker.look("occupied"), "what prefetches occupy")
            facts["occupied_least"], facts["occupied_most"] = self.occupied()

    def fetch_of(self, one: Operation, fresh: Sequence[Work]) -> int:
        """The length of the fetch that a query led to; 0 without one."""
        for work in fresh:
            if work.job.kind == FETCH and work.job.rid == one.rid:
                self.of_job[work.job.id] = one
                return len(work.names) * self.size
        return 0
