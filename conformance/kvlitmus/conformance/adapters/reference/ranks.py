"""The reference's ranks behind the ports: each call is the pure model's, and the new value replaces the old one."""

from __future__ import annotations

from collections.abc import Generator

from kvlitmus.reference import ranks
from kvlitmus.spec.interface.ranks import Ask, Decision, Exchange, Local, RankView, StatesView, World


class RankedReference:
    """Several ranks of the reference."""

    def __init__(self) -> None:
        self.ranks: dict[int, ranks.Rank] = {}

    def ranks_start(self, world: World) -> None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        self.ranks = {number: ranks.Rank(world, number) for number in world.ranks}

    def ranks_ask(self, rank: int, ask: Ask) -> Generator[Exchange, tuple[int, ...], tuple[Decision, ...]]:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        self.ranks[rank], decisions = yield from ranks.call(self.ranks[rank], ask)
        return decisions

    def ranks_local(self, event: Local) -> None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        self.ranks[event.rank] = ranks.happened(self.ranks[event.rank], event)

    def ranks_view(self, rank: int) -> RankView:
        """See :class:`~kvlitmus.spec.interface.ranks.RanksView`."""
        return ranks.view(self.ranks[rank])

    def ranks_states(self, rank: int) -> StatesView:
        """See :class:`~kvlitmus.spec.interface.ranks.RanksStates`."""
        return ranks.states_view(self.ranks[rank])
