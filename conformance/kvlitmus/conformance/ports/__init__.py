"""The ports: what a cache offers to the suite, piece by piece.

An adapter is any object with some of these methods.  Nothing needs to be inherited, and the
presence of a method *is* the capability; a cache that has no tree simply has no ``match``.
Slots and counts are integers, of whatever class (Python's, numpy's); a returned sequence may be a
list, a tuple or anything else that iterates (an adapter for tensors returns ``tensor.tolist()``).

What makes adapters is a **target**: an object (often a module) with

``make(config) -> adapter``
    builds a fresh cache, or raises :class:`Unsupported` with a reason;
``profile``
    a :class:`Profile`: the legal choices that this cache makes;
``capabilities`` (optional)
    names the ports that the adapters will have, so that they are known before construction;
    without it one adapter is built to look;
``configs`` (optional)
    the configurations in which it is judged, instead of the suite's usual ones;
``pools`` (optional)
    what it is judged as besides: ``tiers``, ``store``, ``sparse``, ``ranks``; a cache of components, if it has host
    memory, as ``component_host``, if it backs up by itself, as ``component_writes``, and if it has storage behind the
    host, as ``component_storage``;
``version`` (optional)
    a line that reports show.

State is fresh per schedule: by ``reset()`` where the adapter has one, else by a new adapter.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kvlitmus.spec.interface.cache import (
    Begun,
    Counters,
    Evict,
    Extend,
    Flush,
    Fork,
    FreeGroup,
    Hashes,
    Hit,
    Inspect,
    Locks,
    NodeView,
    PartlyComputed,
    Pool,
    Prefetch,
    PrefixTree,
    Raw,
    RawRequests,
    Requests,
    Resettable,
    Retract,
    Sizes,
    Stored,
    TakeBack,
    View,
)
from kvlitmus.spec.interface.ports import (
    HOST_OF_COMPONENTS,
    PORTS,
    SNAPSHOTS,
    STORAGE_OF_COMPONENTS,
    capabilities_in,
    capabilities_of,
    unasked,
)
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile

__all__ = [
    "HOST_OF_COMPONENTS",
    "PORTS",
    "SNAPSHOTS",
    "STORAGE_OF_COMPONENTS",
    "Begun",
    "Config",
    "Counters",
    "Evict",
    "Extend",
    "Flush",
    "Fork",
    "FreeGroup",
    "Hashes",
    "Hit",
    "Inspect",
    "Locks",
    "NodeView",
    "PartlyComputed",
    "Pool",
    "Prefetch",
    "PrefixTree",
    "Profile",
    "Raw",
    "RawRequests",
    "Requests",
    "Resettable",
    "Retract",
    "Sizes",
    "Stored",
    "TakeBack",
    "Target",
    "Unsupported",
    "View",
    "capabilities_in",
    "capabilities_of",
    "unasked",
]


class Unsupported(Exception):
    """Raised by ``make`` when a configuration can't be built; the reason is reported as *not applicable*."""


@runtime_checkable
class Target(Protocol):
    """What makes adapters."""

    profile: Profile

    def make(self, config: Config) -> object:
        """A fresh cache, or :class:`Unsupported`."""
