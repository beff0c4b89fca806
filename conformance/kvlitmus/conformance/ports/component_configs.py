"""What caches of components can be made of, for specimen and reference."""

from __future__ import annotations

from kvlitmus.conformance.ports import Config, Unsupported


def refuse_others(config: Config) -> None:
    """Raise :class:`~kvlitmus.conformance.ports.Unsupported` for what is no configuration of a cache of components.

    No rule says which of the entries that nobody needs goes first, so no policy but the usual one is promised.
    """
    if not config.components:
        raise Unsupported("this is a cache of components")
    if config.policy != "lru":
        raise Unsupported(f"caches of components have no policy {config.policy!r}; they have lru")
