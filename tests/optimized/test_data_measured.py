"""The engine that is chosen by trying; and that every module of the data plane can be used where there is a device."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized import data
from kvlitmus.optimized.data import measured
from kvlitmus.optimized.data.copies import ENGINES, PageCopy
from kvlitmus.optimized.data.layout import LAYOUTS, Layout
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.transfer import TorchMover
from tests.optimized.support import streams
from tests.optimized.test_data_lane import PAGES, SHAPE, mover_of, see

TIMES: dict[str, float] = {"kernel": 3.0, "dma": 2.0, "staged": 1.0}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "SCRATCH", 4096)


@pytest.mark.parametrize(("layout", "backup", "load"), [("page_head", "staged", "dma"), ("layer_first", "dma", "dma")])
def test_the_fastest_engine_is_taken(monkeypatch: pytest.MonkeyPatch, layout: Layout, backup: str, load: str) -> None:
    """Staging too, which declared sizes never choose; not for loads, whose layers come one by one."""
    monkeypatch.setattr(measured, "seconds", lambda copy, pages: TIMES[copy.engine])
    with streams.install():
        mover = mover_of(layout, choice="measured")
        assert (mover._backup.engine, mover._load.engine) == (backup, load)
        assert set(mover.trials["load"].seconds) == {"kernel", "dma"} and not mover.trials["backup"].refused
        pages = np.arange(PAGES, dtype=np.int32)
        expected = see(mover.device_pool).copy()
        mover.backup(pages, pages).wait()
        assert np.array_equal(see(mover.host_pool), expected)
        mover.close()
        mine = mover_of(layout, choice="measured", backup_engine="kernel")
        assert mine._backup.engine == "kernel" and set(mine.trials) == {"load"}, "what was asked for is not tried"
        mine.close()


def test_the_engines_are_really_tried() -> None:
    with streams.install() as world:
        mover = mover_of("page_head", choice="measured")
        assert set(mover.trials["backup"].seconds) == {"kernel", "dma", "staged"}
        assert all(taken > 0 for taken in mover.trials["backup"].seconds.values())
        copied = {"cuMemcpyBatchAsync_v2", "cuLaunchKernel"}
        assert copied <= set(world.cuda.calls)
        mover.close()


def test_an_engine_that_fails_is_not_taken() -> None:
    with streams.install() as world:
        world.cuda.before = lambda name: 719 if "Batch" in name else 0
        mover = mover_of("page_head", choice="measured")
        assert mover._backup.engine == mover._load.engine == "kernel"
        assert set(mover.trials["backup"].refused) == {"dma", "staged"}
        assert "CUDA error 719" in mover.trials["backup"].refused["dma"]
        mover.close()
        world.cuda.before = lambda name: 719 if name in ("cuLaunchKernel", "cuMemcpyBatchAsync_v2") else 0
        with pytest.raises(RuntimeError, match="no engine copies between these pools"):
            mover_of("page_head", choice="measured")


def test_on_the_host_there_is_nothing_to_try() -> None:
    host, device = HostPool(SHAPE, PAGES, pinned=False), DevicePool(SHAPE, PAGES)
    with TorchMover(device, host, choice="measured") as mover:
        assert {trial.engine for trial in mover.trials.values()} == {"torch"}
        assert not any(trial.seconds for trial in mover.trials.values())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_tried_is_what_can_serve(layout: Layout) -> None:
    """No candidate is refused by the copy itself."""
    with streams.install():
        device, other = (streams.OnDevice(SHAPE, PAGES) for _ in range(2))
        host = streams.locked(HostPool(SHAPE, PAGES, layout=layout, pinned=False))
        for pair in ((device, host), (host, device), (device, other)):
            for by_layer in (False, True):
                engines = measured.candidates(*pair, by_layer=by_layer)
                assert set(engines) <= set(ENGINES)
                for engine in engines:
                    PageCopy(*pair, engine=engine, by_layer=by_layer)
                staged = layout != "layer_first" and not by_layer and host in pair
                assert ("staged" in engines) == staged


def test_every_module_of_the_data_plane_can_be_imported_and_used_with_a_device() -> None:
    """Each of them anew, as the first process on a device does; then one copy by every engine."""
    names = [f"{data.__name__}.{found.name}" for found in pkgutil.iter_modules(data.__path__)]
    assert len(names) >= 15
    for name in names:
        module: Any = importlib.import_module(name)
        assert module.__doc__, name
    with streams.install() as world:
        for engine in ENGINES:
            mover = mover_of("page_first", load_engine=engine, backup_engine=engine)
            pages = np.arange(1, PAGES, dtype=np.int32)
            mover.load(pages, pages).wait()
            mover.backup(pages, pages[::-1].copy()).wait()
            world.finish()
            assert np.array_equal(see(mover.host_pool)[1:][::-1], see(mover.device_pool)[1:])
            mover.close()
