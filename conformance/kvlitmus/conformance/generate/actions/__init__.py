"""Actions: how each kind of operation of a schedule is played, part by part.

An action gets the caller and the three numbers of the operation, chooses what is alive by them, and
makes the calls that a lawful caller would make.  Which capabilities it needs and how often it is drawn stands
in :mod:`kvlitmus.conformance.generate.schedule`.
"""

from kvlitmus.conformance.generate.actions import misuse, ranks, sparse, stores
from kvlitmus.conformance.generate.actions.components import host, prefetch, requests, storing
from kvlitmus.conformance.generate.actions.components import misuse as component_misuse
from kvlitmus.conformance.generate.actions.components import tree as component_tree
from kvlitmus.conformance.generate.actions.prefix import pool, pure, request, tier, tree
from kvlitmus.conformance.generate.actions.registry import ACTIONS

__all__ = [
    "ACTIONS",
    "component_misuse",
    "component_tree",
    "host",
    "misuse",
    "pool",
    "prefetch",
    "pure",
    "ranks",
    "request",
    "requests",
    "sparse",
    "stores",
    "storing",
    "tier",
    "tree",
]
