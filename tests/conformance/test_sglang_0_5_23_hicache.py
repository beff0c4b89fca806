"""The adapter for SGLang 0.5.23's hierarchy: without SGLang what it declares, refuses and stands in for; with
the environment of ``tools/peers`` (nightly) that it tells the truth, and which known hazards that release has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.common.stubs import Peer
from kvlitmus.conformance.adapters.sglang.v0_5_23 import hicache
from kvlitmus.conformance.adapters.sglang.v0_5_23.environment import HICACHE_PLAN, Hasher
from kvlitmus.conformance.ports import Config, Target, Unsupported, capabilities_of
from kvlitmus.conformance.run.targets import KNOWN
from kvlitmus.reference.prefix.hashing import page_hashes
from kvlitmus.spec.words.schemes import SGLANG_1
from kvlitmus.spec.words.units import Key
from tests.conformance.support.release_python import HOME, run

PYTHON = HOME / HICACHE_PLAN.python

CLASSES: dict[str, tuple[Peer, type]] = {
    "hicache_python": (hicache.hicache_python, hicache.Tiered),
    "hicache_python_events": (hicache.hicache_python_events, hicache.TieredEvents),
    "hicache_rust": (hicache.hicache_rust, hicache.TieredRust),
    "hicache_rust_events": (hicache.hicache_rust_events, hicache.TieredRustEvents),
}


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_target_declares_its_adapters_have(name: str) -> None:
    peer, methods = CLASSES[name]
    assert capabilities_of(methods) == peer.capabilities
    assert isinstance(peer, Target)
    assert all(config.tiered for config in peer.configs)


def test_every_target_has_a_name() -> None:
    assert {known.attribute for known in KNOWN.values() if known.module == hicache.__name__} == CLASSES.keys()
    assert isinstance(hicache, Target)


@pytest.mark.parametrize("name", CLASSES)
def test_without_the_release_the_command_that_makes_it_is_named(name: str) -> None:
    peer, _ = CLASSES[name]
    with pytest.raises(Unsupported, match=f"tools/peers {peer.plan.release}"):
        peer.make(Config(host_pages=32))


def test_what_has_no_host_is_refused() -> None:
    with pytest.raises(Unsupported, match="it needs host pages"):
        hicache.Tiered("python", Config())


def test_hits_can_not_decide_where_none_are_counted() -> None:
    with pytest.raises(Unsupported, match="counts no hits, so slru has nothing to go by"):
        hicache.Tiered("python", Config(host_pages=8, write="write_back", policy="slru"))


FIRST = "cf97adeedb59e05bfd73a2b4c2a8885708c4f4f70c84c64b27120e72ab733b72"
SECOND = "4ebfa8a1f3c341517621838c6e1b9aa350307e3f00b3cbd1a07ef740f54396d6"
BIGRAMS = "f721fe42aac11dcbfd1a17f24cc5765a0d5b6bc264d1c0b6581d775a7344c11f"
"""What SGLang's own hash says of the tokens 1 to 4, of 5 to 8 behind them, and of the bigrams of 1 to 5."""


def test_the_stand_in_for_the_compiled_hash_says_what_that_says() -> None:
    tokens = list(range(1, 9))
    assert Hasher.get_hash(tokens, 8, 1, False, None, 4) == [FIRST, SECOND]
    assert Hasher.get_hash(tokens[4:], 4, 1, False, bytes.fromhex(FIRST), None) == SECOND
    assert Hasher.get_hash(tokens[:5], 4, 2, True, None, 4) == [BIGRAMS]
    assert Hasher.get_hash([], 0, 1, False, None, 4) == []


@pytest.mark.parametrize("bigram", [False, True])
@pytest.mark.parametrize("page_size", [1, 3])
def test_the_stand_in_agrees_with_the_reference(page_size: int, bigram: bool) -> None:
    key = Key(None, (7, 0, 2**32 - 1, 5, 9, 11, 3), bigram)
    whole = key.length // page_size * page_size
    hashed = Hasher.get_hash(key.tokens, whole, 2 if bigram else 1, bigram, None, page_size)
    assert hashed == list(page_hashes(key, page_size, None, scheme=SGLANG_1))


def test_wide_tokens_are_hashed_apart() -> None:
    wide = Hasher.get_hash([2**32], 1, 1, False, None, None)
    assert wide != Hasher.get_hash([0, 1], 2, 1, False, None, None), "the same bytes, and one more in front"


def script(name: str, *arguments: str) -> dict[str, Any]:
    """What a script beside this file prints, run by the release's own interpreter."""
    if not PYTHON.exists():
        pytest.skip(f"run {HICACHE_PLAN.command} first")
    done = run(str(Path(__file__).parent / "support" / name), *arguments, interpreter=str(PYTHON), seconds=600)
    assert done.returncode == 0, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.nightly
@pytest.mark.timeout(700)
@pytest.mark.parametrize("name", ["hicache_python", "hicache_rust"])
def test_lawful_calls_lose_nothing_and_mix_nothing_up(name: str) -> None:
    seen = script("sglang_hicache_drive.py", hicache.__name__, name, "400")
    assert seen["faults"] == []
    least = {"backup": 100, "put": 100, "query": 50, "fetch": 10, "committed": 3, "load": 5}
    assert all(seen["seen"].get(what, 0) >= count for what, count in least.items()), seen["seen"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["hicache_python", "hicache_rust"])
def test_which_hazards_of_the_older_release_are_left(name: str) -> None:
    seen = script("sglang_0_5_23_hazards.py", name)
    # Left: an answer to an earlier query ends the next prefetch, and detaching loses what a fetch holds.
    assert seen.pop("a_stale_answer_hits_the_next_prefetch") == {"occupied": 0, "faults": []}
    assert seen.pop("detach_at_every_stage") == [0, 0, 4, 4, 3]
    # What was backed up before storage came is never stored, so nothing behind it is found.
    assert seen.pop("storage_that_comes_later") == {"pages": 2, "alias": 0, "whole": 0}
    assert seen == {
        "reset_at_every_stage": [[0, 0, 0]] * 5,
        "storage_that_raises": {"waits": False, "loaded": 16, "faults": []},
        "a_prefetch_behind_what_is_not_backed_up": [False, 12, 12],
        "loaded_by_namespace": [0, 0, 16, 0],
        "a_commit_below_what_is_not_backed_up": {"hanging": False, "faults": []},
        "a_load_that_needs_room_on_both_tiers": {"loaded": 16, "faults": []},
        "bigrams_from_storage": 16,
    }
