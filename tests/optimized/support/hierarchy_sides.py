"""What the two hierarchies of a pair work on: contents in numpy, and a storage that can be told to fail."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from kvlitmus.conformance.checker.harness_store import StorageDownError
from kvlitmus.optimized.mover import Ticket

LAYERS = 3


class ArrayTicket:
    """A copy of pages that is made layer by layer when it is advanced."""

    def __init__(self, mover: ArrayMover, source: Any, at: Any, target: Any, to: Any) -> None:
        self.parts = source, mover.slots(at), target, mover.slots(to)
        self.ready = 0

    def advance(self, layers: int | None = None) -> None:
        source, at, target, to = self.parts
        end = LAYERS if layers is None else min(LAYERS, self.ready + layers)
        target[self.ready : end, to] = source[self.ready : end, at]
        self.ready = end

    def layers_ready(self) -> int:
        return self.ready

    def wait_layer(self, layer: int) -> None:
        if layer >= self.ready:
            raise RuntimeError(f"layer {layer} is not copied yet")

    def done(self) -> bool:
        return self.ready == LAYERS

    def wait(self, timeout: float | None = None) -> bool:
        self.advance()
        return True


class ArrayMover:
    """Contents in numpy: a number per layer and slot."""

    layers = LAYERS

    def __init__(self, page_size: int, device_pages: int, host_pages: int) -> None:
        self.size = page_size
        self.page_bytes = LAYERS * page_size * 8
        self.device = np.zeros((LAYERS, device_pages * page_size), np.int64)
        self.host = np.zeros((LAYERS, host_pages * page_size), np.int64)

    def slots(self, pages: Any) -> Any:
        return (np.asarray(pages, np.int64)[:, None] * self.size + np.arange(self.size)).reshape(-1)

    def backup(self, device_pages: Any, host_pages: Any) -> Ticket:
        return ArrayTicket(self, self.device, device_pages, self.host, host_pages)

    def load(self, host_pages: Any, device_pages: Any) -> Ticket:
        return ArrayTicket(self, self.host, host_pages, self.device, device_pages)

    def copy(self, device_pages: Any, to: Any) -> None:
        self.device[:, self.slots(to)] = self.device[:, self.slots(device_pages)]

    def save(self, device_pages: Any, host_pages: Any) -> Any:
        kept = self.device[:, self.slots(device_pages)]
        for at in np.flatnonzero(host_pages >= 0):
            kept[:, at * self.size : (at + 1) * self.size] = self.host[:, self.slots(host_pages[at : at + 1])]
        return kept

    def restore(self, kept: Any, device_pages: Any) -> None:
        self.device[:, self.slots(device_pages)] = kept

    def spoil(self, tier: str, pages: Any) -> None:
        """What a copy leaves that has failed."""
        (self.device if tier == "device" else self.host)[:, self.slots(pages)] = -1

    def read_page(self, host_page: int) -> bytes:
        return self.host[:, host_page * self.size : (host_page + 1) * self.size].tobytes()

    def write_page(self, host_page: int, contents: Any) -> None:
        page = np.frombuffer(contents, np.int64).reshape(LAYERS, self.size)
        self.host[:, host_page * self.size : (host_page + 1) * self.size] = page


class ScriptedStore:
    """A store that can be told to have, or take, so many pages more and then to refuse or to raise.

    It speaks to either side: ``exists`` to both, ``get`` and ``put`` of batches.
    """

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.left: int | None = None
        self.raises = False

    def spent(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        if self.left < 0 and self.raises:
            raise StorageDownError("the storage is down")
        return self.left < 0

    def exists(self, keys: Sequence[str]) -> int:
        if self.raises:
            raise StorageDownError("the storage is down")
        have = 0
        while have < len(keys) and keys[have] in self.pages:
            have += 1
        return have if self.left is None else min(have, self.left)

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        found = [None if self.spent() else self.pages.get(key) for key in keys]
        return [page if page is None or size is None or len(page) == size else None for page in found]

    def get_into(self, keys: Sequence[str], buffers: Any) -> list[bool]:
        raise NotImplementedError

    def put(self, keys: Sequence[str], values: Any) -> list[bool]:
        taken = []
        for key, value in zip(keys, values, strict=True):
            taken.append(not self.spent())
            if taken[-1]:
                self.pages[key] = bytes(value)
        return taken

    def clear(self) -> None:
        self.pages.clear()


def fingerprint(namespace: str | None, tokens: Sequence[int]) -> int:
    """What belongs in the slot of the last of these tokens."""
    text = repr((namespace, tuple(tokens))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")
