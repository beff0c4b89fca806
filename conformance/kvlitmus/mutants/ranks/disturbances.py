"""Ways to change ranks that nobody asked for: one of those that were asked, all of them, or one of another tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kvlitmus.conformance.specimen.ranks import RankCache, Read
from kvlitmus.mutants.disturb_kinds import Excuse, Gone, Way
from kvlitmus.mutants.prefix.disturbances import FOREIGN
from kvlitmus.spec.ranks.calls import RankAsk, RankLocal

OnRank = Callable[[RankCache], bool]
"""Change one rank; whether that could be done."""

FREE: Mapping[str, str] = {
    "device": "device_free",
    "host": "host_free",
    "windows": "window_free",
    "states": "state_free",
}
"""What each kind of memory of a rank counts as free."""

SIZES: Mapping[str, str] = {
    "device": "pages",
    "host": "host_pages",
    "windows": "window_pages",
    "states": "state_slots",
}
"""How much there is of it."""


def add(rank: RankCache, name: str, many: int) -> None:
    """So many are free more."""
    setattr(rank, FREE[name], getattr(rank, FREE[name]) + many)


def appears(name: str) -> OnRank:
    """Something that nobody brought is there, in memory that was free."""

    def change(rank: RankCache) -> bool:
        if getattr(rank, FREE[name]) < 1:
            return False
        getattr(rank, name)[(FOREIGN,)] = None
        add(rank, name, -1)
        return True

    return change


def vanishes(name: str, *, last: bool, returned: bool = True) -> OnRank:
    """Something goes, and its memory is free, or lost."""

    def change(rank: RankCache) -> bool:
        there = getattr(rank, name)
        if not there:
            return False
        del there[list(there)[-1 if last else 0]]
        add(rank, name, int(returned))
        return True

    return change


def counts(name: str, many: int) -> OnRank:
    """More or less is counted as free, and nothing came or went."""

    def change(rank: RankCache) -> bool:
        if not getattr(rank.world, SIZES[name]) or getattr(rank, FREE[name]) + many < 0:
            return False
        add(rank, name, many)
        return True

    return change


def loses(name: str) -> OnRank:
    """The last of a queue is under way no more."""

    def change(rank: RankCache) -> bool:
        queue = getattr(rank, name)
        if not queue:
            return False
        del queue[list(queue)[-1] if isinstance(queue, dict) else -1]
        return True

    return change


def gains(name: str) -> OnRank:
    """Something that nobody began is under way."""

    def change(rank: RankCache) -> bool:
        there = [page for page in rank.device if page not in getattr(rank, name)]
        getattr(rank, name).extend(there[:1])
        return bool(there)

    return change


def going_on(rank: RankCache) -> list[Read]:
    """The prefetches all of which may still be cached: storage has not answered here, or all have agreed on what it
    has; what a prefetch holds besides may be given back.
    """
    return [
        one
        for rid, one in rank.reads.items()
        if rank.attached and rid not in rank.failed and (one.hit >= 0 or rid not in rank.found)
    ]


def shortens(rank: RankCache) -> bool:
    """A prefetch has a page less, which is free, and is cached nowhere."""
    for one in going_on(rank):
        if len(one.pages) > 1 and one.pages[-1] not in {*rank.device, *rank.host, *rank.writes}:
            one.pages = one.pages[:-1]
            add(rank, "host", 1)
            return True
    return False


def reads_less_window(rank: RankCache) -> bool:
    """A prefetch has a page of the window less, which is free; its boundary has none yet."""
    for one in going_on(rank):
        if one.window and one.pages[-1] not in rank.windows:
            one.window -= 1
            add(rank, "windows", 1)
            return True
    return False


def reads_less_states(rank: RankCache) -> bool:
    """A prefetch has a state less, whose memory is free; its boundary has none yet."""
    for one in going_on(rank):
        if one.states and one.pages[-1] not in rank.states:
            one.states = one.states[:-1]
            add(rank, "states", 1)
            return True
    return False


def turned(name: str) -> OnRank:
    """The order of use is turned round."""

    def change(rank: RankCache) -> bool:
        there = getattr(rank, name)
        setattr(rank, name, dict.fromkeys(reversed(there)))
        return len(there) > 1

    return change


MEMORY = {
    "device": "a page of the device",
    "host": "a page of the host",
    "windows": "a page of a window",
    "states": "a state",
}

SHOWING: tuple[tuple[str, OnRank], ...] = (
    *((f"{what} appears", appears(name)) for name, what in MEMORY.items()),
    *((f"{what} goes, the least recently used", vanishes(name, last=False)) for name, what in MEMORY.items()),
    *((f"{what} goes, the last used", vanishes(name, last=True)) for name, what in MEMORY.items()),
    *(
        (f"{what} goes, and its memory is lost", vanishes(name, last=False, returned=False))
        for name, what in MEMORY.items()
    ),
    *((f"{what} more is counted as free", counts(name, 1)) for name, what in MEMORY.items()),
    *((f"{what} less is counted as free", counts(name, -1)) for name, what in MEMORY.items()),
    ("a backup is under way no more", loses("writes")),
    ("a load is under way no more", loses("loads")),
    ("a prefetch is under way no more", loses("reads")),
    ("a backup is under way that nobody began", gains("writes")),
    ("a load is under way that nobody began", gains("loads")),
    ("a prefetch has a page less", shortens),
    ("a prefetch has a page of the window less", reads_less_window),
    ("a prefetch has a state less", reads_less_states),
)
"""What shows at once."""

LASTING: tuple[tuple[str, OnRank], ...] = tuple(
    (f"the order of use is turned round: {name}", turned(name)) for name in ("device", "host", "windows", "states")
)
"""What shows in what comes later."""


def one_rank(cache: Any, call: Any, gone: Gone) -> list[int]:
    """The last rank of those that the call is about."""
    return asked(cache, call, gone)[-1:]


def asked(cache: Any, call: Any, gone: Gone) -> list[int]:
    """All ranks of the tree that the call is about, without those that are gone: nobody can look at these."""
    return [rank for rank in tree_of(cache, call) if rank not in gone]


def tree_of(cache: Any, call: Any) -> list[int]:
    """The ranks of the tree that the call is about; of a start all."""
    if isinstance(call, RankAsk):
        return [rank for rank in call.ranks if rank in cache.ranks]
    if isinstance(call, RankLocal):
        world = next(iter(cache.ranks.values())).world
        return list(next(world.tree(at) for at in range(len(world.trees)) if call.event.rank in world.tree(at)))
    return list(cache.ranks)


def another(cache: Any, call: Any, gone: Gone) -> list[int]:
    """The last rank of a tree that the call is not about."""
    away = {*tree_of(cache, call), *gone}
    return [rank for rank in cache.ranks if rank not in away][-1:]


def among(where: str, how: str, change: OnRank, *, lasting: bool) -> Way:
    """A way, on these ranks; all of them, or none."""
    of = {"on one rank": one_rank, "on all ranks": asked, "on another tree": another}[where]

    def do(cache: Any, call: Any, gone: Gone) -> bool:
        chosen = of(cache, call, gone)
        return bool(chosen) and {change(cache.ranks[rank]) for rank in chosen} == {True}

    return Way(f"{where}: {how}", do, lasting)


WAYS: tuple[Way, ...] = tuple(
    among(where, how, change, lasting=lasting)
    for where in ("on one rank", "on all ranks", "on another tree")
    for lasting, ways in ((False, SHOWING), (True, LASTING))
    for how, change in ways
)
"""All ways, on each choice of ranks."""

ALIKE = "on all ranks"


def alike(*how: str) -> tuple[str, ...]:
    """Ways, on all ranks of the tree that is asked."""
    return tuple(f"{ALIKE}: {one}" for one in how)


EXCUSES: tuple[Excuse, ...] = (
    Excuse(
        alike(*(how for how, _ in LASTING)),
        "what goes first is a rank's own choice, as long as all of a tree choose alike (RANKS-02, RANKS-03)",
    ),
)
"""What no rule notices: it is legal."""

GROUPS: Mapping[str, str] = {
    "device": "on one rank: a page of the device",
    "host": "on one rank: a page of the host",
    "window": "on one rank: a page of a window",
    "states": "on one rank: a state",
    "writing": "on one rank: a backup",
    "loading": "on one rank: a load",
    "reading": "on one rank: a prefetch",
    "device_free": "on one rank: a page of the device more is counted",
    "host_free": "on one rank: a page of the host more is counted",
    "window_free": "on one rank: a page of a window more is counted",
}
"""By which ways each part of a rank (:class:`~kvlitmus.spec.interface.ranks.RankView`) is disturbed."""

NOT_DISTURBED: Mapping[str, str] = MappingProxyType({})
"""The other parts, each with the reason."""
