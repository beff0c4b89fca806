"""All ports by name, and which of them an object has."""

from __future__ import annotations

from kvlitmus.spec.interface.cache import CACHE_PORTS
from kvlitmus.spec.interface.components import COMPONENT_PORTS
from kvlitmus.spec.interface.ranks import RANK_PORTS, RANK_STATE_PORTS
from kvlitmus.spec.interface.sparse import SPARSE_PORTS
from kvlitmus.spec.interface.stores import STORE_PORTS
from kvlitmus.spec.interface.tiers import EVENT_PORTS, TIER_PORTS
from kvlitmus.spec.words.config import Config

PORTS: dict[str, tuple[str, ...]] = {
    **CACHE_PORTS,
    **EVENT_PORTS,
    **TIER_PORTS,
    **STORE_PORTS,
    **SPARSE_PORTS,
    **COMPONENT_PORTS,
    **RANK_PORTS,
    **RANK_STATE_PORTS,
}
"""Capability → the methods that make it up."""


HOST_OF_COMPONENTS = frozenset({"component_host", "component_host_counters", "component_host_view", "component_writes"})
"""What is asked of a cache of components only where the configuration has host memory: it may have one class for both."""

STORAGE_OF_TIERS = frozenset({"prefetching", "raw_prefetching", "lifecycle"})
"""What is asked of a hierarchy only where the configuration has storage behind host memory: it may have one class for both."""

STORAGE_OF_COMPONENTS = frozenset({"component_storage"})
"""What is asked of it only where the configuration has storage behind host memory, and of a cache that prefetches."""

SNAPSHOTS = frozenset({"inspect", "sparse_inspect", "component_view"})
"""The ports by which all of a cache can be seen, one for each kind of cache that has such a port."""


def capabilities_of(adapter: object) -> frozenset[str]:
    """The capabilities that an adapter has, by the presence of all methods of a port.

    ``lookup`` is what every tree has, and a cache that can be asked what it has cached (``match``) without being one.
    """
    has = set()
    for port, methods in PORTS.items():  # written out: it is asked for every cache that is made
        for name in methods:
            if not callable(getattr(adapter, name, None)):
                break
        else:
            has.add(port)
    if callable(getattr(adapter, "match", None)):
        has.add("lookup")
    if "tiers" in has:
        has.add("inspect")
    return frozenset(has)


def capabilities_in(adapter: object, config: Config) -> frozenset[str]:
    """The capabilities of an adapter that are asked for in this configuration."""
    has = capabilities_of(adapter) - (frozenset() if config.host_pages else HOST_OF_COMPONENTS)
    if config.storage == "none" or not has >= {"component_host", "component_prefetch"}:
        has -= STORAGE_OF_COMPONENTS
    if config.storage == "none":
        has -= STORAGE_OF_TIERS
    return has


def unasked(has: frozenset[str], config: Config) -> str:
    """The port for want of which an adapter with these capabilities is not asked for a configuration; empty if it is.

    A hierarchy is asked for where there is a host tier, and for storage below it where storage can be attached.
    """
    if not config.tiered or config.components:
        return ""
    if has.isdisjoint(("tiers", "host")):
        return "host"
    return "lifecycle" if config.storage != "none" and "lifecycle" not in has else ""
