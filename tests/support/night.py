"""What is played by day, and what at night alone; and how nights, or machines, share what is played."""

from __future__ import annotations

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


def share(text: str) -> Share:
    """A type for argparse, which reads what ``kvlitmus run --shard`` does."""
    from kvlitmus.conformance.cli.commands.arguments import shard_of

    return Share(*shard_of(text))


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
