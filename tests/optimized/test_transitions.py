"""The jobs and prefetches of the optimized cache make only steps that the specification's tables have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("numba")

from kvlitmus.conformance.adapters.optimized.target import target
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.spec.prefix.rules.job import JOBS
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.prefetch_life import PREFETCHES
from kvlitmus.spec.words.transitions import Step
from tests.spec.support.recorder import Recorder
from tests.spec.words.test_transitions import MORE, illegal


def stages(adapter: Any) -> Mapping[int, str]:
    """The stages of its prefetches: it calls them as the specification does."""
    return {rid: one.stage for rid, one in adapter.cache.fetches.ongoing.items()}


def test_every_step_that_is_made_is_legal() -> None:
    jobs: Counter[Step] = Counter()
    prefetches: Counter[Step] = Counter()
    for seed, config in enumerate(TIER_CONFIGS):
        recorder = Recorder(target.make(config), stages)
        checker = Checker(recorder, config, target.profile, names=Names())
        more = MORE[seed % len(MORE)]
        kinds = table(checker.capabilities) + tuple(kind for kind, weight in more.items() for _ in range(weight))
        Interpreter(checker).play(draw(seed, 250, kinds))
        jobs += recorder.jobs_made
        prefetches += recorder.prefetches_made
    assert illegal(jobs, JOBS) == illegal(prefetches, PREFETCHES) == []
    assert len(jobs) > 60 and len(prefetches) > 20
