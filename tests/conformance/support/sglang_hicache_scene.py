"""One hierarchy of SGLang, the suite's side of it, and whether everything is where it belongs.

Imported by the scripts beside it, which the interpreter of a release's own environment runs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.conformance.ports import Config, Hit
from kvlitmus.spec.interface.tiers import BACKUP, DONE, LOAD, Job, Outcome
from kvlitmus.spec.words.units import Key, page_floor

Units = tuple[Any, ...]


def content(namespace: str | None, units: Units) -> int:
    """The number that stands for the KV of the last unit: it depends on the namespace and on all before it."""
    return int.from_bytes(hashlib.sha256(repr((namespace, units)).encode()).digest()[:3], "big")


class Scene:
    """An adapter, its store, and what the caller does."""

    def __init__(self, target: Any, config: Config, pages: dict[str, tuple[int, ...]] | None = None) -> None:
        self.config = config
        self.size = config.page_size
        self.frees_duplicates = target.profile.duplicates == "caller_frees"
        self.adapter: Any = target.make(config)
        self.store = HarnessStore(config.page_size)
        self.store.contents.update(pages or {})
        if config.storage == "attached":
            assert self.adapter.attach(self.store)

    @property
    def asked(self) -> list[str]:
        """All names that storage was asked for, query by query."""
        return [name for query in self.store.asked for name in query.names]

    def insert(self, key: Key) -> None:
        """Compute and cache the whole pages of a key, as a request does."""
        adapter, whole = self.adapter, page_floor(key.length, self.size)
        hit: Hit = adapter.match(key)
        receipt = adapter.lock(hit.handle)
        short = whole - hit.length - adapter.available()
        if short > 0:
            adapter.evict(short)
        fresh = adapter.alloc(whole - hit.length) if whole > hit.length else []
        adapter.unlock(receipt)
        if fresh is None:
            return
        row = [*(hit.slots or ()), *fresh]
        adapter.poke(fresh, [content(key.namespace, key.units[: at + 1]) for at in range(hit.length, whole)])
        tokens = key.tokens[: whole + int(key.bigram)]
        already = adapter.insert(key._replace(tokens=tokens), row, protected=hit.length).already
        if self.frees_duplicates and already > hit.length:
            adapter.free(row[hit.length : already])

    def ready(self, kind: str = "") -> list[Job]:
        """What can go on."""
        return [job for job in self.adapter.jobs() if job.ready and kind in ("", job.kind)]

    def advance(self, job: Job, outcome: Outcome = DONE) -> None:
        """One job goes on."""
        self.store.script(outcome)
        self.adapter.advance(job.id, outcome)
        self.store.script(DONE)

    def step(self, kind: str, outcome: Outcome = DONE) -> None:
        """The first job of a kind goes on."""
        self.advance(self.ready(kind)[0], outcome)

    def settle(self, rounds: int = 4) -> None:
        """Deliver everything, with ticks between."""
        for _ in range(rounds):
            while ready := self.ready():
                self.advance(ready[0])
            self.adapter.tick()

    # --- looking

    def faults(self) -> list[str]:
        """What is not where it belongs, or not what belongs there."""
        view = self.adapter.tiers()
        device, host = Counter(view.free), Counter(view.host_free)
        moving = Counter(view.moving)
        pages = {slot // self.size for slot in moving}
        for page in pages:
            host[page] += max(moving[slot] for slot in range(page * self.size, (page + 1) * self.size))
        for node in view.nodes:
            device.update(slot // self.size for slot in (node.slots or ())[:: self.size])
            host.update(slot // self.size for slot in (node.host or ())[:: self.size])
        found = [
            f"device page {page} {device[page]} times" for page in range(1, self.config.pages + 1) if device[page] != 1
        ]
        found += [f"host page {page} {host[page]} times" for page in range(self.config.host_pages) if host[page] != 1]
        found += [f"no such host page: {page}" for page in host if not 0 <= page < self.config.host_pages]
        return found + self.contents(view)

    def hanging(self) -> bool:
        """Whether a page on the host alone hangs below one without a host copy."""
        nodes = self.adapter.tiers().nodes
        return any(node.slots is None and node.parent >= 0 and nodes[node.parent].host is None for node in nodes)

    def contents(self, view: Any) -> list[str]:
        """Slots that hold the KV of something else; what a copy is still filling is left out."""
        copies = [job for job in self.adapter.jobs() if job.kind in (BACKUP, LOAD) and not job.landed]
        before: list[Units] = []
        wanted: dict[str, list[tuple[int, int, str]]] = {"device": [], "host": []}
        for node in view.nodes:
            start = before[node.parent] if node.parent >= 0 else ()
            units = start + node.units
            before.append(units)
            for at in range(len(node.units)):
                prefix = units[: len(start) + at + 1]
                for tier, kind, slots in (("device", LOAD, node.slots), ("host", BACKUP, node.host)):
                    if slots is not None and not any(
                        job.kind == kind
                        and job.start < len(prefix)
                        and job.key.namespace == node.namespace
                        and job.key.units[: len(prefix)] == prefix
                        for job in copies
                    ):
                        wanted[tier].append((slots[at], content(node.namespace, prefix), f"{node.namespace} {prefix}"))
        return [
            f"{tier} slot {slot} of {prefix} holds {value}"
            for tier, rows in wanted.items()
            for (slot, want, prefix), value in zip(rows, self.adapter.peek(tier, [row[0] for row in rows]), strict=True)
            if value != want
        ]
