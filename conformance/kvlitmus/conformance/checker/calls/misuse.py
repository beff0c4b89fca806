"""Calls that the contract forbids, and the look at the pool afterwards.

Only the rules of the pack ``misuse`` are judged here: what else a broken contract does to a
cache is its caller's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kvlitmus.spec.units import Slot

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Judge


def double_free(judge: Judge, slots: Sequence[Slot]) -> None:
    """Free slots that were freed already, in one call more."""
    _forbidden(judge, "double_free", f"free({list(slots)})  # freed already", lambda: judge.adapter.free(list(slots)))


def repeated_free(judge: Judge, slots: Sequence[Slot]) -> None:
    """Free the suite's own slots, naming them twice in one call."""
    twice = [*slots, *slots]
    _forbidden(judge, "repeated_free", f"free({twice})  # each named twice", lambda: judge.adapter.free(twice), slots)


def partial_free(judge: Judge, slots: Sequence[Slot]) -> None:
    """Free the first slot of a page that the suite owns and goes on using."""
    part = list(slots[:1])
    _forbidden(judge, "partial_free", f"free({part})  # part of a page", lambda: judge.adapter.free(part), later=slots)


def stale_unlock(judge: Judge, receipt: object, number: int) -> None:
    """Give a receipt back that was given back already."""
    _forbidden(
        judge, "stale_unlock", f"unlock(receipt {number})  # given back already", lambda: judge.adapter.unlock(receipt)
    )


def scribble(judge: Judge, n: int) -> None:
    """Allocate, and overwrite the very sequence that was returned.

    An adapter that hands out a copy offers ``scribble()``, which overwrites the cache's own handle, and
    ``shares_free_list()``, which says whether that handle lies in the memory of the free list.
    """
    judge.trail.append(f"alloc({n})")
    raw = judge.adapter.alloc(n)
    slots = tuple(int(slot) for slot in raw)
    judge.own(tuple(map(Slot, slots)))
    before = judge.observe_now()
    judge.trail.append("overwrite the returned sequence in place")
    shares = getattr(judge.adapter, "shares_free_list", None)
    aliased = callable(shares) and bool(shares())
    own = getattr(judge.adapter, "scribble", None)
    if callable(own):
        own()
    elif isinstance(raw, list):
        raw[:] = [0] * len(raw)
    after = judge.observe_now()
    facts: dict[str, Any] = {"handle_aliased": aliased or before.listed != after.listed, "raised": False}
    _judge(judge, "scribble", facts)


def _forbidden(
    judge: Judge,
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
    before = judge.before
    judge.announce(text, text.partition("(")[0])
    raised = False
    try:
        call()
    except Exception as error:  # noqa: BLE001  what is raised is the cache's own choice
        raised = True
        judge.trail[-1] += f" → raised {type(error).__name__}"
    if owned and not raised and judge.profile.misuse == "undefined":
        judge.disown(owned)
    sound = not later or _lawful_free(judge, later[judge.size :])
    protected = before.sizes[1] if before.sizes else 0
    _judge(judge, kind, {"raised": raised, "protected_before": protected}, sound=sound)


def _lawful_free(judge: Judge, slots: Sequence[Slot]) -> bool:
    """Free whole pages of the suite's own; whether the pool takes them back."""
    judge.announce(f"free({list(slots)})", "free")
    try:
        judge.adapter.free(list(slots))
    except Exception as error:  # noqa: BLE001 - a pool that refuses a lawful free is unsound, and that is judged
        judge.trail[-1] += f" → raised {type(error).__name__}"
        return False
    judge.disown(slots)
    return True


def _judge(judge: Judge, kind: str, facts: dict[str, Any], *, sound: bool = True) -> None:
    judge.kept.clear()
    after = judge.observe_now()
    facts["declared_misuse"] = judge.profile.misuse
    facts["capacity"] = judge.capacity
    if after.available is not None:
        facts["available_after"] = after.available
    if after.sizes is not None:
        facts["protected"] = after.sizes[1]
    facts["later_sound"] = sound and _later_sound(judge)
    judge.evaluate(f"misuse+{kind}", facts)


def _later_sound(judge: Judge) -> bool:
    """Whether all that is free can be allocated page by page: whole pages, none twice, none that is owned."""
    size = judge.size
    seen: set[int] = set(judge.owners) | set(judge.locked_pages().values()) | set(judge.before.cached.values())
    judge.announce(f"alloc({size}) until it is refused", "alloc")
    for _ in range(2 * judge.config.pages + 1):
        try:
            got = judge.adapter.alloc(size)
            slots = None if got is None else [int(slot) for slot in got]
        except Exception as error:  # noqa: BLE001 - a pool that can't allocate any more is unsound, and that is judged
            judge.trail[-1] += f" → raised {type(error).__name__}"
            return False
        if slots is None:
            return True
        page = slots[0] // size if slots else -1
        if slots != list(range(page * size, page * size + size)) or page not in judge.usable or page in seen:
            judge.trail[-1] += f" → … {slots[: 2 * size]}"
            return False
        seen.add(page)
    return False
