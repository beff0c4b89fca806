"""The specimen's puts: host pages to storage."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.prefix.hashing import PageHasher
from kvlitmus.conformance.specimen.prefix.host import STORED, UNDER_WAY, UNSTORED, Copier, HostPool
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work, WorkTable, key_of
from kvlitmus.spec.interface import PageStore
from kvlitmus.spec.words.units import Key, Unit


class PutQueue:
    """Puts of runs of pages, in the order of their prefix.

    Upkeep: the nodes that a put reads from are pinned until its end is taken note of;
    ``HostPool.stored`` says of every page whether it is stored or under way.
    """

    def __init__(
        self, tree: TierTree, host: HostPool, copier: Copier, works: WorkTable, hasher: PageHasher, bigram: bool
    ) -> None:
        self.tree = tree
        self.host = host
        self.copier = copier
        self.works = works
        self.hasher = hasher
        self.size = tree.page_size
        self.bigram = bigram

    def start(self, nodes: list[TieredNode], pages: list[int], key: Key, start: int) -> None:
        """Put these pages of these nodes, which are those of the key from ``start`` on."""
        work = self.works.add("put", key, start)
        work.pins = True
        work.nodes, work.sources = list(nodes), pages
        work.names = self.names(key, start)
        for page in pages:
            self.host.stored[page] = UNDER_WAY
        for node in nodes:
            node.works.append(work)
            self.tree.pin(node)

    def names(self, key: Key, start: int) -> Sequence[str]:
        """What the pages of a key from ``start`` on are called in storage."""
        return self.hasher.page_hashes(key, self.size, None)[start // self.size :]

    def after_insert(self, namespace: str | None, units: tuple[Unit, ...], path: list[TieredNode]) -> None:
        """Put the pages of a path that storage hasn't got: after a failure, or from before there was storage."""
        stored = self.host.stored
        run: list[tuple[int, TieredNode]] = []
        at = 0
        for node in path:
            settled = self.settled(node)
            for page in node.host:
                if settled and stored[page] == UNSTORED:
                    run.append((page, node))
                elif run:
                    self.start_run(run, key_of(namespace, units[:at], self.bigram))
                    run = []
                at += self.size
            if not node.host:
                break
        if run:
            self.start_run(run, key_of(namespace, units[:at], self.bigram))

    def settled(self, node: TieredNode) -> bool:
        """Whether the host copy of a node has its contents."""
        return not any(work.kind == "backup" for work in node.works)

    def start_run(self, run: list[tuple[int, TieredNode]], key: Key) -> None:
        """Put pages that follow one another and end where the key ends."""
        nodes = list(dict.fromkeys([node for _, node in run]))
        self.start(nodes, [page for page, _ in run], key, key.length - len(run) * self.size)

    def put(self, work: Work, store: PageStore, pages: int | None) -> None:
        """Put page by page, at most ``pages``; the first one that fails ends it."""
        while work.done < len(work.sources) and pages != 0:
            page = work.sources[work.done]
            if not self.accepted(store, work.names[work.done], self.copier.read(page)):
                work.landed = True
                return
            self.host.stored[page] = STORED
            work.done += 1
            pages = pages if pages is None else pages - 1
        work.landed = work.done == len(work.sources)

    def accepted(self, store: PageStore, name: str, contents: tuple[int, ...]) -> bool:
        """Whether storage took the page."""
        try:
            return store.put(name, contents)
        except Exception:  # noqa: BLE001  whatever storage raises is one failed page
            return False

    def acks(self) -> None:
        """Take note of the puts that are over."""
        for work in [work for work in self.works.works.values() if work.kind == "put" and work.landed]:
            self.finish(work)

    def finish(self, work: Work) -> None:
        """One of them: pages that weren't stored may be tried again."""
        nodes = list(work.nodes)
        self.works.remove(work)
        for page in work.sources[work.done :]:
            self.host.stored[page] = UNSTORED
        for node in nodes:
            self.tree.unpin(node)

    def detach(self) -> None:
        """Storage goes away: every put ends at once, and what it had is of no use any more."""
        for work in [work for work in self.works.works.values() if work.kind == "put"]:
            self.finish(work)
        self.host.stored = bytearray(len(self.host.stored))
