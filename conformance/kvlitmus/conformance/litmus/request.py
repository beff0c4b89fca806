"""Litmus tests on the life of a request."""

from __future__ import annotations

from kvlitmus.conformance.calls import request, tree
from kvlitmus.conformance.judge import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus

REQUESTS = ("requests",)
SEEN = ("requests", "inspect")


@litmus(rules=("REQ-01", "REQ-02", "REQ-07", "REQ-08"), needs=SEEN)
def a_finished_request_is_found_by_the_next(judge: Judge) -> None:
    """What a finished request computed is shared by the next one with the same beginning."""
    request.begin(judge, 1, prompt(judge, "ab", tail=1))
    request.grow(judge, 1, [5] * (judge.size + 1))
    request.end(judge, 1, keep=True)
    request.begin(judge, 2, prompt(judge, "abc"))
    request.end(judge, 2, keep=True)


@litmus(rules=("REQ-07", "REQ-09"), needs=SEEN)
def an_aborted_request_leaves_nothing(judge: Judge) -> None:
    """An abort frees all that the request had, before and after publishing, and caches nothing more."""
    request.begin(judge, 1, prompt(judge, "ab"))
    request.end(judge, 1, keep=False)
    request.begin(judge, 2, prompt(judge, "ab", tail=1))
    request.publish(judge, 2, chunked=True)
    request.grow(judge, 2, [5] * (2 * judge.size))
    request.end(judge, 2, keep=False)
    request.begin(judge, 3, prompt(judge, "abc"))
    request.end(judge, 3, keep=True)


@litmus(rules=("REQ-03", "REQ-04", "REQ-11"), needs=SEEN)
def a_published_prefix_is_the_trees(judge: Judge) -> None:
    """Publishing between chunks hands whole pages to the tree and leaves the tail to the request."""
    request.begin(judge, 1, prompt(judge, "ab", tail=judge.size - 1))
    for chunk in range(3):
        request.publish(judge, 1, chunked=True)
        request.grow(judge, 1, [3 + chunk] * (judge.size + 1))
    request.publish(judge, 1, chunked=False)
    request.end(judge, 1, keep=True)


@litmus(rules=("REQ-02", "REQ-03", "REQ-11"), needs=SEEN)
def the_slower_of_two_equal_requests_goes_on_with_the_others_pages(judge: Judge) -> None:
    """Two requests compute the same: the second to publish frees its own pages and reads the first one's."""
    for rid in (1, 2):
        request.begin(judge, rid, prompt(judge, "abc", tail=1))
    request.publish(judge, 1, chunked=False)
    request.publish(judge, 2, chunked=False)
    request.grow(judge, 2, [5])
    request.end(judge, 1, keep=True)
    request.end(judge, 2, keep=True)


@litmus(rules=("REQ-07", "REQ-08"), needs=SEEN)
def two_equal_requests_finish_one_after_the_other(judge: Judge) -> None:
    """The second to finish frees what the first has cached already, and caches the rest."""
    request.begin(judge, 1, prompt(judge, "ab"))
    request.begin(judge, 2, prompt(judge, "abc", tail=1))
    request.end(judge, 1, keep=True)
    request.end(judge, 2, keep=True)


@litmus(rules=("REQ-01", "REQ-05"), needs=REQUESTS)
def growth_token_by_token(judge: Judge) -> None:
    """Token by token a request fills its pages one after the other."""
    request.begin(judge, 1, prompt(judge, "a", tail=1))
    for token in range(2 * judge.size + 1):
        request.grow(judge, 1, [token + 1])
    request.end(judge, 1, keep=True)


@litmus(rules=("REQ-06", "REQ-10"), needs=SEEN)
def a_request_without_room_is_refused_and_leaves_nothing(judge: Judge) -> None:
    """When memory is short a beginning is refused whole, a growth too, and later ones succeed."""
    pages = judge.config.pages
    request.begin(judge, 1, prompt(judge, "a" * (pages - 2)))
    request.begin(judge, 2, prompt(judge, "ab" * 4))
    request.grow(judge, 1, [5] * (3 * judge.size))
    request.grow(judge, 1, [5])
    request.end(judge, 1, keep=True)
    request.begin(judge, 3, prompt(judge, "ab" * 4))
    request.end(judge, 3, keep=True)


@litmus(rules=("REQ-06", "REQ-08"), needs=SEEN)
def room_is_made_by_eviction(judge: Judge) -> None:
    """A request that needs room gets it from what is cached and unlocked, never from what it shares."""
    pages = judge.config.pages
    request.begin(judge, 1, prompt(judge, "a" * (pages - 4)))
    request.end(judge, 1, keep=True)
    request.begin(judge, 2, prompt(judge, "aa" + "b" * 8))
    request.begin(judge, 3, prompt(judge, "c" * 8))
    request.end(judge, 2, keep=True)
    request.end(judge, 3, keep=True)


@litmus(rules=("REQ-04", "REQ-07"), needs=SEEN)
def a_request_shorter_than_a_page_caches_nothing(judge: Judge) -> None:
    """A request that fills no page publishes nothing, caches nothing, and frees all."""
    for rid, tail in enumerate({0, 1, judge.size - 1}):
        request.begin(judge, rid, prompt(judge, "", tail=tail))
        request.publish(judge, rid, chunked=False)
        request.end(judge, rid, keep=True)


@litmus(rules=("REQ-03", "REQ-09"), needs=SEEN)
def a_retracted_request_begins_again(judge: Judge) -> None:
    """A request that was retracted begins again under its id with all that it had, and can publish and finish."""
    key = prompt(judge, "abc", tail=1)
    request.begin(judge, 1, key)
    request.publish(judge, 1, chunked=True)
    request.end(judge, 1, keep=False)
    request.begin(judge, 1, key)
    request.publish(judge, 1, chunked=True)
    request.end(judge, 1, keep=True)


@litmus(rules=("REQ-02", "REQ-03", "TREE-03"), needs=("requests", "pool", "tree", "inspect"))
def requests_of_two_tenants_share_nothing(judge: Judge) -> None:
    """Equal prompts of two tenants are computed twice and found each by its own."""
    for rid, namespace in enumerate(("tenant-a", "tenant-b", None)):
        request.begin(judge, rid, prompt(judge, "ab", namespace=namespace))
        request.end(judge, rid, keep=True)
    for namespace in ("tenant-a", "tenant-b", None):
        tree.match(judge, prompt(judge, "ab", namespace=namespace))
