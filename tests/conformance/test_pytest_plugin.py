"""The pytest plugin, used as on a command line and in a test file, with and without workers."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvlitmus.conformance import pytest_plugin
from kvlitmus.conformance.cli.commands import run
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.report.form import rows
from kvlitmus.conformance.report.outcomes import RUN
from kvlitmus.conformance.run.verdicts import main_rule
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.reports import VERDICTS, changed, report
from tests.test_layout import ROOT

pytest_plugins = ["pytester"]

all_litmus()  # pytester forgets modules that are imported in its sessions; what registers itself must be there before

PLUGIN = ("-p", "kvlitmus.conformance.pytest_plugin")
NAME = "kvlitmus.conformance.pytest_plugin.KvlitmusWarning"
BROKEN = "kvlitmus.mutants.run:by_name.lookup_pins"
FEW = "--config page_size=1,policy=lru,bigram=false,pool=device,host_pages=0 --steps 250 --no-litmus --jobs 1"

WORDS = [*FEW.split(), "--pack", "lock,hash", "--depth", "2"]

COUNTED = """
import os
from pathlib import Path
from kvlitmus.mutants.run import by_name

with (Path(__file__).parent / "loads").open("a") as file:
    file.write(f"{os.getpid()}\\n")
target = by_name.lookup_pins
"""
"""A target that counts how often it is loaded: a run loads it in each worker."""


@pytest.fixture(autouse=True)
def _plugins_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether kvlitmus is installed or not, its plugin is there once."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


class Alone(NamedTuple):
    """What ``kvlitmus run`` by itself makes of the counted target: how often it loads it, and the verdicts."""

    loads: int
    verdicts: dict[str, str]
    fails: set[str]

    def many(self, *verdicts: str) -> int:
        """How many rules have one of these verdicts."""
        return sum(one in verdicts for one in self.verdicts.values())

    @property
    def skipped(self) -> int:
        """How many tests are skipped: what follows from a cause that fails, too."""
        return self.many("not_applicable", "blocked", "not_exercised", "violated") - len(self.fails)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """The same judged without pytest, to compare with."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "target_of_mine.py").write_text(COUNTED)
    words = [sys.executable, "-m", "kvlitmus.conformance.cli", "run", "target_of_mine:target", *WORDS]
    done = subprocess.run([*words, "--report", "r.json"], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    report = json.loads((folder / "r.json").read_text())
    verdicts = {one["id"]: one["verdict"] for one in rows(report)}
    fails = {main_rule(one["rules"]) for one in report["findings"] if one["headline"]}
    return Alone(len((folder / "loads").read_text().splitlines()), verdicts, fails)


def rules_in(pack: str) -> list[str]:
    return [rule.id for rule in all_rules().values() if rule.pack == pack]


def loads() -> int:
    """How often the counted target was loaded since the last look."""
    path = Path("loads")
    number = len(path.read_text().splitlines()) if path.exists() else 0
    path.unlink(missing_ok=True)
    return number


def faked(monkeypatch: pytest.MonkeyPatch, data: dict[str, Any] | str) -> list[tuple[str, tuple[str, ...], list[str]]]:
    """In place of judging: a report that is there already; returns what was asked for."""
    asked: list[tuple[str, tuple[str, ...], list[str]]] = []

    def judged(target: str, words: Sequence[str], ids: Sequence[str]) -> dict[str, Any] | str:
        asked.append((target, tuple(words), list(ids)))
        return data

    monkeypatch.setattr(pytest_plugin, "judged", judged)
    return asked


# -- on the command line ---------------------------------------------------------------------------


def test_there_is_a_test_per_rule_and_collecting_judges_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(target_of_mine=COUNTED, test_other="def test_other(): pass")
    result = pytester.runpytest_subprocess(*PLUGIN, "--kvlitmus", "target_of_mine:target", "--collect-only", "-q")
    ids = [line for line in result.outlines if "::" in line]
    rules = [f"target_of_mine:target::{rule.pack}::{rule.id}" for rule in all_rules().values()]
    assert ids == [f"target_of_mine:target::run::{RUN}", *rules]
    assert f"{len(ids)} tests collected" in result.outlines[-1]
    assert loads() == 0
    assert not Path(".kvlitmus").exists()


def test_verdicts_become_outcomes_and_the_target_is_judged_once(alone: Alone, pytester: pytest.Pytester) -> None:
    assert {"passed", "violated", "not_applicable"} <= set(alone.verdicts.values())
    pytester.makepyfile(target_of_mine=COUNTED)
    result = pytester.runpytest_subprocess(
        *PLUGIN, "--kvlitmus", "target_of_mine:target", "--kvlitmus-args", " ".join(WORDS), "-rs"
    )
    assert loads() == alone.loads
    result.assert_outcomes(passed=alone.many("passed") + 1, failed=len(alone.fails), skipped=alone.skipped)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines(
        [
            r"_+ LOCK-06: nothing is protected when nobody holds a lock _+",
            r"LOCK-06 violated: nothing is protected when nobody holds a lock",
            r"  When no receipt is out, no request runs, and .* has passed, the tree MUST count nothing as protected\.",
            r"  > +\d+ match\(",
            r"  replay +kvlitmus replay \.kvlitmus/failures/LOCK-06-\w+\.json",
            r"SKIPPED.*not applicable: needs depth 3",
        ],
    )
    assert "Traceback" not in result.stdout.str()
    saved = re.findall(r"kvlitmus replay (\S+)", result.stdout.str())
    assert saved
    assert all(Path(name).is_file() for name in saved)


@pytest.mark.nightly
@pytest.mark.parametrize("more", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["alone", "workers"])
def test_a_program_is_judged_like_a_module(more: tuple[str, ...], pytester: pytest.Pytester) -> None:
    program = f"exec:{sys.executable} -S {ROOT}/tests/conformance/support/rude.py exits"
    words = ("--kvlitmus", program, "--kvlitmus-args", "--steps 60 --no-litmus --jobs 1")
    result = pytester.runpytest_subprocess(*PLUGIN, *more, *words)
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.re_match_lines(
        [rf"  replay .* --target '{re.escape(program)}'", rf"FAILED {re.escape(program)}::port::PORT-02"]
    )


@pytest.mark.nightly
def test_what_is_deselected_is_not_judged(pytester: pytest.Pytester) -> None:
    """The mutant breaks LOCK-02 in its first match; with LOCK-06 alone the run goes on to that."""
    result = pytester.runpytest_subprocess(*PLUGIN, "--kvlitmus", BROKEN, "--kvlitmus-args", FEW, "-k", "LOCK-06")
    result.assert_outcomes(failed=1, deselected=len(all_rules()))
    result.stdout.no_fnmatch_line("*broken too*")
    result.stdout.fnmatch_lines(["  > * *(*", "FAILED *::lock::LOCK-06*"])


@pytest.mark.parametrize(
    ("words", "chosen", "asked"),
    [
        (["-k", "prefetch"], rules_in("prefetch"), rules_in("prefetch")),
        (["-k", "tree_ or TREE-03"], ["TREE-03"], ["TREE-03"]),
        (["-k", "pytest or mutants or lookup"], [], None),
        (["-k", "kvlitmus and lock"], rules_in("lock"), rules_in("lock")),
        (["-k", "RUN"], [RUN], list(all_rules())),
        (["--kvlitmus-args", "--pack lock", "--kvlitmus-args=--strength must"], None, None),
        ([f"--deselect={BROKEN}::pool"], None, [id for id in all_rules() if not id.startswith("POOL-")]),
    ],
)
def test_only_what_was_chosen_is_asked_for(
    words: list[str],
    chosen: list[str] | None,
    asked: list[str] | None,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name of a target is no keyword: it may hold any word."""
    everything = {id.replace("-", "_"): "passed" for id in all_rules()}
    seen = faked(monkeypatch, report(**everything))
    result = pytester.runpytest_inprocess(*PLUGIN, "--kvlitmus", BROKEN, *words)
    if chosen is not None:
        assert result.parseoutcomes().get("passed", 0) == len(chosen)
    if asked is not None:
        assert [ids for _, _, ids in seen] == [asked]
    elif chosen == []:
        assert seen == []
    else:
        ((_, given, ids),) = seen
        assert given == ("--pack", "lock", "--strength", "must")
        assert ids == rules_in("lock")


def test_every_verdict_has_its_outcome(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, report())
    kinds = " or ".join(VERDICTS)
    result = pytester.runpytest_inprocess(*PLUGIN, "--kvlitmus", BROKEN, "-k", kinds, "-v", "-W", f"default::{NAME}")
    result.assert_outcomes(passed=2, failed=1, errors=3, skipped=2, deselected=len(all_rules()) - 7)
    expected = {
        "POOL-01": "PASSED", "POOL-02": "FAILED", "POOL-03": "PASSED", "TREE-01": "SKIPPED", "TREE-02": "ERROR",
        "TREE-03": "SKIPPED", "LOCK-01": "ERROR", "LOCK-02": "ERROR",
    }  # fmt: skip
    for id, word in expected.items():
        result.stdout.re_match_lines([rf"{re.escape(BROKEN)}::\w+::{id} {word}"])
    result.stdout.fnmatch_lines(["*kvlitmus:1: KvlitmusWarning: POOL-03 warned: *"])
    result.stdout.fnmatch_lines(["not exercised: because of not_exercised"])
    strict = pytester.runpytest_inprocess(*PLUGIN, "--kvlitmus", BROKEN, "-k", "POOL-03", "-W", f"error::{NAME}")
    strict.assert_outcomes(failed=1, deselected=len(all_rules()))


def test_what_the_baseline_knows_is_an_expected_failure(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = report(POOL_01="passed", POOL_02="violated")
    data = changed(data, "rules.1.known", {"reason": "mended upstream", "link": "https://x", "until": ""})
    known, stale = ({"rule": f"POOL-0{number}", "cause": f"pool-0000000{number}"} for number in (2, 1))
    faked(monkeypatch, changed(data, "baseline", {"known": [known], "stale": [stale], "expired": []}))
    result = pytester.runpytest_inprocess(*PLUGIN, "--kvlitmus", BROKEN, "-k", "POOL-01 or POOL-02", "-rx")
    result.assert_outcomes(xfailed=1, failed=1, deselected=len(all_rules()) - 1)
    result.stdout.fnmatch_lines(["*XFAIL*POOL-02 - *known: mended upstream*"])
    result.stdout.fnmatch_lines(["*pool-00000001 is in the baseline for POOL-01, but was not met*"])


def test_items_that_fail_are_an_error_of_the_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(
        monkeypatch,
        changed(report(POOL_01="passed"), "failed", [{"item": "litmus:x [page=1 lru]", "error": "out of luck"}]),
    )
    result = pytester.runpytest_inprocess(*PLUGIN, "--kvlitmus", BROKEN, "-k", "POOL-01 or RUN")
    result.assert_outcomes(passed=1, errors=1, deselected=len(all_rules()) - 1)
    result.stdout.fnmatch_lines(["litmus:x *: out of luck"])


def test_a_target_that_can_not_be_judged_says_why_in_a_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(target_of_mine="raise RuntimeError('no GPU here')")
    result = pytester.runpytest_subprocess(*PLUGIN, "--kvlitmus", "target_of_mine:target", "-k", "LOCK-01 or LOCK-02")
    result.assert_outcomes(errors=2, deselected=len(all_rules()) - 1)
    why = "can't be loaded: RuntimeError: no GPU here (target_of_mine.py, line 1 in <module>)"
    assert [line for line in result.outlines if line.endswith(why)]
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--kvlitmus", "specimn"], "there is no target 'specimn'; did you mean 'specimen'?"),
        (["--kvlitmus", "specimen", "--kvlitmus-args", "--pack tre"], "there is no pack 'tre'"),
        (["--kvlitmus", "specimen", "--kvlitmus-args", "--stps 9"], "there is no option --stps; did you mean --steps?"),
        (["--kvlitmus", "specimen", "--kvlitmus-args", "reference"], "unexpected argument 'specimen'"),
        (["--kvlitmus", "specimen", "--kvlitmus-args=--list"], "--list judges nothing"),
        (["--kvlitmus", "specimen", "--kvlitmus-args=--help"], "--help is none"),
        (["--kvlitmus", "specimen", "--kvlitmus-args", "'--pack"], "No closing quotation"),
    ],
)
def test_a_mistake_is_a_usage_error(words: list[str], complaint: str, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: kvlitmus: *{complaint}*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_an_interrupt_ends_the_session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "main", lambda args: 130)
    with pytest.raises(KeyboardInterrupt):
        pytester.runpytest_inprocess(*PLUGIN, "--kvlitmus", "specimen")


def test_paths_that_are_named_are_collected_too(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, report(LOCK_01="passed"))
    pytester.makepyfile(test_other="def test_lock_01(): pass")
    words = [*PLUGIN, "--kvlitmus", "specimen", "-k", "lock_01 or LOCK-01"]
    pytester.runpytest_inprocess(*words).assert_outcomes(passed=1, deselected=len(all_rules()))
    pytester.runpytest_inprocess(*words, "test_other.py").assert_outcomes(passed=2, deselected=len(all_rules()))


def test_two_targets_are_two_groups(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = faked(monkeypatch, report(LOCK_01="passed"))
    result = pytester.runpytest_inprocess(
        *PLUGIN, "--kvlitmus", "specimen", "--kvlitmus", "reference", "-k", "LOCK-01", "-v"
    )
    result.assert_outcomes(passed=2, deselected=2 * len(all_rules()))
    result.stdout.fnmatch_lines(["specimen::lock::LOCK-01 PASSED*", "reference::lock::LOCK-01 PASSED*"])
    assert [target for target, _, _ in seen] == ["specimen", "reference"]


def test_it_does_nothing_unless_it_is_asked(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_of_the_suite_was_loaded(request):
            ours = {name for name in sys.modules if name.startswith("kvlitmus")}
            assert ours == {"kvlitmus", "kvlitmus.conformance", "kvlitmus.conformance.pytest_plugin"}
            manager = request.config.pluginmanager
            (plugin,) = (one for one in manager.get_plugins() if getattr(one, "__name__", "").startswith("kvlitmus"))
            assert {hook.name for hook in manager.get_hookcallers(plugin)} == {"pytest_addoption", "pytest_configure"}
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=1)
    assert "kvlitmus" not in result.stdout.str().replace(str(pytester.path), "")


# -- in a test file --------------------------------------------------------------------------------

IN_A_FILE = f"""
from kvlitmus.conformance.pytest_plugin import rules_of

test_mine = rules_of("target_of_mine:target", *{WORDS!r})

def test_other():
    pass
"""


@pytest.mark.nightly
@pytest.mark.parametrize("plugin", [pytest.param(PLUGIN, id="with plugin"), pytest.param((), id="without")])
def test_a_test_file_has_the_rules_too(plugin: tuple[str, ...], alone: Alone, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(target_of_mine=COUNTED, test_mine=IN_A_FILE)
    result = pytester.runpytest_subprocess(*plugin)
    result.assert_outcomes(passed=alone.many("passed") + 2, failed=len(alone.fails), skipped=alone.skipped)
    for id in alone.fails:
        result.stdout.re_match_lines([rf"_+ test_mine\[{id}\] _+", rf"{id} violated: ", r"  > +\d+ match\("])
    assert loads() == alone.loads


def test_a_test_file_judges_only_what_was_chosen(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = faked(monkeypatch, report(LOCK_01="passed", LOCK_02="harness_error"))
    pytester.makepyfile(target_of_mine="", test_mine=IN_A_FILE)
    result = pytester.runpytest_inprocess(*PLUGIN, "-k", "LOCK-01 or LOCK-02 or other")
    result.assert_outcomes(passed=2, failed=1, deselected=len(rules_in("lock") + rules_in("hash")) - 1)
    result.stdout.fnmatch_lines(["harness error: because of harness_error"])
    assert [ids for _, _, ids in seen] == [["LOCK-01", "LOCK-02"]]


def test_a_mistake_in_a_test_file_is_said_when_it_is_imported() -> None:
    with pytest.raises(UsageError, match="did you mean 'specimen'"):
        pytest_plugin.rules_of("specimn")
    with pytest.raises(UsageError, match="no pack 'tre'"):
        pytest_plugin.rules_of("specimen", "--pack", "tre")


# -- among others ----------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_limit_on_tests_is_none_on_judging(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first test has the time of all; with pytest-timeout that is not the time of one."""
    pytester.makepyfile(
        slow="""
        import time
        from kvlitmus.conformance.ports import Profile
        from kvlitmus.conformance.specimen.cache import target as specimen
        class Target:
            profile = specimen.profile
            def make(self, config):
                time.sleep(0.2)
                return specimen.make(config)
        target = Target()
        """
    )
    args = f"{FEW} --pack lock"
    words = [*PLUGIN, "-p", "pytest_timeout", "--timeout", "1", "--kvlitmus", "slow:target", "--kvlitmus-args", args]
    pytester.runpytest_subprocess(*words).assert_outcomes(passed=len(rules_in("lock")) + 1)


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed")
@pytest.mark.nightly
@pytest.mark.parametrize("way", ["option", "file"])
def test_workers_judge_once(way: str, alone: Alone, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(target_of_mine=COUNTED, test_mine=IN_A_FILE)
    folder = pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    words = ["--kvlitmus", "target_of_mine:target", "--kvlitmus-args", " ".join(WORDS)] if way == "option" else []
    result = pytester.runpytest_subprocess(*PLUGIN, "-p", "xdist.plugin", "-n", "2", *words)
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == len(alone.fails)
    assert outcomes["passed"] == alone.many("passed") + (1 if way == "option" else 2)
    assert loads() == alone.loads
    assert not list(folder.glob("kvlitmus-*")), "what was shared is gone"


def test_pytest_finds_it_by_itself_once_it_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"kvlitmus": "kvlitmus.conformance.pytest_plugin"}
    assert callable(pytest_plugin.pytest_addoption)
    assert os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] == "1"
