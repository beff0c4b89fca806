"""The folder of a campaign in hostile hands: whatever lies in it is set aside and named, and nothing is followed."""

from __future__ import annotations

import errno
import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.conformance.fuzz.findings import load_findings, save_finding
from kvlitmus.conformance.fuzz.store import Store, StoreError
from kvlitmus.conformance.fuzz.summary import totals
from kvlitmus.conformance.run.results import Options
from tests.conformance.test_fuzz_store import Said, entry, finding


def plant(kind: str, path: Path, victim: Path) -> None:
    """Put what is no file of ours where one is expected."""
    if kind == "folder":
        path.mkdir()
        (path / "inside").write_text("kept")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "dangling":
        path.symlink_to(path.with_name("nowhere"))
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "link":
        path.symlink_to(victim)
    elif kind == "second name":
        os.link(victim, path)
    else:
        path.write_bytes(b"\xff\xfe\x00")


PLANTED = ("folder", "pipe", "socket", "device", "dangling", "loop", "link", "bytes")


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("where", ["corpus", "findings", "pending"])
def test_whatever_lies_in_a_folder_is_set_aside_and_named_once(tmp_path: Path, kind: str, where: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    said = Said()
    with Store(tmp_path / "it", said) as store:
        store.keep(entry(1))
        save_finding(store.findings, finding(number=1), "specimen", Options())
        bad = store.folder / where / "POOL-01-1.jsonl"
        plant(kind, bad, victim)
        for _ in range(2):
            assert len(list(store.entries())) == 1
            assert len(list(load_findings(store, store.findings))) == 1
            assert list(load_findings(store, store.pending)) == []
        assert not os.path.lexists(bad)
        assert os.path.lexists(store.folder / "aside" / bad.name)
    assert victim.read_text() == "mine"
    assert len(said) == 1 and bad.name in said[0]


@pytest.mark.parametrize("kind", [*PLANTED, "second name"])
@pytest.mark.parametrize("name", ["lock", "journal.jsonl"])
def test_a_lock_or_journal_that_is_none_is_moved_away_and_never_written_to(
    tmp_path: Path, kind: str, name: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (tmp_path / "it").mkdir()
    plant(kind, tmp_path / "it" / name, victim)
    said = Said()
    with Store(tmp_path / "it", said) as store:
        store.note("began")
        assert [line["what"] for line in store.told()] == ["began"]
        with pytest.raises(StoreError, match="another campaign"), Store(tmp_path / "it", Said()):
            pass
    assert victim.read_text() == "mine\n"
    if (name, kind) != ("lock", "bytes"):  # whatever a lock held, it is overwritten
        assert len(said) == 1 and name.partition(".")[0] in said[0]


@pytest.mark.parametrize("name", ["corpus", "findings", "findings/gone", "pending", "aside", "running", "canary"])
@pytest.mark.parametrize("kind", ["link", "bytes", "dangling"])
def test_a_folder_that_is_a_link_is_not_followed(tmp_path: Path, name: str, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Store(tmp_path / "it", Said()) as store:
        store.keep(entry(1))
    place = tmp_path / "it" / name
    if place.exists():
        place.rename(tmp_path / "before")
    plant(kind, place, elsewhere)
    said = Said()
    with Store(tmp_path / "it", said) as store:
        store.keep(entry(2))
        save_finding(store.findings, finding(), "specimen", Options())
        assert not place.is_symlink()
        assert list(load_findings(store, store.findings))
    assert list(elsewhere.iterdir()) == []
    assert len(said) == 1 and place.name in said[0]


def test_a_planted_temporary_file_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    with Store(tmp_path / "it", Said()) as store:
        kept = store.keep(entry(1))
        kept.unlink()
        kept.with_name(f".{kept.name}.{os.getpid()}").symlink_to(victim)
        assert store.keep(entry(1)) == kept
    assert victim.read_text() == "mine"


def test_what_can_not_be_moved_is_left_out_and_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    said = Said()
    with Store(tmp_path, said) as store:
        store.keep(entry(1))
        bad = tmp_path / "corpus" / "bad.jsonl"
        bad.write_text("{")
        monkeypatch.setattr(Path, "rename", refuse)
        for _ in range(3):
            assert len(list(store.entries())) == 1
    assert len(said) == 1 and "left out" in said[0] and "Read-only" in said[0]
    assert bad.read_text() == "{"


def test_names_are_shown_without_what_controls_a_terminal(tmp_path: Path) -> None:
    said = Said()
    with Store(tmp_path, said) as store:
        (tmp_path / "corpus" / "\x1b[2Jbad.jsonl").write_text("{")
        list(store.entries())
    assert len(said) == 1 and said[0].isprintable()


def test_a_deep_line_of_the_journal_is_left_out(tmp_path: Path) -> None:
    said = Said()
    with Store(tmp_path, said) as store:
        store.note("began")
        with store.journal.open("ab") as file:
            file.write(b"[" * 200_000 + b"\n")
        store.note("ended")
        assert [line["what"] for line in store.told()] == ["began", "ended"]
    assert len(said) == 1


def test_a_journal_whose_last_line_has_no_end_for_long_is_set_aside(tmp_path: Path) -> None:
    with Store(tmp_path, Said()) as store:
        store.note("began")
        with store.journal.open("ab") as file:
            file.write(b"x" * (2 << 20))
    said = Said()
    with Store(tmp_path, said) as store:
        store.note("began")
        assert [line["what"] for line in store.told()] == ["began"]
    assert len(said) == 1 and "set aside" in said[0]


def test_a_line_for_which_there_is_no_room_leaves_the_journal_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) > 20:
            return write(file, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with Store(tmp_path, Said()) as store:
        store.note("began")
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            with pytest.raises(OSError, match="No space"):
                store.note("beat")
        store.note("ended")
        assert [line["what"] for line in store.told()] == ["began", "ended"]
    assert store.torn == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
LINES = st.fixed_dictionaries(
    {"what": st.sampled_from(["began", "beat", "ended", "summary"]) | JSON},
    optional={"steps": JSON, "plays": JSON, "elapsed": JSON, "files": JSON, "target": JSON},
)


@given(lines=st.lists(st.binary(max_size=20) | LINES.map(lambda line: json.dumps(line).encode()), max_size=6))
def test_whatever_is_in_a_journal_is_read(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("journal")
    (folder / "journal.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with Store(folder, Said()) as store:
        store.reported()
        found = totals(list(store.told()))
    assert all(0 <= number < 1e19 for number in found.values())


@given(place=st.sampled_from(["config", "item", "origin", "kind", "format"]), value=JSON, deeper=st.booleans())
def test_whatever_stands_in_a_kept_schedule_it_is_read_or_set_aside(
    place: str, value: object, deeper: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Store(tmp_path_factory.mktemp("corpus"), Said()) as store:
        path = store.keep(entry(1))
        plain = json.loads(path.read_text())
        if deeper and place == "item":
            plain["item"]["schedule"][1][0] = value
        elif deeper and place == "config":
            plain["config"]["page_size"] = value
        else:
            plain[place] = value
        path.write_text(json.dumps(plain))
        assert len(list(store.entries())) + store.torn == 1
        assert path.exists() == (store.torn == 0)
