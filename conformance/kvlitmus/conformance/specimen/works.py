"""Work in the background: what is under way, the nodes and prefetches that it is about, and the table of it all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kvlitmus.conformance.specimen.tree import Node, Unit
from kvlitmus.spec.units import Key

QUERYING, FETCHING, ENDED, REVOKED = "querying", "fetching", "ended", "revoked"
"""How far a prefetch is."""

Slots = tuple[int, ...] | None


Shown = tuple[list[int], list[int], Slots, Slots]
"""The lists of a node as they were last shown, and the slots that were."""


class Work:
    """One job.

    ``nodes`` are the nodes whose copies it reads or writes, in order; a node that is split while a
    job is on it leaves two.  ``pins``: whether their host copies may not go as long as it lasts.
    ``sources`` and ``targets``: pages, where from and where to.  ``layers``: how many of them a load has copied.
    ``failed``: whether a copy is over without success.
    """

    __slots__ = (
        "done",
        "failed",
        "fetch",
        "id",
        "key",
        "kind",
        "landed",
        "layers",
        "names",
        "nodes",
        "pins",
        "rid",
        "sources",
        "start",
        "targets",
    )

    def __init__(self, id: int, kind: str, key: Key, start: int) -> None:
        self.id = id
        self.kind = kind
        self.key = key
        self.start = start
        self.rid = -1
        self.done = 0
        self.layers = 0
        self.landed = False
        self.failed = False
        self.pins = False
        self.nodes: list[TieredNode] = []
        self.sources: Sequence[int] = ()
        self.targets: Sequence[int] = ()
        self.names: Sequence[str] = ()
        self.fetch: Fetch | None = None


class TieredNode(Node):
    """A run of pages: ``pages`` on the device, ``host`` on the host, either of them empty where there is no copy.

    ``pins``: how many things keep the host copy; ``works``: the jobs that read or write a copy of this node.
    """

    __slots__ = ("host", "pins", "shown", "works")

    parent: TieredNode | None
    children: dict[Hashable, TieredNode]  # type: ignore[assignment]

    def __init__(
        self, parent: TieredNode | None, key: tuple[Unit, ...], pages: list[int], now: int, serial: int
    ) -> None:
        super().__init__(parent, key, pages, now, serial)
        self.host: list[int] = []
        self.pins = 0
        self.works: list[Work] = []
        self.shown: Shown = ([], [], None, None)


class Fetch:
    """One prefetch: what it reads, where it attaches, and the pages that it holds.

    ``asked``: units that it set out to read; ``hit``: units that storage has, ``None`` before the
    query's answer; ``done``: units that have arrived.  ``pages``: the host pages that are its own.
    ``over``: the scheduler has done with it; only the job under way is left.
    """

    __slots__ = (
        "accounted",
        "anchor",
        "asked",
        "began",
        "done",
        "hashed",
        "hit",
        "key",
        "matched",
        "over",
        "pages",
        "rid",
        "stage",
        "start",
    )

    def __init__(self, rid: int, key: Key, matched: int, anchor: TieredNode) -> None:
        self.rid = rid
        self.key = key
        self.matched = self.start = matched
        self.anchor = anchor
        self.asked = self.accounted = self.hashed = 0
        self.pages: list[int] = []
        self.hit: int | None = None
        self.done = 0
        self.stage = QUERYING
        self.over = False
        self.began: float | None = None


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
