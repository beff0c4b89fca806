"""The order in which the entries of components are evicted, where a cache declares that it goes by the policy.

Each component is evicted by itself, so its entries are compared with one another alone, and on each tier with what is there.
What a policy looks at, no call tells: a hit uses what it names, but whether it uses the rest of its path, or a lock or a copy does,
is each cache's own.  So an entry is passed over only where it is worth less by every reading
(:mod:`~kvlitmus.spec.prefix.components.uses`).  That is less than EVICT-05 asks of a cache of KV, and holds for every way to count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.calls import Begin, Evict, Grow
from kvlitmus.spec.prefix.components.calls import Holding, JointCall, PoolsSeen
from kvlitmus.spec.prefix.components.evictions import prefixes
from kvlitmus.spec.prefix.components.state import spared_on, tier_of
from kvlitmus.spec.prefix.components.tree import on_tiers
from kvlitmus.spec.prefix.components.uses import come_again, is_ordered, on_path_of, worths
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import EvictHost
from kvlitmus.spec.words.policies import WRITE_BACK, Worth, later
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import WHOLE_LEAVES, Run

Worths = Mapping[At, tuple[Worth, Worth]]


class Order(NamedTuple):
    """Of what an eviction took, and of what it could have taken instead, the least and the most that it can be worth."""

    taken: Worths
    left: Worths

    def pairs(self) -> Iterator[tuple[At, At]]:
        """Each entry that was taken with each of its component that could have gone instead."""
        yield from ((one, other) for one in self.taken for other in self.left if one[0] == other[0])


@fact(3, ports=("component_view",))
def component_choosing(
    setting: Setting, state: State, call: JointCall, answer: object, pools: PoolsSeen, component_known: State
) -> Order | Unknown:
    """What an eviction from a tier could choose between, and what that can be worth."""
    tier = tier_of(state, call)
    held = dict(on_tiers(pools)).get(tier)
    if not judged(setting) or held is None:
        return UNKNOWN
    if isinstance(call, Begin | Grow) and not isinstance(answer, Holding):
        return Order({}, {})
    doubled, again, there = frozenset[At](), frozenset[At](), state.places(tier)
    if tier == DEVICE:
        doubled = frozenset([at for at, _ in state.copies | pools.copies])
        again = come_again(setting, state, component_known, call, answer) & there.keys()
    gone = state.certain(tier) - held.keys() - doubled
    stayed = (there.keys() & held.keys()) - spared_on(setting, state, tier) - doubled
    return ordered(setting, state, call, gone, stayed, tier, again)


def judged(setting: Setting) -> bool:
    """Whether the order is judged: not where entries stay because they could not be written back."""
    return is_ordered(setting) and not (setting.config.tiered and setting.config.write == WRITE_BACK)


def ordered(
    setting: Setting,
    state: State,
    call: JointCall,
    gone: AbstractSet[At],
    stayed: AbstractSet[At],
    tier: str,
    again: AbstractSet[At] = frozenset(),
) -> Order:
    """What went by itself, and what could have gone all the time, of what was there.

    ``again``: what may have gone, too, and has come again with the same call.
    """
    inner = extended(setting, state.places(tier).keys())
    busy = on_path_of(setting, state, call).union(*[one.path.names for one in state.requests.values()])
    left = {at for at in stayed if at not in inner and at[1] not in busy}
    taken = by_itself(setting, call, gone, again)
    return Order(
        *[{at: worths(state.tier(tier, at[0]), at[1], setting.order) for at in some} for some in (taken, left)]
    )


def extended(setting: Setting, there: AbstractSet[At]) -> frozenset[At]:
    """The entries of runs that some other one goes on from: these can't go before it."""
    units = {one.name: one.unit for one in setting.layout.components if isinstance(one.shape, Run)}
    return frozenset(
        (name, before) for name, end in there if name in units for before in prefixes(setting, end, units[name])
    )


def by_itself(setting: Setting, call: JointCall, gone: AbstractSet[At], again: AbstractSet[At]) -> frozenset[At]:
    """What went because it was chosen, and not perhaps with another entry of its prefix that was."""
    cascade, base = setting.profile.component_cascade, setting.layout.base.name
    if cascade == "none":
        return frozenset(gone)
    asked: Collection[str] = setting.layout.components_by_name
    if isinstance(call, Evict | EvictHost):
        asked = {name for name, many in call.asked.items() if many > 0}
    whole = cascade in WHOLE_LEAVES
    takers: dict[object, set[str]] = {}
    for name, end in gone | again:
        if name in asked and (whole or name == base):
            takers.setdefault(end, set()).add(name)
    return frozenset(at for at in gone if at[0] in asked and not takers.get(at[1], set()) - {at[0]})


@fact(3, ports=("component_view",))
def component_choice(component_choosing: Order) -> bool:
    """Whether an eviction had a choice that can be judged."""
    return any(True for _ in component_choosing.pairs())


@fact(3, ports=("component_view",))
def component_passed_over(setting: Setting, component_choosing: Order) -> Collection[At]:
    """What is worth less for certain than an entry of its component that was evicted from the same tier."""
    return passed_over(setting, component_choosing)


def passed_over(setting: Setting, order: Order) -> frozenset[At]:
    """What stayed though its most is less than the least of what went."""
    return frozenset(
        other for one, other in order.pairs() if later(order.left[other][1], setting.ties) < order.taken[one][0]
    )


# Rules


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
