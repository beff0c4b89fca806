"""The optimized cache as a target of the suite: what it offers, what it needs, what its contents are."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.optimized import target as optimized
from kvlitmus.conformance.adapters.optimized.contents import TORN, VARIANTS, Contents, SuiteStore, Variant, variant_of
from kvlitmus.conformance.adapters.optimized.target import OptimizedTarget, target
from kvlitmus.conformance.checker.harness_store import HarnessStore, StorageDownError
from kvlitmus.conformance.ports import Config, Unsupported, capabilities_of
from kvlitmus.conformance.run.plan import (
    CONFIGS,
    HOST_CONFIGS,
    RANK_CONFIGS,
    SPARSE_CONFIGS,
    STORE_CONFIGS,
    TIER_CONFIGS,
    configs_of,
)
from kvlitmus.conformance.run.targets import TargetError, load_target, resolve_target
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.spec.interface.tiers import Outcome
from tests.support.night import by_turns
from tests.support.policies import with_policy

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG = TIER_CONFIGS[0]


def test_it_is_judged_in_every_configuration_like_the_specimen() -> None:
    """But for sparse host memory and several ranks, which it has not."""
    assert configs_of(target) == (*CONFIGS, *TIER_CONFIGS, *HOST_CONFIGS, *STORE_CONFIGS)
    assert configs_of(specimen) == (*configs_of(target), *SPARSE_CONFIGS, *RANK_CONFIGS)
    assert load_target(resolve_target("optimized")) is target


@pytest.mark.parametrize("config", [*CONFIGS, *TIER_CONFIGS, *HOST_CONFIGS], ids=lambda config: config.label)
def test_it_has_every_capability_that_the_specimen_has(config: Config) -> None:
    assert capabilities_of(target.make(config)) >= capabilities_of(specimen.make(config))


def test_its_page_store_has_every_capability_of_stores() -> None:
    assert capabilities_of(target.make(STORE_CONFIGS[0])) >= {"store", "store_into", "store_faults", "store_crash"}


def test_what_it_has_not_is_declined() -> None:
    with pytest.raises(Unsupported, match="no policy 'random'"):
        target.make(with_policy("random"))


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(optimized, "target", raising=False)
    monkeypatch.setattr(optimized, "missing", lambda: ["numba", "torch"])
    with pytest.raises(TargetError, match=r"needs numba, torch.*pip install 'kvlitmus\[optimized\]'"):
        load_target(resolve_target("optimized"))
    monkeypatch.undo()
    assert isinstance(importlib.import_module(optimized.__name__).target, OptimizedTarget)


def test_a_flat_cache_needs_no_torch() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from kvlitmus.conformance.adapters.optimized.target import target\n"
        "from kvlitmus.conformance.ports import Config\n"
        "from kvlitmus.spec.words.units import Key\n"
        "cache = target.make(Config(page_size=4))\n"
        "cache.begin(1, Key(None, tuple(range(9))))\n"
        "cache.end(1, keep=True)\n"
        "assert cache.match(Key(None, tuple(range(9)))).length == 8 and cache.view().nodes\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'triton')))"
    )
    rooms = [str(ROOT / room) for room in ("spec", "reference", "conformance", "optimized")]
    done = subprocess.run([sys.executable, "-c", code, *rooms], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize("variant", by_turns(VARIANTS, every=2), ids="-".join)
def test_a_value_is_in_every_byte_of_its_slot(variant: Variant) -> None:
    contents = Contents(CONFIG, 1, variant)
    slots, values = [4, 5, 6, 7, 83], [1, 2, 3, 0, 0x7FFFFFFF]
    contents.poke(slots, values)
    assert contents.peek("device", slots) == values
    assert contents.peek("device", [8]) == [TORN] and contents.peek("host", [0]) == [TORN]
    words = contents.pools["device"]
    for spoiled in range(0, words[1, :, :, 2].size, 5):
        contents.poke([6], [3])
        at = [0, 0, 0, 0]
        rest = spoiled
        for axis, size in reversed(list(enumerate(words[1, :, :, 2].shape))):
            at[axis], rest = rest % size, rest // size
        words[1, at[0], at[1], 2, at[2], at[3]] ^= 1 << 9
        assert contents.peek("device", [5, 6, 7]) == [2, TORN, 0]


@pytest.mark.parametrize("variant", by_turns(VARIANTS, every=2), ids="-".join)
def test_a_page_comes_back_from_storage_as_it_went(variant: Variant) -> None:
    contents = Contents(CONFIG, 1, variant)
    store = SuiteStore(HarnessStore(4), contents)
    contents.poke(range(4, 12), range(100, 108))
    contents.mover.backup(*(pages_of(1, 2), pages_of(7, 3))).wait()
    assert contents.peek("host", [*range(28, 32), *range(12, 16)]) == list(range(100, 108))
    assert store.put(["a", "b"], [contents.mover.read_page(7), contents.mover.read_page(3)]) == [True, True]
    assert store.store.get("a") == (100, 101, 102, 103) and store.store.get("b") == (104, 105, 106, 107)
    pages = store.get(["a", "b", "c"], contents.mover.page_bytes)
    assert pages[2] is None and pages[1] is not None
    contents.mover.write_page(5, pages[1])
    contents.mover.load(pages_of(5), pages_of(9)).wait()
    assert contents.peek("device", range(36, 40)) == [104, 105, 106, 107]


def pages_of(*numbers: int) -> Any:
    """Page numbers as the mover takes them."""
    import numpy as np

    return np.array(numbers, np.int32)


def test_a_batch_ends_where_storage_ends() -> None:
    contents = Contents(CONFIG, 1, VARIANTS[0])
    harness = HarnessStore(4)
    store = SuiteStore(harness, contents)
    page = contents.page_bytes([1, 2, 3, 4])
    harness.script(Outcome("short", 1))
    assert store.put(["a", "b", "c"], [page] * 3) == [True, False, False]
    assert len(harness.puts) == 2
    harness.script(Outcome("done"))
    harness.contents |= {"b": (1, 2, 3), "c": (1, 2, 3, 4)}
    assert store.exists(["a", "b", "x"]) == 2
    assert [one is not None for one in store.get(["a", "b", "c"])] == [True, False, False]
    buffer, other = bytearray(len(page)), bytearray(3)
    assert store.get_into(["a", "b"], [buffer, buffer]) == [True, False] and buffer == page
    assert store.get_into(["a"], [other]) == [False]
    harness.script(Outcome("fail", 0))
    for call in (lambda: store.exists(["a"]), lambda: store.get(["a"]), lambda: store.put(["a"], [page])):
        with pytest.raises(StorageDownError):
            call()
    assert contents.page_values(page[:-1] + b"\0") == (1, 2, 3, TORN)
    assert contents.page_values(page[:8]) == (TORN,) * 4


def test_a_run_meets_several_kinds_of_pools() -> None:
    variants = [variant_of(config) for config in TIER_CONFIGS]
    for field in range(3):
        assert len({variant[field] for variant in variants}) > 1
    assert {variant_of(CONFIG, shift) for shift in range(len(VARIANTS))} == set(VARIANTS)
    assert variant_of(CONFIG) == variant_of(replace(CONFIG))


RUN = "import sys; from kvlitmus.conformance.cli import main; sys.exit(main(['run', 'optimized']))"


@pytest.mark.parametrize("command", [["-c", RUN], ["-m", "kvlitmus.optimized.cores"]], ids=["run", "cores"])
def test_a_core_that_is_none_is_a_usage_error(command: list[str]) -> None:
    environment = {**os.environ, "KVLITMUS_CORE": "natve"}
    done = subprocess.run([sys.executable, *command], check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("KVLITMUS_CORE must be one of auto, native, python (got 'natve')")
    assert "Traceback" not in done.stderr
