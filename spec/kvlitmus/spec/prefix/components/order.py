"""The order in which the entries of components are evicted, where a cache declares that it goes by the policy.

Each component is evicted by itself, so its entries are compared with one another alone, and on each tier with what is there.
What a policy looks at, no call tells: a hit uses what it names, but whether it uses the rest of its path, or a lock or a copy does,
is each cache's own.  So an entry is passed over only where it is worth less by every reading
(:mod:`~kvlitmus.spec.prefix.components.uses`).  That is less than EVICT-05 asks of a cache of KV, and holds for every way to count.
"""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components import order_facts as _facts  # noqa: F401 - what the rules speak of
from kvlitmus.spec.prefix.page import At


# EVICT-05 needs each use for certain; here it is known in bounds.
@rule(
    "COMP-63",
    on=(
        On.COMPONENT_EVICT,
        On.COMPONENT_EVICT_HOST,
        On.COMPONENT_BACK_UP,
        On.REFUSED_COMPONENT_BACK_UP,
        On.COMPONENT_PREFETCH,
        On.REFUSED_COMPONENT_PREFETCH,
        On.COMPONENT_LOAD,
        On.REFUSED_COMPONENT_LOAD,
        On.COMPONENT_START,
        On.COMPONENT_GROW,
    ),
    needs=("component_view",),
    source="R-EV-03, R-SWA-07, R-MA-03; design",
    reference="prefix.components.tree.next_to_go",
    allowed="{component_passed_over} first, as the policy orders",
    premise="component_choice",
)
def entries_go_in_the_order_of_the_policy(component_passed_over: Collection[At]) -> bool:
    """Where the profile says that entries go by the policy, an eviction MUST NOT take an entry of a component from a tier while one stays there that may go and is worth less for certain."""
    return not component_passed_over
