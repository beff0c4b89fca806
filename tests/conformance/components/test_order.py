"""The order in which components are evicted: what is certain of a use, and what is passed over (COMP-63)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.run.targets import load_target, resolve_target
from kvlitmus.conformance.specimen.cache import component_target
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.facts import UNKNOWN
from kvlitmus.spec.prefix.calls import Evict, Insert, Lock, Match, Unlock
from kvlitmus.spec.prefix.components import order as facts
from kvlitmus.spec.prefix.components import steps
from kvlitmus.spec.prefix.components.calls import ComponentHit, PoolsSeen, Taken
from kvlitmus.spec.prefix.components.entries import without
from kvlitmus.spec.prefix.components.evictions import rightly_gone
from kvlitmus.spec.prefix.components.state import at_first, path_of_units
from kvlitmus.spec.prefix.components.uses import uses_of, with_uses
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, LoadBack
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.policies import POLICIES
from kvlitmus.spec.words.setting import Setting
from tests.support.night import by_turns

CONFIG = Config(page_size=1, pages=8, components="kv+swa")


def setting_of(config: Config = CONFIG, **profile: Any) -> Setting:
    """What is judged: a cache whose entries go by the policy, seen with snapshots."""
    declared = replace(PROFILE, component_order="policy", **profile)
    return Setting(config, declared, 3, frozenset({"components", "component_view"}))


class Use(NamedTuple):
    """When an entry was used last, and when it came; and how often it was used."""

    touched: int
    created: int
    hits: int


class Bounds(NamedTuple):
    """What is certain of the use of an entry, and what is possible."""

    least: Use
    most: Use


class Played:
    """A cache whose answers are given, call by call, and what is known of it."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.state: State = at_first(empty_state(), setting)

    def path(self, units: str) -> Any:
        """The path of a key, one page for each letter."""
        return path_of_units(self.setting, None, [ord(unit) for unit in units])

    def insert(self, units: str, *, again: bool = False) -> None:
        """A key comes with KV and window, in the places of its letters; ``again``: all of it twice, from others."""
        path = self.path(units)
        first = 4 if again else 0
        brought: dict[At, int] = {
            (name, at): first + number
            for name in ("kv", "swa")
            for number, at in enumerate(path.names)
            if again or (name, at) not in self.state.places(DEVICE)
        }
        left = {name: tuple(place for (one, _), place in brought.items() if one == name) for name in ("kv", "swa")}
        self.step(Insert(path, brought), left if again else {})

    def match(self, units: str, length: int) -> None:
        """A hit of so many units."""
        self.step(Match(self.path(units)), ComponentHit(length, {}))

    def step(self, call: Any, answer: Any) -> None:
        """What is known after a call."""
        self.state = steps.step(self.state, self.setting, call, answer, PoolsSeen()).then

    def use(self, name: str, units: str, tier: str = DEVICE) -> Bounds:
        """What is known of the use of an entry."""
        least, most = uses_of(self.state.tier(tier, name), self.path(units).names[-1])
        return Bounds(*[Use(one.touched, one.created, one.hits) for one in (least, most)])


def test_what_is_certain_and_what_is_possible_of_a_use() -> None:
    """A hit uses what it names: all KV, and of the window the end.  That the rest was used, too, is possible."""
    play = Played(setting_of())
    play.insert("abcd")
    assert play.use("swa", "a") == Bounds(Use(1, 1, 0), Use(1, 1, 1))
    play.match("abcd", 4)
    assert play.use("kv", "a").least.touched == 2
    assert play.use("swa", "a") == Bounds(Use(1, 1, 0), Use(2, 1, 2)), "the window has left it behind"
    assert play.use("swa", "abcd").least.touched == 2
    path = play.path("abcd")
    play.step(Lock(path.names[-1], 0), {"kv": (1, 2, 3, 4), "swa": (4,)})
    play.step(Unlock(0), None)
    assert play.use("swa", "abcd").least.touched == 2, "that a receipt is a use is not certain"
    assert play.use("swa", "abcd").most.touched == 4


@pytest.mark.parametrize(("counts", "least"), [("insert", 1), ("match", 1), ("none", 0)])
def test_what_counts_the_profile_says(counts: str, least: int) -> None:
    play = Played(setting_of(hit_counts=counts))
    play.insert("ab")
    play.insert("ab", again=True)
    play.match("ab", 2)
    assert play.use("kv", "a").least.hits == least
    assert play.use("kv", "a").most.hits == 3


def test_what_replaces_an_entry_is_new() -> None:
    """It may have the time and the count of its own coming, or those that were there."""
    play = Played(setting_of(component_refill="replaces"))
    play.insert("a")
    play.insert("a", again=True)
    at = ("kv", play.path("a").names[-1])
    play.step(Insert(play.path("a"), {at: 6}), {})
    assert play.state.places(DEVICE)[at] == 6
    assert play.use("kv", "a") == Bounds(Use(1, 1, 0), Use(3, 3, 3))


def test_of_what_is_cached_twice_nobody_knows_which_was_used() -> None:
    play = Played(setting_of(component_copies="kept"))
    play.insert("a")
    play.state = play.state._replace(copies=frozenset({(("kv", play.path("a").names[-1]), 7)}))
    play.match("a", 1)
    assert play.use("kv", "a").least.touched == 1
    assert play.use("swa", "a").least.touched == 2


@pytest.mark.parametrize("landing", ["ended", "begun"])
def test_a_copy_takes_along_what_there_was_when_it_began(landing: str) -> None:
    """A hit while it runs uses what it reads, and not for certain what it brings; that may be new, or counted anew."""
    config = Config(page_size=1, pages=8, host_pages=8, write="asked", components="kv+swa")
    play = Played(setting_of(config, component_landing=landing, hit_counts="match"))
    play.insert("a")
    play.match("a", 1)
    path = play.path("a")
    play.step(BackUp(path, 1, 0), Taken({"kv": {1: 0}, "swa": {1: 0}}, boundary=1))
    play.match("a", 1)
    play.step(Copied(0, ok=True), {})
    assert play.use("kv", "a").least == Use(4, 1, 2)
    host = play.use("kv", "a", HOST)
    assert host.least == Use(2, 1, 0)
    assert host.most.touched == 5
    play.step(Evict({"kv": 1}), {"kv": 1})
    play.state = without(play.state, DEVICE, play.state.places(DEVICE))
    play.step(LoadBack(path, start=0, number=1), Taken({"kv": {1: 3}, "swa": {1: 3}}, boundary=1))
    play.step(Copied(1, ok=True), {})
    assert play.use("kv", "a").least == Use(2, 1, 0), "as on the host when the load began"
    assert play.use("kv", "a").most.touched == play.state.device.clock


def test_nothing_is_kept_where_nobody_asks() -> None:
    """A cache with an order of its own, one that evicts by node, and one that is not looked at."""
    others = (
        replace(PROFILE, component_order="own"),
        replace(PROFILE, component_order="policy", evict_granularity="node"),
    )
    settings = [Setting(CONFIG, one, 3, frozenset()) for one in others]
    settings.append(Setting(CONFIG, setting_of().profile, 2, frozenset()))
    for setting in settings:
        state = at_first(empty_state(), setting)
        assert with_uses(state, state, setting, Match(path_of_units(setting, None, [1])), None) is state
        assert not facts.judged(setting)


def evicted(play: Played, wants: dict[str, int], gone: set[At]) -> facts.Order | Any:
    """What an eviction chose between that took these."""
    held = {at: place for at, place in play.state.places(DEVICE).items() if at not in gone}
    call, seen = Evict(wants), PoolsSeen(held=held)
    known = steps.step(play.state, play.setting, call, {}, seen).then
    return facts.component_choosing(play.setting, play.state, call, {}, seen, known)


def two_keys(setting: Setting) -> Played:
    """Two keys of one page each, of which the first was hit again."""
    play = Played(setting)
    play.insert("a")
    play.insert("x")
    play.match("a", 1)
    return play


FIRST_GOES = ("fifo", "mru")
"""The policies by which the first of them goes."""


@pytest.mark.parametrize("policy", by_turns(["lru", "fifo", "mru", "filo"], every=5))
@pytest.mark.parametrize("cascade", ["none", "base", "leaf", "later"])
def test_what_is_worth_more_is_not_taken_first(policy: str, cascade: str) -> None:
    play = two_keys(setting_of(replace(CONFIG, policy=policy), component_cascade=cascade))
    first, second = [("swa", play.path(units).names[-1]) for units in ("a", "x")]
    right, wrong = (first, second) if policy in FIRST_GOES else (second, first)
    assert not facts.passed_over(play.setting, evicted(play, {"swa": 1}, {right}))
    assert facts.passed_over(play.setting, evicted(play, {"swa": 1}, {wrong})) == {right}


def test_what_goes_along_was_not_chosen() -> None:
    """With KV goes the window's entry of its prefix, whatever that is worth; who was chosen is judged alone."""
    play = two_keys(setting_of())
    gone: set[At] = {(name, play.path("a").names[-1]) for name in ("kv", "swa")}
    order = evicted(play, {"kv": 1, "swa": 1}, gone)
    assert {name for name, _ in order.taken} == {"kv"}
    whole = two_keys(setting_of(component_cascade="leaf"))
    gone = {(name, whole.path("a").names[-1]) for name in ("kv", "swa")}
    assert not evicted(whole, {"kv": 1, "swa": 1}, gone).taken, "either may have taken the other along"
    assert {name for name, _ in evicted(whole, {"kv": 1}, gone).taken} == {"kv"}


@pytest.mark.parametrize(("cascade", "along"), [("none", False), ("base", False), ("leaf", True), ("later", True)])
def test_kv_goes_with_a_window_that_was_asked_for_where_leaves_go_whole(cascade: str, along: bool) -> None:
    play = two_keys(setting_of(component_cascade=cascade))
    kv, window = [(name, play.path("a").names[-1]) for name in ("kv", "swa")]
    right = rightly_gone(play.setting, play.state, {"swa": 1}, {kv, window})
    assert right == ({kv, window} if along else {window})


@pytest.mark.parametrize("seed", [9, 11, 12])
def test_what_went_with_an_entry_that_comes_again_was_not_chosen(seed: int) -> None:
    """A request evicts KV of its own path, with the state there, and caches the KV anew: the state has gone along."""
    config = Config(page_size=1, pages=20, components="groups")
    item = Item(kind="random", config=config, seed=seed, ops=plan.OPS)
    target = load_target(resolve_target("reference-component-requests"))
    result = engine.run_item(target, item, Options(reruns=0, shrink_trials=0))
    assert not result.findings and result.evaluated["COMP-63"]


def test_what_could_not_go_was_not_passed_over() -> None:
    """KV that goes on, what a receipt covers, and what a request computes with."""
    play = Played(setting_of())
    play.insert("ab")
    play.insert("x")
    last = ("kv", play.path("x").names[-1])
    assert {name for _, name in evicted(play, {"kv": 1}, {last}).left if _ == "kv"} == {play.path("ab").names[-1]}
    play.step(Lock(play.path("ab").names[-1], 0), {"kv": (1, 2), "swa": (2,)})
    assert not [at for at in evicted(play, {"kv": 1}, {last}).left if at[0] == "kv"]


def test_with_write_back_nobody_knows_what_stayed_for_want_of_room() -> None:
    config = Config(page_size=1, pages=8, host_pages=8, write="write_back", components="kv+swa")
    play = two_keys(setting_of(config))
    assert evicted(play, {"kv": 1}, set()) is UNKNOWN


KILLS: tuple[tuple[str, str], ...] = (
    ("component-newest-goes-first", "COMP-63"),
    ("component-host-oldest-last", "COMP-63"),
)
"""Caches with an order of their own, and what they would break if they declared the policy's."""


@pytest.mark.parametrize(("name", "rule"), KILLS)
def test_an_order_of_its_own_must_be_declared(name: str, rule: str) -> None:
    """As declared nothing is wrong; declared otherwise it is noticed."""
    one = all_mutants()[name]
    item = Item(kind="random", config=one.configs[0], seed=2, ops=plan.OPS)
    options = Options(reruns=0, shrink_trials=0)
    assert not engine.run_item(one.target, item, options).findings
    other = type(one.target)(one.target.parts, PROFILE)
    assert {rule for found in engine.run_item(other, item, options).findings for rule in found.rules} >= {rule}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * name.startswith("reference"))
        for name in ("components", "reference-components", "component-requests", "reference-component-requests")
    ],
)
def test_every_policy_is_played_and_kept(name: str) -> None:
    target = load_target(resolve_target(name))
    configs = plan.configs_of(target)
    assert {config.policy for config in configs} == set(POLICIES)
    for config in configs:
        if config.policy != "lru":
            assert any(order_is_judged(target, config, seed) for seed in range(9)), config


def order_is_judged(target: Any, config: Config, seed: int) -> bool:
    """Whether there was something to choose between in a short schedule, in which nothing is broken."""
    item = Item(kind="random", config=config, seed=seed, ops=80)
    result = engine.run_item(target, item, Options(reruns=0, shrink_trials=0))
    assert not result.findings and not result.error, (config, result)
    return bool(result.evaluated["COMP-63"])


def test_specimen_has_every_policy_by_itself() -> None:
    """It compares in its own words what the spec compares."""
    for policy in POLICIES:
        assert component_target.make(Config(page_size=1, pages=8, components="kv+swa", policy=policy))
