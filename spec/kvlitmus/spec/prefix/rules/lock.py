"""Locks: what must not go away while somebody uses it.

Taking a **lock** on a matched place protects the path from there to the root and returns a
**receipt**; giving the receipt back ends the protection.  Locks nest and overlap: a page is
protected as long as any receipt covers it, and each receipt is worth exactly what was taken
with it, whatever was split or inserted in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix import late_locks as _late_locks  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import evict as _evict  # noqa: F401 - its facts
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.words.units import Name, PageNo, Tokens

lock_rule = partial(rule, reference="prefix.perform.lock")


@rule(
    "LOCK-01",
    needs=("lookup",),
    source="R-LK-01, R-EV-01; LMCache#993",
    reference="prefix.perform.least_valuable",
    allowed="{locked_pages} still cached where they were",
    premise="locked_pages",
)
def what_is_locked_stays_where_it_is(
    locked_pages: AbstractSet[tuple[Name, PageNo]], cached_places: AbstractSet[tuple[Name, PageNo]]
) -> bool:
    """A page that a receipt, a running request or a copy under way protects MUST stay cached in the same place."""
    return locked_pages <= cached_places


@rule(
    "LOCK-02",
    needs=("counters", "inspect"),
    source="R-LK-02; sglang#10637, mllm#656",
    reference="prefix.perform.sizes",
    allowed="evictable {unlocked_count}, protected {locked_count}, by the profile's unlock_delay",
)
def the_tree_counts_what_is_protected(
    evictable: Tokens, protected: Tokens, unlocked_count: Tokens, locked_count: Tokens, late_count: Tokens
) -> bool:
    """The tree's counters of evictable and protected units MUST equal a recount over its pages. What a lock protected that was given back may count as protected for as long as the profile says."""
    late = protected - locked_count
    return 0 <= late <= late_count and evictable == unlocked_count - late


@lock_rule("LOCK-03", needs=("locks", "inspect"), source="R-LK-03", premise="node_locks")
def a_parent_is_locked_at_least_as_often_as_its_child(lock_inversions: Sequence[tuple[int, int]]) -> bool:
    """A node MUST be locked at least as often as each of its children."""
    return not lock_inversions


@lock_rule(
    "LOCK-04",
    needs=("lookup", "inspect"),
    source="R-LK-04, R-LK-05; sglang#29471, mini-sglang#45, bytedance/sglang#508",
    allowed="as many locks as receipts on every node, and as copies, by the profile's copy_locks and unlock_delay",
    premise="node_locks",
)
def every_node_has_as_many_locks_as_receipts(node_locks: Sequence[tuple[int, int]]) -> bool:
    """A node MUST carry exactly one lock for each receipt and each running request that covers it, and, unless the profile says that these protect apart, for each copy under way between device and host. Where the profile has an unlock_delay, those that were given back may be carried so long."""
    return all(locks == receipts for locks, receipts in node_locks)


@rule(
    "LOCK-06",
    needs=("counters",),
    source="R-LK-05; LMCache#1075",
    reference="prefix.perform.unlock",
    allowed="nothing protected",
    premise="quiet",
)
def nothing_is_protected_when_nobody_holds_a_lock(quiet: bool, protected: Tokens) -> bool:
    """When no receipt is out, no request runs, and the profile's unlock_delay has passed, the tree MUST count nothing as protected."""
    return not quiet or protected == 0


@lock_rule(
    "LOCK-07",
    on=(On.LOCK, On.UNLOCK),
    needs=("counters",),
    source="R-LK-04; vllm#11565",
    allowed="evictable + protected unchanged",
)
def locking_only_shifts_between_the_counters(
    evictable_before: Tokens, protected_before: Tokens, evictable: Tokens, protected: Tokens
) -> bool:
    """Taking or giving back a lock MUST move units between evictable and protected and lose none."""
    return evictable_before + protected_before == evictable + protected
