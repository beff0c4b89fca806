"""A cache of components: several kinds of state for one prefix, each in a pool (``docs/components.md``).

Beside the KV a model may keep a sliding window of it, chunks, recurrent states, index keys.  A hit ends at the largest
boundary at which every component has what it needs.  :func:`component_tree` makes the tree and the pools of such a
cache.  They are in the compiled core alone (``native/components.h``): their twin is the reference, with which they are
played in lock step.

Components and pools are numbered as in the configuration, and what is given or answered of each is a sequence by these
numbers; the first component is the KV.  A key is a namespace and **units**: tokens, or bigrams packed into 64 bits.
Ends are in units from the root.  ``match`` finds the largest valid boundary of a key; ``lock`` protects what a key
needs that ends at one, and answers a receipt.

With host memory ``back_up`` and ``load`` begin a copy for a boundary, of every component: its number, the boundary,
where the entries end that it brings, the places that it reads on one tier, and those that it writes to on the other.
Whoever copies says with ``copied`` that it has ended.  Until then those places are nobody else's, and what the boundary
needs stays on both tiers.  Right after an ``insert`` ``due`` says how much of its key a policy backs up: write-through
up to the last boundary, selective write-through only where that was there before.

Each call is one step, which no exception interrupts: it is made, or raises with nothing changed, also where memory is
short.  ``None`` is what there is too little memory for now; what can never be raises ``ValueError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import cores, inputs
from kvlitmus.optimized.policy import POLICIES
from kvlitmus.optimized.slots import Numbers

if TYPE_CHECKING:
    from kvlitmus.optimized._core import Components

SHAPES = ("run", "window", "chunk", "point", "derived")
"""What a boundary needs of a component: the whole prefix (the KV alone), the last units, those since a multiple of a
size, one entry stored for the boundary, or as much as of the KV."""

CASCADES = ("none", "base", "leaf", "later")
"""What goes with an evicted entry: nothing; with KV all else there; that, and with an entry at the end of a path all
there; or that, and with any entry those of the components after its own."""

MOST = 8
"""No cache has more components, or pools."""


@dataclass(frozen=True)
class Kind:
    """One component: its shape, with the reach of a window or the size of a chunk; its pool.

    An entry stands for ``unit`` units, a multiple of the page; boundaries are multiples of ``align``.
    """

    shape: str
    pool: int
    unit: int
    align: int
    size: int = 1

    def __post_init__(self) -> None:
        inputs.one_of("shape", self.shape, SHAPES)
        inputs.whole("pool", self.pool, 0, MOST - 1)
        for field in ("unit", "align", "size"):
            inputs.whole(field, getattr(self, field), 1, inputs.MOST_PAGES - 1)


@dataclass(frozen=True, kw_only=True)
class ComponentConfig:
    """What a cache keeps: these ``components``, and so many ``places`` of each pool; ``host``: of the host's, if any.

    ``policy``: what goes first; ``cascade``: what goes with it; ``window_root``: whether a window near the root may be
    ``shorter``, or has to be there in ``full``; ``bigram``: whether units are bigrams; ``events``: whether it tells
    what comes and goes, which somebody has to ask for (``events()``).
    """

    components: tuple[Kind, ...]
    places: tuple[int, ...]
    host: tuple[int, ...] = ()
    page_size: int = 16
    policy: str = "lru"
    cascade: str = "base"
    window_root: str = "shorter"
    bigram: bool = False
    events: bool = False

    def __post_init__(self) -> None:
        inputs.whole("page_size", self.page_size, 1, inputs.MOST_PAGES - 1)
        inputs.one_of("policy", self.policy, POLICIES)
        inputs.one_of("cascade", self.cascade, CASCADES)
        inputs.one_of("window_root", self.window_root, ("shorter", "full"))
        for field in ("bigram", "events"):
            inputs.flag(field, getattr(self, field))
        for many in (*self.places, *self.host):
            inputs.whole("places", many, 0, inputs.MOST_PAGES - 1)


def component_tree(config: ComponentConfig) -> Components:
    """An empty cache; raises ``ValueError`` where there is no compiled core, or no such cache."""
    why = cores.lacking()
    if why:
        raise ValueError(f"a cache of components needs the native core, and there is none: {why}")
    from kvlitmus.optimized import _core

    return _core.Components(
        config.page_size,
        list(POLICIES).index(config.policy),
        CASCADES.index(config.cascade),
        config.window_root == "full",
        config.bigram,
        config.events,
        tuple([(SHAPES.index(one.shape), one.size, one.pool, one.unit, one.align) for one in config.components]),
        tuple(config.places),
        tuple(config.host),
    )


def brought(numbers: Numbers) -> NDArray[np.int64]:
    """Integers as the core takes them; raises ``ValueError`` for one of more bits."""
    array = inputs.integers("these", numbers)
    own = np.array(array, np.int64)
    if array.dtype == np.uint64 and len(own) and own.min() < 0:
        raise ValueError(f"these must fit 64 bits (got {array.max()})")
    return own
