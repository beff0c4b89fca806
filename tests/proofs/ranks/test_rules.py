"""Two ranks with all delays: every state of small scopes is reached, and every rule of ranks holds in it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from kvlitmus.conformance.adapters.reference.ranks import RankedReference
from kvlitmus.reference import ranks
from kvlitmus.spec.interface.ranks import Ask, Decision, Exchange, Local
from kvlitmus.spec.parts import rules_of
from tests.proofs.support.rank_search import SCOPES, found, search
from tests.support.night import by_turns

pytestmark = pytest.mark.proof


AT_NIGHT = {"copies", "lost", "states", "timeout"}
"""By day the others are searched; slips are planted in these too."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in AT_NIGHT)) for name in SCOPES]
)
def test_every_rule_holds_in_every_state_of_two_ranks(name: str) -> None:
    report = found(name)
    assert (report.broken, report.path) == ((), ())
    assert report.states > 100
    print(f"{name}: {report.states} states, {report.steps} steps")


@pytest.mark.nightly
def test_every_rule_of_ranks_is_evaluated_in_some_search() -> None:
    evaluated = {id for name in SCOPES for id, times in found(name).evaluated.items() if times}
    assert {one.id for one in rules_of("ranks")} <= evaluated


class OwnAcks(RankedReference):
    """Each rank notes the copies that have ended on it."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        mine = self.ranks[rank]
        common = yield from ranks.agree(mine.world, rank, ranks.layout(mine, ask), ranks.contribute(mine, ask))
        if ask.what == "acks":
            common = ranks.contribute(mine, ask)
        self.ranks[rank], decisions = ranks.settle(mine, ask, common)
        return decisions


class SkipsAcks(RankedReference):
    """A rank of whose copies none has ended enters nothing."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        if ask.what == "acks" and not self.ranks[rank].own.wrote:
            return ()
        return (yield from super().ranks_ask(rank, ask))


class LeastLength(RankedReference):
    """What storage has is the least of the longest boundaries."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        mine = self.ranks[rank]
        one = mine.reading.get(ask.rid)
        if ask.what != "hit" or one is None or one.hit is not None:
            return (yield from super().ranks_ask(rank, ask))
        own = mine.own.found.get(ask.rid)
        values = (int(own is not None), max(own or (), default=0))
        answered, hit = yield from ranks.agree(mine.world, rank, ("answered", "pages"), values)
        flags = [int(at == hit) for at in range(1, len(one.pages) + 1)]
        self.ranks[rank], decisions = ranks.settle(mine, ask, (answered, *flags))
        return decisions


class EvictsByNumber(RankedReference):
    """The second rank evicts in another order."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        if ask.what == "evict" and rank:
            mine = self.ranks[rank]
            self.ranks[rank] = mine._replace(device=mine.device[::-1])
        return (yield from super().ranks_ask(rank, ask))


class StateOfALongerPrefix(RankedReference):
    """A commit of less than storage has gets the state that was read."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        mine = self.ranks[rank]
        one = mine.reading.get(ask.rid)
        if ask.what != "poll" or one is None or one.hit is None:
            return (yield from super().ranks_ask(rank, ask))
        common = yield from ranks.agree(mine.world, rank, ranks.layout(mine, ask), ranks.contribute(mine, ask))
        if ranks.terminates(bool(common[0]), not common[1]):
            less = one._replace(hit=min(one.hit, common[2]))
            mine = mine._replace(reading={**mine.reading, ask.rid: less})
        self.ranks[rank], decisions = ranks.settle(mine, ask, common)
        return decisions


class StatesAsTheyAre(RankedReference):
    """What storage has is agreed on for KV alone."""

    def ranks_local(self, event: Local) -> None:
        super().ranks_local(event._replace(states=event.boundaries) if event.what == "found" else event)


class OwnStateRoom(RankedReference):
    """Whether there is an entry for a state is asked of each rank alone."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        mine = self.ranks[rank]
        values = ranks.contribute(mine, ask)
        common = yield from ranks.agree(mine.world, rank, ranks.layout(mine, ask), values)
        if ask.what == "prefetch":
            common = (*common[:-2], *values[-2:])
        self.ranks[rank], decisions = ranks.settle(mine, ask, common)
        return decisions


class KeepsTheState(RankedReference):
    """An abort leaves the state where it was, at the first page of the prefetch."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        one = self.ranks[rank].reading.get(ask.rid)
        decisions = yield from super().ranks_ask(rank, ask)
        if ask.what == "abort" and one is not None:
            self.ranks[rank] = self.ranks[rank]._replace(states=one.pages[:1])
        return decisions


class NamesAnother(RankedReference):
    """An eviction names the page before the one that goes."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        decisions = yield from super().ranks_ask(rank, ask)
        return tuple(
            one._replace(prefixes=tuple(page[:-1] or page for page in one.prefixes)) if one.kind == "victims" else one
            for one in decisions
        )


class EvictsInSilence(RankedReference):
    """What goes is not named."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        decisions = yield from super().ranks_ask(rank, ask)
        return tuple(one for one in decisions if one.kind != "victims")


class LoadsByMatching(RankedReference):
    """A match puts what the host has on the device, too."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        decisions = yield from super().ranks_ask(rank, ask)
        mine = self.ranks[rank]
        more = tuple(page for page in mine.host if page not in (*mine.device, *mine.loading))[: mine.device_free]
        if ask.what == "match":
            self.ranks[rank] = mine._replace(device=mine.device + more)
        return decisions


class PollCuts(RankedReference):
    """A poll of a prefetch that goes on gives its last page back."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        decisions = yield from super().ranks_ask(rank, ask)
        mine = self.ranks[rank]
        one = mine.reading.get(ask.rid)
        if ask.what == "poll" and one is not None and len(one.pages) > 1:
            cut = {**mine.reading, ask.rid: one._replace(pages=one.pages[:-1])}
            self.ranks[rank] = mine._replace(reading=cut)
        return decisions


class NamesWhatIsNotCached(RankedReference):
    """An insert names the whole key as cached."""

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        decisions = yield from super().ranks_ask(rank, ask)
        whole = ranks.pages_of(ask.key)
        return tuple(one._replace(prefixes=whole) if one[:2] == ("commit", "device") else one for one in decisions)


class FreesWhatIsWritten(RankedReference):
    """A page goes from every device where its copy has ended on one rank."""

    def ranks_local(self, event: Local) -> None:
        super().ranks_local(event)
        if event.what == "wrote":
            self.ranks = {
                rank: one._replace(device=tuple(page for page in one.device if page != event.key))
                for rank, one in self.ranks.items()
            }


@pytest.mark.parametrize(
    ("make", "scope", "rules", "steps"),
    by_turns(
        [
            (OwnAcks, "copies", {"RANKS-01"}, 8),
            (SkipsAcks, "copies", {"RANKS-04", "RANKS-06"}, 8),
            (EvictsByNumber, "copies", {"RANKS-02", "RANKS-03"}, 8),
            (LeastLength, "prefetch", {"RANKS-19"}, 8),
            (LeastLength, "states", {"RANKS-19"}, 8),
            (StatesAsTheyAre, "states", {"RANKS-19"}, 8),
            (KeepsTheState, "states", {"RANKS-31"}, 8),
            (StateOfALongerPrefix, "states", {"RANKS-16"}, 10),
            (OwnStateRoom, "state room", {"RANKS-01"}, 8),
            (NamesAnother, "copies", {"RANKS-29"}, 8),
            (EvictsInSilence, "copies", {"RANKS-30"}, 8),
            (LoadsByMatching, "copies", {"RANKS-31"}, 8),
            (PollCuts, "prefetch", {"RANKS-32"}, 8),
            (NamesWhatIsNotCached, "copies", {"RANKS-29"}, 8),
            (FreesWhatIsWritten, "copies", {"RANKS-30"}, 8),
        ]
    ),
)
def test_a_planted_slip_is_found(make: type[RankedReference], scope: str, rules: set[str], steps: int) -> None:
    report = search(SCOPES[scope], make)
    assert rules & set(report.broken), report
    assert len(report.path) <= steps
