"""Calls on requests: begin, grow, publish, end; and what is computed in between, of which the cache hears nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec.interface import Begun
from kvlitmus.spec.prefix.calls import Begin, Compute, Discard, End, Fork, Grow, Publish, Resume, Retract, TakeBack
from kvlitmus.spec.prefix.state import RequestState
from kvlitmus.spec.words.units import Key, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def begin(checker: Checker, rid: int, key: Key, *, ahead: bool = False) -> bool:
    """Begin a request; ``False`` when the cache refuses for want of memory.

    What isn't cached is computed at once; or, if its slots are taken ``ahead``, by later calls of :func:`compute`.
    """
    answer = checker.call(f"begin({rid}, {key_text(key)})", "begin", rid, key)
    return begun(checker, rid, key, answer, ahead=ahead)


def begun(checker: Checker, rid: int, key: Key, answer: object, *, ahead: bool = False) -> bool:
    """Judge the beginning of a request that was answered so; ``False`` when it was refused."""
    begins = _granted(checker, answer)
    checker.step(Begin(rid, checker.path(key, row=begins is not None), ahead), begins)
    return begins is not None


def grow(checker: Checker, rid: int, tokens: Sequence[int]) -> bool:
    """Grow a request by further tokens; ``False`` when refused."""
    key = checker.requests[rid].path.key
    answer = checker.call(f"grow({rid}, {list(tokens)})", "grow", rid, list(tokens))
    new = checker.slots_or_none(answer)
    grown = None if new is None else checker.path(key._replace(tokens=key.tokens + tuple(tokens)), row=True)
    checker.step(Grow(rid, Tokens(len(tokens)), grown), new)
    return new is not None


def most_to_take_back(running: RequestState) -> int:
    """How many tokens of a request are its own, so that they may be taken back; it keeps one at least."""
    return max(0, len(running.row) - max(running.cached + int(running.path.key.bigram), 1))


def take_back(checker: Checker, rid: int, n: int) -> None:
    """Take the last ``n`` tokens of a request back."""
    key = checker.requests[rid].path.key
    answer = checker.call(f"take_back({rid}, {n})", "take_back", rid, n)
    freed = checker.count(answer, "the slots that came free")
    checker.history[-1] += f" → {freed}"
    left = checker.path(key._replace(tokens=key.tokens[: len(key.tokens) - n]), row=True)
    checker.step(TakeBack(rid, Tokens(n), left), freed)


def fork(checker: Checker, rid: int, of: int) -> bool:
    """Begin a second request over the row of a running one; ``False`` when refused."""
    answer = checker.call(f"fork({rid}, {of})", "fork", rid, of)
    begins = _granted(checker, answer)
    checker.step(Fork(rid, of), begins)
    return begins is not None


def retract(checker: Checker, rid: int) -> bool:
    """Retract a request with a copy on the host; ``False`` when refused."""
    retracted = checker.flag(checker.call(f"retract({rid})", "retract", rid), "whether the request was retracted")
    checker.history[-1] += f" → {retracted}"
    checker.step(Retract(rid), retracted)
    return retracted


def resume(checker: Checker, rid: int) -> bool:
    """Let a retracted request run again; ``False`` when refused."""
    answer = checker.call(f"resume({rid})", "resume", rid)
    begins = _granted(checker, answer)
    checker.step(Resume(rid, checker.state.retracted.requests[rid].path), begins)
    return begins is not None


def discard(checker: Checker, rid: int) -> None:
    """Abort a retracted request."""
    checker.call(f"discard({rid})", "discard", rid)
    checker.step(Discard(rid), None)


def compute(checker: Checker, rid: int, units: int) -> None:
    """Compute the next slots of a request that took them ahead; the cache isn't told."""
    checker.compute(Compute(rid, units))


def publish(checker: Checker, rid: int, *, chunked: bool, grouped: bool = False, upto: int | None = None) -> None:
    """Publish what a request has computed so far; ``grouped`` in a free group, as schedulers do for a whole batch.

    ``upto``: how many units that is, where it isn't all of the request.
    """
    if grouped:
        checker.call("free_group_begin()", "free_group_begin")
    if upto is None:
        answer = checker.call(f"publish({rid}, chunked={chunked})", "publish", rid, chunked=chunked)
    else:
        text = f"publish_upto({rid}, {upto}, chunked={chunked})"
        answer = checker.call(text, "publish_upto", rid, upto, chunked=chunked)
    begun = _begun(checker, answer)
    if grouped:
        checker.call("free_group_end()", "free_group_end")
    checker.step(Publish(rid, upto, chunked), begun)


def end(checker: Checker, rid: int, *, keep: bool, upto: int | None = None) -> None:
    """Finish a request (``keep``), or abort or retract it; ``upto``: how many units of it are computed, if not all."""
    upto = upto if keep else None
    if upto is not None:
        checker.call(f"end_upto({rid}, {upto})", "end_upto", rid, upto)
    else:
        checker.call(f"end({rid}, keep={keep})", "end", rid, keep=keep)
    checker.step(End(rid, keep or checker.setting.keeps_aborted, upto), None)


def _granted(checker: Checker, answer: object) -> Begun | None:
    """The answer of a call that begins a request, in the promised form; ``None`` when it was refused."""
    if answer is None:
        checker.history[-1] += " → None"
        return None
    return _begun(checker, answer)


def _begun(checker: Checker, answer: object) -> Begun:
    """The answer of begin and publish, in the promised form."""
    listed, covered = checker.fields(answer, 2, "Begun(row, cached)")
    row = checker.slots(listed)
    cached = checker.count(covered, "the cached slots of the row")
    checker.history[-1] += f", {cached} cached"
    return Begun(row, cached)
