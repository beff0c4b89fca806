"""Which means establish which rule on the reference: evidence for the traceability matrix, computed.

``property``: rules that random schedules evaluated.  ``exhaustive``: rules that were evaluated in
a search to the fixpoint.  Both are counted while they run here, in a few seconds; a broken rule
raises.  ``symbolic``: the lemmas that claim a rule, with their bounds; that they are
confirmed is what ``test_symbolic.py``, ``test_lemmas_z3.py``, ``test_any_size_z3.py``, ``test_prefetch_symbolic.py``,
``test_page_names.py`` and ``test_sparse_rows.py`` show.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

from kvlitmus.conformance.adapters.reference.target import target
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.spec.parts import all_rules

CONFIGS = (Config(), Config(page_size=4, pages=8), Config(page_size=4, bigram=True), *TIER_CONFIGS)
SEEDS, OPS = range(12), 250


class Evidence(NamedTuple):
    """What establishes one rule: evaluations in random schedules and in searches, and (lemma, bounds) pairs."""

    property: int
    exhaustive: int
    symbolic: tuple[tuple[str, str], ...]


@functools.cache
def by_random_schedules() -> Counter[str]:
    """How often each rule was evaluated in a few seeded schedules on the reference."""
    counts: Counter[str] = Counter()
    for config in CONFIGS:
        for seed in SEEDS:
            checker = Checker(target.make(config), config, target.profile)
            interpreter = Interpreter(checker)
            interpreter.play(
                [op for op in draw(seed, OPS, table(checker.capabilities)) if op.kind in interpreter.actions]
            )
            counts += checker.counted()
    return counts


@functools.cache
def by_enumeration() -> Counter[str]:
    """How often each rule was evaluated in the quick searches; they end at a fixpoint, or this raises."""
    from tests.proofs.support import component_explore, rank_search, request_explore, scopes, searches, tier_scopes

    counts: Counter[str] = Counter()
    for name in scopes.QUICK:
        report = searches.flat(name)
        if not report.complete:
            raise AssertionError(f"{name} is not enumerated to the fixpoint")
        counts += report.evaluated
    for name in tier_scopes.QUICK:
        found = searches.tiered(name)
        if not found.complete:
            raise AssertionError(f"{name} is not enumerated to the fixpoint")
        counts += Counter({id: count for id, count in found.evaluated.items() if id in all_rules()})
    for name in component_explore.QUICK:
        counts += component_explore.quick(name).evaluated
    for name in request_explore.QUICK:
        counts += request_explore.quick(name).evaluated
    for name in rank_search.SCOPES:
        counts += rank_search.found(name).evaluated
    return counts


@functools.cache
def by_lemmas() -> dict[str, tuple[tuple[str, str], ...]]:
    """The lemmas of each rule, with their bounds; planted slips left out."""
    from tests.proofs.prefix import fetch_lemmas, lock_lemmas, page_names, prefetch_lemmas, tree_lemmas
    from tests.proofs.prefix.lemmas import LEMMAS
    from tests.proofs.ranks import lemmas as rank_lemmas
    from tests.proofs.sparse import admission as sparse_admission
    from tests.proofs.sparse import growth as sparse_growth
    from tests.proofs.sparse import ratio as sparse_ratio
    from tests.proofs.sparse import rows as sparse_rows
    from tests.proofs.sparse import staging as sparse_staging
    from tests.proofs.sparse import swaps as sparse_swaps
    from tests.proofs.sparse import transfer as sparse_transfer

    # importing them is what registers their lemmas
    assert fetch_lemmas.LEMMAS is lock_lemmas.LEMMAS is tree_lemmas.LEMMAS is rank_lemmas.LEMMAS is LEMMAS
    found: dict[str, list[tuple[str, str]]] = {}
    for one in LEMMAS.values():
        for rule in () if one.planted else one.rules:
            found.setdefault(rule, []).append((one.name, one.bounds))
    sizes = ", ".join(map(str, prefetch_lemmas.PAGE_SIZES))
    for proven in prefetch_lemmas.PROVEN:
        found.setdefault(proven.id, []).append(
            ("every_plan_keeps_every_rule", f"any lengths, thresholds, quotas and answers; page size {sizes}")
        )
    for name, (rules, bounds) in (
        *page_names.PROVEN.items(),
        *sparse_rows.PROVEN.items(),
        *sparse_admission.PROVEN.items(),
        *sparse_growth.PROVEN.items(),
        *sparse_ratio.PROVEN.items(),
        *sparse_staging.PROVEN.items(),
        *sparse_swaps.PROVEN.items(),
        *sparse_transfer.PROVEN.items(),
    ):
        for rule in rules:
            found.setdefault(rule, []).append((name, bounds))
    for rule, name, bounds in _unbounded():
        found.setdefault(rule, []).append((name, bounds))
    return {rule: tuple(lemmas) for rule, lemmas in found.items()}


def _unbounded() -> list[tuple[str, str, str]]:
    """What z3 shows of caches of any size: rule, lemma, bounds."""
    try:
        import z3  # noqa: F401
    except ImportError:
        return []
    from tests.proofs.prefix.any_size_lemmas import PROVEN
    from tests.proofs.prefix.test_lemmas_z3 import CLAIMS

    trees = [(rule, name, "trees of any size (z3)") for name, claim in CLAIMS.items() for rule in claim.rules]
    return trees + [(rule, name, bounds) for name, (rules, bounds) in PROVEN.items() for rule in rules]


@functools.cache
def by_optimized_enumeration() -> Counter[str]:
    """How often each rule was evaluated in the searches of every run that the optimized cache takes part in.

    That it is equal to the reference there, step by step, is what ``tests/optimized/test_small_states.py`` shows.
    """
    from tests.optimized.support import small_scopes
    from tests.proofs.support import explore, tier_explore

    counts: Counter[str] = Counter()
    for name in small_scopes.QUICK:
        counts += explore.Explorer(small_scopes.FLAT[name]).run().evaluated
    for name in small_scopes.QUICK_TIERED:
        counts += tier_explore.Explorer(small_scopes.TIERED[name]).run().evaluated
    return Counter({id: count for id, count in counts.items() if id in all_rules()})


def by_optimized_proofs() -> dict[str, tuple[tuple[str, str], ...]]:
    """The proofs of the optimized cache that a rule rests on, with their bounds; none without z3."""
    try:
        import z3  # noqa: F401
    except ImportError:
        return {}
    from tests.proofs.optimized.register import PROOFS

    found: dict[str, list[tuple[str, str]]] = {}
    for one in PROOFS.values():
        for rule in one.rules:
            found.setdefault(rule, []).append((one.name, one.bounds))
    return {rule: tuple(proofs) for rule, proofs in found.items()}


def evidence() -> dict[str, Evidence]:
    """The evidence for every rule; nought and nothing where there is none."""
    random, searched, lemmas = by_random_schedules(), by_enumeration(), by_lemmas()
    return {id: Evidence(random[id], searched[id], lemmas.get(id, ())) for id in all_rules()}
