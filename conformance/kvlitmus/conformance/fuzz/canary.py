"""The canary: a planted bug that the campaign must find, else its silence about the target says nothing.

A mutant of the specimen gets a campaign of its own before the target gets its: the same workers, the
same choice of schedules, the same shrinking and saving.  It is found when a counterexample is saved
for a rule that the mutant itself names.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from time import monotonic

from kvlitmus.conformance.fuzz.budget import Budget
from kvlitmus.conformance.fuzz.campaign import Campaign, Listener
from kvlitmus.conformance.fuzz.corpus import Corpus
from kvlitmus.conformance.fuzz.dedupe import Known
from kvlitmus.conformance.fuzz.job_runner import JobRunner
from kvlitmus.conformance.fuzz.store import Store
from kvlitmus.conformance.generate.schedule import table
from kvlitmus.conformance.isolation.worker_pool import Limits, WorkerPool, probe
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.run.targets import resolve_target
from kvlitmus.mutants.mutant import CRASHES
from kvlitmus.mutants.registry import all_mutants

DEFAULT = "memo-of-matches"
"""A bug that needs about a dozen calls in the right order; 20 campaigns found it within 10,000 steps each."""

STEPS = 100_000
"""Steps after which a canary counts as not found."""

SECONDS = 60.0
"""It may take so long at least, whatever the budget is."""

SHARE = 0.1
"""The greatest share of a long campaign's time that it may take."""

FOLDER = "canary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """What became of the canary: the rule that found it, empty if none did, and after how much."""

    name: str
    rules: tuple[str, ...]
    rule: str
    steps: int
    seconds: float
    most_steps: int

    @property
    def found(self) -> bool:
        """Whether it was found."""
        return bool(self.rule)


def fly(
    name: str,
    *,
    store: Store,
    listener: Listener,
    workers: int,
    rng: random.Random,
    seconds: float | None,
    steps: int = STEPS,
) -> Canary:
    """Put a mutant before a campaign of its own; ``KeyboardInterrupt`` comes through."""
    mutant = all_mutants()[name]
    rules = tuple(rule for rule in mutant.kills if rule not in CRASHES)
    ref = resolve_target(f"kvlitmus.mutants.run:by_name.{name.replace('-', '_')}")
    limits = Limits()
    began = monotonic()
    info = probe(ref, configs=mutant.configs, limits=limits, state=store.folder / "running")
    kinds = {label: table(has) for label, has in info.capabilities.items()}
    budget = Budget(seconds=max(SECONDS, SHARE * (seconds or 0.0)), steps=steps)
    folder = store.folder / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    with Store(folder, listener.say) as nest, WorkerPool(ref, limits, store.folder / "running") as pool:
        campaign = Campaign(
            target=ref.name,
            runner=JobRunner(pool, workers),
            corpus=Corpus(rng, mutant.configs, kinds),
            known=Known(rng),
            store=nest,
            budget=budget,
            options=Options(),
            listener=listener,
            stop_at=frozenset(rules),
        )
        campaign.run()
        found = [rule for one in campaign.known.distinct.values() for rule in one.finding.rules if rule in rules]
        return Canary(
            name=name,
            rules=rules,
            rule=found[0] if found else "",
            steps=campaign.tally.steps,
            seconds=monotonic() - began,
            most_steps=steps,
        )
