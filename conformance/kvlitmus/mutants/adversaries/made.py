"""Which adversaries each row of the ledger has, and where they are played."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.specimen.cache import ComponentRequestTarget, ComponentTarget, SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.mutants.adversaries.acts import doing_nothing, less, more, refusing
from kvlitmus.mutants.adversaries.foreign import TURNED, beside, foreign, in_reverse
from kvlitmus.mutants.adversaries.meddler import WAYS_ON, Meddling
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.interface import cache, components, ranks, sparse, stores, tiers
from kvlitmus.spec.ledger.cells import Column, Family, Line, Refusal
from kvlitmus.spec.ledger.read import LEDGER

REFUSES, LESS, NOTHING, MORE, REVERSED, LATE, BESIDE = (
    "refuses one in three by key",
    "a unit less",
    "nothing",
    "a unit more",
    "victims in reverse",
    "a call late",
    "beside it",
)

PROTOCOLS = tuple(
    one
    for module in (cache, tiers, components, ranks, sparse, stores)
    for _, one in inspect.getmembers(module, inspect.isclass)
    if getattr(one, "_is_protocol", False)
)


class Adversary(NamedTuple):
    """A cache that is wrong in one cell: the row, the column, how, and whether on one rank alone."""

    line: Line
    column: Column
    how: str
    meddling: Meddling

    @property
    def id(self) -> str:
        """The row, and what is wrong."""
        return f"{self.line.family.value}: {self.line.name}: {self.how}"


@functools.cache
def answers_nothing(call: str) -> bool:
    """Whether a call of a port answers nothing, so that nobody sees at once whether it was done."""
    found = next(getattr(one, call) for one in PROTOCOLS if hasattr(one, call))
    return found.__annotations__.get("return") in (None, "None")


def played(line: Line) -> bool:
    """Whether the suite makes the calls of a row, and they can be told from others."""
    by_the_suite = not line.changes and line.call.startswith(("fail_", "set_", "poke", "store_", "raw_", "ranks_start"))
    way_unknown = line.call == "advance" and line.how not in WAYS_ON
    return not (line.look or by_the_suite or way_unknown or line.how == "in a group" or line.call == "fail_memory")


def of_line(line: Line) -> Iterator[Adversary]:
    """The adversaries of a row."""
    every = line.family is Family.RANKS
    may_do_nothing = line.call == "ranks_ask" and line.refusal is Refusal.NEVER and line.how != "match"
    for alone in (False, True) if every else (False,):
        where = f", {'on one rank' if alone else 'alike on all ranks'}" if every else ""
        for column, how, act in (
            (Column.REFUSED, REFUSES, refusing(line)),
            (Column.LEAST, LESS, less(line)),
            (Column.LEAST, NOTHING, doing_nothing if may_do_nothing else None),
            (Column.MOST, MORE, more(line)),
            (Column.WHICH, REVERSED, in_reverse if line.cells[Column.WHICH].rules else None),
        ):
            if act is not None:
                yield Adversary(line, column, f"{how}{where}", Meddling(line, act, alone))
        if answers_nothing(line.call) or line.call == "ranks_local":
            yield Adversary(line, Column.LEAST, f"{LATE}{where}", Meddling(line, None, alone, late=True))
        for how, effect in foreign(line.family):
            yield Adversary(line, Column.STAYS, f"{BESIDE}{where}: {how}", Meddling(line, beside(effect), alone))


@functools.cache
def adversaries() -> Mapping[str, Adversary]:
    """All of them by id, in the order of the ledger; a question that doesn't arise has none."""
    found = [one for line in LEDGER if played(line) for one in of_line(line)]
    return {one.id: one for one in found if not one.line.cells[one.column].without}


TIGHT = Config(page_size=4, pages=8)
CONFIGS: Mapping[Family, tuple[Config, ...]] = {
    Family.FLAT: (Config(page_size=4), Config(page_size=1), TIGHT),
    Family.TIERS: plan.TIER_CONFIGS + plan.HOST_CONFIGS,
    Family.PURE: (Config(page_size=1),),
    Family.STORES: plan.STORE_CONFIGS[:1],
    Family.SPARSE: plan.SPARSE_CONFIGS[:2],
    Family.COMPONENTS: (
        *plan.COMPONENT_CONFIGS[:3],
        *plan.COMPONENT_HOST_CONFIGS[:2],
        *plan.COMPONENT_STORAGE_CONFIGS[:2],
        *plan.COMPONENT_WRITE_CONFIGS[2:3],
    ),
    Family.REQUESTS: plan.REQUEST_CONFIGS[:4],
    Family.RANKS: plan.RANK_CONFIGS,
}
"""In which configurations the adversaries of a family are played, in turn."""


USING: Mapping[tuple[str, str], str] = {
    ("alloc", REVERSED): "allocations-evict",
    **{(call, REVERSED): "counts-what-could-go" for call in ("alloc_extend", "alloc_decode")},
    ("tick", REVERSED): "backups-begin-at-the-tick",
}
"""Legal variations that are meddled with where the usual cache never does what is turned: it makes no room there."""


def base_of(one: Adversary) -> Any:
    """The correct cache that an adversary meddles with."""
    family, using = one.line.family, USING.get((one.line.call, one.how))
    if using is not None:
        legal = all_mutants()[using].target
        usual, own = Parts(), legal.parts
        turned = {
            one.name: getattr(TURNED, one.name)
            for one in fields(Parts)
            if getattr(own, one.name) is getattr(usual, one.name)
        }
        return SpecimenTarget(replace(own, **turned), legal.profile)
    if family is Family.COMPONENTS:
        return ComponentTarget(TURNED, replace(PROFILE, misuse="undefined"))
    if family is Family.REQUESTS:
        return ComponentRequestTarget(TURNED, replace(PROFILE, misuse="undefined", match_cap="len-1"))
    return SpecimenTarget(TURNED)
