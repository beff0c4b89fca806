"""The host's tier of SGLang 0.5.23's unified cache with components, as a cache of its own: nothing is on the device.

What each call of the port is here: :mod:`kvlitmus.conformance.adapters.sglang.v0_5_23.component_prefetch`.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, install
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_host import PLAN, Hosted
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.spec.words.shapes import needed
from kvlitmus.spec.words.units import Key

CONTROL = f"{MEM}.hybrid_cache.hybrid_cache_controller"
Places = dict[str, list[int]]


class HostTree(Hosted):
    """Matches, receipts, evictions and inserts of the host's tier.

    ``grafted``: how many units ``insert_host`` was last asked to put there.
    """

    component_sizes = None  # type: ignore[assignment]  # the tree counts what is on the device alone

    def __init__(self, config: Config) -> None:
        if config.tiered or config.storage != "none":
            raise Unsupported("the pools of this target are the host's, and there are no others")
        super().__init__(config, "write_through", config.pages)
        load = install(PLAN)
        self.hashes = load(CONTROL).get_storage_hash_str
        self.storage: Foreign = load(f"{MEM}.hicache_storage")
        self.phase = load(f"{MEM}.unified_cache.components.base").CacheTransferPhase.PREFETCH
        self.grafted = 0
        self._graft = self.cache.tree_core.insert_host
        self.cache.tree_core.insert_host = self._grafted

    def _grafted(self, node: object, key: Foreign, rows: Foreign, hashes: Foreign) -> Foreign:
        """``insert_host``; how much it was is noted."""
        self.grafted = len(key)
        return self._graft(node, key, rows, hashes)

    def look(self) -> None:
        """A scheduler step: ``drain_storage_control_queues``, as often as it has something to free."""
        control = self.controller
        while control.prefetch_sync_queue.queue:
            control.prefetch_sync_thread.resume()
        self.cache.drain_storage_control_queues()
        queues = (control.host_mem_release_queue, *control.extra_host_mem_release_queues.values())
        if any(one.queue for one in queues):  # what a step puts there the next one frees
            self.cache.drain_storage_control_queues()

    def _host_along(self, node: Foreign) -> dict[str, dict[int, int]]:
        """Of each component what lies on the path to a node on the host, by where it ends."""
        found: dict[str, dict[int, int]] = {name: {} for name in self.names}
        start = 0
        for at in self._path(node):
            for name in self.names:
                found[name].update(self._entries(at, name, start, "host_value"))
            start += len(at.key)
        return found

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """``match_prefix``; the handle is the node of the best match."""
        found = self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(key)))
        node = found.last_host_node
        there, length = self._host_along(self._node(node)), self.depth(node)
        entries = {
            one.name: [there[one.name][end] for end in needed(one, length) or () if end in there[one.name]]
            for one in self.layout.components
        }
        return length, entries, node

    def unit(self, name: str) -> int:
        """How many rows a place has."""
        return 1 if name == "state" else self.page

    def _to_rows(self, name: str, places: Sequence[int]) -> Foreign:
        return self._tensor(places if name == "state" else self._slots(places))

    def _to_places(self, name: str, rows: Foreign) -> list[int]:
        return [int(row) for row in rows.tolist()] if name == "state" else self._pages(rows)

    def component_alloc(self, wants: Mapping[str, int]) -> Places | None:
        """``alloc`` of each pool; what was granted is given back where another pool lacks."""
        granted: Places = {}
        for name, many in wants.items():
            rows = self.group.alloc(many * self.unit(name), pool=self.pools[name]) if many else self._tensor(())
            if rows is None:
                self.component_free(granted)
                return None
            granted[name] = self._to_places(name, rows)
        return granted

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        """``free`` of each pool."""
        for name, places in given.items():
            if places:
                self.group.free(self._to_rows(name, places), pool=self.pools[name])

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Places:
        """What a prefetch commits of which all came: ``insert_host``, and the commits of the components."""
        brought = entries.get("kv", {})
        if not brought:
            return {}
        end, first = max(brought), min(brought) - self.page
        there = self._host_along(self._deepest(key))["kv"]
        pages = [there[at] for at in range(self.page, first + 1, self.page)] + [brought[at] for at in sorted(brought)]
        for at in sorted({*self.tails(entries), end}):
            self.graft(key, at, pages[: at // self.page], entries)
        there_now = self._host_along(self._deepest(key))
        left = {
            name: [place for at, place in some.items() if there_now[name].get(at) != place]
            for name, some in entries.items()
        }
        self.component_free({"kv": left.get("kv", [])})
        self.look()
        return left

    def tails(self, entries: Mapping[str, Mapping[int, int]]) -> set[int]:
        """Where states end, and runs of a window."""
        window = entries.get("swa", {})
        return {at for at in window if at + self.page not in window} | set(entries.get("state", {}))

    def graft(self, key: Key, end: int, pages: Sequence[int], entries: Mapping[str, Mapping[int, int]]) -> None:
        """Commit a prefetch from the root up to here."""
        part = self.key_class(array("q", key.tokens[: end + key.bigram]), key.namespace, is_bigram=key.bigram)
        hashes = self.hashes(part, None, page_size=self.page)
        core, root = self.cache.tree_core, self._root().id
        result = self._graft(root, part, self._tensor(self._slots(pages)), hashes)
        self.cache._apply_cache_actions(result.cache_actions)  # noqa: SLF001 - as a commit does
        result.cache_actions = []
        transfers, hits = {}, {}
        for name in self.names[1:]:
            rows = self.run(name, end, entries.get(name, {}))
            if rows:
                pool = self.pools[name]
                transfers[self.types[name]] = [
                    self.storage.PoolTransfer(name=pool, host_indices=self._to_rows(name, rows))
                ]
                hits[pool] = len(rows)
        actions: list[Foreign] = []
        core.commit_hicache_transfers(
            root,
            self.phase,
            transfers,
            cache_actions=actions,
            insert_result=result,
            pool_storage_result=self.storage.PoolTransferResult(end // self.page, hits),
        )
        self.cache._apply_cache_actions(actions)  # noqa: SLF001 - likewise

    def run(self, name: str, end: int, some: Mapping[int, int]) -> list[int]:
        """What is brought of a component that ends here: one state, or a run of a window."""
        rows: list[int] = []
        while end in some and (name != "state" or not rows):
            rows.insert(0, some[end])
            end -= self.page
        return rows

    def component_lock(self, handle: object) -> tuple[object, Places]:
        """``inc_host_lock_ref``; KV before the locked node can't go, for it goes from its end."""
        path = self._path(self._node(handle))
        before = self._locks(path)
        receipt = (handle, self.cache.inc_host_lock_ref(handle).to_dec_params())
        cover: Places = {name: [] for name in self.names}
        start = 0
        for node, counts, new in zip(path, before, self._locks(path), strict=True):
            for name in self.names:
                if name == "kv" or new[name] > counts[name]:
                    cover[name] += self._entries(node, name, start, "host_value")
            start += len(node.key)
        return receipt, cover

    def _locks(self, path: Sequence[Foreign]) -> list[dict[str, int]]:
        return [{name: node.component_data[self.types[name]].host_lock_ref for name in self.names} for node in path]

    def component_unlock(self, receipt: Foreign) -> None:
        """``dec_host_lock_ref``."""
        self.cache.dec_host_lock_ref(*receipt)

    def component_evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """``evict_host``, component by component, of what hasn't gone with the components before."""
        before = self._held()
        gone = dict.fromkeys(self.names, 0)
        for name, many in wants.items():
            if many > gone[name]:
                self.cache.evict_host((many - gone[name]) * self.unit(name), self.types[name])
                gone = self._gone(before)
        return gone

    def _held(self) -> dict[tuple[str, str | None, tuple[object, ...]], int]:
        """Where each cached entry is."""
        return {(name, space, units): place for name, space, units, place in self.component_entries()}

    def _gone(self, before: Mapping[Foreign, int]) -> dict[str, int]:
        """How many entries of each component have left the cache since."""
        after = self._held()
        gone = [at[0] for at, place in before.items() if after.get(at) != place]
        return {name: gone.count(name) for name in self.names}

    def component_available(self) -> dict[str, int]:
        """``available_size`` of the host's pools, in pages, and states."""
        return {name: int(self.group.available_size(self.pools[name])) // self.unit(name) for name in self.names}

    def component_free_places(self) -> Places:
        """The free lists."""
        free = self.free_host()
        return {
            name: free[name] if name == "state" else [row // self.page for row in free[name] if row % self.page == 0]
            for name in self.names
        }

    def component_entries(self) -> list[tuple[str, str | None, tuple[object, ...], int]]:
        """What the nodes have on the host."""
        return list(self._rows(self._root(), (), "host_value"))
