"""Misuse as the last call of a schedule: what a caller must not do, tried once where the profile says what it does.

After it the caller gives back what it holds, as after any schedule: a cache that refused the call goes on as if there
had been none (MISUSE-07 to MISUSE-09).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kvlitmus.conformance.checker.calls import misuse, pool, tree
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.checker import Loan
from kvlitmus.conformance.generate.actions.registry import action, pick
from kvlitmus.conformance.generate.schedule import make_key
from kvlitmus.spec.units import Key, PageNo, page_slots

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller

LAST = "misuse"
"""The kind of operation with which a schedule ends."""


class Wrong(NamedTuple):
    """One forbidden call: the method, as a reader should see it, what is wrong with it, and how it is made."""

    method: str
    text: str
    wrong: str
    make: Callable[[], object]


def stale_unlock(caller: Caller, a: int, key: Key) -> Wrong | None:
    """The receipt that was given back last, once more."""
    checker = caller.checker
    receipt = pick(checker.receipts, a)
    if receipt is None:
        caller.serial += 1
        receipt = caller.serial
        tree.lock(checker, tree.match(checker, key), key, receipt)
    token = checker.tokens[receipt]
    tree.unlock(checker, receipt)
    return Wrong("unlock", f"unlock(receipt {receipt})", "given back already", lambda: checker.adapter.unlock(token))


def unlock_of_nobody(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Something that is no receipt."""
    return Wrong("unlock", "unlock('no receipt')", "no receipt", lambda: caller.checker.adapter.unlock("no receipt"))


def free_of(caller: Caller, slots: list[object], wrong: str) -> Wrong:
    """A free of these slots."""
    return Wrong("free", f"free({slots})", wrong, lambda: caller.checker.adapter.free(slots))


def free_cached(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A page that the tree has."""
    cached = caller.checker.before.cached
    name = pick(dict(enumerate(cached.values())), a)
    if name is None:
        return None
    return free_of(caller, list(page_slots(list(cached.values())[name], caller.config.page_size)), "cached, not owned")


def free_outside(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A page beyond the pool."""
    beyond = PageNo(max(caller.checker.usable) + 1 + a % 3)
    return free_of(caller, list(page_slots(beyond, caller.config.page_size)), "beyond the pool")


def free_no_slots(caller: Caller, a: int, key: Key) -> Wrong | None:
    """What is no slot."""
    return free_of(caller, [("1", None, 1.5, -1)[a % 4]] * caller.config.page_size, "no slots")


def insert_of(caller: Caller, key: Key, slots: list[object], wrong: str) -> Wrong:
    """An insert of a key in these slots."""
    text = f"insert({key_text(key)}, {slots})"
    return Wrong("insert", text, wrong, lambda: caller.checker.adapter.insert(key, slots))


def own_pages(caller: Caller, many: int) -> list[object] | None:
    """Slots of the suite's own, as many pages as are asked for; ``None`` where there is no room."""
    checker = caller.checker
    got = pool.alloc(checker, many * caller.config.page_size)
    if got is None:
        return None
    caller.serial += 1
    checker.loans[caller.serial] = Loan(got)
    return list(got)


def two_pages(caller: Caller) -> Key:
    """A key of two pages that nothing else has."""
    size = caller.config.page_size
    return Key(None, tuple([9] * (2 * size + caller.config.bigram)), caller.config.bigram)


def insert_too_few(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Slots for one page of two."""
    own = own_pages(caller, 1)
    return None if own is None else insert_of(caller, two_pages(caller), own, "too few slots")


def insert_repeated(caller: Caller, a: int, key: Key) -> Wrong | None:
    """One page twice."""
    own = own_pages(caller, 1)
    return None if own is None else insert_of(caller, two_pages(caller), own * 2, "a page named twice")


def insert_foreign(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Pages that are free."""
    free = sorted(caller.checker.before.free)[: a % 3 + 2]
    if len(free) < 2:
        return None
    slots = [slot for page in free[:2] for slot in page_slots(page, caller.config.page_size)]
    return insert_of(caller, two_pages(caller), list(slots), "slots that nobody owns")


def insert_cached(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Pages that the tree has under another prefix."""
    pages = list(caller.checker.before.cached.values())[:2]
    if len(pages) < 2:
        return None
    slots = [slot for page in pages for slot in page_slots(page, caller.config.page_size)]
    return insert_of(caller, two_pages(caller), list(slots), "slots of another prefix")


def insert_no_slots(caller: Caller, a: int, key: Key) -> Wrong | None:
    """What is no slot."""
    odd: object = ("1", None, 1.5, -1, 1 << 40)[a % 5]
    return insert_of(caller, two_pages(caller), [odd] * (2 * caller.config.page_size), "no slots")


KINDS: tuple[tuple[frozenset[str], Callable[[Caller, int, Key], Wrong | None]], ...] = (
    (frozenset({"tree", "locks"}), stale_unlock),
    (frozenset({"locks"}), unlock_of_nobody),
    (frozenset({"pool", "inspect", "tree"}), free_cached),
    (frozenset({"pool"}), free_outside),
    (frozenset({"pool"}), free_no_slots),
    (frozenset({"pool", "tree"}), insert_too_few),
    (frozenset({"pool", "tree"}), insert_repeated),
    (frozenset({"pool", "tree", "inspect"}), insert_foreign),
    (frozenset({"pool", "tree", "inspect"}), insert_cached),
    (frozenset({"pool", "tree"}), insert_no_slots),
)
"""All kinds of forbidden calls, and the ports that each needs."""


@action(LAST)
def last(caller: Caller, a: int, b: int, c: int) -> None:
    """One forbidden call; where the profile leaves it undefined what happens then, none is made."""
    checker = caller.checker
    if checker.profile.misuse == "undefined" or checker.store is not None or caller.misused:
        return
    for further in range(len(KINDS)):
        needs, kind = KINDS[(b + further) % len(KINDS)]
        if needs <= checker.capabilities:
            wrong = kind(caller, a, make_key(caller.config, a, b, c))
            if wrong is not None:
                caller.misused = True
                misuse.forbidden(checker, *wrong)
                return
