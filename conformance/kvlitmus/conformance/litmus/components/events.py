"""Litmus tests on the events of components: what comes and goes on either tier, by whichever call, is told."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.requests import serve
from kvlitmus.conformance.litmus.components.host import back_up, backed, end, evict_host, load
from kvlitmus.conformance.litmus.components.prefetch import EACH, fetch
from kvlitmus.conformance.litmus.components.requests import WHOLE
from kvlitmus.conformance.litmus.components.requests import pages as whole_pages
from kvlitmus.conformance.litmus.components.tree import ANY_ENTRIES, WINDOWS, bring, evict_all, store
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus

NEEDS = ("components", "component_events")
TOLD = ("EVENT-01", "EVENT-04", "EVENT-02", "EVENT-08", "EVENT-09")


@litmus(rules=TOLD, needs=NEEDS)
def who_listens_knows_what_the_device_has(checker: Checker) -> None:
    """Keys are cached in two namespaces, go component by component, are missed, come again, and are found."""
    keys = [prompt(checker, "abcd"), prompt(checker, "abxy"), prompt(checker, "abcd", namespace="other")]
    for key in keys:
        store(checker, key)
    layout = checker.setting.layout
    for one in reversed(layout.components):
        components.evict(checker, {one.name: 1})
        for key in keys:
            components.match(checker, key)
    evict_all(checker)
    for key in keys:
        components.match(checker, key)
        store(checker, key)


@litmus(rules=TOLD, needs=NEEDS, layouts=WINDOWS, profile=ANY_ENTRIES)
def who_listens_knows_of_tombstones(checker: Checker) -> None:
    """KV comes without its window: no hit is to be expected there. It comes later, for the same KV."""
    key, pages = prompt(checker, "abcdef"), list(range(1, 7))
    ends = {"kv": pages, "swa": pages[:2], "state": pages[1:2]}
    bring(checker, key, {one.name: ends[one.name] for one in checker.setting.layout.components})
    components.match(checker, key)
    store(checker, key)
    components.match(checker, key)


@litmus(rules=("EVENT-02", "EVENT-08", "EVENT-09"), needs=NEEDS)
def a_reset_is_told(checker: Checker) -> None:
    """A key is cached, and everything is forgotten; nobody is to expect it, until it is cached again."""
    key = prompt(checker, "abc")
    store(checker, key)
    components.reset(checker)
    components.match(checker, key)
    store(checker, key)
    components.match(checker, key)


@litmus(rules=("EVENT-02", "EVENT-08", "EVENT-09"), needs=(*NEEDS, "component_prefetch"), profile=EACH)
def what_was_fetched_is_told(checker: Checker) -> None:
    """A key is fetched from storage; who listens knows of it as of one that was computed."""
    key = prompt(checker, "abcd")
    fetch(checker, key)
    components.match(checker, key)
    evict_all(checker)
    components.match(checker, key)


@litmus(rules=("EVENT-01", "EVENT-04", "EVENT-02"), needs=(*NEEDS, "component_host"))
def who_listens_knows_what_the_host_has(checker: Checker) -> None:
    """A key is backed up, leaves the device, is loaded back, and leaves the host; a backup that fails tells nothing."""
    key = prompt(checker, "abcd")
    backed(checker, key)
    evict_all(checker)
    load(checker, key)
    end(checker)
    components.match(checker, key)
    evict_host(checker)
    back_up(checker, key)
    end(checker, ok=False)
    backed(checker, prompt(checker, "abxy"))
    components.reset(checker)
    components.match(checker, key)


@litmus(rules=TOLD, needs=("component_requests", "component_events"))
def who_makes_room_tells_whose_it_was(checker: Checker) -> None:
    """Requests fill everything, end, and make room for others; then the old ones are asked for again."""
    key = whole_pages(checker, "abcdef")
    serve(checker, key, WHOLE)
    for ways in ("mnopqr", "stuvwx", "ghijkl"):
        serve(checker, prompt(checker, ways), 1)
        components.match(checker, key)
    serve(checker, key, WHOLE)
    components.match(checker, key)
    components.reset(checker)
    components.match(checker, key)
