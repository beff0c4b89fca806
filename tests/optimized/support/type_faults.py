"""A type of the compiled core whose calls find no memory, or are interrupted: each was made, or nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from kvlitmus.optimized import _core as core
from tests.optimized.support import interrupts
from tests.optimized.support.interrupts import Stop, ended

Call = Callable[[Any], object]


def plain(answer: Any) -> Any:
    """An answer to be compared."""
    if isinstance(answer, tuple | list):
        return [plain(one) for one in answer]
    return answer.tolist() if isinstance(answer, np.ndarray) else answer


def play(one: Any, calls: Sequence[Call]) -> None:
    """Make these calls; a signal may come between any two steps."""
    for call in calls:
        call(one)


def refused(make: Callable[[], object]) -> int:
    """Let each allocation of what is made anew fail, one after the other, until it is made: how many did."""
    number = 0
    while True:
        core.fail_after(number)
        try:
            make()
        except MemoryError:
            number += 1
        else:
            return number
        finally:
            core.fail_after(-1)


class Faults(NamedTuple):
    """``world``: makes one to try it on; ``exactly``: all that there is of it, and in which order it is handed out;
    ``comes_back``: asserts that a reset gives all back.
    """

    world: Callable[[], Any]
    exactly: Callable[[Any], object]
    comes_back: Callable[[Any], None]

    def failing(self, one: Any, call: Call, most: int) -> tuple[int, Any]:
        """Let each allocation of a call fail, one after the other, until it is made: how many did, and its answer.

        Raises ``AssertionError`` where so many at ``most`` are not all.
        """
        for number in range(most):
            before = self.exactly(one)
            core.fail_after(number)
            try:
                answer = call(one)
            except MemoryError:
                left = core.fail_after(-1)
                assert left == 0, f"allocation {number} failed, and the call went on"
                assert self.exactly(one) == before, f"allocation {number} failed, and something has changed"
            else:
                core.fail_after(-1)
                return number, plain(answer)
        raise AssertionError("it never ends")

    def sweep(self, monkeypatch: pytest.MonkeyPatch, calls: Sequence[Call]) -> set[int]:
        """End the calls at each of their bytecodes: after how many of them it stood, each time exactly so."""
        monkeypatch.setattr(interrupts, "OWN", (play.__code__, *(call.__code__ for call in calls)))
        one = self.world()
        states = [self.exactly(one)]
        for call in calls:
            call(one)
            states.append(self.exactly(one))
        found: set[int] = set()
        at = 0
        while True:
            one = self.world()
            if ended(lambda one=one: play(one, calls), at, Stop) <= at:  # type: ignore[misc]
                return found
            state = self.exactly(one)
            assert state in states, f"half a call was made at bytecode {at}"
            found.add(states.index(state))
            self.comes_back(one)
            at += 1
