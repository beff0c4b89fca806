"""The file store, kill -9 and power cuts: whatever moment a writer dies at, what is read is a miss or exactly right."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kvlitmus.optimized.storage import file as file_module
from kvlitmus.optimized.storage.file import FileStore
from tests.optimized.crash import BAD
from tests.optimized.support.power import BLOCK, Medium, Tape, written
from tests.support.night import by_turns

ROOT = Path(__file__).resolve().parents[2]


def killed(kills: int, *, seed: int = 0, planted: str = "", power: float = 0.5) -> tuple[int, dict[str, int]]:
    """Run the script, without site packages; its exit code and what it found."""
    command = [sys.executable, "-S", "-m", "tests.optimized.crash", "--kills", str(kills), "--seed", str(seed)]
    command += ["--planted", planted, "--power", str(power)]
    environment = {"PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("spec", "optimized"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= kills
    assert found["midway"] > kills / 4, "most kills must meet a writer in the middle of a put"
    return done.returncode, found


def test_no_wrong_page_after_kills() -> None:
    status, found = killed(30)
    assert ({name: found[name] for name in BAD}, status) == (dict.fromkeys(BAD, 0), 0)
    assert found["pages"] > 50
    assert found["cuts"] > 10 and found["torn"] > 0, "or no power cut tore anything"


PLANTED = [
    ("in-place", "damaged", 0.0),
    ("unchecked", "wrong", 0.0),
    ("early", "lost", 0.0),
    ("believing", "wrong", 1.0),
    ("hasty", "lost", 1.0),
]


@pytest.mark.parametrize(
    ("planted", "shows", "power"), by_turns(PLANTED, every=8), ids=[planted for planted, *_ in PLANTED]
)
def test_a_store_that_does_less_is_found(planted: str, shows: str, power: float) -> None:
    for seed in range(8):  # which moment a kill hits is up to the machine
        status, found = killed(25, seed=seed, planted=planted, power=power)
        if found[shows] > 0:
            assert status == 1
            return
    pytest.fail(f"{planted} never showed: {found}")


@pytest.mark.nightly
def test_no_wrong_page_after_a_thousand_kills() -> None:
    status, found = killed(1_000, seed=1)
    assert ({name: found[name] for name in BAD}, status) == (dict.fromkeys(BAD, 0), 0)
    assert found["leftovers"] > 10 and found["pages"] > 5_000


# -- the model of a power cut --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose content, one file, is on the medium."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "old").write_bytes(b"old")
    return folder


def states(folder: Path, tape: Path, medium: Medium, count: int = 300) -> list[dict[str, bytes]]:
    """Many of the states that a power cut may leave."""
    assert folder.is_dir()
    medium.play(tape)
    return [medium.drawn(random.Random(seed)) for seed in range(count)]


def put(system: Tape, folder: Path, data: bytes, *, synced: bool) -> None:
    """Write a file beside the old one and rename it over that."""
    file = system.open(folder / "new", os.O_WRONLY | os.O_CREAT, 0o600)
    system.write(file, data)
    if synced:
        system.fsync(file)
    os.close(file)
    system.rename(folder / "new", folder / "old")


def test_what_nobody_waited_for_may_be_torn_lost_or_in_another_order(folder: Path, tmp_path: Path) -> None:
    medium, tape = Medium(folder), tmp_path / "tape"
    data = bytes(range(1, 200)) * 100
    put(Tape(tape), folder, data, synced=False)
    found = states(folder, tape, medium)
    olds = [state.get("old") for state in found]
    assert data in olds and b"old" in olds and b"" in olds
    assert any("new" in state and state["old"] == b"old" for state in found), "made, and not yet renamed"
    assert any(old and len(old) < len(data) and data.startswith(old) for old in olds), "cut short"
    holes = [old for old in olds if old and len(old) == len(data) and old[:BLOCK] != data[:BLOCK]]
    assert any(old[BLOCK : 2 * BLOCK] == data[BLOCK : 2 * BLOCK] for old in holes), "a later block without the first"
    assert None not in olds, "a rename replaces, it never removes"


@pytest.mark.parametrize("waited", [False, True])
def test_what_was_waited_for_is_there(folder: Path, tmp_path: Path, waited: bool) -> None:
    medium, tape = Medium(folder), tmp_path / "tape"
    system, data = Tape(tape), b"new" * 5_000
    put(system, folder, data, synced=True)
    if waited:
        file = os.open(folder, os.O_RDONLY)
        system.fsync(file)
        os.close(file)
    found = states(folder, tape, medium)
    assert {state["old"] for state in found} == ({data} if waited else {b"old", data})
    assert waited or any("new" in state for state in found)
    written(found[0], tmp_path / "copy")
    assert (tmp_path / "copy" / "old").read_bytes() == found[0]["old"]


def test_a_durable_put_is_there_in_every_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that isn't may be lost or torn, which is a miss."""
    keys, pages = [f"{number:064x}" for number in range(3)], [bytes([number]) * 9_000 for number in range(3)]
    for durable in (True, False):
        folder, tape = tmp_path / f"pages-{durable}", tmp_path / f"tape-{durable}"
        folder.mkdir(0o700)
        medium = Medium(folder)
        monkeypatch.setattr(file_module, "os", Tape(tape))
        assert FileStore(folder, durable=durable).put(keys, pages) == [True] * 3
        monkeypatch.setattr(file_module, "os", os)
        medium.play(tape)
        missed = 0
        for seed in range(60):
            written(medium.drawn(random.Random(seed)), tmp_path / f"{durable}-{seed}")
            got = FileStore(tmp_path / f"{durable}-{seed}").get(keys)
            assert all(one in (None, page) for one, page in zip(got, pages, strict=True))
            missed += got.count(None)
        assert (missed == 0) is durable
