"""Mutants of a cache of components, and legal variations of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentTree, WindowWalk
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.words.shapes import Component, Run
from kvlitmus.spec.words.units import Key

_SGLANG = "https://github.com/sgl-project/sglang/"
_VLLM = "https://github.com/vllm-project/vllm/"
CAPPED = replace(PROFILE, match_cap="len-1")


def at(*layouts: str) -> tuple[Config, ...]:
    """The configurations of these layouts, at pages of four."""
    return tuple(Config(page_size=4, pages=16, components=name) for name in layouts)


HYBRID = at("kv+swa+state")
WINDOWED = at("kv+swa")
STATED = at("kv+state")
SHARED = at("groups")
BIGRAMS = (Config(page_size=4, pages=16, components="kv+swa", bigram=True),)

# Hits


@mutant(
    "component-hit-of-the-main-pool",
    bugs=("S101",),
    links=(f"{_SGLANG}issues/39147", f"{_SGLANG}pull/39267"),
    kills=("TREE-02",),
    configs=HYBRID,
)
class HitOfTheMainPool(ComponentTree):
    """The length of a hit is that of the KV; nobody looks again whether the others have anything at its end."""

    def match(self, key: Key) -> ComponentNode | None:
        self.clock += 1
        best = None
        for node in self.walk(key):
            if self.components[0].name not in node.places:
                break
            best = node
        return best


@mutant("component-hit-is-the-least", bugs=("H-17",), kills=("TREE-02",), configs=HYBRID)
class HitIsTheLeast(ComponentTree):
    """Each component says how far it reaches, and the least of that is the hit: it may be good for none."""

    def match(self, key: Key) -> ComponentNode | None:
        self.clock += 1
        path = list(self.walk(key))
        ends = []
        for one in self.components:
            walk = self.walker(one)
            ends.append(max((node.end for node in path if walk.goes_on(node)), default=0))
        return next((node for node in path if node.end == min(ends)), None)


@mutant(
    "component-hit-is-raised",
    bugs=("V09",),
    links=(f"{_VLLM}pull/45614", f"{_VLLM}pull/46281"),
    kills=("TREE-02",),
    configs=SHARED,
)
class HitIsRaised(ComponentTree):
    """The state's group goes on a block further than the others and raises the common length to its own."""

    def match(self, key: Key) -> ComponentNode | None:
        best = super().match(key)
        for node in self.walk(key):
            if "state" in node.places and (best is None or node.end > best.end):
                best = node
        return best


@mutant("component-clipped-window-counts", bugs=("H-18",), kills=("TREE-02",), configs=WINDOWED)
class ClippedWindowCounts(ComponentTree):
    """Of a window of two pages the last one is enough: what is left of it is taken for all of it."""

    def walker(self, component: Component) -> WindowWalk:
        walk = super().walker(component)
        walk.reach = min(walk.reach, component.unit)
        return walk


@mutant(
    "component-drops-after-the-window",
    bugs=("V05",),
    links=(f"{_VLLM}pull/17398",),
    kills=("TREE-02",),
    profile=CAPPED,
    configs=WINDOWED,
)
class DropsAfterTheWindow(ComponentTree):
    """The last page is dropped from a whole hit after the window was checked: before it there may be none."""

    def match(self, key: Key) -> ComponentNode | None:
        walks = [self.walker(one) for one in self.components]
        best = None
        for node in self.walk(key):
            usable = [walk.goes_on(node) for walk in walks]
            if all(usable):
                best = node
        if best is not None and best.end == len(key.units):
            best = best.above if best.above is not None and best.above.above is not None else None
        return best


@mutant(
    "component-drops-for-each",
    bugs=("V07",),
    links=(f"{_VLLM}pull/33270", f"{_VLLM}issues/32802"),
    kills=("TREE-02", "EVENT-09"),
    profile=CAPPED,
    configs=at("kv+index"),
)
class DropsForEach(ComponentTree):
    """The last page is dropped once for every component that is asked: hits are shorter than they could be."""

    def match(self, key: Key) -> ComponentNode | None:
        best = super().match(key)
        for _ in self.components[1:]:
            if best is not None:
                best = best.above
        return best if best is not None and best.above is not None else None


@mutant("component-cap-is-ignored", kills=("TREE-02",), profile=CAPPED, configs=(*STATED, *WINDOWED))
class CapIsIgnored(ComponentTree):
    """A hit may be the whole key, though the profile leaves a unit: nothing is left to run the model on."""

    def match(self, key: Key) -> ComponentNode | None:
        return super().match(Key(key.namespace, (*key.tokens, -1), key.bigram))


@mutant("component-state-of-what-follows", kills=("TREE-02",), configs=STATED)
class StateOfWhatFollows(ComponentTree):
    """Where a prefix was split off, the state of the longer key counts for it: it is tokens ahead."""

    def match(self, key: Key) -> ComponentNode | None:
        best = super().match(key)
        for node in self.walk(key):
            if "kv" in node.places and any("state" in child.places for child in node.children.values()):
                best = node if best is None or node.end > best.end else best
        return best


@mutant("component-entries-from-the-end", kills=("TREE-03",), configs=WINDOWED)
class EntriesFromTheEnd(ComponentTree):
    """The entries of a hit are collected from its end towards the root and handed out like that."""

    def needed(self, component: Component, node: ComponentNode) -> list[ComponentNode]:
        return super().needed(component, node)[::-1]


# Memory


@mutant(
    "component-refusal-keeps-a-part",
    bugs=("S22",),
    links=(f"{_SGLANG}pull/16067",),
    kills=("POOL-08", "POOL-12"),
    configs=(*STATED, *SHARED),
)
class RefusalKeepsAPart(ComponentPools):
    """The first component is granted before the second turns out to be short; what it got is given back by nobody."""

    def alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        granted: dict[str, list[int]] = {}
        for name, many in wants.items():
            one = super().alloc({name: many})
            if one is None:
                return None
            granted |= one
        return granted


@mutant("component-grant-is-cut-short", kills=("POOL-01",), configs=SHARED)
class GrantIsCutShort(ComponentPools):
    """Each component alone fits in the pool that they share; the last one gets what is left."""

    def alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        if not all(self.enough({name: many}) for name, many in wants.items()):
            return None
        granted: dict[str, list[int]] = {}
        for name, many in wants.items():
            free = self.free[self.pool_of[name]]
            granted[name] = [free.pop() for _ in range(min(many, len(free)))]
        return granted


@mutant("component-place-for-two", kills=("POOL-03",), configs=SHARED)
class PlaceForTwo(ComponentPools):
    """Components that share a pool each read its free list from the same end; only the longest part is taken off."""

    def alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        if not self.enough(wants):
            return None
        granted = {}
        for name, many in wants.items():
            free = self.free[self.pool_of[name]]
            granted[name] = free[len(free) - many :]
        for free in self.free.values():
            most = max((many for name, many in wants.items() if self.free[self.pool_of[name]] is free), default=0)
            del free[len(free) - most :]
        return granted


@mutant("component-pool-refuses-its-last", kills=("POOL-07",), configs=(*STATED, *WINDOWED))
class PoolRefusesItsLast(ComponentPools):
    """A pool is taken for short when it would be emptied: its last place is never used."""

    def enough(self, wants: Mapping[str, int]) -> bool:
        more = {name: many + 1 if many else 0 for name, many in wants.items()}
        return super().enough(more)


# Inserts


@mutant(
    "component-vetoes-the-others",
    bugs=("S73",),
    links=(f"{_SGLANG}pull/29351",),
    kills=(
        "TREE-09",
        "TREE-11",
    ),
    configs=(*STATED, *WINDOWED),
)
class VetoesTheOthers(ComponentTree):
    """Where one component brings nothing for a page, nothing is cached for it: KV that was computed is thrown away."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        whole = [end for end in entries.get("kv", {}) if all(end in some for some in entries.values())]
        kept = {name: {end: some[end] for end in whole if end in some} for name, some in entries.items()}
        left = super().insert(key, kept)
        for name, some in entries.items():
            left[name] += [place for end, place in some.items() if end not in whole]
        return left


@mutant(
    "component-tombstones-stay",
    kills=(
        "TREE-09",
        "TREE-11",
    ),
    configs=WINDOWED,
)
class TombstonesStay(ComponentTree):
    """A page that is there is taken for whole: what was brought for its tombstone is left, and hits stay short."""

    def fill(self, node: ComponentNode, name: str, place: int, left: list[int]) -> None:
        if name != "kv" and node.used != self.clock:
            left.append(place)
        else:
            super().fill(node, name, place, left)


@mutant(
    "component-recovery-frees-twice",
    bugs=("S53",),
    links=(f"{_SGLANG}pull/27586", f"{_SGLANG}issues/27789"),
    kills=("TREE-12", "TREE-22", "POOL-12"),
    configs=WINDOWED,
)
class RecoveryFreesTwice(ComponentTree):
    """Filling a tombstone also frees what an index that was never cleared still says that its window had."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.stale: dict[ComponentNode, int] = {}

    def fill(self, node: ComponentNode, name: str, place: int, left: list[int]) -> None:
        if name == "swa" and name not in node.places:
            if node in self.stale:
                self.pools.give(name, [self.stale[node]])
            self.stale[node] = place
        super().fill(node, name, place, left)


@mutant(
    "component-state-ahead-of-its-node",
    bugs=("S83",),
    links=(f"{_SGLANG}pull/34760",),
    kills=("COMP-15", "TREE-03"),
    configs=STATED,
)
class StateAheadOfItsNode(ComponentTree):
    """The key is cut to a coarser page than the state was taken at: the state is cached a page too early."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        states = {max(self.size, end - self.size): place for end, place in entries.get("state", {}).items()}
        given = dict(entries)
        if len(states) == len(entries.get("state", {})) and states:
            given["state"] = states
        return super().insert(key, given)


@mutant(
    "component-frontier-of-the-tokens",
    bugs=("S42",),
    links=(f"{_SGLANG}pull/34870", f"{_SGLANG}pull/40681"),
    kills=(
        "TREE-09",
        "TREE-11",
    ),
    configs=BIGRAMS,
)
class FrontierOfTheTokens(ComponentTree):
    """A window is measured from where the tokens of a key end, not its bigrams: it is cut a page short."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        window, brought = self.components[1], entries.get("swa", {})
        live, due = (self.first_needed(window, many - many % self.size) for many in (len(key.tokens), len(key.units)))
        behind = {end: place for end, place in brought.items() if due < end <= live}
        left = super().insert(key, {**entries, "swa": {end: brought[end] for end in brought if end not in behind}})
        left["swa"] += behind.values()
        return left


# Locks


@mutant("component-lock-of-the-kv-alone", kills=("COMP-10",), configs=HYBRID)
class LockOfTheKvAlone(ComponentTree):
    """A lock protects the KV of the path; the window and the state behind the same hit may be evicted meanwhile."""

    def lock(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        cover = {
            one.name: self.needed(one, node) if node and isinstance(one.shape, Run) else [] for one in self.components
        }
        return self.keep(cover)


@mutant(
    "component-lock-is-too-wide",
    bugs=("S71",),
    links=(f"{_SGLANG}pull/28161", f"{_SGLANG}pull/23882"),
    kills=("COMP-10",),
    configs=WINDOWED,
)
class LockIsTooWide(ComponentTree):
    """A lock protects the window's entries of the whole path: what the window has left behind can't be evicted."""

    def lock(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        cover = super().lock(node)
        more = [one for one in cover["kv"] if "swa" in one.places and one not in cover["swa"]]
        for one in more:
            one.locks["swa"] = one.locks.get("swa", 0) + 1
        return cover | {"swa": more + cover["swa"]}


@mutant("component-unlock-walks-again", bugs=("H-37",), kills=("COMP-12", "LOCK-01"), configs=WINDOWED)
class UnlockWalksAgain(ComponentTree):
    """A receipt is given back by walking up the path anew: what came since loses a protection that it never had."""

    def unlock(self, cover: Mapping[str, Sequence[ComponentNode]]) -> None:
        super().unlock(cover)
        for node in cover.get("kv", ()):
            if "swa" in node.places and node not in cover["swa"]:
                node.locks["swa"] = node.locks.get("swa", 0) - 1


# Evictions


@mutant("component-eviction-ignores-locks", kills=("COMP-13", "LOCK-01"), configs=(*STATED, *WINDOWED))
class EvictionIgnoresLocks(ComponentTree):
    """Of the components beside the KV whatever is oldest goes, protected or not: a running request loses its window."""

    def evictable(self, component: Component) -> list[ComponentNode]:
        if isinstance(component.shape, Run):
            return super().evictable(component)
        return [node for node in self.nodes() if component.name in node.places]


@mutant(
    "component-leaf-under-a-lock",
    bugs=("S37", "S71"),
    links=(f"{_SGLANG}issues/21379", f"{_SGLANG}pull/21406", f"{_SGLANG}pull/28161"),
    kills=("COMP-13", "LOCK-01", "TREE-02"),
    profile=replace(PROFILE, component_cascade="leaf"),
    configs=at("kv+chunk"),
)
class LeafUnderALock(ComponentTree):
    """An eviction of another component looks at its own locks alone, and takes the leaf whose KV is read."""

    def goes_with(self, node: ComponentNode, name: str) -> list[str]:
        return list(node.places) if self.is_leaf(node) or name == "kv" else [name]


@mutant("component-state-takes-the-node", kills=("COMP-13", "COMP-16", "TREE-05"), configs=STATED)
class StateTakesTheNode(ComponentTree):
    """Evicting a state removes its page, in the middle of a path too, where only a tombstone should be left."""

    def goes_with(self, node: ComponentNode, name: str) -> list[str]:
        return super().goes_with(node, name) if node.locks.get("kv") else list(node.places)


@mutant("component-kv-goes-from-the-middle", kills=("TREE-05",), configs=(*STATED, *WINDOWED))
class KvGoesFromTheMiddle(ComponentTree):
    """The oldest page goes though KV behind it is cached: what is left can be reached by nobody, and holds memory."""

    def is_leaf(self, node: ComponentNode) -> bool:
        return True


@mutant(
    "component-eviction-frees-a-tombstone",
    bugs=("S99",),
    links=(f"{_SGLANG}pull/38269",),
    kills=("EVICT-02", "POOL-12"),
    configs=WINDOWED,
)
class EvictionFreesATombstone(ComponentTree):
    """With KV that goes its window's place is freed, also where it had none: place 0 is free twice, or somebody's."""

    def goes_with(self, node: ComponentNode, name: str) -> list[str]:
        if name == "kv" and "swa" not in node.places:
            self.pools.give("swa", [0])
        return super().goes_with(node, name)


@mutant("component-orphans-stay", kills=("COMP-19",), configs=WINDOWED)
class OrphansStay(ComponentTree):
    """KV is evicted and the window's entry of the same page is not, though the profile says that it goes with it."""

    def goes_with(self, node: ComponentNode, name: str) -> list[str]:
        return [name]


@mutant("component-eviction-stops-early", kills=("COMP-12",), configs=(*STATED, *WINDOWED))
class EvictionStopsEarly(ComponentTree):
    """However much is asked for, one entry is freed: the allocation behind it is refused though memory could be had."""

    def evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        return super().evict({name: min(many, 1) for name, many in wants.items()})


@mutant("component-eviction-of-two-empties-both", kills=("COMP-13",), configs=(*HYBRID, *STATED))
class EvictionOfTwoEmptiesBoth(ComponentTree):
    """An eviction that is asked for several components takes all that it can of each, however little would do."""

    def evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        if sum(many > 0 for many in wants.values()) > 1:
            wants = {name: self.pools.layout.places[self.pools.pool_of[name]] for name, many in wants.items() if many}
        return super().evict(wants)


@mutant("component-kv-takes-windows-elsewhere", kills=("COMP-13", "COMP-16"), configs=WINDOWED)
class KvTakesWindowsElsewhere(ComponentTree):
    """With KV that is evicted go the windows that nobody reads of other prompts: their hits grow short."""

    def evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        freed = super().evict(wants)
        if freed["kv"]:
            for node in [node for node in self.nodes() if "swa" in node.places and not node.locks.get("swa")]:
                self.pools.give("swa", [self.take(node, "swa")])
                freed["swa"] += 1
        return freed


@mutant(
    "component-leaf-is-another",
    kills=("COMP-16",),
    profile=replace(PROFILE, component_cascade="leaf"),
    configs=WINDOWED,
)
class LeafIsAnother(ComponentTree):
    """With a window's entry at the end of a path goes the oldest KV at the end of any path."""

    def evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        freed = super().evict({"kv": wants.get("kv", 0)})
        for _ in range(wants.get("swa", 0)):
            if choices := self.evictable(self.components[1]):
                victim = min(choices, key=lambda node: (node.used, -node.end))
                self.pools.give("swa", [self.take(victim, "swa")])
                others = super().evict({"kv": 1})
                freed = {name: many + others[name] + (name == "swa") for name, many in freed.items()}
        return freed


@mutant("component-match-drops-the-window", kills=("COMP-16",), configs=WINDOWED)
class MatchDropsTheWindow(ComponentTree):
    """A match frees the entries that the window of this hit has left behind, which shorter keys still need."""

    def match(self, key: Key) -> ComponentNode | None:
        best = super().match(key)
        if best is not None:
            kept = self.needed(self.components[1], best)
            for node in self.walk(key):
                if node.end < best.end and node not in kept and "swa" in node.places and not node.locks.get("swa"):
                    self.pools.give("swa", [self.take(node, "swa")])
        return best


# Legal


@null_mutant("component-windows-are-full", profile=replace(PROFILE, window_root="full"), configs=COMPONENT_CONFIGS)
class WindowsAreFull(ComponentTree):
    """A prefix that is shorter than the window is of no use, as the profile declares."""


@null_mutant("components-go-alone", profile=replace(PROFILE, component_cascade="none"), configs=COMPONENT_CONFIGS)
class ComponentsGoAlone(ComponentTree):
    """Nothing goes with an evicted entry, as in caches of block groups; the profile says so."""


@null_mutant("component-leaves-go-whole", profile=replace(PROFILE, component_cascade="leaf"), configs=COMPONENT_CONFIGS)
class LeavesGoWhole(ComponentTree):
    """With an entry at the end of a path all that is there goes, as the profile declares."""


@null_mutant(
    "component-entries-take-later-ones", profile=replace(PROFILE, component_cascade="later"), configs=COMPONENT_CONFIGS
)
class EntriesTakeLaterOnes(ComponentTree):
    """With a window's entry the state of its prefix goes, which no hit can use without it, as the profile declares."""


@null_mutant("component-match-leaves-a-unit", profile=CAPPED, configs=COMPONENT_CONFIGS)
class MatchLeavesAUnit(ComponentTree):
    """A hit leaves at least one unit to compute, as the profile declares."""


@null_mutant("component-newest-goes-first", profile=replace(PROFILE, component_order="own"), configs=COMPONENT_CONFIGS)
class NewestGoesFirst(ComponentTree):
    """What was used last goes first: the order of evictions is the cache's own, as the profile declares."""

    def evictable(self, component: Component) -> list[ComponentNode]:
        found = super().evictable(component)
        newest = max((node.used for node in found), default=0)
        return [node for node in found if node.used == newest]


@null_mutant("component-lowest-place-first", configs=COMPONENT_CONFIGS)
class LowestPlaceFirst(ComponentPools):
    """Free places are handed out from the lowest on; which ones they are is the pool's choice."""

    def alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        for free in self.free.values():
            free.sort(reverse=True)
        return super().alloc(wants)
