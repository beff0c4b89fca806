"""Which adversaries are noticed, and by whom.

An adversary is **named** when a rule of its cell notices it, or one that says the same from less; a crash is no notice.
It is **noticed** when another rule does.  Where it is silent it is the cache's **own affair**, a **gap**, or
**excused**, if the cell, or the table of disturbances that are legal, says so.  It was **hardly made** where plays came
to it less than ten times.  Else it is **left**: a hole in the law.

What is silent may not **show** at all at that depth, so that nobody could name it: the same schedules are played on the
correct cache, and answers and looks are compared up to the first difference.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.tape.recorder import Recording
from kvlitmus.mutants.adversaries.made import BESIDE, CONFIGS, Adversary, adversaries, base_of
from kvlitmus.mutants.adversaries.meddler import MeddledTarget
from kvlitmus.mutants.components import disturbances as of_components
from kvlitmus.mutants.disturb_kinds import Cell, excuse_of
from kvlitmus.mutants.freedoms import declares
from kvlitmus.mutants.mutant import CRASHES
from kvlitmus.mutants.prefix.disturb import LEGAL
from kvlitmus.mutants.ranks import disturbances as of_ranks
from kvlitmus.mutants.sparse import disturbances as of_rows
from kvlitmus.spec.ledger.cells import Family
from kvlitmus.spec.ledger.read import FREEDOMS, saying
from kvlitmus.spec.parts import all_rules

OPS = 250
"""Operations of a schedule."""

FORMAT = 1

OFTEN = 10
"""An act that was made so often, and is silent, is one that no rule sees."""

SCHEDULES = 24
"""So many are played, at most."""


class Fate(enum.Enum):
    """What became of an adversary."""

    NAMED = "named"
    NOTICED = "noticed"
    OWN = "own affair"
    GAP = "gap"
    EXCUSED = "excused"
    UNMADE = "hardly made"
    LEFT = "left"


BAD = (Fate.NOTICED, Fate.LEFT)
"""What should not become of any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one at a depth: by which rule it was named, which others noticed it, how often it was made."""

    id: str
    family: Family
    depth: int
    fate: Fate
    by: str = ""
    broken: tuple[str, ...] = ()
    made: int = 0
    steps: int = 0
    shows: bool = True
    """Whether answers or looks were other ones than the correct cache's."""


def items_of(one: Adversary, kills: Container[str], *, schedules: int, seed: int) -> Iterator[Item]:
    """What is played on an adversary: the litmus tests that lead to a rule of its cell, then schedules."""
    configs, profile = CONFIGS[one.line.family], base_of(one).profile
    for config in configs:
        for test in all_litmus().values():
            if any(rule in kills for rule in test.rules) and plan.suits(test, config, profile, force_misuse=False):
                yield Item(kind="litmus", config=config, name=test.id)
    for at in range(schedules):
        yield Item(kind="random", config=configs[at % len(configs)], seed=seed + at, ops=OPS)


def play(one: Adversary, depth: int, *, schedules: int = SCHEDULES, seed: int = 0) -> Outcome:
    """Play one adversary until a rule of its cell notices it, or the schedules are spent."""
    target = MeddledTarget(base_of(one), one.meddling)
    kills = set(saying(one.line.cells[one.column], all_rules(), depth)) - CRASHES
    broken: dict[str, None] = {}
    steps, by = 0, ""
    for item in items_of(one, kills, schedules=schedules, seed=seed):
        # what broke before and names nothing is left aside, so that what names it can be seen
        options = Options(depth=depth, muted=frozenset(broken), reruns=0, shrink_trials=0, taped=False)
        result = engine.run_item(target, item, options)
        steps += result.steps
        found = [rule for finding in result.findings for rule in finding.rules]
        broken |= dict.fromkeys(found)
        if by := next((rule for rule in found if rule in kills), ""):
            break
    noticed = [rule for rule in broken if rule not in CRASHES]
    fate = Fate.NAMED if by else fate_of(one, noticed, target.made[0])
    silent = not by and not noticed
    return Outcome(
        id=one.id,
        family=one.line.family,
        depth=depth,
        fate=fate,
        by=by,
        broken=tuple(broken),
        made=target.made[0],
        steps=steps,
        shows=not silent or any(parts(one, item, depth) for item in items_of(one, (), schedules=schedules, seed=seed)),
    )


def parts(one: Adversary, item: Item, depth: int) -> bool:
    """Whether an item's answers or looks part from those of the correct cache that is meddled with."""
    options = Options(depth=depth, reruns=0, shrink_trials=0, taped=False)
    right, wrong = (Recording(target) for target in (base_of(one), MeddledTarget(base_of(one), one.meddling)))
    for target in (right, wrong):
        engine.run_item(target, item, options)
    return any(
        mine != theirs
        for (_, first), (_, second) in zip(right.plays(), wrong.plays(), strict=False)
        for mine, theirs in zip(first, second, strict=False)
    )


def play_by_id(work: tuple[str, int, int, int]) -> Outcome:
    """Play one: its id, the depth, how many schedules, and where the seeds begin."""
    id, depth, schedules, seed = work
    return play(adversaries()[id], depth, schedules=schedules, seed=seed)


def fate_of(one: Adversary, broken: Sequence[str], made: int) -> Fate:
    """What became of one that no rule of its cell has noticed."""
    cell = one.line.cells[one.column]
    if broken:
        return Fate.NOTICED
    if not made:
        return Fate.UNMADE
    if cell.gap:
        return Fate.GAP
    if (cell.free and not cell.rules) or any(is_declared(one, name) for name in cell.free):
        return Fate.OWN
    if excused(one):
        return Fate.EXCUSED
    return Fate.LEFT if made >= OFTEN else Fate.UNMADE


def is_declared(one: Adversary, name: str) -> bool:
    """Whether the cache that is meddled with declares this freedom; one that needs not be declared excuses nothing."""
    freedom = FREEDOMS[name]
    return bool(freedom.field) and declares(base_of(one).profile, freedom.field, freedom.value)


KINDS = {
    Family.COMPONENTS: of_components.EXCUSES,
    Family.REQUESTS: of_components.EXCUSES,
    Family.SPARSE: of_rows.EXCUSES,
    Family.RANKS: of_ranks.EXCUSES,
}


def excused(one: Adversary) -> str:
    """Why a foreign effect is legal behind these calls; empty where nobody says."""
    if not one.how.startswith(BESIDE):
        return ""
    _, _, how = one.how.partition(": ")
    if one.line.family in KINDS:
        how = f"on all ranks: {how}" if one.line.family is Family.RANKS else how
        return next(filter(None, (excuse_of(Cell(on, how), KINDS[one.line.family]) for on in one.line.occasions)), "")
    ways = [legal for legal in LEGAL if not legal.ways or f"{how}." in legal.ways]
    return next((legal.why for legal in ways if set(legal.on) & set(one.line.occasions)), "")


def table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """The score: a line for each family and depth; last, how many show, and which share of these a rule tells."""
    counts: dict[tuple[int, Family], Counter[Fate]] = {}
    shown: Counter[tuple[int, Family]] = Counter()
    for one in outcomes:
        counts.setdefault((one.depth, one.family), Counter())[one.fate] += 1
        shown[one.depth, one.family] += one.shows
    yield "depth  family                    " + "".join(f"{fate.value:>12}" for fate in Fate) + "       shows   told"
    for (depth, family), fates in sorted(
        counts.items(), key=lambda item: (-item[0][0], list(Family).index(item[0][1]))
    ):
        show, told = shown[depth, family], fates[Fate.NAMED] + fates[Fate.NOTICED]
        share = f"{told / show:>6.0%}" if show else "     –"
        yield f"{depth:<6} {family.value:<26}" + "".join(f"{fates[fate]:>12}" for fate in Fate) + f"{show:>12} {share}"
