"""Mutants of one rank of several, where another one is gone: what it takes before, and does when told."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.ranks import Deciding, Exchanging, RankCache, RankLink
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface.ranks import Ask, GroupLost

_SGLANG = "https://github.com/sgl-project/sglang/"


@mutant("rank-reserves-before-all-agree", bugs=("S60",), links=(_SGLANG + "pull/31425",), kills=("RANKS-25",))
class ReservesBeforeAllAgree(RankCache):
    """A prefetch takes a page for itself first and asks the others then: where one is gone, nobody gives the page
    back.
    """

    def ask_prefetch(self, ask: Ask) -> Deciding:
        held = min(1, self.host_free)
        self.host_free -= held
        decisions = yield from super().ask_prefetch(ask)
        self.host_free += held
        return decisions


class _Alone(RankLink):
    """Takes what it has itself where the others can't be asked."""

    def agree(self, op: str, layout: Sequence[str], values: Sequence[int]) -> Exchanging:
        """What all have, or what this rank has."""
        try:
            return (yield from super().agree(op, layout, values))
        except GroupLost:
            if self.number != self.world.ranks[0]:
                raise
            return list(values)


@mutant("rank-goes-on-alone", kills=("RANKS-24",))
class GoesOnAlone(RankCache):
    """Where another rank is gone the first one decides by what it has itself, though the others have been told."""

    link = _Alone


class _AllAlone(RankLink):
    """Takes what it has itself, whichever rank it is."""

    def agree(self, op: str, layout: Sequence[str], values: Sequence[int]) -> Exchanging:
        """What all have, or what this rank has."""
        try:
            return (yield from super().agree(op, layout, values))
        except GroupLost:
            return list(values)


@mutant("rank-survivors-go-on-alone", kills=("RANKS-24", "RANKS-25"))
class SurvivorsGoOnAlone(RankCache):
    """Where another rank is gone every other one decides by what it has itself: of two ranks nobody says it."""

    link = _AllAlone


@mutant("rank-that-is-told-lets-go", kills=("RANKS-25",))
class ThatIsToldLetsGo(RankCache):
    """An abort is told that a rank is gone, gives back what this rank's prefetch holds, and returns as if all had."""

    def ask_abort(self, ask: Ask) -> Deciding:
        try:
            return (yield from super().ask_abort(ask))
        except GroupLost:
            self.drop(ask.rid)
            return []


@mutant("rank-rejoins-as-it-is", kills=("RANKS-03",))
class RejoinsAsItIs(RankCache):
    """A rank that was gone comes back empty, and the others keep their trees."""

    def ask_rejoin(self, ask: Ask) -> Deciding:
        yield from self.to_all.agree("min", ("whole",), (int(self.whole),))
        self.whole = True
        return []
