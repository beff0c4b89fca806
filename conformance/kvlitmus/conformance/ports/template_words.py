"""The words of a written adapter: docstrings without markup, literals, paragraphs and comments that fit."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

WIDTH = 88
"""Columns: what formatters take for the limit where nobody tells them another."""


def meanings_of(kind: type) -> dict[str, str]:
    """What each field of a class means, from the paragraphs ``name: …`` of its docstring."""
    text = inspect.getdoc(kind) or ""
    found = re.findall(r"^((?:\w+, )*\w+): (.*(?:\n[ \t]+\S.*)*)", text, re.MULTILINE)
    return {name: plain(" ".join(rest.split())) for names, rest in found for name in names.split(", ")}


def prose(thing: Any) -> str:
    """A docstring without markup."""
    return plain(inspect.getdoc(thing) or "")


def plain(text: str) -> str:
    """A text without roles and double backquotes; a plural that had to stand apart is joined again."""
    text = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"\1", text)
    text = re.sub(r"``(\w+)``\ss\b", r"\1s", text)
    return text.replace("``", "").replace("`", "'")


def literal(value: Any) -> str:
    """A value as formatters want it written; raises ``TypeError`` for one that is no literal."""
    if type(value) is tuple:
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    if value is None or type(value) in (bool, int, float):
        return repr(value)
    if type(value) is str:
        return quoted(value)
    raise TypeError(f"{value!r} can't be written as a literal")


def quoted(text: str) -> str:
    """A text as Python writes it, in double quotes."""
    body = repr(text)[1:-1].replace("\\'", "'")
    return '"' + body.replace('"', '\\"') + '"'


def wrapped(text: str, indent: int = 0, hang: int = 0, mark: str = "") -> Iterator[str]:
    """A paragraph in lines that fit, each behind the mark."""
    yield from textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=" " * indent + mark,
        subsequent_indent=" " * indent + mark + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def comment(text: str, indent: int, hang: int = 0) -> Iterator[str]:
    """A text as comment lines, paragraph by paragraph."""
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield " " * indent + "#"
        yield from wrapped(paragraph, indent, hang, "# ")
