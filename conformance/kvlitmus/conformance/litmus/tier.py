"""Litmus tests on the two tiers."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import fetch, tiers, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.scenes import (
    FAILING,
    READS,
    STORAGE,
    TIERS,
    backed,
    computed,
    emptied,
    step,
    storage,
    stored,
)
from kvlitmus.conformance.ports.tiers import SPILL, SPILLED

STATES = ("TIER-01", "TIER-02", "TIER-03", "TIER-04", "TIER-05", "TIER-09")
WRITE_THROUGH = ("write_through", "write_through_selective")


@litmus(rules=(*STATES, "TIER-10", "TIER-13", "TIER-14", "TIER-15", "TIER-16", "LIFE-06", "LIFE-08"), needs=TIERS)
def a_page_goes_from_the_device_to_the_host_and_away(judge: Judge) -> None:
    """What is backed up stays on the host when the device is emptied, is found, and goes last page first."""
    backed(judge, prompt(judge, "abc"))
    tree.evict(judge, judge.size)
    tree.match(judge, prompt(judge, "abcd"))
    tree.evict(judge, judge.capacity)
    tree.match(judge, prompt(judge, "abc", tail=1))
    tiers.evict_host(judge, 1)
    tree.match(judge, prompt(judge, "abc"))
    tiers.evict_host(judge, judge.config.host_pages * judge.size)
    tiers.settle(judge)


@litmus(rules=("TIER-07", "TIER-08"), needs=(*TIERS, "data"))
def what_goes_down_and_comes_back_is_the_same(judge: Judge) -> None:
    """A page that was backed up, demoted and loaded back holds what it held."""
    backed(judge, prompt(judge, "ab"))
    backed(judge, prompt(judge, "ac"))
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, prompt(judge, "ac"))
    step(judge, "load")
    tiers.tick(judge)
    tree.match(judge, prompt(judge, "ac"))
    tiers.settle(judge)


@litmus(rules=("TIER-17",), needs=TIERS)
def an_emptied_host_says_how_much_it_dropped(judge: Judge) -> None:
    """Emptying the host tells how many slots became free."""
    backed(judge, prompt(judge, "abc"))
    emptied(judge)
    emptied(judge)


@litmus(rules=("TIER-14", "TIER-15", "EVICT-04"), needs=TIERS)
def what_was_computed_again_is_not_dropped_by_the_host(judge: Judge) -> None:
    """What was on the host alone is computed again; then the host is emptied, and then the device."""
    backed(judge, prompt(judge, "abc"))
    tree.evict(judge, judge.capacity)
    computed(judge, prompt(judge, "abc"))
    tiers.evict_host(judge, judge.config.host_pages * judge.size)
    tree.match(judge, prompt(judge, "abc"))
    emptied(judge)
    tiers.settle(judge)


@litmus(rules=("TIER-06",), needs=TIERS, writes=WRITE_THROUGH)
def a_branch_is_backed_up_with_its_trunk(judge: Judge) -> None:
    """Of two branches the used one is backed up, and everything above it."""
    computed(judge, prompt(judge, "abc"))
    computed(judge, prompt(judge, "abd"), uses=3)
    tiers.deliver(judge)
    tree.evict(judge, judge.capacity)
    tiers.settle(judge)


@litmus(rules=("TIER-11",), needs=STORAGE)
def what_a_put_reads_from_is_not_dropped(judge: Judge) -> None:
    """While pages are on their way into storage the host is emptied: they stay until they have arrived."""
    storage(judge)
    computed(judge, prompt(judge, "abc"), uses=3)
    if judge.config.write == "write_back":
        tree.evict(judge, judge.capacity)
    while step(judge, "backup"):
        pass
    tiers.tick(judge)
    emptied(judge)
    tiers.settle(judge)
    emptied(judge)


@litmus(rules=("TIER-12",), needs=READS)
def the_anchor_outlives_an_emptied_host(judge: Judge) -> None:
    """While a prefetch is under way both tiers are emptied: the page behind which it reads stays."""
    key = prompt(judge, "abcd")
    stored(judge, key)
    backed(judge, prompt(judge, "ab"))
    tree.evict(judge, judge.capacity)
    fetch.prefetch(judge, 1, key)
    emptied(judge)
    step(judge, "query")
    emptied(judge)
    tiers.tick(judge)
    step(judge, "fetch")
    tiers.settle(judge)
    fetch.loaded(judge, 1)
    emptied(judge)


@litmus(rules=("TIER-02", "TIER-04", "TIER-07", "TIER-08", "LIFE-08"), needs=FAILING, writes=("write_back",))
def what_could_not_be_written_back_is_not_on_the_host(judge: Judge) -> None:
    """The copy that an eviction makes can't begin, then fails: the page stays or is lost, and is never wrong below."""
    key = prompt(judge, "abc")
    for kind in (SPILL, SPILLED):
        computed(judge, key)
        tiers.fail_copy(judge, kind, 0)
        tree.evict(judge, judge.size)
        tree.evict(judge, judge.capacity)
        tree.match(judge, key)
        tiers.load_back(judge, key)
        tiers.settle(judge)
        emptied(judge)
