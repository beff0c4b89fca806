"""How much an eviction may take of a cache of components."""

from __future__ import annotations

import pytest

from kvlitmus.spec.prefix.components.evictions import freed_most
from tests.spec.support.boundaries import EMPTY, setting

STATE = EMPTY._replace(longest=3)


@pytest.mark.parametrize(
    ("profile", "times", "most"),
    [
        ({"component_cascade": "none"}, 1, {"kv": 2, "swa": 0}),
        ({"component_cascade": "none", "evict_granularity": "node"}, 1, {"kv": 4, "swa": 0}),
        ({"component_cascade": "none", "evict_granularity": "node"}, 2, {"kv": 6, "swa": 0}),
        ({"component_cascade": "base"}, 1, {"kv": 2, "swa": 2}),
        ({"component_cascade": "base", "evict_granularity": "node"}, 1, {"kv": 4, "swa": 6}),
    ],
)
def test_an_eviction_takes_what_is_asked_for_the_rest_of_a_node_and_what_goes_along(
    profile: dict[str, str], times: int, most: dict[str, int]
) -> None:
    assert freed_most(setting(profile=profile, components="kv+swa", pages=8), STATE, {"kv": 2}, times) == most
