"""``kvlitmus report``: a saved report once more, or in another form."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kvlitmus.conformance.cli.commands import common
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.cli.commands.diff import loaded
from kvlitmus.conformance.report import junit, summary
from kvlitmus.conformance.report.form import Report, rows
from kvlitmus.conformance.report.outcomes import of_rule, of_run
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless


def main(args: argparse.Namespace) -> int:
    """Show or convert a report; returns the exit code that the run had."""
    check_writable(args.junit, args.markdown)
    report = loaded(args.file)
    if args.junit is None and args.markdown is None:
        for line in shown(report, style_of(sys.stdout, args.color)):
            print(line)
    write(report, args.junit, args.markdown)
    return 0


def check_writable(junit_file: str | None, markdown_file: str | None) -> None:
    """Refuse files that could not be written, before anything is run."""
    for option, name in (("--junit", junit_file), ("--markdown", markdown_file)):
        if name is None:
            continue
        if not summary.is_shared(Path(name)):
            common.check_writable(option, name)


def write(report: Report, junit_file: str | None, markdown_file: str | None) -> None:
    """Write the forms that were asked for."""
    option, name = "--junit", junit_file
    try:
        if junit_file is not None:
            files.write(Path(junit_file), junit.render(report))
            print(f"JUnit XML in {harmless(junit_file)}")
        option, name = "--markdown", markdown_file
        if markdown_file is not None:
            summary.write(Path(markdown_file), summary.render(report))
            print(f"summary in {harmless(markdown_file)}")
    except OSError as error:
        raise UsageError(f"{option} {name}: can't be written: {files.reason(error)}") from None


def shown(report: Report, style: Style) -> Iterator[str]:
    """The report in plain lines: what was judged, what did not pass, the counterexamples, the end."""
    target, totals = report["stamps"]["target"], report["totals"]
    yield style.paint(harmless(f"{target['name']} {target['version']}".strip()), "bold") + (
        f", kvlitmus {harmless(report['stamps']['kvlitmus'], 80)}, {harmless(report['stamps']['date'], 40)}"
    )
    outcomes = [(rule, of_rule(report, rule)) for rule in rows(report)]
    for _, one in outcomes:
        if one.kind in ("failed", "error", "warned", "known"):
            yield ""
            yield from one.text.split("\n") if one.text else [one.message]
            if one.kind == "known":
                yield f"  {one.message}"
    run = of_run(report)
    if run.kind == "error":
        yield ""
        yield from style.wrap(run.text or run.message, "  ", f"{style.symbol('bad')} ")
    yield ""
    counted = Counter(rule["verdict"].replace("_", " ") for rule, _ in outcomes)
    yield f"{len(outcomes)} rules: {', '.join(f'{many} {name}' for name, many in counted.most_common())}"
    yield f"{totals['steps']:,} steps in {totals['items']} items, {totals['seconds']:.1f} s"
    yield f"the run ended with exit {report['exit_code']}: {harmless(report['exit_meaning'])}"
