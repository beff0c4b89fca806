"""The page on the optimized cache: its programs run, what it shows of the example is the example, all is told."""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import fields

import pytest

from examples import serve
from kvlitmus.optimized.cache import CacheConfig
from tests.optimized import stress
from tests.test_layout import ROOT

PAGE = (ROOT / "docs" / "optimized.md").read_text(encoding="utf-8")
PROGRAMS = {
    title: text
    for title, text in re.findall(r'```python title="([\w./]+)"\n(.*?)```', PAGE, re.DOTALL)
    if "/" not in title
}
EXCERPTS = re.findall(r'```python title="(examples/\w+\.py)"\n(.*?)```', PAGE, re.DOTALL)


@pytest.mark.parametrize("title", PROGRAMS)
def test_the_programs_run(title: str) -> None:
    if title in ("sparse.py", "components.py"):
        pytest.importorskip("kvlitmus.optimized._core", reason="no core")
    if title == "metrics.py":
        pytest.importorskip(
            "prometheus_client", reason="the client library is missing: the extra 'prometheus' brings it"
        )
    exec(compile(PROGRAMS[title], title, "exec"), {})


@pytest.mark.parametrize(("name", "text"), EXCERPTS)
def test_what_is_shown_of_the_example_is_in_it(name: str, text: str) -> None:
    source = (ROOT / name).read_text(encoding="utf-8")
    assert any(textwrap.indent(text, indent) in source for indent in ("", " " * 4, " " * 8)), text


def test_there_is_something_to_look_at() -> None:
    assert set(PROGRAMS) == {
        "flat.py",
        "lent.py",
        "metrics.py",
        "reduce.py",
        "stepped.py",
        "sparse.py",
        "components.py",
    }
    assert len(EXCERPTS) == 4


def test_every_choice_of_the_configuration_is_told() -> None:
    table = PAGE.split("\n## Configuration\n")[1].partition("\n## ")[0]
    told = {
        name for cell in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    assert told - {"CacheConfig"} == {one.name for one in fields(CacheConfig)}


def test_every_command_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(
        r"^\.venv/bin/python (examples/serve\.py|-m tests\.optimized\.stress) ?(.*)$", PAGE, re.MULTILINE
    )
    assert {command for command, _ in commands} == {"examples/serve.py", "-m tests.optimized.stress"}
    for command, words in commands:
        main = serve.main if command == "examples/serve.py" else stress.main
        with pytest.raises(SystemExit) as ended:  # the options are parsed, and the help that follows them ends it
            main([*shlex.split(words), "--help"])
        assert ended.value.code == 0
