"""Targets that the compiled core makes alone, so that without it there are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kvlitmus.conformance.run.targets import TargetError

Made = TypeVar("Made")


def of_core(targets: Mapping[str, Made], name: str, what: str) -> Made:
    """A target, once it is known that the compiled core is there; raises :class:`TargetError` where it isn't.

    ``what`` these targets are; raises :class:`AttributeError` for another name.
    """
    if name not in targets:
        raise AttributeError(name)
    try:
        from kvlitmus.optimized import cores

        why = cores.lacking()
    except ImportError as error:
        raise TargetError(f"{what} need numpy, which this Python has not ({error})") from error
    if why:
        raise TargetError(f"not run: {what} are kept by the native core alone, and there is none: {why}")
    return targets[name]
