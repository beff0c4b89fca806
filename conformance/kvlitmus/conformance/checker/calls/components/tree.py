"""Calls on a cache of components, and what is known of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components.answers import entries_text, read_counts, read_entries
from kvlitmus.conformance.checker.calls.components.snapshot import judge
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec.prefix.calls import Alloc, Evict, Free, Insert, Lock, Match, Reset, Unlock
from kvlitmus.spec.prefix.components.calls import ComponentHit, Entries
from kvlitmus.spec.prefix.components.state import end_name
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def alloc(checker: Checker, wants: Mapping[str, int]) -> Entries | None:
    """Allocate entries of some components."""
    answer = checker.call(f"alloc({entries_text(wants)})", "component_alloc", dict(wants))
    return granted(checker, wants, answer)


def granted(checker: Checker, wants: Mapping[str, int], answer: object) -> Entries | None:
    """An allocation of so many entries was answered so: it is read and judged."""
    got = None if answer is None else read_entries(checker, answer)
    checker.history[-1] += f" → {'None' if got is None else entries_text(got)}"
    judge(checker, Alloc(dict(wants)), got)
    return got


def free(checker: Checker, given: Mapping[str, Sequence[int]]) -> None:
    """Give entries back."""
    call = Free({name: tuple(some) for name, some in given.items()})
    checker.call(f"free({entries_text(given)})", "component_free", {name: list(some) for name, some in given.items()})
    judge(checker, call, None)


def match(checker: Checker, key: Key) -> tuple[int, object]:
    """Match a key; the length of the hit, and its handle."""
    hit, handle = read_hit(checker, checker.call(f"match({key_text(key)})", "component_match", key))
    judge(checker, Match(checker.path(key)), hit)
    return hit.length, handle


def read_hit(checker: Checker, answer: object) -> tuple[ComponentHit, object]:
    """The answer of a match, in the promised form, and its handle."""
    length, entries, handle = checker.fields(answer, 3, "(length, entries by component, handle)")
    hit = ComponentHit(checker.count(length, "the length of the match"), read_entries(checker, entries))
    checker.history[-1] += f" → {hit.length} units, {entries_text(hit.entries)}"
    return hit, handle


def insert(checker: Checker, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Entries:
    """Cache entries of a key, for each component by where they end; answers those that are left to the caller."""
    path = checker.path(key)
    brought = {(name, end_name(path, end)): place for name, some in entries.items() for end, place in some.items()}
    answer = checker.call(
        f"insert({key_text(key)}, {entries_text(entries)})",
        "component_insert",
        key,
        {name: dict(some) for name, some in entries.items()},
    )
    left = read_entries(checker, answer)
    checker.history[-1] += f" → left {entries_text(left)}"
    judge(checker, Insert(path, brought), left)
    return left


def lock(checker: Checker, key: Key, length: int, handle: object, receipt: int) -> None:
    """Lock what a match of this length found; ``receipt`` is the suite's number for it."""
    answer = checker.call(f"lock(match of {length} units)", "component_lock", handle)
    checker.history[-1] += f" → receipt {receipt}"
    token, cover = checker.fields(answer, 2, "(receipt, ends by component)")
    covered = read_entries(checker, cover)
    checker.history[-1] += f" covers {entries_text(covered)}"
    checker.tokens[receipt] = token
    path = checker.path(key)
    judge(checker, Lock(end_name(path, min(length, len(path.names))), receipt), covered)


def unlock(checker: Checker, receipt: int) -> None:
    """Give a receipt back."""
    checker.call(f"unlock(receipt {receipt})", "component_unlock", checker.tokens.pop(receipt))
    judge(checker, Unlock(receipt), None)


def evict(checker: Checker, wants: Mapping[str, int]) -> Mapping[str, int]:
    """Free entries of some components; how many were freed of each."""
    before = checker.state.places(DEVICE) if checker.setting.seen else {}
    answer = checker.call(f"evict({entries_text(wants)})", "component_evict", dict(wants))
    freed = read_counts(checker, answer, checker.setting.layout.components_by_name)
    checker.history[-1] += f" → {entries_text(freed)}"
    judge(checker, Evict(dict(wants)), freed)
    if checker.setting.seen:
        checker.victims.append(list(before.keys() - checker.state.places(DEVICE).keys()))
    return freed


def reset(checker: Checker) -> None:
    """Forget everything."""
    checker.call("reset()", "component_reset")
    checker.tokens.clear()
    checker.fetching.clear()
    checker.copying.clear()
    checker.writing.clear()
    judge(checker, Reset(), None)
