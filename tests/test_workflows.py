"""What runs on somebody else's machine with our name on it: least permissions, pinned actions, safe scripts.

Each check is a function from a parsed file to complaints, so that it can be run on the project (none) and on a
planted mistake (exactly that complaint).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlitmus.conformance import cli
from tests.support.actions import Runner, value_of

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"

PINS = {
    "actions/checkout": ("3d3c42e5aac5ba805825da76410c181273ba90b1", "v7.0.1"),
    "actions/setup-python": ("5fda3b95a4ea91299a34e894583c3862153e4b97", "v7.0.0"),
    "actions/cache/restore": ("27d5ce7f107fe9357f9df03efb73ab90386fccae", "v5.0.5"),
    "actions/cache/save": ("27d5ce7f107fe9357f9df03efb73ab90386fccae", "v5.0.5"),
    "actions/upload-artifact": ("bbbca2ddaa5d8feaa63e36b76fdaad77386f024f", "v7.0.0"),
    "actions/download-artifact": ("3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c", "v8.0.1"),
    "actions/deploy-pages": ("d6db90164ac5ed86f2b6aed7e0febac5b3c0c03e", "v4.0.5"),
}
"""Every action that is used, with the commit that its tag stood for when it was looked up."""

PERMITTED = {"contents": {"read"}, "issues": {"write"}, "pages": {"write"}, "id-token": {"write"}}
"""What a job may have."""
WRITING = ({"issues"}, {"pages", "id-token"})
"""What a job has that may write, and nothing else; it checks out nothing.  A deployment of pages takes a token."""


def steps_of(data: dict[Any, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All steps of a workflow or a composite action, each with the name of its job."""
    if "runs" in data:
        yield from (("action", step) for step in data["runs"]["steps"])
    for name, job in data.get("jobs", {}).items():
        yield from ((name, step) for step in job["steps"])


def wrong_pins(text: str) -> list[str]:
    """Actions that are not pinned to the commit that their comment names."""
    complaints = []
    for line in text.splitlines():
        found = re.match(r"\s*(?:- )?uses: (\S+)(?: # (\S+))?\s*$", line)
        if "uses:" not in line or (found and found[1].startswith("./")):
            continue
        if not found:
            complaints.append(f"{line.strip()}: can't be read")
            continue
        name, _, commit = found[1].partition("@")
        if not re.fullmatch(r"[0-9a-f]{40}", commit):
            complaints.append(f"{name}: not pinned by a commit")
        elif PINS.get(name) != (commit, found[2]):
            complaints.append(f"{name}: {commit[:8]} is not known to be {found[2]}")
    return complaints


def wrong_permissions(data: dict[Any, Any]) -> list[str]:
    """Jobs with more than they need, or with what nobody gave."""
    complaints = [] if data.get("permissions") == {} else ["the workflow as a whole has permissions"]
    for name, job in data["jobs"].items():
        given = job.get("permissions")
        if not isinstance(given, dict):
            complaints.append(f"{name}: names no permissions")
            continue
        complaints += [f"{name}: {what}: {how}" for what, how in given.items() if how not in PERMITTED.get(what, ())]
        if "write" in given.values():
            ours = [step for step in job["steps"] if "checkout" in step.get("uses", "") or "./" in step.get("uses", "")]
            if given.keys() not in WRITING or ours:
                told = ", ".join(given)
                complaints.append(f"{name}: writes ({told}), and runs what was checked out or has further permissions")
            if "vars." not in str(job.get("if", "")):
                complaints.append(f"{name}: writes without having been asked to")
    return complaints


def wrong_triggers(data: dict[Any, Any]) -> list[str]:
    """Triggers that give strangers' code more than it should have."""
    when: Any = data.get("on", data.get(True))  # YAML 1.1 reads "on" as true
    names = [when] if isinstance(when, str) else list(when)
    return [f"trigger {name}" for name in names if name in ("pull_request_target", "workflow_run", "issue_comment")]


def wrong_steps(data: dict[Any, Any]) -> list[str]:
    """Scripts with expressions in them (a stranger's text would be executed) or with mistakes; kept credentials."""
    complaints = []
    for job, step in steps_of(data):
        script = step.get("run")
        if script is not None:
            if "${{" in script:
                complaints.append(f"{job}: an expression in a script: {script.strip()[:60]}")
            if subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False).returncode:
                complaints.append(f"{job}: bash can't read: {script.strip()[:60]}")
            if "runs" in data and step.get("shell") != "bash":
                complaints.append(f"{job}: a step of an action must name its shell")
        if "actions/checkout@" in step.get("uses", "") and step.get("with", {}).get("persist-credentials") is not False:
            complaints.append(f"{job}: checks out and keeps the credentials")
    for name, job in data.get("jobs", {}).items():
        if not isinstance(job.get("timeout-minutes"), int):
            complaints.append(f"{name}: has no time limit")
    return complaints


def wrong_names(data: dict[Any, Any], text: str) -> list[str]:
    """Inputs and outputs of steps that are used and nowhere made."""
    known = {step["id"] for _, step in steps_of(data) if "id" in step}
    complaints = [f"steps.{id}" for id in re.findall(r"steps\.([\w-]+)\.", text) if id not in known]
    trigger = data.get("on", data.get(True)) or {}
    dispatched = trigger.get("workflow_dispatch") if isinstance(trigger, dict) else None
    inputs = data.get("inputs", (dispatched or {}).get("inputs", {}))
    return complaints + [f"inputs.{name}" for name in re.findall(r"inputs\.([\w-]+)", text) if name not in inputs]


def complaints_of(text: str) -> list[str]:
    """All that is wrong with a file."""
    data = yaml.safe_load(text)
    found = wrong_pins(text) + wrong_steps(data) + wrong_names(data, text)
    return found + (wrong_permissions(data) + wrong_triggers(data) if "jobs" in data else [])


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_workflows_and_action_are_as_they_should_be(path: Path) -> None:
    assert complaints_of(path.read_text(encoding="utf-8")) == []


def test_every_pin_is_used_and_there_are_workflows_for_both() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in [*WORKFLOWS, ACTION])
    assert [name for name in PINS if f"{name}@" not in text] == []
    assert {path.stem for path in WORKFLOWS} >= {"checks", "nightly", "site"}
    assert "bash .ci/run" in (ROOT / ".github/workflows/checks.yml").read_text(encoding="utf-8")


def printed() -> dict[str, str]:
    """The workflows that pages show, by the file that they are for."""
    pages = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    blocks = [
        found
        for page in pages
        for found in re.findall(r'```yaml title="([^"]+)"\n(.*?)```', page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert len(blocks) == len(dict(blocks)) >= 2
    return dict(blocks)


@pytest.mark.parametrize("name", printed())
def test_a_printed_workflow_is_as_it_should_be(name: str) -> None:
    text = re.sub(r"(uses: OWNER/kvlitmus@)COMMIT #.*", r"uses: ./", printed()[name])
    assert complaints_of(text) == []


SHARDS = ".github/workflows/shards.yml"


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(printed().keys() - {SHARDS}))
def test_a_printed_workflow_runs(name: str, tmp_path: Path) -> None:
    """In a repository that has what it names and nothing else; budgets alone are smaller than printed."""
    command, less, files = PRINTED[name]
    runner = runner_in(tmp_path, less)
    codes = runner.play(yaml.safe_load(printed()[name]))
    assert set(codes.values()) == {0}, runner.summaries
    assert len(codes) == len(runner.artifacts) == len(runner.summaries) == 2
    for artifact, uploaded in runner.artifacts.items():
        assert artifact.startswith(f"kvlitmus-{command}-adapters.my_") and set(files) <= {*uploaded}, uploaded
    assert runner.asked_of_pip == ["install -e .", "install --quiet --disable-pip-version-check the-action"] * 2


def runner_in(tmp_path: Path, less: dict[str, str]) -> Runner:
    """A repository that has what printed workflows name."""
    (tmp_path / "repository" / "adapters").mkdir(parents=True)
    for module, where in (("my_cache", "specimen.cache"), ("my_pool", "zoo.slab")):
        text = f"from kvlitmus.{where.replace('specimen', 'conformance.specimen')} import target as target\n"
        (tmp_path / "repository" / "adapters" / f"{module}.py").write_text(text)
    return Runner(tmp_path / "repository", yaml.safe_load(ACTION.read_text(encoding="utf-8")), given=less)


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["run", "fuzz"])
def test_a_matrix_of_shards_becomes_one_report(command: str, tmp_path: Path) -> None:
    """As it is printed, and as a night of fuzzing."""
    less = {
        "run": {"args": f"{LESS} --steps 500 --no-litmus --jobs 1"},
        "fuzz": {"command": "fuzz", "for": "10m", "args": f"{LESS} --no-canary --workers 1 --steps 100 --seed 1"},
    }
    runner = runner_in(tmp_path, less[command])
    codes = runner.play(yaml.safe_load(printed()[SHARDS]))
    assert codes == {"play-0": 0, "play-1": 0, "merge-0": 0}, runner.summaries
    mine = "adapters.my_cache-target"
    shards, merged = [f"kvlitmus-shard-{mine}-{at}-of-2" for at in (1, 2)], f"kvlitmus-merge-{mine}-0"
    assert [*runner.artifacts] == [*shards, merged] and len(runner.summaries) == 1
    report = json.loads((runner.store / merged / "night/report.json").read_text())
    if command == "run":
        assert [runner.artifacts[name] for name in shards] == [["run-0-1-2.jsonl.gz"], ["run-1-2-2.jsonl.gz"]]
        assert (report["totals"]["items"], report["exit_code"]) == (2, 0)
    else:
        kept = {Path(name).name for shard in shards for name in runner.artifacts[shard] if "/corpus/" in name}
        assert {Path(name).name for name in runner.artifacts[merged] if name.startswith("corpus/")} <= kept
        assert (report["shards"], report["exit_code"]) == (2, 0) and report["corpus"]["entries"] > 0


LESS = "--config page_size=1,policy=lru,bigram=false,pool=device,host_pages=0"
PRINTED = {
    ".github/workflows/kvlitmus.yml": (
        "run",
        {"args": f"{LESS} --steps 60 --no-litmus --jobs 1"},
        ("night/report.json", "night/summary.md", "night/junit.xml"),
    ),
    ".github/workflows/fuzz.yml": (
        "fuzz",
        {"for": "10m", "args": f"{LESS} --no-canary --workers 1 --steps 100 --seed 1"},
        ("night/report.json", "night/summary.md", "journal.jsonl"),
    ),
}
"""What each printed workflow calls, what is given in the place of its budget, and what its artifacts have in them."""


def test_the_action_fails_as_it_should(tmp_path: Path) -> None:
    """For a command that it doesn't know, a baseline that isn't there, and a cache that breaks a rule."""
    (tmp_path / "repository").mkdir()
    runner = Runner(tmp_path / "repository", yaml.safe_load(ACTION.read_text(encoding="utf-8")))
    few = f"{LESS} --steps 250 --no-litmus --jobs 1 --pack lock"

    def code(**inputs: str) -> int:
        runner.artifacts.clear()
        return runner.steps([{"uses": "./", "with": {"target": "specimen", "args": few, **inputs}}], {"github": {}})

    assert code(command="judge") == 2 and runner.artifacts == {}
    assert code(baseline="known.toml") == 2
    assert code(baseline="known.toml", **{"fail-on": "1 3"}) == 0
    assert code(target="kvlitmus.mutants.run:by_name.lookup_pins") == 1
    (uploaded,) = runner.artifacts.values()
    assert any(name.startswith("failures/LOCK-") for name in uploaded)


def test_the_runner_finds_what_was_wrong_before(tmp_path: Path) -> None:
    """Two jobs that upload under one name, and an input that the action doesn't have."""
    upload = {"uses": "actions/upload-artifact@1", "with": {"name": "one", "path": "${{ matrix.path }}"}}
    jobs = {"a": {"strategy": {"matrix": {"path": ["x", "y"]}}, "steps": [upload]}}
    with pytest.raises(AssertionError, match="two jobs upload one"):
        Runner(tmp_path, {}).play({"jobs": jobs})
    with pytest.raises(AssertionError, match="corpse"):
        Runner(tmp_path, {"inputs": {"corpus": {}}}).steps([{"uses": "./", "with": {"corpse": ""}}], {})


def test_expressions_are_worked_out() -> None:
    contexts = {"inputs": {"a": "x", "fail-on": ""}, "strategy": {"job-index": 1}}
    assert value_of("always() && inputs.a == 'x'", contexts) is True
    assert value_of("inputs.fail-on || 'none'", contexts) == "none"
    assert value_of("!(inputs.a != 'x') && strategy.job-index", contexts) == 1
    with pytest.raises(AssertionError, match="can't be read"):
        value_of("fromJSON(inputs.a)", contexts)


def test_the_words_that_the_action_gives_to_the_command_are_understood() -> None:
    """Also those of inputs that no printed workflow gives."""
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    (script,) = [step["run"] for _, step in steps_of(action) if step.get("id") == "judge"]
    for command, others in (
        ("run", {"--for", "--corpus", "--issue", "--into", "--target"}),
        ("fuzz", {"--markdown", "--junit", "--failures", "--into", "--target"}),
        ("merge", {"--for", "--corpus", "--shard", "--out"}),
    ):
        words = set(re.findall(r"--[a-z]+", script.partition("code=0")[0]))
        assert {"--report", "--baseline", "--python"} | others < words
        known = {word for one in cli.parser(command).inner._actions for word in one.option_strings}  # type: ignore[union-attr]
        assert words - others <= known


GOOD = """
on: {pull_request: }
permissions: {}
jobs:
  one:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {contents: read}
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with: {persist-credentials: false}
      - run: echo "$NAME"
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "@v7", "not pinned"),
        ("# v7.0.1", "# v7.0.2", "not known to be v7.0.2"),
        ("# v7.0.1", "", "not known to be None"),
        ("@3d3c42e5", "@3d3c42e6", "not known"),
        ("permissions: {}", "permissions: read-all", "as a whole"),
        ("permissions: {contents: read}", "env: {A: b}", "names no permissions"),
        ("{contents: read}", "{contents: write}", "contents: write"),
        ("{contents: read}", "{id-token: write}", "id-token"),
        ("{contents: read}", "{pages: write, id-token: write, contents: read}", "further permissions"),
        ("{contents: read}", "{pages: write, id-token: write}", "runs what was checked out"),
        ("{contents: read}", "{pages: write, id-token: write}", "without having been asked to"),
        ("{contents: read}", "{issues: write}", "runs what was checked out"),
        ("{pull_request: }", "{pull_request_target: }", "pull_request_target"),
        ("$NAME", "${{ github.event.issue.title }}", "an expression in a script"),
        ('echo "$NAME"', "if true", "bash can't read"),
        ("timeout-minutes: 5", "env: {A: b}", "no time limit"),
        ("{persist-credentials: false}", "{fetch-depth: 0}", "keeps the credentials"),
        ("{persist-credentials: false}", '{persist-credentials: false, a: "${{ steps.no.outputs.b }}"}', "steps.no"),
        ("{persist-credentials: false}", '{persist-credentials: false, a: "${{ inputs.no }}"}', "inputs.no"),
    ],
)
def test_a_planted_mistake_is_found(old: str, new: str, complaint: str) -> None:
    assert complaints_of(GOOD) == []
    assert old in GOOD
    found = complaints_of(GOOD.replace(old, new))
    assert found and any(complaint in one for one in found), found
