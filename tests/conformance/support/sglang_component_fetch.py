"""What SGLang 0.5.23's prefetches with a window or states do that the port ``component_prefetch`` says otherwise.

``SCENE``, as JSON.  Each is a prefetch as the published code makes it, in its own order: storage answers once, then
memory is taken, then SGLang's own thread reads, and the scheduler looks.  Run by the interpreter of the release's
environment.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from kvlitmus.conformance.adapters.sglang.v0_5_23.component_prefetch import ComponentPrefetch
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key

SIZE = 4


def made(layout: str) -> ComponentPrefetch:
    """A cache with sixteen pages on the host; its window is of two pages."""
    return ComponentPrefetch(Config(page_size=SIZE, pages=16, components=layout))


def key_of(pages: Sequence[int]) -> Key:
    """The key of these pages."""
    return Key(None, tuple(page for page in pages for _ in range(SIZE)), False)


def stored_of(cache: Any, hashes: Sequence[str], start: int, stored: Mapping[str, Sequence[int]]) -> None:
    """Storage has the pages that end there, of those behind ``start`` that have these names, and they can be read."""
    ends = {one: start + (at + 1) * SIZE for at, one in enumerate(hashes)}
    files = {end: one for one, end in ends.items()}
    cache.backend.there = {
        f"{files[end]}.{cache.pools[name]}.bin" for name, some in stored.items() for end in some if end in files
    }
    came = {name: set(some) for name, some in stored.items()}
    cache.backend.fetch = SimpleNamespace(ends=ends, came=came, final=True)


def prefetch(cache: ComponentPrefetch, key: Key, stored: Mapping[str, Sequence[int]]) -> Any:
    """A request arrives, and storage has pages that end there; its operation, with what it has been granted, if any."""
    _, _, node = cache.component_match(key)
    start, controller = cache.depth(node), cache.controller
    rest = cache.key_class(array("q", key.tokens[start:]), key.namespace)
    hashes = cache.hashes(rest, cache.cache.get_last_hash_value(node), page_size=SIZE)
    stored_of(cache, hashes, start, stored)
    handle = cache.base.CacheRequestHandle(rid="r", attempt_id=0)
    cache.cache.prefetch_threshold = SIZE
    cache.cache.prefetch_from_storage(
        handle,
        node,
        array("q", key.tokens[start:]),
        cache.cache.get_last_hash_value(node),
        matched_prefix_tokens=array("q", key.tokens[:start]),
    )
    before = cache.component_available()
    controller.prefetch_thread.resume()
    cache.look()
    operation = next(iter(controller.prefetch_buffer.queue), None)
    return SimpleNamespace(handle=handle, before=before, operation=operation)


def finish(cache: ComponentPrefetch, one: Any) -> None:
    """SGLang's own thread reads, and the scheduler looks."""
    cache.controller.prefetch_io_aux_thread.resume()
    cache.look()
    assert cache.cache.check_prefetch_progress(one.handle)
    cache.look()


def cached(cache: ComponentPrefetch) -> dict[str, int]:
    """How many entries of each component are cached."""
    names = [row[0] for row in cache.component_entries()]
    return {name: names.count(name) for name in cache.names}


def late_memory() -> list[bool]:
    """Memory is taken when storage has answered: whether all of it is free before, and whether it is after."""
    cache = made("kv+state")
    free = cache.component_available()
    one = prefetch(cache, key_of([1, 2]), {"kv": [4, 8], "state": [8]})
    return [one.before == free, cache.component_available() == free]


def all_or_nothing() -> list[object]:
    """All KV of a key came, and its state was lost since storage answered: what is cached, and whether all is free."""
    cache = made("kv+state")
    free = cache.component_available()
    one = prefetch(cache, key_of([1, 2, 3]), {"kv": [4, 8, 12], "state": [12]})
    cache.backend.fetch.came["state"] = set()
    finish(cache, one)
    return [cached(cache), cache.component_available() == free]


def cut_after() -> list[object]:
    """Four pages can be restored, or two, and there is KV for three: what is read, and what is cached of it."""
    cache = made("kv+state")
    assert cache.component_alloc({"kv": 13}) is not None
    one = prefetch(cache, key_of([1, 2, 3, 4]), {"kv": [4, 8, 12, 16], "state": [8, 16]})
    read = len(one.operation.hash_value)
    finish(cache, one)
    return [read, cached(cache), cache.component_available()["kv"]]


def sized_before() -> list[object]:
    """Three pages can be restored, and there is KV for one: what the prefetch has of each component.

    And whether it begins where there is one page of the window, which is what it would read.
    """
    stored = {"kv": [4, 8, 12], "swa": [4, 8, 12]}
    cache, scarce = made("kv+swa"), made("kv+swa")
    assert cache.component_alloc({"kv": 15}) is not None
    one = prefetch(cache, key_of([1, 2, 3]), stored)
    assert scarce.component_alloc({"kv": 15, "swa": scarce.component_available()["swa"] - 1}) is not None
    other = prefetch(scarce, key_of([1, 2, 3]), stored)
    return [{name: len(some) for name, some in cache.staged(one.operation).items()}, other.operation is not None]


def short_behind() -> list[object]:
    """Behind a page with its window storage has one page: where hits end before and after, and what is cached."""
    cache = made("kv+swa")
    finish(cache, prefetch(cache, key_of([1]), {"kv": [4], "swa": [4]}))
    key = key_of([1, 2, 3, 4])
    before, _, _ = cache.component_match(key)
    finish(cache, prefetch(cache, key, {"kv": [8], "swa": [8]}))
    after, _, _ = cache.component_match(key)
    return [before, after, cached(cache)]


def held_hit() -> int:
    """A prefetch goes on from a state: how many states an eviction frees meanwhile."""
    cache = made("kv+state")
    finish(cache, prefetch(cache, key_of([1]), {"kv": [4], "state": [4]}))
    prefetch(cache, key_of([1, 2]), {"kv": [8], "state": [8]})
    return cache.component_evict({"state": 1})["state"]


def gone_storage() -> list[object]:
    """A prefetch is aborted before it is read, and storage detached: what SGLang says, and what is not free then."""
    cache = made("kv+swa+state")
    free = cache.component_available()
    one = prefetch(cache, key_of([1, 2, 3]), {"kv": [4, 8, 12], "swa": [8, 12], "state": [12]})
    cache.cache.release_aborted_request(one.handle)
    done, _ = cache.cache.detach_storage_backend()
    return [done, {name: many - cache.component_available()[name] for name, many in free.items()}]


SCENES = {
    scene.__name__: scene
    for scene in (late_memory, all_or_nothing, cut_after, sized_before, short_behind, held_hit, gone_storage)
}

if __name__ == "__main__":
    print(json.dumps(SCENES[sys.argv[1]]()))
