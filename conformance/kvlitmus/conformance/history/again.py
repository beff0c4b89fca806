"""Recorded steps, judged again: by the rules of this tree, without the cache.

The items are played once more: the same programs and schedules make the same calls, and a record
(:mod:`~kvlitmus.conformance.tape.played`) answers them.  A call that was not recorded, because a move has changed or
the run ended before, ends the item.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Finding, Options
from kvlitmus.conformance.tape.lines import Header, TapeError, TapeReader
from kvlitmus.conformance.tape.played import Again, records

MISFIT = re.compile("the adapter has this method, but it isn't implemented: ")
"""How the suite says that a cache lacks what it was asked for; here it is the tape."""


@dataclass(slots=True, kw_only=True)
class JudgedSteps:
    """What came of recorded steps.

    ``steps``: calls that were judged.  ``judged``, ``total``: of the tape's steps those that were made again, and all.
    ``broken``: rules, each with the first item that breaks it; ``findings``: what was found there.  ``evaluated``: how
    often each rule was.  ``ended``: items that could not be judged to their end, each with the reason.  ``torn``: where
    and how the file breaks off.
    """

    header: Header
    torn: str = ""
    items: int = 0
    steps: int = 0
    judged: int = 0
    total: int = 0
    findings: list[Finding] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    evaluated: Counter[str] = field(default_factory=Counter)
    ended: dict[str, str] = field(default_factory=dict)


def judge(path: Path) -> JudgedSteps:
    """Judge the recorded steps of a file; raises :class:`TapeError` for what is no such file."""
    with TapeReader(str(path)) as reader:
        outcome = judged(reader)
    if reader.torn is not None:
        raise TapeError(reader.file, reader.torn[0], "a whole line", f"half a line: {reader.torn[1]}")
    return outcome


def judged(reader: TapeReader, *, depth: int = 3, keep_going: bool = True) -> JudgedSteps:
    """Judge the recorded steps of a file, no deeper than that; raises :class:`TapeError` for what is no such file.

    ``keep_going``: judges an item by the other rules after one is broken; else it ends there.
    """
    outcome = JudgedSteps(header=reader.header)
    options = Options(force_misuse=reader.header.force_misuse, shrink_trials=0, depth=depth)
    options = options if keep_going else replace(options, reruns=0)
    made: list[Checker] = []

    class Noted(Checker):
        """Is at hand where the tape doesn't go on."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    for record in records(reader, torn=True):
        target = Again(record)
        made.clear()
        result = engine.run_item(target, record.item, options, CurrentRun(checker_type=Noted))
        outcome.items += 1
        outcome.judged += target.judged
        outcome.steps += result.steps
        outcome.evaluated += result.evaluated
        for finding in result.findings:
            if not outcome.broken.keys() >= {*finding.rules}:
                outcome.findings.append(finding)
            for rule in finding.rules:
                outcome.broken.setdefault(rule, record.item.id)
        if result.error:
            outcome.evaluated += made[-1].counted() if made else Counter()  # what ends early counts nothing by itself
            outcome.ended[record.item.id] = MISFIT.sub("the tape doesn't fit: ", result.error)
        outcome.total += sum(max((one.number for one in steps), default=0) for _, steps in record.plays)
    if reader.torn is not None:
        outcome.torn = f"line {reader.torn[0]}: {reader.torn[1]}"
    return outcome
