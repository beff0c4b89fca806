"""Caches of components judged alone: odd answers are named, mutants killed, and legal caches spared."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from kvlitmus.conformance.checker.calls.components import host as component_host
from kvlitmus.conformance.checker.calls.components import prefetch as component_prefetch
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import allowed_text
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.actions.components.tree import use
from kvlitmus.conformance.litmus.components.host import back_up, backed, end, load
from kvlitmus.conformance.litmus.components.tree import ALL, store
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.run.targets import load_target, resolve_target
from kvlitmus.conformance.specimen.cache import ComponentTarget
from kvlitmus.conformance.specimen.components.host import ComponentCopier, ComponentHierarchy
from kvlitmus.conformance.specimen.components.tree import ComponentJournal, ComponentSpecimen
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.mutants.components.events import EventsForgetAReset, EventsForgetTombstones, EventsOfTheKvAlone
from kvlitmus.mutants.legal.components.host import BackupForeseesItsRefusal
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.units import Key

CONFIG = Config(page_size=4, pages=16, components="kv+swa")


class Odd(ComponentSpecimen):
    """A cache that gives one odd answer."""

    entries: Any = None
    length: int | None = None

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        length, entries, handle = super().component_match(key)
        return length if self.length is None else self.length, entries, handle

    def component_entries(self) -> list[Any]:
        found = super().component_entries()
        return found if self.entries is None else self.entries


def odd(**answers: Any) -> Checker:
    """What judges a cache that gives these answers."""
    one = Odd(CONFIG, Parts(), PROFILE)
    vars(one).update(answers)
    return Checker(one, CONFIG, PROFILE)


@pytest.mark.parametrize(("length", "rule"), [(40, "TREE-02"), (10**13, "PORT-03")])
def test_a_hit_beyond_its_key_is_no_boundary_however_long_it_is(length: int, rule: str) -> None:
    checker = odd(length=length)
    with pytest.raises(Violation) as found:
        components.match(checker, prompt(checker, "ab"))
    assert rule in found.value.rules


def test_a_hit_that_is_too_long_says_which_component_lacks_what_for_it() -> None:
    checker = odd()
    key = prompt(checker, "ab")
    store(checker, key)
    components.evict(checker, {"swa": 2})
    vars(checker.adapter)["length"] = 8
    with pytest.raises(Violation) as found:
        components.match(checker, key)
    told = allowed_text(all_rules()["TREE-02"], checker.names, found.value.facts)
    valid = "by the profile's match_cap, the largest admitted boundary that is valid for all components"
    assert told == f"component kv: 0 to 0 units, {valid}; swa lacks what ends at 4, 8"


@pytest.mark.parametrize(
    "row",
    [
        ([], None, (1, 2, 3, 4), 3),
        ("kv", 5, (1, 2, 3, 4), 3),
        ("kv", [], (1, 2, 3, 4), 3),
        ("kv", None, "abcd", 3),
        ("kv", None, ("a", "b", "c", "d"), 3),
        ("kv", None, (1.5, 2, 3, 4), 3),
        ("kv", None, ([1], 2, 3, 4), 3),
        ("kv", None, None, 3),
        ("kv", None, (), 3),
    ],
    ids=str,
)
def test_a_snapshot_of_another_form_breaks_the_port(row: object) -> None:
    checker = odd(entries=[row])
    with pytest.raises(Violation) as found:
        store(checker, prompt(checker, "ab"))
    assert found.value.rules == ("PORT-03",)


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("component_available", 7, "expected a mapping by kv, swa, got 7 of type int"),
        ("component_available", {"kv": 12}, "expected a count for each of kv, swa, got {'kv': 12}: swa is missing"),
        ("component_available", {}, "expected a count for each of kv, swa, got {}: kv, swa are missing"),
        ("component_available", {"kv": "0", "swa": 8}, "expected a count, an integer from 0 on, got '0' of type str"),
        ("component_sizes", {"kv": (1, 0)}, "expected a count for each of kv, swa, got {'kv': (1, 0)}: swa is missing"),
        ("component_sizes", {"kv": 3, "swa": (0, 0)}, "expected (evictable, protected), got 3"),
        ("component_sizes", {"kv": ("1", 0), "swa": (0, 0)}, "expected (evictable, protected), integers, got ('1', 0)"),
        ("component_free_places", {"kv": 3}, "expected a sequence of places, got 3 of type int"),
        ("component_free_places", {"swa": [0]}, "expected a list of places for each of kv, swa, got {'swa': (0,)}: kv"),
        ("component_entries", [("tail", None, (1, 2, 3, 4), 0)], "expected an entry of kv, swa, got ('tail', None,"),
        ("component_events", [("stored",)], "expected (what, tier, component, namespace, units), got ('stored',)"),
    ],
)
def test_a_look_of_another_form_is_named_and_not_the_call_before(
    monkeypatch: pytest.MonkeyPatch, method: str, answer: object, said: str
) -> None:
    monkeypatch.setattr(Odd, method, lambda _: answer)
    with pytest.raises(Violation) as found:
        store(odd(), Key(None, tuple(range(8))))
    assert found.value.rules == ("PORT-03",)
    assert found.value.detail.startswith(f"{method}: {said}")


HOST = Config(page_size=4, pages=20, host_pages=16, write="asked", components="kv+swa+state")


def hierarchy(config: Config, parts: Parts | None = None, *, depth: int = 3) -> Checker:
    """What judges a cache with host memory, or with the ports of one."""
    return Checker(ComponentHierarchy(config, parts or Parts(), PROFILE), config, PROFILE, depth=depth)


def test_a_pool_of_the_host_that_is_left_out_breaks_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = hierarchy(HOST)
    monkeypatch.setattr(ComponentHierarchy, "component_free_host", lambda _: {"kv": []})
    with pytest.raises(Violation) as found:
        store(checker, prompt(checker, "ab"))
    assert found.value.detail.startswith(
        "component_free_host: expected a list of places for each of kv, swa, state, got"
    )


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_what_lands_after_a_load_began_is_not_taken_to_be_needed_by_it(depth: int) -> None:
    checker = hierarchy(HOST, depth=depth)
    key = prompt(checker, "ab")
    backed(checker, key)
    component_host.evict_host(checker, {"swa": 1})  # one of two: which is not known
    components.evict(checker, {"state": 4})
    load(checker, key, number=0)
    use(checker, key, ALL)
    back_up(checker, key, number=1)
    end(checker, number=1)  # brings the window's entry that was gone when the load began
    freed = component_host.evict_host(checker, {"swa": 8})
    assert freed["swa"] == 1
    end(checker, number=0)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("copier", [BackupForeseesItsRefusal, ComponentCopier])
def test_who_refuses_a_backup_need_not_evict_for_it(copier: type[ComponentCopier], depth: int) -> None:
    config = Config(page_size=4, pages=20, host_pages=6, write="asked", components="kv+swa")
    checker = hierarchy(config, Parts(component_copies=copier), depth=depth)
    backed(checker, prompt(checker, "a"))
    for number, ways in enumerate(("bcde", "fghi")):
        use(checker, prompt(checker, ways), ALL)
        begun = back_up(checker, prompt(checker, ways), number=number)
        assert begun == (number == 0)


@pytest.mark.parametrize("places", [{"kv": {4: 17}}, {"kv": 3}, {"tail": {}}, [17]], ids=str)
@pytest.mark.parametrize("depth", [0, 3])
def test_a_refused_copy_has_no_places(monkeypatch: pytest.MonkeyPatch, depth: int, places: object) -> None:
    monkeypatch.setattr(ComponentHierarchy, "component_back_up", lambda *_: (None, places, {}))
    checker = hierarchy(HOST, depth=depth)
    key = prompt(checker, "ab")
    use(checker, key, ALL)
    with pytest.raises(Violation) as found:
        back_up(checker, key, number=0)
    assert found.value.rules == ("PORT-03",)


@pytest.mark.parametrize("places", [None, {}, {"kv": {}}], ids=str)
def test_a_refused_copy_may_say_in_any_way_that_it_has_none(monkeypatch: pytest.MonkeyPatch, places: object) -> None:
    monkeypatch.setattr(ComponentHierarchy, "component_back_up", lambda *_: (None, places, {}))
    small = Config(page_size=4, pages=20, host_pages=2, write="asked", components="kv+swa")
    checker = hierarchy(small, depth=0)
    key = prompt(checker, "abcd")
    use(checker, key, ALL)
    assert not back_up(checker, key, number=0)


@pytest.mark.parametrize("reserved", [{"kv": [3]}, {"kv": 3}], ids=str)
def test_a_refused_prefetch_has_no_places(monkeypatch: pytest.MonkeyPatch, reserved: object) -> None:
    monkeypatch.setattr(Odd, "component_prefetch", lambda *_: (None, reserved, {}))
    checker = odd()
    key = prompt(checker, "ab")
    with pytest.raises(Violation) as found:
        component_prefetch.prefetch(checker, key, 0, None, 4, 0)
    assert found.value.rules == ("PORT-03",)


class Secretive(tuple[object, ...]):
    """A row that can't be gone through."""

    __slots__ = ()

    def __iter__(self) -> Iterator[object]:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "event",
    [
        ("stored", "device", "kv", None),
        ("stored", "device", "tail", None, (1, 2, 3, 4)),
        ("stored", "device", "kv", 5, (1, 2, 3, 4)),
        ("stored", "device", "kv", None, ()),
        (1, "device", "kv", None, (1, 2, 3, 4)),
        Secretive(("stored", "device", "kv", None, ())),
        "stored",
    ],
)
def test_an_event_of_another_form_breaks_the_port(monkeypatch: pytest.MonkeyPatch, event: object) -> None:
    monkeypatch.setattr(Odd, "component_events", lambda _: [event])
    with pytest.raises(Violation) as found:
        store(odd(), Key(None, tuple(range(8))))
    assert found.value.rules == ("PORT-03",)


@pytest.mark.parametrize(
    "event",
    [
        ("moved", "device", "kv", None, (1, 2, 3, 4)),
        ("stored", "disk", "kv", None, (1, 2, 3, 4)),
        ("stored", "host", "kv", None, (1, 2, 3, 4)),
        ("removed", "device", "kv", None, (10**5000, 2, 3, 4)),
    ],
    ids=["what", "tier", "no host", "a huge unit"],
)
def test_an_event_that_there_is_not_makes_no_sense(monkeypatch: pytest.MonkeyPatch, event: object) -> None:
    monkeypatch.setattr(Odd, "component_events", lambda _: [event])
    with pytest.raises(Violation) as found:
        store(odd(), Key(None, tuple(range(8))))
    assert "EVENT-01" in found.value.rules


def hits_between_changes(checker: Checker) -> None:
    """A key is cached and found, loses its window, is cached anew and found, and is forgotten."""
    for change in (partial(components.evict, checker, {"swa": 16}), partial(components.reset, checker)):
        store(checker, prompt(checker, "abcd"))
        components.match(checker, prompt(checker, "abcd"))
        change()
        components.match(checker, prompt(checker, "abcd"))


@pytest.mark.parametrize(
    ("journal", "rule"),
    [(EventsForgetTombstones, "EVENT-09"), (EventsOfTheKvAlone, "EVENT-08"), (EventsForgetAReset, "EVENT-09")],
)
def test_events_are_judged_by_hits_where_nobody_looks(journal: type[ComponentJournal], rule: str) -> None:
    """Nothing is known for certain of what an eviction left, but hits say it."""
    cache = ComponentSpecimen(CONFIG, Parts(component_journal=journal), PROFILE)
    checker = Checker(cache, CONFIG, PROFILE, depth=2, muted=frozenset({"EVENT-01", "EVENT-04", "EVENT-02"}))
    with pytest.raises(Violation) as found:
        hits_between_changes(checker)
    assert found.value.rules == (rule,)


class OneClass(ComponentHierarchy):
    """A cache that has one class for both: without memory on the host it counts none there, and can't copy."""

    def component_available_host(self) -> dict[str, int]:
        """No place of any pool."""
        return {pool: len(self.host.free.get(pool, ())) for pool in self.layout.places}

    def component_free_host(self) -> dict[str, list[int]]:
        """No place of any pool."""
        return {pool: list(self.host.free.get(pool, ())) for pool in self.layout.places}


class OneClassTarget(ComponentTarget):
    """A target that makes one class for all configurations."""

    def make(self, config: Config) -> OneClass:
        """A fresh cache."""
        return OneClass(config, self.parts, self.profile)


@pytest.mark.parametrize("config", [CONFIG, HOST], ids=str)
def test_nothing_is_asked_of_the_host_where_there_is_none(config: Config) -> None:
    for item in plan.items([config], PROFILE, steps=1):
        result = engine.run_item(OneClassTarget(), item, Options(shrink_trials=0))
        assert not result.error and not result.findings, (item.id, result.findings)


@pytest.mark.parametrize("name", ["specimen", "components", "component-requests", "reference-components"])
def test_what_keeps_no_components_is_refused(name: str) -> None:
    made = load_target(resolve_target(name)).make
    assert made(Config(page_size=4, pages=24, components="groups"))
    if name != "specimen":
        with pytest.raises(Unsupported, match="this is a cache of components"):
            made(Config(page_size=4, pages=24))
