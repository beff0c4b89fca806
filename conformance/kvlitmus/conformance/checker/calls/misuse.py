"""Calls that the contract forbids, and the look at the pool afterwards.

Only the rules of the pack ``misuse`` are judged here: what else a broken contract does to a
cache is its caller's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.spec.units import Slot

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def double_free(checker: Checker, slots: Sequence[Slot]) -> None:
    """Free slots that were freed already, in one call more."""
    _forbidden(
        checker, "double_free", f"free({list(slots)})  # freed already", lambda: checker.adapter.free(list(slots))
    )


def repeated_free(checker: Checker, slots: Sequence[Slot]) -> None:
    """Free the suite's own slots, naming them twice in one call."""
    twice = [*slots, *slots]
    _forbidden(
        checker, "repeated_free", f"free({twice})  # each named twice", lambda: checker.adapter.free(twice), slots
    )


def partial_free(checker: Checker, slots: Sequence[Slot]) -> None:
    """Free the first slot of a page that the suite owns and goes on using."""
    part = list(slots[:1])
    _forbidden(
        checker, "partial_free", f"free({part})  # part of a page", lambda: checker.adapter.free(part), later=slots
    )


def stale_unlock(checker: Checker, receipt: object, number: int) -> None:
    """Give a receipt back that was given back already."""
    _forbidden(
        checker,
        "stale_unlock",
        f"unlock(receipt {number})  # given back already",
        lambda: checker.adapter.unlock(receipt),
    )


def scribble(checker: Checker, n: int) -> None:
    """Allocate, and overwrite the very sequence that was returned.

    An adapter that hands out a copy offers ``scribble()``, which overwrites the cache's own handle, and
    ``shares_free_list()``, which says whether that handle lies in the memory of the free list.
    """
    checker.history.append(f"alloc({n})")
    raw = checker.adapter.alloc(n)
    slots = tuple(int(slot) for slot in raw)
    checker.own(tuple(map(Slot, slots)))
    before = checker.observe_now()
    checker.history.append("overwrite the returned sequence in place")
    shares = getattr(checker.adapter, "shares_free_list", None)
    aliased = callable(shares) and bool(shares())
    own = getattr(checker.adapter, "scribble", None)
    if callable(own):
        own()
    elif isinstance(raw, list):
        raw[:] = [0] * len(raw)
    after = checker.observe_now()
    facts: dict[str, Any] = {"handle_aliased": aliased or before.listed != after.listed, "raised": False}
    _judge(checker, "scribble", facts)


def _forbidden(
    checker: Checker,
    kind: str,
    text: str,
    call: Callable[[], object],
    owned: Sequence[Slot] = (),
    later: Sequence[Slot] = (),
) -> None:
    """Make a forbidden call, note whether it raised, and look at the pool.

    The slots ``owned`` are given up where nobody says what the call does.  Of ``later`` all but the
    first page is freed lawfully afterwards, so that what is free is put together again.
    """
    before = checker.before
    checker.announce(text, text.partition("(")[0])
    raised = False
    try:
        call()
    except Exception as error:  # noqa: BLE001  what is raised is the cache's own choice
        raised = True
        checker.history[-1] += f" → raised {type(error).__name__}"
    if owned and not raised and checker.profile.misuse == "undefined":
        checker.disown(owned)
    sound = not later or _lawful_free(checker, later[checker.size :])
    protected = before.sizes[1] if before.sizes else 0
    _judge(checker, kind, {"raised": raised, "protected_before": protected}, sound=sound)


def _lawful_free(checker: Checker, slots: Sequence[Slot]) -> bool:
    """Free whole pages of the suite's own; whether the pool takes them back."""
    checker.announce(f"free({list(slots)})", "free")
    try:
        checker.adapter.free(list(slots))
    except Exception as error:  # noqa: BLE001 - a pool that refuses a lawful free is unsound, and that is judged
        checker.history[-1] += f" → raised {type(error).__name__}"
        return False
    checker.disown(slots)
    return True


def _judge(checker: Checker, kind: str, facts: dict[str, Any], *, sound: bool = True) -> None:
    checker.kept.clear()
    after = checker.observe_now()
    facts["declared_misuse"] = checker.profile.misuse
    facts["capacity"] = checker.capacity
    if after.available is not None:
        facts["available_after"] = after.available
    if after.sizes is not None:
        facts["protected"] = after.sizes[1]
    facts["later_sound"] = sound and _later_sound(checker)
    checker.evaluate(f"misuse+{kind}", facts)


def _later_sound(checker: Checker) -> bool:
    """Whether all that is free can be allocated page by page: whole pages, none twice, none that is owned."""
    size = checker.size
    seen: set[int] = set(checker.owners) | set(checker.locked_pages().values()) | set(checker.before.cached.values())
    checker.announce(f"alloc({size}) until it is refused", "alloc")
    for _ in range(2 * checker.config.pages + 1):
        try:
            got = checker.adapter.alloc(size)
            slots = None if got is None else [int(slot) for slot in got]
        except Exception as error:  # noqa: BLE001 - a pool that can't allocate any more is unsound, and that is judged
            checker.history[-1] += f" → raised {type(error).__name__}"
            return False
        if slots is None:
            return True
        page = slots[0] // size if slots else -1
        if slots != list(range(page * size, page * size + size)) or page not in checker.usable or page in seen:
            checker.history[-1] += f" → … {slots[: 2 * size]}"
            return False
        seen.add(page)
    return False
