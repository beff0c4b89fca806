"""Calls of requests on a cache of components, and what is known of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components.answers import by_end
from kvlitmus.conformance.checker.calls.components.snapshot import judge
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec.prefix.calls import Begin, End, Grow
from kvlitmus.spec.prefix.components.calls import Holding
from kvlitmus.spec.words.units import Key, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def start(checker: Checker, key: Key, chunk: int, receipt: int) -> Holding | None:
    """Begin a request that computes so many units behind its hit; ``receipt`` is the suite's number for it."""
    path = checker.path(key)
    answer = checker.call(f"start({key_text(key)}, {chunk} units)", "component_start", key, chunk)
    checker.history[-1] += f" → request {receipt}"
    if answer is None:
        checker.history[-1] += " refused"
        judge(checker, Begin(receipt, path, chunk=chunk), None)
        return None
    token, length, held = checker.fields(answer, 3, "(receipt, length, places by component)")
    holding = Holding(checker.count(length, "the length of the hit"), read_held(checker, held))
    checker.history[-1] += f": hit of {holding.length} units, holds {held_text(holding.held)}"
    checker.tokens[receipt] = token
    judge(checker, Begin(receipt, path, chunk=chunk), holding)
    return holding


def grow(checker: Checker, receipt: int, chunk: int) -> Holding:
    """Go on with so many units more."""
    answer = checker.call(f"grow(request {receipt}, {chunk} units)", "component_grow", checker.tokens[receipt], chunk)
    granted, held = checker.fields(answer, 2, "(whether it was granted, places by component)")
    room = checker.flag(granted, "whether there was room")
    holding = Holding(0, read_held(checker, held), room)
    checker.history[-1] += f" → {'' if room else 'refused, '}holds {held_text(holding.held)}"
    judge(checker, Grow(receipt, Tokens(chunk)), holding)
    return holding


def finish(checker: Checker, receipt: int) -> None:
    """End a request."""
    checker.call(f"finish(request {receipt})", "component_finish", checker.tokens.pop(receipt))
    judge(checker, End(receipt, keep=True), None)


def read_held(checker: Checker, answer: object) -> Mapping[str, Mapping[int, int]]:
    """Places by component and by where they end."""
    return by_end(checker, answer, checker.setting.layout.components_by_name)


def held_text(held: Mapping[str, Mapping[int, int]]) -> str:
    """What a request holds, as a reader wants it: places, and after how many units each ends."""
    words = []
    for name, some in held.items():
        if some:
            words.append(f"{name} " + ", ".join(f"{place} (to {end})" for end, place in sorted(some.items())))
    return "; ".join(words) or "nothing"
