"""A mover on CPU tensors whose copying threads pause before each layer, as long as a test likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.tables import Tables
from kvlitmus.optimized.data.tickets import ThreadTicket
from kvlitmus.optimized.data.transfer import TorchMover

Pause = Callable[[int], None]
"""Called by a copying thread before each layer, with its number; what it raises is an error of the copy."""


class PausingTicket(ThreadTicket):
    """A copy that a thread makes when the pause before each layer is over."""

    __slots__ = ("pause",)

    def __init__(self, copy: PageCopy, tables: Tables, pause: Pause) -> None:
        super().__init__(copy, tables)
        self.pause = pause

    def goes_on(self, layer: int) -> bool:
        self.pause(layer)
        return super().goes_on(layer)


class PausingMover(TorchMover):
    """A mover of such tickets."""

    def __init__(self, *args: Any, pause: Pause, **options: Any) -> None:
        super().__init__(*args, **options)
        self.pause = pause

    def thread_ticket(self, copy: PageCopy, tables: Tables) -> ThreadTicket:
        return PausingTicket(copy, tables, self.pause)
