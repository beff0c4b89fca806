"""Storage behind the host memory of components: all interleavings on small caches, and planted slips."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvlitmus.conformance.ports import Profile
from kvlitmus.reference.prefix.components import host as component_host
from kvlitmus.reference.prefix.components import prefetch as component_prefetch
from kvlitmus.reference.prefix.components import storing as model
from kvlitmus.reference.prefix.components.tree import Cache
from kvlitmus.spec.interface.tiers import PUT
from kvlitmus.spec.prefix.components.calls import Counts, Taken
from kvlitmus.spec.prefix.work_calls import Detach, EvictHost, Prefetch, Write
from kvlitmus.spec.words.setting import Setting
from tests.proofs.support.component_explore import Explorer, Scope, with_slip
from tests.support.night import by_turns


def write_the_kv_alone(cache: Cache, setting: Setting, call: Write) -> tuple[Cache, object]:
    """A slip: what goes with the KV isn't written."""
    then, answer = model.write(cache, setting, call)
    if answer.places is None:
        return then, answer
    base = setting.layout.base.name
    return then, Taken({base: answer.places[base]})


def write_what_is_not_there(cache: Cache, setting: Setting, call: Write) -> tuple[Cache, object]:
    """A slip: nobody looks whether storage is there."""
    then, answer = model.write(cache._replace(attached=True), setting, call)
    return then._replace(attached=cache.attached), answer


def write_no_rest(cache: Cache, setting: Setting, call: Write) -> tuple[Cache, object]:
    """A slip: where storage has something, nothing is written."""
    return (cache, Taken(None)) if any(call.stored.values()) else model.write(cache, setting, call)


def evict_what_is_written(cache: Cache, setting: Setting, call: EvictHost[Counts]) -> tuple[Cache, object]:
    """A slip: an eviction from the host takes what a write needs."""
    copies = {number: one for number, one in cache.copies.items() if one.kind != PUT}
    then, answer = component_host.evict_host(cache._replace(copies=copies), setting, call)
    return then._replace(copies=cache.copies), answer


def lose_prefetches(cache: Cache, setting: Setting, call: Detach) -> tuple[Cache, object]:
    """A slip: the memory of prefetches is not given back."""
    return model.detach(cache, setting, call)[0], {}


def free_what_is_written(cache: Cache, setting: Setting, call: Detach) -> tuple[Cache, object]:
    """A slip: nobody looks whether I/O still writes."""
    quiet = {number: one._replace(running=False) for number, one in cache.fetches.items()}
    return model.detach(cache._replace(fetches=quiet), setting, call)


def fetch_from_nowhere(cache: Cache, setting: Setting, call: Prefetch[int]) -> tuple[Cache, object]:
    """A slip: a prefetch begins whether storage is there or not."""
    return component_prefetch.prefetch(cache, setting, call)


SLIPS: tuple[tuple[type, Callable[..., tuple[Cache, object]], set[str]], ...] = (
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
    kind: type, slip: Callable[..., tuple[Cache, object]], rules: set[str]
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
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("layout", ["kv+swa", "kv+state"])
@pytest.mark.parametrize("cascade", ["base", "none", "leaf"])
def test_no_interleaving_of_writes_and_fetches_breaks_a_rule(layout: str, cascade: str) -> None:
    """A write, a prefetch, a backup and a load back, in all orders with evictions and storage that comes and goes."""
    profile = Profile(component_cascade=cascade)
    scope = Scope(layout, 2, ((1, 1),), 0, profile, fetches=1, host=1, evicts=(1,), writes=1)
    report = Explorer(scope).run()
    print(f"{layout}, {cascade}: {report.states} states, {report.steps} steps")
    assert report.broken == () and report.states > 1000
