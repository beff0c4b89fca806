"""A thread that does what it is given, in order."""

from __future__ import annotations

import contextlib
import queue
import threading
import weakref
from collections.abc import Callable
from typing import TypeAlias

Jobs: TypeAlias = "queue.SimpleQueue[Callable[[], None] | None]"


class Worker:
    """One daemon thread with a queue of jobs; it ends when nobody has the worker any more, and all jobs are done.

    A job deals with its own errors; what it raises all the same is dropped.  first: done by the thread before anything
    else; what jobs need that it could not do, they find missing.
    """

    def __init__(self, name: str, first: Callable[[], None] = lambda: None) -> None:
        self._jobs: Jobs = queue.SimpleQueue()
        # The thread holds the jobs and not this object.
        self._leave = weakref.finalize(self, self._jobs.put, None)
        self._leave.atexit = False
        self._thread = threading.Thread(target=_work, args=(self._jobs, first), name=name, daemon=True)
        self._thread.start()

    def post(self, job: Callable[[], None]) -> None:
        """Do this after everything posted before.  Raises ``RuntimeError`` after :meth:`close`."""
        if not self._leave.alive:
            raise RuntimeError("the worker is closed")
        self._jobs.put(job)

    def close(self) -> None:
        """Return when all jobs are done and the thread has ended."""
        self.leave()
        self._thread.join()

    def leave(self) -> None:
        """Let the thread end when all jobs are done, without waiting for that."""
        self._leave()


def _work(jobs: Jobs, first: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        first()
    while (job := jobs.get()) is not None:
        with contextlib.suppress(Exception):
            job()
        del job  # what it refers to may end while the thread waits for the next
