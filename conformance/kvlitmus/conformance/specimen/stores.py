"""A page store over a small disk in memory: written as file stores are written, fast enough for schedules.

The disk knows names, bytes and what a file system does in one step (rename) or not (write).  It can lose
power after so many bytes.  Everything that makes the store safe is here to be left out by a mutant: names
made of digests, a header with key, length and checksum, a temporary name and a rename.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from posixpath import normpath

from kvlitmus.spec.stores.facts import STRANGE

PLACE = "yard/store"
KEY_LIMIT = 512
NAME_LIMIT = 255
CHUNK = 1 << 16
HUGE = 1 << 42


LARGEST = 1 << 26
"""No object has more bytes than this."""


class Strange(bytes):
    """What is no file of bytes: ``long``, ``folder``, ``pipe``, or ``link`` with the path it leads to."""

    kind: str
    to: str

    def __new__(cls, kind: str, to: str = "") -> Strange:
        """Nothing of it is a page."""
        made = super().__new__(cls)
        made.kind, made.to = kind, to
        return made


class PowerFailureError(Exception):
    """The machine stopped in the middle of a write."""


class Disk:
    """Names and bytes.  ``budget``: how many bytes can still be written before the power fails; ``None`` for ever."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.budget: int | None = None

    def path(self, name: str) -> str:
        """A name as the file system understands it; raises ``OSError`` for what can't be one."""
        if "\0" in name:
            raise ValueError("embedded null byte")
        if any(len(part.encode("utf-8", "replace")) > NAME_LIMIT for part in name.split("/")):
            raise OSError(36, "File name too long")
        path = normpath(f"{PLACE}/{name}") if not name.startswith("/") else normpath(name).lstrip("/")
        if path == PLACE or path.startswith("../"):
            raise IsADirectoryError(21, "Is a directory")
        return path

    def write(self, name: str, data: bytes) -> None:
        """Write a file piece by piece: who looks meanwhile sees a part of it."""
        path = self.path(name)
        if self.kind(name) == "folder":
            raise IsADirectoryError(21, "Is a directory")
        found = self.files.get(path)
        if isinstance(found, Strange) and found.kind == "link":
            path = found.to
        self.files[path] = b""
        for start in range(0, len(data), CHUNK):
            piece = data[start : start + CHUNK]
            if self.budget is not None:
                piece = piece[: self.budget]
                self.budget -= len(piece)
            self.files[path] += piece
            if self.budget == 0:
                raise PowerFailureError

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in one step; raises ``IsADirectoryError`` where that is a folder's."""
        if self.kind(to) == "folder":
            raise IsADirectoryError(21, "Is a directory")
        self.files[self.path(to)] = self.files.pop(self.path(name))

    def read(self, name: str) -> bytes:
        """The bytes of a file, or of the one that a link leads to; raises ``OSError`` and ``MemoryError``."""
        found = self.files.get(self.path(name))
        if isinstance(found, Strange) and found.kind == "link":
            found = self.files.get(found.to)
        if found is None:
            raise FileNotFoundError(2, "No such file or directory")
        if not isinstance(found, Strange):
            return found
        if found.kind == "long":
            raise MemoryError
        if found.kind == "folder":
            raise IsADirectoryError(21, "Is a directory")
        raise BlockingIOError(11, "nobody writes to the pipe")

    def kind(self, name: str) -> str:
        """What lies there, without following links: a ``file``, if it is nothing else."""
        try:
            found = self.files.get(self.path(name))
        except (OSError, ValueError):
            return "file"
        return found.kind if isinstance(found, Strange) and found.kind != "long" else "file"

    def size(self, name: str) -> int | None:
        """How long a file is; ``None`` when there is none, or can be none."""
        try:
            found = self.files.get(self.path(name))
        except (OSError, ValueError):
            return None
        if isinstance(found, Strange):
            return HUGE if found.kind == "long" else 0
        return None if found is None else len(found)


class PageShelf:
    """A page store on a disk, for one rank of several; mutants replace one of its methods."""

    def __init__(self, disk: Disk, rank: int = 0, ranks: int = 2) -> None:
        self.disk = disk
        self.rank = rank
        self.ranks = ranks
        self.serial = 0
        for path in [path for path in disk.files if path.startswith(f"{PLACE}/part-{rank}-")]:
            del disk.files[path]

    # -- batches -------------------------------------------------------------------------------

    def exists(self, keys: Sequence[str]) -> int:
        """How many leading keys are there."""
        for count, key in enumerate(keys):
            if not self.there(key):
                return count
        return len(keys)

    def get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        """The page of each key."""
        return [self.contained(key, size) for key in keys]

    def put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        """Store each page."""
        return [self.store(key, value) for key, value in zip(keys, values, strict=True)]

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray]) -> Sequence[bool]:
        """Fill the buffers of the pages that are there."""
        filled = []
        for key, buffer in zip(keys, buffers, strict=True):
            page = self.contained(key, len(buffer))
            if page is not None:
                buffer[:] = page
            filled.append(page is not None)
        return filled

    def clear(self) -> None:
        """Remove the files of this rank."""
        for path in [path for path in self.disk.files if self.mine(path)]:
            del self.disk.files[path]

    # -- one page ------------------------------------------------------------------------------

    def refused(self, key: str) -> bool:
        """Whether the key is none that is taken."""
        return not 0 < len(key) <= KEY_LIMIT or "\0" in key

    def name(self, key: str) -> str:
        """The file of a key: nothing of its text is in the name."""
        return f"{self.identity()}-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def identity(self) -> str:
        """Who stores: only the same rank of as many can use these pages."""
        return f"{self.rank}of{self.ranks}"

    def mine(self, path: str) -> bool:
        """Whether a file is one of this rank's."""
        return path.startswith(f"{PLACE}/{self.identity()}-")

    def there(self, key: str) -> bool:
        """Whether there is a file for the key that has the length which its header promises."""
        if self.refused(key):
            return False
        name = self.name(key)
        return self.plain(name) and self.unpacked(key, self.disk.read(name), None) is not None

    def plain(self, name: str) -> bool:
        """Whether what lies there can be an object, by its kind and length: nothing else is read."""
        length = self.disk.size(name)
        return length is not None and length <= LARGEST and self.disk.kind(name) == "file"

    def store(self, key: str, value: bytes) -> bool:
        """Write a page, unless it is there and whole."""
        if self.refused(key):
            return False
        try:
            if self.keeps(key):
                return True
            self.write(self.name(key), self.packed(key, value))
        except (OSError, ValueError):
            return False
        return True

    def keeps(self, key: str) -> bool:
        """Whether what is there stays: it does if it is whole."""
        return self.disk.size(self.name(key)) is not None and self.load(key, None) is not None

    def write(self, name: str, data: bytes) -> None:
        """Write under a temporary name, then rename."""
        self.serial += 1
        temporary = f"part-{self.rank}-{self.serial}"
        self.disk.write(temporary, data)
        self.make_way(name)
        self.disk.rename(temporary, name)

    def make_way(self, name: str) -> None:
        """Remove an empty folder that lies where a file should be."""
        if self.disk.kind(name) == "folder":
            del self.disk.files[self.disk.path(name)]

    def contained(self, key: str, size: int | None) -> bytes | None:
        """A page, or none, whatever happens while it is read."""
        if self.refused(key):
            return None
        try:
            return self.load(key, size)
        except (OSError, ValueError):
            return None

    def load(self, key: str, size: int | None) -> bytes | None:
        """Read and check a page."""
        name = self.name(key)
        return self.unpacked(key, self.disk.read(name), size) if self.plain(name) else None

    def packed(self, key: str, value: bytes) -> bytes:
        """A page with its header: length, checksum over key and page."""
        return struct.pack("<I16s", len(value), self.checksum(key, value)) + value

    def unpacked(self, key: str, data: bytes, size: int | None) -> bytes | None:
        """The page of a file, if all is as the header says."""
        if len(data) < 20:
            return None
        length, checksum = struct.unpack_from("<I16s", data)
        value = data[20:]
        if length != len(value) or checksum != self.checksum(key, value) or size not in (None, length):
            return None
        return value

    def checksum(self, key: str, value: bytes) -> bytes:
        """What tells a page of this key from any other bytes."""
        return hashlib.md5(key.encode("utf-8", "surrogatepass") + b"\0" + value, usedforsecurity=False).digest()


class StoreSpecimen:
    """The specimen behind the ports of a page store: one disk, and a handle for each rank."""

    def __init__(self, part: type[PageShelf]) -> None:
        self.part = part
        self.disk = Disk()
        self.rank = 0
        self.handles: dict[int, PageShelf] = {}

    @property
    def shelf(self) -> PageShelf:
        """The handle of the present rank."""
        if self.rank not in self.handles:
            self.handles[self.rank] = self.part(self.disk, self.rank)
        return self.handles[self.rank]

    def store_exists(self, keys: Sequence[str]) -> int:
        """How many leading keys are there."""
        return self.shelf.exists(keys)

    def store_get(self, keys: Sequence[str], size: int) -> Sequence[bytes | None]:
        """The page of each key."""
        return self.shelf.get(keys, size)

    def store_get_into(self, keys: Sequence[str], buffers: Sequence[bytearray]) -> Sequence[bool]:
        """Fill a buffer per key."""
        return self.shelf.get_into(keys, buffers)

    def store_put(self, keys: Sequence[str], values: Sequence[bytes]) -> Sequence[bool]:
        """Store the page of each key."""
        return self.shelf.put(keys, values)

    def store_clear(self) -> None:
        """Remove everything."""
        self.shelf.clear()

    def store_damage(self, key: str, how: str, other: str) -> bool:
        """Change the file of a key."""
        path = self.disk.path(self.shelf.name(key))
        data = self.disk.files.get(path)
        if data is None:
            return False
        if how == "gone":
            del self.disk.files[path]
        elif how in STRANGE:
            self.disk.files[path] = Strange(how, self.disk.path(self.shelf.name(other)))
        elif how == "other":
            self.disk.files[path] = self.disk.read(self.shelf.name(other))
        else:
            half = data[: len(data) // 2]
            flipped = data[:-5] + bytes([data[-5] ^ 16]) + data[-4:] if len(data) > 5 else data
            self.disk.files[path] = {"short": half, "empty": b"", "flip": flipped}[how]
        return True

    def store_reopen(self) -> None:
        """Forget the handles; the disk stays."""
        self.handles.clear()

    def store_crash(self, key: str, value: bytes, after: int) -> None:
        """Another process puts a page, and the power fails after so many bytes."""
        self.disk.budget = after
        try:
            if after:
                self.part(self.disk, self.rank).put([key], [value])
        except PowerFailureError:
            pass
        finally:
            self.disk.budget = None

    def store_other(self) -> StoreSpecimen:
        """Another handle over the same disk."""
        other = StoreSpecimen(self.part)
        other.disk, other.rank = self.disk, self.rank
        return other

    def store_rank(self, rank: int) -> None:
        """Go on as another rank."""
        self.rank = rank

    def store_yard(self) -> str:
        """Where the store's folder lies."""
        return "/yard"

    def store_strays(self) -> Sequence[str]:
        """The files outside of the store's folder."""
        return [path for path in self.disk.files if not path.startswith(f"{PLACE}/")]
