"""What is in the rows of requests that are forked, or that give up the device for a while.

Whatever a mover raises here is contained: the request has then not begun, or runs on, and the error is kept in
:class:`~kvlitmus.optimized.work.WorkTable`.
"""

from __future__ import annotations

import numpy as np

from kvlitmus.optimized.arrays import PageArray
from kvlitmus.optimized.branch import NOWHERE
from kvlitmus.optimized.load import Loads
from kvlitmus.optimized.mover import Mover
from kvlitmus.optimized.work import WorkTable

FORK, RETRACT, RESUME = "fork", "retract", "resume"


class Rows:
    """The contents of rows, which the mover copies."""

    def __init__(self, mover: Mover, works: WorkTable, loads: Loads) -> None:
        self.mover = mover
        self.works = works
        self.loads = loads

    def copy(self, pages: PageArray, to: PageArray) -> bool:
        """Copy the contents of device pages into other ones; whether that went well."""
        try:
            self.mover.copy(pages, to)
        except Exception as error:  # noqa: BLE001  it is the mover's, and there is no request yet
            self.works.fault(FORK, error)
            return False
        return True

    def save(self, pages: PageArray) -> object:
        """What is in these device pages, kept on the host; ``None`` where that can't be.

        Until a load is acknowledged its pages hold anything, and those that it reads from stay as they are.
        """
        sources: dict[int, int] = {}
        for work in self.loads.queue:
            sources.update(zip(work.device_pages.tolist(), work.host_pages.tolist(), strict=True))
        try:
            on_host = np.array([sources.get(page, NOWHERE) for page in pages.tolist()], np.int32)
            return self.mover.save(pages, on_host)
        except Exception as error:  # noqa: BLE001  whatever it is, the request runs on
            self.works.fault(RETRACT, error)
            return None

    def restore(self, kept: object, pages: PageArray) -> bool:
        """Bring what was kept into these device pages; whether that went well."""
        try:
            self.mover.restore(kept, pages)
        except Exception as error:  # noqa: BLE001  whatever it is, the request stays where it is
            self.works.fault(RESUME, error)
            return False
        return True
