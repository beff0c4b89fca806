"""Null mutants of the hierarchy: legal variations, on which the suite must stay silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.fetch import Prefetcher
from kvlitmus.conformance.specimen.prefix.host import HostPool
from kvlitmus.conformance.specimen.prefix.load import Loader
from kvlitmus.conformance.specimen.prefix.put import PutQueue
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node, Unit
from kvlitmus.conformance.specimen.prefix.works import QUERYING, Fetch, TieredNode, Work
from kvlitmus.mutants.hosted import HOSTED, NOT_BACK, THROUGH, TIMED, WRITE_BACK
from kvlitmus.mutants.prefix.backup import BacksUpAtTheTick
from kvlitmus.mutants.prefix.prefetch import LooksFirst
from kvlitmus.mutants.prefix.release import WAITING as WAITING_FREES
from kvlitmus.mutants.prefix.release import QueuedPool
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.interface import Job, PageStore, Prefetched
from kvlitmus.spec.prefix.prefetch_plan import truncated_length
from kvlitmus.spec.words.units import Key


@null_mutant("acks-a-tick-later")
class AcksATickLater(BackupQueue):
    """What has landed is noted by the tick after the next one: a cache may poll for it in two steps."""

    noted: frozenset[int] = frozenset()

    def acks(self) -> None:
        """Only what had landed a tick ago."""
        landed = [work.id for work in self.queue if work.landed]
        for work in tuple(self.queue):
            if work.id not in self.noted:
                break
            self.end(self.queue.popleft())
        self.noted = frozenset(landed)


@null_mutant("acks-two-per-tick")
class AcksTwoPerTick(BackupQueue):
    """However many copies have landed, a tick takes note of two: the others wait for the next ones."""

    def acks(self) -> None:
        for _ in range(2):
            if self.queue and self.queue[0].landed:
                self.end(self.queue.popleft())


class DrainsLate(HostPool):
    """A host pool whose release queue has two stages."""

    drained: Sequence[int] = ()

    def drain(self) -> None:
        """Free what was there a tick ago."""
        ready: list[int] = []
        rest: list[int] = []
        for page in self.releasing:
            (ready if page in self.drained else rest).append(page)
        self.releasing, self.drained = rest, rest
        self.give_back(ready)


@null_mutant("releases-a-tick-later", beside=(DrainsLate,))
class ReleasesATickLater(Prefetcher):
    """What is released becomes free by the tick after the next one; but a detach doesn't leave any of it behind."""

    def detach(self) -> None:
        """The next tick is the last one."""
        super().detach()
        assert isinstance(self.host, DrainsLate)
        self.host.drained = list(self.host.releasing)


@null_mutant("whole-host-nodes-go", profile=replace(PROFILE, evict_granularity="node"))
class WholeHostNodesGo(TierTree):
    """The host evicts whole nodes, a little more than was asked for, as the profile declares."""

    def host_pages_to_trim(self, leaf: TieredNode, n: int) -> int:
        return len(leaf.host)


@null_mutant("host-duplicates-go-first", profile=replace(PROFILE, host_duplicates="reclaimed"), configs=WRITE_BACK[:1])
class HostDuplicatesGoFirst(TierTree):
    """Under write-back an eviction of the host drops copies of what is on the device too, as the profile declares; but
    not to make room for what is leaving the device, which may be the next of these.
    """

    leaving = False

    def evict(self, n: int) -> int:
        self.leaving = True
        freed = super().evict(n)
        self.leaving = False
        return freed

    def evict_host(self, n: int) -> int:
        """Those first, then what is on the host alone."""
        freed = 0
        waiting = [child for root in self.roots.values() for child in root.children.values() if not self.leaving]
        while waiting and freed < n:
            node = waiting.pop()
            waiting += node.children.values()
            assert isinstance(node, TieredNode)
            if node.pages and node.host and not node.pins:
                freed += self.reclaim(node)
        return freed + (super().evict_host(n - freed) if freed < n else 0)

    def reclaim(self, node: TieredNode) -> int:
        """Drop the host copy of a node that is on the device; returns the slots freed."""
        victims, node.host = node.host, []
        self.tell_removed("host", node.names)
        self.host.give_back(victims)
        return len(victims) * self.page_size


@null_mutant("drops-what-cannot-be-spilled", configs=WRITE_BACK)
class DropsWhatCannotBeSpilled(TierTree):
    """Under write-back a page that can't be copied to the host is given up, and what is below it on the host with it.

    What is below a page can't be reached without it, whatever it is worth: so it isn't dropped in the policy's order.
    """

    def trim(self, leaf: Node, pages: int) -> int:
        """As always; where that gives nothing, the end of the leaf and all below it leave the tree."""
        freed = super().trim(leaf, pages)
        if freed or not self.write_back:
            return freed
        assert isinstance(leaf, TieredNode)
        below = list(leaf.children.values())
        for node in below:
            below += node.children.values()
        if any(node.pins for node in below):
            return 0
        for node in reversed(below):
            self.trim_host(node, len(node.host))
        return self.drop(leaf, pages)


class LoadsMakeRoomForAll(Loader):
    """A load that is short of device memory has as much evicted as it brings."""

    def room(self, pages: int, resident: TieredNode) -> list[int] | None:
        if pages > len(self.pool.free_list):
            self.tree.evict(pages * self.pool.page_size)
        return self.pool.take(pages)


@null_mutant("room-for-all-on-both-tiers", profile=replace(PROFILE, evict_amount="need"), beside=(LoadsMakeRoomForAll,))
class RoomForAllOnBothTiers(TierTree):
    """What is short of memory has as much evicted as it needs in all, on either tier, as the profile declares."""

    def host_room(self, pages: int) -> list[int] | None:
        found = self.host.take(pages)
        if found is None:
            self.evict_host(pages * self.page_size)
            found = self.host.take(pages)
        return found


@null_mutant("ancestors-go-first", profile=replace(PROFILE, backup_parent="chain"))
class AncestorsGoFirst(BackupQueue):
    """Where the page before isn't backed, it is backed up first instead of waiting for it, as the profile declares."""

    def after_insert(self, namespace: str | None, units: tuple[Unit, ...], path: list[TieredNode]) -> None:
        """Up to the last page that was used often enough."""
        due = [at for at, node in enumerate(path) if node.uses >= self.uses]
        end = 0
        for node in path[: due[-1] + 1] if due else ():
            end += len(node.key)
            if not node.host and not self.start(node, namespace, units[:end]):
                break


@null_mutant("reserves-at-the-hit", profile=replace(PROFILE, reserve="hit"))
class ReservesAtTheHit(Prefetcher):
    """Host memory is taken when storage has told how much it has, by a tick, as the profile declares."""

    def reserve(self, fetch: Fetch, length: int) -> bool:
        ask = self.ask(length)
        wanted = self.planner.wanted(ask)
        if self.planner.gate(ask, wanted) is not None:
            return False
        self.tree.pin(fetch.anchor)
        fetch.asked = fetch.accounted = wanted
        fetch.hashed = wanted // self.size
        return True

    def take_hit(self, work: Work, fetch: Fetch, names: Sequence[str], hit: int) -> None:
        fetch.hit = hit
        work.names = names
        work.landed = True

    def drop_revoked(self) -> None:
        """Take memory for what was found, or give up."""
        for work in [work for work in self.works.works.values() if work.kind == "query" and work.landed]:
            fetch = work.fetch
            assert fetch is not None
            if fetch.over:
                self.zombies.remove(fetch)
            elif fetch.hit is not None:
                self.go_on(work, fetch, fetch.hit)
        super().drop_revoked()

    def go_on(self, work: Work, fetch: Fetch, hit: int) -> None:
        """The hit, or what there is room for."""
        pages = self.tree.host_room(hit // self.size)
        if pages is None:
            room = truncated_length(self.ask(hit), self.host.available())
            pages = self.host.take(room // self.size) if room else None
        if pages is None:
            self.revoke(work, fetch)
            return
        fetch.pages = pages
        super().take_hit(work, fetch, work.names, len(pages) * self.size)

    def query(self, work: Work, store: PageStore) -> None:
        """A revocation needs no memory to return."""
        super().query(work, store)
        fetch = work.fetch
        assert fetch is not None and (fetch.stage != QUERYING or not fetch.pages)


@null_mutant("fills-what-it-matched", profile=replace(PROFILE, fill_matched=True), configs=THROUGH)
class FillsWhatItMatched(TierTree):
    """A commit gives what was read to pages that are on the device alone, as the profile declares."""

    def insert_host(self, node: TieredNode, units: tuple[Unit, ...], pages: list[int]) -> tuple[int, int]:
        """What is backed already comes first, then what was not, then what is new."""
        at = filled = 0
        for child in self.walk(node, units):
            count = len(child.key) // self.page_size
            if not child.host and self.may_carry_child(child):
                child.host = pages[at : at + count]
                self.tell_stored("host", child)
                filled += count
            at += count
        known, added = super().insert_host(node, units, pages)
        return known - filled, filled + added

    def may_carry_child(self, child: TieredNode) -> bool:
        return child.parent is not None and self.may_carry(child.parent)


@null_mutant("host-last-freed-first")
class HostLastFreedFirst(HostPool):
    """The host's free list is a stack: a correct pool may hand out any free page."""

    def take(self, count: int) -> list[int] | None:
        self.free_list.reverse()
        pages = super().take(count)
        self.free_list.reverse()
        return pages


@null_mutant("asks-page-by-page")
class AsksPageByPage(Prefetcher):
    """Storage is asked for one page at a time, up to the first that it hasn't."""

    def found(self, store: PageStore, names: Sequence[str]) -> int:
        for at, name in enumerate(names):
            if not super().found(store, [name]):
                return at
        return len(names)


@null_mutant("backs-up-page-by-page")
class BacksUpPageByPage(BackupQueue):
    """A copy for each page, for as many as there is room for, from the beginning of the prompt on."""

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        size = self.tree.page_size
        while len(node.pages) > 1:
            upper = self.tree.split(node, 1)
            if not super().start(upper, namespace, units[: len(units) - len(node.key)]):
                return False
        assert len(node.key) == size
        return super().start(node, namespace, units)


@null_mutant("loads-long-prefixes-only", profile=replace(PROFILE, load_threshold=6))
class LoadsLongPrefixesOnly(Loader):
    """Fewer than six units are not loaded back, as the profile declares."""


@null_mutant(
    "waits-from-the-first-poll",
    profile=replace(PROFILE, timeout=(1.0, 250.0, 0.0), timeout_basis="requested", timeout_from="first_poll"),
    configs=TIMED,
)
class WaitsFromTheFirstPoll(Prefetcher):
    """Time runs from the first poll and grows with what was requested, without a limit, as the profile declares."""


@null_mutant("restoring-counts", profile=replace(PROFILE, restored_counts=True))
class RestoringCounts(TierTree):
    """The insert that brings a page back to the device is a use of it, as the profile declares."""


@null_mutant(
    "matches-count-on-both-tiers",
    profile=replace(PROFILE, hit_counts="match", restored_counts=True),
    configs=tuple(replace(config, policy=policy) for config, policy in zip(HOSTED, ("lfu", "slru") * 4, strict=False)),
)
class MatchesCountOnBothTiers(TierTree):
    """A match is what counts as a use, of what is on the host alone as well; inserts, loads and prefetches aren't.

    Inserts count for the write policy all the same.
    """


@null_mutant("nothing-counts-on-both-tiers", profile=replace(PROFILE, hit_counts="none"), configs=HOSTED)
class NothingCountsOnBothTiers(TierTree):
    """No hits are counted, as the profile declares; what is due for backup follows from the inserts alone."""


@null_mutant(
    "nothing-counts-and-backups-wait",
    profile=replace(PROFILE, hit_counts="none", backup_moment="tick"),
    configs=NOT_BACK,
)
class NothingCountsAndBackupsWait(BacksUpAtTheTick):
    """No hits are counted, and backups begin with the tick after the insert that makes their pages due."""


@null_mutant("storage-brings-the-least-priority")
class StorageBringsTheLeastPriority(TierTree):
    """What was read from storage is worth less than anything, until an insert says what it is worth."""

    def insert_host(self, node: TieredNode, units: tuple[Unit, ...], pages: list[int]) -> tuple[int, int]:
        known, added = super().insert_host(node, units, pages)
        if added:
            self.walk(node, units)[-1].priority = -(1 << 40)
        return known, added


@null_mutant("copies-at-once")
class CopiesAtOnce(BackupQueue):
    """A copy to the host has landed when the call that starts it returns; the next tick takes note."""

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        started = super().start(node, namespace, units)
        if started:
            self.land(self.queue[-1])
        return started


@null_mutant("loads-at-once")
class LoadsAtOnce(Loader):
    """A copy to the device has landed when the call that starts it returns; the next tick takes note."""

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        super().start(key, before, behind, found)
        self.land(self.queue[-1])


@null_mutant("hit-tail-freed-at-once")
class HitTailFreedAtOnce(Prefetcher):
    """What was reserved for pages that storage hasn't got is free as soon as that is known, without a queue."""

    def take_hit(self, work: Work, fetch: Fetch, names: Sequence[str], hit: int) -> None:
        pages = hit // self.size
        self.host.give_back(fetch.pages[pages:])
        fetch.pages = fetch.pages[:pages]
        super().take_hit(work, fetch, names, hit)


@null_mutant("known-pages-released-late")
class KnownPagesReleasedLate(Prefetcher):
    """What a commit finds in the tree already goes to the release queue like everything else that comes back."""

    def commit(self, fetch: Fetch) -> None:
        before = set(self.host.free_list)
        super().commit(fetch)
        known = [page for page in self.host.free_list if page not in before]
        self.host.free_list = [page for page in self.host.free_list if page in before]
        for page in known:
            self.host.is_free[page] = False
        self.host.let_go(known)


@null_mutant("added-is-kept-until-asked")
class AddedIsKeptUntilAsked(Prefetcher):
    """What a prefetch has added is told to whoever asks next, however late: a prefetch that was revoked, or that added
    nothing, leaves it as it is.  SGLang 0.5.23 does so;
    its scheduler asks between the poll and the next prefetch.
    """

    def commit(self, fetch: Fetch) -> None:
        """Added to what nobody has asked for yet."""
        before = self.loaded.get(fetch.rid, 0)
        super().commit(fetch)
        self.loaded[fetch.rid] += before


@null_mutant("puts-tried-again-at-once")
class PutsTriedAgainAtOnce(PutQueue):
    """What storage refused is tried again by the tick that takes note of it, once, instead of at the next use."""

    def finish(self, work: Work) -> None:
        """The rest, if its first page was refused for the first time."""
        rest = list(work.sources[work.done :])
        nodes = list(work.nodes)
        again = rest and work.done
        super().finish(work)
        if again and all(page in node.host for page, node in self.homes(nodes, rest)):
            start = work.start + work.done * self.size
            self.start([node for node in nodes if not set(rest).isdisjoint(node.host)], rest, work.key, start)

    def homes(self, nodes: list[TieredNode], pages: list[int]) -> list[tuple[int, TieredNode]]:
        return [(page, node) for page in pages for node in nodes if page in node.host]

    def detach(self) -> None:
        for work in self.works.works.values():
            if work.kind == "put":
                work.sources = work.sources[: work.done]
        super().detach()


@null_mutant("host-plan-looks-first", configs=HOSTED)
class HostPlanLooksFirst(LooksFirst):
    """A prefetch looks at what is available before it allocates, as later releases do."""


@null_mutant("refused-prefetches-are-uses")
class RefusedPrefetchesAreUses(Prefetcher):
    """A prefetch that is refused has looked up what is cached all the same, which is as recent a use as any."""

    def start(self, rid: int, key: Key, storage_on: bool) -> tuple[bool, int, int, int]:
        started = super().start(rid, key, storage_on)
        if not started[0]:
            self.tree.reach(key.namespace, key.units)
        return started


@null_mutant("puts-begin-at-the-tick")
class PutsBeginAtTheTick(PutQueue):
    """What an insertion finds missing in storage is put from the next tick on, as far as it is on the host then."""

    ends: list[tuple[str | None, tuple[Unit, ...], TieredNode]]

    def after_insert(self, namespace: str | None, units: tuple[Unit, ...], path: list[TieredNode]) -> None:
        """Remember where it ends."""
        if path:
            self.__dict__.setdefault("ends", []).append((namespace, units, path[-1]))

    def acks(self) -> None:
        super().acks()
        for namespace, units, end in self.__dict__.pop("ends", []):
            path: list[TieredNode] = []
            at = end
            while at.parent is not None:
                path.insert(0, at)
                at = at.parent
            super().after_insert(namespace, units, path)

    def detach(self) -> None:
        self.__dict__.pop("ends", None)
        super().detach()


@null_mutant("backups-pass-a-filter", profile=replace(PROFILE, backup_filter="own"), configs=NOT_BACK)
class BackupsPassAFilter(BackupQueue):
    """A page of no priority has to be used once more than the write policy says, as the profile's filter lets the cache
    decide: TensorRT-LLM copies to the host only what has a priority (``secondaryOffloadMinPriority``).
    """

    def due(self, node: TieredNode) -> bool:
        return super().due(node) and (node.priority > 0 or node.uses > self.uses)


@null_mutant("backups-begin-at-the-tick", profile=replace(PROFILE, backup_moment="tick"), configs=NOT_BACK)
class BackupsBeginAtTheTick(BacksUpAtTheTick):
    """What an insertion has made due is backed up by the next tick, as far as it is there still, as is declared."""


@null_mutant("prefetches-refuse-other-widths")
class PrefetchesRefuseOtherWidths(TieredSpecimen):
    """Integers of another width than its own are refused, as any other misuse is."""

    def raw_prefetch(self, rid: int, tokens: object, namespace: str | None) -> Prefetched:
        if not isinstance(tokens, list):
            raise ValueError("expected integers of the cache's own width")
        return super().raw_prefetch(rid, tokens, namespace)


class EvictsAtOnceBelow(TierTree):
    """A tree of two tiers whose victims are free at once, over a pool with a release queue."""

    def __init__(
        self, page_size: int, policy: str, release: Callable[[Sequence[int]], None], host: HostPool, write: str
    ) -> None:
        pool = getattr(release, "__self__", None)
        assert isinstance(pool, QueuedPool)
        super().__init__(page_size, policy, pool.at_once, host, write)


class UnbegunLoadsLeaveNothing(Loader):
    """Loads whose pages are free at once where the copy can't be begun: nobody had them."""

    def submitted(self) -> bool:
        begun = super().submitted()
        assert isinstance(self.pool, QueueAboveAHost)
        self.pool.unused = not begun
        return begun


@null_mutant(
    "what-is-freed-waits-above-a-host",
    profile=WAITING_FREES,
    beside=(EvictsAtOnceBelow, UnbegunLoadsLeaveNothing),
    configs=HOSTED,
)
class QueueAboveAHost(QueuedPool):
    """What is given back to the device waits in a release queue for the next two frees, as the profile declares."""

    unused = False

    def put_off(self, many: int) -> None:
        if not self.unused:
            super().put_off(many)
        self.unused = False


@null_mutant("one-queue-for-all-jobs")
class OneQueueForAllJobs(TieredSpecimen):
    """All jobs stand in one queue, copies and what goes to and from storage: only the first of them can be advanced."""

    def jobs(self) -> Sequence[Job]:
        listed = super().jobs()
        first = next((job.id for job in listed if not job.landed), None)
        return [job._replace(ready=job.id == first) for job in listed]
