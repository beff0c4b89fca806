"""The file store among hostile files, folders and a system that refuses: it misses, it never raises."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.optimized.storage import file as file_module
from kvlitmus.optimized.storage import folder as folder_module
from kvlitmus.optimized.storage.base import Identity
from kvlitmus.optimized.storage.file import FileStore
from kvlitmus.optimized.storage.record import HEAD, head_of

KEYS = [f"{number:064x}" for number in range(4)]
PAGES = [bytes([number]) * 300 for number in range(4)]
HUGE = 1 << 42
ROOT = os.geteuid() == 0


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    one = FileStore(tmp_path / "pages")
    assert one.put(KEYS[:3], PAGES[:3]) == [True] * 3
    return one


def path_of(store: FileStore, key: str) -> Path:
    path = store.path_of(key)
    assert path is not None
    return path


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes were asked for, each time that a page was read."""
    lengths: list[int] = []

    def contents(file: int, length: int) -> bytearray:
        lengths.append(length)
        assert length < 1 << 20, "nobody may ask for that much memory"
        return folder_module.contents(file, length)

    monkeypatch.setattr(file_module, "contents", contents)
    return lengths


def stretched(path: Path) -> None:
    os.truncate(path, HUGE)


def forged(path: Path) -> None:
    """A huge file whose header says so."""
    head = bytearray(path.read_bytes()[: HEAD.size + 64])
    head[12:20] = (HUGE - len(head)).to_bytes(8, "little")
    path.write_bytes(head)
    os.truncate(path, HUGE)


@pytest.mark.parametrize("grow", [stretched, forged])
def test_a_huge_file_is_a_miss_and_is_replaced(store: FileStore, read: list[int], grow: Callable[[Path], None]) -> None:
    grow(path_of(store, KEYS[1]))
    buffers = [bytearray(300) for _ in range(3)]
    assert store.get(KEYS[:3]) == [PAGES[0], None, PAGES[2]]
    assert store.get_into(KEYS[:3], buffers) == [True, False, True]
    assert store.exists(KEYS[:3]) == 1
    assert store.put(KEYS[:3], PAGES[:3]) == [True] * 3
    assert store.get(KEYS[:3]) == PAGES[:3]
    assert max(read) == HEAD.size + 64 + 300


def test_a_page_of_another_size_is_not_read(store: FileStore, read: list[int]) -> None:
    assert store.get(KEYS[:3], 299) == [None] * 3
    assert read == []


def test_pages_have_a_limit(store: FileStore) -> None:
    small = FileStore(store.folder, largest=300)
    assert small.put([KEYS[3], "more"], [PAGES[3], b"x" * 301]) == [True, False]
    assert small.get([KEYS[3], "more"]) == [PAGES[3], None]
    assert store.put(["more"], [b"x" * 301]) == [True]
    assert (small.exists(["more"]), small.get(["more"])) == (0, [None])


def test_too_little_memory_is_a_miss(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def contents(file: int, length: int) -> bytearray:
        raise MemoryError

    monkeypatch.setattr(file_module, "contents", contents)
    assert store.get(KEYS[:3]) == [None] * 3
    assert store.put(KEYS[:3], PAGES[:3]) == [True] * 3


# -- what isn't a file of ours -------------------------------------------------------------------------------------


def folder(path: Path) -> None:
    path.mkdir()


def full_folder(path: Path) -> None:
    path.mkdir()
    (path / "mine").write_text("mine")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except OSError:
        pytest.skip("only root makes devices")


def link(path: Path) -> None:
    path.symlink_to(path.parents[3] / "victim")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def writable(path: Path) -> None:
    shutil.copy(path.parents[3] / "victim", path)
    path.chmod(0o620)


def of_another(path: Path) -> None:
    if not ROOT:
        pytest.skip("only root gives files away")
    shutil.copy(path.parents[3] / "victim", path)
    os.chown(path, 4_242, -1)


def hard_link(path: Path) -> None:
    """Another name of a file that others may write: they would change the page."""
    victim = path.parents[3] / "victim"
    victim.chmod(0o666)
    os.link(victim, path)


ODD = (folder, full_folder, pipe, bound_socket, device, link, loop, writable, of_another, hard_link)


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_what_is_no_file_of_ours_is_a_miss_and_is_replaced(
    store: FileStore, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path, victim = path_of(store, KEYS[1]), tmp_path / "victim"
    path.rename(victim)
    before = victim.read_bytes()
    make(path)
    mended = make is not full_folder
    assert store.get(KEYS[:3]) == [PAGES[0], None, PAGES[2]]
    assert store.exists(KEYS[:3]) == 1
    assert store.put(KEYS[:3], PAGES[:3]) == [True, mended, True]
    assert store.get(KEYS[:3]) == [PAGES[0], PAGES[1] if mended else None, PAGES[2]]
    assert victim.read_bytes() == before
    assert not list(store.folder.rglob("*.tmp"))
    store.clear()
    assert store.exists(KEYS[:1]) == 0
    assert mended or (path / "mine").read_text() == "mine", "what a folder holds is not ours to remove"


def test_odd_leftovers_hold_nobody_up(store: FileStore) -> None:
    stem = path_of(store, KEYS[0]).with_suffix("")
    for number, make in enumerate((folder, pipe, bound_socket, loop)):
        make(Path(f"{stem}.{number}.tmp"))
    assert FileStore(store.folder).removed == 1, "the pipe, on which nobody has a lock"
    assert store.get(KEYS[:3]) == PAGES[:3]


# -- folders -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0, 1, 2], ids=["shard", "identity", "store"])
@pytest.mark.parametrize("linked", [True, False], ids=["link", "writable"])
def test_folders_that_others_rule_are_not_used(store: FileStore, tmp_path: Path, level: int, linked: bool) -> None:
    """All that somebody put there has the right header and checksum: only where it lies is wrong."""
    theirs = path_of(store, KEYS[0]).parents[level]
    if linked:
        theirs.rename(tmp_path / "theirs")
        theirs.symlink_to(tmp_path / "theirs")
    else:
        theirs.chmod(0o777)
    before = sorted((tmp_path / "theirs").rglob("*"))
    found = [store.get([KEYS[0]]), store.put([KEYS[0]], [PAGES[0]]), store.exists([KEYS[0]])]
    assert found == [[None], [False], 0]
    store.clear()
    assert sorted((tmp_path / "theirs").rglob("*")) == before, "nothing of it was written or removed"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages").chmod(mode)
    with pytest.raises(PermissionError, match=rf"others may write it \(mode {mode:04o}.*chmod go-w") as caught:
        FileStore(tmp_path / "pages")
    assert "\n" not in str(caught.value)
    (tmp_path / "pages").chmod(0o755)
    store = FileStore(tmp_path / "pages")
    store.home.chmod(mode)
    with pytest.raises(PermissionError, match="others may write it"):
        FileStore(tmp_path / "pages")


@pytest.mark.skipif(not ROOT, reason="only root gives folders away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    os.chown(tmp_path / "pages", 4_242, -1)
    with pytest.raises(PermissionError, match="owner 4242"):
        FileStore(tmp_path / "pages")


def test_an_identity_folder_that_is_a_link_is_refused(store: FileStore, tmp_path: Path) -> None:
    store.home.rename(tmp_path / "theirs")
    store.home.symlink_to(tmp_path / "theirs")
    with pytest.raises(NotADirectoryError, match="needs a folder"):
        FileStore(store.folder)


def test_the_folder_may_be_named_by_a_link_and_names_are_escaped(tmp_path: Path) -> None:
    """Whoever opens a store says where it is; it stays there when the link leads elsewhere afterwards."""
    (tmp_path / "disk").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    store = FileStore(tmp_path / "link")
    (tmp_path / "link").unlink()
    assert store.put(KEYS, PAGES) == [True] * 4
    assert store.get(KEYS) == PAGES
    (tmp_path / "a\x1b[31m\nb").write_text("")
    with pytest.raises(NotADirectoryError) as caught:
        FileStore(tmp_path / "a\x1b[31m\nb")
    assert str(caught.value).isprintable()


# -- a system that refuses -----------------------------------------------------------------------------------------

CALLS = ("open", "fstat", "pread", "preadv", "write", "fsync", "rename", "mkdir", "close")
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE, errno.EDQUOT, errno.ESTALE)


class Refusing:
    """The module ``os``, of whose calls one fails."""

    def __init__(self) -> None:
        self.left = -1
        self.error = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                if name == "close":
                    real(*args)
                raise OSError(self.error, os.strerror(self.error))
            return None if name == "fsync" else real(*args, **more)  # nothing is lost here, so nobody need wait

        return call


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    one = Refusing()
    monkeypatch.setattr(file_module, "os", one)
    monkeypatch.setattr(folder_module, "os", one)
    return one


@pytest.mark.parametrize("durable", [False, True], ids=["fast", "durable"])
def test_each_call_of_the_system_may_fail(refusing: Refusing, tmp_path: Path, durable: bool) -> None:
    """One call after the other fails once: at most one page is concerned, and a second try mends it."""
    number, reached = 0, True
    while reached:
        number += 1
        refusing.left = -1
        folder = tmp_path / str(number)
        store = FileStore(folder, durable=durable)
        store.put(KEYS[1:2], PAGES[1:2])
        refusing.left, refusing.error = number, ERRORS[number % len(ERRORS)]
        stored = store.put(KEYS[1:], PAGES[1:])
        got = store.get(KEYS[1:])
        count = store.exists(KEYS[1:])
        reached, refusing.left = refusing.left <= 0, -1
        assert stored.count(False) <= 1
        assert all(found in (None, page) for found, page in zip(got, PAGES[1:], strict=True))
        assert got.count(None) <= 1
        assert count >= 0
        assert not list(folder.rglob("*.tmp"))
        assert store.put(KEYS[1:], PAGES[1:]) == [True] * 3
        assert store.get(KEYS[1:]) == PAGES[1:]
        shutil.rmtree(folder)
    assert number > 45, "or little has failed"


def descriptors() -> set[str]:
    """The open descriptors of this process, where that can be seen."""
    folder = Path("/proc/self/fd")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def test_no_descriptor_is_left_open(store: FileStore) -> None:
    path_of(store, KEYS[2]).unlink()
    pipe(path_of(store, KEYS[2]))
    before = descriptors()
    for _ in range(3):
        store.get(KEYS)
        store.put(["", *KEYS], [b"", *PAGES])
        store.exists(KEYS)
        store.usage()
        path_of(store, KEYS[0]).unlink()
    assert descriptors() == before


def test_no_descriptor_to_be_had_is_a_miss(store: FileStore) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)
    os.close(probe)
    try:
        for spare in range(4):  # what is open above does no harm to what is opened now
            resource.setrlimit(resource.RLIMIT_NOFILE, (probe + spare, hard))
            assert store.get(KEYS[:3]) == [None] * 3
            assert store.put(KEYS[:1], PAGES[:1]) == [False]
            assert store.exists(KEYS) == 0
            store.clear()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert store.get(KEYS[:3]) == PAGES[:3]


def test_a_page_put_by_somebody_in_a_hurry_is_settled(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A durable put of what is there already waits for it: whoever wrote it may not have waited."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    durable = FileStore(store.folder, durable=True)
    assert durable.put(KEYS[:1], PAGES[:1]) == [True]
    path = path_of(store, KEYS[0])
    needed = [path, path.parent, path.parents[1], path.parents[2], path.parents[3]]
    assert {one.stat().st_ino for one in needed} <= set(synced)
    assert durable.counts() == {"kept": 1}


def test_the_identity_makes_the_header(store: FileStore) -> None:
    """A page under the right name with the header of another identity is a miss."""
    path = path_of(store, KEYS[0])
    path.write_bytes(head_of(Identity(model="theirs"), KEYS[0], PAGES[0]) + PAGES[0])
    assert store.get(KEYS[:3]) == [None, *PAGES[1:3]]


@pytest.mark.parametrize("odd", ["writable", "link"])
def test_the_folder_that_is_at_fault_is_named(tmp_path: Path, odd: str) -> None:
    """The store's own folder is in the one that was given, and that may be in order."""
    home = FileStore(tmp_path).home
    if odd == "writable":
        home.chmod(0o777)
    else:
        home.rename(tmp_path / "elsewhere")
        home.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=re.escape(repr(str(home)))):
        FileStore(tmp_path)
