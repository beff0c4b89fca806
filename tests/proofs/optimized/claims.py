"""What is proven of the optimized cache: each proof with its bounds, the rules that rest on it, and slips it finds.

A proof runs the real source (:mod:`tests.proofs.support.source`) on unknown numbers and claims that it does what the
spec's or the reference's function does (:mod:`tests.proofs.support.search`).  Where something can't be left unknown,
as the number of entries of an array, the proof is made for several **cases**.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.proofs.support.search import Refuted, Run, explore
from tests.proofs.support.source import Slip, Source


class Proof(NamedTuple):
    """One proof.

    ``claim``: runs the code, for one case, and says what is to hold.  ``rules``: those that rest on it.  ``bounds``:
    for what it holds.  ``cases``: of every run; ``more``: of the nightly one.  ``slips``: bugs that it must find.
    """

    name: str
    claim: Callable[[Source, Run, Any], object]
    rules: tuple[str, ...]
    bounds: str
    cases: tuple[Any, ...]
    more: tuple[Any, ...]
    slips: tuple[Slip, ...]

    def refuted(self, case: Any, slip: Slip | None = None) -> tuple[Refuted | None, int]:
        """What refutes it in one case, if anything, and the number of paths."""
        source = Source(slip)
        return explore(lambda run: self.claim(source, run, case))

    def finds(self, slip: Slip) -> Refuted | None:
        """What refutes it in the first case in which a slip shows; its own is tried before the others."""
        for case in (*self.cases[slip.case :], *self.cases[: slip.case]):
            found, _ = self.refuted(case, slip)
            if found is not None:
                return found
        return None


PROOFS: dict[str, Proof] = {}
"""All proofs by name."""


def proof(
    *rules: str, bounds: str, slips: Iterable[Slip], cases: Iterable[Any] = (None,), more: Iterable[Any] = ()
) -> Callable[[Callable[[Source, Run, Any], object]], Callable[[Source, Run, Any], object]]:
    """Register a claim as a proof."""

    def register(claim: Callable[[Source, Run, Any], object]) -> Callable[[Source, Run, Any], object]:
        name = getattr(claim, "__name__", "")
        PROOFS[name] = Proof(name, claim, rules, bounds, tuple(cases), tuple(more), tuple(slips))
        return claim

    return register
