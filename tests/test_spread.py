"""How the project's own tests are spread over processes."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from tests import conftest
from tests.support import night
from tests.test_layout import ROOT

xdist = pytest.importorskip("xdist.scheduler")


class Chosen:
    """As much of a configuration as says which files were asked for, how they are spread, and of two processes."""

    def __init__(self, source: pytest.Config.ArgsSource, dist: str) -> None:
        self.args_source = source
        self.dist = dist

    def getvalue(self, name: str) -> Any:
        return self.dist if name == "dist" else ["popen", "popen"]


def config(source: pytest.Config.ArgsSource, dist: str = "load") -> Any:
    return Chosen(source, dist)


def test_the_whole_suite_gets_processes_and_a_choice_of_files_none() -> None:
    sources = pytest.Config.ArgsSource
    assert conftest.pytest_xdist_auto_num_workers(config(sources.TESTPATHS)) >= 1
    assert conftest.pytest_xdist_auto_num_workers(config(sources.ARGS)) == 0


def test_what_is_spread_specially_is_there(pytestconfig: pytest.Config) -> None:
    for name in (*conftest.TOGETHER, *conftest.ONE_BY_ONE):
        assert (ROOT / name).is_file(), name
    assert len(set(conftest.TOGETHER.values())) < len(conftest.TOGETHER)


def test_a_file_is_one_piece_of_work_and_some_are_joined_or_split() -> None:
    unit = conftest.pytest_xdist_make_scheduler(config(pytest.Config.ArgsSource.TESTPATHS), None)._split_scope
    assert unit("tests/spec/law/test_rules.py::test_one") == unit("tests/spec/law/test_rules.py::test_two[x::y]")
    assert unit("tests/proofs/test_coverage.py::test_one") == unit("tests/test_matrix.py::test_two")
    split = conftest.ONE_BY_ONE[0]
    assert unit(f"{split}::test_one[a]") != unit(f"{split}::test_one[b]")


def test_who_asks_for_another_spread_gets_it() -> None:
    """The tests marked ``gpu`` are spread one by one, wherever their files are (``benchmarks/gpu/programs.py``)."""
    assert conftest.pytest_xdist_make_scheduler(config(pytest.Config.ArgsSource.ARGS, "worksteal"), None) is None


def test_all_shares_together_have_each_test_once() -> None:
    names = [f"tests/test_one.py::test_{number}[{number}]" for number in range(300)]
    shares = [night.share(f"{number}/7") for number in range(1, 8)]
    assert all([share.has(name) for share in shares].count(True) == 1 for name in names)
    assert all(sum(share.has(name) for name in names) > 300 / 7 / 2 for share in shares)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "-1/3", "a/b", "1/3/5", ""])
def test_a_share_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"from 1 to N, such as 3/16"):
        night.share(text)
