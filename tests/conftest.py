"""What all tests share: Hypothesis profiles, and the skip of tests that need a GPU.

The default profile is ``ci``: the same examples on every run, so that a red build is red again
on the next machine.  ``KVLITMUS_HYPOTHESIS=nightly`` searches at random, longer, and keeps what
it finds in ``.hypothesis``; ``--hypothesis-profile`` overrides both.
"""

from __future__ import annotations

import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile(
    "nightly",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("KVLITMUS_HYPOTHESIS", "ci"))


def _cuda_is_there() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none; torch is imported only if a test asks for it."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if wanting and not _cuda_is_there():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
