"""Two targets in one item, played and recorded, and what came of comparing them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvlitmus.conformance.history.compare.compared import Compared, compared
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.tape import recorder
from kvlitmus.conformance.tape.lines import TapeReader
from kvlitmus.conformance.tape.played import Record, records
from kvlitmus.spec.parts import all_rules

OPTIONS = Options(reruns=0, shrink_trials=0)
MUTED = replace(OPTIONS, muted=frozenset(all_rules()))
"""As caches are played to be compared: what they break ends no play."""

OPS = 60


def drawn(config: Config, seed: int = 0, ops: int = OPS) -> Item:
    """A schedule."""
    return Item(kind="random", config=config, seed=seed, ops=ops)


def recorded(target: Any, item: Item, options: Options = OPTIONS) -> tuple[Record, ItemResult]:
    """An item, played and recorded."""
    recording = recorder.Recording(target)
    result = engine.run_item(recording, item, options)
    assert not result.error, result.error
    with TapeReader("record", data=recording.record(item)) as reader:
        return next(records(reader)), result


def side_by_side(one: Any, other: Any, item: Item) -> Compared:
    """Two targets in an item."""
    (a, said_a), (b, said_b) = recorded(one, item, MUTED), recorded(other, item, MUTED)
    ended = [[rule for finding in said.findings for rule in finding.rules] for said in (said_a, said_b)]
    return compared(a, b, OPTIONS, (ended[0], ended[1]))
