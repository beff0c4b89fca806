"""The page on hierarchies: its programs run, it shows what is printed, and it leaves out no port, field or rule."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from kvlitmus.conformance.ports import Profile
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.spec.interface.tiers import EVENT_PORTS, JOB_KINDS, TIER_PORTS
from kvlitmus.spec.parts import all_rules
from tests.support.pages import DOCS, blocks, follow

PAGE = (DOCS / "hierarchy.md").read_text(encoding="utf-8")
PARTS = ("tier", "backup", "load", "fetch", "life", "event", "frame")


def section(title: str) -> str:
    """The text below a heading."""
    return PAGE.split(f"\n## {title}\n")[1].partition("\n## ")[0]


def test_the_adapter_can_be_driven_by_hand() -> None:
    (program,) = [one.body for one in blocks(PAGE) if one.title == "by_hand.py"]
    exec(compile(program, "by_hand.py", "exec"), {})


@pytest.mark.nightly
def test_the_counterexample_is_the_one_that_is_found(tmp_path: Path) -> None:
    assert len(follow(PAGE, tmp_path)) == 2


def test_every_port_job_and_configuration_is_told() -> None:
    offered = section("What an adapter offers")
    assert set(re.findall(r"^\| `(\w+)` \|", offered, re.MULTILINE)) == {*TIER_PORTS, *EVENT_PORTS}
    for methods in {**TIER_PORTS, **EVENT_PORTS}.values():
        assert all(f"`{method}`" in offered for method in methods)
    work = section("Work in the background")
    assert re.findall(r"^\| `(\w+)` \|", work, re.MULTILINE) == list(JOB_KINDS)
    told = re.findall(r"^\| (\d+), (\d+), (\d+)(, bigrams)? \| `(\w+)` \| (\w+) \| `(\w+)`", PAGE, re.MULTILINE)
    assert told == [
        (
            str(one.page_size),
            str(one.pages),
            str(one.host_pages),
            ", bigrams" * one.bigram,
            one.write,
            one.storage,
            one.stop,
        )
        for one in TIER_CONFIGS
    ]


def test_every_choice_of_hierarchies_is_told() -> None:
    text = inspect.cleandoc(Profile.__doc__ or "")  # Python 3.13 takes the indentation away by itself
    names = set(
        re.findall(r"^(\w+):", text.split("Of hierarchies:")[1].split("Of the names of pages:")[0], re.MULTILINE)
    )
    assert names and names < {one.name for one in fields(Profile)}
    (table,) = re.findall(r"\| field \|.*?\n\n", PAGE, re.DOTALL)
    first = [line.split("|")[1] for line in table.splitlines()[2:] if line]
    assert {name for cell in first for name in re.findall(r"`(\w+)`", cell)} == names


@pytest.mark.parametrize("part", PARTS)
def test_every_rule_is_told(part: str) -> None:
    (row,) = re.findall(rf"^\| \[{part}\].*$", PAGE, re.MULTILINE)
    told = set(re.findall(r"[A-Z]+-\d\d", row))
    for first, last in re.findall(r"([A-Z]+-\d\d) to ([A-Z]+-\d\d)", row):
        pack, low, high = first.split("-")[0], int(first[-2:]), int(last[-2:])
        told |= {f"{pack}-{number:02}" for number in range(low, high + 1)}
    assert told >= {one.id for one in all_rules().values() if one.pack == part}
    assert told <= all_rules().keys()
