"""What the adapters of SGLang's caches with several components share: calls and what is read of nodes.

Real are the cache, its tree, its components and the allocators of the release.  The pool of KV has no KV: it keeps
the index from slots to those of the window, which the allocator hands it, and reads it as SGLang's
does.  ``HybridReqToTokenPool`` has the allocator of states, and no rows.

What the adapter does of what the engine does:

* Slots come from ``alloc_extend``, or ``alloc_extend_swa_tail`` where fewer of the window are wanted, as a decode
  server allocates; with pages of one token from ``alloc``.
* An insert is ``insert``, with the slots that the cache has for the key before those that are brought, as a
  request's row has them, and ``prev_prefix_len`` up to there.  Where the window's entries begin is the request's
  evicted length.  A state that the cache has already is given back, as ``cleanup_after_caching_req`` does.
* Giving back is ``free`` of the slots, and ``free_swa`` of those whose window alone is given back.

What a receipt covers is read off the nodes: those whose count the lock raised.  What an insert left is what is not
on the nodes of its key.

Profile: what the code says.  The window's slots are tied to those of KV; an insert that recovers a window takes the
KV that came with it; duplicates are freed by the insert; it asserts that it brings a state; a leaf goes as a whole,
and evictions and locks are by node.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Plan, install, torch_module
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.shapes import Window, needed
from kvlitmus.spec.words.units import Key

LAYOUTS = ("kv+swa", "kv+state", "kv+swa+state")
TYPES = {"kv": "FULL", "swa": "SWA", "state": "MAMBA"}
"""What SGLang calls the components of a layout."""


PROFILE = Profile(
    evict_granularity="node",
    duplicates="cache_frees",
    window_root="shorter",
    component_cascade="later",
    misuse="undefined",
)
PAIRED = replace(PROFILE, component_grants="paired", component_refill="replaces")
CAPABILITIES = frozenset({"components", "component_lookup", "component_counters", "component_sizes", "component_view"})

WINDOWED = (
    Config(page_size=4, pages=16, components="kv+swa"),
    Config(page_size=16, pages=16, components="kv+swa"),
    Config(page_size=4, pages=16, components="kv+swa", bigram=True),
    Config(page_size=4, pages=16, components="kv+swa", policy="lfu"),
)
STATED = (
    Config(page_size=4, pages=16, components="kv+state"),
    Config(page_size=1, pages=16, components="kv+state"),
    Config(page_size=4, pages=16, components="kv+state", policy="slru"),
)

Row = tuple[str, str | None, tuple[object, ...], int]
"""An entry of a snapshot: its component, the namespace and the units of its prefix, its place."""


def window_pool(base: Foreign) -> Foreign:
    """A pool of KV without KV: it has the index from slots to those of the window."""

    class WindowPool(base):  # type: ignore[misc]  # a class of SGLang's
        """What the allocator and the tree ask of a pool."""

        swa_req_ring_size = None
        request_window = None

        def register_mapping(self, mapping: Foreign) -> None:
            """The allocator's index."""
            self.full_to_swa_index_mapping = mapping

        def translate_loc_from_full_to_swa(self, slots: Foreign) -> Foreign:
            """The window's slots of these."""
            return self.full_to_swa_index_mapping[slots].to(torch_module().int32)

    return WindowPool()


class HybridCache:
    """``UnifiedRadixCache`` with the components of a layout; a release says how it is made, and what is called how."""

    plan: Plan
    kinds: str
    """The module with ``ComponentType``."""

    def __init__(self, config: Config) -> None:
        self.config, self.page = config, config.page_size
        self.layout = layout_of(config.components, config.page_size, config.pages)
        self.names = [one.name for one in self.layout.components]
        if config.components not in LAYOUTS:
            raise Unsupported("this is a cache of KV with a window, with states, or with both")
        if "swa" in self.names and self.page == 1:
            raise Unsupported(
                "with pages of one token SGLang has no allocation with fewer slots of the window than of KV"
            )
        self.torch: Foreign = torch_module()
        load = install(self.plan)
        self.base: Foreign = load(f"{MEM}.base_prefix_cache")
        self.key_class: Foreign = load(f"{MEM}.radix_cache").RadixKey
        self.types = {name: getattr(load(self.kinds).ComponentType, TYPES[name]) for name in self.names}
        self.window = next((one.shape.reach for one in self.layout.components if isinstance(one.shape, Window)), None)
        self.allocator = self._allocator(load)
        self.states: Foreign = None
        if "state" in self.names:
            self.states = load(f"{MEM}.allocator.mamba").MambaSlotAllocator(self.layout.places["state"], "cpu")
        rows = load(f"{MEM}.memory_pool").HybridReqToTokenPool
        self.rows: Foreign = object.__new__(rows)  # without its tensors: the allocator of states is all that is used
        self.rows.mamba_allocator = self.states
        self.cache: Foreign = self._cache(load)

    def _cache(self, load: Foreign) -> Foreign:
        """The cache that is judged."""
        return load(f"{MEM}.unified_radix_cache").UnifiedRadixCache(self._params(load))

    def _allocator(self, load: Foreign) -> Foreign:
        """Slots, and slots of the window with them."""
        tokens = {pool: places * self.page for pool, places in self.layout.places.items()}
        common = {"page_size": self.page, "dtype": self.torch.float16, "device": "cpu", "need_sort": False}
        if "swa" in self.names:
            kv = window_pool(load(f"{MEM}.base_swa_memory_pool").BaseSWAKVPool)
            made = load(f"{MEM}.allocator.swa").SWATokenToKVPoolAllocator
            return made(size=tokens["kv"], size_swa=tokens["swa"], kvcache=kv, **common)
        if self.page == 1:
            del common["page_size"]
            return load(f"{MEM}.allocator.token").TokenToKVPoolAllocator(size=tokens["kv"], kvcache=None, **common)
        return load(f"{MEM}.allocator.paged").PagedTokenToKVPoolAllocator(size=tokens["kv"], kvcache=None, **common)

    def _params(self, load: Foreign, **more: object) -> Foreign:
        """What a server makes the cache with; ``more``: what only some releases ask for."""
        return load(f"{MEM}.cache_init_params").CacheInitParams(
            disable=False,
            req_to_token_pool=self.rows,
            token_to_kv_pool_allocator=self.allocator,
            page_size=self.page,
            is_eagle=self.config.bigram,
            eviction_policy=self.config.policy,
            sliding_window_size=self.window,
            enable_mamba_extra_buffer=self.page > 1,
            tree_components=tuple(self.types.values()),
            **more,
        )

    def _length(self, found: Foreign) -> int:
        """How many units a match found."""
        raise NotImplementedError

    def _root(self) -> Foreign:
        """The root of the tree."""
        raise NotImplementedError

    def _node(self, handle: object) -> Foreign:
        """The node that a match names."""
        raise NotImplementedError

    def _lock(self, handle: object) -> object:
        """Lock a node; the receipt."""
        raise NotImplementedError

    def component_unlock(self, receipt: object) -> None:
        """Give back what :meth:`_lock` took."""
        raise NotImplementedError

    def _from(self, params: Foreign, window: int) -> None:
        """An insert has entries of the window from here on."""
        raise NotImplementedError

    def _tensor(self, numbers: Sequence[int]) -> Foreign:
        return self.torch.tensor(list(numbers), dtype=self.torch.int64)

    def _slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of some pages, in order."""
        return [page * self.page + at for page in pages for at in range(self.page)]

    def _pages(self, slots: Foreign) -> list[int]:
        """The pages of slots that are whole pages in order."""
        return [slot // self.page for slot in slots.tolist()[:: self.page]]

    def _key(self, key: Key) -> Foreign:
        return self.key_class(array("q", key.tokens), key.namespace)

    def component_alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """Slots by the allocator's call for a prompt, and states; what was granted is given back where states lack."""
        kv, window, states = (wants.get(name, 0) for name in ("kv", "swa", "state"))
        slots = self._extend(kv * self.page, window * self.page) if kv else self._tensor(())
        if slots is None:
            return None
        taken = self.states.alloc(states) if states else self._tensor(())
        if taken is None:
            self.allocator.free(slots)
            return None
        granted = {"kv": self._pages(slots), "state": taken.tolist(), "swa": []}
        if window:
            granted["swa"] = self._pages(self.allocator.full_to_swa_index_mapping[slots[-window * self.page :]])
        return {name: granted[name] for name in wants}

    def _extend(self, tokens: int, window: int) -> Foreign:
        """Slots for a prompt of so many tokens, of which the last have slots of the window."""
        if "swa" not in self.names:
            return self.allocator.alloc(tokens)
        nothing, length, last = self._tensor([0]), self._tensor([tokens]), self._tensor([-1])
        if window == tokens:
            return self.allocator.alloc_extend(nothing, nothing, length, length, last, tokens)
        return self.allocator.alloc_extend_swa_tail(nothing, nothing, length, length, last, tokens, window)

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        """``free`` of slots, with those of the window; ``free_swa`` where the window's alone are given back."""
        slots = self._slots(given.get("kv", ()))
        window = set(self._slots(given.get("swa", ())))
        if window:
            index = self.allocator.full_to_swa_index_mapping
            alone = [slot for slot, peer in enumerate(index.tolist()[:-1]) if peer in window and slot not in slots]
            self.allocator.free_swa(self._tensor(alone))
        self.allocator.free(self._tensor(slots))
        if given.get("state"):
            self.states.free(self._tensor(given["state"]))

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """``match_prefix``; the handle is the last node's id."""
        found = self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(key)))
        node = found.last_device_node
        there = self._along(self._node(node))
        length = self._length(found)
        entries = {
            one.name: [there[one.name][end] for end in needed(one, length) or () if end in there[one.name]]
            for one in self.layout.components
        }
        return length, entries, node

    def _path(self, node: Foreign) -> list[Foreign]:
        """The nodes from the root to this one, without the root."""
        path: list[Foreign] = []
        while node is not self._root():
            path.insert(0, node)
            node = node.parent
        return path

    def _along(self, node: Foreign) -> dict[str, dict[int, int]]:
        """Of each component what lies on the path to a node, by where it ends."""
        found: dict[str, dict[int, int]] = {name: {} for name in self.names}
        start = 0
        for at in self._path(node):
            for name in self.names:
                found[name].update(self._entries(at, name, start))
            start += self._span(at)
        return found

    def _span(self, node: Foreign) -> int:
        """How many units a node has."""
        return len(node.key)

    def _value(self, node: Foreign, name: str, tier: str) -> Foreign:
        """What a node has of a component, or ``None``; ``tier``: SGLang's name for where."""
        return getattr(node.component_data[self.types[name]], tier)

    def _entries(self, node: Foreign, name: str, start: int, tier: str = "value") -> dict[int, int]:
        """What a node that starts there has of a component, by where it ends."""
        value = self._value(node, name, tier)
        if value is None:
            return {}
        if name == "state":
            return {start + self._span(node): int(value[0])}
        return {start + (at + 1) * self.page: page for at, page in enumerate(self._pages(value))}

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """``insert``; what it did not take it has freed, but for a state, which is given back here."""
        brought = entries.get("kv", {})
        if not brought:
            return {}
        end, first = max(brought), min(brought) - self.page
        key = Key(key.namespace, key.tokens[: end + key.bigram], key.bigram)
        value = [*self._cached(key, first), *self._slots([brought[one] for one in sorted(brought)])]
        window, states = entries.get("swa", {}), list(entries.get("state", {}).values())
        params = self.base.InsertParams(
            key=self._key(key),
            value=self._tensor(value),
            mamba_value=self._tensor(states) if states else None,
            prev_prefix_len=first,
        )
        if "swa" in self.names:
            self._from(params, min(window) - self.page if window else end)
        result = self.cache.insert(params)
        there = self._along(self._deepest(key))
        left = {
            name: [page for at, page in entries.get(name, {}).items() if there.get(name, {}).get(at) != page]
            for name in ("kv", "swa")
        }
        left["state"] = states if result.mamba_exist else []
        if left["state"]:
            self.states.free(self._tensor(left["state"]))
        return {name: left[name] for name in entries}

    def _cached(self, key: Key, length: int) -> list[int]:
        """The slots that are cached for so many units of a key."""
        there = self._along(self._deepest(key))["kv"]
        return self._slots([there.get(at, 0) for at in range(self.page, length + 1, self.page)])

    def _deepest(self, key: Key) -> Foreign:
        """The last node on the path of a key, which may go beyond it or part from it; looks, and changes nothing."""
        units, node, at = key.units, self._root(), 0
        while True:
            goes_on = [
                child
                for child in node.children.values()
                if tuple(child.key)[: self.page] == units[at : at + self.page] and child.key.extra_key == key.namespace
            ]
            if not goes_on:
                return node
            node = goes_on[0]
            at += len(node.key)

    def component_lock(self, handle: object) -> tuple[object, dict[str, list[int]]]:
        """``lock``; what it covers is read off the nodes."""
        path = self._path(self._node(handle))
        before = self._locks(path)
        receipt = self._lock(handle)
        cover: dict[str, list[int]] = {name: [] for name in self.names}
        start = 0
        for node, names in zip(path, self._covered(path, before, self._locks(path)), strict=True):
            for name in names:
                cover[name] += self._entries(node, name, start)
            start += self._span(node)
        return receipt, cover

    def _covered(
        self, path: Sequence[Foreign], before: Sequence[Mapping[str, int]], after: Sequence[Mapping[str, int]]
    ) -> list[list[str]]:
        """Of each node of a path the components that a lock covers: those whose count it raised."""
        del path
        return [[name for name in self.names if new[name] > old[name]] for old, new in zip(before, after, strict=True)]

    def _locks(self, path: Sequence[Foreign]) -> list[dict[str, int]]:
        """How often each component of some nodes is locked."""
        return [{name: node.component_data[self.types[name]].lock_ref for name in self.names} for node in path]

    def component_evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """``evict``."""
        result = self.cache.evict(
            self.base.EvictParams(
                num_tokens=wants.get("kv", 0) * self.page,
                swa_num_tokens=wants.get("swa", 0) * self.page,
                mamba_num=wants.get("state", 0),
            )
        )
        freed = {
            "kv": result.num_tokens_evicted // self.page,
            "swa": result.swa_num_tokens_evicted // self.page,
            "state": result.mamba_num_evicted,
        }
        return {name: int(freed[name]) for name in self.names}

    def component_reset(self) -> None:
        """The cache's ``reset()`` and the allocators' ``clear()``, as SGLang's flush does."""
        self.cache.reset()
        self.allocator.clear()
        if self.states is not None:
            self.states.clear()

    def component_available(self) -> dict[str, int]:
        """The free slots that the allocators count, in pages, and states."""
        free = {}
        if "swa" in self.names:
            free["kv"] = int(self.allocator.full_available_size()) // self.page
            free["swa"] = int(self.allocator.swa_available_size()) // self.page
        else:
            free["kv"] = int(self.allocator.available_size()) // self.page
        if self.states is not None:
            free["state"] = int(self.states.available_size())
        return free

    def component_sizes(self) -> dict[str, Sizes]:
        """``full_evictable_size``, ``swa_protected_size`` and their like, in entries."""
        found = {}
        for name in self.names:
            unit, kind = (1 if name == "state" else self.page), TYPES[name].lower()
            evictable, protected = (
                int(getattr(self.cache, f"{kind}_{what}_size")()) // unit for what in ("evictable", "protected")
            )
            found[name] = Sizes(evictable, protected)
        return found

    def component_free_places(self) -> dict[str, list[int]]:
        """The free lists."""
        free = {}
        if "swa" in self.names:
            free["kv"] = self._free(self.allocator.full_attn_allocator)
            free["swa"] = self._free(self.allocator.swa_attn_allocator)
        else:
            free["kv"] = self._free(self.allocator)
        if self.states is not None:
            free["state"] = self.states.free_slots.tolist()
        return free

    def _free(self, allocator: Foreign) -> list[int]:
        everything = getattr(allocator, "get_all_free_pages", None)
        if everything is not None:
            return list(everything().tolist())
        return [*allocator.free_pages.tolist(), *allocator.release_pages.tolist()]

    def component_entries(self) -> list[Row]:
        """What the nodes have."""
        return self._snapshot("value")

    def _snapshot(self, tier: str) -> list[Row]:
        """What the nodes have on a tier."""
        return list(self._rows(self._root(), (), tier))

    def _rows(self, node: Foreign, units: tuple[object, ...], tier: str) -> Iterator[Row]:
        """What is below a node whose prefix has these units, on a tier."""
        for child in node.children.values():
            whole = (*units, *child.key)
            for name in self.names:
                for end, place in self._entries(child, name, len(units), tier).items():
                    yield name, child.key.extra_key, whole[:end], place
            yield from self._rows(child, whole, tier)
