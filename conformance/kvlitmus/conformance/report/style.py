"""Colours, symbols and widths of a terminal."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from dataclasses import dataclass
from typing import TextIO

from kvlitmus.conformance.support.text import harmless

CODES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}


SYMBOLS = {
    "good": ("✓", "ok"),
    "bad": ("✗", "X"),
    "warn": ("!", "!"),
    "none": ("–", "-"),
    "here": ("▶", ">"),
    "dot": ("·", "-"),
    "ellipsis": ("…", "..."),
    "unsure": ("?", "?"),
}
"""Symbols, and what stands for each where a stream has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a stream can show.

    ``verbose``: what is usually left out is wanted; ``every``: so is each counterexample in full.
    """

    color: bool = False
    symbols: bool = True
    live: bool = False
    width: int = 100
    verbose: bool = False
    every: bool = False

    def paint(self, text: str, *names: str) -> str:
        """A text in colours, where there are any."""
        if not self.color or not names:
            return text
        return f"\x1b[{';'.join(CODES[name] for name in names)}m{text}\x1b[0m"

    def symbol(self, name: str) -> str:
        """A symbol, or letters where the stream has none."""
        return SYMBOLS[name][not self.symbols]

    def cut(self, line: str) -> str:
        """A line, cut where a terminal would break it; colours count for nothing."""
        if not self.live or len(re.sub(r"\x1b\[[0-9;]*m", "", line)) < self.width:
            return line
        extra = len(line) - len(re.sub(r"\x1b\[[0-9;]*m", "", line))
        return line[: self.width + extra - 2] + "…"

    def wrap(self, text: str, indent: str, first: str | None = None) -> list[str]:
        """A text in lines that fit, without control characters; ``first`` is put before the first one."""
        return textwrap.wrap(
            harmless(text, 100_000),
            width=max(40, self.width),
            initial_indent=indent if first is None else first,
            subsequent_indent=indent,
            break_long_words=True,
            break_on_hyphens=False,
        ) or [(first or indent).rstrip()]


def style_of(stream: TextIO, color: str = "auto", *, verbose: bool = False, every: bool = False) -> Style:
    """The style that suits a stream and the user's wish; ``NO_COLOR`` is heeded."""
    terminal = stream.isatty()
    dumb = os.environ.get("TERM", "") == "dumb"
    wanted = color == "always" or (color == "auto" and terminal and not dumb and not os.environ.get("NO_COLOR"))
    try:
        "✗✓▶–·…".encode(stream.encoding or "ascii")
        symbols = True
    except (UnicodeEncodeError, LookupError):
        symbols = False
    width = min(120, shutil.get_terminal_size((100, 24)).columns) if terminal else 100
    return Style(color=wanted, symbols=symbols, live=terminal and not dumb, width=width, verbose=verbose, every=every)


def soften(stream: TextIO) -> None:
    """Make a stream replace what it can't encode instead of raising."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
