"""The report as one page of HTML: the verdicts, and every finding drawn step by step."""

from __future__ import annotations

import io
from collections.abc import Iterator

from kvlitmus.conformance.beside.moments import filled
from kvlitmus.conformance.report.document import Run
from kvlitmus.conformance.report.terminal import LOOK, headlines, said, words
from kvlitmus.conformance.run.failures import tape_of
from kvlitmus.conformance.viewer.beside import shown
from kvlitmus.conformance.viewer.page import Play, Summary, write

FAILED = frozenset({"violated", "warned", "known", "harness_error"})
"""The verdicts that are read first."""


def render(run: Run) -> str:
    """The whole page."""
    stream = io.StringIO()
    write(stream, plays(run), summary=summary(run))
    return stream.getvalue()


def plays(run: Run) -> Iterator[Play]:
    """The findings: those that others follow from come first, each with these behind it."""
    order = dict.fromkeys(at for head in headlines(run) for at in (head.at, *head.more))
    for at in order:
        header, steps = tape_of(
            run.groups[at].finding,
            target=run.target_name,
            depth=run.scope.depth,
            force_misuse=run.scope.force_misuse,
            version=run.version,
            fill=filled,
        )
        yield shown(header, steps, run.replay.get(at, ""))


def summary(run: Run) -> Summary:
    """What stands above the findings: of each verdict how often, and rule by rule, what is broken first."""
    tally = run.tally()
    about = [f"kvlitmus {run.version}", run.date, f"{len(run.configs)} configurations", f"{run.steps:,} steps"]
    about += [f"{tally[name]} {words(name)}" for name in LOOK if tally[name]]
    about.append(f"exit {run.exit_code}: {run.meaning}")
    if run.scope.partial:
        about.append(run.left)
    order = sorted(LOOK, key=lambda name: (name not in FAILED, name == "passed"))
    rows = [
        (one.rule, words(said(run, one)), f"{one.evaluations:,}", one.reason or run.rules[one.rule].title)
        for one in sorted(run.verdicts, key=lambda one: order.index(said(run, one)))
    ]
    title = f"kvlitmus: {run.target_name} {run.target_version}".rstrip()
    return Summary(title, " · ".join(about), ("rule", "verdict", "evaluations", "about"), rows)
