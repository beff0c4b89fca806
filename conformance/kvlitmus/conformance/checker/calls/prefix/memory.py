"""Calls in the middle of which memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.guard import OutOfMemory
from kvlitmus.spec.prefix import work_calls
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def starved(checker: Checker, after: int, key: Key, call: Callable[[], object]) -> bool:
    """Make a call about a key, and let memory run out in it; whether the call ended for that."""
    checker.call(f"fail_memory({after})", "fail_memory", after)
    checker.step(work_calls.FailMemory(after), None)
    checker.starved = True
    try:
        call()
        ended = False
    except OutOfMemory:
        checker.history[-1] += " → MemoryError"
        checker.step(work_calls.OutOfMemory(checker.path(key)), None)
        ended = True
    finally:
        checker.starved = False
    checker.call("fail_memory(None)", "fail_memory", None)
    checker.step(work_calls.FailMemory(None), None)
    return ended
