"""The page on page stores: what it shows works, and it leaves out no port and no target."""

from __future__ import annotations

import re
from pathlib import Path

from kvlitmus.conformance.run.targets import KNOWN
from kvlitmus.spec.interface.stores import STORE_PORTS
from tests.support.pages import DOCS, follow

PAGE = (DOCS / "storage.md").read_text(encoding="utf-8")


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    assert follow(PAGE, tmp_path) == ["python keep_pages.py", "python on_a_server.py"]


def test_the_page_names_every_port_and_target_of_stores() -> None:
    assert set(re.findall(r"^\| `(store_\w+)` \|", PAGE, re.MULTILINE)) == STORE_PORTS.keys() - {"store"}
    for port, methods in STORE_PORTS.items():
        assert all(f"`{method}`" in PAGE or port == "store" for method in methods)
    stores = {name for name, known in KNOWN.items() if re.search(r"store|file|redis", known.module)}
    assert all(f"`{name}`" in PAGE for name in stores) and stores
