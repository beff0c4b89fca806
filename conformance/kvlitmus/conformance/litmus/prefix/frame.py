"""Litmus tests on the frame: much is there that could go, and calls are made that are not about it."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import pool, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.scenes import READS, TIERS, backed, brought, computed, letters, step, stored
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.units import Key


def held_for_a_while(checker: Checker, key: Key) -> None:
    """A cached key is found, locked and given free again."""
    hit = tree.match(checker, key)
    tree.lock(checker, hit, key, 1)
    tree.unlock(checker, 1)


def lent_for_a_while(checker: Checker) -> None:
    """The caller takes a page and gives it back."""
    slots = pool.alloc(checker, checker.size)
    if slots:
        pool.free(checker, slots)


def served(checker: Checker, rid: int, key: Key) -> None:
    """A request runs from its beginning to its end."""
    if request.begin(checker, rid, key):
        request.publish(checker, rid, chunked=False)
        if request.grow(checker, rid, (9,)):
            request.publish(checker, rid, chunked=True)
        request.end(checker, rid, keep=True)


@litmus(rules=("FRAME-01", "FRAME-02"), needs=("pool", "tree", "locks", "requests", "inspect"))
def calls_leave_alone_what_they_are_not_about(checker: Checker) -> None:
    """Two prompts are cached and nobody holds them; then other calls are made, for which there is room."""
    for rid, ways in enumerate(("ab", "cd")):
        computed(checker, prompt(checker, ways), rid=900 + rid)
    held_for_a_while(checker, prompt(checker, "ab"))
    lent_for_a_while(checker)
    served(checker, 1, prompt(checker, "e"))
    if request.begin(checker, 2, prompt(checker, "ab")):
        request.end(checker, 2, keep=False)


@litmus(
    rules=("FRAME-01", "FRAME-02", "FRAME-03", "FRAME-04", "FRAME-05", "FRAME-06"),
    needs=(*TIERS, "pool", "locks"),
)
def calls_leave_the_host_alone(checker: Checker) -> None:
    """One prompt is on the host alone and one on both tiers; calls about others need no room there."""
    backed(checker, letters(checker, 2))
    tree.evict(checker, checker.capacity)
    backed(checker, letters(checker, 2, "d"))
    held_for_a_while(checker, letters(checker, 2, "d"))
    tree.match(checker, letters(checker, 2))
    lent_for_a_while(checker)
    served(checker, 1, letters(checker, 1, "g"))
    tiers.settle(checker)


@litmus(rules=("FRAME-01", "FRAME-03", "FRAME-06"), needs=TIERS)
def a_copy_that_lands_leaves_the_rest_alone(checker: Checker) -> None:
    """A copy to the host lands, and one to the device; beside them there is what nobody holds."""
    backed(checker, letters(checker, 2))
    computed(checker, letters(checker, 2, "d"), uses=3, rid=950)
    step(checker, "backup")
    tiers.tick(checker)
    tree.evict(checker, checker.capacity)
    tiers.load_back(checker, letters(checker, 2))
    step(checker, "load")
    tiers.tick(checker)
    tiers.settle(checker)


@litmus(rules=("FRAME-05", "FRAME-06", "FRAME-07"), needs=READS)
def storage_is_left_alone(checker: Checker) -> None:
    """A prompt goes to storage and comes back; between, calls are made that need nothing of it."""
    key = letters(checker, 4)
    stored(checker, key)
    tree.match(checker, key)
    served(checker, 1, letters(checker, 1, "g"))
    brought(checker, 2, key)
    tree.match(checker, key)
    tiers.settle(checker)
