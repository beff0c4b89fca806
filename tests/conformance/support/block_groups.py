"""What the suite finds in groups of blocks with a bug."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kvlitmus.conformance.ports import Config, Target
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import items
from kvlitmus.conformance.run.results import Item, Options


def broken_in(target: Target, drawn: Sequence[Config], litmus: Sequence[Config], depth: int) -> Iterator[set[str]]:
    """The rules that schedules in some configurations, and litmus tests in others, find broken first; item by item."""
    todo = [Item(kind="random", config=config, seed=seed, ops=250) for seed in range(3) for config in drawn]
    for item in itertools.chain(todo, items(litmus, target.profile, steps=0)):
        result = run_item(target, item, Options(depth=depth, reruns=0, shrink_trials=0))
        assert not result.error, result.error
        yield {rule for finding in result.findings for rule in finding.rules}
