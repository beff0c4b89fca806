"""Litmus tests of requests on components: hits, chunks, what is left behind, refusals, room made by evictions."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.components import requests as component_requests
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.requests import begin, go_on, left_of, serve
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.units import Key

NEEDS = ("component_requests",)
WHOLE = 99
"""So many boundaries: all that a key has."""


def filled(checker: Checker, first: str) -> list[int]:
    """Requests for long keys until one is refused; their numbers."""
    receipts = []
    for way in "qrstuvwxyz":
        receipt = begin(checker, prompt(checker, first + way * 7), WHOLE)
        if receipt is None:
            break
        receipts.append(receipt)
    return receipts


def pages(checker: Checker, ways: str) -> Key:
    """A key of whole pages, and a unit of the next one."""
    return prompt(checker, ways, tail=1 if checker.size > 1 else 0)


@litmus(rules=("TREE-02", "CREQ-01", "POOL-04", "CREQ-06"), needs=NEEDS)
def what_a_request_computed_is_found(checker: Checker) -> None:
    """A request runs to its end; a second one for the same key, and one that parts from it, go on from there."""
    serve(checker, pages(checker, "abcdef"), WHOLE)
    for ways in ("abcdef", "abcdxy", "abcdefghij"):
        serve(checker, pages(checker, ways), WHOLE)
    components.match(checker, pages(checker, "abcdef"))


@litmus(rules=("CREQ-01", "CREQ-05", "CREQ-06"), needs=NEEDS)
def a_request_leaves_its_window_behind(checker: Checker) -> None:
    """A long key in small chunks: what a window, a chunk or a state has left behind is given back."""
    key = pages(checker, "abcdefgh")
    receipt = begin(checker, key, 1)
    while receipt is not None and left_of(checker, receipt) and go_on(checker, receipt, 1):
        components.match(checker, key)
    if receipt is not None:
        component_requests.finish(checker, receipt)
    serve(checker, key, 1)


@litmus(rules=("TREE-02", "CREQ-01", "POOL-04"), needs=NEEDS)
def a_running_request_is_gone_on_from(checker: Checker) -> None:
    """While a request runs, another begins with what it has computed so far, and outlives it."""
    key = pages(checker, "abcdef")
    first = begin(checker, key, 2)
    second = begin(checker, key, WHOLE)
    for receipt in (first, second):
        if receipt is not None:
            component_requests.finish(checker, receipt)
    components.match(checker, key)


@litmus(rules=("TREE-02", "TREE-03", "POOL-04"), needs=NEEDS)
def the_same_is_computed_twice(checker: Checker) -> None:
    """Two requests for one key of whole pages: each computes the last page, and takes nothing along when it ends."""
    key = prompt(checker, "abcdef")
    serve(checker, key, WHOLE)
    first, second = begin(checker, key, WHOLE), begin(checker, key, WHOLE)
    for receipt in (second, first):
        if receipt is not None:
            component_requests.finish(checker, receipt)
        components.match(checker, pages(checker, "abcdef"))
    serve(checker, pages(checker, "abcdefgh"), WHOLE)


@litmus(rules=("TREE-02", "CREQ-01", "CREQ-03", "POOL-04"), needs=NEEDS)
def requests_are_refused_only_when_they_hold_everything(checker: Checker) -> None:
    """Requests take all that there is; one is refused. One ends, and what it held makes room for the next."""
    receipts = filled(checker, "a")
    for receipt in receipts:
        component_requests.finish(checker, receipt)
        again = begin(checker, prompt(checker, "bcdefgh"), WHOLE)
        if again is not None:
            component_requests.finish(checker, again)


@litmus(rules=("TREE-02", "CREQ-03", "POOL-04"), needs=NEEDS)
def a_hit_is_protected_before_room_is_made(checker: Checker) -> None:
    """Everything is full of what nobody holds; a request hits the oldest of it, and needs room for much more."""
    old = prompt(checker, "abcd")
    serve(checker, old, WHOLE)
    for receipt in filled(checker, "n"):
        component_requests.finish(checker, receipt)
    for ways in ("abcdefgh", "abcdijkl", "mnopqrst"):
        serve(checker, prompt(checker, ways), WHOLE)
    components.match(checker, old)


@litmus(rules=("TREE-02",), needs=NEEDS)
def what_runs_is_not_evicted(checker: Checker) -> None:
    """A request waits while others need all the room that there is; what it has computed is still found."""
    key = pages(checker, "abcd")
    waiting = begin(checker, key, WHOLE)
    for way in "mnopq":
        serve(checker, prompt(checker, way * 6), 1)
        components.match(checker, key)
    if waiting is not None:
        component_requests.finish(checker, waiting)
    components.match(checker, key)


@litmus(rules=("CREQ-03", "CREQ-05"), needs=NEEDS)
def who_cannot_go_on_keeps_what_it_has(checker: Checker) -> None:
    """Several requests go on in turn until there is no room; then they end one by one, and the next ones go on."""
    receipts = [begin(checker, prompt(checker, way * 8), 1) for way in "abcd"]
    running = [receipt for receipt in receipts if receipt is not None]
    for _ in range(8):
        stuck = [receipt for receipt in running if not go_on(checker, receipt, 1)]
        if stuck:
            component_requests.finish(checker, running.pop(0))
    for receipt in running:
        component_requests.finish(checker, receipt)


@litmus(rules=("CREQ-01", "POOL-04"), needs=NEEDS)
def after_a_reset_no_request_runs(checker: Checker) -> None:
    """Requests are forgotten with all they held: nothing is found, and there is room for everything."""
    begin(checker, prompt(checker, "abcdef"), 1)
    begin(checker, prompt(checker, "abcxyz"), WHOLE)
    components.reset(checker)
    components.match(checker, prompt(checker, "abcdef"))
    for receipt in filled(checker, "a"):
        component_requests.finish(checker, receipt)
