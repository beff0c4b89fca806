"""Eviction: making room, in the policy's order, without hurting anybody.

An eviction takes leaves, the least valuable first; when a leaf is gone its parent may become a
leaf.  What "valuable" means is the **policy** (least recently used, least often used, oldest,
and so on); ties are broken in some total order.  A cache frees whole nodes or single pages, as
its profile says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from kvlitmus.spec import pool as _pool  # noqa: F401 - its facts
from kvlitmus.spec.calls import Evict, PlayedAgain
from kvlitmus.spec.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.on import On
from kvlitmus.spec.order import needless_victims, passed_over_by
from kvlitmus.spec.rule import Kind, Strength, rule
from kvlitmus.spec.seen import Seen, TierSeen
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.state import State
from kvlitmus.spec.tier_state import certainly_evictable
from kvlitmus.spec.units import Name, PageNo, Tokens, same


@fact(0)
def reported_evicted(answer: int) -> Tokens:
    """How many slots the eviction says it freed."""
    return Tokens(answer)


@fact(0)
def locked_names(state: State) -> frozenset[Name]:
    """The names of cached pages that receipts or running requests protect."""
    return frozenset(name for name, page in state.tree.pages.items() if page.locks)


@fact(3)
def unlocked_before(state: State, before: Seen, setting: Setting, locked_names: frozenset[Name]) -> Tokens:
    """Slots of all cached pages that nothing protects, before the call."""
    unlocked = len(state.tree.pages) - len(locked_names)
    if state.tiers is not None and isinstance(before, TierSeen):
        unlocked = min(unlocked, certainly_evictable(state.tree, setting, state.tiers, before))
    return Tokens(unlocked * setting.size)


@fact(3)
def passed_over(state: State, setting: Setting, vanished: AbstractSet[Name]) -> frozenset[Name] | Unknown:
    """Names that the policy would have evicted before one that was evicted."""
    tiers, pages = state.tiers, state.tree.pages
    if tiers is not None and (
        setting.config.write == "write_back" or not tiers.ageless(setting.config.policy).isdisjoint(pages)
    ):
        return UNKNOWN  # how recently each page was used isn't known, or not any may go
    return passed_over_by(state.tree, vanished, setting.config.policy, setting.profile.slru_hits)


@fact(3)
def needless(before: Seen, setting: Setting, call: Evict, vanished: AbstractSet[Name]) -> frozenset[Name]:
    """Names that were evicted although enough was free without them."""
    nodes = ((node.info.names, node.info.parent) for node in before.nodes)
    return needless_victims(nodes, vanished, call.asked, setting.size, setting.profile.evict_granularity)


@fact(3)
def victims(call: PlayedAgain) -> Sequence[object]:
    """What each eviction of a schedule removed, in order: the prefixes."""
    return call.victims


@fact(3)
def victims_again(call: PlayedAgain) -> Sequence[object]:
    """The same for a second, fresh cache that got the same calls."""
    return call.victims_again


# Rules


@rule(
    "EVICT-01",
    on=(On.EVICT,),
    source="R-EV-01; sglang#5499",
    reference="perform.least_valuable",
    allowed="at least min({asked}, {unlocked_before}) slots freed",
    premise="unlocked_before",
)
def an_eviction_frees_what_was_asked_if_it_can(
    asked: Tokens,
    unlocked_before: Tokens,
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
    page_size: int,
) -> bool:
    """An eviction MUST free at least as much as was asked for, or everything that nothing protects if that is less."""
    return (len(free_after) - len(free_before)) * page_size >= min(asked, unlocked_before)


@rule(
    "EVICT-02",
    on=(On.EVICT,),
    source="R-EV-01; sglang#4989",
    reference="perform.least_valuable",
    allowed="the number of slots that became free",
)
def an_eviction_reports_what_it_freed(
    reported_evicted: Tokens, free_before: frozenset[PageNo], free_after: frozenset[PageNo], page_size: int
) -> bool:
    """An eviction MUST report exactly the number of slots that became free."""
    return reported_evicted == (len(free_after) - len(free_before)) * page_size


@rule(
    "EVICT-03",
    on=(On.EVICT,),
    source="R-EV-01",
    reference="perform.least_valuable",
    allowed="victims outside {locked_names}",
    premise="locked_names",
)
def an_eviction_spares_what_is_locked(vanished: frozenset[Name], locked_names: frozenset[Name]) -> bool:
    """An eviction MUST NOT take a page that a receipt or a running request protects."""
    return vanished.isdisjoint(locked_names)


@rule(
    "EVICT-04",
    on=(On.EVICT,),
    source="R-EV-01, R-EV-09; vllm#4764",
    reference="perform.least_valuable",
    allowed="the free list grown by exactly the pages of the victims",
    premise="vanished",
)
def what_is_evicted_becomes_free(
    vanished: frozenset[Name],
    cached_before: Mapping[Name, PageNo],
    cached_after: Mapping[Name, PageNo],
    free_before: frozenset[PageNo],
    free_after: frozenset[PageNo],
) -> bool:
    """An eviction MUST free the pages of exactly the names that it removes, and change nothing else."""
    victims = {cached_before[name] for name in vanished}
    kept = {name: page for name, page in cached_before.items() if name not in vanished}
    return free_after == free_before | victims and cached_after == kept


@rule(
    "EVICT-05",
    on=(On.EVICT,),
    source="R-EV-03; sglang#18843, mini-sglang#124",
    reference="perform.least_valuable",
    allowed="{passed_over} first, as the policy orders",
    premise="vanished",
)
def victims_follow_the_policy(passed_over: frozenset[Name]) -> bool:
    """Victims MUST be taken in the order of the declared policy: no leaf is passed over for one that is worth more."""
    return not passed_over


@rule(
    "EVICT-06",
    on=(On.EVICT,),
    source="R-EV-04; sglang#4989",
    reference="perform.least_valuable",
    allowed="{needless} left alone",
    premise="vanished",
)
def an_eviction_stops_when_enough_is_free(needless: frozenset[Name]) -> bool:
    """An eviction MUST stop as soon as the target is reached: no victim is taken after that."""
    return not needless


@rule(
    "EVICT-07",
    kind=Kind.HISTORY,
    on=(On.AGAIN,),
    strength=Strength.SHOULD,
    source="R-EV-03",
    reference="perform.least_valuable",
    allowed="the victims of the first cache: {victims}",
    premise="victims",
)
def the_same_calls_have_the_same_victims(victims: Sequence[object], victims_again: Sequence[object]) -> bool:
    """Two fresh caches that get the same calls SHOULD evict the same pages: ties are broken by something that both have, else ranks drift apart."""
    return same(victims, victims_again)
