"""What all tests share: Hypothesis profiles, the spread over processors, and the skip of tests that need a GPU.

The default profile is ``ci``: the same examples on every run, so that a red build is red again
on the next machine.  ``KVLITMUS_HYPOTHESIS=dev`` searches at random, ``KVLITMUS_HYPOTHESIS=nightly`` likewise
and longer; both keep what they find in ``.hypothesis``.  ``--hypothesis-profile`` overrides the variable.

What last night's run has found can be had on any machine: ``KVLITMUS_HYPOTHESIS_SHARED=OWNER/REPOSITORY``
(and ``GITHUB_TOKEN``, where the repository is private) reads the examples that the nightly workflow has
left there as an artifact.  Nothing is ever written to it.

No test leaves a process behind, whether it passes or fails: what it has started and is still there is killed, and the
test fails for it.  Started in the background with signals ignored, the tests run as in a terminal.

The whole suite runs in one process more than there are processors, since some tests wait for others' processes; a file
of tests runs in one of them.  Single files run in this process, as does everything with ``-n 0``.

Tests start hundreds of processes.  Bytecode of the project and of its tests is written once, also where
``PYTHONDONTWRITEBYTECODE`` is set: else each process would compile all that it imports.  Nothing else is written, so no
module that a test writes, and writes again, is taken for what it was before.
"""

from __future__ import annotations

import compileall
import gc
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    ExampleDatabase,
    GitHubArtifactDatabase,
    MultiplexedDatabase,
    ReadOnlyDatabase,
)

from tests.support import night, processes
from tests.support.record import DONE, Record, deselect

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for tests and what they start: there are no more processors than tests

EXAMPLES = ".hypothesis/examples"
ARTIFACT = "hypothesis-example-db"
"""What the nightly workflow calls its artifact."""


def example_database(environment: Mapping[str, str], folder: str = EXAMPLES) -> ExampleDatabase:
    """Where examples are kept, and where else they are looked for."""
    local = DirectoryBasedExampleDatabase(folder)
    shared = environment.get("KVLITMUS_HYPOTHESIS_SHARED", "")
    if not shared:
        return local
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", shared):
        raise pytest.UsageError(f"KVLITMUS_HYPOTHESIS_SHARED must be OWNER/REPOSITORY (got {shared!r})")
    owner, _, repository = shared.partition("/")
    return MultiplexedDatabase(local, ReadOnlyDatabase(GitHubArtifactDatabase(owner, repository, ARTIFACT)))


processes.listen_to_nobody()

settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile(
    "dev", derandomize=False, deadline=None, database=example_database(os.environ), print_blob=True
)
settings.register_profile(
    "nightly",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    database=example_database(os.environ),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("KVLITMUS_HYPOTHESIS", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the night's run is made with."""
    parser.addoption(
        "--record",
        type=Path,
        metavar="FILE",
        help="with =: write down what came of each test; go on where a run was cut short",
    )
    parser.addoption(
        "--share",
        type=night.share,
        metavar="I/N",
        help="run every Nth of the chosen tests, from the Ith on: all N shares together run each of them once",
    )


def pytest_configure(config: pytest.Config) -> None:
    """That the shared examples can't be had, without a network for instance, is said and fails no test."""
    config.addinivalue_line("filterwarnings", "default:Couldn't acquire:hypothesis.errors.HypothesisWarning")
    config.addinivalue_line("filterwarnings", "default:Using an expired artifact:hypothesis.errors.HypothesisWarning")
    config.addinivalue_line("filterwarnings", "default:Could not connect to GitHub:hypothesis.errors.HypothesisWarning")
    file: Path | None = config.getoption("--record")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(file, config.invocation_params.args))


ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("spec", "reference", "conformance", "optimized", "tools")
"""What the processes that tests start import of the project."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before any other process is started: what it imports is compiled."""
    if not hasattr(session.config, "workerinput"):
        for room in ROOMS:
            compileall.compile_dir(ROOT / room, quiet=2)


def _cuda_is_there() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _shared_by(test: str) -> str:
    """What decides in which share a test is: what takes long to compute is computed in one of them."""
    return TOGETHER.get(test.partition("::")[0], test)


NIGHTLY = 14_400
"""Seconds after which a nightly test hangs: some take half an hour, and a night may share its machine with others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none; torch is imported only if a test asks for it."""
    if items:
        config = items[0].config
        share: night.Share | None = config.getoption("--share")
        if share is not None:
            deselect(config, items, {item.nodeid for item in items if not share.has(_shared_by(item.nodeid))})
        deselect(config, items, set(getattr(config, "workerinput", {}).get(DONE, ())))
    for item in items:
        if item.get_closest_marker("nightly") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(NIGHTLY))
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if wanting and not _cuda_is_there():
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests, and the modules that they need, are no garbage: no collection looks through them.

    Later ones are rare: states that tests make by the million are gone before, and none is part of a cycle.

    As pytest rewrites them they are written, too: each process would rewrite all of them again.
    """
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = writes_none
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()
        gc.freeze()


_FAILED = pytest.StashKey[bool]()

MOST_WORKERS = 8
"""However many processors there are."""

TOGETHER = {
    "tests/proofs/components/test_requests.py": "searches",
    "tests/proofs/components/test_tree.py": "searches",
    "tests/proofs/test_coverage.py": "searches",
    "tests/proofs/prefix/test_exhaustive.py": "searches",
    "tests/proofs/ranks/test_rules.py": "searches",
    "tests/proofs/prefix/test_tier_exhaustive.py": "searches",
    "tests/test_matrix.py": "searches",
}
"""Files that share something that takes long to compute, and its name."""

ONE_BY_ONE = (
    "tests/conformance/test_mutants.py",
    "tests/proofs/prefix/test_prefetch_symbolic.py",
    "tests/proofs/prefix/test_symbolic.py",
)
"""Files whose tests share nothing; they come last and fill up what the others leave."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """In how many processes the tests run: for a choice of files it isn't worth starting any."""
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    return 0 if chosen else min(len(os.sched_getaffinity(0)) + 1, MOST_WORKERS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file at a time, those with most tests first, unless another way is asked for (``--dist``)."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    def unit(nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file in ONE_BY_ONE else TOGETHER.get(file, file)

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = unit
    return scheduler


_watch = processes.Watch()
ENDING = 60.0
"""Seconds in which what a test has started may still end by itself; workers end when their supervisor is gone."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """What fixtures start is theirs to end, at the latest after the last test."""
    yield
    _watch.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that has failed need not be waited for."""
    if call.when == "call" and call.excinfo is not None:
        item.stash[_FAILED] = True
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Kill what the test has left behind, and hold it against the test; after the last one, what fixtures have left."""
    try:
        yield
    finally:
        patience = 0.0 if item.stash.get(_FAILED, False) else ENDING
        left = _watch.left(patience, shared=nextitem is not None)
        processes.end(left)
        if nextitem is None or nextitem.path != item.path:
            gc.freeze()  # what the tests of a file have left is looked through by no collection of a later one
    if left:
        pytest.fail("the test left processes behind: " + "; ".join(left.values()), pytrace=False)


def pytest_unconfigure() -> None:
    """Close quietly what killed workers have left open: nothing may follow pytest's own last line."""
    warnings.simplefilter("ignore", ResourceWarning)
    gc.collect()
