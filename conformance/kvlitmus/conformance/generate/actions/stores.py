"""Actions on a page store: few keys, so that puts, gets, damage and ranks meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls import stores as store
from kvlitmus.conformance.generate.actions.registry import action
from kvlitmus.conformance.litmus.stores import HOSTILE
from kvlitmus.spec.stores.facts import DAMAGES

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller

KEYS = 7
FAULTS = (*DAMAGES, "gone")
SAFE = tuple(key for key in HOSTILE if "stray" not in key)
"""Keys that are tried on stores of which it can't be seen where they write."""


def batch(a: int, b: int) -> list[str]:
    """One to six keys: mostly a run of a chain, sometimes with a repetition or in another order."""
    start, length, step = a % KEYS, 1 + (a // KEYS) % 6, (1, 1, 1, 2, 0, KEYS - 1)[b % 6]
    return [store.ordinary_key((start + at * step) % KEYS) for at in range(length)]


@action("store_put")
def put(caller: Caller, a: int, b: int, c: int) -> None:
    """Put a batch of new pages."""
    keys = batch(a, b)
    store.put(caller.checker, keys, [store.new_page(caller.checker, key) for key in keys])


@action("store_get")
def get(caller: Caller, a: int, b: int, c: int) -> None:
    """Read a batch, into buffers now and then."""
    if c < 64 and "store_into" in caller.checker.capabilities:
        store.get_into(caller.checker, batch(a, b))
    else:
        store.get(caller.checker, batch(a, b))


@action("store_lookup")
def lookup(caller: Caller, a: int, b: int, c: int) -> None:
    """Ask for the leading run and read it, or only ask."""
    if c & 1:
        store.exists(caller.checker, batch(a, b))
    else:
        store.lookup(caller.checker, batch(a, b))


@action("store_damage")
def damage(caller: Caller, a: int, b: int, c: int) -> None:
    """Damage an object, or open the store again; then read it, or put it first."""
    checker = caller.checker
    key, other = store.ordinary_key(a % KEYS), store.ordinary_key(b % KEYS)
    if c % 8 == 7:
        store.reopen(checker)
    elif store.damage(checker, key, FAULTS[c % len(FAULTS)], other) and b & 128:
        store.get(checker, [other, key])


@action("store_crash")
def crash(caller: Caller, a: int, b: int, c: int) -> None:
    """Have a writer die after some bytes."""
    checker = caller.checker
    key = store.ordinary_key(a % KEYS)
    store.crash(checker, key, store.new_page(checker, key), (b * 256 + c) % (store.page_bytes(checker) + 160))


@action("store_rank")
def rank(caller: Caller, a: int, b: int, c: int) -> None:
    """Go on as the other rank."""
    store.rank(caller.checker, 1 - caller.checker.store_state.rank)


@action("store_odd")
def odd(caller: Caller, a: int, b: int, c: int) -> None:
    """Put a key out of the ordinary, between two others or alone, and read it."""
    checker = caller.checker
    keys = HOSTILE if "store_yard" in checker.capabilities else SAFE
    chosen = [keys[a % len(keys)]]
    if b & 1:
        chosen = [store.ordinary_key(b % KEYS), *chosen, store.ordinary_key(c % KEYS)]
    if not c & 1:
        store.put(checker, chosen, [store.new_page(checker, key) for key in chosen])
    store.get(checker, chosen)


@action("store_clear")
def clear(caller: Caller, a: int, b: int, c: int) -> None:
    """Clear everything; rarely."""
    if a < 64:
        store.clear(caller.checker)
