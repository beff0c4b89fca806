"""What the stress of the free-running mode stands on: contents to check, copies that lag, storage that fails.

**Contents.**  The KV of a token is determined by its namespace and the whole prefix up to it: a *fingerprint*, 64 bits.
It fills every row of the token's slot, in each layer, K and V and each head, differently in each.  So whoever reads a
slot can say whether every byte of it is what belongs there.

**Lag.**  On CPU tensors the mover has a thread per direction, which copies layer by layer, and :func:`lagging` lets it
pause.  It reads its source and writes its target when it gets there, so a page that is reused too early shows.  On CUDA
:func:`delay` holds up the streams.

**Failures.**  Copies that can't be submitted, copies that fail under way and leave anything in their target, memory
that runs out: :mod:`kvlitmus.optimized.testing`, when the round says so.

**Trouble.**  :class:`Troubled` delays a page store, lets it raise, forget, and claim what it hasn't.  It also looks at
what goes through it: two puts under one name must bring the same bytes, and rows of one token must agree.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kvlitmus.optimized.data.pools import KVPool
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.transfer import TorchMover
from kvlitmus.optimized.mover import PageArray, Ticket
from kvlitmus.optimized.storage.base import Buffer, PageStore
from tests.optimized.support.pausing import PausingMover

Prints = NDArray[np.int64]

MASK = (1 << 64) - 1


class WrongContents(AssertionError):
    """A slot holds something else than it should."""


def prints_of(namespace: Hashable, tokens: Sequence[int]) -> Prints:
    """The fingerprint of each token: a mix of the one before and the token; the first one's is the namespace's."""
    state = int.from_bytes(hashlib.blake2b(repr(namespace).encode(), digest_size=8).digest(), "little")
    found = np.empty(len(tokens), np.uint64)
    for at, token in enumerate(tokens):
        state = ((state ^ (token + 1)) * 0x9E3779B97F4A7C15) & MASK
        state ^= state >> 29
        found[at] = state
    return found.view(np.int64)


def shape_of(page_size: int, *, layers: int = 3, heads: int = 2, kind: Any = "mha") -> KVShape:
    """A shape whose heads have eight bytes: one fingerprint each."""
    heads = heads if kind == "mha" else 1
    return KVShape(layers=layers, heads=heads, head_dim=8, dtype=torch.uint8, page_size=page_size, kind=kind)


class Contents:
    """Fingerprints in the slots of a pool, on any device.

    ``words``: the whole pool as ``[pages, component, layer, token, head]`` 64-bit words.
    """

    def __init__(self, pool: KVPool) -> None:
        shape = pool.shape
        self.size = shape.page_size
        self.device = pool.device
        draw = torch.Generator().manual_seed(7)
        salts = torch.randint(1 << 62, (shape.components, shape.layers, shape.heads), generator=draw)
        self.page_salts: NDArray[np.int64] = salts[:, :, None, :].numpy()
        self.salts = salts.to(pool.device)
        self.words = pool.canonical().view(torch.int64)[..., 0]

    def there(self, numbers: NDArray[np.int64]) -> torch.Tensor:
        """Numbers as a tensor where the pool is."""
        return torch.from_numpy(np.ascontiguousarray(numbers)).to(self.device)

    def write(self, slots: NDArray[np.int64], prints: Prints) -> None:
        """The KV of these tokens is computed."""
        where, rows = self.there(slots), self.there(prints)[:, None, None, None] ^ self.salts
        # Two index tensors with slices between them come first: [slot, component, layer, head].
        self.words[where // self.size, :, :, where % self.size, :] = rows

    def check(self, slots: NDArray[np.int64], prints: Prints, what: str, layer: int | None = None) -> None:
        """Raise :class:`WrongContents` unless these slots hold these tokens (in one layer, or in all)."""
        which = slice(None) if layer is None else slice(layer, layer + 1)
        where, expected = self.there(slots), self.there(prints)
        found = self.words[where // self.size, :, which, where % self.size, :] ^ self.salts[:, which]
        wrong = (found != expected[:, None, None, None]).flatten(1).cpu().numpy()
        if wrong.any():
            tokens = wrong.any(1)
            at = int(tokens.argmax())
            raise WrongContents(
                f"{what}: token {at} of {len(prints)}, slot {int(slots[at])}, has wrong contents in "
                f"{int(wrong[at].sum())} of {wrong.shape[1]} rows ({int(tokens.sum())} tokens are wrong)"
            )

    def spoil(self, pages: NDArray[np.int32]) -> None:
        """What a copy leaves in these pages that has failed."""
        self.words[self.there(pages.astype(np.int64))] = -1

    def tokens_of(self, page: Buffer) -> Prints | None:
        """The fingerprints in the canonical bytes of a page; ``None`` if its rows don't agree."""
        words = np.frombuffer(page, np.int64).reshape(self.words.shape[1:]) ^ self.page_salts
        first = words[0, 0, :, 0]
        return first.copy() if (words == first[None, None, :, None]).all() else None


# -- copies that lag --------------------------------------------------------------------------------


def lagging(seed: int, lag: float) -> Callable[[int], None]:
    """A pause for copying threads: before some layers they wait, at most ``lag`` seconds."""
    draw, turn = random.Random(seed), threading.Lock()

    def pause(_: int) -> None:
        with turn:
            wait = draw.random() * lag if draw.random() < 0.3 else 0.0
        if wait:
            time.sleep(wait)

    return pause


def delay(mover: TorchMover, draw: random.Random) -> None:
    """On CUDA: hold up one of the streams that copy and compute, for up to some milliseconds."""
    lanes = mover._lanes or ()
    stream = draw.choice([*(lane.stream for lane in lanes), torch.cuda.current_stream()])
    with torch.cuda.stream(stream):
        torch.cuda._sleep(draw.randrange(5_000_000))


class HastyTicket:
    """Planted: says of each layer that it is copied when it is only about to be."""

    def __init__(self, inner: Ticket, layers: int) -> None:
        self.inner = inner
        self.layers = layers

    def advance(self, layers: int | None = None) -> None:
        """See :class:`Ticket`."""

    def layers_ready(self) -> int:
        """See :class:`Ticket`."""
        return min(self.layers, self.inner.layers_ready() + 1)

    def wait_layer(self, layer: int) -> None:
        """See :class:`Ticket`."""
        if layer:
            self.inner.wait_layer(layer - 1)

    def done(self) -> bool:
        """See :class:`Ticket`."""
        return self.layers_ready() == self.layers

    def wait(self, timeout: float | None = None) -> bool:
        """See :class:`Ticket`."""
        self.wait_layer(self.layers - 1)
        return True


class HastyMover(PausingMover):
    """Planted: a mover with such tickets."""

    def backup(self, device_pages: PageArray, host_pages: PageArray) -> Any:
        return HastyTicket(super().backup(device_pages, host_pages), self.layers)

    def load(self, host_pages: PageArray, device_pages: PageArray) -> Any:
        return HastyTicket(super().load(host_pages, device_pages), self.layers)


class Without:
    """Planted: a tree of which some calls have no effect, as if somebody had forgotten them."""

    def __init__(self, tree: Any, *calls: str) -> None:
        self.__dict__.update({call: lambda *_: None for call in calls})
        self.tree = tree

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tree, name)


# -- storage that fails -----------------------------------------------------------------------------


class Troubled:
    """A page store that is slow and fails, with a look at what goes through it.

    rate: how often something goes wrong; delay: seconds that a call takes at most.  ``swaps`` plants a fault: now and
    then a page is answered with that of another key.
    """

    def __init__(
        self, inner: PageStore, contents: Contents, *, seed: int, rate: float, delay: float, swaps: bool = False
    ) -> None:
        self.inner = inner
        self.contents = contents
        self.draw = random.Random(seed)
        self.rate = rate
        self.delay = delay
        self.swaps = swaps
        self.known: dict[str, bytes] = {}
        self.complaints: list[str] = []
        self.counts: Counter[str] = Counter()
        self.turn = threading.Lock()

    def trouble(self, what: str) -> float:
        """Be slow, raise perhaps; returns a number that decides what else goes wrong."""
        with self.turn:
            self.counts[what] += 1
            luck, wait = self.draw.random(), self.draw.random() ** 4 * self.delay
        time.sleep(wait)
        if luck < self.rate / 3:
            with self.turn:
                self.counts["raised"] += 1
            raise OSError("planted trouble")
        return luck

    def exists(self, keys: Sequence[str]) -> int:
        """See :class:`PageStore`; it may claim what isn't there, and deny what is."""
        luck = self.trouble("exists")
        found = self.inner.exists(keys)
        if luck < self.rate / 2:
            return len(keys)
        return found // 2 if luck < self.rate else found

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        """See :class:`PageStore`; pages may be missing, or the answer may be too short."""
        luck = self.trouble("get")
        pages = self.inner.get(keys, size)
        if luck < self.rate / 2:
            pages[len(pages) // 2] = None
        elif luck < self.rate:
            return pages[:-1]
        if self.swaps and luck > 0.5 and None not in pages and len(pages) > 1:
            pages[0], pages[-1] = pages[-1], pages[0]
        return pages

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """See :class:`PageStore`."""
        self.trouble("get")
        return self.inner.get_into(keys, buffers)

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        """See :class:`PageStore`; it may take only some."""
        luck = self.trouble("put")
        for key, value in zip(keys, values, strict=True):
            self.look(key, value)
        if luck < self.rate:
            taken = self.inner.put(keys[: len(keys) // 2], values[: len(keys) // 2])
            return taken + [False] * (len(keys) - len(taken))
        return self.inner.put(keys, values)

    def look(self, key: str, value: Buffer) -> None:
        """What is put must be a page whose rows agree, the same under one name each time, and not change meanwhile."""
        before = bytes(value)
        if self.contents.tokens_of(before) is None:
            self.complaints.append(f"put of {key[:8]}: the rows of a token don't agree")
        with self.turn:
            digest = hashlib.blake2b(before, digest_size=16).digest()
            if self.known.setdefault(key, digest) != digest:
                self.complaints.append(f"put of {key[:8]}: other contents than before")
            wait = self.draw.random() ** 8 * self.delay
        time.sleep(wait)
        if bytes(value) != before:
            self.complaints.append(f"put of {key[:8]}: the page changed while it was being put")

    def clear(self) -> None:
        """See :class:`PageStore`."""
        self.inner.clear()
