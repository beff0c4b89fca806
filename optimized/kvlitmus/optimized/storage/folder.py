"""Folders and files that nobody else can have put there, opened one step at a time.

A path can lead elsewhere when one of its parts is a link, or is exchanged between two looks at it.  So what lies in a
store's folder is opened relative to the open folder above it, by one name, without following links; and what was opened
is looked at, not what the name means a moment later:

* A folder must belong to this user or to root, and nobody else may write it: who can write a folder can put anything
  under any name in it.
* A file must be a regular one, with the same owner, and not writable by others.  A pipe, device or socket is
  never waited for.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


@contextmanager
def entered(name: str | Path, at: int | None = None) -> Iterator[int]:
    """An open folder, of this name in the open folder ``at``; links in the last part of the name are not followed.

    Raises ``PermissionError`` for one that somebody else owns or may write, ``NotADirectoryError`` for what is no
    folder, and any other ``OSError`` of opening it.
    """
    folder = os.open(name, FOLDER, dir_fd=at)
    try:
        found = os.fstat(folder)
        if not _trusted(found):
            raise PermissionError(errno.EACCES, why_not(found), str(name))
        yield folder
    finally:
        os.close(folder)


@contextmanager
def regular(name: str, at: int) -> Iterator[tuple[int, int]]:
    """An open file and its length in bytes; raises ``OSError``, also for what is no file of ours."""
    file = os.open(name, READ, dir_fd=at)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or not _trusted(found):
            raise OddFileError(errno.EINVAL, "not a regular file of this user", name)
        yield file, found.st_size
    finally:
        os.close(file)


class OddFileError(OSError):
    """Something lies under the name of a file that can't be one of ours."""


def contents(file: int, length: int) -> bytearray:
    """The first bytes of a file, fewer where it has become shorter; raises ``OSError`` and ``MemoryError``."""
    data = bytearray(length)
    done = 0
    with memoryview(data) as view:
        while done < length:
            got = os.preadv(file, [view[done:]], done)
            if not got:
                break
            done += got
    del data[done:]
    return data


def why_not(found: os.stat_result) -> str:
    """Why a folder isn't trusted, and what can be done."""
    mode = f"mode {stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}, we are {os.geteuid()}"
    return f"others may write it ({mode}); 'chmod go-w' and 'chown' it, or name a folder within it"


def _trusted(found: os.stat_result) -> bool:
    """Whether this user or root owns it, and nobody else may write it."""
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & OTHERS_WRITE
