"""What tests of the optimized cache share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", params=["python", "native"])
def each_core(request: pytest.FixtureRequest) -> Iterator[str]:
    """The tests of a module are run with each core of a cache without tiers, as far as it is there."""
    from kvlitmus.optimized import cores

    core: str = request.param
    if core == "native" and cores.lacking():
        pytest.skip(f"there is no native core: {cores.lacking()}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cores.VARIABLE, core)
        yield core


@pytest.fixture
def python_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches have the Python core: a mutant of it is planted."""
    monkeypatch.setenv("KVLITMUS_CORE", "python")
