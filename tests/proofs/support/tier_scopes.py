"""The small hierarchies whose states are all enumerated: those of every run, and the larger ones of the night."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.spec.words.policies import SELECTIVE, TIMEOUT, WAIT_COMPLETE, WRITE_BACK
from kvlitmus.spec.words.profile import Profile
from tests.proofs.support.tier_bench import ASKED, Scope

LATE = Profile(reserve="hit")
ONE_PATH = Scope(pages=2, host_pages=2, keys=((1,), (1, 2)))
ONE = replace(ONE_PATH, prefetches=1)

QUICK: dict[str, Scope] = {
    "storage comes and goes": replace(ONE, lives=True, backups=0),
    "pages of two, filled": replace(
        ONE,
        page_size=2,
        keys=((1, 1), (1, 1, 2, 2, 3)),
        quotas=(2,),
        layers=True,
        asked=replace(ASKED, threshold=2, stop=WAIT_COMPLETE),
        profile=Profile(fill_matched=True),
    ),
    "write-back": replace(ONE, asked=replace(ASKED, write=WRITE_BACK)),
    "copies fail": replace(ONE_PATH, prefetches=0, backups=2, holds=True, failures=True),
    "copies fail, write-back": replace(
        ONE_PATH, prefetches=0, puts=1, failures=True, asked=replace(ASKED, write=WRITE_BACK)
    ),
}
"""A few seconds together; they reach every rule that the enumeration can reach."""

EVERY_RUN: dict[str, Scope] = {
    **QUICK,
    "memory at the hit, timeouts": replace(ONE, pages=1, asked=replace(ASKED, stop=TIMEOUT), profile=LATE),
    "selective, faults": replace(ONE, pages=1, faults=True, asked=replace(ASKED, write=SELECTIVE)),
}
"""What CI enumerates, to the fixpoint each."""

NIGHTLY: dict[str, Scope] = {
    "two prefetches": replace(ONE_PATH, pages=1),
    "two prefetches, two pages": ONE_PATH,
    "two prefetches that wait": replace(ONE_PATH, asked=replace(ASKED, stop=WAIT_COMPLETE)),
    "two prefetches, memory at the hit": replace(ONE_PATH, asked=replace(ASKED, stop=TIMEOUT), profile=LATE),
    "two prefetches, at the rate limit": replace(ONE_PATH, asked=replace(ASKED, rate_limit=1)),
    "two prefetches, storage comes and goes": replace(ONE_PATH, lives=True),
    "two paths": replace(ONE_PATH, keys=((1,), (2,))),
    "branches": replace(ONE, keys=((1,), (1, 2), (1, 3)), host_pages=3),
    "branches, write-back": replace(
        ONE, keys=((1,), (1, 2), (1, 3)), host_pages=3, asked=replace(ASKED, write=WRITE_BACK)
    ),
    "puts": replace(ONE, puts=1),
    "puts, write-back": replace(ONE, puts=2, asked=replace(ASKED, write=WRITE_BACK)),
    "a request holds": replace(ONE, holds=True),
    "three pages": replace(ONE, pages=3, host_pages=3, keys=((1,), (1, 2), (1, 2, 3))),
    "faults": replace(ONE_PATH, faults=True),
    "copies fail beside puts": replace(ONE_PATH, prefetches=0, puts=1, backups=2, holds=True, failures=True),
    "copies fail below a prefetch": replace(ONE, failures=True),
    "copies fail on branches": replace(
        ONE, prefetches=0, keys=((1,), (1, 2), (1, 3)), pages=3, host_pages=3, backups=2, loads=2, failures=True
    ),
    "everything, to a depth": replace(
        ONE_PATH,
        pages=3,
        host_pages=4,
        keys=((1,), (1, 2), (3,)),
        backups=2,
        puts=1,
        holds=True,
        lives=True,
        faults=True,
        depth=6,
    ),
}
"""What a night has time for; to the fixpoint where no depth is stated."""
