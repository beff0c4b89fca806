"""What the reference makes room of: the pool that is short, and what no tier holds any more (COMP-56, CREQ)."""

from __future__ import annotations

from kvlitmus.reference.prefix.components import requests, tree, writes
from kvlitmus.spec.prefix.calls import Evict, Insert
from kvlitmus.spec.prefix.components.state import path_of_units
from kvlitmus.spec.words.config import Config
from tests.conformance.components.test_order import setting_of


def test_nothing_goes_of_a_pool_that_is_full_and_of_which_nothing_is_asked() -> None:
    setting = setting_of(Config(page_size=1, pages=2, components="kv+state"))
    old, new = (path_of_units(setting, None, [unit]) for unit in (1, 2))
    cache = tree.empty(setting)
    states = dict.fromkeys(cache.free["state"])
    for place, _ in enumerate(states):  # states are full, and older than every KV
        path = path_of_units(setting, None, [10 + place])
        cache, _ = tree.insert(cache, setting, Insert(path, {("state", path.names[-1]): place}))
    cache = cache._replace(ticks=1)
    for place, path in enumerate((old, new)):
        cache, _ = tree.insert(cache, setting, Insert(path, {("kv", path.names[-1]): place}))
    cache = cache._replace(free={pool: frozenset() for pool in cache.free})

    after = requests.evict_one(cache, setting, {"kv": 1})

    assert {name for name, _ in cache.held.keys() - after.held.keys()} == {"kv"}


def test_what_the_host_holds_whole_is_not_lost() -> None:
    setting = setting_of(Config(page_size=1, pages=2, host_pages=2, components="kv+state"))
    path = path_of_units(setting, None, [1])
    cache, _ = tree.insert(tree.empty(setting), setting, Insert(path, {(n, path.names[0]): 0 for n in ("kv", "state")}))
    gone, _ = tree.evict(cache, setting, Evict({"kv": 1}))

    assert writes.losses(cache, gone, setting) == [path.names[0]]
    on_host = cache._replace(host_held=cache.held)
    assert writes.losses(on_host, gone._replace(host_held=cache.held), setting) == []
    half = {at: one for at, one in cache.held.items() if at[0] == "state"}
    assert writes.losses(cache, gone._replace(host_held=half), setting) == [path.names[0]]
