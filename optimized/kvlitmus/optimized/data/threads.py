"""A thread that does what it is given, in order."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable


class Worker:
    """One daemon thread with a queue of jobs.

    A job deals with its own errors; what it raises all the same is dropped.  first: done by the thread before anything
    else; what jobs need that it could not do, they find missing.
    """

    def __init__(self, name: str, first: Callable[[], None] = lambda: None) -> None:
        self._first = first
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._closed = False
        self._thread.start()

    def post(self, job: Callable[[], None]) -> None:
        """Do this after everything posted before.  Raises ``RuntimeError`` after :meth:`close`."""
        if self._closed:
            raise RuntimeError("the worker is closed")
        self._jobs.put(job)

    def close(self) -> None:
        """Return when all jobs are done and the thread has ended."""
        self.leave()
        self._thread.join()

    def leave(self) -> None:
        """Let the thread end when all jobs are done, without waiting for that."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)

    def _work(self) -> None:
        with contextlib.suppress(Exception):
            self._first()
        while (job := self._jobs.get()) is not None:
            with contextlib.suppress(Exception):
                job()
            del job  # what it refers to may end while the thread waits for the next
