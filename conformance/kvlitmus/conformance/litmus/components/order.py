"""Litmus tests on the order in which the entries of components are evicted, under whatever policy."""

from __future__ import annotations

from collections import Counter

from kvlitmus.conformance.checker.calls.components import host as copies
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.calls.prefix.tree import compare_victims
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.requests import serve
from kvlitmus.conformance.litmus.components.host import back_up, backed, end, load
from kvlitmus.conformance.litmus.components.prefetch import begin, take_all_but
from kvlitmus.conformance.litmus.components.requests import WHOLE, pages
from kvlitmus.conformance.litmus.components.tree import evict_all, store
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.prefix.listener import DEVICE

NEEDS = ("components",)
BY_POLICY = {"component_order": "policy", "evict_granularity": "page"}
"""Where entries go one by one, by the policy."""
ALONE = {**BY_POLICY, "component_grants": "each"}
"""Where besides places of one component can be taken without those of another."""


def evict_each(checker: Checker, many: int = 1) -> None:
    """Evict so many entries of each component, each by itself, KV last."""
    for one in reversed(checker.setting.layout.components):
        components.evict(checker, {one.name: many})


@litmus(rules=("EVICT-07",), needs=NEEDS, profile=BY_POLICY)
def two_caches_break_ties_alike(checker: Checker) -> None:
    """Many entries of equal worth, evicted one by one: a second cache that gets the same calls takes the same ones."""
    if checker.again is None:
        return
    other = checker.again()
    for one in (checker, other):
        for ways in ("abcd", "efgh", "abij"):
            store(one, prompt(one, ways))
        for _ in range(8):
            evict_each(one)
    compare_victims(checker, other)


def take_the_rest(checker: Checker) -> None:
    """Take every place in which nothing is cached."""
    layout = checker.setting.layout
    cached = Counter(layout.named(name).pool for name, _ in checker.state.places(DEVICE))
    for pool, name in {one.pool: one.name for one in layout.components}.items():
        take_all_but(checker, name, cached[pool])


@litmus(rules=("COMP-63",), needs=NEEDS, profile=BY_POLICY)
def what_was_hit_last_is_used_last(checker: Checker) -> None:
    """Two keys are cached, and the first is hit again; an entry of each component goes, and one more."""
    store(checker, prompt(checker, "ab"))
    store(checker, prompt(checker, "cd"))
    components.match(checker, prompt(checker, "ab"))
    evict_each(checker)
    for ways in ("ab", "cd"):
        components.match(checker, prompt(checker, ways))
    evict_each(checker)


@litmus(rules=("COMP-63",), needs=NEEDS, profile=BY_POLICY)
def what_comes_last_is_used_last(checker: Checker) -> None:
    """Of two keys that nobody asks for again, an entry of each component goes, and one more."""
    store(checker, prompt(checker, "ab"))
    store(checker, prompt(checker, "cd"))
    evict_each(checker)
    evict_each(checker)
    for ways in ("ab", "cd"):
        components.match(checker, prompt(checker, ways))


@litmus(rules=("COMP-63",), needs=NEEDS, profile=BY_POLICY)
def what_is_used_often_is_used_often(checker: Checker) -> None:
    """The first of two keys is brought, and asked for, again and again; then an entry of each component goes."""
    store(checker, prompt(checker, "ab"))
    for _ in range(2):
        store(checker, prompt(checker, "ab"))
        components.match(checker, prompt(checker, "ab"))
    store(checker, prompt(checker, "cd"))
    evict_each(checker)
    for ways in ("ab", "cd"):
        components.match(checker, prompt(checker, ways))


@litmus(rules=("COMP-63",), needs=("components", "component_prefetch"), profile=ALONE)
def room_for_a_prefetch_is_made_in_order(checker: Checker) -> None:
    """Two keys are cached, and the first is hit; a prefetch of a third finds no room but theirs."""
    for ways in ("ab", "cd"):
        store(checker, prompt(checker, ways))
    components.match(checker, prompt(checker, "ab"))
    take_the_rest(checker)
    begin(checker, prompt(checker, "xy"))
    for ways in ("ab", "cd"):
        components.match(checker, prompt(checker, ways))


@litmus(rules=("COMP-63",), needs=("components", "component_host"), profile=ALONE, writes=("asked",))
def room_for_a_load_back_is_made_in_order(checker: Checker) -> None:
    """A key is backed up and evicted, two more are cached, and the first is hit: its load back finds no other room."""
    backed(checker, prompt(checker, "xy"))
    evict_all(checker)
    for ways in ("ab", "cd"):
        store(checker, prompt(checker, ways))
    components.match(checker, prompt(checker, "ab"))
    take_the_rest(checker)
    load(checker, prompt(checker, "xy"))
    for ways in ("ab", "cd"):
        components.match(checker, prompt(checker, ways))


@litmus(rules=("COMP-63",), needs=("components", "component_host"), profile=BY_POLICY, writes=("asked",))
def the_host_evicts_in_order(checker: Checker) -> None:
    """Two keys are backed up, one after the other; an entry of each component goes from the host, and one more."""
    for ways in ("ab", "cd"):
        backed(checker, prompt(checker, ways))
    for _ in range(2):
        for one in reversed(checker.setting.layout.components):
            copies.evict_host(checker, {one.name: 1})


@litmus(rules=("COMP-63",), needs=("components", "component_host"), profile=BY_POLICY, writes=("asked",))
def room_for_a_backup_is_made_in_order(checker: Checker) -> None:
    """Keys are cached and backed up until the host is full: each of the last ones takes the room of another."""
    for number, way in enumerate("abcdefghijklmnop"):
        store(checker, prompt(checker, way * 2))
        back_up(checker, prompt(checker, way * 2), number=number)
        end(checker, number=number)
        evict_each(checker, 2)


@litmus(rules=("COMP-63",), needs=("component_requests",), profile=BY_POLICY)
def a_request_gets_room_in_order(checker: Checker) -> None:
    """Requests for ever new keys end, and the first is asked for in between: the later ones take the room of others."""
    for way in "bcdefghijklmnop":
        serve(checker, pages(checker, way * 3), WHOLE)
        components.match(checker, pages(checker, "b" * 3))
