"""Cheats: adapters of a broken cache that change the judge, so that it finds nothing.

Each is a target, found by a worker as ``cheats:name``.  The cache is a mutant that every honest run finds broken.
"""

from __future__ import annotations

import builtins
import gc
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from kvlitmus.conformance.checker import judge
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Guard
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run import results as results_of
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.plan import Plan
from kvlitmus.spec.law.rule import RULES
from kvlitmus.spec.prefix.rules import lock

BROKEN = all_mutants()["lookup-pins"].target
RULE = "LOCK-02"
WORKER = sys.modules["__main__"]


def always(*_: object, **__: object) -> bool:
    return True


def nothing(*_: object, **__: object) -> None:
    return None


class Cheat:
    """A broken cache whose first making does something to the judge."""

    profile = BROKEN.profile

    def __init__(self, cheat: Callable[[], object]) -> None:
        self.cheat = cheat
        self.done = False

    def make(self, config: Config) -> Any:
        if not self.done:
            self.done = True
            self.cheat()
        return BROKEN.make(config)


def make_another() -> None:
    def make_adapter(target: Any, config: Config, run: CurrentRun) -> Any:
        return specimen.make(config), specimen.profile

    engine.make_adapter = make_adapter


def predicate_in_the_registry() -> None:
    for id, rule in RULES.items():
        RULES[id] = replace(rule, predicate=always)


def code_of_a_predicate() -> None:
    for rule in RULES.values():
        if rule.id == RULE:
            rule.predicate.__code__ = (lambda *_, **__: True).__code__


def forget_rules() -> None:
    for id in list(RULES):
        del RULES[id]


def other_registry() -> None:
    sys.modules["kvlitmus.conformance.checker.checker"].all_rules = dict  # type: ignore[attr-defined]


def blind_judge() -> None:
    Checker.judge = nothing  # type: ignore[method-assign]


def deaf_guard() -> None:
    Guard.raised = lambda self, error, what: SystemExit()  # type: ignore[method-assign]
    Guard.watch_kept = nothing  # type: ignore[method-assign]


def other_judge() -> None:
    run = next(one for one in gc.get_objects() if type(one) is CurrentRun)
    run.checker_type = type("Kind", (Checker,), {"judge": nothing})


def empty_plans() -> None:
    plan_for = judge.plan_for

    class Plans(dict[Any, Any]):
        def get(self, *_: Any) -> Any:
            plan = Plan((), ())
            plan.run = nothing
            return plan

    judge.PLANS = Plans()
    assert plan_for is judge.plan_for


def report_without_findings() -> None:
    to_json = results_of.to_json

    def clean(value: Any) -> Any:
        found = to_json(value)
        return {**found, "findings": []} if isinstance(found, dict) and "findings" in found else found

    WORKER.to_json = clean  # type: ignore[attr-defined]


def line_without_findings() -> None:
    dumps = json.dumps

    def clean(value: Any, **how: Any) -> str:
        result = value.get("answer", {}).get("result") if isinstance(value, dict) else None
        if isinstance(result, dict):
            result["findings"] = []
        return dumps(value, **how)

    json.dumps = clean  # type: ignore[assignment]


def run_nothing() -> None:
    run_item = engine.run_item

    def run_another(target: Any, item: Item, options: Options, run: CurrentRun | None = None) -> ItemResult:
        return run_item(specimen, item, options, run)

    engine.run_item = run_another


def other_builtins() -> None:
    builtins.any = nothing  # type: ignore[assignment]
    builtins.all = always


def other_len() -> None:
    length = len

    def other(value: Any) -> int:
        return length(value)

    builtins.len = other


def name_in_front_of_a_builtin() -> None:
    lock.len = len  # type: ignore[attr-defined]


def other_modules() -> None:
    sys.modules["kvlitmus.spec.prefix.rules.lock"] = ModuleType("kvlitmus.spec.prefix.rules.lock")
    assert lock is not None


CHEATS: dict[str, Callable[[], object]] = {
    one.__name__: one
    for one in (
        make_another, predicate_in_the_registry, code_of_a_predicate, forget_rules, other_registry, blind_judge,
        deaf_guard, other_judge, empty_plans, report_without_findings, line_without_findings, run_nothing,
        other_builtins, other_len, name_in_front_of_a_builtin, other_modules,
    )
}  # fmt: skip

TARGETS = {name: Cheat(cheat) for name, cheat in CHEATS.items()}
UNMOVED = {f"target_{name}": target for name, target in TARGETS.items()}
globals().update(UNMOVED)
