"""No unknown reads as passed: what an adapter leaves out, no rule says was right.

An adapter may leave some things out: the optional fields of what it answers and shows.  Each of them is left out of a
specimen, and told wrongly by another one.  The rules that notice the wrong one depend on it; on the first specimen none
of them may read *passed*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest

from kvlitmus.conformance.ports import Config, NodeView
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import CONFIGS, TIER_CONFIGS, items
from kvlitmus.conformance.run.results import Options, Verdict
from kvlitmus.conformance.run.verdicts import Scope, conclude
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.spec.interface import Hit, Loaded, Prefetched, Stored, TierNode
from kvlitmus.spec.parts import all_rules

ANSWERS: tuple[type, ...] = (Hit, Stored, NodeView, TierNode, Prefetched, Loaded)
"""What adapters answer and show, in which fields may be left out."""

MEANS_SOMETHING = {
    "Hit.handle": "it may be anything; None is a handle, too",
    "Stored.to_free": "None is an answer: what the profile's duplicates says",
    "NodeView.namespace": "None is a namespace",
    "TierNode.namespace": "None is a namespace",
    "TierNode.slots": "None says that the node is not on the device",
    "TierNode.host": "None says that the node is not on the host",
    "Loaded.slots": "None says that nothing is loaded",
}
"""Optional fields whose ``None`` is no want of knowledge, with what it means."""


Tell = Callable[[Any, int], Any]
"""How one thing is told, the so manieth time that something is answered."""


class Way(NamedTuple):
    """How to tell something wrongly, the so manieth time; the configurations in which that is noticed."""

    wrong: Tell
    configs: tuple[Config, ...]


FLAT, TIERED = (CONFIGS[1],), TIER_CONFIGS[:1]


def more(value: int, _: int) -> int:
    """One more."""
    return value + 1


def now_and_then(value: int, times: int) -> int:
    """One more every other time."""
    return value + times % 2


def forgotten(locks: int, _: int) -> int:
    """None where there is more than one lock."""
    return locks if locks < 2 else 0


def other(slots: Any, _: int) -> Any:
    """The last slot of them is another."""
    return (*slots[:-1], slots[-1] + 1) if len(slots) else slots


OPTIONAL: dict[str, Way] = {
    "Hit.slots": Way(other, FLAT),
    "Hit.host": Way(more, TIERED),
    "NodeView.locks": Way(forgotten, FLAT),
    "NodeView.hits": Way(more, FLAT),
    "NodeView.priority": Way(more, FLAT),
    "TierNode.locks": Way(forgotten, TIERED),
    "TierNode.hits": Way(more, TIERED),
    "TierNode.priority": Way(more, TIERED),
    "TierNode.pins": Way(now_and_then, TIERED),
    "Prefetched.anchor": Way(more, TIERED),
    "evict_host": Way(more, TIERED),
}
"""What may be left out: a field of an answer, or the answer of a method."""

NO_NODES = "where nothing is in the tree nothing can be protected, and the rule says more than that"
BEGUN = "what a request finds is told by its row"
STILL_JUDGED = {
    ("TierNode.pins", "FETCH-02"): NO_NODES,
    ("TierNode.pins", "FETCH-17"): NO_NODES,
    ("Hit.slots", "TREE-03"): BEGUN,
}
"""Where a rule that depends on a thing can be judged without it, with the reason."""

OUTSIDE = ("PORT", "MISUSE")
"""What is told wrongly may make the suite's own calls wrong: what these parts say of that depends on nothing."""


def optional_fields() -> Iterator[str]:
    """The fields that may be ``None``."""
    for one in ANSWERS:
        for name, hint in get_type_hints(one).items():
            if type(None) in get_args(hint) or hint is object:
                yield f"{one.__name__}.{name}"


def retold(answer: Any, what: str, tell: Callable[[Any], Any]) -> Any:
    """An answer in which one thing is told otherwise."""
    kind, _, name = what.partition(".")
    if type(answer).__name__ == kind:
        value = getattr(answer, name)
        return answer if value is None else answer._replace(**{name: tell(value)})
    if hasattr(answer, "nodes"):
        return answer._replace(nodes=[retold(node, what, tell) for node in answer.nodes])
    return answer


class Retelling:
    """A specimen that tells one thing otherwise."""

    def __init__(self, cache: Any, what: str, tell: Tell) -> None:
        self._cache = cache
        self._what = what
        self._tell = tell
        self._times = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cache, name)
        if not callable(found) or name.startswith("_"):
            return found
        what = self._what

        def tell(value: Any) -> Any:
            return self._tell(value, self._times)

        def method(*args: Any, **kwargs: Any) -> Any:
            self._times += 1
            answer = found(*args, **kwargs)
            if name == what:
                return None if answer is None else tell(answer)
            return retold(answer, what, tell)

        return method


class RetellingTarget(SpecimenTarget):
    """Makes such specimens."""

    def __init__(self, what: str, tell: Tell) -> None:
        super().__init__()
        self.what = what
        self.tell = tell

    def make(self, config: Config) -> Any:
        """A fresh one."""
        return Retelling(super().make(config), self.what, self.tell)


def nothing(_: Any, __: int) -> None:
    """What is told by who leaves it out."""


def played(what: str, tell: Tell) -> list[Any]:
    """Some items, played with what tells one thing so; where a rule is broken, again without it."""
    target = RetellingTarget(what, tell)
    options = Options(reruns=10, shrink_trials=0)
    return [run_item(target, item, options) for item in items(OPTIONAL[what].configs, target.profile, steps=250)]


def dependent(what: str) -> set[str]:
    """The rules that notice that a thing is told wrongly."""
    found = [finding for result in played(what, OPTIONAL[what].wrong) for finding in result.findings]
    return {rule for one in found for rule in one.rules if rule.partition("-")[0] not in OUTSIDE}


def test_every_optional_field_is_left_out_once_or_means_something() -> None:
    assert {*OPTIONAL, *MEANS_SOMETHING} - {"evict_host"} == set(optional_fields())
    assert OPTIONAL.keys().isdisjoint(MEANS_SOMETHING)


AT_NIGHT = {"Hit.host", "TierNode.hits", "TierNode.locks", "TierNode.pins", "TierNode.priority", "Prefetched.anchor"}
"""Fields of hierarchies; by day those are left out that a port or an answer lacks, and of all every second one."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=[pytest.mark.nightly] * (what in AT_NIGHT or place % 4 > 0))
        for place, what in enumerate(OPTIONAL)
    ],
)
def test_what_is_left_out_no_rule_says_was_right(what: str) -> None:
    results = played(what, nothing)
    assert [finding.rules for result in results for finding in result.findings] == []
    assert [result.error for result in results if result.error] == []
    depends = dependent(what)
    assert depends, "no rule looks at it"
    judged = sum([result.evaluated for result in results], Counter[str]())
    assert [rule for rule in sorted(depends) if judged[rule] and (what, rule) not in STILL_JUDGED] == []
    for verdict in conclude({rule: all_rules()[rule] for rule in sorted(depends)}, results, (), Scope(full=False)):
        if (what, verdict.rule) not in STILL_JUDGED:
            assert verdict.verdict is Verdict.NOT_APPLICABLE, verdict
            assert "not decidable" in verdict.reason, verdict
