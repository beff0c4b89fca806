"""A shard: some items of a plan, played wherever there is room, and what came of them as plain data.

:func:`shard` depends on nothing but what it is given, so that it may run in any process on any machine; what it
returns is as small as a verdict lets it be.  Of items in which nothing was amiss only the sums are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from kvlitmus.conformance.isolation.integrity import JudgeChanged
from kvlitmus.conformance.isolation.supervisor import Limits, run_items
from kvlitmus.conformance.isolation.worker_pool import WorkerPool
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.run.targets import TargetRef

SUMMED = ("evaluated", "unknown", "idle", "reached")
"""What of results is counted, and can be added up."""


@dataclass(slots=True, kw_only=True)
class Summary:
    """What came of items, in their order.

    items: how many there were.  results: of those that have something to tell (a finding, an error, a reason why it was
    not played), by their place among them.  sums: of all others, by the label of their configuration; many: how many
    these are.  changed: how it showed that the judge was changed, if it was.  seconds: how long it took.
    """

    items: int = 0
    results: dict[int, ItemResult] = field(default_factory=dict)
    sums: dict[str, ItemResult] = field(default_factory=dict)
    many: Counter[str] = field(default_factory=Counter)
    changed: str = ""
    seconds: float = 0.0

    def add(self, result: ItemResult) -> None:
        """Take the result of the next item."""
        if result.findings or result.error or result.unsupported:
            self.results[self.items] = result
        else:
            self.add_sum(result, 1)
        self.items += 1

    def add_sum(self, result: ItemResult, many: int) -> None:
        """Take a result in which nothing is amiss, or the sum of so many of one configuration."""
        known = self.sums.setdefault(result.config, ItemResult(item="", config=result.config))
        known.steps += result.steps
        known.seconds += result.seconds
        for name in SUMMED:
            getattr(known, name).update(getattr(result, name))
        known.capabilities = sorted({*known.capabilities, *result.capabilities})
        known.declined = sorted({*known.declined, *result.declined})
        self.many[result.config] += many

    def include(self, other: Summary, place: Callable[[int], int]) -> None:
        """Take what another one has of some of the items; ``place``: of each of its items its number here."""
        self.results.update({place(at): result for at, result in other.results.items()})
        for label, result in other.sums.items():
            self.add_sum(result, other.many[label])
        self.items += other.items
        self.seconds += other.seconds
        self.changed = self.changed or other.changed

    @property
    def steps(self) -> int:
        """All steps of all items."""
        return sum(one.steps for one in (*self.results.values(), *self.sums.values()))


def shard(
    target: TargetRef, items: Sequence[Item], options: Options, *, limits: Limits | None = None, jobs: int = 1
) -> Summary:
    """Play items on a target; returns what came of them.  Raises :class:`TargetError` where none can be played."""
    summary = Summary()
    play_into(summary, target, items, options, limits=limits, jobs=jobs)
    return summary


def play_into(
    summary: Summary,
    target: TargetRef,
    items: Sequence[Item],
    options: Options,
    *,
    limits: Limits | None = None,
    jobs: int = 1,
    tell: Callable[[ItemResult], None] = lambda _: None,
    pool: WorkerPool | None = None,
) -> None:
    """The same; what was played is in the summary, too, where it ends early (``KeyboardInterrupt``).

    tell: called with each result.
    """
    began = monotonic()
    try:
        for result in run_items(target, items, options, jobs=jobs, limits=limits, pool=pool):
            if result.item == items[summary.items].id:  # what comes after an interruption may have gaps before it
                summary.add(result)
                tell(result)
    except JudgeChanged as error:
        summary.changed = str(error)
    finally:
        summary.seconds += monotonic() - began
