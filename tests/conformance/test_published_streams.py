"""Streams that the publishers of released engines sent (tools/released.py), judged without the engines."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from kvlitmus.conformance.history.streams.capture import Capture
from kvlitmus.conformance.history.streams.forms import Batch, KvEvent, Removed, Stored
from kvlitmus.conformance.history.streams.judge import JudgedStream, StreamJudge
from kvlitmus.conformance.ports import Profile
from kvlitmus.spec.parts import all_rules

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests" / "data" / "events").glob("*.msgpack.gz"))

FAULT = {"EVENT-01", "EVENT-07"}
"""How vllm#55092 is seen: the copy that is told as gone is removed once more, and goes on to be continued."""

READ_BY_NAMES = {
    "vllm-0.33.0-flat": FAULT,
    "vllm-0.33.0-states": FAULT,
    "vllm-0.33.0-window": FAULT,
    "sglang-0.5.23-hicache": set[str](),
    "sglang-0.5.23-hicache-rust": set[str](),
}
"""What a router finds wrong that keeps a set of names; of who counts copies nothing."""


def batches(file: Path) -> list[Batch]:
    """The batches of a file."""
    with Capture(str(file)) as capture:
        found = list(capture)
    assert not capture.torn and len(found) > 50
    return found


def judged(told: list[Batch], copies: str) -> JudgedStream:
    """What comes of them."""
    judge = StreamJudge("events", all_rules(), Profile(event_copies=copies), keep_going=True)
    list(judge.run(told))
    return judge.outcome


def broken(told: list[Batch], copies: str = "each") -> set[str]:
    """The rules that they break."""
    return {rule for one in judged(told, copies).findings for rule in one.finding.rules}


def name(file: Path) -> str:
    """The name of a stream."""
    return file.name.partition(".msgpack")[0]


def test_every_stream_is_here() -> None:
    assert {*map(name, FILES)} == READ_BY_NAMES.keys()


@pytest.mark.parametrize("file", FILES, ids=name)
def test_what_a_router_can_trust(file: Path) -> None:
    told = batches(file)
    assert broken(told, "one") == READ_BY_NAMES[name(file)]
    assert broken(told, "each") == set()
    outcome = judged(told, "each")
    assert all(outcome.evaluated[id] for id in ("EVENT-01", "EVENT-05", "EVENT-06", "EVENT-07", "EVENT-11", "EVENT-12"))


@pytest.mark.parametrize("file", FILES, ids=name)
def test_no_gap_is_held_against_an_engine(file: Path) -> None:
    told = batches(file)

    for seed in range(12):
        draw = random.Random(seed)
        assert broken([one for one in told if draw.random() > seed / 20]) == set()


def places(told: list[Batch], kind: type) -> list[tuple[int, int]]:
    """Where events of a kind are: batch and place in it."""
    return [(at, place) for at, one in enumerate(told) for place, event in enumerate(one.events) if type(event) is kind]


def changed(told: list[Batch], at: int, place: int, *events: KvEvent) -> list[Batch]:
    """The stream with these events in place of one."""
    one = told[at]
    return [*told[:at], one._replace(events=(*one.events[:place], *events, *one.events[place + 1 :])), *told[at + 1 :]]


@pytest.mark.parametrize("file", FILES, ids=name)
def test_a_planted_fault_is_found_wherever_it_is(file: Path) -> None:
    told = batches(file)
    for at, place in places(told, Removed)[::25]:
        event = told[at].events[place]
        assert isinstance(event, Removed)
        more = broken(changed(told, at, place, *[event] * 9))  # more than there are copies
        assert more >= {"EVENT-01"}
    for at, place in places(told, Stored)[::25]:
        event = told[at].events[place]
        assert isinstance(event, Stored)
        if event.group == 0:
            assert "EVENT-01" in broken(changed(told, at, place, event._replace(tokens=event.tokens[1:])))
            assert "EVENT-01" in broken(changed(told, at, place, event._replace(parent="nobody")))
        if event.group == 0 and event.parent is not None:
            assert "EVENT-05" in broken(changed(told, at, place, event._replace(ids=(event.parent, *event.ids[1:]))))
            assert "EVENT-06" in broken(changed(told, at, place, event._replace(namespace="another")))


@pytest.mark.nightly
@pytest.mark.parametrize("file", FILES, ids=name)
def test_the_released_publishers_send_the_same_again(file: Path, tmp_path: Path) -> None:
    peer = ROOT / ".peers" / name(file).rpartition("-")[0].removesuffix("-hicache") / "bin" / "python"
    if not peer.exists():
        pytest.skip(f"run tools/peers {peer.parts[-3]} first")
    command = [sys.executable, str(ROOT / "tools" / "released.py"), "streams", "--into", str(tmp_path), name(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / file.name).read_bytes() == file.read_bytes()
