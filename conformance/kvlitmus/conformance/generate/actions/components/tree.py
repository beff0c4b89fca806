"""Actions on a cache of components: what an engine does with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.generate.actions.registry import MAX_LOANS, MAX_RECEIPTS, action
from kvlitmus.spec.prefix.components.calls import Entries
from kvlitmus.spec.words.shapes import Component, Point, Run, Window, needed
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker
    from kvlitmus.conformance.generate.caller import Caller


def wanted(component: Component, length: int, units: int, kept: int) -> list[int]:
    """Where the entries end that an engine has of a component after it computed a key from a hit on.

    Of the run all of them; of the others what the end of the key needs, and, where ``kept`` says so, all the rest that
    it came by, or nothing.
    """
    step = component.unit
    ends = [end for end in range(step, units + 1, step) if end > length]
    last = units - units % step
    if isinstance(component.shape, Run):
        return ends
    if kept % 4 == 0:
        return []
    if isinstance(component.shape, Point):
        return [end for end in ends if end == last or (kept % 4 == 3 and end % (2 * step) == 0)]
    need = needed(component, last) or range(0)
    return ends if kept % 4 == 3 else [end for end in ends if end in need]


def use(checker: Checker, key: Key, kept: int, *, twice: bool = False) -> None:
    """Serve a request: match, lock, allocate what is missing, compute, insert, give the rest back.

    ``twice``: all of it, also what is cached by now, as who began when nothing was cached yet.
    """
    length, handle = components.match(checker, key)
    receipt = max(checker.state.covers, default=-1) + 1
    components.lock(checker, key, length, handle, receipt)
    compute(checker, key, 0 if twice else length, kept)
    components.unlock(checker, receipt)


def compute(checker: Checker, key: Key, length: int, kept: int) -> None:
    """Compute a key from a protected hit on, and cache what was computed."""
    layout = checker.setting.layout
    units = len(key.units) - len(key.units) % checker.size
    ends = {one.name: wanted(one, length, units, kept >> (2 * at)) for at, one in enumerate(layout.components)}
    if checker.setting.profile.component_grants == "whole":
        windows = [one for one in layout.components if isinstance(one.shape, Window)]
        ends |= {one.name: ends[one.name] or wanted(one, length, units, 1) for one in windows}
    if checker.setting.profile.component_points == "end":
        if not ends[layout.base.name]:
            return
        ends |= {one.name: [units] for one in layout.components if isinstance(one.shape, Point)}
    wants = {name: len(some) for name, some in ends.items() if some}
    granted = room_for(checker, wants)
    if granted is None:
        return
    # A grant that is too short was judged when it was given; what there is of it is brought.
    entries = {name: dict(zip(ends[name], places, strict=False)) for name, places in granted.items()}
    left = components.insert(checker, key, entries)
    give_left(checker, left)


def give_left(checker: Checker, left: Entries) -> None:
    """Give back what an insert left, unless the cache has done that."""
    if checker.setting.profile.duplicates != "cache_frees":
        components.free(checker, left)


def together(checker: Checker, wants: Mapping[str, int]) -> Mapping[str, int]:
    """What may be asked for at once: where windows come with KV, as much of that at least."""
    layout = checker.setting.layout
    windows = [wants.get(one.name, 0) for one in layout.components if isinstance(one.shape, Window)]
    if checker.setting.profile.component_grants == "each" or not windows:
        return wants
    return {**wants, layout.base.name: max(wants.get(layout.base.name, 0), *windows)}


def room_for(checker: Checker, wants: Mapping[str, int]) -> Mapping[str, tuple[int, ...]] | None:
    """Entries for an engine that evicts once, component by component, when it is refused."""
    granted = components.alloc(checker, wants)
    if granted is None:
        for name, many in wants.items():
            components.evict(checker, {name: many})
        granted = components.alloc(checker, wants)
    return granted


@action("component_use")
def component_use(caller: Caller, a: int, b: int, c: int) -> None:
    """Serve a request; now and then one that computes what another has cached meanwhile.

    Not where places come in pairs: what is left of such a pair could not be given back together.
    """
    twice = b % 8 == 7 and caller.checker.setting.profile.component_grants == "each"
    use(caller.checker, caller.key(a, b, c), c // 4, twice=twice)


@action("component_match")
def component_match(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key."""
    components.match(caller.checker, caller.key(a, b, c))


@action("component_lock")
def component_lock(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key and protect what was found."""
    checker = caller.checker
    receipts = checker.state.covers
    if len(receipts) < MAX_RECEIPTS:
        key = caller.key(a, b, c)
        length, handle = components.match(checker, key)
        components.lock(checker, key, length, handle, max(receipts, default=-1) + 1)


@action("component_unlock")
def component_unlock(caller: Caller, a: int, b: int, c: int) -> None:
    """Give a receipt back."""
    receipt = caller.pick("component receipt", caller.checker.state.covers, a)
    if receipt is not None:
        components.unlock(caller.checker, receipt)


@action("component_alloc")
def component_alloc(caller: Caller, a: int, b: int, c: int) -> None:
    """Allocate entries of all components at once."""
    if len(caller.entries) < MAX_LOANS:
        layout = caller.checker.setting.layout
        wants = {one.name: (a, b, c)[at % 3] % 4 for at, one in enumerate(layout.components)}
        granted = components.alloc(caller.checker, together(caller.checker, wants))
        if granted is not None:
            caller.serial += 1
            caller.entries[caller.serial] = granted


@action("component_free")
def component_free(caller: Caller, a: int, b: int, c: int) -> None:
    """Give entries back."""
    which = caller.pick("entry", caller.entries, a)
    if which is not None:
        components.free(caller.checker, caller.entries.pop(which))


@action("component_evict")
def component_evict(caller: Caller, a: int, b: int, c: int) -> None:
    """Evict entries of a component, rarely of all."""
    layout = caller.checker.setting.layout
    one = layout.components[a % len(layout.components)]
    wants = {one.name: 1 + b % 4}
    if c < 32:
        wants = {other.name: 1 + b % 3 for other in layout.components}
    components.evict(caller.checker, wants)


@action("component_reset")
def component_reset(caller: Caller, a: int, b: int, c: int) -> None:
    """Forget everything; rarely, and not while something is fetched."""
    if a < 64 and not caller.checker.state.fetches:
        components.reset(caller.checker)
        caller.entries.clear()
