"""The build of a report: a digest of everything that decides its verdicts, so that a stale report can be told.

Two trees that have the same build for a target say the same of it.  What counts, by its fingerprint
(:mod:`kvlitmus.spec.law.fingerprint`), so without words and names: the rules with their facts; what judges, and what
makes the calls (engine, calls, actions, plan); and the target's adapter.  What only shrinks counterexamples or watches
processes doesn't count, nor the command line, nor what is about another kind of cache than the target.  The items of a
run, the programs of litmus tests among them, have a digest of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Any

from kvlitmus.conformance.generate.actions import ACTIONS
from kvlitmus.conformance.litmus.registry import Litmus, litmus_of
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine, plan, verdicts
from kvlitmus.conformance.run.results import Item, Options, to_json
from kvlitmus.conformance.run.verdicts import Scope
from kvlitmus.spec.law.facts import Fact
from kvlitmus.spec.law.fingerprint import Source, digest, place_of
from kvlitmus.spec.law.modules import EFFECTS, WHOLE, Place, module_of
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules

JUDGE: tuple[Callable[..., Any], ...] = (
    *(engine.run_item, plan.items, plan.configs_of, verdicts.conclude),
    *(Options, Scope, Litmus, Rule, Fact),
)
"""What judges an item, says which items there are, makes verdicts of what came of them; and what they are given."""

LEFT_OUT = frozenset(
    f"kvlitmus.{name}"
    for name in (
        "spec.law.fingerprint",
        "spec.law.modules",
        "spec.parts",
        "conformance.generate.shrink",
        "conformance.run.minimise",
        "conformance.run.failures",
        "conformance.isolation.current_run",
        "conformance.checker.explain",
        "conformance.support.files",
        "conformance.support.ending",
        "conformance.history.steps",
    )
)
"""Reached from there, but without a say in verdicts."""

KINDS = {"components": "component", "sparse": "sparse", "ranks": "rank", "store": "store"}
"""What is judged apart from caches of KV, and how the names of modules and folders begin that are about it alone."""
PACKS = {"comp": "components", "creq": "components", "sparse": "sparse", "ranks": "ranks", "store": "store"}
"""The packs of rules about one of these; the others may be asked of any cache."""
ROOMS = ("kvlitmus.spec", *(f"kvlitmus.conformance.{name}" for name in ("litmus", "generate.actions", "checker.calls")))
"""Where such modules and folders are."""


def kinds_of(configs: Iterable[Config]) -> frozenset[str]:
    """What of :data:`KINDS` is judged in these configurations; nothing, for a cache of KV."""
    return frozenset(KINDS).intersection("components" if one.components else one.pool for one in configs)


def is_about(rule: Rule, kinds: Collection[str]) -> bool:
    """Whether a rule may be asked of these kinds of caches, or of any."""
    return rule.pack not in PACKS or PACKS[rule.pack] in kinds


def is_apart(module: str, kinds: Collection[str]) -> bool:
    """Whether a module is about another kind of cache alone: nothing of it is asked where these are judged."""
    for room in ROOMS:
        if module.startswith(f"{room}."):
            name = module.removeprefix(f"{room}.")
            name = name.removeprefix("prefix.") if name.startswith("prefix.components") else name
            return any(name.startswith(KINDS[kind]) for kind in KINDS.keys() - set(kinds))
    return False


@cache
def source_for(kinds: frozenset[str]) -> Source:
    """The fingerprints by which only that counts which has a say where these kinds are judged."""
    return Source(lambda module: module in LEFT_OUT or is_apart(module, kinds))


@cache
def build_of(target_module: str, attribute: str = "", kinds: frozenset[str] = frozenset()) -> str:
    """Twelve hex digits that change with whatever decides verdicts on a target of this module and these kinds."""
    source = source_for(kinds)
    acted = {kind: play for kind, play in ACTIONS.items() if not is_apart(play.__module__, kinds)}
    lines = [f"{id} {rule.digest_by(source)}" for id, rule in all_rules().items() if is_about(rule, kinds)]
    lines += [source.of(one) for one in JUDGE]
    lines += [f"{kind} {source.of(play)}" for kind, play in acted.items()]
    roots = [place_of(one) for one in (*JUDGE, *acted.values())]
    module = module_of(target_module)
    if module is not None:
        name = attribute.partition(".")[0]
        target = Place(target_module, name if name in module.bound else WHOLE)
        lines.append(source.at(target))
        roots.append(target)
    lines += sorted(source.at(one) for one in source.reached(roots) if one.name == EFFECTS)
    return digest("\n".join(lines))


def items_of(
    items: Iterable[Item],
    kinds: frozenset[str] = frozenset(),
    litmus: Callable[[str, frozenset[str]], str] | None = None,
) -> str:
    """Twelve hex digits that change with the items of a run: configurations, seeds, what is played, and their order.

    litmus: what knows the digests of litmus tests, if not :func:`litmus_digest`.
    """
    litmus = litmus or litmus_digest
    plain = {"config": cache(to_json)}  # there are thousands of items of each configuration
    told = []
    for item in items:
        row = {name: plain.get(name, to_json)(getattr(item, name)) for name in Item.__dataclass_fields__}
        told.append(row | {"name": litmus(item.name, kinds)} if item.kind == "litmus" else row)
    return digest(json.dumps(told, sort_keys=True))


@cache
def litmus_digest(id: str, kinds: frozenset[str]) -> str:
    """The digest of a litmus test by what it plays and leads to where these kinds are judged, whatever it is called."""
    test, source = litmus_of(id), source_for(kinds)
    return digest(f"{test.rules} {sorted(test.needs)} {test.page} {source.of(test.program)}")
