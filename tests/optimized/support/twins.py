"""The optimized tree and the reference, side by side: every call is made on both, and then all they know is compared.

Pages of the device are chosen by the optimized pool and handed to the reference as its choice; of the host the lowest
free pages are taken on both sides, for the reference takes no choice there.  Victims are chosen by both: a tick belongs
to one path, so there are no ties.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from kvlitmus.optimized.arrays import PageArray
from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.branch import SETTLED, STORED, Branch, Found, Place, Run, Units
from kvlitmus.optimized.hashing import pack_bigrams
from kvlitmus.optimized.levels import value_at
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.tree import Tree
from kvlitmus.optimized.view import nodes_of
from kvlitmus.reference.prefix import backup, fetch, hierarchy, load, tier
from kvlitmus.reference.prefix.choose import NO_CHOICE, Choice, free_pages, sizes
from kvlitmus.reference.prefix.hierarchy import alone_of, empty_hierarchy, pin, works_of
from kvlitmus.reference.prefix.perform import flat, perform
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.spec.interface.tiers import LOAD
from kvlitmus.spec.prefix.calls import Alloc, Evict, Free, Insert, path_of
from kvlitmus.spec.prefix.own_work import Operation
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import Names, page_names
from kvlitmus.spec.words.prefetch_life import ENDED
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Key, Name, PageNo, Pages, RequestId, Tokens

NAMESPACES = (None, "lora")


class LowestPool(PagePool):
    """A pool that hands out the lowest free pages, as the reference does."""

    def take(self, count: int) -> PageArray | None:
        pages = super().take(self.free_count)
        if pages is None or count > len(pages):
            if pages is not None:
                super().give_back(pages)
            return None
        pages = np.sort(pages)
        super().give_back(pages[count:])
        return pages[:count]


class Twins:
    """One optimized tree and one reference, in the same state; keys have up to ``reach`` pages."""

    def __init__(
        self,
        size: int = 2,
        policy: str = "lru",
        *,
        pages: int = 14,
        host_pages: int = 9,
        write: str = "write_through",
        bigram: bool = False,
        restored_counts: bool = False,
        dtype: Any = np.int32,
        reach: int = 6,
    ) -> None:
        self.size, self.bigram, self.write = size, bigram, write
        self.reach = reach
        self.names = Names()
        self.pool = PagePool(pages, size, 1)
        self.host: Any = LowestPool(host_pages, size, 0) if host_pages else None
        self.tree = Tree(
            size,
            policy,
            self.pool,
            host=self.host,
            write_back=write == "write_back",
            restored_counts=restored_counts,
            dtype=np.int64 if bigram else dtype,
        )
        self.tree.spill = self.spill
        self.tree.tell = self.heard
        config = Config(page_size=size, pages=pages, policy=policy, host_pages=host_pages, write=write)
        profile = Profile(restored_counts=restored_counts)
        self.setting = Setting(config, profile, SNAPSHOT, frozenset({"tiers"}))
        self.now: Any = empty_hierarchy(self.setting)
        self.told: dict[str, set[int]] = {"device": set(), "host": set()}
        self.locked: list[tuple[Place, Name]] = []
        self.pinned: list[tuple[Run, tuple[Name, ...]]] = []

    # -- keys ------------------------------------------------------------------------------------

    def key(self, namespace: Any, tokens: list[int]) -> tuple[Units, tuple[Name, ...], int, Name]:
        """A key for both sides: packed units; names of whole pages; the number of units; the root's name."""
        array = np.array(tokens, np.int64)
        units = tuple(pairwise(tokens)) if self.bigram else tuple(tokens)
        names = page_names(self.names.of(namespace, units), self.size)
        packed = pack_bigrams(array) if self.bigram else array.astype(self.tree.dtype)
        return packed, names, len(units), self.names.root(namespace)

    def units(self, branch: Branch, lo: int, hi: int) -> list[Any]:
        """The reference's units of some pages of a branch."""
        packed = branch.units[lo * self.size : hi * self.size].tolist()
        return [(unit >> 32, unit & 0xFFFFFFFF) for unit in packed] if self.bigram else packed

    def name(self, branch: Branch, end: int) -> Name:
        """The reference's name of a place."""
        units: list[Any] = []
        namespace: Any = branch.namespace
        while branch.parent is not None:
            units = self.units(branch, 0, end) + units
            branch, end = branch.parent, branch.at
        return self.names.of(namespace, units)[-1] if units else self.names.root(namespace)

    def run_names(self, run: Run) -> list[Name]:
        """The reference's names of the pages of a run."""
        return [self.name(run.branch, end) for end in range(run.lo + 1, run.hi + 1)]

    def heard(self, what: str, tier: str, run: Run) -> None:
        """What the tree tells adds up to what there is."""
        names = set(self.run_names(run))
        if what == "stored":
            assert names.isdisjoint(self.told[tier])
            self.told[tier] |= names
        else:
            assert names <= self.told[tier]
            self.told[tier] -= names

    # -- calls -----------------------------------------------------------------------------------

    def match(self, namespace: Any, tokens: list[int]) -> tuple[Found, tuple[Name, ...]]:
        packed, names, units, _ = self.key(namespace, tokens)
        looked = self.tree.find(namespace, packed)
        found = self.tree.match(namespace, packed)
        assert looked[1:] == found[1:] and (looked.place[:2] == found.place[:2] or not found.known)
        self.now, there, behind = tier.match(self.now, self.setting, names, units)
        place = self.tree.resident_place(found)
        pages = [self.now.device.pages[name].page for name in names[:there]]
        assert self.tree.path_pages(place).tolist() == pages
        assert (found.resident, found.known) == (there, there + behind)
        return found, names[: found.known]

    def resume(self, which: int, tokens: list[int]) -> None:
        """Match again from a locked place on."""
        if self.locked:
            place, _ = self.locked[which % len(self.locked)]
            if place.end <= place.branch.n:
                self.check_resume(place, tokens)

    def check_resume(self, place: Place, tokens: list[int]) -> None:
        path = self.tokens_of(place)
        packed, names, units, _ = self.key(place.branch.namespace, path + tokens)
        depth = self.tree.depth(place)
        found = self.tree.resume(place, packed[depth * self.size :])
        self.now, there, behind = tier.match(self.now, self.setting, names, units)
        assert (found.resident, found.known) == (there, there + behind)

    def tokens_of(self, place: Place) -> list[int]:
        units: list[int] = self.tree.path_units(place).tolist()
        if not self.bigram or not units:
            return units
        return [unit >> 32 for unit in units] + [units[-1] & 0xFFFFFFFF]

    def insert(
        self,
        namespace: Any,
        tokens: list[int],
        priority: int = 0,
        chunked: bool = False,
        behind: int | None = None,
    ) -> None:
        """Insert a key in fresh pages, and free the duplicates."""
        if behind is not None and self.locked:
            place, _ = self.locked[behind % len(self.locked)]
            namespace, tokens = place.branch.namespace, self.tokens_of(place) + tokens
        else:
            place = None
        packed, names, _, root = self.key(namespace, tokens)
        pages = self.pool.take(len(names))
        if pages is None:
            return
        offered = tuple(pages.tolist())
        if place is None:
            done = self.tree.insert(namespace, packed, pages, priority=priority, counts=not chunked)
        else:
            depth = self.tree.depth(place)
            done = self.tree.insert_behind(
                place, packed[depth * self.size :], pages[depth:], priority=priority, counts=not chunked
            )
        self.pool.give_back(pages[: done.already])
        self.now = perform(self.now, self.setting, Alloc(Tokens(len(offered) * self.size)), Choice(pages=offered)).after
        key = Key(namespace, tuple(tokens), self.bigram)
        slots = slots_of(offered, self.size)
        call = Insert(path_of(self.names, key, self.size), slots, 0, priority, chunked)
        step = flat(self.now, self.setting, call)
        assert (done.already * self.size, slots[: done.already * self.size]) == step.answer
        adopted = tier.adopt(step.before, step.after, self.setting, names)
        self.now = perform(adopted, self.setting, Free(step.answer.to_free)).after
        assert self.name(*done.place[:2]) == (names[-1] if names else root)

    def lock(self, namespace: Any, tokens: list[int]) -> None:
        found, names = self.match(namespace, tokens)
        place = self.tree.resident_place(found)
        name = names[found.resident - 1] if found.resident else self.names.root(namespace)
        self.tree.lock(place)
        self.now = hierarchy.lock(self.now, name)
        self.locked.append((place, name))

    def unlock(self, which: int) -> None:
        if self.locked:
            place, name = self.locked.pop(which % len(self.locked))
            self.tree.unlock(place)
            self.now = hierarchy.unlock(self.now, name)

    def evict(self, pages: int) -> None:
        freed = self.tree.evict(pages)
        step = perform(self.now, self.setting, Evict(Tokens(pages * self.size)))
        self.now = step.after
        assert freed * self.size == step.answer

    # -- tiers -----------------------------------------------------------------------------------

    def spill(self, run: Run) -> int:
        """Host copies for the end of a run, as the reference makes them."""
        wanted = run.hi - run.lo
        pages = self.host.take(wanted)
        if pages is None:
            self.tree.evict_host(wanted - self.host.free_count)
            pages = self.host.take(wanted)
        if pages is None:
            pages = self.host.take(min(wanted, self.host.free_count))
        if pages is None or not len(pages):
            return 0
        self.tree.give_host(Run(run.branch, run.hi - len(pages), run.hi), pages, settled=True, stored=False)
        self.told["host"] |= set(self.run_names(Run(run.branch, run.hi - len(pages), run.hi)))
        return len(pages)

    def evict_host(self, pages: int) -> None:
        freed = self.tree.evict_host(pages)
        self.now, same = tier.evict_host(self.now, self.setting, pages, NO_CHOICE)
        assert freed == same

    def back_up(self, namespace: Any, tokens: list[int], nodes: int) -> None:
        """Give the first nodes of a path that lack one a host copy, as long as there are pages."""
        found, _ = self.match(namespace, tokens)
        if self.write == "write_back":
            return
        place = self.tree.resident_place(found)
        for node in self.tree.nodes(place)[:nodes]:
            if node.branch.has_copy(node.lo):
                continue
            pages = self.host.take(node.hi - node.lo)
            if pages is None:
                break
            names = self.run_names(node)
            self.tree.give_host(node, pages, settled=False, stored=True)
            self.now, same = tier.allocate(self.now, names, NO_CHOICE)
            assert same == tuple(pages.tolist())
            self.now = tier.back(self.now, names, same, settled=False, stored=True)
            self.told["host"] |= set(names)

    def load(self, namespace: Any, tokens: list[int]) -> None:
        """Bring what a key has on the host alone back, if there are free pages; the path stays locked."""
        found, names = self.match(namespace, tokens)
        behind = found.known - found.resident
        pages = self.pool.take(behind) if behind else None
        if pages is None:
            return
        self.tree.make_resident(self.tree.runs(found.place, found.resident), pages)
        self.tree.lock(found.place)
        sources = names[found.resident :]
        self.now = backup.submit(load.make_resident(self.now, sources, pages.tolist()), LOAD, sources, NO_CHOICE)
        self.now = self.now._replace(works=works_of(self.now)._replace(transfers=()))
        self.locked.append((found.place, names[-1]))

    def commit(self, namespace: Any, tokens: list[int], anchor_at: int, pages: int) -> None:
        """Commit what a prefetch would have read behind some known prefix of a key."""
        found, names = self.match(namespace, tokens)
        depth = anchor_at % (found.known + 1)
        anchor = self.tree.ascend(found.place, depth)
        root = self.names.root(namespace)
        name = names[depth - 1] if depth else root
        if not self.tree.has_host_copy(anchor):
            return
        packed, all_names, _, _ = self.key(namespace, tokens)
        wanted = all_names[depth : depth + pages]
        taken = self.host.take(len(wanted))
        if taken is None or not wanted:
            if taken is not None:
                self.host.give_back(taken)
            return
        self.tree.pin_place(anchor)
        known, added = self.tree.insert_host(anchor, packed[depth * self.size :], taken)
        self.tree.unpin_place(anchor)
        self.host.give_back(taken[:known])
        self.host.give_back(taken[known + added :])
        self.now, held = tier.allocate(pin(self.now, [name]), wanted, NO_CHOICE)
        done, asked, rid = Pages(len(wanted)), Tokens(len(wanted) * self.size), RequestId(0)
        assert held is not None
        operation = Operation(1, rid, ENDED, name, tuple(wanted), asked, held, done, done, True, 0.0)
        self.with_host(operations=(operation,))
        self.now = fetch.commit(self.now, self.setting, operation)
        works = works_of(self.now)
        assert works.loaded.get(rid, 0) == added * self.size
        self.with_host(release=(), loaded={})
        self.now = tier.free(self.now, works.release)

    def with_host(self, **changes: Any) -> None:
        self.now = self.now._replace(works=works_of(self.now)._replace(**changes))

    def pin(self, namespace: Any, tokens: list[int], lo: int) -> None:
        """Pin the host copies of the end of a path within its last branch."""
        found, _ = self.match(namespace, tokens)
        branch, end, _ = found.place
        run = Run(branch, min(lo, end), end)
        if run.lo < run.hi and all(branch.has_copy(at) for at in range(run.lo, run.hi)):
            names = tuple(self.run_names(run))
            self.tree.pin((run,))
            self.now = pin(self.now, names)
            self.pinned.append((run, names))

    def unpin(self, which: int) -> None:
        if self.pinned:
            run, names = self.pinned.pop(which % len(self.pinned))
            self.tree.unpin((run,))
            self.now = pin(self.now, names, -1)

    # -- comparing -------------------------------------------------------------------------------

    def compare(self) -> None:
        """All that both sides know is equal, and the tree's counters and links are in order."""
        audit(self.tree)
        seen: dict[str, dict[int, Any]] = {"device": {}, "alone": {}, "copies": {}}
        for node in nodes_of(self.tree):
            for at, name in enumerate(self.run_names(node.run)):
                parent = self.name(node.run.branch, node.run.lo + at)
                pages, host = node.pages, node.host_pages
                page = -1 if pages is None else int(pages[at])
                touched = value_at(node.run.branch.touched, node.run.lo + at)
                rest = (touched, node.created, node.hits, node.priority, node.locks, at == 0)
                seen["alone" if pages is None else "device"][name] = (parent, page, *rest)
                if host is not None and host[at] >= 0:
                    run: Any = node.run
                    flags = int(run.branch.flags[run.lo + at])
                    pins = int(run.branch.pins[run.lo + at])
                    seen["copies"][name] = (int(host[at]), pins, bool(flags & SETTLED), bool(flags & STORED))
        tree = self.now.device
        works, alone = works_of(self.now), alone_of(self.now)
        assert seen["device"] == {name: tuple(page)[:8] for name, page in tree.pages.items()}
        assert seen["alone"] == {
            name: tuple(page._replace(page=PageNo(-1), locks=0))[:8] for name, page in alone.items()
        }
        assert seen["copies"] == {
            name: (copy.page, copy.locks, name in works.settled, name in works.stored)
            for name, copy in self.now.host.pages.items()
        }
        ours = (self.tree.evictable * self.size, self.tree.protected * self.size)
        assert ours == sizes(self.now, self.setting)
        assert self.tree.clock == tree.clock
        assert set(self.pool.free_pages().tolist()) == free_pages(self.now, self.setting)
        assert self.told["device"] == set(seen["device"])
        if self.host is not None:
            assert set(self.host.free_pages().tolist()) == works.free
            assert self.told["host"] == set(seen["copies"])


def play(twins: Twins, data: bytes) -> None:
    """Make the calls that these bytes say, eight bytes a call, and compare after each."""
    for at in range(0, len(data) - 7, 8):
        call(twins, data[at : at + 8])
        twins.compare()


def call(twins: Twins, step: bytes) -> None:
    """One call.  A key has few different tokens, so that keys share prefixes of every length."""
    what, length, bits, more, a, b, c, d = step
    stream = int.from_bytes(step[2:8], "little")
    count = length % (twins.reach * twins.size + 2)
    tokens = [(stream >> (at // twins.size)) & 1 for at in range(count)]
    namespace = NAMESPACES[d & 1]
    what %= 16 if twins.host is not None else 9
    if what < 3:
        twins.insert(namespace, tokens, priority=a % 3, chunked=b & 3 == 0)
    elif what == 3:
        twins.insert(namespace, tokens[: 2 * twins.size], priority=a % 3, behind=b)
    elif what == 4:
        twins.match(namespace, tokens)
    elif what == 5:
        twins.lock(namespace, tokens)
    elif what == 6:
        twins.unlock(a)
    elif what == 7:
        twins.evict(1 + bits % 6)
    elif what == 8:
        twins.resume(more, tokens[: 2 * twins.size])
    elif what == 9:
        twins.evict_host(1 + bits % 4)
    elif what in (10, 11):
        twins.back_up(namespace, tokens, 1 + more % 3)
    elif what == 12:
        twins.load(namespace, tokens)
    elif what == 13:
        twins.commit(namespace, tokens, a, 1 + more % 4)
    elif what == 14:
        twins.pin(namespace, tokens, c % 4)
    else:
        twins.unpin(a)
