"""A server with SGLang 0.5.13.post1's HiSparse on a CPU: its modules, what stands for the rest, and its host memory.

What is real and what is replaced says :mod:`~kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse`; the ports that
depend on the kind of server are in modules of their own.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.hicache import SRT
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.steps import Stream
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13 import environment
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.spec.interface.sparse import SparseShape, SparseView

ROWS, RATIO = 4, 2
"""Requests at a time, and how much larger host memory is than the device's; two is SGLang's own default."""
PAGE = 64
CONTEXT = 4 * PAGE + PAGE // 2
"""The model's context length: rows are a page wider."""
BUFFER = 2 * PAGE
"""How many tokens a request's buffer on the device has room for; a page more is for the newest one."""


def _undecorated(*_args: object) -> Callable[[Foreign], Foreign]:
    """A decorator of methods that are not called here, or that tells of them."""
    return lambda method: method


PLAN = replace(
    environment.PLAN,
    real=environment.PLAN.real
    | {f"{SRT}.managers.{name}" for name in ("hisparse_coordinator", "scheduler")}
    | {f"{SRT}.utils.network"}
    | {
        f"{SRT}.disaggregation.{name}"
        for name in ("base", "base.conn", "common.conn", "common.utils", "decode", "decode_hicache_mixin")
    }
    | {f"{SRT}.disaggregation.{name}" for name in ("mooncake.conn", "utils")}
    | {f"{MEM}.{name}" for name in ("chunk_cache", "common", "hisparse_memory_pool")},
    lifted={
        **environment.PLAN.lifted,
        f"{SRT}.utils.common": {"srt/utils/common.py": ("get_num_new_pages",)},
        f"{SRT}.managers.schedule_batch": {"srt/managers/schedule_batch.py": ("BaseFinishReason", "FINISH_ABORT")},
    },
    answers={
        **environment.PLAN.answers,
        f"{SRT}.utils": {**environment.PLAN.answers[f"{SRT}.utils"], "DynamicGradMode": _undecorated},
        f"{SRT}.observability.mooncake_trace": {
            "mooncake_trace_func": _undecorated,
            "MooncakeRequestStage": SimpleNamespace(MOONCAKE_SEND=None),
        },
        "prometheus_client": {"Counter": lambda *_args: None},
        f"{SRT}.server_args": {
            "get_global_server_args": lambda: SimpleNamespace(
                page_size=PAGE, speculative_algorithm=None, strip_thinking_cache=False
            ),
        },
    },
    absent=(*environment.PLAN.absent, "aiohttp", "orjson", "prometheus_client", "requests", "setproctitle", "zmq"),
)


@functools.cache
def modules() -> SimpleNamespace:
    """Import what is needed, once, and put the replacements in place."""
    load, torch = install(PLAN), torch_module()
    logging.getLogger("sglang").setLevel(logging.CRITICAL + 1)  # it logs every refusal
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    host, scheduler = load(f"{MEM}.memory_pool_host"), load(f"{SRT}.managers.scheduler")
    host.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0
    host.ALLOC_MEMORY_FUNCS["cpu"] = lambda dims, dtype, **_kwargs: torch.zeros(dims, dtype=dtype)
    host.transfer_kv_all_layer_mla = Copies.begin
    host.transfer_kv_per_layer_mla = lambda **_copied: None
    scheduler.AbortReq = SimpleNamespace
    return SimpleNamespace(
        coordinator=load(f"{SRT}.managers.hisparse_coordinator"),
        device=load(f"{MEM}.hisparse_memory_pool"),
        pool=load(f"{MEM}.memory_pool"),
        scheduler=scheduler,
        chunk=load(f"{MEM}.chunk_cache"),
        common=load(f"{MEM}.common"),
        peers=load(f"{SRT}.disaggregation.common.conn"),
        decode=load(f"{SRT}.disaggregation.decode"),
        disaggregation=load(f"{SRT}.disaggregation.utils"),
        mooncake=load(f"{SRT}.disaggregation.mooncake.conn"),
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
    """A request with the fields that are read where it ends."""

    mamba_pool_idx = None
    hisparse_staging = False
    to_finish: object = None

    def __init__(self, index: int | None, tokens: int = 0) -> None:
        self.rid = f"request {id(self):020}"  # names of one width: an abort names what they begin with
        self.req_pool_idx = index
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
    """SGLang's coordinator and its host pool behind the ports that every kind of server has.

    TOP_K: how many tokens the model looks at.
    """

    TOP_K = PAGE

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
        # The suite takes steps up to the end of a row, and no server does: the table of logical slots is as wide.
        self.requests: Foreign = module.pool.ReqToTokenPool(ROWS, CONTEXT + PAGE, "cpu", False)
        self.requests.max_context_len = CONTEXT
        self.coordinator: Foreign = module.coordinator.HiSparseCoordinator(
            self.requests, self.allocator, self.TOP_K, BUFFER, "cpu", None, RATIO
        )
        self.host: Foreign = self.coordinator.mem_pool_host
        self.tree: Foreign = module.chunk.ChunkCache(
            SimpleNamespace(req_to_token_pool=self.requests, token_to_kv_pool_allocator=self.allocator, page_size=PAGE)
        )
        self.known: dict[int, Request] = {}
        """The requests that have slots of the logical pool, by row, until they end."""
        self.server = self.surroundings()

    def surroundings(self) -> SimpleNamespace:
        """The scheduler: the fields that the published methods read which are called here."""
        ignored = SimpleNamespace(send_output=lambda *_args: None, abort_requests=lambda *_args: None)
        nobody = SimpleNamespace(queue=[], retracted_queue=[])
        return SimpleNamespace(
            waiting_queue=[],
            running_batch=SimpleNamespace(reqs=[]),
            cur_batch=None,
            enable_hicache_storage=False,
            enable_hisparse=True,
            hisparse_coordinator=self.coordinator,
            tree_cache=self.tree,
            disaggregation_mode=modules().disaggregation.DisaggregationMode.DECODE,
            disagg_decode_prealloc_queue=nobody,
            disagg_decode_transfer_queue=nobody,
            ipc_channels=SimpleNamespace(send_to_tokenizer=ignored),
            grammar_manager=ignored,
        )

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
        request = self.left(row)
        self.coordinator.request_finished(request or Request(row + 1))
        if request:
            modules().common.release_kv_cache(request, self.tree)

    def left(self, row: int) -> Request | None:
        """The request of a row is in no queue and in no batch any more."""
        request = self.known.pop(row, None)
        for queue in (self.server.waiting_queue, self.server.running_batch.reqs):
            queue[:] = [one for one in queue if one is not request]
        return request

    def runs(self, row: int) -> None:
        """The request of a row begins to decode, if it waits for that, as ``get_new_prebuilt_batch`` lets it."""
        request, waiting = self.known.get(row), self.server.waiting_queue
        if request in waiting:
            waiting.remove(request)
            self.server.running_batch.reqs.append(request)

    def sparse_back_up(self, row: int, length: int) -> Sequence[int]:
        """``_eager_backup_previous_token``, with which ``map_last_loc_to_buffer`` begins; its copy ends at once."""
        self.runs(row)
        torch = torch_module()
        lengths, rows, Copies.slots = torch.tensor([length]), torch.tensor([row + 1]), ()
        self.coordinator._eager_backup_previous_token(lengths, rows, lengths, rows)  # noqa: SLF001 - half a step
        self.coordinator.decode_backup_stream.synchronize()
        return list(Copies.slots)

    def sparse_abort(self, row: int) -> None:
        """``Scheduler.abort_request``, and for one that is running what its next step does.

        A row that was asked for, and no more, is that of a request whose KV has come and that waits for its first step.
        """
        request, server = self.known.get(row), self.server
        if request is None:
            request = Request(row + 1)
            server.waiting_queue.append(request)
        waits = request in server.waiting_queue
        modules().scheduler.Scheduler.abort_request(server, SimpleNamespace(abort_all=False, rid=request.rid))
        if request.to_finish:
            self.sparse_free(row)
        elif waits:
            self.left(row)

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


class DecodeServer(HiSparse):
    """A decode server, which nobody asks for a negative start: no caller does so.

    What it answers breaks the form of answers, and a schedule ends there; a server of the other kind is asked.
    """

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int]:
        """As every server, from the row's beginning on."""
        if start < 0 < tokens:
            raise ValueError(f"no server asks for a start of {start}")
        return super().sparse_request(row, start, tokens)
