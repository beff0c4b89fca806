"""What ranks tell each other: one vector of int64 per tick, reduced by MIN.

Its layout follows from the configuration alone.  So it is as long on every rank and at every tick, a collective of it
can't be one of unequal lengths, and what a rank has not is a zero in its place.

**What can be seen of a vector.**  A number and its negative come out of a MIN as each other's negatives where all ranks
brought the same, and in no other case.  So the number of the tick and a digest of the cache stand there twice: ranks
that have parted are told at the next settle, all of them, and don't wait in a collective that never ends.  The number
of the rank comes out as 0 and as that of the last rank, which says that it was a MIN, over all ranks.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import inputs

Vector = NDArray[np.int64]
"""One rank's numbers, or the least of all ranks."""

HEADER = ("tick", "-tick", "rank", "-rank", "digest", "-digest")
FACTS = ("backups over", "backups well", "loads over", "loads well", "device pages", "host pages", "attached")
OF_A_PREFETCH = ("pages", "over", "may end", "unbroken")
"""How many pages storage has, or were read; whether the job is over; whether this rank lets the prefetch end; and
whether its reading has not ended early.
"""


class RanksParted(RuntimeError):
    """Ranks are at different ticks, or have decided differently.  It is raised on all of them, and nothing was settled.

    Together they go on after a reset of each: which of them was right can't be known.
    """


class Facts(NamedTuple):
    """What is told besides prefetches and puts; see :data:`FACTS`.

    Copies are counted since the last reset, in the order of submission: those that are ``over``, and those of them
    before the first that has failed.  ``device``, ``host``: the pages that this rank can give its cache.
    """

    backups_over: int
    backups_well: int
    loads_over: int
    loads_well: int
    device: int
    host: int
    attached: int


class Agreed(NamedTuple):
    """What all ranks have: ``prefetches`` and ``puts`` in the order in which they were told."""

    facts: Facts
    prefetches: list[list[int]]
    puts: list[int]


class Layout:
    """Where what stands in a vector: room for so many ``prefetches`` and ``puts``.

    ``names``: what each number is about.
    """

    def __init__(self, prefetches: int, puts: int) -> None:
        self.prefetches = inputs.whole("prefetches", prefetches, 1)
        self.puts = inputs.whole("puts", puts, 1)
        self.facts = len(HEADER)
        self.reads = self.facts + len(FACTS)
        self.writes = self.reads + prefetches * len(OF_A_PREFETCH)
        self.names = (
            *HEADER,
            *FACTS,
            *[f"prefetch {at} {what}" for at in range(prefetches) for what in OF_A_PREFETCH],
            *[f"put {at} pages" for at in range(puts)],
        )

    def pack(
        self,
        tick: int,
        rank: int,
        state: Sequence[int],
        facts: Facts,
        prefetches: Sequence[tuple[int, int, int, int]],
        puts: Sequence[int],
    ) -> Vector:
        """One rank's vector.  ``state``: numbers that are equal on ranks that have decided alike."""
        vector: Vector = np.zeros(len(self.names), np.int64)
        digest = zlib.crc32(np.array([self.prefetches, self.puts, *state], np.int64).tobytes())
        vector[: self.facts] = tick, -tick, rank, -rank, digest, -digest
        vector[self.facts : self.reads] = facts
        if prefetches:
            vector[self.reads : self.reads + len(prefetches) * len(OF_A_PREFETCH)] = np.ravel(prefetches)
        vector[self.writes : self.writes + len(puts)] = puts
        return vector

    def read(self, vector: object, tick: int, ranks: int) -> Agreed:
        """What came out of the reduction of this tick.

        Raises ``ValueError`` for what is no such vector, and :class:`RanksParted` where the ranks are not alike.
        """
        given = np.asarray(vector)
        if given.dtype != np.int64 or given.shape != (len(self.names),):
            raise ValueError(
                f"a vector to settle has {len(self.names)} numbers of int64 (got {given.dtype}, shape {given.shape})"
            )
        numbers = given.tolist()
        first, last, least, most, digest, other = numbers[: self.facts]
        if (least, -most) != (0, ranks - 1):
            raise ValueError(
                f"this is no MIN over ranks 0 to {ranks - 1}: it has the numbers of ranks {least} to {-most}"
            )
        if first != -last:
            raise RanksParted(f"ranks have parted: they are at ticks {first} to {-last}")
        if first != tick:
            raise ValueError(f"this vector is that of tick {first}, and that of tick {tick} is to be settled")
        if digest != -other:
            raise RanksParted(f"ranks have parted before tick {tick}: they have not decided alike")
        width = len(OF_A_PREFETCH)
        return Agreed(
            Facts(*numbers[self.facts : self.reads]),
            [numbers[at : at + width] for at in range(self.reads, self.writes, width)],
            numbers[self.writes :],
        )
