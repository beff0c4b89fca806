"""z3, asked whether something can be so: how much it may work, and what happens where it doesn't know.

The limit counts z3's own steps and not seconds: a busy machine makes a proof slow, never red.
"""

from __future__ import annotations

from typing import Any

import z3

STEPS = 300_000_000
"""What z3 may do about one question, in its own unit; the hardest one takes 18 million."""

SEEDS = (0, 1, 2)
"""Where one order of trying leads nowhere, another one may."""


class Unsettled(Exception):
    """z3 doesn't know, or a counterexample is none: nothing is proven then, and nothing refuted."""


def possible(solver: z3.Solver, *conditions: Any) -> bool:
    """Whether these can hold beside what a solver assumes; raises :class:`Unsettled` where z3 doesn't know."""
    for seed in SEEDS:
        solver.set("rlimit", STEPS)
        solver.set("random_seed", seed)
        found = solver.check(*conditions)
        if found != z3.unknown:
            return bool(found == z3.sat)
    raise Unsettled(f"{solver.reason_unknown()}, with each of the seeds {SEEDS}")


def model_of(*conditions: Any) -> z3.ModelRef | None:
    """What makes all of these hold, ``None`` where nothing does; raises :class:`Unsettled` where z3 doesn't know."""
    solver = z3.Solver()
    solver.add(*conditions)
    return solver.model() if possible(solver) else None


def can_be(*conditions: Any) -> bool:
    """Whether all of these can hold at once; raises :class:`Unsettled` where z3 doesn't know."""
    return model_of(*conditions) is not None
