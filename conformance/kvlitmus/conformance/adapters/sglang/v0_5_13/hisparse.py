"""SGLang 0.5.13.post1: the host memory of HiSparse, its coordinator's rows over pages of host memory, on a CPU.

Target:

``hisparse`` (also the module itself)
    ``HiSparseCoordinator`` with its tables, over ``MLATokenToKVPoolHost`` (and so ``HiSparseHostPoolMixin``),
    ``HiSparseDSATokenToKVPool``, ``HiSparseTokenToKVPoolAllocator`` and ``ReqToTokenPool``, in three kinds of server.
    No server is two of them at once, so the configuration says which it is (:data:`KINDS`):

    * one that computes prompts itself, which are staged (:mod:`.hisparse_unified`): any other configuration;
    * a decode server, whose prompts come from a peer (:mod:`.hisparse_transfer`);
    * a decode server whose requests have come, with what they decode from on the device (:mod:`.hisparse_growth`).

Real, as published: all of these, and what the server does with them.

* A request for slots is the call ``alloc_paged_token_slots`` with the coordinator's tables.  Staging and the decode
  server's pre-allocation make it with start 0, and the backup of the token before with one token.
* Reading is ``allocated_host_indices``, as whoever frees reads.  The end of a request is ``request_finished``.
* A prompt is staged by ``admit_request_into_staging``, with slots of the logical pool and of the device's that
  ``alloc_extend`` gave it; ``collect_ready_reqs`` acknowledges, and allocates the buffer on the device; a request is
  retracted by ``retract_req`` and ``release_kv_cache``.  A step backs up by ``_eager_backup_previous_token``.
* A prompt from a peer goes through ``DecodePreallocQueue.add`` and turns of ``process_decode_queue``: with
  ``pop_preallocated``, its budgets and ``_pre_alloc``, with ``pop_transferred`` and ``admit_request_direct``.  The
  receiver is ``MooncakeKVReceiver``, and that a transfer has ended is heard by the thread of ``start_decode_thread``.
  The destinations are what ``send_metadata`` sends, as ``TransferInfo.from_zmq`` of the peer reads it.
* A buffer grows by the second half of ``map_last_loc_to_buffer``, behind the slot of ``alloc_for_decode``; the first
  half is the backup.  ``swap_in_selected_pages`` is asked for places.
* An abort is ``Scheduler.abort_request``: in a decode server, of a request whose KV has arrived and that waits for its
  first step; it goes on to ``release_kv_cache`` and ``ChunkCache``.  A request that is staged is in none of the
  scheduler's queues; one that takes steps is in the running batch, and ends with its next step.  One whose KV is on its
  way is in the transfer queue, whose next turn finds its receiver aborted.
* A peer connects by ``try_ensure_parallel_info``.

What is replaced, and why the judged logic isn't touched:

* The rest of SGLang is stubs (:mod:`kvlitmus.conformance.adapters.sglang.common.stubs`); memory isn't pinned, streams
  and events are those of :mod:`~kvlitmus.conformance.adapters.sglang.common.steps`, and the kernels that copy do
  nothing when their turn comes: no KV is moved, because who owns which host page doesn't depend on it.
* The request is a small object with the fields that are read here.  One that was neither staged nor sent nor admitted
  has no slots of the logical pool and no buffer on the device: those are other pools.
* Whether a prompt can be computed is reckoned as in ``PrefillAdder.add_one_req``, for a request that generates a token
  while no other is running: the prompt, one token and a page must be less than what the allocator has available.
* Whether a prompt can be received is whether ``pop_preallocated`` comes as far as to call ``_pre_alloc``, which is not
  called then.
* The scheduler, the queue of pre-allocation and the manager of connections are objects with the fields that the
  published methods read.  Sockets lead to the peer that the suite speaks for; the answer of its bootstrap server is
  given instead of fetched.  A request's row is the one that the suite names, not the first that is free.
* The CUDA kernel of the swap-in (``jit_kernel/csrc/hisparse.cuh``) is said again in Python, as far as it decides about
  places; ``tests/conformance/test_sglang_hisparse_kernel.py`` plays the published source itself on the CPU beside it.

Limits: admission by host memory isn't offered, which SGLang hasn't.  Pages have 64 tokens, the only ones that this
release's pool has on CUDA.  Row 0 of SGLang's table is for padding, so row ``i`` here is row ``i + 1`` there.  A server
asks for the slots of a request in order and within the model's context length; the suite asks for others too, and what
is found so is found by a direct call.  Decode servers refuse negative starts here, so that schedules go on: what SGLang
answers to those is seen with the first kind.

* *Growth beside staging or transfers* isn't offered.  The suite admits requests (``sparse_admit``) wherever the device
  has room.  A server that stages admits none in this way; and one that waits for a transfer has counted on that room
  (``hisparse_req_budget``), so that it would let nobody else in.  What the suite found so, no server would meet.
* *Retracting in a decode server* isn't offered: ``release_req`` copies a retracted request's KV to the CPU there, by
  ``get_cpu_copy``, which HiSparse's allocator hasn't: it raises ``NotImplementedError``.
* *When a transfer has ended* is the peer's business.  A receiver that is aborted tells its peer, and nobody waits for
  an answer: the thread that hears ``ABORT_ACK`` does nothing with it ("to implement the deferred release mechanism if
  needed"), and the peer looks for aborts only between two chunks (``transfer_worker``).  So ``sparse_transferring``
  names a transfer until the suite says that it has ended.
* *A step* is two calls here, backup and growth.  That growth can be refused by an error is what the port allows; in a
  server nothing catches it.
* *Ratios above 1* (``DeepSeekV4HiSparseTokenToKVPoolAllocator``) need the pools of a whole other model, and aren't
  played.
"""

from __future__ import annotations

from kvlitmus.conformance.adapters.sglang.common.stubs import Peer
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_growth import Growth
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_server import PAGE, PLAN, HiSparse
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_transfer import Transfers
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_unified import Unified
from kvlitmus.conformance.ports import Config, Profile

UNIFIED = (11, 7)
"""The configurations of a server that computes prompts itself, by the pages of host memory."""
KINDS: dict[int, type[HiSparse]] = {13: Transfers, 19: Transfers, 15: Growth, 9: Growth}
"""Those of a decode server: with two transfers on their way at a time, or three; with seven device pages, or four."""


def build(config: Config) -> HiSparse:
    """A fresh server of the kind that the configuration says."""
    return KINDS.get(config.pages, Unified)(config)


hisparse = Peer(
    plan=PLAN,
    profile=Profile(sparse_count="empty"),
    capabilities=frozenset({"sparse", "sparse_inspect", "sparse_abort", "sparse_backups", "sparse_peer"}),
    build=build,
    configs=tuple([Config(page_size=PAGE, pages=pages, pool="sparse") for pages in (*UNIFIED, *KINDS)]),
    pool="sparse",
)

profile = hisparse.profile
capabilities = hisparse.capabilities
configs = hisparse.configs
make = hisparse.make
