"""Pages in files: one file per page, in a folder that several processes may use at once.

How it stays right, whatever happens:

* **Atomic.**  A page is written to a temporary file in the same folder and renamed.  Readers see the old file, the
  new one or none, never a part of one.
* **Checked.**  A file begins with a header: length, identity, key, and a checksum over all of these and the page.
  A file that is short, long, changed, or in another's place is a miss; the next put replaces it.  Length and header are
  looked at before anything else is read, so that no file can make a reader ask for more memory than a page takes.
* **Crash-safe.**  What a writer leaves when it dies is a temporary file, which no reader looks at.  The next
  store that opens the folder removes it.  A writer holds a lock on its temporary file, so that one
  who is still at work is left in peace.
* **Contained.**  File names are digests of the key, so no key can name anything else.  Files are for the user alone
  (mode 0600, folders 0700).  Nothing within the folder is reached through a link, and nothing is taken from a folder or
  file that others may write (:mod:`~kvlitmus.optimized.storage.folder`).
* **Quiet.**  Whatever the system refuses, and whatever lies in a page's place, concerns that page: a miss, or one that
  is not stored.

Without ``durable`` a page survives the death of the process, but not necessarily a power cut, after which a
file may be short or missing: a miss, found by the checksum.  With ``durable`` file and folder are on the medium
when put returns.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvlitmus.optimized.storage.base import LARGEST, Buffer, Identity, as_bytes
from kvlitmus.optimized.storage.folder import READ, OddFileError, contents, entered, regular
from kvlitmus.optimized.storage.record import head_length, head_of, name_of, page_in, promised

SUFFIX, TEMPORARY = ".page", ".tmp"
FILE_MODE, FOLDER_MODE = 0o600, 0o700
WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Usage:
    """How much a store keeps: pages, and bytes of files."""

    pages: int
    bytes: int


class FileStore:
    """A page store in a folder; see :class:`~kvlitmus.optimized.storage.base.PageStore`.

    ``folder`` is made if it isn't there; its parent must be.  It may be given as a link, which is followed once, now.
    ``durable`` waits for the medium with each put.  ``largest``: a page of more bytes is neither stored nor read.

    Raises ``NotADirectoryError`` when the folder is something else, ``PermissionError`` when others may write it or
    we may not, and ``OSError`` when it can't be made or used.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        identity: Identity | None = None,
        *,
        durable: bool = False,
        largest: int = LARGEST,
    ) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.identity = identity or Identity()
        self.durable = durable
        self.largest = largest
        self.home = self.folder / self.identity.digest.hex()[:32]
        self._serials = iter(range(1 << 62))
        self._counts: Counter[str] = Counter()
        self._turn = threading.Lock()
        self._synced: set[str] = set()
        try:
            self._make()
        except NotADirectoryError as error:
            place = str(self.folder / (error.filename or ""))
            raise NotADirectoryError(f"a page store needs a folder, and this is none: {place!r}") from error
        except PermissionError as error:
            place = str(self.folder / (error.filename or ""))
            raise PermissionError(f"the page store's folder can't be used: {place!r}: {error.strerror}") from error
        self.removed = self._remove_leftovers()

    # -- the port ------------------------------------------------------------------------------

    def exists(self, keys: Sequence[str]) -> int:
        """How many leading keys are there.  Header and length are looked at, the page's bytes are not."""
        for count, key in enumerate(keys):
            if not self._complete(key):
                return count
        return len(keys)

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        """The bytes of each page; ``None`` where there is none, or none that is whole (and of this size)."""
        return [self._taken(key, size) for key in keys]

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """Fill one buffer per key; a buffer is touched only when its page has been found whole."""
        filled = []
        for key, target in zip(keys, as_bytes(keys, buffers, "buffers"), strict=True):
            page = self._read(key, len(target))
            if page is not None:
                target[:] = page
            filled.append(page is not None)
        return filled

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        """Store one page per key; ``False`` where that failed.

        A page that is there and whole stays (keys are made from the content, so it is the same);
        one that is damaged is replaced.
        """
        pages = as_bytes(keys, values, "pages")
        return [self._store(key, page) for key, page in zip(keys, pages, strict=True)]

    def clear(self) -> None:
        """Remove all pages of this identity, and nothing else that lies in the folder."""
        for name, shard in self._files(SUFFIX):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=shard)

    # -- looking at it -------------------------------------------------------------------------

    def usage(self) -> Usage:
        """What the pages of this identity take up now; every file is looked at."""
        sizes = []
        for name, shard in self._files(SUFFIX):
            with contextlib.suppress(OSError):
                found = os.stat(name, dir_fd=shard, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    sizes.append(found.st_size)
        return Usage(len(sizes), sum(sizes))

    def counts(self) -> Mapping[str, int]:
        """What happened so far: ``hit``, ``miss``, ``damaged``, ``stored``, ``kept``, ``refused``, ``failed``."""
        with self._turn:
            return dict(self._counts)

    def path_of(self, key: str) -> Path | None:
        """Where the page of a key is, or would be; ``None`` for a key that is refused."""
        name = name_of(self.identity, key)
        return None if name is None else self.home / name[:2] / (name[2:] + SUFFIX)

    # -- one object ----------------------------------------------------------------------------

    def _complete(self, key: str) -> bool:
        """Whether there is a file with the right header and of the right length."""
        path = self.path_of(key)
        if path is None:
            return False
        try:
            with self._opened(path) as (file, length):
                return self._promised(file, length, key) is not None
        except OSError:
            return False

    def _promised(self, file: int, length: int, key: str) -> int | None:
        """The length of a page by its header, if that is the key's and fits the file; raises ``OSError``."""
        head = os.pread(file, head_length(key), 0)
        page_length = promised(self.identity, key, head)
        return page_length if page_length == length - len(head) <= self.largest else None

    def _look(self, key: str, path: Path, size: int | None) -> tuple[memoryview | None, str]:
        """The page of a key, if it is whole and of this size; what it was.  Nothing is read that can't be it."""
        try:
            with self._opened(path) as (file, length):
                page_length = self._promised(file, length, key)
                if page_length is None:
                    return None, "damaged"
                if size is not None and page_length != size:
                    return None, "miss"
                data = contents(file, length)
        except OddFileError:
            return None, "damaged"
        except (OSError, MemoryError):
            return None, "miss"
        page = page_in(self.identity, key, data)
        return page, "damaged" if page is None else "hit"

    def _read(self, key: str, size: int | None) -> memoryview | None:
        """The page of a key, if it is whole and of this size."""
        path = self.path_of(key)
        page, what = (None, "miss") if path is None else self._look(key, path, size)
        self._count(what)
        return page

    def _taken(self, key: str, size: int | None) -> bytes | None:
        """The same, as bytes of its own."""
        page = self._read(key, size)
        try:
            return None if page is None else bytes(page)
        except MemoryError:
            return None

    def _store(self, key: str, page: memoryview) -> bool:
        path = self.path_of(key)
        if path is None or len(page) > self.largest:
            self._count("refused")
            return False
        if self._look(key, path, None)[0] is not None and (not self.durable or self._settled(path)):
            self._count("kept")
            return True
        for last in (False, True):
            try:
                self._write(path, head_of(self.identity, key, page), page)
            except FileNotFoundError:
                # A store that was just being opened took the new temporary file for a leftover, or a folder is gone.
                if last:
                    break
            except (OSError, MemoryError):
                break
            else:
                self._count("stored")
                return True
        self._count("failed")
        return False

    def _write(self, path: Path, head: bytes, page: memoryview) -> None:
        """Write a temporary file and rename it; on any failure nothing is left."""
        with self._turn:
            serial = next(self._serials)
        unique = f"{os.getpid()}.{threading.get_native_id()}.{serial}.{os.urandom(4).hex()}"
        temporary = f"{path.stem}.{unique}{TEMPORARY}"
        with self._shard(path.parent.name, make=True) as shard:
            file = os.open(temporary, WRITE, FILE_MODE, dir_fd=shard)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                _write_all(file, head)
                _write_all(file, page)
                if self.durable:
                    os.fsync(file)
                _rename(temporary, path.name, shard)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=shard)
                raise
            finally:
                os.close(file)
            if self.durable:
                os.fsync(shard)

    def _settled(self, path: Path) -> bool:
        """Wait until a page that is there is on the medium: whoever put it need not have waited for that."""
        try:
            with self._shard(path.parent.name, make=True) as shard:
                with regular(path.name, shard) as (file, _):
                    os.fsync(file)
                os.fsync(shard)
        except OSError:
            return False
        return True

    def _count(self, what: str) -> None:
        with self._turn:
            self._counts[what] += 1

    # -- the folder ----------------------------------------------------------------------------

    def _make(self) -> None:
        """Make what isn't there, and see that it can be used; raises ``OSError``."""
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(mode=FOLDER_MODE)
        with entered(self.folder) as top:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.home.name, FOLDER_MODE, dir_fd=top)
            with entered(self.home.name, top) as home:
                if not os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=home):
                    raise PermissionError(errno.EACCES, "it can't be read and written", str(self.home))
            if self.durable:
                # What another process has made a moment ago need not be on the medium, so this doesn't ask who made it.
                os.fsync(top)
                _sync(self.folder.parent)

    @contextlib.contextmanager
    def _home(self) -> Iterator[int]:
        """The open folder of this identity; raises ``OSError``."""
        with entered(self.folder) as top, entered(self.home.name, top) as home:
            yield home

    @contextlib.contextmanager
    def _shard(self, name: str, *, make: bool = False) -> Iterator[int]:
        """One of the open folders within it; raises ``OSError``.  ``make``: a page will be put, so it must be there."""
        with self._home() as home:
            if make:
                try:
                    os.mkdir(name, FOLDER_MODE, dir_fd=home)
                    self._synced.discard(name)
                except FileExistsError:
                    pass
                if self.durable and name not in self._synced:
                    os.fsync(home)
                    self._synced.add(name)
            with entered(name, home) as shard:
                yield shard

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[tuple[int, int]]:
        """The open file of a page, and its length; raises ``OSError``."""
        with self._shard(path.parent.name) as shard, regular(path.name, shard) as found:
            yield found

    def _files(self, suffix: str) -> Iterator[tuple[str, int]]:
        """The store's own files with this suffix, those that it could have named itself: name, and open folder."""
        with contextlib.ExitStack() as stack:
            try:
                home = stack.enter_context(self._home())
                shards = _listed(home)
            except OSError:
                return
            for shard in shards:
                if len(shard) == 2 and set(shard) <= DIGITS:
                    yield from _names(shard, home, suffix)

    def _remove_leftovers(self) -> int:
        """Remove temporary files whose writers are gone, those that nobody holds a lock on; returns how many."""
        removed = 0
        for name, shard in self._files(TEMPORARY):
            with contextlib.suppress(OSError):
                file = os.open(name, READ, dir_fd=shard)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name, dir_fd=shard)
                    removed += 1
                finally:
                    os.close(file)
        return removed


def _names(shard: str, home: int, suffix: str) -> Iterator[tuple[str, int]]:
    """The files with this suffix in one folder, and that folder, open; none of a folder that isn't trusted."""
    try:
        with entered(shard, home) as folder:
            for name in _listed(folder):
                digits = name.partition(".")[0]
                if name.endswith(suffix) and len(digits) == 62 and set(digits) <= DIGITS:
                    yield name, folder
    except OSError:
        return


def _listed(folder: int) -> list[str]:
    """The names in an open folder; raises ``OSError``."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _rename(name: str, to: str, folder: int) -> None:
    """Give a file another name; an empty folder of that name makes way, one that isn't empty raises ``OSError``."""
    try:
        os.rename(name, to, src_dir_fd=folder, dst_dir_fd=folder)
    except IsADirectoryError:
        os.rmdir(to, dir_fd=folder)
        os.rename(name, to, src_dir_fd=folder, dst_dir_fd=folder)


def _write_all(file: int, data: bytes | memoryview) -> None:
    """Write all of it: one call may take only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync(folder: Path) -> None:
    """Wait until what was made in a folder is on the medium; raises ``OSError``."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
