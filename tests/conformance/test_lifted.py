"""Lifted steps: what is a plain cache as well is judged by the rules of plain caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.checker.calls.components.plain import glimpsed
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import allowed_text
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.prefix.calls import Alloc
from kvlitmus.spec.prefix.components.calls import PoolsSeen
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.work_calls import EvictHost
from kvlitmus.spec.words.setting import Setting
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


WHOLE = PoolsSeen(
    {"kv": 4, "state": 2},
    {"kv": (1, 2, 3, 4), "state": (1, 2)},
    {},
    host_available={"kv": 4, "state": 2},
    host_free={"kv": (1, 2, 3, 4), "state": (1, 2)},
    host_held={},
)
HIDDEN = WHOLE._replace(host_held=None)


@pytest.mark.parametrize(
    ("before", "after", "tiers"), [(WHOLE, WHOLE, 2), (WHOLE, HIDDEN, 1), (HIDDEN, WHOLE, 1), (HIDDEN, HIDDEN, 1)]
)
def test_a_tier_is_judged_by_the_looks_around_a_step_if_both_show_it(
    before: PoolsSeen, after: PoolsSeen, tiers: int
) -> None:
    config = Config(page_size=1, pages=4, host_pages=4, components="kv+state")
    ports = frozenset({"components", "component_view", "component_host", "component_host_view"})
    call, freed = EvictHost({"kv": 1, "state": 0}), {"kv": 1, "state": 0}
    found = [one.where for one in glimpsed(Setting(config, Profile(), 3, ports), before, call, freed, after)]
    everywhere = ["component kv", "component state", "component kv on the host", "component state on the host"]
    assert found == everywhere[: 2 * tiers]
