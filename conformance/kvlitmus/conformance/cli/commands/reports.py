"""Writing the reports of a run: before it says how it ended, so that what it says is how it ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kvlitmus.conformance.report import document, junit, markdown, summary
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless


def drawn_page(run: document.Run) -> str:
    """The report as a page; what draws is imported where something is drawn."""
    from kvlitmus.conformance.report import drawn

    return drawn.render(run)


class Reports:
    """The files that a run was asked for.  failed: those that could not be written, each with why."""

    def __init__(self, run: document.Run, args: argparse.Namespace) -> None:
        self.run = run
        self.reports: list[str] = args.report
        self.junit: str | None = args.junit
        self.markdown: str | None = args.markdown
        self.failed: dict[str, str] = {}

    def write(self) -> list[str]:
        """Write all; returns what to say of them.  One that can't be written makes an exit code of 0 or 4 a 3."""
        told = self.replaced()
        self.fail()
        if self.markdown is not None:  # comes last and is written once: it may be appended to a file
            path = Path(self.markdown)
            text = summary.render(document.document(self.run))
            told += self.attempt("--markdown", "summary", path, partial(summary.write, path, text))
            self.fail()
        for why in self.failed.values():
            print(f"kvlitmus: {why}", file=sys.stderr)
        return told

    def fail(self) -> None:
        """If one could not be written, the others say so too."""
        if self.failed and self.run.exit_code in (0, 4):
            self.run.exit_code = 3
            self.replaced()

    def replaced(self) -> list[str]:
        """Write those that replace what was there."""
        told: list[str] = []
        for option, what, name, text in self.texts():
            told += self.attempt(option, what, Path(name), partial(files.write, Path(name), text))
        return told

    def texts(self) -> Iterator[tuple[str, str, str, str]]:
        """Option, what it is, name and text of each."""
        plain = document.document(self.run)
        for name in self.reports:
            forms = {".md": lambda: markdown.render(self.run), ".html": lambda: drawn_page(self.run)}
            yield "--report", "report", name, forms.get(Path(name).suffix, lambda: document.dump_report(plain))()
        if self.junit is not None:
            yield "--junit", "JUnit XML", self.junit, junit.render(plain)

    def attempt(self, option: str, what: str, path: Path, write: Callable[[], None]) -> list[str]:
        """Write one; what to say of it, nothing if it can't be written."""
        try:
            write()
        except OSError as error:
            why = f"{option} {harmless(path)}: can't be written: {files.reason(error)}"
            self.failed[f"{option} {path}"] = why
            return []
        return [f"{what} in {harmless(path)}"]
