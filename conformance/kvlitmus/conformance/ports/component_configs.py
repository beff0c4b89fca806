"""What caches of components can be made of, for specimen and reference."""

from __future__ import annotations

from kvlitmus.conformance.ports import Config, Unsupported


def of_components(config: Config) -> Config:
    """A configuration of components; raises :class:`~kvlitmus.conformance.ports.Unsupported` for any other.

    No rule says which of the entries that nobody needs goes first, so no policy but the usual one is promised.
    """
    if not config.components:
        raise Unsupported("this is a cache of components")
    if config.policy != "lru":
        raise Unsupported(f"caches of components have no policy {config.policy!r}; they have lru")
    return config
