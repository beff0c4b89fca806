"""The interface in ``spec/``: every name has one home, and what adapters were written for finds it where it was."""

from __future__ import annotations

import inspect
from types import ModuleType

from kvlitmus.conformance import ports
from kvlitmus.spec import interface
from kvlitmus.spec.interface import PORTS, cache, capabilities_of, components, plans, ranks, sparse, stores, tiers
from kvlitmus.spec.interface import ports as table
from kvlitmus.spec.words.config import CONFIG_VALUES, Config
from kvlitmus.spec.words.profile import PROFILE_VALUES, Profile

PARTS = (cache, plans, tiers, stores, sparse, components, ranks, table)


def defined(module: ModuleType) -> set[str]:
    """The public classes and functions of a module, not those that it imports."""
    return {
        name
        for name, one in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(one) or inspect.isfunction(one))
        and one.__module__ == module.__name__
    }


def test_the_package_has_every_name_of_its_parts_and_no_name_means_two_things() -> None:
    names = [name for part in PARTS for name in defined(part)]
    assert len(names) == len(set(names))
    given = [name for name, one in vars(interface).items() if name[0] != "_" and not inspect.ismodule(one)]
    assert set(names) <= set(given)
    for name in given:
        homes = [vars(part)[name] for part in PARTS if name in vars(part)]
        assert homes, name
        assert all(one is getattr(interface, name) for one in homes), name


def test_the_ports_of_the_suite_are_those_of_the_interface() -> None:
    for name in defined(cache):
        assert getattr(ports, name) is getattr(cache, name), name
    assert (ports.PORTS, ports.capabilities_of, ports.Config, ports.Profile) == (
        PORTS,
        capabilities_of,
        Config,
        Profile,
    )


def test_every_method_of_a_port_is_described_by_one_protocol_of_its_part() -> None:
    for part, mine in (
        (cache, cache.CACHE_PORTS),
        (tiers, tiers.TIER_PORTS),
        (stores, stores.STORE_PORTS),
        (sparse, sparse.SPARSE_PORTS),
        (components, components.COMPONENT_PORTS),
        (ranks, ranks.RANK_PORTS),
        (ranks, ranks.RANK_STATE_PORTS),
    ):
        for port, methods in mine.items():
            fitting = [one for name in defined(part) if set(methods) <= set(vars(one := vars(part)[name]))]
            assert len(fitting) == 1, (port, fitting)


def test_legal_values_are_of_fields_that_there_are() -> None:
    for table_, made in ((CONFIG_VALUES, Config()), (PROFILE_VALUES, Profile())):
        for field, legal in table_.items():
            assert getattr(made, field) in legal, field
