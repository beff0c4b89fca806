"""SGLang 0.5.13.post1's HiSparse in a decode server: prompts come from a peer, into host memory at once."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import NamedTuple

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_server import (
    CONTEXT,
    PAGE,
    ROWS,
    Bootstrap,
    DecodeServer,
    Request,
    modules,
)
from kvlitmus.conformance.ports import Config

RESERVED = PAGE
"""``--num-reserved-decode-tokens``: what is kept for each request to decode; SGLang's 512 are more than these pools."""
METADATA = 64
"""Places for what a peer writes beside the KV; more than there are requests, so that they never decide."""


class Heard(Exception):
    """There are no more messages."""


class Asked(Exception):
    """A request would be pre-allocated now."""


class Sent(Request):
    """A request whose prompt a peer has computed."""

    bootstrap_host = "peer"
    disagg_prefill_dp_rank = None
    return_logprob = False
    finished_reason: object = None
    cached_tokens = 0
    sampling_params = SimpleNamespace(max_new_tokens=1)

    def __init__(self, tokens: int, room: int) -> None:
        super().__init__(None, tokens)
        self.origin_input_ids = [0] * tokens
        self.output_ids: list[int] = []
        self.bootstrap_room = self.bootstrap_port = room
        self.time_stats = SimpleNamespace(
            **dict.fromkeys(("set_bootstrap_done_time", "set_decode_transfer_queue_entry_time"), lambda: None),
            set_wait_queue_entry_time=lambda: None,
        )

    def set_extend_input_len(self, _tokens: int) -> None:
        """Nothing is computed here."""


class Transfer(NamedTuple):
    """A transfer as its peer knows it: its number, where it writes KV, and where it writes what comes beside that."""

    room: int
    pages: tuple[int, ...]
    aux: int


class Peers:
    """The other side: what it is sent, and what it sends.

    ``told``: the message of each room that has come here.  ``given_up``: the rooms that it was told are given up; what
    it is writing just then is written to the end.
    """

    def __init__(self, manager: Foreign) -> None:
        self.manager = manager
        self.told: dict[int, Transfer] = {}
        self.given_up: set[int] = set()
        threads: list[Callable[[], None]] = []
        module = modules().mooncake
        module.threading = SimpleNamespace(
            Thread=lambda target: SimpleNamespace(start=lambda: threads.append(target)),
        )
        manager.start_decode_thread()
        self.listen = threads[0]

    def send_multipart(self, message: Sequence[bytes]) -> None:
        """What a receiver sends: where its pages are, or that it is aborted."""
        if message[0] == b"ABORT":
            self.given_up.add(int(message[1]))
        else:
            info = modules().mooncake.TransferInfo.from_zmq(message)
            self.told[info.room] = Transfer(info.room, tuple(info.dst_kv_indices.tolist()), info.dst_aux_index)

    def say(self, room: int, status: Foreign) -> None:
        """The thread of the decode server that listens hears that a transfer has ended."""
        message = [str(part).encode("ascii") for part in (room, int(status), 0)]
        messages = iter([message])

        def receive() -> list[bytes]:
            for message in messages:
                return message
            raise Heard

        self.manager.server_socket = SimpleNamespace(recv_multipart=receive)
        with contextlib.suppress(Heard):
            self.listen()


class Transfers(DecodeServer):
    """Pre-allocation, transfers and their ends, by the queues of a decode server."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.rooms = itertools.count(1)
        self.going: dict[int, Transfer] = {}
        """The transfers that their peers have not ended, by number."""
        self.numbers = itertools.count()
        self.manager: Foreign = manager_of(self.host)
        self.peers = Peers(self.manager)
        self.connect_queues()

    def connect_queues(self) -> None:
        """The queues of the scheduler, and what they read of it."""
        module, server, torch = modules(), self.server, torch_module()
        module.decode.get_kv_class = lambda *_which: receiver_of(self.peers)
        free = module.disaggregation.ReqToMetadataIdxAllocator(METADATA)
        self.metadata: Foreign = module.disaggregation.MetadataBuffers(METADATA, 1, torch.float32, 1)
        decode = module.decode
        server.__dict__.update(
            last_batch=None,
            enable_priority_scheduling=False,
            enable_decode_hicache=False,
            spec_algorithm=SimpleNamespace(is_none=lambda: True),
            output_streamer=SimpleNamespace(stream_output=lambda *_args: None),
            metrics_reporter=SimpleNamespace(enable_metrics=False),
            server_args=SimpleNamespace(
                disaggregation_decode_enable_radix_cache=False,
                disaggregation_decode_enable_offload_kvcache=False,
                disaggregation_decode_polling_interval=1,
                disaggregation_transfer_backend="mooncake",
            ),
        )
        arriving = decode.DecodeTransferQueue(None, free, 0, self.metadata, server, self.tree)
        queue: Foreign = object.__new__(decode.DecodePreallocQueue)
        queue.__dict__.update(
            req_to_token_pool=self.requests,
            token_to_kv_pool_allocator=self.allocator,
            token_to_kv_pool=self.allocator.get_kvcache(),
            req_to_metadata_buffer_idx_allocator=free,
            metadata_buffers=self.metadata,
            scheduler=server,
            transfer_queue=arriving,
            tree_cache=self.tree,
            gloo_group=None,
            tp_rank=0,
            max_total_num_tokens=self.allocator.size_full,
            num_reserved_decode_tokens=RESERVED,
            transfer_backend="mooncake",
            kv_manager=self.manager,
            queue=[],
            retracted_queue=[],
            pending_reqs=[],
            _ensure_retry_count={},
            _max_ensure_retries=15,
            _ensure_last_attempt_time={},
            _ensure_retry_interval=1.0,
        )
        server.disagg_decode_prealloc_queue, server.disagg_decode_transfer_queue = queue, arriving

    def turn(self) -> None:
        """``process_decode_queue``: who can be pre-allocated is, and whose KV has come waits for its first step."""
        modules().decode.SchedulerDisaggregationDecodeMixin.process_decode_queue(self.server)

    def add(self, tokens: int, page_size: int) -> Sent:
        """``DecodePreallocQueue.add``."""
        modules().peers.requests = Bootstrap(page_size=page_size)
        request = Sent(tokens, next(self.rooms))
        self.server.disagg_decode_prealloc_queue.add(request)
        return request

    def withdraw(self, request: Sent) -> None:
        """A request that was not pre-allocated is forgotten; in a server it would wait, or the server would end."""
        queue = self.server.disagg_decode_prealloc_queue
        for place in (queue.queue, queue.pending_reqs):
            place[:] = [one for one in place if one.req is not request]

    def sparse_receives(self, tokens: int) -> bool:
        """Whether ``pop_preallocated`` comes as far as to pre-allocate it."""

        def asked(*_request: object) -> None:
            raise Asked

        queue = self.server.disagg_decode_prealloc_queue
        if tokens >= CONTEXT:
            return False
        self.requests.free_slots = list(range(1, ROWS + 1))
        request, queue._pre_alloc = self.add(tokens, PAGE), asked  # noqa: SLF001 - it is looked at, and not called
        try:
            queue.pop_preallocated()
        except Asked:
            return True
        else:
            return False
        finally:
            del queue._pre_alloc  # noqa: SLF001 - as above
            self.withdraw(request)

    def sparse_prealloc(self, row: int, tokens: int, page_size: int) -> Sequence[int] | None:
        """``pop_preallocated``, which calls ``_pre_alloc`` and tells the peer where to write."""
        self.requests.free_slots = [row + 1]
        request = self.add(tokens, page_size)
        try:
            self.turn()
        finally:
            self.withdraw(request)
        told = self.peers.told.get(request.bootstrap_room)
        if told is None:
            return None
        self.known[row], self.going[next(self.numbers)] = request, told
        return list(self.coordinator.req_to_host_pool[row + 1, :tokens].tolist())

    def sparse_destinations(self, row: int) -> Sequence[int]:
        """What ``send_metadata`` told the peer."""
        request = self.known[row]
        assert isinstance(request, Sent)
        return list(self.peers.told[request.bootstrap_room].pages)

    def sparse_transferred(self, transfer: int, arrived: bool) -> None:
        """The peer writes what comes beside the KV, and says how it ended; the queues are looked at then."""
        room, _, aux = self.going.pop(transfer)
        status = modules().decode.KVPoll
        if arrived:
            self.metadata.bootstrap_room[aux, 0] = room
        self.peers.say(room, status.Success if arrived else status.Failed)
        self.turn()
        self.forget()

    def sparse_transferring(self) -> Sequence[int]:
        """Those that their peers have not ended: nobody waits for that, and nobody sees it."""
        return list(self.going)

    def sparse_abort(self, row: int) -> None:
        """``abort_request``, then the next turn, in which the transfer queue finds that a receiver was aborted."""
        super().sparse_abort(row)
        self.turn()
        self.forget()

    def forget(self) -> None:
        """Whoever has been released is known no more."""
        for row in [row for row, request in self.known.items() if request.req_pool_idx is None]:
            self.left(row)


def manager_of(host: Foreign) -> Foreign:
    """``MooncakeKVManager`` of a decode server without sockets and transfer engine."""
    module = modules()
    manager: Foreign = object.__new__(module.mooncake.MooncakeKVManager)
    manager.__dict__.update(
        kv_args=SimpleNamespace(
            page_size=host.page_size, engine_rank=0, state_types=[module.decode.StateType.DSA], kv_data_ptrs=[]
        ),
        server_args=SimpleNamespace(kv_cache_dtype="auto"),
        is_mla_backend=True,
        attn_tp_size=1,
        attn_cp_size=1,
        attn_cp_rank=0,
        pp_size=1,
        pp_rank=0,
        local_ip="decode",
        rank_port=0,
        enable_staging=False,
        enable_all_cp_ranks_for_transfer=False,
        request_status={},
        failure_records={},
        failure_lock=contextlib.nullcontext(),
        connection_pool={},
        required_prefill_response_num_table={},
        prefill_info_table={},
        addr_to_rooms_tracker=module.mooncake.defaultdict(set),
        prefill_response_tracker=module.mooncake.defaultdict(set),
        waiting_timeout=float("inf"),
        get_session_id=lambda: "session",
        _start_heartbeat_checker_thread=lambda: None,
    )
    return manager


def receiver_of(peers: Peers) -> Foreign:
    """``MooncakeKVReceiver``, whose sockets lead to these peers; its manager's pointers are sent to nobody."""
    without_network = {
        "_connect_to_bootstrap_server": lambda _self, _info: (peers, contextlib.nullcontext()),
        "_register_kv_args": lambda _self: None,
    }
    return type("Receiver", (modules().mooncake.MooncakeKVReceiver,), without_network)
