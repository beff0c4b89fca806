"""Calls that the contract forbids, and the look at the pool afterwards.

Only the rules of the pack ``misuse`` are judged here: what else a broken contract does to a
cache is its caller's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.support.text import type_name
from kvlitmus.spec.misuse.calls import (
    Aftermath,
    DoubleFree,
    Forbidden,
    MisuseCall,
    OddAlloc,
    PartialFree,
    RepeatedFree,
    Scribble,
    StaleUnlock,
    page_granted,
)
from kvlitmus.spec.misuse.rules import taken_after
from kvlitmus.spec.prefix.calls import Alloc
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key, PageNo, Slot, Tokens

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

GOES_ON = "MISUSE-09"
"""The rule that a cache goes on after what it has refused."""

OWN_AGAIN = "MISUSE-12"
"""The rule that an array is the caller's again when the call has returned."""


AFTER = {GOES_ON: "the refused call", OWN_AGAIN: "the arrays were overwritten"}
"""After what lawful calls break these rules."""


def double_free(checker: Checker, slots: Sequence[Slot]) -> None:
    """Free slots that were freed already, in one call more."""
    text = f"free({list(slots)})  # freed already"
    _forbidden(checker, DoubleFree(tuple(slots)), text, lambda: checker.adapter.free(list(slots)))


def repeated_free(checker: Checker, slots: Sequence[Slot]) -> None:
    """Free the suite's own slots, naming them twice in one call."""
    twice = [*slots, *slots]
    text = f"free({twice})  # each named twice"
    _forbidden(checker, RepeatedFree(tuple(slots)), text, lambda: checker.adapter.free(twice), slots)


def partial_free(checker: Checker, slots: Sequence[Slot]) -> None:
    """Free the first slot of a page that the suite owns and goes on using."""
    part = list(slots[:1])
    text = f"free({part})  # part of a page"
    _forbidden(checker, PartialFree(tuple(slots)), text, lambda: checker.adapter.free(part), later=slots)


def stale_unlock(checker: Checker, receipt: object, number: int) -> None:
    """Give a receipt back that was given back already."""
    text = f"unlock(receipt {number})  # given back already"
    _forbidden(checker, StaleUnlock(number), text, lambda: checker.adapter.unlock(receipt))


def odd_alloc(checker: Checker, n: int) -> None:
    """Allocate a number of slots that is no multiple of the page."""
    state, before = checker.state, checker.before
    raised = refused(checker, f"alloc({n})  # no multiple of {checker.size}", "alloc", lambda: checker.adapter.alloc(n))
    after = checker.observe_now()
    checker.misused(OddAlloc(Tokens(n)), Aftermath(raised, True, (), True), state, before, after)


def scribble(checker: Checker, n: int) -> None:
    """Allocate, and overwrite the very sequence that was returned.

    An adapter that hands out a copy offers ``scribble()``, which overwrites the cache's own handle, and
    ``shares_free_list()``, which says whether that handle lies in the memory of the free list.
    """
    raw = checker.call(f"alloc({n})", "alloc", n)
    slots = checker.slots_or_none(raw)
    checker.step(Alloc(Tokens(n)), slots)
    if slots is None:
        return
    before = checker.before
    checker.history.append("overwrite the returned sequence in place")
    shares = getattr(checker.adapter, "shares_free_list", None)
    aliased = callable(shares) and checker.flag(checker.look("shares_free_list"), "whether the free list is shared")
    own = getattr(checker.adapter, "scribble", None)
    if callable(own):
        checker.look("scribble")
    elif type(raw) is list:
        raw[:] = [0] * len(raw)
    _judge(checker, Scribble(Tokens(n)), checker.state, before, aliased=aliased)


def forbidden(checker: Checker, method: str, text: str, wrong: str, make: Callable[[], object]) -> None:
    """Make any other call that the contract forbids; ``wrong`` says what is.  The suite goes on as if it had not."""
    state, before = checker.state, checker.before
    raised = refused(checker, f"{text}  # {wrong}", method, make)
    checker.kept.clear()
    after = checker.observe_now()
    checker.misused(Forbidden(method, wrong), Aftermath(raised, True, (), True), state, before, after)
    checker.before = after


def go_on(
    checker: Checker,
    lawful: Callable[[], object],
    without: Callable[[], Sequence[str]] = lambda: (),
    rule: str = GOES_ON,
) -> None:
    """Make lawful calls after misuse that was refused: what they break is that the cache doesn't go on (MISUSE-09).

    ``without``: the rules that the same calls break where there was no misuse; these are broken by themselves.
    ``rule``: what is broken then, of calls after something else.
    """
    checker.evaluated[rule] += 1
    try:
        lawful()
    except Violation as violation:
        if rule in checker.muted or not {*violation.rules}.isdisjoint(without()):
            raise
        detail = violation.detail or "the answers, or what is seen, are not those of a cache that was not misused"
        text = f"after {AFTER[rule]} {violation.call or 'a lawful call'} broke {', '.join(violation.rules)}: {detail}"
        raise Violation((rule,), violation.call, violation.facts, text) from violation


def _forbidden(
    checker: Checker,
    call: MisuseCall,
    text: str,
    make: Callable[[], object],
    owned: Sequence[Slot] = (),
    later: Sequence[Slot] = (),
) -> None:
    """Make a forbidden call, note whether it raised, and look at the pool.

    The slots ``owned`` are given up where nobody says what the call does.  Of ``later`` all but the
    first page is freed lawfully afterwards, so that what is free is put together again.
    """
    state = checker.state
    raised = refused(checker, text, text.partition("(")[0], make)
    if owned and not raised and checker.profile.misuse == "undefined":
        checker.disown(owned)
    taken_back = not later or _lawful_free(checker, later[checker.size :])
    _judge(checker, call, state, checker.before, raised=raised, taken_back=taken_back)


def attempted(checker: Checker, text: str, method: str, make: Callable[[], object]) -> tuple[object, bool]:
    """Make a call that the cache may refuse by an error of its own choice; its answer, and whether it raised."""
    checker.announce(text, method)
    answer, error = checker.attempt(make)
    if error is not None:
        checker.history[-1] += f" → raised {type_name(error)}"
    return answer, error is not None


def refused(checker: Checker, text: str, method: str, make: Callable[[], object]) -> bool:
    """Whether such a call raised."""
    return attempted(checker, text, method, make)[1]


def beyond(key: Key, token: int) -> tuple[Key, str]:
    """The key with a first token that no key has, and a match of that, for a reader (MISUSE-13)."""
    odd = key._replace(tokens=(token, *key.tokens[1:]))
    return odd, f"match({key_text(odd)})  # beyond the vocabulary"


def _lawful_free(checker: Checker, slots: Sequence[Slot]) -> bool:
    """Free whole pages of the suite's own; whether the pool takes them back."""
    # A pool that refuses a lawful free is unsound, and that is judged.
    if refused(checker, f"free({list(slots)})", "free", lambda: checker.adapter.free(list(slots))):
        return False
    checker.disown(slots)
    return True


def _judge(
    checker: Checker,
    call: MisuseCall,
    state: State,
    before: Seen,
    *,
    raised: bool = False,
    taken_back: bool = True,
    aliased: bool = False,
) -> None:
    """Look at the cache, and at what can still be allocated."""
    checker.kept.clear()
    after = checker.observe_now()
    grants, refused = _refill(checker, before) if taken_back else ((), False)
    checker.misused(call, Aftermath(raised, taken_back, grants, refused, aliased), state, before, after)


def _refill(checker: Checker, before: Seen) -> tuple[Grants, bool]:
    """Allocate page by page."""
    size = checker.size

    def read(got: object) -> Granted:
        # Integers that are no slots are what became of the pool, and no fault of the port's form.
        slots = tuple(checker.plain(checker.bounded(checker.listed(got, "slots"), "slots")))
        return Granted(slots, slots[: 2 * size], checker.setting)

    taken = taken_after(checker.state, before)
    text, pages = f"alloc({size})", checker.config.pages
    return refill(checker, pages, taken, text, "alloc", lambda: checker.adapter.alloc(size), read)


class Granted(NamedTuple):
    """The slots of a grant, what a reader is shown of it, and the setting in which it is sound or not."""

    slots: tuple[int, ...]
    shown: Sequence[int]
    setting: Setting


Grants = tuple[tuple[int, ...], ...]


def refill(
    checker: Checker,
    pages: int,
    taken: set[PageNo],
    text: str,
    method: str,
    make: Callable[[], object],
    read: Callable[[object], Granted],
) -> tuple[Grants, bool]:
    """Allocate from a pool of so many ``pages`` until it is refused, or twice as often.

    What was granted, up to the first grant that isn't sound, and whether it ended refused.
    """
    grants: list[tuple[int, ...]] = []
    checker.announce(f"{text} until it is refused", method)
    for _ in range(2 * pages + 1):
        got, error = checker.attempt(make)
        if error is not None:  # a pool that can't allocate any more is unsound, and that is judged
            checker.history[-1] += f" → raised {type_name(error)}"
            return tuple(grants), False
        if got is None:
            return tuple(grants), True
        granted = read(got)
        grants.append(granted.slots)
        page = page_granted(granted.setting, granted.slots, taken)
        if page is None:
            checker.history[-1] += f" → … {list(granted.shown)}"
            break
        taken.add(page)
    return tuple(grants), False
