"""What the adapters of SGLang's prefix trees share: the calls, and requests around them.

A release says how its cache is made, which fields its records have, and what it locks by.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from kvlitmus.conformance.adapters.sglang.common.pools import MEM, DevicePool, ExtendPool, Rows
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Plan, install
from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Sizes, View
from kvlitmus.spec.words.units import Key


def walk(root: Foreign) -> Iterator[tuple[int, Foreign]]:
    """The nodes below a root, parents first, each behind the place of its parent among them (-1: the root)."""
    queue = [(-1, child) for child in root.children.values()]
    for at, (parent, node) in enumerate(queue):  # grows while it is walked
        queue.extend((at, child) for child in node.children.values())
        yield parent, node


def node_view(parent: int, node: Foreign, data: Foreign) -> NodeView:
    """A resident node written in Python; ``data``: the part of it that has slots and locks."""
    return NodeView(
        parent=parent,
        namespace=node.key.extra_key,
        units=tuple(node.key),
        slots=tuple(data.value.tolist()),
        locks=data.lock_ref,
        hits=node.hit_count,
        priority=node.priority,
    )


class Tree(DevicePool):
    """A prefix tree over the device's allocator."""

    plan: Plan
    cache: Foreign
    rows: Rows | None = None

    def __init__(self, config: Config, *, need_sort: bool = False) -> None:
        super().__init__(self.plan, config, need_sort=need_sort)
        load = install(self.plan)
        self.config = config
        self.base: Foreign = load(f"{MEM}.base_prefix_cache")
        self.key_class: Foreign = load(f"{MEM}.radix_cache").RadixKey

    def _params(self, **more: object) -> Foreign:
        """What a cache is made with; ``more``: what only some releases or caches ask for."""
        return install(self.plan)(f"{MEM}.cache_init_params").CacheInitParams(
            disable=False,
            req_to_token_pool=self.rows,
            token_to_kv_pool_allocator=self.allocator,
            page_size=self.config.page_size,
            is_eagle=self.config.bigram,
            eviction_policy=self.config.policy,
            **more,
        )

    def _key(self, key: Key) -> Foreign:
        return self.key_class(array("q", key.tokens), key.namespace)

    def match(self, key: Key) -> Hit:
        """``match_prefix``; the handle is what the release locks by."""
        raise NotImplementedError

    def _find(self, key: Key) -> Foreign:
        """``match_prefix``, as SGLang answers it."""
        return self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(key)))

    def _insert(self, key: Key, slots: Sequence[int], **more: object) -> Foreign:
        """``insert``, as SGLang answers it; ``more``: what only some releases ask for."""
        return self.cache.insert(self.base.InsertParams(key=self._key(key), value=self._tensor(slots), **more))

    def lock(self, handle: object) -> object:
        """``inc_lock_ref``; the receipt is the node."""
        self.cache.inc_lock_ref(handle)
        return handle

    def unlock(self, receipt: object) -> None:
        """``dec_lock_ref``."""
        self.cache.dec_lock_ref(receipt)

    def evict(self, n: int) -> int:
        """``evict``."""
        return int(self.cache.evict(self.base.EvictParams(num_tokens=n)).num_tokens_evicted)

    def sizes(self) -> Sizes:
        """``evictable_size()`` and ``protected_size()``."""
        return Sizes(int(self.cache.evictable_size()), int(self.cache.protected_size()))

    def view(self) -> View:
        """The free list, and the tree."""
        return View(free=self._free_pages(), nodes=self._nodes())

    def _nodes(self) -> list[NodeView]:
        """The nodes, parents first."""
        raise NotImplementedError

    def reset(self) -> None:
        """The cache's ``reset()`` and the allocator's ``clear()``, as SGLang's flush does."""
        self.cache.reset()
        super().reset()


class Requests(Tree, ExtendPool):
    """A tree with requests that live as SGLang's do.

    What SGLang's scheduler does around the tree (match, lock, allocate, and the check that memory suffices) is done
    here, in the same order.
    """

    rows: Rows
    requests: dict[int, Foreign]

    def _made(self, rid: int, key: Key, index: int, hit: Hit, receipt: object) -> Foreign:
        """A request that has this row."""
        raise NotImplementedError

    def _place(self, request: Foreign) -> tuple[int, int]:
        """The number of a request's row, and its length."""
        raise NotImplementedError

    def _append(self, request: Foreign, tokens: Sequence[int]) -> None:
        """The request has further tokens, and slots for them."""
        raise NotImplementedError

    def _row(self, request: Foreign) -> list[int]:
        return self.rows.read(*self._place(request))

    def _extend(self, before: int, after: int, last: int, *, decode: bool = False) -> list[int] | None:
        """Slots for further tokens; the scheduler asks for no more than there is."""
        if self._opens([before], [after]) * self.page_size > self.available():
            return None
        if decode:
            return self.alloc_decode([after], [last])
        return self.alloc_extend([before], [after], [last]) if after > before else []

    def begin(self, rid: int, key: Key) -> Begun | None:
        """Match, lock, allocate and write the row."""
        hit = self.match(key)
        receipt = self.lock(hit.handle)
        slots = list(hit.slots or ())
        fresh = self._extend(hit.length, len(key.tokens), slots[-1] if slots else -1)
        if fresh is None:
            self.unlock(receipt)
            return None
        index = self.rows.unused.pop()
        request = self.requests[rid] = self._made(rid, key, index, hit, receipt)
        self.rows.write((index, slice(0, len(key.tokens))), self._tensor([*slots, *fresh]))
        return Begun(self._row(request), hit.length)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """One token by ``alloc_decode``, several by ``alloc_extend``."""
        request = self.requests[rid]
        row = self._row(request)
        before, after = len(row), len(row) + len(tokens)
        fresh = self._extend(before, after, row[-1] if row else -1, decode=len(tokens) == 1 and before > 0)
        if fresh is None:
            return None
        index, _ = self._place(request)
        self._append(request, tokens)
        self.rows.write((index, slice(before, after)), self._tensor(fresh))
        return fresh

    def reset(self) -> None:
        """Forget the requests too."""
        super().reset()
        self.rows.clear()
        self.requests.clear()
