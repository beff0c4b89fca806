"""``kvlitmus diff``: what changed between two reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.report import document, saved
from kvlitmus.conformance.report.compare import Change, Comparison, Difference, compare
from kvlitmus.conformance.report.compare import document as plain
from kvlitmus.conformance.report.form import Report
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.report.terminal import words

COLORS = {
    "newly violated": "red",
    "worse": "red",
    "vanished": "yellow",
    "no longer shown": "yellow",
    "fixed": "green",
    "better": "green",
}
"""The colour of each change; others have none."""

MOST_SHOWN = 5
"""Maximum number of new violations that are shown with their counterexamples."""


def main(args: argparse.Namespace) -> int:
    """Compare; 0 the same or only better, 1 something got worse."""
    found = compare(loaded(args.a), loaded(args.b))
    if args.json:
        print(document.dump(plain(found)), end="")
    else:
        for line in told(found, style_of(sys.stdout, args.color)):
            print(line)
    return found.exit_code


def loaded(name: str) -> Report:
    """A saved report; a file that is none is the user's mistake."""
    try:
        return saved.load(Path(name))
    except saved.ReportError as error:
        raise UsageError(str(error)) from None


def told(found: Comparison, style: Style) -> Iterator[str]:
    """All lines: what was compared, what the set-ups differ in, what became of the rules, figures."""
    for name, stamp in (("A", found.a), ("B", found.b)):
        line = f"{stamp['target']}, kvlitmus {stamp['kvlitmus']}, {stamp['date']}, exit {stamp['exit_code']}"
        yield from style.wrap(line, "   ", f"{style.paint(name, 'bold')}  ")
    if found.setup:
        yield ""
        yield style.paint("the two runs differ in the following; changes may come from that:", "bold", "yellow")
        yield from pairs(found.setup, style)
    for text in found.run:
        yield ""
        yield from style.wrap(text, "  ", f"{style.paint(style.symbol('bad'), 'red')} ")
    change = ""
    for one in found.changes:
        if one.change != change:
            change = one.change
            yield ""
            many = sum(other.change == change for other in found.changes)
            yield style.paint(f"{change} ({many})", "bold", *([COLORS[change]] if change in COLORS else []))
        yield from row(one, style)
    yield from examples(found.changes, style)
    if found.figures:
        yield ""
        yield style.paint("figures", "bold")
        yield from pairs(found.figures, style)
    yield ""
    yield summary(found, style)


def row(one: Change, style: Style) -> Iterator[str]:
    """One rule: from which verdict to which, and why."""
    way = f"{words(one.a) or 'not judged'} → {words(one.b) or 'not judged'}"
    if not style.symbols:
        way = way.replace("→", "->")
    reason = f" ({one.reason})" if one.reason else ""
    yield from style.wrap(f"{one.rule:<11} {way}: {one.title}{reason}", " " * 14, "  ")


def examples(changes: Sequence[Change], style: Style) -> Iterator[str]:
    """The counterexamples of what is newly broken."""
    broken = [one for one in changes if one.text]
    for one in broken[:MOST_SHOWN]:
        yield ""
        yield from one.text
    if len(broken) > MOST_SHOWN:
        yield ""
        yield style.paint(f"{len(broken) - MOST_SHOWN} more counterexamples are in B", "dim")


def pairs(rows: Sequence[Difference], style: Style) -> Iterator[str]:
    """What two reports state, side by side."""
    arrow = "→" if style.symbols else "->"
    for one in rows:
        yield from style.wrap(f"{one.what}: {one.a or '(nothing)'} {arrow} {one.b or '(nothing)'}", "      ", "  ")


def summary(found: Comparison, style: Style) -> str:
    """The last line."""
    text = f"{found.worse} got worse" if found.worse else "nothing got worse"
    fixed = sum(one.change == "fixed" for one in found.changes)
    parts = [text, *([f"{fixed} fixed"] if fixed else []), f"{len(found.changes)} changed", f"{found.same} the same"]
    return style.paint(f"exit {found.exit_code}: {', '.join(parts)}", "red" if found.worse else "green")
