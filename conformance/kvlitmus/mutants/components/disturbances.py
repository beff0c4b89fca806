"""Ways to change a cache of components that nobody asked for, on either tier, behind any of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvlitmus.conformance.specimen.components.tree import ComponentEvictor, ComponentNode
from kvlitmus.mutants.disturb_kinds import Excuse, Gone, Way
from kvlitmus.mutants.prefix.disturbances import FOREIGN
from kvlitmus.spec.words.policies import SELECTIVE
from kvlitmus.spec.words.shapes import Chunk, Component, Derived, Point, Run, Shape, Window

OnTier = Callable[[Any, ComponentEvictor], bool]
"""Change one tier of a cache; whether that could be done."""

ANY = (Run, Window, Chunk, Point, Derived)
SHAPES: tuple[tuple[str, type[Shape]], ...] = (
    ("KV", Run),
    ("a window", Window),
    ("a chunk", Chunk),
    ("a state", Point),
    ("what is derived", Derived),
)
"""The shapes of components: each is a group of the state, with a pool and entries of its own."""


def device(cache: Any) -> ComponentEvictor:
    """The device of a cache."""
    found: ComponentEvictor = cache.tree
    return found


def host(cache: Any) -> ComponentEvictor | None:
    """The host of a cache, if it has one."""
    found: ComponentEvictor | None = getattr(cache, "copies", None)
    return found


def shaped(tier: ComponentEvictor, shapes: tuple[type[Shape], ...]) -> list[Component]:
    """The components of these shapes."""
    return [one for one in tier.components if isinstance(one.shape, shapes)]


def entries(tier: ComponentEvictor, shapes: tuple[type[Shape], ...] = ANY) -> list[tuple[ComponentNode, str]]:
    """What a tier has of components of these shapes, the least recently used first."""
    mine = shaped(tier, shapes)
    found = [(node, one.name) for node in tier.nodes() for one in mine if one.name in tier.tier.entries(node)]
    return sorted(found, key=lambda one: (one[0].used, -one[0].end))


def free_of(tier: ComponentEvictor, name: str) -> list[int]:
    """The free list of a component's pool."""
    pools = tier.tier.pools
    return pools.free[pools.pool_of[name]]


def held(tier: ComponentEvictor, node: ComponentNode, name: str) -> bool:
    """Whether somebody needs an entry."""
    return bool(tier.tier.locks(node).get(name))


def appears(*shapes: type[Shape]) -> OnTier:
    """An entry appears behind a prefix that is there, in a place that was free."""

    def change(_cache: Any, tier: ComponentEvictor) -> bool:
        for node in tier.nodes():
            for one in shaped(tier, shapes):
                there = node.end % one.unit == 0
                if there and one.name not in tier.tier.entries(node) and free_of(tier, one.name):
                    tier.put(node, one.name, free_of(tier, one.name).pop())
                    return True
        return False

    return change


def appears_anew(cache: Any, tier: ComponentEvictor) -> bool:
    """An entry of a prefix that nobody brought appears, in a place that was free."""
    base = tier.base
    if not free_of(tier, base.name):
        return False
    config = cache.config
    units = ((FOREIGN, FOREIGN) if config.bigram else FOREIGN,) * config.page_size
    root = tier.roots.setdefault(None, ComponentNode((), None, 0))
    node = root.children.setdefault(units, ComponentNode(units, root, config.page_size))
    if node.end % base.unit or base.name in tier.tier.entries(node):
        return False
    tier.put(node, base.name, free_of(tier, base.name).pop())
    return True


def vanishes(*shapes: type[Shape], locked: bool, newest: bool = False, returned: bool = True) -> OnTier:
    """An entry goes; its place is free, or lost."""

    def change(_cache: Any, tier: ComponentEvictor) -> bool:
        found = [(node, name) for node, name in entries(tier, shapes or ANY) if held(tier, node, name) == locked]
        if not found:
            return False
        node, name = found[-1 if newest else 0]
        place = tier.take(node, name)
        if returned:
            tier.tier.pools.give(name, [place])
        return True

    return change


def swaps(_cache: Any, tier: ComponentEvictor) -> bool:
    """Two entries have each other's place."""
    for one in tier.components:
        two = [tier.tier.entries(node) for node in tier.nodes() if one.name in tier.tier.entries(node)][:2]
        if len(two) > 1 and two[0][one.name] != two[1][one.name]:
            two[0][one.name], two[1][one.name] = two[1][one.name], two[0][one.name]
            return True
    return False


def moves(*shapes: type[Shape]) -> OnTier:
    """An entry is in another place, which was free, and its own is free."""

    def change(_cache: Any, tier: ComponentEvictor) -> bool:
        for node, name in entries(tier, shapes):
            free, there = free_of(tier, name), tier.tier.entries(node)
            if free:
                place = free.pop()
                free.append(there[name])
                there[name] = place
                return True
        return False

    return change


def leaks(*shapes: type[Shape]) -> OnTier:
    """A free place is nobody's."""

    def change(_cache: Any, tier: ComponentEvictor) -> bool:
        for one in shaped(tier, shapes):
            if free_of(tier, one.name):
                free_of(tier, one.name).pop()
                return True
        return False

    return change


def doubles(_cache: Any, tier: ComponentEvictor) -> bool:
    """The place of an entry is free, too."""
    for node, name in entries(tier):
        place = tier.tier.entries(node)[name]
        if place not in free_of(tier, name):
            tier.tier.pools.give(name, [place])
            return True
    return False


def repeats(_cache: Any, tier: ComponentEvictor) -> bool:
    """A free place is in its list twice."""
    for free in tier.tier.pools.free.values():
        if free:
            free.append(free[-1])
            return True
    return False


def exchanges(_cache: Any, tier: ComponentEvictor) -> bool:
    """A free place is exchanged for one that is held: as many are free as before."""
    for node, name in entries(tier):
        free, place = free_of(tier, name), tier.tier.entries(node)[name]
        if free and place not in free:
            free[-1] = place
            return True
    return False


def told_falsely(what: str) -> OnTier:
    """It is told of an entry that it came, or went, and it did not."""

    def change(_cache: Any, tier: ComponentEvictor) -> bool:
        found = entries(tier)
        if found:
            tier.told(what, *found[0])
        return bool(found)

    return change


def not_told(_cache: Any, tier: ComponentEvictor) -> bool:
    """What came or went last is not told."""
    waiting = tier.journal.waiting
    for at in reversed(range(len(waiting))):
        if waiting[at].tier == tier.tier.name:
            del waiting[at]
            return True
    return False


def told_twice(_cache: Any, tier: ComponentEvictor) -> bool:
    """What came or went last is told twice."""
    mine = [one for one in tier.journal.waiting if one.tier == tier.tier.name]
    tier.journal.waiting += mine[-1:]
    return bool(mine)


def unpinned(_cache: Any, tier: ComponentEvictor) -> bool:
    """What somebody needs, of one entry, is needed once less: a lock, a pin or a part of a cover is lost."""
    for node, name in entries(tier):
        if held(tier, node, name):
            tier.tier.locks(node)[name] -= 1
            return True
    return False


def all_unpinned(_cache: Any, tier: ComponentEvictor) -> bool:
    """Nothing is protected any more, whoever needs it."""
    found = [(node, name) for node, name in entries(tier) if held(tier, node, name)]
    for node, name in found:
        tier.tier.locks(node)[name] = 0
    return bool(found)


def pinned(_cache: Any, tier: ComponentEvictor) -> bool:
    """An entry that nobody needs is protected, for good: a cover grows."""
    for node, name in entries(tier):
        if not held(tier, node, name):
            tier.tier.locks(node)[name] = 1
            return True
    return False


def reversed_use(_cache: Any, tier: ComponentEvictor) -> bool:
    """The order in which entries were used is turned round."""
    used = [node for node in tier.nodes() if tier.tier.entries(node)]
    latest = max((node.used for node in used), default=0)
    if len({node.used for node in used}) < len("ab"):
        return False
    for node in used:
        node.used = latest - node.used
    return True


SHOWING: tuple[tuple[str, OnTier], ...] = (
    *((f"an entry of {what} appears at a prefix that is there", appears(shape)) for what, shape in SHAPES),
    ("an entry of a prefix appears that nobody brought", appears_anew),
    *((f"an entry of {what} goes, the least recently used", vanishes(shape, locked=False)) for what, shape in SHAPES),
    ("the entry that was used last goes", vanishes(locked=False, newest=True)),
    *((f"an entry of {what} goes that somebody needs", vanishes(shape, locked=True)) for what, shape in SHAPES),
    ("an entry goes, and its place is lost", vanishes(locked=False, returned=False)),
    ("two entries swap places", swaps),
    *((f"an entry of {what} moves to a free place", moves(shape)) for what, shape in SHAPES),
    *((f"a free place of {what} is lost", leaks(shape)) for what, shape in SHAPES),
    ("the place of an entry is free, too", doubles),
    ("a free place is listed twice", repeats),
    ("a free place is lost, and one that is held is free", exchanges),
    ("it is told that an entry came that was there", told_falsely("stored")),
    ("it is told that an entry went that is there", told_falsely("removed")),
    ("the last event is not told", not_told),
    ("the last event is told twice", told_twice),
)
"""What shows at once."""

LASTING: tuple[tuple[str, OnTier], ...] = (
    ("of an entry that is needed, one need is lost", unpinned),
    ("nothing is protected any more", all_unpinned),
    ("an entry is protected that nobody needs", pinned),
    ("the order of use is turned round", reversed_use),
)
"""What shows in what comes later."""


def on_tier(name: str, how: str, change: OnTier, *, lasting: bool) -> Way:
    """A way, on one tier."""
    of = {"device": device, "host": host}[name]

    def do(cache: Any, _call: Any, _gone: Gone) -> bool:
        tier = of(cache)
        return tier is not None and change(cache, tier)

    return Way(f"{name}: {how}", do, lasting)


def storage_turned(cache: Any, _call: Any, _gone: Gone) -> bool:
    """Storage is away, or there again, and nobody detached or attached it."""
    storage = getattr(cache, "storage", None)
    if storage is None:
        return False
    storage.attached = not storage.attached
    return True


def write_lost(cache: Any, _call: Any, _gone: Gone) -> bool:
    """The last write to storage that is under way is forgotten."""
    writing = getattr(getattr(cache, "storage", None), "writing", [])
    return bool(writing) and writing.pop() is not None


def uses_lost(cache: Any, _call: Any, _gone: Gone) -> bool:
    """How often prefixes were used is forgotten, by which the selective policy backs up."""
    policy = getattr(cache, "policy", None)
    if policy is None or policy.write != SELECTIVE or not policy.uses:
        return False  # by any other policy nobody goes by it
    policy.uses.clear()
    return True


STORAGE: tuple[Way, ...] = (
    Way("storage: it is away, or there again", storage_turned, lasting=True),
    Way("storage: a write that is under way is forgotten", write_lost, lasting=True),
    Way("the write policy: how often prefixes were used is forgotten", uses_lost, lasting=True),
)
"""What is of no tier, and shows in what comes later."""

WAYS: tuple[Way, ...] = (
    *(
        on_tier(name, how, change, lasting=lasting)
        for name in ("device", "host")
        for lasting, ways in ((False, SHOWING), (True, LASTING))
        for how, change in ways
    ),
    *STORAGE,
)
"""All ways, on both tiers, and on neither."""

HANDED = (
    "whoever asked for it has it, as a receipt; what it protects is disturbed on its tier: one need is lost, or all"
)
PLAIN = "only plain caches and hierarchies have it, and are disturbed there"
GROUPS: Mapping[str, str] = {
    "device": "device: an entry of",
    "host": "host: an entry of",
    "beside": "device: an entry of",
    "free": "device: a free place of",
    "copies": "device: two entries swap places",
    "told": "device: it is told that",
    "tiers": "storage: it is away",
    "under_way": "storage: a write",
    "used": "the write policy: how often",
}
"""By which ways each part of what is known (:class:`~kvlitmus.spec.prefix.state.State`) is disturbed."""

OF_A_TIER: Mapping[str, str] = {
    "pages": "an entry of",
    "doubt": "an entry of",
    "clock": "the order of use",
}
"""The same of what is known of a tier (:class:`~kvlitmus.spec.prefix.page.Tier`); each is disturbed on both."""

NOT_DISTURBED: Mapping[str, str] = {
    "fetches": "whoever asked for it has it, with its places: POOL-12 notices where one of these gets another home",
    "owned": "the caller has it: POOL-12 notices where such a place gets another home",
    "covers": HANDED,
    "requests": HANDED,
    "longest": "it is worked out from what calls brought",
    **dict.fromkeys(
        (
            *("owners", "receipts", "contents", "works"),
            *("table", "late", "leaving", "retracted", "unlocking"),
        ),
        PLAIN,
    ),
}
"""The other parts, each with the reason."""

EXCUSES: tuple[Excuse, ...] = ()
"""What no rule notices: nothing."""
