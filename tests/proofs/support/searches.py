"""The searches of every run, each made once per process: tests and the matrix's evidence look at the same reports."""

from __future__ import annotations

import functools

from tests.proofs.support import explore, scopes, tier_explore, tier_scopes


@functools.cache
def flat(name: str) -> explore.Report:
    """The search of a small cache."""
    return explore.Explorer(scopes.EVERY_RUN[name]).run()


@functools.cache
def tiered(name: str) -> tier_explore.Report:
    """The search of a small hierarchy."""
    return tier_explore.Explorer(tier_scopes.EVERY_RUN[name]).run()
