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
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.history.state import Located
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Finding, ItemResult, Options
from kvlitmus.conformance.tape.lines import Header, TapeReader
from kvlitmus.conformance.tape.played import Again, Played, records

MISFIT = re.compile(engine.UNFILLED)
"""How the suite says that a cache lacks what it was asked for; here it is the tape."""


class Noted(Checker):
    """Remembers on which step of the tape each of its calls begins.  ``counts``: it could be made."""

    def __init__(self, adapter: Any, *args: Any, **kwargs: Any) -> None:
        self.tape: Played = adapter
        self.steps_of: dict[int, int] = {}
        self.counts = False
        super().__init__(adapter, *args, **kwargs)
        self.counts = True

    def announce(self, text: str, method: str) -> None:
        """A call is about to be made."""
        super().announce(text, method)
        self.steps_of[len(self.history)] = self.tape.at + 1

    def located(self, finding: Finding) -> Located:
        """A finding of this play, with the line of each of its calls, and of the step that broke the rules."""
        lines, step = [], 0
        for at in range(1, len(finding.calls) + 1):
            step = self.steps_of.get(at, step)  # what isn't asked of the cache has no step of its own
            lines.append(self.tape.line(step))
        return Located(finding=finding, line=self.tape.line(self.tape.at), lines=lines, before=0)


class Ended(NamedTuple):
    """Why an item could not be judged to its end, and on which line."""

    line: int
    why: str


@dataclass(slots=True, kw_only=True)
class JudgedSteps:
    """What came of recorded steps.

    ``steps``: calls that were judged, as a run counts its steps.  ``judged``, ``total``: of the tape's steps those that
    were made again, and all; a call may take several.  ``broken``: rules, each with the first item that breaks it;
    ``findings``: what was found there.  ``results``: of each item; ``configs``: by their labels.  ``evaluated``: how
    often each rule was.  ``ended``: items that could not be judged to their end.  ``torn``: where and how the file
    breaks off.
    """

    header: Header
    torn: str = ""
    items: int = 0
    steps: int = 0
    judged: int = 0
    total: int = 0
    findings: list[Located] = field(default_factory=list)
    results: list[ItemResult] = field(default_factory=list)
    configs: dict[str, Config] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    evaluated: Counter[str] = field(default_factory=Counter)
    ended: dict[str, Ended] = field(default_factory=dict)


def judge(path: Path) -> JudgedSteps:
    """Judge the recorded steps of a file; raises :class:`TapeError` for what is no such file."""
    with TapeReader(str(path)) as reader:
        outcome = judged(reader)
    reader.check_whole()
    return outcome


def judged(reader: TapeReader, *, depth: int = 3, keep_going: bool = True) -> JudgedSteps:
    """Judge the recorded steps of a file, no deeper than that; raises :class:`TapeError` for what is no such file.

    ``keep_going``: judges an item by the other rules after one is broken; else it ends there.
    """
    outcome = JudgedSteps(header=reader.header)
    options = Options(force_misuse=reader.header.force_misuse, shrink_trials=0, depth=depth)
    options = options if keep_going else replace(options, reruns=0)
    made: list[Noted] = []

    class AtHand(Noted):
        """Is at hand where the tape doesn't go on, and where a rule is broken."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(self)  # also one that is found at fault while it is fresh
            super().__init__(*args, **kwargs)

    for record in records(reader, torn=True):
        target = Again(record)
        made.clear()
        result = engine.run_item(target, record.item, options, CurrentRun(checker_type=AtHand))
        if result.error:
            if made and made[-1].counts:
                engine.count(made[-1], result)  # what ends early counts nothing by itself
            line = made[-1].tape.line(made[-1].tape.at) if made else record.plays[0][0].line
            outcome.ended[record.item.id] = Ended(line, MISFIT.sub("the tape doesn't fit: ", result.error))
        outcome.items += 1
        outcome.results.append(result)
        outcome.configs.setdefault(record.item.config.label, record.item.config)
        outcome.judged += target.judged
        outcome.steps += result.steps
        outcome.evaluated += result.evaluated
        for finding in result.findings:
            if not outcome.broken.keys() >= {*finding.rules}:
                player = next(one for one in reversed(made) if engine.texts_of(one) == finding.calls)
                outcome.findings.append(player.located(finding))
            for rule in finding.rules:
                outcome.broken.setdefault(rule, record.item.id)
        outcome.total += sum(max((one.number for one in steps), default=0) for _, steps in record.plays)
    outcome.torn = reader.breaks_off
    return outcome
