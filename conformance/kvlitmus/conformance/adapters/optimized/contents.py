"""What is in the slots of the optimized cache, and how the suite's storage looks to it.

To the suite the contents of a slot are one number.  Here they are all the bytes that a token has in a pool of tensors:
every layer, K and V, every head.  :meth:`Contents.poke` writes the number into each four bytes of them, each under a
**stamp** of its own, so that bytes that come to another layer, component or head make no sense there;
:meth:`Contents.peek` reads all of them, and says :data:`TORN` where they don't agree.

Which kind of cache, element type and host layout is taken, depends on the configuration, so that a run meets several
(:func:`variant_of`); a target may fix them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.tiers import PageStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvlitmus.optimized.storage.base import Buffer

TORN = -1
"""What is in a slot whose bytes don't agree: a number that nobody writes."""

LAYERS, HEADS, HEAD_DIM = 3, 2, 4
KINDS = ("mha", "mla")
DTYPES = ("fp16", "fp8_e4m3", "fp32", "bf16", "fp8_e5m2")
LAYOUTS = ("page_first_direct", "layer_first", "page_head", "page_first")


class Variant(NamedTuple):
    """What is varied: kind of cache, element type, layout of the host pool."""

    kind: str
    dtype: str
    layout: str


VARIANTS = tuple(Variant(kind, dtype, layout) for kind in KINDS for dtype in DTYPES for layout in LAYOUTS)


def variant_of(config: Config, shift: int = 0) -> Variant:
    """The variant of a configuration; others for other numbers ``shift``."""
    return VARIANTS[(zlib.crc32(config.label.encode()) + 7 * shift) % len(VARIANTS)]


class OnDevice:
    """The words of a pool in device memory, read and written as a numpy array is."""

    def __init__(self, pool: Any) -> None:
        import torch

        self.words = pool.canonical().view(torch.int32)
        self.shape = tuple(self.words.shape)

    def at(self, where: Any) -> tuple[Any, ...]:
        """An index of numpy's for torch."""
        import numpy as np
        import torch

        device = self.words.device
        return tuple(torch.from_numpy(part).to(device) if isinstance(part, np.ndarray) else part for part in where)

    def __getitem__(self, where: Any) -> NDArray[np.uint32]:
        import numpy as np

        found: NDArray[np.uint32] = self.words[self.at(where)].cpu().numpy().view(np.uint32)
        return found

    def __setitem__(self, where: Any, words: NDArray[np.uint32]) -> None:
        import numpy as np
        import torch

        self.words[self.at(where)] = torch.from_numpy(words.view(np.int32)).to(self.words.device)


class Contents:
    """Pools of tensors behind the page numbers of one cache, and the mover between them."""

    def __init__(self, config: Config, reserved: int, variant: Variant, on: str = "cpu") -> None:
        import numpy as np

        from kvlitmus.optimized.data.pools import DevicePool, HostPool
        from kvlitmus.optimized.data.shape import DTYPES as TYPES
        from kvlitmus.optimized.data.shape import KVShape
        from kvlitmus.optimized.data.transfer import TorchMover

        kind: Any = variant.kind
        layout: Any = variant.layout
        shape = KVShape(
            kind=kind,
            layers=LAYERS,
            heads=HEADS if kind == "mha" else 1,
            head_dim=HEAD_DIM,
            dtype=TYPES[variant.dtype],
            page_size=config.page_size,
        )
        self.size = config.page_size
        device = DevicePool(shape, config.pages + reserved, device=on)
        host = HostPool(shape, config.host_pages, layout=layout, pinned=on != "cpu")
        self.mover = TorchMover(device, host, stepped=True)
        # [page, component, layer, token, head, four bytes]: the order of storage within a page
        self.pools: dict[str, Any] = {
            tier: pool.canonical().numpy().view(np.uint32) if pool.device.type == "cpu" else OnDevice(pool)
            for tier, pool in (("device", device), ("host", host))
        }
        _, *self.form = self.pools["device"].shape
        words = self.form[0] * self.form[1] * self.form[3] * self.form[4]
        stamps = np.arange(1, words + 1, dtype=np.uint32) * np.uint32(0x9E3779B1)
        self.stamps = stamps.reshape(self.form[0], self.form[1], 1, self.form[3], self.form[4])

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Write one number into each of these device slots."""
        pool, stamps = self.pools["device"], self.stamps[:, :, 0]
        for slot, value in zip(slots, values, strict=True):
            pool[slot // self.size, :, :, slot % self.size] = stamps ^ value

    def spoil(self, tier: str, pages: NDArray[np.int32]) -> None:
        """A copy into these pages has failed: what is in them is torn."""
        import numpy as np

        if len(pages):
            self.pools[tier][(pages.astype(np.int64),)] = np.zeros((len(pages), *self.form), np.uint32)

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """The number in each of these slots, or :data:`TORN`."""
        import numpy as np

        if not len(slots):
            return []
        at = np.asarray(slots, np.int64)
        found = self.pools[tier][at // self.size, :, :, at % self.size] ^ self.stamps[:, :, 0]
        return agreed(found.reshape(len(slots), -1))

    def page_bytes(self, values: Sequence[int]) -> bytes:
        """A page as storage keeps it, with one of these numbers per slot."""
        import numpy as np

        numbers = np.asarray(values, np.uint32).reshape(1, 1, -1, 1, 1)
        whole: NDArray[np.uint32] = self.stamps ^ numbers
        return whole.tobytes()

    def page_values(self, page: Buffer) -> tuple[int, ...]:
        """The numbers in a page as storage keeps it; what is torn, or of another length, is :data:`TORN`."""
        import numpy as np

        words = np.frombuffer(page, np.uint32)
        if words.size != np.prod(self.form):
            return (TORN,) * self.size
        found = words.reshape(self.form) ^ self.stamps
        return tuple(agreed(np.moveaxis(found, 2, 0).reshape(self.size, -1)))


def agreed(words: NDArray[np.uint32]) -> list[int]:
    """For each row the number that all its words agree on, or :data:`TORN`."""
    first = words[:, 0]
    same = (words == first[:, None]).all(axis=1)
    return [int(value) if whole else TORN for value, whole in zip(first.tolist(), same.tolist(), strict=True)]


class SuiteStore:
    """The storage that the suite brings, as the optimized cache wants it: batches of bytes.

    A batch ends with the first page that the suite's storage has not, or doesn't take, as if pages were asked for one
    by one.  What it raises comes through.
    """

    def __init__(self, store: PageStore, contents: Contents) -> None:
        self.store = store
        self.contents = contents

    def exists(self, keys: Sequence[str]) -> int:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`."""
        return self.store.exists(keys)

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`."""
        found: list[bytes | None] = []
        for key in keys:
            values = self.store.get(key)
            whole = values is not None and len(values) == self.contents.size
            page = self.contents.page_bytes(values) if values is not None and whole else None
            if page is None or (size is not None and len(page) != size):
                break
            found.append(page)
        return found + [None] * (len(keys) - len(found))

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`."""
        filled: list[bool] = []
        for key, buffer in zip(keys, buffers, strict=True):
            (page,) = self.get([key], len(buffer))
            if page is None:
                break
            buffer[:] = page
            filled.append(True)
        return filled + [False] * (len(keys) - len(filled))

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`."""
        taken: list[bool] = []
        for key, page in zip(keys, values, strict=True):
            if not self.store.put(key, self.contents.page_values(page)):
                break
            taken.append(True)
        return taken + [False] * (len(keys) - len(taken))

    def clear(self) -> None:
        """The suite's storage is the suite's to clear."""
