"""No vacuous pass: a rule whose subject never came up reads *not exercised*, whatever the budget.

Each family has a cache that does nothing of what its rules are about, and breaks none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import HOST_CONFIGS, RANK_CONFIGS, SPARSE_CONFIGS, STORE_CONFIGS, items
from kvlitmus.conformance.run.results import Options, RuleVerdict, Verdict
from kvlitmus.conformance.run.verdicts import Scope, conclude, exit_code, group
from kvlitmus.conformance.specimen.cache import SpecimenTarget, made_of
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.works import TieredNode
from kvlitmus.conformance.specimen.ranks import Deciding, RankCache
from kvlitmus.conformance.specimen.stores import PageShelf
from kvlitmus.spec.interface.ranks import Ask
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.command_line import Capture

STEPS = 250


class NothingIsBackedUp(BackupQueue):
    """A filter that declines every page, as the profile allows: the host stays empty."""

    def due(self, node: TieredNode) -> bool:
        return False


class RefusesEverything(RankCache):
    """Nothing is cached, prefetched or loaded, on any rank: all of them decide so alike."""

    def ask_insert(self, ask: Ask) -> Deciding:
        yield from ()
        return []

    ask_prefetch = ask_load = ask_insert


class KeepsNothing(PageShelf):
    """Every put is refused."""

    def put(self, keys: Sequence[str], values: Sequence[bytes]) -> list[bool]:
        return [False] * len(keys)


GRANTED = frozenset({"POOL-07", "FETCH-03"})
"""What MUST be granted of memory on the device and on the host."""


def judged(
    part: type, configs: Sequence[Config], muted: frozenset[str] = frozenset(), **declared: Any
) -> tuple[list[RuleVerdict], list[Any], Scope]:
    """The verdicts on a specimen with such a part, by litmus tests and a few schedules."""
    target = SpecimenTarget(made_of(part), replace(PROFILE, **declared))
    options = Options(shrink_trials=0, muted=muted)
    results = [run_item(target, item, options) for item in items(configs, target.profile, steps=STEPS)]
    scope = Scope(misuse=target.profile.misuse)
    return conclude(all_rules(), results, group(results), scope), results, scope


def test_ranks_that_refuse_everything_alike_owe_what_a_cache_owes() -> None:
    """They agree, and keep all rules of ranks; each of them had room for what it refused."""
    verdicts, results, scope = judged(RefusesEverything, RANK_CONFIGS[:1])
    assert {one.rule for one in verdicts if one.verdict is Verdict.VIOLATED} == GRANTED
    assert exit_code(verdicts, results, scope) == 1


@pytest.mark.parametrize(
    ("part", "configs", "declared", "packs", "passing"),
    [
        (
            NothingIsBackedUp,
            HOST_CONFIGS[:1],
            {"backup_filter": "own"},
            ("tier", "backup", "load", "fetch"),
            # What is on the device is somewhere and right, none touches the host, what finds no memory leaves nothing.
            {"TIER-04", "TIER-08", "TIER-32", "TIER-33", "LOAD-04"},
        ),
        (
            RefusesEverything,
            RANK_CONFIGS[:1],
            {"muted": GRANTED},  # what is said of each rank by itself
            ("ranks",),
            # How ranks agree, and what they do where one is lost or storage is detached.
            {f"RANKS-{at:02}" for at in (4, 6, 7, 8, 18, 24, 25)},
        ),
    ],
    ids=["tiers", "ranks"],
)
def test_what_never_came_up_is_not_passed(
    part: type, configs: Sequence[Config], declared: dict[str, Any], packs: Sequence[str], passing: set[str]
) -> None:
    verdicts, results, scope = judged(part, configs, **declared)
    of = {one.rule: one.verdict for one in verdicts if all_rules()[one.rule].pack in packs}

    assert not {rule for rule, said in of.items() if said in (Verdict.VIOLATED, Verdict.HARNESS_ERROR)}
    assert {rule for rule, said in of.items() if said is Verdict.PASSED} == passing
    assert Verdict.NOT_EXERCISED in of.values()
    assert exit_code(verdicts, results, scope) == 4
    assert exit_code(verdicts, results, replace(scope, full=False)) == 0


def test_a_store_that_has_nothing_passes_nothing_about_what_is_stored() -> None:
    verdicts, _, _ = judged(KeepsNothing, STORE_CONFIGS[:1])
    of = {one.rule: one.verdict for one in verdicts}
    assert of["STORE-17"] is Verdict.VIOLATED
    about = ("01", "03", "04", "06", "07", "08", "09", "11", "13", "19")
    assert {of[f"STORE-{at}"] for at in about}.isdisjoint({Verdict.PASSED})


def test_smoke_says_what_it_did_not_exercise(capsys: Capture) -> None:
    assert main(["smoke", "reference-sparse", "--color", "never"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "not exercised in so few steps, rules of sparse " in told
    assert len(SPARSE_CONFIGS) == told.count("nothing broken")
