"""Host memory of components: all interleavings of copies on small caches, and planted slips in the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvlitmus.conformance.ports import Profile
from kvlitmus.reference.prefix.components import host as model
from kvlitmus.reference.prefix.components.tree import Cache
from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.prefix.components.calls import Counts
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, EvictHost, LoadBack
from kvlitmus.spec.words.setting import Setting
from tests.proofs.support.component_explore import Explorer, Scope, with_slip
from tests.support.night import by_turns


def copied_over(cache: Cache, setting: Setting, call: Copied) -> tuple[Cache, object]:
    """A slip: nobody looks whether a copy has failed."""
    return model.copied(cache, setting, call._replace(ok=True))


def evict_what_is_read(cache: Cache, setting: Setting, call: EvictHost[Counts]) -> tuple[Cache, object]:
    """A slip: an eviction from the host takes what a copy needs."""
    bare = {number: one._replace(host=frozenset()) for number, one in cache.copies.items()}
    then, answer = model.evict_host(cache._replace(copies=bare), setting, call)
    return then._replace(copies=cache.copies), answer


def back_up_without_room(cache: Cache, setting: Setting, call: BackUp) -> tuple[Cache, object]:
    """A slip: nothing is evicted for a backup."""
    held = frozenset(cache.host_held)
    pinned = {number: one._replace(host=held) for number, one in cache.copies.items()}
    path, number = call.path, max(pinned, default=-1) + 99
    guard = Copy(BACKUP, places={}, device=frozenset(), host=held)
    then, answer = model.begun(
        cache._replace(copies={**pinned, number: guard}), setting, path, call.length, call.number, load=False
    )
    kept = {one: copy for one, copy in then.copies.items() if one != number}
    return then._replace(copies={one: cache.copies.get(one, copy) for one, copy in kept.items()}), answer


def land_again(cache: Cache, setting: Setting, call: Copied) -> tuple[Cache, object]:
    """A slip: what a copy has brought is given back at its end, as if it were there twice."""
    then, _ = model.copied(cache, setting, call)
    one = cache.copies[call.number]
    tier = cache.held if one.load else cache.host_held
    returned: dict[str, list[int]] = {}
    for at in one.device if one.load else one.host:
        returned.setdefault(at[0], []).append(tier[at].place)
    return then, returned


def load_once_more(cache: Cache, setting: Setting, call: LoadBack) -> tuple[Cache, object]:
    """A slip: what a load back brings is found only when it has ended, as where copies count then."""
    then, answer = model.load(cache, setting, call)
    held = {at: one for at, one in then.held.items() if at in cache.held}
    return then._replace(held=held), answer


def evict_on_both(cache: Cache, setting: Setting, call: EvictHost[Counts]) -> tuple[Cache, object]:
    """A slip: an eviction from the host frees nothing while anything is on the device too."""
    return (cache, {}) if cache.held else model.evict_host(cache, setting, call)


SLIPS: tuple[tuple[type, Callable[..., tuple[Cache, object]], set[str]], ...] = (
    (Copied, copied_over, {"COMP-15", "COMP-29"}),
    (EvictHost, evict_what_is_read, {"COMP-13", "LOCK-01"}),
    (BackUp, back_up_without_room, {"COMP-36"}),
)


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "slip", "rules"), by_turns(SLIPS), ids=lambda one: getattr(one, "__name__", None))
def test_a_slip_in_the_reference_is_found(
    kind: type, slip: Callable[..., tuple[Cache, object]], rules: set[str]
) -> None:
    report = Explorer(
        Scope("kv+state", 3, ((1, 1), (2,)), receipts=0, host=1, evicts=(1,)), with_slip(kind, slip)
    ).run()
    assert rules & set(report.broken)


BY_NODES = Profile(component_landing="begun", component_extent="path", component_host_spares="device")
"""Copies as engines with nodes have them."""

NODE_SLIPS: tuple[tuple[type, Callable[..., tuple[Cache, object]], set[str]], ...] = (
    (Copied, land_again, {"COMP-29"}),
    (LoadBack, load_once_more, {"POOL-12"}),
    (EvictHost, evict_on_both, {"COMP-12"}),
)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("kind", "slip", "rules"), by_turns(NODE_SLIPS), ids=lambda one: getattr(one, "__name__", None)
)
def test_a_slip_is_found_where_copies_go_by_nodes(
    kind: type, slip: Callable[..., tuple[Cache, object]], rules: set[str]
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
