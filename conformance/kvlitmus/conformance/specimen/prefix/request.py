"""The specimen's requests: rows of slots, and what is done with them on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from kvlitmus.spec.words.units import Key


@dataclass(slots=True, eq=False, repr=False)
class SpecimenRequest:
    """A running request: its key so far, its row, how much of the row is the tree's, and the node it holds.

    ``upto``: how many units may be cached now, where the caller has said so.
    """

    key: Key
    row: list[int]
    cached: int
    node: Node
    upto: int | None = None


class RequestTable:
    """All running requests of one pool and one tree.

    Upkeep: ``row[:cached]`` are the tree's slots, whole pages, protected by one lock on ``node``;
    ``row[cached:]`` are the request's own.  ``device``: the contents of slots, where there are any;
    ``saved``: the requests that are on the host, with the contents of their rows.  ``bringing``: what slots will hold
    that loads fill.
    """

    def __init__(self, pool: PagedPool, tree: RadixTree) -> None:
        self.pool = pool
        self.tree = tree
        self.running: dict[int, SpecimenRequest] = {}
        self.device: list[int] | None = None
        self.saved: dict[int, tuple[SpecimenRequest, list[int]]] = {}
        self.bringing: Callable[[], dict[int, int]] = dict

    def make_room(self, pages: int) -> bool:
        """Evict what is missing for ``pages`` free pages; whether there are that many now."""
        short = pages - len(self.pool.free_list)
        if short > 0:
            self.tree.evict(short * self.pool.page_size)
        return pages <= len(self.pool.free_list)

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        """Match, lock, allocate; or leave everything as it was."""
        size = self.pool.page_size
        pages, node = self.find(key)
        self.tree.lock(node)
        wanted = -(-len(key.tokens) // size) - len(pages)
        if not self.make_room(wanted):
            self.tree.unlock(node)
            return None
        own = self.pool.take(wanted)
        assert own is not None
        row = self.pool.slots(pages + own)[: len(key.tokens)]
        self.running[rid] = SpecimenRequest(key, row, len(pages) * size, node)
        return self.running[rid]

    def find(self, key: Key) -> tuple[list[int], Node]:
        """The pages that the tree has for a new request, and the node where they end."""
        return self.tree.match(key.namespace, key.units)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """Slots for further tokens, or ``None``."""
        request = self.running[rid]
        size = self.pool.page_size
        before = len(request.row)
        after = before + len(tokens)
        if not self.make_room(-(-after // size) + (-before // size)):
            return None
        new = self.pool.alloc_extend([before], [after], [request.row[-1] if request.row else -1])
        assert new is not None
        request.row += new
        request.key = request.key._replace(tokens=request.key.tokens + tuple(tokens))
        return new

    def take_back(self, rid: int, n: int) -> int:
        """Forget the last tokens, and free the pages behind what is left; how many pages that is."""
        request, size = self.running[rid], self.pool.page_size
        left = len(request.row) - n
        if left < request.cached:
            raise ValueError(f"of {len(request.row)} tokens {request.cached} are cached (got {n} to take back)")
        behind = [slot // size for slot in request.row[-(-left // size) * size :: size]]
        del request.row[left:]
        request.key = request.key._replace(tokens=request.key.tokens[:left])
        self.pool.give_back(behind)
        return len(behind)

    def fork(self, rid: int, of: int) -> SpecimenRequest | None:
        """A second request over a row: what the tree has of it is shared and locked once more, the rest is copied."""
        request, size = self.running[of], self.pool.page_size
        if rid in self.running:
            raise ValueError(f"request {rid} is running already")
        wanted = -(-len(request.row) // size) - request.cached // size
        if not self.make_room(wanted):
            return None
        own = self.pool.take(wanted)
        assert own is not None
        self.tree.lock(request.node)
        row = (request.row[: request.cached] + self.pool.slots(own))[: len(request.row)]
        self.write(row, self.read(request.row))
        self.running[rid] = SpecimenRequest(request.key, row, request.cached, request.node)
        return self.running[rid]

    def flush(self) -> bool:
        """Forget what nobody protects."""
        self.tree.evict(self.pool.pages * self.pool.page_size)
        return True

    def read(self, slots: Sequence[int]) -> list[int]:
        """What is in these slots."""
        return [] if self.device is None else [self.device[slot] for slot in slots]

    def write(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Write into these slots; nothing where there are no contents."""
        for slot, value in zip(slots, values, strict=False):
            assert self.device is not None
            self.device[slot] = value

    def retract(self, rid: int) -> bool:
        """Copy a request's row to the host, and let it go on the device.

        What a load is still to bring is read from where the load reads it.
        """
        request = self.running[rid]
        brought = self.bringing()
        held = zip(request.row, self.read(request.row), strict=False)
        self.saved[rid] = request, [brought.get(slot, value) for slot, value in held]
        self.end(rid, keep=False)
        return True

    def resume(self, rid: int) -> SpecimenRequest | None:
        """Bring a request's row back into pages of its own."""
        request, contents = self.saved[rid]
        wanted = -(-len(request.row) // self.pool.page_size)
        own = self.pool.take(wanted) if self.make_room(wanted) else None
        if own is None:
            return None
        self.discard(rid)
        row = self.pool.slots(own)[: len(request.row)]
        self.write(row, contents)
        root = self.tree.root(request.key.namespace)
        self.tree.lock(root)
        self.running[rid] = SpecimenRequest(request.key, row, 0, root)
        return self.running[rid]

    def discard(self, rid: int) -> None:
        """Forget what the host has of a request."""
        del self.saved[rid]

    def publish(self, rid: int, chunked: bool) -> SpecimenRequest:
        """Cache the whole pages computed so far and go on with the tree's slots."""
        request = self.running[rid]
        already, node = self.store(request, chunked)
        self.drop_duplicates(request, already)
        self.tree.lock(node)
        self.tree.unlock(request.node)
        request.node = node
        request.row[: self.cacheable(request)] = self.pool.slots(self.path_pages(node))
        request.cached = self.cacheable(request)
        return request

    def publish_upto(self, rid: int, upto: int, chunked: bool) -> SpecimenRequest:
        """The same for the first ``upto`` units, of which alone something is computed."""
        request = self.running[rid]
        request.upto = upto
        published = self.publish(rid, chunked)
        published.upto = None
        return published

    def end_upto(self, rid: int, upto: int) -> None:
        """Finish; only the first ``upto`` units are computed."""
        self.running[rid].upto = upto
        self.end(rid, keep=True)

    def end(self, rid: int, keep: bool) -> None:
        """Finish or abort: free everything that the tree did not take."""
        request = self.running.pop(rid)
        kept = request.cached
        if keep:
            already, _ = self.store(request, chunked=False)
            self.drop_duplicates(request, already)
            kept = self.cacheable(request)
        self.free_tail(request, kept)
        self.tree.unlock(request.node)

    def cacheable(self, request: SpecimenRequest) -> int:
        """How many of the request's slots fill whole pages of its key, as far as it is computed."""
        length = request.key.length if request.upto is None else min(request.upto, request.key.length)
        return length - length % self.pool.page_size

    def store(self, request: SpecimenRequest, chunked: bool) -> tuple[int, Node]:
        """Insert the request's whole pages; returns how many pages were cached already, and the last node."""
        size = self.pool.page_size
        end = self.cacheable(request)
        pages = [slot // size for slot in request.row[:end:size]]
        return self.tree.insert(request.key.namespace, request.key.units[:end], pages, 0, chunked)

    def drop_duplicates(self, request: SpecimenRequest, already: int) -> None:
        """Free the pages that another request had cached first."""
        size = self.pool.page_size
        self.pool.give_back([slot // size for slot in request.row[request.cached : already * size : size]])

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
        """Free the request's own pages from position ``start`` on, the partly filled last one included."""
        size = self.pool.page_size
        self.pool.give_back([slot // size for slot in request.row[start::size]])

    def path_pages(self, node: Node) -> list[int]:
        """The pages from the root to this node, in order."""
        runs: list[list[int]] = []
        at: Node | None = node
        while at is not None:
            runs.append(at.pages)
            at = at.parent
        return [page for run in reversed(runs) for page in run]
