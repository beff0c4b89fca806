"""Ranks of another design than the specimen's: each tells all others everything it has, and all decide by themselves.

What a rank has is put into its own places of one long vector, whose sum over all ranks is what everybody has.  Nothing
is copied to the host, or back, nothing is cut short, no window is read, and where a tier is full all of it goes at once
that nothing hangs from; all of that is legal, and declared (:data:`PROFILE`).  There is no pipeline.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

from kvlitmus.conformance.specimen.parts import PROFILE as SPECIMENS
from kvlitmus.spec.interface.ranks import (
    Ask,
    Collective,
    Decision,
    Exchange,
    Local,
    Prefix,
    RankView,
    StatesView,
    World,
)

Gathering = Generator[Exchange, tuple[int, ...], list[tuple[int, ...]]]
Deciding = Generator[Exchange, tuple[int, ...], list[Decision]]
REFUSED = Decision("grant", "read", ())

PROFILE = replace(SPECIMENS, evict_slack=1 << 10, backup_filter="own", evict_order="own")
"""What such a cache declares: it evicts more than it lacks, by an order of its own, and backs nothing up."""


@dataclass
class Fetch:
    """A prefetch: its pages, when it began, and whether storage has answered."""

    pages: list[Prefix]
    began: int
    noted: bool = False


@dataclass
class GatheringRank:
    """One rank."""

    world: World
    number: int
    clock: int = 0
    attached: bool = True
    whole: bool = True
    others: tuple[int, int] = (0, 0)
    device: list[Prefix] = field(default_factory=list)
    host: list[Prefix] = field(default_factory=list)
    states: list[Prefix] = field(default_factory=list)
    reads: dict[int, Fetch] = field(default_factory=dict)
    events: dict[tuple[str, int], Local] = field(default_factory=dict)

    @property
    def host_free(self) -> int:
        """Free pages of the host."""
        return self.world.host_pages - len(self.host) - sum(len(one.pages) for one in self.reads.values())

    @property
    def state_free(self) -> int:
        """Free entries for states."""
        return self.world.state_slots and self.world.state_slots - len(self.states) - len(self.reads)

    def gather(self, *mine: int) -> Gathering:
        """What every rank has, a row for each."""
        ranks = [rank for stage in self.world.stages(self.number) for rank in stage]
        at, many = ranks.index(self.number) * len(mine), len(mine)
        row = [0] * (many * len(ranks))
        row[at : at + many] = mine
        layout = tuple([f"{rank} has {place}" for rank in ranks for place in range(many)])
        for group in self.world.dimensions(self.number):
            row = list((yield Collective(group, "sum", layout, tuple(row))))
        return [tuple(row[place : place + many]) for place in range(0, len(row), many)]

    def ask(self, ask: Ask) -> Deciding:
        """Make a call."""
        call = {"prefetch": self.prefetch, "hit": self.hit, "poll": self.poll, "abort": self.abort}
        if ask.what in call:
            return (yield from call[ask.what](ask))
        if ask.what == "insert":
            return self.insert(ask)
        if ask.what == "evict":
            return [self.leave(ask.pages, ())]
        whole = all(one for (one,) in (yield from self.gather(int(self.whole))))
        if ask.what == "rejoin" and not whole:
            self.whole = True
            for things in (self.device, self.host, self.states, self.reads, self.events):
                things.clear()
            return [Decision("commit", "reset", ())]
        if ask.what != "match":
            return []
        found = [ask.key[:at] for at in range(len(ask.key) + 1) if not at or ask.key[:at] in self.device]
        return [Decision("match", "device", (found[-1],))]

    def insert(self, ask: Ask) -> list[Decision]:
        """Cache all of a key, or nothing where it doesn't fit; equal trees decide equally without a word."""
        pages = [ask.key[:at] for at in range(1, len(ask.key) + 1)]
        missing = [page for page in pages if page not in self.device]
        kept = len(pages) - len(missing)
        if len(missing) > self.world.pages - kept:
            return []
        lacks = len(missing) + len(self.device) - self.world.pages
        gone = self.leave(len(self.device) if lacks > 0 else 0, pages)
        self.device += missing
        return [gone, Decision("commit", "device", tuple(missing))]

    def leave(self, many: int, kept: Sequence[Prefix]) -> Decision:
        """So many pages leave the device, the longest first; those stay that are kept."""
        gone = [page for page in sorted(self.device, key=len, reverse=True) if page not in kept][: max(0, many)]
        self.device = [page for page in self.device if page not in gone]
        return Decision("victims", "device", tuple(gone))

    def about(self, kind: str, *pages: Prefix) -> list[Decision]:
        """What is said of states, where there are any."""
        return [Decision(kind, "state", pages)] if self.world.state_slots else []

    def prefetch(self, ask: Ask) -> Deciding:
        """Take memory for all that is missing, and for its state; all that nothing hangs from goes for it."""
        occupied, entries = self.others
        rows = yield from self.gather(
            max(0, self.host_free - occupied), max(0, self.state_free - entries), int(self.attached)
        )
        room, states, attached = map(min, zip(*rows, strict=True))
        pages = [ask.key[:at] for at in range(1, len(ask.key) + 1)]
        missing = [page for page in pages if page not in self.host]
        if not attached or not missing or ask.rid in self.reads:
            return [REFUSED]
        short = len(missing) > room or (self.world.state_slots and not states)
        entries_gone, gone = self.make_room(pages) if short else ((), ())
        said = [*self.about("victims", *entries_gone), Decision("victims", "host", gone)]
        states += len(entries_gone)
        if len(missing) > room + len(gone) or (self.world.state_slots and not states):
            return [*said, REFUSED]
        self.reads[ask.rid] = Fetch(missing, self.clock)
        self.forget(ask.rid)
        return [*said, *self.about("grant", missing[-1]), Decision("grant", "read", tuple(missing))]

    def make_room(self, kept: Sequence[Prefix]) -> tuple[tuple[Prefix, ...], tuple[Prefix, ...]]:
        """All states go, and all pages of the host, but for those that are kept, and those from which reads hang."""
        read = [page for one in self.reads.values() for page in one.pages]
        held = {page[:at] for page in (*read, *kept) for at in range(1, len(page) + 1)}
        gone = tuple(page for page in sorted(self.host, key=len, reverse=True) if page not in held)
        entries, self.states = tuple(self.states), []
        self.host = [page for page in self.host if page not in gone]
        return entries, gone

    def hit(self, ask: Ask) -> Deciding:
        """The boundaries of each rank are the bits of a number."""
        one, answer = self.reads.get(ask.rid), self.events.get(("found", ask.rid))
        if one is None or one.noted:
            return []
        there = set(answer.boundaries) if answer else set()
        if answer and self.world.state_slots:
            there &= set(answer.states)
        rows = yield from self.gather(int(answer is not None), sum(1 << at for at in there))
        if not all(answered for answered, _ in rows):
            return []
        common = [at for at in range(1, len(one.pages) + 1) if all(bits >> at & 1 for _, bits in rows)]
        one.pages, one.noted = one.pages[: max(common, default=0)], True
        if not one.pages:
            self.drop(ask.rid)
        return [
            *(self.about("grant", one.pages[-1]) if one.pages else []),
            Decision("grant", "hit", tuple(one.pages)),
        ]

    def poll(self, ask: Ask) -> Deciding:
        """End a prefetch, and cache what all have read."""
        one, read = self.reads.get(ask.rid), self.events.get(("read", ask.rid), Local(self.number, "read"))
        if one is None:
            return []
        done = one.noted and read.pages >= len(one.pages) and read.state >= min(1, self.world.state_slots)
        late = self.world.stop == "timeout" and self.clock - one.began > self.world.limit
        may = done or late or self.world.stop == "best_effort"
        failed = ("failed", ask.rid) in self.events
        rows = yield from self.gather(int(may), int(failed), read.pages if one.noted else 0, read.state)
        if not (all(row[0] for row in rows) or any(row[1] for row in rows)):
            return []
        kept = one.pages[: min(row[2] for row in rows)]
        whole = one.noted and len(kept) == len(one.pages) > 0 and all(row[3] for row in rows)
        place = kept[-1:] if whole and self.world.state_slots else []
        self.drop(ask.rid)
        self.host = [*kept, *[page for page in self.host if page not in kept]]
        self.states = [*place, *[page for page in self.states if page not in place]]
        return [*self.about("commit", *place), Decision("commit", "kv", tuple(kept))]

    def abort(self, ask: Ask) -> Deciding:
        """Nothing is asked of anybody: all ranks get the call."""
        self.drop(ask.rid)
        yield from ()
        return []

    def drop(self, rid: int) -> None:
        """A prefetch is over."""
        self.reads.pop(rid, None)
        self.forget(rid)

    def forget(self, rid: int) -> None:
        """What happened to the prefetch of this number before is of no use to another one."""
        for what in ("found", "read", "failed"):
            self.events.pop((what, rid), None)


class GatheringRanks:
    """All ranks, behind the ports; none can be lost, for an abort asks nobody."""

    def __init__(self) -> None:
        self.ranks: dict[int, GatheringRank] = {}

    def ranks_start(self, world: World) -> None:
        """Begin anew, without pipelines."""
        if any(len(tree) > 1 for tree in world.trees):
            raise NotImplementedError
        self.ranks = {number: GatheringRank(world, number) for number in world.ranks}

    def ranks_ask(self, rank: int, ask: Ask) -> Deciding:
        """A call on one rank; nothing is loaded back."""
        if ask.what == "load":
            raise NotImplementedError
        return self.ranks[rank].ask(ask)

    def ranks_local(self, event: Local) -> Sequence[Prefix] | None:
        """Something happens to one rank alone."""
        rank = self.ranks[event.rank]
        if event.what in ("die", "restart"):
            raise NotImplementedError
        if event.what == "clock":
            rank.clock = event.pages
        elif event.what == "pinch":
            rank.others = (event.pages, event.state)
        elif event.what == "attach":
            rank.attached = bool(event.pages)
        else:
            rank.events[event.what, event.rid] = event
        return None

    def ranks_view(self, rank: int) -> RankView:
        """A look at one rank."""
        one = self.ranks[rank]
        held = tuple((rid, tuple(read.pages), 0) for rid, read in one.reads.items())
        free = (one.world.pages - len(one.device), one.host_free, one.world.window_pages)
        return RankView(tuple(one.device), tuple(one.host), (), (), held, (), *free)

    def ranks_states(self, rank: int) -> StatesView:
        """A look at its states."""
        one = self.ranks[rank]
        held = tuple((rid, read.pages[-1]) for rid, read in one.reads.items())
        return StatesView(tuple(one.states), held, one.state_free)
