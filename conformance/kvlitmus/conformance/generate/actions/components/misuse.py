"""Misuse of a cache of components, as the last call of a schedule: what a caller must not do (MISUSE-02, -08, -09)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components import host, misuse, prefetch, requests, storing
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.calls.components.answers import entries_text
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.generate.actions.components.host import EVERYTHING
from kvlitmus.conformance.generate.actions.components.tree import together, use
from kvlitmus.conformance.generate.actions.misuse import (
    Kind,
    Played,
    Wrong,
    beyond_vocabulary,
    end_with,
    with_odd_token,
)
from kvlitmus.conformance.generate.actions.registry import action
from kvlitmus.spec.prefix.components.calls import Entries
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.words.shapes import Component, step_of
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker
    from kvlitmus.conformance.generate.caller import Caller

OF_COMPONENTS = "component_last_call"
"""The kind of operation with which a schedule ends."""

Ends = dict[str, dict[int, int]]
"""What an insert brings: of each component where an entry ends, and its place."""

# Receipts, handles, and what is under way


def stale_unlock(caller: Caller, a: int, key: Key) -> Played:
    """The receipt that was given back last, once more."""
    checker = caller.checker
    receipt = caller.pick("component receipt", checker.state.covers, a)
    if receipt is None:
        receipt = 1 + max(checker.state.covers, default=0)
        length, handle = components.match(checker, key)
        components.lock(checker, key, length, handle, receipt)
    token = checker.tokens[receipt]
    components.unlock(checker, receipt)
    return Played(lambda: misuse.stale_unlock(checker, token, receipt))


def foreign(method: str, text: str) -> Kind:
    """A call with something that is no handle, no receipt, or nothing that is under way."""

    def kind(caller: Caller, a: int, key: Key) -> Wrong | None:
        odd = f"no {text}"
        make = getattr(caller.checker.adapter, method)
        more = (True,) if method in ("component_copied", "component_written") else ()
        return Wrong(method, f"{method.removeprefix('component_')}('{odd}')", odd, lambda: make(odd, *more))

    return kind


def lock_of_the_dead(caller: Caller, a: int, key: Key) -> Wrong | None:
    """The handle of a hit that all has gone of since."""
    checker = caller.checker
    if checker.state.fetches:
        return None
    use(checker, key, EVERYTHING)
    length, handle = components.match(checker, key)
    if not length:
        return None
    components.reset(checker)
    caller.entries.clear()
    make = lambda: checker.adapter.component_lock(handle)  # noqa: E731
    return Wrong("component_lock", f"lock(match of {length} units)", "of what was forgotten", make)


def stale_copy(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A copy that has ended ends once more."""
    checker = caller.checker
    number = caller.pick("component copy", host.copies(checker.state), a)
    if number is None:
        use(checker, key, EVERYTHING)
        length, handle = components.match(checker, key)
        number = host.free_number(checker, 0)
        if not host.back_up(checker, key, length, handle, number):
            return None
    copy = checker.copying[number]
    host.copied(checker, number)
    make = lambda: checker.adapter.component_copied(copy, True)  # noqa: E731
    return Wrong("component_copied", f"copy {number} has ended", "ended already", make)


def stale_fetch(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A prefetch that was given up, or committed, is given up once more."""
    checker = caller.checker
    among = [number for number, one in checker.state.fetches.items() if not one.over]
    number = caller.pick("component fetch", among, a)
    if number is None:
        return None
    fetch = checker.fetching[number]
    prefetch.abort(checker, number)
    make = lambda: checker.adapter.component_prefetch_abort(fetch)  # noqa: E731
    return Wrong("component_prefetch_abort", f"abort(prefetch {number})", "over already", make)


def stale_write(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A write that has ended ends once more."""
    checker = caller.checker
    number = caller.pick("component write", storing.writes(checker.state), a)
    if number is None:
        return None
    write = checker.writing[number]
    storing.written(checker, number)
    make = lambda: checker.adapter.component_written(write, True)  # noqa: E731
    return Wrong("component_written", f"write {number} has ended", "ended already", make)


def stale_request(method: str, *more: int) -> Kind:
    """A request that has ended ends, or goes on, once more."""

    def kind(caller: Caller, a: int, key: Key) -> Wrong | None:
        checker = caller.checker
        receipt = caller.pick("component request", checker.state.requests, a)
        if receipt is None:
            return None
        token = checker.tokens[receipt]
        requests.finish(checker, receipt)
        make = lambda: getattr(checker.adapter, method)(token, *more)  # noqa: E731
        return Wrong(method, f"{method.removeprefix('component_')}(request {receipt})", "ended already", make)

    return kind


# Places


def one_of_each(checker: Checker) -> Mapping[str, int]:
    """A place of each component."""
    return together(checker, {one.name: 1 for one in checker.setting.layout.components})


def own(caller: Caller, wants: Mapping[str, int]) -> Entries | None:
    """Places of the suite's own; ``None`` where there is no room."""
    got = components.alloc(caller.checker, wants)
    if got is not None:
        caller.serial += 1
        caller.entries[caller.serial] = got
    return got


def free_of(caller: Caller, given: Mapping[str, list[object]], wrong: str) -> Wrong:
    """A free of these places."""
    return Wrong(
        "component_free",
        f"free({entries_text(given)})",
        wrong,
        lambda: caller.checker.adapter.component_free(given),
    )


def free_freed(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Places that were freed already."""
    got = own(caller, one_of_each(caller.checker))
    if got is None:
        return None
    components.free(caller.checker, caller.entries.pop(caller.serial))
    return free_of(caller, {name: list(some) for name, some in got.items()}, "freed already")


def free_twice(caller: Caller, a: int, key: Key) -> Wrong | None:
    """Own places, each named twice."""
    got = own(caller, one_of_each(caller.checker))
    return None if got is None else free_of(caller, {name: [*some, *some] for name, some in got.items()}, "named twice")


def cached(caller: Caller, a: int, name: str) -> int | None:
    """A place in which an entry of a component is cached for certain."""
    device = caller.checker.state.tier(DEVICE, name)
    mine = sorted(page.page for at, page in device.pages.items() if at not in device.doubt.unsure)
    return mine[a % len(mine)] if mine else None


def free_cached(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A place of the tree."""
    layout = caller.checker.setting.layout
    name = layout.components[a % len(layout.components)].name
    place = cached(caller, a, name)
    return None if place is None else free_of(caller, {name: [place]}, "cached, not owned")


def free_no_place(caller: Caller, a: int, key: Key) -> Wrong | None:
    """What is no place of any pool."""
    odd = ("1", None, 1.5, -1, 1 << 40)[a % 5]
    return free_of(caller, {caller.checker.setting.layout.base.name: [odd]}, "no place")


def free_of_nobody(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A place of a component that there isn't."""
    return free_of(caller, {"nobody": [0]}, "no component")


def fewer_than_none(method: str) -> Kind:
    """A number below zero, or of a component that there isn't."""

    def kind(caller: Caller, a: int, key: Key) -> Wrong | None:
        name, many = (caller.checker.setting.layout.base.name, -1 - a % 3) if a % 4 else ("nobody", 1)
        text = f"{method.removeprefix('component_')}({name} {many})"
        make = lambda: getattr(caller.checker.adapter, method)({name: many})  # noqa: E731
        return Wrong(method, text, "fewer than none" if a % 4 else "no component", make)

    return kind


# Inserts


def fresh(caller: Caller) -> Key:
    """A key up to a common boundary of all components that nothing else has."""
    layout, bigram = caller.checker.setting.layout, caller.config.bigram
    step = step_of(layout.components)
    return Key(None, tuple([9] * (max(2 * caller.config.page_size, step) + bigram)), bigram)


def brought(caller: Caller, key: Key) -> Ends | None:
    """All that an insert of a key may bring, in the suite's own places; ``None`` where there is no room."""
    units, layout = len(key.units), caller.checker.setting.layout
    ends = {one.name: ends_of(one, units) for one in layout.components}
    ends |= {one.name: ends[one.name][-1:] for one in layout.components[1:]}
    got = own(caller, together(caller.checker, {name: len(some) for name, some in ends.items()}))
    if got is None:
        return None
    return {name: dict(zip(some, got.get(name, ()), strict=False)) for name, some in ends.items()}


def ends_of(component: Component, units: int) -> list[int]:
    """Where the entries of a component may end in so many units."""
    return list(range(component.unit, units + 1, component.unit))


def insert_of(caller: Caller, key: Key, entries: Mapping[str, Mapping[int, object]], wrong: str) -> Wrong:
    """An insert of these entries."""
    text = f"insert({key_text(key)}, {entries_text(entries)})"
    return Wrong("component_insert", text, wrong, lambda: caller.checker.adapter.component_insert(key, entries))


def spoiled(spoil: Callable[[Caller, int, Ends], str | None]) -> Kind:
    """An insert in own places that is spoiled in one respect, which is said; ``None`` where it can't be."""

    def kind(caller: Caller, a: int, key: Key) -> Wrong | None:
        key = fresh(caller)
        entries = brought(caller, key)
        wrong = None if entries is None else spoil(caller, a, entries)
        return None if entries is None or wrong is None else insert_of(caller, key, entries, wrong)

    return kind


def freed(caller: Caller, a: int, entries: Ends) -> str:
    """Its places were freed."""
    components.free(caller.checker, caller.entries.pop(caller.serial))
    return "places that nobody owns"


def of_another(caller: Caller, a: int, entries: Ends) -> str | None:
    """One of its places is cached for another prefix."""
    name = list(entries)[a % len(entries)]
    place = cached(caller, a, name)
    if place is None or not entries[name]:
        return None
    entries[name][max(entries[name])] = place
    return "a place of another prefix"


def repeated(caller: Caller, a: int, entries: Ends) -> str | None:
    """Two of its entries of one component are in one place."""
    base = entries[caller.checker.setting.layout.base.name]
    if len(base) < len((1, 2)):
        return None
    base[max(base)] = base[min(base)]
    return "a place named twice"


def shared(caller: Caller, a: int, entries: Ends) -> str | None:
    """Two of its components have one place of their pool."""
    layout = caller.checker.setting.layout
    others = [one.name for one in layout.components[1:] if one.pool == layout.base.pool and entries[one.name]]
    if not others:
        return None
    name = others[a % len(others)]
    entries[name][max(entries[name])] = entries[layout.base.name][min(entries[layout.base.name])]
    return "a place for two components"


def too_long(caller: Caller, a: int, entries: Ends) -> str:
    """One of its entries ends behind the key."""
    base = entries[caller.checker.setting.layout.base.name]
    last = max(base)
    base[last + caller.checker.setting.layout.base.unit] = base.pop(last)
    return "an end behind the key"


def no_places(caller: Caller, a: int, entries: Ends) -> str:
    """One of its places is none."""
    base: dict[int, object] = entries[caller.checker.setting.layout.base.name]  # type: ignore[assignment]
    base[max(base)] = ("1", None, 1.5, -1, 1 << 40)[a % 5]
    return "no place"


def insert_beyond(caller: Caller, a: int, key: Key) -> Wrong | None:
    """A token that no key has."""
    key = fresh(caller)
    entries = brought(caller, key)
    return None if entries is None else insert_of(caller, with_odd_token(key, a), entries, "a token that no key has")


ENTRIES = frozenset({"components"})
REQUESTS = frozenset({"component_requests"})

KINDS: tuple[tuple[frozenset[str], Kind], ...] = (
    (ENTRIES, stale_unlock),
    (ENTRIES, foreign("component_unlock", "receipt")),
    (ENTRIES, foreign("component_lock", "handle")),
    (ENTRIES, lock_of_the_dead),
    (ENTRIES | {"component_host"}, stale_copy),
    (ENTRIES | {"component_host"}, foreign("component_copied", "copy")),
    (ENTRIES | {"component_prefetch"}, stale_fetch),
    (ENTRIES | {"component_prefetch"}, foreign("component_prefetch_abort", "prefetch")),
    (ENTRIES | {"component_storage"}, stale_write),
    (ENTRIES, free_freed),
    (ENTRIES, free_twice),
    (ENTRIES, free_cached),
    (ENTRIES, free_no_place),
    (ENTRIES, free_of_nobody),
    (ENTRIES, fewer_than_none("component_alloc")),
    (ENTRIES, fewer_than_none("component_evict")),
    *[(ENTRIES, spoiled(one)) for one in (freed, of_another, repeated, shared, too_long, no_places)],
    (ENTRIES, insert_beyond),
    (REQUESTS, stale_request("component_finish")),
    (REQUESTS, stale_request("component_grow", 1)),
    (REQUESTS, foreign("component_finish", "request")),
    (frozenset({"component_lookup"}), beyond_vocabulary(misuse.match_beyond)),
)
"""The kinds of calls with which a schedule may end so, and the ports that each needs."""


@action(OF_COMPONENTS)
def component_last_call(caller: Caller, a: int, b: int, c: int) -> None:
    """One forbidden call; with a profile that leaves misuse undefined, none."""
    having = [one for one in KINDS if one[0] <= caller.checker.capabilities]
    end_with(having, caller, a, b, c, misuse.forbidden)
