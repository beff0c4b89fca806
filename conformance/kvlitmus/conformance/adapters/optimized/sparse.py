"""The optimized cache's sparse rows as a target.

``target``
    takes a request for fewer tokens than none for one for none.
``compressing``
    compresses four tokens to one.

They are in the compiled core alone: without it the target says how to build it.  There are as many rows and slots
of the device as the reference's target has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.adapters.optimized.alone import of_core
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run.plan import SPARSE_CONFIGS
from kvlitmus.spec.interface.sparse import SPARSE_PORTS, SparseShape, SparseView

ROWS, ROW_PAGES = 4, 5


def listing(call: Callable[..., Any]) -> Callable[..., list[int] | None]:
    """A call of the core whose answer, or the first part of it, is a list here."""

    def made(*given: Any) -> list[int] | None:
        answer = call(*given)
        first = answer[0] if isinstance(answer, tuple) else answer
        slots: list[int] | None = None if first is None else first.tolist()
        return slots

    return made


class OptimizedSparse:
    """Rows of the compiled core; whether a peer's pages are as large as theirs is looked at here, and again by them."""

    def __init__(self, config: Config, ratio: int) -> None:
        from kvlitmus.optimized.sparse import SparseConfig, sparse_rows

        size, room = config.page_size, config.page_size + 2
        # A slot too few for three long sequences: one waits, or can't grow.  Where tokens are compressed it is the host
        # that has too little.
        device = (3 if ratio == 1 else ROWS) * (room + size) - 1
        shape = {"page_size": size, "pages": config.pages, "rows": ROWS, "width": ROW_PAGES * size, "room": room}
        self.rows = rows = sparse_rows(SparseConfig(**shape, device_slots=device, ratio=ratio))
        self.sparse_request = listing(rows.request)
        self.sparse_read = listing(rows.read)
        self.sparse_free = self.sparse_abort = self.sparse_retract = rows.free
        self.sparse_available = rows.available
        self.sparse_prefills = self.sparse_receives = rows.has_room
        self.sparse_stage = listing(rows.stage)
        self.sparse_copied = rows.copied
        self.sparse_copying = listing(rows.copying)
        self.sparse_ready = listing(rows.ready)
        self.sparse_prealloc = listing(rows.prealloc)
        self.sparse_destinations = listing(rows.pages)
        self.sparse_transferred = rows.transferred
        self.sparse_transferring = listing(rows.transferring)
        self.sparse_admit = rows.admit
        self.sparse_swap = listing(rows.swap)
        self.sparse_grow = rows.grow
        self.sparse_device_available = rows.device_available
        self.sparse_device_buffer = listing(rows.device_slots)
        self.sparse_back_up = listing(rows.back_up)
        self.sparse_reserve = rows.reserve

    def sparse_shape(self) -> SparseShape:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseHost`."""
        return SparseShape(self.rows.rows, self.rows.width)

    def sparse_buffer(self) -> int:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseBuffers`."""
        return self.rows.room

    def sparse_view(self) -> SparseView:
        """See :class:`~kvlitmus.spec.interface.sparse.SparseInspect`."""
        size = self.rows.page_size
        free = [page * size + at for page in self.rows.free_pages() for at in range(size)]
        rows = {row: self.rows.read(row).tolist() for row in range(ROWS)}
        return SparseView([int(slot) for slot in free], {row: slots for row, slots in rows.items() if slots})

    def sparse_connect(self, page_size: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.sparse.SparsePeer`."""
        return page_size == self.rows.page_size


@dataclass(frozen=True)
class SparseTarget:
    """What makes sparse rows of the compiled core."""

    profile: Profile
    capabilities: frozenset[str] = frozenset(SPARSE_PORTS)
    configs = SPARSE_CONFIGS

    def make(self, config: Config) -> OptimizedSparse:
        """Fresh rows."""
        if config.pool != "sparse":
            raise Unsupported("this target is a sparse host pool alone")
        return OptimizedSparse(config, self.profile.sparse_ratio)


TARGETS = {
    "target": SparseTarget(Profile(misuse="reject")),
    "compressing": SparseTarget(Profile(sparse_ratio=4, misuse="reject")),
}


def __getattr__(name: str) -> Any:
    """A target, once it is known that the compiled core is there; raises :class:`TargetError` otherwise."""
    return of_core(TARGETS, name, "sparse rows")
