"""Observation: a look that shows what the look before showed shares what was read then, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.conformance.checker.observation import Observer
from kvlitmus.conformance.checker.tier_observation import TierObserver
from kvlitmus.conformance.ports import NodeView, View
from kvlitmus.spec.interface.tiers import TierNode, TierView
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.words.names import Names

PARENT = NodeView(-1, None, (1, 2), (0, 1), 0, 0, 0)
CHILD = NodeView(0, None, (3,), (2,), 0, 0, 0)
OTHER = NodeView(0, None, (4,), (2,), 0, 0, 0)
SIBLING = NodeView(-1, "other", (1,), (3,), 1, 2, 3)


def looked(*looks: tuple[Any, ...]) -> list[Seen]:
    """What one observer sees, look by look."""
    observer = Observer(Names(), 1)
    return [observer.read(None, None, View((4, 5), list(rows))) for rows in looks]


def told(seen: Seen) -> tuple[Any, ...]:
    """What was read of the nodes."""
    return seen.cached, seen.cached_listed, seen.parents, seen.nodes, seen.broken, seen.listed, seen.free


def test_a_look_like_the_one_before_shares_what_was_read() -> None:
    first, again = looked((PARENT, CHILD), (PARENT, CHILD))

    assert again.cached is first.cached and again.nodes is first.nodes
    assert told(again) == told(first)


@pytest.mark.parametrize("steady", [False, True])
def test_the_very_list_of_the_look_before_is_read_again_unless_it_is_the_suites_own(steady: bool) -> None:
    observer, rows = Observer(Names(), 1, steady=steady), [PARENT, CHILD]
    first = observer.read(None, None, View((4, 5), rows))
    rows[1] = OTHER
    again = observer.read(None, None, View((4, 5), rows))

    assert (told(again) == told(first)) is steady
    observer.forget()
    assert observer.read(None, None, View((4, 5), rows)).cached != first.cached


@pytest.mark.parametrize("first", [PARENT._replace(locks=1), PARENT._replace(hits=None, priority=7)])
def test_what_is_cached_is_shared_where_nodes_say_other_things_of_themselves(first: NodeView) -> None:
    before, after = looked((PARENT, CHILD), (first, CHILD))

    assert after.cached is before.cached and after.nodes != before.nodes


@pytest.mark.parametrize(
    "rows",
    [
        (PARENT,),
        (PARENT, OTHER),
        (PARENT, CHILD, SIBLING),
        (SIBLING, PARENT, CHILD._replace(parent=1)),
        (PARENT._replace(units=(1, 9)), CHILD),
        (PARENT._replace(locks=1), CHILD),
        (PARENT._replace(hits=None), CHILD),
        (PARENT._replace(namespace="other"), CHILD),
        (PARENT, CHILD._replace(slots=(3,))),
        (),
    ],
)
def test_whatever_differs_is_read_as_if_nothing_had_been_seen_before(rows: tuple[NodeView, ...]) -> None:
    names = Names()
    observer = Observer(names, 1)
    observer.read(None, None, View((4, 5), [PARENT, CHILD]))
    seen = observer.read(None, None, View((4, 6), list(rows)))

    assert told(seen) == told(Observer(names, 1).read(None, None, View((4, 6), list(rows))))


def test_what_is_equal_and_no_integer_is_not_taken_for_what_was_there() -> None:
    observer = Observer(Names(), 1)
    observer.read(None, None, View((), [SIBLING]))

    with pytest.raises(ValueError, match="must be integers"):
        observer.read(None, None, View((), [SIBLING._replace(locks=True)]))


class Cell:
    """A number that its owner changes, as a tensor of one element."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return self is other or self.value == other

    def __hash__(self) -> int:
        return hash(self.value)


def test_numbers_that_change_afterwards_are_not_what_is_compared_with() -> None:
    observer, slot = Observer(Names(), 1), Cell(2)
    rows = [PARENT, CHILD._replace(slots=(slot,))]  # type: ignore[arg-type]
    assert observer.read(None, None, View((), rows)).cached_listed == [0, 1, 2]
    slot.value = 3

    assert observer.read(None, None, View((), rows)).cached_listed == [0, 1, 3]


def test_a_look_that_could_not_be_read_is_not_the_one_before() -> None:
    observer = Observer(Names(), 1)
    first = observer.read(None, None, View((), [PARENT, CHILD]))
    with pytest.raises(ValueError, match="parents must come before"):
        observer.read(None, None, View((), [SIBLING, CHILD._replace(parent=7)]))

    assert told(observer.read(None, None, View((), [PARENT, CHILD]))) == told(first)
    assert observer.read(None, None, View((), [SIBLING])).cached_listed == [3]


def test_the_nodes_of_both_tiers_are_shared_as_well() -> None:
    observer = TierObserver(Names(), 1)
    rows = [TierNode(-1, None, (1, 2), (0, 1), (5, 6), 0, 0, 0, 1), TierNode(0, None, (3,), None, (7,), 0, 1, 0, 0)]

    def look(rows: list[TierNode], moving: tuple[int, ...] = ()) -> TierSeen:
        return observer.read_tiers(None, None, TierView((2, 3), rows, (0, 1), moving), ())

    first, again, pinned = look(rows), look(rows, (4,)), look([rows[0]._replace(pins=2), rows[1]])
    odd, mended = look([rows[0]._replace(host=(6, 5)), rows[1]]), look(rows)

    assert again.hosted is first.hosted and again.pinned == first.pinned and again.moving == [4]
    assert pinned.pinned != first.pinned and pinned.hosted == first.hosted
    assert odd.hosted != first.hosted
    assert mended.tier_nodes == first.tier_nodes and told(mended) == told(first)
