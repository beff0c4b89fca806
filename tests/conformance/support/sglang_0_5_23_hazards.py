"""What was known to be wrong in the hierarchies of SGLang 0.5.13.post1, tried on SGLang 0.5.23 through the ports.

Run by the interpreter of the release's own environment; the test beside this file starts it.
Usage: sglang_0_5_23_hazards.py TARGET, with kvlitmus and the checkout on the path.  Prints a line of JSON:
hazard → what was seen.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.tiers import BACKUP, FETCH, PUT, QUERY, Outcome
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_hicache_scene import Scene

STORED = Config(
    page_size=4, pages=16, host_pages=24, storage="attached", stop="wait_complete", threshold=8, rate_limit=64
)
FAIL = Outcome("fail", 1)


def key(last: int, first: int = 1, namespace: str | None = None, *, bigram: bool = False) -> Key:
    """The tokens from first to last."""
    return Key(namespace, tuple(range(first, last + 1)), bigram)


class Hazards:
    """One target."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def forget(self, scene: Scene) -> None:
        """Nothing is cached on either tier."""
        scene.adapter.evict(10_000)
        scene.adapter.evict_host(10_000)

    def stocked(self, config: Config = STORED, whole: Key | None = None) -> Scene:
        """Storage has 16 units, the cache nothing."""
        scene = Scene(self.target, config)
        scene.insert(whole or key(16))
        scene.settle()
        self.forget(scene)
        assert not scene.adapter.tiers().nodes
        return scene

    def reach(self, scene: Scene, stage: int) -> None:
        """A prefetch under way: asked for, answered, noticed, reading, read in part."""
        scene.adapter.prefetch(1, key(16))
        if stage >= 1:
            scene.step(QUERY)
        if stage >= 2:
            scene.adapter.tick()
        if stage >= 3:
            scene.step(FETCH, Outcome("part", 1))
        if stage >= 4:
            scene.adapter.tick()

    def reset_at_every_stage(self) -> list[Any]:
        """H-04: what is left after a reset, by the stage of a prefetch that was under way."""
        left = []
        for stage in range(5):
            scene = self.stocked()
            self.reach(scene, stage)
            scene.adapter.reset()
            scene.adapter.tick()
            view = scene.adapter.tiers()
            left.append([len(scene.adapter.jobs()), scene.adapter.occupied(), len(view.moving), *scene.faults()])
        return left

    def a_stale_answer_hits_the_next_prefetch(self) -> dict[str, Any]:
        """H-05: a request asks again before its first query was answered."""
        scene = self.stocked(replace(STORED, stop="best_effort"))
        scene.adapter.prefetch(1, key(16))
        scene.adapter.poll(1)
        scene.adapter.prefetch(1, key(16))
        scene.step(QUERY)  # the first one's
        scene.adapter.tick()
        return {"occupied": scene.adapter.occupied(), "faults": scene.faults()}

    def detach_at_every_stage(self) -> list[int]:
        """H-06: pages that are lost, by the stage of a prefetch that was under way."""
        lost = []
        for stage in range(5):
            scene = self.stocked()
            self.reach(scene, stage)
            scene.adapter.detach()
            scene.adapter.tick()
            lost.append(len(scene.faults()))
        return lost

    def storage_that_raises(self) -> dict[str, Any]:
        """H-07: what a later prefetch adds after a query, a fetch and a put that raised."""
        scene = self.stocked()
        for kind in (QUERY, FETCH):
            scene.adapter.prefetch(1, key(16))
            if kind == FETCH:
                scene.step(QUERY)
                scene.adapter.tick()
            scene.step(kind, FAIL)
            scene.settle()
            assert scene.adapter.poll(1)
        self.forget(scene)
        scene.insert(key(32, 21))
        scene.step(BACKUP)
        scene.adapter.tick()
        scene.step(PUT, FAIL)
        scene.settle()
        self.forget(scene)
        scene.adapter.prefetch(2, key(16))
        scene.settle()
        return {"waits": not scene.adapter.poll(2), "loaded": scene.adapter.loaded(2), "faults": scene.faults()}

    def a_prefetch_behind_what_is_not_backed_up(self) -> list[Any]:
        """H-08: whether it begins, and where it would attach."""
        scene = Scene(self.target, STORED)
        scene.insert(key(8))
        scene.settle()
        scene.adapter.fail_host_alloc(0)
        scene.insert(key(12))
        asked = scene.adapter.prefetch(1, key(24))
        return [asked.started, asked.matched, asked.anchor]

    def loaded_by_namespace(self) -> list[int]:
        """H-13: what tenants read of tokens that one of them stored: another, nobody, the one."""
        scene = self.stocked(whole=key(16, namespace="x"))
        found = []
        for rid, namespace in enumerate(("y", None, "x")):
            scene.adapter.prefetch(rid, key(16, namespace=namespace))
            scene.settle()
            found.append(scene.adapter.loaded(rid))
        return [*found, len(scene.faults())]

    def storage_that_comes_later(self) -> dict[str, int]:
        """H-14: pages stored, and what is read by a prompt that is the end of another one, and by the whole one."""
        scene = Scene(self.target, replace(STORED, storage="later"))
        scene.insert(key(8))
        scene.settle()
        scene.adapter.attach(scene.store)
        scene.insert(key(16))
        scene.settle()
        seen = {"pages": len(scene.store.contents)}
        for rid, (name, asked) in enumerate({"alias": key(16, 9), "whole": key(16)}.items()):
            self.forget(scene)
            scene.adapter.prefetch(rid, asked)
            scene.settle()
            seen[name] = scene.adapter.loaded(rid)
        return seen

    def a_commit_below_what_is_not_backed_up(self) -> dict[str, Any]:
        """H-28: another request computes the beginning meanwhile, and the host has no room for it."""
        scene = self.stocked()
        self.reach(scene, 2)
        scene.adapter.fail_host_alloc(0)
        scene.insert(key(8))
        scene.settle()
        hanging = scene.hanging()
        scene.adapter.evict(10_000)
        return {"hanging": hanging, "faults": scene.faults()}

    def a_load_that_needs_room_on_both_tiers(self) -> dict[str, Any]:
        """H-29: under write-back, with the device full and hardly any room on the host."""
        scene = Scene(self.target, replace(STORED, storage="none", write="write_back", pages=8, host_pages=6))
        scene.insert(key(16))
        scene.adapter.evict(10_000)
        scene.insert(key(116, 101))
        scene.insert(key(216, 201))
        loaded = scene.adapter.load_back(key(16)).slots
        scene.adapter.evict(10_000)
        scene.adapter.evict_host(10_000)
        scene.settle()
        return {"loaded": len(loaded or ()), "faults": scene.faults()}

    def bigrams_from_storage(self) -> int:
        """H-61: how much is read of what was stored."""
        whole = key(17, bigram=True)
        scene = self.stocked(replace(STORED, bigram=True), whole)
        scene.adapter.prefetch(1, whole)
        scene.settle()
        assert not scene.faults()
        return int(scene.adapter.loaded(1))


def main(attribute: str) -> None:
    """Try everything, and print what was seen."""
    module = importlib.import_module("kvlitmus.conformance.adapters.sglang.v0_5_23.hicache")
    hazards = Hazards(getattr(module, attribute))
    names = [name for name in vars(Hazards) if not name.startswith("_") and name not in ("forget", "stocked", "reach")]
    print(json.dumps({name: getattr(hazards, name)() for name in names}))


if __name__ == "__main__":
    main(*sys.argv[1:])
