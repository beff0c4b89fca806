"""Everything that runs by itself in a free-running cache, moved one small step at a time by a test.

So all interleavings are within reach, repeatable and without a thread: :class:`LateMover` copies a layer when it is
told to, from whatever the source holds *then*; :class:`LateRunner` reads or writes a page when it is told to.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from kvlitmus.optimized.mover import Ticket
from kvlitmus.optimized.work import FETCH, PUT, QUERY, Progress, Work, ask, read_pages, write_pages
from tests.optimized.support.hierarchy_sides import LAYERS, ArrayMover, ArrayTicket


class LateTicket(ArrayTicket):
    """A copy that goes on when its lane does; to wait for it is to move its lane."""

    def __init__(self, mover: LateMover, lane: deque[LateTicket], *places: Any) -> None:
        super().__init__(mover, *places)
        self.lane = lane
        lane.append(self)

    def advance(self, layers: int | None = None) -> None:
        """Nothing: it goes on by itself."""

    def copy(self, layers: int) -> None:
        super().advance(layers)

    def wait_layer(self, layer: int) -> None:
        while self.ready <= layer:
            move(self.lane)

    def wait(self, timeout: float | None = None) -> bool:
        self.wait_layer(LAYERS - 1)
        return True


def move(lane: deque[LateTicket]) -> None:
    """One more layer of the first copy of a lane."""
    lane[0].copy(1)
    if lane[0].done():
        lane.popleft()


class LateMover(ArrayMover):
    """Copies in two lanes, one each way; the test moves them."""

    def __init__(self, page_size: int, device_pages: int, host_pages: int) -> None:
        super().__init__(page_size, device_pages, host_pages)
        self.lanes: tuple[deque[LateTicket], deque[LateTicket]] = (deque(), deque())

    def backup(self, device_pages: Any, host_pages: Any) -> Ticket:
        return LateTicket(self, self.lanes[0], self.device, device_pages.copy(), self.host, host_pages.copy())

    def load(self, host_pages: Any, device_pages: Any) -> Ticket:
        return LateTicket(self, self.lanes[1], self.host, host_pages.copy(), self.device, device_pages.copy())


class LateRunner:
    """Storage jobs that go on page by page when the test says so; a report may be made long before it is drained."""

    def __init__(self, mover: LateMover, rng: random.Random) -> None:
        self.mover = mover
        self.rng = rng
        self.works: dict[int, tuple[Work, int]] = {}
        self.reports: list[Progress] = []

    def submit(self, work: Work) -> None:
        assert work.kind in (QUERY, FETCH, PUT) and work.id not in self.works
        self.works[work.id] = work, 0

    def go(self) -> None:
        """One of the works goes on a little."""
        if not self.works:
            return
        work, at = self.works[self.rng.choice(list(self.works))]
        pages, over = 0, True
        if work.kind == QUERY:
            pages = 0 if work.cancelled else ask(work.store, work.names)
        elif not work.cancelled:
            step = read_pages if work.kind == FETCH else write_pages
            pages, over = step(work.store, self.mover, work.names[at:], work.host_pages[at:], self.rng.randint(1, 2))
            over = over or at + pages == len(work.names)
        self.reports.append(Progress(work, pages, over))
        self.works[work.id] = work, at + pages
        if over:
            del self.works[work.id]

    def drain(self, timeout: float = 0.0) -> list[Progress]:
        while timeout and self.works and not self.reports:
            self.go()
        found, self.reports = self.reports, []
        return found

    def close(self, timeout: float = 30.0) -> list[str]:
        for work, _ in self.works.values():
            work.cancelled |= work.kind != PUT
        while self.works:
            self.go()
        return []
