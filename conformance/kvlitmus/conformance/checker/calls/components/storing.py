"""Calls on storage behind the host memory of components; storage and its I/O are the suite's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components.answers import entries_text, nothing_beside, read_entries
from kvlitmus.conformance.checker.calls.components.prefetch import Ends, ends_text, forget, plain, sets
from kvlitmus.conformance.checker.calls.components.snapshot import judge
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.spec.prefix.components.calls import Taken
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import Attach, Detach, Write, Written
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


def writes(state: State) -> Mapping[int, Copy]:
    """The writes that are under way, by number: the rules know them by negative ones, and copies by the others."""
    return {~number: one for number, one in state.under_way.items() if number < 0}


def attach(checker: Checker) -> None:
    """Storage is there from now on."""
    checker.call("attach storage", "component_attach")
    judge(checker, Attach(), None)


def detach(checker: Checker) -> None:
    """Storage goes away; nothing is called any more on prefetches that write nothing."""
    answer = checker.call("detach storage", "component_detach")
    returned = read_entries(checker, answer)
    checker.history[-1] += f" → gave back {entries_text(returned)}"
    judge(checker, Detach(), returned)
    for number in list(checker.fetching):
        forget(checker, number)


def write(checker: Checker, key: Key, length: int, handle: object, stored: Ends, number: int) -> bool:
    """Write what a hit of this length needs to storage, which has this; whether a write has begun."""
    said = f"write {number}: {key_text(key)} up to {length} units, of which storage has {ends_text(stored)}"
    answer = checker.call(said, "component_write", handle, plain(stored))
    token, ends = checker.fields(answer, 2, "(write, ends by component)")
    given = None
    if token is None:
        nothing_beside(checker, ends, "write")
    else:
        given = read_entries(checker, ends)
        if any(len(set(some)) != len(some) for some in given.values()):
            raise checker.broken("PORT-03", f"expected each entry once, got {entries_text(given)}")
        checker.writing[number] = token
    checker.history[-1] += f" → {'None' if given is None else entries_text(given)}"
    answered = Taken(None if given is None else sets(given))
    judge(checker, Write(checker.path(key), length, sets(stored), ~number), answered)
    return given is not None


def written(checker: Checker, number: int, ok: bool = True) -> None:
    """A write has ended, or failed."""
    said = f"write {number} has {'ended' if ok else 'failed'}"
    checker.call(said, "component_written", checker.writing.pop(number), ok)
    judge(checker, Written(~number, ok), None)
