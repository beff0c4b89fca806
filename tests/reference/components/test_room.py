"""What the reference makes room of: the pool that is short, and what no tier holds any more (COMP-56, CREQ)."""

from __future__ import annotations

import pytest

from kvlitmus.reference.prefix.components import requests, tree, writes
from kvlitmus.reference.prefix.components.perform import ticked
from kvlitmus.spec.prefix.calls import Evict, Lock
from kvlitmus.spec.prefix.components.entries import placed
from kvlitmus.spec.prefix.components.state import path_of_units
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.words.config import Config
from tests.conformance.components.test_order import setting_of


def test_nothing_goes_of_a_pool_that_is_full_and_of_which_nothing_is_asked() -> None:
    setting = setting_of(Config(page_size=1, pages=2, components="kv+state"))
    old, new = (path_of_units(setting, None, [unit]) for unit in (1, 2))
    cache = tree.empty(setting)
    for place in tree.free_places(cache, setting)["state"]:  # states are full, and older than every KV
        path = path_of_units(setting, None, [10 + place])
        cache, _ = tree.filled(cache, setting, {("state", path.names[-1]): place})
    cache = ticked(cache)
    for place, path in enumerate((old, new)):
        cache, _ = tree.filled(cache, setting, {("kv", path.names[-1]): place})

    after = requests.evict_one(cache, setting, {"kv": 1})

    assert {name for name, _ in cache.places(DEVICE).keys() - after.places(DEVICE).keys()} == {"kv"}


def test_what_the_host_holds_whole_is_not_lost() -> None:
    setting = setting_of(Config(page_size=1, pages=2, host_pages=2, components="kv+state"))
    path = path_of_units(setting, None, [1])
    both = {(name, path.names[0]): 0 for name in ("kv", "state")}
    cache, _ = tree.filled(tree.empty(setting), setting, both)
    gone, _ = tree.evict(cache, setting, Evict({"kv": 1}))

    assert writes.losses(cache, gone, setting) == [path.names[0]]
    on_host = placed(gone, setting, HOST, both)
    assert writes.losses(placed(cache, setting, HOST, both), on_host, setting) == []
    half = placed(gone, setting, HOST, {("state", path.names[0]): 0})
    assert writes.losses(cache, half, setting) == [path.names[0]]


def test_a_receipt_covers_nothing_that_is_not_cached() -> None:
    setting = setting_of(Config(page_size=1, pages=2, components="kv+state"))
    path = path_of_units(setting, None, [1])
    cache, _ = tree.filled(tree.empty(setting), setting, {("kv", path.names[0]): 0})

    with pytest.raises(ValueError, match="not all cached"):
        tree.lock(cache, setting, Lock(path.names[0], 1))
