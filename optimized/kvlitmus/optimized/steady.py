"""A mover that never refuses a copy: one that can't be submitted fails when it is under way.

On one rank of several a backup that doesn't begin would leave a tree unlike the others'.  What fails under way is told
and taken back, or made again, on all ranks alike.
"""

from __future__ import annotations

from kvlitmus.optimized.mover import Mover, PageArray, Ticket
from kvlitmus.optimized.storage.base import Buffer


class LostTicket:
    """A copy that could not be submitted: it is over, and has failed."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def advance(self, layers: int | None = None) -> None:
        """See :class:`~kvlitmus.optimized.mover.Ticket`."""
        raise self.error

    def layers_ready(self) -> int:
        """See :class:`~kvlitmus.optimized.mover.Ticket`."""
        return 0

    def wait_layer(self, layer: int) -> None:
        """See :class:`~kvlitmus.optimized.mover.Ticket`."""
        raise self.error

    def done(self) -> bool:
        """See :class:`~kvlitmus.optimized.mover.Ticket`."""
        raise self.error

    def wait(self, timeout: float | None = None) -> bool:
        """See :class:`~kvlitmus.optimized.mover.Ticket`."""
        raise self.error


class SteadyMover:
    """Another mover, with a :class:`LostTicket` for what that refuses."""

    def __init__(self, inner: Mover) -> None:
        self.inner = inner
        self.layers = inner.layers
        self.page_bytes = inner.page_bytes
        self.copy, self.save, self.restore = inner.copy, inner.save, inner.restore

    def backup(self, device_pages: PageArray, host_pages: PageArray) -> Ticket:
        """See :class:`~kvlitmus.optimized.mover.Mover`."""
        try:
            return self.inner.backup(device_pages, host_pages)
        except Exception as error:  # noqa: BLE001  whatever it raises, nothing was submitted
            return LostTicket(error)

    def load(self, host_pages: PageArray, device_pages: PageArray) -> Ticket:
        """See :class:`~kvlitmus.optimized.mover.Mover`."""
        try:
            return self.inner.load(host_pages, device_pages)
        except Exception as error:  # noqa: BLE001  whatever it raises, nothing was submitted
            return LostTicket(error)

    def read_page(self, host_page: int) -> Buffer:
        """See :class:`~kvlitmus.optimized.mover.Mover`."""
        return self.inner.read_page(host_page)

    def write_page(self, host_page: int, contents: Buffer) -> None:
        """See :class:`~kvlitmus.optimized.mover.Mover`."""
        self.inner.write_page(host_page, contents)
