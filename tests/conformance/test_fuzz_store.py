"""The folder of a campaign: what was announced is there, what was torn is recognised, nobody shares it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kvlitmus.conformance.fuzz.corpus import Entry
from kvlitmus.conformance.fuzz.findings import load_findings, save_finding
from kvlitmus.conformance.fuzz.store import Store, StoreError
from kvlitmus.conformance.fuzz.summary import totals
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.results import Finding, Options

PAGED = Config(page_size=4)


def entry(number: int = 0, many: int = 3) -> Entry:
    return Entry(config=PAGED, schedule=(Op("alloc", number),) * many, features=(1,), origin="fresh")


def finding(rule: str = "POOL-01", number: int = 0) -> Finding:
    return Finding(
        rules=[rule],
        item="schedule",
        config=PAGED,
        call="alloc(4)",
        calls=["alloc(4)"],
        allowed="…",
        seen={},
        schedule=[Op("alloc", number)],
    )


class Said(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    with Store(tmp_path / "new", Said()) as store:
        store.keep(entry(1, many=9))
        store.keep(entry(2))
        store.keep(entry(2))
    said = Said()
    with Store(tmp_path / "new", said) as store:
        read = list(store.entries())
    assert [one.schedule for one in read] == [entry(2).schedule, entry(1, many=9).schedule], "the short ones first"
    assert read[0].config == PAGED and read[0].origin == "fresh"
    assert said == []


DAMAGES = ["half", "empty", "changed", "other", "deep", "list", "object", "digits", "number", "null", "large"]


@pytest.mark.parametrize("damage", [*DAMAGES, "deep config"])
def test_a_damaged_file_is_set_aside_and_the_rest_is_read(tmp_path: Path, damage: str) -> None:
    said = Said()
    with Store(tmp_path, said) as store:
        good, bad = store.keep(entry(1)), store.keep(entry(2))
        text = bad.read_text()
        torn = {
            "half": text[: len(text) // 2],
            "empty": "",
            "changed": text.replace('"alloc",2', '"alloc",3'),
            "other": '{"kind": "something else"}',
            "deep": "[" * 100_000,
            "list": text.replace('"alloc"', '["alloc"]'),
            "object": text.replace('"alloc"', '{"alloc":1}'),
            "deep config": text.replace('"page_size":4', f'"page_size":{"[" * 900}{"]" * 900}'),
            "digits": text.replace('"format":1', f'"format":{"1" * 5_000}'),
            "number": text.replace('"format":1', '"format":1e999'),
            "null": "null",
            "large": text + " " * (1 << 20),
        }[damage]
        assert torn != text
        bad.write_text(torn)
        assert [one.schedule for one in store.entries()] == [entry(1).schedule]
        assert store.torn == 1
        assert good.exists() and not bad.exists()
        assert (tmp_path / "aside" / bad.name).read_text() == torn, "nothing is lost, not even what makes no sense"
        assert bad.name in said[0] and "aside" in said[0]
        list(store.entries())
        assert len(said) == 1, "it is said once"


def test_a_damaged_finding_is_set_aside(tmp_path: Path) -> None:
    said = Said()
    with Store(tmp_path, said) as store:
        save_finding(store.findings, finding(number=1), "specimen", Options())
        bad = save_finding(store.findings, finding(number=2), "specimen", Options())
        bad.write_text(bad.read_text().replace('"POOL-01"', '"POOL-02"'))
        read = [one.schedule for one, _ in load_findings(store, store.findings)]
    assert read == [finding(number=1).schedule]
    assert store.torn == 1 and "torn or changed" in said[0]


def test_a_torn_line_of_the_journal_is_set_aside_and_the_next_one_is_whole(tmp_path: Path) -> None:
    with Store(tmp_path, Said()) as store:
        store.note("began")
        store.note("beat", steps=100, plays=2, elapsed=1.5)
    with store.journal.open("ab") as file:
        file.write(b'{"at":"2026-11-21T00:00:00Z","what":"be')
    said = Said()
    with Store(tmp_path, said) as store:
        store.note("began")
        assert [line["what"] for line in store.told()] == ["began", "beat", "began"]
    assert "torn" in said[0] and len(said) == 1
    assert next((tmp_path / "aside").iterdir()).read_bytes().endswith(b'"what":"be')


def test_a_line_that_makes_no_sense_is_left_out(tmp_path: Path) -> None:
    said = Said()
    with Store(tmp_path, said) as store:
        store.note("began")
        with store.journal.open("ab") as file:
            file.write(b"\xff\xfe\n[]\n")
        store.note("ended")
        assert [line["what"] for line in store.told()] == ["began", "ended"]
    assert len(said) == 2


def test_sessions_add_up_by_their_last_beat() -> None:
    lines: list[dict[str, object]] = [
        {"what": "began"},
        {"what": "beat", "steps": 10, "plays": 1, "elapsed": 1.0},
        {"what": "beat", "steps": 30, "plays": 2, "elapsed": 2.0},
        {"what": "began"},  # the first was killed
        {"what": "ended", "steps": 5, "plays": 1, "elapsed": 0.5},
    ]
    assert totals(lines) == {"sessions": 2, "steps": 35, "plays": 3, "seconds": 2.5}
    assert totals([])["sessions"] == 0


def test_two_campaigns_can_not_share_a_folder(tmp_path: Path) -> None:
    with Store(tmp_path, Said()), pytest.raises(StoreError, match="another campaign"), Store(tmp_path, Said()):
        pass
    with Store(tmp_path, Said()):
        pass


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"), Store(tmp_path / "file", Said()):
        pass


KEEPER = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from kvlitmus.conformance.fuzz.corpus import Entry
from kvlitmus.conformance.fuzz.store import Store
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.generate.schedule import Op
with Store(Path({folder!r}), print) as store:
    for number in range(100_000):
        ops = (Op("alloc", number % 256, number // 256 % 256, number // 65536), *[Op("free")] * 200)
        path = store.keep(Entry(config=Config(), schedule=ops, features=()))
        store.note("kept", file=path.name)
        print(path.name, flush=True)
"""


def test_a_writer_that_is_killed_loses_nothing_that_it_announced(tmp_path: Path) -> None:
    """Killed at five arbitrary moments; each time the next one goes on in the same folder."""
    announced: set[str] = set()
    for after in (1, 7, 20, 33, 50):
        code = textwrap.dedent(KEEPER).format(folder=str(tmp_path), paths=[one for one in sys.path if one])
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(after):
                announced.add(writer.stdout.readline().strip())
            os.kill(writer.pid, signal.SIGKILL)
            announced.update(line.strip() for line in writer.stdout if line.endswith(".jsonl\n"))
    assert len(announced) >= 50
    said = Said()
    with Store(tmp_path, said) as store:
        read = list(store.entries())
        assert store.torn == sum("journal" in text for text in said), "no kept schedule was torn"
    there = {path.name for path in (tmp_path / "corpus").glob("*.jsonl")}
    assert announced <= there
    assert len(read) == len(there)
    told = {json.loads(line)["file"] for line in store.journal.read_text().splitlines()}
    assert announced <= told
