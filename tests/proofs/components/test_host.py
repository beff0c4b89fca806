"""Host memory of components: all interleavings of copies on small caches, and planted slips in the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvlitmus.conformance.ports import Profile
from kvlitmus.reference.prefix.components import host as model
from kvlitmus.reference.prefix.components.tree import evict
from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.prefix.components.calls import Counts
from kvlitmus.spec.prefix.components.entries import without
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, EvictHost, LoadBack
from kvlitmus.spec.words.setting import Setting
from tests.proofs.support.component_explore import Explorer, Scope, with_slip
from tests.support.night import by_turns


def copied_over(cache: State, setting: Setting, call: Copied) -> tuple[State, object]:
    """A slip: nobody looks whether a copy has failed."""
    return model.copied(cache, setting, call._replace(ok=True))


def evict_what_is_read(cache: State, setting: Setting, call: EvictHost[Counts]) -> tuple[State, object]:
    """A slip: an eviction from the host takes what a copy needs."""
    bare = {number: one._replace(host=frozenset()) for number, one in cache.under_way.items()}
    then, answer = evict(cache._replace(under_way=bare), setting, call)
    return then._replace(under_way=cache.under_way), answer


def back_up_without_room(cache: State, setting: Setting, call: BackUp) -> tuple[State, object]:
    """A slip: nothing is evicted for a backup."""
    guard = Copy(BACKUP, places={}, device=frozenset(), host=frozenset(cache.places(HOST)))
    then, answer = model.back_up(cache._replace(under_way={**cache.under_way, -1: guard}), setting, call)
    return then._replace(under_way={one: copy for one, copy in then.under_way.items() if one != -1}), answer


def land_again(cache: State, setting: Setting, call: Copied) -> tuple[State, object]:
    """A slip: what a copy has brought is given back at its end, as if it were there twice."""
    then, _ = model.copied(cache, setting, call)
    one = cache.under_way[call.number]
    there = cache.places(DEVICE if one.load else HOST)
    returned: dict[str, list[int]] = {}
    for at in one.device if one.load else one.host:
        returned.setdefault(at[0], []).append(there[at])
    return then, returned


def load_once_more(cache: State, setting: Setting, call: LoadBack) -> tuple[State, object]:
    """A slip: what a load back brings is found only when it has ended, as where copies count then."""
    then, answer = model.load(cache, setting, call)
    return without(then, DEVICE, then.places(DEVICE).keys() - cache.places(DEVICE).keys()), answer


def evict_on_both(cache: State, setting: Setting, call: EvictHost[Counts]) -> tuple[State, object]:
    """A slip: an eviction from the host frees nothing while anything is on the device too."""
    return (cache, {}) if cache.places(DEVICE) else evict(cache, setting, call)


SLIPS: tuple[tuple[type, Callable[..., tuple[State, object]], set[str]], ...] = (
    (Copied, copied_over, {"COMP-15", "COMP-29"}),
    (EvictHost, evict_what_is_read, {"COMP-13", "LOCK-01"}),
    (BackUp, back_up_without_room, {"COMP-36"}),
)


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "slip", "rules"), by_turns(SLIPS), ids=lambda one: getattr(one, "__name__", None))
def test_a_slip_in_the_reference_is_found(
    kind: type, slip: Callable[..., tuple[State, object]], rules: set[str]
) -> None:
    report = Explorer(
        Scope("kv+state", 3, ((1, 1), (2,)), receipts=0, host=1, evicts=(1,)), with_slip(kind, slip)
    ).run()
    assert rules & set(report.broken)


BY_NODES = Profile(component_landing="begun", component_extent="path", component_host_spares="device")
"""Copies as engines with nodes have them."""

NODE_SLIPS: tuple[tuple[type, Callable[..., tuple[State, object]], set[str]], ...] = (
    (Copied, land_again, {"COMP-29"}),
    (LoadBack, load_once_more, {"POOL-12"}),
    (EvictHost, evict_on_both, {"COMP-12"}),
)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("kind", "slip", "rules"), by_turns(NODE_SLIPS), ids=lambda one: getattr(one, "__name__", None)
)
def test_a_slip_is_found_where_copies_go_by_nodes(
    kind: type, slip: Callable[..., tuple[State, object]], rules: set[str]
) -> None:
    scope = Scope("kv+state", 3, ((1, 1), (2,)), receipts=0, profile=BY_NODES, host=1, evicts=(1,))
    assert rules & set(Explorer(scope, with_slip(kind, slip)).run().broken)


@pytest.mark.proof
@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["kv+swa", "kv+state"])
def test_no_interleaving_breaks_a_rule_where_copies_go_by_nodes(layout: str) -> None:
    """The same where what a copy brings counts from its beginning, and it takes what there is of its path."""
    report = Explorer(Scope(layout, 2, ((1, 1),), receipts=0, profile=BY_NODES, host=2, evicts=(1,))).run()
    print(f"{layout}: {report.states} states, {report.steps} steps")
    assert report.broken == () and report.states > 1000


@pytest.mark.proof
@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["kv+swa", "kv+state"])
@pytest.mark.parametrize("cascade", ["base", "none", "leaf"])
def test_no_interleaving_of_copies_breaks_a_rule(layout: str, cascade: str) -> None:
    """A backup, a load back, and evictions of both tiers in all orders with inserts."""
    profile = Profile(component_cascade=cascade)
    report = Explorer(Scope(layout, 2, ((1, 1),), receipts=0, profile=profile, host=2, evicts=(1,))).run()
    print(f"{layout}, {cascade}: {report.states} states, {report.steps} steps")
    assert report.broken == () and report.states > 1000
