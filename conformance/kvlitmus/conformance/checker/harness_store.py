"""The storage that the suite brings: pages by name, calls on record, and faults on demand.

Every call is noted, so that the checker can compare the names that a cache uses with the prefixes
that it means by them.  A script, set for one :meth:`~kvlitmus.spec.interface.tiers.Steps.advance`,
says how many pages storage is good for and what it does then.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.interface.tiers import Outcome
from kvlitmus.spec.prefix.seen import Asked, Got, Put, Record


class StorageDownError(OSError):
    """What a store raises when it is told to fail."""


class HarnessStore:
    """Pages by name, in memory; a page holds one number per slot."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.contents: dict[str, tuple[int, ...]] = {}
        self.asked: list[Asked] = []
        self.got: list[Got] = []
        self.puts: list[Put] = []
        self.left: int | None = None
        self.raises = False

    # -- what the cache calls ------------------------------------------------------------------

    def exists(self, names: Sequence[str]) -> int:
        """How many of these pages are stored, from the first one on."""
        asked = tuple(map(str, names))
        if self.raises:
            self.asked.append(Asked(asked, 0))
            raise StorageDownError("the storage is down")
        answer = 0
        for name in asked:
            if name not in self.contents or answer == self.left:
                break
            answer += 1
        if self.left is not None:
            self.left -= answer
        self.asked.append(Asked(asked, answer))
        return answer

    def get(self, name: str) -> tuple[int, ...] | None:
        """The contents of a page, or ``None``."""
        if self.left == 0:
            self.got.append(Got(str(name), False))
            if self.raises:
                raise StorageDownError(f"the storage can't read {name}")
            return None
        found = self.contents.get(str(name))
        whole = found is not None and len(found) == self.page_size
        self.got.append(Got(str(name), whole))
        if self.left is not None and whole:
            self.left -= 1
        return found

    def put(self, name: str, contents: Sequence[int]) -> bool:
        """Store a page."""
        page = tuple(map(int, contents))
        if self.left == 0:
            self.puts.append(Put(str(name), page, False))
            if self.raises:
                raise StorageDownError(f"the storage can't write {name}")
            return False
        self.puts.append(Put(str(name), page, True))
        self.contents[str(name)] = page
        if self.left is not None:
            self.left -= 1
        return True

    # -- what the suite does -------------------------------------------------------------------

    def script(self, outcome: Outcome) -> None:
        """Be good for so many pages, then refuse or raise; ``done`` and ``part`` lift every restriction."""
        limited = outcome.how in ("short", "fail")
        self.left = max(0, outcome.pages) if limited else None
        self.raises = outcome.how == "fail"

    def record(self) -> Record:
        """What was called since this was asked last, and how many pages are stored."""
        found = Record(tuple(self.asked), tuple(self.got), tuple(self.puts), len(self.contents))
        self.asked.clear()
        self.got.clear()
        self.puts.clear()
        return found

    def lose(self, name: str) -> None:
        """A page is gone."""
        self.contents.pop(name, None)

    def shorten(self, name: str) -> None:
        """A page is cut short, as by a crash of whoever wrote it."""
        self.contents[name] = self.contents[name][:-1]
