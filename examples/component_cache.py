"""A small cache of two components, written from the specification: the KV of every token and that of a sliding window.

    python examples/component_cache.py      # judges itself; takes the options of ``kvlitmus run``

It has a device and host memory, with a pool of each component on both.  Everything that it does is on the page
*Components* (``docs/components.md``).  It is written to be read: names are whole prefixes, and an eviction looks at
every entry.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from kvlitmus.conformance import cli
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import Key, Unit

KINDS = ("kv", "swa")

Name = tuple[str | None, tuple[Unit, ...]]
"""What an entry is known by: its namespace, and all units of the prefix that ends with it."""

Names = dict[str, list[Name]]
Places = dict[str, list[int]]
Ends = dict[str, dict[int, int]]


class Tier:
    """A pool for each component, and what is cached in it, the oldest use first."""

    def __init__(self, size: int, places: Mapping[str, int]) -> None:
        self.size = size
        self.free: Places = {kind: list(range(places[kind])) for kind in KINDS}
        self.cached: dict[str, OrderedDict[Name, int]] = {kind: OrderedDict() for kind in KINDS}
        self.pins: dict[str, Counter[Name]] = {kind: Counter() for kind in KINDS}
        self.children: Counter[Name] = Counter()  # how many entries of KV are cached right behind this one

    def parent(self, name: Name) -> Name:
        """The entry before this one."""
        return name[0], name[1][: -self.size]

    def having(self, names: Names) -> Names:
        """Those of these entries that are cached."""
        return {kind: [name for name in names[kind] if name in self.cached[kind]] for kind in KINDS}

    def pin(self, names: Names, by: int = 1) -> None:
        """Protect entries against eviction, or no more."""
        for kind in KINDS:
            for name in names[kind]:
                self.pins[kind][name] += by

    def grant(self, wants: Mapping[str, int]) -> Places | None:
        """So many places of each component: all of them or, where one pool is short, none."""
        if any(many > len(self.free[kind]) for kind, many in wants.items()):
            return None
        return {kind: [self.free[kind].pop() for _ in range(many)] for kind, many in wants.items()}

    def give(self, given: Mapping[str, Sequence[int]]) -> None:
        """Places are free again."""
        for kind, places in given.items():
            self.free[kind].extend(places)

    def add(self, kind: str, name: Name, place: int) -> bool:
        """Whether an entry was missing; it is cached now."""
        if name in self.cached[kind]:
            return False
        self.cached[kind][name] = place
        if kind == "kv":
            self.children[self.parent(name)] += 1
        return True

    def evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """Free so many entries of each component, as far as they may go: KV from its end."""
        gone: Counter[str] = Counter()
        for kind in KINDS:
            while gone[kind] < wants.get(kind, 0):
                victim = next((name for name in self.cached[kind] if self.may_go(kind, name)), None)
                if victim is None:
                    break
                self.drop(kind, victim, gone)
        return dict(gone)

    def may_go(self, kind: str, name: Name) -> bool:
        """Whether an entry is needed by nobody, and by no KV behind it."""
        return not self.pins[kind][name] and (kind != "kv" or not self.children[name])

    def drop(self, kind: str, name: Name, gone: Counter[str]) -> None:
        """An entry goes; with KV goes the window's entry of the same prefix (``component_cascade="base"``)."""
        self.free[kind].append(self.cached[kind].pop(name))
        gone[kind] += 1
        if kind == "kv":
            self.children[self.parent(name)] -= 1
            if name in self.cached["swa"]:
                self.drop("swa", name, gone)

    def entries(self) -> list[tuple[str, str | None, tuple[Unit, ...], int]]:
        """All that is cached."""
        return [(kind, *name, place) for kind in KINDS for name, place in self.cached[kind].items()]


class Copy(NamedTuple):
    """A copy that has not ended: where to, what it brings into which places, and what it keeps on both tiers."""

    to: Tier
    names: Names
    places: Places
    kept: list[tuple[Tier, Names]]


class ComponentCache:
    """The cache; its methods are the ports of components that its target names."""

    def __init__(self, size: int, device: Mapping[str, int], host: Mapping[str, int], reach: int) -> None:
        self.size, self.sizes, self.reach = size, (device, host), reach
        self.component_reset()

    def component_reset(self) -> None:
        """Forget everything."""
        self.device, self.host = (Tier(self.size, one or dict.fromkeys(KINDS, 0)) for one in self.sizes)
        self.receipts: dict[int, Names] = {}
        self.copies: dict[int, Copy] = {}
        self.numbers = count(1)

    # What a boundary needs

    def needs(self, key: Key, pages: int) -> Names:
        """The entries that a prefix of so many pages needs: all KV, and the window before its end."""
        names = [(key.namespace, key.units[: end * self.size]) for end in range(1, pages + 1)]
        start = max(0, pages * self.size - self.reach)  # the first unit that the window reaches
        return {"kv": names, "swa": names[start // self.size :]}

    def longest(self, key: Key, *tiers: Tier) -> Names:
        """What the longest prefix needs for which these tiers together have all."""
        for pages in range(len(key.units) // self.size, 0, -1):
            need = self.needs(key, pages)
            if all(any(name in tier.cached[kind] for tier in tiers) for kind in KINDS for name in need[kind]):
                return need
        return self.needs(key, 0)

    # Lookup, memory, the tree, eviction

    def component_match(self, key: Key) -> tuple[int, Places, Names]:
        """The longest usable prefix; what it needs is the handle."""
        hit = self.longest(key, self.device)
        for kind in KINDS:
            for name in hit[kind]:
                self.device.cached[kind].move_to_end(name)
        found = {kind: [self.device.cached[kind][name] for name in hit[kind]] for kind in KINDS}
        return len(hit["kv"]) * self.size, found, hit

    def component_alloc(self, wants: Mapping[str, int]) -> Places | None:
        """Places for the caller."""
        return self.device.grant(wants)

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        """Places from the caller."""
        self.device.give(given)

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Places:
        """Fill what is missing; the rest stays the caller's."""
        left: Places = {kind: [] for kind in KINDS}
        for kind in KINDS:
            for end, place in sorted(entries.get(kind, {}).items()):
                if not self.device.add(kind, (key.namespace, key.units[:end]), place):
                    left[kind].append(place)
        return left

    def component_lock(self, handle: Names) -> tuple[int, Places]:
        """Protect what a hit needs."""
        self.device.pin(handle)
        receipt = next(self.numbers)
        self.receipts[receipt] = handle
        return receipt, {kind: [len(units) for _, units in names] for kind, names in handle.items()}

    def component_unlock(self, receipt: int) -> None:
        """Give a receipt back."""
        self.device.pin(self.receipts.pop(receipt), -1)

    def component_evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """Make room on the device."""
        return self.device.evict(wants)

    # Host memory

    def component_back_up(self, handle: Names) -> tuple[int | None, Ends, dict[str, int]]:
        """Copy to the host what a hit needs."""
        return self.copy(handle, self.host)

    def component_load(self, handle: Names, key: Key) -> tuple[int | None, int, Ends, dict[str, int]]:
        """Copy to the device what it lacks for the longest prefix that both tiers have together."""
        need = self.longest(key, self.device, self.host)
        if len(need["kv"]) <= len(handle["kv"]):
            return None, 0, {}, {}
        self.device.pin(handle)  # the hit that is gone on from: no room is made of it
        number, places, gone = self.copy(need, self.device)
        self.device.pin(handle, -1)
        return number, 0 if number is None else len(need["kv"]) * self.size, places, gone

    def copy(self, need: Names, to: Tier) -> tuple[int | None, Ends, dict[str, int]]:
        """Begin a copy to a tier of what a boundary needs and it lacks; what both tiers have of that stays."""
        lacks = {kind: [name for name in need[kind] if name not in to.cached[kind]] for kind in KINDS}
        wants = {kind: len(names) for kind, names in lacks.items()}
        kept = [(tier, tier.having(need)) for tier in (self.device, self.host)]
        for tier, names in kept:
            tier.pin(names)
        gone = to.evict({kind: many - len(to.free[kind]) for kind, many in wants.items()})
        places = to.grant(wants) if any(wants.values()) else None
        if places is None:
            for tier, names in kept:
                tier.pin(names, -1)
            return None, {}, gone
        number = next(self.numbers)
        self.copies[number] = Copy(to, lacks, places, kept)
        ends = {kind: [len(units) for _, units in lacks[kind]] for kind in KINDS}
        return number, {kind: dict(zip(ends[kind], places[kind], strict=True)) for kind in KINDS}, gone

    def component_copied(self, copy: int, ok: bool) -> Places:
        """What it brought is cached; what is there by now, and all if it failed, is free."""
        to, brought, places, kept = self.copies.pop(copy)
        for tier, names in kept:
            tier.pin(names, -1)
        pairs = [(kind, *pair) for kind in KINDS for pair in zip(brought[kind], places[kind], strict=True)]
        back: Places = {kind: [] for kind in KINDS}
        for kind, name, place in pairs:
            if not ok or not to.add(kind, name, place):
                back[kind].append(place)
        to.give(back)
        return back

    def component_evict_host(self, wants: Mapping[str, int]) -> dict[str, int]:
        """Make room on the host."""
        return self.host.evict(wants)

    # What is seen

    def component_available(self) -> dict[str, int]:
        """How many places are free."""
        return {kind: len(self.device.free[kind]) for kind in KINDS}

    def component_free_places(self) -> Places:
        """Which places are free."""
        return self.device.free

    def component_entries(self) -> list[tuple[str, str | None, tuple[Unit, ...], int]]:
        """What is cached."""
        return self.device.entries()

    def component_available_host(self) -> dict[str, int]:
        """How many places of the host are free."""
        return {kind: len(self.host.free[kind]) for kind in KINDS}

    def component_free_host(self) -> Places:
        """Which places of the host are free."""
        return self.host.free

    def component_host_entries(self) -> list[tuple[str, str | None, tuple[Unit, ...], int]]:
        """What is cached on the host."""
        return self.host.entries()


class Target:
    """What makes such caches, and which legal choices they make: those of a profile that says nothing."""

    profile = Profile()
    pools = ("component_host",)
    capabilities = (
        "component_lookup",
        "components",
        "component_counters",
        "component_view",
        "component_host",
        "component_host_counters",
        "component_host_view",
    )

    def make(self, config: Config) -> ComponentCache:
        """A fresh cache."""
        if config.components != "kv+swa":
            raise Unsupported("KV and a sliding window, no other components")
        layout = layout_of(config.components, config.page_size, config.pages, config.host_pages)
        (reach,) = [getattr(one.shape, "reach", 0) for one in layout.components if one.name == "swa"]
        return ComponentCache(config.page_size, layout.places, layout.host, reach)


target = Target()

if __name__ == "__main__":
    os.chdir(Path(__file__).parent)  # where the suite finds this module
    sys.exit(cli.main(["run", "component_cache:target", *sys.argv[1:]]))
