"""What SGLang 0.5.23 does with a window and states on the host, where the port ``component_host`` says otherwise.

``SCENE``, as JSON.  Each is a few calls of the published code; where a server makes them by itself, at its own moment,
they are made by hand.  Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_hosted import Hosted

SIZE = 4


def made(layout: str, write: str = "write_through", pages: int = 12, host_pages: int = 12) -> Hosted:
    """A cache; its window is of two pages, and there is a place for a window's page for every two pages."""
    return Hosted(Config(page_size=SIZE, pages=pages, components=layout), write, host_pages)


def key_of(pages: Sequence[int]) -> Key:
    """The key of these pages."""
    return Key(None, tuple(page for page in pages for _ in range(SIZE)), False)


def serve(cache: Hosted, pages: Sequence[int]) -> None:
    """A request computes a key and ends; its backups are put on the stream."""
    key = key_of(pages)
    hit, _, _ = cache.component_match(key)
    many = len(pages) - hit // SIZE
    granted = cache.component_alloc({name: 1 if name == "state" else many for name in cache.names})
    assert granted is not None, "the scene is too large for the cache"
    ends = [hit + (at + 1) * SIZE for at in range(many)]
    entries = {name: dict(zip(ends[-len(rows) :], rows, strict=True)) for name, rows in granted.items()}
    cache.compute(key.units, entries)
    cache.component_insert(key, entries)
    cache.cache.flush_pending_backups()


def land(cache: Hosted) -> None:
    """Every copy ends, and the scheduler looks."""
    engine = cache.controller.l2_transfer_engine
    cache.cache.ready_to_load_host_cache()
    engine.device_to_host_stream.synchronize()
    engine.host_to_device_stream.synchronize()
    cache.cache.check_hicache_events()


def held(cache: Hosted, *, host: bool) -> dict[str, int]:
    """How many pages, and states, the nodes have on a tier."""
    counts = dict.fromkeys(cache.names, 0)
    nodes = list(cache._root().children.values())
    for node in nodes:
        nodes.extend(node.children.values())
        for name in cache.names:
            data = node.component_data[cache.types[name]]
            rows = data.host_value if host else data.value
            counts[name] += 0 if rows is None else len(rows) // (1 if name == "state" else SIZE)
    return counts


def best(cache: Hosted, pages: Sequence[int]) -> int:
    """Where a hit could end with what is on both tiers."""
    found = cache.cache.match_prefix(cache.base.MatchPrefixParams(key=cache._key(key_of(pages))))
    return sum(len(one.key) for one in cache._path(cache._node(found.best_match_node)))


def back_up(cache: Hosted, pages: Sequence[int]) -> None:
    """The backup that an insert asks for when a prefix is due, of all that isn't backed up before it."""
    _, _, node = cache.component_match(key_of(pages))
    cache.cache._apply_cache_actions([cache.cache.tree_core.build_backup_kv_action(node)])


def beginning() -> list[Any]:
    """On the host while the backup runs, and the hit on the device while the load back runs."""
    cache = made("kv+swa")
    serve(cache, [1, 2])
    while_written = held(cache, host=True)
    land(cache)
    cache.component_evict({"kv": 2})
    cache.load(key_of([1, 2]))
    while_loaded, _, _ = cache.component_match(key_of([1, 2]))
    return [while_written, while_loaded]


def shared() -> dict[str, int]:
    """What the backup of three pages takes while that of the first two runs; its window is the last two."""
    cache = made("kv+swa")
    serve(cache, [1, 2])
    before = held(cache, host=True)
    serve(cache, [1, 2, 3])
    return {name: many - before[name] for name, many in held(cache, host=True).items()}


def chained() -> dict[str, int]:
    """What the backup of four pages takes of which nothing is backed up."""
    cache = made("kv+swa", "write_through_selective")
    cache.cache.write_through_threshold = 99
    serve(cache, [1, 2])
    serve(cache, [1, 2, 3, 4])
    back_up(cache, [1, 2, 3, 4])
    return held(cache, host=True)


def halfway() -> dict[str, int]:
    """The same where the host has room for a window of two pages alone: the backup fails, and what stays of it."""
    cache = made("kv+swa", "write_through_selective", host_pages=4)
    cache.cache.write_through_threshold = 99
    serve(cache, [1, 2])
    serve(cache, [1, 2, 3, 4])
    back_up(cache, [1, 2, 3, 4])
    return held(cache, host=True)


def host_room() -> list[int]:
    """Tokens of KV that an eviction of two pages from the host frees, while they are on the device too, and then."""
    cache = made("kv+swa")
    serve(cache, [1, 2])
    land(cache)
    full = cache.types["kv"]
    first = cache.cache.evict_host(2 * SIZE, full)
    cache.component_evict({"kv": 2})
    return [int(first), int(cache.cache.evict_host(2 * SIZE, full))]


def whole_nodes() -> int:
    """The pages of the window that a load back of four pages takes, of six that were computed at once."""
    cache = made("kv+swa")
    serve(cache, [1, 2, 3, 4, 5, 6])
    land(cache)
    cache.component_evict({"kv": 6})
    cache.load(key_of([1, 2, 3, 4]))
    return held(cache, host=False)["swa"]


def own_window() -> list[Any]:
    """Write-back, room for four pages of a window on the host: two that a third page needs came first.

    Then two of another key.  Where a hit could end before the third page is backed up, and after it; and one on the
    other key.
    """
    cache = made("kv+swa", "write_back", host_pages=8)
    serve(cache, [1, 2])
    serve(cache, [1, 2, 3])
    cache.component_evict({"swa": 2})
    serve(cache, [7, 8])
    before = best(cache, [1, 2, 3])
    cache.component_evict({"kv": 2})
    cache.component_evict({"kv": 1})
    return [before, best(cache, [1, 2, 3]), best(cache, [7, 8])]


def tail_first() -> list[bool]:
    """Write-back: whether the third page is on the host, and the two before it."""
    cache = made("kv+swa", "write_back")
    serve(cache, [1, 2])
    serve(cache, [1, 2, 3])
    cache.component_evict({"kv": 1})
    (head,) = cache._root().children.values()
    (tail,) = head.children.values()
    return [bool(tail.backuped), bool(head.backuped)]


def late_window() -> list[int]:
    """Two pages are backed up without their window, and get one while that runs; then a third is backed up behind them.

    The first backup comes so late because the host was full.  The pages of the window that the third page's takes, of
    two that its boundary needs and the host lacks, and where a hit could end when the device has been emptied.
    """
    cache = made("kv+swa", pages=16, host_pages=8)
    for pages in ([7, 8, 9, 10], [1, 2], [1, 2, 3, 4]):
        serve(cache, pages)
    land(cache)
    cache.component_evict({"swa": 6})
    serve(cache, [1, 2, 3, 4, 6])
    serve(cache, [1, 2])
    before = held(cache, host=True)["swa"]
    serve(cache, [1, 2, 5])
    took = held(cache, host=True)["swa"] - before
    land(cache)
    cache.component_evict({"kv": 16})
    return [took, best(cache, [1, 2, 5])]


def own_state() -> list[int]:
    """The states that a load back takes, of a request that comes without one: on its node, and for itself."""
    cache = made("kv+state")
    serve(cache, [1, 2, 3])
    land(cache)
    cache.component_evict({"kv": 3})
    free = cache.component_available()["state"]
    admitted = cache.load(key_of([1, 2, 3]))
    return [free - cache.component_available()["state"] - 1, int(admitted.own is not None)]


def no_state() -> str:
    """As many requests end as there are states, and while their backups run one comes whose state is on the host."""
    cache = made("kv+state", host_pages=24)
    serve(cache, [1, 2, 3])
    land(cache)
    cache.component_evict({"kv": 3})
    for page in range(4, 4 + cache.hosted.places["state"]):
        serve(cache, [page])
    try:
        cache.load(key_of([1, 2, 3]))
    except AssertionError as error:
        return str(error)
    return ""


SCENES = {
    scene.__name__: scene
    for scene in (
        beginning,
        shared,
        chained,
        halfway,
        host_room,
        whole_nodes,
        own_window,
        tail_first,
        late_window,
        own_state,
        no_state,
    )
}

if __name__ == "__main__":
    print(json.dumps(SCENES[sys.argv[1]]()))
