"""A prefix cache for a model with a sliding window: KV, and the window's KV in a pool of its own."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile

Prefix = tuple[str | None, tuple[int, ...]]


class WindowCache:
    """Pages of two kinds, ``kv`` and ``swa``, each by the whole prefix that ends with it."""

    def __init__(self, pools: dict[str, int], page_size: int, window: int) -> None:
        self.size, self.window = page_size, window
        self.free = {kind: list(range(many)) for kind, many in pools.items()}
        self.cached: dict[str, dict[Prefix, int]] = {kind: {} for kind in pools}  # least recently used first
        self.locks: Counter[tuple[str, Prefix]] = Counter()

    def prefixes(self, tenant: str | None, tokens: tuple[int, ...], first: int = 0) -> list[Prefix]:
        """The prefixes that end with each page of a prompt, from a page on."""
        return [(tenant, tokens[:end]) for end in range((first + 1) * self.size, len(tokens) + 1, self.size)]

    def needs(self, tenant: str | None, tokens: tuple[int, ...]) -> dict[str, list[Prefix]]:
        """What must be there to go on after these tokens: all of the KV, of the window its last pages."""
        pages = self.window // self.size
        first = max(0, len(tokens) // self.size - pages)
        return {"kv": self.prefixes(tenant, tokens), "swa": self.prefixes(tenant, tokens, first)}

    def match(self, tenant: str | None, tokens: tuple[int, ...]) -> dict[str, list[Prefix]]:
        """The longest prefix of which everything is there that it needs."""
        whole = list(takewhile(self.cached["kv"].__contains__, self.prefixes(tenant, tokens)))
        for end in range(len(whole) * self.size, 0, -self.size):
            found = self.needs(tenant, tokens[:end])
            if all(prefix in self.cached["swa"] for prefix in found["swa"]):
                self.touch(found)
                return found
        return {"kv": [], "swa": []}

    def touch(self, found: dict[str, list[Prefix]]) -> None:
        """Used now."""
        for kind, prefixes in found.items():
            for prefix in prefixes:
                self.cached[kind][prefix] = self.cached[kind].pop(prefix)

    def insert(self, kind: str, prefix: Prefix, page: int) -> bool:
        """Cache a page, unless there is one."""
        if prefix in self.cached[kind]:
            return False
        self.cached[kind][prefix] = page
        return True

    def evict(self, kind: str, many: int) -> int:
        """Free pages of one kind that nobody has locked; of the KV from its end, so that it has no gap."""
        cached, gone = self.cached[kind], 0
        while gone < many:
            inner = {(tenant, tokens[: -self.size]) for tenant, tokens in cached} if kind == "kv" else set()
            going = [prefix for prefix in cached if prefix not in inner and not self.locks[kind, prefix]]
            if not going:
                break
            self.free[kind].append(cached.pop(going[0]))
            gone += 1
        return gone
