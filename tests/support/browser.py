"""A real browser, driven by Playwright, where both are there.

``KVLITMUS_BROWSER=must``: a test that finds none fails, as in ``.ci/run``, which has made sure that there is one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
"""What Chromium is called, on Debian and elsewhere."""


def missing() -> str:
    """What is missing for a browser, in words; empty if nothing is."""
    if importlib.util.find_spec("playwright") is None:
        return "no browser: Playwright is not installed (tools/browser installs it)"
    return "" if executable() else f"no browser: none of {', '.join(NAMES)} is on the path (tools/browser installs one)"


def executable() -> str:
    """The path of a browser; empty where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


@contextmanager
def launched() -> Iterator[Any]:
    """A browser without a window; skips where there is none and nobody says that there must be."""
    if why := missing():
        if os.environ.get("KVLITMUS_BROWSER") == "must":
            pytest.fail(why)
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root, in CI, Chromium has no sandbox of its own.
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
