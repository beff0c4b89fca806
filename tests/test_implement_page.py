"""``docs/implement.md``: its examples give what it says, nothing is missing, and the cache written from it passes."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.report.form import rows
from kvlitmus.reference.prefix.perform import DECIDE
from kvlitmus.spec.interface import CACHE_PORTS
from kvlitmus.spec.prefix import calls, effects
from tests.test_layout import ROOT
from tools import implement_page

PAGE = implement_page.filled((ROOT / "docs" / "implement.md").read_text(encoding="utf-8"))
ELSEWHERE = {"hashes", "prefetch", "raw", "raw_requests"}
"""Ports of flat caches that the page only points to."""


def examples(page: str) -> doctest.DocTest:
    """All examples of the page, as one session."""
    blocks = re.findall(r"^```pycon\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "implement.md", None, None)


def outcome(page: str) -> tuple[doctest.TestResults, str]:
    """How many examples the page has and how many give something else; and what is said of these."""
    said: list[str] = []
    found = doctest.DocTestRunner(verbose=False).run(examples(page), out=said.append)
    return found, "".join(said)


def test_the_examples_give_what_the_page_says() -> None:
    results, said = outcome(PAGE)
    assert results.failed == 0, said
    assert results.attempted > 40


def test_an_example_that_gives_something_else_is_found() -> None:
    results, said = outcome(PAGE.replace("evictable=8, protected=4", "evictable=4, protected=8"))
    assert results.failed == 1 and "evictable=8, protected=4" in said


def test_every_call_and_every_rule_of_flat_caches_is_on_the_page() -> None:
    methods = [name for port, names in CACHE_PORTS.items() if port not in ELSEWHERE for name in names]
    assert sorted(methods) == sorted(implement_page.METHODS)
    assert all(f"\n#### {name}\n" in PAGE for name in methods)
    for rule in implement_page.rules():
        assert f": {rule.text}\n" in PAGE, rule.id
    told = {kind for one in implement_page.METHODS.values() for kind in one.kinds}
    # What the reference decides beside: a free in a group, and what only the caller does.
    assert DECIDE.keys() - told == {calls.FreeInGroup, calls.Compute}


def test_the_effects_of_a_call_are_read_from_its_source() -> None:
    assert implement_page.effects_of(calls.Match) == ["touch", "split"]
    assert implement_page.effects_of(calls.Insert) == ["insert", "release", "write"]
    assert implement_page.effects_of(calls.Evict) == ["remove"]
    assert implement_page.effects_of(calls.Reset) == []
    assert implement_page.used(effects, "insert") >= {"touch", "split", "place"}
    assert set(implement_page.elementary()) == {
        *(
            "touch",
            "split",
            "place",
            "remove",
            "move",
            "demote",
            "promote",
            "blur",
            "lock",
            "insert",
            "take",
            "release",
            "write",
        )
    }


def test_rendered_parts_are_renewed_and_the_rest_is_left_alone() -> None:
    text = "before\n<!-- policies -->\nold\n<!-- end -->\nafter <!-- end -->\n"
    filled = implement_page.filled(text)
    assert filled.startswith("before\n<!-- policies -->\n\n| policy |") and filled.endswith("after <!-- end -->\n")
    assert "old" not in filled and implement_page.filled(filled) == filled
    with pytest.raises(KeyError, match="nowhere"):
        implement_page.filled("<!-- nowhere -->\n<!-- end -->\n")


NOT_ASKED = {
    *("POOL-18", "POOL-21", "POOL-19"),  # ports for extensions, and for groups
    *("REQ-16", "REQ-17", "REQ-18", "REQ-19"),  # for taking back, and for forks
    *("EVICT-25", "EVICT-26"),  # for flushes, which requests outlive
}
"""Rules of the page about ports that its cache doesn't have."""


@pytest.mark.nightly
@pytest.mark.parametrize("steps", [250, 4_000])
def test_the_cache_that_was_written_from_the_page_passes(steps: int, tmp_path: Path) -> None:
    words = ["examples.flat_cache:target", "--report", "report.json", "--steps", str(steps)]
    command = [sys.executable, "-m", "kvlitmus", "run", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report: Any = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["options"]["full"] is (steps == 4_000) and report["options"]["depth"] == 3
    verdicts = {rule["id"]: rule["verdict"] for rule in rows(report)}
    assert set(verdicts.values()) == {"passed", "not_applicable"}
    unseen = {
        rule.id for rule in implement_page.rules() if rule.predicate.__module__ == "kvlitmus.spec.prefix.rules.unseen"
    }
    # This cache has a snapshot, so what is known without one isn't asked.
    assert len(unseen) == 10 and {verdicts[rule] for rule in unseen} == {"not_applicable"}
    asked = {rule.id: rule.pack for rule in implement_page.rules() if verdicts[rule.id] == "passed"}
    assert set(asked.values()) == set(implement_page.PACKS)
    assert {rule.id for rule in implement_page.rules()} - unseen - asked.keys() == NOT_ASKED
