"""Prefetch plans at their boundaries: one case per way in which a length can be just enough.

``expected`` is what a plan reserves that allocates, evicts, tries again and only then looks at
what is available, which is the order of the rules.  The judge decides by the rules, not by this
number: a plan may legally make its calls in another order and then meets another fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvlitmus.conformance.checker.scripted_host import HostScript
from kvlitmus.spec.interface.plans import NO_MEMORY, RATE_LIMITED, STORAGE_OFF, TOO_SHORT, PrefetchAsk

THIRD = 2
"""The number of the third allocation: the truncated one."""


class PlanCase(NamedTuple):
    """A prefetch asked of a scripted host: how many slots it reserves, and why none where it refuses."""

    name: str
    ask: PrefetchAsk
    script: HostScript
    expected: int
    refusal: str | None = None


def _ask(
    key: int, page: int = 4, threshold: int = 8, *, storage_on: bool = True, occupied: int = 0, quota: int = 1 << 20
) -> PrefetchAsk:
    return PrefetchAsk(key, page, threshold, storage_on, occupied, quota)


def _table(key: int, available: int, expected: int) -> list[PlanCase]:
    """One line of the boundary table, three times: all free, all to be evicted, some of each."""
    refusal = None if expected else NO_MEMORY
    some = available // 2
    scripts = {
        "free": HostScript(available),
        "after eviction": HostScript(0, available),
        "in part after eviction": HostScript(some, available - some),
    }
    return [
        PlanCase(f"key {key}, {available} {how}", _ask(key), script, expected, refusal)
        for how, script in scripts.items()
    ]


BOUNDARIES: tuple[PlanCase, ...] = (
    *[PlanCase(f"key 7, {free} free", _ask(7), HostScript(free), 0, TOO_SHORT) for free in (0, 4, 8, 40)],
    *_table(8, 8, 8),
    *_table(8, 4, 0),
    *_table(16, 16, 16),
    *_table(12, 40, 12),
    *_table(16, 11, 8),
    *_table(16, 7, 0),
    *_table(16, 15, 12),
    *_table(16, 0, 0),
    *_table(16, 8, 8),
    *_table(19, 40, 16),
)
"""Pages of 4, threshold 8: what is reserved for a key when so much is available after eviction."""

FAULTS: tuple[PlanCase, ...] = (
    PlanCase("the truncated allocation fails", _ask(16), HostScript(8, refuse=(THIRD,)), 0, NO_MEMORY),
    PlanCase("the truncated allocation fails after eviction", _ask(16), HostScript(4, 8, (THIRD,)), 0, NO_MEMORY),
    PlanCase("the first allocation fails by chance", _ask(16), HostScript(40, 40, (0,)), 16),
    PlanCase("two allocations fail by chance", _ask(16), HostScript(40, 40, (0, 1)), 16),
    PlanCase("all allocations fail by chance", _ask(16), HostScript(40, 40, (0, 1, THIRD)), 0, NO_MEMORY),
    PlanCase("more than was wanted becomes available", _ask(16), HostScript(8, arriving=40), 16),
    PlanCase("more than was wanted, whole pages not", _ask(18), HostScript(0, arriving=43), 16),
    PlanCase("less than was wanted becomes available", _ask(16), HostScript(0, arriving=13), 12),
    PlanCase("just the threshold becomes available", _ask(16), HostScript(7, arriving=1), 8),
    PlanCase("evictions come in big pieces", _ask(16), HostScript(12, 64, evict_grain=32), 16),
    PlanCase("nothing can be evicted", _ask(16), HostScript(12), 12),
)
"""A host at its worst: allocations that fail although memory suffices, memory that comes late."""

THRESHOLDS: tuple[PlanCase, ...] = (
    PlanCase("a key one unit below the threshold", _ask(255, 1, 256), HostScript(999), 0, TOO_SHORT),
    PlanCase("a key of exactly the threshold", _ask(256, 1, 256), HostScript(999), 256),
    PlanCase("a key one page below the threshold", _ask(255, 64, 256), HostScript(999), 0, TOO_SHORT),
    PlanCase("whole pages of exactly the threshold", _ask(319, 64, 256), HostScript(999), 256),
    PlanCase("truncated to exactly the threshold", _ask(640, 64, 256), HostScript(319), 256),
    PlanCase("truncated to one page below the threshold", _ask(640, 64, 256), HostScript(255), 0, NO_MEMORY),
    PlanCase("a threshold between pages, page below", _ask(16, 4, 6), HostScript(7), 0, NO_MEMORY),
    PlanCase("a threshold between pages, page above", _ask(16, 4, 6), HostScript(8), 8),
    PlanCase("a threshold between pages, key below", _ask(7, 4, 6), HostScript(40), 0, TOO_SHORT),
    PlanCase("no threshold, one page", _ask(16, 4, 0), HostScript(5), 4),
    PlanCase("no threshold, no page", _ask(16, 4, 0), HostScript(3), 0, NO_MEMORY),
    PlanCase("no threshold, a key of no page", _ask(3, 4, 0), HostScript(40), 0, TOO_SHORT),
    PlanCase("no threshold, no key", _ask(0, 4, 0), HostScript(40), 0, TOO_SHORT),
)
"""Exactly the threshold is enough, before truncation and after it."""

GATES: tuple[PlanCase, ...] = (
    PlanCase("storage off", _ask(16, storage_on=False), HostScript(40), 0, STORAGE_OFF),
    PlanCase("one unit of the quota left", _ask(16, occupied=99, quota=100), HostScript(40), 16),
    PlanCase("the quota filled", _ask(16, occupied=100, quota=100), HostScript(40), 0, RATE_LIMITED),
    PlanCase("the quota overshot", _ask(16, occupied=115, quota=100), HostScript(40), 0, RATE_LIMITED),
    PlanCase("a quota below the key, nothing under way", _ask(16, quota=1), HostScript(40), 16),
    PlanCase("no quota", _ask(16, quota=0), HostScript(40), 0, RATE_LIMITED),
    PlanCase("a quota computed below nothing", _ask(16, quota=-8), HostScript(40), 0, RATE_LIMITED),
    PlanCase("the quota filled and no memory", _ask(16, occupied=8, quota=8), HostScript(0, 40), 0, RATE_LIMITED),
    PlanCase("storage off and no memory", _ask(16, storage_on=False), HostScript(0, 40), 0, STORAGE_OFF),
    PlanCase("too short and no memory", _ask(6), HostScript(0, 40), 0, TOO_SHORT),
)
"""A shut gate has no effect, and an open one lets the last unit through."""

BEFORE = ("page 0", "page 1", "page 2")
"""Names in storage of the pages before a key."""

PREFIXES: tuple[PlanCase, ...] = (
    PlanCase("a prefix before the whole key", _ask(16)._replace(prefix_keys=BEFORE), HostScript(16), 16),
    PlanCase("a prefix before a truncated key", _ask(16)._replace(prefix_keys=BEFORE), HostScript(8), 8),
    PlanCase(
        "a prefix of one page before a truncated key", _ask(32)._replace(prefix_keys=BEFORE[:1]), HostScript(12), 12
    ),
    PlanCase(
        "a prefix before a key without memory", _ask(16)._replace(prefix_keys=BEFORE), HostScript(4), 0, NO_MEMORY
    ),
)
"""What precedes the key, which is handed on to storage whatever becomes of the key's end."""

CASES: tuple[PlanCase, ...] = BOUNDARIES + FAULTS + THRESHOLDS + GATES + PREFIXES
"""The whole table."""


def draw(take: Callable[[int], int]) -> tuple[PrefetchAsk, HostScript]:
    """An ask and a script from a source of choices: ``take(n)`` gives a number from 0 to n-1.

    Lengths lie around a few pages and one threshold, since that is where plans differ; a quarter
    of the hosts have enough.
    """
    page = (1, 2, 4, 16)[take(4)]
    threshold = take(4 * page + 1)
    ask = PrefetchAsk(
        key_length=take(8 * page + 1),
        page_size=page,
        threshold=threshold,
        storage_on=take(16) > 0,
        occupied=take(4),
        capacity=take(16) + 1 if take(4) else 3,
    )
    refuse = tuple(number for number in range(3) if take(6) == 0)
    arriving = take(12 * page) if take(4) == 0 else 0
    script = HostScript(
        free=take(8 * page) if take(4) else 10 * page,
        evictable=take(8 * page) if take(3) else 0,
        refuse=refuse,
        arriving=arriving,
        arrives_after=take(3),
        evict_grain=(1, page, 4 * page)[take(3)],
    )
    return ask, script


ODD_NAMES = ("", " ", "page 0", "../page", "a/b", "page\n", "\0", "Seite\u00df", "\U0001f5c4", "0" * 300)
"""Names that a storage of files would stumble over: to a plan they are texts like any other."""


def names_before(take: Callable[[int], int]) -> tuple[str, ...]:
    """The names in storage of one to six pages before a key; a third of them odd, some twice."""
    return tuple(f"{take(1 << 32):064x}" if take(3) else ODD_NAMES[take(len(ODD_NAMES))] for _ in range(1 + take(6)))
