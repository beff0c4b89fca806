"""Lifted steps: what is a plain cache as well is judged by the rules of plain caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import allowed_text
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix.calls import Alloc
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.words.units import PageNo, Slot, Tokens

CONFIG = Config(page_size=1, pages=4)
PAGES = tuple(map(PageNo, range(1, 5)))


def checker(**how: Any) -> Checker:
    made = Checker(target.make(CONFIG), CONFIG, target.profile, **how)
    made.history.append("a call")
    return made


def seen(*free: PageNo) -> Seen:
    return Seen(len(free), None, True, free, frozenset(free))


def allocation(judging: Checker, given: PageNo, free: tuple[PageNo, ...]) -> Lifted[State, Seen]:
    """A rank hands this page out, and shows these on its free list then."""
    has = frozenset({"pool", "lookup", "inspect"})
    then = empty_state()._replace(owners={given: 1})
    setting = replace(judging.setting, capabilities=has)
    answer = (Slot(given),)
    return Lifted("rank 1", setting, empty_state(), then, then, Alloc(Tokens(1)), answer, seen(*PAGES), seen(*free))


def test_a_step_that_a_plain_cache_may_make_is_judged_and_counted() -> None:
    judging = checker()
    judging.lifted(allocation(judging, PAGES[0], PAGES[1:]))
    counted = judging.counted()
    assert (counted["POOL-06"], counted["POOL-12"], counted["EVICT-02"]) == (1, 1, 0)


def test_a_finding_says_of_which_part_of_the_cache_the_rule_speaks() -> None:
    judging = checker()
    with pytest.raises(Violation) as broken:
        judging.lifted(allocation(judging, PAGES[0], PAGES))
    assert "POOL-12" in broken.value.rules
    rule = judging.rules["POOL-12"]
    assert allowed_text(rule, judging.names, broken.value.facts).startswith("rank 1: ")


def test_what_is_muted_is_passed_over() -> None:
    judging = checker(muted=frozenset({"POOL-09", "POOL-10", "POOL-12", "POOL-14"}))
    judging.lifted(allocation(judging, PAGES[0], PAGES))
    assert "POOL-12" in judging.passed_over
    assert judging.counted()["POOL-12"] == 0


def test_nothing_is_said_where_the_rules_of_the_cache_itself_are_broken() -> None:
    judging = checker()
    judging.own_judge.broken = ("POOL-12",)
    judging.lifted(allocation(judging, PAGES[0], PAGES))
    assert judging.counted()["POOL-12"] == 0


@pytest.mark.parametrize("hidden", [{"call": UNKNOWN}, {"hidden": frozenset({"granted_pages"})}])
def test_what_a_view_cannot_tell_is_not_judged(hidden: dict[str, Any]) -> None:
    judging = checker()
    judging.lifted(allocation(judging, PAGES[0], PAGES[1:])._replace(**hidden))
    counted = judging.counted()
    assert (counted["POOL-06"], counted["POOL-12"]) == (0, 1)
