"""Every call on a prefetch that a lawful caller may make in a state of a small cache of components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

from kvlitmus.reference.prefix.components.tree import match
from kvlitmus.spec.prefix.calls import Match, Path
from kvlitmus.spec.prefix.components.calls import JointCall
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Fetch
from kvlitmus.spec.prefix.work_calls import Abandon, Commit, Fetched, Found, Prefetch
from kvlitmus.spec.words.setting import Setting


def subsets(some: Sequence[int]) -> list[frozenset[int]]:
    """All sets of these numbers."""
    return [frozenset(chosen) for many in range(len(some) + 1) for chosen in combinations(some, many)]


def choices(of: Mapping[str, Sequence[int]]) -> Iterator[dict[str, frozenset[int]]]:
    """Of each component all sets of its ends, in all combinations; an empty one isn't named."""
    for chosen in product(*[subsets(some) for some in of.values()]):
        yield {name: some for name, some in zip(of, chosen, strict=True) if some}


def fetch_calls(cache: State, setting: Setting, paths: Sequence[Path], most: int) -> Iterator[JointCall]:
    """To begin one, if there are fewer than ``most``; of each one all that storage may have, and all that may come."""
    if len(cache.fetches) < most:
        for path in paths:
            hit = match(cache, setting, Match(path))[1]
            for threshold in (0, 2):
                yield Prefetch(len(cache.fetches), path, hit.length, threshold)
    for number, fetch in cache.fetches.items():
        if fetch.running:
            yield Fetched(number)
        if fetch.over:
            continue
        yield Abandon(number)
        if fetch.reads:
            for came in choices({name: tuple(some) for name, some in fetch.reads.items()}):
                yield Commit(number, came)
        else:
            ends = range(fetch.start + 1, fetch.start + fetch.length + 1)
            units = {one.name: tuple(end for end in ends if end % one.unit == 0) for one in setting.layout.components}
            for stored in choices(units):
                yield Found(number, stored)


def fetch_identity(fetch: Fetch) -> tuple[object, ...]:
    """What two prefetches have in common that act alike; which places they have is of no matter."""
    reads = tuple((name, tuple(some)) for name, some in fetch.reads.items())
    reserved = tuple(sorted(pool for pool, _ in fetch.reserved))
    return (fetch.path.names, fetch.start, fetch.threshold, fetch.boundary, reads, reserved, fetch.running, fetch.over)
