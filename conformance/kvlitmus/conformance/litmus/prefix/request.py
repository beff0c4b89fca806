"""Litmus tests on the life of a request."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.calls.prefix import pool, request, tree
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.words.units import Key

REQUESTS = ("requests",)
SEEN = ("requests", "inspect")


def begin(checker: Checker, rid: int, key: Key) -> None:
    """Begin a request; a refusal is an answer like any other."""
    request.begin(checker, rid, key)


def grow(checker: Checker, rid: int, tokens: Sequence[int]) -> None:
    """Grow a request, if it runs."""
    if rid in checker.requests:
        request.grow(checker, rid, tokens)


def publish(checker: Checker, rid: int, *, chunked: bool, grouped: bool = False) -> None:
    """Publish a request, if it runs."""
    if rid in checker.requests:
        request.publish(checker, rid, chunked=chunked, grouped=grouped)


def end(checker: Checker, rid: int, *, keep: bool) -> None:
    """End a request, if it runs."""
    if rid in checker.requests:
        request.end(checker, rid, keep=keep)


@litmus(rules=("REQ-01", "REQ-02", "REQ-07", "TREE-08"), needs=SEEN)
def a_finished_request_is_found_by_the_next(checker: Checker) -> None:
    """What a finished request computed is shared by the next one with the same beginning."""
    begin(checker, 1, prompt(checker, "ab", tail=1))
    grow(checker, 1, [5] * (checker.size + 1))
    end(checker, 1, keep=True)
    begin(checker, 2, prompt(checker, "abc"))
    end(checker, 2, keep=True)


@litmus(rules=("REQ-07", "REQ-09"), needs=SEEN)
def an_aborted_request_leaves_nothing(checker: Checker) -> None:
    """An abort frees all that the request had, before and after publishing, and caches nothing more."""
    begin(checker, 1, prompt(checker, "ab"))
    end(checker, 1, keep=False)
    begin(checker, 2, prompt(checker, "ab", tail=1))
    publish(checker, 2, chunked=True)
    grow(checker, 2, [5] * (2 * checker.size))
    end(checker, 2, keep=False)
    begin(checker, 3, prompt(checker, "abc"))
    end(checker, 3, keep=True)


@litmus(rules=("REQ-03", "REQ-04", "REQ-11"), needs=SEEN)
def a_published_prefix_is_the_trees(checker: Checker) -> None:
    """Publishing between chunks hands whole pages to the tree and leaves the tail to the request."""
    begin(checker, 1, prompt(checker, "ab", tail=checker.size - 1))
    for chunk in range(3):
        publish(checker, 1, chunked=True)
        grow(checker, 1, [3 + chunk] * (checker.size + 1))
    publish(checker, 1, chunked=False)
    end(checker, 1, keep=True)


@litmus(rules=("REQ-02", "REQ-03", "REQ-11"), needs=SEEN)
def the_slower_of_two_equal_requests_goes_on_with_the_others_pages(checker: Checker) -> None:
    """Two requests compute the same: the second to publish frees its own pages and reads the first one's."""
    for rid in (1, 2):
        begin(checker, rid, prompt(checker, "abc", tail=1))
    publish(checker, 1, chunked=False)
    publish(checker, 2, chunked=False)
    grow(checker, 2, [5])
    end(checker, 1, keep=True)
    end(checker, 2, keep=True)


@litmus(rules=("REQ-03", "REQ-11"), needs=(*SEEN, "group"))
def publishing_within_a_free_group(checker: Checker) -> None:
    """What publishing frees within a group is freed at its end, and nothing that the tree has is freed with it."""
    for rid in (1, 2):
        begin(checker, rid, prompt(checker, "ab", tail=1))
    publish(checker, 1, chunked=True, grouped=True)
    publish(checker, 2, chunked=True, grouped=True)
    grow(checker, 1, [5] * checker.size)
    publish(checker, 1, chunked=True, grouped=True)
    end(checker, 1, keep=True)
    end(checker, 2, keep=True)


@litmus(rules=("REQ-07", "TREE-08"), needs=SEEN)
def two_equal_requests_finish_one_after_the_other(checker: Checker) -> None:
    """The second to finish frees what the first has cached already, and caches the rest."""
    begin(checker, 1, prompt(checker, "ab"))
    begin(checker, 2, prompt(checker, "abc", tail=1))
    end(checker, 1, keep=True)
    end(checker, 2, keep=True)


@litmus(rules=("REQ-01", "POOL-17"), needs=REQUESTS)
def growth_token_by_token(checker: Checker) -> None:
    """Token by token a request fills its pages one after the other."""
    begin(checker, 1, prompt(checker, "a", tail=1))
    for token in range(2 * checker.size + 1):
        grow(checker, 1, [token + 1])
    end(checker, 1, keep=True)


@litmus(rules=("POOL-05", "REQ-10", "REQ-14"), needs=SEEN)
def a_request_without_room_is_refused_and_leaves_nothing(checker: Checker) -> None:
    """When memory is short a beginning is refused whole, a growth too, and later ones succeed."""
    pages = checker.config.pages
    begin(checker, 1, prompt(checker, "a" * (pages - 2)))
    begin(checker, 2, prompt(checker, "ab" * 4))
    grow(checker, 1, [5] * (3 * checker.size))
    grow(checker, 1, [5])
    end(checker, 1, keep=True)
    begin(checker, 3, prompt(checker, "ab" * 4))
    end(checker, 3, keep=True)


@litmus(rules=("POOL-05", "TREE-08"), needs=SEEN)
def room_is_made_by_eviction(checker: Checker) -> None:
    """A request that needs room gets it from what is cached and unlocked, never from what it shares."""
    pages = checker.config.pages
    begin(checker, 1, prompt(checker, "a" * (pages - 4)))
    end(checker, 1, keep=True)
    begin(checker, 2, prompt(checker, "aa" + "b" * 8))
    begin(checker, 3, prompt(checker, "c" * 8))
    end(checker, 2, keep=True)
    end(checker, 3, keep=True)


@litmus(rules=("EVICT-05", "EVICT-06"), needs=SEEN)
def room_is_made_in_order_and_no_more_than_needed(checker: Checker) -> None:
    """A full cache makes room for a request that begins, one that grows, and one that can't begin."""
    ways = "abcdef"
    for rid, way in enumerate((*ways, "g" * (checker.config.pages - len(ways)))):
        begin(checker, rid, prompt(checker, way))
        end(checker, rid, keep=True)
    begin(checker, 10, prompt(checker, "a"))
    begin(checker, 11, prompt(checker, "hi"))
    grow(checker, 11, [5] * (checker.size + 1))
    end(checker, 11, keep=True)
    begin(checker, 12, prompt(checker, "j" * checker.config.pages))
    end(checker, 10, keep=False)
    begin(checker, 13, prompt(checker, "k"))


@litmus(rules=("REQ-04", "REQ-07"), needs=SEEN)
def a_request_shorter_than_a_page_caches_nothing(checker: Checker) -> None:
    """A request that fills no page publishes nothing, caches nothing, and frees all."""
    for rid, tail in enumerate({0, 1, checker.size - 1}):
        begin(checker, rid, prompt(checker, "", tail=tail))
        publish(checker, rid, chunked=False)
        end(checker, rid, keep=True)


@litmus(rules=("REQ-03", "REQ-09"), needs=SEEN)
def a_retracted_request_begins_again(checker: Checker) -> None:
    """A request that was retracted begins again under its id with all that it had, and can publish and finish."""
    key = prompt(checker, "abc", tail=1)
    begin(checker, 1, key)
    publish(checker, 1, chunked=True)
    end(checker, 1, keep=False)
    begin(checker, 1, key)
    publish(checker, 1, chunked=True)
    end(checker, 1, keep=True)


@litmus(rules=("REQ-02", "REQ-04", "REQ-13"), needs=(*SEEN, "partial"))
def what_is_not_computed_is_not_published(checker: Checker) -> None:
    """Slots of a whole prompt are taken at once and computed in chunks: only whole computed pages are published.

    Another request with the same prompt shares these and computes the rest in pages of its own.
    """
    request.begin(checker, 1, prompt(checker, "abc", tail=1), ahead=True)
    for units in (checker.size + 1, checker.size - 1, checker.size // 2):
        if 1 in checker.requests:
            request.compute(checker, 1, units)
            request.publish(checker, 1, chunked=True, upto=checker.requests[1].upto)
    begin(checker, 2, prompt(checker, "abc", tail=1))
    end(checker, 2, keep=True)
    if 1 in checker.requests:
        request.compute(checker, 1, 4 * checker.size)
    publish(checker, 1, chunked=False)
    end(checker, 1, keep=True)


@litmus(rules=("REQ-07", "TREE-08", "REQ-13"), needs=(*SEEN, "partial"))
def a_request_that_ends_early_keeps_what_it_computed(checker: Checker) -> None:
    """A request that ends before its prompt is computed leaves the whole computed pages cached, and all others free."""
    for rid, units in enumerate((0, 1, checker.size, checker.size + 1, 2 * checker.size)):
        request.begin(checker, rid, prompt(checker, "ab" + "abcde"[rid], tail=1), ahead=True)
        if rid in checker.requests:
            request.compute(checker, rid, units)
            request.end(checker, rid, keep=True, upto=checker.requests[rid].upto)
    begin(checker, 9, prompt(checker, "abcd"))
    end(checker, 9, keep=True)


@litmus(rules=("REQ-02", "REQ-03", "TREE-03"), needs=("requests", "pool", "tree", "inspect"))
def requests_of_two_tenants_share_nothing(checker: Checker) -> None:
    """Equal prompts of two tenants are computed twice and found each by its own."""
    for rid, namespace in enumerate(("tenant-a", "tenant-b", None)):
        begin(checker, rid, prompt(checker, "ab", namespace=namespace))
        end(checker, rid, keep=True)
    for namespace in ("tenant-a", "tenant-b", None):
        tree.match(checker, prompt(checker, "ab", namespace=namespace))


@litmus(rules=("REQ-15",), needs=(*REQUESTS, "evict"))
def a_request_that_fits_the_empty_cache_begins(checker: Checker) -> None:
    """Requests are aborted, others finish; then all is evicted, and a request needs nearly the whole pool."""
    pages = max(0, len(checker.usable) - checker.profile.evict_slack - 1)
    for rid in range(8):
        begin(checker, rid, prompt(checker, "ab"))
        end(checker, rid, keep=False)
    for rid, (letter, many) in enumerate({"a": pages // 2, "b": pages // 2, "c": pages, "d": pages}.items(), 8):
        begin(checker, rid, prompt(checker, letter * many))
        if rid not in checker.requests:
            tree.evict(checker, checker.capacity)
            begin(checker, rid, prompt(checker, letter * many))
        end(checker, rid, keep=True)
    tree.evict(checker, checker.capacity)
    begin(checker, 12, prompt(checker, "e" * pages))
    end(checker, 12, keep=False)


def take_back(checker: Checker, rid: int, n: int) -> None:
    """Take so many tokens of a request back, or all that are its own, if it runs."""
    if rid in checker.requests and (most := request.most_to_take_back(checker.requests[rid])):
        request.take_back(checker, rid, min(n, most))


@litmus(rules=("POOL-17", "TREE-08", "REQ-16", "REQ-17"), needs=(*SEEN, "take_back"))
def what_is_taken_back_comes_free(checker: Checker) -> None:
    """Drafts are rejected, of a token, a page, several pages, all that is the request's own; others follow."""
    size = checker.size
    begin(checker, 1, prompt(checker, "ab", tail=1))
    publish(checker, 1, chunked=True)
    for n in (1, size, 2 * size + 1, 9 * size):
        grow(checker, 1, [5] * (2 * size + 1))
        take_back(checker, 1, n)
        grow(checker, 1, [6] * size)
    end(checker, 1, keep=True)
    begin(checker, 2, prompt(checker, "abc"))
    take_back(checker, 2, size)
    end(checker, 2, keep=False)


@litmus(rules=("REQ-02", "REQ-03", "REQ-04", "TREE-03"), needs=(*SEEN, "tree", "take_back"))
def what_is_taken_back_is_not_cached(checker: Checker) -> None:
    """Tokens are taken back and others take their place: what is published and finished is what is there now."""
    size = checker.size
    begin(checker, 1, prompt(checker, "a", tail=1))
    grow(checker, 1, [5] * (2 * size))
    take_back(checker, 1, size + 1)
    grow(checker, 1, [6] * (size + 1))
    publish(checker, 1, chunked=True)
    grow(checker, 1, [5] * (2 * size))
    take_back(checker, 1, 2 * size)
    end(checker, 1, keep=True)
    for tokens in ([5] * (2 * size), [6] * (2 * size)):
        begin(checker, 2, prompt(checker, "a", tail=1))
        grow(checker, 2, tokens)
        end(checker, 2, keep=True)


def fork(checker: Checker, rid: int, of: int) -> None:
    """Fork a request, if it runs."""
    if of in checker.requests:
        request.fork(checker, rid, of)


@litmus(rules=("REQ-01", "REQ-02", "REQ-03", "POOL-05", "REQ-18", "POOL-15"), needs=(*SEEN, "fork"))
def beams_share_their_prompt(checker: Checker) -> None:
    """Beams share the whole pages of a prompt, and each goes on in a copy of its last one; one after the other ends."""
    size = checker.size
    begin(checker, 1, prompt(checker, "ab", tail=1))
    fork(checker, 2, 1)
    publish(checker, 1, chunked=True)
    for rid, of in ((3, 1), (4, 3)):
        fork(checker, rid, of)
        grow(checker, rid, [rid] * size)
    grow(checker, 1, [1])
    end(checker, 1, keep=True)
    publish(checker, 3, chunked=True)
    fork(checker, 5, 3)
    for rid, keep in ((3, False), (5, True), (2, True), (4, True)):
        end(checker, rid, keep=keep)


@litmus(rules=("LOCK-02", "LOCK-04", "LOCK-06"), needs=(*SEEN, "fork", "evict", "tree"))
def what_beams_share_goes_after_the_last_of_them(checker: Checker) -> None:
    """A prompt stays cached as long as one of its beams runs, whichever that is, and may go then."""
    key = prompt(checker, "ab", tail=1)
    for rid, last in ((1, 2), (3, 3)):
        begin(checker, rid, key)
        publish(checker, rid, chunked=True)
        fork(checker, rid + 1, rid)
        for one in (rid, rid + 1):
            if one != last:
                end(checker, one, keep=False)
        tree.evict(checker, checker.capacity)
        tree.match(checker, key)
        end(checker, last, keep=False)
        tree.evict(checker, checker.capacity)
        tree.match(checker, key)


@litmus(rules=("REQ-10", "REQ-14"), needs=(*SEEN, "fork", "pool"))
def a_fork_without_room_leaves_nothing_behind(checker: Checker) -> None:
    """A request is forked until its copies find no page any more; then the others end, and it is forked again."""
    begin(checker, 1, prompt(checker, "a", tail=1))
    publish(checker, 1, chunked=True)
    grow(checker, 1, [5])  # where pages have one token, all others are shared
    for rid in range(2, len(checker.usable) + 3):
        fork(checker, rid, 1)
    for rid in sorted(checker.requests)[1:]:
        end(checker, rid, keep=False)
    fork(checker, 2, 1)
    end(checker, 1, keep=True)
    end(checker, 2, keep=True)


def retract(checker: Checker, rid: int) -> None:
    """Retract a request with a copy, if it runs."""
    if rid in checker.requests:
        request.retract(checker, rid)


def resume(checker: Checker, rid: int) -> None:
    """Let a request run again, if it is on the host."""
    if rid in checker.state.retracted.requests:
        request.resume(checker, rid)


@litmus(rules=("REQ-01", "REQ-02", "POOL-05", "REQ-07", "REQ-09"), needs=(*SEEN, "retract"))
def a_retracted_request_resumes_with_its_kv(checker: Checker) -> None:
    """A request is retracted, others fill its pages, and it resumes with what it had, grows and finishes."""
    size = checker.size
    begin(checker, 1, prompt(checker, "ab", tail=1))
    publish(checker, 1, chunked=True)
    grow(checker, 1, [5] * size)
    retract(checker, 1)
    for rid in (2, 3):
        begin(checker, rid, prompt(checker, "cde"[rid - 2 :], tail=1))
    end(checker, 2, keep=False)
    resume(checker, 1)
    grow(checker, 1, [6] * (size + 1))
    publish(checker, 1, chunked=True)
    end(checker, 3, keep=False)
    retract(checker, 1)
    resume(checker, 1)
    end(checker, 1, keep=True)
    begin(checker, 4, prompt(checker, "ab", tail=1))
    end(checker, 4, keep=False)


@litmus(rules=("REQ-19",), needs=(*SEEN, "retract"))
def the_host_is_free_after_those_that_were_retracted(checker: Checker) -> None:
    """Requests are retracted, resume or are aborted there, again and again: as many fit on the host as before."""
    for rid in range(8):
        begin(checker, rid, prompt(checker, "ab", tail=1))
        retract(checker, rid)
        if rid % 2:
            resume(checker, rid)
        elif rid in checker.state.retracted.requests:
            request.discard(checker, rid)
        end(checker, rid, keep=False)


@litmus(rules=("REQ-10", "REQ-14"), needs=(*SEEN, "retract", "pool"))
def who_finds_no_room_stays_on_the_host(checker: Checker) -> None:
    """A retracted request finds the device full, stays on the host, and resumes when the others have ended."""
    begin(checker, 1, prompt(checker, "ab", tail=1))
    retract(checker, 1)
    for rid in range(2, len(checker.usable) + 2):
        begin(checker, rid, prompt(checker, chr(97 + rid % 26)))
    resume(checker, 1)
    for rid in sorted(checker.requests):
        if rid != 1:
            end(checker, rid, keep=False)
    resume(checker, 1)
    end(checker, 1, keep=True)


@litmus(rules=("EVICT-25", "EVICT-26"), needs=(*SEEN, "tree", "flush"))
def running_requests_outlive_a_flush(checker: Checker) -> None:
    """A cache is flushed while a request runs: it goes on, and publishes as ever."""
    key, other = prompt(checker, "ab", tail=1), prompt(checker, "cde", tail=1)
    pool.flush(checker)
    for rid, one in ((1, key), (2, other)):
        begin(checker, rid, one)
        end(checker, rid, keep=True)
    begin(checker, 3, prompt(checker, "abf", tail=1))
    pool.flush(checker)
    tree.match(checker, key)
    tree.match(checker, other)
    publish(checker, 3, chunked=True)
    end(checker, 3, keep=True)
    pool.flush(checker)
    tree.match(checker, prompt(checker, "abf", tail=1))


@litmus(rules=("EVICT-25", "EVICT-26"), needs=(*SEEN, "tree", "flush", "retract"))
def a_retracted_request_outlives_a_flush(checker: Checker) -> None:
    """A cache is flushed while a request waits on the host: nothing is in its way, and it resumes and publishes."""
    begin(checker, 1, prompt(checker, "ab", tail=1))
    publish(checker, 1, chunked=True)
    retract(checker, 1)
    pool.flush(checker)
    tree.match(checker, prompt(checker, "ab", tail=1))
    resume(checker, 1)
    publish(checker, 1, chunked=False)
    end(checker, 1, keep=True)
    tree.match(checker, prompt(checker, "ab", tail=1))
