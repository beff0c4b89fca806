"""The file store: what is on disk, who may read it, and what a damaged folder does to it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kvlitmus.optimized.storage.base import Identity, PageStore
from kvlitmus.optimized.storage.file import FileStore
from kvlitmus.optimized.storage.record import HEAD
from tests.support.processes import LIMIT

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(str(ROOT / room) for room in ("spec", "optimized"))
KEYS = [f"{number:064x}" for number in range(4)]
PAGES = [bytes([number]) * 300 for number in range(4)]


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "pages")


def path_of(store: FileStore, key: str) -> Path:
    path = store.path_of(key)
    assert path is not None
    return path


def test_it_is_a_page_store_and_needs_the_standard_library_alone(store: FileStore) -> None:
    assert isinstance(store, PageStore)
    code = "import kvlitmus.optimized.storage.file, sys; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {PATHS.split(os.pathsep)!r}; {code}"]
    assert subprocess.run(command, check=False).returncode == 0


def test_what_was_put_comes_back_by_position(store: FileStore) -> None:
    assert store.put(KEYS[:2], PAGES[:2]) == [True, True]
    assert store.exists(KEYS) == 2
    assert store.exists([KEYS[3], KEYS[0]]) == 0
    assert store.get([KEYS[1], KEYS[3], KEYS[0]]) == [PAGES[1], None, PAGES[0]]
    assert store.get(KEYS[:1], size=299) == [None], "a page of another size is a miss"
    assert (store.put([], []), store.get([]), store.exists([])) == ([], [], 0)
    assert FileStore(store.folder).get(KEYS[:2]) == PAGES[:2], "another store over the same folder finds them"


def test_buffers_are_filled_or_left_alone(store: FileStore) -> None:
    store.put(KEYS[:2], PAGES[:2])
    with path_of(store, KEYS[0]).open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    buffers = [bytearray(b"." * 300) for _ in range(3)]
    assert store.get_into(KEYS[:3], [buffers[0], memoryview(buffers[1]), buffers[2]]) == [False, True, False]
    assert buffers == [b"." * 300, PAGES[1], b"." * 300]


@pytest.mark.parametrize("call", [lambda s: s.put(KEYS, PAGES[:1]), lambda s: s.get_into(KEYS, [bytearray(1)])])
def test_keys_and_pages_must_be_as_many(store: FileStore, call: Callable[[FileStore], object]) -> None:
    with pytest.raises(ValueError, match="as many"):
        call(store)


def test_nobody_else_may_read_it(store: FileStore) -> None:
    store.put(KEYS, PAGES)
    for folder, folders, files in os.walk(store.folder):
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        assert all(stat.S_IMODE((Path(folder) / name).stat().st_mode) == 0o600 for name in files)
        assert folders or files


def cut(data: bytearray) -> None:
    del data[len(data) // 2 :]


def cut_header(data: bytearray) -> None:
    del data[10:]


def empty(data: bytearray) -> None:
    data.clear()


def flip_page(data: bytearray) -> None:
    data[-7] ^= 4


def flip_header(data: bytearray) -> None:
    data[20] ^= 1


def grow(data: bytearray) -> None:
    data += b"\0"


@pytest.mark.parametrize("damage", [cut, cut_header, empty, flip_page, flip_header, grow])
def test_a_damaged_file_is_a_miss_and_is_replaced(store: FileStore, damage: Callable[[bytearray], None]) -> None:
    store.put(KEYS[:3], PAGES[:3])
    path = path_of(store, KEYS[1])
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)

    assert store.get(KEYS[:3]) == [PAGES[0], None, PAGES[2]]
    assert store.exists(KEYS[:3]) == (3 if damage is flip_page else 1)
    assert store.put([KEYS[1]], [PAGES[1]]) == [True]
    assert store.get(KEYS[:3]) == PAGES[:3]
    assert store.counts()["damaged"] == 1


def test_a_file_in_anothers_place_is_a_miss(store: FileStore) -> None:
    store.put(KEYS[:2], PAGES[:2])
    path_of(store, KEYS[0]).write_bytes(path_of(store, KEYS[1]).read_bytes())
    assert store.get(KEYS[:2]) == [None, PAGES[1]]
    assert store.exists(KEYS[:2]) == 0


def test_a_page_that_is_whole_is_not_written_again(store: FileStore) -> None:
    store.put(KEYS[:1], PAGES[:1])
    before = path_of(store, KEYS[0]).stat().st_mtime_ns, path_of(store, KEYS[0]).stat().st_ino
    assert store.put(KEYS[:1], [b"something else"]) == [True]
    assert (path_of(store, KEYS[0]).stat().st_mtime_ns, path_of(store, KEYS[0]).stat().st_ino) == before
    assert store.counts() == {"stored": 1, "kept": 1}


def test_identities_never_meet(tmp_path: Path) -> None:
    identities = [
        Identity(model="m", rank=0, ranks=2),
        Identity(model="m", rank=1, ranks=2),
        Identity(model="m", rank=0, ranks=4),
        Identity(model="m"),
        Identity(model="n"),
        Identity(model="m", layout="bf16"),
        Identity(model="m", page_size=16),
        Identity(model="m0", layout=""),
        Identity(model="m", layout="0"),
    ]
    stores = [FileStore(tmp_path / "pages", identity) for identity in identities]
    assert len({one.home for one in stores}) == len(stores)
    for number, one in enumerate(stores):
        assert one.get(KEYS[:1]) == [None]
        one.put(KEYS[:1], [bytes([number])])
    assert [one.get(KEYS[:1]) for one in stores] == [[bytes([number])] for number in range(len(stores))]
    # Even a file that is carried over by hand is no page of the other identity.
    path_of(stores[1], KEYS[0]).write_bytes(path_of(stores[0], KEYS[0]).read_bytes())
    assert stores[1].get(KEYS[:1]) == [None]
    with pytest.raises(ValueError, match="rank"):
        Identity(rank=2, ranks=2)


HOSTILE = ["../x", "/etc/kvlitmus", "a/../../b", "a\0b", "", "k" * 5_000, ".", "..", "\ud800", "a\nb", "C:\\x", "-rf"]


def test_keys_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "yard").mkdir()
    store = FileStore(tmp_path / "yard" / "pages")
    stored = store.put(HOSTILE, [bytes([at]) for at in range(len(HOSTILE))])
    assert stored == [key not in ("", "k" * 5_000, "\ud800") for key in HOSTILE]
    found = store.get(HOSTILE)
    assert found == [bytes([at]) if ok else None for at, ok in enumerate(stored)]
    assert [path.name for path in (tmp_path / "yard").iterdir()] == ["pages"]
    assert [path.name for path in store.folder.iterdir()] == [store.home.name]


def test_clear_removes_its_own_pages_and_nothing_else(store: FileStore) -> None:
    other = FileStore(store.folder, Identity(model="another"))
    for one in (store, other):
        one.put(KEYS, PAGES)
    mine = path_of(store, KEYS[0]).parent / "notes.page"
    strangers = [store.folder / "README", store.home / "README", mine, store.home / "zz.page"]
    for path in strangers:
        path.write_text("mine")
    assert store.usage().pages == 4
    store.clear()
    assert store.exists(KEYS) == 0
    assert store.usage().pages == 0
    assert other.get(KEYS) == PAGES
    assert all(path.read_text() == "mine" for path in strangers)


def test_symbolic_links_are_not_followed(store: FileStore, tmp_path: Path) -> None:
    store.put(KEYS[:2], PAGES[:2])
    victim = tmp_path / "victim"
    victim.write_bytes(path_of(store, KEYS[0]).read_bytes())
    path_of(store, KEYS[0]).unlink()
    path_of(store, KEYS[0]).symlink_to(victim)
    before = victim.read_bytes()
    assert store.get(KEYS[:1]) == [None]
    assert store.put(KEYS[:1], [b"new"]) == [True]
    assert victim.read_bytes() == before
    assert store.get(KEYS[:1]) == [b"new"]


def test_what_cant_be_written_is_not_stored_and_leaves_nothing(store: FileStore, tmp_path: Path) -> None:
    store.put(KEYS[:1], PAGES[:1])
    blocked = path_of(store, KEYS[1]).parent
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("a file where the folder should be")
    assert store.put(KEYS[:3], PAGES[:3]) == [True, False, True]
    assert store.get(KEYS[:3]) == [PAGES[0], None, PAGES[2]]
    assert not list(store.folder.rglob("*.tmp"))
    with pytest.raises(NotADirectoryError, match="needs a folder"):
        FileStore(blocked)
    with pytest.raises(FileNotFoundError):
        FileStore(tmp_path / "no" / "such")


def test_a_full_disk_fails_that_page_alone(store: FileStore) -> None:
    """A limit on file size stands in for a full disk: a write stops in the middle with an error."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        assert store.put(KEYS[:3], [PAGES[0], b"x" * 20_000, PAGES[2]]) == [True, False, True]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.get(KEYS[:3]) == [PAGES[0], None, PAGES[2]]
    assert not list(store.folder.rglob("*.tmp"))


def test_durable_pages_are_the_same_pages(tmp_path: Path) -> None:
    assert FileStore(tmp_path / "pages", durable=True).put(KEYS, PAGES) == [True] * 4
    assert FileStore(tmp_path / "pages").get(KEYS) == PAGES


def test_leftovers_are_removed_but_not_those_of_a_writer_at_work(store: FileStore) -> None:
    import fcntl

    store.put(KEYS[:1], PAGES[:1])
    folder = path_of(store, KEYS[0]).parent
    digits = path_of(store, KEYS[0]).stem
    dead, alive, strange = (folder / f"{name}.tmp" for name in (f"{digits}.1.1.0.aa", f"{digits}.2.2.0.bb", "mine"))
    for path in (dead, alive, strange):
        path.write_bytes(b"half a pa")
    with alive.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert FileStore(store.folder).removed == 1
        assert (dead.exists(), alive.exists(), strange.exists()) == (False, True, True)
    assert FileStore(store.folder).removed == 1
    assert not alive.exists()


WRITER = """
import sys
sys.path[:0] = sys.argv[2].split(":")
from kvlitmus.optimized.storage.file import FileStore
class Direct(FileStore):
    def _write(self, path, head, page):
        path.parent.mkdir(exist_ok=True)
        with open(path, "wb", buffering=0) as file:
            file.write(head)
            for start in range(0, len(page), 4096):
                file.write(page[start : start + 4096])
store = (Direct if "direct" in sys.argv else FileStore)(sys.argv[1])
print("ready", flush=True)
for number in range(1 << 40):
    key = f"{number % 7:064x}"
    page = bytes([number % 251]) * (200_000 + number % 1000)
    path = store.path_of(key)
    if number % 3 == 0 and path.exists():
        path.unlink()          # so that it is written, not kept
    store.put([key], [page])
"""


def whole(page: bytes | None) -> bool:
    """Whether a page is one of those that the writer writes."""
    return page is None or (len(page) >= 200_000 and len(set(page)) == 1)


class Killed(NamedTuple):
    """What was found after all the kills: pages read, damaged ones, halves returned, temporary files left behind."""

    seen: int = 0
    damaged: int = 0
    halves: int = 0
    leftovers: int = 0


def kill_writers(folder: Path, rounds: int, *how: str) -> Killed:
    """So many times: a process writes as fast as it can and is killed with SIGKILL; then everything is read."""
    keys = [f"{number:064x}" for number in range(7)]
    found = Killed()
    for number in range(rounds):
        command = [sys.executable, "-S", "-c", WRITER, str(folder), PATHS, *how]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(0.002 + 0.003 * (number % 9))
            writer.kill()
        store = FileStore(folder)
        pages = store.get(keys)
        there = [key for key, page in zip(keys, pages, strict=True) if page]
        assert store.exists(there) == len(there)
        assert not list(folder.rglob("*.tmp"))
        found = Killed(
            found.seen + len(there),
            found.damaged + store.counts().get("damaged", 0),
            found.halves + sum(not whole(page) for page in pages),
            found.leftovers + store.removed,
        )
    return found


def test_a_writer_killed_at_any_moment_leaves_whole_pages_only(tmp_path: Path) -> None:
    """A killed writer leaves nothing that even needs the checksum: the name appears when the page is whole."""
    found = kill_writers(tmp_path / "pages", 24)
    for _ in range(10):  # on a busy machine a kill may miss every write
        if found.leftovers:
            break
        found = kill_writers(tmp_path / "pages", 24)
    assert (found.damaged, found.halves) == (0, 0)
    assert found.seen > 24, "pages must have been written, or nothing was tested"
    assert found.leftovers, "no writer was killed within a write: the test tests nothing"


def test_the_kills_would_show_a_store_that_writes_in_place(tmp_path: Path) -> None:
    """Planted: without the rename half pages appear, and only the checksum keeps them from being returned."""
    found = kill_writers(tmp_path / "pages", 12, "direct")
    for _ in range(10):
        if found.damaged:
            break
        found = kill_writers(tmp_path / "pages", 12, "direct")
    assert found.damaged
    assert found.halves == 0


def test_concurrent_readers_see_nothing_or_whole_pages(tmp_path: Path) -> None:
    """Three readers and a second writer beside one that replaces pages all the time."""
    folder = tmp_path / "pages"
    store = FileStore(folder)
    keys = [f"{number:064x}" for number in range(7)]
    halves: list[object] = []
    hits = [0] * 3
    stop = threading.Event()

    def read(at: int) -> None:
        mine = FileStore(folder)
        while not stop.is_set():
            for page in mine.get(keys):
                hits[at] += page is not None
                if not whole(page):
                    halves.append(page)
        halves.extend(["damaged"] * mine.counts().get("damaged", 0))

    threads = [threading.Thread(target=read, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    command = [sys.executable, "-S", "-c", WRITER, str(folder), PATHS]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        until = time.monotonic() + 1.5
        number = 0
        while time.monotonic() < until:
            number += 1
            key = keys[number % 7]
            path_of(store, key).unlink(missing_ok=True)
            assert store.put([key], [bytes([number % 251]) * 250_000]) == [True]
        writer.kill()
    stop.set()
    for thread in threads:
        thread.join(LIMIT)
    assert halves == []
    assert min(hits) > 10


def test_header_has_no_holes() -> None:
    assert HEAD.size == 8 + 4 + 8 + 32 + 32
