"""Null mutants of one rank of several: other ways to agree, and other choices that all ranks make alike."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from kvlitmus.conformance.run.plan import RANK_CONFIGS
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.ranks import Deciding, Exchanging, RankCache, RankLink, Read
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.interface.ranks import (
    Ask,
    Await,
    Collective,
    Decision,
    Exchange,
    Group,
    Local,
    Prefix,
    Receive,
    Send,
)


class _NegativesAtMost(RankLink):
    """Reduces the least as the negative of the most of negatives."""

    def agree(self, op: str, layout: Sequence[str], values: Sequence[int]) -> Exchanging:
        """The same by the other operation."""
        other = "max" if op == "min" else "min"
        return [-one for one in (yield from super().agree(other, layout, [-one for one in values]))]


@null_mutant("null-rank-negatives", configs=RANK_CONFIGS)
class Negatives(RankCache):
    """Ranks reduce the most of negatives instead of the least: which operation it is, is the cache's own business."""

    link = _NegativesAtMost


class _LastDimensionFirst(RankLink):
    """Reduces over the last dimension first."""

    def groups(self) -> Sequence[Group]:
        """The groups in another order, the same on every rank."""
        return list(super().groups())[::-1]


@null_mutant("null-rank-dimensions-reversed", configs=RANK_CONFIGS)
class DimensionsReversed(RankCache):
    """The dimensions are reduced in another order, which is the same on every rank."""

    link = _LastDimensionFirst


@null_mutant("null-rank-meets-first", configs=RANK_CONFIGS)
class MeetsFirst(RankCache):
    """Before every call all ranks meet once more: more collectives than are needed, the same on every rank."""

    def ask(self, ask: Ask) -> Deciding:
        yield from self.to_all.agree("min", ("here",), (1,))
        return (yield from super().ask(ask))


@null_mutant("null-rank-digest", configs=RANK_CONFIGS)
class Digest(RankCache):
    """Every reduction carries a digest of the tree and its negative, by which ranks notice themselves that they
    parted.
    """

    def count_acks(self) -> Exchanging:
        digest = sum(len(page) * 31 + sum(page) for page in self.device)
        mine = [self.run(self.writes, self.ended["wrote"]), self.run(self.loads, self.ended["loaded"])]
        names = ("writes", "loads", "digest", "negative digest")
        return (yield from self.to_all.agree("min", names, (*mine, digest, -digest)))[:2]


@null_mutant("null-rank-orders-by-name", configs=RANK_CONFIGS, profile=replace(PROFILE, evict_order="own"))
class OrdersByName(RankCache):
    """Leaves are evicted by name, whatever their use was: an order of one's own is declared, and all ranks have it."""

    def order(self, tier: str) -> list[Prefix]:
        return sorted(super().order(tier))


@null_mutant("null-rank-progress-apart", configs=RANK_CONFIGS)
class ProgressApart(RankCache):
    """Pages, window and state are reduced one after the other instead of packed."""

    def agree_progress(self, rid: int) -> Exchanging:
        agreed: list[int] = []
        for name, mine in zip(self.PROGRESS, self.has_read(rid), strict=True):
            agreed += yield from self.to_all.agree("min", (name,), (mine,))
        return agreed


@null_mutant("null-rank-takes-all-or-nothing", configs=RANK_CONFIGS)
class TakesAllOrNothing(RankCache):
    """A prefetch that some rank has no room for isn't begun: nothing obliges ranks to truncate."""

    def ask_prefetch(self, ask: Ask) -> Deciding:
        pages = self.path(ask.key)
        free, more, *_ = yield from self.agree_room(pages)
        if len(pages) - self.run(pages, self.host) > free + more:
            return [Decision("grant", "read", ())]
        return (yield from super().ask_prefetch(ask))


@null_mutant("null-rank-copies-end-by-call", configs=RANK_CONFIGS)
class CopiesEndByCall(RankCache):
    """One operation copies all pages of a call, and they end together, as SGLang's do: how pages are copied is the
    cache's own business, as long as it says which copies have ended.
    """

    def clear(self) -> None:
        super().clear()
        self.operations: list[tuple[str, tuple[Prefix, ...]]] = []

    def ask(self, ask: Ask) -> Deciding:
        decided = yield from super().ask(ask)
        kinds = {"write": "wrote", "load": "loaded"}
        self.operations += [
            (kinds[one.of], one.prefixes) for one in decided if one.kind == "grant" and one.of in kinds and one.prefixes
        ]
        return decided

    def local(self, event: Local) -> Sequence[Prefix] | None:
        pages = next((pages for what, pages in self.operations if what == event.what and event.key in pages), ())
        self.operations = [one for one in self.operations if one != (event.what, pages)]
        for page in pages or (event.key,):
            super().local(event._replace(key=page))
        return pages or None


@null_mutant("null-rank-gives-back-when-all-know", configs=RANK_CONFIGS)
class GivesBackWhenAllKnow(RankCache):
    """Memory that a prefetch has for what storage has not goes back where copies are noted, once the storage of every
    rank has answered; the call that notes the answer comes later, and gives all back where storage has nothing.
    """

    def ask_acks(self, ask: Ask) -> Deciding:
        hits = []
        for rid, one in sorted(self.reads.items()):
            if one.hit < 0:
                hits.append((one, (yield from self.count_hit(rid, one))))
        decisions = yield from super().ask_acks(ask)
        for one, hit in hits:
            if hit:
                self.trim(one, hit)
                one.hit = -1
        return decisions


@null_mutant("null-rank-keeps-little-on-the-host", configs=RANK_CONFIGS)
class KeepsLittleOnTheHost(RankCache):
    """Each commit of a prefetch ends with an eviction, after which the host has three pages at most, where it can: a
    window or a state that was named as cached goes with its page.
    """

    def commit(self, rid: int, one: Read, read: Sequence[int]) -> list[Decision]:
        decisions = super().commit(rid, one, read)
        return [*decisions, self.evict_host(len(self.host) - 3, set())]


@null_mutant("null-rank-notes-copies-in-every-call", configs=RANK_CONFIGS)
class NotesCopiesInEveryCall(RankCache):
    """Every call notes the copies that have ended on all ranks, before it does anything else."""

    def ask(self, ask: Ask) -> Deciding:
        noted: Sequence[Decision] = () if ask.what in ("acks", "rejoin") else (yield from self.ask_acks(ask))
        return [*noted, *(yield from super().ask(ask))]


SMALL = tuple([replace(config, pages=pages) for pages in (3, 1) for config in RANK_CONFIGS])
"""Hosts that hold less than the keys that are read, so that each prefetch is cut short."""


@null_mutant("null-rank-knows-what-can-happen", configs=(*RANK_CONFIGS, *SMALL))
class KnowsWhatCanHappen(CopiesEndByCall):
    """What happens to a rank alone can happen: a copy that is under way ends, once, and only what is being read was
    read. It relies on that.
    """

    def local(self, event: Local) -> Sequence[Prefix] | None:
        if why := self.impossible(event):
            raise ValueError(why)
        return super().local(event)

    def impossible(self, event: Local) -> str:
        """Why this can't happen; empty where it can."""
        queues, one = {"wrote": self.writes, "loaded": self.loads}, self.reads.get(event.rid)
        if event.what in queues:
            there = event.key in queues[event.what] and event.key not in self.ended[event.what]
            return "" if there else f"no copy of {event.key} is under way"
        if event.what == "found":
            waits = one is not None and one.hit < 0 and event.rid not in self.found
            asked = set(range(1, 1 + (len(one.pages) if one else 0)))
            fits = set(event.boundaries) <= asked and set(event.states) <= (asked if self.world.state_slots else set())
            return "" if waits and fits else "storage was not asked for so much"
        if event.what == "read":
            pages, window, state = self.has_read(event.rid)
            most, widest, states = (one.hit, one.window, len(one.states)) if one else (-1, 0, 0)
            goes_on = pages <= event.pages <= most and window <= event.window <= widest
            goes_on = goes_on and state <= event.state <= states
            return "" if goes_on else f"{event.pages} pages of {most} were read"
        if event.what == "failed":
            return "" if one is not None and event.rid not in self.failed else "nothing is being read"
        if event.what == "pinch":
            fits = 0 <= event.pages <= self.host_free and 0 <= event.state <= self.state_free
            return "" if fits else f"{event.pages} of {self.host_free} pages are occupied"
        return ""


@null_mutant("null-rank-loads-behind-what-is-loading", configs=RANK_CONFIGS)
class LoadsBehindWhatIsLoading(RankCache):
    """A load back begins behind pages that are being loaded for an earlier one, as SGLang's does, whose nodes have
    their device slots as soon as their copy begins; the specimen waits for these first.
    """

    def loadable(self, pages: list[Prefix]) -> list[Prefix]:
        missing = pages[self.run(pages, {*self.device, *self.loads}) :]
        return missing[: self.run(missing, self.host)]


class _FirstStageCounts(RankLink):
    """Copies are counted on the first pipeline stage; the next ones are told how many."""

    def count_on_first(self, layout: Sequence[str], values: Sequence[int]) -> Exchanging:
        """Reduce over the first stage, and tell the others."""
        now = tuple(values)
        if self.stage:
            now = yield Receive(self.stages[self.stage - 1][self.place])
        else:
            for group in self.groups():
                now = yield Collective(group, "min", tuple(layout), now)
        if self.stage + 1 < len(self.stages):
            yield Send(self.stages[self.stage + 1][self.place], tuple(layout), now)
        return list(now)


@null_mutant("null-rank-next-stages-wait", configs=RANK_CONFIGS)
class NextStagesWait(RankCache):
    """The count of the first pipeline stage is applied on the next one, which waits for its own copies first: they have
    ended on every rank when they are acknowledged (sglang#22607 is what goes wrong without the wait).
    """

    def count_acks(self) -> Exchanging:
        link = _FirstStageCounts(self.world, self.number)
        mine = [self.run(self.writes, self.ended["wrote"]), self.run(self.loads, self.ended["loaded"])]
        counts = yield from link.count_on_first(("writes", "loads"), mine)
        queues = {"wrote": self.writes[: counts[0]], "loaded": self.loads[: counts[1]]}
        for what, pages in queues.items():
            late = tuple(page for page in pages if page not in self.ended[what])
            if late:
                yield Await(what, late)
                self.ended[what].update(late)
        return counts


class _Votes(RankLink):
    """Votes on each number that a value may reach, and counts them."""

    MOST = 24
    """No value of this cache is larger, nor negative."""

    def agree(self, op: str, layout: Sequence[str], values: Sequence[int]) -> Exchanging:
        """The least is the largest number that all have voted for, the most the largest that anybody has."""
        now = tuple(values)
        for group in self.groups():
            ballot = tuple([f"{name} >= {at}" for name in layout for at in range(1, self.MOST + 1)])
            votes = tuple([int(value >= at) for value in now for at in range(1, self.MOST + 1)])
            counts = yield Collective(group, "sum", ballot, votes)
            enough = len(group.members) if op == "min" else 1
            rows = [counts[at * self.MOST : (at + 1) * self.MOST] for at in range(len(now))]
            now = tuple([sum(count >= enough for count in row) for row in rows])
        if len(self.stages) > 1:
            now = tuple((yield from self.along(op, tuple(layout), now)))
        return list(now)


@null_mutant("null-rank-votes", configs=RANK_CONFIGS)
class Votes(RankCache):
    """Ranks add up votes for each number instead of reducing the numbers: a sum says as much as a least or a most."""

    link = _Votes


class _Chain(RankLink):
    """Passes numbers from rank to rank, to the last one and back, and enters no collective."""

    def agree(self, op: str, layout: Sequence[str], values: Sequence[int]) -> Exchanging:
        """Combine what comes from the rank before, pass it on, and hand back what comes from behind."""
        combine = min if op == "min" else max
        tree = [rank for stage in self.stages for rank in stage]
        at, now = tree.index(self.number), tuple(values)
        if at:
            now = tuple(map(combine, now, (yield Receive(tree[at - 1]))))
        if at + 1 < len(tree):
            yield Send(tree[at + 1], tuple(layout), now)
            now = yield Receive(tree[at + 1])
        if at:
            yield Send(tree[at - 1], tuple(layout), now)
        return list(now)


@null_mutant("null-rank-chain", configs=RANK_CONFIGS)
class Chain(RankCache):
    """Ranks pass messages along instead of entering collectives, within a stage too."""

    link = _Chain


# -- states ------------------------------------------------------------------------------------------


@null_mutant("null-rank-states-by-name", configs=RANK_CONFIGS)
class StatesByName(RankCache):
    """Which cached state goes for another one follows from the names of their boundaries, whatever came first."""

    def evict_states(self, many: int) -> Decision:
        self.states = dict(sorted(self.states.items(), reverse=True))
        return super().evict_states(many)


@null_mutant("null-rank-spares-its-states", configs=RANK_CONFIGS)
class SparesItsStates(RankCache):
    """A prefetch for whose state some rank has no free entry isn't begun: no rank is obliged to drop a cached one."""

    def ask_prefetch(self, ask: Ask) -> Deciding:
        if self.world.state_slots and not (yield from self.agree_states()):
            return [Decision("grant", "read", ())]
        return (yield from super().ask_prefetch(ask))


@null_mutant("null-rank-makes-room-for-more", configs=RANK_CONFIGS)
class MakesRoomForMore(RankCache):
    """Where one state must go for another one all of them go: how much an eviction frees is a choice."""

    def evict_states(self, many: int) -> Decision:
        return super().evict_states(len(self.states) if many > 0 else 0)


@null_mutant("null-rank-joins-components-first", configs=RANK_CONFIGS)
class JoinsComponentsFirst(RankCache):
    """Each rank brings the boundaries at which it has every component, and not those of each: the intersection over
    ranks and components may be taken in any order.
    """

    def count_hit(self, rid: int, one: Read) -> Generator[Exchange, tuple[int, ...], int | None]:
        mine, states = self.found.get(rid), self.found_states.get(rid, frozenset())
        both = (mine or frozenset()) & states if one.states else mine or frozenset()
        flags = [int(at in both) for at in range(1, len(one.pages) + 1)]
        names = ("answered", *[f"boundary {at}" for at in range(1, len(flags) + 1)])
        answered, *common = yield from self.to_all.agree("min", names, (int(mine is not None), *flags))
        return max((at for at, there in enumerate(common, 1) if there), default=0) if answered else None


@null_mutant("null-rank-keeps-the-state-it-has", configs=RANK_CONFIGS)
class KeepsTheStateItHas(RankCache):
    """A state that is read for a boundary that has one by then is given back: the one that is there is the same, and is
    not used anew.
    """

    def attach_state(self, one: Read, place: Sequence[Prefix]) -> None:
        super().attach_state(one, [page for page in place if page not in self.states])


@null_mutant("null-rank-matches-use-states", configs=RANK_CONFIGS)
class MatchesUseStates(RankCache):
    """A match is a use of the states on its path, so that they stay longest; which states go is a choice."""

    def ask_match(self, ask: Ask) -> Deciding:
        self.use(self.states, [page for page in self.path(ask.key) if page in self.states])
        return (yield from super().ask_match(ask))


@null_mutant("null-rank-states-outlive-their-pages", configs=RANK_CONFIGS)
class StatesOutliveTheirPages(RankCache):
    """A state stays when its page leaves the host, in case the page comes back, until its memory is needed."""

    def evict_host(self, many: int, kept: set[Prefix]) -> Decision:
        states, free = dict(self.states), self.state_free
        victims = super().evict_host(many, kept)
        self.states, self.state_free = states, free
        return victims


@null_mutant("null-rank-names-what-goes-with-a-page", configs=RANK_CONFIGS)
class NamesWhatGoesWithAPage(RankCache):
    """The windows and states that go with pages of the host are named as victims, too."""

    def ask_insert(self, ask: Ask) -> Deciding:
        return (yield from self.naming(super().ask_insert(ask)))

    def ask_prefetch(self, ask: Ask) -> Deciding:
        return (yield from self.naming(super().ask_prefetch(ask)))

    def naming(self, call: Deciding) -> Deciding:
        """What the call decides, and what went with the pages that it evicted from the host."""
        had = {"window": [*self.windows], "state": [*self.states]}
        decisions = [*(yield from call)]
        pages = [page for one in decisions if one[:2] == ("victims", "host") for page in one.prefixes]
        gone = [Decision("victims", of, tuple(page for page in pages if page in had[of])) for of in had]
        return [*decisions, *(one for one in gone if one.prefixes)]


@null_mutant("null-rank-packs-from-the-end", configs=RANK_CONFIGS)
class PacksFromTheEnd(RankCache):
    """What was read of each component is packed in another order, and beside it something that this cache wants to
    know: the layout is its own business, as long as it is the same on every rank.
    """

    def agree_progress(self, rid: int) -> Exchanging:
        names, mine = (*self.PROGRESS[::-1], "requests"), (*self.has_read(rid)[::-1], len(self.reads))
        return (yield from self.to_all.agree("min", names, mine))[2::-1]
