"""Several calls in one message over a pipe: the parts of a request that the suite composes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from kvlitmus.conformance.checker.calls.prefix import request
from kvlitmus.conformance.isolation.remote.adapter import RemoteCache, common, goes_on
from kvlitmus.conformance.isolation.remote.process import Line
from kvlitmus.conformance.isolation.remote.target import RemoteTarget
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.ports.compose import WRONG
from kvlitmus.conformance.run.engine import make_checker, run_item
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.tape.calls import LOOKS
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.spec.interface import NodeView
from kvlitmus.spec.words.units import Key
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


def test_the_parts_of_a_composed_request_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    target = flat()
    asked = sent(monkeypatch)
    result = run_item(target, ITEM, OPTIONS)
    assert (result.findings, result.error) == ([], "")
    together = [one for one in asked if "then" in one]
    locks = [part["args"] for one in together for part in one["then"] if part["call"] == "lock"]
    assert locks and all(args == [{"@": "handle"}] for args in locks)
    assert {(one["call"], *[part["call"] for part in one["then"]]) for one in together} > {
        ("evict", "alloc"),
        ("match", "lock", "available", "alloc"),
        ("match", "lock", "available", "evict", "alloc"),
        ("insert", "match", "lock", "unlock"),
        ("insert", "free", "unlock"),
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
    "goes-on": (lambda found: found, "PORT-03"),
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
        if kind == "goes-on":
            left = message.get("then", [])[len(cast("list[Json]", found.get("then", []))) :]
            if left and "if" in left[0]:  # which was not met
                odd.append(found)
                found["then"] = [*cast("list[Json]", found["then"]), {"answer": None}]
        elif "then" in found:
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


GOES_ON: dict[str, tuple[Json, Json, bool]] = {
    "this": (8, 8, True),
    "another": (8, 7, False),
    "another-type": (1, True, False),
    "fields": ({"to_free": []}, {"already": 4, "to_free": []}, True),
    "another-field": ({"to_free": []}, {"already": 4, "to_free": [8]}, False),
    "no-such-field": ({"to_free": []}, {"already": 4}, False),
    "none-wanted": ({"to_free": None}, {"already": 4}, True),
    "a-refusal": ({"to_free": None}, None, False),
}
"""What the answer before should be, what it is, and whether the call is made."""


@pytest.mark.parametrize("kind", GOES_ON)
def test_a_call_is_made_if_the_answer_before_is_as_foreseen(kind: str) -> None:
    wanted, answer, made = GOES_ON[kind]
    assert goes_on({"answer": answer}, {"call": "lock", "if": wanted}) is made
    assert goes_on({"answer": answer}, {"call": "lock"})
    assert not goes_on({"raised": "ValueError: no"}, {"call": "lock"})


def node(parent: int, *units: int, namespace: str | None = None) -> NodeView:
    """A node of a snapshot; only its units count."""
    return NodeView(parent, namespace, units, units)


NODES = (
    node(-1, 1, 2, 3, 4),
    node(0, 5, 6),
    node(0, 7, 8),
    node(2, 9, 9),
    node(-1, 1, 2, namespace="a"),
    node(-1, 5, 5),
)


@pytest.mark.parametrize(
    ("tokens", "found"),
    [((), 0), ((9,), 0), ((1, 2), 2), ((1, 2, 9, 9), 2), ((1, 2, 3, 4, 7, 8, 9, 1), 7), ((5, 5, 5), 2), ((5, 6), 1)],
)
def test_it_is_foreseen_what_a_match_finds(tokens: tuple[int, ...], found: int) -> None:
    assert common(Key(None, tokens), NODES) == found


def test_what_is_foreseen_is_of_the_same_tenant_and_the_same_units() -> None:
    assert common(Key("a", (1, 2, 3)), NODES) == 2
    pairs = NodeView(-1, None, ((1, 2), (2, 3)), (0, 1))
    assert common(Key(None, (1, 2, 4), bigram=True), [pairs]) == 1


def test_what_was_foreseen_wrongly_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls are those that are made one by one, whatever was thought to come."""
    result = judged()
    asked = sent(monkeypatch)
    for shift in (4, -4):
        real = RemoteCache.foreseen

        def wrong(cache: RemoteCache, key: Key, real: Any = real, shift: int = shift) -> tuple[int, int] | None:
            seen = real(cache, key)
            return seen and (seen[0] + max(shift, 0), seen[1] + min(shift, 0))

        with monkeypatch.context() as patched:
            patched.setattr(RemoteCache, "foreseen", wrong)
            again = judged()
        assert (again.findings, again.error, again.evaluated) == ([], "", result.evaluated)
    ahead = [one for one in asked if "available" in [part["call"] for part in one.get("then", [])]]
    assert 1 <= len(ahead) <= 2 * WRONG


def test_a_step_without_a_call_is_looked_at_without_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = make_checker(flat(), Config(page_size=4), OPTIONS)
    assert request.begin(checker, 1, Key(None, (1,) * 5))
    before, asked = checker.before, sent(monkeypatch)
    assert request.grow(checker, 1, (2,)) is not None
    assert not asked
    assert (checker.before.available, checker.before.free) == (before.available, before.free)
    assert request.grow(checker, 1, (2,) * 4) is not None
    assert asked
