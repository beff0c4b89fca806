"""The adapters for SGLang's hierarchical caches: without SGLang what they declare and refuse; with the
environment of ``tools/peers`` (nightly) that they tell the truth, and what is known to be wrong there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.common.stubs import Peer
from kvlitmus.conformance.adapters.sglang.v0_5_13 import hicache, unified
from kvlitmus.conformance.adapters.sglang.v0_5_13.environment import PLAN
from kvlitmus.conformance.ports import Config, Target, Unsupported, capabilities_of
from kvlitmus.conformance.run.targets import KNOWN
from tests.conformance.support.release_python import HOME, run

PYTHON = HOME / PLAN.python

CLASSES: dict[str, tuple[Peer, type]] = {
    "hicache.hiradix": (hicache.hiradix, hicache.HiRadix),
    "hicache.hiradix_events": (hicache.hiradix_events, hicache.HiRadixEvents),
    "unified.unified": (unified.unified, unified.Unified),
    "unified.unified_events": (unified.unified_events, unified.UnifiedEvents),
}


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_target_declares_its_adapters_have(name: str) -> None:
    peer, methods = CLASSES[name]
    assert capabilities_of(methods) == peer.capabilities
    assert isinstance(peer, Target)
    assert peer.configs
    assert all(config.tiered for config in peer.configs)


def test_every_target_has_a_name() -> None:
    named = {
        f"{known.module.rpartition('.')[2]}.{known.attribute}"
        for known in KNOWN.values()
        if known.module in (hicache.__name__, unified.__name__)
    }
    assert named == CLASSES.keys()


@pytest.mark.parametrize("module", [hicache, unified])
def test_the_module_itself_is_a_target(module: Target) -> None:
    assert isinstance(module, Target)


@pytest.mark.parametrize("name", CLASSES)
def test_without_the_release_the_command_that_makes_it_is_named(name: str) -> None:
    peer, _ = CLASSES[name]
    with pytest.raises(Unsupported, match=f"tools/peers {peer.plan.release}"):
        peer.make(Config(host_pages=32))


def script(name: str, target: str, *arguments: str) -> dict[str, Any]:
    """What a script beside this file prints, run by the release's own interpreter."""
    if not PYTHON.exists():
        pytest.skip(f"run {PLAN.command} first")
    module, _, attribute = target.partition(".")
    path = str(Path(__file__).parent / "support" / name)
    adapter = f"kvlitmus.conformance.adapters.sglang.v0_5_13.{module}"
    done = run(path, adapter, attribute, *arguments, interpreter=str(PYTHON), seconds=600)
    assert done.returncode == 0, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.nightly
@pytest.mark.timeout(700)
@pytest.mark.parametrize("name", ["hicache.hiradix", "unified.unified"])
def test_lawful_calls_lose_nothing_and_mix_nothing_up(name: str) -> None:
    seen = script("sglang_hicache_drive.py", name, "400")
    assert seen["faults"] == []
    reached = seen["seen"]
    least = {"backup": 100, "put": 100, "query": 50, "fetch": 20, "committed": 5, "load": 10}
    assert all(reached.get(what, 0) >= count for what, count in least.items()), reached


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["hicache.hiradix", "unified.unified"])
def test_what_is_known_to_be_wrong_in_both(name: str) -> None:
    seen = script("sglang_hicache_hazards.py", name)
    reset = seen["reset_forgets_the_release_queue"]
    assert (reset["jobs after the reset"], reset["free"]) == (1, 35), "35 of 32 pages are free"
    assert seen["a_stale_revocation_hits_the_next_prefetch"] == {
        "loaded": 0,
        "faults": [f"host page {page} 0 times" for page in (4, 5, 6, 7)],
    }
    assert seen["a_read_that_raises_ends_the_thread"] == {"polls": [False, False], "jobs": [["fetch", False]]}
    assert seen["tenants_share_names"] == {"pages": 2}, "four pages of two tenants"
    assert seen["a_prefetch_at_the_root_loses_its_namespace"] == {"hits": [0, 8], "wrong": 8}
    assert seen["a_commit_hangs_below_what_is_not_backed_up"]["hanging"]


@pytest.mark.nightly
def test_what_is_known_to_be_wrong_in_hiradix() -> None:
    seen = script("sglang_hicache_hazards.py", "hicache.hiradix")
    detach = seen["a_detach_frees_twice"]
    assert [detach[f"stage {stage}"] for stage in range(4)] == [["host page 3 2 times"]] * 4
    begun = seen["a_prefetch_begins_behind_its_anchor"]
    assert begun == {"matched": 16, "anchor": 8, "known": [False]}
    assert seen["names_depend_on_when_storage_came"] == {"stored": 2, "rightly named": 0}
    assert "AssertionError: non-leaf" in seen["a_commit_hangs_below_what_is_not_backed_up"]["evict"]
    assert seen["a_load_back_evicts_its_own_sources"] == {"loaded": True, "faults": 8}
    assert seen["bigrams_are_stored_under_other_names_than_asked_for"] == {"stored": 4, "asked": 4, "known": 4}


@pytest.mark.nightly
def test_what_is_known_to_be_wrong_in_unified() -> None:
    seen = script("sglang_hicache_hazards.py", "unified.unified")
    assert not any(seen["a_detach_frees_twice"].values()), "this release detaches nothing, and says so"
    begun = seen["a_prefetch_begins_behind_its_anchor"]
    assert begun == {"matched": 16, "anchor": None, "known": []}, "refused, as it should be"
    assert seen["names_depend_on_when_storage_came"] is None
    lost = seen["a_commit_hangs_below_what_is_not_backed_up"]
    assert (lost["evict"], len(lost["faults"])) == (16, 2)
    assert "TypeError" in seen["a_load_back_evicts_its_own_sources"]["loaded"]
    assert seen["bigrams_are_stored_under_other_names_than_asked_for"] == {"stored": 4, "asked": 5, "known": 0}
