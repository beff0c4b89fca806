"""SGLang 0.5.13.post1's HiSparse in a decode server: what requests have on the device, and decode from."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_server import BUFFER, DecodeServer, Request, modules
from kvlitmus.conformance.ports import Config


def swap_in(
    *,
    top_k_tokens: Foreign,
    device_buffer_tokens: Foreign,
    host_cache_locs: Foreign,
    device_buffer_locs: Foreign,
    top_k_device_locs: Foreign,
    req_pool_indices: Foreign,
    seq_lens: Foreign,
    lru_slots: Foreign,
    num_top_k: int,
    hot_buffer_size: int,
    num_real_reqs: Foreign,
    **_memory: object,
) -> None:
    """What the kernel ``load_cache_to_device_buffer_mla`` decides, on the tables that it is given; it copies no KV.

    Source: ``jit_kernel/csrc/hisparse.cuh``; that both decide alike is a test's business.
    """
    for block in range(int(num_real_reqs[0])):
        row, length = int(req_pool_indices[block]), int(seq_lens[block])
        wanted, places = top_k_tokens[block, :num_top_k].tolist(), device_buffer_locs[row].tolist()
        if length <= hot_buffer_size:
            found = [places[token] for token in wanted[:length]]
        else:
            tokens, order = device_buffer_tokens[row].tolist(), lru_slots[row].tolist()
            there = {tokens[slot]: slot for slot in order if tokens[slot] >= 0 and tokens[slot] in wanted}
            there.pop(length - 1, None)
            hits = [slot for slot in order if tokens[slot] in there]
            others = [slot for slot in order if tokens[slot] not in there]
            missing = [token for token in wanted if token not in there and token != length - 1]
            if any(int(host_cache_locs[row, token]) < 0 for token in missing):
                raise IndexError("the kernel would read in front of host memory")
            for token, slot in zip(missing, others, strict=False):
                device_buffer_tokens[row, slot] = token
                there[token] = slot
            count = len(missing)
            lru_slots[row] = torch_module().tensor([*others[count:], *others[:count], *hits])
            there[length - 1] = hot_buffer_size
            found = [places[there[token]] for token in wanted]
        top_k_device_locs[block, : len(found)] = torch_module().tensor(found)


class Growth(DecodeServer):
    """Requests whose KV has come, and whose buffers grow; how it came is not told here."""

    TOP_K = BUFFER

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        modules().coordinator.load_cache_to_device_buffer_mla = swap_in
        self.coordinator.num_real_reqs.fill_(1)  # as the model runner does in front of each step
        self.lengths: dict[int, int] = {}
        """How long the sequence of each row was in its last step."""

    def sparse_buffer(self) -> int:
        """``device_buffer_size``."""
        return int(self.coordinator.device_buffer_size)

    def sparse_device_available(self) -> int:
        """``available_size()`` of the allocator behind the buffers."""
        return int(self.allocator.hisparse_attn_allocator.available_size())

    def sparse_device_buffer(self, row: int) -> Sequence[int]:
        """What the coordinator's table says of a row."""
        size = int(self.coordinator.req_device_buffer_size[row + 1])
        return list(self.coordinator.req_to_device_buffer[row + 1, :size].tolist())

    def sparse_admit(self, row: int, length: int) -> None:
        """The logical slots of ``_pre_alloc``, and ``admit_request_direct``; the request waits for its first step."""
        torch, request = torch_module(), Request(row + 1, length)
        zero, end = torch.tensor([0]), torch.tensor([length])
        slots = self.allocator.alloc_logical_only(zero, zero, end, end, torch.tensor([-1]), length)
        self.requests.write((row + 1, slice(0, length)), slots.to(torch.int32))
        try:
            self.coordinator.admit_request_direct(request)
        except BaseException:
            self.allocator.free(slots)
            raise
        self.known[row], self.lengths[row] = request, length
        self.server.waiting_queue.append(request)

    def sparse_back_up(self, row: int, length: int) -> Sequence[int]:
        """As in every server, once in each step: whoever asks for the same length again asks for no new step."""
        if length <= self.lengths.get(row, 0):
            return ()
        slots = super().sparse_back_up(row, length)
        self.lengths[row] = length
        return slots

    def sparse_grow(self, row: int, length: int) -> int:
        """``map_last_loc_to_buffer`` behind the logical slot of ``alloc_for_decode``; its backup has been made."""
        self.runs(row)
        torch, coordinator = torch_module(), self.coordinator
        lengths, rows = torch.tensor([length]), torch.tensor([row + 1])
        self.allocate(self.known[row], length)
        newest = self.requests.req_to_token[row + 1, length - 1 : length].to(torch.int64)
        coordinator._eager_backup_previous_token = lambda *_step: None  # noqa: SLF001 - the first half of the step
        try:
            coordinator.map_last_loc_to_buffer(lengths, newest, rows, lengths, rows)
        finally:
            del coordinator._eager_backup_previous_token  # noqa: SLF001 - as above
        return int(coordinator.mem_pool_device.full_to_hisparse_device_index_mapping[newest[0]])

    def allocate(self, request: Request, length: int) -> None:
        """Slots of the logical pool up to this length, as ``prepare_for_decode`` gets them; never too few.

        A request has at most twice as many pages there as on the device, and the logical pool has twice the device's.
        """
        torch = torch_module()
        for now in range(request.kv_allocated_len, length):
            batch = SimpleNamespace(
                maybe_evict_swa=lambda: None,
                seq_lens=torch.tensor([now]),
                seq_lens_cpu=torch.tensor([now]),
                req_pool_indices=torch.tensor([request.req_pool_idx]),
                req_to_token_pool=self.requests,
                tree_cache=self.tree,
                model_config=SimpleNamespace(is_encoder_decoder=False),
            )
            modules().common.alloc_for_decode(batch, 1)
            request.kv_allocated_len = request.kv_committed_len = now + 1

    def sparse_swap(self, row: int, length: int, tokens: Sequence[int]) -> Sequence[int]:
        """``swap_in_selected_pages`` of a model that looks at so many tokens; a place is where its slot is."""
        torch, coordinator = torch_module(), self.coordinator
        coordinator.top_k = len(tokens)
        found = coordinator.swap_in_selected_pages(
            torch.tensor([row + 1]), torch.tensor([length]), torch.tensor([list(tokens)], dtype=torch.int32), 0
        )
        places = {slot: place for place, slot in reversed(list(enumerate(self.sparse_device_buffer(row))))}
        return [places.get(slot, -1) for slot in found[0, : len(tokens)].tolist()]
