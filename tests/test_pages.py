"""Every example on every page: it is done by a test, or its words are understood."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from kvlitmus.conformance import cli
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.run import targets
from kvlitmus.spec.interface import PORTS
from tests.support.pages import Printed, blocks, change, commands, compare, follow, missing, pages
from tests.test_layout import ROOT

PAGES = pages()
BY_TEST = {
    "README.md": "test_readme.py",
    "docs/check.md": "test_check_docs.py",
    "docs/events.md": "conformance/test_event_streams.py",
    "docs/fuzz.md": "test_workflows.py",
    "docs/many-machines.md": "test_workflows.py",
    "docs/adapters.md": "test_adapters_page.py",
    "docs/components.md": "test_components_page.py",
    "docs/hierarchy.md": "test_hierarchy_page.py",
    "docs/implement.md": "test_implement_page.py",
    "docs/optimized.md": "optimized/test_page.py",
    "docs/sparse.md": "test_sparse_page.py",
    "docs/storage.md": "test_storage_page.py",
    "docs/tape.md": "test_check_docs.py",
    "docs/tutorial.md": "test_tutorial.py",
    **{path: "test_guides.py" for path in PAGES if path.startswith("docs/guides/")},
}
"""The pages of which a test does what they show, with that test."""
YOURS = re.compile(r"(?:adapters[./])?my_\w+(?::\w+)?|exec:\./.+")
"""What a page calls a target of its reader's."""


def not_understood(line: str) -> str:
    """What is wrong with a line of a shell that no test runs; empty if nothing is."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        del words[0]
    program = words[0].removeprefix(".venv/bin/") if words else ""
    if program == "kvlitmus":
        try:
            read = cli.parser(words[1]).parse_args(words[1:])
            if hasattr(read, "target") and isinstance(read.target, str) and not YOURS.fullmatch(read.target):
                targets.resolve_target(read.target, python="python")
        except (UsageError, targets.UnknownTarget) as error:
            return str(error)
    elif program == "python" and words[1] == "-m":
        return "" if importlib.util.find_spec(words[2]) else f"there is no module {words[2]}"
    elif program == "python":
        return "" if (ROOT / words[1]).is_file() else f"there is no file {words[1]}"
    elif program.startswith("tools/"):
        return "" if (ROOT / program).is_file() else f"there is no {program}"
    elif program == "bash":
        return "" if (ROOT / words[1]).is_file() else f"there is no {words[1]}"
    elif program not in ("", "pip", "pytest", "apt-get", "cd", "c++"):
        return f"nobody knows {program}"
    return ""


@pytest.mark.parametrize("path", PAGES)
def test_every_line_for_a_shell_is_understood(path: str) -> None:
    lines = [
        part.strip()
        for one in blocks(PAGES[path])
        if one.language == "sh"
        for line in one.body.splitlines()
        for part in line.split("&&")
    ]
    assert [(line, why) for line in lines if (why := not_understood(line))] == []


@pytest.mark.parametrize(
    "line",
    [
        "kvlitmus judge",
        "kvlitmus run no-such-target",
        "kvlitmus run --stepz 5",
        "tools/nothing",
        "python -m tests.nothing",
        "python nothing.py",
        "bash nothing",
        "rm -r nothing",
    ],
)
def test_a_line_that_is_not_understood_is_found(line: str) -> None:
    assert not_understood(line)


@pytest.mark.parametrize("path", [path for path, text in PAGES.items() if blocks(text)])
def test_every_example_is_done_by_a_test(path: str) -> None:
    done = [one for one in blocks(PAGES[path]) if one.title or one.language in ("console", "pycon", "diff")]
    assert bool(done) == (path in BY_TEST)
    assert not done or (ROOT / "tests" / BY_TEST[path]).is_file()


@pytest.mark.parametrize("path", PAGES)
def test_a_listing_of_methods_names_methods_of_ports(path: str) -> None:
    """Python without a title shows signatures, and nothing that could be run."""
    known = {method for methods in PORTS.values() for method in methods}
    for block in blocks(PAGES[path]):
        if block.language == "python" and not block.title:
            classes = [one for one in ast.parse(block.body).body if isinstance(one, ast.ClassDef)]
            shown = {one.name for kind in classes for one in kind.body if isinstance(one, ast.FunctionDef)}
            assert shown and shown <= known, block.body


def test_a_line_that_is_not_printed_is_missed() -> None:
    assert missing(["a", "…", "c"], "a\nb\nc\n") == []
    assert missing(["c", "a"], "a\nb\nc\n") == ["a"]
    assert missing(["d"], "a\nb\nc\n") == ["d"]
    assert missing(["a …", "b"], "a 1\nb\n") == []
    assert missing(["a …"], "b a 1\n") == ["a …"]
    assert missing(["{0…3}"], "{0…4}\n") == ["{0…3}"]


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    page = '```python title="a.py"\nprint(1)\nraise SystemExit(3)\n```\n```console\n$ python a.py\n1\nexit 3: so\n```\n'
    assert list(commands("$ a b\nc\n$ d\n")) == [("a b", ["c"]), ("d", [])]
    with pytest.raises(AssertionError, match=r"python a\.py"):
        follow(page, tmp_path)  # the last line is not printed
    assert follow(page.replace("exit 3: so\n", ""), tmp_path) == ["python a.py"]
    with pytest.raises(AssertionError, match="exit code 3"):
        compare("a", ["exit 1: so"], Printed("exit 1: so\n", 3))
    with pytest.raises(AssertionError, match="nowhere"):
        change(tmp_path / "a.py", "-nowhere\n+there\n")
