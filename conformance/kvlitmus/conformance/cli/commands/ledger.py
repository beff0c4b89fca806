"""``kvlitmus rules --ledger``: for each call, which rule answers which question."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from kvlitmus.conformance.cli.commands.common import UsageError, split
from kvlitmus.conformance.report import document, ledger, terminal
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.support.text import closest
from kvlitmus.spec.ledger.cells import Line
from kvlitmus.spec.ledger.read import LEDGER, gaps
from kvlitmus.spec.parts import all_rules


def main(args: argparse.Namespace) -> int:
    """Print the rows that were asked for; always 0, unless a name stands for nothing."""
    chosen = [line for line in LEDGER if not args.names or asked(line, split(args.names))]
    if args.json:
        print(document.dump([ledger.plain(line) for line in chosen]), end="")
    elif args.markdown:
        print("\n".join(ledger.family_page(chosen)) if args.names else ledger.page(), end="\n" if args.names else "")
    else:
        style = style_of(sys.stdout, args.color)
        for text in (*listed(chosen, style), *summed(chosen)):
            print(text)
    return 0


def asked(line: Line, words: Sequence[str]) -> bool:
    """Whether a row is of a call, or has a rule, that was named."""
    calls, rules = {one.call for one in LEDGER}, all_rules()
    for word in words:
        if word not in calls and word.upper() not in rules:
            raise UsageError(f"there is no call or rule {word!r}{closest(word, [*calls, *rules])}")
    named = {id for cell in line.cells.values() for id in (*cell.rules, *cell.later)}
    return line.call in words or not named.isdisjoint(word.upper() for word in words)


def listed(lines: Sequence[Line], style: Style) -> Iterator[str]:
    """Each row: a line for each question."""
    family = None
    for line in lines:
        if line.family is not family:
            family = line.family
            yield style.paint(family.value, "bold")
        yield f"  {line.name}" + (f"  (after {', '.join(line.occasions)})" if line.occasions else "")
        for column, cell in line.cells.items():
            for label, text in ledger.parts(cell):
                said = f"{label}: {text}" if label not in ("", "–") else text
                yield from terminal.labelled(column.value, said, style)
    yield ""


def summed(lines: Sequence[Line]) -> Iterator[str]:
    """How many rows and gaps there are."""
    found = [(line, column, text) for line, column, text in gaps() if line in lines]
    yield f"{len(lines)} rows, {len(found)} gaps"
    yield from (f"  gap: {line.name}, {column.value}: {text}" for line, column, text in found)
