"""SGLang 0.5.13.post1: the host memory of HiSparse, its coordinator's rows over pages of host memory, on a CPU.

Target:

``hisparse`` (also the module itself)
    ``HiSparseCoordinator`` with its tables, over ``MLATokenToKVPoolHost`` (and so ``HiSparseHostPoolMixin``),
    ``HiSparseDSATokenToKVPool``, ``HiSparseTokenToKVPoolAllocator`` and ``ReqToTokenPool``, as in a decode server.

Real, as published: all of these, and what the server does with them.

* A request for slots is the call ``alloc_paged_token_slots`` with the coordinator's tables.  Staging and the decode
  server's pre-allocation make it with start 0, and the backup of the token before with one token.
* Reading is ``allocated_host_indices``, as whoever frees reads.  The end of a request is ``request_finished``.
* A prompt is staged by ``admit_request_into_staging``, with slots of the logical pool and of the device's that
  ``alloc_extend`` gave it; ``collect_ready_reqs`` acknowledges, and allocates the buffer on the device; a request is
  retracted by ``retract_req`` and ``release_kv_cache``.  A step backs up by ``_eager_backup_previous_token``.
* An abort is ``Scheduler.abort_request``: in a decode server, of a request whose KV has arrived and that waits for its
  first step; it goes on to ``release_kv_cache`` and ``ChunkCache``.  A request that is staged is in none of the
  scheduler's queues; one that was acknowledged is in the running batch, and ends with its next step.
* A peer connects by ``try_ensure_parallel_info``.

What is replaced, and why the judged logic isn't touched:

* The rest of SGLang is stubs (:mod:`kvlitmus.conformance.adapters.sglang.common.stubs`); memory isn't pinned, streams
  and events are those of :mod:`~kvlitmus.conformance.adapters.sglang.common.steps`, and the kernel that copies does
  nothing when its turn comes: no KV is moved, because who owns which host page doesn't depend on it.
* The request is a small object with the fields that are read here.  One that was not staged has no slots of the logical
  pool and no buffer on the device: those are other pools.
* Whether a prompt can be computed is reckoned as in ``PrefillAdder.add_one_req``, for a request that generates a token
  while no other is running: the prompt, one token and a page must be less than what the allocator has available.
* The scheduler and the manager of connections are objects with the fields that the one published method of each
  reads; the answer of the peer's bootstrap server is given instead of fetched.

Limits: swapping into the buffer is a CUDA kernel, and isn't offered; nor is admission by host memory, which SGLang
hasn't.  Pages have 64 tokens, the only ones that this release's pool has on CUDA.  Row 0 of SGLang's table is for
padding, so row ``i`` here is row ``i + 1`` there.  The buffers on the device don't grow here: a step is made for the
sake of its backup.  A server asks for the slots of a request in order and within the model's context length; the suite
asks for others too, and what is found so is found by a direct call.
"""

from __future__ import annotations

import enum
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.hicache import SRT
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.steps import Stream
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13 import environment
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.spec.interface.sparse import SPARSE_PORTS, SparseShape, SparseView

ROWS, RATIO = 4, 2
"""Requests at a time, and how much larger host memory is than the device's; two is SGLang's own default."""
PAGE = 64
CONTEXT = 4 * PAGE + PAGE // 2
"""The model's context length: rows are a page wider."""


class _Mode(enum.Enum):
    """``DisaggregationMode``."""

    NULL = "null"
    PREFILL = "prefill"
    DECODE = "decode"


def _undecorated(*_args: object) -> Callable[[Foreign], Foreign]:
    """``DynamicGradMode``: a decorator of methods that are not called here."""
    return lambda method: method


PLAN = replace(
    environment.PLAN,
    real=environment.PLAN.real
    | {f"{SRT}.managers.{name}" for name in ("hisparse_coordinator", "scheduler")}
    | {f"{SRT}.disaggregation.common.conn"}
    | {f"{MEM}.{name}" for name in ("chunk_cache", "common", "hisparse_memory_pool")},
    lifted={
        **environment.PLAN.lifted,
        f"{SRT}.utils.common": {"srt/utils/common.py": ("get_num_new_pages",)},
    },
    answers={
        **environment.PLAN.answers,
        f"{SRT}.utils": {**environment.PLAN.answers[f"{SRT}.utils"], "DynamicGradMode": _undecorated},
        f"{SRT}.disaggregation.utils": {"DisaggregationMode": _Mode},
        f"{SRT}.server_args": {
            "get_global_server_args": lambda: SimpleNamespace(
                page_size=PAGE, speculative_algorithm=None, strip_thinking_cache=False
            ),
        },
    },
    absent=(*environment.PLAN.absent, "aiohttp", "orjson", "requests", "setproctitle", "zmq"),
)


@functools.cache
def modules() -> SimpleNamespace:
    """Import what is needed, once, and put the replacements in place."""
    load, torch = install(PLAN), torch_module()
    logging.getLogger("sglang").setLevel(logging.CRITICAL + 1)  # it logs every refusal
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    host = load(f"{MEM}.memory_pool_host")
    host.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0
    host.ALLOC_MEMORY_FUNCS["cpu"] = lambda dims, dtype, **_kwargs: torch.zeros(dims, dtype=dtype)
    host.transfer_kv_all_layer_mla = Copies.begin
    return SimpleNamespace(
        coordinator=load(f"{SRT}.managers.hisparse_coordinator"),
        device=load(f"{MEM}.hisparse_memory_pool"),
        pool=load(f"{MEM}.memory_pool"),
        scheduler=load(f"{SRT}.managers.scheduler"),
        chunk=load(f"{MEM}.chunk_cache"),
        common=load(f"{MEM}.common"),
        peers=load(f"{SRT}.disaggregation.common.conn"),
    )


class Copies:
    """What stands for the kernel that copies from the device to the host."""

    slots: Sequence[int] = ()
    """The host slots of the copy that began last."""

    @classmethod
    def begin(cls, *, dst_indices: Foreign, **_others: object) -> None:
        """A copy is put on the stream, and does nothing when its turn comes."""
        cls.slots = dst_indices.tolist()
        Stream.put(lambda: None)


class Request:
    """A request of a decode server that waits for its first step, with the fields that are read where it ends."""

    mamba_pool_idx = None
    hisparse_staging = False
    to_finish: object = None

    def __init__(self, index: int, tokens: int = 0) -> None:
        self.rid = f"request {index}"
        self.req_pool_idx: int | None = index
        self.kv_committed_len = self.kv_allocated_len = self.fill_len = tokens

    def finished(self) -> bool:
        """Whether it is at its end."""
        return False

    def pop_committed_kv_cache(self) -> int:
        """How many tokens the logical pool has slots for."""
        return self.kv_committed_len

    def pop_overallocated_kv_cache(self) -> tuple[int, int]:
        """From where to where there are slots without KV."""
        return self.kv_allocated_len, self.kv_allocated_len


class Bootstrap(SimpleNamespace):
    """``requests``, where a peer's bootstrap server has answered already."""

    def get(self, _url: str, **_options: object) -> SimpleNamespace:
        """What that server says of itself."""
        said = {
            **dict.fromkeys(("attn_tp_size", "attn_cp_size", "dp_size", "pp_size"), 1),
            "page_size": self.page_size,
            "kv_cache_dtype": "auto",
            "follow_bootstrap_room": False,
        }
        return SimpleNamespace(status_code=200, json=lambda: said)


class HiSparse:
    """SGLang's coordinator and its host pool behind the ports."""

    def __init__(self, config: Config) -> None:
        if config.page_size != PAGE or config.pages % RATIO == 0:
            raise Unsupported(f"HiSparse has pages of {PAGE} tokens here, and an odd number of host pages")
        module, torch = modules(), torch_module()
        size = (config.pages - 1) // RATIO * PAGE  # the host pool adds one page to what the ratio gives
        dims = {"kv_lora_rank": 4, "qk_rope_head_dim": 4, "kv_cache_dim": 8, "index_head_dim": 128}
        kind = {"dtype": torch.bfloat16, "device": "cpu", "page_size": PAGE, "host_to_device_ratio": RATIO}
        device = module.device.HiSparseDSATokenToKVPool(
            size=size, layer_num=1, enable_memory_saver=False, **dims, **kind
        )
        self.allocator: Foreign = module.device.HiSparseTokenToKVPoolAllocator(
            size=size, kvcache=device, need_sort=False, **kind
        )
        self.requests: Foreign = module.pool.ReqToTokenPool(ROWS, CONTEXT, "cpu", False)
        self.coordinator: Foreign = module.coordinator.HiSparseCoordinator(
            self.requests, self.allocator, PAGE, 2 * PAGE, "cpu", None, RATIO
        )
        self.host: Foreign = self.coordinator.mem_pool_host
        self.tree: Foreign = module.chunk.ChunkCache(
            SimpleNamespace(req_to_token_pool=self.requests, token_to_kv_pool_allocator=self.allocator, page_size=PAGE)
        )
        self.staged: dict[int, Request] = {}
        """The requests that were staged, by row, until they end."""
        self.copies: list[Foreign] = []
        """The events behind the copies that have begun."""

    def sparse_shape(self) -> SparseShape:
        """The coordinator's table, less the row for padding."""
        rows, width = self.coordinator.req_to_host_pool.shape
        return SparseShape(rows - 1, width)

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int]:
        """``alloc_paged_token_slots`` with the coordinator's tables."""
        table, lengths = self.coordinator.req_to_host_pool, self.coordinator.req_to_host_pool_allocated_len
        return list(self.host.alloc_paged_token_slots(table, lengths, row + 1, start, tokens).tolist())

    def sparse_read(self, row: int) -> Sequence[int]:
        """``allocated_host_indices``."""
        table, lengths = self.coordinator.req_to_host_pool, self.coordinator.req_to_host_pool_allocated_len
        return list(self.host.allocated_host_indices(table, row + 1, lengths[row + 1]).tolist())

    def sparse_free(self, row: int) -> None:
        """``request_finished``, then ``release_kv_cache`` of one that has logical slots."""
        request = self.staged.pop(row, None)
        self.coordinator.request_finished(request or Request(row + 1))
        if request:
            modules().common.release_kv_cache(request, self.tree)

    def sparse_prefills(self, tokens: int) -> bool:
        """As ``PrefillAdder`` reckons."""
        return tokens < CONTEXT and tokens + 1 + PAGE < self.allocator.available_size()

    def sparse_stage(self, row: int, tokens: int) -> Sequence[int]:
        """``admit_request_into_staging`` of a request that was computed just now."""
        torch, request = torch_module(), Request(row + 1, tokens)
        zero, length = torch.tensor([0]), torch.tensor([tokens])
        slots = self.allocator.alloc_extend(zero, zero, length, length, torch.tensor([-1]), tokens)
        self.requests.write((row + 1, slice(0, tokens)), slots.to(torch.int32))
        try:
            self.coordinator.admit_request_into_staging(request)
        except BaseException:
            self.allocator.free(slots)
            raise
        self.staged[row] = request
        self.copies.append(self.coordinator.ack_staging_queue[-1].finish_event)
        return list(self.coordinator.req_to_host_pool[row + 1, :tokens].tolist())

    def sparse_copied(self, copy: int) -> None:
        """The staging stream comes as far as this copy's event."""
        self.copies[copy].synchronize()

    def sparse_copying(self) -> Sequence[int]:
        """The copies behind which the event isn't done."""
        return [number for number, event in enumerate(self.copies) if not event.query()]

    def sparse_ready(self) -> Sequence[int]:
        """``collect_ready_reqs``."""
        return [request.req_pool_idx - 1 for request in self.coordinator.collect_ready_reqs()]

    def sparse_back_up(self, row: int, length: int) -> Sequence[int]:
        """``_eager_backup_previous_token``, with which ``map_last_loc_to_buffer`` begins; its copy ends at once."""
        torch = torch_module()
        lengths, rows, Copies.slots = torch.tensor([length]), torch.tensor([row + 1]), ()
        self.coordinator._eager_backup_previous_token(lengths, rows, lengths, rows)  # noqa: SLF001 - half a step
        self.coordinator.decode_backup_stream.synchronize()
        return list(Copies.slots)

    def sparse_retract(self, row: int) -> None:
        """``retract_req``, then ``release_kv_cache``, as ``release_req`` calls them."""
        request = self.staged.pop(row, None)
        self.coordinator.retract_req(request or Request(row + 1))
        if request:
            modules().common.release_kv_cache(request, self.tree, is_insert=False)

    def sparse_abort(self, row: int) -> None:
        """``Scheduler.abort_request``, and for one that is running what its next step does."""
        staged, module = self.staged.get(row), modules()
        request = staged or Request(row + 1)
        queue = SimpleNamespace(queue=[], retracted_queue=[])
        ignored = SimpleNamespace(send_output=lambda *_args: None, abort_requests=lambda *_args: None)
        running = [staged] if staged and not staged.hisparse_staging else []
        server = SimpleNamespace(
            waiting_queue=[] if staged else [request],
            enable_hicache_storage=False,
            enable_hisparse=True,
            hisparse_coordinator=self.coordinator,
            tree_cache=self.tree,
            disaggregation_mode=_Mode.DECODE,
            disagg_decode_prealloc_queue=queue,
            disagg_decode_transfer_queue=queue,
            ipc_channels=SimpleNamespace(send_to_tokenizer=ignored),
            grammar_manager=ignored,
            cur_batch=None,
            running_batch=SimpleNamespace(reqs=running),
        )
        module.scheduler.AbortReq = module.scheduler.FINISH_ABORT = SimpleNamespace
        module.scheduler.Scheduler.abort_request(server, SimpleNamespace(abort_all=False, rid=request.rid))
        if request.to_finish:
            self.sparse_free(row)

    def sparse_available(self) -> int:
        """``available_size()`` of the host pool."""
        return int(self.host.available_size())

    def sparse_view(self) -> SparseView:
        """The free list and the table as they stand."""
        table = self.coordinator.req_to_host_pool.tolist()
        rows = {row: [slot for slot in slots if slot >= 0] for row, slots in enumerate(table[1:])}
        return SparseView(self.host.free_slots.tolist(), rows)

    def sparse_connect(self, page_size: int) -> bool:
        """``try_ensure_parallel_info``: it raises for a peer whose pages differ, and that is the only error meant."""
        peers = modules().peers
        peers.requests = Bootstrap(page_size=page_size)
        server = SimpleNamespace(
            prefill_info_table={},
            kv_args=SimpleNamespace(page_size=self.host.page_size),
            server_args=SimpleNamespace(kv_cache_dtype="auto"),
            _resolve_rank_mapping=lambda _info: None,
        )
        try:
            return bool(peers.CommonKVManager.try_ensure_parallel_info(server, "peer"))
        except RuntimeError as error:
            if "Page size mismatch" not in str(error):
                raise
            return False


hisparse = Peer(
    plan=PLAN,
    profile=Profile(sparse_count="empty"),
    capabilities=frozenset(SPARSE_PORTS) - {"sparse_swaps", "sparse_admission", "sparse_growth", "sparse_transfer"},
    build=HiSparse,
    configs=tuple([Config(page_size=PAGE, pages=pages, pool="sparse") for pages in (11, 7)]),
    pool="sparse",
)

profile = hisparse.profile
capabilities = hisparse.capabilities
configs = hisparse.configs
make = hisparse.make
