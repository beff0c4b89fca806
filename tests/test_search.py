"""The site's search: what a newcomer looks for has the right page first.

By day the ranking is worked out roughly, as the theme weighs it: a word among the tags counts for more than one in the
title, that for more than one in the text.  At night the theme's own script ranks the pages of the built site
(:func:`ranked_by_the_site`, in ``test_docs.py``, which builds it).
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.test_docs import whole_site
from tests.test_layout import ROOT
from tools import site

QUESTIONS = {
    "SWA": "guides/components",
    "sliding window": "guides/components",
    "mamba": "guides/components",
    "block table": "guides/block-table",
    "lora": "guides/block-table",
    "what did you find in vLLM": "results/README",
    "what did you find in SGLang": "results/README",
    "hicache": "guides/host-tier",
    "LMCache": "guides/host-tier",
    "host memory": "guides/host-tier",
    "prefix caching": "guides/radix-tree",
    "radix tree": "guides/radix-tree",
    "redis": "guides/store",
    "mooncake": "guides/store",
    "tensor parallelism": "guides/ranks",
    "recorded trace": "guides/trace",
    "github action": "adapters",
    "exit code": "adapters",
    "pytest": "adapters",
    "baseline": "adapters",
    "tombstone": "glossary",
    "not exercised": "glossary",
    "H100": "gpu",
}
"""What is searched for, and the page that should be first."""
STOP = {"what", "did", "you", "in", "not"}


def words(text: str) -> set[str]:
    """The words of a text, without those that are too frequent to mean anything."""
    return set(re.split(r"[^\w]+", text.lower())) - STOP


@functools.cache
def texts() -> dict[str, tuple[set[str], set[str], set[str]]]:
    """Of each page the words of its tags, of its title, and of all of it."""
    return {
        path: (words(" ".join(site.SOUGHT.get(path, ()))), words(text.partition("\n")[0]), words(text))
        for path, text in whole_site().items()
    }


def first(query: str, texts: dict[str, tuple[set[str], set[str], set[str]]]) -> str:
    """The page that counts for most: a word counts 10⁶ if a tag begins with it, 10³ in the title, 1 in the text."""

    def weight(path: str) -> int:
        tags, title, text = texts[path]
        begun = {one for one in words(query) if any(tag.startswith(one) for tag in tags)}
        return sum(10**6 * (one in begun) + 10**3 * (one in title) + (one in text) for one in words(query))

    best, second, *_ = sorted(texts, key=weight, reverse=True)
    return best if weight(best) // 1000 > weight(second) // 1000 else f"{best} or {second}"


@pytest.mark.parametrize(("query", "page"), QUESTIONS.items())
def test_what_is_looked_for_has_the_right_page_first(query: str, page: str) -> None:
    assert first(query, texts()) == f"{page}.md"


def test_without_its_tags_a_page_is_not_found() -> None:
    """As it was: the words of a newcomer are in the text of pages about something else."""
    bare = {path: (set[str](), title, text) for path, (_, title, text) in texts().items()}
    assert first("what did you find in vLLM", bare) != "results/README.md"
    assert {page: tags for page, tags in site.SOUGHT.items() if page not in whole_site()} == {}


def ranked_by_the_site(built: Path) -> dict[str, str]:
    """The first page of each question, by the theme's own script, which node runs."""
    (worker,) = Path(sysconfig.get_path("purelib")).glob(
        "material/templates/assets/javascripts/workers/search.*.min.js"
    )
    program = [shutil.which("node") or "node", str(ROOT / "tests/support/search.js"), str(worker)]
    done = subprocess.run(
        [*program, str(built / "search" / "search_index.json"), *QUESTIONS], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    return {query: pages[0][0].partition("#")[0].removesuffix(".html") for query, pages in found.items()}
