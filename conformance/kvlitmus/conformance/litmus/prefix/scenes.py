"""Scenes for litmus tests of hierarchies: something computed, backed up, stored, and gone again from above."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import fetch, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.spec.interface.tiers import DONE, Outcome
from kvlitmus.spec.words.units import Key

TIERS = ("tiers", "host", "steps", "requests", "evict", "tree")
FAILING = (*TIERS, "copy_faults")
STORAGE = (*TIERS, "lifecycle")
READS = (*STORAGE, "prefetching")

USES = 3
"""Used so often, a page is due for backup under every policy that backs up at insertion."""


def storage(checker: Checker) -> None:
    """Attach storage, if it isn't."""
    if not checker.below.attached:
        tiers.attach(checker, on=True)


def computed(checker: Checker, key: Key, *, uses: int = 1, rid: int = 900) -> None:
    """A request computes a key and ends, so often."""
    for use in range(uses):
        if request.begin(checker, rid + use, key):
            request.end(checker, rid + use, keep=True)


def job_of(checker: Checker, kind: str) -> int | None:
    """The first job of a kind that can be advanced."""
    for number, job in tiers.seen(checker).jobs.items():
        if job.kind == kind and job.ready and not job.landed:
            return number
    return None


def step(checker: Checker, kind: str, outcome: Outcome = DONE) -> bool:
    """Advance the first job of a kind; whether there was one."""
    number = job_of(checker, kind)
    if number is not None:
        tiers.advance(checker, number, outcome)
    return number is not None


def backed(checker: Checker, key: Key) -> None:
    """A key is on the host, and in storage if there is one: computed often enough, under write-back evicted."""
    computed(checker, key, uses=USES)
    written_back(checker)
    tiers.deliver(checker)


def written_back(checker: Checker) -> None:
    """Where pages are written back when they leave the device, they leave it."""
    if checker.config.write == "write_back":
        tree.evict(checker, checker.capacity)


def emptied(checker: Checker) -> None:
    """What nobody uses is gone from the device and from the host."""
    tree.evict(checker, checker.capacity)
    tiers.evict_host(checker, checker.config.host_pages * checker.size)


def stored(checker: Checker, key: Key) -> None:
    """A key is in storage and nowhere else."""
    storage(checker)
    backed(checker, key)
    emptied(checker)


def polled(checker: Checker, rid: int) -> None:
    """Poll until a request need not wait; at most a few times, with ticks between."""
    for _ in range(3):
        if fetch.poll(checker, rid):
            break
        tiers.tick(checker)


def waited(checker: Checker, rid: int) -> None:
    """The same, and the request is told what was added."""
    polled(checker, rid)
    fetch.loaded(checker, rid)


def letters(checker: Checker, pages: int, first: str = "a") -> Key:
    """A key of so many pages."""
    return prompt(checker, "".join(chr(ord(first) + at) for at in range(pages)))


def least_pages(checker: Checker) -> int:
    """The fewest pages that a prefetch is worth; or, where no tier has room for these, more than one has room for."""
    return max(1, min(-(-checker.config.threshold // checker.size), too_many(checker)))


def too_many(checker: Checker) -> int:
    """More pages than there is room for on either tier."""
    return max(checker.config.pages, checker.config.host_pages) + 1


def queried(checker: Checker, rid: int, key: Key) -> None:
    """A prefetch is asked for, and storage has told what it has."""
    fetch.prefetch(checker, rid, key)
    step(checker, "query")
    tiers.tick(checker)


def read(checker: Checker, rid: int, key: Key) -> None:
    """A prefetch has read all that storage has, and nobody has polled yet."""
    queried(checker, rid, key)
    step(checker, "fetch")
    tiers.tick(checker)


def brought(checker: Checker, rid: int, key: Key) -> bool:
    """A prefetch runs from its beginning to its commit; whether it began."""
    if not fetch.prefetch(checker, rid, key):
        return False
    if step(checker, "query"):
        tiers.tick(checker)
        step(checker, "fetch")
    tiers.tick(checker)
    waited(checker, rid)
    return True
