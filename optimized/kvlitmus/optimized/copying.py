"""Copies between device and host that are under way: what backups and loads have in common.

A copy is submitted **before** anything says that it was: a mover that raises has changed nothing.  From then on it
*lands* or *fails*, and a tick takes note of either.  The notes come in the order of submission.  Whatever a ticket
raises ends its copy and nothing else; the error is kept in :attr:`WorkTable.faults`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

from kvlitmus.optimized.mover import Mover, PageArray, Ticket
from kvlitmus.optimized.tree import Place, Run, Tree
from kvlitmus.optimized.work import Work, WorkTable


class Copies(ABC):
    """Copies of one kind, not yet taken note of: ``queue`` has them in the order in which they were submitted."""

    def __init__(self, tree: Tree, mover: Mover, works: WorkTable) -> None:
        self.tree = tree
        self.mover = mover
        self.works = works
        self.queue: deque[Work] = deque()

    def submit(self, kind: str, copy: Callable[[], Ticket]) -> Ticket | None:
        """Submit a copy; ``None`` where the mover raises."""
        try:
            return copy()
        except Exception as error:  # noqa: BLE001  whatever a mover raises, nothing was submitted
            self.works.fault(kind, error)
            return None

    @abstractmethod
    def landed(self, work: Work) -> None:
        """Everything is copied."""

    @abstractmethod
    def finish(self, work: Work) -> None:
        """Take note of a copy that has landed."""

    @abstractmethod
    def fail(self, work: Work) -> None:
        """Take note of a copy that has failed: nothing is left of it, or it is made :meth:`again`."""

    @abstractmethod
    def resubmit(self, work: Work) -> Ticket:
        """Have the mover make the same copy once more."""

    def follow(
        self,
        kind: str,
        end: Place,
        runs: Sequence[Run],
        device_pages: PageArray,
        host_pages: PageArray,
        ticket: Ticket,
    ) -> Work:
        """This copy, of pages up to this end, is under way."""
        work = self.works.add(kind, end, runs, device_pages, host_pages, ticket)
        self.queue.append(work)
        return work

    def acks(self) -> None:
        """Take note of the copies that are over, up to the first that is not."""
        queue = self.queue
        for _ in range(len(queue)):  # those of now: what is made again waits for the next tick
            if not queue[0].landed:
                break
            self.end(queue.popleft())

    def end(self, work: Work) -> None:
        """Take note of one that is over."""
        if work.error is None:
            self.finish(work)
        else:
            self.fail(work)

    def again(self, work: Work) -> None:
        """Begin a copy that failed once more, behind all others; if it can't be submitted, the next tick tries."""
        ticket = self.submit(work.kind, lambda: self.resubmit(work))
        if ticket is None:
            self.queue.append(work)
            return
        fresh = self.follow(work.kind, work.place, work.runs, work.device_pages, work.host_pages, ticket)
        self.works.replace(work, fresh)

    def failed(self, work: Work, error: BaseException) -> None:
        """The copy is over, and nothing can be said of its target."""
        self.works.fault(work.kind, error)
        work.error = error
        work.landed = True

    def advance(self, work: Work, layers: int | None) -> bool:
        """Stepped: copy so many layers, or all that are left; whether that went well."""
        assert work.ticket is not None
        try:
            work.ticket.advance(layers)
        except Exception as error:  # noqa: BLE001  whatever a ticket raises, its copy has failed
            self.failed(work, error)
            return False
        return True

    def look(self) -> None:
        """Free-running: see which copies are over, up to the first that isn't."""
        for work in self.queue:
            if not (work.landed or self.over(work)):
                break

    def over(self, work: Work) -> bool:
        """Whether a copy is over; if it has just become so, it has landed or failed."""
        assert work.ticket is not None
        try:
            if not work.ticket.done():
                return False
        except Exception as error:  # noqa: BLE001  whatever a ticket raises, its copy has failed
            self.failed(work, error)
        else:
            self.landed(work)
        return True


def wait_over(ticket: Ticket, seconds: float) -> bool:
    """Wait until a copy is over, landed or failed, at most so many seconds; whether it is."""
    try:
        return ticket.wait(seconds) if seconds > 0 else ticket.done()
    except Exception:  # noqa: BLE001  a copy that has failed is over, too
        return True
