"""Copies that go by their path, and writes: what a cache may do with too little room, in a few calls, at every depth.

Drawn schedules rarely get there; what is legal is a null mutant, and what it does is asserted too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvlitmus.conformance.checker.calls.components import storing as component_storing
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions.components.tree import use
from kvlitmus.conformance.litmus.components.host import ENDS, back_up, end, evict_host, load
from kvlitmus.conformance.litmus.components.storing import write
from kvlitmus.conformance.litmus.components.tree import evict_all, locked
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import play
from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS, COMPONENT_WRITE_CONFIGS
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.specimen.cache import ComponentTarget
from kvlitmus.mutants.registry import mutant_of
from kvlitmus.spec.prefix.components.calls import Copying
from kvlitmus.spec.prefix.components.copies import copy_plans, plan_for
from kvlitmus.spec.prefix.work_calls import LoadBack

HYBRID = replace(COMPONENT_HOST_CONFIGS[0], pages=24)
GROUPS = COMPONENT_HOST_CONFIGS[2]
STORED = replace(GROUPS, pages=30, host_pages=20, storage="attached")
STORED_HYBRID = replace(HYBRID, storage="attached")
WINDOW_ALONE = 0x05


def cached(checker: Checker, *ways: str) -> None:
    """These keys are computed, one after the other, and their ends cached."""
    for one in ways:
        use(checker, prompt(checker, one), ENDS)


def backed(checker: Checker, *ways: str) -> None:
    """These keys are computed and backed up, one after the other."""
    for one in ways:
        cached(checker, one)
        back_up(checker, prompt(checker, one))
        end(checker)


def running(checker: Checker, *ways: str) -> None:
    """These keys are computed and are being backed up."""
    for number, one in enumerate(ways, 1):
        cached(checker, one)
        back_up(checker, prompt(checker, one), number=number)


@pytest.mark.parametrize(("extent", "load"), [("boundary", False), ("boundary", True), ("path", False), ("path", True)])
def test_a_backup_by_its_path_alone_makes_room_in_parts(extent: str, load: bool) -> None:
    target = ComponentTarget()
    profile = replace(target.profile, component_extent=extent)
    checker = Checker(target.make(GROUPS), GROUPS, profile)
    path = checker.path(prompt(checker, "ab"))
    plan = plan_for(checker.setting, checker.state, path, len(path.names), load=load)
    assert plan.parts == (extent == "path" and not load)


@pytest.mark.parametrize("start", [4, 8, 12])
def test_a_refused_load_may_have_been_for_each_boundary_behind_its_start(start: int) -> None:
    """Without a snapshot nobody knows whether the end of *abcd* has gone from the host."""
    target = ComponentTarget()
    checker = Checker(target.make(HYBRID), HYBRID, target.profile, depth=1)
    backed(checker, "ab", "abcd")
    evict_all(checker)
    cached(checker, "ab")
    evict_host(checker, {"kv": 1})

    load_back = LoadBack(checker.path(prompt(checker, "abcd")), start=start)
    plans = copy_plans(checker.setting, checker.state, load_back, Copying(None))

    assert [one.boundary for one in plans] == [end for end in (8, 16) if end > start]


def no_state_but_its_own(checker: Checker) -> None:
    """The host has no place for a state, and nobody else's to evict: only one of an earlier boundary of the path."""
    backed(checker, "ab")
    running(checker, "uv", "wx", "yz")
    cached(checker, "abcd")
    assert not back_up(checker, prompt(checker, "abcd"))


def a_load_evicts_what_has_no_room(checker: Checker) -> None:
    """What a load back evicts is backed up first: the host has no state to spare but one of the path that is loaded."""
    backed(checker, "wxyz")
    evict_host(checker, {"state": 1})
    backed(checker, "ab", "abcd")
    evict_all(checker)
    cached(checker, "pq", "rs", "tu")
    assert load(checker, prompt(checker, "abcd")) == 4
    assert "begun by itself → None, evicted" in checker.history[-1]


def a_load_is_refused_for_which_a_backup_stops(checker: Checker) -> None:
    """The same of a load back that is refused in the end, and a backup of which the first part had room."""
    backed(checker, "a", "ab", "abc", "abcd", "abcde")
    evict_all(checker)
    cached(checker, "p", "pq", "rs")
    locked(checker, prompt(checker, "rs"), 0)
    components.alloc(checker, {"kv": checker.setting.layout.places["kv"] - 4})
    load(checker, prompt(checker, "abcde"))
    assert "→ None, evicted" in checker.history[-1] and "for 8 units" in checker.history[-1]


def nodes_go_for_each_part(checker: Checker) -> None:
    """A backup of two parts evicts two pages for each, and for each a page more than that is left of a node."""
    for ways in ("abc", "d", "efg", "hij", "klm", "nop"):
        backed(checker, ways)
        evict_all(checker)
        evict_host(checker, {"state": 1, "swa": 2})
    cached(checker, "qr", "qrst")
    back_up(checker, prompt(checker, "qrst"))
    assert "evicted kv 7" in checker.history[-1]


def a_shared_pool_is_spent_on_the_first_parts(checker: Checker) -> None:
    """Of KV and windows there is enough to evict, but no state: the first parts have taken what the last one lacks."""
    for ways in ("ab", "cd", "ef", "gh", "ij"):
        backed(checker, ways)
        evict_all(checker)
        evict_host(checker, {"state": 1})
    cached(checker, "kl", "klmn", "klmnop", "klmnopqr")
    assert back_up(checker, prompt(checker, "klmnopqr"))
    assert "28:" not in checker.history[-1]


def what_a_backup_has_not_reached(checker: Checker) -> None:
    """A backup stops before a state that has gone from the host unseen: it isn't there afterwards."""
    for number, ways in enumerate(("op", "qr"), 1):
        backed(checker, ways)
        write(checker, prompt(checker, ways), number=number)
    backed(checker, "abcdef", "yz")
    evict_host(checker, {"state": 2})
    components.match(checker, prompt(checker, "abcdef"))
    evict_host(checker, {"swa": 1})
    components.match(checker, prompt(checker, "op"))
    components.match(checker, prompt(checker, "qr"))
    components.evict(checker, {"kv": 2})
    cached(checker, "ab", "abcd")
    assert back_up(checker, prompt(checker, "abcdef"))
    assert "16:" not in checker.history[-1]
    end(checker)
    for number in (1, 2):
        component_storing.written(checker, number)
    evict_host(checker, {"state": 9})


def an_insert_refills_what_a_backup_pins(checker: Checker) -> None:
    """A backup stops early, and an insert brings KV and windows for what it has not reached."""
    running(checker, "uv", "wx", "yz")
    cached(checker, "ab", "abcdef")
    assert back_up(checker, prompt(checker, "abcdef"))
    use(checker, prompt(checker, "abcd"), WINDOW_ALONE)
    assert "left kv [" in "".join(checker.history[-3:])


def a_state_comes_to_the_host_during_a_load(checker: Checker) -> None:
    """A load back runs whose state may be on the host, and isn't; a backup brings it, and it may go for others."""
    backed(checker, "ab", "abc")
    evict_host(checker, {"kv": 1, "state": 1})
    components.evict(checker, {"swa": 4})
    assert load(checker, prompt(checker, "abc")) == 2
    cached(checker, "abd")
    assert back_up(checker, prompt(checker, "abd"), number=1)
    assert "state {2: " in checker.history[-1]
    end(checker, number=1)
    for number, one in enumerate("ef", 2):
        cached(checker, one)
        assert back_up(checker, prompt(checker, one), number=number)
        assert "state 1" in checker.history[-1]


def what_storage_has_alone(checker: Checker) -> None:
    """The host has lost the window of a key, which storage has: what storage lacks can be read, and is written."""
    backed(checker, "ab")
    evict_host(checker, {"swa": 2})
    key, ends = prompt(checker, "ab"), [checker.size, 2 * checker.size]
    assert write(checker, key, {"swa": ends})
    assert {name for name, _ in component_storing.writes(checker.state)[0].landing} == {"kv", "state"}
    component_storing.written(checker, 0)


SCENES: tuple[tuple[str, str, Config, Callable[[Checker], None]], ...] = (
    ("copies", "component-copies-pin-their-path", HYBRID, no_state_but_its_own),
    ("copies", "component-copies-pin-their-path", COMPONENT_WRITE_CONFIGS[3], a_load_evicts_what_has_no_room),
    (
        "copies",
        "component-copies-go-by-nodes",
        COMPONENT_WRITE_CONFIGS[2],
        a_load_is_refused_for_which_a_backup_stops,
    ),
    ("copies", "component-backups-evict-nodes-for-each-part", COMPONENT_HOST_CONFIGS[0], nodes_go_for_each_part),
    ("copies", "component-backups-go-by-the-path", GROUPS, a_shared_pool_is_spent_on_the_first_parts),
    ("copies", "component-backups-pin-their-path", STORED, what_a_backup_has_not_reached),
    (
        "copies",
        "component-backups-pin-their-path",
        COMPONENT_HOST_CONFIGS[1],
        a_state_comes_to_the_host_during_a_load,
    ),
    ("copies", "component-copies-keep-what-a-refill-brings", HYBRID, an_insert_refills_what_a_backup_pins),
    ("storing", "component-write-of-what-it-can-read", STORED_HYBRID, what_storage_has_alone),
)


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize(("part", "id", "config", "scene"), SCENES, ids=lambda one: getattr(one, "__name__", None))
def test_a_legal_cache_is_not_accused(
    part: str, id: str, config: Config, scene: Callable[[Checker], None], depth: int
) -> None:
    target = mutant_of(f"legal.components.{part}", id).target
    _, violation = play(target, config, Options(depth=depth), scene)
    assert violation is None
