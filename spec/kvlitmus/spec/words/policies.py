"""Policies: what a cache decides by where the rules leave it to the configuration.

**Eviction.** A policy gives each page a **worth**; the page that is worth least is evicted first.  Worths are compared
leaf by leaf, never between a page and its own children: a child goes before its parent whatever they are worth
(EVICT-05).  Among pages of equal worth any may go.

**Writing.** When a page is backed up on the host: at its first use, at its second, or when it is evicted (BACKUP-01).

**Waiting.** How long a request waits for its prefetch: not at all, to the end, or to the end but no longer than a limit
that grows with the units to be read (FETCH-11).

**Rest.** After how many ticks a cache to which everything was delivered must have come to rest (LIFE-06 to LIFE-09).

All of this is decided here, once: the reference, the judge and the proofs call these functions.  The specimen and the
optimized cache write their own, as engines do, and are compared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kvlitmus.spec.words.prefetch_life import ENDED, REVOKED

# -- eviction ---------------------------------------------------------------------------------------------


class Used(Protocol):
    """What the policies look at: ticks of the last use and of the insertion, how often it was used, its priority."""

    @property
    def touched(self) -> int:
        """The tick of the last use."""

    @property
    def created(self) -> int:
        """The tick of the insertion."""

    @property
    def hits(self) -> int:
        """How often it was used, as the profile counts."""

    @property
    def priority(self) -> int:
        """How much it is to be kept."""


Worth = tuple[int, ...]
"""What a page is worth under one policy; the least is evicted first."""

SLRU_HITS = 2
"""How many hits put a page into the protected segment of SLRU, unless the profile says otherwise."""


def lru(page: Used) -> Worth:
    """Least recently used first."""
    return (page.touched,)


def mru(page: Used) -> Worth:
    """Most recently used first."""
    return (-page.touched,)


def lfu(page: Used) -> Worth:
    """Least often used first; among equals the least recently used."""
    return (page.hits, page.touched)


def fifo(page: Used) -> Worth:
    """Oldest first."""
    return (page.created,)


def filo(page: Used) -> Worth:
    """Youngest first."""
    return (-page.created,)


def priority(page: Used) -> Worth:
    """Lowest priority first; among equals the least recently used."""
    return (page.priority, page.touched)


def slru(page: Used, hits: int = SLRU_HITS) -> Worth:
    """Pages on probation before protected ones (so many ``hits`` or more); then the least recently used."""
    return (int(page.hits >= hits), page.touched)


POLICIES: dict[str, Callable[[Used], Worth]] = {
    "lru": lru,
    "lfu": lfu,
    "fifo": fifo,
    "mru": mru,
    "filo": filo,
    "priority": priority,
    "slru": slru,
}
"""All policies of eviction by name."""


Order = Callable[[Used], Worth]
"""An order of victims: what each page is worth."""


def worth(policy: str, slru_hits: int = SLRU_HITS, most_hits: int = 0) -> Order:
    """What a page is worth under a policy; ``slru_hits`` and ``most_hits`` as the profile says.

    Raises ``KeyError`` for a policy that there is none.
    """
    if policy == "lfu" and most_hits:
        return lambda page: (min(page.hits, most_hits), page.touched)
    if policy == "slru" and 0 < most_hits < slru_hits:
        return lru  # no count gets as far as the protected segment
    if policy == "slru" and slru_hits != SLRU_HITS:
        return lambda page: slru(page, slru_hits)
    return POLICIES[policy]


def later(worth: Worth, ticks: int) -> Worth:
    """What a page would be worth so many ticks further on: the last part of a worth is a time, under every policy.

    Where ``ticks + 1`` uses may share a tick of the cache's clock, a page is worth less for certain than another one if
    even this is less than what the other is worth.
    """
    return (*worth[:-1], worth[-1] + ticks) if ticks and worth else worth


# -- writing ----------------------------------------------------------------------------------------------

WRITE_THROUGH, SELECTIVE, WRITE_BACK = WRITES = ("write_through", "write_through_selective", "write_back")
"""When a page is backed up: at its first use, at its second, or when it is evicted."""

USES = {WRITE_THROUGH: 1, SELECTIVE: 2}
"""After how many uses by inserts a page is due for backup; under write-back none ever is."""

SKIP, CHAIN = PARENTS = ("skip", "chain")
"""What becomes of a page that is due below one that isn't backed: it waits, or takes its ancestors along."""


def hot(write: str, hits: int) -> bool:
    """Whether a page with so many hits was used often enough to be backed up."""
    needed = USES.get(write)
    return needed is not None and hits >= needed


def due(hot: Sequence[bool], parent: str) -> int:
    """How many of the pages (or nodes) of a path are to be backed up now.

    ``hot``: of those that aren't backed, parents first, which were used often enough.  Backed pages are closed towards
    the root, so these are the end of the path.  With ``skip`` all before the first that is not hot are due, with
    ``chain`` all down to the last that is.
    """
    if parent == CHAIN:
        return max([at + 1 for at, one in enumerate(hot) if one], default=0)
    return next((at for at, one in enumerate(hot) if not one), len(hot))


# -- waiting ----------------------------------------------------------------------------------------------

BEST_EFFORT, WAIT_COMPLETE, TIMEOUT = STOPS = ("best_effort", "wait_complete", "timeout")
"""How long a request waits for its prefetch: not at all, to the end, or to the end but not longer than a limit."""

KILO = 1024
"""Timeouts are given per so many units."""


def time_limit(timeout: tuple[float, float, float], units: float) -> float:
    """How many seconds a prefetch of so many units may take.

    ``timeout``: a base, so much more for each 1024 units, and a maximum (0: there is none).
    """
    base, per_kilo, most = timeout
    limit = base + per_kilo * units / KILO
    return min(most, limit) if most else limit


def counted_units(basis: str, requested: int, found: int | None) -> int:
    """The units that the time limit counts: those ``requested``, or those found in storage (``hit``).

    As long as storage hasn't told (``None``), none count as found.
    """
    return requested if basis == "requested" else found or 0


def time_begins(origin: str, submitted: float, polled: float | None) -> float | None:
    """When a prefetch's time begins, in seconds: when it is asked for (``submit``), or at the ``first_poll``.

    ``None``: not yet.
    """
    return submitted if origin == "submit" else polled


def may_stop(stop: str, stage: str, elapsed: float, limit: float) -> bool:
    """Whether a request need not wait any more for a prefetch in this stage, after so many seconds.

    ===============  ===========  =============  =======================
    stage            best effort  wait complete  timeout
    ===============  ===========  =============  =======================
    query, answered  stop         wait           stop if over the limit
    fetch            stop         wait           stop if over the limit
    ended            stop         stop           stop
    revoked          stop         wait           wait
    ===============  ===========  =============  =======================

    *Over* the limit is longer than the limit.  A revoked prefetch waits for the tick that takes note of it.
    """
    if stop == BEST_EFFORT or stage == ENDED:
        return True
    return stop == TIMEOUT and stage != REVOKED and elapsed > limit


# -- rest -------------------------------------------------------------------------------------------------

TICKS_TO_REST = 12
"""So many ticks, with everything delivered in between that is ready, bring a cache to rest."""

QUIET_TICKS = 2
"""So many without work under way do, too: ``tick`` takes note of what has landed, and releases what is over."""

TICKS_AFTER_POLLS = 2
"""So many more, after each request that waits was polled once more, bring to rest what these polls let go of."""

DELIVERIES = 400
"""A cache in which so many deliveries still lead to further work counts as one that never comes to rest."""
