"""Schedules played on two targets in lock step.

:func:`lockstep` plays a schedule on a :class:`~tests.support.differential.DifferentialAdapter`, under a checker: every
call is made on both caches, the first one is held against all rules, and both are held against each other.  What ends
it early is raised as :class:`Found`, with the calls that led there; :func:`shortest` looks for fewer operations with an
end like it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import Op, table
from kvlitmus.conformance.generate.shrink import Case, Failed, shrink
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.works import TieredNode
from kvlitmus.spec.words.names import Names
from tests.support.differential import Difference, DifferentialAdapter

SHOWN = 12
"""Maximum number of calls shown: the last ones."""

CHOICES = {
    "timeouts": replace(PROFILE, timeout_from="first_poll", timeout_basis="requested", timeout=(0.5, 64.0, 0.0)),
    "thresholds": replace(PROFILE, load_threshold=5, restored_counts=True),
}
"""Legal choices of a hierarchy that the profile declares, with which lock step holds as well."""


class BacksUpLater(BackupQueue):
    """Backs a node up one use later, as no write policy of the configuration says: a difference to be found."""

    def due(self, node: TieredNode) -> bool:
        return super().due(node) and node.uses > self.uses


class Found(AssertionError):
    """A schedule on which two caches differ, or the first one breaks a rule.

    ``why``: in what they differ, or which rules are broken and how.  ``calls``: everything up to there.
    """

    def __init__(self, config: Config, why: str, calls: Sequence[str], ops: Sequence[Op]) -> None:
        last = "\n  ".join(calls[-SHOWN:])
        super().__init__(f"[{config.label}] {why}\nafter {len(calls)} calls, the last ones:\n  {last}")
        self.why = why
        self.calls = list(calls)
        self.ops = tuple(ops)


def judge_of(
    first: Any, second: Any, config: Config, *, names: Names | None = None, muted: frozenset[str] = frozenset()
) -> Checker:
    """A judge over a fresh cache of each of two targets; rules and names are those of the first."""
    both = DifferentialAdapter(first.make(config), second.make(config), config.page_size)
    return Checker(both, config, first.profile, names=names or Names(), muted=muted)


def kinds_of(first: Any, second: Any, config: Config) -> tuple[str, ...]:
    """The operations that both can do, each as often as it is drawn."""
    checker = judge_of(first, second, config)
    return tuple(kind for kind in table(checker.capabilities) if kind in Interpreter.actions)


def lockstep(first: Any, second: Any, config: Config, ops: Sequence[Op], *, muted: frozenset[str] = frozenset()) -> int:
    """Play a schedule on both; returns how many steps were compared, or raises :class:`Found`."""
    checker: Checker | None = None
    try:
        checker = judge_of(first, second, config, muted=muted)
        Interpreter(checker).play(ops)
    except Violation as violation:
        why = str(violation.__cause__) if isinstance(violation.__cause__, Difference) else said(violation)
        raise Found(config, why, checker.history if checker is not None else (), ops) from violation
    return checker.steps


def said(violation: Violation) -> str:
    """A broken rule in a line."""
    return f"{', '.join(violation.rules)} broken: {violation.detail or violation.call}"


def shortest(first: Any, second: Any, config: Config, ops: Sequence[Op], seconds: float = 20.0) -> Found | None:
    """What is found on a schedule of as few operations as can be; ``None`` where nothing is."""

    def fails(case: Case, _: int | None) -> Failed | None:
        found = trial(first, second, config, case.ops) if case.config == config else None
        return None if found is None else Failed(len(found.calls))

    return trial(first, second, *shrink(Case(config, tuple(ops)), fails, seconds=seconds).case)


def trial(first: Any, second: Any, config: Config, ops: Sequence[Op]) -> Found | None:
    """What is found on a schedule, if anything."""
    try:
        lockstep(first, second, config, ops)
    except Found as found:
        return found
    return None
