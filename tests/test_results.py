"""The results: classified, complete and in one table; and, where SGLang's environments exist, all of it again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.conformance.history import again
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report import brief, build, document, saved
from kvlitmus.conformance.run import failures, plan, targets
from kvlitmus.conformance.run.results import Finding
from kvlitmus.conformance.run.targets import checkout_peers
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.schemas import fits
from tools import corpus, results, results_page
from tools.results_page import Evidence, Judged, Report, broken_rules, page

ROOT = Path(__file__).resolve().parent.parent
OLD, NEW = "0.5.13.post1", "0.5.23"

SNIPPETS = [
    (OLD, ["evict_05_radix_split.py"], "[1, 2] has 2 cached (expected 1), [8] has 0 (expected 1)"),
    (NEW, ["evict_05_radix_split.py"], "[1, 2] has 2 cached (expected 1), [8] has 0 (expected 1)"),
    (NEW, ["evict_05_unified_split.py", "python"], "UnifiedTreeCore; "),
    (NEW, ["evict_05_unified_split.py", "rust"], "RustUnifiedTreeCore; "),
    (OLD, ["port_01_kernel_before_check.py"], "alloc_decode on an exhausted pool: the process died of signal 11"),
    (OLD, ["pool_12_deferred_free.py"], "free as well: [1, 2] (expected none); lost: [3, 4]"),
    (OLD, ["misuse_01_double_free.py"], "HostKVCache, freed twice in two calls: 80 slots available of 64"),
    (NEW, ["misuse_01_double_free.py"], "HostKVCache, freed twice in one call: 80 slots available of 64"),
    (OLD, ["misuse_04_partial_free.py"], "pages are [[0, 4, 5, 6], [7, 8, 9, 10]]"),
    (NEW, ["misuse_04_partial_free.py"], "pages are [[0, 4, 5, 6], [7, 8, 9, 10]]"),
    (
        OLD,
        ["misuse_05_handle_is_a_view.py"],
        "HostKVCache: after writing to the first handle, the next allocation gives [102",
    ),
    (NEW, ["misuse_05_handle_is_a_view.py"], "TokenToKVPoolAllocator: after writing to the first handle, the next"),
    (OLD, ["misuse_06_stale_unlock.py"], "RadixCache: evict(2) with one lock held evicted 2"),
    (NEW, ["misuse_06_stale_unlock.py", "rust"], "UnifiedRadixCache: evict(2) with one lock held evicted 2"),
    (NEW, ["misuse_06_last_lock_twice.py", "rust"], "mutex poisoned; refusing to reuse state"),
    (
        OLD,
        ["fetch_12_root_has_no_namespace.py"],
        "HiRadixCache: after a prefetch for tenant-a, tenant-a finds 0 tokens",
    ),
    (OLD, ["fetch_12_root_has_no_namespace.py", "unified"], "requests without a tenant find 8 (expected 0)"),
    (NEW, ["hash_09_prompt_spells_a_seed.py"], "asks storage for its second page: it is the page of the tenant"),
    (OLD, ["store_08_no_checksum.py"], "returned as it is (expected a miss)"),
    (NEW, ["store_08_no_checksum.py"], "then still the wrong bytes (expected the right bytes)"),
    (OLD, ["store_10_short_file.py"], "batch_get raised OSError: Short read"),
    (NEW, ["store_10_short_file.py"], "batch_get raised OSError: Short read"),
    (OLD, ["store_14_written_in_place.py"], "exists True (expected False), get: OSError"),
    (OLD, ["store_15_key_is_a_path.py"], "beside the store's folder lies ['stray"),
    (NEW, ["store_15_key_is_a_path.py"], "is 'k' there? True (expected False)"),
    ("vllm-0.33.0", ["event_02_first_copy.py"], "0 tokens of the prompt are cached, a request finds 4"),
]
"""Release, script with its arguments, and what it must print."""


def test_every_violation_is_classified_and_has_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    code = results.main([])
    assert code == 0, capsys.readouterr().out


def planted(name: str = "sglang-0.5.23-file", **stamps: str) -> Report:
    """A report as a run of this tree would write it, all passed but STORE-08."""
    known = targets.KNOWN[name]
    ref = targets.TargetRef(name=name, module=known.module, attribute=known.attribute, python="", roots=())
    target = targets.load_target(ref)
    configs = plan.configs_of(target)
    kinds = build.kinds_of(configs)
    items = build.items_of(plan.items(configs, target.profile, force_misuse=True), kinds)
    rows = [{"id": id, "verdict": "passed", "evaluations": 1234, "findings": []} for id in all_rules()]
    finding = {"rules": ["STORE-08"], "calls": ["get()"], "config": {}, "allowed": "", "detail": "", "seen": {"a": "1"}}
    row = next(row for row in rows if row["id"] == "STORE-08")
    row.update(verdict="violated", findings=[0])
    stamp = {"build": build.build_of(known.module, known.attribute, kinds), "items": items} | stamps
    tally = {"passed": 1, "violated": 1, "warned": 0, "not_applicable": 0}
    return {
        "stamps": {"target": {"name": name}, **stamp},
        "options": {"seed": 0, "steps": 4000, "litmus": True, "force_misuse": True},
        "rules": rows,
        "configs": [{"label": "plain", "declined": ""}],
        "findings": [{**finding, "saved": "docs/results/x.json"}],
        "partial": False,
        "exit_code": 1,
        "totals": {"verdicts": tally, "steps": 7},
    }


ENTRY = Judged(
    title="Bytes",
    rules=("STORE-08",),
    targets=("sglang-0.5.23-file",),
    kind="bug",
    reach="latent",
    releases="",
    reasoning="why",
    links=(),
    snippets=(),
)


def evidence(data: Report, **more: Any) -> Evidence:
    """What the page of one report is made of."""
    name = data["stamps"]["target"]["name"]
    why = results.stale(data)
    return Evidence(reports={name: data}, stale={name: why} if why else {}, **more)


def test_a_report_of_this_tree_counts() -> None:
    found = evidence(planted())
    assert found.stale == {}
    text = page("# Results", found, [ENTRY])
    assert "| ✓ 1.2k |" in text and "| ✗ |" in text and "stale |" not in text
    assert "**bug**, latent" in text and "kvlitmus replay docs/results/x.json" in text


@pytest.mark.parametrize("tampered", ["build", "items", "unstamped"])
def test_a_report_of_another_tree_is_stamped_stale_and_counts_for_no_verdict(tampered: str) -> None:
    data = planted(**{tampered: "0" * 12} if tampered in ("build", "items") else {})
    if tampered == "unstamped":
        del data["stamps"]["build"]
    found = evidence(data)
    said = {"build": "of build 000000000000", "items": "of other items", "unstamped": "of build none"}
    assert said[tampered] in found.stale["sglang-0.5.23-file"][0]
    text = page("# Results", found, [ENTRY])
    assert "| **stale**: " in text and "All stale" in text
    assert "✓ 1.2k" not in text and "| ✗ |" not in text and "kvlitmus replay" not in text
    assert results.complaints(found, [ENTRY], Path("/nonexistent")) == [
        "docs/results/x.json: a report names it, but it isn't there"
    ]


def test_what_a_search_broke_stands_where_the_run_passed() -> None:
    finding = {"rules": ["STORE-03"], "calls": ["get(a)"], "label": "plain", "allowed": "", "detail": "", "seen": {},
               "saved": "docs/results/counterexamples/fuzz/x.jsonl"}  # fmt: skip
    searched = {"fuzz": {("sglang-0.5.23-file", "STORE-03"): finding}}
    found = evidence(planted(), searched=searched)
    entry = replace(ENTRY, rules=("STORE-03", "STORE-08"))
    assert "sglang-0.5.23-file: STORE-03 is broken, and nobody classified it" in results.complaints(found, [ENTRY])
    text = page("# Results", found, [entry])
    assert "| ✗ᶠ |" in text and "✗ʰ |" not in text


def test_a_violation_without_a_classification_and_a_stale_one_are_found() -> None:
    found = evidence(planted())
    nowhere = Path("/nonexistent")
    saved = "docs/results/x.json: a report names it, but it isn't there"
    assert results.complaints(found, [], nowhere) == [
        "sglang-0.5.23-file: STORE-08 is broken, and nobody classified it",
        saved,
    ]
    stale = replace(ENTRY, rules=("STORE-08", "TREE-01"), snippets=("none.py",))
    assert results.complaints(found, [stale, ENTRY], nowhere) == [
        "sglang-0.5.23-file: TREE-01 is classified, but not broken",
        "sglang-0.5.23-file: STORE-08 is classified twice",
        saved,
        "snippets/none.py: a classification names it, but it isn't there",
    ]


def hazards(folder: Path) -> Path:
    """A folder of results with one known hazard, as ``tools/hazards.py`` leaves it; returns its counterexample."""
    finding = Finding(
        rules=["BACKUP-05"],
        item="random:seed=0",
        config=Config(page_size=4, host_pages=8),
        call="advance(put 1)",
        calls=["advance(put 1)"],
        allowed="",
        seen={},
        schedule=[Op("advance")],
        steps=1,
    )
    where = folder / "counterexamples" / "hazards"
    path = failures.save(where, finding, target="specimen", depth=3, force_misuse=False, version="0.1.0")
    path = path.replace(where / "H-01.jsonl")
    record = {"id": "H-01", "target": "specimen", "counterexample": "docs/results/counterexamples/hazards/H-01.jsonl"}
    missed = {"id": "H-02", "target": "specimen"}
    (folder / "hazards.json").write_text(json.dumps({"hazards": [record, missed]}))
    return path


ROW = "| [Bytes](counterexamples/x.jsonl) [script](snippets/x.py) | crash | 0.5.23 | latent | [#1](https://x/1) |\n"


def test_the_table_of_findings_is_held_against_the_classification() -> None:
    entry = replace(ENTRY, links=("https://x/1",))
    assert results.table_complaints(ROW, [entry]) == []
    for old, new, said in [
        ("[Bytes]", "[Byte]", "no row for 'Bytes'"),
        ("crash", "misuse", "its severity is one of"),
        ("0.5.23", "0.5.13.post1", "was seen in sglang-0.5.23"),
        ("latent", "server", "'Bytes' is latent"),
        ("x/1", "x/2", "other links upstream"),
    ]:
        assert said in results.table_complaints(ROW.replace(old, new), [entry])[0]
    assert "nobody classified" in results.table_complaints(ROW, [])[0]
    assert "2 rows for 'Bytes'" in results.table_complaints(ROW * 2, [entry])[0]
    for kind, severity in (("declared choice", "hits, a choice"), ("outside the contract", "misuse")):
        other = replace(entry, kind=kind)
        assert results.table_complaints(ROW, [other]) != []
        assert results.table_complaints(ROW.replace("crash", severity), [other]) == []


def test_the_site_has_what_is_written_and_what_was_judged() -> None:
    text = results.for_site(results.README.read_text("utf-8"), "results/README.md")
    assert text.startswith("# Results\n") and "## Verdicts" in text
    assert all(f"### {number}. {one.title}" in text for number, one in enumerate(results.classification(), 1))
    assert results.for_site("words", "index.md") == "words"
    assert len(results.README.read_text("utf-8").splitlines()) <= 150


def test_a_configuration_that_was_declined_is_no_verdict() -> None:
    """What a target declares that it is judged in, and then refuses, is a complaint, however green the rest is."""
    report = planted()
    report["configs"] = [{"label": "page=4 lfu pages=16 kv+swa", "declined": "there is no such policy"}]
    told = results.complaints(evidence(report), [ENTRY], Path("/nonexistent"))
    assert "sglang-0.5.23-file: page=4 lfu pages=16 kv+swa was declined: there is no such policy" in told


def test_known_hazards_have_the_counterexamples_that_they_tell_of(tmp_path: Path) -> None:
    path, name = hazards(tmp_path), "docs/results/counterexamples/hazards"
    assert results.hazard_complaints(tmp_path) == []
    (pair,), (finding,) = zip(*results.searched(tmp_path)["hazards"].items(), strict=True)
    assert pair == ("specimen", "BACKUP-05")
    assert (finding["saved"], finding["calls"]) == (f"{name}/H-01.jsonl", ["advance(put 1)"])
    path.rename(path.with_name("H-03.jsonl"))
    assert results.hazard_complaints(tmp_path) == [
        f"{name}/H-01.jsonl: a hazard names it, but it isn't there",
        f"{name}/H-03.jsonl: no hazard names it",
    ]
    path.write_text("{}")
    with pytest.raises(failures.FailureError, match=r"H-01\.jsonl"):
        results.searched(tmp_path)


def test_of_what_campaigns_broke_what_reports_pass_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = planted()  # in which STORE-08 is violated, and all others passed
    (tmp_path / "sglang-0.5.23-file.json").write_text(json.dumps(report | {"kind": "kvlitmus report"}))
    found = {
        "long": (["STORE-01", "STORE-02"], 5),
        "short": (["STORE-01"], 2),
        "known": (["STORE-08"], 1),
        "gone": (["STORE-03"], 1),
    }
    for name in found:
        (tmp_path / f"{name}.jsonl").write_text(name)
    listed = [
        {"file": str(tmp_path / f"{name}.jsonl"), "rules": rules, "calls": calls}
        for name, (rules, calls) in found.items()
    ]
    summary = tmp_path / "summary"
    settings, session = {"configs": ["a", "b"], "seed": 8}, {"steps": 100, "plays": 3}
    about = {"target": {"name": "sglang-0.5.23-file"}, "settings": settings, "session": session, "findings": listed}
    summary.write_text(json.dumps(about))
    monkeypatch.setattr(results, "replays", lambda path, rules: path.stem != "gone")
    old = tmp_path / "counterexamples" / "fuzz" / "old.jsonl"
    old.parent.mkdir(parents=True)
    old.touch()
    assert results.fuzzed([str(summary)], tmp_path) == 0
    assert {path.name: path.read_text() for path in old.parent.iterdir()} == {
        f"sglang-0.5.23-file-{name}.jsonl": name for name in ("long", "short")
    }
    (campaign,) = json.loads((tmp_path / "fuzz.json").read_text())["campaigns"]
    rules = ["STORE-01", "STORE-02", "STORE-03", "STORE-08"]
    assert campaign == {"target": "sglang-0.5.23-file", "configs": 2, "seed": 8, "found": rules} | session
    assert "gone.jsonl: does not break STORE-03 any more" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        results.main(["--fuzz", str(tmp_path / "nothing")])
    assert "there is no summary of a campaign" in capsys.readouterr().err


def test_the_committed_counterexamples_are_saved_failures() -> None:
    """What can be told of a counterexample without the cache that it is about."""
    for path in results.FOLDER.glob("counterexamples/**/*.jsonl"):
        saved = failures.load(path)
        assert saved.rules, path
        told = [step.data["text"] for step in saved.steps if "text" in step.data]
        assert told == [text for text in saved.calls if text in told] or not saved.steps, path
        assert bool(told) == bool(saved.steps) == ("ports" in saved.header.data), path


SIZES = {"hicache": {1, 4}, "-file": {1, 16}, "-hisparse": {64}, "-mamba": {4}, "-swa": {4, 16}, "vllm": {1, 4},
         "-ranks": {1}}  # fmt: skip
"""The sizes of pages at which targets are judged at least, by a part of the name; the others at the usual ones."""


def test_the_committed_reports_are_whole_and_say_what_was_judged() -> None:
    found = results.reports()
    assert len(found) >= 14
    for target, data in found.items():
        release = re.match(r"(sglang|vllm)-(0\.\d+\.\d+(?:\.post1)?)", target)
        assert release is not None
        assert data["stamps"]["target"]["version"].lower().endswith(f"{release[1]} {release[2]}")
        assert data["options"]["full"] and data["options"]["force_misuse"] == corpus.misused(target)
        broken = any(name == target for name, _ in broken_rules({target: data}))
        assert data["exit_code"] == (1 if broken else 0)
        sizes = next((sizes for part, sizes in SIZES.items() if part in target), {1, 16, 64})
        assert {config["page_size"] for config in data["configs"]} >= sizes
    assert sum((results.FOLDER / f"{target}.json").stat().st_size for target in found) < 1_500_000


def test_the_committed_reports_are_in_brief_and_whole_when_they_are_read() -> None:
    for target in results.TARGETS:
        path = results.FOLDER / f"{target}.json"
        data = saved.load(path)
        assert data["kind"] == "kvlitmus report" and (target not in OF_EACH_KIND or fits(data, "report") == [])
        assert document.dump_report(brief.brief(data, results.FOLDER)) == path.read_text(encoding="utf-8"), target


OF_EACH_KIND = {f"sglang-0.5.13.post1-{kind}" for kind in ("device-pool", "file", "hi-mamba", "hisparse")}
"""Targets whose steps are judged again by day; all others are at night."""

FEW = {"vllm-0.33.0-flat", "sglang-0.5.13.post1-swa-mamba", "sglang-0.5.23-swa-mamba", "sglang-0.5.23-swa-mamba-rust"}
"""Targets of which ten items and more are on record, since few litmus tests are for what they have; of others 20."""


@pytest.mark.parametrize(
    "target",
    [name if name in OF_EACH_KIND else pytest.param(name, marks=pytest.mark.nightly) for name in results.TARGETS],
)
def test_recorded_steps_are_judged_again_without_the_release(target: str) -> None:
    """By the rules of its build they give what its report says."""
    outcome = again.judge(corpus.PEERS / f"{target}.jsonl.xz")
    assert outcome.header.target == target and outcome.items > (9 if target in FEW else 20) and outcome.steps > 500
    data = results.reports()[target]
    if not results.stale(data):
        broken = {rule for name, rule in broken_rules({target: data}) if name == target}
        assert broken <= outcome.broken.keys() and not outcome.ended
        # What long searches found is recorded too, and shows what follows from it when its first rule is muted.
        more = [item for rule, item in outcome.broken.items() if rule not in broken]
        assert all(item.startswith("schedule:") for item in more)


def test_every_target_has_a_record_of_its_steps() -> None:
    paths = sorted(corpus.PEERS.glob("*"))
    assert {path.name for path in paths} == {f"{name}.jsonl.xz" for name in results.TARGETS}
    assert sum(path.stat().st_size for path in paths) < 6_000_000


def test_what_forced_misuse_shows_of_the_old_release() -> None:
    """H-38, H-39, H-45: litmus tests that break the contract on purpose; no drawn schedule does."""
    found = results.reports()
    if any(results.stale(data) for data in found.values()):
        pytest.skip("stale reports")
    broken = broken_rules(found)
    host, device = f"sglang-{OLD}-host-pool", f"sglang-{OLD}-device-pool"
    assert (host, "MISUSE-05") in broken, "H-38: an allocation returns a view on the free list"
    assert {(host, "MISUSE-01"), (host, "MISUSE-03"), (device, "MISUSE-01")} <= broken, "H-39: double frees"
    assert {(host, "MISUSE-04"), (device, "MISUSE-04")} <= broken, "H-45: frees of parts of pages"


def environment(release: str) -> None:
    """Skip where the release's environment has not been made."""
    name = release if "-" in release else f"sglang-{release}"
    if not (checkout_peers() / name / "bin" / "python").is_file():
        pytest.skip(f"no environment: tools/peers {release}")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("release", "script", "said"), SNIPPETS, ids=lambda one: "-".join(one) if isinstance(one, list) else None
)
def test_a_snippet_shows_the_fault_with_the_release_alone(release: str, script: list[str], said: str) -> None:
    environment(release)
    path = results.FOLDER / "snippets" / script[0]
    assert "kvlitmus" not in path.read_text(encoding="utf-8")
    command = [sys.executable, str(ROOT / "tools" / "peers"), "exec", release, str(path), *script[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert said in done.stdout, done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["port_01_kernel_before_check.py", "store_14_written_in_place.py"])
def test_the_new_release_no_longer_does_it(name: str) -> None:
    environment(NEW)
    path = results.FOLDER / "snippets" / name
    command = [sys.executable, str(ROOT / "tools" / "peers"), "exec", NEW, str(path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.nightly
@pytest.mark.parametrize("folder", sorted(results.FOLDER.glob("counterexamples/*/")), ids=lambda path: path.name)
def test_counterexamples_replay(folder: Path) -> None:
    """In one process for each target of a folder: a release takes seconds to import."""
    saved: dict[str, list[tuple[Path, failures.Failure]]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        one = failures.load(path)
        saved.setdefault(one.target, []).append((path, one))
    assert saved
    for target, mine in saved.items():
        environment(next((one for one in (OLD, NEW, "vllm-0.33.0") if one in target), NEW))
        paths = [str(path) for path, _ in mine]
        command = [sys.executable, "-m", "kvlitmus.conformance.cli", "replay", *paths, "--color", "never"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 1, done.stdout + done.stderr
        assert all(rule in done.stdout for _, one in mine for rule in one.rules), done.stdout
        assert len(mine) == 1 or f"{len(mine)} of {len(mine)} failures still occur" in done.stdout, done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("target", [f"sglang-{OLD}", f"sglang-{NEW}-python", f"sglang-{NEW}-rust"])
def test_the_trace_gives_the_figures_of_the_page(target: str) -> None:
    environment(OLD if OLD in target else NEW)
    trace = ROOT / "tests" / "data" / "small_trace.jsonl"
    command = [sys.executable, "-m", "benchmarks.trace", str(trace), "--json"]
    command += ["--capacity", "50,100,200,400", "--target", target]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    figures = [(one["hit_blocks"], one["evictions"]) for one in json.loads(done.stdout)]
    assert figures == [(707, 401), (772, 286), (781, 179), (792, 0)]
    row = next(
        line
        for line in results.README.read_text(encoding="utf-8").splitlines()
        if f"`{target}`" in line and "707" in line
    )
    assert all(f"{hits}, {evictions}" in row for hits, evictions in figures)


NEW_KINDS = ("sglang-0.5.13.post1-swa", "sglang-0.5.23-swa-mamba", "sglang-0.5.13.post1-ranks", "vllm-0.33.0")


@pytest.mark.parametrize("name", NEW_KINDS)
def test_a_cache_of_components_or_ranks_has_its_table_and_no_misuse(name: str) -> None:
    assert name in results.TARGETS
    assert not corpus.misused(name)


def test_what_is_classified_waits_for_its_first_report() -> None:
    """A target without a report breaks nothing yet; one that isn't known is a slip."""
    found = evidence(planted())
    entry = replace(ENTRY, targets=("sglang-0.5.23-file", "sglang-0.5.13.post1-ranks"))
    assert not any("ranks" in one for one in results.complaints(found, [entry], Path("/nonexistent")))
    assert "`sglang-0.5.13.post1-ranks` (not judged yet)" in page("# Results", found, [entry])
    entry = replace(ENTRY, targets=("sglang-0.5.23-file", "sglang-1-ranks"))
    said = results.complaints(found, [entry], Path("/nonexistent"))
    assert "sglang-1-ranks: it is classified, and there is no such target" in said


HELD = "holds in [0.5.23 file](results/sglang-0.5.23-file.json): [STORE-01](results/README.md#storage-in-files)"


def test_a_verdict_of_the_page_on_upstream_names_its_target() -> None:
    finding = {"rules": ["STORE-03"]}
    found = evidence(planted(), searched={"hazards": {("sglang-0.5.23-file", "STORE-03"): finding}})
    report = "[0.5.23 file](results/sglang-0.5.23-file.json)"
    rules, entries = ["STORE-01", "STORE-08", "STORE-03"], [replace(ENTRY, rules=("STORE-02",)), ENTRY]
    assert results_page.verdicts(rules, found, entries, "").split("; ") == [
        f"broken in {report}: [STORE-08](results/README.md#2)",
        f"broken in {report} ([hazards](results/hazards.md)): [STORE-03](results/README.md#verdicts)",
        HELD,
    ]
    stale = replace(found, stale={"sglang-0.5.23-file": ["of another build"]})
    goal = "results/README.md#storage-in-files"
    said = ", ".join(f"[{rule}]({goal})" for rule in rules)
    assert results_page.verdicts(rules, stale, entries, "") == f"stale in {report}: {said}"
    unjudged = replace(found, unjudged={("sglang-0.5.23-file", "STORE-01"): "why"})
    assert results_page.verdicts(["STORE-01"], unjudged, [], "") == "not judged: [STORE-01](results/README.md#verdicts)"


def test_targets_that_say_the_same_are_named_together() -> None:
    both = evidence(planted())
    both = replace(both, reports={f"sglang-{name}": both.reports["sglang-0.5.23-file"] for name in ("1-a", "2-b")})
    entries = [replace(ENTRY, targets=("sglang-1-a", "sglang-2-b"))]
    where = "in [1 a](results/sglang-1-a.json), [2 b](results/sglang-2-b.json)"
    said = results_page.verdicts(["STORE-08", "STORE-01", "STORE-02"], both, entries, "")
    assert said == (
        f"broken {where}: [STORE-08](results/README.md#1); "
        f"holds {where}: [STORE-01](results/README.md#verdicts), [STORE-02](results/README.md#verdicts)"
    )
    apart = [replace(ENTRY, targets=("sglang-1-a",)), replace(ENTRY, targets=("sglang-2-b",))]
    assert results_page.verdicts(["STORE-08"], both, apart, "") == (
        "broken in [1 a](results/sglang-1-a.json): [STORE-08](results/README.md#1); "
        "broken in [2 b](results/sglang-2-b.json): [STORE-08](results/README.md#2)"
    )


def test_each_statement_on_upstream_gets_its_verdicts_on_the_site() -> None:
    found = evidence(planted())
    text = f"## A part\n{results_page.HEADING}\n|---|---|---|---|\n| It is so. | STORE-01 | `store.get` | a test |\n"
    *_, heading, ruler, row = results_page.upstream(text, found, []).splitlines()
    assert heading == f"{results_page.HEADING} on SGLang |" and ruler == "|---|---|---|---|---|"
    assert row == f"| It is so. | STORE-01 | `store.get` | a test | {HELD} |"


def test_what_another_engine_does_says_nothing_of_sglang() -> None:
    mine, other = evidence(planted()), evidence(planted("sglang-0.5.23-file"))
    other = replace(other, reports={"vllm-0.33.0": other.reports["sglang-0.5.23-file"]})
    assert results_page.verdicts(["STORE-01"], mine, [], "") == HELD
    assert results_page.verdicts(["STORE-01"], other, [], "").startswith("not judged: ")


def test_a_part_is_judged_by_its_own_targets() -> None:
    """What a window breaks says nothing where states are spoken of."""
    one = evidence(planted())
    both = replace(
        one, reports={f"sglang-1-{name}": one.reports["sglang-0.5.23-file"] for name in ("swa-mamba", "mamba")}
    )
    window = replace(both, reports={"sglang-1-swa-mamba": both.reports["sglang-1-swa-mamba"]})
    for part, said in (("", "holds in [1 swa‑mamba]("), (results_page.STATES, "not judged: ")):
        assert results_page.verdicts(["COMP-21"], window, [], part).startswith(said)
        assert "[1 mamba](results/sglang-1-mamba.json)" in results_page.verdicts(["COMP-21"], both, [], part)
