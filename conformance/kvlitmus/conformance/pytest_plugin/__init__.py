"""A pytest plugin: one test per rule.  It does nothing unless it is asked.

On the command line::

    pytest --kvlitmus my_cache:target                       the rules alone
    pytest --kvlitmus my_cache:target tests                 the rules, beside the tests in a folder
    pytest --kvlitmus my_cache:target -k PREFETCH           only these rules, and only what can tell about them
    pytest --kvlitmus my_cache:target --kvlitmus-args "--page-size 16 --baseline known.toml"

or in a test file of one's own::

    from kvlitmus.conformance.pytest_plugin import rules_of

    test_my_cache = rules_of("my_cache:target", "--pack", "tree")

The tests are named as the rules are, grouped by pack; ``RUN`` is the test of the run itself.  The
target is judged once, when the first of its tests is due, by the machinery and with the options of
``kvlitmus run``; that test has all the time, and with pytest-timeout no limit of its own (calls of
the cache have one, ``--timeout``).  What is deselected is not judged.  With pytest-xdist one worker
judges and the others read what it found.

A violated rule fails, with its counterexample.  A warned one passes with a
:class:`KvlitmusWarning`, which ``-W error::kvlitmus.conformance.pytest_plugin.KvlitmusWarning`` turns
into a failure.  One that the baseline knows is an expected failure (``xfail``).  Not applicable and
blocked are skipped, with the reason; what could not be decided is an error.
:mod:`~kvlitmus.conformance.report.outcomes` has the whole table.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shlex
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    import pytest

    from kvlitmus.conformance.report.form import Report
    from kvlitmus.conformance.report.outcomes import CaseOutcome
    from kvlitmus.spec.law.rule import Rule

RUNS = "kvlitmus runs"
SHARED = "kvlitmus"
"""The names of this plugin's own parts, with pytest and in what a worker of pytest-xdist is told."""


class KvlitmusWarning(UserWarning):
    """A SHOULD was broken."""


class NotJudged(Exception):
    """The target could not be judged at all; the text says why."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("kvlitmus", "one test per rule of a KV cache's conformance suite")
    group.addoption(
        "--kvlitmus",
        metavar="TARGET",
        action="append",
        default=[],
        help="judge this cache: a name, or module:attribute (may be repeated)",
    )
    group.addoption(
        "--kvlitmus-args",
        metavar="ARGS",
        action="append",
        default=[],
        help="options of 'kvlitmus run' in one text, such as '--page-size 16 --steps 500'",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take part only if a target was named; with pytest-xdist, tell workers where they can share."""
    if hasattr(config.pluginmanager.hook, "pytest_configure_node") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Shared())
    if config.getoption("kvlitmus"):
        if config.args_source is not config.ArgsSource.ARGS:
            config.args = []  # nothing else was asked for
        config.pluginmanager.register(collector(config))


class Shared:
    """What workers of pytest-xdist share: a folder that is only made if one of them has something to share."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.gettempdir()) / f"kvlitmus-{uuid.uuid4().hex}"

    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker the name of the folder."""
        node.workerinput[SHARED] = str(self.folder)

    def pytest_unconfigure(self) -> None:
        """All workers are done."""
        shutil.rmtree(self.folder, ignore_errors=True)


def parsed(target: str, words: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Rule]]:
    """The arguments of ``kvlitmus run``, and the rules that they choose; raises ``UsageError``."""
    from kvlitmus.conformance import cli
    from kvlitmus.conformance.cli.commands import common, session

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            args = cli.parser("run").parse_args(["run", *words, "--", target])
    except SystemExit:
        raise common.UsageError("options of 'kvlitmus run' are expected, and --help is none") from None
    if args.list:
        raise common.UsageError("--list judges nothing; 'pytest --collect-only' lists the rules")
    session.find(args.target, args.python)
    return args, common.pick_rules(args.rule, args.pack, args.strength)


class Runs:
    """What came of judging, for all tests of a session: each target is judged once for the same rules."""

    def __init__(self, config: pytest.Config) -> None:
        given = getattr(config, "workerinput", {}).get(SHARED)
        self.folder = Path(given) if given else None
        self.found: dict[str, Report | str] = {}

    def report(self, target: str, words: Sequence[str], ids: Sequence[str]) -> Report:
        """The report on a target; raises :class:`NotJudged`, for the same reason each time."""
        key = hashlib.sha256(json.dumps([target, *words, None, *ids]).encode()).hexdigest()
        if key not in self.found:
            self.found[key] = self.shared(key, target, words, ids) if self.folder else judged(target, words, ids)
        found = self.found[key]
        if isinstance(found, str):
            raise NotJudged(found)
        return found

    def shared(self, key: str, target: str, words: Sequence[str], ids: Sequence[str]) -> Report | str:
        """The same, among workers: the first one judges, the others wait and read."""
        import fcntl

        assert self.folder is not None
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / f"{key}.json"
        with (self.folder / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                text = json.dumps(judged(target, words, ids))
                path.with_suffix(".new").write_text(text, encoding="utf-8")
                path.with_suffix(".new").replace(path)
        found: Report | str = json.loads(path.read_text(encoding="utf-8"))
        return found


def judged(target: str, words: Sequence[str], ids: Sequence[str]) -> Report | str:
    """Judge a target by some rules: its report, or why it could not be judged."""
    from kvlitmus.conformance.cli.commands import common, run
    from kvlitmus.conformance.report import saved
    from kvlitmus.conformance.support import ending

    printed = io.StringIO()
    try:
        args, rules = parsed(target, words)
        if list(ids) != list(rules):
            args.rule, args.pack, args.strength = list(ids), [], None
        with tempfile.TemporaryDirectory(prefix="kvlitmus-") as folder:
            path = Path(folder) / "report.json"
            args.report = [*args.report, str(path)]
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                code = run.main(args)
            if code in ending.CODES:
                raise KeyboardInterrupt
            return saved.load(path)
    except (common.UsageError, common.TargetFailed, saved.ReportError) as error:
        return str(error)


def runs_of(config: pytest.Config) -> Runs:
    """The runs of a session."""
    runs = config.pluginmanager.get_plugin(RUNS)
    if runs is None:
        runs = Runs(config)
        config.pluginmanager.register(runs, RUNS)
    assert isinstance(runs, Runs)
    return runs


def outcome(report: Report, id: str) -> CaseOutcome:
    """What the test of a rule, or of the run, says."""
    from kvlitmus.conformance.report.form import rows
    from kvlitmus.conformance.report.outcomes import RUN, of_rule, of_run

    if id == RUN:
        return of_run(report)
    return of_rule(report, next(rule for rule in rows(report) if rule["id"] == id))


def settle(found: CaseOutcome) -> None:
    """Say it as pytest does."""
    import pytest

    if found.kind == "skipped":
        pytest.skip(found.message)
    if found.kind == "known":
        pytest.xfail(found.message)
    if found.kind == "warned":
        warnings.warn_explicit(KvlitmusWarning(told(found)), None, "kvlitmus", 1)
    if found.kind in ("failed", "error"):
        pytest.fail(told(found), pytrace=False)


def told(found: CaseOutcome) -> str:
    """Everything there is to say; what names the rule, behind the cause, has been said by then."""
    if found.kind in ("failed", "warned") and found.text:
        cause, _, *rest = found.text.split("\n")
        return "\n".join([found.message, cause, *rest])
    return found.text or found.message


def collector(config: pytest.Config) -> Collect:
    """What collects a test per rule for each target of the command line; raises pytest's ``UsageError``."""
    import pytest

    from kvlitmus.conformance.cli.commands.common import UsageError

    try:
        words = tuple(word for text in config.getoption("kvlitmus_args") for word in shlex.split(text))
        return Collect(words, {target: parsed(target, words)[1] for target in config.getoption("kvlitmus")})
    except (UsageError, ValueError) as error:
        raise pytest.UsageError(f"kvlitmus: {error}") from None


class Collect:
    """Adds the tests to those that are there, before any is deselected."""

    def __init__(self, words: Sequence[str], targets: dict[str, dict[str, Rule]]) -> None:
        import pytest

        self.words = words
        self.targets = targets
        self.group, self.rule = kinds(self)
        pytest.hookimpl(tryfirst=True)(Collect.pytest_collection_modifyitems)

    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add a test per rule, and count them as collected."""
        import pytest

        for target in self.targets:
            made = list(self.tests(session, target))
            items += made
            report = pytest.CollectReport(nodeid=target, outcome="passed", longrepr=None, result=[*made])
            session.config.hook.pytest_collectreport(report=report)

    def tests(self, session: pytest.Session, target: str) -> Iterator[pytest.Item]:
        """The tests of one target."""
        import pytest

        from kvlitmus.conformance.report.outcomes import RUN

        untimed = any(line.startswith("timeout") for line in session.config.getini("markers"))
        top = self.group.from_parent(session, name="kvlitmus", nodeid=target, path=session.config.rootpath / target)
        packs: dict[str, pytest.Collector] = {}
        rules = [(one.id, one.pack, one.title) for one in self.targets[target].values()]
        for id, pack, about in [(RUN, "run", "every item was judged"), *rules]:
            if pack not in packs:
                packs[pack] = self.group.from_parent(top, name=pack)
            item: pytest.Item = self.rule.from_parent(packs[pack], name=id, target=target, about=about)
            if untimed:
                item.add_marker(pytest.mark.timeout(0))
            yield item

    def found(self, session: pytest.Session, target: str, id: str) -> CaseOutcome:
        """What the test of a rule says; the target is judged by all rules that were chosen."""
        tests = (item for item in session.items if isinstance(item, self.rule))
        chosen = {item.name for item in tests if item.nodeid.startswith(f"{target}::")}
        return outcome(runs_of(session.config).report(target, self.words, among(self.targets[target], chosen)), id)


def among(rules: Iterable[str], chosen: Set[str]) -> list[str]:
    """The rules to judge by: those whose tests were chosen, or all for the test of the run alone."""
    from kvlitmus.conformance.report.outcomes import RUN

    return [id for id in rules if id in chosen or chosen == {RUN}]


def kinds(collect: Collect) -> tuple[type[pytest.Collector], type[pytest.Item]]:
    """The two kinds of nodes; made here because pytest is imported only where it runs."""
    import pytest

    class KvlitmusGroup(pytest.Collector):
        """A target, or a pack of it.  A target's name is no keyword: ``-k`` is about rules."""

        def __repr__(self) -> str:
            return f"<{type(self).__name__} {self.nodeid.rpartition('::')[2]}>"

        def collect(self) -> list[pytest.Item]:
            """Its tests are made all at once."""
            return []

    class KvlitmusRule(pytest.Item):
        """The test of one rule."""

        def __init__(self, *, target: str, about: str, **more: Any) -> None:
            super().__init__(**more)
            self.target, self.about = target, about

        def setup(self) -> None:
            """Judge, if nobody has; what can't be decided is an error, not a failure."""
            try:
                self.found = collect.found(self.session, self.target, self.name)
            except NotJudged as error:
                pytest.fail(str(error), pytrace=False)
            if self.found.kind == "error":
                settle(self.found)

        def runtest(self) -> None:
            """The verdict."""
            settle(self.found)

        def reportinfo(self) -> tuple[Path, None, str]:
            """The heading of a failure."""
            return self.path, None, f"{self.name}: {self.about}"

    return KvlitmusGroup, KvlitmusRule


def rules_of(target: str, *words: str) -> Callable[..., None]:
    """A test function for a test file: a test per rule for this target, judged with these options of ``kvlitmus run``.

    Give it a name that pytest collects: ``test_my_cache = rules_of("my_cache:target")``.  Raises
    :class:`~kvlitmus.conformance.cli.commands.common.UsageError` for a target or an option that isn't there.
    """
    import pytest

    from kvlitmus.conformance.report.outcomes import RUN

    rules = parsed(target, words)[1]

    @pytest.mark.parametrize("rule", [RUN, *rules])
    def test(rule: str, request: pytest.FixtureRequest) -> None:
        """A rule of the conformance suite."""
        mine = [item for item in request.session.items if getattr(item, "function", None) is test]
        chosen = {item.callspec.params["rule"] for item in mine}  # type: ignore[attr-defined]
        try:
            found = outcome(runs_of(request.config).report(target, words, among(rules, chosen)), rule)
        except NotJudged as error:
            pytest.fail(str(error), pytrace=False)
        settle(found)

    return test
