"""Whole campaigns, through the command line: killed and taken up again, ended kindly, failed for want of a canary."""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.cli.commands.fuzz import folder_of
from kvlitmus.conformance.fuzz import campaign, canary
from kvlitmus.conformance.run import failures
from kvlitmus.conformance.support import files as safe
from kvlitmus.mutants.registry import all_mutants
from tests.conformance.support.schemas import fits
from tests.support.processes import eventually

Capture = pytest.CaptureFixture[str]

BY_NAME = "kvlitmus.mutants.run:by_name."
BROKEN = f"{BY_NAME}lookup_pins"
ONE = ["--config", "page_size=1,policy=lru,bigram=false,pool=device,pages=32"]
QUICK = [*ONE, "--workers", "1", "--seed", "1", "--color", "never"]
NULL = next(id for id, one in all_mutants().items() if one.null)
HERE = Path(__file__).parent / "support"


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fuzz(*words: str, canary: bool = False) -> tuple[int, dict[str, Any]]:
    """Run a campaign and read its summary, which must have the published form."""
    more = [] if canary else ["--no-canary"]
    code = main(["fuzz", *words, *QUICK, *more, "--report", "night.json"])
    data: dict[str, Any] = json.loads(Path("night.json").read_text())
    assert fits(data, "fuzz") == []
    assert data["exit_code"] == code
    return code, data


def files(folder: str) -> set[str]:
    return {path.name for path in Path(folder).glob("*.jsonl")}


def test_a_broken_cache_is_found_and_the_finding_is_shrunk_saved_and_replayable(capsys: Capture) -> None:
    code, data = fuzz(BROKEN, "--steps", "700", "--corpus", "c", "--report", "night.md", "--issue", "issue.md")
    said = capsys.readouterr().out
    assert code == 1
    assert files("c/findings") == {Path(one["file"]).name for one in data["findings"]}
    assert files("c/pending") == set() and data["unshrunk"] == []
    named = [one for one in data["findings"] if set(one["rules"]) & set(all_mutants()["lookup-pins"].kills)]
    assert named and named[0]["new"] and named[0]["fails"] and named[0]["steady"] and named[0]["calls"] <= 10
    assert named[0]["file"] in said
    assert main(["replay", named[0]["file"]]) == 1, "it still occurs"
    assert main(["replay", named[0]["file"], "--target", "specimen"]) == 0, "and is the mutant's own"
    assert named[0]["rules"][0] in Path("night.md").read_text()
    issue = Path("issue.md").read_text()
    assert issue.startswith("# kvlitmus: ") and named[0]["replay"] in issue
    assert files("c/corpus") and data["corpus"]["kept"] == len(files("c/corpus"))


def test_a_sound_cache_gives_no_finding_and_the_canary_is_found() -> None:
    code, data = fuzz("--steps", "700", "--corpus", "c", "--issue", "issue.md", canary=True)
    assert (code, data["findings"]) == (0, [])
    assert data["canary"]["found"] and data["canary"]["rule"] in data["canary"]["rules"]
    assert not Path("issue.md").exists()
    assert data["session"]["steps"] >= 700


@pytest.mark.nightly
def test_a_night_without_its_canary_has_failed(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """A legal variation takes the place of the canary, so there is nothing to find."""
    fly = canary.fly
    monkeypatch.setattr(canary, "fly", lambda name, **how: fly(name, **{**how, "steps": 1_200}))
    code, data = fuzz("--steps", "600", "--corpus", "c", "--canary", NULL, canary=True)
    assert code == 4
    assert data["findings"] == [] and not data["canary"]["found"] and data["canary"]["steps"] >= 1_200
    assert "NOT found" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_violation_outranks_a_missing_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    fly = canary.fly
    monkeypatch.setattr(canary, "fly", lambda name, **how: fly(name, **{**how, "steps": 300}))
    code, data = fuzz(BROKEN, "--steps", "600", "--corpus", "c", "--canary", NULL, canary=True)
    assert code == 1 and not data["canary"]["found"]


@pytest.mark.nightly
def test_the_same_seed_gives_the_same_campaign() -> None:
    data = [fuzz("--steps", "1200", "--corpus", folder)[1] for folder in ("one", "two")]
    assert files("one/corpus") == files("two/corpus") != set()
    assert data[0]["corpus"] == data[1]["corpus"]


def test_an_unguided_campaign_is_possible() -> None:
    code, data = fuzz("--steps", "500", "--corpus", "c", "--plain")
    assert code == 0 and not data["settings"]["guided"] and data["corpus"]["entries"] > 0


@pytest.mark.nightly
def test_what_is_in_the_baseline_does_not_fail_and_is_no_news() -> None:
    _, first = fuzz(BROKEN, "--steps", "700", "--corpus", "c")
    entry = '[[known]]\nrule = "{}"\ncause = "{}"\nreason = "known"\nlink = "https://example.org/1"\n'
    met = {(rule, one["cause"]["id"]) for one in first["findings"] for rule in one["rules"]}
    Path("known.toml").write_text("".join(entry.format(*one) for one in met))
    code, data = fuzz(BROKEN, "--steps", "300", "--corpus", "c", "--baseline", "known.toml", "--issue", "issue.md")
    assert code == 0, data["findings"]
    assert data["findings"] and {rule for rule, _ in met} <= set(data["rules"]["resting"])
    assert not any(one["fails"] for one in data["findings"])
    assert not Path("issue.md").exists()
    Path("known.toml").write_text(entry.format("POOL-01", "pool-00000001") + 'until = "0"\n')
    code, data = fuzz("--steps", "300", "--corpus", "other", "--baseline", "known.toml")
    assert code == 1 and data["expired"] == ["pool-00000001 (POOL-01)"]
    Path("known.toml").write_text(entry.format(first["findings"][0]["rules"][0], "pool-00000001"))
    code, data = fuzz(BROKEN, "--steps", "300", "--corpus", "c", "--baseline", "known.toml")
    assert code == 1, "another cause of a known rule is news"


@pytest.mark.nightly
def test_what_was_found_before_is_no_news_and_what_does_not_occur_any_more_is_kept_apart() -> None:
    _, first = fuzz(BROKEN, "--steps", "700", "--corpus", "c")
    before = files("c/findings")
    journal = Path("c/journal.jsonl").read_text()
    code, again = fuzz(BROKEN, "--steps", "500", "--corpus", "c")
    assert code == 1, "it is still there"
    assert {Path(one["file"]).name for one in again["findings"] if not one["new"]} >= before & files("c/findings")
    assert again["earlier"]["sessions"] == 1 and again["earlier"]["steps"] == first["session"]["steps"]
    assert again["corpus"]["loaded"] == first["corpus"]["kept"]
    now = files("c/findings")
    Path("c/journal.jsonl").write_text(journal.replace(BROKEN, "specimen"))  # as if the bug had been mended
    code, mended = fuzz("specimen", "--steps", "500", "--corpus", "c")
    assert (code, mended["findings"]) == (0, [])
    assert files("c/findings/gone") == now and files("c/findings") == set()


def test_the_folder_of_another_target_is_refused(capsys: Capture) -> None:
    fuzz("--steps", "200", "--corpus", "c")
    assert main(["fuzz", BROKEN, "--steps", "200", "--corpus", "c", *QUICK]) == 2
    assert "specimen" in capsys.readouterr().err


def test_programs_with_long_names_have_folders_of_their_own() -> None:
    args = argparse.Namespace(shard=None, corpus=None)
    long = f"exec:python {'x' * 100}.py my_cache:"
    names = ["specimen", f"{long}one", f"{long}other"]
    folders = [folder_of(args, name).name for name in names]
    assert folders[0] == "specimen" and len({*folders}) == 3 and max(map(len, folders)) < 100


@pytest.mark.parametrize(
    "words", [["--canary", "no-such-mutant"], ["--for", "soon"], ["--report", "x.txt"], ["no_such_target"]]
)
def test_mistakes_are_the_users(words: list[str], capsys: Capture) -> None:
    assert main(["fuzz", *words, "--steps", "10"]) == 2
    assert capsys.readouterr().err.startswith("kvlitmus: ")


@pytest.mark.parametrize(
    ("name", "what"),
    [("exits", "exit status 7"), pytest.param("hangs_asleep", "come back", marks=pytest.mark.nightly)],
)
def test_a_worker_that_dies_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, what: str) -> None:
    monkeypatch.chdir(HERE)
    monkeypatch.setattr("kvlitmus.conformance.isolation.crash_triage.TRIALS", 4)  # each takes a fifth of a second
    words = ["--steps", "400", "--corpus", str(tmp_path / "c"), "--timeout", "1", "--no-canary"]
    code = main(["fuzz", f"hostile:{name}", *words, *QUICK, "--report", str(tmp_path / "night.json")])
    data = json.loads((tmp_path / "night.json").read_text())
    assert code == 1 and fits(data, "fuzz") == []
    dead = [one for one in data["findings"] if one["rules"] == ["PORT-02"]]
    assert dead and what in dead[0]["detail"] and Path(dead[0]["file"]).is_file()
    assert data["dead_workers"] >= 1


# -- killed ----------------------------------------------------------------------------------------


def start(*words: str, workers: int = 2) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kvlitmus.conformance.cli", "fuzz", *words, "--workers", str(workers)]
    paths = os.pathsep.join(one for one in sys.path if one)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": paths}
    )


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kept(folder: str) -> int:
    return len(files(f"{folder}/corpus"))


def works_on(pid: int, least: int) -> bool:
    """Whether a campaign has kept so many schedules, and has workers."""
    return kept("c") >= least and bool(children(pid))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_killed_campaign_has_everything_that_it_announced_and_goes_on() -> None:
    """Killed with its workers in the middle of its work, twice; then it goes on and ends well."""
    announced: list[str] = []
    for least in (3, 6):
        least = max(least, kept("c") + 1)  # it has begun to work, too
        with start(BROKEN, "--for", "1h", "--corpus", "c", "--no-canary", *ONE) as campaign:
            assert campaign.stdout is not None
            if not announced:
                while len(announced) < 2:
                    line = campaign.stdout.readline()
                    assert line, "it ended too early"
                    announced += [line.split(": ")[-1].strip()] * (" broken by " in line)
            eventually(partial(works_on, campaign.pid, least))
            workers = children(campaign.pid)
            before, found = files("c/corpus"), {path.name for path in Path("c/findings").glob("*.jsonl")}
            for pid in (campaign.pid, *workers):
                os.kill(pid, signal.SIGKILL)
            announced += [line.split(": ")[-1].strip() for line in campaign.stdout if " broken by " in line]
        assert before <= files("c/corpus") and found <= files("c/findings") | replaced("c")
    assert set(announced) <= files("c/findings") | replaced("c")
    for name in files("c/findings"):
        failures.load(Path("c/findings", name))
    code, data = fuzz(BROKEN, "--steps", "300", "--corpus", "c", "--issue", "issue.md")
    assert code == 1 and data["torn"] == 0
    assert all(one["new"] for one in data["findings"]) and Path("issue.md").exists(), "nobody was told of it yet"
    assert data["earlier"]["sessions"] == 2 and data["corpus"]["loaded"] >= 6
    assert files("c/pending") == set(), "what had been met and not been shrunk has been shrunk now"
    assert set(announced) <= files("c/findings") | replaced("c")
    assert not Path("c/running").exists()


def replaced(folder: str) -> set[str]:
    """Findings in whose place a shorter one is, as the journal says."""
    lines = Path(folder, "journal.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines if line.endswith("}")]
    return {line["instead_of"] for line in told if line["what"] == "shorter"}


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_interrupted_campaign_ends_with_its_summary(number: int) -> None:
    with start("--for", "1h", "--corpus", "c", "--no-canary", "--report", "night.json", *ONE) as campaign:
        eventually(lambda: kept("c") >= 5)
        workers = children(campaign.pid)
        campaign.send_signal(number)
        out, _ = campaign.communicate()
    assert campaign.returncode == 128 + number
    assert f"exit {128 + number}" in out and "steps/s" in out and "Traceback" not in out
    data = json.loads(Path("night.json").read_text())
    assert data["interrupted"] and fits(data, "fuzz") == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert json.loads(Path("c/journal.jsonl").read_text().splitlines()[-2])["what"] == "ended"


# -- a disk that is full --------------------------------------------------------------------------


@pytest.mark.parametrize("line", [pytest.param("kept schedule", marks=pytest.mark.nightly), "journal"])
def test_a_full_disk_ends_a_campaign_in_one_line(line: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """From the third write on there is no room; what was announced before is read again by the next session."""
    names = {"kept schedule": "write", "journal": "append"}
    real = getattr(safe, names[line])
    written: list[object] = []

    def full(path: Path, *more: Any, **how: Any) -> None:
        written.append(path)
        if len(written) > 3 and "c" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, *more, **how)

    with monkeypatch.context() as patched:
        patched.setattr(safe, names[line], full)
        patched.setattr(campaign, "BEAT", 0.0)
        code, data = fuzz("--steps", "100000", "--corpus", "c")
    said = capsys.readouterr()
    assert (code, data["broken_off"]) == (3, "c: No space left on device")
    assert "failed: c: No space left on device" in said.out
    assert "Traceback" not in said.err + said.out
    kept = files("c/corpus")
    code, data = fuzz("--steps", "100", "--corpus", "c")
    assert (code, data["torn"], data["broken_off"]) == (0, 0, "")
    assert data["corpus"]["loaded"] == len(kept)


def test_a_campaign_goes_on_whatever_lies_in_its_folder(capsys: Capture) -> None:
    fuzz("--steps", "300", "--corpus", "c")
    corpus = Path("c/corpus")
    first = min(corpus.glob("*.jsonl"))
    (corpus / "list.jsonl").write_text(first.read_text().replace('"schedule":[["', '"schedule":[[["x"],1,2,3],["'))
    (corpus / "loop.jsonl").symlink_to("loop.jsonl")
    os.mkfifo(corpus / "pipe.jsonl")
    with Path("c/journal.jsonl").open("a") as journal:
        journal.write("[" * 100_000 + "\n")
    capsys.readouterr()
    code, data = fuzz("--steps", "300", "--corpus", "c")
    said = capsys.readouterr().out
    assert (code, data["torn"]) == (0, 4)
    assert all(said.count(f"{name}.jsonl can't be used") == 1 for name in ("list", "loop", "pipe"))
    assert {path.name for path in Path("c/aside").iterdir()} == {"list.jsonl", "loop.jsonl", "pipe.jsonl"}
