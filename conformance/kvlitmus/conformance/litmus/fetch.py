"""Litmus tests on the life of a prefetch."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import fetch, request, tiers, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.scenes import (
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
)
from kvlitmus.conformance.ports.tiers import Outcome
from kvlitmus.spec.names import page_names
from kvlitmus.spec.units import Key

SUBMIT = ("FETCH-01", "FETCH-06", "FETCH-07")


@litmus(
    rules=(*SUBMIT, *(f"FETCH-{number:02}" for number in (5, 9, 11, 12, 13, 14, 16)), "LIFE-07", "LIFE-09"),
    needs=READS,
)
def what_was_stored_is_read_back(judge: Judge) -> None:
    """Two passes: a key is stored, every tier above is emptied, it is read from storage, loaded back and used."""
    key = prompt(judge, "abcd", tail=1)
    stored(judge, key)
    brought(judge, 1, key)
    tree.match(judge, key)
    tiers.load_back(judge, key)
    tiers.settle(judge)
    request.begin(judge, 2, key)
    request.end(judge, 2, keep=True)
    tiers.settle(judge)


@litmus(rules=("FETCH-08",), needs=READS)
def a_query_that_finds_too_little_revokes(judge: Judge) -> None:
    """Of what a prefetch asks for, storage has nothing, then less than it is worth, then just enough."""
    storage(judge)
    least = least_pages(judge)
    for rid, found in enumerate((0, least - 1, least, least + 1), 1):
        key = letters(judge, least + 2, "afkp"[rid - 1])
        if found:
            backed(judge, letters(judge, found, "afkp"[rid - 1]))
            emptied(judge)
        fetch.prefetch(judge, rid, key)
        step(judge, "query")
        tiers.tick(judge)
        step(judge, "fetch")
        waited(judge, rid)
    tiers.settle(judge)


@litmus(rules=("FETCH-10",), needs=READS)
def a_fetch_counts_page_by_page(judge: Judge) -> None:
    """A fetch gets one page, another, and then finds that storage has lost the rest."""
    key = letters(judge, least_pages(judge) + 3)
    stored(judge, key)
    queried(judge, 1, key)
    step(judge, "fetch", Outcome("part", 1))
    fetch.poll(judge, 1)
    step(judge, "fetch", Outcome("part", 1))
    step(judge, "fetch", Outcome("short", 0))
    tiers.tick(judge)
    waited(judge, 1)
    tiers.settle(judge)


def spoil(judge: Judge, key: Key, page: int, *, lost: bool) -> None:
    """Storage loses a page of a key, or cuts it short."""
    books = tiers.books_of(judge)
    prefix = page_names(judge.names_of(key), judge.size)[page]
    for name in books.fetches.names_of.get(prefix, set()) & books.store.contents.keys():
        (books.store.lose if lost else books.store.shorten)(name)
        tiers.spoiled(judge, name, lost=lost)


@litmus(rules=("FETCH-12", "TIER-02", "TIER-07"), needs=READS)
def a_page_that_was_cut_short_does_not_count(judge: Judge) -> None:
    """Storage has cut the second page of what a query found: what is behind it isn't read, and it isn't cached."""
    key = letters(judge, least_pages(judge) + 3)
    stored(judge, key)
    queried(judge, 1, key)
    spoil(judge, key, 1, lost=False)
    step(judge, "fetch")
    tiers.tick(judge)
    waited(judge, 1)
    tiers.settle(judge)


@litmus(rules=("FETCH-08", "TIER-02"), needs=READS)
def a_query_counts_up_to_the_first_gap(judge: Judge) -> None:
    """Storage has lost a page amid what it has of a key."""
    key = letters(judge, least_pages(judge) + 4)
    stored(judge, key)
    spoil(judge, key, least_pages(judge) + 1, lost=True)
    brought(judge, 1, key)
    tiers.settle(judge)


@litmus(rules=("FETCH-16",), needs=READS)
def what_was_added_is_told_once(judge: Judge) -> None:
    """A prefetch has added pages; it is asked how many, and asked again."""
    key = letters(judge, least_pages(judge) + 2)
    stored(judge, key)
    brought(judge, 1, key)
    fetch.loaded(judge, 1)
    tiers.settle(judge)


@litmus(rules=("FETCH-16",), needs=READS)
def a_request_that_is_queued_again_was_told_first(judge: Judge) -> None:
    """A request whose prefetch is over is queued again; what the first prefetch added doesn't count for the second."""
    key = letters(judge, least_pages(judge) + 2)
    stored(judge, key)
    read(judge, 1, key)
    polled(judge, 1)
    emptied(judge)
    fetch.prefetch(judge, 1, key)
    waited(judge, 1)
    tiers.settle(judge)


@litmus(rules=("FETCH-15", "FETCH-17", "LIFE-08", "LIFE-09"), needs=READS)
def an_aborted_request_leaves_nothing_at_any_stage(judge: Judge) -> None:
    """Requests are aborted before the query, after it, amid the fetch, after it, and once more."""
    key = letters(judge, least_pages(judge) + 2)
    stored(judge, key)
    for rid, stage in enumerate(("asked", "queried", "reading", "read"), 1):
        fetch.prefetch(judge, rid, key)
        if stage != "asked":
            step(judge, "query")
            tiers.tick(judge)
        if stage in ("reading", "read"):
            step(judge, "fetch", Outcome("part", 1) if stage == "reading" else Outcome())
        fetch.abandon(judge, rid)
        fetch.abandon(judge, rid)
        tiers.tick(judge)
        tiers.deliver(judge)
        fetch.poll(judge, rid)
        fetch.loaded(judge, rid)
    tiers.settle(judge)


@litmus(rules=("TIER-01", "TIER-07"), needs=READS)
def a_read_that_was_aborted_overwrites_nobody(judge: Judge) -> None:
    """A request goes away while storage is read; other prompts get what memory there is, and then the read ends."""
    key = letters(judge, least_pages(judge) + 2)
    stored(judge, key)
    queried(judge, 1, key)
    fetch.abandon(judge, 1)
    tiers.tick(judge)
    for at in range(judge.config.host_pages):
        computed(judge, prompt(judge, chr(ord("p") + at % 8) + "z" * (at // 8)), uses=USES, rid=900 + 10 * at)
    if judge.config.write == "write_back":
        tree.evict(judge, judge.capacity)
    while step(judge, "backup"):
        tiers.tick(judge)
    step(judge, "fetch")
    tiers.settle(judge)


@litmus(rules=("FETCH-01", "TIER-02", "LIFE-08", "LIFE-09"), needs=READS, stops=("best_effort",))
def a_late_message_does_not_hit_the_next_prefetch(judge: Judge) -> None:
    """A request goes on before its query was answered and comes back under the same id; then the old query misses."""
    key = letters(judge, least_pages(judge) + 2)
    stored(judge, key)
    other = letters(judge, least_pages(judge) + 2, "p")
    fetch.prefetch(judge, 1, other)
    fetch.poll(judge, 1)
    queried(judge, 1, key)
    step(judge, "query")
    tiers.tick(judge)
    step(judge, "fetch")
    waited(judge, 1)
    tiers.settle(judge)


@litmus(rules=("FETCH-01", "FETCH-02"), needs=(*READS, "reattach"))
def the_gates_of_a_prefetch(judge: Judge) -> None:
    """No storage; a key that is too short; one request twice; the rate limit."""
    key = letters(judge, least_pages(judge) + 1)
    if tiers.books_of(judge).attached:
        tiers.attach(judge, on=False)
    fetch.prefetch(judge, 1, key)
    storage(judge)
    fetch.prefetch(judge, 2, prompt(judge, "a" * (least_pages(judge) - 1), tail=judge.size - 1))
    fetch.prefetch(judge, 3, key)
    fetch.prefetch(judge, 3, key)
    for rid in range(4, 12):
        fetch.prefetch(judge, rid, letters(judge, least_pages(judge) + 1, chr(ord("a") + 2 * rid % 24)))
    tiers.settle(judge)


@litmus(rules=("FETCH-03", "FETCH-04"), needs=READS)
def a_prefetch_takes_what_memory_there_is(judge: Judge) -> None:
    """The host is filled page by page with what must stay there; the same prefetch is asked for each time."""
    storage(judge)
    fetch.prefetch(judge, 1, letters(judge, least_pages(judge) + 3, "p"))
    fetch.abandon(judge, 1)
    tiers.deliver(judge)
    if judge.config.write == "write_back":
        return  # there nothing has to stay on the host
    for rid in range(2, 2 + judge.config.host_pages):
        key = prompt(judge, chr(ord("a") + rid % 14) + "z" * (rid // 14))
        computed(judge, key, uses=3, rid=900 + 10 * rid)
        fetch.prefetch(judge, rid, letters(judge, least_pages(judge) + 3, "p"))
        fetch.abandon(judge, rid)
        tiers.deliver(judge)
    tiers.settle(judge)


@litmus(rules=("LIFE-06", "LIFE-07", "LIFE-08", "FETCH-11"), needs=READS)
def storage_that_raises_is_survived(judge: Judge) -> None:
    """A fetch meets an exception, a query another; the next prefetch is as good as ever."""
    key = letters(judge, least_pages(judge) + 2)
    stored(judge, key)
    queried(judge, 1, key)
    step(judge, "fetch", Outcome("fail", 1))
    tiers.tick(judge)
    waited(judge, 1)
    emptied(judge)
    fetch.prefetch(judge, 2, key)
    step(judge, "query", Outcome("fail", 0))
    tiers.tick(judge)
    waited(judge, 2)
    brought(judge, 3, key)
    tiers.settle(judge)


@litmus(rules=("FETCH-11",), needs=(*READS, "clock"), stops=("timeout",))
def a_request_waits_no_longer_than_its_limit(judge: Judge) -> None:
    """A fetch hangs; the request is polled just before, at and just after the limit."""
    key = letters(judge, least_pages(judge) + 2)
    stored(judge, key)
    fetch.prefetch(judge, 1, key)
    fetch.poll(judge, 1)
    step(judge, "query")
    tiers.tick(judge)
    base, per, most = judge.profile.timeout
    pages = least_pages(judge) + 2
    limit = base + per * pages * judge.size / 1024
    limit = min(limit, most) if most else limit
    for moment in (base / 2, base, limit, limit + 0.001, limit + 1):
        fetch.set_clock(judge, moment)
        if fetch.poll(judge, 1):
            break
    tiers.settle(judge)


@litmus(rules=("FETCH-01", "BACKUP-04"), needs=READS, writes=("write_through_selective",))
def a_prefetch_does_not_skip_what_only_the_device_has(judge: Judge) -> None:
    """Of a stored key the middle was computed anew and isn't backed up: a prefetch begins at its end or not at all."""
    key = letters(judge, least_pages(judge) + 4)
    stored(judge, key)
    backed(judge, letters(judge, 1))
    computed(judge, letters(judge, 3))
    brought(judge, 1, key)
    tiers.settle(judge)


@litmus(rules=("TIER-06", "FETCH-13"), needs=READS, writes=("write_through_selective",))
def a_commit_below_what_is_not_backed_up(judge: Judge) -> None:
    """While a prefetch is under way another request computes half of it, and isn't backed up; then that goes."""
    key = letters(judge, least_pages(judge) + 3)
    stored(judge, key)
    read(judge, 1, key)
    computed(judge, letters(judge, 2))
    waited(judge, 1)
    tree.evict(judge, judge.capacity)
    tiers.settle(judge)


@litmus(rules=("FETCH-12", "FETCH-14", "TIER-02"), needs=READS)
def a_commit_meets_what_was_computed_meanwhile(judge: Judge) -> None:
    """While a prefetch is under way another request computes and backs up half of what it reads."""
    key = letters(judge, least_pages(judge) + 3)
    stored(judge, key)
    read(judge, 1, key)
    backed(judge, letters(judge, 2))
    waited(judge, 1)
    tiers.settle(judge)
    emptied(judge)
