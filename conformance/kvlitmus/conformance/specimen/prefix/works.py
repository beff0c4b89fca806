"""Work in the background: what is under way, the nodes and prefetches that it is about, and the table of it all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from kvlitmus.conformance.specimen.prefix.tree import Node
from kvlitmus.spec.words.units import Key

QUERYING, FETCHING, ENDED, REVOKED = "querying", "fetching", "ended", "revoked"
"""How far a prefetch is."""

Slots = tuple[int, ...] | None


Shown = tuple[Sequence[int], Sequence[int], Slots, Slots]
"""The lists of a node as they were last shown, and the slots that were."""


@dataclass(slots=True, eq=False, repr=False)
class Work:
    """One job.

    ``nodes`` are the nodes whose copies it reads or writes, in order; a node that is split while a
    job is on it leaves two.  ``pins``: whether their host copies may not go as long as it lasts.
    ``sources`` and ``targets``: pages, where from and where to.  ``layers``: how many of them a load has copied.
    ``failed``: whether a copy is over without success.
    """

    id: int
    kind: str
    key: Key
    start: int
    rid: int = -1
    done: int = 0
    layers: int = 0
    landed: bool = False
    failed: bool = False
    pins: bool = False
    nodes: list[TieredNode] = field(default_factory=list)
    sources: Sequence[int] = ()
    targets: Sequence[int] = ()
    names: Sequence[str] = ()
    fetch: Fetch | None = None


@dataclass(slots=True, eq=False, repr=False)
class TieredNode(Node):
    """A run of pages: ``pages`` on the device, ``host`` on the host, either of them empty where there is no copy.

    ``pins``: how many things keep the host copy; ``works``: the jobs that read or write a copy of this node.
    """

    parent: TieredNode | None
    children: dict[Hashable, TieredNode] = field(default_factory=dict)  # type: ignore[assignment]
    host: list[int] = field(default_factory=list)
    pins: int = 0
    works: list[Work] = field(default_factory=list)
    shown: Shown = ((), (), None, None)


@dataclass(slots=True, eq=False, repr=False)
class Fetch:
    """One prefetch: what it reads, where it attaches, and the pages that it holds.

    ``asked``: units that it set out to read; ``hit``: units that storage has, ``None`` before the
    query's answer; ``done``: units that have arrived.  ``pages``: the host pages that are its own.
    ``over``: the scheduler has done with it; only the job under way is left.
    """

    rid: int
    key: Key
    matched: int
    anchor: TieredNode
    start: int = 0
    asked: int = 0
    accounted: int = 0
    hashed: int = 0
    pages: list[int] = field(default_factory=list)
    hit: int | None = None
    done: int = 0
    stage: str = QUERYING
    over: bool = False
    began: float | None = None

    def __post_init__(self) -> None:
        self.start = self.matched


class WorkTable:
    """All work under way, by number, in the order in which it was started."""

    def __init__(self) -> None:
        self.last = 0
        self.works: dict[int, Work] = {}

    def add(self, kind: str, key: Key, start: int) -> Work:
        """New work; its number is never used again."""
        self.last += 1
        work = self.works[self.last] = Work(self.last, kind, key, start)
        return work

    def remove(self, work: Work) -> None:
        """It is over, and was taken note of."""
        del self.works[work.id]
        for node in work.nodes:
            node.works.remove(work)


def cut(key: Key, units: int) -> Key:
    """The first units of a key."""
    return key._replace(tokens=key.tokens[: units + key.bigram])


def key_of(namespace: str | None, units: tuple[object, ...], bigram: bool) -> Key:
    """The key that has these units."""
    if not bigram:
        return Key(namespace, units)  # type: ignore[arg-type]
    first, *_ = units
    return Key(namespace, (first[0], *[unit[1] for unit in units]), True)  # type: ignore[index]
