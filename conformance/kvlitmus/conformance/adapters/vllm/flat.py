"""vLLM's KV cache manager with one group of full attention: a block table, as most models are served.

What is real and what is replaced: see :mod:`~kvlitmus.conformance.adapters.vllm.v0_33`.  A request is begun in one step
of the scheduler, with all of its prompt, and goes on by the tokens that it has put out.  What is full is cached by
``allocate_slots`` itself, so ``publish`` asks for nothing.  ``alloc`` and ``free`` are the block pool's own, as a
connector uses them beside the manager.

A growth that is refused takes its tokens back out of the request: vLLM's scheduler keeps them, and preempts somebody,
and the port's caller may come with others.  That is the request's own account and none of the cache's.

Its KV events are read by **names** (``event_copies`` is ``one``): as somebody reads them who keeps a set of hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, torch_module
from kvlitmus.conformance.adapters.vllm.v0_33 import PLAN, Cleared, Managed
from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Unsupported, View
from kvlitmus.spec.interface import ORPHAN, Event
from kvlitmus.spec.words.units import Key

PROFILE = Profile(
    publish="at_alloc",
    duplicates="kept",
    match_cap="len-1",
    evict_moment="alloc",
    hit_counts="none",
    least_key=1,
    event_copies="one",
)
"""A block table of which the last token is always computed; an empty prompt is refused before it comes to the cache."""

CONFIGS = (
    Config(page_size=1, pages=12),
    Config(page_size=4, pages=8),
    Config(page_size=4, pages=24),
    Config(page_size=16, pages=8),
)


class Table(Managed):
    """A ``KVCacheManager`` of full attention, behind the ports of pools and of requests."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.page_size)
        plain = {"num_kv_heads": 1, "head_size": 1, "dtype": torch_module().float32}
        full = self.interface.FullAttentionSpec(block_size=self.size, **plain)
        self.manager = self.manage({"kv": full}, config.pages, self.size)
        self.running: dict[int, Foreign] = {}
        self.lent: set[int] = set()

    def reset(self) -> None:
        """All requests are freed, and what was lent is given back; then ``reset_prefix_cache``."""
        for rid in list(self.running):
            self.end(rid, keep=False)
        self.pool.free_blocks([self.pool.blocks[number] for number in self.lent])
        self.lent.clear()
        if not self.manager.reset_prefix_cache():
            raise RuntimeError("reset_prefix_cache: blocks are in use though no request runs")

    # Blocks for others

    def alloc(self, n: int) -> list[int] | None:
        """``get_new_blocks``, if ``get_num_free_blocks`` says that there are as many."""
        if n % self.size:
            raise ValueError(f"n must be a multiple of {self.size} (got {n})")
        if n // self.size > self.pool.get_num_free_blocks():
            return None
        blocks = self.pool.get_new_blocks(n // self.size)
        self.lent |= {block.block_id for block in blocks}
        return self.slots(blocks)

    def free(self, slots: Sequence[int]) -> None:
        """``free_blocks``."""
        numbers = [slot // self.size for slot in slots[:: self.size]]
        self.lent -= {*numbers}
        self.pool.free_blocks([self.pool.blocks[number] for number in numbers])

    def available(self) -> int:
        """``get_num_free_blocks``: those that are still found are counted, too."""
        return int(self.pool.get_num_free_blocks()) * self.size

    # Requests

    def match(self, key: Key) -> Hit:
        """``get_computed_blocks``."""
        blocks, length = self.manager.get_computed_blocks(self.asked(key))[:2]
        return Hit(length, self.slots(blocks.blocks[0]))

    def begin(self, rid: int, key: Key) -> Begun | None:
        """``get_computed_blocks`` and ``allocate_slots``, as for a waiting request."""
        request = self.asked(key)
        self.step_starts()
        blocks, length = self.manager.get_computed_blocks(request)[:2]
        if self.manager.allocate_slots(request, request.num_tokens - length, length, blocks) is None:
            return None
        request.num_computed_tokens = request.num_tokens
        self.running[rid] = request
        return Begun(self.row(request), length)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """``append_output_token_ids`` and ``allocate_slots``, as for a running request."""
        request, before = self.running[rid], self.running[rid].num_tokens
        self.step_starts()
        request.append_output_token_ids(list(tokens))
        if self.manager.allocate_slots(request, len(tokens)) is None:
            for some, kept in ((request._output_token_ids, -len(tokens)), (request._all_token_ids, before)):  # noqa: SLF001
                del some[kept:]
            del request.block_hashes[before // self.size :]
            return None
        request.num_computed_tokens = request.num_tokens
        self.remember(request)
        return self.row(request)[before:]

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """What is full is cached already."""
        request = self.running[rid]
        return Begun(self.row(request), request.num_tokens // self.size * self.size)

    def end(self, rid: int, *, keep: bool) -> None:
        """``free``, whether the request has finished or was aborted: what it has cached stays."""
        self.manager.free(self.running.pop(rid))

    def row(self, request: Foreign) -> list[int]:
        """The slots of a request's tokens, by its block table."""
        (table,) = self.manager.get_blocks(request.request_id).blocks
        return self.slots(table)[: request.num_tokens]

    def slots(self, blocks: Sequence[Foreign]) -> list[int]:
        """The slots of these blocks."""
        return [block.block_id * self.size + offset for block in blocks for offset in range(self.size)]

    # What can be seen

    def events(self) -> list[Event]:
        """``take_events``; the namespace is that of the prefix which a block's hash stands for."""
        told: list[Event] = []
        for event in self.manager.take_events():
            if isinstance(event, Cleared):
                told.append(Event("cleared"))
            elif event.what == "stored":
                above, size = event.parent_block_hash, self.size
                for at, name in enumerate(event.block_hashes):
                    units = tuple(event.token_ids[at * size : (at + 1) * size])
                    told.append(Event("stored", "device", name, above, units, self.told_names[name][0]))
                    above = name
            else:
                told += [Event("removed", "device", name) for name in event.block_hashes]
        return told

    def view(self) -> View:
        """The free queue, and the map from hashes to blocks."""
        index: dict[tuple[str | None, tuple[int, ...]], int] = {}
        nodes: list[NodeView] = []
        found = sorted(self.cached(), key=lambda one: (len(one[1][1]), one[2].block_id))
        for _, (namespace, units), block in found:
            above = (namespace, units[: -self.size])
            slots = tuple(self.slots([block]))
            parent = index.get(above, ORPHAN) if above[1] else -1
            own = units if parent == ORPHAN else units[-self.size :]
            nodes.append(NodeView(parent, namespace, own, slots, block.ref_cnt))
            index[namespace, units] = len(nodes) - 1
        return View([block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()], nodes)


class TablePeer(Peer):
    """The target: plain tokens, on the device."""

    def make(self, config: Config) -> object:
        """A fresh manager; ``Unsupported`` when the release is missing or has no such cache."""
        if config.bigram or config.tiered:
            raise Unsupported("vLLM's block table is of tokens, and on the device")
        return super().make(config)


target = TablePeer(
    plan=PLAN,
    profile=PROFILE,
    capabilities=frozenset({"pool", "reset", "lookup", "requests", "events", "inspect"}),
    build=Table,
    configs=CONFIGS,
    policies=("lru",),
)
"""vLLM's block table of full attention."""

counted = replace(target, profile=replace(PROFILE, event_copies="each"))
"""The same, read by listeners who count copies."""
