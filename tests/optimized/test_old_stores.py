"""Stores that were written before schemes had names: all misses, never a wrong page, and new puts work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.optimized.storage.base import Identity, PageStore
from kvlitmus.optimized.storage.file import FileStore
from kvlitmus.reference.prefix.hashing import page_hashes
from kvlitmus.spec.words.schemes import KVLITMUS_2, SGLANG_1
from kvlitmus.spec.words.units import Key
from tests.optimized.support.fake_redis import serving

PROMPT = Key("tenant", tuple(range(8)))
OLD_NAMES = list(page_hashes(PROMPT, 4, scheme=SGLANG_1))
NEW_NAMES = list(page_hashes(PROMPT, 4))
OLD, NEW = [b"old page 0", b"old page 1"], [b"new page 0", b"new page 1"]
IDENTITY: dict[str, Any] = {"model": "m@1", "layout": "bf16", "page_size": 4, "rank": 1, "ranks": 2}


class OldIdentity(Identity):
    """The digest as it was made before."""

    @property
    def digest(self) -> bytes:
        hashed = hashlib.sha256(b"kvlitmus page store 1")
        for text in (b"m@1", b"bf16", b"4", b"1", b"2"):
            hashed.update(len(text).to_bytes(8, "little") + text)
        return hashed.digest()


def both_in_files(folder: Path) -> Iterator[tuple[PageStore, PageStore]]:
    """The old store and the new one, in one folder."""
    yield FileStore(folder / "pages", OldIdentity(**IDENTITY)), FileStore(folder / "pages", Identity(**IDENTITY))


def both_on_a_server(_folder: Path) -> Iterator[tuple[PageStore, PageStore]]:
    """The old store and the new one, on one server under one prefix."""
    pytest.importorskip("redis", reason="the client library is missing: the extra 'redis' brings it")
    from kvlitmus.optimized.storage.redis import RedisStore

    with (
        serving() as server,
        closing(RedisStore(server.url, OldIdentity(**IDENTITY))) as old,
        closing(RedisStore(server.url, Identity(**IDENTITY))) as new,
    ):
        yield old, new


@pytest.fixture(params=[both_in_files, both_on_a_server], ids=["file", "server"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[PageStore, PageStore]]:
    yield from request.param(tmp_path)


def test_an_old_store_is_all_misses_and_takes_new_pages(both: tuple[PageStore, PageStore]) -> None:
    old, new = both
    assert old.put(OLD_NAMES, OLD) == old.put(NEW_NAMES, OLD) == [True, True]
    for names in (OLD_NAMES, NEW_NAMES):
        assert new.exists(names) == 0
        assert new.get(names) == [None, None]
    assert new.put(NEW_NAMES, NEW) == [True, True]
    assert new.get(NEW_NAMES) == NEW
    assert new.get(OLD_NAMES) == [None, None]
    assert old.get(OLD_NAMES) == old.get(NEW_NAMES) == OLD
    new.clear()
    assert old.get(NEW_NAMES) == OLD


def test_the_scheme_is_part_of_the_identity(tmp_path: Path) -> None:
    schemes = ("kvlitmus-2", "sglang-1", "one's own", "")
    stores = [FileStore(tmp_path / "pages", Identity(**IDENTITY, names=scheme)) for scheme in schemes]
    assert len({one.home for one in stores}) == len(schemes)
    assert FileStore(tmp_path / "pages", Identity(**IDENTITY)).home == stores[0].home
    stores[1].put(OLD_NAMES, OLD)
    assert [one.exists(OLD_NAMES) for one in stores] == [0, 2, 0, 0]


def test_an_old_file_in_a_new_files_place_is_a_miss_and_is_replaced(tmp_path: Path) -> None:
    ((old, new),) = both_in_files(tmp_path)
    assert isinstance(old, FileStore)
    assert isinstance(new, FileStore)
    old.put(NEW_NAMES, OLD)
    new.put(NEW_NAMES, NEW)
    for name in NEW_NAMES:
        source, target = old.path_of(name), new.path_of(name)
        assert source is not None
        assert target is not None
        target.write_bytes(source.read_bytes())
    assert new.exists(NEW_NAMES) == 0
    assert new.get(NEW_NAMES) == [None, None]
    assert new.put(NEW_NAMES, NEW) == [True, True]
    assert new.get(NEW_NAMES) == NEW


def test_who_says_nothing_of_a_store_has_the_same_identity_as_ever() -> None:
    told: dict[str, Any] = {"model": "", "layout": "", "page_size": 0, "rank": 0, "ranks": 1, "names": KVLITMUS_2.name}
    assert Identity().digest == Identity(**told).digest
