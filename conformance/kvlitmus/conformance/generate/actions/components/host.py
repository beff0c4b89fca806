"""Actions on the host memory of components: what an engine backs up and loads back, and how its copies end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components import host as calls
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.generate.actions.components.tree import use
from kvlitmus.conformance.generate.actions.registry import MAX_REQUESTS, action

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker
    from kvlitmus.conformance.generate.caller import Caller


EVERYTHING = 0xFF
"""An engine keeps all that it comes by, of every component."""


def next_number(checker: Checker) -> int:
    """A number for a copy: the cache may have begun some by itself meanwhile."""
    return max(calls.copies(checker.state), default=-1) + 1


@action("component_back_up")
def component_back_up(caller: Caller, a: int, b: int, c: int) -> None:
    """Mostly serve a request, then back up what is found of its key."""
    checker = caller.checker
    if len(calls.copies(checker.state)) < MAX_REQUESTS:
        key = caller.key(a, b, c)
        if c % 8:
            use(checker, key, EVERYTHING)
            caller.computed(key)
        length, handle = components.match(checker, key)
        calls.back_up(checker, key, length, handle, next_number(checker))


@action("component_load")
def component_load(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key, mostly one that was backed up, and load back what is behind the hit, often after an eviction."""
    checker = caller.checker
    if len(calls.copies(checker.state)) < MAX_REQUESTS:
        key = caller.again(a) if caller.past and c % 8 else caller.key(a, b, c)
        if b % 2:
            layout = checker.setting.layout
            some = layout.components if b % 4 == 1 else [layout.components[b % len(layout.components)]]
            components.evict(checker, {one.name: 1 + c % 4 * 3 for one in some})
        length, handle = components.match(checker, key)
        calls.load(checker, key, length, handle, next_number(checker))


@action("component_copied")
def component_copied(caller: Caller, a: int, b: int, c: int) -> None:
    """A copy ends; now and then one fails."""
    number = caller.pick("component copy", calls.copies(caller.checker.state), a)
    if number is not None:
        calls.copied(caller.checker, number, b % 4 != 0)


@action("component_evict_host")
def component_evict_host(caller: Caller, a: int, b: int, c: int) -> None:
    """Evict entries of a component from the host, rarely of all."""
    layout = caller.checker.setting.layout
    wants = {layout.components[a % len(layout.components)].name: 1 + b % 4}
    if c < 32:
        wants = {one.name: 1 + b % 3 for one in layout.components}
    calls.evict_host(caller.checker, wants)
