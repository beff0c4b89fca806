"""A pool of components on both tiers is judged as the plain hierarchy that it is: each of these laws names a bug."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import WHERE
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import configs_of
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import component_target
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.components.hierarchy import LAWS
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State

HOSTED = tuple(one for one in configs_of(component_target) if one.host_pages)
STORED = tuple(one for one in HOSTED if one.storage != "none")[:3]


class OnBoth(Checker):
    """Judges pools on both tiers alone, whatever else is broken."""

    def lifted(self, one: Lifted[State, Seen]) -> None:
        if one.laws:
            self.own_judge.broken = ()
            super().lifted(one)


Change = Callable[[Any], Any]
When = Callable[[Any, Any], bool]


class Tampered:
    """A cache of which one look is ``changed`` after each call of a ``method`` that was answered so (``when``)."""

    def __init__(self, inner: Any, method: str, looks: tuple[str, ...], changed: Change, when: When) -> None:
        self.inner, self.method, self.looks, self.changed, self.when = inner, method, looks, changed, when
        self.calls, self.wrong = 0, False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name != self.method and name not in self.looks:
            return found

        def called(*args: Any) -> Any:
            answer = found(*args)
            if name == self.method:
                self.calls += 1
                self.wrong = self.calls > SOUND.get(name, 0) and self.when(answer, args)
            return self.changed(answer) if self.wrong and name in self.looks else answer

        return called


def nothing(_: Sequence[Any]) -> list[Any]:
    return []


def one_more(rows: Sequence[Any]) -> list[Any]:
    """An entry that nobody brought."""
    return [*rows, ("kv", "nobody's", (1, 1, 1, 1), 99)]


def miscounted(counts: dict[str, int]) -> dict[str, int]:
    return {name: many + 1 for name, many in counts.items()}


def always(_: Any, __: Any) -> bool:
    return True


def refused(answer: Any, _: Any) -> bool:
    return answer[0] is None


def loaded(_: Any, args: Any) -> bool:
    """Whether a load back has ended well: the specimen hands out its copies as they are."""
    return bool(args[1] and args[0].load)


def failed(_: Any, args: Any) -> bool:
    return not args[1]


SOUND = {"component_insert": 15}
"""So many calls are looked at rightly: there has to be something before it is gone."""

DEVICE, HOST, COUNT = ("component_entries",), ("component_host_entries",), ("component_available_host",)

WRONG_LOOKS = [
    ("TIER-09", "component_insert", COUNT, miscounted, always),
    ("TIER-12", "component_prefetch_found", DEVICE + HOST, nothing, always),
    ("TIER-17", "component_evict_host", ("component_evict_host",), miscounted, always),
    ("TIER-32", "component_reset", COUNT, miscounted, always),
    ("TIER-33", "component_match", COUNT, miscounted, always),
    ("TIER-41", "component_insert", HOST, nothing, always),
    ("LOAD-04", "component_load", DEVICE, one_more, refused),
    ("LOAD-05", "component_copied", HOST, nothing, loaded),
    ("LOAD-09", "component_copied", HOST, nothing, failed),
    ("FETCH-02", "component_prefetch", DEVICE, one_more, refused),
    ("FETCH-12", "component_prefetch_commit", DEVICE, one_more, always),
    ("FETCH-13", "component_prefetch_commit", DEVICE, nothing, always),
    ("FETCH-14", "component_prefetch_abort", HOST, nothing, always),
    ("FETCH-12", "component_prefetch_abort", DEVICE, one_more, always),
    ("LIFE-01", "component_reset", DEVICE, one_more, always),
    ("LIFE-04", "component_attach", HOST, nothing, always),
]


SEEDS = {
    "TIER-12": 1,
    "LOAD-09": 1,
    "FETCH-13": 1,
    "LOAD-01": 2,
    "LOAD-02": 1,
    "TIER-04": 2,
    "FETCH-01": 1,
    "FETCH-04": 1,
}
"""Of what the first schedules don't break, the one that does: it is played first."""


def broken(make: Callable[[Config], Any], configs: Sequence[Config], rule: str) -> str:
    """How a schedule breaks this rule of such a pool first, where all others are muted."""
    muted = frozenset(all_rules()) - {rule}
    for seed in dict.fromkeys((SEEDS.get(rule, 0), *range(8))):
        for config in configs:
            checker = OnBoth(make(config), config, component_target.profile, muted=muted)
            try:
                Interpreter(checker).play(draw(seed, 150, table(checker.capabilities)))
            except Violation as violation:
                return str(violation.facts[WHERE]) if violation.rules == (rule,) else ""
    raise AssertionError(f"{rule} is not broken")


@pytest.mark.parametrize(
    ("rule", "method", "looks", "changed", "when"), WRONG_LOOKS, ids=[one[0] for one in WRONG_LOOKS]
)
def test_a_look_that_breaks_a_law_of_hierarchies_is_named(
    rule: str, method: str, looks: tuple[str, ...], changed: Change, when: When
) -> None:
    def make(config: Config) -> Any:
        return Tampered(component_target.make(config), method, looks, changed, when)

    assert broken(make, STORED, rule).endswith("on both tiers")


MUTANTS = {
    "LOAD-01": "component-load-of-half-a-window",
    "LOAD-02": "component-load-keeps-old-pairs",
    "LOAD-11": "component-load-of-any-namespace",
    "TIER-04": "component-backup-once-for-all-namespaces",
    "TIER-11": "component-write-protects-nothing",
    "TIER-13": "component-host-goes-with-the-device",
    "TIER-42": "component-copy-seen-too-early",
    "LOAD-08": "component-failed-copy-stays",
    "FETCH-01": "component-prefetch-while-storage-is-away",
    "FETCH-04": "component-index-is-used-before-it-is-loaded",
    "LIFE-08": "component-failed-copy-leaks",
    "LIFE-16": "component-failed-copy-leaks",
}
"""Of laws of hierarchies the mutants of components that break them too."""


@functools.cache
def mutants() -> dict[str, Any]:
    return {one.id: one for one in all_mutants().values()}


@pytest.mark.parametrize("rule", MUTANTS)
def test_a_mutant_of_components_breaks_the_law_of_hierarchies_too(rule: str) -> None:
    one = mutants()[MUTANTS[rule]]
    assert broken(one.target.make, [config for config in one.configs if config.host_pages], rule)


def test_each_of_these_laws_is_shown_to_bite() -> None:
    shown = {*MUTANTS, *[one[0] for one in WRONG_LOOKS]}
    assert shown == LAWS


LOOKING = ("counters", "sizes", "view", "host_counters", "host_view", "events")


@pytest.mark.parametrize("port", LOOKING)
def test_no_cache_is_accused_of_what_it_does_not_show(port: str) -> None:
    play = Item(kind="random", config=HOSTED[0], seed=1, ops=40)
    found = run_item(component_target, play, Options(without=frozenset(PORTS[f"component_{port}"])))
    assert (found.findings, found.steps > 40) == ([], True)
