"""What a power cut may leave of a folder: writes torn and reordered, as far as nothing was waited for.

A file system promises little about what it wasn't told to wait for (``fsync``): a file's bytes may be there in part, in
any order of their blocks; where one is missing there are zeros, or what lay on the medium before; a name may be there
without the bytes, the bytes without the name, one change of a folder without an earlier one.  What it does promise is
that a rename is there or not, and that what was waited for is there: a file's bytes by ``fsync`` of the file, names by
``fsync`` of their folder.  (The method is that of ALICE: Pillai and others, *All File Systems Are Not Created Equal*,
OSDI 2014.)

:class:`Tape` stands for the module ``os`` in the store's code: it does what it is told and writes it down, one record
after the other, also across processes.  :class:`Medium` plays the records and draws a state that a power cut may leave.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import os
import pickle
import random
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = 4_096
"""What reaches the medium in one piece."""

Tree = dict[str, Any]
"""A folder: names, and their bytes, or folders again."""


# -- recording -----------------------------------------------------------------------------------------------------


class Tape:
    """The module ``os``, of which every change of a file system is written down, after it was done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pid, self._file = -1, -1

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One at a time, over all processes: what is written down first was done first."""
        if self._pid != os.getpid():
            self._pid, self._file = os.getpid(), os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _note(self, *record: Any) -> None:
        """A line of its own, which ends in a full stop: whoever dies here leaves a part of it, and others go on."""
        os.write(self._file, b"\n" + base64.b64encode(pickle.dumps(record)) + b".")

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """See ``os.open``."""
        if not flags & os.O_CREAT:
            return os.open(path, flags, mode, dir_fd=dir_fd)
        with self._turn():
            file = os.open(path, flags, mode, dir_fd=dir_fd)
            self._note("make", _folder(path, dir_fd), _name(path), os.fstat(file).st_ino, False)
        return file

    def write(self, file: int, data: Any) -> int:
        """See ``os.write``."""
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return os.write(file, data)
        with self._turn():
            at = os.lseek(file, 0, os.SEEK_CUR)
            done = os.write(file, data)
            self._note("write", os.fstat(file).st_ino, at, bytes(data[:done]))
        return done

    def fsync(self, file: int) -> None:
        """See ``os.fsync``; nothing is waited for, for there will be no power cut but a drawn one."""
        with self._turn():
            self._note("sync", os.fstat(file).st_ino)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """See ``os.mkdir``."""
        with self._turn():
            os.mkdir(path, mode, dir_fd=dir_fd)
            made = os.stat(path, dir_fd=dir_fd).st_ino
            self._note("make", _folder(path, dir_fd), _name(path), made, True)

    def rename(self, path: Any, to: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        """See ``os.rename``; within one folder."""
        with self._turn():
            moved = os.stat(path, dir_fd=src_dir_fd, follow_symlinks=False).st_ino
            os.rename(path, to, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            self._note("rename", _folder(to, dst_dir_fd), _name(path), _name(to), moved)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        """See ``os.unlink``."""
        with self._turn():
            os.unlink(path, dir_fd=dir_fd)
            self._note("remove", _folder(path, dir_fd), _name(path))

    rmdir = unlink


def _folder(path: Any, at: int | None) -> int:
    """The number of the folder in which a name lies."""
    return os.stat(os.path.dirname(path) or ".", dir_fd=at).st_ino  # noqa: PTH120 - it may be a name in an open folder


def _name(path: Any) -> str:
    return Path(path).name


# -- playing -------------------------------------------------------------------------------------------------------


@dataclass
class File:
    """A file's bytes on the medium, and the pieces on their way to it."""

    there: bytes = b""
    coming: list[tuple[int, bytes]] = field(default_factory=list)

    def settle(self) -> None:
        """All of it is on the medium."""
        self.there = self.after(self.coming)
        self.coming = []

    def after(self, pieces: list[tuple[int, bytes]], size: int = 0, filler: bytes = b"\0") -> bytes:
        """The bytes after some pieces; what no piece covers is filled."""
        length = max([size, len(self.there), *(at + len(data) for at, data in pieces)])
        made = bytearray((filler * (length // len(filler) + 1))[:length])
        made[: len(self.there)] = self.there
        for at, data in pieces:
            made[at : at + len(data)] = data
        return bytes(made)

    def drawn(self, draw: random.Random) -> bytes:
        """What a power cut may leave of it."""
        whole = self.after(self.coming)
        match draw.randrange(5) if self.coming else 0:
            case 0:
                return whole
            case 1:
                return self.there
            case 2:
                return whole[: draw.randrange(len(whole) + 1)]
        blocks = [(at, data) for start, piece in self.coming for at, data in _blocks(start, piece)]
        chosen = draw.sample(blocks, draw.randrange(len(blocks) + 1))
        filler = draw.choice((b"\0", draw.randbytes(BLOCK)))
        return self.after(chosen, draw.choice((0, len(whole))), filler)


def _blocks(start: int, piece: bytes) -> Iterator[tuple[int, bytes]]:
    """A piece, cut where blocks begin."""
    at = 0
    while at < len(piece):
        size = BLOCK - (start + at) % BLOCK
        yield start + at, piece[at : at + size]
        at += size


@dataclass
class Folder:
    """A folder's names on the medium, and the changes on their way: each takes effect as a whole or not at all."""

    there: dict[str, int] = field(default_factory=dict)
    coming: list[dict[str, int | None]] = field(default_factory=list)

    def settle(self) -> None:
        """All of it is on the medium."""
        self.there = self.after(self.coming)
        self.coming = []

    def after(self, changes: list[dict[str, int | None]]) -> dict[str, int]:
        """The names after some changes."""
        names: dict[str, int | None] = dict(self.there)
        for change in changes:
            names.update(change)
        return {name: number for name, number in names.items() if number is not None}

    def drawn(self, draw: random.Random) -> dict[str, int]:
        """What a power cut may leave of it."""
        count = len(self.coming)
        match draw.randrange(4):
            case 0:
                return self.after(self.coming)
            case 1:
                return self.after(self.coming[: draw.randrange(count + 1)])
        return self.after([change for change in self.coming if draw.random() < 0.5])


class Medium:
    """Files and folders by number, as they are on the medium, and what is on its way there."""

    def __init__(self, root: Path) -> None:
        """What lies in a folder now is on the medium."""
        self.numbers = itertools.count(1)
        self.present: dict[int, int] = {}
        """Which of ours a number of the file system's stands for now: it gives those of removed files to new ones."""
        self.files: dict[int, File] = {}
        self.folders: dict[int, Folder] = {}
        self.root = self._read(root)

    def _read(self, path: Path) -> int:
        number = self._new(path.lstat().st_ino)
        if path.is_dir():
            self.folders[number] = Folder({one.name: self._read(one) for one in path.iterdir()})
        else:
            self.files[number] = File(path.read_bytes())
        return number

    def _new(self, inode: int) -> int:
        self.present[inode] = number = next(self.numbers)
        return number

    def play(self, tape: Path) -> int:
        """Do what was written down; returns how many changes were not waited for."""
        for line in tape.read_bytes().split(b"\n") if tape.exists() else ():
            if line.endswith(b"."):  # else it is cut off: its writer died
                self._do(*pickle.loads(base64.b64decode(line[:-1])))
        files = sum(len(one.coming) for one in self.files.values())
        return files + sum(len(one.coming) for one in self.folders.values())

    def _do(self, what: str, inode: int, *rest: Any) -> None:
        number = self.present.get(inode, 0)
        if what == "write":
            self.files[number].coming.append((rest[0], rest[1]))
        elif what == "sync":
            settled = self.files.get(number) or self.folders.get(number)
            if settled is not None:  # a folder above, that nothing is said of
                settled.settle()
        elif number in self.folders:
            self._change(self.folders[number].coming, what, *rest)

    def _change(self, coming: list[dict[str, int | None]], what: str, name: str, *rest: Any) -> None:
        if what == "make":
            number = self._new(rest[0])
            if rest[1]:
                self.folders[number] = Folder()
            else:
                self.files[number] = File()
            coming.append({name: number})
        elif what == "rename":
            coming.append({name: None, rest[0]: self.present[rest[1]]})
        else:
            coming.append({name: None})

    def drawn(self, draw: random.Random, number: int = 0) -> Tree:
        """A state that a power cut may leave, from a folder on; the root's, unless told otherwise."""
        tree: Tree = {}
        for name, one in self.folders[number or self.root].drawn(draw).items():
            tree[name] = self.drawn(draw, one) if one in self.folders else self.files[one].drawn(draw)
        return tree


def written(tree: Mapping[str, Any], folder: Path) -> None:
    """Make such a folder, for its owner alone."""
    folder.mkdir(mode=0o700)
    for name, one in tree.items():
        if isinstance(one, bytes):
            (folder / name).write_bytes(one)
            (folder / name).chmod(0o600)
        else:
            written(one, folder / name)
