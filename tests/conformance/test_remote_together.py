"""Several calls in one message over a pipe: the parts of a request that the suite composes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from kvlitmus.conformance.isolation.remote.process import Line
from kvlitmus.conformance.isolation.remote.target import RemoteTarget
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.tape.calls import LOOKS
from kvlitmus.conformance.tape.forms import Json
from tests.conformance.support.messages import sent
from tests.support.night import by_turns

PIPED = Path(__file__).parent / "support" / "piped.py"
FLAT = Path(__file__).parents[2] / "examples" / "flat_cache.py"
ITEM = Item(kind="random", config=Config(page_size=4), seed=1, ops=60)
OPTIONS = Options(reruns=0, shrink_trials=0)


@pytest.fixture(autouse=True)
def _processes_end() -> Iterator[None]:
    """A cache that nobody holds lets go of its process."""
    yield
    gc.collect()


def flat() -> RemoteTarget:
    """A cache without requests of its own, behind a pipe."""
    return RemoteTarget((sys.executable, str(PIPED), str(FLAT)))


def judged() -> ItemResult:
    """What comes of it; nobody holds it any more."""
    return run_item(flat(), ITEM, OPTIONS)


MATCHED = {"call": "match", "then": [{"call": "lock", "args": [{"@": "handle"}]}]}


def test_the_parts_of_a_composed_request_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    target = flat()
    asked = sent(monkeypatch)
    result = run_item(target, ITEM, OPTIONS)
    assert (result.findings, result.error) == ([], "")
    together = [one for one in asked if "then" in one]
    assert MATCHED in [{name: one[name] for name in ("call", "then")} for one in together]
    assert {(one["call"], *[part["call"] for part in one["then"]]) for one in together} > {
        ("evict", "alloc"),
        ("match", "lock", "unlock"),
        ("free", "unlock"),
    }
    target.look_alone(LOOKS)
    asked.clear()
    assert run_item(target, ITEM, OPTIONS).evaluated == result.evaluated
    assert not any("then" in one for one in asked), "so that it is known which of them fails"


THEN: dict[str, tuple[Callable[[list[Any]], object], str]] = {
    "none": (lambda _: [], ""),
    "some": (lambda found: found[:1], ""),
    "no-list": (lambda _: 3, "PORT-03"),
    "no-objects": (lambda _: [4], "PORT-03"),
    "too-many": (lambda found: [*found, {"answer": None}], "PORT-03"),
    "no-answer": (lambda _: [{}], "PORT-03"),
    "raises": (lambda _: [{"raised": "ValueError: no"}], "PORT-01"),
    "raises-exit": (lambda _: [{"raised": "SystemExit: 3"}], "PORT-02"),
}
"""What becomes of the answers to the calls after the first of a message, and the rule that this breaks."""


@pytest.mark.parametrize("kind", by_turns(THEN))
def test_a_process_may_leave_calls_of_a_message_out_but_not_answer_oddly(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left out is asked for by messages of its own: the play is the same."""
    ask, odd = Line.ask, []

    def answered(line: Line, message: Mapping[str, Any]) -> dict[str, Any]:
        kept = THEN[kind][0]
        if message.get("then") and kind in ("none", "some"):
            parts = message["then"][: len(cast("list[Any]", kept(message["then"])))]
            return ask(line, {**message, "then": parts} if parts else {k: v for k, v in message.items() if k != "then"})
        found = ask(line, message)
        if "then" in found:
            odd.append(found)
            found["then"] = cast("Json", kept(cast("list[Any]", found["then"])))
        return found

    result = judged()
    monkeypatch.setattr(Line, "ask", answered)
    again = judged()
    assert not again.error
    if not THEN[kind][1]:
        assert (again.findings, again.evaluated) == ([], result.evaluated)
        return
    assert odd
    (finding,) = again.findings
    assert finding.rules == [THEN[kind][1]], finding.detail
