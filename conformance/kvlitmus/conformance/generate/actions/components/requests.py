"""Actions on a cache that serves requests on components: what a scheduler does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvlitmus.conformance.checker.calls.components import requests as component_requests
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.generate.actions.registry import action
from kvlitmus.spec.words.shapes import step_of
from kvlitmus.spec.words.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker
    from kvlitmus.conformance.generate.caller import Caller

MAX_REQUESTS = 4
"""So many requests run at once at most."""


def chunk_of(checker: Checker, left: int, many: int) -> int:
    """A chunk of a key with so many units left: whole boundaries, but for what lies behind the last of them."""
    step = step_of(checker.setting.layout.components)
    whole = left - left % step
    return min(whole, many * step) if whole else left


def begin(checker: Checker, key: Key, many: int) -> int | None:
    """Begin a request that computes up to so many boundaries behind its hit; its number, ``None``: refused.

    None begins where the hit is the whole key: a chunk has a unit at least.
    """
    state = checker.state
    receipt = max(state.requests, default=-1) + 1
    length, _ = components.match(checker, key)
    chunk = chunk_of(checker, len(key.units) - length, many)
    if not chunk or component_requests.start(checker, key, chunk, receipt) is None:
        return None
    return receipt


def left_of(checker: Checker, receipt: int) -> int:
    """How many units of a request are not computed yet."""
    one = checker.state.requests[receipt]
    return len(one.path.names) - one.computed


def go_on(checker: Checker, receipt: int, many: int) -> bool:
    """Compute some boundaries more, if there are any left; whether there was room."""
    left = left_of(checker, receipt)
    return not left or component_requests.grow(checker, receipt, chunk_of(checker, left, many)).granted


def serve(checker: Checker, key: Key, many: int) -> None:
    """Serve a request from its beginning to its end, unless it is refused."""
    receipt = begin(checker, key, many)
    while receipt is not None and left_of(checker, receipt) and go_on(checker, receipt, many):
        pass
    if receipt is not None:
        component_requests.finish(checker, receipt)


@action("component_serve")
def component_serve(caller: Caller, a: int, b: int, c: int) -> None:
    """Serve a request from its beginning to its end."""
    key = caller.key(a, b, c)
    if key.units:
        serve(caller.checker, key, 1 + c % 3)


@action("component_start")
def component_start(caller: Caller, a: int, b: int, c: int) -> None:
    """Begin a request."""
    key = caller.key(a, b, c)
    if key.units and len(caller.checker.state.requests) < MAX_REQUESTS:
        begin(caller.checker, key, 1 + c % 3)


@action("component_grow")
def component_grow(caller: Caller, a: int, b: int, c: int) -> None:
    """Go on with a request, or end it: if nothing is left of it, or there is no room."""
    receipt = caller.pick("component request", caller.checker.state.requests, a)
    if receipt is not None and (not left_of(caller.checker, receipt) or not go_on(caller.checker, receipt, 1 + b % 3)):
        component_requests.finish(caller.checker, receipt)


@action("component_finish")
def component_finish(caller: Caller, a: int, b: int, c: int) -> None:
    """End a request, computed to its end or not."""
    receipt = caller.pick("component request", caller.checker.state.requests, a)
    if receipt is not None:
        component_requests.finish(caller.checker, receipt)


@action("component_find")
def component_find(caller: Caller, a: int, b: int, c: int) -> None:
    """Match a key."""
    key = caller.key(a, b, c)
    if key.units:
        components.match(caller.checker, key)


@action("component_forget")
def component_forget(caller: Caller, a: int, b: int, c: int) -> None:
    """Forget everything; rarely."""
    if a < 64:
        components.reset(caller.checker)
