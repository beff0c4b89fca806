"""Everything that can be seen of two hierarchies, compared: pages, levels, contents, jobs, events, homes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvlitmus.conformance.adapters.reference.tiers import TieredReference
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.conformance.ports import Config
from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.levels import value_at
from kvlitmus.optimized.tree import Place
from kvlitmus.reference.prefix.hierarchy import alone_of, host_homes, works_of
from kvlitmus.spec.words.units import Key
from tests.optimized.support.hierarchy_sides import LAYERS, ArrayMover, ScriptedStore
from tests.optimized.support.homes import assert_one_home_each


class Look:
    """The reference, the optimized cache, and what is compared of them; slots are each side's own."""

    config: Config
    size: int
    one: TieredReference
    two: HierarchicalCache
    mover: ArrayMover
    stores: tuple[HarnessStore, ScriptedStore]
    rows: dict[int, tuple[tuple[int, ...], Any, Key]]

    def compare(self) -> None:
        """Everything that can be seen of both."""
        one, two, now = self.one, self.two, self.one.state
        works = works_of(now)
        host_homes(now, one.setting)
        audit(two.tree)
        assert now.device.clock == two.tree.clock
        assert one.sizes() == two.sizes()
        assert (one.available(), one.host_available()) == (two.available(), two.host_available())
        assert one.occupied() == two.occupied()
        assert works.loaded == two.fetches.loaded
        assert len(works.release) == sum(map(len, two.host.releasing))
        self.compare_jobs()
        self.compare_pages()
        self.compare_homes()
        self.compare_events()
        if self.stores[0].contents.keys() != self.stores[1].pages.keys():
            raise AssertionError("storage has other pages")

    def compare_jobs(self) -> None:
        mine = [
            (job.id, job.kind, job.key, job.start, job.rid, job.done, job.landed, job.failed) for job in self.one.jobs()
        ]
        theirs = []
        for work in self.two.jobs():
            namespace, units, start = self.two.span(work)
            key = self.key_of(namespace, units)
            done = work.done * self.size if work.kind == "fetch" else 0
            failed = work.error is not None
            theirs.append((work.id, work.kind, key, start, work.rid, done, work.landed, failed))
        assert mine == theirs

    def key_of(self, namespace: Any, units: Any) -> Key:
        if not self.config.bigram:
            return Key(namespace, tuple(units.tolist()))
        return Key(namespace, (int(units[0]) >> 32, *[int(unit) & 0xFFFFFFFF for unit in units]), True)

    def compare_pages(self) -> None:
        """Each page: what is known of it, and what is in its slots."""
        mine, theirs = self.reference_pages(), self.own_pages()
        assert mine.keys() == theirs.keys()
        for key, page in mine.items():
            assert page == theirs[key], (key, page, theirs[key])

    def reference_pages(self) -> dict[Key, tuple[Any, ...]]:
        now, found = self.one.state, {}
        works = works_of(now)
        loading = {name for one in works.transfers if one.kind == "load" and not one.landed for name in one.names}
        busy = {name for one in works.transfers if one.kind in ("backup", "put") for name in one.names}
        for name, page in [*now.device.pages.items(), *alone_of(now).items()]:
            copy = now.host.pages.get(name)
            resident = name in now.device.pages
            level = (page.touched, page.created, page.hits, page.priority, resident and page.locks > 0, page.first)
            side = None if copy is None else (copy.locks, name in works.settled, name in works.stored, name in busy)
            contents = self.one.contents.read("device", page.page) if resident and name not in loading else None
            kept = self.one.contents.read("host", copy.page) if copy is not None and name in works.settled else None
            found[self.one.key_of(name)] = (resident, level, side, contents, kept)
        return found

    def own_pages(self) -> dict[Key, tuple[Any, ...]]:
        tree, found, size = self.two.tree.opened(), {}, self.size
        loading = {
            page
            for work in self.two.jobs()
            if work.kind == "load" and not work.landed
            for run in work.runs
            for page in [(run.branch.uid, at) for at in range(run.lo, run.hi)]
        }
        for branch in tree.branches():
            path = tree.path_units(tree.ascend(Place(branch, branch.n), branch.base))
            for at in range(branch.n):
                units = np.concatenate((path, branch.units[: (at + 1) * size]))
                resident = at < branch.dev
                level = self.level(branch, at)
                side, kept, contents = None, None, None
                if branch.has_copy(at):
                    assert branch.flags is not None and branch.pins is not None and branch.host_pages is not None
                    flags = int(branch.flags[at])
                    side = (int(branch.pins[at]), bool(flags & 1), bool(flags & 2), bool(flags & 4))
                    kept = self.read(self.mover.host, branch.host_pages[at]) if flags & 1 else None
                if resident and (branch.uid, at) not in loading:
                    contents = self.read(self.mover.device, branch.dev_pages[at])
                found[self.key_of(branch.namespace, units)] = (resident, level, side, contents, kept)
        return found

    def level(self, branch: Any, at: int) -> tuple[int, int, int, int, bool, bool]:
        return (
            value_at(branch.touched, at),
            value_at(branch.created, at),
            branch.hits_at(at),
            value_at(branch.priority, at),
            at < branch.protected(),
            branch.node_start(at) == at,
        )

    def read(self, pool: Any, page: int) -> tuple[int, ...]:
        part = pool[:, int(page) * self.size : (int(page) + 1) * self.size]
        if any((part[layer] // 4 != part[0] // 4).any() for layer in range(LAYERS)):
            raise AssertionError(f"the layers of page {page} are of different contents")
        return tuple((part[-1] // 4).tolist())

    def compare_homes(self) -> None:
        """Each page of either pool is at one place."""
        own = [p for row in self.rows.values() for p in set((row[1].row[row[1].cached :] // self.size).tolist())]
        assert_one_home_each(self.two, own, pages=self.config.pages, host_pages=self.config.host_pages)

    def compare_events(self) -> None:
        mine = [
            (one.what, one.tier, one.page, one.parent, tuple(one.units), one.namespace) for one in self.one.events()
        ]
        theirs = []
        for told in self.two.events():
            units: Any = ()
            if told.units is not None:
                units = tuple(told.units.tolist())
                if self.config.bigram:
                    units = tuple([(unit >> 32, unit & 0xFFFFFFFF) for unit in units])
            theirs.append((told.what, told.tier, told.page or None, told.parent, units, told.namespace))
        kinds = [(what, tier) for what, tier, *_ in theirs]
        assert [(what, tier) for what, tier, *_ in mine] == kinds
        assert sorted(mine, key=repr) == sorted(theirs, key=repr)
        self.compare_order(theirs)

    def compare_order(self, told: list[tuple[Any, ...]]) -> None:
        """What is stored is told after what is above it, if that is told, too."""
        for at, (what, tier, _, parent, *_) in enumerate(told):
            if what == "stored":
                assert ("stored", tier, parent) not in [entry[:3] for entry in told[at:]]
