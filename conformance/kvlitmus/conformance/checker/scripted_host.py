"""A host memory that does what a script says: what a prefetch plan is judged with.

The plan under test gets this in place of its host pool and anchor.  The script says how much is
free and how much an eviction could free; and it injects what a real host does at the worst
moment: an allocation that fails although memory suffices (somebody else was faster), memory
that becomes available between two calls (somebody else has finished).  Every call is written
down with what was asked and answered, so that the checker needs to believe nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvlitmus.spec.prefix.prefetch_plan import HostCall

FIRST_SLOT = 1024
"""Where the scripted slots begin: numbers that nobody guesses by counting from 0."""

MAX_CALLS = 1000
"""A plan needs fewer than ten; one that makes so many is caught in a loop."""


class HostScript(NamedTuple):
    """How a scripted host behaves.

    ``free`` slots are available at first and ``evictable`` ones can be evicted, ``evict_grain``
    at a time.  ``refuse``: which allocations (counted from 0) are refused although memory
    suffices.  ``arriving`` slots become available right after allocation number ``arrives_after``.
    """

    free: int
    evictable: int = 0
    refuse: tuple[int, ...] = ()
    arriving: int = 0
    arrives_after: int = 1
    evict_grain: int = 1


class ScriptedHost:
    """A host pool that follows a :class:`HostScript` and writes down every call in ``calls``.

    ``held`` are the slots handed out and not given back, in order; ``strays`` are slots given
    back that were not held.
    """

    def __init__(self, script: HostScript) -> None:
        self.script = script
        self.calls: list[HostCall] = []
        self.held: dict[int, None] = {}
        self.strays: list[int] = []
        self._free = script.free
        self._evictable = script.evictable
        self._allocations = 0
        self._next_slot = FIRST_SLOT

    def alloc(self, n: int) -> list[int] | None:
        """``n`` new slots, or ``None`` when they are not available or the script refuses."""
        number, before = self._allocations, self._free
        self._allocations += 1
        granted = 0 <= n <= before and number not in self.script.refuse
        self._note(HostCall("alloc", n, n if granted else None, before))
        slots: list[int] | None = None
        if granted:
            slots = list(range(self._next_slot, self._next_slot + n))
            self._next_slot += 2 * n
            self._free -= n
            self.held.update(dict.fromkeys(slots))
        if number == self.script.arrives_after:
            self._free += self.script.arriving
        return slots

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back; what was not held is noted as stray."""
        given = list(slots)
        self._note(HostCall("free", len(given), None, self._free))
        for slot in given:
            if slot in self.held:
                del self.held[slot]
                self._free += 1
            else:
                self.strays.append(slot)

    def available(self) -> int:
        """What is available now."""
        self._note(HostCall("available", 0, self._free, self._free))
        return self._free

    def evict(self, n: int) -> int:
        """Make room, ``evict_grain`` slots at a time, as far as there is something to evict."""
        grain = self.script.evict_grain
        freed = min(self._evictable, -(-max(0, n) // grain) * grain)
        self._note(HostCall("evict", n, freed, self._free))
        self._evictable -= freed
        self._free += freed
        return freed

    def protect(self) -> None:
        """Protect the anchor."""
        self._note(HostCall("protect", available=self._free))

    def release(self) -> None:
        """Release the anchor once."""
        self._note(HostCall("release", available=self._free))

    def _note(self, call: HostCall) -> None:
        if len(self.calls) >= MAX_CALLS:
            raise RuntimeError(f"a prefetch plan made more than {MAX_CALLS} calls to the host", MAX_CALLS)
        self.calls.append(call)
