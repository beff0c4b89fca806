"""What is played by day, and what at night alone; and how nights, or machines, share what is played."""

from __future__ import annotations

import argparse
import re
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest


class Share(NamedTuple):
    """One of so many shares of the tests, from 1 on."""

    number: int
    of: int

    def has(self, name: str) -> bool:
        """Whether what has that name is in it: by the name alone, on each machine and each night."""
        return zlib.crc32(name.encode()) % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def share(text: str) -> Share:
    """Read ``I/N``."""
    read = re.fullmatch(r"(\d+)/(\d+)", text)
    if read is None or not 1 <= int(read[1]) <= int(read[2]):
        raise argparse.ArgumentTypeError(f"a share is I/N with I from 1 to N, such as 3/12 (got {text!r})")
    return Share(int(read[1]), int(read[2]))


def by_turns(cases: Iterable[Any], ids: Iterable[str] | None = None, every: int = 3) -> list[Any]:
    """Parameters of a test, every so manieth of them by day and all of them at night.

    For planted faults of one kind, of which each shows that a check can fail.  A case of several values is a tuple.
    """
    values = [case if isinstance(case, tuple) and not hasattr(case, "_fields") else (case,) for case in cases]
    names = [None] * len(values) if ids is None else list(ids)
    return [
        pytest.param(*value, id=name, marks=[pytest.mark.nightly] * (at % every != 0))
        for at, (value, name) in enumerate(zip(values, names, strict=True))
    ]
