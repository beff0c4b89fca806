"""The command line, used as a careful user, a clumsy one and a pipe would."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance import cli
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.cli.commands import common, session
from kvlitmus.conformance.cli.commands.rules import SHOWN
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.report.form import rows
from kvlitmus.conformance.run import targets
from kvlitmus.conformance.run.plan import CONFIGS, configs_of
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.spec.law.facts import FACTS, worked_out_from
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.command_line import BROKEN, ONE, Capture
from tests.test_layout import ROOT


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


def report_of(*words: str) -> tuple[int, Any]:
    code = main(["run", *words, *ONE, "--report", "r.json"])
    data: Any = json.loads(Path("r.json").read_text())
    return code, data


def verdicts(data: Any) -> dict[str, str]:
    return {rule["id"]: rule["verdict"] for rule in rows(data)}


# -- run -------------------------------------------------------------------------------------------


def test_the_specimen_passes(capsys: Capture) -> None:
    code, data = report_of("--steps", "250", "--pack", "pool,lock")
    out = capsys.readouterr().out
    assert code == 0, out
    assert set(verdicts(data)) == {id for id, rule in all_rules().items() if rule.pack in ("pool", "lock")}
    assert verdicts(data)["LOCK-04"] == "passed"
    assert data["stamps"]["date"] == "2023-11-14T22:13:20Z"
    assert data["stamps"]["target"]["name"] == "specimen"
    assert not data["options"]["full"]
    assert out.splitlines()[-2].startswith("exit 0: every rule that applies holds")


def test_a_broken_cache_is_explained_saved_and_replayed(capsys: Capture) -> None:
    code, data = report_of(BROKEN, "--steps", "250", "--no-litmus")
    out = capsys.readouterr().out
    assert code == 1
    assert verdicts(data)["LOCK-02"] == "violated"
    assert "LOCK-02 the tree counts what is protected" in out
    assert all_rules()["LOCK-02"].text.split(".")[0][:40] in out
    line = next(line for line in out.splitlines() if "kvlitmus replay " in line)
    file = line.split()[-1]
    assert file.startswith(".kvlitmus/failures/")
    best = min(len(one["calls"]) for one in data["findings"] if "LOCK-02" in one["rules"])
    assert best <= 8
    for one in data["findings"]:
        assert one["replay"] == f"kvlitmus replay {one['saved']}"
        assert main(["replay", one["saved"], "--color", "never"]) == 1
        again = capsys.readouterr().out
        assert f"it still occurs: call {len(one['calls'])} breaks" in again
        assert again.count(f"▶ {len(one['calls']):>3} ") == 1
    assert main(["replay", file, "--target", "specimen", "--color", "never"]) == 0
    assert "it no longer occurs" in capsys.readouterr().out


@pytest.mark.nightly
def test_a_run_is_the_same_again_whatever_the_number_of_workers(capsys: Capture) -> None:
    found = []
    for jobs in ("1", "2"):
        assert (
            main(["run", BROKEN, *ONE, "--jobs", jobs, "--steps", "1000", "--no-litmus", "--report", f"{jobs}.json"])
            == 1
        )
        data = json.loads(Path(f"{jobs}.json").read_text())
        data["totals"].pop("seconds")
        found.append(data)
    assert found[0] == found[1]


@pytest.mark.nightly
def test_another_seed_draws_other_schedules() -> None:
    first, second = (report_of("--seed", seed, "--steps", "250", "--no-litmus")[1] for seed in ("0", "7"))
    assert first["stamps"]["items"] != second["stamps"]["items"]
    assert [rule["evaluations"] for rule in first["rules"]] != [rule["evaluations"] for rule in second["rules"]]


def test_less_depth_leaves_rules_out_and_never_calls_them_passed() -> None:
    _, data = report_of("--depth", "0", "--steps", "250")
    for rule in rows(data):
        assert (
            (rule["verdict"] == "not_applicable") if all_rules()[rule["id"]].depth else (rule["verdict"] != "violated")
        )
    assert verdicts(data)["TREE-03"] == "passed"
    # What a cache of components owes is judged on a target of its own.
    deep = [id for id, rule in all_rules().items() if rule.depth == 3 and rule.pack not in ("comp", "creq")]
    reasons = {rule["reason"] for rule in rows(data) if rule["id"] in deep}
    apart = "the target has a host tier, and the rule is about caches without one"
    assert all("needs depth 3" in reason or reason == apart for reason in reasons)


def test_any_field_of_a_configuration_chooses_and_makes() -> None:
    chosen = common.pick_configs(CONFIGS, None, [common.config_filter("policy=lru,host_pages=0,storage=none")])
    assert chosen == tuple(one for one in CONFIGS if one.policy == "lru")
    (made,) = common.pick_configs(CONFIGS, None, [common.config_filter("host_pages=24, write=write_back,threshold=8")])
    assert (made.host_pages, made.write, made.threshold, made.page_size) == (24, "write_back", 8, 1)
    with pytest.raises(common.UsageError, match=r"config\.host_pages must be a whole number"):
        common.pick_configs(CONFIGS, None, [common.config_filter("host_pages=many")])


@pytest.mark.nightly
def test_one_rule_alone_is_judged_past_the_others() -> None:
    """The mutant breaks LOCK-02 in its first match; asked for LOCK-06 alone the run goes on to that."""
    code, data = report_of(BROKEN, "--rule", "lock-06", "--steps", "500")
    assert (code, verdicts(data)) == (1, {"LOCK-06": "violated"})
    assert {rule for one in data["findings"] for rule in one["rules"]} == {"LOCK-06"}


def test_strength_chooses_rules() -> None:
    should = [id for id, rule in all_rules().items() if rule.strength.value == "SHOULD"]
    if should:
        assert list(verdicts(report_of("--strength", "should", "--steps", "0")[1])) == should
    else:
        assert main(["run", "--strength", "should"]) == 2


def test_list_runs_nothing(capsys: Capture) -> None:
    assert main(["run", "--list", "--pack", "evict", "--page-size", "4"]) == 0
    out = capsys.readouterr().out
    assert "random:seed=0 [page=4 lru]" in out
    assert "litmus:evict/" in out
    assert "[page=1 " not in out
    assert not Path(".kvlitmus/failures").exists()


def test_what_was_not_reached_in_a_short_run_is_said_and_does_not_fail(capsys: Capture) -> None:
    code, data = report_of("--steps", "0", "--rule", "TREE-13", "--no-litmus")
    assert data["totals"]["items"] == 0
    assert verdicts(data) == {"TREE-13": "inconclusive"}
    assert code == 4
    code, data = report_of("--steps", "250", "--no-litmus", "--pack", "misuse")
    drawn = {f"MISUSE-{number:02}" for number in (2, 8, 9, 11, 12, 13)}
    exercised = {rule for rule, verdict in verdicts(data).items() if verdict != "not_exercised"}
    assert exercised and exercised <= drawn
    assert code == 0
    assert "a shortened run need not exercise every rule" in capsys.readouterr().out


def test_both_reports_are_written(capsys: Capture) -> None:
    code = main(["run", *ONE, "--steps", "0", "--pack", "pool", "--report", "a/x.json", "--report", "x.md"])
    assert code == 0
    assert json.loads(Path("a/x.json").read_text())["kind"] == "kvlitmus report"
    assert Path("x.md").read_text().startswith("# kvlitmus: specimen")
    assert "report in x.md" in capsys.readouterr().out


def test_an_unwritable_failures_folder_loses_nothing_else(capsys: Capture) -> None:
    Path("file").write_text("")
    code = main(["run", BROKEN, *ONE, "--steps", "0", "--pack", "lock", "--failures", "file/x", "--report", "r.json"])
    caught = capsys.readouterr()
    assert code == 1
    assert "failures can't be saved in file/x" in caught.err
    assert json.loads(Path("r.json").read_text())["findings"][0]["saved"] == ""


# -- baselines -------------------------------------------------------------------------------------


def filled(name: str, *more: str) -> str:
    """A baseline as it was written, with what only its author can know, and further lines in its first entry."""
    text = Path(name).read_text().replace('reason = ""', "\n".join(('reason = "because"', *more)), 1)
    text = text.replace('reason = ""', 'reason = "because"').replace('link = ""', 'link = "https://example.org"')
    Path("known.toml").write_text(text)
    return "known.toml"


def test_a_module_that_needs_another_one_is_there(capsys: Capture) -> None:
    Path("needs.py").write_text("import nobody_has_this\n")
    assert main(["smoke", "needs:target"]) == 3
    assert "No module named 'nobody_has_this'" in capsys.readouterr().err


def test_a_known_violation_does_not_fail_and_a_stale_one_does(capsys: Capture) -> None:
    words = [BROKEN, "--steps", "0", "--rule", "LOCK-02,POOL-01"]
    code, data = report_of(*words, "--write-baseline", "new.toml")
    assert code == 1
    assert "fill in reason and link of each entry" in capsys.readouterr().out
    assert main(["run", *words, "--baseline", "new.toml"]) == 2
    assert "entry 1 (LOCK-02): 'reason' must be a text that says something" in capsys.readouterr().err
    (cause,) = {one["cause"]["id"] for one in data["findings"]}
    met, gone = {"rule": "LOCK-02", "cause": cause}, {"rule": "POOL-01", "cause": "pool-00000000"}
    code, data = report_of(*words, "--baseline", filled("new.toml"))
    assert (code, data["baseline"]) == (0, {"known": [met], "stale": [], "expired": []})
    assert "because" in capsys.readouterr().out
    entry = '\n[[known]]\nrule = "POOL-01"\ncause = "pool-00000000"\nreason = "r"\nlink = "https://example.org"\n'
    Path("more.toml").write_text(Path("known.toml").read_text() + entry)
    code, data = report_of(*words, "--baseline", "more.toml", "--write-baseline", "kept.toml")
    assert (code, data["baseline"]["stale"]) == (1, [gone])
    assert "pool-00000000 (POOL-01) is listed, but was not met" in capsys.readouterr().out
    assert report_of(*words, "--baseline", "kept.toml")[0] == 0, (
        "what was stale is left out, what was filled in is kept"
    )
    code, data = report_of(*words, "--baseline", filled("new.toml", 'until = "0.0.0"'))
    assert (code, data["baseline"]["expired"]) == (1, [met])


def test_x_stops_at_the_first_cause_and_shows_that_alone(capsys: Capture) -> None:
    code, data = report_of(BROKEN, "-x", "--junit", "r.xml", "--report", "r.html")
    out = capsys.readouterr().out
    assert code == 1
    assert [(one["rules"][0], len(one["calls"]) <= 4) for one in data["findings"]] == [("LOCK-02", True)]
    assert data["totals"]["items"] < data["totals"]["items_planned"] / 4
    assert out.count("\ncause lock-") == 1 and "stopped at the first cause, after" in out
    assert "inconclusive" in set(verdicts(data).values()), "what was not reached is not called passed"
    xml = Path("r.xml").read_text()
    assert (xml.count("<failure"), xml.count("<error")) == (1, 0)
    assert Path("r.html").read_text().count('class="finding play"') == 1
    assert main(["run", BROKEN, "-x", "--baseline", "none.toml"]) == 2
    assert main(["run", "-x", *ONE, "--steps", "0", "--pack", "pool"]) == 0, "nothing to stop at"


def test_several_failures_and_whole_folders_are_replayed(capsys: Capture) -> None:
    main(["run", BROKEN, *ONE, "--steps", "0", "--rule", "LOCK-02,LOCK-06", "--all"])
    folder = Path(".kvlitmus/failures")
    files = [str(path) for path in sorted(folder.iterdir())]
    capsys.readouterr()
    assert main(["replay", *files, files[0], "--html", "drawn.html"]) == 1
    assert Path("drawn.html").read_text().count('class="finding play"') == len(set(files))
    counted = "from kvlitmus.conformance.specimen.cache import target\nopen('loads', 'a').write('x')\n"
    Path("counted.py").write_text(counted)
    assert main(["replay", str(folder), "--target", "counted.py", "--html", "gone.html"]) == 0
    assert Path("loads").read_text() == "x", "a target that is slow to import is imported once"
    out = capsys.readouterr().out
    assert "drawn in drawn.html" in out and "drawn in gone.html" in out
    assert out.count("cause lock-") == out.count("state and cache first disagreed after call") == len(files)
    if len(files) > 1:
        assert f"{len(files)} of {len(files)} failures still occur" in out and "\n0 of " in out
    Path("empty").mkdir()
    assert main(["replay", "empty"]) == 2
    assert "empty: no saved failure is in this folder" in capsys.readouterr().err


def test_a_target_is_named_by_its_module_or_its_file(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one target that is there; of several, the error lists them."""
    Path("sub").mkdir()
    Path("sub/beside.py").write_text("from kvlitmus.conformance.specimen.cache import target as mine\n")
    Path("sub/its_cache.py").write_text("from beside import mine as cache\n")
    Path("one_cache.py").write_text("from kvlitmus.conformance.specimen.cache import target as cache\n")
    Path("two_caches.py").write_text("from kvlitmus.conformance.specimen.cache import target, component_target\n")
    assert main(["run", "sub/its_cache.py", "--steps", "1", "--pack", "pool", "--no-litmus", *ONE]) == 0
    assert main(["smoke", "two_caches.py"]) == 2
    several = "two_caches has several targets: two_caches:target, two_caches:component_target"
    assert several in capsys.readouterr().err
    monkeypatch.setattr(sys, "path", [str(Path.cwd()), str(Path("sub").absolute()), *sys.path])
    for name in ("one_cache", "one_cache.py", "one_cache:", "sub/its_cache.py", "sub/its_cache.py:cache"):
        ref = targets.resolve_target(name)
        assert targets.load_target(ref) is target, name
        assert ref.folders[0] == str(Path("sub" if "sub" in name else ".").resolve())
    for name, why in {
        "two_caches": several,
        "two_caches.py:targt": "two_caches has no 'targt'; did you mean 'target'",
        "gone.py": "there is no file gone.py",
    }.items():
        with pytest.raises(targets.UnknownTarget, match=re.escape(why)):
            targets.load_target(targets.resolve_target(name))
    for name in ("my-cache", "queue"):
        Path(f"{name}.py").write_text("")
        with pytest.raises(targets.UnknownTarget, match=f"a module can't be called '{name}'"):
            targets.resolve_target(f"{name}.py")


def test_what_a_target_lacks_is_a_line_for_each_family(capsys: Capture) -> None:
    Path("flat_only.py").write_text(
        "from kvlitmus.conformance.specimen import cache as whole\n"
        "class Flat:\n"
        "    def __init__(self, cache):\n"
        "        self.alloc, self.free, self.available = cache.alloc, cache.free, cache.available\n"
        "class Target:\n"
        "    profile = whole.target.profile\n"
        "    def make(self, config):\n"
        "        return Flat(whole.target.make(config))\n"
        "mine = Target()\n"
    )
    assert main(["smoke", "flat_only", "--color", "never"]) == 0
    brief = capsys.readouterr().out
    told = brief[brief.index("  lacks") : brief.index("  profile")].rstrip().split("\n")
    assert len(told) <= 8 and "sparse_request" not in brief
    assert "of several ranks: all" in brief
    assert main(["smoke", "flat_only", "-v"]) == 0
    assert "sparse_request" in capsys.readouterr().out
    assert main(["run", "flat_only", *ONE, "--steps", "250", "--no-litmus"]) == 0
    out = capsys.readouterr().out
    assert len([line for line in out.splitlines() if "not applicable" in line]) <= 12
    assert re.search(r"– hash, prefetch, .*\n? *123 not applicable", out) or "not applicable" in out


# -- clumsy users ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("rnu", "there is no command 'rnu'; did you mean 'run'?"),
        ("run specimn", "did you mean 'specimen'?"),
        ("run --rule TREE-3", "there is no rule 'TREE-3'; did you mean 'TREE-03'?"),
        ("run --rule NOPE-01", "there is no rule 'NOPE-01'"),
        ("run --pack tre", "there is no pack 'tre'; did you mean 'tree'"),
        ("run --strength may", "invalid choice: 'may'"),
        ("run --depth 4", "4 is not between 0 and 3 ('kvlitmus run --help' explains)"),
        ("run --depth deep", "'deep' is not a whole number"),
        ("run --seed -1", "-1 is not between"),
        ("run --steps 1e9", "'1e9' is not a whole number"),
        ("run --jobs 0", "0 is not between 1 and 64 ("),
        ("run --page-size 1,x", "'x' is not a whole number"),
        ("run --page-size ,", "expected page sizes"),
        ("run --config polcy=lru", "a config has no field 'polcy'; did you mean 'policy'"),
        ("run --config lru", "expected FIELD=VALUE"),
        ("run --config pages=many", "config.pages must be a whole number"),
        ("run --config bigram=maybe", "config.bigram must be true or false"),
        ("run --report out.txt", "--report out.txt: a report is written as .json, .md or .html"),
        ("run --report x.txt", "a report is written as .json, .md or .html (also: --junit FILE.xml, --markdown FILE)"),
        ("run --baseline nowhere.toml", "baseline nowhere.toml: expected a file that can be read, got No such file"),
        ("run --baseline \x1b[2J.toml", "baseline \\x1b[2J.toml: expected a file that can be read, got No such"),
        ("replay \x1b[2J.json", "\\x1b[2J.json: expected a file that can be read, got No such"),
        ("run --vectors nowhere", "--vectors nowhere: expected a folder with vectors, got No such file"),
        ("run --vectors empty", "--vectors empty: it contains no vectors"),
        ("run --report link.json", "--report link.json: can't be written: it is a link"),
        ("run --junit /dev/stdout", "--junit /dev/stdout: can't be written: it is a link"),
        ("run --bogus", "there is no option --bogus ('kvlitmus run --help' lists them)"),
        ("run --pag 4", "there is no option --pag; did you mean --page-size?"),
        ("run --page 4", "there is no option --page; did you mean --page-size?"),
        ("run --step=9", "there is no option --step; did you mean --steps?"),
        ("fuzz --targt specimen", "there is no option --targt"),
        ("run --page-siz 4", "there is no option --page-siz; did you mean --page-size?"),
        (
            "replay-trace trace.jsonl",
            "replay-trace is now 'python -m benchmarks.trace', in a checkout of kvlitmus",
        ),
        ("--versio", "there is no option --versio; did you mean --version?"),
        ("run specimen reference", "unexpected argument 'reference'"),
        ("run --rule FOO-1", "there is no rule 'FOO-1' ('kvlitmus rules' lists them)"),
        ("run --rule TRE-3", "there is no rule 'TRE-3'; did you mean 'TREE-03'?"),
        ("run --rule POOL-99", "there is no rule 'POOL-99'; there are POOL-01 to POOL-"),
        ("run --rule pool", "there is no rule 'pool'; POOL is a pack (--pack pool)"),
        ("smoke mine:nope", "mine has no 'nope'; its targets: target"),
        ("run mine:targt", "mine has no 'targt'; did you mean 'target'"),
        ("run mine:target.more", "mine:target has no 'more'; it has nothing with make(config) and a profile"),
        ("run mnie:target", "there is no module 'mnie' here or where Python looks"),
        ("replay", "the following arguments are required: FILE"),
        ("replay nowhere.json", "nowhere.json: expected a file that can be read, got No such file"),
        ("replay known.toml", "expected the header of a tape, got nothing"),
        ("rules TREE-3", "did you mean 'TREE-03'?"),
        ("rules lokc", "there is no rule or pack 'lokc'; did you mean 'lock'?"),
        ("rules --json --markdown", "not allowed with"),
        ("mutants lookup-pin", "there is no mutant 'lookup-pin'; did you mean 'lookup-pins'"),
        ("mutants --rule LOCK-2", "did you mean 'LOCK-02'?"),
        ("smoke nothing", "there is no target 'nothing'"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(words: str, complaint: str, capsys: Capture) -> None:
    Path("known.toml").write_text("")
    Path("empty").mkdir()
    Path("link.json").symlink_to("elsewhere.json")
    Path("mine.py").write_text("from kvlitmus.conformance.specimen.cache import SpecimenTarget, target\n")
    assert main(words.split()) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.startswith("kvlitmus: ")
    assert err.count("\n") == 1


def test_the_limits_of_the_command_line_are_those_of_the_workers(capsys: Capture) -> None:
    words = ["--timeout", "7", "--start-timeout", "20", "--memory", "500"]
    for name in ("run", "fuzz"):
        limits = session.limits_of(cli.parser(name).parse_args([name, *words]))
        assert (limits.call_seconds, limits.start_seconds, limits.memory_mb) == (7, 20, 500)
        limits = session.limits_of(cli.parser(name).parse_args([name, "--timeout", "120"]))
        assert (limits.start_seconds, limits.memory_mb) == (120, None), "the first cache has no less than the others"
        assert capsys.readouterr().err == "", "nobody asked for less"
        limits = session.limits_of(cli.parser(name).parse_args([name, "--start-timeout", "3"]))
        assert limits.start_seconds == 10
        err = capsys.readouterr().err
        assert "--start-timeout 3 is less than any call may take: it is 10 s" in err and "with --timeout 3" in err


def test_what_the_first_cache_may_take_is_told(capsys: Capture) -> None:
    Path("slow.py").write_text(
        "import time\nfrom kvlitmus.conformance.ports import Profile\nprofile = Profile()\n"
        "def make(config):\n    time.sleep(1000)\n"
    )
    assert main(["run", "slow:", *ONE, "--timeout", "1", "--start-timeout", "2"]) == 3
    assert "did not come back within 2 s" in capsys.readouterr().err


def test_a_target_that_can_not_be_loaded_is_3_and_says_why(capsys: Capture) -> None:
    Path("fails.py").write_text("raise RuntimeError('no driver')\n")
    assert main(["run", "fails:target", *ONE]) == 3
    err = capsys.readouterr().err
    assert "no driver" in err
    assert "Traceback" not in err


def test_a_cache_that_can_not_be_made_is_3_in_the_report_as_well() -> None:
    Path("unmade.py").write_text(
        "from kvlitmus.conformance.ports import Profile\nprofile = Profile()\n"
        "capabilities = ('pool',)\ndef make(config):\n    raise OSError('no such device')\n"
    )
    code = main(["run", "unmade:", *ONE, "--steps", "250", "--pack", "pool", "--report", "r.json"])
    assert code == 3


def test_a_failure_of_another_version_says_which_rule_is_gone(capsys: Capture) -> None:
    main(["run", BROKEN, *ONE, "--steps", "0", "--rule", "LOCK-02"])
    file = next(Path(".kvlitmus/failures").iterdir())
    header, *steps = file.read_text().splitlines()
    data = json.loads(header)
    data["finding"]["rules"] = ["LOCK-2"]
    file.write_text("\n".join([json.dumps(data), *steps]) + "\n")
    capsys.readouterr()
    assert main(["replay", str(file)]) == 2
    assert "'rules': there is no rule 'LOCK-2'; did you mean 'LOCK-02'?" in capsys.readouterr().err


# -- the other commands ----------------------------------------------------------------------------


def test_rules_are_listed_and_explained(capsys: Capture) -> None:
    assert main(["rules"]) == 0
    listed = capsys.readouterr().out
    assert all(re.search(rf"^  {id} ", listed, re.MULTILINE) for id in all_rules())
    assert main(["rules", "tree-03"]) == 0
    one = " ".join(capsys.readouterr().out.split())
    rule = all_rules()["TREE-03"]
    assert rule.text in one
    assert rule.digest in one
    assert rule.source in one
    assert main(["rules", "evict-05", "evict-20"]) == 0
    both = " ".join(capsys.readouterr().out.split())
    assert "with less EVICT-20 (depth 0) says this: " in both
    assert "says too what EVICT-05, EVICT-06 say with more: " in both
    assert main(["rules", "pool-11", "port-01", "tree-03"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.findall(r"judged (.*?);", told) == ["after every call", "after match, begin", "by every call itself"]
    assert main(["rules", "lock", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in data] == [id for id, rule in all_rules().items() if rule.pack == "lock"]
    whole = {one["id"]: one for one in data}["LOCK-02"]
    assert (
        whole["where"].split(":")[0].endswith("spec/prefix/rules/lock.py")
        and whole["facts"].keys() <= whole["worked_out"].keys()
    )
    assert all(Path(one["compute"].rpartition(":")[0]).is_file() for one in whole["worked_out"].values())
    assert main(["rules", "lock", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("## lock\n\n### LOCK-01: ")


def test_a_rule_says_where_it_stands_and_what_its_facts_are_worked_out_from(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rules: each place leads to its definition; each fact is told of once, below it what it is worked out from."""
    monkeypatch.chdir(ROOT)
    for rule in (all_rules()["FETCH-06"], all_rules()["PREFETCH-08"]):
        assert main(["rules", rule.id, "--color", "always"]) == 0
        out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        text = " ".join(out.split())
        for name in worked_out_from(rule.facts):
            assert text.count(f" {name}: {FACTS[name].meaning} (depth {FACTS[name].depth}") == 1, name
        places = [place.rsplit(":", 1) for place in re.findall(r"[\w/]+\.py:\d+", out)]
        found = [Path(file).read_text().split("\n")[int(line) - 1] for file, line in places]
        facts, tests = len(worked_out_from(rule.facts)), [one for one in all_litmus().values() if rule.id in one.rules]
        assert all(map(re.match, [r"@(\w+_)?rule\(", *[r"@fact\(\d"] * facts], found))
        assert found[1 + facts].startswith(f"def {rule.reference.rpartition('.')[2]}(")
        told = [one for one in tests if f" {one.id} (" in text]
        assert len(found) == 2 + facts + len(told) and len(told) == min(len(tests), SHOWN)
        assert (f"and {len(tests) - SHOWN} more" in text) == (len(tests) > SHOWN)
        assert all(re.match(r"@litmus\(|def | +def ", line) for line in found[2 + facts :])
        assert f"def {rule.predicate.__name__}(" in out and '"""' not in out
    lines = [line[13:] for line in out[out.index("  facts  ") :].split("\n")]
    assert (
        any(line.startswith("  full_length: the key's length") for line in lines) and "full_length, as above" in lines
    )
    assert "  answer: its answer" in lines[[line[:9] for line in lines].index("reserved:") :]


def test_smoke_looks_at_every_configuration(capsys: Capture) -> None:
    assert main(["smoke", "--color", "never"]) == 0
    out = capsys.readouterr().out
    assert out.count("nothing broken") == len(configs_of(target))
    assert "misuse=reject" in out


@pytest.mark.nightly
def test_smoke_tells_who_is_more_often_to_blame(capsys: Capture) -> None:
    assert main(["smoke", BROKEN, "--color", "never"]) == 1
    assert "configurations fail (LOCK-0" in " ".join(capsys.readouterr().out.split())


def test_mutants_end_with_the_line_that_counts(capsys: Capture) -> None:
    assert main(["mutants", "lookup-pins", "any-order", "--steps", "1000", "--jobs", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "mutants: 1/1 killed, null: 0/1 alarms"
    assert any(line.startswith("  LOCK-02") for line in out)
    assert main(["mutants", "lookup-pins", "--steps", "1000", "--json", "--random-only"]) == 0
    caught = capsys.readouterr()
    data = json.loads(caught.out)
    assert data["mutants"][0]["item"].startswith("random:")
    assert caught.err.splitlines()[-1] == data["summary"]


RAISES = """
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE, Parts

class Raises(Specimen):
    def alloc(self, n):
        raise RuntimeError("out of order")

class Target:
    profile = PROFILE
    def make(self, config):
        return Raises(config, Parts(), PROFILE)

target = Target()
"""


ODD_SHAPE = """
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.conformance.specimen.sparse import SparseSpecimen

class Odd(SparseSpecimen):
    def sparse_shape(self):
        return "two rows"

class Target:
    profile = specimen.profile
    pools = ("sparse",)
    def make(self, config):
        return Odd(specimen.parts.sparse(config, specimen.profile))

target = Target()
"""


def test_a_fresh_cache_that_shows_something_odd_is_told_by_the_method(capsys: Capture) -> None:
    Path("odd_shape.py").write_text(ODD_SHAPE)
    assert (
        main(
            [
                "run",
                "odd_shape:target",
                "--pack",
                "sparse,port",
                "--config",
                "pool=sparse",
                "--steps",
                "10",
                "--jobs",
                "1",
            ]
        )
        == 1
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "PORT-03 broken by a look at the fresh cache in " in said
    assert "expected sparse_shape() → SparseShape(rows, width), got 'two rows'" in said
    assert "1 a look at the fresh cache" in said


def test_rules_of_what_a_target_does_not_offer_are_not_played_for(capsys: Capture) -> None:
    assert main(["run", "components", "--pack", "ranks", "--jobs", "1"]) == 4
    said = capsys.readouterr().out
    assert "not applicable: the target offers no ranks" in said and "0 steps in 0 items" in said


@pytest.mark.parametrize("chosen", [["--pack", "pool"], pytest.param(["--rule", "POOL-03"], marks=pytest.mark.nightly)])
def test_what_is_blocked_by_a_rule_that_was_not_chosen_is_not_well(chosen: list[str], capsys: Capture) -> None:
    Path("raises_always.py").write_text(RAISES)
    words = ["run", "raises_always:target", *chosen, "--config", "page_size=4,host_pages=0", "--steps", "200"]
    assert main([*words, "--jobs", "1", "--report", "r.json", "--junit", "r.xml"]) == 4
    said = capsys.readouterr().out
    assert "PORT-01" in said and "exit 4" in said
    assert "run without --pack and --rule to see it" in " ".join(said.split())
    report = json.loads(Path("r.json").read_text())
    assert report["exit_code"] == 4 and "blocked" in {one["verdict"] for one in report["rules"]}
    assert "<error" in Path("r.xml").read_text()
