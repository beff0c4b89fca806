"""The optimized hierarchy does step for step what the reference does: same victims, same jobs, same contents.

Driven as an engine drives it, without ports or adapter; the lock step behind the ports is another test's.
"""

from __future__ import annotations

import pytest

from tests.optimized.support.hierarchy_play import STOPS, WRITES, config_of, play
from tests.support.night import by_turns

EACH = [(seed, write, stop) for seed in range(3) for write in WRITES for stop in STOPS]


@pytest.mark.parametrize(("seed", "write", "stop"), by_turns(EACH, every=2))
def test_the_hierarchy_does_what_the_reference_does(seed: int, write: str, stop: str) -> None:
    play(config_of(seed, write, stop), seed, 250)


@pytest.mark.nightly
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("write", WRITES)
def test_it_does_so_for_long(write: str, stop: str) -> None:
    for seed in range(100, 150):
        play(config_of(seed, write, stop), seed, 500)
