"""What stands in for hardware and storage in SGLang's hierarchies, on a CPU, whatever the release.

Each is replaced by something that keeps the order in which things happen:

* ``transfer_kv_direct``, the copy between device and host of the I/O backend ``direct``, which
  exists for CUDA only: the same rows are copied by index, when the stream that it was put on comes
  to it.  Which rows, and which stream, SGLang decides.
* CUDA's streams and events, ``threading.Thread`` and ``queue.Queue`` inside the controllers
  (:mod:`kvlitmus.conformance.adapters.sglang.common.steps`).
* The clock of timeouts: the one that the suite sets.
* ``StorageBackendFactory``: the backend that it makes is :class:`Backend`, which asks the suite's
  store, one page after the other.  Like other storage without zero copy it is used through
  ``batch_exists``, ``batch_get`` and ``batch_set``.
* ``STORAGE_BATCH_SIZE``, the number of pages per storage call, is 1 instead of 128, so that reads
  and writes can be stopped between any two pages.
* ``atexit.register``: a cache that is no longer needed is forgotten instead of shut down.  The check
  that 10 GiB of memory stay free: the pools take a few kilobytes.  SGLang's log is silent.

A KV pool has one layer with one head of one float32 number, for K and V each.  The suite's numbers
are whole and below 2**24, so they survive unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, torch_module
from kvlitmus.spec.interface.tiers import PageStore

SRT = "sglang.srt"


class Backend:
    """A storage backend over the suite's store, as the controllers use it.

    Whether the store has, takes or refuses a page is the store's own answer.  ``left`` is how many
    more pages may be read or written before the thread stops; ``None``: any number.
    """

    def __init__(self, store: PageStore, page_size: int) -> None:
        self.store = store
        self.page_size = page_size
        self.left: int | None = None
        self.torch: Foreign = torch_module()

    def _page(self) -> None:
        """Another page is about to be read or written: the thread stops here if it is one too many."""
        thread = steps.here()
        while self.left == 0 and thread is not None and not thread.joined:
            thread.stop()
        if self.left:
            self.left -= 1

    def batch_exists(self, keys: Sequence[str], _extra_info: object = None) -> int:
        """How many of the pages are stored, up to the first one that isn't."""
        return self.store.exists(list(keys))

    def batch_get(self, keys: Sequence[str], _targets: object = None, _sizes: object = None) -> list[Foreign]:
        """The pages, flat, K before V; ``None`` for those that aren't stored."""
        pages: list[Foreign] = []
        for key in keys:
            self._page()
            contents = self.store.get(key)
            numbers = None if contents is None else [*contents, *contents]
            pages.append(None if numbers is None else self.torch.tensor(numbers, dtype=self.torch.float32))
        return pages

    def batch_set(self, keys: Sequence[str], values: Sequence[Foreign]) -> bool:
        """Store the pages; stops at the first one that the store refuses."""
        for key, value in zip(keys, values, strict=True):
            self._page()
            if not self.store.put(key, [int(number) for number in value[: self.page_size].tolist()]):
                return False
        return True

    def register_mem_host_pool_v2(self, *_args: object) -> None:
        """Nothing to prepare."""

    def register_mem_pool_host(self, mem_pool_host: object) -> None:
        """Nothing to prepare."""

    def get_stats(self) -> None:
        """Nothing to tell."""


class BackendFactory:
    """``StorageBackendFactory``: makes the one backend there is."""

    made: Backend | None = None

    @classmethod
    def create_backend(cls, *_args: object, **_kwargs: object) -> Backend | None:
        """What the adapter that attaches has prepared."""
        return cls.made


def transfer_kv_direct(
    src_layers: Sequence[Foreign],
    dst_layers: Sequence[Foreign],
    src_indices: Foreign,
    dst_indices: Foreign,
    **_kwargs: object,
) -> None:
    """Copy rows, when the stream comes to it.  The indices are read now, as the real one does on the host."""
    pairs = list(zip(src_layers, dst_layers, strict=True))
    source, target = src_indices.clone(), dst_indices.clone()

    def copy() -> None:
        for src, dst in pairs:
            dst[target] = src[source]

    steps.Stream.put(copy)
