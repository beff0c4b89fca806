"""Memory that runs out when the suite wants it: a helper for adapters."""

from __future__ import annotations


class ShortMemory:
    """The port ``memory_faults`` of an adapter whose cache takes memory once in a call."""

    memory: int | None = None

    def fail_memory(self, after: int | None) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.MemoryFaults`."""
        self.memory = after

    def take_memory(self) -> None:
        """What a call needs; raises ``MemoryError`` when there is none."""
        if self.memory is not None:
            self.memory -= 1
            if self.memory < 0:
                self.memory = None
                raise MemoryError
