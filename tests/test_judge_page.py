"""The page on which a reader's browser judges the tutorial's cache: what it runs, and, at night, the page itself."""

from __future__ import annotations

import functools
import html
import http.server
import importlib.util
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.browser import launched
from tools import site_files

FILES = site_files.ROOT / "docs" / "assets" / "judge"
MENDED = ("zip(prefixes, pages)", "zip(prefixes[cached:], pages[cached:])")


@pytest.fixture(autouse=True)
def _modules_of_its_own() -> Iterator[None]:
    """The page makes modules of what was edited, in a process that is the page's alone; here others come after it."""
    before = set(sys.modules)
    yield
    for name in {one.removesuffix(".py") for one in site_files.edited()} - before:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def judge() -> ModuleType:
    found = importlib.util.spec_from_file_location("judge_in_the_browser", FILES / "judge.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_tutorials_cache_is_found_broken_and_drawn(judge: ModuleType) -> None:
    cache, adapter = site_files.edited().values()
    heard: list[str] = []
    text, page = judge.judge(cache, adapter, heard.append)
    assert text.startswith("POOL-12")
    assert "▶" in text
    assert "Content-Security-Policy" in page
    assert len(heard) > 1


def test_a_mistake_in_what_was_edited_is_told(judge: ModuleType) -> None:
    cache, adapter = site_files.edited().values()
    text, page = judge.judge(cache + "\nnonsense(", adapter, str)
    assert "SyntaxError" in text
    assert page == ""
    text, _ = judge.judge(cache, "target = 1", str)
    assert "AttributeError" in text


def test_the_page_has_the_tutorials_files_and_all_that_it_names() -> None:
    text = site_files.filled((site_files.ROOT / "docs" / site_files.TRY).read_text(encoding="utf-8"), site_files.TRY)
    found = html.unescape(text)
    assert all(code in found for code in site_files.edited().values())
    assert "{toy_" not in text
    assert all(MENDED[0] in cache for cache in [site_files.edited()["toy_cache.py"]])
    assert MENDED[1] in text
    assert (FILES / "page.js").is_file()
    assert (FILES / "worker.js").is_file()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


Quiet.extensions_map = {**Quiet.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder on a server of this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.nightly
@pytest.mark.skipif(not site_files.PYODIDE.is_dir(), reason="no Python for browsers: tools/docs fetches it")
def test_a_browser_judges_the_cache_and_its_mended_copy(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    shutil.copytree(FILES, tmp_path / "assets" / "judge")
    for name, content in site_files.assets().items():
        (tmp_path / name).write_bytes(content)
    text = site_files.filled((site_files.ROOT / "docs" / site_files.TRY).read_text(encoding="utf-8"), site_files.TRY)
    part = text[text.index('<div id="judge">') : text.index("</div>")]
    (tmp_path / "try.html").write_text(f'<!doctype html><meta charset="utf-8">{part}</div>', encoding="utf-8")
    with served(tmp_path) as address, launched() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}try.html")
        assert not any(".wasm" in url for url in asked)  # nothing is loaded before the click
        judged = "document.getElementById('judge-state').textContent === 'judged'"
        page.locator("#judge-run").click()
        page.wait_for_function(judged, timeout=300_000)
        assert page.locator("#judge-text").inner_text().startswith("POOL-12")
        frame = page.frame_locator("#judge-drawn")
        assert "POOL-12" in frame.locator("h1").inner_text()
        frame.locator(".squares li.none").first.wait_for()
        page.locator("#judge-cache").fill(page.locator("#judge-cache").input_value().replace(*MENDED))
        page.locator("#judge-run").click()
        page.wait_for_function(judged, timeout=300_000)
        assert "none was broken" in page.locator("#judge-text").inner_text()
        assert page.locator("#judge-drawn").is_hidden()
        assert [url for url in asked if not url.startswith((address, "about:"))] == []
