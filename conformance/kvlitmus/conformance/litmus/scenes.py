"""Scenes for litmus tests of hierarchies: something computed, backed up, stored, and gone again from above."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import fetch, request, tiers, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.ports.tiers import DONE, Outcome
from kvlitmus.spec.units import Key

TIERS = ("tiers", "host", "steps", "requests", "evict", "tree")
FAILING = (*TIERS, "copy_faults")
STORAGE = (*TIERS, "lifecycle")
READS = (*STORAGE, "prefetching")

USES = 3
"""Used so often, a page is due for backup under every policy that backs up at insertion."""


def storage(judge: Judge) -> None:
    """Attach storage, if it isn't."""
    if not tiers.books_of(judge).attached:
        tiers.attach(judge, on=True)


def computed(judge: Judge, key: Key, *, uses: int = 1, rid: int = 900) -> None:
    """A request computes a key and ends, so often."""
    for use in range(uses):
        if request.begin(judge, rid + use, key):
            request.end(judge, rid + use, keep=True)


def job_of(judge: Judge, kind: str) -> int | None:
    """The first job of a kind that can be advanced."""
    for number, job in tiers.seen(judge).jobs.items():
        if job.kind == kind and job.ready and not job.landed:
            return number
    return None


def step(judge: Judge, kind: str, outcome: Outcome = DONE) -> bool:
    """Advance the first job of a kind; whether there was one."""
    number = job_of(judge, kind)
    if number is not None:
        tiers.advance(judge, number, outcome)
    return number is not None


def backed(judge: Judge, key: Key) -> None:
    """A key is on the host, and in storage if there is one: computed often enough, under write-back evicted."""
    computed(judge, key, uses=USES)
    if judge.config.write == "write_back":
        tree.evict(judge, judge.capacity)
    tiers.deliver(judge)


def emptied(judge: Judge) -> None:
    """What nobody uses is gone from the device and from the host."""
    tree.evict(judge, judge.capacity)
    tiers.evict_host(judge, judge.config.host_pages * judge.size)


def stored(judge: Judge, key: Key) -> None:
    """A key is in storage and nowhere else."""
    storage(judge)
    backed(judge, key)
    emptied(judge)


def polled(judge: Judge, rid: int) -> None:
    """Poll until a request need not wait; at most a few times, with ticks between."""
    for _ in range(3):
        if fetch.poll(judge, rid):
            break
        tiers.tick(judge)


def waited(judge: Judge, rid: int) -> None:
    """The same, and the request is told what was added."""
    polled(judge, rid)
    fetch.loaded(judge, rid)


def letters(judge: Judge, pages: int, first: str = "a") -> Key:
    """A key of so many pages."""
    return prompt(judge, "".join(chr(ord(first) + at) for at in range(pages)))


def least_pages(judge: Judge) -> int:
    """The fewest pages that a prefetch is worth."""
    return max(1, -(-judge.config.threshold // judge.size))


def queried(judge: Judge, rid: int, key: Key) -> None:
    """A prefetch is asked for, and storage has told what it has."""
    fetch.prefetch(judge, rid, key)
    step(judge, "query")
    tiers.tick(judge)


def read(judge: Judge, rid: int, key: Key) -> None:
    """A prefetch has read all that storage has, and nobody has polled yet."""
    queried(judge, rid, key)
    step(judge, "fetch")
    tiers.tick(judge)


def brought(judge: Judge, rid: int, key: Key) -> bool:
    """A prefetch runs from its beginning to its commit; whether it began."""
    if not fetch.prefetch(judge, rid, key):
        return False
    if step(judge, "query"):
        tiers.tick(judge)
        step(judge, "fetch")
    tiers.tick(judge)
    waited(judge, rid)
    return True
