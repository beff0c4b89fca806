"""Which small caches and hierarchies the optimized one is compared in with the reference, state by state."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.adapters.reference.flat import PROFILE
from tests.optimized.support.small_tiers import supported
from tests.proofs.support import scopes, tier_scopes
from tests.proofs.support.explore import Scope
from tests.proofs.support.tier_bench import Scope as TierScope


def lawful(found: dict[str, Scope]) -> dict[str, Scope]:
    """The scopes with the choices that the optimized cache makes, and lawful callers.

    One request at a time: the enumeration renumbers requests, and the other cache can't.
    """
    return {
        name: replace(scope, misuse=False, requests=min(1, scope.requests))
        for name, scope in found.items()
        if scope.profile == PROFILE
    }


def possible(found: dict[str, TierScope]) -> dict[str, TierScope]:
    """The scopes with the choices that the optimized cache makes."""
    return {name: supported(scope) for name, scope in found.items()}


FLAT = lawful(
    {
        **scopes.EVERY_RUN,
        "branches": Scope(units=3, loans=0, receipts=0),
        "branches and a receipt": Scope(units=3, loans=0),
        "four pages": Scope(pages=4, units=3, loans=0, receipts=0),
    }
)
TIERED = possible(tier_scopes.EVERY_RUN)
QUICK = ("pages of two", "mru")
QUICK_TIERED = ("pages of two, filled",)
