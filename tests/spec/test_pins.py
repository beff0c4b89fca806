"""The pins of the rules: no sentence and no logic changes unnoticed, and words change no logic."""

from __future__ import annotations

import json
from dataclasses import replace

from kvlitmus.spec.law.rule import RETIRED
from kvlitmus.spec.parts import all_rules
from tools import pins

RULES = all_rules()


def test_the_pins_fit_the_rules() -> None:
    """Under every version of Python: the pin of all logic was written under one."""
    pinned = json.loads(pins.FILE.read_text(encoding="utf-8"))
    assert pins.differences(RULES, pinned, RETIRED) == [], "run tools/pins.py"
    assert pins.FILE.read_text(encoding="utf-8") == pins.text(RULES), "run tools/pins.py"


def test_changed_new_and_vanished_rules_are_named() -> None:
    pinned = pins.pins(RULES)
    pinned["POOL-01"] = "0" * 12
    pinned["POOL-98"] = pinned["POOL-99"] = pinned.pop("POOL-02")
    assert pins.differences(RULES, pinned, {"POOL-98": "it was wrong"}) == [
        "POOL-02 is new",
        "POOL-01 is worded otherwise",
        "POOL-98 is gone",
        "POOL-99 is gone, and RETIRED doesn't say why: ids are never reused",
    ]
    assert pins.lost(pins.pins(RULES), pinned, {"POOL-98": "it was wrong"}) == ["POOL-99"]


def test_words_change_their_own_pin_alone_and_logic_the_one_of_all() -> None:
    pinned, one = pins.pins(RULES), RULES["POOL-07"]
    for other in (replace(one, text="It MUST be otherwise."), replace(one, allowed="nothing")):
        reworded = pins.pins({**RULES, one.id: other})
        assert [id for id in pinned if reworded[id] != pinned[id]] == [one.id]
    decided = pins.pins({**RULES, one.id: replace(one, predicate=RULES["POOL-01"].predicate)})
    assert [id for id in pinned if decided[id] != pinned[id]] == [pins.LOGIC]
