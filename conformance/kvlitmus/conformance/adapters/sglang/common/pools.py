"""What the adapters of all SGLang releases share: allocators, the host pool, request rows.

The allocators have had the same names and arguments for a long time; which release they come from
is the :class:`~kvlitmus.conformance.adapters.sglang.common.stubs.Plan`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Plan, install, torch_module
from kvlitmus.conformance.ports import Config, Profile, View
from kvlitmus.spec.words.units import pages_needed

MEM = "sglang.srt.mem_cache"

POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru")

PAGE_SIZES = (1, 16, 64)
"""SGLang's usual page sizes: the default, and those that attention kernels ask for."""

DEVICE_CONFIGS = tuple(Config(page_size=size) for size in PAGE_SIZES)
HOST_CONFIGS = tuple(Config(page_size=size, pool="host") for size in PAGE_SIZES)
TREE_CONFIGS = (
    *DEVICE_CONFIGS,
    *(Config(page_size=4, policy=policy) for policy in POLICIES if policy != "lru"),
    *(Config(page_size=size, bigram=True) for size in (1, 16)),
    Config(page_size=16, pages=8),
)

REQUEST_CONFIGS = (
    *DEVICE_CONFIGS,
    *(Config(page_size=4, policy=policy) for policy in ("lfu", "priority", "slru")),
    Config(page_size=4, bigram=True),
    Config(page_size=4, pages=8),
)
"""Fewer than for a tree alone: Triton's interpreter is slow, and what requests add is hits and priorities."""

PROFILE = Profile(
    reserved=1,
    align="reject",
    evict_granularity="node",
    evict_moment="call",
    match_cap="full",
    publish="explicit",
    hit_counts="insert",
    lock_touches=False,
    slru_hits=2,
    clock="counter",
    misuse="undefined",
    hash_scheme="sglang-1",
)
"""What the trees of all releases have alike."""

POOL_PORTS = frozenset({"pool", "group", "inspect", "reset"})
EXTEND_PORTS = POOL_PORTS | {"extend"}
TREE_PORTS = POOL_PORTS | {"tree", "lookup", "locks", "evict", "counters"}
REQUEST_PORTS = TREE_PORTS | {"extend", "requests"}
HOST_PORTS = frozenset({"pool", "inspect", "reset"})


class NullAddress(RuntimeError):
    """A kernel would have loaded from address 0."""


class Handles:
    """Values for the suite, and the raw handle of the last allocation for the pack ``misuse``."""

    last_raw: Foreign = None

    def __init__(self) -> None:
        self.torch: Foreign = torch_module()

    def _tensor(self, numbers: Sequence[int]) -> Foreign:
        return self.torch.tensor(list(numbers), dtype=self.torch.int64)

    def _keep(self, raw: Foreign) -> list[int] | None:
        """Remember the handle as SGLang returned it, and give its values away."""
        self.last_raw = raw
        return None if raw is None else list(raw.tolist())

    def _free_list(self) -> Foreign:
        """The tensor from which the next allocation is taken."""
        raise NotImplementedError

    def scribble(self) -> None:
        """Overwrite the handle that the last allocation returned, to the end of the memory it keeps alive.

        That is what an operation in place does whose result is longer than the handle
        (``torch.arange(n, out=handle)``): a tensor of the caller's own ends where its memory ends,
        but a view on the free list reaches the slots that are handed out next.
        """
        if self.last_raw is None:
            return
        behind = self.last_raw.untyped_storage().nbytes() // self.last_raw.element_size()
        self.last_raw.resize_(behind - self.last_raw.storage_offset()).fill_(-1)

    def shares_free_list(self) -> bool:
        """Whether the handle that the last allocation returned lies in the memory of the free list."""
        if self.last_raw is None:
            return False
        return bool(self.last_raw.untyped_storage().data_ptr() == self._free_list().untyped_storage().data_ptr())


class DevicePool(Handles):
    """The device's allocator as published: ``TokenToKVPoolAllocator`` or ``PagedTokenToKVPoolAllocator``.

    Built without a KV buffer: who owns which slot doesn't depend on it.
    """

    def __init__(self, plan: Plan, config: Config, *, need_sort: bool = False) -> None:
        super().__init__()
        load = install(plan)
        self.page_size = config.page_size
        made: Callable[..., Foreign] = load(f"{MEM}.allocator.token").TokenToKVPoolAllocator
        if config.page_size > 1:
            made = partial(load(f"{MEM}.allocator.paged").PagedTokenToKVPoolAllocator, page_size=config.page_size)
        self.allocator: Foreign = made(
            size=config.pages * config.page_size,
            dtype=self.torch.float16,
            device="cpu",
            kvcache=None,
            need_sort=need_sort,
        )

    def alloc(self, n: int) -> list[int] | None:
        """``alloc(need_size)``."""
        return self._keep(self.allocator.alloc(n))

    def free(self, slots: Sequence[int]) -> None:
        """``free(free_index)``."""
        self.allocator.free(self._tensor(slots))

    def available(self) -> int:
        """``available_size()``."""
        return int(self.allocator.available_size())

    def free_group_begin(self) -> None:
        """``free_group_begin()``."""
        self.allocator.free_group_begin()

    def free_group_end(self) -> None:
        """``free_group_end()``."""
        self.allocator.free_group_end()

    def view(self) -> View:
        """The free list as it stands."""
        return View(free=self._free_pages())

    def reset(self) -> None:
        """``clear()``."""
        self.allocator.clear()
        self.last_raw = None

    def _free_list(self) -> Foreign:
        return self.allocator.free_pages

    def _free_pages(self) -> list[int]:
        """The free list and, with ``need_sort``, the list of freed pages that wait behind it."""
        everything = getattr(self.allocator, "get_all_free_pages", None)
        if everything is not None:
            return list(everything().tolist())
        return [*self.allocator.free_pages.tolist(), *self.allocator.release_pages.tolist()]


class ExtendPool(DevicePool):
    """The device's allocator with ``alloc_extend`` and ``alloc_decode``.

    With pages of one token SGLang's scheduler calls ``alloc`` instead, and so does this.
    """

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """``alloc_extend``."""
        tokens = sum(after) - sum(before)
        if self.page_size == 1:
            return self.alloc(tokens)
        self._check_address(before, after)
        old, new = self._tensor(before), self._tensor(after)
        return self._keep(self.allocator.alloc_extend(old, old, new, new, self._tensor(last), tokens))

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """``alloc_decode``."""
        if self.page_size == 1:
            return self.alloc(len(after))
        self._check_address([length - 1 for length in after], after)
        new = self._tensor(after)
        return self._keep(self.allocator.alloc_decode(new, new, self._tensor(last)))

    def _check_address(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Raise where a kernel would load from address 0; nothing to check unless a release needs it."""

    def _opens(self, before: Sequence[int], after: Sequence[int]) -> int:
        """How many pages growing from one length to the other opens, over all requests."""
        return sum(
            pages_needed(new, self.page_size) - pages_needed(old, self.page_size)
            for old, new in zip(before, after, strict=True)
        )


def host_pool_class(module: Foreign, **members: object) -> Foreign:
    """A ``HostKVCache`` that can be made: its abstract methods move KV, and there is none."""

    def no_data(*_args: object, **_kwargs: object) -> None:
        raise NotImplementedError("this pool holds no KV")

    abstract = dict.fromkeys(module.HostKVCache.__abstractmethods__, no_data)
    return type("Host", (module.HostKVCache,), {**abstract, **members})


def runs_of_pages(slots: Sequence[int], size: int) -> list[int]:
    """A free list of slots, page by page in the order in which pages would be handed out.

    A run of ``size`` slots that isn't one whole page is listed slot by slot, each as the page it lies in, so that a
    broken free list shows repetitions.
    """
    if size == 1:
        return list(slots)
    free: list[int] = []
    for start in range(0, len(slots), size):
        run = slots[start : start + size]
        whole = run == list(range(run[0], run[0] + size)) and run[0] % size == 0
        free.extend([run[0] // size] if whole else [slot // size for slot in run])
    return free


def listed(chunks: Iterable[Foreign]) -> list[int]:
    """The numbers of some tensors, one after the other."""
    return [number for chunk in chunks for number in chunk.tolist()]


class HostPool(Handles):
    """A pool of host memory.  The release makes ``pool``, an instance of a subclass of ``HostKVCache``."""

    def __init__(self, config: Config, pool: Foreign) -> None:
        super().__init__()
        self.page_size = config.page_size
        self.pool = pool

    def alloc(self, n: int) -> list[int] | None:
        """``alloc(need_size)``."""
        return self._keep(self.pool.alloc(n))

    def free(self, slots: Sequence[int]) -> None:
        """``free(indices)``."""
        self.pool.free(self._tensor(slots))

    def available(self) -> int:
        """``available_size()``."""
        return int(self.pool.available_size())

    def view(self) -> View:
        """The free list."""
        return View(free=runs_of_pages(self._free_slots(), self.page_size))

    def reset(self) -> None:
        """``clear()``."""
        self.pool.clear()
        self.last_raw = None

    def _free_list(self) -> Foreign:
        return self.pool.free_slots

    def _free_slots(self) -> list[int]:
        """The free list in slots."""
        return list(self.pool.free_slots.tolist())


class Rows:
    """What the tree needs of SGLang's table of request rows: int32 slots, one row per request."""

    ROWS = 256

    def __init__(self, config: Config) -> None:
        torch = torch_module()
        width = (config.pages + 1) * config.page_size
        self.req_to_token: Foreign = torch.zeros((self.ROWS, width), dtype=torch.int32)
        self.clear()

    def clear(self) -> None:
        """All rows are free."""
        self.unused = list(range(self.ROWS - 1, -1, -1))

    def write(self, indices: Foreign, values: Foreign) -> None:
        """Assign a part of the table."""
        self.req_to_token[indices] = values

    def free(self, request: Foreign) -> None:
        """Take a request's row back (releases that keep it in a record of its own)."""
        self.unused.append(request.kv.req_pool_idx)
        request.kv.req_pool_idx = None

    def read(self, row: int, length: int) -> list[int]:
        """The first slots of a row."""
        return list(self.req_to_token[row, :length].tolist())
