"""Litmus tests on misuse of a cache of components, where the profile says what happens then, or when forced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kvlitmus.conformance.checker.calls.components import host, misuse
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.calls.components.answers import entries_text
from kvlitmus.conformance.checker.calls.misuse import go_on
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.misuse import ends_of, one_of_each
from kvlitmus.conformance.generate.actions.components.tree import together
from kvlitmus.conformance.litmus.components.tree import locked, store
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.prefix.components.calls import Entries
from kvlitmus.spec.words.limits import ALL_TOKENS
from kvlitmus.spec.words.units import Key

NEEDS = ("components",)


@litmus(rules=("MISUSE-01", "MISUSE-02"), needs=NEEDS, misuse=True)
def places_freed_twice(checker: Checker) -> None:
    """Places of all components that are freed a second time go to nobody twice."""
    own = components.alloc(checker, one_of_each(checker))
    if own:
        components.free(checker, own)
        misuse.double_free(checker, own)


@litmus(rules=("MISUSE-02", "MISUSE-03"), needs=NEEDS, misuse=True)
def places_named_twice_in_one_free(checker: Checker) -> None:
    """A free that names its places twice frees them once, or not at all."""
    own = components.alloc(checker, one_of_each(checker))
    if own:
        misuse.repeated_free(checker, own)


@litmus(rules=("MISUSE-05",), needs=NEEDS, misuse=True)
def returned_places_are_overwritten(checker: Checker) -> None:
    """What a caller does to the places it was given does not reach the pools."""
    misuse.scribble(checker, one_of_each(checker))


@litmus(rules=("MISUSE-13",), needs=NEEDS, misuse=True)
def a_token_beyond_the_vocabulary(checker: Checker) -> None:
    """A key with a token below 0 or too large isn't found as another key."""
    key = prompt(checker, "abcd")
    store(checker, key)
    vocabulary = checker.profile.vocabulary
    for more in (-vocabulary, vocabulary, ALL_TOKENS, 1 << 64):
        misuse.match_beyond(checker, key, key.tokens[0] + more)


@litmus(rules=("MISUSE-02", "MISUSE-08", "MISUSE-09"), needs=NEEDS, misuse=True)
def an_insert_in_places_of_nobody(checker: Checker) -> None:
    """A key can't be cached in places that were freed: nothing of it is, of no component, and the cache goes on."""
    if checker.profile.misuse == "undefined":
        return
    store(checker, prompt(checker, "abcd"))
    key = prompt(checker, "cdef")
    own = components.alloc(checker, wants_of(checker, key))
    if own:
        components.free(checker, own)
        refused_insert(checker, key, entries_of(checker, key, own), "places that nobody owns")
        go_on(checker, partial(end_lawfully, checker))


@litmus(rules=("MISUSE-02", "MISUSE-08", "MISUSE-09"), needs=NEEDS, misuse=True)
def an_insert_whose_last_place_is_of_nobody(checker: Checker) -> None:
    """An insert in own places but for the last of the KV caches nothing: all is looked at before anything is taken."""
    if checker.profile.misuse == "undefined":
        return
    key, base = prompt(checker, "cdef"), checker.setting.layout.base.name
    own, more = components.alloc(checker, wants_of(checker, key)), components.alloc(checker, one_of_each(checker))
    if not own or not more:
        return
    components.free(checker, more)
    entries = entries_of(checker, key, own)
    entries[base][max(entries[base])] = more[base][0]
    refused_insert(checker, key, entries, "a place that nobody owns")

    def goes_on() -> None:
        components.free(checker, own)
        end_lawfully(checker)

    go_on(checker, goes_on)


def wants_of(checker: Checker, key: Key) -> Mapping[str, int]:
    """How many places a key takes: of the KV all, of each other component one, where its last entry ends."""
    base, *others = checker.setting.layout.components
    many = {base.name: len(ends_of(base, len(key.units)))}
    return together(checker, many | {one.name: len(ends_of(one, len(key.units))[-1:]) for one in others})


def entries_of(checker: Checker, key: Key, places: Entries) -> dict[str, dict[int, int]]:
    """These places, by where the entries of a key end."""
    base, *others = checker.setting.layout.components
    ends = {base.name: ends_of(base, len(key.units))}
    ends |= {one.name: ends_of(one, len(key.units))[-1:] for one in others}
    return {name: dict(zip(some, places[name], strict=False)) for name, some in ends.items() if name in places}


def refused_insert(checker: Checker, key: Key, entries: Mapping[str, Mapping[int, int]], wrong: str) -> None:
    """An insert that the contract forbids."""
    text = f"insert({key_text(key)}, {entries_text(entries)})"
    refuses(checker, text, wrong, lambda: checker.adapter.component_insert(key, entries))


@litmus(rules=("MISUSE-02", "MISUSE-08"), needs=NEEDS, misuse=True)
def fewer_than_none(checker: Checker) -> None:
    """Nobody gets, or evicts, fewer entries than none."""
    if checker.profile.misuse == "undefined":
        return
    store(checker, prompt(checker, "ab"))
    for one in checker.setting.layout.components:
        for call in ("alloc", "evict"):
            make = getattr(checker.adapter, f"component_{call}")
            refuses(checker, f"{call}({one.name} -1)", "fewer than none", partial(make, {one.name: -1}))


@litmus(rules=("MISUSE-02", "MISUSE-08", "MISUSE-09"), needs=(*NEEDS, "component_host"), misuse=True)
def a_copy_ends_twice(checker: Checker) -> None:
    """A copy that has failed, or ended, ends once: a second time it gives back and caches nothing."""
    if checker.profile.misuse == "undefined":
        return
    key = prompt(checker, "abcd")
    store(checker, key)
    length, handle = components.match(checker, key)
    if not host.back_up(checker, key, length, handle, 0):
        return
    copy = checker.copying[0]
    host.copied(checker, 0, ok=False)
    refuses(checker, "copied(copy 0)", "ended already", lambda: checker.adapter.component_copied(copy, True))
    go_on(checker, partial(end_lawfully, checker))


@litmus(rules=("MISUSE-06", "MISUSE-02", "MISUSE-08", "MISUSE-09"), needs=NEEDS, misuse=True)
def a_receipt_given_back_twice(checker: Checker) -> None:
    """A receipt is worth one unlock: a second one is refused, and what another receipt covers stays protected."""
    if checker.profile.misuse == "undefined":
        return
    key = prompt(checker, "abcd")
    store(checker, key)
    locked(checker, key, 1)
    locked(checker, key, 2)
    token = checker.tokens[1]
    components.unlock(checker, 1)
    misuse.stale_unlock(checker, token, 1)

    def goes_on() -> None:
        for one in checker.setting.layout.components:
            components.evict(checker, {one.name: checker.setting.layout.places[one.pool]})
        components.match(checker, key)
        components.unlock(checker, 2)
        end_lawfully(checker)

    go_on(checker, goes_on)


@litmus(rules=("MISUSE-02", "MISUSE-09"), needs=NEEDS, misuse=True)
def the_last_receipt_given_back_twice(checker: Checker) -> None:
    """A receipt that was the last one is given back twice: what it covered can be evicted afterwards."""
    if checker.profile.misuse == "undefined":
        return
    key = prompt(checker, "abcd")
    store(checker, key)
    locked(checker, key, 1)
    token = checker.tokens[1]
    components.unlock(checker, 1)
    misuse.stale_unlock(checker, token, 1)
    go_on(checker, partial(end_lawfully, checker))


@litmus(rules=("MISUSE-02", "MISUSE-08", "MISUSE-09"), needs=NEEDS, misuse=True)
def a_handle_of_what_was_forgotten(checker: Checker) -> None:
    """After a reset the handle of an earlier hit can't be locked: nothing that it names is there."""
    if checker.profile.misuse == "undefined":
        return
    store(checker, prompt(checker, "abcd"))
    length, handle = components.match(checker, prompt(checker, "abcd"))
    components.reset(checker)
    if length:
        refuses(
            checker,
            f"lock(match of {length} units)",
            "of what was forgotten",
            lambda: checker.adapter.component_lock(handle),
        )
        go_on(checker, partial(end_lawfully, checker))


def refuses(checker: Checker, text: str, wrong: str, make: Callable[[], object]) -> None:
    """A call that the contract forbids."""
    misuse.forbidden(checker, f"component_{text.partition('(')[0]}", text, wrong, make)


def end_lawfully(checker: Checker) -> None:
    """Serve a request, and evict everything: all places of each pool can be had then."""
    store(checker, prompt(checker, "ab"))
    components.match(checker, prompt(checker, "ab"))
    layout = checker.setting.layout
    for one in reversed(layout.components):
        components.evict(checker, {one.name: layout.places[one.pool]})
    got: Entries | None = components.alloc(checker, {layout.base.name: layout.places[layout.base.pool]})
    if got is not None:
        components.free(checker, got)
