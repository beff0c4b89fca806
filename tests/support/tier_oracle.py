"""The reference as the oracle of another hierarchy: given the choices that it was seen to make, it must be where it is.

A :class:`TieredOracle` is a judge that keeps the reference beside the cache
(:class:`~kvlitmus.conformance.beside.follower.Follower`), and all that a snapshot shows must be the same.
"""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.beside.follower import Follower, said_below
from kvlitmus.reference.prefix.hierarchy import alone_of, jobs_of, moving, occupied, works_of
from kvlitmus.reference.prefix.perform import free_pages, sizes
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix.calls import Compute
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Settled
from tests.support.oracle import Differs, Oracle


class TieredOracle(Oracle):
    """A judge of a hierarchy, at depth 3, that asks the reference at every step."""

    def forget(self) -> None:
        super().forget()
        if not hasattr(self, "follower"):
            self.follower = Follower(self.setting)

    def compute(self, call: Compute) -> None:
        super().compute(call)
        self.follower.compute(call)

    def compare(self, seen: Step[Any], state: State) -> None:
        if isinstance(seen.call, Settled):
            return
        try:
            step = self.follower.make(seen, state)
        except (ValueError, KeyError) as illegal:
            raise Differs(f"{self.history[-1]}: {illegal!r}") from illegal
        self.hold("the answer", said_below(step, self.setting), said_below(seen, self.setting))
        self.hold_snapshot(seen.after)

    def hold(self, what: str, expected: object, got: object) -> None:
        """Raise :class:`Differs` where the two are not equal."""
        if expected != got:
            raise Differs(f"{self.history[-1]}: {what}: expected {expected}, got {got}")

    def hold_snapshot(self, after: TierSeen) -> None:
        """All that a snapshot shows is as in the reference's state."""
        own, works = self.follower.state, works_of(self.follower.state)
        pages = {**own.device.pages, **alone_of(own)}
        self.hold("the tree", {name: page.parent for name, page in pages.items()}, after.parent_names)
        self.hold("the cached pages", {name: page.page for name, page in own.device.pages.items()}, after.cached)
        self.hold("the host copies", {name: copy.page for name, copy in own.host.pages.items()}, after.hosted)
        self.hold("the free pages", free_pages(own, self.setting), after.free)
        self.hold("the host's free pages", works.free, frozenset(after.host_free))
        self.hold("what is moving", sorted(moving(own)), sorted(after.moving))
        self.hold("the counters", after.sizes and sizes(own, self.setting), after.sizes)
        if after.occupied is not None:
            self.hold("what prefetches occupy", occupied(own), after.occupied)
        self.hold("what is to fail", frozenset(works.failing), after.failing)
        found = {number: self.follower.job_seen(job) for number, job in after.jobs.items()}
        cache = {mine: number for number, mine in self.follower.numbers.items()}
        self.hold("the jobs", {cache.get(one.id, -one.id): one[1:] for one in jobs_of(own)}, found)
        for node in after.tier_nodes:
            pins = max([own.host.pages[name].locks for name in node.named.pages if name in own.host.pages], default=0)
            if node.pins is not None and node.named.pages:
                self.hold(f"pins of {node.named.pages}", pins, node.pins)
        self.compare_counts(own, after)
