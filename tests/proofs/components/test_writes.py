"""Write policies of components: planted slips in the reference, and all small states by each policy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvlitmus.conformance.ports import Profile
from kvlitmus.reference.prefix.components import writes as model
from kvlitmus.spec.prefix.calls import Insert, Path, Unlock
from kvlitmus.spec.prefix.components.calls import JointCall
from kvlitmus.spec.prefix.components.state import end_name, path_to
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name
from tests.proofs.support.component_explore import Explorer, Scope
from tests.support.night import by_turns

due, losses = model.due, model.losses


def due_never(_cache: State, _then: State, _setting: Setting, _call: JointCall) -> Path | None:
    """A slip: nothing that is inserted is backed up."""
    return None


def due_without_its_end(cache: State, then: State, setting: Setting, call: JointCall) -> Path | None:
    """A slip: what is backed up ends a token too early, where there need be no boundary."""
    path = due(cache, then, setting, call)
    return path if path is None or len(path.names) == 1 else path_to(setting, path.names[-2])


def due_as_long_as_the_key(_cache: State, _then: State, setting: Setting, call: JointCall) -> Path | None:
    """A slip: what is backed up is as long as the key, whether a boundary is there or not."""
    return path_to(setting, end_name(call.path, len(call.path.names))) if isinstance(call, Insert) else None


def due_when_given_up(cache: State, then: State, setting: Setting, call: JointCall) -> Path | None:
    """A slip: a prefix is backed up when its receipt is given back too."""
    if not isinstance(call, Unlock):
        return due(cache, then, setting, call)
    covered = sorted(name for component, name in cache.covers[call.receipt] if component == "kv")
    return path_to(setting, covered[0]) if covered else None


def losses_none(_cache: State, _then: State, _setting: Setting) -> list[Name]:
    """A slip: what an eviction takes is dropped."""
    return []


def losses_of_the_kv(cache: State, then: State, setting: Setting) -> list[Name]:
    """A slip: a boundary is saved when its KV goes, and not when its state goes alone."""
    return [name for name in losses(cache, then, setting) if ("kv", name) not in then.places(DEVICE)]


SLIPS: tuple[tuple[str, str, Callable[..., object], set[str]], ...] = (
    ("write_through", "due", due_never, {"COMP-55"}),
    ("write_through", "due", due_without_its_end, {"COMP-54"}),
    ("write_through", "due", due_as_long_as_the_key, {"COMP-54"}),
    ("write_through", "due", due_when_given_up, {"COMP-53"}),
    ("write_back", "losses", losses_none, {"COMP-56"}),
    ("write_back", "losses", losses_of_the_kv, {"COMP-56"}),
)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("policy", "function", "slip", "rules"), by_turns(SLIPS), ids=lambda one: getattr(one, "__name__", None)
)
def test_a_slip_in_the_reference_is_found(
    monkeypatch: pytest.MonkeyPatch, policy: str, function: str, slip: Callable[..., object], rules: set[str]
) -> None:
    monkeypatch.setattr(model, function, slip)
    report = Explorer(Scope("kv+state", 3, ((1, 1),), host=2, copies=0, evicts=(1,), policy=policy)).run()
    assert rules & set(report.broken), report.broken


@pytest.mark.proof
@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["write_through", "write_through_selective", "write_back"])
@pytest.mark.parametrize("layout", ["kv+swa", "kv+state"])
@pytest.mark.parametrize("cascade", ["base", "none", "leaf"])
def test_no_state_breaks_a_rule(layout: str, cascade: str, policy: str) -> None:
    """Inserts, evictions of both tiers, and a copy of either way in all orders."""
    profile = Profile(component_cascade=cascade)
    scope = Scope(layout, 2, ((1, 1),), receipts=0, profile=profile, host=2, evicts=(1,), policy=policy)
    report = Explorer(scope).run()
    print(f"{layout}, {cascade}, {policy}: {report.states} states, {report.steps} steps")
    assert report.broken == () and report.states > 200
