"""Calls in the middle of which memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.tiers import books_of, finish
from kvlitmus.conformance.checker.guard import OutOfMemory
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Judge


def starved(judge: Judge, after: int, key: Key, call: Callable[[], object]) -> bool:
    """Make a call about a key, and let memory run out in it; whether the call ended for that.

    Whether it counts as a use of the key is nobody's promise then.
    """
    judge.call(f"fail_memory({after})", "fail_memory", after)
    judge.finish("fault", {}, judge.tree)
    judge.starved = True
    try:
        call()
        ended = False
    except OutOfMemory:
        judge.trail[-1] += " → MemoryError"
        books_of(judge).blurred.update(page_names(judge.names_of(key), judge.size))
        finish(judge, "out_of_memory", {}, judge.tree)
        ended = True
    finally:
        judge.starved = False
    judge.call("fail_memory(None)", "fail_memory", None)
    judge.finish("fault", {}, judge.tree)
    return ended
