"""Playing one schedule of a campaign, in a worker.

As the engine judges an item, with two additions: it is noted what was reached and where in the
schedule, and a schedule that violates a rule is cut after the operation that did it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, overload

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.fuzz.features import Collector, Key, text_of, watching
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import Op, table
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, ItemResult, Options, to_json
from kvlitmus.conformance.support.text import harmless


class Noted(Sequence[Op]):
    """A schedule that notes which of its operations is being played."""

    def __init__(self, ops: Sequence[Op], collector: Collector) -> None:
        self.ops = ops
        self.collector = collector

    def __len__(self) -> int:
        return len(self.ops)

    @overload
    def __getitem__(self, at: int) -> Op: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Op]: ...

    def __getitem__(self, at: int | slice) -> Op | Sequence[Op]:
        return self.ops[at]

    def __iter__(self) -> Iterator[Op]:
        for at, op in enumerate(self.ops):
            self.collector.at = at
            yield op
        self.collector.at = len(self.ops)


class Program:
    """Plays a schedule, without the operations that the cache has no port for."""

    def __init__(self, ops: Sequence[Op], collector: Collector) -> None:
        self.ops = ops
        self.collector = collector

    def __call__(self, checker: Checker) -> None:
        """Play what can be played."""
        can = frozenset(table(checker.capabilities))
        self.ops = [op for op in self.ops if op.kind in can]
        self.collector.begin()
        Interpreter(checker).play(Noted(self.ops, self.collector))


def play_item(target: Any, item: Item, options: Options, run: CurrentRun, met: dict[Key, int]) -> dict[str, Any]:
    """Play a schedule; the answer for the campaign.

    ``result`` is an :class:`ItemResult`; ``reached`` lists the features in the order in which they were
    reached, ``where`` the position of each; ``texts`` names those that weren't among those ``met`` before.
    """
    collector = Collector(met)
    known = len(met)
    started = monotonic()
    result = ItemResult(item=item.id, config=item.config.label)
    try:
        with run.judged_by(watching(collector)):
            judge_item(target, item, options, result, collector, run)
    except Unsupported as declined:
        result.unsupported = harmless(declined) or "the target gave no reason"
    except engine.HarnessError as error:
        result.error = harmless(error, 2_000)
    result.seconds = monotonic() - started
    fresh = list(met.items())[known:]
    return {
        "result": to_json(result),
        "reached": list(collector.reached),
        "where": list(collector.reached.values()),
        "texts": {number: text_of(key) for key, number in fresh},
    }


def judge_item(
    target: Any, item: Item, options: Options, result: ItemResult, collector: Collector, run: CurrentRun
) -> None:
    """Play, and where a rule is broken mute it and play again, so that one bug does not hide the rest."""
    muted = options.muted
    for _ in range(1 + max(0, options.reruns)):
        now = replace(options, muted=muted, shrink_trials=0)
        program = Program(item.schedule, collector)
        checker, violation = engine.play(target, item.config, now, program, run)
        engine.count(checker, result)
        if violation is None:
            return
        cut = engine.Scheduled(program.ops[: collector.at + 1])
        result.findings.append(engine.finding(target, item, now, checker, violation, cut, run))
        muted |= set(violation.rules)
        if any(rule.startswith("PORT-") for rule in violation.rules):
            return
