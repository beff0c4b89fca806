"""What a target is asked to build, and what is legal there."""

from __future__ import annotations

from dataclasses import dataclass

from kvlitmus.spec.words.choices import checked, legal_values, one_of, within
from kvlitmus.spec.words.layouts import LAYOUTS
from kvlitmus.spec.words.policies import POLICIES, STOPS, WRITES

ENDLESS = 1 << 30
"""A limit that nothing comes near."""


@checked("config")
@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a target is asked to build; ``ValueError`` for what isn't legal (:data:`CONFIG_VALUES`).

    ``pages`` counts usable pages (the reserved unit is on top).  ``pool`` says whether the pool
    to judge is the ``device``'s or the ``host``'s; a host pool comes without a tree.  With ``store`` a page
    store is judged alone (:mod:`~kvlitmus.spec.interface.stores`), without pool and tree, and with ``sparse`` a sparse host
    pool (:mod:`~kvlitmus.spec.interface.sparse`); with ``ranks`` it is judged whether several ranks decide alike (:mod:`~kvlitmus.spec.interface.ranks`).

    A hierarchy has ``host_pages`` > 0 usable pages of host memory and a ``write`` policy:
    ``write_through`` (a page is backed up when it is inserted), ``write_through_selective`` (at its second
    use) or ``write_back`` (when it is evicted).  ``storage``: ``none``, ``attached`` from the beginning, or
    attached ``later``.  For its prefetches: the ``stop`` policy (``best_effort``, ``wait_complete``,
    ``timeout``), the ``threshold`` in units below which none is worth it, and the ``rate_limit`` in
    units that running prefetches may occupy.

    A cache of ``components`` keeps more than KV for a prefix; the name is that of a layout
    (``kv+swa``, ``kv+state``, ``kv+chunk``, ``kv+index``, ``kv+swa+state``, ``groups``, ``groups+chunk``, and for caches
    that serve requests ``blocks+swa``, ``blocks+state``, ``blocks+chunk``; see :data:`~kvlitmus.spec.words.layouts.LAYOUTS`).  It is asked for through ports of its own
    (:mod:`~kvlitmus.spec.interface.components`).  With ``host_pages`` > 0 it has a host tier: each pool has one on the host,
    with the places that so many pages make.  What is copied, and when, it is told; with the port ``component_writes`` it also
    backs up by itself, as ``write`` says: of each prefix what was inserted, what is used a second time, or what an eviction
    would lose; or nothing (``asked``, for components alone).
    """

    page_size: int = within(1, 1024)
    pages: int = within(1, 1 << 20, usual=32)
    policy: str = one_of(*POLICIES)
    bigram: bool = False
    pool: str = one_of("device", "host", "store", "sparse", "ranks")
    host_pages: int = within(0, 1 << 20)
    write: str = one_of(*WRITES, "asked")
    storage: str = one_of("none", "attached", "later")
    stop: str = one_of(*STOPS)
    threshold: int = within(0, ENDLESS)
    rate_limit: int = within(0, ENDLESS)
    components: str = one_of("", *LAYOUTS)

    @property
    def tiered(self) -> bool:
        """Whether there is a host tier below the device pool."""
        return self.host_pages > 0

    @property
    def apart(self) -> bool:
        """Whether what is judged isn't one cache of KV: a page store, a sparse host pool, several ranks, or components."""
        return self.pool in ("store", "sparse", "ranks") or bool(self.components)

    @property
    def label(self) -> str:
        """A short name such as ``page=4 lru``, stable across versions."""
        words = [f"page={self.page_size}", self.policy]
        if self.pages != 32:
            words.append(f"pages={self.pages}")
        if self.bigram:
            words.append("bigram")
        if self.pool != "device":
            words.append(self.pool)
        if self.tiered:
            words += [f"host={self.host_pages}", *([] if self.write == "asked" else [self.write])]
        if self.storage != "none":
            words += [f"storage={self.storage}", self.stop]
        elif self.pool == "ranks":
            words.append(self.stop)
        if self.components:
            words.append(self.components)
        return " ".join(words)


CONFIG_VALUES = legal_values(Config)
"""What is legal in a configuration."""
