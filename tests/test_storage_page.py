"""The page on page stores: its adapter runs, and breaks the rules that the page says it breaks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kvlitmus.conformance.run.targets import KNOWN
from kvlitmus.spec.interface.stores import STORE_PORTS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "storage.md").read_text(encoding="utf-8")


def run(folder: Path, text: str) -> str:
    """Judge the store with this source; returns what is shown."""
    text = text.replace("TemporaryDirectory(", f"TemporaryDirectory(dir={str(folder)!r}, ")
    (folder / "my_store.py").write_text(text, encoding="utf-8")
    options = ["--steps", "250", "--jobs", "1", "--config", "page_size=1"]
    command = [sys.executable, "-m", "kvlitmus.conformance.cli", "run", "my_store", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def test_the_adapter_of_the_page_breaks_what_the_page_says(tmp_path: Path) -> None:
    found = re.search(r'```python title="my_store.py"\n(.*?)```', PAGE, re.DOTALL)
    assert found is not None
    shown = run(tmp_path, found[1])
    assert set(re.findall(r"(STORE-\d+) (?:violated|warned)", shown)) == {"STORE-01", "STORE-11", "STORE-18"}, shown
    calls = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert calls is not None
    for line in calls[1].splitlines():
        assert line.strip(" ▶0123456789") in shown
    mended = found[1].replace(
        "        return sum((self.folder / key).exists() for key in keys)",
        "        return [*((self.folder / key).is_file() for key in keys), False].index(False)",
    )
    mended = mended.replace("        return [True] * len(keys)", "        return [len(key) == 64 for key in keys]")
    again = run(tmp_path, mended)
    assert "exit 0" in again and "violated" not in again, again


def test_the_page_names_every_port_and_target_of_stores() -> None:
    assert set(re.findall(r"^\| `(store_\w+)` \|", PAGE, re.MULTILINE)) == STORE_PORTS.keys() - {"store"}
    for port, methods in STORE_PORTS.items():
        assert all(f"`{method}`" in PAGE or port == "store" for method in methods)
    stores = {name for name, known in KNOWN.items() if re.search(r"store|file|redis", known.module)}
    assert all(f"`{name}`" in PAGE for name in stores) and stores
