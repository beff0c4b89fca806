"""Work in the background: what is under way, which nodes it touches, and the table of it all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from kvlitmus.spec.units import Key

if TYPE_CHECKING:
    from kvlitmus.conformance.specimen.fetching import Fetch
    from kvlitmus.conformance.specimen.tiers import TieredNode


class Store(Protocol):
    """Storage as the specimen uses it."""

    def exists(self, names: Sequence[str]) -> int:
        """How many of these pages are stored, counted from the first to the first that is not; may raise."""

    def get(self, name: str) -> tuple[int, ...] | None:
        """A page, or ``None``; may raise, and may be too short."""

    def put(self, name: str, contents: Sequence[int]) -> bool:
        """Store a page, or refuse; may raise."""


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
