"""Storage behind the host memory of components: when it is asked for, and what refusals and reads must not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from kvlitmus.conformance.adapters.reference.components import ReferenceComponentStorage, target
from kvlitmus.conformance.checker.calls.components import host as component_host
from kvlitmus.conformance.checker.calls.components import storing as component_storing
from kvlitmus.conformance.checker.calls.components import tree as components
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.litmus.components.host import backed
from kvlitmus.conformance.litmus.components.storing import attach, write
from kvlitmus.conformance.litmus.components.tree import evict_all
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS, COMPONENT_STORAGE_CONFIGS, configs_of
from kvlitmus.spec.prefix.listener import HOST

STORED = COMPONENT_STORAGE_CONFIGS[0]


def checker_of(adapter: object, *, depth: int = 3, config: Config = STORED) -> Checker:
    """A judge of this adapter."""
    return Checker(adapter, config, Profile(), depth=depth)


def test_storage_is_asked_for_where_the_configuration_has_it() -> None:
    one = ReferenceComponentStorage(STORED, Profile())
    assert "component_storage" in checker_of(one).capabilities
    none = replace(STORED, storage="none")
    assert "component_storage" not in checker_of(ReferenceComponentStorage(none, Profile()), config=none).capabilities


def test_a_target_says_that_it_has_storage() -> None:
    class Hosted:
        capabilities = target.capabilities
        pools = ("component_host", "component_writes")

    assert set(configs_of(target)) - set(configs_of(Hosted())) == set(COMPONENT_STORAGE_CONFIGS)
    assert set(COMPONENT_HOST_CONFIGS) <= set(configs_of(Hosted()))


class Refuses(ReferenceComponentStorage):
    """Refuses writes, and says all the same what it would write."""

    def component_write(
        self, handle: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int | None, Mapping[str, Sequence[int]]]:
        _, ends = super().component_write(handle, stored)
        return None, ends


def test_a_write_that_is_refused_writes_nothing() -> None:
    checker = checker_of(Refuses(STORED, Profile()))
    backed(checker, prompt(checker, "ab"))
    with pytest.raises(Violation, match="PORT-03"):
        write(checker, prompt(checker, "ab"))


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_what_a_write_reads_is_certain_without_a_snapshot(depth: int) -> None:
    """After an eviction nobody knows what the host has; who begins a write says it, and it stays."""
    checker = checker_of(ReferenceComponentStorage(STORED, Profile()), depth=depth)
    attach(checker)
    key = prompt(checker, "ab")
    backed(checker, key)
    component_host.evict_host(checker, {"swa": 1})
    assert not write(checker, key)
    backed(checker, key)
    backed(checker, prompt(checker, "xy"))
    component_host.evict_host(checker, {"kv": 1})
    if write(checker, key):
        takes = component_storing.writes(checker.state)[0].landing
        assert takes and takes <= checker.state.certain(HOST)
        component_host.evict_host(checker, {"kv": 8})
        assert takes <= checker.state.certain(HOST)
        component_storing.written(checker, 0, ok=False)
    component_host.evict_host(checker, {"kv": 8})
    evict_all(checker)
    assert components.match(checker, key)[0] == 0
