"""Bad manners that end a process behind a pipe, hold it up, or stay in it: a verdict or none, and nothing is left."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kvlitmus.conformance.isolation.supervisor import Limits, run_items
from kvlitmus.conformance.run.results import Item, ItemResult
from kvlitmus.conformance.run.targets import resolve_target
from tests.conformance.test_remote import ENDS, HERE, OPTIONS, PAGE4, children, strays
from tests.support.processes import eventually

DEADLY = {
    "hangs_busy": r"evict\(.* the call did not come back within 0\.5 s",
    "hangs_in_c": r"evict\(.* the call did not come back within 0\.5 s",
    "exits": r"insert\(.* the call ended the process with exit status 7",
    "exits_in_hashes": r"page_hashes\(.* the call ended the process with exit status 7",
    "crashes": r"match\(.* the call ended the process by SIGSEGV",
    "kills_itself": r"end\(.* the call ended the process by SIGKILL",
    "closes_descriptors": r"insert\(.* the call ended the process with exit status 1",
    "leaves_a_child": r"evict\(.* the call ended the process with exit status 3",
}
"""Kinds that end or hold up their process in a call, the call, and what is said of it."""


def watched(name: str, state: Path) -> ItemResult:
    """What comes of a hostile kind behind a pipe, asked by a worker that is watched."""
    limits = Limits(call_seconds=0.5, start_seconds=10.0, shrink_seconds=0.1, again_seconds=0.3)
    item = Item(kind="random", config=PAGE4, seed=0, ops=120)
    ref = resolve_target(f"exec:{sys.executable} {HERE / 'piped.py'} tests.conformance.support.hostile:{name}")
    before = children()
    (result,) = run_items(ref, [item], OPTIONS, limits=limits, state=state)
    eventually(lambda: children() <= before and not strays(b"sleep\x00600.125\x00"))
    return result


@pytest.mark.nightly
@pytest.mark.parametrize("name", DEADLY)
def test_whatever_ends_or_holds_up_a_process_is_a_verdict_on_the_call(name: str, tmp_path: Path) -> None:
    result = watched(name, tmp_path / "state")
    (finding,) = result.findings
    assert finding.rules == ["PORT-02"] and not result.error
    assert re.match(DEADLY[name], f"{finding.call} {finding.detail}"), finding.detail


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["make_dies", "make_hangs"])
def test_a_process_that_makes_no_cache_is_one_error(name: str, tmp_path: Path) -> None:
    result = watched(name, tmp_path / "state")
    assert re.search("making (a fresh|the) cache", result.error), result.error
    assert not result.findings


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["patches_the_world", "starts_threads", "prints", "child_prints"])
def test_what_a_process_does_to_itself_changes_no_verdict(name: str, tmp_path: Path) -> None:
    result = watched(name, tmp_path / "state")
    assert (result.findings, result.error) == ([], "") and result.steps > 100


def test_every_hostile_kind_is_tried_behind_a_pipe() -> None:
    told_of = {
        "hangs_in_view",
        "hangs_asleep",
        "exits_in_view",
    }  # of these it is asked whether it was the call or a look
    assert {*ENDS} - told_of == {*DEADLY, "make_dies", "make_hangs", "patches_the_world", "starts_threads"}
