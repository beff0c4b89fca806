"""The glossary: one meaning for a word, and every word that verdicts, jobs, shapes and tiers are told with."""

from __future__ import annotations

import re

import pytest

from kvlitmus.conformance.run.results import Verdict
from kvlitmus.spec.interface.tiers import JOB_KINDS, SPILL
from kvlitmus.spec.words import shapes
from kvlitmus.spec.words.config import CONFIG_VALUES, Config
from tests.support.pages import DOCS, pages

TEXT = (DOCS / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r'^\| <a id="([\w-]+)"></a>([^|]+) \| ([^|]+) \|$', TEXT, re.MULTILINE)
WORDS = [word.strip() for _, words, _ in ENTRIES for word in words.split(",")]
ASKED_FOR = (
    "slot, page, prefix, boundary, receipt, tombstone, tier, backup, load back, prefetch, sidecar, rank, node, window",
    "state, lock, handle, request, victim, checker, oracle, specimen",
    "null mutant, legal variation, cause, not exercised",
)


def lacking(words: list[str]) -> list[str]:
    """Which of these have no entry."""
    return [word for word in words if word not in WORDS]


def test_a_word_has_one_entry_and_each_entry_an_anchor_of_its_own() -> None:
    assert len(WORDS) == len(set(WORDS)) and len(ENTRIES) == len({anchor for anchor, _, _ in ENTRIES})
    assert len(ENTRIES) == TEXT.count("<a id=")
    for part in TEXT.split("\n## ")[1:4]:  # verdicts stand in their own order
        words = [words for _, words, _ in ENTRIES if f"</a>{words} |" in part]
        assert words == sorted(words, key=str.lower)


def test_the_words_that_were_asked_for_have_entries() -> None:
    assert lacking(", ".join(ASKED_FOR).split(", ")) == []
    assert lacking(["slots"]) == ["slots"]


def test_what_verdicts_jobs_shapes_and_tiers_are_called_is_explained() -> None:
    assert lacking([verdict.value.replace("_", " ") for verdict in Verdict]) == []
    assert lacking([*JOB_KINDS, SPILL]) == []
    assert lacking(["window", "chunk", "state"]) == [] and {"Window", "Chunk", "Point"} <= set(vars(shapes))
    assert {"store", "ranks"} <= {*CONFIG_VALUES["pool"]} and lacking(["store", "rank"]) == []
    assert Config().policy and lacking(["policy", "write policy", "profile", "port", "adapter", "target"]) == []


@pytest.mark.parametrize("path", ["README.md", *[path for path in pages() if path.startswith("docs/guides/")]])
def test_who_begins_is_led_to_the_glossary(path: str) -> None:
    assert "glossary.md" in pages()[path]


@pytest.mark.parametrize(("anchor", "words", "meaning"), ENTRIES)
def test_what_stands_in_italics_has_an_entry(anchor: str, words: str, meaning: str) -> None:
    for word in re.findall(r"\*([\w -]+)\*", meaning):
        assert {word, word.removesuffix("s")} & {*WORDS, *TOLD}, f"{words}: {word}"


TOLD = {
    "block",
    "bigram",
    "row",
    "page store",
    "radix tree",
    "stored",
    "removed",
    "cleared",
    "write-through",
    "selective",
    "write-back",
}
"""Words that are explained where they stand."""
