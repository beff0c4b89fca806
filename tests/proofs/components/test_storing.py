"""Storage behind the host memory of components: all interleavings on small caches, and planted slips."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvlitmus.conformance.ports import Profile
from kvlitmus.reference.prefix.components import prefetch as component_prefetch
from kvlitmus.reference.prefix.components import storing as model
from kvlitmus.reference.prefix.components.tree import evict
from kvlitmus.spec.interface.tiers import PUT
from kvlitmus.spec.prefix.components.calls import Counts, Taken
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Detach, EvictHost, Prefetch, Write
from kvlitmus.spec.words.setting import Setting
from tests.proofs.support.component_explore import Explorer, Scope, with_slip
from tests.support.night import by_turns


def write_the_kv_alone(cache: State, setting: Setting, call: Write) -> tuple[State, object]:
    """A slip: what goes with the KV isn't written."""
    then, answer = model.write(cache, setting, call)
    if answer.places is None:
        return then, answer
    base = setting.layout.base.name
    return then, Taken({base: answer.places[base]})


def write_what_is_not_there(cache: State, setting: Setting, call: Write) -> tuple[State, object]:
    """A slip: nobody looks whether storage is there."""
    then, answer = model.write(cache._replace(tiers=None), setting, call)
    return then._replace(tiers=cache.tiers), answer


def write_no_rest(cache: State, setting: Setting, call: Write) -> tuple[State, object]:
    """A slip: where storage has something, nothing is written."""
    return (cache, Taken(None)) if any(call.stored.values()) else model.write(cache, setting, call)


def evict_what_is_written(cache: State, setting: Setting, call: EvictHost[Counts]) -> tuple[State, object]:
    """A slip: an eviction from the host takes what a write needs."""
    copies = {number: one for number, one in cache.under_way.items() if one.kind != PUT}
    then, answer = evict(cache._replace(under_way=copies), setting, call)
    return then._replace(under_way=cache.under_way), answer


def lose_prefetches(cache: State, setting: Setting, call: Detach) -> tuple[State, object]:
    """A slip: the memory of prefetches is not given back."""
    return model.detach(cache, setting, call)[0], {}


def free_what_is_written(cache: State, setting: Setting, call: Detach) -> tuple[State, object]:
    """A slip: nobody looks whether I/O still writes."""
    quiet = {number: one._replace(running=False) for number, one in cache.fetches.items()}
    return model.detach(cache._replace(fetches=quiet), setting, call)


def fetch_from_nowhere(cache: State, setting: Setting, call: Prefetch[int]) -> tuple[State, object]:
    """A slip: a prefetch begins whether storage is there or not."""
    then, answer = component_prefetch.prefetch(cache._replace(tiers=None), setting, call)
    return then._replace(tiers=cache.tiers), answer


SLIPS: tuple[tuple[type, Callable[..., tuple[State, object]], set[str]], ...] = (
    (Write, write_the_kv_alone, {"COMP-32"}),
    (Write, write_what_is_not_there, {"COMP-58"}),
    (Write, write_no_rest, {"COMP-59"}),
    (EvictHost, evict_what_is_written, {"COMP-13", "LOCK-01"}),
    (Detach, lose_prefetches, {"COMP-29"}),
    (Detach, free_what_is_written, {"COMP-29"}),
    (Prefetch, fetch_from_nowhere, {"COMP-20"}),
)


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "slip", "rules"), by_turns(SLIPS), ids=lambda one: getattr(one, "__name__", None))
def test_a_slip_in_the_reference_is_found(
    kind: type, slip: Callable[..., tuple[State, object]], rules: set[str]
) -> None:
    fetches = kind in (Detach, Prefetch)
    scope = Scope(
        *("kv+state", 2, ((1, 1),)),
        receipts=0,
        fetches=int(fetches),
        host=1,
        copies=int(not fetches),
        evicts=(1,),
        writes=1,
    )
    report = Explorer(scope, with_slip(kind, slip)).run()
    assert rules & set(report.broken)


@pytest.mark.proof
@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["kv+swa", "kv+state"])
@pytest.mark.parametrize("cascade", ["base", "none", "leaf"])
def test_no_interleaving_of_writes_and_fetches_breaks_a_rule(layout: str, cascade: str) -> None:
    """A write, a prefetch, a backup and a load back, in all orders with evictions and storage that comes and goes."""
    profile = Profile(component_cascade=cascade)
    scope = Scope(layout, 2, ((1, 1),), 0, profile, fetches=1, host=1, evicts=(1,), writes=1)
    report = Explorer(scope).run()
    print(f"{layout}, {cascade}: {report.states} states, {report.steps} steps")
    assert report.broken == () and report.states > 1000
