"""Litmus tests on the two tiers."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import fetch, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.scenes import (
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
    written_back,
)
from kvlitmus.conformance.litmus.prefix.tree import store
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.interface.tiers import SPILL, SPILLED

STATES = ("POOL-12", "TREE-06", "TIER-04", "TREE-05", "TIER-09")
WRITE_THROUGH = ("write_through", "write_through_selective")


@litmus(rules=(*STATES, "TIER-10", "TIER-13", "EVICT-03", "TIER-15", "EVICT-04", "LIFE-06", "LIFE-08"), needs=TIERS)
def a_page_goes_from_the_device_to_the_host_and_away(checker: Checker) -> None:
    """What is backed up stays on the host when the device is emptied, is found, and goes last page first."""
    backed(checker, prompt(checker, "abc"))
    tree.evict(checker, checker.size)
    tree.match(checker, prompt(checker, "abcd"))
    tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, "abc", tail=1))
    tiers.evict_host(checker, 1)
    tree.match(checker, prompt(checker, "abc"))
    tiers.evict_host(checker, checker.config.host_pages * checker.size)
    tiers.settle(checker)


@litmus(rules=("TIER-41", "TIER-42"), needs=TIERS)
def host_copies_are_made_once_and_stay(checker: Checker) -> None:
    """A path is backed up and another one used once; both leave the device, one comes back, and is used again."""
    backed(checker, prompt(checker, "ab"))
    computed(checker, prompt(checker, "c"))
    tree.evict(checker, checker.size)
    tree.evict(checker, checker.capacity)
    tiers.load_back(checker, prompt(checker, "ab"))
    step(checker, "load")
    tiers.tick(checker)
    computed(checker, prompt(checker, "ab"))
    tree.evict(checker, checker.capacity)
    tiers.settle(checker)


@litmus(rules=("TIER-08",), needs=(*TIERS, "data"))
def what_goes_down_and_comes_back_is_the_same(checker: Checker) -> None:
    """A page that was backed up, demoted and loaded back holds what it held."""
    backed(checker, prompt(checker, "ab"))
    backed(checker, prompt(checker, "ac"))
    tree.evict(checker, checker.capacity)
    tiers.load_back(checker, prompt(checker, "ac"))
    step(checker, "load")
    tiers.tick(checker)
    tree.match(checker, prompt(checker, "ac"))
    tiers.settle(checker)


@litmus(rules=("TIER-32", "TIER-33"), needs=(*TIERS, "counters", "locks"))
def a_host_that_was_emptied_is_all_available(checker: Checker) -> None:
    """What is looked up, locked and copied leaves the host as it is; emptied at rest, it is all available again."""
    backed(checker, prompt(checker, "abc"))
    tree.match(checker, prompt(checker, "ab"))
    tree.evict(checker, checker.capacity)
    tiers.settle(checker)
    tiers.evict_host(checker, checker.config.host_pages * checker.size)


@litmus(rules=("TIER-17",), needs=TIERS)
def an_emptied_host_says_how_much_it_dropped(checker: Checker) -> None:
    """Emptying the host tells how many slots became free."""
    backed(checker, prompt(checker, "abc"))
    emptied(checker)
    emptied(checker)


@litmus(rules=("EVICT-03", "TIER-15", "EVICT-04"), needs=TIERS)
def what_was_computed_again_is_not_dropped_by_the_host(checker: Checker) -> None:
    """What was on the host alone is computed again; then the host is emptied, and then the device."""
    backed(checker, prompt(checker, "abc"))
    tree.evict(checker, checker.capacity)
    computed(checker, prompt(checker, "abc"))
    tiers.evict_host(checker, checker.config.host_pages * checker.size)
    tree.match(checker, prompt(checker, "abc"))
    emptied(checker)
    tiers.settle(checker)


@litmus(rules=("TREE-13", "TREE-14"), needs=(*TIERS, "pool"))
def worth_survives_the_host(checker: Checker) -> None:
    """What was used often, and given a priority, comes back with both, by a load and by being computed again."""
    for ways, priority in (("ab", 3), ("cd", 1)):
        store(checker, prompt(checker, ways), priority=priority)
        backed(checker, prompt(checker, ways))
    tree.evict(checker, checker.capacity)
    tiers.load_back(checker, prompt(checker, "ab"))
    store(checker, prompt(checker, "cde"), priority=2)
    tiers.settle(checker)


@litmus(rules=("EVICT-03", "TIER-15", "EVICT-04"), needs=TIERS)
def a_match_uses_what_is_on_the_host(checker: Checker) -> None:
    """Of two pages on the host alone the older one is matched; then the host alone makes room for one page."""
    for ways in ("a", "b"):
        backed(checker, prompt(checker, ways))
    tree.evict(checker, checker.capacity)
    computed(checker, prompt(checker, "c"))
    tree.match(checker, prompt(checker, "a"))
    tiers.evict_host(checker, checker.size)
    tiers.settle(checker)


@litmus(rules=("EVICT-05",), needs=TIERS, policies=("fifo", "filo"), writes=WRITE_THROUGH)
def age_survives_the_host(checker: Checker) -> None:
    """The oldest page comes back and is the oldest still: it goes first, and what was created meanwhile stays."""
    backed(checker, prompt(checker, "a"))
    tree.evict(checker, checker.capacity)
    computed(checker, prompt(checker, "b"))
    tiers.load_back(checker, prompt(checker, "a"))
    tiers.settle(checker)
    tree.evict(checker, checker.size)


@litmus(rules=("EVICT-05",), needs=TIERS, policies=("lru",))
def half_a_match_leaves_the_other_half_old(checker: Checker) -> None:
    """A match uses the first of two pages on the host alone: then the host drops the second before a later page.

    From sglang#24892.
    """
    for ways in ("ab", "c"):
        backed(checker, prompt(checker, ways))
    tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, "ad"))
    tiers.evict_host(checker, checker.size)
    tiers.settle(checker)


@litmus(rules=("EVICT-05", "EVICT-06"), needs=TIERS)
def room_on_the_host_is_made_in_order_and_no_more_than_needed(checker: Checker) -> None:
    """A host that is full of single pages makes room when it is asked to, and for copies of a page and of two."""
    ways = [chr(ord("a") + at) for at in range(min(20, checker.config.host_pages))]
    for way in ways:
        backed(checker, prompt(checker, way))
        tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, ways[0]))
    for _ in range(3):
        tiers.evict_host(checker, checker.size)
    for key in (prompt(checker, "uv"), prompt(checker, "w"), prompt(checker, "xy")):
        backed(checker, key)
        tree.evict(checker, checker.capacity)
    tiers.settle(checker)


@litmus(rules=("TREE-05",), needs=TIERS, writes=WRITE_THROUGH)
def a_branch_is_backed_up_with_its_trunk(checker: Checker) -> None:
    """Of two branches the used one is backed up, and everything above it."""
    computed(checker, prompt(checker, "abc"))
    computed(checker, prompt(checker, "abd"), uses=3)
    tiers.deliver(checker)
    tree.evict(checker, checker.capacity)
    tiers.settle(checker)


@litmus(rules=("TIER-11",), needs=STORAGE)
def what_a_put_reads_from_is_not_dropped(checker: Checker) -> None:
    """While pages are on their way into storage the host is emptied: they stay until they have arrived."""
    storage(checker)
    computed(checker, prompt(checker, "abc"), uses=3)
    written_back(checker)
    while step(checker, "backup"):
        pass
    tiers.tick(checker)
    emptied(checker)
    tiers.settle(checker)
    emptied(checker)


@litmus(rules=("TIER-12",), needs=READS)
def the_anchor_outlives_an_emptied_host(checker: Checker) -> None:
    """While a prefetch is under way both tiers are emptied: the page behind which it reads stays."""
    key = prompt(checker, "abcd")
    stored(checker, key)
    backed(checker, prompt(checker, "ab"))
    tree.evict(checker, checker.capacity)
    fetch.prefetch(checker, 1, key)
    emptied(checker)
    step(checker, "query")
    emptied(checker)
    tiers.tick(checker)
    step(checker, "fetch")
    tiers.settle(checker)
    fetch.loaded(checker, 1)
    emptied(checker)


@litmus(rules=("POOL-12", "TIER-04", "TIER-08", "LIFE-08"), needs=FAILING, writes=("write_back",))
def what_could_not_be_written_back_is_not_on_the_host(checker: Checker) -> None:
    """The copy that an eviction makes can't begin, then fails: the page stays or is lost, and is never wrong below."""
    key = prompt(checker, "abc")
    for kind in (SPILL, SPILLED):
        computed(checker, key)
        tiers.fail_copy(checker, kind, 0)
        tree.evict(checker, checker.size)
        tree.evict(checker, checker.capacity)
        tree.match(checker, key)
        tiers.load_back(checker, key)
        tiers.settle(checker)
        emptied(checker)
