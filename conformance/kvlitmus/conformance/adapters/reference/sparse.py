"""The reference's sparse host pool as a target: the frozen model behind the ports.

``target``
    takes a request for fewer tokens than none for one for none.
``rejecting``
    refuses it.
``compressing``
    compresses four tokens to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run.plan import SPARSE_CONFIGS
from kvlitmus.reference import sparse
from kvlitmus.spec.interface.sparse import SPARSE_PORTS, SparseShape, SparseView

ROWS, ROW_PAGES = 4, 5


class ReferenceSparse:
    """A reference pool and its present state."""

    def __init__(self, config: Config, count: str, ratio: int = 1) -> None:
        self.count = count
        size, room = config.page_size, config.page_size + 2
        # A slot too few for three long sequences: one waits, or can't grow.  Where tokens are compressed it is the host
        # that has too little.
        device = (3 if ratio == 1 else ROWS) * (room + size) - 1
        self.pool = sparse.empty_pool(size, config.pages, ROW_PAGES * size, room, ratio=ratio, device=device)

    def has_room(self, tokens: int) -> bool:
        """Whether the device has slots for the buffer of so many tokens."""
        most = self.pool.buffer_bounds(self.pool.hosted(tokens))[1]
        return most <= len(sparse.device_slots(self.pool))

    def sparse_shape(self) -> SparseShape:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        return SparseShape(ROWS, self.pool.width)

    def sparse_request(self, row: int, start: int, tokens: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        self.pool, slots = sparse.request(self.pool, row, start, tokens, count=self.count)
        return slots

    def sparse_read(self, row: int) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        return sparse.read(self.pool, row)

    def sparse_free(self, row: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        self.pool = sparse.free(self.pool, row)

    def sparse_abort(self, row: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseAbort`."""
        self.pool = sparse.free(self.pool, row)

    def sparse_prefills(self, tokens: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        return self.has_room(tokens)

    def sparse_stage(self, row: int, tokens: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        self.pool, slots = sparse.stage(self.pool, row, tokens, count=self.count)
        return slots

    def sparse_copied(self, copy: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        self.pool = sparse.copied(self.pool, copy)

    def sparse_copying(self) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        return tuple(self.pool.copies)

    def sparse_ready(self) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        self.pool, rows = sparse.ready(self.pool)
        return rows

    def sparse_retract(self, row: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseStaging`."""
        self.pool = sparse.free(self.pool, row)

    def sparse_back_up(self, row: int, length: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseBackups`."""
        self.pool, slots = sparse.back_up(self.pool, row, length, count=self.count)
        return slots

    def sparse_reserve(self, row: int, tokens: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseAdmission`."""
        self.pool, admitted = sparse.reserve(self.pool, row, tokens)
        return admitted

    def sparse_receives(self, tokens: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        return self.has_room(tokens)

    def sparse_prealloc(self, row: int, tokens: int, page_size: int) -> Sequence[int] | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        self.pool, slots = sparse.prealloc(self.pool, row, tokens, page_size, count=self.count)
        return slots

    def sparse_destinations(self, row: int) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        return sparse.destinations(self.pool, row)

    def sparse_transferred(self, transfer: int, arrived: bool) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        self.pool = sparse.transferred(self.pool, transfer, arrived=arrived)

    def sparse_transferring(self) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseTransfers`."""
        return tuple(self.pool.transfers)

    def sparse_device_available(self) -> int:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseGrowth`."""
        return len(sparse.device_slots(self.pool))

    def sparse_device_buffer(self, row: int) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseGrowth`."""
        return self.pool.held.get(row, ())

    def sparse_grow(self, row: int, length: int) -> int | None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseGrowth`."""
        self.pool, slot = sparse.grow(self.pool, row, length)
        return slot

    def sparse_available(self) -> int:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        return sparse.available(self.pool)

    def sparse_view(self) -> SparseView:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseInspect`."""
        size = self.pool.page_size
        free = [page * size + at for page in sparse.free_pages(self.pool) for at in range(size)]
        return SparseView(free, {number: row.slots for number, row in self.pool.rows.items()})

    def sparse_buffer(self) -> int:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseBuffers`."""
        return self.pool.room

    def sparse_admit(self, row: int, length: int) -> None:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseBuffers`."""
        self.pool = sparse.admit(self.pool, row, length)

    def sparse_swap(self, row: int, length: int, tokens: Sequence[int]) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseSwaps`."""
        self.pool, places = sparse.swap(self.pool, row, length, tokens)
        return places

    def sparse_connect(self, page_size: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparsePeer`."""
        return sparse.connects(self.pool, page_size)


@dataclass(frozen=True)
class SparseTarget:
    """What makes reference pools that take a request for no tokens or fewer as ``profile`` says."""

    profile: Profile
    capabilities: frozenset[str] = frozenset(SPARSE_PORTS)
    configs = SPARSE_CONFIGS

    def make(self, config: Config) -> ReferenceSparse:
        """A fresh pool."""
        if config.pool != "sparse":
            raise Unsupported("this target is a sparse host pool alone")
        return ReferenceSparse(config, self.profile.sparse_count, self.profile.sparse_ratio)


target = SparseTarget(Profile(sparse_count="empty", misuse="reject"))
rejecting = SparseTarget(Profile(sparse_count="reject", misuse="reject"))
"""The reference when fewer tokens than none are refused."""
compressing = SparseTarget(Profile(sparse_ratio=4, misuse="reject"))
"""The reference when four tokens of the model are compressed to one."""
