"""The site: every rule is on it, every link leads somewhere, and it builds without a warning."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

import pytest

import kvlitmus.spec
from kvlitmus.optimized.cores import lacking as lacking_core
from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.rules import job
from kvlitmus.spec.words import prefetch_life
from tests.test_layout import ROOMS, ROOT
from tools import autodoc, matrix, site, site_files

WRITTEN = {
    path.relative_to(ROOT / "docs").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").rglob("*.md"))
}


@functools.cache
def made() -> Mapping[str, str]:
    """The pages that are made; the matrix as it would be if nothing were established."""
    return {**site.pages(), "matrix.md": matrix.render(matrix.ordered_rules(), matrix.Evidence(), ())}


@functools.cache
def whole_site() -> Mapping[str, str]:
    """All pages of the site, as the site has them; of those of findings it is only known that they are there."""
    written = {**WRITTEN, **made()}
    texts = {path: site.for_site(site.filled(text, path), path) for path, text in written.items()}
    return {**texts, **dict.fromkeys(site_files.found(), "")}


_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@functools.cache
def anchors(text: str) -> set[str]:
    """The anchors that a page gives itself, those of its headings included."""
    found = set(re.findall(r'<a id="([\w-]+)"></a>', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        found.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower())).strip("-"))
    return found


@functools.cache
def links(text: str) -> list[str]:
    """Where the links of a page lead; what is code is no link."""
    return [link for link in _LINK.findall(_CODE.sub("", text)) if not re.match(r"https?://", link)]


def broken_links(pages: Mapping[str, str]) -> Iterator[str]:
    """Links between pages that lead nowhere; anchors of mkdocstrings are names that must exist."""
    for path, text in pages.items():
        for link in links(text):
            goal, _, anchor = link.partition("#")
            where = os.path.normpath(PurePosixPath(path).parent / goal) if goal else path
            if where not in pages and not (ROOT / "docs" / where).is_file():
                yield f"{path}: {link}"
            elif anchor.startswith("kvlitmus."):
                if not _exists(anchor):
                    yield f"{path}: {link}"
            elif anchor and anchor not in anchors(pages.get(where, "")):
                yield f"{path}: {link}"


def _exists(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    return hasattr(importlib.import_module(module), attribute)


def test_every_link_leads_somewhere() -> None:
    assert list(broken_links(whole_site())) == []


def committed(root: Path) -> list[str]:
    """What git has of a checkout."""
    asked = ["git", "-C", str(root), "ls-files", "-z"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no git checkout, so nothing says what is committed")
    return [path for path in done.stdout.split("\0") if path and (root / path).exists()]


def lost_links(pages: Mapping[str, str], there: Collection[str]) -> Iterator[str]:
    """Links of written pages, by their paths in the checkout, that lead to no committed file or no place in one."""
    folders = {str(parent) for path in there for parent in PurePosixPath(path).parents}
    for path, text in pages.items():
        for link in links(text):
            goal, _, anchor = link.partition("#")
            where = os.path.normpath(PurePosixPath(path).parent / goal) if goal else path
            if where not in there and where not in folders:
                yield f"{path}: {link}"
            elif anchor and where.endswith(".md"):
                if anchor not in anchors(pages.get(where) or (ROOT / where).read_text(encoding="utf-8")):
                    yield f"{path}: {link}"
            elif (
                anchor
                and where.endswith(".py")
                and not re.search(
                    rf"^(?:def|class) {anchor}\b", (ROOT / where).read_text(encoding="utf-8"), re.MULTILINE
                )
            ):
                yield f"{path}: {link}"


def test_every_link_leads_somewhere_where_the_code_is_hosted_too() -> None:
    there = set(committed(ROOT))
    pages = {path: (ROOT / path).read_text(encoding="utf-8") for path in sorted(there) if path.endswith(".md")}
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/tutorial.md"} <= pages.keys()
    assert list(lost_links(pages, there)) == []
    planted = "# A b\n[a](ports.md) [b](../README.md) [c](#a-b) [d](tutorial.md#nowhere) [e](#c) [f](../tests/data) "
    planted += "[g](../reference/kvlitmus/reference/prefix/pool.py#nothing) "
    planted += "[h](../reference/kvlitmus/reference/prefix/pool.py#slots_of)"
    found = list(lost_links({"docs/planted.md": planted}, {*there, "docs/planted.md"}))
    assert found == [
        "docs/planted.md: ports.md",
        "docs/planted.md: tutorial.md#nowhere",
        "docs/planted.md: #c",
        "docs/planted.md: ../reference/kvlitmus/reference/prefix/pool.py#nothing",
    ]


def test_links_to_sources_lead_to_pages_of_the_site() -> None:
    text = (
        "[a](../../reference/kvlitmus/reference/prefix/pool.py#allocate) [b](../../CHANGELOG.md) [c](../../tools/setup)"
    )
    turned = (
        "[a](../reference/prefix.pool.md#kvlitmus.reference.prefix.pool.allocate) [b](../changelog.md) `tools/setup`"
    )
    assert site.for_site(text, "rules/pool.md") == turned
    assert site.for_site("[a](../reference/kvlitmus/reference/__init__.py)", "index.md") == "[a](reference/index.md)"
    assert site.for_site("[a](../spec/kvlitmus/spec/prefix/rules/pool.py)", "tutorial.md") == "[a](rules/pool.md)"


def test_rules_that_are_named_become_links() -> None:
    text = "POOL-07, `POOL-08` and POOL-99\n# POOL-07\n```\nPOOL-07\n```\n`a POOL-07` [POOL-07](x.md) R-POOL-07"
    turned = text.replace("POOL-07,", "[POOL-07](../rules/pool.md#pool-07),", 1)
    assert site.for_site(text, "a/b.md") == turned.replace("`POOL-08`", "[`POOL-08`](../rules/pool.md#pool-08)")


def test_tables_of_docstrings_are_tables_of_the_page() -> None:
    text = "Before.\n\n===  ===\na    b\n===  ===\n1    2 3\n4    5\n===  ===\n\nAfter."
    assert autodoc.markdown(text) == "Before.\n\n| a | b |\n|---|---|\n| 1 | 2 3 |\n| 4 | 5 |\n\nAfter."
    assert "| revoked | stop | wait | wait |" in made()["policies.md"]


def test_states_are_rendered_with_every_step() -> None:
    page = made()["states.md"]
    for states in (job.JOBS, prefetch_life.PREFETCHES):
        assert all(f"| {name} | {meaning} |" in page for name, meaning in states.states.items())
        assert all(one.why in page and one.elsewhere in page for one in states.transitions)
        for step in states.steps:
            part = page.partition(f"\n### {step.kind}\n")[2].partition("```text\n")[2].partition("```")[0]
            state = re.search(rf"^{step.before}$(?:\n  .*)+", part, re.MULTILINE)
            assert state and re.search(rf"─▶ {step.after} .*\b{step.cause}\b", state[0]), step


def test_facts_are_rendered_with_what_they_are_worked_out_from() -> None:
    page = made()["rules/facts.md"]
    rules = all_rules().values()
    users = {name for rule in rules for name in (*rule.facts, rule.premise_fact, *re.findall(r"{(\w+)}", rule.allowed))}
    used = users | {need for one in FACTS.values() for need in one.needs}
    for name, one in FACTS.items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert all(f"[{need}](#{need})" in section or f"`{need}`" in section for need in one.needs), name
        assert ("may be unknown" in section) == one.open, name
        assert name in used, f"nobody speaks of {name}"


def test_ports_are_rendered_with_their_docstrings() -> None:
    page = made()["ports.md"]
    for wanted in ("## Profile", "- **align**: ", "## Requests", "begin(self, rid: int, key: Key) -> Begun | None"):
        assert wanted in page
    assert "tiered: bool" in page and "- `make(config) -> adapter`:" in page


@pytest.mark.parametrize(
    "text",
    [
        "[a](nowhere.md)",
        "[a](rules/pool.md#pool-99)",
        "[a](#nowhere)",
        "[a](reference/pool.md#kvlitmus.reference.prefix.pool.nowhere)",
        "[a](../index.md)",
    ],
)
def test_a_link_that_leads_nowhere_is_found(text: str) -> None:
    assert len(list(broken_links({**whole_site(), "planted.md": text}))) == 1


def test_links_that_lead_somewhere_are_no_complaint() -> None:
    text = "# One two\n[a](#one-two) [b](rules/pool.md#pool-01) [c](https://example.org/x.md) `[d](nowhere.md)`"
    assert list(broken_links({**whole_site(), "planted.md": text})) == []


def test_every_rule_is_on_the_site_as_it_stands() -> None:
    for rule in all_rules().values():
        page = whole_site()[f"rules/{rule.pack}.md"]
        assert page.count(f'<a id="{rule.id.lower()}"></a>') == 1
        assert f"> {rule.text}\n" in page
        assert all(f"[{fact}](facts.md#{fact})" in page for fact in rule.facts)


def test_every_generated_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"([\w./-]+\.md)$", navigation, re.MULTILINE)
    assert set(listed) >= set(made())
    assert [path for path in listed if path not in whole_site()] == []


_ROLE = re.compile(r":(?:mod|func|class|meth|data|attr|exc):`~?(kvlitmus\.[\w.]+)`")


@functools.cache
def _defined(path: Path) -> set[str]:
    """The functions and classes of a module, by its text."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {one.name for one in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(one, kinds)}


def _resolves(name: str) -> bool:
    """Whether a dotted name stands for a module, or for something in one; fields are something, too."""
    parts = name.split(".")
    for at in range(len(parts), 1, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:at]))
        except ModuleNotFoundError:
            continue
        except ImportError:  # what stands on the compiled core can't be imported where that wasn't built
            source = importlib.util.find_spec(".".join(parts[:at]))
            assert source is not None and source.origin is not None and lacking_core(), name
            return set(parts[at : at + 1]) <= _defined(Path(source.origin))
        for part in parts[at:]:
            if not hasattr(found, part) and part not in getattr(found, "__annotations__", {}):
                return False
            found = getattr(found, part, None)
        return True
    return False


def dead_roles(root: Path) -> Iterator[str]:
    """Names in docstrings that stand for nothing any more."""
    for room in (*ROOMS, "tests", "tools", "benchmarks"):
        for path in sorted((root / room).rglob("*.py")):
            for name in _ROLE.findall(path.read_text(encoding="utf-8")):
                if not _resolves(name):
                    yield f"{path.relative_to(root)}: {name}"


def test_docstrings_name_what_there_is(tmp_path: Path) -> None:
    assert list(dead_roles(ROOT)) == []
    (tmp_path / "spec").mkdir()
    planted = '"""See {0}kvlitmus.spec.gone` and {0}kvlitmus.spec.prefix.rules.tree`."""'.format(":mod:`")
    (tmp_path / "spec" / "planted.py").write_text(planted)
    assert list(dead_roles(tmp_path)) == ["spec/planted.py: kvlitmus.spec.gone"]


def test_each_folder_of_the_spec_says_what_is_in_it() -> None:
    (top,) = map(Path, kvlitmus.spec.__path__)
    for path in sorted(top.rglob("__init__.py")):
        folder = path.parent
        package = ".".join(("kvlitmus.spec", *folder.relative_to(top).parts))
        there = {one.stem for one in folder.glob("*.py")} | {one.parent.name for one in folder.glob("*/__init__.py")}
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        roles, words = re.findall(rf"{re.escape(package)}\.(\w+)`", text), re.findall(r"``(\w+)``", text)
        assert there - {"__init__"} == {*(words if folder.name == "interface" else roles)} & (there | {*roles}), package


def test_roles_become_code() -> None:
    assert autodoc.markdown("See :mod:`kvlitmus.spec.words.units` and ``x``.\n* one") == "See `units` and `x`.\n- one"


def test_sources_become_links() -> None:
    text = site.linked("R-EV-03; sglang#18843, mini-sglang#124, design")
    assert "[R-EV-03](../map.md)" in text
    assert "https://github.com/sgl-project/sglang/issues/18843" in text
    assert "mini-sglang#124, design" in text


@pytest.mark.nightly
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra 'docs': tools/setup docs")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(whole_site())
    outside = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?(?:https?:)?//|@import|fonts\.g')
    assert [path.name for path in pages if outside.search(path.read_text(encoding="utf-8"))] == []
    assert "assets/iframe-worker.js" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")

    from tests.test_search import QUESTIONS, ranked_by_the_site

    if shutil.which("node") is None:
        pytest.skip("the site is as it should be; the theme's search needs node")
    assert ranked_by_the_site(tmp_path / "site") == {query: as_built(page) for query, page in QUESTIONS.items()}


def as_built(page: str) -> str:
    """A page's place on the site: MkDocs makes an index of a README."""
    return page.removesuffix("README") + "index" if page.endswith("README") else page
