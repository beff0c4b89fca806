"""Which legal cache uses each freedom of the ledger: what no cache does is nobody's own affair.

The spec knows no caches, so that is said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.ledger.read import FREEDOMS
from kvlitmus.spec.words.profile import Profile

USED_BY: Mapping[str, tuple[str, ...]] = {
    "which page": ("last-freed-first", "lowest-first", "any-order"),
    "which of equals": ("ties-the-other-way",),
    "room at begin": ("begins-without-evicting",),
    "flushes an idle cache": ("flush-waits-for-idle",),
    "room on the host": ("host-of-six-pages",),
    "waits for a load": ("retractions-wait-for-loads",),
    "shares what is cached": ("resumed-shares-what-is-cached",),
    "ahead": ("evicts-ahead",),
    "own filter": ("backups-pass-a-filter",),
    "worth a load": ("loads-long-prefixes-only",),
    "when noted": ("acks-a-tick-later", "acks-two-per-tick"),
    "full": ("null-store-refuses-when-full", "null-store-evicts"),
    "which sparse page": ("sparse-highest-first",),
    "which device slot": ("sparse-growth-last-slots-first",),
    "how many are admitted": ("sparse-admission-leaves-a-page", "sparse-admission-one-at-a-time"),
    "which place": ("component-lowest-place-first",),
    "own order of components": ("component-newest-goes-first", "component-host-oldest-last"),
    "own order": ("zoo.s3_fifo", "zoo.cost_host", "null-rank-orders-by-name"),
    "batches": ("zoo.batches",),
    "watermark": ("zoo.watermark",),
    "aborted": ("zoo.leftovers", "aborts-of-the-tiers-are-kept"),
    "expiry": ("zoo.perishable",),
    "reclaimed": ("zoo.lazy_pool",),
    "late unlock": ("zoo.step_ahead",),
    "spare pages": ("zoo.drafts",),
    "inside a page": ("zoo.partial_reuse",),
    "admission": ("zoo.doorkeeper", "requests-leave-two-pages"),
    "all or nothing": ("component-commit-all-or-nothing",),
    "all or nothing on ranks": ("null-rank-takes-all-or-nothing",),
}
"""Of each freedom the legal variations that use it, and caches of the zoo (``zoo.NAME``)."""


def profile_of(id: str) -> Profile | None:
    """What a legal variation declares; ``None`` where there is no such one."""
    one = all_mutants().get(id)
    return one.profile if one is not None and one.null else None


def faults(profiles: Callable[[str], Profile | None]) -> Iterator[str]:
    """Freedoms that nobody uses, or that are used by what isn't legal, or doesn't declare them.

    ``profiles``: what each cache declares, by its name; those of the zoo are known to whoever may import them.
    """
    yield from (f"{name}: nobody uses it" for name in FREEDOMS if not USED_BY.get(name))
    yield from (f"{name}: there is no such freedom" for name in USED_BY if name not in FREEDOMS)
    for name, ids in USED_BY.items():
        for id in ids:
            profile, field = profiles(id), FREEDOMS[name].field
            if profile is None:
                yield f"{name}: {id} is no legal cache"
            elif field and not declares(profile, field, FREEDOMS[name].value):
                yield f"{name}: {id} doesn't declare {field}"


def declares(profile: Profile, field: str, value: object) -> bool:
    """Whether a profile has this value there, or, where any will do, another one than the usual."""
    own = getattr(profile, field)
    return bool(own == value if value is not None else own != getattr(Profile(), field))
