"""The table of what rules say with less names rules, and what they say takes less to see."""

from __future__ import annotations

from collections import Counter

import pytest

from kvlitmus.spec.law.rule import RULES
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.stand_ins import SAID, Said, meant_by, standing_for
from kvlitmus.spec.words.setting import SNAPSHOT

all_rules()


DEEPER_ON_THE_HOST = {"TIER-08"}
"""What a match shows of the device, and a snapshot alone of the host."""


@pytest.mark.parametrize("one", SAID, ids=lambda one: f"{one.rule} for {'+'.join(one.of)}")
def test_a_rule_that_stands_for_another_needs_less(one: Said) -> None:
    assert one.how
    assert {one.rule, *one.of} <= RULES.keys()
    assert RULES[one.rule].depth < SNAPSHOT
    of = set(one.of) - DEEPER_ON_THE_HOST
    assert all(RULES[one.rule].depth < RULES[id].depth for id in of), [RULES[id].depth for id in of]


def test_no_pair_stands_in_the_table_twice() -> None:
    pairs = Counter((one.rule, id) for one in SAID for id in one.of)

    assert [pair for pair, times in pairs.items() if times > 1] == []


def test_the_table_is_read_both_ways() -> None:
    assert {one.rule for one in standing_for("EVICT-05")} == {"EVICT-20"}
    assert {id for one in meant_by("EVICT-23") for id in one.of} == {"EVICT-06"}
    assert standing_for("EVICT-20") == meant_by("EVICT-05") == ()


def test_what_is_judged_without_a_snapshot_alone_stands_for_something() -> None:
    """Such a rule is there for no other reason."""
    from kvlitmus.spec.law.plan import unseen

    alone = {id for id, one in RULES.items() if unseen(one.facts)}

    assert len(alone) > 8
    assert alone <= {one.rule for one in SAID}
