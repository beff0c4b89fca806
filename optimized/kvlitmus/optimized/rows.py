"""What is in the rows of requests that are forked.

Whatever a mover raises here is contained: the request has then not begun, and the error is kept in
:attr:`~kvlitmus.optimized.work.WorkTable.faults`.
"""

from __future__ import annotations

from kvlitmus.optimized.arrays import PageArray
from kvlitmus.optimized.mover import Mover
from kvlitmus.optimized.work import WorkTable

FORK = "fork"


class Rows:
    """The contents of rows, which the mover copies."""

    def __init__(self, mover: Mover, works: WorkTable) -> None:
        self.mover = mover
        self.works = works

    def copy(self, pages: PageArray, to: PageArray) -> bool:
        """Copy the contents of device pages into other ones; whether that went well."""
        try:
            self.mover.copy(pages, to)
        except Exception as error:  # noqa: BLE001  it is the mover's, and there is no request yet
            self.works.fault(FORK, error)
            return False
        return True
