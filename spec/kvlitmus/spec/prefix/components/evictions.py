"""What an eviction may take of a cache of components: of each component how many entries, and which.

It takes what is asked for, by node the rest of the last node, and what goes along by the profile: with KV the entries of
the same prefix (``base``), with an entry at the end of a path the KV there (``leaf``), and with any entry those of the components
after its own for the same prefix (``later``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from kvlitmus.spec.prefix.components.state import asked_components
from kvlitmus.spec.prefix.page import At, Place, Stored
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import WHOLE_LEAVES
from kvlitmus.spec.words.units import Name


def longest_node(setting: Setting, state: State) -> int:
    """How many entries of KV may go at once: one, or by node those of the longest node."""
    return max(1, state.longest) if setting.profile.evict_granularity == "node" else 1


def freed_most(setting: Setting, state: State, wants: Mapping[str, int], times: int = 1) -> Mapping[str, int]:
    """How many entries of each component an eviction of so many may take, or so many evictions together.

    Whoever is asked for gives no more than that, and by node the rest of the last node of each eviction.  With each entry
    that is asked for of another component, one goes along, or by node those of one node, where the profile lets it.
    """
    cascade, node = setting.profile.component_cascade, longest_node(setting, state)
    touched = asked_components(setting.layout, wants, cascade)
    most = dict.fromkeys(setting.layout.components_by_name, 0)
    for name in touched:
        own = wants.get(name, 0)
        takers = () if cascade == "none" else wants if cascade in WHOLE_LEAVES else (setting.layout.base.name,)
        along = sum(wants.get(other, 0) for other in takers if other != name)
        most[name] = own + (times * (node - 1) if own else 0) + along * node
    return most


def rightly_gone(setting: Setting, state: State, wants: Mapping[str, int], gone: Collection[At]) -> frozenset[At]:
    """Which of the entries that are gone such an eviction may have taken.

    Those of the components that are asked for; with KV that is gone what belonged to its prefix; where leaves go whole, KV
    at whose prefix, or by node in whose node, an entry is gone that was asked for; and, where later components go along,
    what these had for the same prefix.
    """
    asked = {name for name, many in wants.items() if many > 0}
    cascade, base = setting.profile.component_cascade, setting.layout.base.name
    right = {at for at in gone if at[0] in asked}
    if cascade in WHOLE_LEAVES and base not in asked:
        ends = {name for _, name in right}
        back = (longest_node(setting, state) - 1) * setting.layout.base.unit
        near = ends.union(*[prefixes(setting, name, back) for name in ends])
        right |= {at for at in gone if at[0] == base and not near.isdisjoint({at[1], *prefixes(setting, at[1], back)})}
    if cascade == "later":
        number = {one.name: at for at, one in enumerate(setting.layout.components)}
        first = {name: min(number[other] for other, at in right if at == name) for _, name in right}
        right |= {at for at in gone if at[1] in first and number[at[0]] > first[at[1]]}
    if cascade != "none":
        bare = {name for component, name in right if component == base}
        right |= {at for at in gone if at[1] in bare}
    return frozenset(right)


def taken_for(
    setting: Setting,
    state: State,
    lost: Collection[Stored],
    fresh: Collection[Place],
    spare: Mapping[str, int],
) -> frozenset[Stored]:
    """Which of the entries that are lost a request may have taken that got these places.

    What was in them; and where more goes with an entry, or its node, what one eviction after another could take, of the pools that the places
    are of, until it has them.  ``spare``: the places of each pool that are free then, without those that it gave back.
    """
    layout = setting.layout
    # What is cached again, for the same prefix in the same place, was evicted as well.
    right = {one for one in state.stored if (layout.named(one[0][0]).pool, one[1]) in fresh}
    got = Counter(pool for pool, _ in fresh)
    evicted, profile = right.union(lost), setting.profile
    more = profile.component_cascade != "none" or profile.evict_granularity == "node"
    if more and _ends_with_room(setting, state, evicted, got, spare):
        wants = {one.name: got[one.pool] for one in layout.components}
        along = rightly_gone(setting, state, wants, {at for at, _ in evicted})
        right |= {one for one in lost if one[0] in along}
    return frozenset(right)


def _ends_with_room(
    setting: Setting,
    state: State,
    lost: Collection[Stored],
    got: Mapping[str, int],
    spare: Mapping[str, int],
) -> bool:
    """Whether evictions of what is lost can have been one after the other, each while some pool still lacked places.

    Then there are no more of them than places were got, and of some pool less is to spare than the last one freed.
    """
    evictions, node = _evictions(setting, lost), longest_node(setting, state)
    if len(evictions) > node * sum(got.values()):
        return False
    freed = {pool: sorted((one[pool] for one in evictions), reverse=True) for pool in got}
    return any(spare[pool] < sum(freed[pool][:node]) for pool in got)


def _evictions(setting: Setting, lost: Collection[Stored]) -> list[Counter[str]]:
    """How much each eviction frees of each pool, where as few as can be take so much, one entry after the other.

    One for each prefix of which an entry goes that takes the others along, otherwise one for each entry.
    """
    layout, later = setting.layout, setting.profile.component_cascade == "later"
    together = {at[1] for at, _ in lost if later or at[0] == layout.base.name}
    found: dict[object, Counter[str]] = {}
    for at, place in lost:
        one = at[1] if at[1] in together else (at, place)
        found.setdefault(one, Counter())[layout.named(at[0]).pool] += 1
    return list(found.values())


def prefixes(setting: Setting, name: Name, back: int) -> frozenset[Name]:
    """The prefixes of one that are shorter by up to so many units."""
    found = set[Name]()
    for _ in range(min(back, len(setting.names.prefix(name)[1]) - 1)):
        name = setting.names.parent(name)
        found.add(name)
    return frozenset(found)
