"""Actions on storage behind the host memory of components: it comes and goes, and is written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components import host as component_host
from kvlitmus.conformance.checker.calls.components import storing as component_storing
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.generate.actions.components.host import EVERYTHING
from kvlitmus.conformance.generate.actions.components.tree import use
from kvlitmus.conformance.generate.actions.registry import ACTIONS, MAX_REQUESTS, action
from kvlitmus.spec.prefix.components.state import ends_at

if TYPE_CHECKING:
    from kvlitmus.conformance.generate.caller import Caller
    from kvlitmus.spec.words.units import Key


@action("component_attach")
def component_attach(caller: Caller, _a: int, _b: int, _c: int) -> None:
    """Storage comes, if it isn't there; what was written to it before is there still."""
    if not caller.checker.state.attached:
        component_storing.attach(caller.checker)


@action("component_detach")
def component_detach(caller: Caller, a: int, b: int, c: int) -> None:
    """Storage goes, if it is there, whatever is under way; often a prefetch has just been told what to read."""
    checker = caller.checker
    if not checker.state.attached:
        return
    if c % 2:
        ACTIONS["component_prefetch"](caller, a, b, c & ~3)
        ACTIONS["component_found"](caller, a if c % 4 == 1 else 0, b, c & ~1)
    component_storing.detach(checker)


@action("component_write")
def component_write(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key, mostly one that is backed up, and write what storage lacks; sometimes it has entries with holes."""
    checker = caller.checker
    writes = component_storing.writes(checker.state)
    if len(writes) >= MAX_REQUESTS:
        return
    key = caller.again(a) if caller.past and c % 4 else caller.key(a, b, c)
    if c % 8 >= 4:
        hosted(caller, key, ok=c % 16 >= 4)
        if b % 4 == 1:
            layout = checker.setting.layout
            component_host.evict_host(checker, {layout.components[a % len(layout.components)].name: 1 + a % 4})
    length, handle = components.match(checker, key)
    path, there = checker.path(key), frozenset(caller.in_storage)
    stored = {one.name: ends_at(path, one.name, there) for one in checker.setting.layout.components}
    if b % 8 == 0:
        parts = checker.setting.layout.components[b // 8 % 3 :]
        stored = {one.name: holed(one.unit, min(length, len(path.names)), a) for one in parts}
    component_storing.write(checker, key, length, handle, stored, max(writes, default=-1) + 1)


def holed(unit: int, length: int, bits: int) -> frozenset[int]:
    """Where entries end of a prefix, but for some."""
    return frozenset(end for at, end in enumerate(range(unit, length + 1, unit)) if bits >> (at % 8) & 1)


def hosted(caller: Caller, key: Key, *, ok: bool) -> None:
    """Serve a request and back up what is found of its key, to the end."""
    checker = caller.checker
    use(checker, key, EVERYTHING)
    caller.computed(key)
    length, handle = components.match(checker, key)
    number = max(component_host.copies(checker.state), default=-1) + 1
    if component_host.back_up(checker, key, length, handle, number):
        component_host.copied(checker, number, ok)


@action("component_written")
def component_written(caller: Caller, a: int, b: int, c: int) -> None:
    """A write ends, often after an eviction from the host; now and then one fails, and storage has nothing of it."""
    checker = caller.checker
    writes = component_storing.writes(checker.state)
    number = caller.pick("component write", writes, a)
    if number is None:
        return
    if c % 4 == 0:
        layout = checker.setting.layout
        component_host.evict_host(checker, {layout.components[c // 4 % len(layout.components)].name: 1 + b % 8})
    takes, ok = writes[number].landing, b % 4 != 0
    component_storing.written(checker, number, ok)
    if ok:
        caller.in_storage |= takes
