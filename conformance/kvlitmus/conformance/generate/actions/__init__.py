"""Actions: how each kind of operation of a schedule is played, part by part.

An action gets the caller and the three numbers of the operation, chooses what is alive by them, and
makes the calls that a lawful caller would make.  Which capabilities it needs and how often it is drawn stands
in :mod:`kvlitmus.conformance.generate.schedule`.
"""

from kvlitmus.conformance.generate.actions import (
    component_host,
    component_prefetch,
    component_requests,
    component_storing,
    components,
    misuse,
    pool,
    pure,
    ranks,
    request,
    sparse,
    store,
    tiers,
    tree,
)
from kvlitmus.conformance.generate.actions.registry import ACTIONS

__all__ = [
    "ACTIONS",
    "component_host",
    "component_prefetch",
    "component_requests",
    "component_storing",
    "components",
    "misuse",
    "pool",
    "pure",
    "ranks",
    "request",
    "sparse",
    "store",
    "tiers",
    "tree",
]
