"""Files: the one place where what may be anything is opened, and what matters is written.

A name in a folder may stand for a link, a pipe that nobody writes to, a device, a folder.  So what is read is
asked first what it is, opened without waiting, and asked again; what isn't a regular file is an ``OSError``
that says what it is instead.  Links are followed only where a user has named the file; never in a folder that
the suite keeps itself, since whoever put the link there may have meant another file to be read or written.

What is written is there as a whole or not at all, and replaces nothing but a regular file.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
from contextlib import suppress
from pathlib import Path

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}

IN_PLACE = os.O_WRONLY | os.O_RDWR
"""Flags of a file that is changed where it is."""


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Open a regular file; returns its descriptor.

    follow: whether ``path`` may be a link.  A file that is changed in place must have no second name either: the
    other one may be somebody else's.  Raises ``OSError`` whose ``strerror`` can be shown.
    """
    flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with suppress(FileNotFoundError):  # opening a device may have effects of its own, so it is looked at first
        require_regular(path, path.stat(follow_symlinks=follow), flags)
    file = os.open(path, flags, 0o600)
    try:
        require_regular(path, os.fstat(file), flags)
    except OSError:
        os.close(file)
        raise
    return file


def require_regular(path: Path, found: os.stat_result, flags: int = os.O_RDONLY) -> None:
    """Raise ``OSError`` for what is no regular file, or has a second name and is to be changed."""
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise OSError(errno.EINVAL, f"expected a regular file, got {kind}", str(path))
    if flags & IN_PLACE and found.st_nlink > 1:
        raise OSError(errno.EMLINK, "expected a file with one name, got one that has others too", str(path))


def read(path: Path, most: int, *, follow: bool = False) -> bytes:
    """The bytes of a regular file, one more than ``most`` if it is longer; raises ``OSError``."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        return file.read(most + 1)


def read_end(path: Path, most: int) -> bytes:
    """The last bytes of a regular file, at most so many; raises ``OSError``."""
    with os.fdopen(open_regular(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        return file.read(most)


def write(path: Path, text: str | bytes, *, lasting: bool = False) -> None:
    """Write a file so that it is there as a whole or not at all; raises ``OSError``.

    lasting: when this returns, it is on disk, whatever happens to the machine.
    """
    with suppress(FileNotFoundError):
        require_regular(path, path.lstat())
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):  # of a process with the same number, or a link that waits for us
        fresh.unlink()
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with os.fdopen(file, "wb") as stream:
            stream.write(text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text)
            stream.flush()
            if lasting:
                os.fsync(file)
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
    if lasting:
        sync(path.parent)


def sync(folder: Path) -> None:
    """Flush a folder, so that a renamed file stays where it is."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def append(path: Path, data: bytes) -> None:
    """Append to a file, which may be new: all of it or nothing, and on disk; raises ``OSError``."""
    file = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        size = os.fstat(file).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        except OSError:
            with suppress(OSError):  # a full disk takes a part
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def reason(error: Exception) -> str:
    """Why a file can't be read or written, as the system says it; a name with a null character is a ``ValueError``."""
    return str((isinstance(error, OSError) and error.strerror) or error)


def unreadable(error: Exception, what: str = "a file that can be read") -> str:
    """The same, with what was expected in its place."""
    said = reason(error)
    return said if said.startswith("expected ") else f"expected {what}, got {said}"


def unwritable(path: Path) -> str:
    """Why no file could be written here, as far as that is known before it is tried; empty where one could."""
    try:
        if (found := existing(path)) is not None and not stat.S_ISREG(found.st_mode):
            return f"it is {KINDS.get(stat.S_IFMT(found.st_mode), 'no regular file')}, which would be replaced"
        for folder in path.absolute().parents:
            if not folder.exists():
                continue
            if not folder.is_dir():
                return os.strerror(errno.ENOTDIR)
            if os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
                return ""
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            return os.strerror(errno.EROFS if read_only else errno.EACCES)
    except (OSError, ValueError) as error:
        return reason(error)
    return ""


def existing(path: Path) -> os.stat_result | None:
    """What has this name, a link itself, if anything has; raises ``OSError`` where that can't be seen."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def is_folder(path: Path) -> bool:
    """Whether this is a folder; raises ``OSError`` where that can't be seen."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        return False


def listed(folder: Path, pattern: str = "*") -> list[Path]:
    """What of a folder has such a name, in order; raises ``OSError`` for what is none, or can't be read."""
    return sorted(one for one in folder.iterdir() if fnmatch.fnmatchcase(one.name, pattern))


def put_aside(path: Path, aside: Path) -> Path:
    """Move whatever has this name into a folder, under a name that is free there; raises ``OSError``."""
    target, number = aside / path.name, 1
    while os.path.lexists(target):
        number += 1
        target = aside / f"{path.stem[:200]}-{number}{path.suffix[:20]}"
    path.rename(target)
    return target
