"""Mutants of prefetches of several components."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.conformance.specimen.components.prefetch import ComponentFetch, ComponentFetcher, Places
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.mutants.components.tree import HYBRID, SHARED, STATED, WINDOWED, at
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.shapes import Component, Derived, Point, Run, Window
from kvlitmus.spec.words.units import Key

_SGLANG = "https://github.com/sgl-project/sglang/"
INDEXED = at("kv+index")

# Admission


@mutant("component-prefetch-keeps-its-anchor", kills=("COMP-12",), configs=STATED)
class KeepsItsAnchor(ComponentFetcher):
    """A prefetch that is refused leaves its anchor protected: that KV can never be evicted again."""

    def begin(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        fetch, freed = super().begin(node, key, threshold)
        if fetch is None:
            self.protect(node)
        return fetch, freed


@mutant(
    "component-prefetch-keeps-the-kv",
    links=(f"{_SGLANG}pull/26945",),
    kills=("POOL-10", "POOL-12"),
    configs=STATED,
)
class KeepsTheKv(ComponentFetcher):
    """KV is allocated before the state; where there is no state the prefetch ends, and nobody gives the KV back."""

    def reserve(self, length: int) -> Places | None:
        buffers: Places = {}
        for name, many in self.wants(length).items():
            one = self.pools.alloc({name: many})
            if one is None:
                return None
            buffers |= one
        return buffers


@mutant("component-prefetch-without-its-state", kills=("COMP-21",), configs=STATED)
class WithoutItsState(ComponentFetcher):
    """No state is free and the prefetch starts all the same: its KV takes memory and can be used at no boundary."""

    def reserve(self, length: int) -> Places | None:
        wants = self.wants(length)
        short = self.short(wants) - {self.base.pool}
        kept = {name: 0 if self.pools.pool_of[name] in short else many for name, many in wants.items()}
        return self.pools.alloc(kept)


@mutant(
    "component-prefetch-cuts-the-window",
    links=(f"{_SGLANG}pull/27264",),
    kills=("COMP-21",),
    configs=WINDOWED,
)
class CutsTheWindow(ComponentFetcher):
    """A window is reserved as far as the prefetch or its pool reaches: a part of one, with which nobody can go on."""

    def want(self, component: Component, length: int) -> int:
        if isinstance(component.shape, Window):
            return min(self.window(component.shape, component.unit), length // component.unit)
        return super().want(component, length)


@mutant("component-prefetch-rounds-the-window-down", kills=("COMP-21",), configs=WINDOWED)
class RoundsTheWindowDown(ComponentFetcher):
    """Of a window only the pages that it fills are reserved: the tokens of its first page are missing."""

    def window(self, shape: Window, unit: int) -> int:
        return max(1, shape.reach // unit)


@mutant("component-prefetch-refuses-what-is-short", kills=("COMP-22",), configs=WINDOWED)
class RefusesWhatIsShort(ComponentFetcher):
    """A prefetch that is shorter than the window is given up, though its KV could be fetched without one."""

    def reserve(self, length: int) -> Places | None:
        wants = self.wants(length)
        return None if wants.get("swa") == 0 else self.pools.alloc(wants)


@mutant(
    "component-prefetch-is-given-up",
    links=(f"{_SGLANG}pull/26945",),
    kills=("COMP-22",),
    configs=STATED,
)
class IsGivenUp(ComponentFetcher):
    """Where there is no memory for all of the KV nothing is fetched, though a part of it would do."""

    def cut(self, length: int) -> int:
        return length if super().cut(length) == length else 0


@mutant(
    "component-prefetch-third-allocation-unseen",
    links=(f"{_SGLANG}pull/26945",),
    kills=("COMP-20",),
    configs=STATED,
)
class ThirdAllocationUnseen(ComponentFetcher):
    """Nobody looks at what the allocation after the cut answered: a prefetch without KV is under way."""

    def reserve(self, length: int) -> Places | None:
        return super().reserve(length) or {one.name: [] for one in self.components}

    def cut(self, length: int) -> int:
        return super().cut(length) or length


@mutant("component-prefetch-forgets-the-threshold", kills=("COMP-20", "COMP-22"), configs=STATED)
class ForgetsTheThreshold(ComponentFetcher):
    """After the KV was cut nobody asks again whether it is worth it."""

    def begin(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        whole = (len(key.units) - (node.end if node else 0)) // self.tree.step * self.tree.step
        return super().begin(node, key, 0) if whole >= threshold else (None, {})


@mutant("component-prefetch-cuts-by-the-entry", kills=("COMP-20", "COMP-22"), configs=SHARED)
class CutsByTheEntry(ComponentFetcher):
    """The KV is cut to as many entries as there are, whatever the other components are aligned to."""

    def cut(self, length: int) -> int:
        while length and self.base.pool in self.short(self.wants(length)):
            length -= self.base.unit
        return length


@mutant("component-prefetch-states-by-the-page", kills=("COMP-21",), configs=STATED)
class StatesByThePage(ComponentFetcher):
    """A state is reserved for each page that is fetched: short of KV fewer are, and all but one are never used."""

    def want(self, component: Component, length: int) -> int:
        return length // component.unit if isinstance(component.shape, Point) else super().want(component, length)


@mutant("component-prefetch-counts-each-alone", kills=("COMP-22",), configs=SHARED)
class CountsEachAlone(ComponentFetcher):
    """Each component is looked at alone, though they share a pool: the KV isn't cut, and the prefetch is refused."""

    def short(self, wants: Mapping[str, int]) -> set[str]:
        pools = self.pools
        return {pools.pool_of[name] for name, many in wants.items() if len(pools.free[pools.pool_of[name]]) < many}


@mutant("component-prefetch-evicts-again", kills=("COMP-13",), configs=(*STATED, *WINDOWED))
class EvictsAgain(ComponentFetcher):
    """Having made room it makes room again before it allocates: twice as much is lost as is needed."""

    def make_room(self, length: int) -> dict[str, int]:
        freed = super().make_room(length)
        if freed:
            for name, many in self.tree.evict(self.wants(length)).items():
                freed[name] += many
        return freed


@mutant("component-prefetch-evicts-first", kills=("COMP-13",), configs=(*STATED, *WINDOWED))
class EvictsFirst(ComponentFetcher):
    """It evicts before it looks whether there is room."""

    def make_room(self, length: int) -> dict[str, int]:
        return self.tree.evict(self.wants(length))


@mutant("component-prefetch-evicts-nothing", kills=("COMP-23",), configs=(*STATED, *WINDOWED))
class EvictsNothing(ComponentFetcher):
    """It takes what is free, and is cut short or refused beside a cache full of what nobody uses."""

    def make_room(self, length: int) -> dict[str, int]:
        return {}


@mutant("component-prefetch-evicts-for-one-step", kills=("COMP-23",), configs=(*STATED, *WINDOWED))
class EvictsForOneStep(ComponentFetcher):
    """It makes room for the least that is worth it, and is cut short to that beside what nobody uses."""

    def make_room(self, length: int) -> dict[str, int]:
        return super().make_room(min(length, self.tree.step))


@mutant("component-prefetch-anchor-may-go", kills=("COMP-13", "LOCK-01"), configs=(*STATED, *WINDOWED))
class AnchorMayGo(ComponentFetcher):
    """The anchor isn't protected: it is evicted meanwhile, and what is committed behind it can be reached by nobody."""

    def protect(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        return {}


@mutant("component-prefetch-protects-the-state", kills=("COMP-12",), configs=STATED)
class ProtectsTheState(ComponentFetcher):
    """With the KV of its anchor a prefetch protects the state there: scarce memory is held for what it doesn't use."""

    def protect(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        return self.tree.lock(node)


@mutant("component-prefetch-lends-its-buffers", kills=("POOL-04",), configs=(*STATED, *WINDOWED))
class LendsItsBuffers(ComponentFetcher):
    """The buffers are read off the free lists and not taken from them: the next allocation gets the same places."""

    def reserve(self, length: int) -> Places | None:
        buffers = super().reserve(length)
        for name, places in (buffers or {}).items():
            self.pools.give(name, places[::-1])
        return buffers


# Reading


@mutant(
    "component-prefetch-reads-what-the-kv-has",
    bugs=("S101",),
    links=(f"{_SGLANG}issues/39147", f"{_SGLANG}pull/39267"),
    kills=("COMP-26",),
    configs=HYBRID,
)
class ReadsWhatTheKvHas(ComponentFetcher):
    """How much is read is what storage has of the KV; nobody looks again at the others for that boundary."""

    def restores(self, component: Component, fetch: ComponentFetch, end: int, stored: Collection[int]) -> bool:
        return not isinstance(component.shape, Run) or super().restores(component, fetch, end, stored)


@mutant("component-prefetch-reads-the-least", bugs=("H-17",), kills=("COMP-26",), configs=HYBRID)
class ReadsTheLeast(ComponentFetcher):
    """Each component says how far it could be restored, and the least of that is read: it may be restorable by none."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        ends = range(fetch.start + self.tree.step, fetch.start + fetch.length + 1, self.tree.step)
        most = [
            max((end for end in ends if self.restores(one, fetch, end, stored.get(one.name, ()))), default=fetch.start)
            for one in self.components
        ]
        kept = {one.name: range(one.unit, min(most) + 1, one.unit) for one in self.components}
        return super().found(fetch, kept)


@mutant("component-prefetch-clipped-window-counts", bugs=("H-18",), kills=("COMP-26",), configs=WINDOWED)
class ClippedWindowIsRestored(ComponentFetcher):
    """Of a window the last page is looked for: what storage has of it is taken for all of it."""

    def restores(self, component: Component, fetch: ComponentFetch, end: int, stored: Collection[int]) -> bool:
        if isinstance(component.shape, Window):
            return end in stored
        return super().restores(component, fetch, end, stored)


@mutant("component-prefetch-unnamed-is-there", bugs=("H-24",), kills=("COMP-26",), configs=HYBRID)
class UnnamedIsThere(ComponentFetcher):
    """A component of which storage says nothing is taken for one that has no say."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        ends = range(1, fetch.start + fetch.length + 1)
        return super().found(fetch, {one.name: stored.get(one.name, ends) for one in self.components})


@mutant("component-prefetch-reads-below-the-threshold", kills=("COMP-26",), configs=STATED)
class ReadsBelowTheThreshold(ComponentFetcher):
    """Storage has less than is worth it, and it is read: nobody compares again."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        fetch.threshold = 0
        return super().found(fetch, stored)


@mutant(
    "component-prefetch-state-of-the-whole-key",
    bugs=("H-26",),
    links=(f"{_SGLANG}pull/26945",),
    kills=("COMP-27",),
    configs=STATED,
)
class StateOfTheWholeKey(ComponentFetcher):
    """The state is read for the last page of the key that was asked for, not of what is there of it."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        returned = super().found(fetch, stored)
        reads = fetch.reads["state"]
        fetch.reads["state"] = dict(zip([fetch.start + fetch.length], reads.values(), strict=False))
        return returned


@mutant("component-prefetch-window-from-the-anchor", kills=("COMP-27",), configs=WINDOWED)
class WindowFromTheAnchor(ComponentFetcher):
    """The window's buffer is filled from the anchor on: with the first pages of what is read, not with the last."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        returned = super().found(fetch, stored)
        first = fetch.start + self.tree.size
        places = fetch.reads["swa"].values()
        fetch.reads["swa"] = {first + at * self.tree.size: place for at, place in enumerate(places)}
        return returned


@mutant("component-prefetch-one-buffer-for-two", kills=("COMP-27",), configs=WINDOWED)
class OneBufferForTwo(ComponentFetcher):
    """Each page of the window is read into the first place of its buffer: the last one overwrites the others."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        returned = super().found(fetch, stored)
        reads = fetch.reads["swa"]
        fetch.reads["swa"] = dict.fromkeys(reads, next(iter(reads.values()))) if reads else reads
        return returned


# Commits


@mutant(
    "component-commit-attaches-a-part",
    links=(f"{_SGLANG}pull/27264",),
    kills=("COMP-29", "COMP-15"),
    configs=WINDOWED,
)
class AttachesAPart(ComponentFetcher):
    """What came of a window is attached, though it isn't all of it: ranks differ by what came to them."""

    def entries(
        self, fetch: ComponentFetch, came: Mapping[str, Collection[int]], end: int
    ) -> dict[str, dict[int, int]]:
        found = super().entries(fetch, came, end)
        reads = fetch.reads.get("swa", {})
        found["swa"] = {at: place for at, place in reads.items() if at in came.get("swa", ()) and at <= end}
        return found


@mutant("component-commit-moves-the-state", bugs=("H-26",), kills=("COMP-29", "COMP-15"), configs=STATED)
class MovesTheState(ComponentFetcher):
    """The state that came is attached where the KV ends, wherever that is: to a key that is shorter than its own."""

    def entries(
        self, fetch: ComponentFetch, came: Mapping[str, Collection[int]], end: int
    ) -> dict[str, dict[int, int]]:
        found = super().entries(fetch, came, end)
        places = [place for at, place in fetch.reads.get("state", {}).items() if at in came.get("state", ())]
        found["state"] = dict.fromkeys([end], places[0]) if places and end > fetch.start else {}
        return found


@mutant("component-commit-drops-the-kv", kills=("COMP-28",), configs=(*STATED, *WINDOWED))
class DropsTheKv(ComponentFetcher):
    """With a window or a state that was lost the KV is thrown away: it would have spared computing the prefix again."""

    def clamp(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> int:
        end = super().clamp(fetch, came)
        return end if all(self.is_whole(one, fetch, came, fetch.boundary) for one in self.components) else fetch.start


@mutant("component-commit-without-the-index", bugs=("H-23",), kills=("COMP-28",), configs=INDEXED)
class WithoutTheIndex(ComponentFetcher):
    """The KV is committed though index keys of it did not come: attention goes by what was in memory before."""

    def clamp(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> int:
        missing = [end for end in fetch.reads[self.base.name] if end not in came.get(self.base.name, ())]
        return min(missing, default=fetch.boundary + self.base.unit) - self.base.unit


@mutant("component-commit-counts-what-came", bugs=("H-20",), kills=("COMP-28",), configs=(*STATED, *INDEXED))
class CountsWhatCame(ComponentFetcher):
    """The number of pages that came is taken for a length: a hole in the middle is committed, and the end left out."""

    def clamp(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> int:
        kept = [one for one in self.components if isinstance(one.shape, Run | Derived)]
        reads = {one.name: [end for end in fetch.reads[one.name] if end in came.get(one.name, ())] for one in kept}
        return min(fetch.start + len(reads[one.name]) * one.unit for one in kept)


@mutant(
    "component-commit-does-not-wait",
    bugs=("S69",),
    links=(f"{_SGLANG}pull/27550",),
    kills=("COMP-29", "COMP-15"),
    configs=(*STATED, *WINDOWED),
)
class DoesNotWait(ComponentFetcher):
    """All of the KV came, so everything is taken for come: a window is attached that is still read, or was lost."""

    def is_whole(
        self, component: Component, fetch: ComponentFetch, came: Mapping[str, Collection[int]], end: int
    ) -> bool:
        return end == fetch.boundary


@mutant(
    "component-commit-publishes-nothing",
    bugs=("S112",),
    links=(f"{_SGLANG}pull/37145",),
    kills=("COMP-28", "COMP-29"),
    configs=(*STATED, *WINDOWED),
)
class PublishesNothing(ComponentFetcher):
    """A component that says nothing counts as nought for all: no KV is cached, and what came belongs to nobody."""

    def clamp(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> int:
        silent = any(fetch.reads.get(one.name) and not came.get(one.name) for one in self.components)
        return fetch.start if silent else super().clamp(fetch, came)

    def finish(
        self, fetch: ComponentFetch, kept: Mapping[str, Collection[int]], came: Mapping[str, Collection[int]]
    ) -> Places:
        if came and self.clamp(fetch, came) == fetch.start < super().clamp(fetch, came):
            return super().finish(fetch, {name: list(some.values()) for name, some in fetch.reads.items()}, came)
        return super().finish(fetch, kept, came)


@mutant("component-commit-keeps-the-window", kills=("COMP-29",), configs=WINDOWED)
class KeepsTheWindow(ComponentFetcher):
    """A window that isn't whole is not attached, and not given back either: it is lost to the pool."""

    def finish(
        self, fetch: ComponentFetch, kept: Mapping[str, Collection[int]], came: Mapping[str, Collection[int]]
    ) -> Places:
        whole = not came or set(fetch.reads.get("swa", ())) <= set(came.get("swa", ()))
        return super().finish(fetch, kept if whole else {**kept, "swa": fetch.buffers["swa"]}, came)


@mutant("component-commit-replaces-the-window", kills=("COMP-29", "COMP-15"), configs=WINDOWED)
class ReplacesTheWindow(ComponentFetcher):
    """What was read takes the place of what is cached, whose own place is given back: somebody may be reading it."""

    def commit(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> tuple[int, Places]:
        for node in self.tree.walk(fetch.key):
            if node.end in fetch.reads.get("swa", ()) and "swa" in node.places:
                self.pools.give("swa", [self.tree.take(node, "swa")])
        return super().commit(fetch, came)


@mutant("component-commit-is-a-page-off", kills=("COMP-29", "COMP-15"), configs=WINDOWED)
class IsAPageOff(ComponentFetcher):
    """The window is attached from the page before its first one on: each page of it holds what belongs behind it."""

    def entries(
        self, fetch: ComponentFetch, came: Mapping[str, Collection[int]], end: int
    ) -> dict[str, dict[int, int]]:
        found = super().entries(fetch, came, end)
        found["swa"] = {at - self.tree.size: place for at, place in found["swa"].items() if at > self.tree.size}
        return found


@mutant("component-commit-keeps-the-anchor", kills=("COMP-12",), configs=STATED)
class CommitKeepsTheAnchor(ComponentFetcher):
    """After a commit the anchor stays protected: nobody is left who could let it go."""

    def commit(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> tuple[int, Places]:
        for nodes in fetch.guard.values():
            for node in nodes:
                node.locks["kv"] += 1
        return super().commit(fetch, came)


# I/O that goes on


@mutant("component-abort-while-it-is-read", bugs=("H-41",), kills=("COMP-29",), configs=(*STATED, *WINDOWED))
class AbortWhileItIsRead(ComponentFetcher):
    """Buffers are given back while I/O may write them: what somebody else computes there is overwritten."""

    def busy(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> Places:
        return {}


@mutant("component-commit-leaves-a-sidecar-unguarded", bugs=("H-41",), kills=("COMP-29",), configs=HYBRID)
class LeavesASidecarUnguarded(ComponentFetcher):
    """The KV waits for its I/O; the window and the state that it still writes are given back at once."""

    def busy(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> Places:
        return {name: some for name, some in super().busy(fetch, came).items() if name == self.base.name}


@mutant("component-abort-forgets-the-state", kills=("COMP-29",), configs=STATED)
class AbortForgetsTheState(ComponentFetcher):
    """An abort gives the KV back and not the state: after as many aborts as there are states none is left."""

    def abort(self, fetch: ComponentFetch) -> Places:
        return self.finish(fetch, {"state": fetch.buffers.get("state", [])}, {})


@mutant("component-abort-gives-back-twice", bugs=("H-06",), kills=("COMP-29", "POOL-10", "POOL-12"), configs=STATED)
class AbortGivesBackTwice(ComponentFetcher):
    """What was given back at the abort is given back again when the I/O ends: two get the same place."""

    def finish(
        self, fetch: ComponentFetch, kept: Mapping[str, Collection[int]], came: Mapping[str, Collection[int]]
    ) -> Places:
        returned = super().finish(fetch, kept, came)
        for name, places in returned.items():
            fetch.buffers[name] = fetch.buffers[name] + places
        return returned


@mutant("component-io-ends-unnoticed", kills=("COMP-29",), configs=(*STATED, *WINDOWED))
class IoEndsUnnoticed(ComponentFetcher):
    """When the I/O of a prefetch that is over ends nobody gives back what it wrote last."""

    def settled(self, fetch: ComponentFetch) -> Places:
        fetch.running = False
        return {}
