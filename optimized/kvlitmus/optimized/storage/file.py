"""Pages in files: one file per page, in a folder that several processes may use at once.

How it stays right, whatever happens:

* **Atomic.**  A page is written to a temporary file in the same folder and renamed.  Readers see the old file, the
  new one or none, never a part of one.
* **Checked.**  A file begins with a header: length, identity, key, and a checksum over all of these and the page.
  A file that is short, long, changed, or in another's place is a miss; the next put replaces it.
* **Crash-safe.**  What a writer leaves when it dies is a temporary file, which no reader looks at.  The next
  store that opens the folder removes it.  A writer holds a lock on its temporary file, so that one
  who is still at work is left in peace.
* **Contained.**  File names are digests of the key, so no key can name anything else.  Files are for the user alone
  (mode 0600, folders 0700), and symbolic links are not followed.

Without ``durable`` a page survives the death of the process, but not necessarily a power cut, after which a
file may be short or missing: a miss, found by the checksum.  With ``durable`` file and folder are on the medium
when put returns.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvlitmus.optimized.storage.base import Buffer, Identity
from kvlitmus.optimized.storage.record import HEAD, head_fits, head_of, name_of, page_in

SUFFIX, TEMPORARY = ".page", ".tmp"
FILE_MODE, FOLDER_MODE = 0o600, 0o700
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Usage:
    """How much a store keeps: pages, and bytes of files."""

    pages: int
    bytes: int


class FileStore:
    """A page store in a folder; see :class:`~kvlitmus.optimized.storage.base.PageStore`.

    ``folder`` is made if it isn't there; its parent must be.  ``durable`` waits for the medium with each put.
    Raises ``NotADirectoryError`` when the folder is something else, and ``OSError`` when it can't be made or used.
    """

    def __init__(
        self, folder: str | os.PathLike[str], identity: Identity | None = None, *, durable: bool = False
    ) -> None:
        self.folder = Path(folder).absolute()
        self.identity = identity or Identity()
        self.durable = durable
        self.home = self.folder / self.identity.digest.hex()[:32]
        self._serials = iter(range(1 << 62))
        self._counts: Counter[str] = Counter()
        self._turn = threading.Lock()
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"a page store needs a folder, and this is none: {self.folder}")
        self.folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        self.home.mkdir(mode=FOLDER_MODE, exist_ok=True)
        if durable:
            _sync_folder(self.folder)
        if not os.access(self.home, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(f"the page store's folder can't be read and written: {self.home}")
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
        pages = [self._read(key, size) for key in keys]
        return [None if page is None else bytes(page) for page in pages]

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """Fill one buffer per key; a buffer is touched only when its page has been found whole."""
        if len(keys) != len(buffers):
            raise ValueError(f"as many buffers as keys are needed (got {len(buffers)} and {len(keys)})")
        filled = []
        for key, buffer in zip(keys, buffers, strict=True):
            target = memoryview(buffer).cast("B")
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
        if len(keys) != len(values):
            raise ValueError(f"as many pages as keys are needed (got {len(values)} and {len(keys)})")
        return [self._store(key, value) for key, value in zip(keys, values, strict=True)]

    def clear(self) -> None:
        """Remove all pages of this identity, and nothing else that lies in the folder."""
        for path in self._files(SUFFIX):
            with contextlib.suppress(OSError):
                path.unlink()

    # -- looking at it -------------------------------------------------------------------------

    def usage(self) -> Usage:
        """What the pages of this identity take up now; every file is looked at."""
        sizes = []
        for path in self._files(SUFFIX):
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size)
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
        text = key.encode()
        try:
            file = os.open(path, READ)
            try:
                head = os.read(file, HEAD.size + len(text))
                length = os.fstat(file).st_size - len(head)
            finally:
                os.close(file)
        except OSError:
            return False
        return head_fits(self.identity, key, head, length)

    def _read(self, key: str, size: int | None) -> memoryview | None:
        """The page of a key, if it is whole and of this size."""
        path = self.path_of(key)
        data = None
        if path is not None:
            with contextlib.suppress(OSError):
                data = _contents(path)
        if data is None:
            self._count("miss")
            return None
        page = page_in(self.identity, key, data)
        if page is None:
            self._count("damaged")
            return None
        if size is not None and len(page) != size:
            self._count("miss")
            return None
        self._count("hit")
        return page

    def _store(self, key: str, value: Buffer) -> bool:
        path = self.path_of(key)
        if path is None:
            self._count("refused")
            return False
        page = memoryview(value).cast("B")
        with contextlib.suppress(OSError):
            if page_in(self.identity, key, _contents(path)) is not None:
                self._count("kept")
                return True
        for last in (False, True):
            try:
                self._write(path, head_of(self.identity, key, page), page)
            except FileNotFoundError:
                # A store that was just being opened took the new temporary file for a leftover, or a folder is gone.
                if last:
                    break
            except OSError:
                break
            else:
                self._count("stored")
                return True
        self._count("failed")
        return False

    def _write(self, path: Path, head: bytes, page: memoryview) -> None:
        """Write a temporary file and rename it; on any failure nothing is left."""
        with contextlib.suppress(FileExistsError):
            path.parent.mkdir(mode=FOLDER_MODE)
            if self.durable:
                _sync_folder(self.home)
        with self._turn:
            serial = next(self._serials)
        name = f"{path.stem}.{os.getpid()}.{threading.get_native_id()}.{serial}.{os.urandom(4).hex()}{TEMPORARY}"
        temporary = path.parent / name
        file = os.open(temporary, WRITE, FILE_MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _write_all(file, head)
            _write_all(file, page)
            if self.durable:
                os.fsync(file)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        finally:
            os.close(file)
        if self.durable:
            _sync_folder(path.parent)

    def _count(self, what: str) -> None:
        with self._turn:
            self._counts[what] += 1

    # -- the folder ----------------------------------------------------------------------------

    def _files(self, suffix: str) -> Iterator[Path]:
        """The store's own files with this suffix: those that it could have named itself."""
        for folder in self.home.glob("[0-9a-f][0-9a-f]"):
            if folder.is_symlink():
                continue
            for path in folder.glob(f"*{suffix}"):
                digits = path.name.partition(".")[0]
                if len(digits) == 62 and set(digits) <= set("0123456789abcdef") and not path.is_symlink():
                    yield path

    def _remove_leftovers(self) -> int:
        """Remove temporary files whose writers are gone, those that nobody holds a lock on; returns how many."""
        removed = 0
        for path in self._files(TEMPORARY):
            with contextlib.suppress(OSError):
                file = os.open(path, READ)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                    removed += 1
                finally:
                    os.close(file)
        return removed


def _contents(path: Path) -> bytearray:
    """All bytes of a file; raises ``OSError``, also for what is no ordinary file."""
    file = os.open(path, READ)
    try:
        data = bytearray(os.fstat(file).st_size)
        view, done = memoryview(data), 0
        while done < len(data):
            got = os.readv(file, [view[done:]])
            if not got:
                break
            done += got
        view.release()
        del data[done:]
        return data
    finally:
        os.close(file)


def _write_all(file: int, data: bytes | memoryview) -> None:
    """Write all of it: one call may take only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
