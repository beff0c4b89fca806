"""SGLang 0.5.23's unified cache with host memory for all components, with contents, on a CPU.

Everything has contents: the number of the prefix that a row stands for.  So it can be seen where a copy went.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from kvlitmus.conformance.adapters.sglang.common.stubs import Peer
from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_host
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_host import PLAN
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_hosted_slips import plant


class Hosted(component_host.Hosted):
    """With contents."""

    def __init__(self, config: Config, write: str, host_pages: int) -> None:
        super().__init__(config, write, host_pages)
        self.numbers: dict[object, int] = {}

    def number(self, name: str, units: Sequence[object]) -> float:
        """The contents of a component for a prefix."""
        return float(self.numbers.setdefault((name, tuple(units)), len(self.numbers) + 1))

    def compute(self, units: Sequence[object], entries: Mapping[str, Mapping[int, int]]) -> None:
        """A request has computed these entries of a key."""
        for name, rows in self.layers.items():
            for end, page in entries.get(name, {}).items():
                for at in range(self.page):
                    length = end - self.page + at + 1
                    rows.k[page * self.page + at] = self.number(name, units[:length])
                    rows.v[page * self.page + at] = -self.number(name, units[:length])
        for end, slot in entries.get("state", {}).items():
            self.rows.mamba_pool.temporal[0, slot] = self.number("state", units[:end])
            self.rows.mamba_pool.conv[0, slot] = -self.number("state", units[:end])

    def contents(self, name: str, rows: Sequence[int], *, host: bool) -> list[tuple[float, float]]:
        """What some rows hold."""
        pool = self.group.get_pool(self.pools[name]) if host else None
        if name == "state":
            first, second = (
                (pool.temporal_buffer, pool.conv_buffer[0])
                if pool is not None
                else (self.rows.mamba_pool.temporal[0], self.rows.mamba_pool.conv[0])
            )
            return [(float(first[row].reshape(-1)[0]), float(second[row].reshape(-1)[0])) for row in rows]
        if pool is not None:
            size = self.page
            return [
                (float(pool.k_buffer[row // size, 0, row % size]), float(pool.v_buffer[row // size, 0, row % size]))
                for row in rows
            ]
        layer = self.layers[name]
        return [(float(layer.k[row]), float(layer.v[row])) for row in rows]


class Behind(Hosted):
    """The device alone is judged: what is inserted is backed up at once, and nothing is ever loaded back."""

    def __init__(self, config: Config, write: str, host_pages: int, slip: str = "") -> None:
        super().__init__(config, write, host_pages)
        if slip:
            plant(self, slip)

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """And its backup, from beginning to end."""
        left = super().component_insert(key, entries)
        self.cache.flush_pending_backups()
        self.controller.l2_transfer_engine.device_to_host_stream.synchronize()
        self.cache.check_hicache_events()
        return left


def behind(target: Peer, write: str, slip: str = "", host_pages: int = 12) -> Peer:
    """A target of the device alone, with host memory behind it."""
    return replace(target, plan=PLAN, build=partial(Behind, write=write, host_pages=host_pages, slip=slip))
