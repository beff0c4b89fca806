"""SGLang 0.5.13.post1's HiSparse in a server that computes prompts itself: they are staged to the host."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_server import CONTEXT, PAGE, HiSparse, Request, modules
from kvlitmus.conformance.ports import Config


class Unified(HiSparse):
    """Staging, its acknowledgements, and retraction."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.copies: list[Foreign] = []
        """The events behind the copies that have begun."""

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
        self.known[row] = request
        self.copies.append(self.coordinator.ack_staging_queue[-1].finish_event)
        return list(self.coordinator.req_to_host_pool[row + 1, :tokens].tolist())

    def sparse_copied(self, copy: int) -> None:
        """The staging stream comes as far as this copy's event."""
        self.copies[copy].synchronize()

    def sparse_copying(self) -> Sequence[int]:
        """The copies behind which the event isn't done."""
        return [number for number, event in enumerate(self.copies) if not event.query()]

    def sparse_ready(self) -> Sequence[int]:
        """``collect_ready_reqs``: who is acknowledged is in the running batch."""
        ready = self.coordinator.collect_ready_reqs()
        self.server.running_batch.reqs += ready
        return [request.req_pool_idx - 1 for request in ready]

    def sparse_retract(self, row: int) -> None:
        """``retract_req``, then ``release_kv_cache``, as ``release_req`` calls them."""
        request = self.left(row)
        self.coordinator.retract_req(request or Request(row + 1))
        if request:
            modules().common.release_kv_cache(request, self.tree, is_insert=False)
