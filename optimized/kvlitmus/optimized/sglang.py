"""SGLang's unified radix cache on this core: a tree core for its own registration (0.5.23).

:func:`register` makes the name ``kvlitmus`` known to SGLang; ``SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND=kvlitmus`` or
``CacheInitParams.tree_core_backend`` then chooses it.  SGLang's ``UnifiedRadixCache`` stays in charge: it allocates and
frees slots in its own allocator, and asks this core which of them hold what.  All slots that the tree lets go of are
handed to it.

It is a tree of one component on the device.  What SGLang asks of a host tier, of storage, of sliding windows, Mamba
states, sessions and sharded pages is refused: ``ValueError`` where a cache is made so, and ``NotImplementedError`` with
the method's name where one is called all the same.  Its KV events are refused, too.

SGLang counts a hit of each node behind what a request has inserted already.  Here an insert counts on its whole path or
not at all: the first one of a request does, the others don't.  Only ``lfu`` and ``slru`` look at hits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kvlitmus.optimized import cores
from kvlitmus.optimized.arrays import CACHED, IntArray, PageArray
from kvlitmus.optimized.branch import Place
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.inputs import MOST_PRIORITY, StaleHandle
from kvlitmus.optimized.lent import LentCache

NAME = "kvlitmus"
MEM = "sglang.srt.mem_cache"
UNIFIED = f"{MEM}.unified_cache"
FEWEST = 1024
"""So many handles are kept before those that name nothing any more are looked for."""
STEP = 256
"""Slots that one step of an eviction frees: SGLang looks after each step whether there are enough."""


class Elsewhere:
    """SGLang's allocator, as the cache sees it: SGLang asks it for slots, and is handed what the tree lets go of."""

    def available(self) -> int:
        """None are taken through the cache."""
        return 0

    def take(self, count: int) -> None:
        """None."""

    def free(self, pages: PageArray) -> None:
        """Whoever called gets them."""


class Step(NamedTuple):
    """The part of a branch on the path to a place, cut where nodes begin."""

    branch: Any
    starts: Sequence[int]
    children: int
    protected: int


class TreeCore:
    """The methods of SGLang's interface that a tree on the device has; :func:`core_class` makes it one of SGLang's.

    A handle is a number.  The same place has the same one for as long as it is cached.
    """

    supports_rotation_base = False
    enable_hicache = False
    enable_storage = False
    enable_external_cache_linker = False
    has_swa_host_pool = False
    is_write_back = False
    is_host_memory_buffer_only = False
    write_through_threshold = 256

    def __init__(self, params: Any) -> None:
        self.torch: Any = import_module("torch")
        self.base: Any = import_module(f"{MEM}.base_prefix_cache")
        self.words: Any = import_module(f"{UNIFIED}.unified_tree_core_interface")
        self.actions: Any = import_module(f"{UNIFIED}.cache_action")
        self.full: Any = import_module(f"{UNIFIED}.component_type").ComponentType.FULL
        self.refuse(params)
        allocator = params.token_to_kv_pool_allocator
        self.page_size = size = int(params.page_size)
        self.is_eagle = bool(params.is_eagle)
        self.device = self.torch.device(allocator.device)
        self.kv_events = import_module(f"{MEM}.events").KVCacheEventRecorder(enabled=False, page_size=size)
        config = CacheConfig(
            page_size=size,
            pages=int(allocator.size) // size,
            policy=params.eviction_policy.lower(),
            bigram=self.is_eagle,
            dtype="int64",
            core=cores.NATIVE,
        )
        self.cache = LentCache(config, Elsewhere())
        self.last = -1
        self.wanted = 0
        self.fresh()

    def refuse(self, params: Any) -> None:
        """Raise ``ValueError`` for a cache that this tree can't be the core of."""
        for what, asked in (
            ("components besides FULL", tuple(params.tree_components) != (self.full,)),
            ("components of your own", bool(params.component_registry_override)),
            ("sessions", params.enable_session_radix_cache),
            ("KV events", params.enable_kv_cache_events),
            ("settings of the eviction policy", bool(params.eviction_policy_config)),
        ):
            if asked:
                raise ValueError(f"the tree core {NAME!r} has no {what}")

    # -- handles -------------------------------------------------------------------------------

    def fresh(self) -> None:
        """No handle of before is known; the root has a new one."""
        self.tree: Any = self.cache.tree
        self.last += 1
        self.root = self.last
        self.places: dict[int, Any] = {}
        self.numbers: dict[tuple[int, int], int] = {}
        self.limit = FEWEST
        self.nothing = self.matched(self.root, 0)

    def number(self, place: Any) -> int:
        """The handle of a place that is cached."""
        branch = place.branch
        if branch.parent is None:
            return self.root
        at = (branch.uid, place.end)
        known = self.numbers.get(at)
        if known is not None and self.lives(self.places[known]):
            return known
        if len(self.places) >= self.limit:
            self.sweep()
        self.last += 1
        self.numbers[at] = self.last
        self.places[self.last] = place
        return self.last

    def lives(self, place: Any) -> bool:
        """Whether what a place names is cached."""
        try:
            self.tree.check(place)
        except StaleHandle:
            return False
        return True

    def sweep(self) -> None:
        """Forget the handles of what is gone."""
        self.places = {number: place for number, place in self.places.items() if self.lives(place)}
        self.numbers = {(place.branch.uid, place.end): number for number, place in self.places.items()}
        self.limit = max(FEWEST, 2 * len(self.places))

    def place(self, node_id: int) -> Any:
        """What a handle names; ``KeyError`` for one that names nothing any more, ``None`` for the root."""
        return None if node_id == self.root else self.places[node_id]

    # -- keys and slots ------------------------------------------------------------------------

    def namespace(self, key: Any) -> Hashable:
        """Keys share what is cached where both of these are the same."""
        return key.extra_key if key.cache_salt is None else (key.extra_key, key.cache_salt)

    def tokens(self, key: Any) -> IntArray:
        """The tokens of a key, in its own memory."""
        return np.asarray(key.raw_token_ids(), dtype=np.int64)

    def tensor(self, pages: PageArray) -> Any:
        """The slots of these pages."""
        return self.torch.from_numpy(self.tree.pool.slots(pages)).to(self.device)

    # -- match ---------------------------------------------------------------------------------

    def matched(self, node: int, length: int) -> Any:
        """SGLang's answer to a match."""
        visited = node if length else None
        more: dict[str, Any] = {"full_kv_hit_length": length, "last_visited_node_id": visited, "cache_actions": []}
        return self.base.MatchResult(length, node, node, node, **more)

    def match_prefix(self, params: Any) -> Any:
        """The longest cached prefix; it is used now."""
        key, cache = params.key, self.cache
        if cache.calls.torn:
            cache.calls.refuse()
        found = self.tree.match(self.namespace(key), cache.units(self.tokens(key)))
        return self.matched(self.number(found.place), found.known * self.page_size)

    def match_full_device_prefix(self, key: Any) -> tuple[int, int, int]:
        """The same without a use; what a pin of it keeps is what was found."""
        found = self.tree.find(self.namespace(key), self.cache.units(self.tokens(key)))
        length = found.known * self.page_size
        return length, self.number(found.place), length

    @property
    def empty_match_result(self) -> Any:
        """Nothing was found."""
        return self.nothing

    def root_node_handle(self, extra_key: str | None = None) -> int:
        """One root serves every namespace."""
        return self.root

    def collect_full_device_indices(self, from_node_id: int, until_node_id: int) -> Any:
        """The slots of a path, behind another place on it."""
        place, until = self.place(from_node_id), self.place(until_node_id)
        if place is None:
            return self.torch.empty(0, dtype=self.torch.int64, device=self.device)
        return self.tensor(self.tree.path_pages(place, 0 if until is None else self.tree.depth(until)))

    # -- insert --------------------------------------------------------------------------------

    def begin_insert(self, params: Any) -> Any:
        """The whole insert: it never waits."""
        key, size = params.key, self.page_size
        tokens = self.tokens(key)
        count = (len(tokens) - self.is_eagle) // size if len(tokens) else 0
        if not count:
            return self.words.InsertStepResult(
                [], self.base.InsertResult(0, last_device_node=self.root, mamba_exist=True)
            )
        value = params.value
        priority = max(-MOST_PRIORITY, min(params.priority or 0, MOST_PRIORITY))
        inserted = self.cache.insert(
            tokens,
            value[: count * size : size].cpu().numpy() // size,
            self.namespace(key),
            priority=priority,
            chunked=params.inserted_len > 0,
        )
        known, node = inserted.already * size, self.number(inserted.place)
        twice = value[params.prev_prefix_len : known]
        actions = [self.actions.FreeDeviceKV([twice])] if params.prev_prefix_len < known else []
        new = (known, count * size)
        adopted = {self.full: [new] if known < count * size else []} if params.track_adopted_ranges else None
        result = self.base.InsertResult(known, last_device_node=node, adopted_ranges=adopted)
        return self.words.InsertStepResult(actions, result)

    def has_ongoing_insert(self) -> bool:
        """An insert is one step."""
        return False

    def end_insert(self) -> list[Any]:
        """Nothing is left of it."""
        return []

    # -- locks ---------------------------------------------------------------------------------

    def inc_lock_ref(self, node_id: int, skip_lock_components: Sequence[Any] = ()) -> Any:
        """Protect a path."""
        skipped = tuple(skip_lock_components)
        if self.full not in skipped:
            self.inc_full_pin(node_id)
        return self.base.IncLockRefResult(node_id=node_id, skipped_lock_components=skipped)

    def dec_lock_ref(self, node_id: int, params: Any, skip_swa: bool = False) -> Any:
        """Give the protection back; a receipt is good for its own node."""
        if params.node_id != node_id:
            raise ValueError(f"a lock of node {params.node_id} was to be released on node {node_id}")
        if self.full not in params.skipped_lock_components:
            self.dec_full_pin(node_id)
        return self.base.DecLockRefResult()

    def inc_full_pin(self, node_id: int) -> None:
        """Protect a path."""
        place = self.place(node_id)
        if place is not None:
            self.tree.lock(place)

    def dec_full_pin(self, node_id: int) -> None:
        """Give that protection back."""
        place = self.place(node_id)
        if place is not None:
            self.tree.unlock(place)

    # -- eviction ------------------------------------------------------------------------------

    def evict_device_start(self, component_type: Any, request_cnt: int) -> None:
        """So many slots are to become free."""
        self.wanted = request_cnt

    def evict_device_next_node(self, component_type: Any, tracker: Any) -> Any:
        """Evict some of them, page by page: there is no leaf for SGLang to evict."""
        result = self.words.EvictDeviceNextNodeResult()
        short = self.wanted - tracker[self.full]
        pages = self.cache.evict(max(0, min(short, STEP)))
        if len(pages):
            result.device_frees[self.full].append(self.tensor(pages))
            result.tracker[self.full] = len(pages) * self.page_size
            result.made_progress = True
        return result

    def evict_device_end(self, component_type: Any) -> None:
        """The eviction is over."""
        self.wanted = 0

    # -- sizes ---------------------------------------------------------------------------------

    def full_evictable_size(self) -> int:
        """How many slots could be evicted."""
        return self.cache.sizes()[0]

    def full_protected_size(self) -> int:
        """How many are protected."""
        return self.cache.sizes()[1]

    evictable_size, protected_size = full_evictable_size, full_protected_size

    def component_evictable_size(self, component_type: Any) -> int:
        """The same of one component."""
        return self.full_evictable_size() if component_type == self.full else 0

    def component_protected_size(self, component_type: Any) -> int:
        """The same of one component."""
        return self.full_protected_size() if component_type == self.full else 0

    def swa_evictable_size(self) -> int:
        """There is no window."""
        return 0

    mamba_evictable_size = swa_protected_size = mamba_protected_size = swa_evictable_size

    def total_size(self) -> tuple[int, int]:
        """All slots of the tree, and none of another component."""
        return sum(self.cache.sizes()), 0

    def all_values_flatten(self) -> Any:
        """All slots of the tree."""
        state = np.asarray(self.tree.pool.state)
        return self.tensor(np.flatnonzero(state == CACHED).astype(np.int32))

    # -- what a tree on the device says of tiers -----------------------------------------------

    def reset(self) -> None:
        """Forget everything; handles of before name nothing."""
        self.cache.reset()
        self.fresh()

    def is_root(self, node_id: int) -> bool:
        """Whether this is the root."""
        return node_id == self.root

    def is_backuped(self, node_id: int) -> bool:
        """Nothing is on a host."""
        return False

    def is_write_through_compatible(self) -> bool:
        """Nothing is on a host."""
        return True

    def is_full_device_evicted(self, node_id: int) -> bool:
        """What is cached is on the device."""
        return False

    # -- observation ---------------------------------------------------------------------------

    def steps(self) -> dict[int, Step]:
        """All branches by number, from a copy of the core's own tables."""
        branches = {branch.uid: branch for branch in self.tree.branches()}
        children: dict[int, int] = {}
        for branch in branches.values():
            if branch.parent is not None:
                children[branch.parent.uid] = children.get(branch.parent.uid, 0) + (branch.at == branch.parent.n)
        found = {}
        for one in self.tree.export()[0]:
            uid, nodes, locks = one[0], one[8], one[9]
            starts = [0] if isinstance(nodes, int) else [node[0] for node in nodes]
            found[uid] = Step(branches[uid], starts, children.get(uid, 0), locks[-1] >> 1 if locks else 0)
        return found

    def path(self, steps: dict[int, Step], place: Any) -> Iterator[tuple[Step, int, int]]:
        """The nodes of the path to a place, from the root on."""
        branch, end = place.branch, place.end
        if branch.parent is None:
            return
        yield from self.path(steps, Place(branch.parent, branch.at, 0))
        step = steps[branch.uid]
        yield from ((step, lo, hi) for lo, hi in pairwise([*step.starts, branch.n]) if lo < end)

    def collect_path_info(self, end_node_ids: Sequence[int]) -> tuple[tuple[Any, ...], ...]:
        """The nodes of these paths."""
        steps, size, paths = self.steps(), self.page_size, []
        for node_id in end_node_ids:
            place, parent, path = self.place(node_id), self.root, []
            for step, lo, hi in self.path(steps, place) if place is not None else ():
                base, below = step.branch.base, 1 if hi < step.branch.n else step.children
                number = self.number(self.tree.place(step.branch, hi))
                at = (base + lo) * size, (base + hi) * size
                path.append(self.words.TreePathNodeInfo(number, parent, *at, at[1] - at[0], below))
                parent = number
            paths.append(tuple(path))
        return tuple(paths)

    def walk_for_kv_canary(self, unlocked_only: bool, swa_resident_only: bool) -> Any:
        """All slots, with their position and the slot before; or those of nodes that nobody has locked."""
        rows: list[IntArray] = [np.empty((3, 0), np.int64)]
        for step in self.steps().values():
            branch, starts = step.branch, step.starts
            lo = min([at for at in [*starts, branch.n] if at >= step.protected]) if unlocked_only else 0
            slots = self.tree.pool.slots(self.tree.path_pages(self.tree.place(branch, branch.n)))
            at = np.arange((branch.base + lo) * self.page_size, len(slots))
            rows.append(np.stack([slots[at], at, np.where(at, slots[at - 1], -1)]))
        slots, at, before = np.concatenate(rows, axis=1)
        return self.words.RadixCacheWalkResult(
            slot_indices=self.whole(slots), positions=self.whole(at), prev_slot_indices=self.whole(before)
        )

    def whole(self, numbers: IntArray) -> Any:
        """An array as a tensor of its own."""
        return self.torch.from_numpy(numbers.copy())

    def sanity_check(self, ongoing_write_through: Sequence[Any], ongoing_load_back: Sequence[Any]) -> None:
        """Count everything again; raises ``AssertionError`` with what is wrong.  It needs numba."""
        from kvlitmus.optimized.audit import audit

        audit(self.tree)

    def pretty_print(self) -> None:
        """Write the nodes to standard output."""
        for uid, step in sorted(self.steps().items()):
            spans = [f"{lo}…{hi}" for lo, hi in pairwise([*step.starts, step.branch.n])]
            where = f"behind {step.branch.parent.uid}:{step.branch.at}"
            sys.stdout.write(f"branch {uid} {where}, pages {', '.join(spans)}, {step.protected} locked\n")


def refused(name: str) -> Callable[..., Any]:
    """A method of the interface that this core hasn't got."""

    def method(self: object, *arguments: object, **named: object) -> Any:
        raise NotImplementedError(f"the tree core {NAME!r} has no {name}")

    return method


def core_class() -> type[Any]:
    """The class that SGLang makes: what :class:`TreeCore` hasn't got of the interface is refused by name."""
    interface = import_module(f"{UNIFIED}.unified_tree_core_interface").UnifiedTreeCoreInterface
    missing = {name: refused(name) for name in interface.__abstractmethods__ if not hasattr(TreeCore, name)}
    return type("KvlitmusTreeCore", (TreeCore, interface), missing)


def register(name: str = NAME) -> None:
    """Make this core known to SGLang, in the process that serves; once more changes nothing."""
    registry = import_module(f"{UNIFIED}.tree_core_registry")
    if registry.get_tree_core_factory(name) is None:
        made = core_class()
        registry.register_tree_core_backend(name, lambda params, _components: made(params))
