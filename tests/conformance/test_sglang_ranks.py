"""The adapter for SGLang's ranks: without SGLang what it declares and refuses; with the environment of ``tools/peers``
(nightly) what drawn schedules break there, and what is known to be wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.common.network import Call, current
from kvlitmus.conformance.adapters.sglang.v0_5_13 import ranks as module
from kvlitmus.conformance.adapters.sglang.v0_5_13.environment import PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_13.rank_environment import Answers, groups_of
from kvlitmus.conformance.adapters.sglang.v0_5_13.ranks import RankedHiRadix, ranks
from kvlitmus.conformance.checker.rendezvous import together
from kvlitmus.conformance.ports import Config, Target, Unsupported, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.targets import load_target, resolve_target
from kvlitmus.spec.interface.ranks import Collective, Decision, Exchange, Group, worlds
from tests.conformance.support.release_python import HOME, run

PYTHON = HOME / PLAN.python
PAIR = Group("tp", (0, 1))


def test_what_the_target_declares_its_adapter_has() -> None:
    assert capabilities_of(RankedHiRadix) == ranks.capabilities
    assert isinstance(ranks, Target)
    assert isinstance(module, Target)
    assert plan.configs_of(ranks) == plan.RANK_CONFIGS
    assert load_target(resolve_target("sglang-0.5.13.post1-ranks", python=sys.executable)) is ranks


def test_importing_the_adapter_imports_neither_torch_nor_sglang() -> None:
    done = run(
        "-c",
        "import sys\n"
        "from kvlitmus.conformance.adapters.sglang.v0_5_13 import ranks\n"
        "print(sorted({'torch', 'sglang', 'numpy', 'triton'} & sys.modules.keys()))",
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_without_the_release_the_command_that_makes_it_is_named() -> None:
    with pytest.raises(Unsupported, match=f"tools/peers {PLAN.release}"):
        ranks.make(plan.RANKS)
    with pytest.raises(Unsupported, match="ranks pool, not the device pool"):
        ranks.make(Config())


@pytest.mark.parametrize(
    ("shape", "rank", "members"),
    [
        ("tp2", 1, {"tp_cache_group": (0, 1), "attn_tp_cache_group": (0, 1), "attn_cp_cache_group": (1,)}),
        ("cp2", 0, {"tp_cache_group": (0,), "attn_tp_cache_group": (0,), "attn_cp_cache_group": (0, 1)}),
        ("attn2", 3, {"tp_cache_group": (2, 3), "attn_tp_cache_group": (2, 3), "attn_cp_cache_group": (3,)}),
        ("tp2pp2", 3, {"tp_cache_group": (2, 3), "pp_cache_group": (1, 3), "attn_cp_cache_group": (3,)}),
    ],
)
def test_a_rank_gets_the_groups_that_a_server_gives_it(
    shape: str, rank: int, members: dict[str, tuple[int, ...]]
) -> None:
    got = groups_of(worlds()[shape], rank, Answers((0,)))
    assert {name: got[name].group.members for name in members} == members
    assert (got["pp_rank"], got["pp_size"]) == ((1, 2) if "pp" in shape else (0, 1))


def blocking(*values: int) -> Generator[Exchange, tuple[int, ...], list[Decision]]:
    """A rank that blocks in one reduction after the other, and commits what came out."""

    def body() -> list[int]:
        return [current().enter(Collective(PAIR, "min", ("n",), (value,)))[0] for value in values]

    call = Call(body)
    try:
        entered = call.go_on()
        while entered is not None:
            entered = call.go_on((yield entered))
    finally:
        call.end()
    assert isinstance(call.answer, list)
    return [Decision("commit", "kv", (tuple(call.answer),))]


def test_calls_that_block_meet_like_any_other() -> None:
    traces, _ = together({0: blocking(3, 8), 1: blocking(5, 2)})
    assert [one.decisions for one in traces] == [(Decision("commit", "kv", ((3, 2),)),)] * 2


def test_a_call_that_waits_for_ever_is_said_and_its_thread_ends() -> None:
    traces, _ = together({0: blocking(1, 2), 1: blocking(1)})
    assert [one.ended for one in traces] == ["waiting", "returned"]


def test_what_a_blocking_call_raises_is_raised_where_it_was_made() -> None:
    def body() -> None:
        raise KeyError("lost")

    call = Call(body)
    with pytest.raises(KeyError):
        call.go_on()
    call.end()


def hazards(argument: str, name: str = "sglang_ranks_hazards.py") -> dict[str, Any]:
    """What a script beside this file prints, run by the release's own interpreter."""
    if not PYTHON.exists():
        pytest.skip(f"run {PLAN.command} first")
    script = str(Path(__file__).parent / "support" / name)
    done = run(script, argument, interpreter=str(PYTHON))
    assert done.returncode == 0, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.nightly
@pytest.mark.timeout(1000)
def test_drawn_schedules_break_nothing_but_what_is_known() -> None:
    seen = hazards("drawn")
    alike, staged = seen["alike"], seen["staged"]
    assert alike["steps"] > 5_000
    # Tensor, context and attention parallelism: nothing but H-28 and an anchor that goes, which need no second rank.
    assert alike["broken"].keys() <= {"PORT-01", "TIER-12"}
    assert all("non-leaf" in where for where in alike["broken"].get("PORT-01", ()))
    # Pipeline stages read from storage by themselves.
    assert (
        {"RANKS-01", "RANKS-03", "RANKS-07"}
        <= staged["broken"].keys()
        <= {"RANKS-01", "RANKS-03", "RANKS-07", "PORT-01", "TIER-12"}
    )


@pytest.mark.nightly
def test_what_is_known_to_be_wrong() -> None:
    seen = hazards("mechanisms")
    assert seen["attach"] == {
        "ends": ["waiting for _create_prefetch_sync_groups 0", "returned"],
        "answers": {"1": False},
    }, "one rank can't reach the storage and says so, the other one waits for it"
    assert seen["load"]["done"] == {"0": True, "1": False}
    assert seen["load"]["ends"] == ["waiting for loading_check 0", "waiting for drain_storage_control_queues 0"]
    assert seen["stages"] == {"host": [4, 0], "ends": ["returned", "waiting for a message"]}, "the stages' trees differ"


@pytest.mark.nightly
def test_where_ranks_have_unequal_room_they_part() -> None:
    """By a direct call alone: nothing but the cache takes pages of SGLang's host pool."""
    seen = hazards("mechanisms")
    assert seen["less room, prefetch"] == {
        "granted": [4, 0],
        "ends": ["waiting for can_terminate_prefetch 0", "waiting for drain_storage_control_queues 0"],
    }
    assert seen["less room, insert"] == {
        "granted": [4, 0],
        "ends": ["waiting for loading_check 0", "waiting for drain_storage_control_queues 0"],
    }


ALONE = "sglang_alone_hazards.py"


@pytest.mark.nightly
def test_a_page_that_storage_refused_is_not_stored_again() -> None:
    assert hazards("put", ALONE) == {"stored": 1, "then": 2, "loaded": 4}, "page four is stored, and never found"


@pytest.mark.nightly
def test_half_of_an_allocation_is_lost_where_the_scheduler_would_not_have_asked() -> None:
    seen = hazards("decode", ALONE)
    assert seen == {"before": [24, 4], "enough": False, "granted": False, "after": [16, 4]}


@pytest.mark.nightly
@pytest.mark.parametrize(("hazard", "ends"), [("buffer", False), ("buffer, best effort", True)])
def test_a_buffer_is_given_back_while_storage_reads_into_it(hazard: str, ends: bool) -> None:
    assert hazards(hazard, ALONE) == {"may end": ends, "done": False, "given back": 1, "read into": [0, 1, 2, 3]}


@pytest.mark.nightly
def test_no_server_of_this_release_makes_the_mamba_tree() -> None:
    assert hazards("mamba", ALONE) == {"made in": []}
