"""Profiles that let things be later: coarse clocks, and events that lag."""

from __future__ import annotations

import pytest

from kvlitmus.spec.prefix import windows
from kvlitmus.spec.prefix.late_events import Contents, Late, followed
from kvlitmus.spec.prefix.page import NO_DOUBT, Page, Tier
from kvlitmus.spec.prefix.replay import replay
from kvlitmus.spec.prefix.rules.order import Choosing, passed_over_by
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import Amiss, EventMirror
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.policies import POLICIES, later, lru, worth
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tick

ROOT, OLD, NEWER, NEWEST = map(Name, range(4))


def used_at(**ticks: int) -> Tier:
    """Three pages, side by side, used and created then."""
    names = {"old": OLD, "newer": NEWER, "newest": NEWEST}
    pages = {
        names[which]: Page(ROOT, PageNo(at), Tick(tick), Tick(tick), first=True)
        for at, (which, tick) in enumerate(ticks.items(), 1)
    }
    return Tier(pages, Tick(max(ticks.values())))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_last_part_of_a_worth_is_a_time(policy: str) -> None:
    page = Page(ROOT, PageNo(1), Tick(10), Tick(10))
    after = page._replace(touched=Tick(13), created=Tick(13))
    before = page._replace(touched=Tick(7), created=Tick(7))
    value = worth(policy)

    assert later(value(page), 3) in (value(after), value(before))
    assert later((), 3) == ()


def test_of_uses_that_may_share_a_tick_any_may_be_the_older() -> None:
    tree = used_at(old=1, newer=3, newest=4)

    assert passed_over_by(Choosing(tree, {NEWER}), lru) == frozenset({OLD})
    assert passed_over_by(Choosing(tree, {NEWER}), lru, ties=1) == frozenset({OLD})
    assert passed_over_by(Choosing(tree, {NEWER}), lru, ties=2) == frozenset()
    assert passed_over_by(Choosing(tree, {NEWEST}), lru, ties=2) == frozenset({OLD})


def test_a_window_leaves_ties_open_and_nothing_else() -> None:
    tree = used_at(old=1, newer=3, newest=9)

    sharp = windows.opened(NO_DOUBT, tree, 1, 1, lru)
    coarse = windows.opened(NO_DOUBT, tree, 1, 1, lru, ties=2)

    assert sharp.fallen == frozenset({OLD})
    assert not sharp.open
    assert not coarse.fallen
    assert coarse.open == frozenset({OLD, NEWER})


def test_contents_are_remembered_as_long_as_events_may_lag() -> None:
    late = Late()
    for name in (OLD, NEWER, NEWEST):
        late = followed(late, 1, Seen(seen=True, cached={name: PageNo(1)}), False, (), False)

    assert late.contents == tuple(Contents(frozenset({name})) for name in (NEWER, NEWEST))


def test_what_is_found_is_due_after_the_lag_of_the_call_before() -> None:
    found = followed(Late(), 2, Seen(), False, [OLD], False)
    next_call = followed(found, 2, Seen(), False, (), False)

    assert not found.due
    assert next_call.due == frozenset({OLD})
    assert followed(found, 2, Seen(), False, (), True).due == frozenset(), "a reset is told late as well"
    assert followed(Late(), 1, Seen(), False, [OLD], False).due == frozenset({OLD})


AMISS = (Amiss("device", "said before"),)


@pytest.mark.parametrize("what", ["odd", "twice", "renamed", "strays", "orphans"])
def test_what_was_wrong_with_the_events_of_a_step_is_forgotten_in_the_next_one(what: str) -> None:
    told = EventMirror({Name(5): 1})._replace(**{what: AMISS})  # type: ignore[arg-type]
    assert replay(told, Setting(Config(), Profile(), 3, frozenset()), ()) == EventMirror({Name(5): 1})
