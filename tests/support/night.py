"""What is played by day, and what at night alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


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
