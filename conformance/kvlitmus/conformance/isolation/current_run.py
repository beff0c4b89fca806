"""What this process is playing: the one thing that a watcher outside the play may look at.

The engine is handed a :class:`CurrentRun` and says in it which cache it makes and which program it plays.  Nobody
needs to listen.  A worker process does: a second thread tells the supervisor how many calls were made,
and before each play the schedule is written to disk, so that it is known even when the process
dies in the middle of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker
    from kvlitmus.conformance.ports import Config
    from kvlitmus.conformance.run.results import Options


class CurrentRun:
    """What is being played.

    plays: caches made so far.  checker: the checker that plays, ``None`` while a cache is being made.
    fenced: methods that the adapter is treated as not having, because they killed a process.
    checker_type: the kind of checker to use, ``None`` for the usual one.  on_make, on_play: called
    before a cache is made, and before a program is played on it.  latest: the cache that was made last, as long as
    somebody holds it.  memory_mb: megabytes that this process may use, 0 for no bound.  met: the methods that were
    called before, by configuration, where anybody wants to know; on_first: called before one is that wasn't, and after.
    """

    __slots__ = (
        *("checker", "checker_type", "fenced", "latest", "memory_mb"),
        *("met", "on_first", "on_make", "on_play", "plays"),
    )

    def __init__(self, checker_type: type[Checker] | None = None, memory_mb: int = 0) -> None:
        self.plays = 0
        self.checker: Checker | None = None
        self.fenced: frozenset[str] = frozenset()
        self.checker_type = checker_type
        self.latest: Callable[[], object] | None = None
        self.memory_mb = memory_mb
        self.met: dict[str, set[str]] | None = None
        self.on_first: Callable[[], None] | None = None
        self.on_make: Callable[[], None] | None = None
        self.on_play: Callable[[Config, Options, Any], None] | None = None

    def making(self) -> None:
        """A cache is about to be made."""
        self.plays += 1
        self.checker = None
        if self.on_make is not None:
            self.on_make()

    def made(self, adapter: object) -> bool:
        """A cache was made; whether it is another one than before, as far as can be known."""
        another = self.latest is None or self.latest() is not adapter
        self.latest = None
        with suppress(TypeError):  # an object that nobody may hold weakly
            self.latest = weakref.ref(adapter)
        return another

    def playing(self, checker: Checker, options: Options, program: Any) -> None:
        """A program is about to be played."""
        self.checker = checker
        if self.on_play is not None:
            self.on_play(checker.config, options, program)

    @contextmanager
    def judged_by(self, kind: type[Checker]) -> Iterator[None]:
        """Another kind of checker judges meanwhile, and then the one before; one that somebody else put there stays."""
        before, self.checker_type = self.checker_type, kind
        try:
            yield
        finally:
            if self.checker_type is kind:
                self.checker_type = before

    @property
    def progress(self) -> tuple[int, int, int]:
        """Caches made, calls made on the latest of them, and whether a method is called for the first time."""
        checker = self.checker
        return (self.plays, -1, 0) if checker is None else (self.plays, checker.steps, int(checker.warming))


class MethodMask:
    """An adapter without some of its methods."""

    def __init__(self, adapter: Any, methods: frozenset[str]) -> None:
        self._adapter = adapter
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        if name in self._methods:
            raise AttributeError(name)
        return getattr(self._adapter, name)
