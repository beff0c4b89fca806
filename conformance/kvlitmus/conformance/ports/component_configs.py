"""What caches of components can be made of, for specimen and reference."""

from __future__ import annotations

from kvlitmus.conformance.ports import Config, Unsupported


def refuse_others(config: Config) -> None:
    """Raise :class:`~kvlitmus.conformance.ports.Unsupported` for what is no configuration of a cache of components."""
    if not config.components:
        raise Unsupported("this is a cache of components")
