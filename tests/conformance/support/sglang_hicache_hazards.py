"""What is known to go wrong in the hierarchies of SGLang 0.5.13.post1, each shown in a few calls through the ports.

Run by the interpreter of the release's own environment; the test beside this file starts it.
Usage: sglang_hicache_hazards.py MODULE TARGET, with kvlitmus and this checkout on the path.  Prints a
line of JSON: hazard → what was seen.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.spec.interface.tiers import FETCH, QUERY, Outcome
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_hicache_scene import Scene

Pages = dict[str, tuple[int, ...]]
STORED = Config(page_size=4, pages=24, host_pages=32, storage="attached", threshold=4, rate_limit=1000)


def key(length: int, start: int = 0, namespace: str | None = None, *, bigram: bool = False) -> Key:
    """So many tokens."""
    return Key(namespace, tuple(range(start, start + length)), bigram)


class Hazards:
    """One target."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def scene(self, known: Pages | None = None, /, **fields: Any) -> Scene:
        """A fresh cache, whose storage has these pages."""
        return Scene(self.target, dataclasses.replace(STORED, **fields), known)

    def stored(self, *keys: Key) -> Pages:
        """What storage has after these keys were cached and everything has settled."""
        scene = self.scene(bigram=keys[0].bigram)
        for one in keys:
            scene.insert(one)
        scene.settle()
        return dict(scene.store.contents)

    def reset_forgets_the_release_queue(self) -> dict[str, Any]:
        """H-04: a prefetch is over, its thread still reads; a flush, and what it holds comes back a second time."""
        scene = self.scene(self.stored(key(16)))
        scene.adapter.prefetch(1, key(16))
        scene.step(QUERY)
        scene.step(FETCH, Outcome("part", 1))
        scene.adapter.poll(1)
        scene.adapter.reset()
        left = len(scene.adapter.jobs())
        scene.settle()
        return {"jobs after the reset": left, "free": len(scene.adapter.tiers().host_free), "faults": scene.faults()}

    def a_stale_revocation_hits_the_next_prefetch(self) -> dict[str, Any]:
        """H-05: a request is asked for again while the query of its first prefetch is under way."""
        scene = self.scene()
        scene.adapter.prefetch(1, key(16))
        scene.adapter.poll(1)
        scene.adapter.prefetch(1, key(16))
        scene.step(QUERY)
        scene.adapter.tick()
        scene.store.contents.update(self.stored(key(16)))
        scene.step(QUERY)
        scene.step(FETCH)
        scene.adapter.poll(1)
        scene.settle()
        return {"loaded": scene.adapter.loaded(1), "faults": scene.faults()}

    def a_detach_frees_twice(self) -> dict[str, Any]:
        """H-06: a detach while a prefetch is asked for, read, and read completely."""
        pages = dict(list(self.stored(key(16)).items())[:3])
        seen: dict[str, Any] = {}
        for stage in range(4):
            scene = self.scene(pages)
            scene.adapter.prefetch(1, key(16))
            for kind, outcome in ((QUERY, Outcome()), (FETCH, Outcome("part", 1)), (FETCH, Outcome()))[:stage]:
                scene.step(kind, outcome)
            seen[f"stage {stage} detached"] = scene.adapter.detach()
            scene.adapter.tick()
            seen[f"stage {stage}"] = scene.faults()
        return seen

    def a_read_that_raises_ends_the_thread(self) -> dict[str, Any]:
        """H-07: storage raises once; the request waits for ever, and so does the next one."""
        scene = self.scene(self.stored(key(16)), stop="wait_complete")
        scene.adapter.prefetch(1, key(16))
        scene.step(QUERY)
        scene.step(FETCH, Outcome("fail", 2))
        scene.adapter.prefetch(2, key(12))
        scene.step(QUERY)
        scene.settle()
        jobs = [(job.kind, job.ready) for job in scene.adapter.jobs()]
        return {"polls": [scene.adapter.poll(1), scene.adapter.poll(2)], "jobs": jobs}

    def a_prefetch_begins_behind_its_anchor(self) -> dict[str, Any]:
        """H-08: pages on the device alone between the anchor and what is to be read."""
        pages = self.stored(key(32))
        scene = self.scene(pages, write="write_through_selective")
        scene.insert(key(8))
        scene.insert(key(8))
        scene.settle()
        scene.insert(key(16))
        asked = scene.adapter.prefetch(1, key(32))
        if asked.started:
            scene.step(QUERY)
        return {
            "matched": asked.matched,
            "anchor": asked.anchor,
            "known": [name in pages for name in scene.asked],
        }

    def tenants_share_names(self) -> dict[str, Any]:
        """H-13: the same tokens in two namespaces have the same names in storage."""
        return {"pages": len(self.stored(key(8, namespace="a"), key(8, namespace="b")))}

    def a_prefetch_at_the_root_loses_its_namespace(self) -> dict[str, Any]:
        """What one tenant's request reads is cached for requests without a namespace."""
        scene = self.scene(self.stored(key(8, namespace="a")))
        scene.adapter.prefetch(1, key(8, namespace="a"))
        scene.step(QUERY)
        scene.step(FETCH)
        scene.adapter.poll(1)
        hits = [scene.adapter.match(key(8, namespace=namespace)).host for namespace in ("a", None)]
        return {"hits": hits, "wrong": len(scene.faults())}

    def names_depend_on_when_storage_came(self) -> dict[str, Any]:
        """H-14: pages that were cached before the attach have no hash, and those behind them begin anew."""
        scene = self.scene(storage="later")
        scene.insert(key(8))
        scene.settle()
        scene.adapter.attach(scene.store)
        scene.insert(key(16))
        scene.settle()
        right = self.stored(key(16))
        return {"stored": len(scene.store.contents), "rightly named": len(right.keys() & scene.store.contents.keys())}

    def a_commit_hangs_below_what_is_not_backed_up(self) -> dict[str, Any]:
        """H-28: another request computes the first of the pages that are being read."""
        scene = self.scene(self.stored(key(24)), write="write_through_selective")
        scene.insert(key(8))
        scene.insert(key(8))
        scene.settle()
        scene.adapter.prefetch(1, key(24))
        scene.step(QUERY)
        scene.step(FETCH)
        scene.insert(key(16))
        scene.adapter.poll(1)
        hanging = scene.hanging()
        return {"hanging": hanging, "evict": tried(lambda: scene.adapter.evict(96)), "faults": scene.faults()}

    def a_load_back_evicts_its_own_sources(self) -> dict[str, Any]:
        """H-29: under write-back the eviction that makes room for a load drops what is to be loaded."""
        scene = self.scene(write="write_back", storage="none", pages=8, host_pages=9)
        scene.insert(key(32))
        scene.adapter.evict(32)
        scene.insert(key(16, 1000))
        scene.insert(key(16, 2000))
        answer = tried(lambda: scene.adapter.load_back(key(32)).slots is not None)
        scene.settle()
        return {"loaded": answer, "faults": tried(lambda: len(scene.faults()))}

    def bigrams_are_stored_under_other_names_than_asked_for(self) -> dict[str, Any]:
        """H-61: what a write path with bigrams stores, its read path doesn't find."""
        pages = self.stored(key(17, bigram=True))
        scene = self.scene(pages, bigram=True)
        scene.adapter.prefetch(1, key(17, bigram=True))
        scene.step(QUERY)
        return {
            "stored": len(pages),
            "asked": len(scene.asked),
            "known": len(pages.keys() & set(scene.asked)),
        }

    def all(self) -> dict[str, Any]:
        """Every hazard; ``None`` where the target can't be brought there."""
        seen: dict[str, Any] = {}
        for name, method in vars(type(self)).items():
            if callable(method) and not name.startswith("_") and name not in ("all", "scene", "stored"):
                try:
                    seen[name] = getattr(self, name)()
                except Unsupported:
                    seen[name] = None
        return seen


def tried(call: Callable[[], Any]) -> Any:
    """The answer, or what was raised."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what was seen
        return f"{type(error).__name__}: {error}"


def main(module: str, attribute: str) -> None:
    """Show them all."""
    print(json.dumps(Hazards(getattr(importlib.import_module(module), attribute)).all()))


if __name__ == "__main__":
    main(*sys.argv[1:])
