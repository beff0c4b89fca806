"""Calls in the middle of which memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.tiers import books_of, finish
from kvlitmus.conformance.checker.guard import OutOfMemory
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def starved(checker: Checker, after: int, key: Key, call: Callable[[], object]) -> bool:
    """Make a call about a key, and let memory run out in it; whether the call ended for that.

    Whether it counts as a use of the key is nobody's promise then.
    """
    checker.call(f"fail_memory({after})", "fail_memory", after)
    checker.finish("fault", {}, checker.tree)
    checker.starved = True
    try:
        call()
        ended = False
    except OutOfMemory:
        checker.history[-1] += " → MemoryError"
        books_of(checker).blurred.update(page_names(checker.names_of(key), checker.size))
        finish(checker, "out_of_memory", {}, checker.tree)
        ended = True
    finally:
        checker.starved = False
    checker.call("fail_memory(None)", "fail_memory", None)
    checker.finish("fault", {}, checker.tree)
    return ended
