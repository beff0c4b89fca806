"""The example: a small transformer served through the cache has the logits that it has without one."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
import torch

from examples import serve
from kvlitmus.optimized.data.transfer import TorchMover
from kvlitmus.optimized.hierarchy import HierarchicalCache
from tests.optimized.support.pausing import PausingMover
from tests.support.night import by_turns

TOLERANCE = 1e-4
"""Of logits whose standard deviation is 3, in 32-bit floats: sums in another order differ by some 1e-5, and one wrong
row of one layer by some 1e-2."""


def everything_happened(found: dict[str, float]) -> None:
    """Pages left the device, were backed up, left the host, were read ahead from storage and loaded; none was lost."""
    for name in ("removed device", "stored host", "removed host", "prefetched", "loaded", "cached"):
        assert found[name] > 10, (name, found)
    assert found["cached after the restart"] > 50, found
    assert found["lost"] == 0


@pytest.mark.nightly
def test_logits_are_bit_equal_when_computed_in_the_same_order(tmp_path: Path) -> None:
    """Token by token every product has the same shape, with a cache and without."""
    found = serve.run(tmp_path / "pages", chunk=1, rounds=4)
    everything_happened(found)
    assert found["worst"] == 0.0


def test_logits_are_equal_when_a_prompt_is_computed_at_once(tmp_path: Path) -> None:
    found = serve.run(tmp_path / "pages")
    everything_happened(found)
    assert 0.0 < found["worst"] < TOLERANCE


@pytest.mark.parametrize("fault", by_turns(["another slot", "too early", "another layer"]))
def test_a_planted_fault_shows_in_the_logits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    if fault == "another slot":
        original = serve.PagedKV.read

        def read(self: serve.PagedKV, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            swapped = slots.clone()
            if layer == 2 and len(slots) > 12:
                swapped[3], swapped[11] = slots[11], slots[3]
            return original(self, layer, swapped)

        monkeypatch.setattr(serve.PagedKV, "read", read)
    elif fault == "too early":
        late = partial(PausingMover, pause=lambda _: time.sleep(0.01))
        monkeypatch.setattr(serve, "TorchMover", late)
        monkeypatch.setattr(HierarchicalCache, "wait_layer", lambda *_: None)
    else:
        write = TorchMover.write_page
        monkeypatch.setattr(
            TorchMover,
            "write_page",
            lambda self, page, contents: write(self, page, bytes(contents)[16:] + bytes(contents)[:16]),
        )
    found = serve.run(tmp_path / "pages", rounds=3)
    assert found["worst"] > 10 * TOLERANCE


@pytest.mark.gpu
@pytest.mark.parametrize("chunk", [None, 1])
def test_logits_are_equal_on_cuda(tmp_path: Path, chunk: int | None) -> None:
    found = serve.run(tmp_path / "pages", device="cuda", chunk=chunk)
    everything_happened(found)
    assert found["worst"] < TOLERANCE
