"""Mutants of a page store, and legal variations of one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.stores import LARGEST, Disk, PageShelf
from kvlitmus.mutants.registry import mutant, null_mutant

_GITHUB = "https://github.com/"
_FILE = _GITHUB + "sgl-project/sglang/pull/39269"
LAST = replace(PROFILE, store_put="last")


@mutant("store-written-in-place", bugs=("H-10",), kills=("STORE-11", "STORE-14"))
class WrittenInPlace(PageShelf):
    """A page is written under its final name: who reads meanwhile, or after the writer died, finds a part of it.

    There is no header either, so the part is counted and returned as if it were the page.
    """

    def write(self, name: str, data: bytes) -> None:
        self.disk.write(name, data)

    def packed(self, key: str, value: bytes) -> bytes:
        return value

    def unpacked(self, key: str, data: bytes, size: int | None) -> bytes | None:
        return data


@mutant("store-keeps-what-is-there", bugs=("H-11",), kills=("STORE-09",))
class KeepsWhatIsThere(PageShelf):
    """A put looks whether there is a file, and skips it: a damaged page stays for ever, and every put says *stored*."""

    def keeps(self, key: str) -> bool:
        return self.disk.size(self.name(key)) is not None


@mutant("store-counts-all", kills=("STORE-01",))
class CountsAll(PageShelf):
    """``exists`` counts every key that is there, also those behind a gap: the engine reserves memory for pages
    that it can't use, and takes the wrong ones for the leading ones.
    """

    def exists(self, keys: Sequence[str]) -> int:
        return sum(map(self.there, keys))


@mutant("store-drops-misses", kills=("STORE-02",))
class DropsMisses(PageShelf):
    """A batch get returns what it found, one after the other: behind a miss every page is in a wrong position."""

    def get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        return [page for page in super().get(keys, size) if page is not None]


@mutant("store-shifts-behind-a-miss", kills=("STORE-03", "STORE-04"))
class ShiftsBehindAMiss(PageShelf):
    """The same with the list filled up at its end: as many answers as keys, and KV of one page under another's name."""

    def get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        found = [page for page in super().get(keys, size) if page is not None]
        return [*found, *[None] * (len(keys) - len(found))]


@mutant("store-misses-are-zeros", kills=("STORE-05",))
class MissesAreZeros(PageShelf):
    """What isn't there is answered with the buffer that was made for it: a page of zeros is served as KV."""

    def get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        return [bytes(size) if page is None else page for page in super().get(keys, size)]


@mutant("store-returns-short-pages", bugs=("S100",), links=(_FILE,), kills=("STORE-07",))
class ReturnsShortPages(PageShelf):
    """Nobody compares the length: what is left of a page that was cut short is returned as the page."""

    def unpacked(self, key: str, data: bytes, size: int | None) -> bytes | None:
        return super().unpacked(key, data, size) or (data[20:] if size and len(data) - 20 < size else None)


@mutant("store-trusts-every-bit", kills=("STORE-08",))
class TrustsEveryBit(PageShelf):
    """Length and header are checked, the bytes are not: a flipped bit, or the file of another key, is served as KV."""

    def checksum(self, key: str, value: bytes) -> bytes:
        return b"\0" * 16


@mutant(
    "store-raises-for-the-batch",
    bugs=("S100", "H-07"),
    links=(_FILE,),
    kills=("STORE-10",),
)
class RaisesForTheBatch(PageShelf):
    """A page that was cut short raises out of the batch: the other pages are lost with it, and often the thread."""

    def contained(self, key: str, size: int | None) -> bytes | None:
        page = super().contained(key, size)
        length = None if page is not None or self.refused(key) else self.disk.size(self.name(key))
        if length is not None:
            raise OSError(5, "short read")
        return page


@mutant("store-reads-whatever-the-length", kills=("STORE-10",))
class ReadsWhateverTheLength(PageShelf):
    """Memory is asked for as the file is long: one that was stretched to terabytes raises out of the batch."""

    def plain(self, name: str) -> bool:
        return self.disk.size(name) is not None and self.disk.kind(name) == "file"


@mutant("store-reads-a-page-of-anything", kills=("STORE-19",))
class ReadsAPageOfAnything(PageShelf):
    """So many bytes as a page has are read from whatever lies there: the first ones of a file of zeros are KV."""

    def load(self, key: str, size: int | None) -> bytes | None:
        if size and (self.disk.size(self.name(key)) or 0) > LARGEST:
            return bytes(size)
        return super().load(key, size)


@mutant("store-writes-through-links", kills=("STORE-04", "STORE-09"))
class WritesThroughLinks(PageShelf):
    """A page is written to what the name leads to: a link in its place has the object of another key overwritten."""

    def write(self, name: str, data: bytes) -> None:
        if self.disk.kind(name) == "link":
            self.disk.write(name, data)
        else:
            super().write(name, data)


@mutant("store-key-is-a-path", kills=("STORE-15",))
class KeyIsAPath(PageShelf):
    """The key is made part of a path as it is: one that climbs out writes wherever the process may."""

    def name(self, key: str) -> str:
        return f"{key}-{self.identity()}"

    def mine(self, path: str) -> bool:
        return path.endswith(self.identity())


@mutant(
    "store-rank-left-out",
    bugs=("S19", "S108"),
    links=(_GITHUB + "sgl-project/sglang/pull/10969", _GITHUB + "sgl-project/sglang/pull/26670"),
    kills=("STORE-12",),
)
class RankLeftOut(PageShelf):
    """File names have no rank in them: each rank is served the shares of another."""

    def identity(self) -> str:
        return "all"


@mutant(
    "store-exists-without-the-tag",
    bugs=("S30",),
    links=(_GITHUB + "sgl-project/sglang/pull/17265",),
    kills=("STORE-01",),
)
class ExistsWithoutTheTag(PageShelf):
    """``exists`` looks under the bare key while put and get add the rank: nothing is ever counted."""

    def there(self, key: str) -> bool:
        return not self.refused(key) and self.disk.size(self.name(key).partition("-")[2]) is not None


@mutant("store-says-stored", kills=("STORE-18",))
class SaysStored(PageShelf):
    """A put answers for the batch, not for its pages: what was refused or failed counts as stored."""

    def put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        return [True for _ in super().put(keys, values)]


@mutant("store-stops-at-a-failure", kills=("STORE-17",))
class StopsAtAFailure(PageShelf):
    """The first page that can't be stored ends the batch: all behind it are given up."""

    def put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        stored: list[bool] = []
        for key, value in zip(keys, values, strict=True):
            stored.append(all(stored) and self.store(key, value))
        return stored


@mutant("store-cuts-names", kills=("STORE-18",))
class CutsNames(PageShelf):
    """A key that is too long for a file name is cut: keys that differ in their end share a file."""

    def name(self, key: str) -> str:
        digest = hashlib.sha256(key[:64].encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.identity()}-{digest}"

    def checksum(self, key: str, value: bytes) -> bytes:
        return super().checksum(key[:64], value)


@mutant("store-clear-forgets-its-memory", kills=("STORE-16",))
class ClearForgetsItsMemory(PageShelf):
    """What was seen is remembered so as to save a look at the disk, and a clear removes the files only."""

    def __init__(self, disk: Disk, rank: int = 0, ranks: int = 2) -> None:
        super().__init__(disk, rank, ranks)
        self.seen: set[str] = set()

    def there(self, key: str) -> bool:
        if key not in self.seen and super().there(key):
            self.seen.add(key)
        return key in self.seen


@mutant("store-reads-into-the-buffer-first", kills=("STORE-13",))
class ReadsIntoTheBufferFirst(PageShelf):
    """A buffer is emptied before it is known whether there is anything to read: memory in use is overwritten."""

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray]) -> Sequence[bool]:
        for buffer in buffers:
            buffer[:] = bytes(len(buffer))
        return super().get_into(keys, buffers)


@mutant("store-keeps-the-first", kills=("STORE-06",), profile=LAST)
class KeepsTheFirst(PageShelf):
    """A second put under a key is skipped, although the store says that it replaces."""


@null_mutant("null-store-replaces", profile=LAST)
class Replaces(PageShelf):
    """Every put is written, as the profile declares."""

    def keeps(self, key: str) -> bool:
        return False


@null_mutant("null-store-counts-by-length")
class CountsByLength(PageShelf):
    """``exists`` looks at the file's length alone; that a bit is wrong shows when the page is read."""

    def there(self, key: str) -> bool:
        return not self.refused(key) and self.disk.size(self.name(key)) is not None


@null_mutant("null-store-leaves-folders")
class LeavesFolders(PageShelf):
    """A folder where a file should be isn't removed, for it may be somebody's: the put is refused, and says so."""

    def make_way(self, name: str) -> None:
        pass


@null_mutant("null-store-raises-for-odd-keys")
class RaisesForOddKeys(PageShelf):
    """A key that is no page hash is the caller's mistake, and refused with an error."""

    allowed: ClassVar[frozenset[str]] = frozenset("0123456789abcdef")

    def refused(self, key: str) -> bool:
        if len(key) != 64 or not self.allowed.issuperset(key):
            raise ValueError("a key must be 64 hex digits")
        return False


@null_mutant("null-store-checks-lengths", profile=replace(PROFILE, store_checks="length"))
class ChecksLengths(TrustsEveryBit):
    """Lengths are checked and bytes are not, as the profile declares."""


@null_mutant("null-store-removes-first", profile=LAST)
class RemovesFirst(PageShelf):
    """The old page is removed before the new one is written: a writer that dies leaves none of them."""

    def keeps(self, key: str) -> bool:
        self.disk.files.pop(self.disk.path(self.name(key)), None)
        return False


FULL = replace(PROFILE, store_room="refuses")
BOUNDED = replace(PROFILE, store_room="evicts")
ROOM = 3
"""So many pages have room."""


class Bounded(PageShelf):
    """A store with little room."""

    def kept(self) -> list[str]:
        """What is stored, the oldest first."""
        return [path for path in self.disk.files if self.mine(path)]

    def full(self, key: str) -> bool:
        """Whether there is no room for another page."""
        return len(self.kept()) >= ROOM and self.disk.path(self.name(key)) not in self.disk.files


@null_mutant("null-store-refuses-when-full", profile=FULL)
class RefusesWhenFull(Bounded):
    """A page for which there is no room isn't stored, and the put says so, as the profile declares."""

    def store(self, key: str, value: bytes) -> bool:
        return not self.refused(key) and not self.full(key) and super().store(key, value)


@mutant("store-says-stored-when-full", profile=FULL, kills=("STORE-04",))
class SaysStoredWhenFull(Bounded):
    """A page for which there is no room isn't stored, and the put says that it is: nobody tries again."""

    def store(self, key: str, value: bytes) -> bool:
        if self.refused(key):
            return False
        return self.full(key) or super().store(key, value)


@mutant("store-is-always-full", profile=FULL, kills=("STORE-17",))
class IsAlwaysFull(Bounded):
    """Nothing has ever room: what is counted against it is never given back, from the first page on."""

    def store(self, key: str, value: bytes) -> bool:
        return False


class Evicting(Bounded):
    """A store that makes room."""

    def make_room(self) -> None:
        """The oldest pages go."""
        for path in self.kept()[:-ROOM]:
            del self.disk.files[path]


@null_mutant("null-store-evicts", profile=BOUNDED)
class Evicts(Evicting):
    """What was stored first goes where there is no room for more, as the profile declares."""

    def store(self, key: str, value: bytes) -> bool:
        stored = super().store(key, value)
        self.make_room()
        return stored


@mutant("store-evicts-at-reads", profile=BOUNDED, kills=("STORE-01", "STORE-04", "STORE-11"))
class EvictsAtReads(Evicting):
    """Room is made when somebody reads: what was counted, and has memory reserved, is gone when it is read."""

    def get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        for path in self.kept()[:1]:
            del self.disk.files[path]
        return super().get(keys, size)


@mutant("store-counts-what-it-evicted", profile=BOUNDED, kills=("STORE-01", "STORE-11"))
class CountsWhatItEvicted(Evicts):
    """The index of what is there isn't told of evictions: memory is reserved for pages that can't be read."""

    def __init__(self, disk: Disk, rank: int = 0, ranks: int = 2) -> None:
        super().__init__(disk, rank, ranks)
        self.index: set[str] = set()

    def store(self, key: str, value: bytes) -> bool:
        stored = super().store(key, value)
        self.index |= {key} if stored else set()
        return stored

    def there(self, key: str) -> bool:
        return key in self.index or super().there(key)
