"""A pool alone, as runs of free pages: what is freed is joined with its neighbours, the smallest run that fits is used.

There is no tree and there are no requests.  An allocation is one run if there is one, else it is put together from
several.  Frees can be grouped; what is freed in a group is no part of any run until the group ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config, Profile, Unsupported, View


class Slab:
    """Free runs as first page and length, sorted."""

    def __init__(self, config: Config) -> None:
        self.size = config.page_size
        self.first = 1 if config.pool == "device" else 0
        self.count = config.pages
        self.reset()

    def reset(self) -> None:
        """One run."""
        self.runs = [(self.first, self.count)]
        self.grouped: list[int] | None = None

    def available(self) -> int:
        """What all runs hold."""
        return sum(length for _, length in self.runs) * self.size

    def alloc(self, n: int) -> list[int] | None:
        """Whole pages; a size that is none is rounded up, as the profile says."""
        pages = self.take(-(-n // self.size))
        return None if pages is None else [page * self.size + at for page in pages for at in range(self.size)]

    def take(self, count: int) -> list[int] | None:
        """The smallest run that is long enough, or the longest ones together."""
        if count * self.size > self.available():
            return None
        taken: list[int] = []
        while len(taken) < count:
            missing = count - len(taken)
            fitting = [run for run in self.runs if run[1] >= missing]
            run = min(fitting, key=lambda one: one[1]) if fitting else max(self.runs, key=lambda one: one[1])
            self.runs.remove(run)
            start, length = run
            used = min(length, missing)
            taken += range(start, start + used)
            if used < length:
                self.runs.append((start + used, length - used))
        return taken

    def free(self, slots: Sequence[int]) -> None:
        """Into the group, or among the runs."""
        pages = list(dict.fromkeys(slot // self.size for slot in slots))
        if self.grouped is not None:
            self.grouped += pages
        else:
            self.join(pages)

    def join(self, pages: Sequence[int]) -> None:
        """Neighbours become one run."""
        free = sorted([*pages, *(start + at for start, length in self.runs for at in range(length))])
        self.runs = []
        for page in free:
            if self.runs and sum(self.runs[-1]) == page:
                start, length = self.runs[-1]
                self.runs[-1] = (start, length + 1)
            else:
                self.runs.append((page, 1))

    def free_group_begin(self) -> None:
        """Wait with what is freed."""
        self.grouped = []

    def free_group_end(self) -> None:
        """All at once."""
        pages, self.grouped = self.grouped or [], None
        self.join(pages)

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """The rest of each last page, then a run for each request."""
        size = self.size
        needed = [-(-new // size) - -(-old // size) for old, new in zip(before, after, strict=True)]
        pages = self.take(sum(needed))
        if pages is None:
            return None
        slots: list[int] = []
        for old, new, end, many in zip(before, after, last, needed, strict=True):
            own, pages = pages[:many], pages[many:]
            rest = [end + 1 + at for at in range(-old % size)]
            slots += (rest + [page * size + at for page in own for at in range(size)])[: new - old]
        return slots

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """An extension by one."""
        return self.alloc_extend([length - 1 for length in after], after, last)

    def view(self) -> View:
        """The pages of all runs."""
        return View([start + at for start, length in self.runs for at in range(length)])


class SlabTarget:
    """Makes pools of both kinds."""

    profile = Profile(align="round_up")
    configs = (Config(page_size=1), Config(page_size=4), Config(page_size=4, pages=8), Config(page_size=4, pool="host"))

    def make(self, config: Config) -> Slab:
        """A fresh one."""
        if config.tiered or config.pool not in ("device", "host"):
            raise Unsupported("a pool of the device or of the host")
        return Slab(config)


target = SlabTarget()
