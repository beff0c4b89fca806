"""What the reference spares on the host: what a write reads until it ends, and what the device has too."""

from __future__ import annotations

from kvlitmus.reference.prefix.components import storing, tree
from kvlitmus.spec.prefix.components.entries import placed
from kvlitmus.spec.prefix.components.state import path_of_units
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.work_calls import EvictHost, Write, Written
from kvlitmus.spec.words.config import Config
from tests.conformance.components.test_order import setting_of

CONFIG = Config(page_size=1, pages=2, host_pages=2, components="kv+state")


def test_what_a_write_reads_stays_on_the_host_until_it_ends() -> None:
    setting = setting_of(CONFIG)
    path = path_of_units(setting, None, [1])
    places = {(name, path.names[0]): 0 for name in ("kv", "state")}
    cache = placed(placed(tree.empty(setting), setting, DEVICE, places), setting, HOST, places)

    writing, taken = storing.write(cache, setting, Write(path, 1, {}, 7))
    kept, none = tree.evict(writing, setting, EvictHost({"kv": 1}))
    done, _ = storing.written(writing, setting, Written(7, True))
    gone, some = tree.evict(done, setting, EvictHost({"kv": 1}))

    assert taken.places is not None and writing.under_way.keys() == {7}
    assert none["kv"] == 0 and kept.host == cache.host
    assert done.under_way == {} and some["kv"] == 1 and path.names[0] not in gone.host.pages


def test_what_the_device_has_too_is_spared_where_the_cache_says_so() -> None:
    for spares, goes in (("nothing", 1), ("device", 0)):
        setting = setting_of(CONFIG, component_host_spares=spares)
        places = {("kv", path_of_units(setting, None, [1]).names[0]): 0}
        cache = placed(placed(tree.empty(setting), setting, DEVICE, places), setting, HOST, places)
        _, freed = tree.evict(cache, setting, EvictHost({"kv": 1}))
        assert freed["kv"] == goes, spares
