"""Keys of any kind before storage: each is stored and found under names of its own, or refused where it comes in."""

from __future__ import annotations

import time
from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pytest

from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.storage.file import FileStore
from tests.support.processes import LIMIT

PROMPT = np.arange(12, dtype=np.int32)
ODD = np.array([1, 2, 3, -1, 5, 6, 7, 8], np.int32)
CONFIG = CacheConfig(page_size=4, pages=16, host_pages=16, stop="wait_complete", threshold=4, rate_limit=64)


def opened(folder: Path) -> HierarchicalCache:
    """A cache over storage that others have filled, perhaps."""
    mover = NullMover(stepped=False)
    cache = HierarchicalCache(CONFIG, mover, Threads(mover, threads=2))
    cache.attach(FileStore(folder / "pages"))
    return cache


def store(folder: Path, tokens: np.ndarray, namespace: Hashable) -> None:
    """Compute a prompt, and end: what is cached is stored, if it has names."""
    cache = opened(folder)
    assert cache.begin(1, tokens, namespace) is not None
    cache.end(1, keep=True)
    assert cache.close() == []


def found(folder: Path, tokens: np.ndarray, namespace: Hashable) -> int:
    """How many tokens another process finds in storage."""
    cache = opened(folder)
    try:
        assert cache.prefetch(1, tokens, namespace).started
        until = time.monotonic() + LIMIT
        while not cache.poll(1):
            cache.tick()
            assert time.monotonic() < until
        return cache.loaded(1)
    finally:
        cache.close()


@pytest.mark.parametrize("salt", ["\ud800", "a\udfffb", "", "\0", "ü" * 2_000], ids=ascii)
def test_every_text_is_a_namespace_of_its_own(tmp_path: Path, salt: str) -> None:
    """Also half of a pair of surrogates, as JSON can spell it: whoever replaced it would mix up two tenants."""
    store(tmp_path, PROMPT, salt)
    assert found(tmp_path, PROMPT, salt) == 12
    for other in (None, "\udbff", "?", "\ufffd", salt + "x", "a?b"):
        assert found(tmp_path, PROMPT, other) == 0


def test_a_key_without_names_is_refused_at_the_prefetch(tmp_path: Path) -> None:
    """In one line, and nothing is held for it; such a key can be cached, and is never stored."""
    cache = opened(tmp_path)
    for _ in range(40):  # more often than there are pages on the host
        with pytest.raises(TypeError, match="must be a str or None") as caught:
            cache.prefetch(1, PROMPT, 7)
        assert "\n" not in str(caught.value)
    assert cache.occupied() == 0
    assert cache.begin(2, PROMPT, 7) is not None
    cache.end(2, keep=True)
    cache.tick()
    assert cache.prefetch(3, PROMPT, "another").started, "the host has room as before"
    cache.abandon(3)
    cache.close()
    assert not list((tmp_path / "pages").rglob("*.page"))


def test_a_token_without_a_name_is_neither_prefetched_nor_cached(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    free = cache.available()
    for refused in (cache.prefetch, cache.begin):
        with pytest.raises(ValueError, match=r"\[0, 2\*\*32\)") as caught:
            refused(1, ODD, None)
        assert "\n" not in str(caught.value)
    assert cache.occupied() == 0 and cache.available() == free
    cache.close()
