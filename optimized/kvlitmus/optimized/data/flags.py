"""How far the copies of a lane are: an int32 per layer and ticket under way, in pinned memory.

A flag becomes the *epoch* of its ticket, the ticket's number in 32 bits, when its layer is there.  A kernel writes it
as it goes on; between batches of the copy engine its stream does (``cuStreamWriteValue32``).  The host reads it, and a
stream waits for it (``cuStreamWaitValue32``), but only for what somebody has submitted: a stream that waits for what a
thread has still to submit can keep that thread from ever doing so.

Epochs are compared by the sign of their difference, so that numbers may wrap, in streams as here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvlitmus.optimized.data import driver


class LayerFlags:
    """The flags of one lane.

    slots: tickets under way at once.  layers: of each.  counters: whether a kernel counts its programs per layer.
    """

    def __init__(self, slots: int, layers: int, device: torch.device, *, counters: bool) -> None:
        self.layers = layers
        self._slots = slots
        self._pinned = pinned(slots * layers)
        self._rows: npt.NDArray[np.int32] = self._pinned.view(slots, layers).numpy()
        self._address = int(self._pinned.data_ptr())
        self._counters = on_device(layers, device) if counters else None
        self.counters = int(self._counters.data_ptr()) if self._counters is not None else 0
        self.in_streams = False

    def probe(self, stream: int) -> None:
        """Find out whether streams know values here: a driver or a virtual machine may not."""
        try:
            driver.write_value(stream, self._address, 0)
            driver.wait_value(stream, self._address, 0)
        except driver.DriverError:
            return
        self.in_streams = True

    def row(self, number: int) -> FlagRow:
        """The flags of a ticket, none of them reached.  The ticket that had this slot before must be over."""
        slot = number % self._slots
        row = FlagRow(self._rows[slot], self._address + 4 * slot * self.layers, number)
        row.set(-1)  # who still waits for the slot's last ticket goes on: its number was lower by all slots
        return row


class FlagRow:
    """The flags of one ticket."""

    __slots__ = ("_flags", "address", "epoch")

    def __init__(self, flags: npt.NDArray[np.int32], address: int, number: int) -> None:
        self._flags = flags
        self.address = address
        self.epoch = (number + (1 << 31)) % (1 << 32) - (1 << 31)

    def set(self, later: int = 0) -> None:
        """Write all of them from the host: reached, or, with -1, the epoch before."""
        self._flags[:] = np.uint32((self.epoch + later) & 0xFFFF_FFFF).astype(np.int32)

    def ready(self) -> int:
        """How many layers are there: up to the last flag that is reached, for layers come in order."""
        reached = np.flatnonzero(self._flags - np.int32(self.epoch) >= 0)
        return int(reached[-1]) + 1 if len(reached) else 0

    def at(self, layer: int) -> int:
        """The address of a layer's flag."""
        return self.address + 4 * layer


def pinned(count: int) -> Any:
    """Zeros that the device can reach."""
    return torch.zeros(count, dtype=torch.int32, pin_memory=True)


def on_device(count: int, device: torch.device) -> torch.Tensor:
    """Zeros on the device."""
    return torch.zeros(count, dtype=torch.int32, device=device)
