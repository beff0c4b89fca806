"""Calls with arrays as the cache's own callers have them: judged like any match, insert or request.

What is passed stays the caller's: it is looked at after each call (PORT-04), and written into once the call has
returned; so is what a match hands out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.calls.misuse import attempted, beyond
from kvlitmus.conformance.checker.calls.prefix import fetch, request, tree
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.support.text import type_name
from kvlitmus.spec.interface import Hit
from kvlitmus.spec.misuse.calls import Beyond, Found, Lookups, OtherWidth
from kvlitmus.spec.prefix.calls import Insert, Match
from kvlitmus.spec.words.units import Key, Slot, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

WRITTEN = 3
"""What is written into an array afterwards: a token and a slot that there are in any cache."""


def array(checker: Checker, values: Sequence[int], form: str = "own") -> Any:
    """These values in a form of the cache's callers; ``None`` where they have no such thing."""
    return checker.look("raw_array", list(values), form)


def match(checker: Checker, key: Key) -> Hit:
    """Match a key that comes as an array."""
    return _match(checker, key)[0]


def handed_out(checker: Checker, key: Key) -> Any:
    """Match a key that comes as an array; returns the very sequence of slots that was handed out."""
    return getattr(_match(checker, key)[1], "slots", None)


def _match(checker: Checker, key: Key) -> tuple[Hit, object]:
    """The match, read and as it was answered."""
    checker.within(key)
    tokens = array(checker, key.tokens)
    answer = checker.call(f"match(array of {key_text(key)})", "raw_match", tokens, key.namespace)
    hit = tree.read_hit(checker, answer)
    same(checker, tokens, key.tokens)
    checker.step(Match(checker.path(key)), hit)
    return hit, answer


def insert(checker: Checker, key: Key, slots: Sequence[Slot]) -> tuple[tuple[Slot, ...], list[Any]]:
    """Insert a key with slots of the suite's own; returns the slots that are still the suite's, and the two arrays."""
    checker.within(key)
    call = Insert(checker.path(key), tuple(slots))
    checker.poke(call, None)
    tokens, places = array(checker, key.tokens), array(checker, slots)
    text = f"insert(array of {key_text(key)}, array of {list(slots)})"
    answer = checker.call(text, "raw_insert", tokens, places, key.namespace)
    same(checker, tokens, key.tokens)
    same(checker, places, slots)
    return tree.inserted(checker, call, answer), [tokens, places]


def begin(checker: Checker, rid: int, key: Key) -> list[Any] | None:
    """Begin a request whose prompt is an array; returns that, or ``None`` where it was refused."""
    checker.within(key)
    tokens = array(checker, key.tokens)
    answer = checker.call(f"begin({rid}, array of {key_text(key)})", "raw_begin", rid, tokens, key.namespace)
    same(checker, tokens, key.tokens)
    return [tokens] if request.begun(checker, rid, key, answer) else None


def prefetch(checker: Checker, rid: int, key: Key) -> list[Any] | None:
    """Ask for a prefetch of a key that comes as an array; returns that, or ``None`` where it was refused."""
    checker.within(key)
    tokens = array(checker, key.tokens)
    text = f"prefetch({rid}, array of {key_text(key)})"
    answer = checker.call(text, "raw_prefetch", rid, tokens, key.namespace)
    same(checker, tokens, key.tokens)
    return [tokens] if fetch.asked_for(checker, rid, key, answer) else None


def prefetch_narrow(checker: Checker, rid: int, key: Key) -> bool:
    """Ask for a prefetch of integers of fewer bits; whether it has begun.  One that is answered is like any other."""
    narrow = array(checker, key.tokens, "narrow")
    if narrow is None:
        return False
    checker.announce(f"prefetch({rid}, array of {key_text(key)} as narrow integers)", "prefetch")
    answer, error = checker.attempt(lambda: checker.adapter.raw_prefetch(rid, narrow, key.namespace))
    if error is not None:
        checker.history[-1] += f" → raised {type_name(error)}"
        return False
    return fetch.asked_for(checker, rid, key, answer)


def overwrite_answer(checker: Checker, slots: Any) -> bool:
    """Write into the sequence that a match has handed out; whether it lets itself be, as far as is tried."""
    if not checker.overwrites:
        return True
    try:
        many = len(slots)
        for at in range(many):
            slots[at] = WRITTEN
    except (TypeError, ValueError):
        return False
    checker.kept.forget(slots)
    if many:
        checker.history.append(f"overwrite the slots that were handed out with {WRITTEN}")
    return many > 0


def overwrite(checker: Checker, arrays: Sequence[Any]) -> None:
    """Write into arrays that were passed to a call which has returned."""
    if not checker.overwrites:
        return
    checker.history.append(f"overwrite the arrays that were passed with {WRITTEN}")
    for one in arrays:
        for at in range(len(one)):
            one[at] = WRITTEN


def same(checker: Checker, passed: Any, values: Sequence[int]) -> None:
    """What was passed to a call must hold what it held (PORT-04)."""
    now = list(passed)
    if now != list(values):
        raise checker.broken("PORT-04", f"the call changed its argument from {list(values)} to {now}")


def match_narrow(checker: Checker, key: Key) -> None:
    """Match a key twice: as an array of the cache's own form, and of integers of fewer bits (MISUSE-11)."""
    narrow = array(checker, key.tokens, "narrow")
    if narrow is None:
        return
    lawful = match(checker, key)
    _odd_match(checker, OtherWidth(key.length), key, narrow, "as narrow integers", lawful)


def match_beyond(checker: Checker, key: Key, token: int) -> None:
    """Match a key twice: as it is, and with a first token that no key has (MISUSE-13)."""
    lawful = tree.match(checker, key)
    odd, text = beyond(key, token)
    _judge(checker, Beyond(token), text, "match", odd, lawful)


def _odd_match(checker: Checker, call: OtherWidth, key: Key, passed: object, how: str, lawful: Hit) -> None:
    """Make a match whose tokens are passed in another form; where it is answered it is a match like any other."""
    text = f"match(array of {key_text(key)} {how})"
    hit = _judge(checker, call, text, "raw_match", passed, lawful, key.namespace)
    if hit is not None:
        checker.step(Match(checker.path(key)), hit)


def _judge(
    checker: Checker, call: OtherWidth | Beyond, text: str, method: str, passed: object, lawful: Hit, *further: object
) -> Hit | None:
    """Make a match with something odd about it; what it found, where it doesn't raise."""
    state, before = checker.state, checker.before
    answer, raised = attempted(checker, text, "match", lambda: getattr(checker.adapter, method)(passed, *further))
    hit = None if raised else tree.read_hit(checker, answer)
    checker.kept.clear()
    after = checker.observe_now()
    lookups = Lookups(raised, _found(hit), _found(lawful))
    checker.misused(call, lookups, state, before, after)
    return hit


def _found(hit: Hit | None) -> Found:
    """What a match said, as a value."""
    if hit is None:
        return Found()
    return Found(Tokens(hit.length), None if hit.slots is None else tuple(map(Slot, hit.slots)))
