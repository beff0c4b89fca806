"""Litmus tests on misuse: run only where the profile says what happens then, or when forced."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvlitmus.conformance.checker.calls import misuse, raw
from kvlitmus.conformance.checker.calls.prefix import fetch, pool, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.lock import take
from kvlitmus.conformance.litmus.prefix.scenes import READS, least_pages, letters, step, storage, stored
from kvlitmus.conformance.litmus.prefix.tree import store
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.interface.cache import FORMS
from kvlitmus.spec.words.limits import ALL_TOKENS
from kvlitmus.spec.words.units import Key, Slot


@litmus(rules=("MISUSE-01", "MISUSE-02"), needs=("pool",), misuse=True)
def a_page_freed_twice(checker: Checker) -> None:
    """A page that is freed a second time is not available twice."""
    slots = pool.alloc(checker, 2 * checker.size)
    if slots:
        pool.free(checker, slots)
        misuse.double_free(checker, slots[: checker.size])


@litmus(rules=("MISUSE-02", "MISUSE-03"), needs=("pool",), misuse=True)
def a_page_named_twice_in_one_free(checker: Checker) -> None:
    """A free that names its pages twice frees them once, or not at all."""
    slots = pool.alloc(checker, 2 * checker.size)
    if slots:
        misuse.repeated_free(checker, slots)


@litmus(rules=("MISUSE-02", "MISUSE-04"), needs=("pool",), min_page=2, misuse=True)
def part_of_a_page_is_freed(checker: Checker) -> None:
    """Freeing one slot of a page does not give the page away, and breaks no other page."""
    slots = pool.alloc(checker, 2 * checker.size)
    if slots:
        misuse.partial_free(checker, slots)


@litmus(rules=("MISUSE-05",), needs=("pool",), misuse=True)
def a_returned_sequence_is_overwritten(checker: Checker) -> None:
    """What a caller does to the sequence it was given does not reach the pool."""
    misuse.scribble(checker, 2 * checker.size)


@litmus(rules=("MISUSE-10",), needs=("pool",), min_page=2, misuse=True)
def a_size_that_fills_no_page(checker: Checker) -> None:
    """An allocation of a page and a slot is rejected, where the profile says so, and takes nothing."""
    misuse.odd_alloc(checker, checker.size + 1)


@litmus(rules=("MISUSE-06",), needs=("pool", "tree", "locks", "counters"), misuse=True)
def a_receipt_is_given_back_twice(checker: Checker) -> None:
    """A receipt is worth one unlock: a second one takes nobody else's protection away."""
    store(checker, prompt(checker, "ab"))
    take(checker, "ab", 1)
    take(checker, "ab", 2)
    token = checker.tokens[1]
    tree.unlock(checker, 1)
    misuse.stale_unlock(checker, token, 1)


@litmus(rules=("MISUSE-02", "MISUSE-08", "MISUSE-09"), needs=("pool", "tree", "evict"), misuse=True)
def an_insert_in_too_few_slots(checker: Checker) -> None:
    """A key of two pages can't be cached in the slots of one: nothing is, and the cache goes on."""
    if checker.profile.misuse == "undefined":
        return
    store(checker, prompt(checker, "ab"))
    own = pool.alloc(checker, checker.size)
    if own:
        key = prompt(checker, "cd")
        misuse.forbidden(
            checker,
            "insert",
            f"insert({key_text(key)}, {list(own)})",
            "too few slots",
            lambda: checker.adapter.insert(key, list(own)),
        )
        misuse.go_on(checker, lambda: end_lawfully(checker, own))


@litmus(rules=("MISUSE-02", "MISUSE-09"), needs=("pool", "tree", "locks", "evict"), misuse=True)
def the_last_receipt_is_given_back_twice(checker: Checker) -> None:
    """A receipt that was the last one is given back twice: the second time is refused, and the cache goes on."""
    if checker.profile.misuse == "undefined":
        return
    store(checker, prompt(checker, "ab"))
    take(checker, "ab", 1)
    token = checker.tokens[1]
    tree.unlock(checker, 1)
    misuse.forbidden(
        checker, "unlock", "unlock(receipt 1)", "given back already", lambda: checker.adapter.unlock(token)
    )
    misuse.go_on(checker, lambda: end_lawfully(checker, None))


@litmus(rules=("MISUSE-02", "MISUSE-08", "MISUSE-13"), needs=("pool", "tree"), misuse=True)
def a_token_beyond_the_vocabulary(checker: Checker) -> None:
    """A key with a token below 0 or too large isn't found as another key, and can't be cached."""
    key = prompt(checker, "ab")
    store(checker, key)
    vocabulary = checker.profile.vocabulary
    for more in (-vocabulary, vocabulary, ALL_TOKENS, 1 << 64):
        raw.match_beyond(checker, key, key.tokens[0] + more)
    own = pool.alloc(checker, 2 * checker.size)
    if checker.profile.misuse == "undefined" or not own:
        return
    for token in (-1, -ALL_TOKENS, ALL_TOKENS, 1 << 64):
        odd = key._replace(tokens=(token, *key.tokens[1:]))
        text = f"insert({key_text(odd)}, {list(own)})"
        make = partial(checker.adapter.insert, odd, list(own))
        misuse.forbidden(checker, "insert", text, "a token that no key has", make)


@litmus(rules=("MISUSE-02", "MISUSE-08", "MISUSE-09"), needs=("pool", "tree", "evict", "raw"), misuse=True)
def arrays_that_are_no_sequence_of_integers(checker: Checker) -> None:
    """Floats, truth values, rows and single numbers are neither tokens nor slots; the cache goes on."""
    store(checker, prompt(checker, "ab"))
    key = prompt(checker, "cd")
    own = pool.alloc(checker, 2 * checker.size)
    if checker.profile.misuse == "undefined" or not own:
        return
    adapter, wrong = checker.adapter, "no sequence of integers"
    for form in FORMS[2:]:
        for name, values, make in (
            ("match", key.tokens, lambda odd: adapter.raw_match(odd, None)),
            ("insert", key.tokens, lambda odd: adapter.raw_insert(odd, raw.array(checker, own), None)),
            ("insert", own, lambda odd: adapter.raw_insert(raw.array(checker, key.tokens), odd, None)),
            ("free", own, adapter.raw_free),
        ):
            odd = raw.array(checker, values, form)
            if odd is not None:
                misuse.forbidden(checker, name, f"{name}({form} of {list(values)})", wrong, partial(make, odd))
    misuse.go_on(checker, lambda: end_lawfully(checker, own))


@litmus(rules=("MISUSE-11",), needs=("pool", "tree", "raw"), misuse=True)
def tokens_of_fewer_bits(checker: Checker) -> None:
    """What is cached is found with integers of another width, too, or they are refused."""
    store(checker, prompt(checker, "abc"))
    for ways in ("abc", "abx", "x"):
        raw.match_narrow(checker, prompt(checker, ways))


@litmus(rules=("MISUSE-12",), needs=("pool", "tree", "raw"), misuse=True)
def arrays_overwritten_after_an_insert(checker: Checker) -> None:
    """What was inserted is found, where it was, after its arrays were overwritten; what these say now is not."""
    key = prompt(checker, "abc")
    own = pool.alloc(checker, 3 * checker.size)
    if own:
        _, arrays = raw.insert(checker, key, own)
        raw.match(checker, key)
        raw.overwrite(checker, arrays)
        now = key._replace(tokens=(raw.WRITTEN,) * len(key.tokens))

        def found() -> None:
            for one in (key, now, prompt(checker, "abx")):
                raw.match(checker, one)
            store(checker, prompt(checker, "abxy"))
            raw.match(checker, key)

        misuse.go_on(checker, found, rule=misuse.OWN_AGAIN)


@litmus(rules=("MISUSE-12",), needs=("pool", "tree", "requests", "raw", "raw_requests"), misuse=True)
def a_prompt_overwritten_while_its_request_runs(checker: Checker) -> None:
    """What a request computes is cached under the prompt that it began with, whatever the array says then."""
    key = prompt(checker, "abc")
    if request.begin(checker, 2, prompt(checker, "xyz")):
        request.publish(checker, 2, chunked=False)
        request.end(checker, 2, keep=True)
    arrays = raw.begin(checker, 1, key)
    if arrays is not None:
        raw.overwrite(checker, arrays)

        def ends() -> None:
            request.publish(checker, 1, chunked=False)
            raw.match(checker, key)
            request.end(checker, 1, keep=True)
            tree.match(checker, key)

        misuse.go_on(checker, ends, rule=misuse.OWN_AGAIN)


@litmus(rules=("MISUSE-12",), needs=("pool", "tree", "raw"), misuse=True)
def slots_overwritten_after_a_match(checker: Checker) -> None:
    """What is cached is found where it is, whatever is written into the slots that a match handed out.

    The match ends with what was cached in one piece, or in two, or in the middle of a piece; or it finds nothing.
    """
    store(checker, prompt(checker, "ab"))
    store(checker, prompt(checker, "abcd"))
    for ways in ("x", "ab", "abcd", "abc", "a"):
        key = prompt(checker, ways)
        if raw.overwrite_answer(checker, raw.handed_out(checker, key)):
            misuse.go_on(checker, partial(found_again, checker, key), rule=misuse.OWN_AGAIN)


def found_again(checker: Checker, key: Key) -> None:
    """A key is found as it was, and so is the one that it is a part of."""
    raw.match(checker, key)
    tree.match(checker, prompt(checker, "abcd"))


@litmus(rules=("MISUSE-12",), needs=(*READS, "raw", "raw_prefetching"), misuse=True)
def an_array_overwritten_after_a_prefetch(checker: Checker) -> None:
    """What is fetched is what was asked for, whatever the array says by the time that storage is."""
    key = letters(checker, least_pages(checker) + 2)
    stored(checker, key)
    arrays = raw.prefetch(checker, 1, key)
    if arrays is not None:
        raw.overwrite(checker, arrays)
        misuse.go_on(checker, partial(lands, checker, 1, key), rule=misuse.OWN_AGAIN)


def lands(checker: Checker, rid: int, key: Key) -> None:
    """A prefetch goes on to its end; the key is found."""
    step(checker, "query")
    tiers.tick(checker)
    step(checker, "fetch")
    tiers.settle(checker)
    tree.match(checker, key)
    fetch.loaded(checker, rid)


@litmus(rules=("MISUSE-02", "MISUSE-08", "MISUSE-09"), needs=(*READS, "pool", "raw", "raw_prefetching"), misuse=True)
def a_prefetch_of_no_sequence_of_integers(checker: Checker) -> None:
    """Floats, truth values, rows and single numbers are no prompt that could be waited for; the cache goes on."""
    if checker.profile.misuse == "undefined":
        return
    storage(checker)
    key = letters(checker, least_pages(checker) + 1)
    for rid, form in enumerate(FORMS[2:], 1):
        odd = raw.array(checker, key.tokens, form)
        if odd is not None:
            text, make = f"prefetch({rid}, {form} of {key_text(key)})", partial(checker.adapter.raw_prefetch, rid, odd)
            misuse.forbidden(checker, "prefetch", text, "no sequence of integers", partial(make, None))

    def goes_on() -> None:
        stored(checker, key)
        raw.prefetch(checker, 9, key)
        tiers.settle(checker)

    misuse.go_on(checker, goes_on)


def end_lawfully(checker: Checker, own: Sequence[Slot] | None) -> None:
    """Use what is cached, give back what is owned, and evict everything."""
    tree.match(checker, prompt(checker, "ab"))
    if own:
        pool.free(checker, own)
    tree.evict(checker, checker.capacity)
