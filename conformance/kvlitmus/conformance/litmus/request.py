"""Litmus tests on the life of a request."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.calls import request, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.units import Key

REQUESTS = ("requests",)
SEEN = ("requests", "inspect")


def begin(judge: Judge, rid: int, key: Key) -> None:
    """Begin a request; a refusal is an answer like any other."""
    request.begin(judge, rid, key)


def grow(judge: Judge, rid: int, tokens: Sequence[int]) -> None:
    """Grow a request, if it runs."""
    if rid in judge.requests:
        request.grow(judge, rid, tokens)


def publish(judge: Judge, rid: int, *, chunked: bool, grouped: bool = False) -> None:
    """Publish a request, if it runs."""
    if rid in judge.requests:
        request.publish(judge, rid, chunked=chunked, grouped=grouped)


def end(judge: Judge, rid: int, *, keep: bool) -> None:
    """End a request, if it runs."""
    if rid in judge.requests:
        request.end(judge, rid, keep=keep)


@litmus(rules=("REQ-01", "REQ-02", "REQ-07", "REQ-08"), needs=SEEN)
def a_finished_request_is_found_by_the_next(judge: Judge) -> None:
    """What a finished request computed is shared by the next one with the same beginning."""
    begin(judge, 1, prompt(judge, "ab", tail=1))
    grow(judge, 1, [5] * (judge.size + 1))
    end(judge, 1, keep=True)
    begin(judge, 2, prompt(judge, "abc"))
    end(judge, 2, keep=True)


@litmus(rules=("REQ-07", "REQ-09"), needs=SEEN)
def an_aborted_request_leaves_nothing(judge: Judge) -> None:
    """An abort frees all that the request had, before and after publishing, and caches nothing more."""
    begin(judge, 1, prompt(judge, "ab"))
    end(judge, 1, keep=False)
    begin(judge, 2, prompt(judge, "ab", tail=1))
    publish(judge, 2, chunked=True)
    grow(judge, 2, [5] * (2 * judge.size))
    end(judge, 2, keep=False)
    begin(judge, 3, prompt(judge, "abc"))
    end(judge, 3, keep=True)


@litmus(rules=("REQ-03", "REQ-04", "REQ-11"), needs=SEEN)
def a_published_prefix_is_the_trees(judge: Judge) -> None:
    """Publishing between chunks hands whole pages to the tree and leaves the tail to the request."""
    begin(judge, 1, prompt(judge, "ab", tail=judge.size - 1))
    for chunk in range(3):
        publish(judge, 1, chunked=True)
        grow(judge, 1, [3 + chunk] * (judge.size + 1))
    publish(judge, 1, chunked=False)
    end(judge, 1, keep=True)


@litmus(rules=("REQ-02", "REQ-03", "REQ-11"), needs=SEEN)
def the_slower_of_two_equal_requests_goes_on_with_the_others_pages(judge: Judge) -> None:
    """Two requests compute the same: the second to publish frees its own pages and reads the first one's."""
    for rid in (1, 2):
        begin(judge, rid, prompt(judge, "abc", tail=1))
    publish(judge, 1, chunked=False)
    publish(judge, 2, chunked=False)
    grow(judge, 2, [5])
    end(judge, 1, keep=True)
    end(judge, 2, keep=True)


@litmus(rules=("REQ-03", "REQ-11"), needs=(*SEEN, "group"))
def publishing_within_a_free_group(judge: Judge) -> None:
    """What publishing frees within a group is freed at its end, and nothing that the tree has is freed with it."""
    for rid in (1, 2):
        begin(judge, rid, prompt(judge, "ab", tail=1))
    publish(judge, 1, chunked=True, grouped=True)
    publish(judge, 2, chunked=True, grouped=True)
    grow(judge, 1, [5] * judge.size)
    publish(judge, 1, chunked=True, grouped=True)
    end(judge, 1, keep=True)
    end(judge, 2, keep=True)


@litmus(rules=("REQ-07", "REQ-08"), needs=SEEN)
def two_equal_requests_finish_one_after_the_other(judge: Judge) -> None:
    """The second to finish frees what the first has cached already, and caches the rest."""
    begin(judge, 1, prompt(judge, "ab"))
    begin(judge, 2, prompt(judge, "abc", tail=1))
    end(judge, 1, keep=True)
    end(judge, 2, keep=True)


@litmus(rules=("REQ-01", "REQ-05"), needs=REQUESTS)
def growth_token_by_token(judge: Judge) -> None:
    """Token by token a request fills its pages one after the other."""
    begin(judge, 1, prompt(judge, "a", tail=1))
    for token in range(2 * judge.size + 1):
        grow(judge, 1, [token + 1])
    end(judge, 1, keep=True)


@litmus(rules=("REQ-06", "REQ-10"), needs=SEEN)
def a_request_without_room_is_refused_and_leaves_nothing(judge: Judge) -> None:
    """When memory is short a beginning is refused whole, a growth too, and later ones succeed."""
    pages = judge.config.pages
    begin(judge, 1, prompt(judge, "a" * (pages - 2)))
    begin(judge, 2, prompt(judge, "ab" * 4))
    grow(judge, 1, [5] * (3 * judge.size))
    grow(judge, 1, [5])
    end(judge, 1, keep=True)
    begin(judge, 3, prompt(judge, "ab" * 4))
    end(judge, 3, keep=True)


@litmus(rules=("REQ-06", "REQ-08"), needs=SEEN)
def room_is_made_by_eviction(judge: Judge) -> None:
    """A request that needs room gets it from what is cached and unlocked, never from what it shares."""
    pages = judge.config.pages
    begin(judge, 1, prompt(judge, "a" * (pages - 4)))
    end(judge, 1, keep=True)
    begin(judge, 2, prompt(judge, "aa" + "b" * 8))
    begin(judge, 3, prompt(judge, "c" * 8))
    end(judge, 2, keep=True)
    end(judge, 3, keep=True)


@litmus(rules=("REQ-04", "REQ-07"), needs=SEEN)
def a_request_shorter_than_a_page_caches_nothing(judge: Judge) -> None:
    """A request that fills no page publishes nothing, caches nothing, and frees all."""
    for rid, tail in enumerate({0, 1, judge.size - 1}):
        begin(judge, rid, prompt(judge, "", tail=tail))
        publish(judge, rid, chunked=False)
        end(judge, rid, keep=True)


@litmus(rules=("REQ-03", "REQ-09"), needs=SEEN)
def a_retracted_request_begins_again(judge: Judge) -> None:
    """A request that was retracted begins again under its id with all that it had, and can publish and finish."""
    key = prompt(judge, "abc", tail=1)
    begin(judge, 1, key)
    publish(judge, 1, chunked=True)
    end(judge, 1, keep=False)
    begin(judge, 1, key)
    publish(judge, 1, chunked=True)
    end(judge, 1, keep=True)


@litmus(rules=("REQ-02", "REQ-12", "REQ-13"), needs=(*SEEN, "partial"))
def what_is_not_computed_is_not_published(judge: Judge) -> None:
    """Slots of a whole prompt are taken at once and computed in chunks: only whole computed pages are published.

    Another request with the same prompt shares these and computes the rest in pages of its own.
    """
    request.begin(judge, 1, prompt(judge, "abc", tail=1), ahead=True)
    for units in (judge.size + 1, judge.size - 1, judge.size // 2):
        if 1 in judge.requests:
            request.compute(judge, 1, units)
            request.publish(judge, 1, chunked=True, upto=judge.requests[1].upto)
    begin(judge, 2, prompt(judge, "abc", tail=1))
    end(judge, 2, keep=True)
    if 1 in judge.requests:
        request.compute(judge, 1, 4 * judge.size)
    publish(judge, 1, chunked=False)
    end(judge, 1, keep=True)


@litmus(rules=("REQ-07", "REQ-08", "REQ-13"), needs=(*SEEN, "partial"))
def a_request_that_ends_early_keeps_what_it_computed(judge: Judge) -> None:
    """A request that ends before its prompt is computed leaves the whole computed pages cached, and all others free."""
    for rid, units in enumerate((0, 1, judge.size, judge.size + 1, 2 * judge.size)):
        request.begin(judge, rid, prompt(judge, "ab" + "abcde"[rid], tail=1), ahead=True)
        if rid in judge.requests:
            request.compute(judge, rid, units)
            request.end(judge, rid, keep=True, upto=judge.requests[rid].upto)
    begin(judge, 9, prompt(judge, "abcd"))
    end(judge, 9, keep=True)


@litmus(rules=("REQ-02", "REQ-03", "TREE-03"), needs=("requests", "pool", "tree", "inspect"))
def requests_of_two_tenants_share_nothing(judge: Judge) -> None:
    """Equal prompts of two tenants are computed twice and found each by its own."""
    for rid, namespace in enumerate(("tenant-a", "tenant-b", None)):
        begin(judge, rid, prompt(judge, "ab", namespace=namespace))
        end(judge, rid, keep=True)
    for namespace in ("tenant-a", "tenant-b", None):
        tree.match(judge, prompt(judge, "ab", namespace=namespace))
