"""What makes a page store alone: one kind of target for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run.plan import STORE_CONFIGS
from kvlitmus.spec.interface.stores import STORE_PORTS

FIRST, LAST = Profile(store_put="first"), Profile(store_put="last")
"""What a store keeps of two values that are put under one key."""

WITHOUT_YARD = frozenset(STORE_PORTS) - {"store_yard"}
"""What a store has of which nobody can see where it writes."""


@dataclass(frozen=True)
class StoreTarget:
    """A target that is a page store alone.

    build: a fresh store; raises ``Unsupported`` where it can't be had.  version: what reports say that was judged.
    """

    build: Callable[[], Any]
    profile: Profile = FIRST
    capabilities: frozenset[str] = frozenset(STORE_PORTS)
    version: str | None = None
    configs = STORE_CONFIGS

    def make(self, config: Config) -> Any:
        """A fresh store."""
        if config.pool != "store":
            raise Unsupported("this target is a page store alone")
        return self.build()
