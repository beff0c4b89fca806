"""What else happens in a call: one foreign effect of each kind; and victims that go in reverse."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

from kvlitmus.conformance.specimen.cache import made_of
from kvlitmus.conformance.specimen.components.host import ComponentCopier
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentTree
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import RadixTree
from kvlitmus.conformance.specimen.ranks import RankCache
from kvlitmus.conformance.specimen.sparse import RowTable
from kvlitmus.mutants.adversaries.meddler import Act, Asked
from kvlitmus.mutants.components import disturbances as of_components
from kvlitmus.mutants.disturb_kinds import Way
from kvlitmus.mutants.prefix import disturbances as of_prefixes
from kvlitmus.mutants.ranks import disturbances as of_ranks
from kvlitmus.mutants.sparse import disturbances as of_rows
from kvlitmus.spec.interface.ranks import Decision, Prefix
from kvlitmus.spec.ledger.cells import Family

Effect = Callable[[Asked], bool]
"""Something that happens to the cache of a call; whether it could."""

OTHER_KEY = "f" * 64
"""The name of a page that nobody puts."""


def foreign(family: Family) -> Iterator[tuple[str, Effect]]:
    """The effects that a cache of this family can have, each with how it is brought about."""
    match family:
        case Family.FLAT | Family.TIERS:
            tiered = family is Family.TIERS
            tables = (
                of_prefixes.DISTURBANCES if tiered else of_prefixes.FLAT,
                of_prefixes.WRONG_SUBJECTS if tiered else of_prefixes.FLAT_WRONG,
            )
            for table in tables:
                for ways in table.values():
                    yield from ((str(way.__doc__).rstrip("."), on_cache(way)) for way in ways)
        case Family.COMPONENTS | Family.REQUESTS:
            for way in of_components.WAYS:
                yield way.how, on_kind(way)
        case Family.SPARSE:
            for way in of_rows.WAYS:
                yield way.how, on_kind(way)
        case Family.RANKS:
            for how, change in (*of_ranks.SHOWING, *of_ranks.LASTING):
                yield how, on_rank(change)
        case Family.STORES:
            yield from STORED.items()
        case Family.PURE:
            return


def on_cache(way: Callable[[Any], bool]) -> Effect:
    """An effect on the cache, whatever the call was."""
    return lambda asked: way(asked.cache)


class About(NamedTuple):
    """What a call is about, as far as a way asks: its row."""

    row: object


def on_kind(way: Way) -> Effect:
    """An effect on a cache of another kind; a row is the first argument."""
    return lambda asked: way.do(asked.cache, About(asked.args[0] if asked.args else None), ())


def on_rank(change: Callable[[RankCache], bool]) -> Effect:
    """An effect on the rank of the call."""
    return lambda asked: change(asked.cache.ranks[rank_of(asked)])


def rank_of(asked: Asked) -> int:
    """The rank that a call is made on."""
    first = asked.args[0]
    return int(first if isinstance(first, int) else first.rank)


def cleared(asked: Asked) -> bool:
    """Everything is removed."""
    asked.cache.store_clear()
    return True


def overwritten(asked: Asked) -> bool:
    """A key of the call has another page, of as many bytes, when the call is over."""
    if not asked.args or not asked.args[0] or asked.call.__name__ == "store_clear":
        return False
    size = len(asked.args[1][0]) if asked.call.__name__ == "store_put" else 0
    if not size:
        return False
    asked.cache.store_clear()
    return bool(asked.cache.store_put(asked.args[0][:1], [b"\x7f" * size])[0])


STORED: Mapping[str, Effect] = {"everything is removed": cleared, "the first key has another page": overwritten}
"""What can happen to a page store."""


def beside(effect: Effect) -> Act:
    """Make a call, and have something else happen before it is over."""

    def do(asked: Asked) -> Any:
        answer = asked.again()
        if isinstance(answer, Generator):
            return ended(answer, asked, effect)
        if effect(asked):
            asked.done()
        return answer

    return do


def ended(turns: Generator[Any, Any, Any], asked: Asked, effect: Effect) -> Generator[Any, Any, Any]:
    """A call on a rank, at whose end something else happens."""
    decisions = yield from turns
    if effect(asked):
        asked.done()
    return decisions


class Turned:
    """Says of what is worth most that it is worth least, while it is ``turned``; ``compared`` counts."""

    turned = False
    compared = 0

    def turn(self, worth: tuple[int, ...]) -> tuple[int, ...]:
        """What it says of something that is worth this."""
        if not self.turned:
            return worth
        self.compared += 1
        return tuple(-one for one in worth)


class TurnedTree(Turned, RadixTree):
    """A tree whose victims go in reverse."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        usual = self.worth
        self.worth = lambda node: self.turn(usual(node))


class TurnedTiers(Turned, TierTree):
    """The same, of a hierarchy: on both tiers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        usual = self.worth
        self.worth = lambda node: self.turn(usual(node))


class TurnedComponents(Turned, ComponentTree):
    """The same, of components on the device."""

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        return self.turn(super().worth(node))


class TurnedCopier(Turned, ComponentCopier):
    """The same, of components on the host."""

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        return self.turn(super().worth(node))


class TurnedRank(RankCache):
    """A rank whose victims go in reverse."""

    turned = False
    compared = 0

    def order(self, tier: str) -> list[Any]:
        found = super().order(tier)
        if self.turned:
            found.reverse()
        return found

    def evict_device(self, many: int, kept: set[Prefix]) -> Decision:
        return self.counted(super().evict_device(many, kept))

    def evict_host(self, many: int, kept: set[Prefix]) -> Decision:
        return self.counted(super().evict_host(many, kept))

    def counted(self, victims: Decision) -> Decision:
        """Victims that went while it was turned; where none went nothing was."""
        self.compared += 2 * (self.turned and bool(victims.prefixes))
        return victims

    def wrote(self, pages: list[Prefix]) -> Decision:
        return super().wrote(self.in_turn(pages))

    def loaded(self, pages: list[Prefix]) -> Decision:
        return super().loaded(self.in_turn(pages))

    def in_turn(self, pages: list[Prefix]) -> list[Prefix]:
        """Copies that are acknowledged, the last first."""
        if not self.turned:
            return pages
        self.compared += len(pages)
        return pages[::-1]


class TurnedRows(Turned, RowTable):
    """Places of a buffer, and rows to be acknowledged, that go in reverse."""

    def victim(self, idle: list[int]) -> int:
        if not self.turned:
            return super().victim(idle)
        self.compared += len(idle)
        return super().victim(idle[::-1])

    def ready(self) -> list[int]:
        found = super().ready()
        if self.turned:
            self.compared += len(found)
            found.reverse()
        return found


TURNED: Parts = made_of(TurnedTree, TurnedTiers, TurnedComponents, TurnedCopier, TurnedRank, TurnedRows)
"""The specimen whose victims can be turned."""


def turning_of(asked: Asked) -> list[Any]:
    """What of a cache can be turned."""
    if hasattr(asked.cache, "ranks"):
        return [asked.cache.ranks[rank_of(asked)]]
    parts = (getattr(asked.cache, name, None) for name in ("tree", "copies", "table"))
    return [one for one in parts if hasattr(one, "turned")]


def in_reverse(asked: Asked) -> Any:
    """What goes for the call goes in reverse: what is worth most goes first."""
    parts = turning_of(asked)
    before = sum(one.compared for one in parts)

    def over() -> None:
        for one in parts:
            one.turned = False
        if sum(one.compared for one in parts) > before + 1:
            asked.done()

    for one in parts:
        one.turned = True
    answer = asked.again()
    if isinstance(answer, Generator):
        return turned_turns(answer, over)
    over()
    return answer


def turned_turns(turns: Generator[Any, Any, Any], over: Callable[[], None]) -> Generator[Any, Any, Any]:
    """A call on a rank whose victims go in reverse until it is over."""
    try:
        decisions = yield from turns
    finally:
        over()
    return decisions
