"""The order in which components are evicted: bounds and what is between them, and the reference in small states."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from kvlitmus.reference.prefix.components.perform import perform
from kvlitmus.reference.prefix.components.tree import cached, evict, noted
from kvlitmus.spec.prefix.calls import Begin, Evict
from kvlitmus.spec.prefix.components.calls import Counts, JointCall
from kvlitmus.spec.prefix.components.order import Order, passed_over
from kvlitmus.spec.prefix.components.state import tier_of
from kvlitmus.spec.prefix.components.uses import worths
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.page import NO_DOUBT, Page, Tier
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import EvictHost
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.names import NO_NAME
from kvlitmus.spec.words.policies import POLICIES, Worth
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, Tick
from tests.proofs.support import component_explore, request_explore
from tests.proofs.support.component_explore import Explorer, Scope, with_slip

TIMES = (0, 1, 2)
"""Times and numbers of uses that are told apart; more would be alike."""

NAME = Name(1)


def used(touched: int, created: int, hits: int) -> Page:
    """An entry that was used so."""
    return Page(NO_NAME, PageNo(0), Tick(touched), Tick(created), hits)


EVERY_USE = [used(*some) for some in product(TIMES, repeat=3)]


def between(least: Page, most: Page) -> Iterator[Page]:
    """Every use that two bounds allow."""
    bounds = [(one.touched, one.created, one.hits) for one in (least, most)]
    return (used(*some) for some in product(*[range(low, high + 1) for low, high in zip(*bounds, strict=True)]))


def bounded(least: Page, most: Page, policy: str) -> tuple[Worth, Worth]:
    """What an entry can be worth that is known in these bounds."""
    return worths(Tier({NAME: least}, Tick(0), NO_DOUBT._replace(vague={NAME: most})), NAME, POLICIES[policy])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_worth_is_within_its_bounds_and_reaches_both(policy: str) -> None:
    """A policy wants more of all that it looks at, or less of all: for all bounds, and all that is between them."""
    worth = POLICIES[policy]
    for least, most in product(EVERY_USE, repeat=2):
        found = {worth(one) for one in between(least, most)}
        if found:
            assert (min(found), max(found)) == bounded(least, most, policy)


SETTING = Setting(Config(page_size=1, pages=4, components="kv+swa"), Profile(), 3, frozenset())
SOME_USES = [used(*some) for some in product((0, 1), repeat=3)]


@pytest.mark.parametrize("policy", POLICIES)
def test_whoever_takes_the_least_is_never_accused(policy: str) -> None:
    """For all bounds of two entries: where one is passed over, it is worth less whatever they really are worth."""
    taken, left = ("kv", 1), ("kv", 2)
    bounds = [(least, most) for least, most in product(SOME_USES, repeat=2) if any(True for _ in between(least, most))]
    accused = 0
    for mine, other in product(bounds, repeat=2):
        order = Order({taken: bounded(*mine, policy)}, {left: bounded(*other, policy)})  # type: ignore[dict-item]
        if passed_over(SETTING, order):
            accused += 1
            worst = min(POLICIES[policy](one) for one in between(*mine))
            assert all(POLICIES[policy](one) < worst for one in between(*other)), (mine, other)
    assert accused, "and some are"


def turned(cache: State, tier: str) -> State:
    """The same cache, with the other order of use on a tier."""
    pages = {at: one._replace(touched=Tick(-one.touched)) for at, one in cached(cache, tier).items()}
    return noted(cache, tier, pages)


def latest_first(cache: State, setting: Setting, call: Evict[Counts] | EvictHost[Counts]) -> tuple[State, object]:
    """A slip: what was used last goes first."""
    tier = tier_of(cache, call)
    then, freed = evict(turned(cache, tier), setting, call)
    return turned(then, tier), freed


@pytest.mark.proof
def test_a_slip_on_the_device_is_found() -> None:
    report = Explorer(component_explore.QUICK["windows"], with_slip(Evict, latest_first)).run()
    assert set(report.broken) == {"COMP-63"}, (report.broken, report.call)


HOST = Scope("kv+swa", 2, ((1,), (2,)), receipts=0, host=2, evicts=(1,))
"""Two keys, and a host that holds both: it has a choice."""


@pytest.mark.nightly
def test_the_reference_evicts_from_the_host_in_order_in_every_state() -> None:
    report = Explorer(HOST).run()
    assert not report.broken, (report.broken, report.call)
    assert report.states > 20_000 and report.evaluated["COMP-63"] > 80_000


@pytest.mark.proof
def test_a_slip_on_the_host_is_found() -> None:
    report = Explorer(HOST, with_slip(EvictHost, latest_first)).run()
    assert set(report.broken) == {"COMP-63"}, (report.broken, report.call)


def latest_first_for_a_request(cache: State, setting: Setting, call: JointCall) -> tuple[State, object]:
    """A slip: a request that begins gets the places of what was used last."""
    if not isinstance(call, Begin):
        return perform(cache, setting, call)
    then, answer = perform(turned(cache, DEVICE), setting, call)
    return turned(then, DEVICE), answer


@pytest.mark.proof
def test_a_slip_for_a_request_is_found() -> None:
    scope = request_explore.Scope("blocks+swa", 5, ((1, 1), (2, 1)), requests=1)
    report = request_explore.Explorer(scope, latest_first_for_a_request).run()
    assert "COMP-63" in report.broken, (report.broken, report.call)
