"""Caches of components beside SGLang's: KV with a sliding window, and KV with states of Mamba.

Both sides keep the same of a prompt: a window of 1,024 tokens, or a state at each end that was cached, and as many
places of each.  Trees fork as in :mod:`benchmarks.control.chats`, but a chat's prompts are cached too, when their
prefill ends: SGLang's scheduler does so, and where the next prompt parts from what a turn has cached there is a state
only if its prompt left one.

SGLang's is ``UnifiedRadixCache`` with its compiled core, without a host, made as the suite's adapter makes it, and
called as its scheduler calls it, less what makes it slower on a CPU alone: pages come from its two allocators and go
into its index, as ``alloc`` does with pages of one token, without the batch's kernel.  No state is copied when a prompt
goes on from one, here or there.  Ours is asked for pages, and evicts where it has too few; SGLang's looks at what is
available first.  What such a look costs is shown.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.control.chats import Chat, cached, comb, stripped, tails
from benchmarks.control.contender import Contender
from benchmarks.control.goals import WITH_COMPONENTS
from benchmarks.control.rows import PAGE, K, Peers, Row, Scale
from benchmarks.control.sglang import Sglang, Unified
from benchmarks.control.tokens import Tokens
from benchmarks.timing import Action, Call
from kvlitmus.conformance.adapters.optimized.components import kinds_of
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.shapes import Component, Point, Run, Shape, Window

REACH = K
"""Tokens of the window, as many as Gemma 3 has."""

KINDS = dict(zip(WITH_COMPONENTS, (("swa",), ("state",)), strict=True))
"""The rows, and what their caches have beside the KV."""

Units = NDArray[np.int64]


def layout(kind: str, tokens: int) -> Layout:
    """KV and what else a row's caches keep; a place of each for every page of so many tokens."""
    shapes: dict[str, Shape] = {"kv": Run(), "swa": Window(REACH), "state": Point()}
    names = ("kv", *KINDS[kind])
    return Layout(
        tuple([Component(name, shapes[name], name, PAGE, PAGE) for name in names]),
        dict.fromkeys(names, tokens // PAGE),
    )


class OursWithComponents(Contender):
    """``kvlitmus.optimized.components``: a window wherever there is KV, a state where an insert ends."""

    name = "ours"
    page_size = PAGE

    def __init__(self, kind: str, tokens: int) -> None:
        from kvlitmus.optimized.components import ComponentConfig, component_tree

        made = layout(kind, tokens)
        config = ComponentConfig(
            page_size=PAGE, components=kinds_of(made), places=tuple(made.places.values()), cascade="later"
        )
        self.cache = component_tree(config)
        self.points = [one.name == "state" for one in made.components]
        self.unlock = self.cache.unlock

    def native(self, tokens: Tokens) -> Units:
        """A copy, so that none is compared with itself."""
        return tokens.astype(np.int64)

    def lock(self, units: Units) -> int:
        """Lock what is cached for these units."""
        receipt: int = self.cache.lock(None, units)[0]
        return receipt

    def available(self) -> Call:
        """The call that tells how many places are free."""
        return partial(self.cache.available)

    def match(self, tokens: Tokens) -> Call:
        """The call that matches a prompt; it lists the places too."""
        return partial(self.cache.match, None, self.native(tokens))

    def _known(self, units: Units) -> tuple[int, Any, Any]:
        length, places = self.cache.match(None, units)
        return length, units[:length], places

    def _wants(self, pages: int) -> list[int]:
        """How many places are wanted with so many pages."""
        return [min(1, pages) if point else pages for point in self.points]

    def _take(self, tokens: int) -> Any:
        places = self.cache.alloc(self._wants(tokens // PAGE))
        assert places is not None
        return places

    def _join(self, slots: Any, more: Any) -> Any:
        return more  # only what is new is handed over

    def _given(self, units: Units, slots: Any, known: int) -> tuple[Any, ...]:
        ends = np.arange(known + PAGE, len(units) + 1, PAGE)
        return None, units, [ends[-1:] if point else ends for point in self.points], slots

    def serve(self, units: Units) -> int:
        """One request: match, lock, allocate, evict where that fails, insert, unlock; returns the tokens found."""
        cache = self.cache
        known, _ = cache.match(None, units)
        receipt, _ = cache.lock(None, units[:known])
        wants = self._wants((len(units) - known) // PAGE)
        fresh = cache.alloc(wants)
        if fresh is None:
            cache.evict(wants)
            fresh = cache.alloc(wants)
        cache.free(cache.insert(*self._given(units, fresh, known)))
        cache.unlock(receipt)
        return int(known)


class Hybrid(Unified):
    """0.5.23: ``UnifiedRadixCache`` with the components of a row, on its compiled core."""

    def __init__(self, kind: str, tokens: int) -> None:
        from kvlitmus.conformance.adapters.sglang.v0_5_23.components import Hybrid as Adapter

        mine = layout(kind, tokens)

        class Made(Adapter):
            """With a window and pools as large as ours."""

            core = "rust"

            def _allocator(self, load: Any) -> Any:
                self.layout, self.window = mine, self.window and REACH
                return super()._allocator(load)

        made = Made(Config(page_size=PAGE, pages=tokens // PAGE, components="+".join(mine.places)))
        Sglang.__init__(self, made, "rust", PAGE)
        self.states, self.window = made.states, made.types.get("swa")

    def available(self) -> Call:
        """The call that tells how many places are free."""
        sizes = [self.allocator.available_size]
        if self.window:
            sizes = [self.allocator.full_available_size, self.allocator.swa_available_size]
        if self.states:
            sizes.append(self.states.available_size)
        return lambda: [size() for size in sizes]

    def _take(self, tokens: int) -> Any:
        """Slots, with those of the window, and a state."""
        state = self.states.alloc(1) if self.states else None
        if not self.window:
            return self.allocator.alloc(tokens), state
        slots, beside = self.allocator.full_attn_allocator, self.allocator.swa_attn_allocator
        taken = slots.alloc(tokens)
        self.allocator.set_full_to_swa_mapping(taken, beside.alloc(tokens))
        return taken, state

    def _join(self, slots: Any, more: Any) -> Any:
        return self.torch.cat((slots, more[0])), more[1]

    def _insert_params(self, key: Any, value: Any, known: int) -> Any:
        slots, state = value
        made = self.base.InsertParams(key=key, value=slots, mamba_value=state, prev_prefix_len=known)
        if self.window:
            made.set_evicted_seqlen(self.window, known)
        return made

    def serve(self, tokens: Any) -> int:
        """One request: match, lock, list, look, evict what is missing, allocate, insert, unlock; the tokens found."""
        key = self._key(tokens)
        known, node, slots = self._found(self.cache.match_prefix(self.base.MatchPrefixParams(key=key)))
        receipt = self.lock(node)
        missing = len(tokens) - known
        states = self.states.available_size() if self.states else 1
        if missing > self.allocator.available_size() or not states:
            swa = missing if self.window else 0
            wants = self.base.EvictParams(num_tokens=missing, swa_num_tokens=swa, mamba_num=int(not states))
            self.cache.evict(wants)
        fresh = self._take(missing)
        result = self.cache.insert(self._insert_params(key, self._join(slots, fresh), known))
        if result.mamba_exist:
            self.states.free(fresh[1])
        self.unlock(receipt)
        return known


def contenders(peers: Peers, kind: str, tokens: int) -> list[Any]:
    """Ours, and the release's where it has such a tree that is compiled."""
    found: list[Any] = [OursWithComponents(kind, tokens)]
    if peers.release == "0.5.23":
        found.append(Hybrid(kind, tokens))
    return found


def with_components(peers: Peers, scale: Scale, kind: str) -> Row:
    """Match, lock and unlock, and a whole request in trees that fork; of all seeds the one that is worst for us."""
    row = Row(kind)
    trees: dict[str, Callable[[int, int], Chat]] = {"comb": comb, "stripped": partial(stripped, prompts=True)}
    for tree, turns in itertools.product(trees, scale.turns):
        for seed in range(scale.seeds):
            made = trees[tree](turns, seed)
            caches = contenders(peers, kind, 2 * K * (turns + 1) + made.fresh * scale.grown)
            known = cached(caches, made, turns)
            asked, head, cpu = made.asked, made.asked[:known], time.thread_time_ns
            actions = {
                "match": {one.name: Action(one.match(asked), clock=cpu) for one in caches},
                "lock and unlock": {one.name: Action(one.lock_unlock(asked), clock=cpu) for one in caches},
                "whole request": {one.name: one.request(head, tails(made.fresh), scale.times) for one in caches},
            }
            for what, series in actions.items():
                row.add_worst(f"{tree}, {turns} turns, {what}", series, scale.slow_rounds)
    row.add("look at what is available", {one.name: Action(one.available()) for one in caches}, scale.rounds)
    return row
