"""Components of the compiled core beside the reference's: each call on both, and all that there is after it.

Which of the free places are taken is nobody's promise: the reference takes those that the core took.  The core asks of
components in their order, and so does the reference here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kvlitmus.conformance.adapters.optimized.components import ComponentTarget, OptimizedComponents
from kvlitmus.conformance.adapters.reference.components import ReferenceComponents
from kvlitmus.conformance.ports import Config, Profile, Sizes
from kvlitmus.reference.prefix.components import tree as model
from kvlitmus.reference.prefix.components.perform import ticked
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.prefix.calls import Alloc
from kvlitmus.spec.prefix.components.calls import Entries
from kvlitmus.spec.prefix.components.state import pool_places
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.words.units import Key

Answer = TypeVar("Answer")
Prefix = tuple[str, str | None, tuple[object, ...]]


class EntryLook(NamedTuple):
    """All that is known of an entry; when it was used and stored, as a place in the order of these times."""

    place: int
    touched: int
    created: int
    hits: int
    needed: bool


class Look(NamedTuple):
    """All that there is."""

    entries: dict[Prefix, EntryLook]
    free: dict[str, list[int]]
    available: Mapping[str, int]
    sizes: Mapping[str, Sizes]


def ranked(rows: Mapping[Prefix, tuple[int, int, int, int, bool]]) -> dict[Prefix, EntryLook]:
    """Rows of place, times of use and insertion, hits and need, with times as places in their order."""
    orders = [{tick: at for at, tick in enumerate(sorted({row[part] for row in rows.values()}))} for part in (1, 2)]
    return {
        at: EntryLook(row[0], orders[0][row[1]], orders[1][row[2]], row[3], row[4])
        for at, row in sorted(rows.items(), key=str)
    }


def look(one: OptimizedComponents) -> Look:
    """The core's."""
    rows: dict[Prefix, tuple[int, int, int, int, bool]] = {}
    for component, (namespace, units), place, (touched, created, hits, pins) in one.tree.entries():
        at = (one.names[component], namespace, one.spelled(units))
        assert at not in rows, "an entry is cached twice"
        rows[at] = (place, touched, created, hits, bool(pins))
    free = {pool: sorted(places) for pool, places in one.component_free_places().items()}
    return Look(ranked(rows), free, one.component_available(), one.component_sizes())


def expected(other: ReferenceComponents) -> Look:
    """The same of the reference."""
    prefix, needed = other.setting.names.prefix, other.cache.covered(DEVICE)
    rows: dict[Prefix, tuple[int, int, int, int, bool]] = {
        (at[0], *prefix(at[1])): (page.page, page.touched, page.created, page.hits, at in needed)
        for at, page in model.cached(other.cache).items()
    }
    free = {pool: sorted(places) for pool, places in other.component_free_places().items()}
    return Look(ranked(rows), free, other.component_available(), other.component_sizes())


class Handle(NamedTuple):
    """The handle of a hit of both."""

    mine: tuple[Any, Any]
    other: object


class Pair(OptimizedComponents):
    """The ports of the core; after each call the reference has done the same, or an assertion says what differs."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.other = ReferenceComponents(config, profile)
        self.told: list[ComponentEvent] = []
        self.receipts: dict[object, int] = {}
        self.fetches: dict[object, int] = {}

    def both(
        self, mine: Callable[[], Any], other: Callable[[], Any], same: Callable[[Any], Any] = lambda one: one
    ) -> Any:
        """Make a call on both, and compare what ``same`` makes of the answers; both refuse or neither."""
        found = due = error = refused = None
        try:
            found = mine()
        except ValueError as raised:
            error = raised
        try:
            due = other()
        except ValueError as raised:
            refused = raised
        assert (error is None) == (refused is None), (
            f"the core answers {error or found!r}, the reference {refused or due!r}"
        )
        if error is not None:
            self.compare()
            raise error
        assert same(found) == same(due), f"the core answers {found!r}, the reference {due!r}"
        return found

    def compare(self) -> None:
        """Compare all that there is, and what was told since."""
        told, due = super().component_events(), self.other.component_events()
        self.told += told
        everything = [one for one in told if one.what == "cleared"]
        assert everything or sorted(told, key=str) == sorted(due, key=str), (
            f"the core tells {told}, the reference {due}"
        )
        mine, theirs = look(self), expected(self.other)
        assert mine == theirs, f"the core has\n{mine}\nthe reference\n{theirs}"

    def made(self, answer: Answer) -> Answer:
        """The answer of a call, after which both are compared."""
        self.compare()
        return answer

    def in_order(self, wants: Mapping[str, int]) -> dict[str, int]:
        """The same in the order of the components."""
        return {name: wants[name] for name in (*self.names, *wants) if name in wants}

    def pools_of(self, given: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
        """Places by their pools: of several components that share one the core and the reference may name another."""
        return sorted((self.layout.named(name).pool, place) for name, some in given.items() for place in some)

    def found(self, handle: object) -> tuple[Any, Any]:
        """The core's part of a handle."""
        return super().found(handle.mine if isinstance(handle, Handle) else handle)

    def of_reference(self, handle: object) -> Any:
        """The reference's."""
        if not isinstance(handle, Handle):
            raise ValueError("this is no handle")
        return handle.other

    def component_match(self, key: Key) -> tuple[int, Any, object]:
        self.units(key)  # or it is refused before anybody is asked
        answers: list[object] = []

        def other() -> tuple[int, Entries]:
            length, entries, handle = self.other.component_match(key)
            answers.append(handle)
            return length, entries

        def mine() -> tuple[int, Any]:
            length, places, handle = OptimizedComponents.component_match(self, key)
            answers.append(handle)
            return length, places

        def same(answer: tuple[int, Mapping[str, Sequence[int]]]) -> object:
            return answer[0], {name: list(some) for name, some in answer[1].items() if len(some)}

        length, places = self.both(mine, other, same)
        assert isinstance(answers[0], tuple)
        return self.made((length, places, Handle(answers[0], answers[1])))

    def component_reset(self) -> None:
        super().component_reset()
        self.other.component_reset()
        self.compare()

    def component_alloc(self, wants: Mapping[str, int]) -> Any:
        before, wants = self.other.cache, self.in_order(wants)

        def same(answer: Any) -> object:
            return None if answer is None else {name: len(some) for name, some in answer.items() if len(some)}

        granted = self.both(
            lambda: OptimizedComponents.component_alloc(self, wants), lambda: self.other.component_alloc(wants), same
        )
        if granted:
            taken = self.pools_of(granted)
            free = model.free_places(before, self.other.setting)
            assert len(set(taken)) == len(taken) and all(place in free[pool] for pool, place in taken), "not free"
            answer = {name: tuple(granted.get(name, ())) for name in wants}
            self.other.cache = model.folded(ticked(before), self.other.setting, Alloc(wants), answer)
        return self.made(granted)

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        self.both(lambda: OptimizedComponents.component_free(self, given), lambda: self.other.component_free(given))
        self.compare()

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Any:
        return self.made(
            self.both(
                lambda: OptimizedComponents.component_insert(self, key, entries),
                lambda: self.other.component_insert(key, entries),
                self.pools_of,
            )
        )

    def component_lock(self, handle: object) -> tuple[int, Any]:
        def same(answer: tuple[object, Mapping[str, Sequence[int]]]) -> object:
            return {name: list(ends) for name, ends in answer[1].items() if len(ends)}

        def other() -> tuple[object, Entries]:
            return self.other.component_lock(self.of_reference(handle))

        mine, cover = self.both(lambda: OptimizedComponents.component_lock(self, handle), other, same)
        self.receipts[mine] = max(self.other.cache.covers)
        return self.made((mine, cover))

    def component_unlock(self, receipt: object) -> None:
        def other() -> None:
            self.other.component_unlock(self.receipts.get(receipt, -1))

        self.both(lambda: OptimizedComponents.component_unlock(self, receipt), other)
        self.compare()

    def component_evict(self, wants: Mapping[str, int]) -> Mapping[str, int]:
        wants = self.in_order(wants)
        freed: Mapping[str, int] = self.both(
            lambda: OptimizedComponents.component_evict(self, wants), lambda: self.other.component_evict(wants)
        )
        return self.made(freed)

    # -- prefetches ------------------------------------------------------------------------------

    def component_prefetch(self, handle: object, key: Key, threshold: int) -> Any:
        def same(answer: Any) -> object:
            return answer[0] is None, {name: len(some) for name, some in answer[1].items() if some}, +Counter(answer[2])

        number, places, freed = self.both(
            lambda: OptimizedComponents.component_prefetch(self, handle, key, threshold),
            lambda: self.other.component_prefetch(self.of_reference(handle), key, threshold),
            same,
        )
        if number is not None:
            cache, begun = self.other.cache, max(self.other.cache.fetches)
            one = cache.fetches[begun]._replace(reserved=pool_places(self.layout, places))
            self.other.cache = cache._replace(fetches={**cache.fetches, begun: one})
            self.fetches[number] = begun
        return self.made((number, places, freed))

    def numbered_by_reference(self, fetch: object) -> int:
        """What the reference knows a prefetch by."""
        return int(self.fetches.get(fetch, -1))

    def component_prefetch_found(self, fetch: object, stored: Mapping[str, Sequence[int]]) -> Any:
        number = self.numbered_by_reference(fetch)

        def same(answer: Any) -> object:
            return answer[0], {name: sorted(some) for name, some in answer[1].items() if some}, answer[2]

        boundary, reads, returned = self.both(
            lambda: OptimizedComponents.component_prefetch_found(self, fetch, stored),
            lambda: self.other.component_prefetch_found(number, stored),
            same,
        )
        cache = self.other.cache
        one = cache.fetches[number]._replace(reads=reads)
        into = self.pools_of({name: list(some.values()) for name, some in reads.items()})
        assert len(set(into)) == len(into) and set(into) <= one.reserved, "it reads into places that are not its own"
        self.other.cache = cache._replace(fetches={**cache.fetches, number: one})
        return self.made((boundary, reads, returned))

    def component_prefetch_settled(self, fetch: object) -> Any:
        number = self.numbered_by_reference(fetch)
        return self.made(
            self.both(
                lambda: OptimizedComponents.component_prefetch_settled(self, fetch),
                lambda: self.other.component_prefetch_settled(number),
                self.pools_of,
            )
        )

    def component_prefetch_commit(self, fetch: object, came: Mapping[str, Sequence[int]]) -> Any:
        number = self.numbered_by_reference(fetch)
        return self.made(
            self.both(
                lambda: OptimizedComponents.component_prefetch_commit(self, fetch, came),
                lambda: self.other.component_prefetch_commit(number, came),
                lambda answer: (answer[0], self.pools_of(answer[1])),
            )
        )

    def component_prefetch_abort(self, fetch: object) -> Any:
        number = self.numbered_by_reference(fetch)
        return self.made(
            self.both(
                lambda: OptimizedComponents.component_prefetch_abort(self, fetch),
                lambda: self.other.component_prefetch_abort(number),
                self.pools_of,
            )
        )

    def component_events(self) -> Sequence[ComponentEvent]:
        told, self.told = self.told, []
        return told


class PairTarget(ComponentTarget):
    """What makes such pairs."""

    def make(self, config: Config) -> Pair:
        """A fresh pair."""
        return Pair(config, self.profile)
