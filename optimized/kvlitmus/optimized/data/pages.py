"""A page as storage sees it: its canonical bytes, the same for every layout.

The order is ``[K, V][layer][token][head][element]``, ``page_bytes`` long: what the layout ``page_first_direct`` has
in memory, so that there a page is read and written in place.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from kvlitmus.optimized.data.pools import KVPool
from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.storage.base import Buffer

PIECE = 32 * 2**20
"""Bytes that are copied at a time within a device."""


def read_page(pool: KVPool, page: int) -> memoryview:
    """The canonical bytes of a page of a pool in host memory.

    With ``page_first_direct`` a read-only view of the pool: it shows what is written to the page later.  Otherwise a
    copy. May be called from any thread.  Raises ``IndexError`` for a page that is not there.
    """
    _check(pool, page)
    size = pool.shape.page_bytes
    if pool.layout == "page_first_direct":
        found = pool.buffer[page * size : (page + 1) * size]
    else:
        found = pool.canonical()[page].contiguous().view(-1)
    return memoryview(found.numpy()).cast("B").toreadonly()


def write_page(pool: KVPool, page: int, contents: Buffer) -> None:
    """Replace a page of a pool in host memory by canonical bytes.

    Raises ``IndexError`` for a page that is not there and ``ValueError`` for contents of another length; nothing is
    written then.
    """
    _check(pool, page)
    given = memoryview(contents).cast("B")
    size = pool.shape.page_bytes
    if len(given) != size:
        raise ValueError(f"a page has {size} bytes (got {len(given)})", len(given))
    if pool.layout == "page_first_direct":
        memoryview(pool.buffer.numpy()).cast("B")[page * size : (page + 1) * size] = given
        return
    target = pool.canonical()[page]
    # Bytes are read-only, which torch warns of; nothing is written to this tensor.
    source = torch.frombuffer(bytearray(given) if given.readonly else given, dtype=torch.uint8)
    target.copy_(source.view(target.shape))


def copy_pages(pool: KVPool, sources: PageArray, targets: PageArray) -> None:
    """Copy pages of a pool to other ones of it, in the order of the current stream."""
    pages, source, target = pool.canonical(), _index(pool, sources), _index(pool, targets)
    for piece in _pieces(pool, len(sources)):
        pages[target[piece]] = pages[source[piece]]


def keep_pages(pool: KVPool, some: PageArray) -> torch.Tensor:
    """What is in these pages, in memory of the host, when the current stream comes there; locked where it is CUDA's."""
    pages, index = pool.canonical(), _index(pool, some)
    form = (len(some), *pages.shape[1:])
    kept = torch.empty(form, dtype=torch.uint8, pin_memory=pool.device.type == "cuda")
    for piece in _pieces(pool, len(some)):
        kept[piece].copy_(pages[index[piece]], non_blocking=True)
    return kept


def bring_pages(pool: KVPool, kept: torch.Tensor, some: PageArray) -> None:
    """Write what was kept into these pages, in the order of the current stream."""
    pages, index = pool.canonical(), _index(pool, some)
    for piece in _pieces(pool, len(some)):
        pages[index[piece]] = kept[piece].to(pool.device, non_blocking=True)


def _index(pool: KVPool, pages: PageArray) -> torch.Tensor:
    return torch.from_numpy(pages.astype(np.int64)).to(pool.device)


def _pieces(pool: KVPool, pages: int) -> Iterator[slice]:
    """So many pages, a piece at a time: what is copied at once lies in memory beside the pool meanwhile."""
    many = max(1, PIECE // pool.shape.page_bytes)
    return (slice(lo, lo + many) for lo in range(0, pages, many))


def _check(pool: KVPool, page: int) -> None:
    if not 0 <= page < pool.pages:
        raise IndexError(f"page must be from 0 to {pool.pages - 1} (got {page})")
