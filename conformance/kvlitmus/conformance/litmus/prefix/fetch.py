"""Litmus tests on the life of a prefetch."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import fetch, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.request import end
from kvlitmus.conformance.litmus.prefix.scenes import (
    READS,
    USES,
    backed,
    brought,
    computed,
    emptied,
    least_pages,
    letters,
    polled,
    queried,
    read,
    step,
    storage,
    stored,
    waited,
    written_back,
)
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.interface.tiers import Outcome
from kvlitmus.spec.prefix.prefetch_advance import time_of
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.policies import time_limit
from kvlitmus.spec.words.units import Key

SUBMIT = ("FETCH-06", "FETCH-07")


def worth_reading(checker: Checker, more: int) -> Key:
    """A key in storage and nowhere else, of so many pages more than a prefetch is worth."""
    key = letters(checker, least_pages(checker) + more)
    stored(checker, key)
    return key


@litmus(
    rules=(*SUBMIT, *(f"FETCH-{number:02}" for number in (5, 9, 11, 12, 13, 14, 16, 19)), "LIFE-07", "LIFE-09"),
    needs=READS,
)
def what_was_stored_is_read_back(checker: Checker) -> None:
    """Two passes: a key is stored, every tier above is emptied, it is read from storage, loaded back and used."""
    key = prompt(checker, "abcd", tail=1)
    stored(checker, key)
    brought(checker, 1, key)
    tree.match(checker, key)
    tiers.load_back(checker, key)
    tiers.settle(checker)
    request.begin(checker, 2, key)
    end(checker, 2, keep=True)
    tiers.settle(checker)


@litmus(rules=("FETCH-08",), needs=READS)
def a_query_that_finds_too_little_revokes(checker: Checker) -> None:
    """Of what a prefetch asks for, storage has nothing, then less than it is worth, then just enough."""
    storage(checker)
    least = least_pages(checker)
    for rid, found in enumerate((0, least - 1, least, least + 1), 1):
        key = letters(checker, least + 2, "afkp"[rid - 1])
        if found:
            backed(checker, letters(checker, found, "afkp"[rid - 1]))
            emptied(checker)
        fetch.prefetch(checker, rid, key)
        step(checker, "query")
        tiers.tick(checker)
        step(checker, "fetch")
        waited(checker, rid)
    tiers.settle(checker)


@litmus(rules=("FETCH-10", "FETCH-20"), needs=READS)
def a_fetch_counts_page_by_page(checker: Checker) -> None:
    """A fetch gets one page, another, and then finds that storage has lost the rest."""
    key = worth_reading(checker, 3)
    queried(checker, 1, key)
    step(checker, "fetch", Outcome("part", 1))
    fetch.poll(checker, 1)
    step(checker, "fetch", Outcome("part", 1))
    step(checker, "fetch", Outcome("short", 0))
    tiers.tick(checker)
    waited(checker, 1)
    tiers.settle(checker)


def spoil(checker: Checker, key: Key, page: int, *, lost: bool) -> None:
    """Storage loses a page of a key, or cuts it short."""
    store = tiers.store_of(checker)
    prefix = page_names(checker.names_of(key), checker.size)[page]
    for name in checker.below.stored.names_of.get(prefix, frozenset()) & store.contents.keys():
        (store.lose if lost else store.shorten)(name)
        tiers.spoiled(checker, name, lost=lost)


@litmus(rules=("FETCH-12", "POOL-12", "TIER-08"), needs=READS)
def a_page_that_was_cut_short_does_not_count(checker: Checker) -> None:
    """Storage has cut the second page of what a query found: what is behind it isn't read, and it isn't cached."""
    key = worth_reading(checker, 3)
    queried(checker, 1, key)
    spoil(checker, key, 1, lost=False)
    step(checker, "fetch")
    tiers.tick(checker)
    waited(checker, 1)
    tiers.settle(checker)


@litmus(rules=("FETCH-08", "POOL-12"), needs=READS)
def a_query_counts_up_to_the_first_gap(checker: Checker) -> None:
    """Storage has lost a page amid what it has of a key."""
    key = worth_reading(checker, 4)
    spoil(checker, key, least_pages(checker) + 1, lost=True)
    brought(checker, 1, key)
    tiers.settle(checker)


@litmus(rules=("FETCH-16",), needs=READS)
def what_was_added_is_told_once(checker: Checker) -> None:
    """A prefetch has added pages; it is asked how many, and asked again."""
    key = worth_reading(checker, 2)
    brought(checker, 1, key)
    fetch.loaded(checker, 1)
    tiers.settle(checker)


@litmus(rules=("FETCH-16",), needs=READS)
def a_request_that_is_queued_again_was_told_first(checker: Checker) -> None:
    """A request whose prefetch is over is queued again; what the first prefetch added doesn't count for the second."""
    key = worth_reading(checker, 2)
    read(checker, 1, key)
    polled(checker, 1)
    emptied(checker)
    fetch.prefetch(checker, 1, key)
    waited(checker, 1)
    tiers.settle(checker)


@litmus(rules=("FETCH-12", "FETCH-17", "LIFE-08", "LIFE-09"), needs=READS)
def an_aborted_request_leaves_nothing_at_any_stage(checker: Checker) -> None:
    """Requests are aborted before the query, after it, amid the fetch, after it, and once more."""
    key = worth_reading(checker, 2)
    for rid, stage in enumerate(("asked", "queried", "reading", "read"), 1):
        fetch.prefetch(checker, rid, key)
        if stage != "asked":
            step(checker, "query")
            tiers.tick(checker)
        if stage in ("reading", "read"):
            step(checker, "fetch", Outcome("part", 1) if stage == "reading" else Outcome())
        fetch.abandon(checker, rid)
        fetch.abandon(checker, rid)
        tiers.tick(checker)
        tiers.deliver(checker)
        fetch.poll(checker, rid)
        fetch.loaded(checker, rid)
    tiers.settle(checker)


@litmus(rules=("POOL-12", "TIER-08"), needs=READS)
def a_read_that_was_aborted_overwrites_nobody(checker: Checker) -> None:
    """A request goes away while storage is read; other prompts get what memory there is, and then the read ends."""
    key = worth_reading(checker, 2)
    queried(checker, 1, key)
    fetch.abandon(checker, 1)
    tiers.tick(checker)
    for at in range(checker.config.host_pages):
        computed(checker, prompt(checker, chr(ord("p") + at % 8) + "z" * (at // 8)), uses=USES, rid=900 + 10 * at)
    written_back(checker)
    while step(checker, "backup"):
        tiers.tick(checker)
    step(checker, "fetch")
    tiers.settle(checker)


@litmus(rules=("POOL-12", "LIFE-08", "LIFE-09"), needs=READS, stops=("best_effort",))
def a_late_message_does_not_hit_the_next_prefetch(checker: Checker) -> None:
    """A request goes on before its query was answered and comes back under the same id; then the old query misses."""
    key = worth_reading(checker, 2)
    other = letters(checker, least_pages(checker) + 2, "p")
    fetch.prefetch(checker, 1, other)
    fetch.poll(checker, 1)
    queried(checker, 1, key)
    step(checker, "query")
    tiers.tick(checker)
    step(checker, "fetch")
    waited(checker, 1)
    tiers.settle(checker)


@litmus(rules=("FETCH-01", "FETCH-02"), needs=(*READS, "reattach"))
def the_gates_of_a_prefetch(checker: Checker) -> None:
    """No storage; a key that is too short; one request twice; the rate limit."""
    key = letters(checker, least_pages(checker) + 1)
    if checker.below.attached:
        tiers.attach(checker, on=False)
    fetch.prefetch(checker, 1, key)
    storage(checker)
    fetch.prefetch(checker, 2, prompt(checker, "a" * (least_pages(checker) - 1), tail=checker.size - 1))
    fetch.prefetch(checker, 3, key)
    fetch.prefetch(checker, 3, key)
    for rid in range(4, 12):
        fetch.prefetch(checker, rid, letters(checker, least_pages(checker) + 1, chr(ord("a") + 2 * rid % 24)))
    tiers.settle(checker)


@litmus(rules=("FETCH-03", "FETCH-04"), needs=READS)
def a_prefetch_takes_what_memory_there_is(checker: Checker) -> None:
    """The host is filled page by page with what must stay there; the same prefetch is asked for each time."""
    storage(checker)
    fetch.prefetch(checker, 1, letters(checker, least_pages(checker) + 3, "p"))
    fetch.abandon(checker, 1)
    tiers.deliver(checker)
    if checker.config.write == "write_back":
        return  # there nothing has to stay on the host
    for rid in range(2, 2 + checker.config.host_pages):
        key = prompt(checker, chr(ord("a") + rid % 14) + "z" * (rid // 14))
        computed(checker, key, uses=3, rid=900 + 10 * rid)
        fetch.prefetch(checker, rid, letters(checker, least_pages(checker) + 3, "p"))
        fetch.abandon(checker, rid)
        tiers.deliver(checker)
    tiers.settle(checker)


@litmus(rules=("LIFE-06", "LIFE-07", "LIFE-08", "FETCH-11"), needs=READS)
def storage_that_raises_is_survived(checker: Checker) -> None:
    """A fetch meets an exception, a query another; the next prefetch is as good as ever."""
    key = worth_reading(checker, 2)
    queried(checker, 1, key)
    step(checker, "fetch", Outcome("fail", 1))
    tiers.tick(checker)
    waited(checker, 1)
    emptied(checker)
    fetch.prefetch(checker, 2, key)
    step(checker, "query", Outcome("fail", 0))
    tiers.tick(checker)
    waited(checker, 2)
    brought(checker, 3, key)
    tiers.settle(checker)


@litmus(rules=("FETCH-11",), needs=(*READS, "clock"), stops=("timeout",))
def a_request_waits_no_longer_than_its_limit(checker: Checker) -> None:
    """A fetch hangs; the request is polled just before, at and just after the limit."""
    key = worth_reading(checker, 2)
    fetch.prefetch(checker, 1, key)
    fetch.poll(checker, 1)
    step(checker, "query")
    tiers.tick(checker)
    base, per, most = checker.profile.timeout
    pages = least_pages(checker) + 2
    limit = base + per * pages * checker.size / 1024
    limit = min(limit, most) if most else limit
    for moment in (base / 2, base, limit, limit + 0.001, limit + 1):
        fetch.set_clock(checker, moment)
        if fetch.poll(checker, 1):
            break
    tiers.settle(checker)


@litmus(rules=("FETCH-11",), needs=(*READS, "clock"), stops=("timeout",))
def each_unit_adds_to_what_a_request_waits(checker: Checker) -> None:
    """A fetch hangs; the request is polled when the time for no unit is over, but not yet that for all of them."""
    fetch.prefetch(checker, 1, worth_reading(checker, 2))
    fetch.poll(checker, 1)
    step(checker, "query")
    tiers.tick(checker)
    one = checker.below.prefetches.of(1)
    if one is not None:
        begun, limit = time_of(one, checker.setting, checker.below.clock)
        base = time_limit(checker.profile.timeout, 0)
        for moment in ((base + limit) / 2, limit + 0.001):
            fetch.set_clock(checker, begun + moment)
            if fetch.poll(checker, 1):
                break
    tiers.settle(checker)


@litmus(rules=("BACKUP-04",), needs=READS, writes=("write_through_selective",))
def a_prefetch_does_not_skip_what_only_the_device_has(checker: Checker) -> None:
    """Of a stored key the middle was computed anew and isn't backed up: a prefetch begins at its end or not at all."""
    key = worth_reading(checker, 4)
    backed(checker, letters(checker, 1))
    computed(checker, letters(checker, 3))
    brought(checker, 1, key)
    tiers.settle(checker)


@litmus(rules=("TREE-05", "FETCH-13"), needs=READS, writes=("write_through_selective",))
def a_commit_below_what_is_not_backed_up(checker: Checker) -> None:
    """While a prefetch is under way another request computes half of it, and isn't backed up; then that goes."""
    key = worth_reading(checker, 3)
    read(checker, 1, key)
    computed(checker, letters(checker, 2))
    waited(checker, 1)
    tree.evict(checker, checker.capacity)
    tiers.settle(checker)


@litmus(rules=("FETCH-12", "FETCH-14", "POOL-12"), needs=READS)
def a_commit_meets_what_was_computed_meanwhile(checker: Checker) -> None:
    """While a prefetch is under way another request computes and backs up half of what it reads."""
    key = worth_reading(checker, 3)
    read(checker, 1, key)
    backed(checker, letters(checker, 2))
    waited(checker, 1)
    tiers.settle(checker)
    emptied(checker)
