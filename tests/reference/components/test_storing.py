"""What the reference spares on the host: what a write reads until it ends, and what the device has too."""

from __future__ import annotations

from kvlitmus.reference.prefix.components import host, storing, tree
from kvlitmus.spec.prefix.calls import Insert
from kvlitmus.spec.prefix.components.state import path_of_units
from kvlitmus.spec.prefix.work_calls import EvictHost, Write, Written
from kvlitmus.spec.words.config import Config
from tests.conformance.components.test_order import setting_of

CONFIG = Config(page_size=1, pages=2, host_pages=2, components="kv+state")


def test_what_a_write_reads_stays_on_the_host_until_it_ends() -> None:
    setting = setting_of(CONFIG)
    path = path_of_units(setting, None, [1])
    cache, _ = tree.insert(tree.empty(setting), setting, Insert(path, {(n, path.names[0]): 0 for n in ("kv", "state")}))
    cache = cache._replace(host_held=cache.held, attached=True)

    writing, taken = storing.write(cache, setting, Write(path, 1, {}, 7))
    kept, none = host.evict_host(writing, setting, EvictHost({"kv": 1}))
    done, _ = storing.written(writing, setting, Written(7, True))
    gone, some = host.evict_host(done, setting, EvictHost({"kv": 1}))

    assert taken.places is not None and writing.copies.keys() == {7}
    assert none["kv"] == 0 and kept.host_held == cache.host_held
    assert done.copies == {} and some["kv"] == 1 and ("kv", path.names[0]) not in gone.host_held


def test_what_the_device_has_too_is_spared_where_the_cache_says_so() -> None:
    for spares, goes in (("nothing", 1), ("device", 0)):
        setting = setting_of(CONFIG, component_host_spares=spares)
        path = path_of_units(setting, None, [1])
        cache, _ = tree.insert(tree.empty(setting), setting, Insert(path, {("kv", path.names[0]): 0}))
        _, freed = host.evict_host(cache._replace(host_held=cache.held), setting, EvictHost({"kv": 1}))
        assert freed["kv"] == goes, spares
