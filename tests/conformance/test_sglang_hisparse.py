"""The adapter for SGLang's host memory of sparse attention: without SGLang what it declares and refuses; with the
environment of ``tools/peers`` (nightly) what is known to be wrong there, and what is not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.v0_5_13 import hisparse as module
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse import KINDS, UNIFIED, build, hisparse
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_growth import Growth
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_server import PAGE, PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_transfer import Transfers
from kvlitmus.conformance.adapters.sglang.v0_5_13.hisparse_unified import Unified
from kvlitmus.conformance.ports import Config, Target, Unsupported, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.targets import load_target, resolve_target
from tests.conformance.support.release_python import HOME, run

PYTHON = HOME / PLAN.python
CONFIG = Config(page_size=PAGE, pages=11, pool="sparse")


def test_what_the_target_declares_all_kinds_of_server_have() -> None:
    own = {
        Unified: {"sparse_staging"},
        Transfers: {"sparse_transfer"},
        Growth: {"sparse_buffers", "sparse_swaps", "sparse_growth"},
    }
    assert {kind: capabilities_of(kind) - hisparse.capabilities for kind in own} == own
    assert all(hisparse.capabilities <= capabilities_of(kind) for kind in own)
    assert [config.pages for config in hisparse.configs] == [*UNIFIED, *KINDS]
    assert {*own} == {Unified, *KINDS.values()}
    assert isinstance(hisparse, Target)
    assert isinstance(module, Target)
    assert plan.configs_of(hisparse) == hisparse.configs
    assert {config.pool for config in hisparse.configs} == {"sparse"}
    assert load_target(resolve_target("sglang-0.5.13.post1-hisparse", python=sys.executable)) is hisparse


def test_without_the_release_the_command_that_makes_it_is_named() -> None:
    with pytest.raises(Unsupported, match=f"tools/peers {PLAN.release}"):
        hisparse.make(CONFIG)
    with pytest.raises(Unsupported, match="sparse pool, not the host pool"):
        hisparse.make(Config(pool="host"))
    with pytest.raises(Unsupported, match="pages of 64 tokens here, and an odd number"):
        build(Config(page_size=16, pages=11, pool="sparse"))
    for pages in KINDS:
        with pytest.raises(Unsupported, match="an odd number"):
            build(Config(page_size=16, pages=pages, pool="sparse"))


def hazards(*arguments: str) -> dict[str, Any]:
    """What the script beside this file prints, run by the release's own interpreter."""
    if not PYTHON.exists():
        pytest.skip(f"run {PLAN.command} first")
    *options, script = *arguments[:-1], str(Path(__file__).parent / "support" / "sglang_hisparse_hazards.py")
    done = run(*options, script, *arguments[-1:], interpreter=str(PYTHON), seconds=600)
    assert done.returncode == 0, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.nightly
@pytest.mark.timeout(700)
def test_drawn_schedules_break_these_rules_and_no_others() -> None:
    seen = hazards("drawn")
    assert "abort" in seen["SPARSE-06"], "an aborted request keeps its row"
    assert "request" in seen["SPARSE-06"], "a request that overflows its row takes pages"
    assert seen["SPARSE-59"] == ["abort"], "an aborted request keeps its buffer on the device"
    assert seen.keys() <= {
        *("SPARSE-01", "SPARSE-12", "PORT-03"),  # a negative start counts from the row's end
        *("SPARSE-06", "SPARSE-17"),  # an abort, a negative start, and the rows that follow
        *("POOL-12", "SPARSE-09"),  # an overflow: what it took is nobody's, and lacks later
        *("POOL-15", "SPARSE-30", "SPARSE-31"),  # a staged request that can't be aborted
        "PORT-01",  # an acknowledgement that finds no buffer
        *("SPARSE-59", "SPARSE-60"),  # an abort: the buffer is lost
        *("POOL-04", "SPARSE-13"),  # an abort in front of a peer that writes on
    }


@pytest.mark.nightly
def test_what_is_known_to_be_wrong() -> None:
    seen = hazards("mechanisms")
    assert seen["overflow"] == {"error": "RuntimeError", "free": 5, "row": []}, "six of eleven pages are lost"
    assert seen["hole"] == {"error": "AssertionError", "free": 11}
    assert seen["admission"] == {"free": 11, "errors": ["", "", ""]}, "the host has a page more than the logical pool"
    assert seen["admission after an abort"] == {"free": 9, "errors": ["", "", "RuntimeError"]}
    assert seen["dead branch"] == {"error": "AssertionError", "free of the request's two": 0}
    assert seen["buffer"] == {"free": 5}
    assert seen["buffer after an abort"] == {"free": 4}, "a page of the device is lost"
    assert seen["free group"] == {"in a group": False}, "so ending one does no harm"
    assert seen["staged"] == {"free": 1, "errors": ["AssertionError"]}, "two acknowledgements need a page each"
    assert seen["abort of a staged one"] == {"pages": 1, "ready": [0]}, "it decodes as if nobody had aborted it"
    assert seen["retracted"] == {"copying": [], "ready": [], "free": [5, 11, 10]}, "nothing is lost"


@pytest.mark.nightly
def test_what_is_known_to_be_wrong_in_a_decode_server() -> None:
    seen = hazards("mechanisms")
    late = seen["abort of a transfer"]
    assert (late["told"], late["going"], late["free"]) == (6, 6, 11), "peers are told, and nobody waits for them"
    assert {*late["first"]} & {*late["last"]} == {0}, "two peers write to one page"
    assert seen["growth meets a transfer"] == {"free": 4, "check": True, "left": 2, "error": "AssertionError"}
    assert seen["growth by two pages"] == {"free": 1, "check": True, "left": 1, "error": "RuntimeError"}
    assert seen["retracted in a decode server"] == {"error": "NotImplementedError"}, "the KV can't be copied away"


@pytest.mark.nightly
def test_without_asserts_a_hole_is_granted() -> None:
    assert hazards("-O", "mechanisms")["hole"] == {"error": "", "free": 10}
