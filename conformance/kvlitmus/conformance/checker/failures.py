"""The suite's books about copies that fail: which are to, and what those that did have left."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.tier_observation import TierObservation
from kvlitmus.conformance.ports.tiers import BACKUP, COPY_FAILURES, LOAD, Job
from kvlitmus.conformance.support.text import shown
from kvlitmus.spec.units import Name, PageNo

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


class Work:
    """One job: its pages, what it reads from, whether its copy has landed or failed as the suite knows."""

    __slots__ = ("end", "failed", "job", "landed", "layers", "names", "sources")

    def __init__(self, job: Job, names: tuple[Name, ...], end: Name, sources: dict[Name, PageNo]) -> None:
        self.job = job
        self.names = names
        self.end = end
        self.sources = sources
        self.landed = False
        self.failed = False
        self.layers = 0

    @property
    def over(self) -> bool:
        """Whether the cache may end it."""
        return self.landed or self.failed


class Failures:
    """What the suite knows of failures.

    ``coming``: the kinds of which a copy was still to fail after the last call; ``ended``: the copies that failed and
    ended with the call that is going on.
    """

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.known = "copy_faults" in checker.capabilities
        self.coming: frozenset[str] = frozenset()
        self.ended: list[Work] = []

    def facts(self, facts: dict[str, Any], under_way: Collection[Work], after: TierObservation) -> None:
        """What the copies that ended with this call, and had failed, have left."""
        for kind, fact, there in ((LOAD, "resident", after.cached), (BACKUP, "hosted", after.hosted)):
            names = frozenset(name for work in self.ended if work.job.kind == kind for name in work.names)
            again = {name for work in under_way if work.job.kind == kind for name in work.names}
            facts[f"failed_{kind}s"] = names
            facts[f"failed_{fact}"] = [name for name in names if name in there and name not in again]
        facts["failed_sources"] = {name: page for work in self.ended for name, page in work.sources.items()}
        self.ended.clear()
        self.coming = self.told()

    def told(self) -> frozenset[str]:
        """The kinds of which a copy is still to fail, as the cache says."""
        kinds = self.checker.look("failing") if self.known else ()
        if type(kinds) not in (list, tuple) or any(kind not in COPY_FAILURES for kind in kinds):
            raise self.checker.broken("PORT-03", f"expected kinds of copies from failing, got {shown(kinds)}")
        return frozenset(kinds)

    def struck(self, kind: str) -> bool:
        """Whether a copy of this kind could not begin in the call that is going on."""
        return kind in self.coming and kind not in self.told()
