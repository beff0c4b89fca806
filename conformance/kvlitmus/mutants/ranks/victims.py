"""Mutants of one rank of several that say of victims what isn't so: equal names on all ranks, and other deeds."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.ranks import Deciding, RankCache, Read
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface.ranks import Ask, Decision, Prefix


@mutant("rank-names-other-victims", kills=("RANKS-29",))
class NamesOtherVictims(RankCache):
    """The pages that an eviction is to free are chosen when it is asked for, and anew when it is made: what was named
    stays, and others go.
    """

    def ask_evict(self, ask: Ask) -> Deciding:
        named = self.victims("device", ask.pages, set())
        self.device = dict.fromkeys([*[page for page in self.device if page not in named], *named])
        gone = self.evict_device(ask.pages, set())
        yield from ()
        return [Decision(gone.kind, gone.of, tuple(named))]


@mutant("rank-names-more-victims-than-go", kills=("RANKS-29",))
class NamesMoreVictimsThanGo(RankCache):
    """An eviction names all that could go where less was asked for."""

    def evict_host(self, many: int, kept: set[Prefix]) -> Decision:
        named = self.victims("host", max(0, many) * 2, kept)
        super().evict_host(many, kept)
        return Decision("victims", "host", tuple(named))


@mutant("rank-evicts-without-a-word", kills=("RANKS-30",))
class EvictsWithoutAWord(RankCache):
    """Pages that go for a load back are no victims to anybody: what was asked for was a load."""

    def ask_load(self, ask: Ask) -> Deciding:
        decisions = yield from super().ask_load(ask)
        return [one for one in decisions if one.kind != "victims"]


@mutant("rank-windows-go-without-a-word", kills=("RANKS-30",))
class WindowsGoWithoutAWord(RankCache):
    """Windows that are dropped for another one are not named, though their pages stay."""

    def evict_windows(self, wanted: int) -> Decision:
        super().evict_windows(wanted)
        return Decision("victims", "window", ())


@mutant("rank-commit-drops-a-state", kills=("RANKS-30",))
class CommitDropsAState(RankCache):
    """A prefetch that ends without a state takes the one away that its boundary has by then."""

    def attach_state(self, one: Read, place: Sequence[Prefix]) -> None:
        super().attach_state(one, place)
        for page in one.states:
            if not place:
                self.drop_state(page)
