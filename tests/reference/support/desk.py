"""A reference hierarchy on a desk: short calls, contents that tell what they are, and a store that remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvlitmus.conformance.adapters.reference.flat import PROFILE
from kvlitmus.conformance.adapters.reference.tiers import TieredReference
from kvlitmus.conformance.checker.harness_store import HarnessStore, StorageDownError
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.prefix.hierarchy import host_homes
from kvlitmus.spec.interface.tiers import DONE, Job, Outcome
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.units import Key


class FaultyStore(HarnessStore):
    """The suite's storage; names in ``refused`` are not taken, and reading one in ``broken`` raises."""

    def __init__(self, page_size: int) -> None:
        super().__init__(page_size)
        self.refused: set[str] = set()
        self.broken: set[str] = set()

    def get(self, name: str) -> tuple[int, ...] | None:
        """The contents of a page."""
        if name in self.broken:
            raise StorageDownError(name)
        return super().get(name)

    def put(self, name: str, contents: Sequence[int]) -> bool:
        """Keep a page."""
        return name not in self.refused and super().put(name, contents)


class Desk:
    """A hierarchy with pages of two units; keys are ``range(n)`` unless given."""

    def __init__(self, profile: Profile = PROFILE, **config: Any) -> None:
        settings: dict[str, Any] = {"page_size": 2, "pages": 8, "host_pages": 8, "threshold": 2, "rate_limit": 100}
        settings |= config
        self.cache = TieredReference(Config(**settings), profile)
        self.store = FaultyStore(settings["page_size"])
        self.rid = 100

    @property
    def now(self) -> State:
        """The value; its host pages have one home each."""
        host_homes(self.cache.state, self.cache.setting)
        return self.cache.state

    def key(self, tokens: int | Sequence[int], namespace: str | None = None) -> Key:
        """A key of so many tokens, or of these."""
        return Key(namespace, tuple(range(tokens)) if isinstance(tokens, int) else tuple(tokens))

    def compute(self, tokens: int | Sequence[int], *, keep: bool = True) -> None:
        """A request computes a key and ends; each slot holds a number that its whole prefix gives it."""
        key = self.key(tokens)
        self.rid += 1
        begun = self.cache.begin(self.rid, key)
        assert begun is not None
        self.cache.poke(begun.row[begun.cached :], self.contents(key)[begun.cached :])
        self.cache.end(self.rid, keep=keep)

    def contents(self, key: Key) -> list[int]:
        """What belongs in the slots of a key."""
        return [hash((key.namespace, key.tokens[: at + 1])) % 1_000_003 for at in range(len(key.tokens))]

    def scribble(self) -> None:
        """Somebody else writes into every device slot that is free."""
        slots = self.cache.alloc(self.cache.available())
        assert slots is not None
        self.cache.poke(slots, [-1] * len(slots))
        self.cache.free(slots)

    def jobs(self, kind: str) -> list[Job]:
        """The jobs of a kind that are under way."""
        return [job for job in self.cache.jobs() if job.kind == kind]

    def go(self, kind: str, outcome: Outcome = DONE) -> None:
        """The first job of a kind goes on."""
        self.cache.advance(next(job.id for job in self.jobs(kind) if job.ready), outcome)

    def settle(self) -> None:
        """Deliver everything, and tick."""
        for _ in range(6):
            for job in self.cache.jobs():
                if job.ready:
                    self.cache.advance(job.id, DONE)
            self.cache.tick()

    def stored(self, tokens: int | Sequence[int]) -> None:
        """The store has a key, and the cache has nothing."""
        self.cache.attach(self.store)
        self.compute(tokens)
        self.settle()
        self.cache.reset()
        self.cache.events()

    def where(self, tokens: int | Sequence[int]) -> str:
        """Where the pages of a key are: ``D``, ``B`` (both), ``H``, or ``-``, one letter each."""
        names = self.cache.path(self.key(tokens)).names
        now = self.now
        letters = []
        for name in names[1::2]:
            there = (name in now.device.pages) + 2 * (name in now.host.pages)
            letters.append("-DHB"[there])
        return "".join(letters)

    def on_device(self, tokens: int) -> bool:
        """Whether the device holds what belongs to the whole key."""
        key = self.key(tokens)
        hit = self.cache.match(key)
        return hit.length == tokens and self.cache.peek("device", hit.slots or ()) == self.contents(key)
