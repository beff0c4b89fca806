"""Copies and puts over the compiled core: what begins or ends one is one call of it.

It asks the mover, or for names, in its midst.  Nothing else of Python runs between the effects of such a call but what
hears of evictions.  What a call does stands in :mod:`kvlitmus.optimized.backup`, :mod:`~kvlitmus.optimized.load` and
:mod:`~kvlitmus.optimized.put`, step by step.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from kvlitmus.optimized.backup import Backups
from kvlitmus.optimized.branch import Place, Run, Units
from kvlitmus.optimized.load import Loaded, Loads
from kvlitmus.optimized.put import Puts
from kvlitmus.optimized.work import BACKUP, LOAD, NO_PAGES, Work


class CompiledBackups(Backups):
    """:class:`~kvlitmus.optimized.backup.Backups`, compiled."""

    tree: Any

    def used(self, place: Place) -> int:
        """See :class:`~kvlitmus.optimized.backup.Backups`."""
        backed, copies, error = self.tree.back_up(place, self.closed, self.uses, self.mover.backup)
        for copy in copies:
            backed += len(self.follow(BACKUP, *copy).host_pages)
        if error is not None:
            self.works.fault(BACKUP, error)
        return int(backed)

    def finish(self, work: Work) -> None:
        """See :class:`~kvlitmus.optimized.backup.Backups`."""
        self.works.remove(work)
        self.tree.end_backup(work.place, work.runs)
        self.backed(work.runs)


class CompiledLoads(Loads):
    """:class:`~kvlitmus.optimized.load.Loads`, compiled."""

    tree: Any

    def load_back(self, namespace: Hashable, units: Units, quota: int | None = None) -> Loaded:
        """See :class:`~kvlitmus.optimized.load.Loads`."""
        before, copy, error = self.tree.load_back(namespace, units, self.threshold, quota, self.mover.load)
        if error is not None:
            self.works.fault(LOAD, error)
        if not copy:
            return Loaded(before, None if copy is None else NO_PAGES)
        work = self.follow(LOAD, *copy)
        return Loaded(before, work.device_pages, work)

    def finish(self, work: Work) -> None:
        """See :class:`~kvlitmus.optimized.load.Loads`."""
        self.works.remove(work)
        self.tree.end_load(work.place, work.runs)


class CompiledPuts(Puts):
    """:class:`~kvlitmus.optimized.put.Puts`, compiled."""

    tree: Any

    def outstanding(self, runs: Sequence[Run]) -> None:
        """See :class:`~kvlitmus.optimized.put.Puts`."""
        if self.store is not None:
            for put in self.tree.begin_puts(runs, self.names):
                self.follow(*put)

    def end(self, work: Work) -> None:
        """See :class:`~kvlitmus.optimized.put.Puts`."""
        self.works.remove(work)
        self.tree.end_put(work.runs)
