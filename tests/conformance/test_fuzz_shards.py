"""Campaigns in shards: what each has kept and found becomes one campaign, whoever was killed meanwhile."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.fuzz import came as sessions
from kvlitmus.conformance.fuzz.came import Came, Tally
from kvlitmus.conformance.fuzz.corpus import Entry
from kvlitmus.conformance.fuzz.findings import save_finding
from kvlitmus.conformance.fuzz.merge import absent, merge
from kvlitmus.conformance.fuzz.store import Store, digest
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.failures import SUFFIX, FailureError
from kvlitmus.conformance.run.results import Finding, Options
from tests.conformance.support.command_line import BROKEN, Capture
from tests.conformance.support.schemas import fits

LITTLE = ["--config", "page_size=1,policy=lru,bigram=false,pool=device,host_pages=0", "--color", "never", "--quiet"]
LITTLE += ["--workers", "1", "--no-canary"]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


def entry(*kinds: str) -> Entry:
    return Entry(config=Config(), schedule=tuple(Op(kind, at) for at, kind in enumerate(kinds)), features=())


def finding(rule: str, calls: int, call: str = "evict(4) → 0", **more: Any) -> Finding:
    told = [*["match([1]) → []"] * (calls - 1), call]
    ops = [Op("evict", calls)] * calls
    return Finding(
        rules=[rule], item="schedule", config=Config(), call=call, calls=told, allowed="", seen={}, schedule=ops, **more
    )


def played(
    name: str, entries: dict[Entry, tuple[int, ...]], findings: list[Finding], *, killed: bool = False, **about: Any
) -> Path:
    """A shard's folder, as a session leaves it."""
    folder = Path("night") / name
    with Store(folder, print) as store:
        store.note("began", target="specimen")
        for one in entries:
            store.keep(one)
        paths = [save_finding(store.findings, one, "specimen", Options()) for one in findings]
        store.note("beat", steps=70, plays=7, elapsed=3.5)
        if not killed:
            came = Came(
                tally=Tally(steps=100, plays=10, kept=len(entries), evaluated=Counter({"POOL-01": 5})),
                seconds=2.0,
                reached={"call": Counter(number for numbers in entries.values() for number in numbers)},
                entries={digest(one): numbers for one, numbers in entries.items()},
            )
            found = {path.name: {"hits": 3, "leads": True, "steady": True} for path in paths}
            sessions.write(folder, came, {"target": "specimen", "found": found, **about})
    return folder


def merged_into(folders: list[Path], into: str = "all") -> Any:
    with Store(Path(into), print) as store:
        return merge(folders, store)


class Hashed(Entry):
    """An entry that is the key of a dictionary here."""

    __hash__ = object.__hash__


def key(*kinds: str) -> Hashed:
    one = entry(*kinds)
    return Hashed(config=one.config, schedule=one.schedule, features=())


def names(*entries: Entry) -> set[str]:
    return {f"{digest(one)}{SUFFIX}" for one in entries}


def files_in(folder: str) -> set[str]:
    return {path.name for path in Path(folder).glob(f"*{SUFFIX}")}


# -- kept schedules --------------------------------------------------------------------------------------------------


def test_as_many_schedules_are_taken_as_reach_what_all_reached() -> None:
    """The short ones first; one that two shards have is one."""
    short, long, both = key("evict"), key("evict", "reset", "match"), key("match", "match")
    one = played("fuzz-1-of-2", {short: (1, 2), both: (5,)}, [])
    other = played("fuzz-2-of-2", {long: (1, 2), both: (6,)}, [])
    came = merged_into([one, other]).came()
    assert files_in("all/corpus") == names(short, both)
    assert came.features == 4 and came.reached["call"][1] == 2
    assert set(came.entries.values()) == {(1, 2), (5, 6)}
    assert (came.tally.steps, came.tally.plays, came.seconds, came.shards, came.tally.kept) == (200, 20, 4.0, 2, 2)
    assert came.tally.evaluated["POOL-01"] == 10
    again = merged_into([one, other]).came()  # what is there stays, and isn't new
    assert files_in("all/corpus") == names(short, both) and again.tally.kept == 0


def test_a_shard_that_was_killed_loses_nothing() -> None:
    """What it had announced is on disk; its journal says how far it came."""
    one, other = key("evict"), key("reset")
    killed = played("fuzz-1-of-2", {one: (1,), other: (1,)}, [finding("POOL-01", 3)], killed=True)
    merged = merged_into([killed])
    assert files_in("all/corpus") == names(one, other) and merged.unfinished == [killed]
    assert [path.name for path in Path("all/findings").glob(f"*{SUFFIX}")] == [one.path.name for one in merged.found()]
    assert (merged.came().tally.steps, merged.came().tally.plays, merged.came().seconds) == (70, 7, 3.5)


# -- findings --------------------------------------------------------------------------------------------------------


def test_findings_are_merged_by_cause() -> None:
    """The shortest is kept, hits add up, another cause is another finding, and what was known isn't new."""
    one = played("fuzz-1-of-2", {}, [finding("POOL-01", 5), finding("POOL-01", 4, "alloc(2) → None")])
    other = played("fuzz-2-of-2", {}, [finding("POOL-01", 3)])
    merged = merged_into([one, other])
    assert sorted((len(one.finding.calls), one.hits, one.new) for one in merged.found()) == [(3, 6, True), (4, 3, True)]
    assert files_in("all/findings") == {one.path.name for one in merged.found()}
    with Store(Path("all"), print) as store:
        store.note("summary", files=[one.path.name for one in merged.found()])
    third = played("fuzz-1-of-1", {}, [finding("POOL-01", 2)])
    assert sorted((len(one.finding.calls), one.new) for one in merged_into([third]).found()) == [(2, False), (4, False)]
    assert len(files_in("all/findings")) == 2


def test_what_occurs_nowhere_any_more_is_put_apart() -> None:
    merged_into([played("fuzz-1-of-1", {}, [finding("POOL-01", 3)])])
    (known,) = Path("all/findings").glob(f"*{SUFFIX}")
    later = played("fuzz-1-of-2", {}, [])
    shutil.copy(known, later / "findings/gone" / known.name)
    merged = merged_into([later])
    assert [one.gone for one in merged.found()] == [True]
    assert (files_in("all/findings"), files_in("all/findings/gone")) == (set(), {known.name})


# -- files -----------------------------------------------------------------------------------------------------------


def test_damaged_files_are_told_and_left_out(capsys: Capture) -> None:
    folder = played("fuzz-1-of-1", {key("evict"): (1,)}, [])
    (folder / "corpus/0123456789abcdef.jsonl").write_text("{")
    (folder / "findings/POOL-01-01234567.jsonl").write_text("[]")
    merged = merged_into([folder])
    out = capsys.readouterr().out
    assert out.count("can't be used and is left out") == 2 and merged.store.torn == 2
    assert len(files_in("all/corpus")) == 1
    (folder / sessions.FILE).write_bytes(b"nonsense")
    with pytest.raises(FailureError, match=r"session.json.gz: "):
        merged_into([folder])
    assert main(["merge", "night", "--into", "all"]) == 2


def test_shards_that_are_missing_are_named(capsys: Capture) -> None:
    assert absent([Path("a/fuzz-1-of-3"), Path("b/fuzz-3-of-3"), Path("other")]) == ["fuzz-2-of-3"]
    played("fuzz-1-of-2", {key("evict"): (1,)}, [])
    assert main(["merge", "night", "--into", "all"]) == 3
    out, err = capsys.readouterr()
    told = "not the whole campaign: missing, or not played to the end: fuzz-2-of-2"
    line = "kvlitmus fuzz specimen --shard 2/2 --out DIR"
    assert err == f"kvlitmus: {told}; with the options of the others: {line}; then merge again\n" and told in out
    assert out.endswith("exit 3: it could not go on, or isn't whole, as told above\n")


# -- the commands ----------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_night_in_shards(capsys: Capture) -> None:
    """Two shards, one campaign, and the next night begins with it; a shard that is over isn't played again."""
    for at in (1, 2):
        assert main(["fuzz", BROKEN, *LITTLE, "--steps", "500", "--seed", "3", "--shard", f"{at}/2", "--out", "n"]) == 0
    assert main(["fuzz", BROKEN, *LITTLE, "--steps", "500", "--shard", "2/2", "--out", "n"]) == 0
    assert "shard 2/2: nothing is missing" in capsys.readouterr().out
    assert main(["merge", "n", "--into", "all", "--report", "r.json", "--issue", "i.md"]) == 1
    data = json.loads(Path("r.json").read_text())
    assert fits(data, "fuzz") == []
    assert data["shards"] == 2 and data["session"]["steps"] >= 1000 and data["broken_off"] == ""
    assert {rule for one in data["findings"] for rule in one["rules"]} >= {"LOCK-02", "LOCK-04", "LOCK-06"}
    assert len({(one["rules"][0], one["cause"]["id"]) for one in data["findings"]}) == len(data["findings"])
    assert data["corpus"]["features"] > 100 and all(Path(one["file"]).is_file() for one in data["findings"])
    assert "broken by" in Path("i.md").read_text()
    words = ["fuzz", BROKEN, *LITTLE, "--steps", "1", "--shard", "1/1", "--out", "next", "--corpus", "all"]
    assert main(words) == 0
    assert main(["merge", "next", "--into", "all", "--report", "r.json"]) == 1
    later = json.loads(Path("r.json").read_text())
    assert later["corpus"]["loaded"] == data["corpus"]["entries"] and later["earlier"]["steps"] >= 1000
    assert not any(one["new"] for one in later["findings"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fuzz", "--shard", "1/2"], "--shard I/N and --out DIR belong together"),
        (["fuzz", "--out", "o"], "--shard I/N and --out DIR belong together"),
        (["fuzz", "--shard", "1/2", "--out", "o", "--issue", "i.md"], "to 'kvlitmus merge'"),
        (["merge", "night"], "need --into"),
        (["merge", "night", "--into", "all", "--target", "specimen"], "nothing is played again"),
        (["merge", "none", "--into", "all"], "none are there"),
    ],
)
def test_what_makes_no_sense_together_is_refused(words: list[str], said: str, capsys: Capture) -> None:
    played("fuzz-1-of-1", {}, [])
    Path("none").mkdir()
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_shards_of_several_targets_are_refused(capsys: Capture) -> None:
    played("fuzz-1-of-2", {}, [])
    other = played("fuzz-2-of-2", {}, [])
    (other / "journal.jsonl").write_text('{"what":"began","target":"reference"}\n')
    assert main(["merge", "night", "--into", "all"]) == 2
    assert "expected shards of one target (got specimen in night/fuzz-1-of-2, reference in" in capsys.readouterr().err
