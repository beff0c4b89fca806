"""Two targets in one item, played and recorded, and what came of comparing them."""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.history import again
from kvlitmus.conformance.history.compare import Compared, compared
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.tape import recorder
from kvlitmus.conformance.tape.lines import TapeReader

OPTIONS = Options(reruns=0, shrink_trials=0)
OPS = 60


def drawn(config: Config, seed: int = 0, ops: int = OPS) -> Item:
    """A schedule."""
    return Item(kind="random", config=config, seed=seed, ops=ops)


def recorded(target: Any, item: Item) -> tuple[again.Record, ItemResult]:
    """An item, played and recorded."""
    recording = recorder.Recording(target)
    result = engine.run_item(recording, item, OPTIONS)
    assert not result.error, result.error
    with TapeReader("record", data=recording.record(item)) as reader:
        return next(again.records(reader)), result


def side_by_side(one: Any, other: Any, item: Item) -> Compared:
    """Two targets in an item."""
    (a, said_a), (b, said_b) = recorded(one, item), recorded(other, item)
    broken = [[rule for finding in said.findings for rule in finding.rules] for said in (said_a, said_b)]
    return compared(a, b, OPTIONS, (broken[0], broken[1]))
